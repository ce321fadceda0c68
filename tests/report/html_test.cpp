// Reports and models as HTML and Markdown, whatever their names are.
#include "bantam/report/html.hpp"

#include <limits>

#include "report/document.hpp"
#include "tiny_model.hpp"

namespace bantam::test {
namespace {

constexpr const char* hostile = "a\"b'><script>alert(1)</script>&amp;\n\x01\xff|layers.2.x";

Report hostile_report() {
  Report report;
  report.bytes_before = 8'400'000;
  report.bytes_after = 3'080'000;
  report.layers.push_back({hostile, "i4.g64", 0.1, 1000, 500});
  report.layers.push_back({"model.layers.0.mlp.up_proj", "i4.g64", 0.05, 1000, 500, {}, 0.02});
  report.warnings.emplace_back(hostile);
  report.inputs.push_back({{hostile}, {}, {}});
  return report;
}

std::size_t count(const std::string& text, std::string_view part) {
  std::size_t n = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++n;
  return n;
}

/// Every tag is one of ours, closes in order, and has no attribute that acts; names cannot make others.
void check_tags(const std::string& html) {
  std::vector<std::string> open;
  for (auto at = html.find('<'); at != std::string::npos; at = html.find('<', at + 1)) {
    const std::string tag = html.substr(at + 1, html.find('>', at) - at - 1);
    const std::string name = tag.substr(tag[0] == '/' ? 1 : 0, tag.find_first_of(" /", 1) - (tag[0] == '/' ? 1 : 0));
    if (tag[0] == '!' || name == "meta") continue;
    CAPTURE(tag);
    const std::string_view known[] = {"html", "head", "title", "style", "body", "main", "div", "h1", "p", "b", "table", "caption", "thead", "tbody", "tr", "th",
                                      "td", "figure", "details", "summary", "pre", "svg", "g", "rect", "line", "text", "circle", "polyline"};
    REQUIRE(std::ranges::find(known, tag[0] == '/' ? std::string_view(tag).substr(1) : std::string_view(name)) != std::end(known));
    for (const char* acts : {"href", " on", "src=", "url("}) CHECK(tag.find(acts) == std::string::npos);
    if (tag.back() == '/') continue;
    if (tag[0] != '/') {
      open.push_back(name);
      continue;
    }
    REQUIRE(!open.empty());
    CHECK(open.back() == tag.substr(1));
    open.pop_back();
  }
  CHECK(open.empty());
}

TEST_CASE("a page of a report with hostile names holds no tag but the page's own, and loads nothing") {
  const Document document = document_of(hostile_report());
  const std::string page = html_page(hostile, to_html(document));
  check_tags(page);
  CHECK(page.find("<script") == std::string::npos);
  CHECK(page.find("&lt;script&gt;") != std::string::npos);
  CHECK(page.find("default-src 'none'") != std::string::npos);
  for (const char c : page) CHECK(((c >= ' ' && c < 0x7f) || c == '\n'));
  CHECK(count(page, "<svg ") == 3);  // errors of outputs, of weights, sizes
  CHECK(count(page, "role=\"img\" aria-label=\"") == 3);
  CHECK(count(page, "prefers-color-scheme:dark") == 4);  // the pictures, and the page
}

TEST_CASE("a report says the same in HTML and in Markdown") {
  const Report report = hostile_report();
  const Document document = document_of(report);
  const std::string markdown = to_markdown(document, "x.svg"), html = to_html(document);
  for (const ReportTable* table : {&document.sizes, &document.matrices}) {
    for (const auto& row : table->rows) {
      for (const std::string& cell : row) {
        if (cell == hostile) continue;
        CHECK(markdown.find(cell) != std::string::npos);
        CHECK(html.find(escaped(cell)) != std::string::npos);
      }
    }
  }
  CHECK(markdown.find("output error, %") != std::string::npos);
  CHECK(markdown.find("\\|layers.2.x") != std::string::npos);  // no cell more
}

TEST_CASE("what was pruned, and from what, stands in the summary, the table and the document") {
  Report report;
  PruneReport pruned;
  pruned.removals = {{Part::hidden, 0.25}, {Part::layers, 1}};
  pruned.bytes_before = 8'400'000;
  pruned.before[Cost::parameters] = 4.2e6;
  pruned.after[Cost::parameters] = 3.1e6;
  report.follow(pruned);
  report.pruning = "wanda:0.5";
  report.sparsity = 0.5;
  std::ostringstream summary;
  summary << report;
  CHECK(summary.str().find("without hidden:0.25 layers:1 (4.2 -> 3.1 million parameters), wanda:0.5: 50 % of the blocks' weights are 0") != std::string::npos);
  const Document document = document_of(report);
  const auto has = [&](const std::vector<std::string>& row) { return std::ranges::find(document.sizes.rows, row) != document.sizes.rows.end(); };
  CHECK(has({"parts removed", "", "hidden:0.25, layers:1"}));
  CHECK(has({"parameters", "4200000", "3100000"}));
  CHECK(has({"zeros among the weights of blocks, by wanda:0.5", "", "50.00 %"}));
  CHECK(Json::parse(report.to_json(), "test")["pruning"] == "wanda:0.5");
}

TEST_CASE("a model's picture holds the bytes of all of its matrices") {
  TemporaryFolder folder;
  TinyModel tiny;
  tiny.make().write_folder(folder / "hf");
  const Model model = Model::load(folder / "hf");
  const std::string html = to_html(model);
  check_tags(html);
  for (const char* kind : {"embed_tokens", "q_proj", "down_proj", "lm_head"}) CHECK(html.find(message(kind, " in f32: ")) != std::string::npos);
  CHECK(html.find(message(model.bytes(), " bytes")) != std::string::npos);
  CHECK(html.find(message(model.checkpoint().stored_bytes(), " bytes")) != std::string::npos);
}

TEST_CASE("charts of nothing, of one point and of numbers that cannot be drawn are pictures all the same") {
  const std::vector<Chart> charts = {{"t", "x", "y"}, {"t", "x", "y", true, {{"s", Mark::line, {{0, 0}, {1, -1}}}}}, {"t", "x", "y", true, {{"s", Mark::dots, {{3, 4}}}}}};
  for (const Chart& chart : charts) check_tags(svg(chart));
  constexpr double infinite = std::numeric_limits<double>::infinity(), none = std::numeric_limits<double>::quiet_NaN();
  for (const bool log_y : {false, true}) {
    const std::string drawn = svg(Chart{"t", "x", "y", log_y, {{"s", Mark::dots, {{0, infinite}, {infinite, 1}, {none, 1}, {1, none}, {2, 1e308}, {2, 5e-324}, {3, 4, "four"}}}}});
    check_tags(drawn);
    CHECK(drawn.find("<title>four</title>") != std::string::npos);
    CHECK(drawn.find("nan") == std::string::npos);
    CHECK(drawn.find("inf") == std::string::npos);
  }
  check_tags(svg(Bars{"t", "x"}));
  check_tags(svg(Bars{"t", "x", {"s"}, {{"r", {{0, 0}}}}}));
}

}  // namespace
}  // namespace bantam::test
