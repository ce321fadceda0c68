// What an encoder makes of a text, for the decoder that answers it.
#include "bantam/model/forward.hpp"
#include "bantam/nn/source_state.hpp"

namespace bantam::inline v0 {

/// Reads the source of a sequence, whole: the state gets keys and values of what the encoder makes of it, for each layer behind.
void Forward::encode(const SequenceInput& input, KeepGoing keep_going) {
  const std::int64_t tokens = std::ssize(input.source);
  nn::SequenceState own = config_.new_layer_state("f32", 0);
  const SequenceInput source{.tokens = input.source, .state = &own, .adapters = input.adapters};
  nn::KvCache cache = config_.new_source(nn::kv_cache_of(*input.state).kind());
  cache.extend(tokens);
  clear();
  stack_ = Stack::encoder;
  take(source, {0, 0}, tokens);
  prepare({&source, 1});
  layers({0, config_.encoder_layers}, keep_going);
  for (std::int64_t i = config_.encoder_layers; i < config_.layers && !stopped_; ++i) {
    stopped_ = !keep_going(tokens);
    const std::shared_ptr<const LayerWeights> w = acquire(i);
    if (i + 1 < config_.layers) blocks_.prefetch(i + 1);
    if (!adapted_.empty()) adapt_layer(i, *w);
    const auto state_of = [&](std::int64_t t, float* out) {
      normalize_row(kernels_, config_, residual_.data() + t * config_.dim, weights_.encoder_norm, weights_.encoder_norm_bias, out);
    };
    remember(pass_on(team_), *w, i, state_of, cache);
  }
  if (stopped_) fail(Errc::cancelled, "cancelled while reading ", tokens, " tokens of the source");
  input.state->find<nn::SourceState>()->set(std::move(cache));
}

/// Keys and values of a layer, at its place in `cache`, of the encoder's states of a pass over the source.
void Forward::remember(const nn::Pass& pass, const LayerWeights& w, std::int64_t place, FunctionRef<void(std::int64_t, float*)> state_of, nn::KvCache& cache) {
  const nn::Readers readers = nn::CrossAttention::source_readers(w.cross);
  source_.resize(pass.tokens(), config_.dim);
  cross_->plan_source(pass.tokens());
  pass.for_rows(Work::rounding, [&](Range part, int) {
    for (std::int64_t t = part.begin; t < part.end; ++t) {
      state_of(t, source_.row(t));
      source_.quantize_row(kernels_, t);
      source_.gather_row(kernels_, readers, t);
    }
  });
  cross_->remember(pass, w.cross, place, source_, cache);
}

/// Makes keys and values of a source for a layer that is run alone over the rows at hand: `states`, (tokens, dim), as `remember` leaves them.
void Forward::read_source(const LayerWeights& w, std::span<const float> states) {
  const std::int64_t tokens = std::ssize(states) / config_.dim;
  BANTAM_ASSERT(tokens > 0);
  nn::KvCache cache({.layers = 1, .kv_heads = config_.heads, .head_dim = config_.head_dim}, "f32");
  cache.extend(tokens);
  const std::vector<nn::PassRow> rows(static_cast<std::size_t>(tokens));
  remember({kernels_, team_, rows, fetch_.level()}, w, 0, [&](std::int64_t t, float* out) { std::copy_n(states.data() + t * config_.dim, config_.dim, out); }, cache);
  std::vector<std::unique_ptr<nn::BlockState>> blocks;
  blocks.push_back(std::make_unique<nn::SourceState>(std::move(cache)));
  part_state_.emplace(std::move(blocks));
  sequences_.assign(1, {&*part_state_, 0, std::ssize(rows_), 0});
  cross_->plan(std::ssize(rows_), sequences_);
}

}  // namespace bantam::inline v0
