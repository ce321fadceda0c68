// What fuzzers share.
#include "fuzz.hpp"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bantam/core/random.hpp"

namespace bantam::fuzz {

namespace {

std::vector<const Target*>& list() {
  static std::vector<const Target*> all;
  return all;
}

constexpr std::uint64_t edges[] = {0, 1, 2, 3, 7, 8, 31, 32, 33, 63, 64, 127, 128, 255, 256, 1000, 4095, 4096, 65535, 65536, 1u << 20,
                                   (1u << 30) - 1, 1u << 30, (1u << 31) - 1, 1u << 31, 0xffffffff, 1ULL << 32, (1ULL << 32) + 1,
                                   1ULL << 53, 1ULL << 61, 1ULL << 62, (1ULL << 63) - 1, 1ULL << 63, ~0ULL - 31, ~0ULL - 7, ~0ULL - 1, ~0ULL};

}  // namespace

Target::Target(std::string_view of_name, void (*of_run)(Bytes), Mutator of_mutate) : name(of_name), run(of_run), mutate(of_mutate) {
  auto& all = list();
  all.insert(std::ranges::upper_bound(all, name, {}, &Target::name), this);
}

const std::vector<const Target*>& targets() { return list(); }

std::uint64_t Choices::number() {
  switch (below(4)) {
    case 0: return raw<std::uint8_t>();
    case 1: return of(edges);
    case 2: return raw<std::uint16_t>();
    default: return raw<std::uint64_t>();
  }
}

std::string Choices::text(std::size_t longest) {
  const std::size_t wanted = below(longest + 1), count = std::min(wanted, left_.size());
  const std::string out(text_of(left_.first(count)));
  left_ = left_.subspan(count);
  return out;
}

std::string Choices::rest() {
  const std::string out(text_of(left_));
  left_ = {};
  return out;
}

void damage(std::string& bytes, Choices& choices) {
  for (std::size_t times = choices.below(4); times > 0 && !bytes.empty(); --times) {
    const std::size_t at = choices.raw<std::uint32_t>() % bytes.size();
    switch (choices.below(5)) {
      case 0: bytes[at] = static_cast<char>(choices.raw<std::uint8_t>()); break;
      case 1: bytes[at] = static_cast<char>(bytes[at] ^ 1 << choices.below(8)); break;
      case 2: bytes.insert(at, choices.text(16)); break;
      case 3: bytes.erase(at, choices.below(16)); break;
      default: bytes.resize(at); break;
    }
  }
}

// Files --------------------------------------------------------------------------------------------------------------

Scratch::Scratch() {
  const std::filesystem::path memory = "/dev/shm";
  std::string pattern = ((std::filesystem::is_directory(memory) ? memory : std::filesystem::temp_directory_path()) / "bantam-fuzz-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no folder for the fuzzer's files: " + pattern);
  path_ = pattern;
}

Scratch::~Scratch() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::filesystem::path Scratch::put(std::string_view name, std::string_view bytes) const {
  const std::filesystem::path path = path_ / name;
  // A new file: what the last input mapped stays whole.
  std::filesystem::remove(path);
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return path;
}

// JSON ---------------------------------------------------------------------------------------------------------------

namespace {

using nlohmann::json;

/// Every value of a tree, outermost first.
void collect(json& value, std::vector<json*>& all) {
  all.push_back(&value);
  if (value.is_structured()) {
    for (auto& item : value) collect(item, all);
  }
}

/// Deeper trees than this are left to plain changes of bytes: printing them recurses.
bool is_deep(std::string_view text) {
  int depth = 0, deepest = 0;
  for (const char c : text) {
    depth += c == '[' || c == '{' ? 1 : c == ']' || c == '}' ? -1 : 0;
    deepest = std::max(deepest, depth);
  }
  return deepest > 200;
}

class TreeMutator {
 public:
  TreeMutator(json& root, std::uint64_t seed) : root_(root), random_(seed) {}

  void run() {
    for (std::size_t times = 1 + below(3); times > 0; --times) step();
  }

 private:
  std::size_t below(std::size_t count) { return static_cast<std::size_t>(random_.next() % count); }
  std::uint64_t number() { return below(3) == 0 ? random_.next() : below(2) == 0 ? below(300) : edges[below(std::size(edges))]; }

  json value() {
    switch (below(10)) {
      case 0: return nullptr;
      case 1: return below(2) == 0;
      case 2: return -static_cast<std::int64_t>(number() >> 1);
      case 3: return static_cast<double>(number()) / static_cast<double>(1 + below(1000));
      case 4: return 1e308 * (below(2) == 0 ? 1 : -1);
      case 5: return std::string(below(3) == 0 ? below(2000) : below(8), static_cast<char>('a' + below(26)));
      case 6: return json::array();
      case 7: return json::object();
      case 8: return "";
      default: return number();
    }
  }

  void change_text(std::string& text) {
    // Bytes that are no UTF-8 cannot be printed; libFuzzer's own changes bring them.
    static constexpr std::string_view bits[] = {"a", "\xe2\x96\x81", "</s>", "<0x0A>", " ", "\\p{L}", "(a+)+", "*", "[", "{{", "%}", "\"", "\n", "\xc4\xa0", "0", "."};
    if (text.empty() || below(2) == 0) {
      text += bits[below(std::size(bits))];
    } else if (below(2) == 0) {
      text += text.substr(0, std::min<std::size_t>(text.size(), 100));
    } else {
      text = std::string(bits[below(std::size(bits))]);
    }
  }

  void change(json& at) {
    if (at.is_string() && below(2) == 0) return change_text(at.get_ref<std::string&>());
    if (at.is_number_integer() && below(2) == 0) {
      at = at.get<std::int64_t>() / 2 + static_cast<std::int64_t>(below(5)) - 2;
      return;
    }
    at = value();
  }

  void step() {
    std::vector<json*> all;
    collect(root_, all);
    json& at = *all[below(all.size())];
    json& other = *all[below(all.size())];
    switch (below(8)) {
      case 0:
        if (at.is_object() && !at.empty()) at.erase(std::next(at.begin(), static_cast<std::ptrdiff_t>(below(at.size()))));
        else if (at.is_array() && !at.empty()) at.erase(below(at.size()));
        else change(at);
        break;
      case 1:
        if (at.is_array()) at.insert(at.begin() + static_cast<std::ptrdiff_t>(below(at.size() + 1)), json(other));
        else if (at.is_object()) at[key(other)] = json(other);
        else at = json(other);
        break;
      case 2: {  // a member under another's name, perhaps in another object
        if (!at.is_object() || at.empty()) return change(at);
        const auto member = std::next(at.begin(), static_cast<std::ptrdiff_t>(below(at.size())));
        json moved = member.value();
        at[key(other)] = std::move(moved);
        break;
      }
      case 3:
        if (at.is_array() && !at.empty() && at.size() < 1000) {
          const json item = at[below(at.size())];
          for (std::size_t times = below(4); times > 0; --times) at.push_back(item);
        } else {
          change(at);
        }
        break;
      case 4: {
        json wrapped = at;
        for (std::size_t times = 1 + below(4); times > 0; --times) wrapped = json::array({wrapped});
        at = std::move(wrapped);
        break;
      }
      default: change(at); break;
    }
  }

  std::string key(const json& like) {
    if (like.is_object() && !like.empty()) return std::next(like.begin(), static_cast<std::ptrdiff_t>(below(like.size()))).key();
    return like.is_string() ? like.get<std::string>().substr(0, 64) : std::string(below(3), 'k');
  }

  json& root_;
  Random random_;
};

}  // namespace

std::string mutate_json(std::string_view text, std::uint64_t seed) {
  if (is_deep(text)) return std::string(text);
  json tree = json::parse(text, nullptr, false);
  if (tree.is_discarded()) return std::string(text);
  TreeMutator(tree, seed).run();
  return tree.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace bantam::fuzz
