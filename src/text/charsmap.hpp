// SentencePiece's precompiled character map: a double array of prefixes, and what each becomes.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace bantam::inline v0 {

/// Replaces prefixes of a text. Immutable.
class Charsmap {
 public:
  /// The bytes as SentencePiece stores them: size of the array, the array, texts that end with a zero. `place` names the file.
  /// Throws corrupt.
  Charsmap(std::string_view bytes, std::string_view place);

  /// What a place of a text begins with and what that becomes; a length of 0: nothing is known.
  struct Hit {
    std::size_t length = 0;
    std::string_view content;
  };
  [[nodiscard]] Hit longest(std::string_view text) const noexcept;
  [[nodiscard]] Hit shortest(std::string_view text) const noexcept;
  /// Whether any prefix begins with this byte.
  [[nodiscard]] bool begins(unsigned char byte) const noexcept { return begins_[byte]; }

  /// Longest prefixes from left to right, as SentencePiece does.
  [[nodiscard]] std::string apply(std::string_view text) const;
  /// As Hugging Face does: a grapheme of less than 6 bytes becomes what its shortest prefix becomes, whatever follows in it;
  /// else each of its characters. Invalid bytes stay.
  [[nodiscard]] std::string apply_to_graphemes(std::string_view text) const;

 private:
  template <class Found>
  void search(std::string_view text, Found found) const;
  [[nodiscard]] std::string_view content_at(std::uint32_t at) const noexcept;

  std::vector<std::uint32_t> units_;
  std::string contents_;
  std::array<bool, 256> begins_{};
};

}  // namespace bantam::inline v0
