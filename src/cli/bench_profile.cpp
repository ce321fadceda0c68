#include "bench_profile.hpp"

#include <algorithm>

#include "bantam/compress/footprint.hpp"
#include "output.hpp"

namespace bantam::cli {

namespace {

/// Seconds that a phase of one pass takes at the least; 0: not known.
double limit_of(Work work, const Session& session, const ProfiledPasses& p, const MachineLimits& limits) {
  const Model& model = session.model();
  const auto read = [&](std::int64_t bytes) { return 1e-9 * static_cast<double>(bytes) / limits.read_gb_s; };
  if (work == Work::head) return read(model.weights().head.bytes());
  if (work == Work::products) {
    const Footprint size = footprint_of(model.checkpoint());
    // Floats are multiplied at another rate, which is not measured.
    const double operations = size.layer_operations - size.float_operations;
    const double arithmetic = 1e-9 * operations * static_cast<double>(p.tokens) / limits.int8_gop_s;
    const std::int64_t bytes = p.decodes ? model.weights().streamed_bytes - model.weights().head.bytes() : 0;
    return size.float_operations > 0 && !p.decodes ? 0 : std::max(arithmetic, read(bytes));
  }
  // Keys and values from memory, where nothing else is to do.
  if (work == Work::attention) return read(p.text_bytes);
  return 0;
}

}  // namespace

Json profile_json(const Session& session, const Profile& profile, const ProfiledPasses& p, const MachineLimits& limits) {
  struct Row {
    double seconds;
    Json json;
  };
  std::vector<Row> rows;
  for (std::size_t i = 0; i < profile.phases.size(); ++i) {
    const Profile::Phase& phase = profile.phases[i];
    if (phase.times == 0) continue;
    const double limit = static_cast<double>(p.passes) * limit_of(static_cast<Work>(i), session, p, limits);
    const double busy = 1e-9 * static_cast<double>(phase.busy) / (phase.seconds * session.threads());
    rows.push_back({phase.seconds,
                    {{"name", work_names[i]},
                     {"times", phase.times},
                     {"seconds", phase.seconds},
                     {"share", phase.seconds / p.seconds},
                     {"waiting", std::max(0.0, 1 - busy)},
                     {"limit_seconds", limit > 0 ? Json(limit) : Json(nullptr)},
                     {"reached", limit > 0 ? Json(limit / phase.seconds) : Json(nullptr)}}});
  }
  std::ranges::sort(rows, std::ranges::greater{}, &Row::seconds);
  Json phases = Json::array();
  for (Row& row : rows) phases.push_back(std::move(row.json));
  return {{"seconds", p.seconds}, {"accounted", profile.seconds() / p.seconds}, {"phases", std::move(phases)}};
}

std::string profile_table(const Json& prompt, const Json& generate) {
  std::string out;
  for (const auto& [name, json] : {std::pair<const char*, const Json&>{"prefill", prompt}, {"decode", generate}}) {
    if (json.is_null()) continue;
    Table table("lrrrrl");
    table.add({name, "ms", "share", "waiting", "times", "of its limit"});
    const auto percent = [](double share) { return message(fixed(100 * share, 1), " %"); };
    for (const Json& phase : json["phases"]) {
      table.add({std::string(phase["name"].string()), fixed(1e3 * phase["seconds"].get<double>(), 2), percent(phase["share"].get<double>()),
                 percent(phase["waiting"].get<double>()), message(phase["times"].get<std::int64_t>()),
                 phase["reached"].is_null() ? "" : percent(phase["reached"].get<double>())});
    }
    const double between = 1 - json["accounted"].get<double>();
    table.add({"between phases", fixed(1e3 * between * json["seconds"].get<double>(), 2), percent(between), "", "", ""});
    out += '\n' + table.text();
  }
  return out;
}

}  // namespace bantam::cli
