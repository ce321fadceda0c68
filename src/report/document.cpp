// What a report says, as tables and charts.
#include "document.hpp"

#include <algorithm>
#include <map>
#include <sstream>

#include "core/number_text.hpp"

namespace bantam::inline v0 {

namespace {

/// "model.layers.3.mlp.up_proj" -> 3; -1 for what is not of a layer.
std::int64_t layer_of(const std::string& name) {
  constexpr std::string_view mark = "layers.";
  const auto at = name.find(mark);
  return at == std::string::npos ? -1 : std::atoll(name.c_str() + at + mark.size());
}

/// "up_proj".
std::string kind_of(const std::string& name) { return name.substr(name.rfind('.') == std::string::npos ? 0 : name.rfind('.') + 1); }

Chart error_chart(const Report& report, bool outputs) {
  std::int64_t last = 0;
  for (const LayerReport& layer : report.layers) last = std::max(last, layer_of(layer.name));
  Chart chart{outputs ? "Relative error of outputs by layer" : "Relative error of weights by layer",
              outputs ? "layer" : "layer (embeddings stand before the first, the head after the last)",
              outputs ? "||X (W - W')T|| / ||X WT||, %" : "||W - W'|| / ||W||, %"};
  std::map<std::string, std::size_t> places;
  for (const LayerReport& layer : report.layers) {
    if (outputs && !layer.output_error) continue;
    const std::string kind = kind_of(layer.name);
    const auto [place, added] = places.emplace(kind, chart.series.size());
    if (added) chart.series.push_back({kind});
    const std::int64_t at = layer_of(layer.name);
    // Kinds side by side, so that none hides another.
    const double x = at >= 0 ? static_cast<double>(at) + 0.08 * (static_cast<double>(place->second) - 4.5)
                             : static_cast<double>(kind == "lm_head" ? last + 1 : -1);
    const double error = 100 * (outputs ? *layer.output_error : layer.relative_error);
    chart.series[place->second].points.push_back({x, error, message(layer.name, " ", layer.format, " ", fixed(error, 3), " %")});
  }
  return chart;
}

Bars size_bars(const Report& report) {
  constexpr double megabyte = 1e6;
  // What pruning has left is in floats for a while: no size that anything ever had.
  const bool framed = !report.pruned;
  Bars bars{framed ? "Bytes by kind of matrix, by format; the frame is what they were" : "Bytes by kind of matrix, by format", "MB"};
  std::map<std::string, std::size_t> rows, formats;
  std::map<std::pair<std::size_t, std::size_t>, std::int64_t> bytes;  // by row and format
  for (const LayerReport& layer : report.layers) {
    const auto [row, new_row] = rows.emplace(kind_of(layer.name), bars.rows.size());
    if (new_row) bars.rows.push_back({row->first});
    const auto [format, new_format] = formats.emplace(layer.format, bars.series.size());
    if (new_format) bars.series.push_back(layer.format);
    if (framed) bars.rows[row->second].outline += static_cast<double>(layer.bytes_before) / megabyte;
    bytes[{row->second, format->second}] += layer.bytes_after;
  }
  for (const auto& [place, count] : bytes) {
    Bars::Row& row = bars.rows[place.first];
    row.parts.push_back({place.second, static_cast<double>(count) / megabyte, message(row.name, " in ", bars.series[place.second], ": ", in_bytes(count))});
  }
  return bars;
}

ReportTable sizes_of(const Report& report) {
  ReportTable table{"Sizes", 1, {"", "before", "after"}, {}};
  table.add({"bytes", message(report.bytes_before), message(report.bytes_after)});
  table.add({"bits a weight", "", fixed(report.bits_per_weight, 3)});
  if (report.sparsity) table.add({message("zeros among the weights of blocks, by ", report.pruning), "", fixed(100 * *report.sparsity, 2) + " %"});
  if (report.pruned) {
    table.add({"parts removed", "", with_commas(report.pruned->removals, &Removal::text)});
    const auto row = [&](const char* what, Cost cost, double unit = 1, int digits = 0) {
      if (report.pruned->before[cost] == 0 && cost == Cost::latency) return;
      table.add({what, fixed(report.pruned->before[cost] * unit, digits), fixed(report.pruned->after[cost] * unit, digits)});
    };
    row("parameters", Cost::parameters);
    row("operations a token", Cost::flops);
    row("bytes in these formats", Cost::bytes);
    row("milliseconds a token in these formats", Cost::latency, 1e3, 2);
  }
  if (report.calibration_tokens > 0) table.add({"tokens of calibration", "", message(report.calibration_tokens)});
  if (report.held_out) {
    table.add({"error of the last hidden states on held-out text", "", fixed(100 * report.held_out->error, 2) + " %"});
    table.add({"the same, weights rounded to nearest", "", fixed(100 * report.held_out->nearest_error, 2) + " %"});
  }
  return table;
}

ReportTable matrices_of(const Report& report, bool outputs) {
  ReportTable table{"Matrices", 2, {"matrix", "format", report.pruned ? "bytes, pruned" : "bytes before", "bytes", "relative error, %"}, {}};
  for (const LayerReport& layer : report.layers) {
    table.add({layer.name, layer.format, message(layer.bytes_before), message(layer.bytes_after), fixed(100 * layer.relative_error, 3)});
  }
  std::vector<std::string> cells;
  for (const LayerReport& layer : report.layers) cells.push_back(layer.output_error ? fixed(100 * *layer.output_error, 3) : "");
  if (outputs) table.add_column("output error, %", cells);
  return table;
}

ReportTable inputs_of(const Report& report) {
  ReportTable table{"Inputs of the matrices over the calibration text; 0.1 % of the values lie below, and as many above the two percentiles.\n"
                    "A ratio of the largest magnitude to theirs far above 1 means outliers: smoothing or rotating may help.",
                    1, {"inputs of", "min", "0.1 %", "99.9 %", "max", "outlier ratio"}, {}};
  for (const InputReport& input : report.inputs) {
    std::string names;
    for (const std::string& name : input.matrices) names += names.empty() ? name : ", " + kind_of(name);
    table.add({names, fixed(input.range.low, 3), fixed(input.central.low, 3), fixed(input.central.high, 3), fixed(input.range.high, 3),
               fixed(input.outlier_ratio(), 2)});
  }
  return table;
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

std::string markdown(const ReportTable& table) {
  const auto line = [&](auto&& each) {
    std::string out = "|";
    for (std::size_t i = 0; i < table.head.size(); ++i) out += each(i);
    return out + "\n";
  };
  std::string out = line([&](std::size_t i) { return message(" ", table.head[i], " |"); });
  out += line([&](std::size_t i) { return i < table.text_columns ? "---|" : "---:|"; });
  for (const auto& row : table.rows) out += line([&](std::size_t i) { return row[i].empty() ? std::string(" |") : message(" ", cell(row[i]), " |"); });
  return out;
}

}  // namespace

void ReportTable::add_column(std::string name, std::vector<std::string> cells) {
  head.push_back(std::move(name));
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i].push_back(std::move(cells[i]));
}

Document document_of(const Report& report) {
  const bool outputs = std::ranges::any_of(report.layers, [](const LayerReport& layer) { return layer.output_error.has_value(); });
  std::ostringstream summary;
  summary << report;
  Document document{.title = "Compression", .summary = summary.str(), .warnings = report.warnings, .sizes = sizes_of(report),
                    .notes = {}, .recipe = {}, .charts = {}, .bars = size_bars(report), .matrices = matrices_of(report, outputs),
                    .inputs = inputs_of(report)};
  if (outputs) document.charts.push_back(error_chart(report, true));
  document.charts.push_back(error_chart(report, false));
  return document;
}

std::string to_markdown(const Document& document, const std::string& picture) {
  std::string out = message("# ", cell(document.title), "\n\n", markdown(document.sizes));
  for (const std::string& note : document.notes) out += message("\n", cell(note), "\n");
  for (const std::string& warning : document.warnings) out += message("\nWarning: ", cell(warning), "\n");
  if (!document.recipe.empty()) out += message("\nRecipe: `", document.recipe, "`\n");
  out += message("\n![errors](", picture, ")\n\n", markdown(document.matrices));
  if (!document.inputs.rows.empty()) out += message("\n", document.inputs.caption, "\n\n", markdown(document.inputs));
  return out;
}

}  // namespace bantam::inline v0
