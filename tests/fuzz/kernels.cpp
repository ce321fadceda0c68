// Every table of kernels against the generic one, bit for bit, on operands that end where memory ends.
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>

#include "fuzz/fuzz.hpp"
#include "kernels/cases.hpp"

namespace bantam::fuzz {

namespace {

using test::Inputs;
using test::Product;

std::size_t whole_pages(std::size_t bytes) { return round_up<std::size_t>(bytes, static_cast<std::size_t>(sysconf(_SC_PAGESIZE))); }

/// Memory with a page behind it that nobody may touch: vector loads beyond the end fault, whoever compiled them.
void* allocate(std::size_t bytes, std::size_t alignment, void*) {
  const std::size_t page = whole_pages(1), pages = whole_pages(bytes), used = round_up(bytes, alignment);
  auto* memory = static_cast<std::byte*>(mmap(nullptr, pages + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (memory == MAP_FAILED) return nullptr;
  mprotect(memory + pages, page, PROT_NONE);
  return memory + pages - used;
}
void release(void* memory, std::size_t bytes, void*) {
  const auto start = reinterpret_cast<std::uintptr_t>(memory) / whole_pages(1) * whole_pages(1);
  munmap(reinterpret_cast<void*>(start), whole_pages(bytes) + whole_pages(1));
}

float activation(Choices& choices) {
  static constexpr float edges[] = {0, -0.0F, 1, -1, 127, 1e-30F, -1e30F, 3e38F, 1e-45F, INFINITY, -INFINITY, NAN};
  return choices.once_in(4) ? choices.of(edges) : static_cast<float>(static_cast<std::int8_t>(choices.raw()));
}

void run_kernels(Bytes bytes) {
  set_storage_allocator({.allocate = allocate, .release = release});
  Choices choices(bytes);
  const FormatInfo& format = choices.of(formats());
  const std::int64_t rows = choices.between(1, 70), columns = choices.between(1, choices.once_in(4) ? 700 : 100);
  const std::int64_t tokens = choices.between(1, choices.once_in(4) ? 50 : 14);
  const WeightMatrix w = test::random_weights(format, rows, columns, choices.raw<std::uint16_t>());
  Inputs x(tokens, columns, choices.raw<std::uint16_t>(), format.activation_block);
  for (std::size_t changes = choices.below(8); changes > 0; --changes) {
    const std::int64_t token = choices.between(0, tokens - 1), column = choices.between(0, columns - 1);
    x.floats()(token, column) = activation(choices);
  }
  if (choices.once_in(4)) x.drop_interleaved();
  const KernelTable& generic = test::generic_table();
  for (const KernelTable* table : kernel_tables()) {
    // What it rounds itself, and what it multiplies with.
    for (std::int64_t t = 0; t < tokens; ++t) table->quantize_row(&x.floats()(t, 0), columns, x.quantized(), t, 0, columns);
    for (const Product product : {Product::q8, Product::f32}) {
      if (product == Product::q8 && format.is_float) continue;
      const std::vector<float> found = multiply(*table, product, w, x);
      x.round();
      const std::vector<float> expected = multiply(generic, product, w, x);
      for (std::size_t i = 0; i < found.size(); ++i) {
        const bool both_nan = std::isnan(found[i]) && std::isnan(expected[i]);
        require(both_nan || std::bit_cast<std::uint32_t>(found[i]) == std::bit_cast<std::uint32_t>(expected[i]), "every table gives the generic one's bits");
      }
    }
  }
  set_storage_allocator({});
}

const Target kernels_target("kernels", run_kernels);

}  // namespace
}  // namespace bantam::fuzz
