// Attention over pages, and what pages keep.
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/cases.hpp"
#include "reference/attention.hpp"

using namespace bantam::test;
using bantam::AttentionPart;
using bantam::AttentionState;
using bantam::KernelTable;
using bantam::KvKernels;

namespace {

std::vector<float> normal_row(std::int64_t n, std::uint64_t seed, double deviation = 1) {
  const auto row = bantam::random::normal<float>({n}, seed, {.deviation = deviation});
  return {row.span().begin(), row.span().end()};
}

/// One query over `tokens` keys from `first` on, page by page.
std::vector<float> attend(const KernelTable& table, const std::vector<float>& q, const std::vector<float>& keys,
                          const std::vector<float>& values, std::int64_t d, int first, int tokens, float scale) {
  AttentionState state;
  std::vector<float> out(static_cast<std::size_t>(d));
  for (int page = first / bantam::page_tokens; page * bantam::page_tokens < tokens; ++page) {
    const int start = page * bantam::page_tokens;
    AttentionPart part;
    part.keys = keys.data() + start * d;
    part.values = values.data() + start * d;
    part.begin = std::max(0, first - start);
    part.tokens = std::min(bantam::page_tokens, tokens - start);
    part.head_dim = d;
    part.scale = scale;
    table.attend_page(part, q.data(), state, out.data());
  }
  table.attend_finish(state, out.data(), d);
  return out;
}

/// The same by the whole softmax in double precision.
std::vector<double> whole_softmax(const std::vector<float>& q, const std::vector<float>& keys, const std::vector<float>& values,
                                  std::int64_t d, int first, int tokens, double scale) {
  std::vector<double> scores;
  for (int t = first; t < tokens; ++t) {
    double dot = 0;
    for (std::int64_t i = 0; i < d; ++i) dot += static_cast<double>(q[static_cast<std::size_t>(i)]) * static_cast<double>(keys[static_cast<std::size_t>(t * d + i)]);
    scores.push_back(dot * scale);
  }
  const std::vector<double> p = bantam::reference::softmax(scores);
  std::vector<double> out(static_cast<std::size_t>(d));
  for (int t = first; t < tokens; ++t) {
    for (std::int64_t i = 0; i < d; ++i) out[static_cast<std::size_t>(i)] += p[static_cast<std::size_t>(t - first)] * static_cast<double>(values[static_cast<std::size_t>(t * d + i)]);
  }
  return out;
}

const std::int64_t padded_dims[] = {16, 32, 64, 80, 128};

}  // namespace

TEST_CASE("pages in turn give the whole softmax, with scores of any size") {
  for (const KernelTable* table : bantam::kernel_tables()) {
    CAPTURE(std::string(table->name));
    for (const std::int64_t d : padded_dims) {
      CAPTURE(d);
      for (const double size : {0.1, 1.0, 10.0}) {
        CAPTURE(size);
        const int tokens = 200;
        const std::vector<float> q = normal_row(d, 1, size);
        const std::vector<float> keys = normal_row(tokens * d, 2, size);
        const std::vector<float> values = normal_row(tokens * d, 3);
        const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(d)));
        for (const int seen : {1, 2, 63, 64, 65, 128, 200}) {
          for (const int window : {1, 7, 64, 100, 1000}) {
            const int first = std::max(0, seen - window);
            CAPTURE(seen);
            CAPTURE(first);
            const std::vector<float> found = attend(*table, q, keys, values, d, first, seen, scale);
            const std::vector<double> expected = whole_softmax(q, keys, values, d, first, seen, static_cast<double>(scale));
            // A score of size s sqrt(d) s is off by d roundings of its terms' sum; the exponential turns absolute into
            // relative errors. Values are near 1.
            const double allowed = 4 * (4 + size * size * 12) * std::sqrt(static_cast<double>(d)) * 0x1p-24;
            double worst = 0;
            for (std::size_t i = 0; i < found.size(); ++i) worst = std::max(worst, std::fabs(found[i] - expected[i]));
            CHECK(worst <= allowed);
          }
        }
      }
    }
  }
}

TEST_CASE("equal keys give the mean of the values") {
  for (const KernelTable* table : bantam::kernel_tables()) {
    const std::vector<float> values = normal_row(100 * 16, 4);
    const std::vector<float> out = attend(*table, std::vector<float>(16, 1.0f), std::vector<float>(100 * 16, 2.0f), values, 16, 0, 100, 1);
    for (std::size_t i = 0; i < 16; ++i) {
      double mean = 0;
      for (std::size_t t = 0; t < 100; ++t) mean += static_cast<double>(values[t * 16 + i]) / 100;
      CHECK(std::fabs(static_cast<double>(out[i]) - mean) < 1e-6);
    }
  }
}

TEST_CASE("a score far above the others takes all, on a later page too, and far below takes nothing") {
  for (const KernelTable* table : bantam::kernel_tables()) {
    std::vector<float> keys(130 * 16, 0.0f);
    const std::vector<float> values = normal_row(130 * 16, 5);
    for (const std::size_t winner : {0ul, 63ul, 64ul, 129ul}) {
      for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = i / 16 == winner ? 100.0f : -100.0f;
      const std::vector<float> out = attend(*table, std::vector<float>(16, 1.0f), keys, values, 16, 0, 130, 1);
      for (std::size_t i = 0; i < 16; ++i) CHECK(out[i] == values[winner * 16 + i]);
    }
  }
}

TEST_CASE("a NaN among keys or values cannot hide") {
  for (const KernelTable* table : bantam::kernel_tables()) {
    CAPTURE(std::string(table->name));
    for (const std::size_t place : {0ul, 63ul, 64ul, 99ul}) {
      std::vector<float> keys = normal_row(100 * 16, 6);
      const std::vector<float> values = normal_row(100 * 16, 7);
      keys[place * 16 + 3] = NAN;
      const std::vector<float> out = attend(*table, std::vector<float>(16, 1.0f), keys, values, 16, 0, 100, 1);
      for (const float x : out) CHECK(std::isnan(x));
    }
  }
}

TEST_CASE("keys and values come back from a page within half a step, the same bits on every table") {
  for (std::size_t kind = 0; kind < 4; ++kind) {
    const std::string name = generic_table().kv[kind].name;
    CAPTURE(name);
    for (const std::int64_t d : {16, 32, 48, 64, 80, 128}) {
      CAPTURE(d);
      for (const double size : {1.0, 1e-3, 100.0}) {
        const std::vector<float> x = normal_row(d, 8, size);
        const auto bytes = static_cast<std::size_t>(generic_table().kv[kind].bytes(d));
        std::vector<std::byte> defined(bytes);
        generic_table().kv[kind].store(x.data(), defined.data(), d);
        for (const KernelTable* table : bantam::kernel_tables()) {
          CAPTURE(std::string(table->name));
          const KvKernels& kv = table->kv[kind];
          REQUIRE(kv.bytes(d) == static_cast<std::int64_t>(bytes));
          std::vector<std::byte> stored(bytes + 64, std::byte{0x5a});
          kv.store(x.data(), stored.data(), d);
          CHECK(std::memcmp(stored.data(), defined.data(), bytes) == 0);
          CHECK(stored[bytes] == std::byte{0x5a});
          std::vector<float> out(x.size());
          kv.load(stored.data(), out.data(), d);
          for (std::size_t first = 0; first < x.size(); first += 32) {
            float low = x[first];
            float high = x[first];
            const std::size_t end = std::min(first + 32, x.size());
            for (std::size_t i = first; i < end; ++i) {
              low = std::min(low, x[i]);
              high = std::max(high, x[i]);
            }
            for (std::size_t i = first; i < end; ++i) {
              const double error = std::fabs(static_cast<double>(out[i]) - static_cast<double>(x[i]));
              const double step = name == "q8" ? std::max(high, -low) / 127.0 : (high - low) / 15.0;
              const double allowed = name == "f32" ? 0 : name == "f16" ? std::fabs(x[i]) * 0x1p-11 + 0x1p-25 : step / 2 * 1.00001 + 1e-6 * std::fabs(x[i]);
              CHECK(error <= allowed);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("keys of zeros, of one value and of vanishing ones come back; NaN stays visible") {
  for (std::size_t kind = 0; kind < 4; ++kind) {
    CAPTURE(std::string(generic_table().kv[kind].name));
    for (const KernelTable* table : bantam::kernel_tables()) {
      CAPTURE(std::string(table->name));
      const KvKernels& kv = table->kv[kind];
      std::vector<std::byte> stored(static_cast<std::size_t>(kv.bytes(48)));
      std::vector<float> out(48);
      for (const float value : {0.0f, 1.0f, -3.0f, 1e-40f, -1e-44f}) {
        const std::vector<float> x(48, value);
        kv.store(x.data(), stored.data(), 48);
        kv.load(stored.data(), out.data(), 48);
        for (const float y : out) CHECK(std::fabs(y - value) <= std::fabs(value) * 1e-6f + 1e-39f);
      }
      std::vector<float> vanishing(48, 1e-44f);
      vanishing[1] = 3e-44f;
      kv.store(vanishing.data(), stored.data(), 48);
      kv.load(stored.data(), out.data(), 48);
      for (const float y : out) CHECK(std::fabs(y) < 1e-38f);
      std::vector<float> poisoned(48, 1.0f);
      poisoned[17] = NAN;
      kv.store(poisoned.data(), stored.data(), 48);
      kv.load(stored.data(), out.data(), 48);
      CHECK(std::isnan(out[17]));
      // The next group of 32 has nothing to do with it.
      CHECK(std::fabs(out[40] - 1.0f) < 1e-6f);
    }
  }
}
