// The unigram model: the best path through the pieces of a text.
#include "text/unigram.hpp"

#include <algorithm>
#include <limits>

#include "bantam/core/parallel.hpp"
#include "text/utf8.hpp"

namespace bantam::inline v0 {

namespace {

constexpr double unreached = -std::numeric_limits<double>::infinity();

/// Walks back from the last place and puts out the parts in order. `base` is where the first place stands in the text.
void take_path(Unigram::Work& work, std::size_t base, std::size_t end) {
  const std::size_t first = work.parts.size();
  for (std::size_t at = end; at > base;) {
    const Unigram::Work::Place& place = work.best[at - base];
    work.parts.push_back({place.id, place.begin, at});
    at = place.begin;
  }
  std::reverse(work.parts.begin() + static_cast<std::ptrdiff_t>(first), work.parts.end());
}

}  // namespace

void Unigram::run(std::string_view text, Work& work) const {
  using Place = Work::Place;
  work.parts.clear();
  work.best.assign(1, Place{0, 0, -1});
  std::size_t base = 0;   // everything before is decided
  std::size_t reach = 0;  // no piece that began so far goes beyond
  unsigned steps = 0;
  const auto offer = [&](std::size_t begin, std::size_t end, TokenId id, double score) {
    const std::size_t at = end - base;
    if (at >= work.best.size()) work.best.resize(at + 1, Place{unreached, 0, -1});
    if (score > work.best[at].score) work.best[at] = {score, begin, id};
    reach = std::max(reach, end);
  };
  for (std::size_t at = 0; at < text.size();) {
    if (at == reach && at > base) {
      take_path(work, base, at);
      base = at;
      work.best.assign(1, Place{0, at, -1});
    }
    if (++steps % 4096 == 0) check_cancelled();
    const std::size_t length = utf8::decode(text, at).length;
    const double score = work.best[at - base].score;
    bool covered = false;
    PieceTrie::Node node = PieceTrie::root;
    for (std::size_t end = at; end < text.size();) {
      node = trie_.child(node, static_cast<unsigned char>(text[end++]));
      if (node == PieceTrie::nowhere) break;
      const TokenId id = trie_.id(node);
      if (id < 0) continue;
      offer(at, end, id, score + scores_[static_cast<std::size_t>(id)]);
      covered = covered || end == at + length;
    }
    if (!covered) offer(at, at + length, -1, score + unknown_score_);
    at += length;
  }
  take_path(work, base, text.size());
}

}  // namespace bantam::inline v0
