// Charts as SVG text, without scripts, in light and dark.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace bantam::inline v0 {

enum class Mark : bool { dots, line };

struct Series {
  struct Point {
    double x;
    double y;
    std::string label = {};  ///< shown when the pointer rests on it
  };
  std::string name;
  Mark mark = Mark::dots;
  std::vector<Point> points = {};
};

/// Points and lines over two axes.
struct Chart {
  std::string title;
  std::string x_title;
  std::string y_title;
  bool log_y = false;  ///< points that are not above 0 are left out, as are those that are no finite numbers
  std::vector<Series> series = {};
};

/// Bars from left to right, each a row, made of parts.
struct Bars {
  static constexpr std::size_t gap = std::size_t(-1);  ///< the series of parts that are not drawn
  struct Part {
    std::size_t series;  ///< of `series`
    double value;
    std::string label = {};
  };
  struct Row {
    std::string name;
    std::vector<Part> parts = {};
    double outline = 0;  ///< a frame behind the parts, as wide as this; 0: none
  };
  std::string title;
  std::string x_title;
  std::vector<std::string> series = {};
  std::vector<Row> rows = {};
};

/// Complete as a file and inside HTML. Colors are told apart by the color-blind too (Okabe and Ito 2008), and follow the reader's
/// choice of light or dark. Names may be anything.
[[nodiscard]] std::string svg(const Chart& chart);
[[nodiscard]] std::string svg(const Bars& bars);
/// One under the other.
[[nodiscard]] std::string svg(const std::vector<Chart>& charts);

/// Text inside of HTML or XML, quoted attributes included; what is not printable is spelled out.
[[nodiscard]] std::string escaped(std::string_view text);

}  // namespace bantam::inline v0
