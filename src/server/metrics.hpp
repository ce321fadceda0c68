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

/// Figures in the text format of Prometheus, which wants all lines of a name together.
class Exposition {
 public:
  /// `labels`: a="1",b="2".
  void counter(std::string_view name, std::string_view help, double value, std::string_view labels = {}) { one(name, "counter", help, value, labels); }
  void gauge(std::string_view name, std::string_view help, double value, std::string_view labels = {}) { one(name, "gauge", help, value, labels); }
  void add(const Figure& figure) { one(figure.name, figure.type, figure.help, figure.value, figure.labels); }
  /// Where lines of a name are added.
  [[nodiscard]] std::string& lines_of(std::string_view name, std::string_view type, std::string_view help);
  [[nodiscard]] std::string text() const;

 private:
  void one(std::string_view name, std::string_view type, std::string_view help, double value, std::string_view labels);

  std::vector<std::string> families_;  ///< as names came first
  std::map<std::string, std::size_t, std::less<>> by_name_;
};

/// How often a figure was at most so much.
class Histogram {
 public:
  explicit Histogram(std::vector<double> bounds) : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {}
  void add(double value);
  /// name_bucket, name_sum and name_count.
  void write(Exposition& out, std::string_view name, std::string_view help, std::string_view label) const;

 private:
  std::vector<double> bounds_;
  std::vector<std::uint64_t> counts_;
  double sum_ = 0;
};

/// Answers, by status. Safe from any thread.
class AnswerCounts {
 public:
  void add(int status);
  void write(Exposition& out) const;

 private:
  mutable std::mutex mutex_;
  std::map<int, std::uint64_t> counts_;
};

/// Of a model, over all times that it was loaded. Safe from any thread.
class Metrics {
 public:
  /// Of a text that ended.
  void ended(TextEnd end, const TextStats& stats, double seconds);
  /// Since a request came, and since its last token.
  void first_token(double seconds);
  void next_token(double seconds);
  /// Of a scheduler that is about to end.
  void add(const SchedulerStats& stats);
  /// With the names of llama.cpp's server and of vLLM where they have one. `now`: of the scheduler that there is; `is_one_of_many`: all figures are
  /// labelled with the model, not only those that vLLM labels.
  void write(Exposition& out, const SchedulerStats& now, std::string_view model, bool is_one_of_many) const;

 private:
  mutable std::mutex mutex_;
  SchedulerStats before_;  ///< of schedulers that ended
  std::array<std::uint64_t, 6> ends_{};  ///< by TextEnd
  // Bounds in seconds: vLLM's, which its dashboards know.
  Histogram first_token_{{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,  0.25,  0.5,  0.75,
                          1.0,   2.5,   5.0,  7.5,  10.0, 20.0, 40.0, 80.0, 160.0, 640.0}};
  Histogram next_token_{{0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0}};
  Histogram whole_{{0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0}};
  Histogram waited_{{0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0}};
};

}  // namespace bantam::server
