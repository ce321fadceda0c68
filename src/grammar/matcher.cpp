// Which tokens may come next. For each state of the automaton it is found out once which tokens its rule takes whatever it returns to
// (Dong et al., arXiv:2411.15100, call them context-independent), and where in the tree of tokens it may be left; only what lies there is
// tried at each place.
#include <algorithm>
#include <limits>
#include <mutex>

#include "bantam/core/hash.hpp"
#include "grammar/data.hpp"
#include "grammar/stacks.hpp"
#include "grammar/trie.hpp"

namespace bantam::inline v0 {

using grammar::Automaton;
using grammar::Stacks;
using Words = std::vector<std::uint64_t>;

namespace {

/// What a state says of tokens by itself.
struct OfState {
  Words bits;                       ///< the tokens that may come, where they are many
  std::vector<TokenId> few;         ///< where they are few
  std::vector<std::uint32_t> exits;  ///< nodes at which the rule may have ended: what lies below depends on what it returns to

  [[nodiscard]] std::size_t bytes() const noexcept { return 64 + 8 * bits.size() + 4 * few.size() + 4 * exits.size(); }
};

void set_bit(Words& words, TokenId id) { words[static_cast<std::size_t>(id) / 64] |= std::uint64_t{1} << (static_cast<unsigned>(id) % 64); }

/// Goes down the tree from a node, with `first` the place there: visit(node, place) for every node below whose text may come, false to leave
/// out what lies below that.
template <class Visit>
void walk(Stacks& stacks, const TokenTrie::Data& trie, std::uint32_t top, Stacks::Place first, std::vector<Stacks::Place>& path, Visit&& visit) {
  path.resize(trie.deepest + 1);
  path[trie.nodes[top].depth] = first;
  const std::uint32_t end = trie.nodes[top].end;
  for (std::uint32_t node = top + 1; node < end;) {
    const auto& here = trie.nodes[node];
    const Stacks::Place place = stacks.step(path[here.depth - 1], here.byte);
    if (place == Stacks::dead || !visit(node, place)) {
      node = here.end;
      continue;
    }
    path[here.depth] = place;
    ++node;
  }
}

}  // namespace

struct TokenGrammar::Data {
  Data(std::shared_ptr<const Grammar::Data> g, std::shared_ptr<const TokenTrie::Data> t)
      : grammar(std::move(g)), trie(std::move(t)), vocab(trie->tokenizer.vocab_size()), words((static_cast<std::size_t>(vocab) + 63) / 64),
        stacks(grammar->automaton) {
    for (const auto& name : grammar->tokens) {
      const TokenId id = name.text.empty() ? name.id : trie->tokenizer.find(name.text);
      if (id < 0 || id >= vocab) {
        fail(Errc::grammar, "grammar: expected a vocabulary with the token ", name.text.empty() ? message("[", name.id, "]") : printable(name.text),
             ", found none in its ", vocab);
      }
      named.push_back(id);
    }
  }

  [[nodiscard]] bool takes(std::uint32_t token, TokenId id) const {
    if (!grammar->tokens[token].negated) return named[token] == id;
    return named[token] != id && !trie->tokenizer.ends_generation(id);
  }

  [[nodiscard]] std::shared_ptr<const OfState> of_state(Automaton::State state) {
    // Masks of 1000 states of a vocabulary of 256k.
    constexpr std::size_t most_bytes = std::size_t{32} << 20;
    const std::scoped_lock lock(mutex);
    if (const auto at = known.find(state); at != known.end()) return at->second;
    if (known_bytes > most_bytes) {
      known.clear();
      known_bytes = 0;
    }
    if (stacks.size() > most_bytes / 32) stacks.keep({});
    auto made = std::make_shared<const OfState>(find_out(state));
    known_bytes += made->bytes();
    known.emplace(state, made);
    return made;
  }

  const std::shared_ptr<const Grammar::Data> grammar;
  const std::shared_ptr<const TokenTrie::Data> trie;
  const std::int32_t vocab;
  const std::size_t words;
  std::vector<TokenId> named;  ///< tokens of the grammar

 private:
  OfState find_out(Automaton::State state) {
    OfState found;
    const auto take = [&](TokenId id) { found.few.push_back(id); };
    for (const auto& edge : grammar->automaton.tokens(state)) {
      if (!grammar->tokens[edge.token].negated) {
        take(named[edge.token]);
        continue;
      }
      for (TokenId id = 0; id < vocab; ++id) {
        if (takes(edge.token, id)) take(id);
      }
    }
    walk(stacks, *trie, 0, stacks.alone(state), path, [&](std::uint32_t node, Stacks::Place place) {
      for (const TokenId id : trie->at(node)) take(id);
      if (!stacks.leaves(place)) return true;
      // All below is tried at each place anyway.
      if (trie->nodes[node].end > node + 1) found.exits.push_back(node);
      return false;
    });
    // A list takes less room than bits.
    if (found.few.size() > 2 * words) {
      found.bits.assign(words, 0);
      for (const TokenId id : found.few) set_bit(found.bits, id);
      found.few = {};
    }
    return found;
  }

  std::mutex mutex;
  Stacks stacks;
  std::vector<Stacks::Place> path;
  HashMap<Automaton::State, std::shared_ptr<const OfState>> known;
  std::size_t known_bytes = 0;
};

TokenGrammar::TokenGrammar(const Grammar& grammar, const TokenTrie& trie) : data_(std::make_shared<Data>(grammar.data_, trie.data_)) {}
std::int32_t TokenGrammar::vocab_size() const noexcept { return data_->vocab; }

struct GrammarMatcher::State {
  explicit State(TokenGrammar g) : grammar(std::move(g)), data(grammar.data_.get()), stacks(data->grammar->automaton), places{stacks.begin()} {}
  State(const State& other) : grammar(other.grammar), data(other.data), stacks(other.stacks.automaton()), forgotten(other.forgotten), places(other.places) {
    stacks = Stacks(other.stacks, places);
  }

  [[nodiscard]] Stacks::Place now() const noexcept { return places.back(); }
  void tidy_up();
  [[nodiscard]] Words find_mask();

  TokenGrammar grammar;
  TokenGrammar::Data* data;
  Stacks stacks;
  std::size_t forgotten = 0;          ///< tokens that cannot be taken back
  std::vector<Stacks::Place> places;  ///< before the first of the others, and after each; dead behind a token that ends the text
  struct Mask {
    Stacks::Place place;
    Words words;
  };
  std::vector<Mask> masks;  ///< of places, the one asked for last at the end
  std::vector<Stacks::Place> path;
};

void GrammarMatcher::State::tidy_up() {
  constexpr std::size_t much = std::size_t{1} << 20;
  if (stacks.size() < much) return;
  masks.clear();
  stacks.keep(places);
  // A text of very many different places: the oldest can no longer be gone back to.
  while (stacks.size() > much / 2 && places.size() > 1) {
    const std::size_t half = places.size() / 2;
    places.erase(places.begin(), places.begin() + static_cast<std::ptrdiff_t>(half));
    forgotten += half;
    stacks.keep(places);
  }
}

Words GrammarMatcher::State::find_mask() {
  Words words(data->words, 0);
  const Stacks::Place here = now();
  std::vector<std::uint32_t> exits;
  const auto span = stacks.items(here);
  for (const Stacks::Item& item : std::vector<Stacks::Item>(span.begin(), span.end())) {
    if (item.state <= Automaton::hole) continue;
    const auto known = data->of_state(item.state);
    for (std::size_t i = 0; i < known->bits.size(); ++i) words[i] |= known->bits[i];
    for (const TokenId id : known->few) set_bit(words, id);
    exits.insert(exits.end(), known->exits.begin(), known->exits.end());
  }
  const TokenTrie::Data& trie = *data->trie;
  std::ranges::sort(exits);
  std::uint32_t done = 0;
  for (const std::uint32_t exit : exits) {
    if (exit < done) continue;  // below the last one, or the same
    done = trie.nodes[exit].end;
    Stacks::Place place = here;
    for (const char c : trie.text(exit)) place = stacks.step(place, static_cast<std::uint8_t>(c));
    if (place == Stacks::dead) continue;
    walk(stacks, trie, exit, place, path, [&](std::uint32_t node, Stacks::Place) {
      for (const TokenId id : trie.at(node)) set_bit(words, id);
      return true;
    });
  }
  if (stacks.ends(here)) {
    for (const TokenId id : trie.ends) set_bit(words, id);
  }
  return words;
}

GrammarMatcher::GrammarMatcher(TokenGrammar grammar) : state_(std::make_unique<State>(std::move(grammar))) {}
GrammarMatcher::~GrammarMatcher() = default;
GrammarMatcher::GrammarMatcher(const GrammarMatcher& other) : state_(std::make_unique<State>(*other.state_)) {}
GrammarMatcher::GrammarMatcher(GrammarMatcher&&) noexcept = default;
GrammarMatcher& GrammarMatcher::operator=(GrammarMatcher other) noexcept {
  state_ = std::move(other.state_);
  return *this;
}

bool GrammarMatcher::accept(TokenId id) {
  State& s = *state_;
  const Tokenizer& tokenizer = s.data->trie->tokenizer;
  if (id < 0 || id >= s.data->vocab) fail(Errc::invalid_argument, "grammar: token is ", id, ", expected 0 to ", s.data->vocab - 1);
  s.tidy_up();
  const Stacks::Place here = s.now();
  if (tokenizer.ends_generation(id) && s.stacks.ends(here)) {
    s.places.push_back(Stacks::dead);
    return true;
  }
  Stacks::Place next = s.stacks.step_token(here, [&](std::uint32_t token) { return s.data->takes(token, id); });
  if (s.data->trie->is_text(id)) {
    Stacks::Place spelled = here;
    for (const char c : tokenizer.piece_bytes(id)) spelled = s.stacks.step(spelled, static_cast<std::uint8_t>(c));
    next = s.stacks.join(next, spelled);
  }
  if (next == Stacks::dead) return false;
  s.places.push_back(next);
  return true;
}

std::span<const std::uint64_t> GrammarMatcher::mask() {
  State& s = *state_;
  s.tidy_up();
  // A text goes back and forth between few places: inside a string, between its words.
  constexpr std::size_t most_masks = 16;
  const auto known = std::ranges::find(s.masks, s.now(), &State::Mask::place);
  if (known != s.masks.end()) {
    std::rotate(known, known + 1, s.masks.end());
  } else {
    Words words = s.find_mask();
    if (s.masks.size() == most_masks) s.masks.erase(s.masks.begin());
    s.masks.push_back({s.now(), std::move(words)});
  }
  return s.masks.back().words;
}

void GrammarMatcher::apply(std::span<float> logits) {
  if (logits.size() > static_cast<std::size_t>(state_->data->vocab)) {
    fail(Errc::invalid_argument, "grammar: expected at most ", state_->data->vocab, " logits, found ", logits.size());
  }
  const std::span<const std::uint64_t> words = mask();
  bool any = false;
  for (std::size_t i = 0; i < logits.size(); i += 64) {
    const std::uint64_t word = words[i / 64];
    const std::size_t count = std::min<std::size_t>(64, logits.size() - i);
    if (word == ~std::uint64_t{0}) {
      any = true;
      continue;
    }
    for (std::size_t j = 0; j < count; ++j) {
      if ((word >> j & 1) != 0) {
        any = true;
      } else {
        logits[i + j] = -std::numeric_limits<float>::infinity();
      }
    }
  }
  if (!any) {
    fail(Errc::grammar, "grammar: expected a token that may come after the first ", size(), ", found none: the vocabulary cannot spell what is next, or it nests too deeply");
  }
}

bool GrammarMatcher::can_end() const noexcept { return state_->now() == Stacks::dead || state_->stacks.ends(state_->now()); }
bool GrammarMatcher::finished() const noexcept { return can_end() && state_->stacks.items(state_->now()).size() <= 1; }
std::size_t GrammarMatcher::size() const noexcept { return state_->forgotten + state_->places.size() - 1; }

void GrammarMatcher::rewind(std::size_t count) {
  State& s = *state_;
  if (count >= s.places.size()) fail(Errc::invalid_argument, "grammar: expected at most ", s.places.size() - 1, " tokens to take back, found ", count);
  s.places.resize(s.places.size() - count);
}

}  // namespace bantam::inline v0
