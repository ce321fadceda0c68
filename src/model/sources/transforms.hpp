// Matrices made of others: some of their rows or columns, their transpose, several in one. They compose.
#pragma once

#include <array>

#include "bantam/model/matrix_source.hpp"

namespace bantam::inline v0 {

/// Indices of an axis in some order: `first` and the steps of three nested loops, the last of which is the innermost, as in a strided view.
struct Selection {
  struct Loop {
    std::int64_t count = 1, step = 0;
  };
  std::int64_t first = 0;
  std::array<Loop, 3> loops;

  [[nodiscard]] static constexpr Selection every(std::int64_t first, std::int64_t step, std::int64_t count) noexcept {
    return {first, {{{}, {}, {count, step}}}};
  }
  [[nodiscard]] static constexpr Selection run(std::int64_t first, std::int64_t count) noexcept { return every(first, 1, count); }
  /// From pairs that are neighbors to pairs half a head apart: element i of half j of a head is at 2 i + j.
  [[nodiscard]] static constexpr Selection rope_halves(std::int64_t heads, std::int64_t head_dim) noexcept {
    return {0, {{{heads, head_dim}, {2, 1}, {head_dim / 2, 2}}}};
  }

  [[nodiscard]] constexpr std::int64_t count() const noexcept { return loops[0].count * loops[1].count * loops[2].count; }
  [[nodiscard]] constexpr std::int64_t operator[](std::int64_t i) const noexcept {
    const std::int64_t rest = i / loops[2].count;
    return first + rest / loops[1].count * loops[0].step + rest % loops[1].count * loops[1].step + i % loops[2].count * loops[2].step;
  }
  /// Calls f(index) for each in its order: no division, where there are many.
  template <class F>
  constexpr void for_each(F&& f) const {
    for (std::int64_t a = 0, at = first; a < loops[0].count; ++a, at += loops[0].step) {
      for (std::int64_t b = 0, of_b = at; b < loops[1].count; ++b, of_b += loops[1].step) {
        for (std::int64_t c = 0; c < loops[2].count; ++c) f(of_b + c * loops[2].step);
      }
    }
  }
  /// Whether all lie one behind the other.
  [[nodiscard]] constexpr bool is_run() const noexcept { return loops[2].count == count() && (loops[2].step == 1 || count() == 1); }
};

/// Any indices, one by one.
struct IndexList {
  std::vector<std::int64_t> indices;

  [[nodiscard]] std::int64_t count() const noexcept { return std::ssize(indices); }
  [[nodiscard]] std::int64_t operator[](std::int64_t i) const noexcept { return indices[static_cast<std::size_t>(i)]; }
  template <class F>
  void for_each(F&& f) const {
    for (const std::int64_t index : indices) f(index);
  }
};

using SharedSource = std::shared_ptr<const MatrixSource>;

/// In the same format: codes stay as they are.
[[nodiscard]] SharedSource select_rows(SharedSource from, const Selection& rows);
[[nodiscard]] SharedSource select_rows(SharedSource from, IndexList rows);
/// Number `index` of `count` matrices of the same size that stand in one below each other.
[[nodiscard]] SharedSource slice(SharedSource from, std::int64_t index, std::int64_t count);
/// Matrices of the same width below each other; in f32 where they have several formats or orders of columns.
[[nodiscard]] SharedSource stack(std::vector<SharedSource> matrices);
// These are in floats.
[[nodiscard]] SharedSource select_columns(SharedSource from, const Selection& columns);
[[nodiscard]] SharedSource select_columns(SharedSource from, IndexList columns);
/// Keeps what it has read of `from` until panels have been filled with all of it, or drop().
[[nodiscard]] SharedSource transpose(SharedSource from);
/// Each value plus `value`, in f32: norms that are stored less one.
[[nodiscard]] SharedSource offset(SharedSource from, float value);
/// Each row times its factor, in f32; one factor: all rows times it.
[[nodiscard]] SharedSource scaled(SharedSource from, std::vector<float> factors);
/// NVFP4: equal parts of the rows, one behind the other, each times its factor. Stays NVFP4.
[[nodiscard]] SharedSource scaled_nvfp4(SharedSource from, std::vector<float> factors);
/// All rows, one behind the other, as one.
[[nodiscard]] SharedSource as_row(SharedSource from);
/// -e^x of each value, in f32: decays that are stored as logs.
[[nodiscard]] SharedSource minus_exp(SharedSource from);
/// The same values; in f32 where the format is not of floats.
[[nodiscard]] SharedSource in_floats(SharedSource from);

}  // namespace bantam::inline v0
