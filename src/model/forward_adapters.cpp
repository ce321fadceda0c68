// What adapters add to the matrices of the layer at work.
#include "bantam/model/forward.hpp"

namespace bantam::inline v0 {

/// Which rows of a pass have adapters.
void Forward::find_adapted(std::span<const SequenceInput> sequences) {
  const auto alike = [](const ScaledAdapter& a, const ScaledAdapter& b) { return a.adapter.matrices().data() == b.adapter.matrices().data() && a.scale == b.scale; };
  adapted_.clear();
  adapted_ranks_ = 0;
  for (std::size_t n = 0; n < segments_.size(); ++n) {
    const std::span<const ScaledAdapter> adapters = sequences[static_cast<std::size_t>(segments_[n].input)].adapters;
    if (adapters.empty()) continue;
    const Range rows{sequences_[n].row, sequences_[n].row + sequences_[n].tokens};
    if (!adapted_.empty() && adapted_.back().rows.end == rows.begin && std::ranges::equal(adapted_.back().adapters, adapters, alike)) {
      adapted_.back().rows.end = rows.end;
      continue;
    }
    adapted_.push_back({rows, adapters});
    std::int64_t ranks = 0;
    for (const ScaledAdapter& one : adapters) ranks += round_up<std::int64_t>(one.adapter.rank(), 16);
    adapted_ranks_ = std::max(adapted_ranks_, ranks);
  }
  // What one call of linear() multiplies by.
  constexpr std::int64_t most_products = 6;
  if (!adapted_.empty()) terms_.resize(most_products * std::ssize(rows_), adapted_ranks_, team_.size());
}

/// What is added to the matrices of a layer.
void Forward::adapt_layer(std::int64_t layer, const LayerWeights& w) {
  terms_.clear();
  for (const AdaptedRows& part : adapted_) {
    for (const ScaledAdapter& one : part.adapters) {
      for (const AdapterMatrix& m : one.adapter.of_layer(layer)) {
        const bool by_heads = info_of(m.id.role).by_heads;
        terms_.add({.matrix = matrix_of(w, by_heads ? TensorId(m.id.role, layer) : m.id), .update = &m.update, .rows = part.rows, .scale = one.scale, .head = by_heads ? m.id.expert : 0});
      }
    }
  }
  if (!w.experts.experts.empty()) experts_->resize_terms(terms_.terms().size(), adapted_ranks_);
  if (nn::Mixer* mixer = mixer_of(layer)) mixer->resize_terms(terms_.terms().size(), adapted_ranks_);
}

/// The same of those of no layer, for all rows of the pass, or for `outputs`, ascending, which are the rows that the head reads.
void Forward::adapt_model(std::span<const std::int64_t> outputs) {
  terms_.clear();
  for (const AdaptedRows& part : adapted_) {
    Range rows = part.rows;
    if (!outputs.empty()) {
      rows.begin = std::ranges::lower_bound(outputs, part.rows.begin) - outputs.begin();
      rows.end = std::ranges::lower_bound(outputs, part.rows.end) - outputs.begin();
    }
    if (rows.begin == rows.end) continue;
    for (const ScaledAdapter& one : part.adapters) {
      for (const AdapterMatrix& m : one.adapter.of_layer(-1)) terms_.add({.matrix = matrix_of(weights_, m.id), .update = &m.update, .rows = rows, .scale = one.scale});
    }
  }
}

}  // namespace bantam::inline v0
