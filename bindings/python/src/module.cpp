// The module bantam._bantam: C++ types under Python names. What makes them pleasant is bantam/__init__.py.
#include "bantam/core/cpu.hpp"
#include "bantam/io/path_error.hpp"
#include "bantam/kernels/table.hpp"
#include "bantam/model/archs.hpp"
#include "bantam/session/machine.hpp"
#include "binding.hpp"

namespace bantam::python {

namespace {

/// The exception of bantam/_errors.py for an error; `more` are errno and the file's name.
template <class... More>
void raise(const Error& error, const More&... more) {
  const py::object type = py::module_::import("bantam._errors").attr("BY_CODE")[py::int_(static_cast<int>(error.code()))];
  PyErr_SetObject(type.ptr(), type(error.what(), more...).ptr());
}

}  // namespace

void bind_errors(py::module_&) {
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const PathError& error) {
      raise(error, error.system_code(), py::reinterpret_steal<py::object>(PyUnicode_DecodeFSDefault(error.path().c_str())));
    } catch (const Error& error) {
      raise(error);
    }
  });
}

namespace {

py::dict cpu_info() {
  py::dict info;
  py::list isas;
  for (const KernelTable* table : kernel_tables()) isas.append(table->name);
  info["name"] = cpu_name();
  info["cores"] = usable_cores();
  info["isa"] = kernels_in_use().name;
  info["isas"] = isas;
  return info;
}

py::list format_list() {
  py::list all;
  for (const FormatInfo& format : formats()) {
    py::dict entry;
    entry["name"] = format.name;
    entry["bits_per_weight"] = format.bits_per_weight;
    entry["group"] = format.group;
    all.append(entry);
  }
  return all;
}

}  // namespace
}  // namespace bantam::python

PYBIND11_MODULE(_bantam, m) {
  using namespace bantam::python;
  m.attr("__version__") = BANTAM_VERSION;
  bind_errors(m);
  bind_model(m);
  bind_weights(m);
  bind_session(m);
  bind_scheduler(m);
  bind_compress(m);
  m.def("formats", &format_list);
  m.def("cpu_info", &cpu_info);
  m.def("set_isa", &bantam::use_kernels, py::arg("name"));
  m.def("measure_read_gb_s", &bantam::measure_read_gb_s, py::arg("threads") = 0, py::call_guard<py::gil_scoped_release>());
  m.def("measure_int8_gop_s", &bantam::measure_int8_gop_s, py::arg("threads") = 0, py::call_guard<py::gil_scoped_release>());
  m.def("architectures", [] {
    std::vector<std::string_view> names;
    for (const bantam::ArchSpec* arch : bantam::architectures) names.push_back(arch->name);
    return names;
  });
}
