// Attention over pages, and what pages keep.
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/cases.hpp"
#include "reference/attention.hpp"

using namespace bantam::test;
using bantam::AttentionPage;
using bantam::AttentionRows;
using bantam::AttentionState;
using bantam::KernelTable;
using bantam::KvKernels;

namespace {

/// A page of one kind that holds tokens of x (tokens, d), the first of them at `start`.
std::vector<std::byte> page_of(const KvKernels& kv, const std::vector<float>& x, bool value, int start, std::int64_t d) {
  std::vector<std::byte> page(static_cast<std::size_t>(kv.page_bytes(d)) + 64, std::byte{0x5a});
  const int tokens = std::min(bantam::page_tokens, static_cast<int>(static_cast<std::int64_t>(x.size()) / d) - start);
  for (int t = 0; t < tokens; ++t) kv.store(x.data() + (start + t) * d, page.data(), value, t, d, 1);
  return page;
}

/// Query rows, `group` a token, that see the tokens of (tokens, d) keys up to their own position.
struct Queries {
  std::vector<float> q;
  int group = 1;
  std::int64_t position = 0;
  std::int64_t window = 0;
  std::vector<float> slopes = {};  ///< (group)
  bool chunked = false;            ///< the window is a chunk
};

/// Their outputs, page by page, `together` rows at once.
std::vector<float> attend(const KernelTable& table, std::size_t kind, const Queries& queries, const std::vector<float>& keys,
                          const std::vector<float>& values, std::int64_t d, float scale, int together = 1000) {
  const KvKernels& kv = table.kv[kind];
  const auto tokens = static_cast<int>(static_cast<std::int64_t>(keys.size()) / d);
  const auto count = static_cast<int>(static_cast<std::int64_t>(queries.q.size()) / d);
  std::vector<AttentionState> states(static_cast<std::size_t>(count));
  std::vector<float> out(queries.q.size());
  for (int start = 0; start < tokens; start += bantam::page_tokens) {
    const auto key_page = page_of(kv, keys, false, start, d);
    const auto value_page = page_of(kv, values, true, start, d);
    for (int row = 0; row < count; row += together) {
      REQUIRE((row % queries.group == 0));
      kv.attend({key_page.data(), value_page.data(), start, d, scale},
                {queries.q.data() + row * d, out.data() + row * d, states.data() + row, std::min(together, count - row), queries.group,
                 queries.position + row / queries.group, queries.window, queries.slopes.empty() ? nullptr : queries.slopes.data(), queries.chunked});
    }
  }
  for (int row = 0; row < count; ++row) table.attend_finish(states[static_cast<std::size_t>(row)], out.data() + row * d, d);
  return out;
}

/// One query at the last of `tokens` keys, which sees those from `first` on.
std::vector<float> attend(const KernelTable& table, const std::vector<float>& q, std::vector<float> keys,
                          std::vector<float> values, std::int64_t d, int first, int tokens, float scale) {
  keys.resize(static_cast<std::size_t>(tokens * d));
  values.resize(static_cast<std::size_t>(tokens * d));
  return attend(table, 0, {q, 1, tokens - 1, tokens - first}, keys, values, d, scale);
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

TEST_CASE("spans softened apart and merged give the whole softmax, the same bits on every table, also where one saw nothing") {
  const std::int64_t d = 48;
  const int tokens = 200;
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(d)));
  const std::vector<float> q = normal_row(d, 21, 3);
  const std::vector<float> keys = normal_row(tokens * d, 22, 3);
  const std::vector<float> values = normal_row(tokens * d, 23);
  const auto merged = [&](const KernelTable& table, int window) {
    AttentionState all;
    std::vector<float> out(static_cast<std::size_t>(d));
    for (int start = 0; start < tokens; start += bantam::page_tokens) {
      AttentionState state;
      std::vector<float> sums(static_cast<std::size_t>(d));
      table.kv[0].attend({page_of(table.kv[0], keys, false, start, d).data(), page_of(table.kv[0], values, true, start, d).data(), start, d, scale},
                         {q.data(), sums.data(), &state, 1, 1, tokens - 1, window});
      table.attend_merge(all, out.data(), state, sums.data(), d);
    }
    table.attend_finish(all, out.data(), d);
    return out;
  };
  for (const int window : {0, 200, 100, 20, 8}) {
    CAPTURE(window);
    const std::vector<float> defined = merged(generic_table(), window);
    const std::vector<double> expected = whole_softmax(q, keys, values, d, window == 0 ? 0 : tokens - window, tokens, static_cast<double>(scale));
    for (std::size_t i = 0; i < defined.size(); ++i) CHECK(std::fabs(static_cast<double>(defined[i]) - expected[i]) < 2e-5);
    for (const KernelTable* table : bantam::kernel_tables()) {
      CAPTURE(std::string(table->name));
      CHECK(merged(*table, window) == defined);
    }
  }
}

TEST_CASE("rows see the tokens that were chosen for them alone, however many go together, the same bits on every table") {
  const std::int64_t d = 32;
  const int tokens = 200, group = 3, rows = 4, pages = 4;
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(d)));
  const std::vector<float> q = normal_row(rows * group * d, 31), keys = normal_row(tokens * d, 32), values = normal_row(tokens * d, 33);
  // Of the tokens that see them: every one, one, those of the second page, some.
  const std::uint64_t words[rows][pages] = {{~0UL, ~0UL, ~0UL, ~0UL}, {0, 0, 1UL << 17, 0}, {0, ~0UL, 0, 0}, {0x8000000000000001, 0x00f00f0000000000, 0, 0x6}};
  const auto attended = [&](const KernelTable& table, std::size_t kind, int together) {
    std::vector<AttentionState> states(static_cast<std::size_t>(rows * group));
    std::vector<float> out(q.size());
    for (int page = 0; page < pages; ++page) {
      const auto of_keys = page_of(table.kv[kind], keys, false, page * bantam::page_tokens, d), of_values = page_of(table.kv[kind], values, true, page * bantam::page_tokens, d);
      for (int row = 0; row < rows; row += together) {
        AttentionRows part{q.data() + row * group * d, out.data() + row * group * d, states.data() + row * group, std::min(together, rows - row) * group, group, tokens - rows + row};
        part.chosen = &words[row][page], part.chosen_stride = pages;
        table.kv[kind].attend({of_keys.data(), of_values.data(), page * bantam::page_tokens, d, scale}, part);
      }
    }
    for (int row = 0; row < rows * group; ++row) table.attend_finish(states[static_cast<std::size_t>(row)], out.data() + row * d, d);
    return out;
  };
  for (std::size_t kind = 0; kind < bantam::KvKinds::size; ++kind) {
    const std::vector<float> defined = attended(generic_table(), kind, 1);
    for (const KernelTable* table : bantam::kernel_tables()) {
      CAPTURE(std::string(table->name));
      for (const int together : {1, 2, rows}) CHECK(attended(*table, kind, together) == defined);
    }
    for (int row = 0; row < rows * group && kind == 0; ++row) {
      std::vector<float> seen_keys, seen_values;
      for (int t = 0; t <= tokens - rows + row / group; ++t) {
        if ((words[row / group][t / bantam::page_tokens] >> t % bantam::page_tokens & 1) == 0) continue;
        seen_keys.insert(seen_keys.end(), keys.begin() + t * d, keys.begin() + (t + 1) * d);
        seen_values.insert(seen_values.end(), values.begin() + t * d, values.begin() + (t + 1) * d);
      }
      const std::vector<float> query(q.begin() + row * d, q.begin() + (row + 1) * d);
      const std::vector<double> expected = whole_softmax(query, seen_keys, seen_values, d, 0, static_cast<int>(std::ssize(seen_keys) / d), static_cast<double>(scale));
      for (std::int64_t i = 0; i < d; ++i) CHECK(std::fabs(static_cast<double>(defined[static_cast<std::size_t>(row * d + i)]) - expected[static_cast<std::size_t>(i)]) < 1e-5);
    }
  }
}

TEST_CASE("an indexer's scores are sums of rectified products, the same bits on every table") {
  for (const std::int64_t d : padded_dims) {
    for (const int heads : {1, 3, 4, 9}) {
      CAPTURE(d);
      CAPTURE(heads);
      const std::vector<float> q = normal_row(heads * d, 41), keys = normal_row(bantam::page_tokens * d, 42), weights = normal_row(heads, 43);
      for (const bool weighs : {false, true}) {
        const auto scores = [&](const KernelTable& table) {
          const auto page = page_of(table.kv[0], keys, false, 0, d);
          std::vector<float> out(bantam::page_tokens);
          table.index_scores(reinterpret_cast<const float*>(page.data()), {q.data(), weighs ? weights.data() : nullptr, heads, d}, out.data());
          return out;
        };
        const std::vector<float> defined = scores(generic_table());
        for (const KernelTable* table : bantam::kernel_tables()) CHECK(scores(*table) == defined);
        for (std::int64_t t = 0; t < bantam::page_tokens; ++t) {
          double expected = 0;
          for (std::int64_t h = 0; h < heads; ++h) {
            double dot = 0;
            for (std::int64_t i = 0; i < d; ++i) dot += static_cast<double>(q[static_cast<std::size_t>(h * d + i)]) * static_cast<double>(keys[static_cast<std::size_t>(t * d + i)]);
            expected += std::max(dot, 0.0) * (weighs ? static_cast<double>(weights[static_cast<std::size_t>(h)]) : 1);
          }
          CHECK(std::fabs(static_cast<double>(defined[static_cast<std::size_t>(t)]) - expected) < 1e-5 * static_cast<double>(d * heads));
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

TEST_CASE("rows together give the bits of rows alone, on every table and kind of page those of generic") {
  const std::int64_t d = 80;
  const int tokens = 150;
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(d)));
  const std::vector<float> keys = normal_row(tokens * d, 11);
  const std::vector<float> values = normal_row(tokens * d, 12);
  const int groups[] = {1, 3, 4};
  const std::int64_t windows[] = {0, 5, 70};
  for (std::size_t kind = 0; kind < generic_table().kv.size(); ++kind) {
    CAPTURE(std::string(generic_table().kv[kind].name));
    for (std::size_t g = 0; g < std::size(groups); ++g) {
      for (std::size_t w = 0; w < std::size(windows); ++w) {
        if (quick() && (kind + g + w) % 3 != 0) continue;  // of each kind other pairs
        const int group = groups[g];
        const std::int64_t window = windows[w];
        CAPTURE(group);
        CAPTURE(window);
        const int rows = group * 11;
        std::vector<float> without;
        for (const auto& [sloping, chunked] : {std::pair{false, false}, {true, false}, {false, true}}) {
          if (chunked && window == 0) continue;
          CAPTURE(sloping);
          CAPTURE(chunked);
          Queries queries{normal_row(rows * d, 13), group, tokens - 11, window};
          queries.chunked = chunked;
          for (int head = 0; sloping && head < group; ++head) queries.slopes.push_back(0.3f / static_cast<float>(1 + head));
          const std::vector<float> defined = attend(generic_table(), kind, queries, keys, values, d, scale, group);
          CHECK(defined != without);
          without = defined;
          for (const KernelTable* table : bantam::kernel_tables()) {
            CAPTURE(std::string(table->name));
            for (const int together : {group, group * 2, group * 7, 1000}) CHECK(attend(*table, kind, queries, keys, values, d, scale, together) == defined);
          }
        }
      }
    }
  }
}

TEST_CASE("keys and values come back from a page within half a step, the same bits on every table") {
  for (std::size_t kind = 0; kind < generic_table().kv.size(); ++kind) {
    const std::string name = generic_table().kv[kind].name;
    if (generic_table().kv[kind].rotates) continue;  // kv_levels_test.cpp
    CAPTURE(name);
    for (const std::int64_t d : {16, 32, 48, 64, 80, 128}) {
      CAPTURE(d);
      for (const double size : {1.0, 1e-3, 100.0}) {
        const int tokens = 37;
        const std::vector<float> x = normal_row(tokens * d, 8, size);
        for (const bool value : {false, true}) {
          CAPTURE(value);
          const std::vector<std::byte> defined = page_of(generic_table().kv[kind], x, value, 0, d);
          for (const KernelTable* table : bantam::kernel_tables()) {
            CAPTURE(std::string(table->name));
            const KvKernels& kv = table->kv[kind];
            CHECK(page_of(kv, x, value, 0, d) == defined);
            std::vector<float> out(static_cast<std::size_t>(64 * d));
            kv.expand(defined.data(), value, tokens, d, out.data());
            double worst = 0;
            for (int t = 0; t < tokens; ++t) {
              for (std::int64_t first = 0; first < d; first += 32) {
                const std::int64_t end = std::min(first + 32, d);
                const auto row = std::span(x).subspan(static_cast<std::size_t>(t * d + first), static_cast<std::size_t>(end - first));
                const float high = std::fabs(*std::max_element(row.begin(), row.end(), [](float a, float b) { return std::fabs(a) < std::fabs(b); }));
                for (std::int64_t i = first; i < end; ++i) {
                  const double exact = x[static_cast<std::size_t>(t * d + i)];
                  const double found = out[static_cast<std::size_t>(value ? t * d + i : i * 64 + t)];
                  const double step = high / 127.0;
                  const double allowed = name == "f32" ? 0 : name == "f16" ? std::fabs(exact) * 0x1p-11 + 0x1p-25 : step / 2 * 1.00001 + 1e-6 * std::fabs(exact);
                  worst = std::max(worst, std::fabs(found - exact) - allowed);
                }
              }
            }
            CHECK(worst <= 0);
          }
        }
      }
    }
  }
}

TEST_CASE("keys of zeros, of one value and of vanishing ones come back; NaN stays visible") {
  for (std::size_t kind = 0; kind < generic_table().kv.size(); ++kind) {
    CAPTURE(std::string(generic_table().kv[kind].name));
    for (const KernelTable* table : bantam::kernel_tables()) {
      CAPTURE(std::string(table->name));
      const KvKernels& kv = table->kv[kind];
      const float nearly = kv.rotates ? 0x1p-8f : 1e-6f;  // as scales of 16 bits are
      const auto back = [&](const std::vector<float>& x) {
        std::vector<float> out(64 * 48);
        kv.expand(page_of(kv, x, true, 0, 48).data(), true, 1, 48, out.data());
        out.resize(48);
        return out;
      };
      for (const float value : {0.0f, 1.0f, -3.0f, 1e-40f, -1e-44f}) {
        for (const float y : back(std::vector<float>(48, value))) CHECK(std::fabs(y - value) <= std::fabs(value) * nearly + 1e-39f);
      }
      std::vector<float> vanishing(48, 1e-44f);
      vanishing[1] = 3e-44f;
      for (const float y : back(vanishing)) CHECK(std::fabs(y) < 1e-38f);
      std::vector<float> poisoned(48, 1.0f);
      poisoned[17] = NAN;
      const std::vector<float> out = back(poisoned);
      CHECK(std::isnan(out[17]));
      // The next group of 32 has nothing to do with it.
      CHECK(std::fabs(out[40] - 1.0f) < nearly);
    }
  }
}
