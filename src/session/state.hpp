// What a session holds.
#pragma once

#include "bantam/core/stopwatch.hpp"
#include "bantam/session/session.hpp"
#include "own_guesses.hpp"
#include "speculation.hpp"

namespace bantam::inline v0 {

/// Guesses of the tokens that come next, and where they are from.
struct Guesses {
  int kind = 0;  ///< of SpeculationPolicy
  std::vector<TokenId> tokens;
};

/// Where guesses of a session's next tokens may come from.
struct GuessSource {
  int kind = -1;               ///< of SpeculationPolicy; -1: nowhere
  GuessOffer offer = {};
  int width = 0;               ///< that pays
  std::vector<TokenId> found;  ///< by a lookup
};

/// What of a reading in pieces lies around the one at hand, in tokens.
struct Piece {
  std::int64_t before = 0, behind = 0;
};

/// Whether looking at all logits of so many texts takes longer than waking threads for it does.
[[nodiscard]] inline bool is_worth_dealing(const Engine& engine, std::int64_t texts) {
  return texts > 1 && texts * engine.model().config().vocab >= 1 << 16;
}

struct Session::State {
  Engine engine;
  bool shares_engine;  ///< it was given. Forks of others get one each, so that they can run at once
  SessionOptions options;
  std::int64_t context;
  nn::SequenceState sequence;
  /// Everything read or generated. The first sequence.tokens() of them are in the state of the sequence; the rest waits to be read.
  std::vector<TokenId> tokens;
  /// What the encoder of a model that has one before its decoder reads; the tokens above are the decoder's.
  std::vector<TokenId> source;
  std::vector<float> logits;  ///< after the last token; empty when unknown
  std::vector<ChatMessage> messages;
  std::size_t reply_start = 0;  ///< where in `tokens` the reply to the last messages begins
  std::optional<Sampler> sampler;  ///< of the last generation
  std::optional<GrammarMatcher> matcher;  ///< of the last generation, where that had a grammar
  double prompt_ms = 0;            ///< of the last prompt
  std::int64_t prompt_tokens = 0;
  SpeculationPolicy policy;
  std::optional<OwnGuesses> own;   ///< from the first generation on that asks for them

  State(Model model, SessionOptions o);
  State(Engine e, SessionOptions o);
  [[nodiscard]] const Model& model() const noexcept { return engine.model(); }
  /// Tokens that the tokenizer has and the model gives logits for.
  [[nodiscard]] std::int32_t vocab() const noexcept;
  /// What waits to be read for the logits of the next token, at least the last one.
  [[nodiscard]] Engine::Sequence unread();
  /// Reads it, and knows the logits afterwards.
  void catch_up();
  /// Reads tokens: Engine::run with the progress of the options, whose exceptions come out too.
  void read(std::span<const TokenId> waiting, std::int64_t first_output,
            FunctionRef<void(std::int64_t, std::span<const float>)> sink, Engine::Output output = Engine::Output::logits);
  /// The same of several sessions, in passes that they share; the sink is given the index of the sequence first.
  static void read(std::span<State* const> states, std::span<const Engine::Sequence> sequences, Engine::Sink sink,
                   Engine::Output output = Engine::Output::logits, Piece piece = {});
  /// Adds tokens, reads what waits, and hands out `output` of each token added.
  void read_more(std::span<const TokenId> more, FunctionRef<void(std::int64_t, std::span<const float>)> sink, Engine::Output output);
  /// Throws invalid_argument unless `other` can be in a pass of this session's.
  void check_together(const State& other) const;
  /// Throws as Adapter::check_fits() does, and invalid_argument for scales that are no numbers.
  void check(std::span<const ScaledAdapter> adapters) const;
  /// Throws invalid_argument for what cannot be a way to generate here.
  void check(const GenerateOptions& options) const;
  void check(const Speculation& speculation) const;
  /// Where a generation's text begins in its grammar; none without one. Throws invalid_argument for another vocabulary's.
  [[nodiscard]] std::optional<GrammarMatcher> matcher_of(const GenerateOptions& generate) const;
  /// With the tokens that hold a text which ends repetitions.
  [[nodiscard]] Sampling with_breakers(Sampling sampling) const;
  /// The sampler of a generation. Throws as its constructor does.
  [[nodiscard]] Sampler sampler_of(const Sampling& sampling) const;
  /// At most `most` guesses of what follows, as many as pay; none when no source has any.
  [[nodiscard]] Guesses guess(const Speculation& speculation, int most);
  /// The first source of at most `most` guesses of which some pay by `width_of`; the others are told that none was made.
  [[nodiscard]] GuessSource guess_source(const Speculation& speculation, int most, FunctionRef<int(const GuessOffer&)> width_of);
  /// Makes that many of them, or none, of all sources but a draft model.
  [[nodiscard]] std::vector<TokenId> make_guesses(GuessSource& source, int width);
  /// Makes ready for guesses of the model's own, where they are asked for, before what they are made of is read.
  void prepare(const Speculation& speculation);
  /// Takes the sequence back to its first `count` tokens at most.
  void rewind(std::int64_t count);
  /// Of a pass over guesses keeps what was confirmed, which is all that the session holds; the token drawn last waits, unless logits are known.
  void forget_unconfirmed() { rewind(std::ssize(tokens) - (logits.empty() ? 1 : 0)); }
  /// What a smaller model finds most probable after a text, and the session that follows the text with it.
  struct Drafting {
    State* draft = nullptr;
    std::span<const TokenId> past;
    int count = 0;
    std::vector<TokenId> guesses = {};
  };
  /// Of several texts in passes that they share. Of what a session has to read before it guesses `most` tokens are read, and where that is not
  /// all there are no guesses yet.
  static void draft_together(std::span<Drafting> all, std::int64_t most);
  /// After tokens went: what was said can no longer be told apart from what was cut off.
  void forget_reply() noexcept;
  /// Of the source, what waits to be read.
  [[nodiscard]] std::span<const TokenId> unread_source();
  /// Adds tokens to those that wait: of a session that holds none, in a model with an encoder, they are the source, and the decoder's first
  /// are added behind it. Throws invalid_argument for tokens that this session cannot take.
  void take(std::span<const TokenId> more);
  /// Throws invalid_argument where the encoder has nothing to read.
  void check_source() const;
  /// Room for `count` more tokens, or invalid_argument.
  void check_room(std::int64_t count) const;
  /// Forgets all tokens but the first `count`, read or not.
  void drop_from(std::size_t count) noexcept;
  /// Adds tokens to those that wait, and does `work` on them. What fails leaves the tokens as they were.
  void append(std::span<const TokenId> more, FunctionRef<void()> work);
  /// Throws invalid_argument for tokens that this session cannot take.
  void check_more(std::span<const TokenId> more) const;
};

}  // namespace bantam::inline v0
