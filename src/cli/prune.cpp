// Removals from the command line, and what became of them.
#include "prune.hpp"

#include <algorithm>

#include "options.hpp"
#include "progress.hpp"
#include "signals.hpp"

namespace bantam::cli {

namespace {

std::string change(std::string_view what, std::int64_t before, std::int64_t after) {
  const double gone = 100 * (1 - static_cast<double>(after) / static_cast<double>(before));
  return message(what, ' ', before, " -> ", after, " (-", fixed(gone, 1), " %)");
}

Json size_json(const ModelSize& size) {
  return {{"parameters", size.parameters}, {"flops_per_token", size.flops_per_token}, {"bytes", size.bytes}};
}

}  // namespace

PruneArguments parse_prune(const std::vector<std::string>& texts) {
  PruneArguments arguments;
  const auto is_part = [](std::string_view name) {
    return std::ranges::any_of(prune_parts, [&](Part part) { return name_of(part) == name; });
  };
  for (const std::string& text : texts) {
    const std::string name = text.substr(0, text.find(':'));
    try {
      if (is_part(name)) {
        arguments.removals.push_back(parse_removal(text));
        continue;
      }
      if (std::ranges::none_of(prune_methods, [&](PruneMethod method) { return name_of(method) == name; }) || text.size() == name.size()) {
        fail(Errc::invalid_argument, "expected ", removal_forms(),
             ", or magnitude, wanda or sparsegpt and :SHARE, :N:M or :16x4, found ", printable(text));
      }
      if (arguments.weights) fail(Errc::invalid_argument, "expected one way to choose weights, found ", printable(text), " besides");
      arguments.weights = find_pruning(text);
    } catch (const Error& error) {
      throw UsageError(message("--prune: ", error.what()));
    }
  }
  return arguments;
}

PrunedStructure prune(const Checkpoint& checkpoint, const std::vector<Removal>& removals, const Calibration& calibration,
                      bool compensate, bool json) {
  const Section section(Insisting::changes_nothing);
  ProgressBar bar(!json);
  PrunedStructure pruned = prune_structure(checkpoint, removals, calibration, {.compensate = compensate}, [&](const Progress& p) {
    bar.show(p.done, p.total, p.layer, p.seconds_left);
    return interrupted() == 0;
  });
  for (const std::string& line : pruned.warnings) warn(printable(line, 4096));
  return pruned;
}

std::string pruned_text(const PrunedStructure& pruned) {
  std::string out = message("pruned          ", change("parameters", pruned.before.parameters, pruned.after.parameters), ", ",
                            change("operations a token", pruned.before.flops_per_token, pruned.after.flops_per_token), "\n");
  if (pruned.influence.empty()) return out;
  out += "                layers gone:";
  for (std::size_t i = 0; i < pruned.influence.size(); ++i) {
    if (std::find(pruned.layers.begin(), pruned.layers.end(), static_cast<std::int64_t>(i)) != pruned.layers.end()) continue;
    out += message(" ", i, " (influence ", fixed(pruned.influence[i], 4), ")");
  }
  return out + "\n";
}

Json pruned_json(const PrunedStructure& pruned) {
  return {{"layers", pruned.layers}, {"influence", pruned.influence}, {"before", size_json(pruned.before)}, {"after", size_json(pruned.after)}};
}

}  // namespace bantam::cli
