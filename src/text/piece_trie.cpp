// The pieces of a vocabulary as a trie of bytes.
#include "text/piece_trie.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

namespace bantam::inline v0 {

namespace {

/// The first eight bytes, so that comparing two numbers compares them.
std::uint64_t beginning_of(std::string_view text) noexcept {
  unsigned char bytes[8] = {};
  text.copy(reinterpret_cast<char*>(bytes), sizeof bytes);
  std::uint64_t number = 0;
  for (const unsigned char byte : bytes) number = number << 8 | byte;
  return number;
}

/// Pieces in order, their texts one after the other: what is walked level by level lies close together.
struct Sorted {
  explicit Sorted(const std::vector<PieceTrie::Piece>& pieces) {
    struct Key {
      std::uint64_t beginning;
      std::uint32_t piece;
    };
    std::vector<Key> keys(pieces.size());
    for (std::size_t i = 0; i < pieces.size(); ++i) keys[i] = {beginning_of(pieces[i].text), static_cast<std::uint32_t>(i)};
    std::ranges::sort(keys, [&](const Key& a, const Key& b) {
      if (a.beginning != b.beginning) return a.beginning < b.beginning;
      const int order = pieces[a.piece].text.compare(pieces[b.piece].text);
      return order != 0 ? order < 0 : a.piece < b.piece;
    });
    begins.reserve(pieces.size() + 1);
    begins.push_back(0);
    ids.reserve(pieces.size());
    for (const Key& key : keys) {
      text += pieces[key.piece].text;
      begins.push_back(text.size());
      ids.push_back(pieces[key.piece].id);
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
