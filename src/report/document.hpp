// A report's parts, the same for Markdown and HTML.
#pragma once

#include "bantam/compress/compress.hpp"
#include "chart.hpp"

namespace bantam::inline v0 {

/// The first `text_columns` columns hold text, the others numbers. Without rows it is left out.
struct ReportTable {
  std::string caption;
  std::size_t text_columns = 1;
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> rows;

  void add(std::vector<std::string> row) { rows.push_back(std::move(row)); }
  /// One more column; `cells` one for each row.
  void add_column(std::string name, std::vector<std::string> cells);
};

struct Document {
  std::string title;
  std::string summary;
  std::vector<std::string> warnings;
  ReportTable sizes;               ///< what, before, after
  std::vector<std::string> notes;  ///< on these
  std::string recipe;              ///< JSON; may be empty
  std::vector<Chart> charts;
  Bars bars;
  ReportTable matrices;
  ReportTable inputs;
};

[[nodiscard]] Document document_of(const Report& report);
/// `picture`: the file of the charts.
[[nodiscard]] std::string to_markdown(const Document& document, const std::string& picture);
[[nodiscard]] std::string to_html(const Document& document);

}  // namespace bantam::inline v0
