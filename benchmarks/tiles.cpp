// How close the tile of each format comes to the loop of dot products alone, on one thread.
//
//   bench_tiles [--rounds N] [--seconds S] [--tokens N] [FORMAT...]
//
// Both run in alternation, so that a clock or a neighbor slows both; the figures are medians of the rounds' ratios.
//   prefill  N tokens, 120, by a matrix that fits the second-level cache: integer products, as a share of the pure loop's
//   decode   1 token by a matrix that fits the second-level cache: what is left for memory to be slower than
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "bantam/core/median.hpp"
#include "bantam/core/stopwatch.hpp"
#include "bantam/nn/linear.hpp"
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

}  // namespace

int main(int argc, char** argv) {
  int rounds = 5;
  std::int64_t tokens = 120;
  double seconds = 0.1;
  std::vector<std::string> names;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--rounds" && i + 1 < argc) {
      rounds = std::max(1, std::atoi(argv[++i]));
    } else if (argument == "--seconds" && i + 1 < argc) {
      seconds = std::atof(argv[++i]);
    } else if (argument == "--tokens" && i + 1 < argc) {
      tokens = std::max(1, std::atoi(argv[++i]));
    } else if (argument.starts_with("-")) {
      std::fprintf(stderr, "usage: bench_tiles [--rounds N] [--seconds S] [--tokens N] [FORMAT...]\n");
      return 2;
    } else {
      names.push_back(argument);
    }
  }
  const bantam::KernelTable& kernels = bantam::kernels_in_use();
  std::printf("%s, one thread\n\n| format | bits | prefill, Gop/s | of the dot products | decode, GB/s |\n|---|---|---|---|---|\n", kernels.name);
  for (const bantam::FormatInfo& format : bantam::formats()) {
    if (!names.empty() && std::ranges::find(names, format.name) == names.end()) continue;
    Product prefill(format, tokens);
    Product decode(format, 1);
    std::vector<double> speed, share, stream;
    for (int round = 0; round < rounds; ++round) {
      const std::int64_t loops = 10000;
      const double pure = rate(static_cast<double>(kernels.int8_rate(loops)), seconds, [&] { (void)kernels.int8_rate(loops); });
      speed.push_back(rate(prefill.operations(), seconds, prefill));
      share.push_back(speed.back() / pure);
      stream.push_back(rate(decode.bytes(), seconds, decode));
    }
    std::printf("| %s | %.3f | %.0f | %.0f %% | %.1f |\n", std::string(format.name).c_str(), format.bits_per_weight, bantam::median(speed) / 1e9,
                100 * bantam::median(share), bantam::median(stream) / 1e9);
    std::fflush(stdout);
  }
  return 0;
}
