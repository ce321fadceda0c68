// One matrix in a format.
#include "bantam/nn/ops.hpp"
#include "objects.hpp"

using namespace bantam;
using namespace bantam::capi;

namespace {

std::size_t numbers_of(const WeightMatrix& matrix) { return static_cast<std::size_t>(matrix.rows() * matrix.columns()); }

}  // namespace

extern "C" {

bantam_status bantam_weights_quantize(bantam_weights** weights, const float* values, int64_t rows, int64_t columns, const char* format) {
  return guarded([&] {
    bantam_weights*& out = need(weights, "weights");
    const std::int64_t shape[] = {rows, columns};
    if (checked_element_count(shape) == 0) fail(Errc::invalid_argument, "weights: expected numbers, found (", rows, ", ", columns, ")");
    const TensorView<const float, 2> view(&need(values, "values"), {rows, columns});
    out = new bantam_weights{WeightMatrix::quantize(view, find_format(&need(format, "format")))};
  });
}

bantam_status bantam_weights_dequantize(const bantam_weights* weights, float* out, size_t count) {
  return guarded([&] {
    const WeightMatrix& w = need(weights, "weights").matrix;
    if (count != numbers_of(w)) fail(Errc::invalid_argument, "count: expected ", numbers_of(w), " numbers, found ", count);
    (void)need(out, "out");
    RowCodes scratch;
    for (std::int64_t row = 0; row < w.rows(); ++row) {
      w.read_row(row, {out + row * w.columns(), static_cast<std::size_t>(w.columns())}, scratch);
    }
  });
}

bantam_status bantam_weights_multiply(const bantam_weights* weights, const float* x, int64_t tokens, float* out, int fast) {
  return guarded([&] {
    const WeightMatrix& w = need(weights, "weights").matrix;
    if (tokens < 0) fail(Errc::invalid_argument, "tokens: expected 0 or more, found ", tokens);
    if (tokens == 0) return;
    ops::matmul(TensorView<const float, 2>(&need(x, "x"), {tokens, w.columns()}), w,
                TensorView<float, 2>(&need(out, "out"), {tokens, w.rows()}), fast != 0 ? ops::Precision::fast : ops::Precision::exact);
  });
}

bantam_status bantam_weights_get_info(const bantam_weights* weights, bantam_tensor_info* info) {
  return guarded([&] {
    const bantam_weights& w = need(weights, "weights");
    bantam_tensor_info values = BANTAM_TENSOR_INFO_INIT;
    values.name = w.name.c_str();
    values.format = w.matrix.format().name.data();
    values.rows = w.matrix.rows();
    values.columns = w.matrix.columns();
    values.bytes = w.matrix.bytes();
    values.is_matrix = 1;
    fill_struct(info, values, "info");
  });
}

void bantam_weights_free(bantam_weights* weights) { delete weights; }

}  // extern "C"
