// Budgets and plans.
#include "fit.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "bantam/core/units.hpp"
#include "bantam/model/expert_names.hpp"
#include "options.hpp"
#include "progress.hpp"

namespace bantam::cli {

namespace {

/// 0.0123, 0.000123, 1.2e-07: four digits that count.
std::string in_nats(double kl) {
  if (kl == 0) return "0";
  const int digits = 3 - static_cast<int>(std::floor(std::log10(kl)));
  return digits > 9 ? "<1e-6" : fixed(kl, std::max(digits, 0));
}

/// The number and the unit in lower case of "3.5GiB"; nothing where it begins with no number.
std::optional<std::pair<double, std::string>> split_size(std::string_view option, const std::string& text) {
  std::size_t digits = 0;
  while (digits < text.size() && (std::isdigit(static_cast<unsigned char>(text[digits])) != 0 || text[digits] == '.')) ++digits;
  if (digits == 0) return std::nullopt;
  std::string unit = text.substr(digits);
  std::ranges::transform(unit, unit.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::pair(parse_number(std::string(option), text.substr(0, digits)), std::move(unit));
}

/// Nothing for what is no size, or too large for what holds it.
std::optional<std::int64_t> bytes_of(double value, const std::string& unit) {
  constexpr double most = 0x1p62;
  const double bytes = value * byte_unit(unit).value_or(0);
  return bytes >= 1 && bytes < most ? std::optional(static_cast<std::int64_t>(bytes)) : std::nullopt;
}

}  // namespace

Budget parse_budget(const std::string& text) {
  if (const auto parts = split_size("--fit", text)) {
    if (parts->second == "bpw" && parts->first > 0) return {.bits_per_weight = parts->first};
    if (const auto bytes = bytes_of(parts->first, parts->second)) return {.bytes = *bytes};
  }
  throw UsageError(message("--fit: expected a size (6GiB, 402MB) or bits a weight (3.5bpw), found ", printable(text)));
}

std::int64_t parse_size(std::string_view option, const std::string& text) {
  if (const auto parts = split_size(option, text)) {
    if (const auto bytes = bytes_of(parts->first, parts->second)) return *bytes;
  }
  throw UsageError(message(option, ": expected a size (6GiB, 402MB), found ", printable(text)));
}

std::vector<const FormatInfo*> parse_candidates(const std::string& names) {
  std::vector<const FormatInfo*> formats;
  for (std::size_t at = 0; at < names.size();) {
    const std::size_t end = std::min(names.find(',', at), names.size());
    try {
      formats.push_back(&find_format(names.substr(at, end - at)));
    } catch (const Error& error) {
      throw UsageError(message("--candidates: ", error.what()));
    }
    at = end + 1;
  }
  return formats;
}

Fit fit_to_budget(const Checkpoint& checkpoint, const Recipe& recipe, const Calibration& calibration, Target target,
                  const std::vector<const FormatInfo*>& candidates, const std::string& budget, bool json) {
  const Budget wanted = parse_budget(budget);
  const std::vector<Sensitivity> sensitivities = [&] {
    ProgressBar bar(!json);
    return measure_sensitivity(checkpoint, recipe, calibration, target, {.candidates = candidates},
                               [&](const Progress& p) {
                                 bar.show(p.done, p.total, "measuring " + p.layer, p.seconds_left);
                                 return true;
                               });
  }();
  try {
    Fit result = fit(checkpoint, recipe, sensitivities, wanted, target);
    if (result.at_best) {
      warn(message("--fit ", printable(budget), ": every matrix has the best of the candidates at ",
                   fixed(result.plan.bits_per_weight, 3), " bits a weight, ", result.plan.bytes,
                   " bytes: the rest is of no use"));
    }
    return result;
  } catch (const Error& error) {
    fail(error.code(), "--fit ", printable(budget), ": ", error.what());
  }
}

std::string plan_table(const Plan& plan, const std::optional<Fit>& fit) {
  Table table(fit ? "llrrr" : "llrr");
  const auto row = [&](std::string name, std::string format, std::int64_t bytes, double bits, double kl) {
    std::vector<std::string> cells{std::move(name), std::move(format), in_bytes(bytes), fixed(bits, 3)};
    if (fit) cells.push_back(in_nats(kl));
    table.add(std::move(cells));
  };
  std::vector<std::string> head{"matrix", "format", "bytes", "bits a weight"};
  if (fit) head.emplace_back("expected KL");
  table.add(head);
  for (std::size_t i = 0; i < plan.matrices.size();) {
    const Plan::Matrix& matrix = plan.matrices[i];
    const std::string name = name_of_experts(matrix.name, matrix.expert);
    // One line for the experts of a layer that have one format.
    std::int64_t bytes = 0, weights = 0, count = 0;
    double kl = 0;
    for (; i < plan.matrices.size(); ++i, ++count) {
      const Plan::Matrix& other = plan.matrices[i];
      if (count > 0 && (matrix.expert < 0 || other.format != matrix.format || name_of_experts(other.name, other.expert) != name)) break;
      bytes += other.bytes;
      weights += other.weights;
      kl += fit ? fit->kl[i] : 0;
    }
    row(count == 1 ? printable(matrix.name) : message(printable(name), " (", count, ")"), std::string(matrix.format->name), bytes,
        8 * static_cast<double>(bytes) / static_cast<double>(weights), kl);
  }
  std::string totals = message("\n", in_bytes(plan.bytes_before), " -> ", in_bytes(plan.bytes), " (", plan.bytes,
                               " bytes, ", fixed(plan.bits_per_weight, 3), " bits a weight)");
  if (fit) totals += message(", expected KL ", in_nats(fit->expected_kl), " nats a token");
  return table.text() + totals + "\n";
}

Json plan_json(const Plan& plan, const std::optional<Fit>& fit) {
  Json json{{"bytes_before", plan.bytes_before}, {"bytes", plan.bytes}, {"bits_per_weight", plan.bits_per_weight}};
  if (fit) json["expected_kl"] = fit->expected_kl;
  json["layers"] = Json::array();
  for (std::size_t i = 0; i < plan.matrices.size(); ++i) {
    const Plan::Matrix& matrix = plan.matrices[i];
    Json layer{{"name", matrix.name},
               {"format", std::string(matrix.format->name)},
               {"bytes_before", matrix.bytes_before},
               {"bytes", matrix.bytes}};
    if (fit) layer["expected_kl"] = fit->kl[i];
    json["layers"].push_back(std::move(layer));
  }
  return json;
}

}  // namespace bantam::cli
