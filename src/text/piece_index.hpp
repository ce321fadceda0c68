// Ids of a vocabulary's pieces by what they spell.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <string_view>

#include "bantam/core/hash.hpp"
#include "bantam/core/memory.hpp"
#include "bantam/text/tokenizer.hpp"
#include "text/piece_list.hpp"

namespace bantam::inline v0 {

/// A table of ids alone: the texts stay where they are, and whoever asks says where, as text_of(id). A lookup reads eight bytes and,
/// where those agree, the text: a third of the time of a node for each piece, in vocabularies beyond the second-level cache.
class PieceIndex {
 public:
  static constexpr TokenId none = -1;

  PieceIndex() = default;
  /// Room for so many pieces; no more may be added.
  explicit PieceIndex(std::size_t pieces) : slots_(std::bit_ceil(pieces + pieces / 2 + 2)) {}

  /// Adds a piece, unless one that spells the same is there.
  template <class TextOf>
  void add(TokenId id, const TextOf& text_of) {
    put(id, hash_(text_of(id)), Repeated::first, text_of);
  }
  /// Which of the pieces that spell the same counts.
  enum class Repeated : std::uint8_t { first, last };
  /// Adds the pieces of ids 0 to count - 1 that spell anything.
  template <class TextOf>
  void add_all(std::size_t count, Repeated counts, const TextOf& text_of) {
    const auto hash_of = [&](std::size_t i) { return hash_(text_of(static_cast<TokenId>(i))); };
    visit_hashed(count, hash_of, [&](std::uint64_t hash) { return &first_slot(hash); }, [&](std::size_t i, std::uint64_t hash) {
      const auto id = static_cast<TokenId>(i);
      if (!text_of(id).empty()) put(id, hash, counts, text_of);
    });
  }
  /// How many pieces it has that differ.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool has_room_for(std::size_t pieces) const noexcept { return pieces + pieces / 2 < slots_.size(); }

  /// The id of a text; `none` where no piece spells it.
  template <class TextOf>
  [[nodiscard]] TokenId find(std::string_view text, const TextOf& text_of) const {
    return slots_.size() == 0 ? none : slots_[slot_of(text, hash_(text), text_of)].id();
  }
  /// The same of several texts, whose waits for memory overlap. There must be room for a piece.
  template <class TextOf>
  void find_all(std::span<const std::string_view> texts, std::span<TokenId> ids, const TextOf& text_of) const {
    constexpr std::size_t at_once = 32;
    for (std::size_t first = 0; first < texts.size(); first += at_once) {
      const std::size_t count = std::min(at_once, texts.size() - first);
      std::array<std::uint64_t, at_once> hashes;
      for (std::size_t i = 0; i < count; ++i) {
        hashes[i] = hash_(texts[first + i]);
        __builtin_prefetch(&first_slot(hashes[i]));
      }
      for (std::size_t i = 0; i < count; ++i) {
        const Slot& slot = first_slot(hashes[i]);
        if (slot.number != 0) __builtin_prefetch(text_of(slot.id()).data());
      }
      for (std::size_t i = 0; i < count; ++i) ids[first + i] = slots_[slot_of(texts[first + i], hashes[i], text_of)].id();
    }
  }

 private:
  struct Slot {
    std::uint32_t tag;     ///< of the hash, what does not say the place
    std::uint32_t number;  ///< id + 1; 0: free

    [[nodiscard]] TokenId id() const noexcept { return static_cast<TokenId>(number) - 1; }
  };

  static std::uint32_t tag_of(std::uint64_t hash) noexcept { return static_cast<std::uint32_t>(hash >> 32); }

  /// Where looking for a hash begins.
  [[nodiscard]] const Slot& first_slot(std::uint64_t hash) const noexcept { return slots_[hash & (slots_.size() - 1)]; }
  /// Of the piece that spells a text, or, where none does, the free slot that it would take.
  template <class TextOf>
  [[nodiscard]] std::size_t slot_of(std::string_view text, std::uint64_t hash, const TextOf& text_of) const {
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t at = hash & mask;; at = (at + 1) & mask) {
      const Slot& slot = slots_[at];
      if (slot.number == 0 || (slot.tag == tag_of(hash) && text_of(slot.id()) == text)) return at;
    }
  }
  template <class TextOf>
  void put(TokenId id, std::uint64_t hash, Repeated counts, const TextOf& text_of) {
    Slot& slot = slots_[slot_of(text_of(id), hash, text_of)];
    if (slot.number == 0) ++size_;
    if (slot.number == 0 || counts == Repeated::last) slot = {tag_of(hash), static_cast<std::uint32_t>(id) + 1};
  }

  KeyedHash hash_;
  AlignedBuffer<Slot> slots_;
  std::size_t size_ = 0;
};

/// An index of pieces, with room for more. Of those that spell the same the last counts.
[[nodiscard]] inline PieceIndex index_of(const PieceList& pieces, std::size_t more = 0) {
  PieceIndex index(pieces.size() + more);
  index.add_all(pieces.size(), PieceIndex::Repeated::last, pieces);
  return index;
}

}  // namespace bantam::inline v0
