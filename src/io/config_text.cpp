// Words of config.json that are no JSON.
#include "io/config_text.hpp"

#include <string_view>

#include "bantam/io/file.hpp"

namespace bantam::inline v0::detail {

std::string read_config_text(const std::filesystem::path& file, std::size_t limit_bytes) {
  const std::string text = read_text_file(file, limit_bytes);
  std::string json;
  json.reserve(text.size());
  bool in_string = false;
  for (std::size_t at = 0; at < text.size();) {
    std::string_view word;
    for (const std::string_view number : {"-Infinity", "Infinity", "NaN"}) {
      if (!in_string && word.empty() && std::string_view(text).substr(at).starts_with(number)) word = number;
    }
    if (!word.empty()) {
      json += "null";
      at += word.size();
      continue;
    }
    if (in_string && text[at] == '\\' && at + 1 < text.size()) {
      json += text[at++];
    } else if (text[at] == '"') {
      in_string = !in_string;
    }
    json += text[at++];
  }
  return json;
}

}  // namespace bantam::inline v0::detail
