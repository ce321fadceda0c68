// Finds a set of fixed strings in a text: the longest one at the leftmost place.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace bantam::inline v0 {

/// A trie of strings, each with an id.
class Literals {
 public:
  /// Longer strings are refused by whoever reads them from files: a search costs up to this many steps a byte.
  static constexpr std::size_t longest = 1024;

  Literals();
  /// The first id given to a string counts. Empty strings are not stored.
  void add(std::string_view text, std::int32_t id);
  [[nodiscard]] bool empty() const noexcept { return nodes_.size() == 1; }

  struct Hit {
    std::size_t begin = 0;
    std::size_t end = 0;
    std::int32_t id = -1;
  };
  /// The leftmost hit that starts at `from` or later, the longest of those that start there. False when there is none.
  [[nodiscard]] bool find(std::string_view text, std::size_t from, Hit& hit) const noexcept;
  /// The longest string that starts exactly at `at`.
  [[nodiscard]] bool match(std::string_view text, std::size_t at, Hit& hit) const noexcept;

 private:
  struct Node {
    std::uint32_t first_child = 0;  // 0: none, the root is nobody's child
    std::uint32_t next_sibling = 0;
    std::int32_t id = -1;
    std::uint8_t byte = 0;
  };
  [[nodiscard]] std::uint32_t child(std::uint32_t node, std::uint8_t byte) const noexcept;

  std::vector<Node> nodes_;
  std::array<std::uint32_t, 256> roots_{};
};

}  // namespace bantam::inline v0
