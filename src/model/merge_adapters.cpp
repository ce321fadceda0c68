// Adapters merged into the weights of a checkpoint, matrix by matrix as they are read.
#include <cmath>
#include <map>
#include <mutex>

#include "bantam/model/adapter.hpp"
#include "bantam/model/checkpoint.hpp"
#include "bantam/model/roles.hpp"
#include "bantam/quant/formats.hpp"
#include "sources/transforms.hpp"

namespace bantam::inline v0 {

namespace {

/// W + sum of scale B A, summed up in double precision and rounded to f32 once; W the matrix, or rows that stand in the place of its own. Where
/// there are magnitudes, each row is then made as long as they say, as it came out of the terms so far.
class Merged final : public MatrixSource {
 public:
  struct Term {
    nn::LowRank update;
    double scale;
    std::int64_t first_row = 0;  ///< that it is added to: of a head's matrix among those of all
    std::vector<float> magnitudes = {};
  };
  struct Changes {
    std::vector<Term> terms = {};
    std::vector<AdapterRows> rows = {};
  };

  Merged(SharedSource from, Changes changes)
      : MatrixSource(from->description() + ", merged", from->rows(), from->columns()), from_(std::move(from)), terms_(std::move(changes.terms)), rows_(std::move(changes.rows)) {
    for (const AdapterRows& rows : rows_) {
      std::map<std::int64_t, std::int64_t>& own = places_.emplace_back();
      for (std::size_t i = 0; i < rows.places.size(); ++i) own[rows.places[i]] = static_cast<std::int64_t>(i);
    }
    doubt_ = from_->doubt();
    parts_ = from_->parts();
    format_ = &format_info<F32Format>();
  }
  [[nodiscard]] std::int64_t stored_bytes() const noexcept override { return from_->stored_bytes(); }
  void read_row(std::int64_t row, std::span<float> out, RowCodes& scratch) const override {
    const auto kept = read();
    read_own(row, out, scratch);
    std::vector<double> sums(out.begin(), out.end());
    for (std::size_t i = 0; i < terms_.size(); ++i) {
      const Term& term = terms_[i];
      if (row < term.first_row || row >= term.first_row + term.update.b.rows()) continue;
      std::vector<float> b(static_cast<std::size_t>(term.update.rank()));
      term.update.b.read_row(row - term.first_row, b, scratch);
      for (std::int64_t r = 0; r < term.update.rank(); ++r) {
        const double factor = term.scale * static_cast<double>(b[static_cast<std::size_t>(r)]);
        const float* a = &(*kept)[i](r, 0);
        for (std::int64_t c = 0; c < columns_; ++c) sums[static_cast<std::size_t>(c)] += factor * static_cast<double>(a[c]);
      }
      if (!term.magnitudes.empty()) set_length(sums, static_cast<double>(term.magnitudes[static_cast<std::size_t>(row - term.first_row)]));
    }
    for (std::size_t c = 0; c < sums.size(); ++c) out[c] = static_cast<float>(sums[c]);
  }
  void drop() const noexcept override {
    const std::lock_guard lock(mutex_);
    kept_ = nullptr;
    from_->drop();
  }

 private:
  void read_own(std::int64_t row, std::span<float> out, RowCodes& scratch) const {
    for (std::size_t i = rows_.size(); i-- > 0;) {
      if (rows_[i].places.empty()) return rows_[i].values.read_row(row, out, scratch);
      if (const auto place = places_[i].find(row); place != places_[i].end()) return rows_[i].values.read_row(place->second, out, scratch);
    }
    from_->read_row(row, out, scratch);
  }
  static void set_length(std::vector<double>& row, double length) {
    double squares = 0;
    for (const double x : row) squares += x * x;
    const double factor = squares > 0 ? length / std::sqrt(squares) : 0;
    for (double& x : row) x *= factor;
  }
  using Narrow = std::vector<Tensor<float, 2>>;
  /// The A of each term in rows, which every row of the matrix needs.
  [[nodiscard]] std::shared_ptr<const Narrow> read() const {
    const std::lock_guard lock(mutex_);
    if (kept_ == nullptr) {
      auto all = std::make_shared<Narrow>();
      for (const Term& term : terms_) all->push_back(term.update.a.dequantize());
      kept_ = std::move(all);
    }
    return kept_;
  }

  const SharedSource from_;
  const std::vector<Term> terms_;
  const std::vector<AdapterRows> rows_;
  std::vector<std::map<std::int64_t, std::int64_t>> places_;  ///< of each of these: the row of the matrix, and its own
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Narrow> kept_;
};

}  // namespace

Checkpoint Checkpoint::merged(std::span<const ScaledAdapter> adapters) const {
  std::map<TensorId, Merged::Changes> changes;
  bool parts = false;  // a head from its embedding
  for (const ScaledAdapter& one : adapters) {
    one.adapter.check_fits(config_, AdapterUse::merge);
    for (const AdapterMatrix& m : one.adapter.matrices()) {
      parts = parts || m.id.layer < 0;
      const bool by_heads = info_of(m.id.role).by_heads;
      changes[by_heads ? TensorId(m.id.role, m.id.layer) : m.id].terms.push_back(
          {m.update, static_cast<double>(one.scale) * static_cast<double>(m.update.scale), by_heads ? m.id.expert * m.update.b.rows() : 0, m.magnitudes});
    }
    for (const AdapterRows& r : one.adapter.rows()) {
      // Trained tokens of a tied model are trained in both.
      parts = parts || r.places.empty();
      changes[r.id].rows.push_back(r);
    }
  }
  Checkpoint c = parts && config_.tied && config_.has_head ? untied() : *this;
  if (changes.empty()) return c;
  c.weights_ = nullptr;
  c.merged_ = fingerprint_of(adapters);
  for (CheckpointTensor& tensor : c.tensors_) {
    if (const auto found = changes.find(tensor); found != changes.end()) tensor.source = std::make_shared<Merged>(std::move(tensor.source), std::move(found->second));
  }
  return c;
}

}  // namespace bantam::inline v0
