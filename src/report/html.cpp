// Documents and models as HTML.
#include "bantam/report/html.hpp"

#include <algorithm>
#include <map>

#include "bantam/model/model.hpp"
#include "bantam/model/roles.hpp"
#include "core/number_text.hpp"
#include "document.hpp"

namespace bantam::inline v0 {

namespace {

constexpr std::string_view style =
    "<style>.bantam{color-scheme:light dark;font:15px/1.5 system-ui,Helvetica,Arial,sans-serif;max-width:60em}.bantam svg{max-width:100%;height:auto}"
    ".bantam figure{margin:1.2em 0}.bantam table{border-collapse:collapse;margin:1em 0}.bantam caption{text-align:left;font-weight:600;padding:.3em 0}"
    ".bantam th,.bantam td{padding:.15em .7em;text-align:right;font-variant-numeric:tabular-nums;border-bottom:1px solid #8884}"
    ".bantam th.t,.bantam td.t{text-align:left}.bantam .scroll{overflow-x:auto}.bantam pre{white-space:pre-wrap;overflow-wrap:anywhere}"
    ".bantam .warning{border-left:4px solid #d55e00;padding:.1em .8em}</style>\n";

std::string html(const ReportTable& table) {
  if (table.rows.empty()) return {};
  const auto kind = [&](std::size_t column) { return column < table.text_columns ? " class=\"t\"" : ""; };
  // A wide table scrolls by itself, with the keyboard as well.
  std::string out = message("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"", escaped(table.caption.substr(0, table.caption.find(';'))),
                            "\">\n<table>\n<caption>", escaped(table.caption), "</caption>\n<thead><tr>");
  for (std::size_t i = 0; i < table.head.size(); ++i) {
    out += table.head[i].empty() ? message("<td", kind(i), "></td>") : message("<th scope=\"col\"", kind(i), ">", escaped(table.head[i]), "</th>");
  }
  out += "</tr></thead>\n<tbody>\n";
  for (const auto& row : table.rows) {
    out += message("<tr><th scope=\"row\" class=\"t\">", escaped(row[0]), "</th>");
    for (std::size_t i = 1; i < row.size(); ++i) out += message("<td", kind(i), ">", escaped(row[i]), "</td>");
    out += "</tr>\n";
  }
  return out + "</tbody>\n</table>\n</div>\n";
}

std::string figure(const std::string& picture) { return "<figure>\n" + picture + "</figure>\n"; }

/// Where a model's bytes are. Biases and norms are too few to be seen.
Bars bars_of(const Model& model) {
  Bars bars{"Bytes of weights by kind of matrix, by format", "MB"};
  std::map<std::string, std::size_t> rows, formats;
  std::map<std::pair<std::size_t, std::size_t>, std::int64_t> bytes;
  for (const CheckpointTensor& tensor : model.tensors()) {
    const WeightMatrix* matrix = tensor.is_matrix ? matrix_of(model.weights(), tensor) : nullptr;
    if (matrix == nullptr) continue;
    const auto dot = tensor.name.rfind('.');
    const auto [row, new_row] = rows.emplace(dot == std::string::npos ? tensor.name : tensor.name.substr(dot + 1), bars.rows.size());
    if (new_row) bars.rows.push_back({row->first});
    const auto [format, new_format] = formats.emplace(matrix->format().name, bars.series.size());
    if (new_format) bars.series.emplace_back(matrix->format().name);
    bytes[{row->second, format->second}] += matrix->format().matrix_bytes(tensor.rows, tensor.columns);
  }
  for (const auto& [place, count] : bytes) {
    Bars::Row& row = bars.rows[place.first];
    row.parts.push_back({place.second, static_cast<double>(count) / 1e6, message(row.name, " in ", bars.series[place.second], ": ", in_bytes(count))});
  }
  return bars;
}

}  // namespace

std::string to_html(const Document& document) {
  std::string out = message("<div class=\"bantam\">\n", style, "<h1>", escaped(document.title), "</h1>\n<p><b>", escaped(document.summary), "</b></p>\n");
  for (const std::string& warning : document.warnings) out += message("<p class=\"warning\">Warning: ", escaped(warning), "</p>\n");
  out += html(document.sizes);
  for (const std::string& note : document.notes) out += message("<p>", escaped(note), "</p>\n");
  for (const Chart& chart : document.charts) out += figure(svg(chart));
  if (!document.bars.rows.empty()) out += figure(svg(document.bars));
  if (!document.recipe.empty()) out += message("<details><summary>Recipe</summary>\n<pre>", escaped(document.recipe), "</pre></details>\n");
  return out + html(document.matrices) + html(document.inputs) + "</div>\n";
}

std::string to_html(const Report& report) { return to_html(document_of(report)); }

std::string to_html(const Model& model) {
  const ModelConfig& c = model.config();
  std::int64_t parameters = 0;
  for (const CheckpointTensor& tensor : model.tensors()) parameters += tensor.rows * tensor.columns;
  ReportTable facts{"Model", 1, {"", ""}, {}};
  facts.add({"architecture", std::string(c.arch->name)});
  facts.add({"layers, width", message(c.layers, ", ", c.dim)});
  facts.add({"vocabulary, context", message(c.vocab, ", ", c.context, " tokens")});
  facts.add({"parameters", message(parameters)});
  facts.add({"on disk", message(model.checkpoint().stored_bytes(), " bytes")});
  facts.add({"weights in memory", message(model.bytes(), " bytes")});
  return message("<div class=\"bantam\">\n", style, html(facts), figure(svg(bars_of(model))), "</div>\n");
}

std::string html_page(std::string_view title, std::string_view body) {
  return message("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                 "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n<title>",
                 escaped(title), "</title>\n<style>body{margin:2em auto;max-width:62em;padding:0 1em;background:#fff;color:#222}"
                 "@media (prefers-color-scheme:dark){body{background:#15181d;color:#e6e6e6}}</style>\n</head>\n<body>\n<main>\n",
                 body, "</main>\n</body>\n</html>\n");
}

}  // namespace bantam::inline v0
