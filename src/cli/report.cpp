// Reports as text, JSON and charts.
#include "report.hpp"

#include <cmath>

#include "bantam/io/file.hpp"
#include "bantam/report/html.hpp"
#include "progress.hpp"
#include "prune.hpp"
#include "report/document.hpp"

namespace bantam::cli {

namespace {

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

/// The library's document, with expectations and measurements where there are any.
Document document_of_record(const Record& record) {
  Document document = document_of(record.report);
  document.title = message(record.original, " -> ", record.output);
  document.recipe = record.recipe.to_json();
  if (record.evaluation) {
    const PerplexityResult& r = record.evaluation->result;
    document.sizes.add({"perplexity", fixed(*r.base_perplexity, 4), fixed(r.perplexity, 4)});
    document.sizes.add({"KL, mean, nats a token", "", fixed(*r.kl_mean, 6)});
    document.sizes.add({"KL, 99th percentile", "", fixed(*r.kl_p99, 6)});
    document.sizes.add({"same most probable token", "", fixed(100 * *r.top1_agreement, 2) + " %"});
    document.notes.push_back(message("Measured over ", r.tokens, " tokens of ", record.evaluation->text,
                                     record.evaluation->calibration ? ", the calibration text: other texts will fare worse" : "", "."));
  }
  const auto column = [&](const char* name, auto&& cell) {
    std::vector<std::string> cells;
    for (std::size_t i = 0; i < record.report.layers.size(); ++i) cells.push_back(cell(i));
    document.matrices.add_column(name, std::move(cells));
  };
  if (record.fit) {
    document.sizes.add({"KL, expected", "", fixed(record.fit->expected_kl, 6)});
    document.notes.emplace_back("Expected is the sum of what each matrix alone does to the unchanged model's output on the calibration text.");
    document.charts.push_back(trade_off_chart(record));
    column("expected KL", [&](std::size_t i) { return fixed(record.fit->kl[i], 7); });
  }
  if (record.report.sparsity) {
    column("zeros, %", [&](std::size_t i) {
      const std::optional<double>& share = record.report.layers[i].sparsity;
      return share ? fixed(100 * *share, 2) : std::string();
    });
  }
  return document;
}

}  // namespace

Evaluation evaluate(const Checkpoint& original, const std::string& compressed, Evaluation evaluation,
                    const std::string& text, std::int64_t limit, const CommonOptions& common) {
  const Model base = Model::from_checkpoint(original), model = Model::load(compressed);
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
  const Document document = document_of_record(record);
  const std::string base = record.output + ".report";
  write_file(base + ".svg", svg(document.charts));
  write_file(base + ".json", as_json(record).dump({.indent = 2, .replace_invalid = true}) + "\n");
  write_file(base + ".md", to_markdown(document, std::filesystem::path(base + ".svg").filename().string()));
  write_file(base + ".html", html_page(document.title, to_html(document)));
}

}  // namespace bantam::cli
