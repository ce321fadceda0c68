// Byte-pair merging: a table of what two neighboring symbols become, and the loop that applies it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bantam/core/hash.hpp"
#include "bantam/core/memory.hpp"

namespace bantam::inline v0 {

/// A symbol of the merge loop: a token id, or an id from vocab_size on for a character that only parts of pieces use.
using Symbol = std::int32_t;
/// What no symbol spells: merges with nothing. Any negative value does; callers use them to say what stood there.
inline constexpr Symbol no_symbol = -1;

/// `left` `right` become `merged`. Lower ranks go first; of equal ranks the leftmost.
struct Merge {
  Symbol left, right, merged;
  std::uint32_t rank;
};

/// The merges of a vocabulary by pair. O(1) per look-up, whatever the pairs.
class MergeTable {
 public:
  struct Entry {
    std::uint64_t key;  ///< of the pair; 0: no merge
    std::uint32_t rank;
    Symbol merged;
  };

  MergeTable() = default;
  /// `place` names the file. Throws corrupt for a pair that comes twice.
  MergeTable(std::span<const Merge> merges, std::string_view place);

  /// Null when the two do not merge.
  [[nodiscard]] const Entry* find(Symbol left, Symbol right) const noexcept;
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  /// Never 0: no symbol is negative.
  static std::uint64_t key_of(Symbol left, Symbol right) noexcept {
    return ~(std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right));
  }

  AlignedBuffer<Entry> slots_;
  std::size_t size_ = 0;
  KeyedHash hash_;
  int shift_ = 64;
};

/// Applies merges until none is left. Keeps its buffers between calls.
class Merger {
 public:
  explicit Merger(const MergeTable& table) : table_(table) {}
  /// Merges in place: lowest rank first, leftmost of equals. O(n log n).
  void run(std::vector<Symbol>& symbols);

 private:
  void run_short(std::vector<Symbol>& symbols);
  void run_long(std::vector<Symbol>& symbols);

  const MergeTable& table_;
  std::vector<std::uint32_t> ranks_;
  std::vector<std::uint32_t> next_, previous_;
};

/// The merges that SentencePiece's BPE makes: any two symbols whose concatenation is a piece, highest score first.
/// `symbols` spells each symbol; those from scores.size() on are single characters that are no piece. Pieces that are
/// not `mergeable` take no part. Throws unsupported above limits::merges_a_piece.
/// Time and memory linear in the bytes of the pieces (times log for sorting them).
[[nodiscard]] LargeVector<Merge> merges_from_scores(std::span<const std::string_view> symbols, std::span<const double> scores,
                                                    const std::vector<bool>& mergeable, std::string_view place);

}  // namespace bantam::inline v0
