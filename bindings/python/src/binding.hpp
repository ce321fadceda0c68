// What the parts of the module share.
#pragma once

#include <pybind11/functional.h>
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "bantam/compress/compress.hpp"
#include "bantam/core/parallel.hpp"
#include "bantam/core/stopwatch.hpp"
#include "bantam/session/session.hpp"

namespace bantam::python {

namespace py = pybind11;
using Floats = py::array_t<float, py::array::c_style | py::array::forcecast>;

/// Numbers from outside as floats, without a copy where they are contiguous floats. Complex numbers, texts and objects are a
/// TypeError: NumPy would drop or parse what it can.
[[nodiscard]] inline Floats floats_of(const py::object& given, std::string_view name) {
  const py::array array = py::array::ensure(given);
  if (!array) PyErr_Clear();
  if (!array || std::string_view("fiub").find(array.dtype().kind()) == std::string_view::npos) {
    const std::string found = array ? "an array of " + static_cast<std::string>(py::str(array.dtype())) : static_cast<std::string>(py::repr(given)).substr(0, 80);
    throw py::type_error(message(name, ": expected an array of real numbers, found ", found));
  }
  return Floats::ensure(array);
}

/// A float tensor as an array that owns it: no copy.
template <int Rank>
[[nodiscard]] py::array as_array(Tensor<float, Rank>&& tensor) {
  auto* kept = new Tensor<float, Rank>(std::move(tensor));
  const py::capsule owner(kept, [](void* p) { delete static_cast<Tensor<float, Rank>*>(p); });
  const std::vector<py::ssize_t> shape(kept->shape().begin(), kept->shape().end());
  return py::array_t<float>(shape, kept->data(), owner);
}

/// Elements that `owner` keeps alive, read-only and in place.
template <class T>
[[nodiscard]] py::array view_of(std::span<const T> elements, const py::object& owner) {
  py::array_t<T> view({static_cast<py::ssize_t>(elements.size())}, {static_cast<py::ssize_t>(sizeof(T))}, elements.data(), owner);
  view.attr("setflags")(py::arg("write") = false);
  return view;
}

/// Lets Python see Ctrl-C now and then during long work; to be called without the GIL. Throws what the handler raises.
class SignalCheck {
 public:
  void operator()() {
    if (watch_.seconds() < 0.05) return;
    watch_ = Stopwatch();
    const py::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  }

 private:
  Stopwatch watch_;
};

/// For a CancelScope: Ctrl-C stops inside a matrix, a layer or a text.
inline std::function<bool()> raising_signals() {
  return [signals = SignalCheck()]() mutable {
    signals();
    return false;
  };
}

void bind_errors(py::module_& m);
void bind_model(py::module_& m);
void bind_weights(py::module_& m);
void bind_session(py::module_& m);
void bind_scheduler(py::module_& m);
void bind_compress(py::module_& m);

}  // namespace bantam::python
