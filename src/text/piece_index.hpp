// Ids of a vocabulary's pieces by what they spell.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bantam/core/hash.hpp"
#include "bantam/text/tokenizer.hpp"

namespace bantam::inline v0 {

/// A table of ids alone: the texts stay where they are, and whoever asks says where, as text_of(id). A lookup reads eight bytes and,
/// where those agree, the text: a third of the time of a node for each piece, in vocabularies beyond the second-level cache.
class PieceIndex {
 public:
  static constexpr TokenId none = -1;

  PieceIndex() = default;
  /// Room for so many pieces; no more may be added.
  explicit PieceIndex(std::size_t pieces) : slots_(std::bit_ceil(2 * pieces + 2)) {}

  /// Adds a piece, unless one that spells the same is there. Returns the id of the one that is there now.
  template <class TextOf>
  TokenId add(TokenId id, const TextOf& text_of) {
    const Place place = find_place(text_of(id), text_of);
    if (slots_[place.slot].id == none) slots_[place.slot] = {place.tag, id};
    return slots_[place.slot].id;
  }
  /// The same in the place of one that spells the same.
  template <class TextOf>
  void set(TokenId id, const TextOf& text_of) {
    const Place place = find_place(text_of(id), text_of);
    slots_[place.slot] = {place.tag, id};
  }
  /// The id of a text; `none` where no piece spells it.
  template <class TextOf>
  [[nodiscard]] TokenId find(std::string_view text, const TextOf& text_of) const {
    return slots_.empty() ? none : slots_[find_place(text, text_of).slot].id;
  }

 private:
  struct Slot {
    std::uint32_t tag = 0;  ///< of the hash, what does not say the place
    TokenId id = none;
  };
  struct Place {
    std::size_t slot;
    std::uint32_t tag;
  };

  /// Of the piece that spells a text, or, where none does, of the free slot that it would take.
  template <class TextOf>
  [[nodiscard]] Place find_place(std::string_view text, const TextOf& text_of) const {
    const std::uint64_t hash = hash_(text);
    const auto tag = static_cast<std::uint32_t>(hash >> 32);
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t at = hash & mask;; at = (at + 1) & mask) {
      const Slot& slot = slots_[at];
      if (slot.id == none || (slot.tag == tag && text_of(slot.id) == text)) return {at, tag};
    }
  }

  KeyedHash hash_;
  std::vector<Slot> slots_;
};

/// The texts of a vocabulary's pieces, as PieceIndex asks for them.
struct PieceTexts {
  const std::vector<std::string>& pieces;
  [[nodiscard]] std::string_view operator()(TokenId id) const { return pieces[static_cast<std::size_t>(id)]; }
};

}  // namespace bantam::inline v0
