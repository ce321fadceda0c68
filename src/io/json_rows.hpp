// Long lists of JSON without a tree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "bantam/core/memory.hpp"

namespace bantam::inline v0 {

/// Rows of one shape, as vocabularies and merges are written: an array of texts, of pairs of texts or of texts with numbers, or an object
/// whose members are numbers. Eight bytes a text and eight a number, where a tree takes up to ten times as many.
class JsonRows {
 public:
  enum class Shape : std::uint8_t { texts, pairs, numbered, members };

  /// Reads the value that `text` begins with, in whose place it must stay. Returns what follows the value; null where that is broken,
  /// empty or anything else: then nothing else here may be asked. Members that come twice are both there. Linear.
  const char* read(std::string_view text);

  [[nodiscard]] Shape shape() const noexcept { return shape_; }
  [[nodiscard]] std::size_t size() const noexcept { return rows_; }
  /// Pairs have two texts a row.
  [[nodiscard]] std::string_view text(std::size_t i) const noexcept {
    const auto [begin, size] = texts_[i];
    return begin < source_.size() ? source_.substr(begin, size) : std::string_view(unescaped_).substr(begin - source_.size(), size);
  }
  /// Of all texts together. Linear in their number.
  [[nodiscard]] std::size_t text_bytes() const noexcept {
    std::size_t bytes = 0;
    for (const Place& place : texts_) bytes += place.size;
    return bytes;
  }
  [[nodiscard]] double number(std::size_t i) const noexcept { return numbers_[i]; }
  /// Whether all numbers are whole and not negative.
  [[nodiscard]] bool counts() const noexcept { return counts_; }

 private:
  struct Place {
    std::uint32_t begin, size;
  };
  class Receiver;

  std::string_view source_;
  LargeVector<Place> texts_;  ///< in the source, or behind it in what is not as the source spells it
  std::string unescaped_;
  LargeVector<double> numbers_;
  std::size_t rows_ = 0;
  Shape shape_ = Shape::texts;
  bool counts_ = true;
};

}  // namespace bantam::inline v0
