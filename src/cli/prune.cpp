// Removals from the command line, and what became of them.
#include "prune.hpp"

#include <algorithm>

#include "options.hpp"
#include "progress.hpp"
#include "signals.hpp"

namespace bantam::cli {

namespace {

std::string change(double before, double after, int digits = 0) {
  return message(fixed(before, digits), " -> ", fixed(after, digits), " (-", fixed(100 * (1 - after / before), 1), " %)");
}

double& of(std::array<double, 4>& costs, Cost cost) { return costs[static_cast<std::size_t>(cost)]; }
double of(const std::array<double, 4>& costs, Cost cost) { return costs[static_cast<std::size_t>(cost)]; }

std::array<Checkpoint, 2> outlines(const Checkpoint& checkpoint, const std::vector<Removal>& removals) {
  return {outline_of(checkpoint, plan_structure(checkpoint.config(), {})), outline_of(checkpoint, plan_structure(checkpoint.config(), removals))};
}

Json costs_json(const std::array<double, 4>& costs) {
  const auto whole = [&](Cost cost) { return static_cast<std::int64_t>(of(costs, cost)); };
  Json json = {{"parameters", whole(Cost::parameters)}, {"flops_per_token", whole(Cost::flops)}, {"bytes", whole(Cost::bytes)}};
  if (of(costs, Cost::latency) > 0) json["seconds_per_token"] = of(costs, Cost::latency);
  return json;
}

std::optional<Part> part_of(std::string_view name) {
  for (const Part part : prune_parts) {
    if (name == name_of(part)) return part;
  }
  return {};
}

void add(PruneArguments& arguments, const std::string& text) {
  const std::string name = text.substr(0, text.find(':'));
  if (const std::optional<Part> part = part_of(name)) {
    if (arguments.goal && text == name) return arguments.parts.push_back(*part);
    arguments.removals.push_back(parse_removal(text));
    return;
  }
  if (std::ranges::none_of(prune_methods, [&](PruneMethod method) { return name_of(method) == name; }) || text.size() == name.size()) {
    fail(Errc::invalid_argument, "expected ", removal_forms(), ", or ", names_of_prune_methods(), " and :SHARE, :N:M or :16x4, found ",
         printable(text));
  }
  if (arguments.weights) fail(Errc::invalid_argument, "expected one way to choose weights, found ", printable(text), " besides");
  arguments.weights = find_pruning(text);
}

}  // namespace

PruneArguments parse_prune(const std::vector<std::string>& texts, const std::string& goal) {
  PruneArguments arguments;
  try {
    if (!goal.empty()) arguments.goal = parse_cost_target(goal);
  } catch (const Error& error) {
    throw UsageError(message("--prune-to: ", error.what()));
  }
  for (const std::string& text : texts) {
    try {
      add(arguments, text);
    } catch (const Error& error) {
      throw UsageError(message("--prune: ", error.what()));
    }
  }
  if (arguments.goal && arguments.parts.empty()) throw UsageError("--prune-to: expected parts without an amount, like --prune channels, found none");
  return arguments;
}

PrunedParts plan_parts(const PruneArguments& arguments, const Checkpoint& checkpoint, const Recipe& recipe, Target target) {
  // What is impossible is said before any work.
  (void)plan_structure(checkpoint.config(), arguments.removals);
  PrunedParts parts{arguments.removals, {}, {}, {}};
  if (arguments.goal) parts.removals = removals_to_reach(*arguments.goal, checkpoint, arguments.parts, arguments.removals, recipe, target);
  const auto [whole, left] = outlines(checkpoint, parts.removals);
  for (const Cost cost : {Cost::parameters, Cost::flops, Cost::bytes}) {
    of(parts.before, cost) = measure_cost(cost, whole, recipe, target);
    of(parts.after, cost) = measure_cost(cost, left, recipe, target);
  }
  return parts;
}

void remove_parts(PrunedParts& parts, const Checkpoint& checkpoint, const Calibration& calibration, bool compensate, bool json) {
  const Section section(Insisting::changes_nothing);
  ProgressBar bar(!json);
  parts.structure = prune_structure(checkpoint, parts.removals, calibration, {.compensate = compensate}, [&](const Progress& p) {
    bar.show(p.done, p.total, p.layer, p.seconds_left);
    return interrupted() == 0;
  });
  for (const std::string& line : parts.structure->warnings) warn(printable(line, 4096));
}

void time_parts(PrunedParts& parts, const Checkpoint& checkpoint, const Recipe& recipe, Target target) {
  const auto [whole, left] = outlines(checkpoint, parts.removals);
  const auto [before, after] = measure_latencies(whole, left, recipe, target);
  of(parts.before, Cost::latency) = before;
  of(parts.after, Cost::latency) = after;
}

std::string pruned_text(const PrunedParts& parts) {
  std::string out = "pruned          ";
  for (const Removal& removal : parts.removals) out += removal.text() + (&removal == &parts.removals.back() ? "\n" : ", ");
  const auto line = [&](const char* what, Cost cost, double unit = 1, int digits = 0) {
    if (of(parts.before, cost) > 0) out += message("                ", what, " ", change(of(parts.before, cost) * unit, of(parts.after, cost) * unit, digits), "\n");
  };
  line("parameters", Cost::parameters);
  line("operations a token", Cost::flops);
  line("bytes written", Cost::bytes);
  line("milliseconds a token", Cost::latency, 1e3, 2);
  if (!parts.structure || parts.structure->influence.empty()) return out;
  const PrunedStructure& pruned = *parts.structure;
  out += "                layers gone:";
  for (std::size_t i = 0; i < pruned.influence.size(); ++i) {
    if (std::ranges::find(pruned.layers, static_cast<std::int64_t>(i)) != pruned.layers.end()) continue;
    out += message(" ", i, " (influence ", fixed(pruned.influence[i], 4), ")");
  }
  return out + "\n";
}

Json pruned_json(const PrunedParts& parts) {
  Json json;
  for (const Removal& removal : parts.removals) json["removals"].push_back(removal.text());
  json["before"] = costs_json(parts.before);
  json["after"] = costs_json(parts.after);
  if (!parts.structure) return json;
  json["layers"] = parts.structure->layers;
  json["influence"] = parts.structure->influence;
  return json;
}

}  // namespace bantam::cli
