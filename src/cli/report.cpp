// Reports as text, JSON and charts.
#include "report.hpp"

#include <cmath>
#include <map>

#include "bantam/io/file.hpp"
#include "plot.hpp"
#include "progress.hpp"
#include "prune.hpp"

namespace bantam::cli {

namespace {

/// "model.layers.3.mlp.up_proj" -> 3; -1 for what is not of a layer.
std::int64_t layer_of(const std::string& name) {
  constexpr std::string_view mark = "layers.";
  const auto at = name.find(mark);
  return at == std::string::npos ? -1 : std::atoll(name.c_str() + at + mark.size());
}

/// "up_proj".
std::string kind_of(const std::string& name) {
  return name.substr(name.rfind('.') == std::string::npos ? 0 : name.rfind('.') + 1);
}

Chart error_chart(const Report& report) {
  std::int64_t last = 0;
  for (const LayerReport& layer : report.layers) last = std::max(last, layer_of(layer.name));
  Chart chart{"Relative error of weights by layer",
              "layer (embeddings stand before the first, the head after the last)", "||W - W'|| / ||W||, %"};
  std::map<std::string, std::size_t> places;
  for (const LayerReport& layer : report.layers) {
    const std::string kind = kind_of(layer.name);
    const auto [place, added] = places.emplace(kind, chart.series.size());
    if (added) chart.series.push_back({kind});
    const std::int64_t at = layer_of(layer.name);
    // Kinds side by side, so that none hides another.
    const double x = at >= 0 ? static_cast<double>(at) + 0.08 * (static_cast<double>(place->second) - 4.5)
                             : static_cast<double>(kind == "lm_head" ? last + 1 : -1);
    const double error = 100 * layer.relative_error;
    chart.series[place->second].points.push_back(
        {x, error, message(layer.name, " ", layer.format, " ", fixed(error, 3), " %")});
  }
  return chart;
}

Chart trade_off_chart(const Record& record) {
  constexpr double megabyte = 1e6;
  const Fit& fit = *record.fit;
  Chart chart{"Size against quality", "size of the file, MB", "KL(original || compressed), nats a token", true};
  Series curve{"best, expected", Mark::line};
  constexpr double noise = 1e-7;  // divergences below it are those of f32 arithmetic, and would fill most of the picture
  for (const Choice& point : fit.trade_off) {
    if (point.cost >= noise) curve.points.push_back({static_cast<double>(point.bytes) / megabyte, point.cost});
  }
  chart.series.push_back(std::move(curve));
  const auto dot = [&](const char* name, double kl) {
    const double size = static_cast<double>(record.report.bytes_after) / megabyte;
    chart.series.push_back(
        {name, Mark::dots, {{size, kl, message(name, ": ", fixed(size, 3), " MB, KL ", fixed(kl, 6))}}});
  };
  dot("this plan, expected", fit.expected_kl);
  if (record.evaluation)
    dot(record.evaluation->calibration ? "measured, calibration" : "measured", *record.evaluation->result.kl_mean);
  return chart;
}

Json evaluation_json(const Evaluation& evaluation) {
  const PerplexityResult& r = evaluation.result;
  return {{"text", evaluation.text},
          {"is_calibration_text", evaluation.calibration},
          {"perplexity_before", *r.base_perplexity},
          {"perplexity_after", r.perplexity},
          {"kl_mean", *r.kl_mean},
          {"kl_p99", *r.kl_p99},
          {"top1_agreement", *r.top1_agreement},
          {"tokens", r.tokens}};
}

/// A cell of a Markdown table.
std::string cell(const std::string& text) {
  std::string out;
  for (const char c : printable(text, 4096)) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

/// What calibration saw; nothing without.
std::string inputs_table(const Report& report) {
  if (report.inputs.empty()) return {};
  std::string out = "\nInputs of the matrices over the calibration text; 0.1 % of the values lie below, and as many above the two percentiles.\n"
                    "A ratio of the largest magnitude to theirs far above 1 means outliers: smoothing or rotating may help.\n\n"
                    "| inputs of | min | 0.1 % | 99.9 % | max | outlier ratio |\n|---|---:|---:|---:|---:|---:|\n";
  for (const InputReport& input : report.inputs) {
    std::string names;
    for (const std::string& name : input.matrices) names += message(names.empty() ? "" : ", ", names.empty() ? cell(name) : cell(kind_of(name)));
    out += message("| ", names, " | ", fixed(input.range.low, 3), " | ", fixed(input.central.low, 3), " | ", fixed(input.central.high, 3), " | ",
                   fixed(input.range.high, 3), " | ", fixed(input.outlier_ratio(), 2), " |\n");
  }
  return out;
}

std::string markdown(const Record& record, const std::string& picture) {
  const Report& report = record.report;
  std::string out = message("# ", cell(record.original), " -> ", cell(record.output), "\n\n");
  out += message("| | before | after |\n|---|---|---|\n| bytes | ", report.bytes_before, " | ", report.bytes_after,
                 " |\n| bits a weight | | ", fixed(report.bits_per_weight, 3), " |\n");
  if (report.sparsity) out += message("| zeros among the weights of blocks | | ", fixed(100 * *report.sparsity, 2), " % |\n");
  if (report.pruned) {
    const auto row = [&](const char* what, Cost cost, double unit = 1, int digits = 0) {
      out += message("| ", what, " | ", fixed(report.pruned->before[cost] * unit, digits), " | ", fixed(report.pruned->after[cost] * unit, digits), " |\n");
    };
    row("parameters", Cost::parameters);
    row("operations a token", Cost::flops);
    row("bytes in these formats", Cost::bytes);
    row("milliseconds a token in these formats", Cost::latency, 1e3, 2);
  }
  if (record.evaluation) {
    const PerplexityResult& r = record.evaluation->result;
    out += message("| perplexity | ", fixed(*r.base_perplexity, 4), " | ", fixed(r.perplexity, 4),
                   " |\n| KL, mean, nats a token | | ", fixed(*r.kl_mean, 6), " |\n| KL, 99th percentile | | ",
                   fixed(*r.kl_p99, 6), " |\n| same most probable token | | ", fixed(100 * *r.top1_agreement, 2),
                   " % |\n");
  }
  if (record.fit) out += message("| KL, expected | | ", fixed(record.fit->expected_kl, 6), " |\n");
  if (record.evaluation) {
    out += message("\nMeasured over ", record.evaluation->result.tokens, " tokens of ", cell(record.evaluation->text),
                   record.evaluation->calibration ? ", the calibration text: other texts will fare worse" : "", ".\n");
  }
  if (record.fit)
    out +=
        "\nExpected is the sum of what each matrix alone does to the unchanged model's output on the calibration text.\n";
  out += message("\nRecipe: `", record.recipe.to_json(), "`\n\n![errors](", picture, ")\n\n");
  out += message("| matrix | format | bytes before | bytes | relative error, % |", record.fit ? " expected KL |" : "", report.sparsity ? " zeros, % |" : "",
                 "\n|---|---|---:|---:|---:|", record.fit ? "---:|" : "", report.sparsity ? "---:|" : "", "\n");
  for (std::size_t i = 0; i < report.layers.size(); ++i) {
    const LayerReport& layer = report.layers[i];
    out += message("| ", cell(layer.name), " | ", layer.format, " | ", layer.bytes_before, " | ", layer.bytes_after,
                   " | ", fixed(100 * layer.relative_error, 3), " |");
    if (record.fit) out += message(" ", fixed(record.fit->kl[i], 7), " |");
    if (report.sparsity) out += layer.sparsity ? message(" ", fixed(100 * *layer.sparsity, 2), " |") : " |";
    out += "\n";
  }
  return out + inputs_table(report);
}

void write_file(const std::string& path, const std::string& text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

}  // namespace

Evaluation evaluate(const std::string& original, const std::string& compressed, Evaluation evaluation,
                    const std::string& text, std::int64_t limit, const CommonOptions& common) {
  const Model base = Model::load(original), model = Model::load(compressed);
  ProgressBar bar(!common.json);
  // Keys and values in floats: what is measured are the weights.
  const PerplexityOptions options{.limit = limit, .threads = static_cast<int>(common.threads), .kv = "f32"};
  evaluation.result = perplexity(model, text, options, &base, [&](std::int64_t done, std::int64_t total) {
    bar.show(done, total, "windows, before and after");
    return true;
  });
  return evaluation;
}

Json as_json(const Record& record) {
  Json json = Json::parse(record.report.to_json(), "report");
  if (record.fit) {
    json["fit"] = {{"planned_bytes", record.fit->plan.bytes}, {"expected_kl", record.fit->expected_kl}};
    for (std::size_t i = 0; i < record.fit->kl.size(); ++i) json["layers"][i]["expected_kl"] = record.fit->kl[i];
    for (const Choice& point : record.fit->trade_off)
      json["fit"]["trade_off"].push_back({{"bytes", point.bytes}, {"expected_kl", point.cost}});
  }
  if (record.evaluation) json["evaluation"] = evaluation_json(*record.evaluation);
  return json;
}

std::string measurements(const Record& record) {
  std::string out;
  if (record.report.pruned) out += pruned_text(*record.report.pruned);
  if (record.fit) {
    out += message("expected        KL ", fixed(record.fit->expected_kl, 6),
                   " nats a token, the sum over matrices on calibration text");
    // Entropy rises by the divergence where the original is as sure as it should be.
    if (record.evaluation)
      out += message(", perplexity ",
                     fixed(*record.evaluation->result.base_perplexity * std::exp(record.fit->expected_kl), 4));
    out += "\n";
  }
  if (record.evaluation) {
    const PerplexityResult& r = record.evaluation->result;
    out += message("measured        KL ", fixed(*r.kl_mean, 6), " nats a token, perplexity ",
                   fixed(*r.base_perplexity, 4), " -> ", fixed(r.perplexity, 4), ", same top token ",
                   fixed(100 * *r.top1_agreement, 2), " %, over ", r.tokens, " tokens of ", record.evaluation->text,
                   record.evaluation->calibration ? " (the calibration text: --evaluate takes another)" : "", "\n");
  }
  return out;
}

void write_report(const Record& record) {
  std::vector<Chart> charts{error_chart(record.report)};
  if (record.fit) charts.push_back(trade_off_chart(record));
  const std::string base = record.output + ".report";
  write_file(base + ".svg", svg(charts));
  write_file(base + ".json", as_json(record).dump({.indent = 2, .replace_invalid = true}) + "\n");
  write_file(base + ".md", markdown(record, std::filesystem::path(base + ".svg").filename().string()));
}

}  // namespace bantam::cli
