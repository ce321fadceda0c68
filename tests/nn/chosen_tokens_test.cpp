// Attention of rows for which tokens were chosen.
#include <doctest/doctest.h>

#include <cmath>

#include "bantam/nn/attention.hpp"
#include "bantam/tensor/random.hpp"
#include "limits.hpp"
#include "reference/softmax.hpp"

namespace bantam::test {
namespace {

/// Rows of tokens `first` and on, of a text of which each sees some: few of a span, many, all of it, none.
struct Text {
  static constexpr std::int64_t tokens = 1300, first = 1180, rows = tokens - first, stride = tokens / page_tokens + 1;
  std::vector<std::uint64_t> pages = std::vector<std::uint64_t>(rows * stride);

  Text() {
    Random random(7);
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t token = 0; token <= first + row; ++token) {
        const std::uint64_t span = static_cast<std::uint64_t>(token) / 512, of = (static_cast<std::uint64_t>(row) + span) % 4;
        const std::uint64_t share = of == 0 ? 3 : of == 1 ? 70 : of == 2 ? 100 : span == 1 ? 0 : 20;  // in hundredths
        if (token == first + row || random.next() % 100 < share) pages[static_cast<std::size_t>(row * stride + token / page_tokens)] |= std::uint64_t{1} << token % page_tokens;
      }
    }
  }
  [[nodiscard]] bool sees(std::int64_t row, std::int64_t token) const { return (pages[static_cast<std::size_t>(row * stride + token / page_tokens)] >> token % page_tokens & 1) != 0; }
};

struct Case {
  const char* name;
  nn::AttentionShape shape;
  nn::KvLayer layer;
};
const Case cases[] = {
    {"heads that share keys", {.heads = 6, .kv_heads = 2, .head_dim = 24, .value_dim = 20, .sparse = true}, {2, 24, 20}},
    {"latent vectors", {.heads = 40, .kv_heads = 1, .head_dim = 48, .value_dim = 32, .sparse = true}, {1, 48, 0, 0, 32}},
};

TEST_CASE("rows see what was chosen for them, few tokens or many, the same bits together and alone") {
  const Text text;
  for (const Case& c : cases) {
    CAPTURE(c.name);
    const auto padded = [](std::int64_t dim) { return round_up<std::int64_t>(dim, 16); };
    const std::int64_t kv = c.layer.heads, d = c.shape.head_dim, of_values = c.shape.value_dim;
    const auto keys = random::normal<float>({Text::tokens * kv, padded(d)}, 1), values = random::normal<float>({Text::tokens * kv, padded(of_values)}, 2);
    const auto q = random::normal<float>({Text::rows, c.shape.heads * d}, 3);
    for (const char* kind : {"f32", "f16", "q4"}) {
      CAPTURE(kind);
      nn::KvCache cache({1, kv, d, {c.layer}}, kind);
      cache.extend(Text::tokens);
      std::vector<float> numbers(static_cast<std::size_t>(padded(d)));
      const auto store = [&](bool value, std::int64_t token, std::int64_t head, const float* from, std::int64_t count) {
        std::ranges::fill(numbers, 0.0f);
        std::copy_n(from, count, numbers.begin());
        cache.store(kernels_in_use(), 0, value, head, token, numbers.data());
      };
      for (std::int64_t token = 0; token < Text::tokens; ++token) {
        for (std::int64_t head = 0; head < kv; ++head) {
          store(false, token, head, &keys(token * kv + head, 0), d);
          if (c.layer.value_dim > 0) store(true, token, head, &values(token * kv + head, 0), of_values);
        }
      }
      const auto run = [&](std::int64_t together, int threads) {
        std::vector<float> out(static_cast<std::size_t>(Text::rows * c.shape.heads * of_values));
        Team team(threads);
        nn::Attention attention(c.shape, threads);
        for (std::int64_t row = 0; row < Text::rows; row += together) {
          const std::int64_t count = std::min(together, Text::rows - row);
          const nn::AttentionSequence sequence{&cache, 0, count, Text::first + row};
          const nn::ChosenTokens chosen{text.pages.data() + row * Text::stride, Text::stride};
          // Keys of tokens to come are there, too: nobody sees them.
          attention.plan({&sequence, 1});
          attention.run(kernels_in_use(), team, 0, 0, {&q(row, 0), c.shape.heads * d}, {out.data() + row * c.shape.heads * of_values, c.shape.heads * of_values}, 0, nullptr, nullptr, nullptr, nullptr, &chosen);
        }
        return out;
      };
      const std::vector<float> all = run(Text::rows, 1);
      for (const std::int64_t together : {1, 7}) CHECK(run(together, 3) == all);
      CHECK(run(Text::rows, 3) == all);
      if (kind != std::string_view("f32")) continue;
      double worst = 0;
      // 120 rows, each of which sees every fourth span as others do: a seventh has all kinds.
      for (std::int64_t row = 0; row < Text::rows; row += quick() ? 7 : 1) {
        for (std::int64_t h = 0; h < c.shape.heads; ++h) {
          const std::int64_t head = h / (c.shape.heads / kv);
          std::vector<double> scores;
          std::vector<std::int64_t> seen;
          for (std::int64_t token = 0; token <= Text::first + row; ++token) {
            if (!text.sees(row, token)) continue;
            double dot = 0;
            for (std::int64_t i = 0; i < d; ++i) dot += static_cast<double>(q(row, h * d + i)) * static_cast<double>(keys(token * kv + head, i));
            scores.push_back(dot / std::sqrt(static_cast<double>(d)));
            seen.push_back(token);
          }
          const std::vector<double> p = reference::softmax(scores);
          for (std::int64_t i = 0; i < of_values; ++i) {
            double expected = 0;
            for (std::size_t s = 0; s < seen.size(); ++s) {
              const std::int64_t at = seen[s] * kv + head;
              expected += p[s] * static_cast<double>(c.layer.value_dim > 0 ? values(at, i) : keys(at, d - of_values + i));
            }
            worst = std::max(worst, std::fabs(expected - static_cast<double>(all[static_cast<std::size_t>((row * c.shape.heads + h) * of_values + i)])));
          }
        }
      }
      CHECK(worst < 1e-5);
    }
  }
}

}  // namespace
}  // namespace bantam::test
