// What the tokenizer tests share: the shared vocabularies, and how their expected ids are stored.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "bantam/io/gguf.hpp"
#include "bantam/text/tokenizer.hpp"
#include "support.hpp"

namespace bantam::test {

inline Tokenizer gguf_tokenizer(const std::filesystem::path& path) { return Tokenizer::from_gguf(*GgufFile::open(path)); }

inline std::vector<TokenId> plain_ids(const Tokenizer& tokenizer, std::string_view text) {
  return tokenizer.encode(text, {.add_special = false});
}

/// Ids separated by spaces.
inline std::vector<TokenId> ids_of_line(const std::string& line) {
  std::istringstream in(line);
  std::vector<TokenId> ids;
  for (TokenId id; in >> id;) ids.push_back(id);
  return ids;
}

inline std::string line_of_ids(const std::vector<TokenId>& ids) {
  std::string line;
  for (const TokenId id : ids) line += std::to_string(id) + " ";
  return line;
}

/// Parts of a text between separators.
inline std::vector<std::string> split_text(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  std::size_t at = 0;
  for (std::size_t hit; (hit = text.find(separator, at)) != std::string::npos; at = hit + separator.size()) {
    parts.push_back(text.substr(at, hit - at));
  }
  parts.push_back(text.substr(at));
  return parts;
}

}  // namespace bantam::test
