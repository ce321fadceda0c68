// Observers: which range of values a fixed 8-bit grid should span, learned from samples of them.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <span>
#include <vector>

#include "bantam/core/error.hpp"

namespace bantam::inline v0 {

struct ValueRange {
  double low = 0;
  double high = 0;
};

/// What finds a range: values come in batches, in any number; range() may be asked at any time and is {0, 0} before the first.
/// add() throws corrupt for a value that is not finite.
template <class O, class T>
concept RangeObserver = requires(O observer, std::span<const T> batch) {
  observer.add(batch);
  { observer.range() } -> std::same_as<ValueRange>;
};

/// The smallest and the largest value.
template <std::floating_point T>
class MinMaxObserver {
 public:
  void add(std::span<const T> batch) {
    for (const T value : batch) {
      if (!std::isfinite(value)) fail(Errc::corrupt, "observer: expected finite numbers, found ", value);
      const auto x = static_cast<double>(value);
      range_ = empty_ ? ValueRange{x, x} : ValueRange{std::min(range_.low, x), std::max(range_.high, x)};
      empty_ = false;
    }
  }
  void merge(const MinMaxObserver& other) noexcept {
    if (other.empty_) return;
    range_ = empty_ ? other.range_ : ValueRange{std::min(range_.low, other.range_.low), std::max(range_.high, other.range_.high)};
    empty_ = false;
  }
  [[nodiscard]] ValueRange range() const noexcept { return range_; }
  [[nodiscard]] bool empty() const noexcept { return empty_; }

 private:
  ValueRange range_;
  bool empty_ = true;
};

/// The smallest and the largest value of each batch, averaged: r += momentum (batch - r), from the first batch's on. A batch
/// that is far out counts little.
template <std::floating_point T>
class MovingAverageObserver {
 public:
  explicit MovingAverageObserver(double momentum = 0.01) : momentum_(momentum) {
    if (!(momentum > 0 && momentum <= 1)) fail(Errc::invalid_argument, "observer: expected a momentum above 0 and at most 1, found ", momentum);
  }
  void add(std::span<const T> batch) {
    MinMaxObserver<T> observer;
    observer.add(batch);
    if (observer.empty()) return;
    const ValueRange now = observer.range();
    if (empty_) range_ = now;
    empty_ = false;
    range_.low += momentum_ * (now.low - range_.low);
    range_.high += momentum_ * (now.high - range_.high);
  }
  [[nodiscard]] ValueRange range() const noexcept { return range_; }

 private:
  double momentum_;
  ValueRange range_;
  bool empty_ = true;
};

/// Counts of values in bins of equal width, as many below zero as from zero on. The width is the least power of two for which
/// the bins hold all values so far: bins merge in pairs as values grow, so the order of values makes no difference.
template <std::floating_point T>
class Histogram {
 public:
  static constexpr std::int64_t half = 2048;  ///< bins on each side of zero: 16 for each step of 8 bits

  void add(std::span<const T> batch) {
    values_.add(batch);
    const double largest = std::max(-values_.range().low, values_.range().high);
    int exponent = exponent_;
    // The bins hold low <= x < high.
    while (largest >= std::ldexp(static_cast<double>(half), exponent)) ++exponent;
    widen(exponent);
    const double per_width = std::ldexp(1.0, -exponent_);
    for (const T value : batch) {
      const double scaled = static_cast<double>(value) * per_width;
      // Its floor; std::floor is a call on processors of 2003, which builds are for.
      const auto cut = static_cast<std::int64_t>(scaled);
      ++counts_[static_cast<std::size_t>(half + cut - (static_cast<double>(cut) > scaled ? 1 : 0))];
    }
    total_ += static_cast<std::int64_t>(batch.size());
  }

  /// Adds what another one counted: as if its values had been added here.
  void merge(const Histogram& other) {
    if (other.total_ == 0) return;
    values_.merge(other.values_);
    widen(std::max(exponent_, other.exponent_));
    const int shift = std::min(exponent_ - other.exponent_, 62);
    for (std::int64_t i = -half; i < half; ++i) counts_[static_cast<std::size_t>(half + (i >> shift))] += other.counts_[static_cast<std::size_t>(half + i)];
    total_ += other.total_;
  }

  /// (2 half), bin i from (i - half) width() on.
  [[nodiscard]] std::span<const std::int64_t> counts() const noexcept { return counts_; }
  [[nodiscard]] double width() const noexcept { return std::ldexp(1.0, exponent_); }
  [[nodiscard]] std::int64_t total() const noexcept { return total_; }
  [[nodiscard]] ValueRange range() const noexcept { return values_.range(); }

 private:
  void widen(int exponent) {
    if (exponent == exponent_) return;
    std::vector<std::int64_t> wider(counts_.size(), 0);
    // Arithmetic shifts round down, as floor does.
    const int shift = std::min(exponent - exponent_, 62);
    for (std::int64_t i = -half; i < half; ++i) wider[static_cast<std::size_t>(half + (i >> shift))] += counts_[static_cast<std::size_t>(half + i)];
    counts_ = std::move(wider);
    exponent_ = exponent;
  }

  MinMaxObserver<T> values_;
  std::vector<std::int64_t> counts_ = std::vector<std::int64_t>(2 * half, 0);
  int exponent_ = -160;  // below any float's worth of a bin; zeros stay in theirs however wide it becomes
  std::int64_t total_ = 0;
};

/// The range that leaves out (100 - percent) % of the values at each end, to within a bin.
template <std::floating_point T>
[[nodiscard]] ValueRange central_range(const Histogram<T>& histogram, double percent) noexcept {
  const auto left_out = static_cast<std::int64_t>((100 - percent) / 100 * static_cast<double>(histogram.total()));
  const auto counts = histogram.counts();
  const auto edge = [&](std::int64_t bin) { return static_cast<double>(bin - Histogram<T>::half) * histogram.width(); };
  const ValueRange all = histogram.range();
  std::int64_t low = 0, high = 2 * Histogram<T>::half - 1;
  for (std::int64_t below = counts[0]; below <= left_out && low < high; below += counts[static_cast<std::size_t>(low)]) ++low;
  for (std::int64_t above = counts[static_cast<std::size_t>(high)]; above <= left_out && high > low; above += counts[static_cast<std::size_t>(high)]) --high;
  return {std::clamp(edge(low), all.low, all.high), std::clamp(edge(high + 1), all.low, all.high)};
}

/// central_range() of what was added.
template <std::floating_point T>
class PercentileObserver {
 public:
  explicit PercentileObserver(double percent = 99.99) : percent_(percent) {
    if (!(percent > 50 && percent <= 100)) fail(Errc::invalid_argument, "observer: expected a percentile above 50 and at most 100, found ", percent);
  }
  void add(std::span<const T> batch) { histogram_.add(batch); }
  [[nodiscard]] ValueRange range() const noexcept { return central_range(histogram_, percent_); }

 private:
  double percent_;
  Histogram<T> histogram_;
};

/// The range -t .. t for which rounding to 8 bits loses least information: of magnitudes clipped at t and rounded to 128 steps,
/// the Kullback-Leibler divergence from those clipped only is least. After Migacz, "8-bit inference with TensorRT" (2017), with
/// steps of equal numbers of bins, and bins that one distribution lacks given a share of 1e-4.
template <std::floating_point T>
class EntropyObserver {
 public:
  void add(std::span<const T> batch) { histogram_.add(batch); }
  [[nodiscard]] ValueRange range() const {
    constexpr std::int64_t half = Histogram<T>::half;
    if (histogram_.total() == 0) return {};
    std::vector<double> magnitudes;
    for (std::int64_t i = 0; i < half; ++i) {
      magnitudes.push_back(static_cast<double>(histogram_.counts()[static_cast<std::size_t>(half + i)] + histogram_.counts()[static_cast<std::size_t>(half - 1 - i)]));
    }
    std::int64_t used = half;
    while (used > steps && magnitudes[static_cast<std::size_t>(used - 1)] == 0) --used;
    std::int64_t best = used;
    double least = -1;
    for (std::int64_t bins = used; bins >= steps; --bins) {
      const double loss = divergence(std::span<const double>(magnitudes), static_cast<std::size_t>(bins));
      if (least >= 0 && !(loss < least)) continue;
      least = loss;
      best = bins;
    }
    const double largest = std::max(-histogram_.range().low, histogram_.range().high);
    const double bound = std::min(static_cast<double>(best) * histogram_.width(), largest);
    return {-bound, bound};
  }

 private:
  static constexpr std::int64_t steps = 128;  // magnitudes of a signed 8-bit number

  /// Gives empty bins a small share, taken from the others.
  static void smooth(std::vector<double>& p) {
    constexpr double share = 1e-4;
    double sum = 0;
    for (const double v : p) sum += v;
    std::size_t empty = 0;
    for (double& v : p) {
      v = sum > 0 ? v / sum : 0;
      empty += v == 0;
    }
    if (empty == 0 || empty == p.size()) return;
    const double taken = 1 - share * static_cast<double>(empty) / static_cast<double>(p.size());
    for (double& v : p) v = v == 0 ? share / static_cast<double>(p.size()) : v * taken;
  }

  /// Of the first `bins` magnitudes, those beyond counted in the last bin, from the same rounded to `steps` levels.
  static double divergence(std::span<const double> magnitudes, std::size_t bins) {
    std::vector<double> clipped(magnitudes.begin(), magnitudes.begin() + static_cast<std::ptrdiff_t>(bins));
    for (const double v : magnitudes.subspan(bins)) clipped.back() += v;
    std::vector<double> rounded(bins, 0.0);
    for (std::size_t step = 0; step < steps; ++step) {
      const std::size_t first = step * bins / steps, end = (step + 1) * bins / steps;
      double sum = 0, filled = 0;
      for (std::size_t i = first; i < end; ++i) {
        sum += magnitudes[i];
        filled += magnitudes[i] > 0;
      }
      for (std::size_t i = first; i < end; ++i) rounded[i] = magnitudes[i] > 0 ? sum / filled : 0;
    }
    smooth(clipped);
    smooth(rounded);
    double sum = 0;
    for (std::size_t i = 0; i < bins; ++i) {
      if (clipped[i] > 0) sum += clipped[i] * std::log(clipped[i] / std::max(rounded[i], 1e-300));
    }
    return sum;
  }

  Histogram<T> histogram_;
};

/// x is about scale (q - zero) for q in -128 .. 127.
struct Int8Grid {
  double scale = 1;
  int zero = 0;
};
/// Steps around zero: q in -127 .. 127.
[[nodiscard]] inline Int8Grid symmetric_grid(ValueRange range) noexcept {
  const double largest = std::max(std::fabs(range.low), std::fabs(range.high));
  return largest > 0 ? Int8Grid{largest / 127, 0} : Int8Grid{};
}
/// All 256 steps from the lower to the upper end; zero is one of them, and in the range.
[[nodiscard]] inline Int8Grid affine_grid(ValueRange range) noexcept {
  const double low = std::min(range.low, 0.0), high = std::max(range.high, 0.0);
  if (!(high > low)) return {};
  const double scale = (high - low) / 255;
  return {scale, static_cast<int>(std::lround(-low / scale)) - 128};
}

}  // namespace bantam::inline v0
