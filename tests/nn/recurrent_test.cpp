// Recurrent blocks: against double precision, the same bits however a sequence is cut, and the contract of their state.
#include <map>

#include "bantam/nn/blocks/channel_delta.hpp"
#include "bantam/nn/blocks/gated_delta.hpp"
#include "bantam/nn/blocks/short_convolution.hpp"
#include "bantam/nn/blocks/state_space.hpp"
#include "bantam/quant/formats.hpp"
#include "bantam/tensor/random.hpp"
#include "reference/recurrence.hpp"
#include "support.hpp"

using namespace bantam::nn;

namespace bantam::test::recurrent {
namespace {

constexpr std::int64_t dim = 48, most_tokens = 150;
constexpr double eps = 1e-5;

WeightMatrix matrix(std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
  return WeightMatrix::quantize(random::normal<float>({rows, columns}, seed, {.deviation = 1 / std::sqrt(static_cast<double>(columns))}), format_info<F32Format>());
}
std::vector<float> vector(std::int64_t n, std::uint64_t seed, double mean, double deviation) {
  const auto values = random::normal<float>({n}, seed, {.mean = mean, .deviation = deviation});
  return {values.span().begin(), values.span().end()};
}
/// (channels, taps) as the papers have it, to (taps, channels).
std::vector<float> by_taps(const std::vector<float>& weights, std::int64_t taps) {
  std::vector<float> out;
  for (std::size_t m = 0; m < static_cast<std::size_t>(taps); ++m) {
    for (std::size_t c = m; c < weights.size(); c += static_cast<std::size_t>(taps)) out.push_back(weights[c]);
  }
  return out;
}
Tensor<float, 2> inputs() { return random::normal<float>({most_tokens, dim}, 99); }

using Rows = std::vector<reference::Doubles>;
Rows product(const WeightMatrix& w, const Rows& x) {
  const Tensor<float, 2> values = w.dequantize();
  Rows out;
  for (const reference::Doubles& row : x) {
    reference::Doubles& y = out.emplace_back();
    for (std::int64_t r = 0; r < values.extent(0); ++r) {
      double sum = 0;
      for (std::int64_t c = 0; c < values.extent(1); ++c) sum += static_cast<double>(values(r, c)) * row[static_cast<std::size_t>(c)];
      y.push_back(sum);
    }
  }
  return out;
}
Rows input_rows() {
  const Tensor<float, 2> x = inputs();
  Rows rows;
  for (std::int64_t t = 0; t < most_tokens; ++t) rows.emplace_back(&x(t, 0), &x(t, 0) + dim);
  return rows;
}

/// A kind of block, in sizes that are no multiples of anything convenient: its weights and the reference.
template <bool tiled, bool sigmoid = false>
struct DeltaOf {
  static constexpr RecurrentLayer sizes{.key_heads = 2, .value_heads = 6, .key_dim = 20, .value_dim = 12, .channels = 2 * 40 + 72, .taps = 4};
  using Block = GatedDelta;
  std::vector<float> convolution = vector(sizes.channels * sizes.taps, 5, 0, 0.5);
  GatedDeltaWeights weights{matrix(152, dim, 1), matrix(72, dim, 2), matrix(6, dim, 3), matrix(6, dim, 4), matrix(dim, 72, 6),
                            by_taps(convolution, 4), vector(6, 7, -0.3, 0.1), vector(6, 8, 0, 1), vector(12, 9, 1, 0.3)};
  static Block block(int workers) { return {kernels_in_use(), sizes, tiled, sigmoid, eps, workers}; }

  [[nodiscard]] Rows expected() const {
    const Rows x = input_rows(), z = product(weights.z, x), a = product(weights.a, x), b = product(weights.b, x);
    Rows mixed = reference::causal_convolution(product(weights.qkv, x), convolution, {}, sizes.taps), gated;
    std::vector<reference::RecurrentHead> heads(6, {20, 12});
    for (std::size_t t = 0; t < x.size(); ++t) {
      for (double& v : mixed[t]) v = reference::silu(v);
      for (std::size_t h = 0; h < 4; ++h) reference::make_unit(&mixed[t][h * 20], 20);
      for (std::size_t i = 0; i < 40; ++i) mixed[t][i] /= std::sqrt(20.0);
      reference::Doubles& row = gated.emplace_back();
      for (std::size_t h = 0; h < 6; ++h) {
        const double g = static_cast<double>(weights.decay[h]) * reference::softplus(a[t][h] + static_cast<double>(weights.decay_bias[h]));
        const std::size_t key = tiled ? h % 2 : h / 3;
        const double beta = 1 / (1 + std::exp(-b[t][h]));
        reference::Doubles o = heads[h].delta_step(g, beta, &mixed[t][key * 20], &mixed[t][40 + key * 20], &mixed[t][80 + h * 12]);
        double squares = 0;
        for (const double v : o) squares += v * v;
        for (std::size_t i = 0; i < 12; ++i) row.push_back(o[i] / std::sqrt(squares / 12 + eps) * static_cast<double>(weights.norm[i]) * (sigmoid ? reference::sigmoid(z[t][h * 12 + i]) : reference::silu(z[t][h * 12 + i])));
      }
    }
    return product(weights.out, gated);
  }
};

using Delta = DeltaOf<true>;
using GroupedDelta = DeltaOf<false>;
using SigmoidDelta = DeltaOf<true, true>;

/// Some channels forget within a token, others not at all.
struct Channels {
  static constexpr std::int64_t heads = 3, size = 20, width = heads * size;
  static constexpr RecurrentLayer sizes{.key_heads = heads, .value_heads = heads, .key_dim = size, .value_dim = size, .channels = 3 * width, .taps = 4, .channel_decays = true};
  using Block = ChannelDelta;
  std::vector<float> q_convolution = vector(width * 4, 15, 0, 0.5), k_convolution = vector(width * 4, 16, 0, 0.5), v_convolution = vector(width * 4, 17, 0, 0.5);
  ChannelDeltaWeights weights{matrix(width, dim, 1), matrix(width, dim, 2), matrix(width, dim, 3), matrix(size, dim, 4), matrix(width, size, 5), matrix(size, dim, 6), matrix(width, size, 7),
                              matrix(heads, dim, 8), matrix(dim, width, 9), by_taps(q_convolution, 4), by_taps(k_convolution, 4), by_taps(v_convolution, 4), {-0.05f, -1.0f, -16.0f},
                              vector(width, 10, 0, 3), vector(size, 11, 1, 0.3)};
  static Block block(int workers) { return {kernels_in_use(), sizes, eps, workers}; }

  /// f and g: what decays and the output gate are made of.
  [[nodiscard]] Rows expected_of(Rows f, Rows g, double bound) const {
    const Rows x = input_rows();
    const auto convolved = [&](const WeightMatrix& w, const std::vector<float>& convolution) { return reference::causal_convolution(product(w, x), convolution, {}, 4); };
    std::vector<float> a_log;
    for (const float decay : weights.decay) a_log.push_back(std::log(-decay));
    return product(weights.out, reference::channel_delta(heads, size, {convolved(weights.q, q_convolution), convolved(weights.k, k_convolution), convolved(weights.v, v_convolution),
                                                                       std::move(f), std::move(g), product(weights.b, x)},
                                                         a_log, weights.decay_bias, weights.norm, eps, bound));
  }
  [[nodiscard]] Rows expected() const {
    const Rows x = input_rows();
    return expected_of(product(weights.f_b, product(weights.f_a, x)), product(weights.g_b, product(weights.g_a, x)), 0);
  }
};

/// The same with log decays above a bound, and without low ranks.
struct BoundedChannels : Channels {
  static constexpr double bound = -3;
  BoundedChannels() {
    weights.f_a = matrix(width, dim, 4), weights.g_a = matrix(width, dim, 6);
    weights.f_b = weights.g_b = WeightMatrix();
    weights.decay = {-0.3f, -1.0f, -4.0f};
  }
  static Block block(int workers) { return {kernels_in_use(), sizes, eps, workers, bound}; }

  [[nodiscard]] Rows expected() const { return expected_of(product(weights.f_a, input_rows()), product(weights.g_a, input_rows()), bound); }
};

struct Space {
  static constexpr RecurrentLayer sizes{.key_heads = 2, .value_heads = 6, .key_dim = 20, .value_dim = 12, .channels = 72 + 2 * 40, .taps = 4};
  using Block = StateSpace;
  std::vector<float> convolution = vector(sizes.channels * sizes.taps, 5, 0, 0.5);
  StateSpaceWeights weights{matrix(72 + 152 + 6, dim, 1), matrix(dim, 72, 2), by_taps(convolution, 4), vector(152, 3, 0, 0.3), vector(6, 4, -0.3, 0.1),
                            vector(6, 6, 0, 1), vector(6, 7, 0, 1), vector(72, 8, 1, 0.3)};
  static Block block(int workers) { return {kernels_in_use(), {.sizes = sizes, .norm_eps = eps}, workers}; }

  [[nodiscard]] Rows expected() const {
    std::vector<float> a_log;
    for (const float decay : weights.decay) a_log.push_back(std::log(-decay));
    return product(weights.out, reference::state_space({2, 6, 20, 12, sizes.taps}, product(weights.in, input_rows()), convolution, weights.convolution_bias, a_log,
                                                       weights.decay_bias, weights.skip, weights.norm, eps));
  }
};

struct Short {
  static constexpr RecurrentLayer sizes{.channels = dim, .taps = 3};
  using Block = ShortConvolution;
  std::vector<float> convolution = vector(dim * 3, 5, 0, 0.5);
  ShortConvolutionWeights weights{matrix(3 * dim, dim, 1), matrix(dim, dim, 2), by_taps(convolution, 3)};
  static Block block(int) { return {kernels_in_use(), sizes}; }

  [[nodiscard]] Rows expected() const {
    return product(weights.out, reference::short_convolution({.taps = 3}, product(weights.in, input_rows()), convolution));
  }
};

SequenceState new_state(const RecurrentLayer& sizes) {
  std::vector<std::unique_ptr<BlockState>> blocks;
  blocks.push_back(std::make_unique<RecurrentState>(std::vector<RecurrentLayer>{{}, sizes}));  // the first layer keeps nothing
  return SequenceState(std::move(blocks));
}

/// What a block makes of the next tokens of sequences, all in one pass.
template <class Kind>
class Runner {
 public:
  explicit Runner(int threads = 1) : team_(threads), block_(Kind::block(threads)) { block_.serve(kind_.weights, x_); }

  /// (tokens, dim) of each sequence.
  std::vector<std::vector<float>> run(const std::vector<std::pair<SequenceState*, std::int64_t>>& sequences) {
    std::vector<PassSequence> parts;
    std::vector<PassRow> rows;
    const Tensor<float, 2> all = inputs();
    std::int64_t total = 0;
    for (const auto& [state, tokens] : sequences) total += tokens;
    x_.resize(total, dim);
    for (const auto& [state, tokens] : sequences) {
      const std::int64_t position = state->tokens(), number = std::ssize(parts);
      parts.push_back({state, std::ssize(rows), tokens, position});
      state->extend(tokens);
      for (std::int64_t t = 0; t < tokens; ++t) {
        std::copy_n(&all(position + t, 0), dim, x_.row(std::ssize(rows)));
        rows.push_back({position + t, number});
      }
    }
    block_.plan(total, parts);
    std::vector<float> out(static_cast<std::size_t>(total * dim));
    block_.run({kernels_in_use(), team_, rows}, kind_.weights, {.place = 1}, x_, {out.data(), dim}, to_the_end);
    std::vector<std::vector<float>> split;
    for (const PassSequence& part : parts) split.emplace_back(out.begin() + part.row * dim, out.begin() + (part.row + part.tokens) * dim);
    return split;
  }
  std::vector<float> run(SequenceState& state, std::int64_t tokens) { return run({{&state, tokens}})[0]; }
  /// From the beginning, in these pieces, over and over.
  std::vector<float> whole(std::initializer_list<std::int64_t> pieces) {
    SequenceState state = new_state(Kind::sizes);
    std::vector<float> out;
    while (state.tokens() < most_tokens) {
      for (const std::int64_t piece : pieces) {
        if (const std::int64_t count = std::min(piece, most_tokens - state.tokens()); count > 0) append(out, run(state, count));
      }
    }
    return out;
  }
  static void append(std::vector<float>& out, const std::vector<float>& more) { out.insert(out.end(), more.begin(), more.end()); }

 private:
  const Kind kind_;
  Team team_;
  Activations x_;
  typename Kind::Block block_;
};

std::span<const float> rows_from(const std::vector<float>& all, std::int64_t first, std::int64_t count) {
  return std::span(all).subspan(static_cast<std::size_t>(first * dim), static_cast<std::size_t>(count * dim));
}

}  // namespace

TEST_CASE_TEMPLATE("a recurrent block computes the reference, on every instruction set", Kind, Delta, GroupedDelta, SigmoidDelta, Channels, BoundedChannels, Space, Short) {
  const Rows expected = Kind().expected();
  const std::string before = kernels_in_use().name;
  for (const KernelTable* table : kernel_tables()) {
    CAPTURE(std::string(table->name));
    use_kernels(table->name);
    const std::vector<float> found = Runner<Kind>().whole({most_tokens});
    double worst = 0;
    for (std::size_t i = 0; i < found.size(); ++i) worst = std::max(worst, std::fabs(static_cast<double>(found[i]) - expected[i / dim][i % dim]));
    CHECK(worst < 2e-5);
  }
  use_kernels(before);
}

TEST_CASE_TEMPLATE("results of a recurrent block are the same bits however a sequence is cut, beside whatever else, on any number of threads", Kind, Delta, Channels, BoundedChannels, Space, Short) {
  const std::vector<float> whole = Runner<Kind>().whole({most_tokens});
  CHECK(Runner<Kind>().whole({1}) == whole);
  CHECK(Runner<Kind>().whole({31, 1, 33, 32, 5, 64}) == whole);
  CHECK(Runner<Kind>(3).whole({70, 2}) == whole);
  Runner<Kind> runner(2);
  SequenceState a = new_state(Kind::sizes), b = new_state(Kind::sizes);
  (void)runner.run(b, 40);
  const auto both = runner.run({{&a, 90}, {&b, 50}});
  CHECK(std::ranges::equal(both[0], rows_from(whole, 0, 90)));
  CHECK(std::ranges::equal(both[1], rows_from(whole, 40, 50)));
}

TEST_CASE_TEMPLATE("a recurrent state that was cut, forked or saved goes on as a fresh one", Kind, Delta, Channels, BoundedChannels, Space, Short) {
  Runner<Kind> runner;
  const std::vector<float> whole = runner.whole({most_tokens});
  for (const auto& [read, piece] : {std::pair<std::int64_t, std::int64_t>{20, 25}, {64, 25}, {100, 25}, {120, 25}, {120, 60}, {120, 120}}) {
    for (const std::int64_t cut : {0, 1, 19, 40, 63, 64, 65, 95, 96, 99, 119}) {
      if (cut > read) continue;
      CAPTURE(read);
      CAPTURE(piece);
      CAPTURE(cut);
      SequenceState state = new_state(Kind::sizes);
      for (std::int64_t t = 0; t < read; t += piece) (void)runner.run(state, std::min(piece, read - t));
      SequenceState other = state.fork();
      state.truncate(cut);
      const std::int64_t left = state.tokens();
      CHECK(left <= cut);
      // Of the last chunk nothing is lost.
      if (cut >= read / RecurrentState::chunk_tokens * RecurrentState::chunk_tokens) CHECK(left == cut);
      CHECK(std::ranges::equal(runner.run(state, 30), rows_from(whole, left, 30)));
      // The fork is where it was, whatever the other has written since.
      CHECK(std::ranges::equal(runner.run(other, 20), rows_from(whole, read, 20)));
      std::string saved;
      other.save([&](std::span<const std::byte> bytes) { saved.append(reinterpret_cast<const char*>(bytes.data()), bytes.size()); });
      SequenceState restored = new_state(Kind::sizes);
      std::size_t at = 0;
      restored.restore(read + 20, [&](std::uint64_t size, std::string_view) {
        at += size;
        REQUIRE(at <= saved.size());
        return std::as_bytes(std::span(saved)).subspan(at - size, size);
      });
      CHECK(at == saved.size());
      CHECK(std::ranges::equal(runner.run(restored, 2), rows_from(whole, read + 20, 2)));
    }
  }
}

TEST_CASE("checkpoints are bounded, closer together where they are recent, and go back to no token after the one asked for") {
  RecurrentState state({Short::sizes});
  std::int64_t most_bytes = 0;
  for (int i = 0; i < 3000; ++i) state.extend(7), most_bytes = std::max(most_bytes, state.bytes());
  RecurrentState one({Short::sizes});
  one.extend(1);
  CHECK(most_bytes <= static_cast<std::int64_t>(RecurrentState::most_checkpoints + 1) * one.bytes());
  for (const std::int64_t back : {1, 30, 100, 1000, 10000}) {
    CAPTURE(back);
    const auto cut = state.fork();
    cut->truncate(21000 - back);
    CHECK(cut->tokens() <= 21000 - back);
    // Nothing is read again that is farther back than twice what was cut off, and a chunk or two.
    CHECK(cut->tokens() >= 21000 - 4 * back - 4 * RecurrentState::chunk_tokens);
  }
}

}  // namespace bantam::test::recurrent
