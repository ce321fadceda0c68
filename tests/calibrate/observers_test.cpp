// Observers of activations against plain definitions in double precision.
#include "bantam/calibrate/observers.hpp"

#include <map>

#include "support.hpp"
#include "bantam/core/random.hpp"

namespace bantam::test {
namespace {

static_assert(RangeObserver<MinMaxObserver<float>, float> && RangeObserver<MovingAverageObserver<float>, float>);
static_assert(RangeObserver<PercentileObserver<float>, float> && RangeObserver<EntropyObserver<double>, double>);

/// Normal numbers, some of them far out.
std::vector<float> activations(std::size_t count, std::uint64_t seed, double outlier = 12) {
  Random random(seed);
  std::vector<float> values;
  for (std::size_t i = 0; i < count; ++i) values.push_back(static_cast<float>(random.normal() * (random.uniform() < 0.001 ? outlier : 1.0) + 0.2));
  return values;
}

template <class O>
ValueRange range_of(O observer, const std::vector<float>& values, std::size_t batch) {
  for (std::size_t first = 0; first < values.size(); first += batch) {
    observer.add(std::span<const float>(values).subspan(first, std::min(batch, values.size() - first)));
  }
  return observer.range();
}

TEST_CASE("histograms of parts, merged, are the histogram of the whole") {
  auto values = activations(4000, 2);
  for (std::size_t i = 0; i < 1000; ++i) values[i] *= 1e-3f;  // parts of very different widths
  const std::span<const float> all = values;
  Histogram<float> whole;
  whole.add(all);
  for (const bool widest_first : {false, true}) {
    Histogram<float> merged, part;
    merged.merge(part);
    for (const std::size_t at : {0, 1, 2, 3}) {
      Histogram<float> quarter;
      quarter.add(all.subspan(1000 * (widest_first ? 3 - at : at), 1000));
      merged.merge(quarter);
      merged.merge({});
    }
    CHECK(std::ranges::equal(merged.counts(), whole.counts()));
    CHECK(merged.width() == whole.width());
    CHECK(merged.total() == whole.total());
    CHECK((merged.range().low == whole.range().low && merged.range().high == whole.range().high));
  }
}

TEST_CASE("minmax is the smallest and the largest, whatever the batches") {
  const auto values = activations(5000, 1);
  const auto [low, high] = std::ranges::minmax(values);
  for (const std::size_t batch : {1, 77, 5000}) {
    const ValueRange found = range_of(MinMaxObserver<float>(), values, batch);
    CHECK(found.low == static_cast<double>(low));
    CHECK(found.high == static_cast<double>(high));
  }
}

TEST_CASE("the moving average follows its recursion, and forgets a batch that is far out") {
  std::vector<std::vector<float>> batches;
  for (std::uint64_t i = 0; i < 30; ++i) batches.push_back(activations(64, i, 1));
  MovingAverageObserver<float> observer(0.1);
  double low = 0, high = 0;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    observer.add(batches[i]);
    observer.add({});
    const auto [l, h] = std::ranges::minmax(batches[i]);
    low = i == 0 ? static_cast<double>(l) : 0.9 * low + 0.1 * static_cast<double>(l);
    high = i == 0 ? static_cast<double>(h) : 0.9 * high + 0.1 * static_cast<double>(h);
  }
  CHECK(observer.range().low == doctest::Approx(low).epsilon(1e-12));
  CHECK(observer.range().high == doctest::Approx(high).epsilon(1e-12));
  const std::vector<float> far{1000.0f};
  observer.add(far);
  CHECK(observer.range().high < 110);
  for (const auto& batch : batches) observer.add(batch);
  CHECK(observer.range().high < 10);
}

TEST_CASE("percentiles are those of the sorted values to within a bin") {
  for (const double percent : {99.0, 99.9, 99.99, 100.0}) {
    CAPTURE(percent);
    auto values = activations(40'000, 3);
    const ValueRange found = range_of(PercentileObserver<float>(percent), values, 999);
    std::ranges::sort(values);
    const auto left_out = static_cast<std::size_t>((100 - percent) / 100 * static_cast<double>(values.size()));
    Histogram<float> histogram;
    histogram.add(values);
    const double low = static_cast<double>(values[left_out]), high = static_cast<double>(values[values.size() - 1 - left_out]);
    CHECK(found.low <= low);
    CHECK(found.low >= low - histogram.width());
    CHECK(found.high >= high);
    CHECK(found.high <= high + histogram.width());
  }
}

TEST_CASE("a histogram counts every value in its bin, in whatever order they come") {
  auto values = activations(3000, 4);
  values.push_back(0);
  values.push_back(-0.0f);
  values.push_back(1e-40f);
  values.push_back(-1e-40f);
  values.push_back(-64);  // the border of the bins
  Histogram<float> forward, backward, whole;
  for (const float& v : values) forward.add({&v, 1});
  for (std::size_t i = values.size(); i > 0; --i) backward.add({&values[i - 1], 1});
  whole.add(values);
  const double width = whole.width();
  CHECK(std::exp2(std::round(std::log2(width))) == width);
  std::map<std::int64_t, std::int64_t> counts;
  for (const float v : values) ++counts[static_cast<std::int64_t>(std::floor(static_cast<double>(v) / width))];
  for (const Histogram<float>* histogram : {&forward, &backward, &whole}) {
    CHECK(histogram->width() == width);
    CHECK(histogram->total() == static_cast<std::int64_t>(values.size()));
    for (std::int64_t i = -Histogram<float>::half; i < Histogram<float>::half; ++i) {
      REQUIRE(histogram->counts()[static_cast<std::size_t>(Histogram<float>::half + i)] == counts[i]);
    }
  }
}

/// The entropy threshold by its definition, from the values themselves.
double entropy_threshold(const std::vector<float>& values, double width, int bins_in_all) {
  std::vector<double> counts(static_cast<std::size_t>(bins_in_all), 0.0);
  for (const float v : values) {
    const double bin = v >= 0 ? std::floor(static_cast<double>(v) / width) : std::ceil(static_cast<double>(-v) / width) - 1;
    ++counts[static_cast<std::size_t>(bin)];
  }
  double best = -1, threshold = 0;
  for (int bins = bins_in_all; bins >= 128; --bins) {
    std::vector<double> p(counts.begin(), counts.begin() + bins), q(static_cast<std::size_t>(bins), 0.0);
    for (int i = bins; i < bins_in_all; ++i) p.back() += counts[static_cast<std::size_t>(i)];
    std::map<int, std::vector<std::size_t>> levels;
    for (int step = 0; step < 128; ++step) {
      for (int i = step * bins / 128; i < (step + 1) * bins / 128; ++i) levels[step].push_back(static_cast<std::size_t>(i));
    }
    for (const auto& [step, members] : levels) {
      double sum = 0;
      int filled = 0;
      for (const std::size_t i : members) {
        sum += counts[i];
        filled += counts[i] > 0;
      }
      for (const std::size_t i : members) q[i] = counts[i] > 0 ? sum / filled : 0;
    }
    for (std::vector<double>* d : {&p, &q}) {
      double sum = 0, empty = 0;
      for (const double v : *d) {
        sum += v;
        empty += v == 0;
      }
      const double n = static_cast<double>(d->size());
      for (double& v : *d) v = v == 0 ? 1e-4 / n : v / sum * (empty == 0 ? 1 : 1 - 1e-4 * empty / n);
    }
    double kl = 0;
    for (std::size_t i = 0; i < p.size(); ++i) kl += p[i] * std::log(p[i] / q[i]);
    if (best >= 0 && kl >= best) continue;
    best = kl;
    threshold = bins * width;
  }
  return threshold;
}

TEST_CASE("the entropy threshold is that of its definition, and clips what is rare") {
  for (const double outlier : {1.0, 12.0, 60.0}) {
    CAPTURE(outlier);
    const auto values = activations(30'000, 6, outlier);
    const ValueRange found = range_of(EntropyObserver<float>(), values, 5000);
    Histogram<float> histogram;
    histogram.add(values);
    const double largest = std::max(-histogram.range().low, histogram.range().high);
    const double expected = entropy_threshold(values, histogram.width(), static_cast<int>(std::floor(largest / histogram.width())) + 1);
    CHECK(found.high == doctest::Approx(std::min(expected, largest)).epsilon(1e-12));
    CHECK(found.low == -found.high);
    if (outlier > 1) CHECK(found.high < 0.8 * largest);
    CHECK(found.high > 2.5);  // not what is common
  }
}

TEST_CASE("observers without values, or with one, or with zeros only") {
  const std::vector<float> one{-3.0f}, zeros(10, 0.0f);
  const auto check = [&](auto observer) {
    CHECK(observer.range().low == 0);
    CHECK(observer.range().high == 0);
    observer.add(zeros);
    CHECK(observer.range().low == 0);
    CHECK(observer.range().high == 0);
    observer.add(one);
    CHECK(observer.range().low <= 0);
    CHECK(observer.range().low >= -3);
    for (const float bad : {NAN, INFINITY, -INFINITY}) {
      CHECK(error_of([&] { observer.add(std::span<const float>(&bad, 1)); }).find("observer: expected finite numbers, found ") == 0);
    }
  };
  check(MinMaxObserver<float>());
  check(MovingAverageObserver<float>());
  check(PercentileObserver<float>());
  check(EntropyObserver<float>());
  const std::vector<double> wide{1e300, -1e-300, 0};
  PercentileObserver<double> observer(100);
  observer.add(wide);
  CHECK(observer.range().high == 1e300);
  CHECK(error_of([] { (void)PercentileObserver<float>(50); }) == "observer: expected a percentile above 50 and at most 100, found 50");
  CHECK(error_of([] { (void)MovingAverageObserver<float>(0); }) == "observer: expected a momentum above 0 and at most 1, found 0");
}

TEST_CASE("grids hold their range") {
  for (const ValueRange range : {ValueRange{-1, 3}, {0, 3}, {2, 3}, {-5, -1}, {-0.25, 0.125}}) {
    const Int8Grid even = symmetric_grid(range), affine = affine_grid(range);
    CHECK(even.zero == 0);
    CHECK(127 * even.scale == doctest::Approx(std::max(std::fabs(range.low), std::fabs(range.high))));
    CHECK(affine.zero >= -128);
    CHECK(affine.zero <= 127);
    // Both ends to within half a step.
    CHECK(affine.scale * (-128 - affine.zero) <= std::min(range.low, 0.0) + 0.501 * affine.scale);
    CHECK(affine.scale * (127 - affine.zero) >= std::max(range.high, 0.0) - 0.501 * affine.scale);
  }
  CHECK(symmetric_grid({}).scale == 1);
  CHECK(affine_grid({}).scale == 1);
}

}  // namespace
}  // namespace bantam::test
