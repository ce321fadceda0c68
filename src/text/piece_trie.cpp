// The pieces of a vocabulary as a trie of bytes.
#include "text/piece_trie.hpp"

#include <numeric>
#include <string>

#include "text/text_order.hpp"

namespace bantam::inline v0 {

namespace {

/// Pieces in order, their texts one after the other: what is walked level by level lies close together.
struct Sorted {
  explicit Sorted(const std::vector<PieceTrie::Piece>& pieces) {
    std::vector<std::uint32_t> order(pieces.size());
    std::iota(order.begin(), order.end(), 0U);
    sort_by_text(order, [&](std::uint32_t i) { return pieces[i].text; });
    std::size_t size = 0;
    for (const PieceTrie::Piece& piece : pieces) size += piece.text.size();
    text.reserve(size);
    begins.reserve(pieces.size() + 1);
    begins.push_back(0);
    ids.reserve(pieces.size());
    // The pieces lie beyond the caches: each is asked for some steps ahead.
    constexpr std::size_t ahead = 16;
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (i + 2 * ahead < order.size()) __builtin_prefetch(&pieces[order[i + 2 * ahead]]);
      if (i + ahead < order.size()) __builtin_prefetch(pieces[order[i + ahead]].text.data());
      text += pieces[order[i]].text;
      begins.push_back(text.size());
      ids.push_back(pieces[order[i]].id);
    }
  }
  [[nodiscard]] std::size_t size_of(std::size_t i) const noexcept { return begins[i + 1] - begins[i]; }
  [[nodiscard]] unsigned char byte(std::size_t i, std::size_t depth) const noexcept { return static_cast<unsigned char>(text[begins[i] + depth]); }

  std::string text;
  std::vector<std::size_t> begins;
  std::vector<TokenId> ids;
};

}  // namespace

PieceTrie::PieceTrie(const std::vector<Piece>& pieces) {
  const Sorted sorted(pieces);
  roots_.fill(nowhere);
  // The pieces below a node stand together.
  struct Range {
    std::uint32_t begin, end;
  };
  std::vector<Range> level = {{0, static_cast<std::uint32_t>(pieces.size())}}, below;
  ids_.push_back(-1);
  bytes_.push_back(0);
  for (std::size_t depth = 0; !level.empty(); ++depth, level.swap(below)) {
    below.clear();
    const std::size_t first = ids_.size() - level.size();
    for (std::size_t i = 0; i < level.size(); ++i) {
      auto [at, end] = level[i];
      children_.push_back(static_cast<Node>(ids_.size()));
      if (depth > 0 && sorted.size_of(at) == depth) ids_[first + i] = sorted.ids[at];
      while (at < end && sorted.size_of(at) == depth) ++at;
      while (at < end) {
        const unsigned char byte = sorted.byte(at, depth);
        std::uint32_t next = at + 1;
        while (next < end && sorted.byte(next, depth) == byte) ++next;
        if (depth == 0) roots_[byte] = static_cast<Node>(ids_.size());
        below.push_back({at, next});
        ids_.push_back(-1);
        bytes_.push_back(byte);
        at = next;
      }
    }
  }
  children_.push_back(static_cast<Node>(ids_.size()));
}

}  // namespace bantam::inline v0
