// Products of formats that hold some of the weights, from bytes that no encoder writes.
#include <cmath>

#include "kernels/cases.hpp"
#include "reference/matmul.hpp"

namespace bantam::test {
namespace {

/// A matrix whose planes, and words of blocks, are any bytes; scales are ordinary.
template <QuantFormat F>
WeightMatrix any_bytes(std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
  using L = Strip16<F>;
  Random random(seed);
  const auto data = allocate_storage(static_cast<std::size_t>(L::matrix_bytes(rows, columns)));
  for (std::int64_t p = 0; p < L::panels(rows); ++p) {
    detail::for_each_block<F>(data.get() + p * L::panel_bytes(columns), columns, [&](std::byte* block, std::int64_t, int k) {
      for (std::int64_t i = 0; i < L::block_bytes(k); ++i) block[i] = static_cast<std::byte>(random.next());
      for (std::int64_t at = 0; at < L::scales_at(k, 2); at += 2) detail::store_as(block + at, f16(static_cast<float>(random.next() % 64) / 64));
      for (std::int64_t at = L::kept_at(k, 0); at < L::kept_at(k, 2); at += 4) {
        // None, all, too few, too many, and as many as there should be.
        const std::uint32_t words[] = {0, ~0u, 0x80000001, 0xfffffffe, 0xaaaaaaaa, static_cast<std::uint32_t>(random.next())};
        detail::store_as(block + at, words[random.next() % 6]);
      }
    });
  }
  return {format_info<F>(), rows, columns, data};
}

}  // namespace

TEST_CASE("any bytes in a plane that holds some of the weights mean the same to every table, and read nothing outside") {
  for_each_format([](auto format) {
    using F = typename decltype(format)::type;
    if constexpr (kept_by<typename F::Plane> != Kept::all) {
      CAPTURE(std::string(F::name));
      std::uint64_t seed = 0;
      for (const std::int64_t columns : widths) {
        for (const std::int64_t tokens : {1, 2, 5, 7, 12, 13, 19}) {
          CAPTURE(columns);
          CAPTURE(tokens);
          const std::int64_t rows = 49;
          const WeightMatrix w = any_bytes<F>(rows, columns, ++seed);
          Inputs x(tokens, columns, seed, Strip16<F>::activation_block);
          std::vector<double> activations;
          for (std::int64_t t = 0; t < tokens; ++t) {
            for (std::int64_t c = 0; c < columns; ++c) activations.push_back(x.rounded(t, c));
          }
          const Tensor<float, 2> decoded = w.dequantize();
          const std::vector<double> weights(decoded.span().begin(), decoded.span().end());
          const auto expected = reference::matmul(activations, weights, tokens, rows, columns);
          const auto magnitude = reference::matmul_magnitude(activations, weights, tokens, rows, columns);
          const std::vector<float> defined = multiply(generic_table(), Product::q8, w, x), exact = multiply(generic_table(), Product::f32, w, x);
          int wrong = 0;
          // Sums of a group are exact: what rounds is one fma a group and one a block, and the decoded weight.
          for (std::size_t i = 0; i < defined.size(); ++i) wrong += !(std::fabs(static_cast<double>(defined[i]) - expected[i]) <= 16 * 0x1p-24 * magnitude[i]);
          CHECK(wrong == 0);
          for (const KernelTable* table : kernel_tables()) {
            CAPTURE(std::string(table->name));
            CHECK(differing_bits(multiply(*table, Product::q8, w, x), defined) == 0);
            CHECK(differing_bits(multiply(*table, Product::f32, w, x), exact) == 0);
          }
        }
      }
    }
  });
}

TEST_CASE("tokens side by side give the bits that rows give") {
  int tables = 0;
  for (const FormatInfo& format : formats()) {
    for (const KernelTable* table : kernel_tables()) {
      if (!kernels_of(format, *table).reads_interleaved) continue;
      CAPTURE(std::string(format.name));
      CAPTURE(std::string(table->name));
      ++tables;
      for (const std::int64_t columns : widths) {
        CAPTURE(columns);
        const WeightMatrix w = random_weights(format, 49, columns, static_cast<std::uint64_t>(columns));
        // A register, several, all of a pass, more than one pass; with a rest and without.
        for (const std::int64_t tokens : {15, 16, 31, 32, 48, 49, 100, 230}) {
          CAPTURE(tokens);
          Inputs x(tokens, columns, static_cast<std::uint64_t>(tokens), format.activation_block);
          const std::vector<float> together = multiply(*table, Product::q8, w, x);
          x.drop_interleaved();
          CHECK(differing_bits(together, multiply(*table, Product::q8, w, x)) == 0);
        }
      }
    }
  }
  if (tables == 0) MESSAGE("skipped: no instruction set of this machine reads tokens side by side");
}

}  // namespace bantam::test
