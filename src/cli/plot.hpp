// Charts as SVG text.
#pragma once

#include <string>
#include <vector>

namespace bantam::cli {

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

struct Chart {
  std::string title;
  std::string x_title;
  std::string y_title;
  bool log_y = false;  ///< points that are not above 0 are left out
  std::vector<Series> series = {};
};

/// Charts one under the other, complete as a file. Colors are told apart by the color-blind too (Okabe and Ito 2008).
[[nodiscard]] std::string svg(const std::vector<Chart>& charts);

}  // namespace bantam::cli
