// Reports of removed parts as text.
#include "prune.hpp"

#include <algorithm>

namespace bantam::cli {

namespace {

std::string change(double before, double after, int digits = 0) {
  return message(fixed(before, digits), " -> ", fixed(after, digits), " (-", fixed(100 * (1 - after / before), 1), " %)");
}

}  // namespace

std::string pruned_text(const PruneReport& pruned) {
  std::string out = "pruned          ";
  for (const Removal& removal : pruned.removals) out += removal.text() + (&removal == &pruned.removals.back() ? "\n" : ", ");
  const auto line = [&](const char* what, Cost cost, double unit = 1, int digits = 0) {
    if (pruned.before[cost] > 0) out += message("                ", what, " ", change(pruned.before[cost] * unit, pruned.after[cost] * unit, digits), "\n");
  };
  line("parameters", Cost::parameters);
  line("operations a token", Cost::flops);
  line("bytes written", Cost::bytes);
  line("milliseconds a token", Cost::latency, 1e3, 2);
  if (pruned.influence.empty()) return out;
  out += "                layers gone:";
  for (std::size_t i = 0; i < pruned.influence.size(); ++i) {
    if (std::ranges::find(pruned.layers, static_cast<std::int64_t>(i)) != pruned.layers.end()) continue;
    out += message(" ", i, " (influence ", fixed(pruned.influence[i], 4), ")");
  }
  return out + "\n";
}

}  // namespace bantam::cli
