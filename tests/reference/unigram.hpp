// The unigram model by its definition: of all ways to cut a text the one with the highest sum of scores, by plain loops.
#pragma once

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace bantam::reference {

/// A piece and its score; where a character is no piece, one unknown character for `unknown`.
struct ScoredPiece {
  std::string text;
  double score;
};

/// The highest sum of scores for `characters`, which together are the text. Every pair of places is looked at.
inline double best_sum(const std::vector<std::string>& characters, const std::vector<ScoredPiece>& pieces, double unknown) {
  std::vector<double> best(characters.size() + 1, -std::numeric_limits<double>::infinity());
  best[0] = 0;
  for (std::size_t end = 1; end <= characters.size(); ++end) {
    std::string text;
    for (std::size_t begin = end; begin-- > 0;) {
      text = characters[begin] + text;
      bool found = false;
      for (const ScoredPiece& piece : pieces) {
        if (piece.text != text) continue;
        best[end] = std::max(best[end], best[begin] + piece.score);
        found = true;
      }
      if (!found && begin + 1 == end) best[end] = std::max(best[end], best[begin] + unknown);
    }
  }
  return best.back();
}

/// WordPiece by its definition: the longest piece that fits, again and again. Empty when none fits somewhere.
inline std::vector<std::string> longest_first(std::string_view word, const std::vector<std::string>& pieces, const std::string& continuing) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at < word.size();) {
    std::string best;
    std::size_t length = 0;
    for (const std::string& piece : pieces) {
      const std::string_view mark = at == 0 ? std::string_view() : std::string_view(continuing);
      if (!piece.starts_with(mark)) continue;
      const std::string_view text = std::string_view(piece).substr(mark.size());
      if (text.size() > length && word.substr(at).starts_with(text)) best = piece, length = text.size();
    }
    if (length == 0) return {};
    out.push_back(best);
    at += length;
  }
  return out;
}

}  // namespace bantam::reference
