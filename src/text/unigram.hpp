// The unigram model: of all ways to cut a text into pieces the one with the highest sum of scores (Kudo, arXiv:1804.10959).
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "text/piece_trie.hpp"

namespace bantam::inline v0 {

class Unigram {
 public:
  /// What characters without a piece cost below the lowest score, in SentencePiece and Hugging Face's tokenizers.
  static constexpr double unknown_penalty = 10.0;

  Unigram() = default;
  Unigram(PieceTrie trie, LargeVector<double> scores, double unknown_score)
      : trie_(std::move(trie)), scores_(std::move(scores)), unknown_score_(unknown_score) {}

  /// A piece of a text, or a character that no piece covers.
  struct Part {
    TokenId id;  ///< -1: unknown
    std::size_t begin, end;
  };
  /// Buffers that calls share.
  struct Work {
    struct Place {
      double score;
      std::size_t begin;
      TokenId id;
    };
    std::vector<Place> best;  ///< how to come to each place, from the last sure one on
    std::vector<Part> parts;
  };
  /// The best path, in work.parts. Of equal ones that which was found first, with longer last pieces. Time linear in the text
  /// (times the longest piece); memory linear in the stretches that pieces lie over.
  void run(std::string_view text, Work& work) const;

 private:
  PieceTrie trie_;
  LargeVector<double> scores_;  ///< by id
  double unknown_score_ = 0;
};

}  // namespace bantam::inline v0
