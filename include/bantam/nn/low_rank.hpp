// What adapters add to matrices while a model runs: y += scale B (A x) (LoRA: Hu et al., arXiv:2106.09685, 4.1).
#pragma once

#include <algorithm>
#include <vector>

#include "bantam/nn/linear.hpp"

namespace bantam::inline v0::nn {

/// What is added to a matrix of `rows` rows and `columns` columns, of floats.
struct LowRank {
  WeightMatrix a;   ///< (rank, columns)
  WeightMatrix b;   ///< (rows, rank)
  float scale = 1;  ///< of the product of the two: alpha / rank

  [[nodiscard]] std::int64_t rank() const noexcept { return a.rows(); }
};

/// The same for some rows of a pass.
struct LowRankTerm {
  const WeightMatrix* matrix = nullptr;  ///< to whose products it is added, wherever that is multiplied by
  const LowRank* update = nullptr;
  Range rows = {};  ///< of the outputs
  float scale = 1;  ///< of the whole term
  std::int64_t inputs = 0;  ///< how many rows later their inputs are
  std::int64_t head = 0;    ///< that the update is of, where `matrix` has one of each head
};

/// What is added to the matrices of a layer in a pass, and buffers for it. A row gets its terms in the order of add(), each by sums of fixed
/// order: results depend neither on the other rows nor on the number of threads.
class LowRankTerms {
 public:
  /// Room for calls over so many rows of all products together, for which terms have up to `ranks` together, each rank rounded up to 16.
  void resize(std::int64_t rows, std::int64_t ranks, int workers) {
    narrow_.ensure(static_cast<std::size_t>(rows * ranks));
    wide_.resize(static_cast<std::size_t>(workers));
    for (auto& wide : wide_) wide.ensure(static_cast<std::size_t>(row_block * panel_block * panel_rows));
  }
  /// Room for so many terms: add() takes no memory then.
  void reserve(std::size_t count) {
    terms_.reserve(count);
    parts_.reserve(terms_.capacity());
    units_.reserve(terms_.capacity());
  }
  void clear() noexcept { terms_.clear(); }
  /// Throws out_of_memory.
  void add(const LowRankTerm& term) {
    // A call has each of them once at most, and may not allocate.
    if (terms_.size() == terms_.capacity()) reserve(2 * terms_.size() + 16);
    terms_.push_back(term);
  }
  [[nodiscard]] std::span<const LowRankTerm> terms() const noexcept { return terms_; }

  /// out += scale B (A x) of each product that has terms, whose outputs are there. x: (tokens, columns), floats. Two phases of the team's;
  /// none where no product has a term.
  void run(const KernelTable& kernels, Team& team, const Activations& x, std::span<const Product> products, Fetch fetch) noexcept {
    if (terms_.empty()) return;
    find(products);
    if (parts_.empty()) return;
    const std::int64_t narrow = units_.back();
    team.deal(narrow, team.grain_of(narrow, 2), [&](Range part, int) {
      for (std::int64_t unit = part.begin; unit < part.end; ++unit) project(kernels, x, unit, fetch);
    }, Work::adapters);
    const std::int64_t panels = detail::panels_of(products);
    team.deal(panels, team.grain_of(panels), [&](Range part, int worker) {
      std::int64_t first_panel = 0;  // of the product at hand, among all of them
      for (std::size_t i = 0; i < products.size(); ++i) {
        const std::int64_t count = div_up<std::int64_t>(products[i].w.rows(), panel_rows);
        const Range range{std::max<std::int64_t>(0, part.begin - first_panel), std::min(count, part.end - first_panel)};
        first_panel += count;
        if (range.begin < range.end) lift(kernels, products[i], i, range, wide_[static_cast<std::size_t>(worker)].data(), fetch);
      }
    }, Work::adapters);
  }

 private:
  // Rows and panels at a time: what they make stays in the first-level cache.
  static constexpr std::int64_t row_block = 32, panel_block = 8;

  /// A term of a call, with its place in narrow_.
  struct Part {
    const LowRankTerm* term;
    std::size_t product;
    std::int64_t at;
    std::int64_t stride;
  };

  /// The terms of a call's products, and how many units of work those up to each have.
  void find(std::span<const Product> products) noexcept {
    parts_.clear();
    units_.clear();
    std::int64_t at = 0, units = 0;
    for (std::size_t i = 0; i < products.size(); ++i) {
      for (const LowRankTerm& term : terms_) {
        if (term.matrix != &products[i].w) continue;
        const std::int64_t rows = term.rows.end - term.rows.begin, stride = round_up<std::int64_t>(term.update->rank(), 16);
        parts_.push_back({&term, i, at, stride});
        at += rows * stride;
        units += div_up(rows, row_block) * div_up<std::int64_t>(term.update->rank(), panel_rows);
        units_.push_back(units);
      }
    }
  }

  /// A block of rows and a panel of one A: narrow = A x.
  void project(const KernelTable& kernels, const Activations& x, std::int64_t unit, Fetch fetch) noexcept {
    const auto found = static_cast<std::size_t>(std::ranges::upper_bound(units_, unit) - units_.begin());
    const Part& part = parts_[found];
    const LowRank& update = *part.term->update;
    const std::int64_t within = unit - (found == 0 ? 0 : units_[found - 1]), panels = div_up<std::int64_t>(update.rank(), panel_rows);
    const std::int64_t first = within / panels * row_block, panel = within % panels, begin = part.term->rows.begin;
    const std::int64_t rows = std::min(row_block, part.term->rows.end - begin - first);
    float* out = narrow_.data() + part.at + first * part.stride;
    kernels_of(update.a.format(), kernels).matmul_f32(update.a.view(), x.floats().from(begin + first + part.term->inputs), {out, part.stride}, {rows, panel, panel + 1, fetch});
    // Formats may read columns in pairs.
    for (std::int64_t r = 0; panel + 1 == panels && update.rank() % 2 != 0 && r < rows; ++r) out[r * part.stride + update.rank()] = 0;
  }

  /// Some panels of one product: out += scale B narrow.
  void lift(const KernelTable& kernels, const Product& product, std::size_t number, Range panels, float* wide, Fetch fetch) noexcept {
    constexpr std::int64_t stride = panel_block * panel_rows;
    for (std::int64_t panel = panels.begin; panel < panels.end; panel += panel_block) {
      const std::int64_t count = std::min(panel_block, panels.end - panel), first = panel * panel_rows;
      const std::int64_t columns = std::min(count * panel_rows, product.w.rows() - first);
      for (const Part& part : parts_) {
        if (part.product != number) continue;
        const LowRank& update = *part.term->update;
        const float scale = update.scale * part.term->scale;
        const std::int64_t begin = part.term->rows.begin, rows = part.term->rows.end - begin;
        const WeightView b{update.b.view().data + panel * update.b.format().panel_bytes(update.rank()), columns, update.rank()};
        for (std::int64_t row = 0; row < rows; row += row_block) {
          const std::int64_t tokens = std::min(row_block, rows - row);
          const FloatRows narrow{narrow_.data() + part.at + row * part.stride, part.stride};
          kernels_of(update.b.format(), kernels).matmul_f32(b, narrow, {wide, stride}, {tokens, 0, count, fetch});
          for (std::int64_t r = 0; r < tokens; ++r) {
            float* out = product.out.values + (begin + row + r) * product.out.stride + first;
            for (std::int64_t c = 0; c < columns; ++c) out[c] += scale * wide[r * stride + c];
          }
        }
      }
    }
  }

  std::vector<LowRankTerm> terms_;
  std::vector<Part> parts_;            ///< of the call at hand
  std::vector<std::int64_t> units_;    ///< of these, each with those before
  AlignedBuffer<float> narrow_;        ///< of each part (rows, rank)
  std::vector<AlignedBuffer<float>> wide_;  ///< one a worker: (row_block, panel_block * panel_rows)
};

}  // namespace bantam::inline v0::nn
