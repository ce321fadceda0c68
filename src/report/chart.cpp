// Drawing charts.
#include "chart.hpp"

#include <algorithm>
#include <cmath>

#include "core/number_text.hpp"

namespace bantam::inline v0 {

namespace {

constexpr double width = 900, height = 400;                      // of one chart
constexpr double left = 84, right = 176, top = 48, bottom = 58;  // around its frame; the legend stands at the right
constexpr std::size_t colors = 9;                                // classes s0 to s8

// Rules, not attributes, so that the reader's choice of light or dark decides; a reader that knows no such choice takes the first.
constexpr std::string_view chart_style =
    "<style>.bc{font-family:system-ui,Helvetica,Arial,sans-serif;font-size:12px}.bc text{fill:#222}.bc .paper{fill:#fff}"
    ".bc .grid{stroke:#e4e4e4}.bc .axis{stroke:#555}.bc .frame{fill:none;stroke:#777}.bc .path{fill:none;stroke-width:2}"
    ".bc .s0{fill:#0072b2}.bc .s1{fill:#d55e00}.bc .s2{fill:#009e73}.bc .s3{fill:#cc79a7}.bc .s4{fill:#e69f00}"
    ".bc .s5{fill:#56b4e9}.bc .s6{fill:#000}.bc .s7{fill:#8a8a00}.bc .s8{fill:#999}"
    ".bc .l0{stroke:#0072b2}.bc .l1{stroke:#d55e00}.bc .l2{stroke:#009e73}.bc .l3{stroke:#cc79a7}.bc .l4{stroke:#e69f00}"
    ".bc .l5{stroke:#56b4e9}.bc .l6{stroke:#000}.bc .l7{stroke:#8a8a00}.bc .l8{stroke:#999}"
    "@media (prefers-color-scheme:dark){.bc text{fill:#e6e6e6}.bc .paper{fill:#15181d}.bc .grid{stroke:#30353d}.bc .axis{stroke:#9aa4b0}"
    ".bc .frame{stroke:#9aa4b0}.bc .s0{fill:#2f8fdc}.bc .s5{fill:#a4deff}.bc .s6{fill:#fff}.bc .l0{stroke:#2f8fdc}.bc .l5{stroke:#a4deff}.bc .l6{stroke:#fff}}</style>\n";

std::string number(double x) { return fixed(x, 2); }

/// At most four significant digits, no more than the number needs; small powers of ten as such.
std::string tick_text(double x) {
  if (x == 0) return "0";
  if (std::fabs(x) < 1e-3) return message("1e", std::lround(std::log10(std::fabs(x))));
  const int digits = std::clamp(3 - static_cast<int>(std::floor(std::log10(std::fabs(x)))), 0, 9);
  std::string text = fixed(x, digits);
  if (text.find('.') == std::string::npos) return text;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

/// Where values lie along one side of a frame.
class Axis {
 public:
  Axis(double from, double to, bool logarithmic) : from_(from), to_(to), logarithmic_(logarithmic) {}
  void take(double value) {
    if (!shows(value)) return;
    low_ = any_ ? std::min(low_, value) : value;
    high_ = any_ ? std::max(high_, value) : value;
    any_ = true;
  }
  /// Room on both sides, 0 in view where it is near.
  void finish() {
    if (logarithmic_) {
      low_ = std::pow(10, std::floor(std::log10(any_ ? low_ : 1) - 1e-9));
      high_ = std::pow(10, std::ceil(std::log10(any_ ? high_ : 1) + 1e-9));
      return;
    }
    const double span = high_ > low_ ? high_ - low_ : std::max(1.0, std::fabs(high_));
    low_ = low_ >= 0 && low_ < span ? 0 : low_ - 0.05 * span;
    high_ += 0.05 * span;
  }
  void exactly(double low, double high) {
    low_ = low;
    high_ = high;
  }
  [[nodiscard]] bool shows(double value) const { return std::isfinite(value) && (!logarithmic_ || (value > 1e-300 && value < 1e300)); }
  [[nodiscard]] double at(double value) const {
    const double share =
        logarithmic_ ? std::log(value / low_) / std::log(high_ / low_) : (value - low_) / (high_ - low_);
    return from_ + (to_ - from_) * share;
  }
  [[nodiscard]] std::vector<double> ticks() const {
    std::vector<double> ticks;
    if (logarithmic_) {
      for (double t = low_; t <= high_ * 1.001; t *= 10) ticks.push_back(t);
      return ticks;
    }
    const double rough = (high_ - low_) / 6;
    const double power = std::pow(10, std::floor(std::log10(rough)));
    const double step = power * (rough / power > 5 ? 10 : rough / power > 2 ? 5 : rough / power > 1 ? 2 : 1);
    for (double t = std::ceil(low_ / step - 1e-9) * step; t <= high_ + 1e-9 * step; t += step)
      ticks.push_back(std::fabs(t) < 1e-9 * step ? 0 : t);
    return ticks;
  }

 private:
  double from_, to_;
  bool logarithmic_;
  bool any_ = false;
  double low_ = 0, high_ = 1;
};

std::string text_at(double x, double y, const char* anchor, const std::string& text, const char* more = "") {
  return message("<text x=\"", number(x), "\" y=\"", number(y), "\" text-anchor=\"", anchor, "\"", more, ">", escaped(text), "</text>\n");
}

std::string line_at(double x1, double y1, double x2, double y2, const char* kind) {
  return message("<line x1=\"", number(x1), "\" y1=\"", number(y1), "\" x2=\"", number(x2), "\" y2=\"", number(y2), "\" class=\"", kind, "\"/>\n");
}

std::string title_at(const std::string& title) { return text_at(left, top - 20, "start", title, " font-size=\"15\" font-weight=\"600\""); }

/// The ticks of an axis under the frame, and what it counts.
std::string x_axis(const Axis& x, const std::string& title, double at) {
  std::string out;
  for (const double tick : x.ticks()) {
    out += line_at(x.at(tick), at, x.at(tick), at + 5, "axis");
    out += text_at(x.at(tick), at + 19, "middle", tick_text(tick));
  }
  return out + line_at(left, at, width - right, at, "axis") + text_at((left + width - right) / 2, at + 44, "middle", title);
}

std::string draw(const Series& series, const Axis& x, const Axis& y, std::size_t color) {
  std::string out, path;
  for (const Series::Point& point : series.points) {
    if (!x.shows(point.x) || !y.shows(point.y)) continue;
    if (series.mark == Mark::line) {
      path += message(path.empty() ? "" : " ", number(x.at(point.x)), ",", number(y.at(point.y)));
      continue;
    }
    out += message("<circle cx=\"", number(x.at(point.x)), "\" cy=\"", number(y.at(point.y)), "\" r=\"4\" class=\"s", color,
                   "\" fill-opacity=\"0.85\"><title>", escaped(point.label), "</title></circle>\n");
  }
  if (!path.empty()) out += message("<polyline points=\"", path, "\" class=\"path l", color, "\"/>\n");
  return out;
}

std::string draw(const Chart& chart) {
  Axis x(left, width - right, false), y(height - bottom, top, chart.log_y);
  for (const Series& series : chart.series) {
    for (const Series::Point& point : series.points) {
      if (y.shows(point.y)) x.take(point.x);
      y.take(point.y);
    }
  }
  x.finish();
  y.finish();
  std::string out = title_at(chart.title);
  for (const double tick : y.ticks()) {
    out += line_at(left, y.at(tick), width - right, y.at(tick), "grid");
    out += text_at(left - 8, y.at(tick) + 4, "end", tick_text(tick));
  }
  out += x_axis(x, chart.x_title, height - bottom);
  out += message("<text transform=\"translate(18 ", number((top + height - bottom) / 2), ") rotate(-90)\" text-anchor=\"middle\">",
                 escaped(chart.y_title), "</text>\n");
  for (std::size_t i = 0; i < chart.series.size(); ++i) {
    const Series& series = chart.series[i];
    out += draw(series, x, y, i % colors);
    const double at = top + 8 + 20 * static_cast<double>(i), legend = width - right + 18;
    if (series.mark == Mark::line) {
      out += message("<line x1=\"", number(legend - 6), "\" y1=\"", number(at), "\" x2=\"", number(legend + 6), "\" y2=\"", number(at),
                     "\" class=\"path l", i % colors, "\"/>\n");
    } else {
      out += message("<circle cx=\"", number(legend), "\" cy=\"", number(at), "\" r=\"4\" class=\"s", i % colors, "\"/>\n");
    }
    out += text_at(legend + 12, at + 4, "start", series.name);
  }
  return out;
}

/// One picture: what it shows is told to those who do not see it.
std::string picture(double high, const std::string& described, const std::string& inside) {
  return message("<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"bc\" role=\"img\" aria-label=\"", escaped(described), "\" viewBox=\"0 0 ",
                 fixed(width, 0), " ", fixed(high, 0), "\" width=\"", fixed(width, 0), "\" height=\"", fixed(high, 0), "\">\n", chart_style,
                 "<rect width=\"100%\" height=\"100%\" class=\"paper\"/>\n", inside, "</svg>\n");
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : printable(text, 4096)) {
    if (c == '&') out += "&amp;";
    else if (c == '<') out += "&lt;";
    else if (c == '>') out += "&gt;";
    else if (c == '"') out += "&quot;";
    else if (c == '\'') out += "&#39;";
    else out += c;
  }
  return out;
}

std::string svg(const std::vector<Chart>& charts) {
  std::string inside, titles;
  for (std::size_t i = 0; i < charts.size(); ++i) {
    inside += message("<g transform=\"translate(0 ", fixed(height * static_cast<double>(i), 0), ")\">\n", draw(charts[i]), "</g>\n");
    titles += message(i > 0 ? "; " : "", charts[i].title);
  }
  return picture(height * static_cast<double>(charts.size()), titles, inside);
}

std::string svg(const Chart& chart) { return svg(std::vector{chart}); }

std::string svg(const Bars& bars) {
  constexpr double row = 26, bar = 16, names = 110;
  const double end = top + row * static_cast<double>(bars.rows.size()) + 8;
  double most = 0;
  for (const Bars::Row& one : bars.rows) {
    double sum = 0;
    for (const Bars::Part& part : one.parts) sum += part.value;
    most = std::max({most, sum, one.outline});
  }
  Axis x(left + names - 84 + 30, width - right, false);
  x.take(0);
  x.take(most);
  x.finish();
  std::string out = title_at(bars.title);
  for (std::size_t i = 0; i < bars.rows.size(); ++i) {
    const Bars::Row& one = bars.rows[i];
    const double y = top + row * static_cast<double>(i);
    out += text_at(x.at(0) - 8, y + bar - 4, "end", one.name);
    double from = 0;
    for (const Bars::Part& part : one.parts) {
      if (part.series != Bars::gap) {
        out += message("<rect x=\"", number(x.at(from)), "\" y=\"", number(y), "\" width=\"", number(x.at(from + part.value) - x.at(from)), "\" height=\"",
                       number(bar), "\" class=\"s", part.series % colors, "\"><title>", escaped(part.label), "</title></rect>\n");
      }
      from += part.value;
    }
    if (one.outline > 0) {
      out += message("<rect x=\"", number(x.at(0)), "\" y=\"", number(y), "\" width=\"", number(x.at(one.outline) - x.at(0)), "\" height=\"", number(bar),
                     "\" class=\"frame\"/>\n");
    }
  }
  out += x_axis(x, bars.x_title, end);
  for (std::size_t i = 0; i < bars.series.size(); ++i) {
    const double at = top + 8 + 20 * static_cast<double>(i), legend = width - right + 18;
    out += message("<rect x=\"", number(legend - 6), "\" y=\"", number(at - 6), "\" width=\"12\" height=\"12\" class=\"s", i % colors, "\"/>\n");
    out += text_at(legend + 12, at + 4, "start", bars.series[i]);
  }
  const double legend_end = top + 20 * static_cast<double>(bars.series.size());
  return picture(std::max(end + bottom, legend_end + bottom), bars.title, out);
}

}  // namespace bantam::inline v0
