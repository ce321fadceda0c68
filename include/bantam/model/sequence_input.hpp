// What a pass is given of each sequence, and what it hands out.
#pragma once

#include <cstdint>
#include <span>

#include "bantam/core/team.hpp"
#include "bantam/model/adapter.hpp"
#include "bantam/nn/sequence_state.hpp"
#include "bantam/text/tokenizer.hpp"

namespace bantam::inline v0 {

/// What one sequence has in a pass: tokens to read after those in its state, and from which of them on outputs are wanted.
struct SequenceInput {
  std::span<const TokenId> tokens = {};
  nn::SequenceState* state = nullptr;
  std::int64_t first_output = 0;
  /// Of a model with an encoder before its decoder: the text that the encoder reads, whole, before the decoder's first tokens, which are then
  /// `tokens`. Empty where the state has one from before.
  std::span<const TokenId> source = {};
  /// In the place of tokens: rows of the residual stream as the first layer reads them, (tokens, dim), as an encoder of images
  /// makes them. Neither embedded nor scaled; learned positions are added, and a norm behind the embedding is taken, as of tokens.
  std::span<const float> embeddings = {};
  /// Of each token its type, where the model has several: 1 for those of the second text of a pair. Empty: all 0.
  std::span<const std::uint8_t> types = {};
  /// Where the hidden state of every token goes, (tokens, dim), after the final norm: what a layer that drafts reads. Empty: nowhere.
  std::span<float> states = {};
  /// What is added to the model's matrices for this sequence, in this order.
  std::span<const ScaledAdapter> adapters = {};

  [[nodiscard]] std::int64_t length(std::int64_t dim) const noexcept {
    return embeddings.empty() ? std::ssize(tokens) : std::ssize(embeddings) / dim;
  }
};

/// What is handed out of a token: its logits (vocab), or what the head makes them of, the hidden state (dim) after the final norm.
enum class PassOutput : std::uint8_t { logits, state };
/// Called with (index of the sequence, index of the token in it, what is handed out), as SinkCalls says. Values live for the call.
using PassSink = FunctionRef<void(std::int64_t sequence, std::int64_t index, std::span<const float> values)>;
/// How a sink is called: in order on the calling thread; or from any of the engine's threads, several at once, in any order, where it does no
/// more than copy to places of its own. Such a sink must not throw. With many sequences one thread would copy for a tenth of a pass.
enum class SinkCalls : std::uint8_t { in_order, at_once };
/// Asked on the calling thread before each layer of more than one token, with the tokens read so far; false cancels.
using KeepGoing = FunctionRef<bool(std::int64_t tokens_read)>;

}  // namespace bantam::inline v0
