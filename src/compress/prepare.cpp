// Words to removals, and removals to a smaller model with its costs.
#include "bantam/compress/prepare.hpp"

#include <algorithm>

#include "bantam/core/names.hpp"
#include "compress/plan.hpp"
#include "compress/rounding.hpp"

namespace bantam::inline v0 {

namespace {

void add(PruneRequest& request, std::string_view text) {
  const std::string_view name = text.substr(0, text.find(':'));
  const auto part = std::ranges::find_if(prune_parts, [&](Part p) { return name_of(p) == name; });
  if (part != std::end(prune_parts)) {
    if (request.goal && text == name) return request.parts.push_back(*part);
    request.removals.push_back(parse_removal(text));
    return;
  }
  if (std::ranges::none_of(prune_methods, [&](PruneMethod method) { return name_of(method) == name; }) || text.size() == name.size()) {
    fail(Errc::invalid_argument, "expected ", removal_forms(), ", or ", names_of_prune_methods(), " and :SHARE, :N:M or :16x4, found ",
         printable(text));
  }
  if (request.weights) fail(Errc::invalid_argument, "expected one way to choose weights, found ", printable(text), " besides");
  request.weights = find_pruning(text);
}

void check_sizes(const CalibrationText& text) {
  if (text.samples >= 1 && text.tokens >= 1) return;
  fail(Errc::invalid_argument, "calibration: expected samples and tokens above 0, found ", text.samples, " and ", text.tokens);
}

std::array<Checkpoint, 2> outlines(const Checkpoint& checkpoint, std::span<const Removal> removals) {
  return {outline_of(checkpoint, plan_structure(checkpoint.config(), {})), outline_of(checkpoint, plan_structure(checkpoint.config(), removals))};
}

}  // namespace

PruneRequest parse_prune(std::span<const std::string> texts, std::string_view goal) {
  PruneRequest request;
  naming("prune_to", [&] {
    if (!goal.empty()) request.goal = parse_cost_target(goal);
  });
  naming("prune", [&] {
    for (const std::string& text : texts) add(request, text);
  });
  if (request.goal && request.parts.empty()) fail(Errc::invalid_argument, "prune_to: expected parts without an amount to prune, like channels, found none");
  return request;
}

PruneReport plan_parts(const PruneRequest& request, const Checkpoint& checkpoint, const Recipe& recipe, Target target) {
  (void)plan_structure(checkpoint.config(), request.removals);
  PruneReport report;
  report.removals = request.removals;
  if (request.goal) report.removals = removals_to_reach(*request.goal, checkpoint, request.parts, request.removals, recipe, target);
  report.bytes_before = checkpoint.stored_bytes();
  const auto [whole, left] = outlines(checkpoint, report.removals);
  for (const Cost cost : {Cost::parameters, Cost::flops, Cost::bytes}) {
    report.before[cost] = measure_cost(cost, whole, recipe, target);
    report.after[cost] = measure_cost(cost, left, recipe, target);
  }
  const bool timed = request.goal && request.goal->cost == Cost::latency;
  return timed ? time_parts(std::move(report), checkpoint, recipe, target) : report;
}

PruneReport time_parts(PruneReport planned, const Checkpoint& checkpoint, const Recipe& recipe, Target target) {
  const auto [whole, left] = outlines(checkpoint, planned.removals);
  const auto [before, after] = measure_latencies(whole, left, recipe, target);
  planned.before[Cost::latency] = before;
  planned.after[Cost::latency] = after;
  return planned;
}

PrunedModel remove_parts(PruneReport planned, const Checkpoint& checkpoint, const Calibration& calibration, const StructureOptions& options,
                         const ProgressFn& progress) {
  PrunedStructure pruned = prune_structure(checkpoint, planned.removals, calibration, options, progress);
  planned.layers = std::move(pruned.layers);
  planned.influence = std::move(pruned.influence);
  planned.warnings = std::move(pruned.warnings);
  return {std::move(pruned.checkpoint), std::move(planned)};
}

Calibration samples_of(const CalibrationText& text, const Checkpoint& checkpoint) {
  check_sizes(text);
  return Calibration::from_text(checkpoint.tokenizer(), text.text ? *text.text : std::string(default_calibration_text()), text.samples,
                                std::min(text.tokens, checkpoint.config().context));
}

ImportanceMatrix save_importance(const Checkpoint& checkpoint, const Calibration& calibration, std::string_view text, const std::filesystem::path& to) {
  ImportanceMatrix importance = measure_importance(checkpoint, calibration);
  importance.texts = {std::string(text.empty() ? "the bundled text" : text)};
  write_importance(importance, to);
  return importance;
}

bool needs_calibration(const PruneRequest& request, const Recipe& recipe) noexcept { return needs_calibration(recipe) || request.removes_parts(); }

PreparedModel prepare_model(const PruneRequest& request, const Checkpoint& checkpoint, const Recipe& recipe, Target target,
                            const CalibrationText& text, const StructureOptions& options, const ProgressFn& progress) {
  check_sizes(text);  // whether or not this recipe reads them
  PreparedModel made;
  std::optional<PruneReport> planned;
  if (request.removes_parts()) planned = plan_parts(request, checkpoint, recipe, target);
  if (text.text || needs_calibration(request, recipe)) made.calibration = samples_of(text, checkpoint);
  if (planned) made.pruned = remove_parts(*std::move(planned), checkpoint, made.calibration, options, progress);
  // The bundled text is for what cannot do without.
  if (!text.text && !needs_calibration(recipe)) made.calibration = {};
  return made;
}

}  // namespace bantam::inline v0
