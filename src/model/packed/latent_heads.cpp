// Slices of heads, as they are or transposed.
#include "latent_heads.hpp"

#include <algorithm>
#include <list>
#include <mutex>

namespace bantam::inline v0 {

namespace {

class LatentHeads final : public PackedMatrix {
 public:
  LatentHeads(LatentRows rows, const LatentShape& shape, const Fused& fused)
      : PackedMatrix(rows.description, shape.heads * (fused.transposed ? shape.rank : shape.value), fused.transposed ? shape.nope : shape.rank),
        rows_in_(std::move(rows)), shape_(shape), transposed_(fused.transposed) {
    parts_ = rows_in_.parts;
    format_ = rows_in_.format;
  }

  void read_row(std::int64_t row, std::span<float> out) const override {
    const std::int64_t both = shape_.nope + shape_.value;
    if (!transposed_) return rows_in_.read(row / shape_.value * both + shape_.nope + row % shape_.value, out);
    const auto head = head_of(row / shape_.rank);
    for (std::int64_t n = 0; n < shape_.nope; ++n) out[static_cast<std::size_t>(n)] = (*head)[static_cast<std::size_t>(n * shape_.rank + row % shape_.rank)];
  }
  [[nodiscard]] std::int64_t stored_bytes() const noexcept override {
    return PackedMatrix::stored_bytes() / (shape_.nope + shape_.value) * (transposed_ ? shape_.nope : shape_.value);
  }

 private:
  using Head = std::vector<float>;  ///< (nope, rank)
  /// Every row of the result needs all of its head's rows: a few heads are kept, for threads that are at different ones.
  [[nodiscard]] std::shared_ptr<const Head> head_of(std::int64_t head) const {
    constexpr std::size_t most_kept = 16;
    {
      const std::lock_guard lock(mutex_);
      const auto at = std::ranges::find(kept_, head, &std::pair<std::int64_t, std::shared_ptr<const Head>>::first);
      if (at != kept_.end()) return at->second;
    }
    auto read = std::make_shared<Head>(static_cast<std::size_t>(shape_.nope * shape_.rank));
    for (std::int64_t n = 0; n < shape_.nope; ++n) {
      rows_in_.read(head * (shape_.nope + shape_.value) + n, std::span(*read).subspan(static_cast<std::size_t>(n * shape_.rank), static_cast<std::size_t>(shape_.rank)));
    }
    const std::lock_guard lock(mutex_);
    kept_.emplace_front(head, read);
    if (kept_.size() > most_kept) kept_.pop_back();
    return read;
  }

  LatentRows rows_in_;
  LatentShape shape_;
  bool transposed_;
  mutable std::mutex mutex_;
  mutable std::list<std::pair<std::int64_t, std::shared_ptr<const Head>>> kept_;  ///< the newest first
};

}  // namespace

std::unique_ptr<const PackedMatrix> open_latent_heads(LatentRows rows, const LatentShape& shape, const Fused& fused) {
  return std::make_unique<LatentHeads>(std::move(rows), shape, fused);
}

}  // namespace bantam::inline v0
