// How close the tile of each format comes to the loop of dot products alone, on one thread, and to what memory gives.
//
//   bench_tiles [--rounds N] [--seconds S] [--tokens N] [--threads N] [--cache-only] [FORMAT...]
//
// What is compared runs in alternation, so that a clock or a neighbor slows both; the figures are medians of the rounds, and of their ratios.
//   prefill      N tokens, 120, by a matrix that fits the second-level cache: integer products, as a share of the pure loop's
//   from cache   1 token by a matrix that fits the second-level cache: what is left for memory to be slower than
//   from memory  1 token by matrices of 4096 x 4096 that no cache holds, on one thread and on N, all cores, as a share of what a loop of
//                loads reads then. Weights are fetched to the first-level cache: a session measures whether the second is better
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "bantam/core/median.hpp"
#include "bantam/core/stopwatch.hpp"
#include "bantam/nn/linear.hpp"
#include "bantam/session/machine.hpp"
#include "bantam/tensor/random.hpp"

namespace {

/// Units a second of f(), which does `units`, over at least `seconds`.
template <class F>
double rate(double units, double seconds, F&& f) {
  f();
  double best = 0;
  for (int i = 0; i < 3; ++i) {
    const bantam::Stopwatch watch;
    std::int64_t calls = 0;
    do {
      f();
      ++calls;
    } while (watch.seconds() < seconds / 3);
    best = std::max(best, static_cast<double>(calls) * units / watch.seconds());
  }
  return best;
}

/// One matrix product of a format on some tokens, without threads.
class Product {
 public:
  Product(const bantam::FormatInfo& format, std::int64_t tokens) : weights_(matrix(format)), out_(static_cast<std::size_t>(tokens * rows)) {
    x_.serve(bantam::kernels_in_use(), weights_);
    x_.resize(tokens, columns);
    const auto values = bantam::random::normal<float>({tokens, columns}, 2);
    for (std::int64_t t = 0; t < tokens; ++t) {
      std::copy_n(&values(t, 0), columns, x_.row(t));
      x_.quantize_row(bantam::kernels_in_use(), t);
    }
  }
  void operator()() { bantam::nn::linear(bantam::kernels_in_use(), alone_, x_, {{weights_, nullptr, {out_.data(), rows}}}); }
  [[nodiscard]] double operations() const { return 2.0 * static_cast<double>(x_.tokens() * rows * columns); }
  [[nodiscard]] double bytes() const { return static_cast<double>(weights_.bytes()); }

 private:
  static constexpr std::int64_t rows = 128;
  static constexpr std::int64_t columns = 2048;
  static bantam::WeightMatrix matrix(const bantam::FormatInfo& format) {
    return bantam::WeightMatrix::quantize(bantam::random::normal<float>({rows, columns}, 1), format);
  }
  bantam::Team alone_{1};
  bantam::WeightMatrix weights_;
  bantam::nn::Activations x_;
  std::vector<float> out_;
};

/// Rates of some rounds, and what they are shares of.
struct Rates {
  std::vector<double> each, shares;

  void add(double rate, double limit) {
    each.push_back(rate);
    shares.push_back(rate / limit);
  }
  /// "12.3 | 87 %"
  void print(int decimals) const { std::printf(" %.*f | %.0f %% |", decimals, bantam::median(each), 100 * bantam::median(shares)); }
};

constexpr std::int64_t size_in_memory = 4096;

struct Asked {
  int rounds = 5, threads = 0;
  std::int64_t tokens = 120;
  double seconds = 0.1;
  bool from_memory = true;
  std::vector<const bantam::FormatInfo*> formats;  ///< none: all
};

void print_row(const bantam::FormatInfo& format, const Asked& asked) {
  const bantam::KernelTable& kernels = bantam::kernels_in_use();
  Product prefill(format, asked.tokens);
  Product decode(format, 1);
  Rates tile, one, all;
  std::vector<double> cached;
  for (int round = 0; round < asked.rounds; ++round) {
    const std::int64_t loops = 10000;
    const double pure = rate(static_cast<double>(kernels.int8_rate(loops)), asked.seconds, [&] { (void)kernels.int8_rate(loops); });
    tile.add(rate(prefill.operations(), asked.seconds, prefill) / 1e9, pure / 1e9);
    cached.push_back(rate(decode.bytes(), asked.seconds, decode) / 1e9);
    if (!asked.from_memory) continue;
    one.add(bantam::measure_product_gb_s(format, size_in_memory, size_in_memory, 1), bantam::measure_read_gb_s(1));
    if (asked.threads > 1) all.add(bantam::measure_product_gb_s(format, size_in_memory, size_in_memory, asked.threads), bantam::measure_read_gb_s(asked.threads));
  }
  std::printf("| %s | %.3f |", std::string(format.name).c_str(), format.bits_per_weight);
  tile.print(0);
  std::printf(" %.1f |", bantam::median(cached));
  if (asked.from_memory) one.print(1);
  if (asked.from_memory && asked.threads > 1) all.print(1);
  std::printf("\n");
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  Asked asked;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--rounds" && i + 1 < argc) {
      asked.rounds = std::max(1, std::atoi(argv[++i]));
    } else if (argument == "--seconds" && i + 1 < argc) {
      asked.seconds = std::atof(argv[++i]);
    } else if (argument == "--tokens" && i + 1 < argc) {
      asked.tokens = std::max(1, std::atoi(argv[++i]));
    } else if (argument == "--threads" && i + 1 < argc) {
      asked.threads = std::max(1, std::atoi(argv[++i]));
    } else if (argument == "--cache-only") {
      asked.from_memory = false;
    } else if (argument.starts_with("-")) {
      std::fprintf(stderr, "usage: bench_tiles [--rounds N] [--seconds S] [--tokens N] [--threads N] [--cache-only] [FORMAT...]\n");
      return 2;
    } else {
      try {
        asked.formats.push_back(&bantam::find_format(argument));
      } catch (const bantam::Error& error) {
        std::fprintf(stderr, "bench_tiles: %s\n", error.what());
        return 2;
      }
    }
  }
  asked.threads = bantam::Team(asked.threads).size();
  const bool on_all = asked.from_memory && asked.threads > 1;
  std::printf("%s, one thread\n\n| format | bits | prefill, Gop/s | of the dot products | one token from cache, GB/s |", bantam::kernels_in_use().name);
  if (asked.from_memory) std::printf(" from memory | of the loads |");
  if (on_all) std::printf(" on %d threads | of the loads |", asked.threads);
  std::printf("\n|---|---|---|---|---|%s%s\n", asked.from_memory ? "---|---|" : "", on_all ? "---|---|" : "");
  for (const bantam::FormatInfo& format : bantam::formats()) {
    if (asked.formats.empty() || std::ranges::find(asked.formats, &format) != asked.formats.end()) print_row(format, asked);
  }
  return 0;
}
