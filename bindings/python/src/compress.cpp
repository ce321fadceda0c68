// Compression.
#include "bantam/compress/options.hpp"
#include "bantam/core/parallel.hpp"
#include "bantam/report/html.hpp"
#include "binding.hpp"

namespace bantam::python {

namespace {

struct Order {
  CompressRequest request;
  py::object importance = py::none();
};

/// Of the user's, or the bundled one where that has to do; none: empty.
std::string calibration_text(const Order& o) {
  if (o.request.calibration.text) return *o.request.calibration.text;
  return needs_calibration(prune_of(o.request), recipe_of(o.request)) ? std::string(default_calibration_text()) : "";
}

/// Copies: arrays may outlive the call, and beside the second moments of the same inputs they cost nothing. Called without the GIL.
ImportanceFn importance_of(const Order& o) {
  if (o.importance.is_none()) return {};
  return [&o](Part part, std::int64_t layer, TensorView<const float, 2> reader, std::span<const float> mean_squares) {
    const py::gil_scoped_acquire gil;
    const Floats weights({reader.extent(0), reader.extent(1)}, reader.data());
    const Floats squares(static_cast<py::ssize_t>(mean_squares.size()), mean_squares.data());
    const Floats worth = floats_of(o.importance(name_of(part), layer, weights, squares), "importance");
    if (worth.ndim() != 1) fail(Errc::invalid_argument, "importance: expected an array of one dimension, found ", worth.ndim());
    return std::vector<double>(worth.data(), worth.data() + worth.size());
  };
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

PreparedModel prepare(const Order& o, const Recipe& recipe, const Checkpoint& checkpoint, const Report_& progress) {
  StructureOptions parts = o.request.parts;
  parts.importance = importance_of(o);
  return prepare_model(prune_of(o.request), checkpoint, recipe, o.request.target, o.request.calibration, parts, progress_of(progress));
}

py::dict as_dict(const Costs& costs) {
  py::dict d;
  for (const Cost cost : prune_costs) {
    if (costs[cost] > 0) d[py::str(std::string(name_of(cost)))] = cost == Cost::latency ? py::object(py::float_(costs[cost])) : py::int_(static_cast<std::int64_t>(costs[cost]));
  }
  return d;
}

py::object as_dict(const std::optional<PruneReport>& pruned) {
  if (!pruned) return py::none();
  std::vector<std::string> removals;
  for (const Removal& removal : pruned->removals) removals.push_back(removal.text());
  py::dict d;
  d["removals"] = removals;
  d["before"] = as_dict(pruned->before);
  d["after"] = as_dict(pruned->after);
  d["layers"] = pruned->layers;
  d["influence"] = pruned->influence;
  return d;
}

py::dict as_dict(const Report& report) {
  py::list layers;
  for (const LayerReport& layer : report.layers) {
    layers.append(py::make_tuple(layer.name, layer.format, layer.relative_error, layer.bytes_before, layer.bytes_after, layer.output_error));
  }
  py::dict d;
  d["bytes_before"] = report.bytes_before;
  d["bytes_after"] = report.bytes_after;
  d["bits_per_weight"] = report.bits_per_weight;
  d["seconds"] = report.seconds;
  d["peak_rss_bytes"] = report.peak_rss_bytes;
  d["warnings"] = report.warnings;
  d["pruned"] = as_dict(report.pruned);
  d["layers"] = layers;
  d["_html"] = to_html(report);
  return d;
}

std::pair<Model, py::dict> compress_model(const Model& model, const Order& o, const Report_& progress) {
  const Recipe recipe = recipe_of(o.request);
  auto [small, report] = [&] {
    const py::gil_scoped_release free;
    const CancelScope scope(raising_signals());
    const Model whole = with_adapters(o.request, model);
    const PreparedModel ready = prepare(o, recipe, whole.checkpoint(), progress);
    auto done = compress(ready.pruned ? Model::from_checkpoint(ready.pruned->checkpoint) : whole, recipe, progress_of(progress), ready.calibration);
    if (ready.pruned) done.second.follow(ready.pruned->report);
    return done;
  }();
  return {std::move(small), as_dict(report)};
}

py::dict compress_path(const std::string& from, const std::string& to, const Order& o, const Report_& progress) {
  const Recipe recipe = recipe_of(o.request);
  const Report report = [&] {
    const py::gil_scoped_release free;
    const Checkpoint checkpoint = merged(o.request, Checkpoint::open(from));
    check_not_an_input(checkpoint, to);
    const CancelScope scope(raising_signals());
    const PreparedModel ready = prepare(o, recipe, checkpoint, progress);
    Report done = compress_file(ready.pruned ? ready.pruned->checkpoint : checkpoint, to, recipe, o.request.target, progress_of(progress),
                                ready.calibration, o.request.journal);
    if (ready.pruned) done.follow(ready.pruned->report);
    return done;
  }();
  return as_dict(report);
}

/// What matrices read of an order's text, or of the bundled one, as a file; how many tensors it tells of.
std::size_t save_imatrix(const Order& o, const Checkpoint& checkpoint, const std::string& to, const std::string& name) {
  const py::gil_scoped_release free;
  check_not_an_input(checkpoint, to);
  const CancelScope scope(raising_signals());
  return save_importance(checkpoint, samples_of(o.request.calibration, checkpoint), name, to).entries.size();
}

/// (name, layer, rows, columns) of every matrix that an order's removals will leave, nothing read.
std::vector<std::tuple<std::string, std::int64_t, std::int64_t, std::int64_t>> matrices_of(const Order& o, const Checkpoint& checkpoint) {
  const PruneRequest request = prune_of(o.request);
  if (request.goal) fail(Errc::invalid_argument, "prune_to: expected a format by name, for the costs to be known, found a function that chooses");
  std::vector<std::tuple<std::string, std::int64_t, std::int64_t, std::int64_t>> all;
  const Checkpoint left = outline_of(checkpoint, plan_structure(checkpoint.config(), request.removals));
  for (const CheckpointTensor& tensor : left.tensors()) {
    if (tensor.is_matrix) all.emplace_back(tensor.name, tensor.layer, tensor.rows, tensor.columns);
  }
  return all;
}

/// Rows of the table, for types, help and tests.
std::vector<py::dict> table_of_options() {
  constexpr std::string_view kinds[] = {"flag", "integer", "seed", "number", "choice", "format", "text", "texts", "exceptions", "file", "corpus", "adapters", "importance"};
  std::vector<py::dict> rows;
  for (const CompressOption& option : compress_options()) {
    py::dict row;
    row["name"] = option.name;
    row["kind"] = kinds[static_cast<std::size_t>(option.kind)];
    row["low"] = option.kind == OptionKind::seed ? 0 : option.least;
    row["high"] = option.kind == OptionKind::seed ? std::numeric_limits<std::uint64_t>::max() : static_cast<std::uint64_t>(option.most);
    row["words"] = option.words != nullptr ? option.words() : std::vector<std::string_view>();
    row["initial"] = option.initial;
    row["example"] = option.example;
    row["needs"] = option.needs;
    row["of_files"] = option.of_files;
    row["meaning"] = option.meaning;
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

void bind_compress(py::module_& m) {
  py::class_<Order>(m, "Order")
      .def(py::init<>())
      .def("set", [](Order& o, const std::string& name, const std::string& text) { set_option(o.request, name, text); })
      .def("keep", [](Order& o, const std::string& pattern, const std::string& format) { o.request.keep.emplace_back(pattern, format); })
      .def_readwrite("importance", &Order::importance)
      .def_property(
          "text", [](const Order& o) { return o.request.calibration.text; },
          [](Order& o, std::optional<std::string> text) { o.request.calibration.text = std::move(text); })
      .def("calibration_text", &calibration_text)
      .def("matrices", [](const Order& o, const Model& model) { return matrices_of(o, model.checkpoint()); })
      .def("matrices", [](const Order& o, const std::string& path) { return matrices_of(o, Checkpoint::open(path)); });
  m.def("prune_parts", [] {
    std::vector<std::string_view> names;
    for (const Part part : prune_parts) names.push_back(name_of(part));
    return names;
  });
  m.def("compress_options", &table_of_options);
  m.def("compress", &compress_model, py::arg("model"), py::arg("order"), py::arg("progress") = nullptr);
  m.def("save_imatrix", [](const Order& o, const Model& model, const std::string& to, const std::string& name) { return save_imatrix(o, model.checkpoint(), to, name); });
  m.def("save_imatrix", [](const Order& o, const std::string& from, const std::string& to, const std::string& name) { return save_imatrix(o, Checkpoint::open(from), to, name); });
  m.def("compress_file", &compress_path, py::arg("source"), py::arg("target"), py::arg("order"), py::arg("progress") = nullptr);
}

}  // namespace bantam::python
