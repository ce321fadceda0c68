// GGUF's key-value pairs and config.json's members as one list of texts.
#include "model/metadata.hpp"

#include "bantam/io/gguf.hpp"
#include "io/json.hpp"

namespace bantam::inline v0 {

namespace {

// Published files have some hundred keys of up to sixty bytes. What is beyond is left out: members repeat the names above them, so
// that keys could take a million times the bytes of their file.
constexpr std::size_t most_keys = 10'000, longest_key = 256;

bool fits(const Metadata& out, std::size_t key_bytes) noexcept { return out.size() < most_keys && key_bytes <= longest_key; }

struct ToText {
  Metadata& out;
  const std::string& key;

  void operator()(const std::string& text) const {
    if (fits(out, key.size())) out.emplace(key, text);
  }
  template <class T>
    requires std::is_arithmetic_v<T>
  void operator()(T value) const {
    if (fits(out, key.size())) out.emplace(key, message(value));
  }
  template <class T>
  void operator()(const std::vector<T>&) const {}
};

void add_members(Metadata& out, const Json& object, const std::string& prefix) {
  for (const auto& [name, value] : object.items()) {
    if (!fits(out, prefix.size() + name.size())) continue;
    const std::string key = message(prefix, name);
    if (value.is_object()) {
      add_members(out, value, key + ".");
    } else if (!value.is_array() && !value.is_null()) {
      out.emplace(key, value.is_string() ? std::string(value.string()) : value.dump());
    }
  }
}

}  // namespace

Metadata metadata_of(const GgufFile& file) {
  Metadata out;
  for (const auto& [key, value] : file.metadata()) std::visit(ToText{out, key}, value);
  return out;
}

Metadata metadata_of(std::string_view config_json) {
  Metadata out;
  add_members(out, Json::parse_or_null(config_json), "");
  return out;
}

}  // namespace bantam::inline v0
