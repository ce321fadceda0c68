// The key-value cache: pages, sharing, forgetting; attention over it in any chunks and by any number of workers.
#include "bantam/nn/kv_cache.hpp"

#include <array>
#include <cmath>
#include <limits>

#include "bantam/nn/attention.hpp"
#include "bantam/nn/rope.hpp"
#include "bantam/tensor/random.hpp"
#include "kv_kinds.hpp"
#include "limits.hpp"
#include "reference/attention.hpp"
#include "reference/kv_levels.hpp"
#include "support.hpp"

using bantam::KernelTable;
using bantam::nn::KvCache;
using bantam::test::error_of;

namespace {

const KernelTable& kernels() { return bantam::kernels_in_use(); }

/// Fills every place of tokens first .. cache.tokens() with numbers of its own.
float mark(std::int64_t layer, bool value, std::int64_t head, std::int64_t token, float extra) {
  return static_cast<float>(((layer * 2 + value) * 4 + head) * 1000 + token) + extra;
}
void fill(KvCache& cache, std::int64_t first, float extra = 0) {
  std::vector<float> row(static_cast<std::size_t>(cache.padded_head_dim()));
  for (std::int64_t l = 0; l < cache.shape().layers; ++l) {
    for (const bool value : {false, true}) {
      for (std::int64_t h = 0; h < cache.shape().kv_heads; ++h) {
        for (std::int64_t t = first; t < cache.tokens(); ++t) {
          std::fill(row.begin(), row.end(), mark(l, value, h, t, extra));
          cache.store(kernels(), l, value, h, t, row.data());
        }
      }
    }
  }
}
/// How many places of tokens begin .. end differ from what fill() wrote.
int differing(const KvCache& cache, std::int64_t begin, std::int64_t end, float extra = 0) {
  int wrong = 0;
  std::vector<float> scratch(static_cast<std::size_t>(bantam::page_tokens * cache.padded_head_dim()));
  for (std::int64_t l = 0; l < cache.shape().layers; ++l) {
    for (const bool value : {false, true}) {
      for (std::int64_t h = 0; h < cache.shape().kv_heads; ++h) {
        for (std::int64_t t = begin; t < end; ++t) {
          const float* page = cache.expand(kernels(), l, value, h, t / 64, static_cast<int>(t % 64) + 1, scratch.data());
          wrong += page[value ? (t % 64) * cache.padded_head_dim() : t % 64] != mark(l, value, h, t, extra);
        }
      }
    }
  }
  return wrong;
}

}  // namespace

TEST_CASE("every layer, head, token, key and value has a place of its own") {
  KvCache cache({3, 2, 20}, "f32");
  CHECK(cache.padded_head_dim() == 32);
  for (const std::int64_t count : {1, 62, 1, 1, 63, 70}) {
    const std::int64_t first = cache.tokens();
    cache.extend(count);
    fill(cache, first);
  }
  CHECK(cache.tokens() == 198);
  CHECK(cache.page_count() == 4);
  CHECK(differing(cache, 0, 198) == 0);
  CHECK(cache.bytes_per_token() == 3 * 2 * 2 * 32 * 4);
  CHECK(cache.bytes() == 4 * 64 * cache.bytes_per_token());
}

TEST_CASE("a copy shares pages until one of the two writes") {
  for (const char* kind : {"f32", "f16"}) {
    KvCache base({1, 2, 16}, kind);
    base.extend(100);
    fill(base, 0);
    KvCache fork = base;
    CHECK(fork.page(0).data() == base.page(0).data());
    CHECK(fork.page(1).data() == base.page(1).data());
    // The second page is half full: whoever goes on writing first gets a copy of it.
    fork.extend(10);
    fill(fork, 100);
    CHECK(fork.page(0).data() == base.page(0).data());
    CHECK(fork.page(1).data() != base.page(1).data());
    base.extend(50);
    fill(base, 100, 0.5f);
    if (std::string(kind) == "f32") {
      CHECK(differing(fork, 0, 110) == 0);
      CHECK(differing(base, 0, 100) == 0);
      CHECK(differing(base, 100, 150, 0.5f) == 0);
    }
  }
}

TEST_CASE("the last owner of a page writes in place") {
  KvCache cache({1, 1, 16}, "f32");
  cache.extend(10);
  const std::byte* page = cache.page(0).data();
  {
    const KvCache fork = cache;
    CHECK(fork.tokens() == 10);
  }
  cache.extend(1);
  CHECK(cache.page(0).data() == page);
  const KvCache fork = cache;
  cache.extend(1);
  CHECK(cache.page(0).data() != page);
}

TEST_CASE("a fork at a page border shares all of its pages for good") {
  KvCache base({1, 1, 16}, "f32");
  base.extend(64);
  fill(base, 0);
  KvCache fork = base;
  fork.extend(1);
  fill(fork, 64, 0.25f);
  base.extend(1);
  fill(base, 64, 0.5f);
  CHECK(fork.page(0).data() == base.page(0).data());
  CHECK(differing(fork, 64, 65, 0.25f) == 0);
  CHECK(differing(base, 64, 65, 0.5f) == 0);
}

TEST_CASE("truncating forgets tokens and gives their pages back, forks keep theirs") {
  KvCache cache({2, 1, 16}, "f32");
  cache.extend(200);
  fill(cache, 0);
  const KvCache fork = cache;
  cache.truncate(1000);
  CHECK(cache.tokens() == 200);
  cache.truncate(130);
  CHECK(cache.tokens() == 130);
  CHECK(cache.page_count() == 3);
  cache.truncate(70);
  cache.extend(30);
  fill(cache, 70, 0.5f);
  CHECK(differing(cache, 0, 70) == 0);
  CHECK(differing(cache, 70, 100, 0.5f) == 0);
  CHECK(differing(fork, 0, 200) == 0);
  cache.truncate(0);
  CHECK(cache.page_count() == 0);
  cache.extend(0);
  CHECK(cache.tokens() == 0);
}

TEST_CASE("kinds of fewer bits take fewer bytes") {
  const auto bytes = [](const char* kind) { return KvCache({1, 1, 64}, kind).bytes_per_token(); };
  CHECK(bytes("f32") == 512);
  CHECK(bytes("f16") == 256);
  CHECK(bytes("q8") == 2 * (64 + 2 * 4));
  CHECK(bytes("q4") == 2 * (32 + 2 * 2));
  CHECK(bytes("q3") == 2 * (24 + 2 * 2));
  CHECK(std::string(KvCache({1, 1, 64}, "q8").kind()) == "q8");
}

TEST_CASE("shapes and kinds that cannot be are refused") {
  CHECK(error_of([] { KvCache cache({1, 1, 16}, "int8\n"); }) == "kv cache: expected f32, f16, q8, q4 or q3, found int8\\x0a");
  CHECK(error_of([] { KvCache cache({0, 1, 16}, "f16"); }) == "kv cache: expected layers, heads and head dimension above 0, found 0, 1 and 16");
  CHECK(error_of([] { KvCache cache({1, 1, std::numeric_limits<std::int64_t>::max()}, "f16"); }).starts_with("kv cache: expected layers"));
  CHECK(error_of([] { KvCache cache({std::int64_t{1} << 40, std::int64_t{1} << 20, 64}, "f16"); }).starts_with("shape ("));
}

namespace {

/// Against the whole softmax. q: (tokens, heads, head_dim); kv: (key or value, tokens, kv_heads, head_dim).
void check_softmax(const std::vector<float>& found, const bantam::Tensor<float, 3>& q, const bantam::Tensor<float, 4>& kv, std::int64_t window) {
  const std::vector<float> all(kv.span().begin(), kv.span().end());
  const auto values = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  const std::vector<double> expected = bantam::reference::attention({q.span().begin(), q.span().end()}, {all.begin(), values}, {values, all.end()},
                                                                    {q.extent(0), q.extent(1), kv.extent(2), q.extent(2), window});
  double worst = 0;
  for (std::size_t i = 0; i < found.size(); ++i) worst = std::max(worst, std::fabs(static_cast<double>(found[i]) - expected[i]));
  CHECK(worst < 1e-5);
}

}  // namespace

TEST_CASE("attention gives the same bits in any chunks, by any number of workers, on every kind of page") {
  const std::int64_t tokens = bantam::test::quick() ? 530 : 1100;  // more than one span
  const std::int64_t heads = 6;
  const std::int64_t kv_heads = 2;
  const std::int64_t d = 20;
  const auto q = bantam::random::normal<float>({tokens, heads, d}, 1);
  const auto kv = bantam::random::normal<float>({2, tokens, kv_heads, d}, 2);
  const auto run = [&](std::string_view kind, std::int64_t window, std::int64_t chunk, int threads) {
    KvCache cache({1, kv_heads, d}, kind);
    std::vector<float> out(static_cast<std::size_t>(tokens * heads * d));
    bantam::nn::Attention attention({.heads = heads, .kv_heads = kv_heads, .head_dim = d}, threads);
    bantam::Team team(threads);
    team.set_active(threads);
    std::vector<float> row(static_cast<std::size_t>(cache.padded_head_dim()));
    for (std::int64_t first = 0; first < tokens; first += chunk) {
      const std::int64_t count = std::min(chunk, tokens - first);
      cache.extend(count);
      for (std::int64_t t = first; t < first + count; ++t) {
        for (std::int64_t h = 0; h < kv_heads; ++h) {
          for (const bool value : {false, true}) {
            std::copy_n(&kv(value ? 1 : 0, t, h, 0), d, row.data());
            cache.store(kernels(), 0, value, h, t, row.data());
          }
        }
      }
      const bantam::nn::AttentionSequence sequence{&cache, first, count, first};
      attention.plan({&sequence, 1});
      attention.run(kernels(), team, 0, window, {q.data(), heads * d}, {out.data(), heads * d});
    }
    return out;
  };
  int turn = 0;
  for (const char* kind : bantam::test::kv_kinds()) {
    CAPTURE(std::string(kind));
    const std::int64_t windows[] = {0, 7, 100};
    ++turn;
    for (const std::int64_t window : windows) {
      if (bantam::test::quick() && window != windows[turn % 3]) continue;
      CAPTURE(window);
      const std::vector<float> whole = run(kind, window, tokens, 1);
      if (std::string_view(kind) == "f32") check_softmax(whole, q, kv, window);
      CHECK(run(kind, window, 1, 4) == whole);
      CHECK(run(kind, window, 16, 2) == whole);
      CHECK(run(kind, window, 37, 3) == whole);
      CHECK(run(kind, window, tokens, 4) == whole);
    }
  }
}

TEST_CASE("the last tokens of a long text get the same bits, however many spans wait to be merged") {
  constexpr std::int64_t tokens = 6 * bantam::nn::Attention::span_tokens + 40, last = 5, heads = 4, kv_heads = 2, d = 16;
  const auto q = bantam::random::normal<float>({last, heads, d}, 5);
  const auto kv = bantam::random::normal<float>({2, tokens, kv_heads, d}, 6);
  KvCache cache({1, kv_heads, d}, "f16");
  cache.extend(tokens);
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (std::int64_t h = 0; h < kv_heads; ++h) {
      for (const bool value : {false, true}) cache.store(kernels(), 0, value, h, t, &kv(value ? 1 : 0, t, h, 0));
    }
  }
  const auto run = [&](std::int64_t window, int threads, std::int64_t most_sums) {
    std::vector<float> out(static_cast<std::size_t>(last * heads * d));
    bantam::nn::Attention attention({.heads = heads, .kv_heads = kv_heads, .head_dim = d, .most_sums = most_sums}, threads);
    bantam::Team team(threads);
    team.set_active(threads);
    const bantam::nn::AttentionSequence sequence{&cache, 0, last, tokens - last};
    attention.plan({&sequence, 1});
    attention.run(kernels(), team, 0, window, {q.data(), heads * d}, {out.data(), heads * d});
    return out;
  };
  for (const std::int64_t window : {std::int64_t{0}, 3 * bantam::nn::Attention::span_tokens}) {
    CAPTURE(window);
    const std::vector<float> whole = run(window, 1, 0);
    for (const int threads : {2, 3}) {
      for (const std::int64_t spans : {0, 5, 6, 7, 100}) {
        INFO(threads, " threads, ", spans, " spans");
        CHECK(run(window, threads, spans * 2 * last * heads / kv_heads * d) == whole);
      }
    }
  }
}

TEST_CASE("removing tokens leaves values bit for bit and keys turned to their new positions") {
  using bantam::nn::Rope;
  bantam::Team team(3);
  int turn = 0;
  const std::int64_t heads[] = {2, 1};
  const Rope plain({.dim = 40});
  const Rope yarn({.dim = 24, .base = 150000, .pairs = bantam::nn::RopePairs::adjacent, .scaling = bantam::nn::RopeScaling::yarn, .factor = 8,
                   .original_context = 64});
  // A step of rounding of a number that is 4 at most: f32 and f16 by their bits, q8 by the range of 32 numbers; of levels six times what they lose
  // in the mean; stored twice.
  for (const auto& [kind, step] : {std::pair{"f32", 4e-6}, std::pair{"f16", 4 * 0x1p-10}, std::pair{"q8", 8.0 / 127}, std::pair{"q4", 6 * 0.13}, std::pair{"q3", 6 * 0.26}}) {
    for (const Rope* rope : {&plain, &yarn}) {
      for (const auto& [tokens, first, last] : {std::array{200, 3, 70}, std::array{200, 64, 128}, std::array{130, 0, 1}, std::array{65, 10, 11}, std::array{100, 40, 100}}) {
        if (bantam::test::quick() && turn++ % 3 != 0) continue;
        CAPTURE(kind);
        CAPTURE(first);
        CAPTURE(last);
        KvCache cache({.layers = 2, .kv_heads = 2, .head_dim = 40, .of_layers = {{2, 40, 40}, {1, 40, 40}}}, kind);
        const std::int64_t d = cache.padded_head_dim();
        const auto width = static_cast<std::size_t>(d);
        cache.extend(tokens);
        const auto numbers = bantam::random::normal<float>({tokens, 40}, 9);
        std::vector<float> row(width), angles(static_cast<std::size_t>(rope->dim()));
        float *cosines = angles.data(), *sines = cosines + rope->dim() / 2;
        for (std::int64_t layer = 0; layer < 2; ++layer) {
          for (std::int64_t head = 0; head < heads[layer]; ++head) {
            for (std::int64_t t = 0; t < tokens; ++t) {
              std::fill(row.begin(), row.end(), 0.0f);
              // Different in every head, and not above 4.
              for (std::int64_t i = 0; i < 40; ++i) row[static_cast<std::size_t>(i)] = std::clamp(numbers(t, (i + head + 3 * layer) % 40), -2.0f, 2.0f);
              cache.store(kernels(), layer, true, head, t, row.data());
              rope->angles(t, cosines, sines);
              rope->apply(kernels(), row.data(), cosines, sines);
              cache.store(kernels(), layer, false, head, t, row.data());
            }
          }
        }
        const KvCache before = cache;
        const std::int64_t gone = last - first;
        rope->shift_angles(-gone, cosines, sines);
        cache.remove(kernels(), team, first, last, [&](std::int64_t, float* key) { rope->apply(kernels(), key, cosines, sines); });
        REQUIRE(cache.tokens() == tokens - gone);
        REQUIRE(before.tokens() == tokens);
        std::vector<float> scratch(bantam::page_tokens * width), old_scratch(bantam::page_tokens * width);
        const auto at = [&](const KvCache& c, std::vector<float>& room, std::int64_t layer, bool value, std::int64_t head, std::int64_t t, std::int64_t i) {
          const float* page = c.expand(kernels(), layer, value, head, t / 64, static_cast<int>(t % 64) + 1, room.data());
          return static_cast<double>(page[value ? t % 64 * d + i : i * 64 + t % 64]);
        };
        double worst = 0;
        int wrong = 0;
        for (std::int64_t layer = 0; layer < 2; ++layer) {
          for (std::int64_t head = 0; head < heads[layer]; ++head) {
            for (std::int64_t t = 0; t < cache.tokens(); t += 7) {
              const std::int64_t from = t < first ? t : t + gone;
              const std::int64_t half = rope->dim() / 2;
              for (std::int64_t i = 0; i < d; ++i) {
                wrong += at(cache, scratch, layer, true, head, t, i) != at(before, old_scratch, layer, true, head, from, i);
                if (t < first) wrong += at(cache, scratch, layer, false, head, t, i) != at(before, old_scratch, layer, false, head, t, i);
              }
              // The key itself, turned to its place in double precision.
              std::vector<double> rotated;
              for (std::int64_t i = 0; i < 40; ++i) rotated.push_back(at(cache, scratch, layer, false, head, t, i));
              const std::vector<double> key = bantam::reference::hadamard_rotated(rotated, static_cast<std::size_t>(cache.rotation_block(layer, false)));
              for (std::int64_t pair = 0; pair < half; ++pair) {
                const bool adjacent = rope == &yarn;
                const std::int64_t a = adjacent ? 2 * pair : pair, b = adjacent ? a + 1 : pair + half;
                const auto plain_of = [&](std::int64_t i) { return static_cast<double>(std::clamp(numbers(from, (i + head + 3 * layer) % 40), -2.0f, 2.0f)); };
                const double angle = static_cast<double>(t) * rope->frequencies()[static_cast<std::size_t>(pair)];
                const double x = plain_of(a), y = plain_of(b);
                worst = std::max(worst, std::fabs(key[static_cast<std::size_t>(a)] - rope->magnitude() * (x * std::cos(angle) - y * std::sin(angle))));
                worst = std::max(worst, std::fabs(key[static_cast<std::size_t>(b)] - rope->magnitude() * (x * std::sin(angle) + y * std::cos(angle))));
              }
            }
          }
        }
        CHECK(wrong == 0);
        CHECK(worst <= step * rope->magnitude());
      }
    }
  }
}
