// What blocks are run on: the rows of all sequences of a pass together, dealt out to a team.
#pragma once

#include <span>
#include <vector>

#include "bantam/core/team.hpp"
#include "bantam/kernels/table.hpp"
#include "bantam/nn/blocks/attention_kinds.hpp"
#include "bantam/nn/low_rank.hpp"
#include "bantam/nn/sequence_state.hpp"
#include "bantam/quant/strip16_layout.hpp"

namespace bantam::inline v0::nn {

/// One token of some sequence.
struct PassRow {
  std::int64_t position = 0;  ///< in its sequence
  std::int64_t sequence = 0;  ///< its number in the pass
};

/// Neighboring tokens of one sequence in a pass. Its state has room for them: a block finds its own part of it before the pass.
struct PassSequence {
  SequenceState* state = nullptr;
  std::int64_t row = 0;  ///< of the first of them, among the rows of the pass
  std::int64_t tokens = 0;
  std::int64_t position = 0;  ///< of the first of them
};

/// Phases that end in a barrier, on one team, over the same rows from block to block.
struct Pass {
  const KernelTable& kernels;
  Team& team;
  std::span<const PassRow> rows;
  Fetch fetch = Fetch::first_level;
  LowRankTerms* adapters = nullptr;  ///< what is added to the layer's matrices; null: nothing
  const MoreKeys* more_keys = nullptr;  ///< of the layer; null: all that rows see is in memory

  [[nodiscard]] std::int64_t tokens() const noexcept { return static_cast<std::int64_t>(rows.size()); }
  /// Calls f(range, worker) for parts of the rows: long enough for what they cost, which is little.
  void for_rows(Work work, FunctionRef<void(Range, int worker)> f) const noexcept { team.deal(tokens(), team.grain_of(tokens(), 4), f, work); }
  /// Calls f(row, unit, worker) for `units` of each row, some at a time.
  template <class F>
  void for_units(Work work, std::int64_t units, F&& f) const noexcept {
    const auto run = [&](Range part, int worker) {
      for (std::int64_t i = part.begin; i < part.end; ++i) f(i / units, i % units, worker);
    };
    team.deal(tokens() * units, team.grain_of(tokens() * units, 2), run, work);
  }
  /// Calls f(row, begin, end) for parts of (rows, columns), cut at blocks of columns: a single row is shared out too.
  template <class F>
  void for_parts(Work work, std::int64_t columns, F&& f) const noexcept {
    const std::int64_t blocks = div_up<std::int64_t>(columns, block_columns);
    const auto run = [&](Range part, int) {
      for (std::int64_t at = part.begin; at < part.end;) {
        const std::int64_t first = at % blocks;
        const std::int64_t last = std::min(blocks, first + part.end - at);
        f(at / blocks, first * block_columns, std::min(last * block_columns, columns));
        at += last - first;
      }
    };
    team.deal(tokens() * blocks, team.grain_of(tokens() * blocks, 2), run, work);
  }
};

/// A bias for a product: null where there is none.
[[nodiscard]] inline const float* values_of(const std::vector<float>& bias) noexcept { return bias.empty() ? nullptr : bias.data(); }

/// linear() of all rows of a pass, with what adapters add for their sequences.
inline void linear(const Pass& pass, const Activations& x, std::initializer_list<Product> list, Work work = Work::products) noexcept {
  linear(pass.kernels, pass.team, x, list, pass.fetch, work);
  if (pass.adapters != nullptr) pass.adapters->run(pass.kernels, pass.team, x, {list.begin(), list.size()}, pass.fetch);
}

}  // namespace bantam::inline v0::nn
