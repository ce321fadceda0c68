// Hidden states, carried block by block, and what they are seen to be.
#include "block_pass.hpp"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <numeric>

#include "bantam/calibrate/product.hpp"
#include "bantam/core/parallel.hpp"

namespace bantam::inline v0 {

namespace {

/// Numbers that observe() keeps at most.
constexpr std::size_t most_kept = (std::size_t{1} << 28) / sizeof(float);

}  // namespace

BlockPass::BlockPass(const ModelSource& source, const Calibration& calibration, bool judged)
    : source_(source), checkpoint_(source.checkpoint()), judges_(input_groups().size()), seen_(input_groups().size()), keys_(checkpoint_.config()),
      original_keys_(checkpoint_.config()), embeddings_(source), streams_(source), judged_(judged) {
  const ModelConfig& config = checkpoint_.config();
  std::int64_t longest = 0;
  if (std::ranges::all_of(calibration.samples, [](const std::vector<TokenId>& sample) { return sample.empty(); })) {
    fail(Errc::invalid_argument, "calibration: expected text, found none");
  }
  const auto take = [&](const std::vector<std::vector<TokenId>>& samples) {
    for (const std::vector<TokenId>& sample : samples) {
      if (sample.empty()) continue;
      lengths_.push_back(static_cast<std::int64_t>(sample.size()));
      longest = std::max(longest, lengths_.back());
      check_positions(config, lengths_.back(), "calibration: a sample");
      for (const TokenId id : sample) {
        if (id < 0 || id >= config.vocab) fail(Errc::invalid_argument, "calibration: expected token ids below ", config.vocab, ", found ", id);
        tokens_.push_back(id);
      }
    }
  };
  take(calibration.samples);
  fitted_ = tokens_.size() * static_cast<std::size_t>(config.state_dim());
  if (judged) take(calibration.held_out);
  embed(config.has_source() ? Stack::encoder : Stack::decoder);
  forward_ = std::make_unique<Forward>(config, none_, longest, parallel_threads());
}

/// The first hidden states of all samples. A decoder behind an encoder reads its start and then what the encoder reads, but for the last token.
void BlockPass::embed(Stack stack) {
  const ModelConfig& config = checkpoint_.config();
  const auto embedding = std::ranges::find(checkpoint_.tensors(), Role::embedding, &CheckpointTensor::role);
  const auto dim = static_cast<std::size_t>(config.dim), width = static_cast<std::size_t>(config.state_dim());
  const bool shifted = config.has_source() && stack == Stack::decoder;
  hidden_.resize(tokens_.size() * width);
  RowCodes scratch;
  std::size_t at = 0;
  for (const std::int64_t length : lengths_) {
    for (std::int64_t position = 0; position < length; ++position, ++at) {
      const TokenId id = !shifted ? tokens_[at] : position == 0 ? static_cast<TokenId>(config.decoder_start) : tokens_[at - 1];
      source_.embed(*embedding, id, position, std::span(hidden_).subspan(at * width, dim), scratch, stack);
    }
  }
  streams_.spread(hidden_);
  checkpoint_.drop(*embedding);
}

void BlockPass::enter(std::int64_t layer) {
  const ModelConfig& config = checkpoint_.config();
  if (!config.has_source() || layer < config.encoder_layers || !source_states_.empty()) return;
  std::vector<float> norm, bias;
  for (const CheckpointTensor& tensor : checkpoint_.tensors()) {
    if (tensor.role == Role::encoder_norm) norm = source_.load_vector(tensor);
    if (tensor.role == Role::encoder_norm_bias) bias = source_.load_vector(tensor);
  }
  const auto normed = [&](std::vector<float> states) {
    for (std::size_t at = 0; at < states.size(); at += static_cast<std::size_t>(config.dim)) normalize_row(kernels_in_use(), config, states.data() + at, norm, bias, states.data() + at);
    return states;
  };
  source_states_ = normed(std::move(hidden_));
  if (!original_.empty()) original_source_states_ = normed(std::move(original_));
  const bool follows = !original_source_states_.empty();
  hidden_.clear();
  embed(Stack::decoder);
  if (follows) original_ = hidden_;
}

void BlockPass::keep_judges(std::size_t group, std::span<const float> hidden, TensorView<const float, 2> inputs) {
  constexpr std::int64_t most = 256;  // of samples; of tokens that are held out there are no more
  std::vector<float>& kept = judges_[group];
  const bool any_held_out = fitted_ < hidden_.size();
  if (!judged_ || any_held_out != is_held_out(hidden)) return;
  for (std::int64_t t = 0; t < inputs.extent(0); ++t) {
    if (!any_held_out && static_cast<std::int64_t>(kept.size()) >= most * inputs.extent(1)) return;
    kept.insert(kept.end(), &inputs(t, 0), &inputs(t, 0) + inputs.extent(1));
  }
}

void BlockPass::count(std::size_t group, TensorView<const float, 2> inputs) {
  std::mutex mutex;
  parallel_for(inputs.extent(0), 128, [&](Range tokens) {
    Histogram<float> histogram;
    for (std::int64_t t = tokens.begin; t < tokens.end; ++t) histogram.add({&inputs(t, 0), static_cast<std::size_t>(inputs.extent(1))});
    const std::lock_guard lock(mutex);
    seen_[group].merge(histogram);  // the same in any order
  });
}

std::span<float> BlockPass::original_of(std::span<const float> hidden) {
  return std::span(original_).subspan(static_cast<std::size_t>(hidden.data() - hidden_.data()), hidden.size());
}

Tensor<float, 2> BlockPass::original_inputs(const LayerWeights& original, std::int64_t layer, std::size_t group, std::span<const float> scales,
                                            std::span<const float> hidden) {
  const InputGroup& read = input_groups()[group];
  forward_->run_to(original, layer, read, original_of(hidden), beside(layer, read.half, original_keys_));
  const TensorView<const float, 2> x = forward_->inputs();
  Tensor<float, 2> inputs({x.extent(1), x.extent(0)});
  parallel_for(x.extent(1), 64, [&](Range range) {
    for (std::int64_t t = 0; t < x.extent(0); ++t) {
      for (std::int64_t c = range.begin; c < range.end; ++c) {
        inputs(c, t) = scales.empty() ? x(t, c) : x(t, c) / scales[static_cast<std::size_t>(c)];
      }
    }
  });
  return inputs;
}

BlockPass::Observed BlockPass::observe(const LayerWeights& block, std::int64_t layer, std::size_t group, const LayerWeights* original,
                                     std::span<const float> scales) {
  enter(layer);
  const std::int64_t columns = first_of(block, input_groups()[group])->columns(), dim = checkpoint_.config().dim;
  Observed sums{Hessian(columns), {}};
  seen_[group] = {};
  judges_[group].clear();
  if (original != nullptr) sums.input_error = Tensor<float, 2>({input_groups()[group].adds ? dim : columns, columns});
  std::size_t past = 0;  // what the samples so far had as inputs
  for_each_sample([&](std::span<float> hidden) {
    Tensor<float, 2> more;  // (columns, tokens): the inputs of the original, then what they have beside ours
    if (original != nullptr && input_groups()[group].adds) {
      const Half half = input_groups()[group].half;
      if (half == Half::mixer) keep_inputs(original_of(hidden), original_inputs_);
      forward_->run_half(*original, layer, half, original_of(hidden), beside(layer, half, original_keys_, true));
    } else if (original != nullptr) {
      more = original_inputs(*original, layer, group, scales, hidden);
    }
    forward_->run_to(block, layer, input_groups()[group], hidden, beside(layer, input_groups()[group].half, keys_));
    const TensorView<const float, 2> x = forward_->inputs();
    keep_judges(group, hidden, x);
    const bool fitted = !is_held_out(hidden);
    if (fitted) sums.hessian.add(x);
    if (fitted) count(group, x);
    const auto inputs = static_cast<std::size_t>(x.size());
    // Keys that others read and choices that they share are made by the whole half, and so are several residual streams.
    const ModelConfig& config = checkpoint_.config();
    const bool lends = input_groups()[group].half == Half::mixer && (config.lends_keys(layer) || config.lends_choice(layer));
    const bool ends_half = !config.has_streams() && last_of(block, input_groups()[group].half) == &input_groups()[group] && !parallel() && !lends && !(input_groups()[group].half == Half::feed_forward && !block.experts.experts.empty());
    if (ends_half && kept_.size() == past && past + inputs <= most_kept) {
      for (std::int64_t t = 0; t < x.extent(0); ++t) kept_.insert(kept_.end(), &x(t, 0), &x(t, 0) + x.extent(1));
    }
    past += inputs;
    if (original == nullptr || !fitted) return;
    if (input_groups()[group].adds) return add_products(sums.input_error, lacking(block, group, hidden, x), x);
    parallel_for(columns, 64, [&](Range range) {
      for (std::int64_t t = 0; t < x.extent(0); ++t) {
        for (std::int64_t c = range.begin; c < range.end; ++c) more(c, t) -= x(t, c);
      }
    });
    add_products(sums.input_error, more, x);
  });
  return sums;
}

Tensor<float, 2> BlockPass::lacking(const LayerWeights& block, std::size_t group, std::span<const float> hidden, TensorView<const float, 2> x) {
  const Role last = input_groups()[group].roles[0];
  const std::vector<float>* biases = bias_of(block, last);
  const Tensor<float, 2> added = outputs_of(*matrix_of(block, last), x);
  const std::span<const float> original = original_of(hidden);
  const std::int64_t dim = added.extent(1);
  // The residual stream gets so many times what the matrix makes.
  const ModelConfig& config = checkpoint_.config();
  const auto scale = static_cast<float>(config.scales.residual * (input_groups()[group].half == Half::feed_forward ? feed_forward_scale(config, block) : 1));
  Tensor<float, 2> lacking({dim, x.extent(0)});
  parallel_for(dim, 64, [&](Range rows) {
    for (std::int64_t t = 0; t < x.extent(0); ++t) {
      for (std::int64_t row = rows.begin; row < rows.end; ++row) {
        const auto at = static_cast<std::size_t>(t * dim + row);
        const float bias = biases != nullptr ? (*biases)[static_cast<std::size_t>(row)] : 0.0f;
        lacking(row, t) = (original[at] - (hidden[at] + scale * (added(t, row) + bias))) / scale;
      }
    }
  });
  return lacking;
}

std::vector<Hessian> BlockPass::observe_all(const LayerWeights& block, std::int64_t layer) {
  std::vector<std::size_t> groups(input_groups().size());
  std::iota(groups.begin(), groups.end(), 0);
  return observe_some(block, layer, groups);
}

std::vector<Hessian> BlockPass::observe_some(const LayerWeights& block, std::int64_t layer, std::span<const std::size_t> groups) {
  enter(layer);
  std::vector<Hessian> hessians;
  for (const std::size_t g : groups) {
    const WeightMatrix* reader = first_of(block, input_groups()[g]);
    hessians.emplace_back(reader == nullptr ? 0 : reader->columns());
  }
  seen_.assign(input_groups().size(), {});
  judges_.assign(input_groups().size(), {});
  std::vector<float> states;
  for_each_sample([&](std::span<const float> hidden) {
    states.assign(hidden.begin(), hidden.end());
    Half at = Half::mixer;  // that the states have come to
    keep_inputs(hidden, inputs_);
    for (std::size_t i = 0; i < groups.size(); ++i) {
      if (first_of(block, input_groups()[groups[i]]) == nullptr) continue;
      const InputGroup& group = input_groups()[groups[i]];
      for (; at < group.half; at = static_cast<Half>(static_cast<int>(at) + 1)) forward_->run_half(block, layer, at, states, beside(layer, at, keys_));
      forward_->run_to(block, layer, group, states, beside(layer, group.half, keys_));
      keep_judges(groups[i], hidden, forward_->inputs());
      if (is_held_out(hidden)) continue;
      hessians[i].add(forward_->inputs());
      count(groups[i], forward_->inputs());
    }
  });
  return hessians;
}

void BlockPass::keep_inputs(std::span<const float> states, std::vector<float>& inputs) {
  if (!checkpoint_.config().arch->routes_inputs) return;
  inputs.resize(hidden_.size());
  std::ranges::copy(states, inputs.begin() + static_cast<std::ptrdiff_t>(sample_.first));
}

void BlockPass::project(const Rotation& rotation, std::int64_t kept) {
  const std::int64_t dim = rotation.size();
  original_.resize(hidden_.size());
  for_each_sample([&](std::span<float> hidden) {
    Tensor<float, 2> states({static_cast<std::int64_t>(hidden.size()) / dim, dim});
    std::ranges::copy(hidden, states.span().begin());
    rotation.rotate_columns(states);
    std::ranges::copy(states.span(), original_of(hidden).begin());
    for (std::int64_t t = 0; t < states.extent(0); ++t) std::fill(&states(t, 0) + kept, &states(t, 0) + dim, 0.0f);
    std::ranges::copy(states.span(), hidden.begin());
  });
}

Hessian BlockPass::observe_here(const LayerWeights& block, std::int64_t layer, std::size_t group) {
  Hessian hessian = observe(block, layer, group).hessian;
  kept_.clear();  // the block is about to change
  return hessian;
}

void BlockPass::advance_over(const LayerWeights& block, std::int64_t layer) {
  for (const Half half : halves) advance(block, layer, half);
}

void BlockPass::advance(const LayerWeights& block, std::int64_t layer, Half half) {
  enter(layer);
  const std::vector<float> kept = std::exchange(kept_, {});
  const InputGroup* last = last_of(block, half);
  const std::int64_t width = checkpoint_.config().state_dim(), columns = last != nullptr ? first_of(block, *last)->columns() : 0;
  std::size_t past = 0;
  for_each_sample([&](std::span<float> hidden) {
    const std::int64_t tokens = static_cast<std::int64_t>(hidden.size()) / width;
    if (half == Half::mixer) keep_inputs(hidden, inputs_);
    if (past < kept.size()) {
      forward_->end_half(block, layer, *last, {kept.data() + past, {tokens, columns}}, hidden);
    } else {
      forward_->run_half(block, layer, half, hidden, beside(layer, half, keys_, true));
    }
    past += static_cast<std::size_t>(tokens * columns);
  });
}

void BlockPass::advance_original(const LayerWeights& original, std::int64_t layer, Half half) {
  if (original_.empty()) return;
  enter(layer);
  for_each_sample([&](std::span<float> hidden) {
    if (half == Half::mixer) keep_inputs(original_of(hidden), original_inputs_);
    forward_->run_half(original, layer, half, original_of(hidden), beside(layer, half, original_keys_, true));
  });
}

std::vector<nn::RoutedExpert> BlockPass::route(const LayerWeights& block, std::int64_t layer) {
  std::vector<nn::RoutedExpert> all;
  for_each_sample([&](std::span<float> hidden) {
    forward_->run_to(block, layer, group_of(Role::up), hidden, beside(layer, Half::feed_forward, keys_));
    const std::span<const nn::RoutedExpert> routed = forward_->route(block);
    all.insert(all.end(), routed.begin(), routed.end());
  });
  return all;
}

std::vector<double> BlockPass::expert_worth(const LayerWeights& block, std::int64_t layer, bool frequency) {
  const auto width = static_cast<std::size_t>(checkpoint_.config().state_dim());
  const auto visits = visits_of(route(block, layer), checkpoint_.config(), block);
  std::vector<double> worth(visits.size(), 0.0);
  for (std::size_t e = 0; e < visits.size(); ++e) {
    check_cancelled();
    if (frequency) worth[e] = static_cast<double>(visits[e].size());
    if (frequency || visits[e].empty()) continue;
    const LayerWeights alone = expert_alone(block, static_cast<std::int64_t>(e));
    constexpr std::size_t at_once = 512;
    for (std::size_t first = 0; first < visits[e].size(); first += at_once) {
      const auto some = std::span(visits[e]).subspan(first, std::min(at_once, visits[e].size() - first));
      const std::vector<float> added = outputs_of_expert(*forward_, alone, layer, hidden_, some);
      for (std::size_t i = 0; i < some.size(); ++i) {
        double squares = 0;
        for (std::size_t c = i * width; c < (i + 1) * width; ++c) squares += std::pow(static_cast<double>(added[c]), 2);
        worth[e] += static_cast<double>(some[i].weight) * std::sqrt(squares);
      }
    }
    worth[e] /= static_cast<double>(visits[e].size());
  }
  return worth;
}

Hessian BlockPass::observe_expert(const LayerWeights& alone, std::int64_t layer, std::size_t group, const ExpertInputs& expert, std::optional<Hessian>& of_all) {
  const bool reads_all = !input_groups()[group].adds;  // what gate and up read of a token, all experts read of it
  const std::vector<ExpertInput>& inputs = reads_all ? expert.own : expert.all;
  const std::int64_t fitted = fitted_tokens();
  const auto width = static_cast<std::size_t>(checkpoint_.config().state_dim());
  Hessian hessian(first_of(alone, input_groups()[group])->columns());
  judges_[group].clear();
  constexpr std::size_t at_once = 512;
  std::vector<float> states, scales;
  for (std::size_t begin = 0; begin < inputs.size();) {
    // Tokens that are held out are not run with others.
    const bool fits = inputs[begin].token < fitted;
    std::size_t end = begin;
    states.clear();
    scales.clear();
    for (; end < inputs.size() && end - begin < at_once && (inputs[end].token < fitted) == fits; ++end) {
      const auto row = std::span(hidden_).subspan(static_cast<std::size_t>(inputs[end].token) * width, width);
      states.insert(states.end(), row.begin(), row.end());
      scales.push_back(inputs[end].scale);
    }
    forward_->run_to(alone, layer, input_groups()[group], states, {.input_scales = scales});
    const TensorView<const float, 2> x = forward_->inputs();
    if (fits) {
      Tensor<float, 2> weighed({x.extent(0), x.extent(1)});
      for (std::int64_t t = 0; t < x.extent(0); ++t) {
        const float factor = std::sqrt(inputs[begin + static_cast<std::size_t>(t)].weight);
        for (std::int64_t c = 0; c < x.extent(1); ++c) weighed(t, c) = factor * x(t, c);
      }
      hessian.add(weighed);
      count(group, x);
    }
    keep_judges(group, std::span(hidden_).subspan(static_cast<std::size_t>(inputs[begin].token) * width), x);
    begin = end;
  }
  if (!reads_all || expert.share == 0) return hessian;
  if (!of_all) {
    of_all.emplace(checkpoint_.config().expert_dim());
    for_each_sample([&](std::span<float> hidden) {
      forward_->run_to(alone, layer, group_of(Role::up), hidden);
      if (!is_held_out(hidden)) of_all->add(forward_->inputs());
    });
  }
  hessian.blend(*of_all, expert.share);
  return hessian;
}

}  // namespace bantam::inline v0
