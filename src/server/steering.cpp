// Asking the ladder and the canary.
#include "server/steering.hpp"

#include <algorithm>

#include "server/models.hpp"

namespace bantam::server {

namespace {

/// What stays as it is while a conversation goes on: up to what a user said first, or what a prompt begins with.
std::string beginning_of(const Json& body) {
  constexpr std::size_t most = 4096;
  const Json::Style style{.replace_invalid = true};
  std::string text;
  for (const std::string_view name : {"messages", "input", "prompt", "inputs"}) {
    const Json* given = body.find(name);
    if (given == nullptr) continue;
    if (!given->is_array()) return given->dump(style).substr(0, most);
    for (const Json& one : *given) {
      text += one.dump(style);
      const Json* role = one.find("role");
      if ((role != nullptr && role->is_string() && role->string() == "user") || text.size() > most) break;
    }
    return text.substr(0, most);
  }
  return text;
}

}  // namespace

void Steering::choose(ModelWanted& wanted, Models& models, std::string_view client, const Json& body) {
  if (!ladder_.is_on() && !canary_.is_on()) return;
  if (models.state(wanted.name).name != first_) return;
  if (ladder_.is_on()) {
    std::string smaller = ladder_.choose(std::chrono::steady_clock::now());
    const bool can_be_there = models.common().options.loads_on_demand || (!smaller.empty() && models.state(smaller).app);
    if (!smaller.empty() && can_be_there) {
      wanted.name = std::move(smaller);
      return;
    }
  }
  if (!canary_.is_on() || canary_.counts().rolled_back) return;
  const ModelState state = models.state(canary_.model());
  if (state.app) {
    if (canary_.takes(client, beginning_of(body))) wanted.name = canary_.model();
  } else if (state.status == "failed") {
    roll_back("it could not be loaded");
  } else if (state.loads > 0) {
    roll_back("it was unloaded");
  } else {
    models.load(canary_.model());
  }
}

bool Steering::compares(std::string_view model) const {
  return canary_.is_on() && (model == first_ || model == canary_.model()) && !canary_.counts().rolled_back;
}

void Steering::ended(std::string_view model, std::int64_t tokens, double nll) {
  if (!canary_.ended(model == first_ ? Canary::Side::first : Canary::Side::canary, tokens, nll)) return;
  const Canary::Counts counts = canary_.counts();
  note_(message("canary ", canary_.model(), ": rolled back: its texts have ", counts.canary_nll, " nats a token, those of ", first_, ' ', counts.first_nll));
}

void Steering::roll_back(std::string_view why) {
  if (canary_.roll_back()) note_(message("canary ", canary_.model(), ": rolled back: ", why));
}

void Steering::first_token(std::string_view model, double seconds) {
  if (ladder_.is_on() && (model == first_ || std::ranges::find(steps_, model) != steps_.end())) ladder_.first_token(seconds);
}

void Steering::write_metrics(Exposition& out) const {
  if (ladder_.is_on()) {
    const Ladder::Counts c = ladder_.counts();
    out.gauge("bantam:ladder_level", "Which model takes requests of the first: 0 itself, 1 the next smaller one, and so on.", static_cast<double>(c.level));
    constexpr std::string_view steps = "bantam:ladder_steps_total", help = "Steps to a smaller model, and back.";
    out.counter(steps, help, static_cast<double>(c.down), "direction=\"down\"");
    out.counter(steps, help, static_cast<double>(c.up), "direction=\"up\"");
    out.counter("bantam:ladder_redirected_total", "Requests that a smaller model took.", static_cast<double>(c.redirected));
    out.gauge("bantam:ladder_first_token_seconds", "From a request to its first token, of the last ones.", c.first_token_s);
    if (c.look.memory) out.gauge("bantam:ladder_free_bytes", "Memory that is left.", static_cast<double>(*c.look.memory));
    if (c.look.celsius) out.gauge("bantam:ladder_celsius", "The hottest sensor.", *c.look.celsius);
  }
  if (!canary_.is_on()) return;
  const Canary::Counts c = canary_.counts();
  const std::string first = message("model_name=", Json::quoted(first_)), canary = message("model_name=", Json::quoted(canary_.model()));
  constexpr std::string_view requests = "bantam:canary_requests_total", help = "Requests of the first model, by which took them.";
  out.counter(requests, help, static_cast<double>(c.first), first);
  out.counter(requests, help, static_cast<double>(c.canary), canary);
  constexpr std::string_view nll = "bantam:canary_nll", nll_help = "Mean negative log probability of tokens that were drawn, in nats.";
  out.gauge(nll, nll_help, c.first_nll, first);
  out.gauge(nll, nll_help, c.canary_nll, canary);
  if (c.drift) out.gauge("bantam:canary_drift", "The canary's less the first model's.", *c.drift);
  out.gauge("bantam:canary_rolled_back", "1: the canary takes nothing more.", c.rolled_back ? 1 : 0);
}

}  // namespace bantam::server
