// Adapters merged into the weights of a checkpoint, matrix by matrix as they are read.
#include <map>
#include <mutex>

#include "bantam/model/adapter.hpp"
#include "bantam/model/checkpoint.hpp"
#include "bantam/model/roles.hpp"
#include "bantam/quant/formats.hpp"
#include "sources/transforms.hpp"

namespace bantam::inline v0 {

namespace {

/// W + sum of scale B A, summed up in double precision and rounded to f32 once.
class Merged final : public MatrixSource {
 public:
  struct Term {
    nn::LowRank update;
    double scale;
    std::int64_t first_row = 0;  ///< that it is added to: of a head's matrix among those of all
  };

  Merged(SharedSource from, std::vector<Term> terms) : MatrixSource(from->description() + ", merged", from->rows(), from->columns()), from_(std::move(from)), terms_(std::move(terms)) {
    doubt_ = from_->doubt();
    parts_ = from_->parts();
    format_ = &format_info<F32Format>();
  }
  [[nodiscard]] std::int64_t stored_bytes() const noexcept override { return from_->stored_bytes(); }
  void read_row(std::int64_t row, std::span<float> out, RowCodes& scratch) const override {
    const auto kept = read();
    from_->read_row(row, out, scratch);
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
    }
    for (std::size_t c = 0; c < sums.size(); ++c) out[c] = static_cast<float>(sums[c]);
  }
  void drop() const noexcept override {
    const std::lock_guard lock(mutex_);
    kept_ = nullptr;
    from_->drop();
  }

 private:
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
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Narrow> kept_;
};

}  // namespace

Checkpoint Checkpoint::merged(std::span<const ScaledAdapter> adapters) const {
  std::map<TensorId, std::vector<Merged::Term>> terms;
  for (const ScaledAdapter& one : adapters) {
    one.adapter.check_fits(config_);
    for (const AdapterMatrix& m : one.adapter.matrices()) {
      if (m.id.role == Role::head && config_.tied) fail(Errc::unsupported, one.adapter.path().string(), ": changes of a head that is the embedding: not to be merged");
      const bool by_heads = info_of(m.id.role).by_heads;
      terms[by_heads ? TensorId(m.id.role, m.id.layer) : m.id].push_back(
          {m.update, static_cast<double>(one.scale) * static_cast<double>(m.update.scale), by_heads ? m.id.expert * m.update.b.rows() : 0});
    }
  }
  Checkpoint c = *this;
  if (terms.empty()) return c;
  c.weights_ = nullptr;
  c.merged_ = fingerprint_of(adapters);
  for (CheckpointTensor& tensor : c.tensors_) {
    if (const auto found = terms.find(tensor); found != terms.end()) tensor.source = std::make_shared<Merged>(std::move(tensor.source), std::move(found->second));
  }
  return c;
}

}  // namespace bantam::inline v0
