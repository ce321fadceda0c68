// Where texts may stand in an automaton: sets of states, each with what its rule returns to. Sets are kept once, so that a place is a
// number, and what a byte does is remembered.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "grammar/automaton.hpp"

namespace bantam::inline v0::grammar {

/// A graph-structured stack (Tomita 1985) whose nodes are told apart by content instead of position. For one thread at a time.
class Stacks {
 public:
  /// A place: a set of items. Also what a rule returns to.
  using Place = std::uint32_t;
  struct Item {
    Automaton::State state;
    Place above;  ///< what is gone on with behind the rule's end
    friend auto operator<=>(const Item&, const Item&) = default;
  };
  static constexpr Place dead = 0;  ///< no text goes on from here

  explicit Stacks(const Automaton& automaton);
  /// These places of another, which get new numbers, and what they return to.
  Stacks(const Stacks& from, std::span<Place> places);

  [[nodiscard]] const Automaton& automaton() const noexcept { return *automaton_; }
  /// Before the first byte.
  [[nodiscard]] Place begin();
  /// At a state alone, on a stack that nothing is known of: its rule's end is the hole.
  [[nodiscard]] Place alone(Automaton::State state);
  /// After a byte. Throws unsupported for a place of too many items.
  [[nodiscard]] Place step(Place place, std::uint8_t byte) {
    const std::uint32_t table = tables_[place];
    if (table != no_table) {
      const Place known = next_[table][byte];
      if (known != unknown) return known;
    }
    return find_step(place, byte);
  }
  /// After a token that the grammar names: takes(index in Rules::tokens()) says which it is.
  template <class Takes>
  [[nodiscard]] Place step_token(Place place, Takes&& takes) {
    std::vector<Item> moved;
    for (const Item& item : copy_of(place)) {
      for (const auto& edge : automaton_->tokens(item.state)) {
        if (takes(edge.token)) moved.push_back({edge.to, item.above});
      }
    }
    return close(std::move(moved));
  }
  [[nodiscard]] Place join(Place a, Place b);

  [[nodiscard]] std::span<const Item> items(Place place) const noexcept {
    return std::span(items_).subspan(sets_[place].first, sets_[place].count);
  }
  /// The text may end here.
  [[nodiscard]] bool ends(Place place) const noexcept { return sets_[place].ends; }
  /// The hole may be reached here: what follows depends on what is not known.
  [[nodiscard]] bool leaves(Place place) const noexcept { return sets_[place].leaves; }

  /// What is worth tidying up: items above all.
  [[nodiscard]] std::size_t size() const noexcept { return items_.size() + 8 * sets_.size(); }
  /// Forgets all places but these, as a copy would.
  void keep(std::span<Place> places);

  /// Nesting of rules that do not end with the call. Deeper is taken for what cannot come.
  static constexpr std::uint32_t deepest = 4096;
  /// Items of a place, which are several where a text can be read in several ways.
  static constexpr std::size_t most_items = 1 << 12;
  static constexpr std::size_t most_size = std::size_t{1} << 24;

 private:
  struct Set {
    std::uint32_t first;
    std::uint32_t count;
    std::uint32_t depth;
    bool ends;
    bool leaves;
  };
  static constexpr std::uint32_t no_table = ~std::uint32_t{0};
  static constexpr Place unknown = ~Place{0};
  static constexpr Place bottom = 1;
  static constexpr Place open = 2;
  static constexpr std::size_t most_tables = 1 << 13;  // of 1 KiB

  void reset();
  [[nodiscard]] std::vector<Item> copy_of(Place place) const {
    const auto span = items(place);
    return {span.begin(), span.end()};
  }
  Place find_step(Place place, std::uint8_t byte);
  /// Adds what rules that ended return to, and what rules that are called begin with.
  Place close(std::vector<Item> moved);
  /// What a call returns to; nothing where it would be too deep.
  std::optional<Place> return_to(std::vector<Item> items);
  void add_ended(std::vector<Item>& items) const;
  Place intern(std::vector<Item>& items);
  [[nodiscard]] std::uint64_t hash(std::span<const Item> items) const;
  void grow_slots();

  const Automaton* automaton_;
  std::vector<Item> items_;
  std::vector<Set> sets_;
  std::vector<Place> slots_;            ///< open addressing by content; unknown: free
  std::vector<std::uint32_t> tables_;   ///< by place
  std::vector<std::array<Place, 256>> next_;
};

}  // namespace bantam::inline v0::grammar
