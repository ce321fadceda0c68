// Pairs of states and tokens through the layer that drafts.
#include "bantam/model/drafter.hpp"

#include <algorithm>

namespace bantam::inline v0 {

namespace {

ModelWeights weights_of_drafter(const ModelConfig& drafter, const ModelWeights& whole) {
  ModelWeights w;
  w.embedding = whole.embedding;
  w.head = whole.head;
  w.head_bias = whole.head_bias;
  w.layers = whole.drafting;
  const std::vector<float>& own = w.layers.front().drafting.final_norm;
  w.final_norm = own.empty() ? whole.final_norm : own;
  if (own.empty()) w.final_norm_bias = whole.final_norm_bias;
  complete(w, drafter);
  return w;
}

}  // namespace

Drafter::Drafter(const ModelConfig& config, const ModelWeights& weights, const MatrixSource* embedding, std::int64_t context_tokens, int threads)
    : config_(config.drafter()), weights_(weights_of_drafter(config_, weights)), own_(weights_.layers.front().drafting), embedding_(weights_.embedding, embedding), kernels_(kernels_in_use()),
      forward_(config_, weights_, context_tokens, threads), codes_(static_cast<std::size_t>(forward_.threads())) {
  pairs_.serve(kernels_, own_.projection);
}

/// projected = projection [norm(embedding of the token); norm(state of the one before)].
void Drafter::project(std::span<const TokenId> tokens, std::span<const float> states) {
  const std::int64_t count = std::ssize(tokens), dim = config_.dim;
  const auto scale = static_cast<float>(config_.scales.embedding);
  pairs_.resize(count, 2 * dim);
  projected_.resize(static_cast<std::size_t>(count * dim));
  embedding_.read(count, [&](std::int64_t t) { return tokens[static_cast<std::size_t>(t)]; });
  Team& team = forward_.team();
  team.deal(count, team.grain_of(count, 4), [&](Range part, int worker) {
    for (std::int64_t t = part.begin; t < part.end; ++t) {
      const std::span embedding(pairs_.row(t), static_cast<std::size_t>(dim));
      embedding_.copy(t, tokens[static_cast<std::size_t>(t)], embedding, codes_[static_cast<std::size_t>(worker)]);
      for (float& x : embedding) x *= scale;
      normalize_row(kernels_, config_, embedding.data(), own_.embedding_norm, {}, embedding.data());
      normalize_row(kernels_, config_, states.data() + t * dim, own_.state_norm, {}, embedding.data() + dim);
      pairs_.quantize_row(kernels_, t);
      pairs_.gather_row(kernels_, {&own_.projection}, t);
    }
  }, Work::lookups);
  nn::linear(kernels_, team, pairs_, {{own_.projection, nullptr, {projected_.data(), dim}}});
}

void Drafter::run(nn::SequenceState& draft_state, std::span<const TokenId> tokens, std::span<const float> states, std::span<float> logits, std::span<float> state) {
  const auto dim = static_cast<std::size_t>(config_.dim), most = static_cast<std::size_t>(Forward::largest_chunk);
  std::vector<float> left;  // states of a chunk, the last of which is wanted
  for (std::size_t first = 0; first < tokens.size(); first += most) {
    const std::size_t count = std::min(most, tokens.size() - first);
    const bool last = first + count == tokens.size();
    project(tokens.subspan(first, count), states.subspan(first * dim, count * dim));
    if (last) left.resize(count * dim);
    const SequenceInput input{.state = &draft_state, .first_output = static_cast<std::int64_t>(last ? count - 1 : count), .embeddings = projected_, .states = left};
    const auto keep = [&](std::int64_t, std::int64_t, std::span<const float> values) { std::ranges::copy(values, logits.begin()); };
    forward_.run({&input, 1}, keep, [](std::int64_t) { return true; });
  }
  std::ranges::copy(std::span<const float>(left).last(dim), state.begin());
}

}  // namespace bantam::inline v0
