// Compression.
#include "bantam/core/parallel.hpp"
#include "binding.hpp"

namespace bantam::python {

namespace {

struct Order {
  std::string method;
  std::string format;
  int group = -1;
  std::vector<std::pair<std::string, std::string>> keep;
  bool desc_act = false;
  std::optional<std::uint64_t> rotate;
  std::optional<double> smooth;
  std::optional<std::string> clip;
  std::optional<std::string> prune;
  std::optional<std::string> text;  ///< of the calibration
  std::int64_t samples = 128;
  std::int64_t tokens = 2048;
};

Recipe recipe_of(const Order& o) {
  MethodOptions details;
  details.rotation = o.rotate;
  details.smooth = o.smooth;
  if (o.clip) details.clip = find_clip(*o.clip);
  if (o.prune) details.pruning = find_pruning(*o.prune);
  if (o.desc_act) details.gptq.order = ColumnOrder::activation;
  Recipe recipe = recipe::with(find_method(o.method), o.format, {.group = o.group}, details);
  for (const auto& [pattern, format] : o.keep) recipe.keep(pattern, format);
  return recipe;
}

Calibration calibration_of(const Order& o, const Tokenizer& tokenizer, std::int64_t context) {
  if (!o.text) return {};
  return Calibration::from_text(tokenizer, *o.text, o.samples, std::min(o.tokens, context));
}

using Report_ = std::function<bool(std::int64_t, std::int64_t, const std::string&, double, double)>;

/// What the library calls without the GIL after each matrix.
ProgressFn progress_of(const Report_& report) {
  return [&report, signals = SignalCheck()](const Progress& p) mutable {
    signals();
    if (!report) return true;
    const py::gil_scoped_acquire gil;
    return report(p.done, p.total, p.layer, p.relative_error, p.seconds_left);
  };
}

/// Ctrl-C stops inside a matrix.
std::function<bool()> raising_signals() {
  return [signals = SignalCheck()]() mutable {
    signals();
    return false;
  };
}

py::dict as_dict(const Report& report) {
  py::list layers;
  for (const LayerReport& layer : report.layers) {
    layers.append(py::make_tuple(layer.name, layer.format, layer.relative_error, layer.bytes_before, layer.bytes_after));
  }
  py::dict d;
  d["bytes_before"] = report.bytes_before;
  d["bytes_after"] = report.bytes_after;
  d["bits_per_weight"] = report.bits_per_weight;
  d["seconds"] = report.seconds;
  d["peak_rss_bytes"] = report.peak_rss_bytes;
  d["warnings"] = report.warnings;
  d["layers"] = layers;
  return d;
}

std::pair<Model, py::dict> compress_model(const Model& model, const Order& o, const Report_& progress) {
  const Recipe recipe = recipe_of(o);
  auto [small, report] = [&] {
    const py::gil_scoped_release free;
    const CancelScope scope(raising_signals());
    return compress(model, recipe, progress_of(progress), calibration_of(o, model.tokenizer(), model.config().context));
  }();
  return {std::move(small), as_dict(report)};
}

py::dict compress_path(const std::string& from, const std::string& to, const Order& o, const std::string& target, const std::string& journal,
                       const Report_& progress) {
  const Recipe recipe = recipe_of(o);
  const Report report = [&] {
    const py::gil_scoped_release free;
    const Checkpoint checkpoint = Checkpoint::open(from);
    const CancelScope scope(raising_signals());
    return compress_file(checkpoint, to, recipe, find_target(target), progress_of(progress),
                         calibration_of(o, checkpoint.tokenizer(), checkpoint.config().context), journal);
  }();
  return as_dict(report);
}

/// (name, layer, rows, columns) of every matrix of a checkpoint, nothing read.
std::vector<std::tuple<std::string, std::int64_t, std::int64_t, std::int64_t>> matrices_of(const std::string& path) {
  const Checkpoint checkpoint = Checkpoint::open(path);
  std::vector<std::tuple<std::string, std::int64_t, std::int64_t, std::int64_t>> all;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    if (tensor.is_matrix) all.emplace_back(tensor.name, tensor.layer, tensor.rows, tensor.columns);
  }
  return all;
}

}  // namespace

void bind_compress(py::module_& m) {
  py::class_<Order>(m, "Order")
      .def(py::init<>())
      .def_readwrite("method", &Order::method)
      .def_readwrite("format", &Order::format)
      .def_readwrite("group", &Order::group)
      .def_readwrite("keep", &Order::keep)
      .def_readwrite("desc_act", &Order::desc_act)
      .def_readwrite("rotate", &Order::rotate)
      .def_readwrite("smooth", &Order::smooth)
      .def_readwrite("clip", &Order::clip)
      .def_readwrite("prune", &Order::prune)
      .def_readwrite("text", &Order::text)
      .def_readwrite("samples", &Order::samples)
      .def_readwrite("tokens", &Order::tokens);
  m.def("compress", &compress_model, py::arg("model"), py::arg("order"), py::arg("progress") = nullptr);
  m.def("compress_file", &compress_path, py::arg("source"), py::arg("target"), py::arg("order"), py::arg("to") = "native",
        py::arg("journal") = "", py::arg("progress") = nullptr);
  m.def("default_calibration_text", &default_calibration_text);
  m.def("matrices", &matrices_of, py::arg("path"));
}

}  // namespace bantam::python
