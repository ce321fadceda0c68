// Masks of one matrix, against sorting in double precision.
#include "bantam/prune/mask.hpp"

#include <cmath>

#include "bantam/prune/pruning.hpp"
#include "bantam/quant/formats.hpp"
#include "bantam/quant/weights.hpp"
#include "bantam/tensor/random.hpp"
#include "reference/kept.hpp"
#include "support.hpp"

namespace bantam::test {
namespace {

const Sparsity amounts[] = {0.01, 0.3, 0.5, 0.97, {2, 4}, {4, 8}, {1, 3}};

/// Weights of few sizes, so that many are equal.
Tensor<float, 2> coarse_weights(std::int64_t rows, std::int64_t columns) {
  auto w = random::normal<float>({rows, columns}, 21);
  for (float& x : w.span()) x = std::round(2 * x) / 2;
  return w;
}

std::vector<int> expected_row(const std::vector<double>& scores, const Sparsity& amount) {
  if (amount.of > 0) return reference::smallest_of_each(scores, amount.zeros, amount.of);
  return reference::smallest(scores, static_cast<std::size_t>(amount.share * static_cast<double>(scores.size())));
}

std::vector<int> row_of(const Mask& mask, std::int64_t row) { return {&mask(row, 0), &mask(row, 0) + mask.extent(1)}; }

TEST_CASE("magnitude removes the smallest of the matrix, of each row, or of every few, and of equals the first") {
  const std::int64_t rows = 37, columns = 72;
  for (const Tensor<float, 2>& w : {random::normal<float>({rows, columns}, 20), coarse_weights(rows, columns)}) {
    std::vector<double> sizes;
    for (const float x : w.span()) sizes.push_back(std::fabs(static_cast<double>(x)));
    for (const Sparsity& amount : amounts) {
      CAPTURE(to_string(amount));
      const Mask of_matrix = magnitude_mask(w, amount), of_rows = magnitude_mask(w, amount, MaskScope::row);
      // Patterns have a row's few to choose among, wherever.
      const std::vector<int> expected = expected_row(sizes, amount);
      CHECK(std::ranges::equal(of_matrix.span(), expected));
      for (std::int64_t r = 0; r < rows; ++r) {
        CHECK(row_of(of_rows, r) == expected_row({sizes.begin() + r * columns, sizes.begin() + (r + 1) * columns}, amount));
      }
    }
  }
}

TEST_CASE("wanda removes of each row what is smallest by weight and input") {
  const std::int64_t rows = 33, columns = 72;
  for (const Tensor<float, 2>& w : {random::normal<float>({rows, columns}, 22), coarse_weights(rows, columns)}) {
    std::vector<float> squares;
    for (std::int64_t c = 0; c < columns; ++c) squares.push_back(c % 9 == 4 ? 0.0f : std::exp(static_cast<float>(c % 5)));
    for (const Sparsity& amount : amounts) {
      CAPTURE(to_string(amount));
      const Mask mask = wanda_mask(w, squares, amount);
      for (std::int64_t r = 0; r < rows; ++r) {
        std::vector<double> scores;
        for (std::int64_t c = 0; c < columns; ++c) {
          scores.push_back(std::fabs(static_cast<double>(w(r, c))) * std::sqrt(static_cast<double>(squares[static_cast<std::size_t>(c)])));
        }
        CHECK(row_of(mask, r) == expected_row(scores, amount));
      }
    }
  }
}

TEST_CASE("of blocks of 16 rows by 4 inputs those of the smallest sums go, half in every 128 inputs") {
  for (const std::int64_t columns : {4, 66, 128, 131, 200, 330}) {
    CAPTURE(columns);
    const std::int64_t rows = 37;
    for (const Tensor<float, 2>& w : {random::normal<float>({rows, columns}, 25), coarse_weights(rows, columns)}) {
      std::vector<float> squares;
      for (std::int64_t c = 0; c < columns; ++c) squares.push_back(c % 9 == 4 ? 0.0f : static_cast<float>(c % 5 + 1) * static_cast<float>(c % 5 + 1));
      for (const bool wanda : {false, true}) {
        reference::Square scores;
        for (std::int64_t r = 0; r < rows; ++r) {
          scores.emplace_back();
          for (std::int64_t c = 0; c < columns; ++c) {
            const double factor = wanda ? std::sqrt(static_cast<double>(squares[static_cast<std::size_t>(c)])) : 1.0;
            scores.back().push_back(std::fabs(static_cast<double>(w(r, c))) * factor);
          }
        }
        const auto expected = reference::removed(Kept::half_of_blocks, scores);
        const Mask mask = wanda ? wanda_mask(w, squares, Sparsity::of_blocks()) : magnitude_mask(w, Sparsity::of_blocks());
        for (std::int64_t r = 0; r < rows; ++r) CHECK(row_of(mask, r) == expected[static_cast<std::size_t>(r)]);
        CHECK(holds_rest(find_format("i4b"), mask));
        CHECK_FALSE(holds_rest(find_format("i4s"), mask));
      }
    }
  }
}

TEST_CASE("a format holds what is left by the pruning that fits it, and rounds it as a dense one does") {
  for (const FormatInfo& format : formats()) {
    CAPTURE(std::string(format.name));
    for (const Sparsity& amount : std::vector<Sparsity>{{}, 0.9, {2, 4}, {3, 4}, {1, 4}, {4, 8}, Sparsity::of_blocks()}) {
      CAPTURE(to_string(amount));
      const bool fits = format.kept == Kept::all || (format.kept == Kept::two_of_four && amount.of == 4 && amount.zeros >= 2) ||
                        (format.kept == Kept::half_of_blocks && amount.blocks);
      CHECK(holds_rest(format, amount) == fits);
    }
  }
  const auto w = random::normal<float>({40, 300}, 26);
  for (const auto& [sparse, dense] : {std::pair{"i4s.g64", "i4.g64"}, {"i4b.g128", "i4.g128"}}) {
    const FormatInfo& format = find_format(sparse);
    const Mask mask = magnitude_mask(w, sparsity_of(format));
    CHECK(holds_rest(format, mask));
    CHECK_FALSE(holds_rest(format, magnitude_mask(w, 0.5)));
    const auto expected = WeightMatrix::quantize(masked(w, mask), find_format(dense)).dequantize();
    CHECK(std::ranges::equal(WeightMatrix::quantize(masked(w, mask), format).dequantize().span(), expected.span()));
    // By itself a format chooses by magnitude.
    CHECK(std::ranges::equal(WeightMatrix::quantize(w, format).dequantize().span(), expected.span()));
  }
}

TEST_CASE("what is masked is 0, and nothing else changes") {
  const auto w = random::normal<float>({20, 40}, 23);
  const Mask mask = magnitude_mask(w, {2, 4});
  const Tensor<float, 2> left = masked(w, mask);
  for (std::int64_t r = 0; r < 20; ++r) {
    for (std::int64_t c = 0; c < 40; ++c) CHECK(left(r, c) == (mask(r, c) != 0 ? 0.0f : w(r, c)));
  }
  CHECK(error_of([&] { (void)masked(random::normal<float>({20, 41}, 1), mask); }) == "mask: expected one of (20, 41), found (20, 40)");
}

TEST_CASE("amounts are read, written and refused in one line") {
  for (const char* text : {"0.5", "0.625", "2:4", "1:64", "16x4"}) CHECK(to_string(parse_sparsity(text)) == text);
  for (const char* text : {"0", "1", "1.5", "-0.1", "nan", "inf", "1e-400"}) {
    CAPTURE(std::string(text));
    CHECK(error_of([&] { (void)parse_sparsity(text); }).find("pruning: expected a share ") == 0);
  }
  for (const char* text : {"5:4", "4:4", "0:4", "-1:4", "1:65"}) {
    CAPTURE(std::string(text));
    CHECK(error_of([&] { (void)parse_sparsity(text); }) == message("pruning: expected a pattern N:M of 0 < N < M <= 64, found ", text));
  }
  for (const char* text : {"", ":", "half", "50%", "2:", ":4", "2:4:8", "2:0", "2:-4", "0.5:1", " 0.5", "99999999999:4", "16X4", "16x4:1", "4x4"}) {
    CAPTURE(std::string(text));
    CHECK(error_of([&] { (void)parse_sparsity(text); }) == message("pruning: expected a share like 0.5, a pattern like 2:4, or 16x4, found ", text));
  }
  const auto w = random::normal<float>({3, 10}, 1);
  CHECK(error_of([&] { (void)magnitude_mask(w, {2, 4}); }) == "pruning: expected rows of whole 4s for 2:4, found rows of 10");
  CHECK(error_of([&] { (void)wanda_mask(w, std::vector<float>(9), 0.5); }) == "wanda: expected mean squares of 10 inputs, found 9");
  CHECK(error_of([&] { (void)wanda_mask(w, std::vector<float>(10, NAN), 0.5); }) == "wanda: expected finite mean squares, found nan");
  auto bad = random::normal<float>({3, 10}, 1);
  bad(1, 2) = NAN;
  CHECK(error_of([&] { (void)magnitude_mask(bad, 0.5); }) == "mask: expected finite weights, found nan at (1, 2)");
}

TEST_CASE("pruning is spelled as a method and an amount") {
  for (const PruneMethod method : prune_methods) {
    for (const char* amount : {"0.5", "2:4", "16x4"}) {
      const Pruning found = find_pruning(std::string(name_of(method)) + ":" + amount);
      CHECK(found.method == method);
      CHECK(to_string(found.sparsity) == amount);
    }
  }
  for (const char* wrong : {"", "wanda", "wand:0.5", ":0.5", "0.5"}) {
    CAPTURE(wrong);
    CHECK(error_of([&] { (void)find_pruning(wrong); }).find("pruning: expected magnitude, magnitude_row, magnitude_model, wanda or sparsegpt and :SHARE") == 0);
  }
}

TEST_CASE("pruning has exceptions by name, the last of which wins") {
  const std::string text = "wanda:0.5,*.layers.0.*=0,*.down_proj=2:4,model.layers.0.mlp.*=0.25";
  const Pruning pruning = find_pruning(text);
  CHECK(pruning.text() == text);
  CHECK(to_string(pruning.sparsity_of("model.layers.1.mlp.up_proj")) == "0.5");
  CHECK(to_string(pruning.sparsity_of("model.layers.1.mlp.down_proj")) == "2:4");
  CHECK(to_string(pruning.sparsity_of("model.layers.0.mlp.down_proj")) == "0.25");
  CHECK_FALSE(pruning.sparsity_of("model.layers.0.self_attn.q_proj").any());
  CHECK(error_of([] { (void)find_pruning("wanda:0.5,"); }) == "pruning: expected PATTERN=AMOUNT after a comma, found ");
  CHECK(error_of([] { (void)find_pruning("wanda:0.5,a,b=0.5"); }) == "pruning: expected PATTERN=AMOUNT after a comma, found a");
  CHECK(error_of([] { (void)find_pruning("wanda:0.5,=0.5"); }) == "pruning: expected PATTERN=AMOUNT after a comma, found =0.5");
  CHECK(error_of([] { (void)find_pruning("wanda:0.5,a=1.5"); }) == "pruning: expected a share above 0 and below 1, found 1.5");
  CHECK(error_of([] { check(Pruning{PruneMethod::wanda, 0.5}.except("a", 2.0)); }) == "pruning: expected a share above 0 and below 1, found 2");
}

TEST_CASE("formats that hold zero keep every zero, on any grid, and the others do not") {
  const std::int64_t rows = 20, columns = 512;
  for (const FormatInfo& format : formats()) {
    CAPTURE(std::string(format.name));
    std::int64_t moved = 0;
    for (const double mean : {-1.0, -0.2, 0.0, 0.3, 1.0}) {
      const auto w = random::normal<float>({rows, columns}, 24, {.mean = mean, .deviation = 0.3});
      const Mask mask = magnitude_mask(w, 0.5);
      const Tensor<float, 2> found = WeightMatrix::quantize(masked(w, mask), format).dequantize();
      for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t c = 0; c < columns; ++c) moved += mask(r, c) != 0 && found(r, c) != 0;
      }
    }
    CHECK((moved == 0) == holds_zero(format));
  }
  for (const char* name : {"i4", "i4z", "nf4", "q3_k", "q6_k", "q8", "f16", "f32"}) CHECK_MESSAGE(holds_zero(find_format(name)), name);
  for (const char* name : {"i4m", "q4_k"}) CHECK_FALSE_MESSAGE(holds_zero(find_format(name)), name);
}

}  // namespace
}  // namespace bantam::test
