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
  /// `continuing` stands before the pieces that begin no word.
  WordPiece(PieceTrie trie, std::string_view continuing, std::uint32_t longest_word)
      : trie_(std::move(trie)), continued_(trie_.walk(continuing)), longest_word_(longest_word) {}

  /// Appends the pieces of a word; false, and nothing appended, when it cannot be cut. Time linear in the word (times the longest
  /// piece).
  [[nodiscard]] bool run(std::string_view word, std::vector<TokenId>& out) const;

 private:
  PieceTrie trie_;
  PieceTrie::Node continued_ = PieceTrie::nowhere;  ///< from here pieces are looked up that begin no word
  std::uint32_t longest_word_ = 0;
};

}  // namespace bantam::inline v0
