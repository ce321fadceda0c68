// What is counted, as Prometheus reads it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bantam/session/scheduler.hpp"
#include "server/front.hpp"

namespace bantam::server {

/// How often a figure was at most so much.
class Histogram {
 public:
  explicit Histogram(std::vector<double> bounds) : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {}
  void add(double value);
  /// In the text format of Prometheus: name_bucket, name_sum and name_count.
  void write(std::string& out, std::string_view name, std::string_view help, std::string_view label) const;

 private:
  std::vector<double> bounds_;
  std::vector<std::uint64_t> counts_;
  double sum_ = 0;
};

/// In the text format of Prometheus. Those of a name stand together, and the first has its help.
[[nodiscard]] std::string text_of(const std::vector<Figure>& figures);

/// Safe from any thread.
class Metrics {
 public:
  void answered(int status);
  /// Of a text that ended.
  void ended(TextEnd end, const TextStats& stats, double seconds);
  /// Since a request came, and since its last token.
  void first_token(double seconds);
  void next_token(double seconds);
  /// With the names of llama.cpp's server and of vLLM where they have one.
  [[nodiscard]] std::string text(const SchedulerStats& stats, std::string_view model, std::size_t connections) const;

 private:
  mutable std::mutex mutex_;
  std::map<int, std::uint64_t> answers_;
  std::array<std::uint64_t, 6> ends_{};  ///< by TextEnd
  // Bounds in seconds: vLLM's, which its dashboards know.
  Histogram first_token_{{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,  0.25,  0.5,  0.75,
                          1.0,   2.5,   5.0,  7.5,  10.0, 20.0, 40.0, 80.0, 160.0, 640.0}};
  Histogram next_token_{{0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0}};
  Histogram whole_{{0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0}};
  Histogram waited_{{0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0}};
};

}  // namespace bantam::server
