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
    } else if (entry.extension() == ".gguf" || entry.extension() == ".bantam") {
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

/// "owner/name" and a revision.
struct HubName {
  std::string owner, model, revision;
};

bool is_plain(std::string_view word, std::string_view more) {
  const auto fits = [&](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || more.find(c) != more.npos;
  };
  const auto begins = [&](char c) { return c != '.' && c != '-' && c != '/'; };
  return !word.empty() && word.size() <= 96 && begins(word[0]) && word.find("..") == word.npos && std::ranges::all_of(word, fits);
}

std::optional<HubName> hub_name(std::string_view text) {
  HubName name{.owner = {}, .model = {}, .revision = "main"};
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
  if (const fs::path snapshot = find_snapshot(cache, *hub); !snapshot.empty()) return look_into(snapshot);
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
