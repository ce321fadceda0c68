// A line on the terminal that says how far the work is.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace bantam::cli {

/// Drawn on standard error, only when that is a terminal; wiped when the object goes.
class ProgressBar {
 public:
  /// `wanted` false (with --json): never drawn.
  explicit ProgressBar(bool wanted);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// seconds_left below 0: estimated from the time so far.
  void show(std::int64_t done, std::int64_t total, std::string_view what, double seconds_left = -1);
  /// Bytes that are read, and how fast.
  void show_bytes(std::int64_t done, std::int64_t total);

 private:
  [[nodiscard]] bool is_due(bool last);
  [[nodiscard]] double seconds() const noexcept { return std::chrono::duration<double>(last_ - start_).count(); }
  void draw(std::int64_t done, std::int64_t total, std::string_view how_far, double seconds_left);

  bool drawn_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point last_ = {};
};

}  // namespace bantam::cli
