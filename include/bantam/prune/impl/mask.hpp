// Masks of one matrix: definitions of prune/mask.hpp.
#pragma once

#include <charconv>
#include <cmath>

#include "bantam/core/once.hpp"
#include "bantam/core/parallel.hpp"
#include "bantam/prune/mask.hpp"
#include "bantam/prune/smallest.hpp"

namespace bantam::inline v0 {

namespace detail::mask {

/// Patterns are for hardware that skips zeros, which knows 4 and 8; and GPTQ's blocks of columns hold whole ones.
inline constexpr int most_of = 64;

template <class T>
bool read_all(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

template <class T>
void mark_row(std::span<const T> scores, const Sparsity& sparsity, std::span<std::uint8_t> marks) {
  if (sparsity.of == 0) {
    return mark_smallest(scores, static_cast<std::size_t>(sparsity.share * static_cast<double>(scores.size())), marks);
  }
  const auto of = static_cast<std::size_t>(sparsity.of);
  for (std::size_t first = 0; first < scores.size(); first += of) {
    mark_smallest_of_few(scores.subspan(first, of), sparsity.zeros, marks.subspan(first, of));
  }
}

inline constexpr std::string_view blocks_text = "16x4";

BANTAM_ONCE float finite(TensorView<const float, 2> weights, std::int64_t row, std::int64_t column) {
  const float w = weights(row, column);
  if (!std::isfinite(w)) fail(Errc::invalid_argument, "mask: expected finite weights, found ", w, " at (", row, ", ", column, ")");
  return w;
}

/// The smallest products of sizes and `factors`, (columns), in each row.
BANTAM_ONCE Mask mask_of_rows(TensorView<const float, 2> weights, std::span<const double> factors, const Sparsity& sparsity) {
  const std::int64_t rows = weights.extent(0), columns = weights.extent(1);
  Mask mask({rows, columns});
  parallel_for(rows, 16, [&](Range range) {
    std::vector<double> scores(factors.size());
    for (std::int64_t r = range.begin; r < range.end; ++r) {
      for (std::int64_t c = 0; c < columns; ++c) {
        const auto i = static_cast<std::size_t>(c);
        scores[i] = std::fabs(static_cast<double>(finite(weights, r, c))) * factors[i];
      }
      mark_row(std::span<const double>(scores), sparsity, {&mask(r, 0), scores.size()});
    }
  });
  return mask;
}

/// The blocks of the smallest sums of such products.
BANTAM_ONCE Mask mask_of_blocks(TensorView<const float, 2> weights, std::span<const double> factors) {
  const std::int64_t columns = weights.extent(1);
  Mask mask({weights.extent(0), columns});
  for (std::int64_t first = 0; first < columns; first += blocks_columns) {
    mark_blocks(mask, first, std::min(first + blocks_columns, columns), [&](std::int64_t r, std::int64_t c) {
      return std::fabs(static_cast<double>(finite(weights, r, c))) * factors[static_cast<std::size_t>(c)];
    });
  }
  return mask;
}

/// What `sparsity` removes where rows are judged apart from each other, or blocks are.
BANTAM_ONCE Mask mask_of(TensorView<const float, 2> weights, std::span<const double> factors, const Sparsity& sparsity) {
  return sparsity.blocks ? mask_of_blocks(weights, factors) : mask_of_rows(weights, factors, sparsity);
}

}  // namespace detail::mask

BANTAM_ONCE Sparsity parse_sparsity(std::string_view text) {
  if (text == detail::mask::blocks_text) return Sparsity::of_blocks();
  const std::size_t colon = text.find(':');
  Sparsity sparsity;
  const bool read = colon == std::string_view::npos
                        ? detail::mask::read_all(text, sparsity.share)
                        : detail::mask::read_all(text.substr(0, colon), sparsity.zeros) && detail::mask::read_all(text.substr(colon + 1), sparsity.of);
  if (!read || (colon != std::string_view::npos && sparsity.of <= 0)) {
    fail(Errc::invalid_argument, "pruning: expected a share like 0.5, a pattern like 2:4, or 16x4, found ", printable(text));
  }
  check(sparsity);
  return sparsity;
}

BANTAM_ONCE std::string to_string(const Sparsity& sparsity) {
  if (sparsity.blocks) return std::string(detail::mask::blocks_text);
  return sparsity.of > 0 ? message(sparsity.zeros, ':', sparsity.of) : message(sparsity.share);
}

BANTAM_ONCE void check(const Sparsity& s) {
  if (s.blocks) return;
  if (s.of == 0 && !(s.share > 0 && s.share < 1)) {
    fail(Errc::invalid_argument, "pruning: expected a share above 0 and below 1, found ", s.share);
  }
  if (s.of != 0 && !(s.zeros > 0 && s.zeros < s.of && s.of <= detail::mask::most_of)) {
    fail(Errc::invalid_argument, "pruning: expected a pattern N:M of 0 < N < M <= ", detail::mask::most_of, ", found ", s.zeros, ':', s.of);
  }
}

BANTAM_ONCE void check(const Sparsity& sparsity, std::int64_t columns) {
  check(sparsity);
  if (sparsity.of > 0 && columns % sparsity.of != 0) {
    fail(Errc::invalid_argument, "pruning: expected rows of whole ", sparsity.of, "s for ", to_string(sparsity), ", found rows of ", columns);
  }
}

BANTAM_ONCE Mask magnitude_mask(TensorView<const float, 2> weights, const Sparsity& sparsity, MaskScope scope) {
  const std::int64_t rows = weights.extent(0), columns = weights.extent(1);
  check(sparsity, columns);
  if (scope == MaskScope::row || sparsity.of > 0 || sparsity.blocks) {
    return detail::mask::mask_of(weights, std::vector<double>(static_cast<std::size_t>(columns), 1.0), sparsity);
  }
  std::vector<float> sizes(static_cast<std::size_t>(rows * columns));
  parallel_for(rows, 16, [&](Range range) {
    for (std::int64_t r = range.begin; r < range.end; ++r) {
      for (std::int64_t c = 0; c < columns; ++c) sizes[static_cast<std::size_t>(r * columns + c)] = std::fabs(detail::mask::finite(weights, r, c));
    }
  });
  Mask mask({rows, columns});
  detail::mask::mark_row(std::span<const float>(sizes), sparsity, mask.span());
  return mask;
}

BANTAM_ONCE Mask wanda_mask(TensorView<const float, 2> weights, std::span<const float> mean_squares, const Sparsity& sparsity) {
  const std::int64_t columns = weights.extent(1);
  check(sparsity, columns);
  if (static_cast<std::int64_t>(mean_squares.size()) != columns) {
    fail(Errc::invalid_argument, "wanda: expected mean squares of ", columns, " inputs, found ", mean_squares.size());
  }
  std::vector<double> sizes;
  for (const float square : mean_squares) {
    if (!(square >= 0 && std::isfinite(square))) fail(Errc::invalid_argument, "wanda: expected finite mean squares, found ", square);
    sizes.push_back(std::sqrt(static_cast<double>(square)));
  }
  return detail::mask::mask_of(weights, sizes, sparsity);
}

BANTAM_ONCE Tensor<float, 2> masked(TensorView<const float, 2> weights, const Mask& mask) {
  if (weights.shape() != mask.shape()) {
    fail(Errc::invalid_argument, "mask: expected one of (", weights.extent(0), ", ", weights.extent(1), "), found (", mask.extent(0), ", ", mask.extent(1), ")");
  }
  Tensor<float, 2> left({weights.extent(0), weights.extent(1)});
  parallel_for(weights.extent(0), 16, [&](Range range) {
    for (std::int64_t r = range.begin; r < range.end; ++r) {
      for (std::int64_t c = 0; c < weights.extent(1); ++c) left(r, c) = mask(r, c) != 0 ? 0.0f : weights(r, c);
    }
  });
  return left;
}

}  // namespace bantam::inline v0
