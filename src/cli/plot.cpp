// Drawing charts.
#include "plot.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "bantam/core/message.hpp"
#include "output.hpp"

namespace bantam::cli {

namespace {

constexpr double width = 900, height = 400;                      // of one chart
constexpr double left = 84, right = 176, top = 48, bottom = 58;  // around its frame; the legend stands at the right
constexpr std::array colors = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00",
                               "#56b4e9", "#000000", "#8a8a00", "#999999"};

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&') out += "&amp;";
    else if (c == '<') out += "&lt;";
    else if (c == '>') out += "&gt;";
    else if (c == '"') out += "&quot;";
    else if (static_cast<unsigned char>(c) >= ' ') out += c;
  }
  return out;
}

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
    if (logarithmic_ && !(value > 0)) return;
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
  [[nodiscard]] bool shows(double value) const { return !logarithmic_ || value > 0; }
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
  return message("<text x=\"", number(x), "\" y=\"", number(y), "\" text-anchor=\"", anchor, "\"", more, ">",
                 escaped(text), "</text>\n");
}

std::string line_at(double x1, double y1, double x2, double y2, const char* color) {
  return message("<line x1=\"", number(x1), "\" y1=\"", number(y1), "\" x2=\"", number(x2), "\" y2=\"", number(y2),
                 "\" stroke=\"", color, "\"/>\n");
}

std::string draw(const Series& series, const Axis& x, const Axis& y, const char* color) {
  std::string out, path;
  for (const Series::Point& point : series.points) {
    if (!y.shows(point.y)) continue;
    if (series.mark == Mark::line) {
      path += message(path.empty() ? "" : " ", number(x.at(point.x)), ",", number(y.at(point.y)));
      continue;
    }
    out += message("<circle cx=\"", number(x.at(point.x)), "\" cy=\"", number(y.at(point.y)), "\" r=\"4\" fill=\"",
                   color, "\" fill-opacity=\"0.85\"><title>", escaped(point.label), "</title></circle>\n");
  }
  if (!path.empty())
    out += message("<polyline points=\"", path, "\" fill=\"none\" stroke=\"", color, "\" stroke-width=\"2\"/>\n");
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
  std::string out = text_at(left, top - 20, "start", chart.title, " font-size=\"15\" font-weight=\"600\"");
  for (const double tick : y.ticks()) {
    out += line_at(left, y.at(tick), width - right, y.at(tick), "#e4e4e4");
    out += text_at(left - 8, y.at(tick) + 4, "end", tick_text(tick));
  }
  for (const double tick : x.ticks()) {
    out += line_at(x.at(tick), height - bottom, x.at(tick), height - bottom + 5, "#555");
    out += text_at(x.at(tick), height - bottom + 19, "middle", tick_text(tick));
  }
  out += line_at(left, height - bottom, width - right, height - bottom, "#555");
  out += text_at((left + width - right) / 2, height - 14, "middle", chart.x_title);
  out += message("<text transform=\"translate(18 ", number((top + height - bottom) / 2),
                 ") rotate(-90)\" text-anchor=\"middle\">", escaped(chart.y_title), "</text>\n");
  for (std::size_t i = 0; i < chart.series.size(); ++i) {
    const char* color = colors[i % colors.size()];
    const Series& series = chart.series[i];
    out += draw(series, x, y, color);
    const double at = top + 8 + 20 * static_cast<double>(i), legend = width - right + 18;
    if (series.mark == Mark::line) {
      out += message("<line x1=\"", number(legend - 6), "\" y1=\"", number(at), "\" x2=\"", number(legend + 6),
                     "\" y2=\"", number(at), "\" stroke=\"", color, "\" stroke-width=\"2\"/>\n");
    } else {
      out += message("<circle cx=\"", number(legend), "\" cy=\"", number(at), "\" r=\"4\" fill=\"", color, "\"/>\n");
    }
    out += text_at(legend + 12, at + 4, "start", series.name);
  }
  return out;
}

}  // namespace

std::string svg(const std::vector<Chart>& charts) {
  const double all = height * static_cast<double>(charts.size());
  std::string out =
      message("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", fixed(width, 0), " ", fixed(all, 0),
              "\" width=\"", fixed(width, 0), "\" height=\"", fixed(all, 0),
              "\" font-family=\"system-ui, Helvetica, Arial, sans-serif\" font-size=\"12\" fill=\"#222\">\n",
              "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n");
  for (std::size_t i = 0; i < charts.size(); ++i) {
    out += message("<g transform=\"translate(0 ", fixed(height * static_cast<double>(i), 0), ")\">\n", draw(charts[i]),
                   "</g>\n");
  }
  return out + "</svg>\n";
}

}  // namespace bantam::cli
