// What attention of one token costs after a long text, for every way to keep keys and values, beside the rate at which memory is read.
//
//   bench_attention [--depth N]... [--layers N] [--heads N] [--kv-heads N] [--head-dim N] [--latent N] [--tokens N] [--chosen N] [--block N] [--threads N] [--rounds N] [KIND...]
//
// With --latent values are the last N numbers of keys, with --tokens the last N tokens attend, and with --chosen an indexer chose N tokens for each of them, at random,
// in blocks of --block.
// Keys and values are random: what they are changes nothing of the time. Without --layers there are as many as take several times the last-level
// cache, so that they come from memory. Times are the least of the rounds, beside the rate at which memory was read.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "bantam/core/random.hpp"
#include "bantam/core/stopwatch.hpp"
#include "bantam/nn/attention.hpp"
#include "bantam/session/machine.hpp"
#include "bantam/tensor/random.hpp"

namespace {

struct Asked {
  std::int64_t depth = 4096, layers = 0, heads = 32, kv_heads = 8, head_dim = 64, latent = 0, tokens = 1, chosen = 0, block = 1, threads = 0, rounds = 5;

  [[nodiscard]] std::int64_t value_dim() const { return latent > 0 ? latent : head_dim; }
  /// Of so many layers.
  [[nodiscard]] bantam::nn::KvShape shape(std::int64_t count) const {
    const bantam::nn::KvLayer layer{kv_heads, head_dim, latent > 0 ? 0 : head_dim, 0, latent};
    return {count, kv_heads, head_dim, std::vector<bantam::nn::KvLayer>(static_cast<std::size_t>(count), layer)};
  }
};

/// Attention of the last tokens of a text, through all layers.
class LongText {
 public:
  LongText(const Asked& asked, std::string_view kind, bantam::Team& team)
      : asked_(asked), team_(team), cache_(asked.shape(asked.layers), kind),
        attention_({.heads = asked.heads, .kv_heads = asked.kv_heads, .head_dim = asked.head_dim, .value_dim = asked.value_dim(), .sparse = asked.chosen > 0}, team.size()),
        q_(bantam::random::normal<float>({asked.tokens * asked.heads, asked.head_dim}, 1)), out_(static_cast<std::size_t>(asked.tokens * asked.heads * asked.value_dim())) {
    cache_.extend(asked.depth);
    choose();
    // Tokens repeat: nobody sees it, and they are sooner there.
    const auto numbers = bantam::random::normal<float>({64, cache_.padded_head_dim()}, 2);
    team.deal(asked.layers, 1, [&](bantam::Range layers, int) {
      for (std::int64_t layer = layers.begin; layer < layers.end; ++layer) {
        for (std::int64_t head = 0; head < asked.kv_heads; ++head) {
          for (std::int64_t t = 0; t < asked.depth; ++t) {
            for (const bool value : {false, true}) {
              if (value && cache_.is_latent(layer)) continue;
              cache_.store(bantam::kernels_in_use(), layer, value, head, t, &numbers((t + head + value) % 64, 0));
            }
          }
        }
      }
    });
  }
  /// Seconds.
  double operator()() {
    const bantam::nn::AttentionSequence sequence{&cache_, 0, asked_.tokens, asked_.depth - asked_.tokens};
    attention_.plan({&sequence, 1});
    const bantam::FloatRows q{q_.data(), asked_.heads * asked_.head_dim};
    const bantam::OutputRows out{out_.data(), asked_.heads * asked_.value_dim()};
    const bantam::nn::ChosenTokens chosen{pages_.data(), stride()};
    const bantam::Stopwatch watch;
    for (std::int64_t layer = 0; layer < asked_.layers; ++layer) {
      attention_.run(bantam::kernels_in_use(), team_, layer, 0, q, out, 0, nullptr, nullptr, nullptr, nullptr, asked_.chosen > 0 ? &chosen : nullptr);
    }
    return watch.seconds();
  }
  [[nodiscard]] std::int64_t bytes_per_token() const { return cache_.bytes_per_token(); }
  [[nodiscard]] double bytes() const { return static_cast<double>(cache_.bytes_per_token() * asked_.depth); }

 private:
  [[nodiscard]] std::int64_t stride() const { return bantam::div_up<std::int64_t>(asked_.depth, bantam::page_tokens); }
  /// What each of the tokens sees: itself, and blocks before it.
  void choose() {
    if (asked_.chosen == 0) return;
    pages_.resize(static_cast<std::size_t>(asked_.tokens * stride()));
    bantam::Random random(4);
    for (std::int64_t row = 0; row < asked_.tokens; ++row) {
      const std::int64_t last = asked_.depth - asked_.tokens + row, blocks = last / asked_.block;
      std::vector<std::int64_t> order(static_cast<std::size_t>(blocks));
      std::iota(order.begin(), order.end(), std::int64_t{0});
      const auto see = [&](std::int64_t token) { pages_[static_cast<std::size_t>(row * stride() + token / bantam::page_tokens)] |= std::uint64_t{1} << token % bantam::page_tokens; };
      see(last);
      for (std::int64_t i = 0; i < std::min(blocks, asked_.chosen / asked_.block); ++i) {
        std::swap(order[static_cast<std::size_t>(i)], order[static_cast<std::size_t>(i) + random.next() % static_cast<std::uint64_t>(blocks - i)]);
        for (std::int64_t token = 0; token < asked_.block; ++token) see(order[static_cast<std::size_t>(i)] * asked_.block + token);
      }
    }
  }

  Asked asked_;
  bantam::Team& team_;
  bantam::nn::KvCache cache_;
  bantam::nn::Attention attention_;
  std::vector<std::uint64_t> pages_;  ///< ChosenTokens
  bantam::Tensor<float, 2> q_;
  std::vector<float> out_;
};

int usage() {
  std::fprintf(stderr, "usage: bench_attention [--depth N]... [--layers N] [--heads N] [--kv-heads N] [--head-dim N] [--latent N] [--tokens N] [--chosen N] [--block N] [--threads N] [--rounds N] [KIND...]\n");
  return 2;
}

/// Layers whose keys and values no cache holds.
std::int64_t layers_in_memory(const Asked& asked, std::string_view kind) {
  // Where nobody says how large the last-level cache is, as for most.
  const std::int64_t cache = std::max<std::int64_t>(bantam::last_level_cache_bytes(), std::int64_t{32} << 20);
  const std::int64_t of_layer = bantam::nn::KvCache(asked.shape(1), kind).bytes_per_token() * asked.depth;
  return bantam::div_up(4 * cache, of_layer);
}

void measure(const Asked& asked, const std::vector<std::string>& kinds, bantam::Team& team) {
  const auto n = [](std::int64_t number) { return static_cast<long long>(number); };
  const double limit = bantam::measure_read_gb_s(team.size());
  std::printf("%lld tokens, %lld heads of %lld, %lld of keys and values, %d threads, %s, memory %.1f GB/s\n", n(asked.depth), n(asked.heads), n(asked.head_dim), n(asked.kv_heads), team.size(),
              bantam::kernels_in_use().name, limit);
  std::printf("kind  layers  bytes a token  us a layer   GB/s   of the read bandwidth  of f16's time\n");
  double halves = 0;
  for (const std::string& kind : kinds) {
    Asked those = asked;
    if (those.layers == 0) those.layers = layers_in_memory(asked, kind);
    LongText text(those, kind, team);
    double least = text();
    for (std::int64_t round = 1; round < asked.rounds; ++round) least = std::min(least, text());
    const auto layers = static_cast<double>(those.layers);
    const double rate = text.bytes() / least / 1e9;
    if (kind == "f16") halves = least / layers;
    std::printf("%-5s %6lld %14lld %11.1f %6.1f %6.0f %%", kind.c_str(), n(those.layers), n(text.bytes_per_token() / those.layers), least / layers * 1e6, rate, rate / limit * 100);
    if (halves > 0) std::printf("               %6.2f", least / layers / halves);
    std::printf("\n");
  }
}

int run(int argc, char** argv) {
  Asked asked;
  std::vector<std::int64_t> depths;
  std::vector<std::string> kinds;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    std::int64_t* number = nullptr;
    for (const auto& [name, to] : {std::pair{"--depth", &asked.depth}, {"--layers", &asked.layers}, {"--heads", &asked.heads}, {"--kv-heads", &asked.kv_heads},
                                   {"--head-dim", &asked.head_dim}, {"--latent", &asked.latent}, {"--tokens", &asked.tokens}, {"--chosen", &asked.chosen}, {"--block", &asked.block}, {"--threads", &asked.threads}, {"--rounds", &asked.rounds}}) {
      if (argument == name) number = to;
    }
    if (number == nullptr && argument.starts_with("-")) return usage();
    if (number == nullptr) {
      kinds.push_back(argument);
    } else if (i + 1 == argc || (*number = std::atoll(argv[++i])) < 1) {
      return usage();
    }
    if (number == &asked.depth) depths.push_back(asked.depth);
  }
  if (depths.empty()) depths.push_back(asked.depth);
  if (kinds.empty()) {
    for (const bantam::KvKernels& kv : bantam::kernel_tables().back()->kv) kinds.emplace_back(kv.name);
  }
  bantam::Team team(static_cast<int>(asked.threads));
  team.set_active(team.size());
  for (const std::int64_t depth : depths) {
    asked.depth = depth;
    measure(asked, kinds, team);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const bantam::Error& error) {
    std::fprintf(stderr, "bench_attention: %s\n", error.what());
    return 1;
  }
}
