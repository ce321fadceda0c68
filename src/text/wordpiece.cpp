// WordPiece: the longest piece that a word begins with, then the longest that goes on.
#include "text/wordpiece.hpp"

#include <algorithm>

namespace bantam::inline v0 {

bool WordPiece::run(std::string_view word, std::vector<TokenId>& out) const {
  const auto begins_character = [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; };
  if (longest_word_ > 0 && word.size() > longest_word_ && std::ranges::count_if(word, begins_character) > longest_word_) return false;
  const std::size_t before = out.size();
  for (std::size_t at = 0; at < word.size();) {
    PieceTrie::Node node = at == 0 ? PieceTrie::root : continued_;
    TokenId best = -1;
    std::size_t end = at;
    for (std::size_t i = at; i < word.size() && node != PieceTrie::nowhere;) {
      node = trie_.child(node, static_cast<unsigned char>(word[i++]));
      if (node == PieceTrie::nowhere || trie_.id(node) < 0) continue;
      best = trie_.id(node);
      end = i;
    }
    if (best < 0) {
      out.resize(before);
      return false;
    }
    out.push_back(best);
    at = end;
  }
  return true;
}

}  // namespace bantam::inline v0
