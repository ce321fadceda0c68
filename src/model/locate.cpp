// Looking at files' first bytes, into folders, and into the hub's cache.
#include "bantam/model/locate.hpp"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "bantam/core/error.hpp"
#include "bantam/core/names.hpp"
#include "bantam/io/file.hpp"
#include "bantam/io/path_error.hpp"
#include "bantam/model/native_file.hpp"
#include "io/posix.hpp"

namespace bantam::inline v0 {

namespace {

namespace fs = std::filesystem;

// The keys of a native file's metadata, which comes first, begin within it.
constexpr std::size_t head_bytes = 4096;
// A folder of more is none that somebody made for a model; what is beyond is not looked at.
constexpr std::size_t most_entries = 10'000;

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

bool is_folder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

/// What a folder holds, sorted.
std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  detail::for_each_name(folder, [&](std::string_view name) {
    entries.push_back(folder / name);
    return entries.size() < most_entries;
  });
  std::ranges::sort(entries);
  return entries;
}

std::string names_of(const std::vector<fs::path>& paths) {
  constexpr std::size_t most_shown = 5;
  const std::string shown = with_commas(std::span(paths).first(std::min(paths.size(), most_shown)), [](const fs::path& path) { return printable(path.filename().string()); });
  return shown + (paths.size() > most_shown ? message(" and ", paths.size() - most_shown, " more") : "");
}

bool has_tokenizer(const fs::path& folder) { return is_there(folder / "tokenizer.json") || is_there(folder / "tokenizer.model"); }

/// A folder that a model or a tokenizer can be read from, or the one file in it.
fs::path look_into(const fs::path& folder) {
  if (is_there(folder / "config.json") || has_tokenizer(folder)) return folder;
  std::vector<fs::path> files, folders;
  const std::vector<fs::path> entries = entries_of(folder);
  for (const fs::path& entry : entries) {
    if (is_folder(entry)) {
      if (is_there(entry / "config.json")) folders.push_back(entry);
    } else if (is_model_file(entry)) {
      files.push_back(entry);
    }
  }
  if (files.size() == 1) return files[0];
  const std::string place = detail::shown(folder);
  constexpr std::string_view wanted = ": expected a model (config.json and .safetensors files, a .gguf or a .bantam file), found ";
  if (!files.empty()) fail_missing(folder, place, wanted, "several files: give one of ", names_of(files));
  if (!folders.empty()) fail_missing(folder, place, wanted, "folders of models: give one of ", names_of(folders));
  fail_missing(folder, place, wanted, entries.empty() ? "an empty folder" : names_of(entries));
}

/// Whether a name has a word in any case, as "UD-Q4_K_XL/model-Q4_K_XL-00001-of-00002.gguf" has q4_k_xl, and not q4_k.
bool has_word(std::string_view name, std::string_view word) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; };
  const auto same = [&](char a, char b) { return lower(a) == lower(b); };
  const auto ends_word = [](char c) { return c == '-' || c == '.' || c == '/'; };
  for (auto from = name.begin();; ++from) {
    from = std::search(from, name.end(), word.begin(), word.end(), same);
    if (from == name.end()) return false;
    const auto end = from + static_cast<std::ptrdiff_t>(word.size());
    if ((from == name.begin() || ends_word(from[-1])) && (end == name.end() || ends_word(*end))) return true;
  }
}

/// The file in a folder, or in one of its folders, that has a tag in its name.
fs::path look_for_tag(const fs::path& folder, const std::string& tag) {
  std::vector<fs::path> all, found;
  for (const fs::path& entry : entries_of(folder)) {
    if (is_model_file(entry)) all.push_back(entry);
    if (!is_folder(entry)) continue;
    std::ranges::copy_if(entries_of(entry), std::back_inserter(all), is_model_file);
  }
  std::ranges::copy_if(all, std::back_inserter(found), [&](const fs::path& file) { return has_word(file.lexically_relative(folder).string(), tag); });
  if (found.size() == 1) return found[0];
  const std::vector<fs::path>& shown = found.empty() ? all : found;
  fail_missing(folder, detail::shown(folder), ": expected one file with ", printable(tag), " in its name, found ", shown.empty() ? "no model" : names_of(shown));
}

std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// As huggingface_hub finds it; empty without a home.
fs::path hub_cache() {
  for (const char* const name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    if (const std::string folder = environment(name); !folder.empty()) return folder;
  }
  if (const std::string home = environment("HF_HOME"); !home.empty()) return fs::path(home) / "hub";
  if (const std::string cache = environment("XDG_CACHE_HOME"); !cache.empty()) return fs::path(cache) / "huggingface" / "hub";
  const std::string home = environment("HOME");
  return home.empty() ? fs::path() : fs::path(home) / ".cache" / "huggingface" / "hub";
}

/// "owner/name", a revision, and which of several files.
struct HubName {
  std::string owner, model, revision, tag;
};

bool is_plain(std::string_view word, std::string_view more) {
  const auto fits = [&](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || more.find(c) != more.npos;
  };
  const auto begins = [&](char c) { return c != '.' && c != '-' && c != '/'; };
  return !word.empty() && word.size() <= 96 && begins(word[0]) && word.find("..") == word.npos && std::ranges::all_of(word, fits);
}

std::optional<HubName> hub_name(std::string_view text) {
  HubName name{.owner = {}, .model = {}, .revision = "main", .tag = {}};
  if (const auto colon = text.rfind(':'); colon != text.npos) {
    name.tag = text.substr(colon + 1);
    text = text.substr(0, colon);
    if (!is_plain(name.tag, "._-")) return {};
  }
  if (const auto at = text.find('@'); at != text.npos) {
    name.revision = text.substr(at + 1);
    text = text.substr(0, at);
  }
  const auto slash = text.find('/');
  if (slash == text.npos) return {};
  name.owner = text.substr(0, slash);
  name.model = text.substr(slash + 1);
  if (!is_plain(name.owner, "._-") || !is_plain(name.model, "._-") || !is_plain(name.revision, "._-/")) return {};
  return name;
}

/// The folder of a model in the cache; empty when it is not there.
fs::path find_snapshot(const fs::path& cache, const HubName& name) {
  const fs::path home = cache / message("models--", name.owner, "--", name.model);
  std::string revision = name.revision;
  if (is_there(home / "refs" / revision)) {
    revision = read_text_file(home / "refs" / revision, 4096);
    revision.resize(revision.find_last_not_of(" \r\n") + 1);
    if (!is_plain(revision, "")) fail(Errc::corrupt, detail::shown(home / "refs" / name.revision), ": expected a revision, found ", printable(revision));
  }
  const fs::path snapshot = home / "snapshots" / revision;
  if (is_folder(snapshot)) return snapshot;
  // What was downloaded by its revision alone has no reference.
  const std::vector<fs::path> all = entries_of(home / "snapshots");
  return name.revision == "main" && all.size() == 1 ? all[0] : fs::path();
}

[[noreturn]] void fail_without_model(const fs::path& name) {
  const std::string place = printable(name.string(), 400);
  const fs::path folder = name.has_parent_path() ? name.parent_path() : fs::path(".");
  const std::vector<fs::path> beside = entries_of(folder);
  std::vector<std::string> names;
  for (const fs::path& entry : beside) names.push_back(entry.filename().string());
  const std::vector<std::string_view> views(names.begin(), names.end());
  fail_missing(name, place, ": expected a model folder or file, found nothing",
       printable(did_you_mean(name.filename().string(), views), 400));
}

}  // namespace

FileKind kind_of(const fs::path& path) {
  if (is_folder(path)) return FileKind::folder;
  const std::string head = read_head(path, head_bytes);
  if (head.starts_with("GGUF")) return FileKind::gguf;
  // Safetensors: the length of the header, 8 bytes, and a JSON object.
  if (head.size() > 8 && head[8] == '{' && head[7] == '\0') {
    return head.find(native::version_key) != head.npos ? FileKind::native : FileKind::safetensors;
  }
  const auto first = head.find_first_not_of(" \t\r\n");
  const bool json = first != head.npos && head[first] == '{';
  // SentencePiece: field 1, the first piece.
  const bool pieces = head.size() > 2 && head[0] == '\n' && head[2] == '\n';
  return json || pieces ? FileKind::tokenizer : FileKind::other;
}

bool is_model_file(const fs::path& path) {
  const std::string name = path.filename().string(), ending = path.extension().string();
  if (ending != ".gguf" && ending != ".bantam") return false;
  const std::size_t part = name.rfind("-of-");
  const std::string number = part != std::string::npos && part >= 6 && name[part - 6] == '-' ? name.substr(part - 5, 5) : "";
  const bool is_later_part = !number.empty() && number != "00001" && number.find_first_not_of("0123456789") == std::string::npos;
  return !name.starts_with('.') && !name.starts_with("mmproj") && !is_later_part;
}

fs::path find_model(const fs::path& name) {
  std::error_code error;
  const fs::file_status status = fs::status(name, error);
  if (fs::is_directory(status)) return look_into(name);
  if (fs::exists(status)) return name;
  // Too many links, no permission: what the system says is what is wrong.
  if (status.type() == fs::file_type::none || (error && status.type() != fs::file_type::not_found)) detail::fail_system(name, "open", error.value());
  const std::optional<HubName> hub = hub_name(name.string());
  // "models/books4m" is a path where "models" is a folder.
  if (!hub || is_folder(hub->owner)) fail_without_model(name);
  const fs::path cache = hub_cache();
  if (const fs::path snapshot = find_snapshot(cache, *hub); !snapshot.empty()) return hub->tag.empty() ? look_into(snapshot) : look_for_tag(snapshot, hub->tag);
  fail_missing(name, printable(name.string(), 400), ": expected a model folder or file, found nothing, nor such a model in the hub's cache (",
       detail::shown(cache), "): `hf download ", hub->owner, "/", hub->model, "` brings it there");
}

bool has_weights(const std::filesystem::path& folder) {
  bool any = false;
  detail::for_each_name(folder, [&](std::string_view name) {
    constexpr std::string_view endings[] = {".safetensors", ".index.json", ".bin", ".pt", ".pth"};
    any = std::ranges::any_of(endings, [&](std::string_view ending) { return name.ends_with(ending); });
    return !any;
  });
  return any;
}

}  // namespace bantam::inline v0
