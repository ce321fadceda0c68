// What a session holds.
#pragma once

#include "bantam/core/stopwatch.hpp"
#include "bantam/model/forward.hpp"
#include "bantam/session/session.hpp"
#include "speculation.hpp"

namespace bantam::inline v0 {

/// Guesses of the tokens that come next, and where they are from.
struct Guesses {
  int kind = 0;  ///< of SpeculationPolicy
  std::vector<TokenId> tokens;
};

struct Session::State {
  Model model;
  SessionOptions options;
  std::int64_t context;
  nn::KvCache cache;
  /// Made when it is first needed: a fork that only waits costs no threads. Made again in a child process.
  std::unique_ptr<Forward> forward;
  /// Everything read or generated. The first cache.tokens() of them have their keys and values in the cache; the rest
  /// waits to be read.
  std::vector<TokenId> tokens;
  std::vector<float> logits;  ///< after the last token; empty when unknown
  std::vector<ChatMessage> messages;
  std::size_t reply_start = 0;  ///< where in `tokens` the reply to the last messages begins
  std::optional<Sampler> sampler;  ///< of the last generation
  double prompt_ms = 0;            ///< of the last prompt
  std::int64_t prompt_tokens = 0;
  SpeculationPolicy policy;

  State(Model m, SessionOptions o);
  Forward& engine();
  /// What waits to be read for the logits of the next token: tokens not in the cache yet, at least the last one.
  [[nodiscard]] Forward::Sequence unread();
  /// Reads it, and knows the logits afterwards.
  void catch_up();
  /// Puts tokens into the cache: Forward::run with the progress of the options, whose exceptions come out too.
  void read(std::span<const TokenId> waiting, std::int64_t first_output,
            FunctionRef<void(std::int64_t, std::span<const float>)> sink, Forward::Output output = Forward::Output::logits);
  /// The same of several sessions, in passes that they share; the sink is given the index of the sequence first.
  static void read(std::span<State* const> states, std::span<const Forward::Sequence> sequences, Forward::Sink sink,
                   Forward::Output output = Forward::Output::logits);
  /// Throws invalid_argument unless `other` can be in a pass of this session's.
  void check_together(const State& other) const;
  /// Throws invalid_argument for what cannot be a way to generate here.
  void check(const GenerateOptions& options) const;
  void check(const Speculation& speculation) const;
  /// The sampler of a generation. Throws as its constructor does.
  [[nodiscard]] Sampler sampler_of(const Sampling& sampling) const;
  /// At most `most` guesses of what follows, as many as pay; none when no source has any.
  [[nodiscard]] Guesses guess(const Speculation& speculation, int most);
  /// What this session's model finds most probable after `past`, `count` tokens of it.
  [[nodiscard]] std::vector<TokenId> most_probable(std::span<const TokenId> past, int count);
  /// After tokens went: what was said can no longer be told apart from what was cut off.
  void forget_reply() noexcept;
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
