// What a session holds.
#pragma once

#include "bantam/model/forward.hpp"
#include "bantam/session/session.hpp"

namespace bantam::inline v0 {

struct Session::State {
  Model model;
  SessionOptions options;
  std::int64_t context;
  nn::KvCache cache;
  /// Made when it is first needed: a fork that only waits costs no threads.
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

  State(Model m, SessionOptions o);
  Forward& engine();
  /// Reads what waits, and knows the logits afterwards.
  void catch_up();
  /// Puts tokens into the cache: Forward::run with the progress of the options, whose exceptions come out too.
  void read(std::span<const TokenId> waiting, std::int64_t first_output, Forward::LogitsSink sink);
  /// Room for `count` more tokens, or invalid_argument.
  void check_room(std::int64_t count) const;
  /// Adds tokens to those that wait, and does `work` on them. What fails leaves the tokens as they were.
  void append(std::span<const TokenId> more, FunctionRef<void()> work);
};

}  // namespace bantam::inline v0
