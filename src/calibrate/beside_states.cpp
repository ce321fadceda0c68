// Keys that are lent to later layers, per-layer embeddings, and those of n-grams, outside of a pass.
#include "beside_states.hpp"

#include <algorithm>
#include <set>

#include "bantam/calibrate/product.hpp"
#include "bantam/core/parallel.hpp"
#include "bantam/quant/formats.hpp"

namespace bantam::inline v0 {

template <class State, class Make>
State* LentStates::find(ByLayer<State>& states, std::int64_t place, std::size_t sequence, bool is_new, Make&& make) {
  auto& of_layer = states[place];
  of_layer.resize(std::max(of_layer.size(), sequence + 1));
  std::shared_ptr<State>& state = of_layer[sequence];
  if (is_new) state = std::make_shared<State>(make());
  BANTAM_ASSERT(state != nullptr);
  return state.get();
}

void LentStates::lend(std::int64_t layer, std::size_t sequence, bool keeps, BesideStates& to) {
  const LayerSpec& spec = config_->layer(layer);
  const bool reads_keys = spec.kv_layer >= 0;
  if (reads_keys || (keeps && config_->lends_keys(layer))) {
    to.keys = find(keys_, reads_keys ? spec.kv_layer : layer, sequence, !reads_keys, [&] { return config_->new_layer_state("f32", layer); });
  }
  if (spec.shares_choice || (keeps && config_->lends_choice(layer))) {
    to.choice = find(choices_, config_->choice_place(layer), sequence, !spec.shares_choice, [] { return nn::KeptChoice(); });
  }
}

NgramRows::NgramRows(const ModelSource& source) : source_(source) {
  const auto& tensors = source.checkpoint().tensors();
  if (const auto found = std::ranges::find(tensors, Role::ngram_embedding, &CheckpointTensor::role); found != tensors.end()) table_ = &*found;
}

std::span<const float> NgramRows::of(std::span<const TokenId> tokens) {
  const nn::NgramOptions& o = source_.checkpoint().config().ngrams;
  rows_.resize(tokens.size() * static_cast<std::size_t>(o.all_width()));
  parallel_for(std::ssize(tokens), 16, [&](Range range) {
    RowCodes scratch;
    std::vector<std::int64_t> ids(static_cast<std::size_t>(o.all_heads()));
    for (std::int64_t t = range.begin; t < range.end; ++t) {
      const auto before = [&](std::int64_t i) { return t < i ? TokenId{-1} : tokens[static_cast<std::size_t>(t - i)]; };
      nn::find_ngram_rows(o, before(0), before, ids);
      for (std::int64_t head = 0; head < o.all_heads(); ++head) {
        const std::int64_t at = t * o.all_width() + head * o.width;
        source_.read_row(*table_, ids[static_cast<std::size_t>(head)], std::span(rows_).subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(o.width)), scratch);
      }
    }
  });
  return rows_;
}

LayerEmbeddings::LayerEmbeddings(const ModelSource& source) : source_(source) {
  const ModelConfig& config = source.checkpoint().config();
  options_ = {.dim = config.dim, .width = config.per_layer_dim, .layers = config.layers, .norm_eps = config.norm_eps, .gate = config.gate};
  if (config.per_layer_dim == 0) return;
  for (const CheckpointTensor& tensor : source.checkpoint().tensors()) {
    if (tensor.role == Role::embedding) embedding_ = &tensor;
    if (tensor.role == Role::per_layer_embedding) table_ = &tensor;
    if (tensor.role == Role::per_layer_model_norm) norm_ = source.load_vector(tensor);
    if (tensor.role == Role::per_layer_model_projection) projection_ = source.checkpoint().load_matrix(tensor, Reading::buffered);
  }
}

void LayerEmbeddings::make(const std::vector<TokenId>& tokens) {
  const std::int64_t count = std::ssize(tokens), width = options_.width;
  Tensor<float, 2> embedded({count, options_.dim}), looked_up({count, width});
  parallel_for(count, 16, [&](Range range) {
    RowCodes scratch;
    std::vector<float> row(static_cast<std::size_t>(table_->columns));
    for (std::int64_t t = range.begin; t < range.end; ++t) {
      const TokenId id = tokens[static_cast<std::size_t>(t)];
      source_.embed(*embedding_, id, 0, {&embedded(t, 0), static_cast<std::size_t>(options_.dim)}, scratch);
      source_.read_row(*table_, source_.checkpoint().config().per_layer_row(id), row, scratch);
      std::copy_n(row.begin() + layer_ * width, width, &looked_up(t, 0));
    }
  });
  // This layer's rows of the projection.
  Tensor<float, 2> own({width, options_.dim});
  RowCodes scratch;
  for (std::int64_t r = 0; r < width; ++r) projection_.read_row(layer_ * width + r, {&own(r, 0), static_cast<std::size_t>(options_.dim)}, scratch);
  const Tensor<float, 2> projected = outputs_of(WeightMatrix::quantize(own, format_info<F32Format>()), embedded);
  for (std::int64_t t = 0; t < count; ++t) {
    std::vector<float>& row = known_[tokens[static_cast<std::size_t>(t)]];
    row.resize(static_cast<std::size_t>(width));
    nn::combine_per_layer(kernels_in_use(), options_, norm_, &projected(t, 0), &looked_up(t, 0), row.data());
  }
}

std::span<const float> LayerEmbeddings::of(std::int64_t layer, std::span<const TokenId> tokens) {
  if (options_.width == 0) return {};
  if (layer != layer_) known_.clear();
  layer_ = layer;
  std::set<TokenId> unknown;
  for (const TokenId id : tokens) {
    if (!known_.contains(id)) unknown.insert(id);
  }
  if (!unknown.empty()) make({unknown.begin(), unknown.end()});
  rows_.clear();
  for (const TokenId id : tokens) {
    const std::vector<float>& row = known_.at(id);
    rows_.insert(rows_.end(), row.begin(), row.end());
  }
  return rows_;
}

}  // namespace bantam::inline v0
