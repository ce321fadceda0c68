// Following a pass in time.
#include "timeline.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <utility>

#include "output.hpp"
#include "report/chart.hpp"

namespace bantam::cli {

namespace {

constexpr std::size_t slots = 2;
/// What comes before the one that is shown: slots are full then, and its reads began in the pass before.
constexpr int passes_before = 3;

class Simulation {
 public:
  Simulation(std::span<const std::vector<LayerTime>> passes, double head_seconds) : passes_(passes), layers_(passes.front()), head_(head_seconds) {
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      if (layers_[i].read_ahead > 0) streamed_.push_back(static_cast<std::int64_t>(i));
    }
    for (std::size_t i = 0; i < slots; ++i) begin_read();
  }
  Timeline run() {
    for (int i = 0; i < passes_before; ++i) (void)pass(passes_.front());
    std::vector<Timeline> all;
    double sum = 0;
    for (const std::vector<LayerTime>& layers : passes_) sum += all.emplace_back(pass(layers)).seconds;
    const double mean = sum / static_cast<double>(all.size());
    Timeline typical = *std::ranges::min_element(all, {}, [&](const Timeline& t) { return std::abs(t.seconds - mean); });
    typical.seconds = mean;
    return typical;
  }

 private:
  void begin_read() {
    if (streamed_.empty()) return;
    const std::int64_t layer = streamed_[next_++ % streamed_.size()];
    const double begin = std::max(now_, disk_free_);
    disk_free_ = begin + layers_[static_cast<std::size_t>(layer)].read_ahead;
    reads_.push_back({begin, disk_free_, layer});
  }
  /// The drive does this first; what it was at takes longer, what waits begins later.
  double read_experts(double seconds, std::int64_t layer) {
    if (seconds == 0) return now_;
    for (Timeline::Span& read : reads_) {
      if (read.end <= now_) continue;
      if (read.begin >= now_) read.begin += seconds;
      read.end += seconds;
    }
    disk_free_ = std::max(disk_free_, now_) + seconds;
    shown_.read_experts.push_back({now_, now_ + seconds, layer});
    return now_ + seconds;
  }
  void compute(double seconds, std::int64_t layer) {
    if (seconds > 0) shown_.arithmetic.push_back({now_, now_ + seconds, layer});
    now_ += seconds;
  }
  Timeline pass(std::span<const LayerTime> layers) {
    layers_ = layers;
    shown_ = {};
    const double begin = now_;
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const LayerTime& layer = layers_[i];
      const auto index = static_cast<std::int64_t>(i);
      if (layer.read_ahead > 0) now_ = std::max(now_, reads_.front().end);
      compute(layer.arithmetic, index);
      const double there = read_experts(layer.read_experts, index);
      compute(layer.expert_arithmetic, index);
      now_ = std::max(now_, there);
      compute(layer.late_arithmetic, index);
      if (layer.read_ahead == 0) continue;
      shown_.read_ahead.push_back(reads_.front());
      reads_.pop_front();
      begin_read();
    }
    compute(head_, Timeline::head);
    shown_.seconds = now_ - begin;
    shown_.read_ahead.insert(shown_.read_ahead.end(), reads_.begin(), reads_.end());
    for (std::vector<Timeline::Span>* spans : {&shown_.arithmetic, &shown_.read_ahead, &shown_.read_experts}) {
      for (Timeline::Span& span : *spans) {
        span.begin = std::clamp(span.begin - begin, 0.0, shown_.seconds);
        span.end = std::clamp(span.end - begin, 0.0, shown_.seconds);
      }
      std::erase_if(*spans, [](const Timeline::Span& span) { return span.end <= span.begin; });
    }
    return std::exchange(shown_, {});
  }

  std::span<const std::vector<LayerTime>> passes_;
  std::span<const LayerTime> layers_;  ///< of the pass at hand
  double head_;
  std::vector<std::int64_t> streamed_;
  std::deque<Timeline::Span> reads_;  ///< of layers that come next
  std::size_t next_ = 0;              ///< of streamed_, counted on over passes
  double now_ = 0, disk_free_ = 0;
  Timeline shown_;
};

}  // namespace

Timeline timeline_of(std::span<const std::vector<LayerTime>> passes, double head_seconds) { return Simulation(passes, head_seconds).run(); }

std::string svg(const Timeline& timeline, const std::string& title) {
  Bars bars{.title = title, .x_title = "milliseconds"};
  const auto add = [&](const char* name, std::vector<Timeline::Span> spans) {
    bars.series.emplace_back(name);
    const std::size_t series = bars.series.size() - 1;
    // A read that is cut at the picture's beginning may stand behind those that were finished in it.
    std::ranges::sort(spans, {}, &Timeline::Span::begin);
    Bars::Row row{.name = name};
    double at = 0;
    for (const Timeline::Span& span : spans) {
      const double begin = std::max(at, span.begin);
      if (begin > at) row.parts.push_back({Bars::gap, 1000 * (begin - at)});
      const std::string what = span.layer == Timeline::head ? "head" : message("layer ", span.layer);
      row.parts.push_back({series, 1000 * (span.end - begin), message(what, ": ", fixed(1000 * (span.end - span.begin), 2), " ms")});
      at = span.end;
    }
    bars.rows.push_back(std::move(row));
  };
  add("arithmetic", timeline.arithmetic);
  if (!timeline.read_ahead.empty()) add("layers read", timeline.read_ahead);
  if (!timeline.read_experts.empty()) add("experts read", timeline.read_experts);
  return bantam::svg(bars);
}

}  // namespace bantam::cli
