// Matrices in a format, from and to NumPy.
#include "bantam/nn/ops.hpp"
#include "binding.hpp"

namespace bantam::python {

namespace {

TensorView<const float, 2> matrix_view(const Floats& array, std::string_view name) {
  if (array.ndim() != 2) fail(Errc::invalid_argument, name, ": expected an array of two dimensions, found ", array.ndim());
  return {array.data(), {array.shape(0), array.shape(1)}};
}

WeightMatrix quantize_array(const py::object& array, const std::string& format, int group) {
  const Floats values = floats_of(array, "values");
  const auto view = matrix_view(values, "values");
  if (view.size() == 0) fail(Errc::invalid_argument, "values: expected numbers, found none");
  const py::gil_scoped_release free;
  return WeightMatrix::quantize(view, find_format(format, group));
}

py::array multiply(const WeightMatrix& w, const py::object& array, bool fast) {
  const Floats x = floats_of(array, "x");
  const auto view = matrix_view(x, "x");
  auto out = [&] {
    const py::gil_scoped_release free;
    return ops::matmul(view, w, fast ? ops::Precision::fast : ops::Precision::exact);
  }();
  return as_array(std::move(out));
}

py::array dequantized(const WeightMatrix& w) {
  auto out = [&] {
    const py::gil_scoped_release free;
    return w.dequantize();
  }();
  return as_array(std::move(out));
}

}  // namespace

void bind_weights(py::module_& m) {
  py::class_<WeightMatrix>(m, "Weights")
      .def_property_readonly("format", [](const WeightMatrix& w) { return w.format().name; })
      .def_property_readonly("shape", [](const WeightMatrix& w) { return py::make_tuple(w.rows(), w.columns()); })
      .def_property_readonly("bits_per_weight", &WeightMatrix::bits_per_weight)
      .def_property_readonly("nbytes", &WeightMatrix::bytes)
      .def_property_readonly("data",
                             [](const py::object& self) {
                               const auto& w = self.cast<const WeightMatrix&>();
                               const auto* bytes = reinterpret_cast<const std::uint8_t*>(w.view().data);
                               return view_of(std::span(bytes, static_cast<std::size_t>(w.bytes())), self);
                             })
      .def("dequantize", &dequantized)
      .def("numpy", &dequantized)
      .def("matmul", &multiply, py::arg("x"), py::kw_only(), py::arg("fast") = false);
  m.def("quantize", &quantize_array, py::arg("values"), py::arg("format"), py::kw_only(), py::arg("group") = -1);
}

}  // namespace bantam::python
