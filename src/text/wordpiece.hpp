// WordPiece: the longest piece that a word begins with, then the longest that goes on (Schuster and Nakajima 2012; BERT).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/piece_trie.hpp"

namespace bantam::inline v0 {

class WordPiece {
 public:
  WordPiece() = default;
  /// `begin` stands before each word, `continuing` before the pieces that begin none.
  WordPiece(PieceTrie trie, std::string_view begin, std::string_view continuing, std::uint32_t longest_word)
      : trie_(std::move(trie)), begin_(begin), continued_(trie_.walk(continuing)), longest_word_(longest_word) {}

  /// Appends the pieces of a word; false, and nothing appended, when it cannot be cut. Time linear in the word (times the longest
  /// piece).
  [[nodiscard]] bool run(std::string_view word, std::vector<TokenId>& out) const;

 private:
  PieceTrie trie_;
  std::string begin_;
  PieceTrie::Node continued_ = PieceTrie::nowhere;  ///< from here pieces are looked up that begin no word
  std::uint32_t longest_word_ = 0;
};

}  // namespace bantam::inline v0
