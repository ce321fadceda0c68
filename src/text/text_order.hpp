// Sorting the texts of vocabularies.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

namespace bantam::inline v0 {

/// Sorts indices by what text_of(index) gives, a view; equal texts by their indices. Most comparisons are of two numbers: comparing texts, which
/// lie all over the heap, takes three times as long.
template <class Index, class TextOf>
void sort_by_text(std::vector<Index>& indices, const TextOf& text_of) {
  struct Key {
    std::uint64_t beginning;  ///< the first eight bytes, the first one highest
    Index index;
  };
  std::vector<Key> keys;
  keys.reserve(indices.size());
  for (const Index index : indices) {
    const std::string_view text = text_of(index);
    std::uint64_t beginning = 0;
    for (std::size_t i = 0; i < 8; ++i) beginning = beginning << 8 | (i < text.size() ? static_cast<unsigned char>(text[i]) : 0U);
    keys.push_back({beginning, index});
  }
  std::ranges::sort(keys, [&](const Key& a, const Key& b) {
    if (a.beginning != b.beginning) return a.beginning < b.beginning;
    const int order = text_of(a.index).compare(text_of(b.index));
    return order != 0 ? order < 0 : a.index < b.index;
  });
  for (std::size_t i = 0; i < keys.size(); ++i) indices[i] = keys[i].index;
}

}  // namespace bantam::inline v0
