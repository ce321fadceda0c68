// Mixed precision on the command line: budgets, plans, what they were expected to cost.
#pragma once

#include <optional>

#include "bantam/compress/fit.hpp"
#include "output.hpp"

namespace bantam::cli {

/// "6GiB", "402MB", "1200000" (bytes) or "3.5bpw". UsageError for anything else.
[[nodiscard]] Budget parse_budget(const std::string& text);
/// "6GiB", "402MB" or "1200000" (bytes), of an option. UsageError for anything else.
[[nodiscard]] std::int64_t parse_size(std::string_view option, const std::string& text);
/// Formats by name, separated by commas. UsageError for one that is not there.
[[nodiscard]] std::vector<const FormatInfo*> parse_candidates(const std::string& names);

/// Measures, then allocates; a bar shows how far it is.
[[nodiscard]] Fit fit_to_budget(const Checkpoint& checkpoint, const Recipe& recipe, const Calibration& calibration,
                                Target target, const std::vector<const FormatInfo*>& candidates,
                                const std::string& budget, bool json);

/// For people: a line a matrix, or for experts of a layer in one format, then the totals.
[[nodiscard]] std::string plan_table(const Plan& plan, const std::optional<Fit>& fit);
/// {bytes_before, bytes, bits_per_weight, expected_kl, layers: [{name, format, bytes_before, bytes, expected_kl}]}, the
/// expectations where there is a fit.
[[nodiscard]] Json plan_json(const Plan& plan, const std::optional<Fit>& fit);

}  // namespace bantam::cli
