// Layers: branches on the residual stream, in phases that are dealt out to the team one after another.
#include <cmath>
#include <numbers>

#include "bantam/model/forward.hpp"

namespace bantam::inline v0 {

/// The rotations of some rows' positions.
void Forward::find_angles(Range rows) noexcept {
  for (const auto& mixer : mixers_) {
    if (mixer) mixer->find_angles(rows_, rows);
  }
}

/// residual = rows of the embedding, or those that came in their place.
void Forward::embed(Team& team) noexcept {
  const auto scale = static_cast<float>(config_.scales.embedding);
  pass_on(team).for_rows(Work::lookups, [&](Range part, int worker) {
    for (std::int64_t t = part.begin; t < part.end; ++t) {
      const std::span row(residual_.data() + t * config_.dim, static_cast<std::size_t>(config_.dim));
      const RowInput& input = inputs_[static_cast<std::size_t>(t)];
      RowCodes& codes = codes_[static_cast<std::size_t>(worker)];
      if (input.embedding != nullptr) {
        std::ranges::copy_n(input.embedding, config_.dim, row.begin());
      } else {
        embedding_.copy(t, input.id, row, codes);
        for (std::size_t c = 0; scale != 1 && c < row.size(); ++c) row[c] *= scale;
      }
      const std::span scratch(position_rows_[static_cast<std::size_t>(worker)].data(), weights_.position_embedding.empty() ? 0 : row.size());
      place_embedding(kernels_, config_, weights_, stack_, rows_[static_cast<std::size_t>(t)].position, input.type, row, scratch, codes);
      if (connections_) connections_->spread(t, row.data());
      for (std::int64_t head = 0; ngrams_ && head < config_.ngrams.all_heads(); ++head) {
        const std::int64_t place = t * config_.ngrams.all_heads() + head, width = config_.ngrams.width;
        ngram_embedding_.copy(place, ngram_ids_[static_cast<std::size_t>(place)], {ngrams_->embedding(t) + head * width, static_cast<std::size_t>(width)}, codes);
      }
    }
    find_angles(part);
  });
  if (!per_layer_) return;
  const nn::Pass pass = pass_on(team);
  pass.for_rows(Work::rounding, [&](Range part, int) {
    for (std::int64_t t = part.begin; t < part.end; ++t) {
      std::copy_n(residual_.data() + t * config_.dim, config_.dim, normed_.row(t));
      normed_.quantize_row(kernels_, t);
      normed_.gather_row(kernels_, {&weights_.per_layer_projection}, t);
    }
  });
  // Rows that came in the place of a token's are taken for those of the first, which pads.
  per_layer_->embed(pass, weights_.per_layer_projection, weights_.per_layer_norm, normed_, [&](std::int64_t t, std::span<float> out, RowCodes& codes) {
    per_layer_embedding_.copy(t, config_.per_layer_row(inputs_[static_cast<std::size_t>(t)].id), out, codes);
  });
  if (streams_) streams_->spread(pass, weights_.stream_projection, residual_.data());
}

/// What a branch made waits until the next one settles it row by row, for a barrier less.
void Forward::add_later(OutputRows rows, const std::vector<float>& norm, const std::vector<float>& bias, double scale) noexcept {
  Pending& p = pending_[pending_count_++];
  p.rows = rows;
  p.scale = static_cast<float>(config_.scales.residual * scale);
  p.norm.assign(norm.begin(), norm.end());  // there is room
  p.bias.assign(bias.begin(), bias.end());
}
void Forward::add_later(OutputRows rows, const LayerWeights& w, Half half) noexcept {
  half == Half::mixer   ? add_later(rows, w.attention_out_norm, w.attention_out_norm_bias)
  : half == Half::cross ? add_later(rows, w.cross_out_norm, w.cross_out_norm_bias)
                        : add_later(rows, w.ffn_out_norm, w.ffn_out_norm_bias, feed_forward_scale(config_, w));
}

/// Adds what waits to a row of the residual stream.
void Forward::settle(std::int64_t row) noexcept {
  if (streams_) settle_streams(row);
  float* x = residual_.data() + row * config_.dim;
  for (const Pending& p : std::span(pending_).first(pending_count_)) {
    float* more = p.rows.values + row * p.rows.stride;
    if (!p.norm.empty() && !config_.arch->norms_sums) normalize_row(kernels_, config_, more, p.norm, p.bias, more);
    if (p.scale != 1) {
      for (std::int64_t c = 0; c < config_.dim; ++c) more[c] *= p.scale;
    }
    if (connections_) {
      connections_->write(row, more);
    } else {
      kernels_.add(x, more, config_.dim);
    }
    if (!p.norm.empty() && config_.arch->norms_sums) normalize_row(kernels_, config_, x, p.norm, p.bias, x);
  }
  if (pending_scale_ == 1) return;
  for (std::int64_t c = 0; c < config_.dim; ++c) x[c] *= pending_scale_;
}

/// What a block that is run alone begins with.
void Forward::take_in(std::span<const float> hidden) noexcept {
  const std::int64_t dim = config_.dim, width = config_.state_dim(), tokens = std::ssize(hidden) / width;
  for (std::int64_t t = 0; t < tokens; ++t) {
    if (connections_) {
      std::copy_n(hidden.data() + t * width, width, connections_->row(t));
      continue;
    }
    std::copy_n(hidden.data() + t * width, dim, residual_.data() + t * dim);
    if (streams_) std::copy_n(hidden.data() + t * width + dim, width - dim, streams_->row(t));
  }
}

/// And its outputs, with what waits.
void Forward::settle_in(std::span<float> hidden) noexcept {
  const std::int64_t dim = config_.dim, width = config_.state_dim();
  pass_on(team_).for_rows(Work::norms, [&](Range part, int) {
    for (std::int64_t t = part.begin; t < part.end; ++t) {
      settle(t);
      if (connections_) {
        std::copy_n(connections_->row(t), width, hidden.data() + t * width);
        continue;
      }
      std::copy_n(residual_.data() + t * dim, dim, hidden.data() + t * width);
      if (streams_) std::copy_n(streams_->row(t), width - dim, hidden.data() + t * width + dim);
    }
  });
  settled();
}

/// Some layers of the rows of this pass; what they add is in residual_.
void Forward::layers(Range which, KeepGoing keep_going) {
  const std::int64_t tokens = std::ssize(rows_);
  Team& team = team_for(weights_.streamed_bytes / config_.layers * tokens);
  nn::Pass pass = pass_on(team);
  std::int64_t i = which.begin;
  const auto next_stretch = [&](std::int64_t number) { return acquire_keys(i, number); };
  const nn::MoreKeys more_keys = next_stretch;
  if (!stored_keys_.empty()) pass.more_keys = &more_keys;
  settled();
  if (!adapted_.empty()) adapt_model({});
  embed(team);
  for (; i < which.end; ++i) {
    if (tokens > 1 && !keep_going(tokens * (i - which.begin) / (which.end - which.begin))) {
      stopped_ = true;
      return;
    }
    const std::shared_ptr<const LayerWeights> w = acquire(i);
    // After the last comes the first of the next pass, which is not an encoder's.
    blocks_.prefetch(i + 1 < config_.layers ? i + 1 : config_.encoder_layers);
    if (!adapted_.empty()) adapt_layer(i, *w);
    if (!stored_keys_.empty()) (void)acquire_keys(i, 0);
    // What layer i of the model keeps of a sequence is at place i of its states.
    mix(pass, *w, i, config_.kv_place(i), nn::to_the_end);
    cross(pass, *w, i, nn::to_the_end);
    feed_forward(pass, *w, i, config_.arch->parallel, nn::to_the_end);
    end_layer(pass, *w, per_layer_ ? per_layer_->of_layer(i) : FloatRows(), nn::to_the_end);
  }
  pass.for_rows(Work::norms, [&](Range part, int) {
    for (std::int64_t t = part.begin; t < part.end; ++t) settle(t);
  });
  settled();
  merge_streams(pass);
}

/// residual = what the head reads, of models with several streams.
void Forward::merge_streams(const nn::Pass& pass) noexcept {
  if (streams_) streams_->merge(pass, weights_.stream_unembedding, residual_.data());
  if (!connections_) return;
  connections_->read(pass, weights_.head_streams_norm, weights_.head_streams_down, weights_.head_streams_up, nullptr, {residual_.data(), config_.dim}, [](std::int64_t) {}, [](std::int64_t) {});
}

/// What a layer that ends adds to a row of several residual streams, and what the next one begins with.
void Forward::settle_streams(std::int64_t row) noexcept {
  float* x = residual_.data() + row * config_.dim;
  if (pending_streams_.adds) {
    float* more = branch_.row(row);
    normalize_row(kernels_, config_, more, pending_streams_.norm, {}, more);
    for (std::int64_t i = 1; i < config_.streams; ++i) kernels_.add(streams_->stream(row, i), more, config_.dim);
    std::copy_n(streams_->active(row), config_.dim, x);
  }
  if (pending_streams_.predicts != nullptr) streams_->predict(*pending_streams_.predicts, row, x);
}

/// All of them, by what the layer has made of the active one; what a per-layer embedding reads, (dim).
const float* Forward::correct_streams(const LayerWeights& w, std::int64_t row) noexcept {
  float *x = residual_.data() + row * config_.dim, *scratch = branch_.row(row);
  streams_->correct(w.altup, row, x, scratch);
  for (std::int64_t c = 0; c < config_.dim; ++c) x[c] = streams_->active(row)[c] * w.altup.scale[static_cast<std::size_t>(c)];
  return x;
}

/// normed = norm(residual), times `scales` where there are some, rounded too, for `readers`; what waits is added first, unless the branch is
/// `beside` the one before.
void Forward::normalize(const nn::Pass& pass, const std::vector<float>& weight, const std::vector<float>& bias, bool beside, const nn::Readers& readers,
                        std::span<const float> scales) noexcept {
  pass.for_rows(Work::norms, [&](Range part, int) {
    for (std::int64_t t = part.begin; t < part.end; ++t) {
      if (!beside) settle(t);
      normalize_row(kernels_, config_, residual_.data() + t * config_.dim, weight, bias, normed_.row(t));
      for (std::int64_t c = 0; !scales.empty() && c < config_.dim; ++c) normed_.row(t)[c] *= scales[static_cast<std::size_t>(t)];
      normed_.quantize_row(kernels_, t);
      normed_.gather_row(kernels_, readers, t);
    }
  });
  if (!beside) settled();
}

/// normed = what a block reads of several streams, times `scales` where there are some, rounded too, for `readers`; what waits is added first.
void Forward::read_streams(const nn::Pass& pass, const nn::HyperConnectionWeights& w, const nn::Readers& readers, std::span<const float> scales) noexcept {
  const auto finish = [&](std::int64_t t) {
    for (std::int64_t c = 0; !scales.empty() && c < config_.dim; ++c) normed_.row(t)[c] *= scales[static_cast<std::size_t>(t)];
    normed_.quantize_row(kernels_, t);
    normed_.gather_row(kernels_, readers, t);
  };
  connections_->read(pass, w.norm, w.down, w.up, w.inject.data(), normed_.output(), [&](std::int64_t t) { settle(t); }, finish);
  settled();
}

/// Adds embeddings of n-grams to several streams, in the layer that reads such.
void Forward::add_ngrams(const nn::Pass& pass, const LayerWeights& w) noexcept {
  if (!ngrams_ || w.ngram.key.empty()) return;
  ngrams_->run(pass, w.ngram, *connections_, [&](std::int64_t t) { settle(t); });
  settled();
}

const nn::Activations* Forward::routed_of(const nn::Pass& pass, const LayerWeights& w) noexcept {
  const std::vector<float>& scale = w.experts.router_scale;
  if (config_.arch->routes_inputs) return &routed_;
  if (scale.empty()) return nullptr;
  const float shrink = 1 / std::sqrt(static_cast<float>(config_.dim));
  pass.for_rows(Work::routing, [&](Range part, int) {
    for (std::int64_t t = part.begin; t < part.end; ++t) {
      float* row = routed_.row(t);
      kernels_.rms_norm(residual_.data() + t * config_.dim, scale.data(), static_cast<float>(config_.norm_eps), row, config_.dim);
      for (std::int64_t c = 0; c < config_.dim; ++c) row[c] *= shrink;
    }
  });
  return &routed_;
}

/// Leaves what a layer reads to its router.
void Forward::keep_inputs(const nn::Pass& pass) noexcept {
  pass.for_rows(Work::norms, [&](Range part, int) {
    for (std::int64_t t = part.begin; t < part.end; ++t) {
      settle(t);
      std::copy_n(residual_.data() + t * config_.dim, config_.dim, routed_.row(t));
    }
  });
  settled();
}

/// Experts of layer `index`, as many at a time as are in memory.
void Forward::run_experts(const nn::Pass& pass, const LayerWeights& w, std::int64_t index, bool shared, OutputRows out) {
  experts_->run(pass, w.experts, normed_, shared, out, routed_of(pass, w),
                [&](std::span<std::int64_t> wanted) { return blocks_.acquire_experts(index, wanted); },
                config_.router.cold.matter() ? blocks_.cold_experts(index) : std::span<const std::uint8_t>());
}

/// Experts beside an MLP whose outputs are in branch_, each normed by itself before they are added up.
void Forward::add_apart(const nn::Pass& pass, const LayerWeights& w, std::int64_t index, bool has_mlp) {
  pass.for_rows(Work::norms, [&](Range part, int) {
    for (std::int64_t t = part.begin; t < part.end; ++t) normalize_row(kernels_, config_, residual_.data() + t * config_.dim, w.expert_norm, {}, normed_.row(t));
  });
  run_experts(pass, w, index, false, beside_.output());
  pass.for_rows(Work::norms, [&](Range part, int) {
    for (std::int64_t t = part.begin; t < part.end; ++t) {
      float *sum = branch_.row(t), *experts = beside_.row(t);
      normalize_row(kernels_, config_, experts, w.expert_out_norm, {}, experts);
      if (has_mlp) {
        normalize_row(kernels_, config_, sum, w.mlp_out_norm, {}, sum);
        kernels_.add(sum, experts, config_.dim);
      } else {
        std::copy_n(experts, config_.dim, sum);
      }
    }
  });
}

/// What comes behind the halves: a per-layer embedding, whose gate reads the residual stream as it is, or is now, and a scale of all.
void Forward::end_layer(const nn::Pass& pass, const LayerWeights& w, const FloatRows& embeddings, int until) noexcept {
  if (!w.per_layer.gate.empty()) {
    pass.for_rows(Work::norms, [&](Range part, int) {
      for (std::int64_t t = part.begin; t < part.end; ++t) {
        settle(t);
        std::copy_n(streams_ ? correct_streams(w, t) : residual_.data() + t * config_.dim, config_.dim, normed_.row(t));
        normed_.quantize_row(kernels_, t);
        normed_.gather_row(kernels_, {&w.per_layer.gate}, t);
      }
    });
    settled();
    if (until == 0) return;
    per_layer_->hide(pass, w.per_layer, normed_, embeddings);
    if (until != nn::to_the_end) return;
    per_layer_->project(pass, w.per_layer, branch_.output());
    if (!streams_) {
      add_later(branch_.output(), w.per_layer.norm);
    } else {
      pending_streams_.adds = true;
      pending_streams_.norm.assign(w.per_layer.norm.begin(), w.per_layer.norm.end());  // there is room
    }
  }
  if (until == nn::to_the_end && !w.layer_scale.empty()) pending_scale_ = w.layer_scale[0];
}

/// The first half of layer `index`, whose state of a sequence is at `place`, as far as `until`.
void Forward::mix(const nn::Pass& pass, const LayerWeights& w, std::int64_t index, std::int64_t place, int until) {
  nn::Mixer* const mixer = mixer_of(index);
  if (mixer == nullptr) return;
  const LayerSpec& spec = config_.layer(index);
  if (config_.arch->routes_inputs) keep_inputs(pass);
  if (streams_) pending_streams_.predicts = &w.altup;
  add_ngrams(pass, w);
  connections_ ? read_streams(pass, w.mixer_streams, mixer->readers(w)) : normalize(pass, w.attention_norm, w.attention_norm_bias, false, mixer->readers(w));
  mixer->run(pass, w, {.place = place, .window = spec.window, .rope = spec.rope}, normed_, branch_.output(), until);
  if (until != nn::to_the_end) return;
  add_later(branch_.output(), w, Half::mixer);
  if (!laurel_) return;
  laurel_->run(pass, w.laurel, normed_, beside_.output());
  add_later(beside_.output(), w.laurel.norm);
  add_later(normed_.output(), {});  // until the next norm is taken, which settles it first
  pending_scale_ = static_cast<float>(1 / std::numbers::sqrt2);
}

/// What a decoder's layer reads of an encoder, whose keys and values are at `place` of the state, as far as `until`.
void Forward::cross(const nn::Pass& pass, const LayerWeights& w, std::int64_t place, int until) noexcept {
  if (w.cross.o.empty()) return;
  normalize(pass, w.cross_norm, w.cross_norm_bias, false, nn::CrossAttention::readers(w.cross));
  if (until <= 1) return;  // keys and values are made before
  cross_->run(pass, w.cross, place, normed_, branch_.output(), until);
  if (until == nn::to_the_end) add_later(branch_.output(), w, Half::cross);
}

/// The second half: an MLP, experts, or both side by side. `beside`: it reads the state that attention read.
void Forward::feed_forward(const nn::Pass& pass, const LayerWeights& w, std::int64_t index, bool beside, int until, std::span<const float> scales) {
  if (!config_.layer(index).has_feed_forward()) return;
  const bool has_mlp = !w.mlp.down.empty();
  const bool own_norm = !config_.arch->parallel || !w.ffn_norm.empty();
  nn::RowBuffer& out = beside ? beside_ : branch_;
  const bool latent = is_latent_expert(w);
  const nn::Readers readers = latent ? nn::LatentExpert::readers(w.experts) : has_mlp ? nn::Mlp::readers(w.mlp) : nn::Readers{};
  // Beside attention and without a norm of its own it reads what attention read, rounded, too; but for orders of columns.
  if (connections_) {
    read_streams(pass, w.ffn_streams, readers, scales);
  } else if (own_norm || !beside || normed_.has_orders()) {
    normalize(pass, own_norm ? w.ffn_norm : w.attention_norm, own_norm ? w.ffn_norm_bias : w.attention_norm_bias, beside, readers, scales);
  }
  if (latent) {
    latent_expert_->narrow(pass, w.experts, w.mlp, normed_);
    if (until == 0) return;
    latent_expert_->hide(pass, w.mlp);
    if (until != nn::to_the_end) return;
    latent_expert_->project(pass, w.experts, w.mlp, out.output());
    return add_later(out.output(), w, Half::feed_forward);
  }
  if (until == 0) return;
  if (has_mlp) mlp_.hide(pass, w.mlp, normed_);
  if (until != nn::to_the_end) return;
  if (has_mlp) mlp_.project(pass, w.mlp, out.output());
  if (are_apart(w)) {
    add_apart(pass, w, index, has_mlp);
  } else if (!w.experts.experts.empty()) {
    run_experts(pass, w, index, has_mlp, out.output());
  }
  add_later(out.output(), w, Half::feed_forward);
}

}  // namespace bantam::inline v0
