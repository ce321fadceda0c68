// Coordinate descent on codes and scales, against the loss in double precision.
#include "bantam/compress/descent.hpp"

#include "bantam/calibrate/hessian.hpp"
#include "bantam/quant/weights.hpp"
#include "compress/inputs.hpp"
#include "support.hpp"

namespace bantam::test {
namespace {

struct Problem {
  Tensor<float, 2> w;  ///< (rows, columns)
  Tensor<float, 2> h;  ///< (columns, columns)
};

Problem some_problem(std::int64_t rows, std::int64_t columns) {
  Hessian hessian(columns);
  hessian.add(correlated_inputs(2 * columns, columns, 3));
  return {random::normal<float>({rows, columns}, 4, {.deviation = 0.05}), std::move(hessian).release()};
}

std::vector<RowCodes> codes_of(const WeightMatrix& matrix) {
  std::vector<RowCodes> rows(static_cast<std::size_t>(matrix.rows()));
  const FormatInfo& format = matrix.format();
  for (std::int64_t r = 0; r < matrix.rows(); ++r) {
    format.load_codes(matrix.view().data + r / panel_rows * format.panel_bytes(matrix.columns()), static_cast<int>(r % panel_rows),
                      matrix.columns(), rows[static_cast<std::size_t>(r)]);
  }
  return rows;
}

GroupSide& side_of(const FormatInfo& format, RowCodes& row, std::int64_t column) {
  return row.sides[static_cast<std::size_t>(format.group == 0 ? 0 : column / format.group)];
}

std::vector<double> errors_of(const Problem& p, const FormatInfo& format, RowCodes& row, std::int64_t r) {
  std::vector<double> errors;
  for (std::int64_t c = 0; c < p.w.extent(1); ++c) {
    errors.push_back(static_cast<double>(p.w(r, c)) - static_cast<double>(format.decode_code(row.codes[static_cast<std::size_t>(c)], side_of(format, row, c))));
  }
  return errors;
}

/// H e.
std::vector<double> slopes_of(const Problem& p, const std::vector<double>& errors) {
  std::vector<double> slopes(errors.size(), 0.0);
  for (std::size_t i = 0; i < errors.size(); ++i) {
    for (std::size_t j = 0; j < errors.size(); ++j) slopes[i] += static_cast<double>(p.h(static_cast<std::int64_t>(i), static_cast<std::int64_t>(j))) * errors[j];
  }
  return slopes;
}

double loss_of(const Problem& p, const FormatInfo& format, std::vector<RowCodes>& rows) {
  double loss = 0;
  for (std::int64_t r = 0; r < p.w.extent(0); ++r) {
    const std::vector<double> errors = errors_of(p, format, rows[static_cast<std::size_t>(r)], r), slopes = slopes_of(p, errors);
    for (std::size_t i = 0; i < errors.size(); ++i) loss += errors[i] * slopes[i];
  }
  return loss;
}

Tensor<float, 2> as_tensor(const Problem& p, const FormatInfo& format, std::vector<RowCodes>& rows) {
  Tensor<float, 2> errors({p.w.extent(0), p.w.extent(1)});
  for (std::int64_t r = 0; r < p.w.extent(0); ++r) {
    const std::vector<double> row = errors_of(p, format, rows[static_cast<std::size_t>(r)], r);
    for (std::size_t c = 0; c < row.size(); ++c) errors(r, static_cast<std::int64_t>(c)) = static_cast<float>(row[c]);
  }
  return errors;
}

}  // namespace

TEST_CASE("descent lowers the loss by what it says, in every format, and stores what it decided") {
  const Problem p = some_problem(20, 300);  // more than a block of columns, and a part of a group at the end
  for (const FormatInfo& format : formats()) {
    if (format.is_float || format.step_bits != 0) continue;  // of a trellis no code changes alone
    CAPTURE(std::string(format.name));
    std::vector<RowCodes> rows = codes_of(WeightMatrix::quantize(p.w, format));
    const double before = loss_of(p, format, rows);
    Tensor<float, 2> held = held_by(format, p.w);
    const Mask mask = format.kept == Kept::all ? Mask() : magnitude_mask(p.w, sparsity_of(format));
    const double gain = descend(as_tensor(p, format, rows), p.h, format, 4, rows, format.kept == Kept::all ? TensorView<const std::uint8_t, 2>() : mask.view());
    const double after = loss_of(p, format, rows);
    CHECK(gain == doctest::Approx(before - after).epsilon(1e-3));
    CHECK(after < 0.8 * before);  // rounding to nearest knows nothing of the inputs
    if (format.stored_scale == nullptr) continue;  // moved no scale
    const auto data = allocate_storage(static_cast<std::size_t>(format.matrix_bytes(20, 300)));
    if (format.keep_part != nullptr) format.keep_part(data.get(), 300, held.span());
    for (std::int64_t r = 0; r < 20; ++r) format.store_codes(data.get(), static_cast<int>(r), 300, rows[static_cast<std::size_t>(r)]);
    const auto decoded = WeightMatrix(format, 20, 300, data).dequantize();
    for (std::int64_t r = 0; r < 20; ++r) {
      RowCodes& row = rows[static_cast<std::size_t>(r)];
      for (std::int64_t c = 0; c < 300; ++c) REQUIRE(decoded(r, c) == format.decode_code(row.codes[static_cast<std::size_t>(c)], side_of(format, row, c)));
    }
  }
}

TEST_CASE("after enough sweeps no single code could lose less") {
  const Problem p = some_problem(8, 160);
  for (const auto& [name, codes] : {std::pair{"i2z.g32", 4}, {"i3.g64", 8}, {"i4m.g32", 16}, {"nf4.g64", 16}, {"q2k", 4}, {"q3k", 8}}) {
    CAPTURE(std::string(name));
    const FormatInfo& format = find_format(name);
    std::vector<RowCodes> rows = codes_of(WeightMatrix::quantize(p.w, format));
    (void)descend(as_tensor(p, format, rows), p.h, format, 100, rows);
    const double loss = loss_of(p, format, rows);
    for (std::int64_t r = 0; r < 8; ++r) {
      RowCodes& row = rows[static_cast<std::size_t>(r)];
      const std::vector<double> errors = errors_of(p, format, row, r), slopes = slopes_of(p, errors);
      for (std::int64_t c = 0; c < 160; ++c) {
        const auto i = static_cast<std::size_t>(c);
        for (int code = 0; code < codes; ++code) {
          const double now = static_cast<double>(p.w(r, c)) - errors[i];
          const double step = static_cast<double>(format.decode_code(code, side_of(format, row, c))) - now;
          // Single precision may take two losses for one that are this near.
          CHECK(step * (2 * slopes[i] - step * static_cast<double>(p.h(c, c))) < 1e-5 * loss);
        }
      }
    }
  }
}

}  // namespace bantam::test
