// What removals leave, and what they may not ask for.
#include <algorithm>
#include <cmath>

#include "bantam/core/error.hpp"
#include "bantam/core/names.hpp"
#include "bantam/prune/structure.hpp"
#include "calibrate/model_source.hpp"

namespace bantam::inline v0 {

namespace {

constexpr std::string_view names[] = {"layers", "channels", "heads", "experts", "hidden"};
constexpr std::string_view cost_names[] = {"parameters", "flops", "bytes", "latency"};

/// Numbers that go or stay together: as many as formats have weights a group, if there are `least` of these at least.
std::int64_t unit_of(std::int64_t count, std::int64_t least) noexcept {
  for (const std::int64_t unit : {256, 128, 64, 32}) {
    if (count % unit == 0 && count / unit >= least) return unit;
  }
  return 1;
}

/// `what` names them: "FFN channels of layer 0".
std::int64_t kept_of(const Removal& removal, std::int64_t count, std::int64_t unit, const std::string& what) {
  const std::int64_t units = count / unit;
  const auto kept = static_cast<std::int64_t>(std::llround(static_cast<double>(units) * (1 - removal.amount)));
  if (kept < 1 || kept >= units) {
    fail(Errc::invalid_argument, "prune ", removal.text(), ": expected a share that takes some and leaves some of the ", count, ' ', what,
         unit > 1 ? message(", ", unit, " at once") : "", ", this ", kept < 1 ? "leaves none" : "takes none");
  }
  return kept * unit;
}

void check(const Removal& removal, const ModelConfig& config) {
  if (config.has_source()) fail(Errc::unsupported, "prune ", removal.text(), ": ", config.arch->name, ": of a decoder behind an encoder: not yet; what works: single weights by wanda, sparsegpt or magnitude");
  if (config.arch->full_heads_differ() || config.arch->shares_keys()) {
    fail(Errc::unsupported, "prune ", removal.text(), ": ", config.arch->name, ": of layers that differ in heads or read each other's keys: not yet; what works: single weights by wanda, sparsegpt or magnitude");
  }
  if (removal.part == Part::layers && std::ranges::any_of(config.specs, &LayerSpec::shares_choice)) {
    fail(Errc::unsupported, "prune ", removal.text(), ": ", config.arch->name, ": of layers that see what others' indexers chose: not yet; what works: experts, and single weights by wanda, sparsegpt or magnitude");
  }
  const bool of_mixtures = removal.part == Part::layers || removal.part == Part::experts;
  if (config.has_experts() && !of_mixtures) {
    fail(Errc::unsupported, "prune ", removal.text(), ": in a mixture of experts: not yet; what works: experts, layers, and single weights by wanda, sparsegpt or magnitude");
  }
  const bool reads_streams = config.connects_streams() && removal.part == Part::experts;
  if (!config.arch->norms_before_blocks() && removal.part != Part::layers && !reads_streams) {
    fail(Errc::unsupported, "prune ", removal.text(), ": ", config.arch->name, ": expected blocks one after the other with norms before them alone; what works: layers, and single weights");
  }
  if (config.arch->recurrent != MixerKind::none && !of_mixtures) {
    fail(Errc::unsupported, "prune ", removal.text(), ": ", config.arch->name, ": in a model with recurrent layers: not yet; what works: experts, layers, and single weights by wanda, sparsegpt or magnitude");
  }
  if (config.is_latent() && (removal.part == Part::heads || removal.part == Part::hidden)) {
    fail(Errc::unsupported, "prune ", removal.text(), ": ", config.arch->name, ": of latent attention: not yet; what works: channels, experts, layers, and single weights");
  }
  if (config.alibi > 0 && removal.part == Part::heads) {
    fail(Errc::unsupported, "prune ", removal.text(), ": ", config.arch->name, ": ALiBi's slopes follow from the number of heads; what works: layers, channels, and single weights");
  }
  if (config.relative_bias.buckets > 0 && removal.part == Part::heads) {
    fail(Errc::unsupported, "prune ", removal.text(), ": ", config.arch->name, ": of heads that have biases by distance: not yet; what works: channels, and single weights");
  }
  if (config.arch->shares_bias && removal.part == Part::layers) {
    fail(Errc::unsupported, "prune ", removal.text(), ": ", config.arch->name, ": its first layer has the biases by distance of all; what works: channels, and single weights");
  }
  if (removal.part == Part::experts && !config.has_experts()) fail(Errc::invalid_argument, "prune ", removal.text(), ": expected a mixture of experts, found ", config.arch->name);
  const double amount = removal.amount;
  if (removal.part == Part::layers && config.arch->first_unnormed) fail(Errc::unsupported, "prune ", removal.text(), ": ", config.arch->name, ": its first layer is not like the others; what works: heads, channels, and single weights");
  if (removal.part == Part::layers) {
    if (amount >= 1 && amount < static_cast<double>(config.layers) && amount == std::floor(amount)) return;
    fail(Errc::invalid_argument, "prune ", removal.text(), ": expected a whole number from 1 to ", config.layers - 1, ", of the ", config.layers,
         " layers, found ", amount);
  }
  if (!(amount > 0 && amount < 1)) fail(Errc::invalid_argument, "prune ", removal.text(), ": expected a share above 0 and below 1, found ", amount);
}

}  // namespace

std::string_view name_of(Part part) noexcept { return names[static_cast<std::size_t>(part)]; }
std::string_view name_of(Cost cost) noexcept { return cost_names[static_cast<std::size_t>(cost)]; }
Cost find_cost(std::string_view name) { return prune_costs[find_name("cost", name, cost_names)]; }

std::string removal_forms() {
  return with_commas(prune_parts, [](Part part) { return message(name_of(part), part == Part::layers ? ":COUNT" : ":SHARE"); });
}

std::string Removal::text() const { return message(name_of(part), ':', amount); }

Removal parse_removal(std::string_view text) {
  const auto colon = text.find(':');
  const auto name = std::ranges::find(names, text.substr(0, colon));
  if (name == std::end(names)) fail(Errc::invalid_argument, "expected ", removal_forms(), ", found ", printable(text));
  const std::string number(colon == std::string_view::npos ? "" : text.substr(colon + 1));
  char* end = nullptr;
  const double amount = std::strtod(number.c_str(), &end);
  if (number.empty() || *end != '\0' || !std::isfinite(amount)) fail(Errc::invalid_argument, *name, ": expected ", *name, ":NUMBER, found ", printable(text));
  return {static_cast<Part>(name - std::begin(names)), amount};
}

StructurePlan plan_structure(const ModelConfig& config, std::span<const Removal> removals) {
  StructurePlan plan{config.layers, config.dim, {}, {removals.begin(), removals.end()}};
  for (std::int64_t layer = 0; layer < config.layers; ++layer) plan.specs.push_back(config.layer(layer));
  std::vector<Part> seen;
  for (const Removal& removal : removals) {
    check(removal, config);
    if (std::ranges::find(seen, removal.part) != seen.end()) fail(Errc::invalid_argument, "prune ", removal.text(), ": expected ", name_of(removal.part), " once");
    seen.push_back(removal.part);
    if (removal.part == Part::layers) {
      plan.layers -= static_cast<std::int64_t>(removal.amount);
      continue;
    }
    if (removal.part == Part::hidden) {
      check_rotatable(config);
      // Of channels 16 units at least, to come near the share. Rows of all matrices are this long, so fewer do here.
      plan.dim = kept_of(removal, config.dim, unit_of(config.dim, 8), "hidden dimensions");
      continue;
    }
    for (std::int64_t layer = 0; layer < config.layers; ++layer) {
      const std::string place = message(" of layer ", layer);
      LayerSpec& spec = plan.specs[static_cast<std::size_t>(layer)];
      if (removal.part == Part::experts) {
        if (!spec.is_sparse()) continue;
        // Groups stay as large as each other.
        spec.experts = kept_of(removal, spec.experts, config.router.groups, "experts" + place);
        const nn::RouterOptions& router = config.router;
        if (const std::int64_t open = spec.experts / router.groups * router.groups_used; open < router.used) {
          fail(Errc::invalid_argument, "prune ", removal.text(), ": expected a share that leaves the ", router.used, " experts that a token uses, this leaves ", open, place,
               router.groups > 1 ? message(", in ", router.groups_used, " of ", router.groups, " groups") : "");
        }
        if (router.groups > 1 && spec.experts / router.groups < router.group_best) {
          fail(Errc::invalid_argument, "prune ", removal.text(), ": expected a share that leaves the ", router.group_best, " experts that a group is chosen by, this leaves ",
               spec.experts / router.groups, " in each group", place);
        }
      } else if (removal.part == Part::heads) {
        if (!attends(spec.mixer)) continue;
        spec.kv_heads = kept_of(removal, spec.kv_heads, 1, "key-value heads" + place);
      } else {
        if (!spec.has_feed_forward()) continue;
        spec.ffn = kept_of(removal, spec.ffn, unit_of(spec.ffn, 16), "FFN channels" + place);
      }
    }
  }
  return plan;
}

}  // namespace bantam::inline v0
