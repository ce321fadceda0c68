// Products on all cores, panel by panel.
#include "product.hpp"

#include <algorithm>

#include "bantam/core/parallel.hpp"
#include "bantam/kernels/table.hpp"
#include "bantam/quant/weights.hpp"

namespace bantam::inline v0 {

void for_products(TensorView<const float, 2> a, TensorView<const float, 2> b, bool upper,
                  FunctionRef<void(std::int64_t, std::int64_t, std::span<const float>)> f) {
  const FormatInfo& format = format_info<F32Format>();
  const FormatKernels& kernels = kernels_in_use().formats[static_cast<std::size_t>(format.index)];
  const std::int64_t m = a.extent(0), n = b.extent(0), k = b.extent(1);
  const std::int64_t panel_bytes = format.panel_bytes(k);
  constexpr std::int64_t tokens = 120;
  parallel_for(div_up<std::int64_t>(n, panel_rows), 1, [&](Range panels) {
    AlignedBuffer<std::byte> panel;
    panel.ensure(static_cast<std::size_t>(panel_bytes));
    std::vector<float> row(static_cast<std::size_t>(k));
    std::vector<float> out(static_cast<std::size_t>(tokens * panel_rows));
    RowCodes scratch;
    for (std::int64_t p = panels.begin; p < panels.end; ++p) {
      const std::int64_t first = p * panel_rows;
      const std::int64_t count = std::min<std::int64_t>(panel_rows, n - first);
      for (std::int64_t i = 0; i < count; ++i) {
        for (std::int64_t c = 0; c < k; ++c) row[static_cast<std::size_t>(c)] = b(first + i, c);
        format.encode_row(panel.data(), static_cast<int>(i), row, scratch);
      }
      const std::int64_t rows = upper ? std::min(m, first + panel_rows) : m;
      for (std::int64_t r = 0; r < rows; r += tokens) {
        const std::int64_t now = std::min(tokens, rows - r);
        kernels.matmul_f32({panel.data(), count, k}, {&a(r, 0), a.stride(0)}, {out.data(), panel_rows}, {now, 0, 1});
        for (std::int64_t i = 0; i < now; ++i) f(r + i, first, {out.data() + i * panel_rows, static_cast<std::size_t>(count)});
      }
    }
  });
}

}  // namespace bantam::inline v0
