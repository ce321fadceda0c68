// Cancelling inside a matrix: at once, without a trace, and without a difference where nobody cancels.
#include <cmath>

#include "bantam/compress/compress.hpp"
#include "bantam/core/parallel.hpp"
#include "bantam/tensor/random.hpp"
#include "compress/inputs.hpp"
#include "tiny_model.hpp"

namespace bantam::test {
namespace {

/// How often f asks to be cancelled where it is not.
template <class F>
int asks_of(F&& f) {
  int asks = 0;
  const CancelScope scope([&] {
    ++asks;
    return false;
  });
  f();
  return asks;
}

/// Cancels f at the n-th time it asks; it must not ask again.
template <class F>
void cancel_at(int n, F&& f) {
  int asks = 0;
  const CancelScope scope([&] { return ++asks >= n; });
  const std::string text = error_of(f);
  CHECK(text.ends_with("cancelled"));
  CHECK(asks == n);
}

struct OneThread {
  OneThread() { set_parallel_threads(1); }
  ~OneThread() { set_parallel_threads(0); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;
};

TEST_CASE("the work on one matrix asks many times, stops where told, and does not change by being asked") {
  const OneThread limit;
  const auto w = random::normal<float>({64, 512}, 81, {.deviation = 0.05});
  const auto x = correlated_inputs(600, 512, 82);
  const FormatInfo& format = find_format("i4z.g128");
  const auto hessian = [&] {
    Hessian h(512);
    h.add(x);
    return h;
  };
  const Hessian h = hessian();
  const auto same = [&](auto f) {
    const auto expected = f().dequantize();
    WeightMatrix found;
    const int asks = asks_of([&] { found = f(); });
    CHECK(std::ranges::equal(found.dequantize().span(), expected.span()));
    for (const int n : {1, asks / 3, asks / 2, asks - 1, asks}) cancel_at(std::max(1, n), [&] { (void)f(); });
    return asks;
  };
  CHECK(same([&] { return gptq(w, h, format).weights; }) > 100);
  CHECK(same([&] { return nearest(w, format); }) >= 2);
  CHECK(same([&] { return nearest(awq_clip(w, h, format), format); }) >= 16);
  CHECK(asks_of(hessian) >= 32);
  cancel_at(20, [&] { (void)hessian(); });
}

TEST_CASE("a cancelled run leaves what was there, and a journal that leads to the same bytes") {
  const OneThread limit;
  TinyModel tiny;
  tiny.layers = 2;
  tiny.make();
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  const auto journal = folder / "m.journal", out = folder / "m.bantam";
  const Checkpoint checkpoint = Checkpoint::open(folder / "hf");
  for (const Method method : {Method::gptq, Method::awq}) {
    const Recipe plan = recipe::with(method, "i4z.g32", {}, {.awq = {.ratios = 2}});
    const auto run = [&] { return compress_file(checkpoint, out, plan, Target::native, {}, some_calibration(), journal); };
    std::filesystem::remove(out);
    const int asks = asks_of([&] { run(); });
    const std::string complete = read_file(out);
    CHECK(asks > 300);
    for (const int part : {1, 30, 55, 80, 99}) {
      CAPTURE(part);
      write_file(out, "old");
      cancel_at(std::max(1, asks * part / 100), run);
      CHECK(read_file(out) == "old");
      for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
        CHECK((entry.path() == out || entry.path() == journal || entry.path() == folder / "hf"));
      }
      const Report report = run();
      CHECK(report.resumed_blocks == (part < 50 ? 0 : 1));
      CHECK(read_file(out) == complete);
      CHECK_FALSE(std::filesystem::exists(journal));
    }
  }
}

}  // namespace
}  // namespace bantam::test
