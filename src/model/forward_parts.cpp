// Halves of layers, and the head, run alone: for calibration, which goes through a model layer by layer.
#include <numeric>

#include "bantam/model/forward.hpp"

namespace bantam::inline v0 {

void Forward::run_part(const LayerWeights& w, std::int64_t index, Half half, int until, std::span<float> hidden, const BesideStates& beside) {
  // Most layers have nothing behind their halves.
  if (half == Half::end && w.per_layer.gate.empty() && w.layer_scale.empty()) return;
  if (half == Half::cross && w.cross.o.empty()) return;
  const std::int64_t tokens = std::ssize(hidden) / config_.state_dim();
  // An expert that is run alone stands beside nothing.
  const bool parallel = config_.arch->parallel && !w.attention_norm.empty(), ends = until == nn::to_the_end;
  serve(w, index);
  const bool reads = half == Half::mixer && config_.layer(index).kv_layer >= 0;
  const bool kept = half == Half::mixer && beside.keys != nullptr;
  nn::SequenceState& state = kept ? *beside.keys : part_state_.emplace(config_.new_layer_state("f32", index));
  if (!reads) {
    state.truncate(0);
    state.extend(tokens);
  }
  BANTAM_ASSERT(state.tokens() == tokens);
  rows_.clear();
  for (std::int64_t t = 0; t < tokens; ++t) rows_.push_back({t});
  sequences_.assign(1, {&state, 0, tokens, 0});
  resize(tokens);
  nn::Mixer* const mixer = mixer_of(index);
  if (mixer != nullptr) mixer->plan(tokens, sequences_);
  if (ngrams_ && half == Half::mixer && config_.layer(index).reads_ngrams) {
    ngrams_->plan(tokens, sequences_);
    const std::int64_t width = config_.ngrams.all_width();
    for (std::int64_t t = 0; t < tokens; ++t) std::copy_n(beside.embeddings.data() + t * width, width, ngrams_->embedding(t));
  }
  part_inputs_ = ends ? nullptr : half == Half::feed_forward && is_latent_expert(w) ? &latent_expert_->inputs(until) : &inputs_of(index, half, until);
  settled();
  take_in(hidden);
  for (std::int64_t t = 0; !beside.layer_inputs.empty() && t < tokens; ++t) std::copy_n(beside.layer_inputs.data() + t * config_.dim, config_.dim, routed_.row(t));
  const nn::Pass pass = pass_on(team_);
  // Where both halves read the same state, what they add is added at the end of the second.
  if (parallel && half == Half::mixer && ends) return;
  if (half == Half::mixer || (parallel && ends)) {
    pass.for_rows(Work::positions, [&](Range part, int) {
      if (mixer != nullptr) mixer->find_angles(rows_, part);
    });
    const bool chosen = half == Half::mixer && beside.choice != nullptr;
    if (chosen && config_.layer(index).shares_choice) mixer->take_choice(*beside.choice);
    mix(pass, w, index, 0, half == Half::mixer ? until : nn::to_the_end);
    if (chosen && config_.lends_choice(index)) mixer->keep_choice(tokens, *beside.choice);
  }
  if (half == Half::cross) {
    read_source(w, beside.source);
    cross(pass, w, 0, until);
  }
  if (half == Half::feed_forward) feed_forward(pass, w, index, parallel && ends, until, beside.input_scales);
  if (half == Half::end) end_layer(pass, w, {beside.embeddings.data(), config_.per_layer_dim}, until);
  if (ends) settle_in(hidden);
}

std::span<const nn::RoutedExpert> Forward::route(const LayerWeights& w) noexcept {
  const nn::Activations* routed = routed_of(pass_on(team_), w);
  experts_->route(pass_on(team_), w.experts, routed != nullptr ? *routed : normed_, false);
  return experts_->routed(std::ssize(rows_));
}

void Forward::end_half(const LayerWeights& w, std::int64_t index, const InputGroup& group, TensorView<const float, 2> inputs, std::span<float> hidden) {
  // Of several residual streams halves begin or end with more.
  BANTAM_ASSERT(!config_.has_streams());
  const std::int64_t tokens = inputs.extent(0);
  const Role role = group.roles[0];
  const WeightMatrix& last = *matrix_of(w, role);
  nn::Activations& x = inputs_of(index, group.half, group.number);
  serve(w, index);
  rows_.assign(static_cast<std::size_t>(tokens), {});
  resize(tokens);
  x.resize(tokens, last.columns());
  take_in(hidden);
  const nn::Pass pass = pass_on(team_);
  pass.for_rows(Work::rounding, [&](Range part, int) {
    for (std::int64_t t = part.begin; t < part.end; ++t) {
      std::copy_n(&inputs(t, 0), inputs.extent(1), x.row(t));
      x.quantize_row(kernels_, t);
      x.gather_row(kernels_, {&last}, t);
    }
  });
  const std::vector<float>* bias = bias_of(w, role);
  nn::linear(pass, x, {{last, bias != nullptr ? bias->data() : nullptr, branch_.output()}});
  settled();
  group.half == Half::end ? add_later(branch_.output(), w.per_layer.norm) : add_later(branch_.output(), w, group.half);
  if (group.half == Half::end && !w.layer_scale.empty()) pending_scale_ = w.layer_scale[0];
  settle_in(hidden);
}

nn::Activations& Forward::inputs_of(std::int64_t layer, Half half, int group) noexcept {
  if (group == 0) return normed_;
  if (half == Half::end) return per_layer_->hidden();
  if (half == Half::cross) return group == 1 ? source_ : cross_->attended();
  return half == Half::mixer ? mixer_of(layer)->inputs(group) : mlp_.hidden();
}

TensorView<const float, 2> Forward::inputs() const noexcept {
  const nn::Activations& x = *part_inputs_;
  return {x.row(0), {x.tokens(), x.columns()}, {x.floats().stride, 1}};
}

void Forward::run_head(std::span<const float> hidden, FunctionRef<void(std::int64_t, std::span<const float>)> sink) {
  const auto width = static_cast<std::size_t>(config_.state_dim()), vocab = static_cast<std::size_t>(config_.vocab);
  constexpr auto most = static_cast<std::size_t>(outputs_at_once);
  logits_.ensure(most * vocab);
  residual_.ensure(most * static_cast<std::size_t>(config_.dim));
  if (streams_) streams_->resize(outputs_at_once);
  headed_.resize(outputs_at_once, config_.dim);
  const std::size_t tokens = hidden.size() / width;
  std::vector<std::int64_t> rows;
  for (std::size_t first = 0; first < tokens; first += rows.size()) {
    rows.resize(std::min(most, tokens - first));
    std::iota(rows.begin(), rows.end(), 0);
    if (connections_) connections_->resize(std::ssize(rows));
    take_in(hidden.subspan(first * width, rows.size() * width));
    rows_.assign(rows.size(), {});
    merge_streams(pass_on(team_));
    head(rows);
    for (std::size_t i = 0; i < rows.size(); ++i) sink(static_cast<std::int64_t>(first + i), {logits_.data() + i * vocab, vocab});
  }
}

}  // namespace bantam::inline v0
