// Formats beside what pruning leaves: which hold it.
#pragma once

#include "bantam/prune/mask.hpp"
#include "bantam/quant/format_info.hpp"

namespace bantam::inline v0 {

/// Whether a format holds 0 exactly, on whatever grid: those with minimums and iq4 do not. What is removed has to stay so.
[[nodiscard]] bool holds_zero(const FormatInfo& format);
/// Whether a format holds whatever such a sparsity leaves; those that hold all weights do.
[[nodiscard]] bool holds_rest(const FormatInfo& format, const Sparsity& sparsity) noexcept;
/// The same for one mask.
[[nodiscard]] bool holds_rest(const FormatInfo& format, const Mask& mask) noexcept;
/// The sparsity that leaves what a format holds; none for those that hold all weights.
[[nodiscard]] Sparsity sparsity_of(const FormatInfo& format) noexcept;

}  // namespace bantam::inline v0
