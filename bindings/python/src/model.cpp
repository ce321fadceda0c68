// Models and tokenizers.
#include "bantam/io/gguf.hpp"
#include "bantam/model/adapter.hpp"
#include "bantam/model/roles.hpp"
#include "bantam/text/chat_template.hpp"
#include "bantam/text/reply.hpp"
#include "binding.hpp"

namespace bantam::python {

namespace {

Model load(const std::string& path, const std::string& memory, const std::string& gptq_zero, std::int64_t memory_limit, const std::string& device_map) {
  const LoadOptions options{.memory = find_weight_memory(memory),
                            .gptq_zero = find_gptq_zero(gptq_zero),
                            .memory_limit = memory_limit,
                            .device_map = device_map.empty() ? DeviceMap() : DeviceMap::parse(device_map)};
  std::vector<std::string> warnings;
  auto loaded = [&] {
    const py::gil_scoped_release free;
    const Checkpoint checkpoint = Checkpoint::open(path, {.gptq_zero = options.gptq_zero});
    warnings = checkpoint.warnings();
    return Model::from_checkpoint(checkpoint, options);
  }();
  for (const std::string& line : warnings) py::module_::import("warnings").attr("warn")(line);
  return loaded;
}

Model load_bytes(const py::bytes& bytes, const std::string& memory) {
  const auto view = static_cast<std::string_view>(bytes);
  const LoadOptions options{.memory = find_weight_memory(memory)};
  const py::gil_scoped_release free;
  return Model::load_from(bytes_of(std::as_bytes(std::span(view))), options);
}

py::dict config_of(const Model& model) {
  const ModelConfig& c = model.config();
  py::dict d;
  d["architecture"] = c.arch->name;
  d["vocab"] = c.vocab;
  d["context"] = c.context;
  d["layers"] = c.layers;
  d["encoder_layers"] = c.encoder_layers;
  d["dim"] = c.dim;
  d["heads"] = c.heads;
  d["kv_heads"] = c.kv_heads;
  d["head_dim"] = c.head_dim;
  d["ffn"] = c.ffn;
  d["window"] = c.window;
  d["tied"] = c.tied;
  d["causal"] = c.arch->causal;
  d["generates"] = c.has_head;
  d["labels"] = c.labels;
  d["label_names"] = c.names_of_labels();
  d["pooling"] = c.pooling ? py::object(py::str(std::string(name_of(*c.pooling)))) : py::none();
  return d;
}

/// (name, layer, shape, format or None)
py::list tensors_of(const Model& model) {
  py::list all;
  for (const CheckpointTensor& tensor : model.tensors()) {
    const py::tuple shape = tensor.is_matrix ? py::make_tuple(tensor.rows, tensor.columns) : py::make_tuple(tensor.columns);
    all.append(py::make_tuple(tensor.name, tensor.layer, shape, tensor.is_matrix ? py::object(py::str(std::string(tensor.format().name))) : py::none()));
  }
  return all;
}

py::object tensor_of(const py::object& self, const std::string& name) {
  const auto& model = self.cast<const Model&>();
  const CheckpointTensor* tensor = model.find(name);
  if (tensor == nullptr) throw py::key_error(name);
  if (tensor->is_matrix) return py::cast(model.checkpoint().load_matrix(*tensor, Reading::direct));
  return view_of(std::span(*vector_of(model.weights(), *tensor)), self);
}

/// A GGUF file's keys of single values, as bytes: nobody promises that they are UTF-8.
py::list gguf_metadata(const std::string& path) {
  const auto file = [&] {
    const py::gil_scoped_release free;
    return GgufFile::open(path);
  }();
  py::list all;
  for (const auto& [key, value] : file->metadata()) {
    std::visit(
        [&, name = key](const auto& v) {
          using T = std::decay_t<decltype(v)>;
          if constexpr (std::is_same_v<T, std::string>) {
            all.append(py::make_tuple(py::bytes(name), py::bytes(v)));
          } else if constexpr (std::is_arithmetic_v<T>) {
            all.append(py::make_tuple(py::bytes(name), py::bytes(message(v))));
          }
        },
        value);
  }
  return all;
}

EncodeOptions encode_options(bool add_special, bool parse_special) { return {.add_special = add_special, .parse_special = parse_special}; }

/// (kind, call, text, id, raw) of each.
py::list events_of(std::span<const ReplyEvent> events) {
  static constexpr const char* kinds[] = {"text", "reasoning", "call", "arguments", "call_end", "call_broken", "markup"};
  const auto text = [](const std::string& s) {
    return py::reinterpret_steal<py::str>(PyUnicode_DecodeUTF8(s.data(), static_cast<Py_ssize_t>(s.size()), "replace"));
  };
  py::list all;
  for (const ReplyEvent& event : events) {
    all.append(py::make_tuple(kinds[static_cast<int>(event.kind)], event.call, text(event.text), text(event.id), text(event.raw)));
  }
  return all;
}

}  // namespace

void bind_model(py::module_& m) {
  py::class_<Tokenizer>(m, "Tokenizer")
      .def_static("load", [](const std::string& path) { return open_tokenizer(path); }, py::arg("path"))
      .def("encode",
           [](const Tokenizer& t, const std::string& text, bool add_special, bool parse_special) {
             const py::gil_scoped_release free;
             const CancelScope scope(raising_signals());
             return t.encode(text, encode_options(add_special, parse_special));
           },
           py::arg("text"), py::kw_only(), py::arg("add_special") = true, py::arg("parse_special") = false)
      .def("decode", [](const Tokenizer& t, const std::vector<TokenId>& ids, bool keep_special) { return t.decode(ids, keep_special); },
           py::arg("ids"), py::kw_only(), py::arg("keep_special") = false)
      .def("token_bytes", [](const Tokenizer& t, TokenId id) { return py::bytes(t.piece_bytes(id)); }, py::arg("id"))
      .def("piece", [](const Tokenizer& t, TokenId id) { return t.piece(id); }, py::arg("id"))
      .def("find", &Tokenizer::find, py::arg("piece"))
      .def("ends_generation", &Tokenizer::ends_generation, py::arg("id"))
      .def("is_special", &Tokenizer::is_special, py::arg("id"))
      .def_property_readonly("vocab_size", &Tokenizer::vocab_size)
      .def_property_readonly("bos", &Tokenizer::bos)
      .def_property_readonly("eos", &Tokenizer::eos)
      .def_property_readonly("kind", &Tokenizer::kind)
      .def_property_readonly("chat_template", &Tokenizer::chat_template);

  py::class_<ReplyParser>(m, "ReplyParser")
      .def(py::init([](const std::string& form, const std::string& prompt, const std::string& tools, bool calls) {
             return ReplyParser(form, {.prompt = prompt, .tools = tools, .calls = calls});
           }),
           py::arg("form"), py::arg("prompt"), py::arg("tools"), py::arg("calls"))
      .def("feed", [](ReplyParser& parser, const std::string& piece) { return events_of(parser.feed(piece)); }, py::arg("piece"))
      .def("finish", [](ReplyParser& parser) { return events_of(parser.finish()); });
  m.def("reply_form_of", [](const std::string& source) { return std::string(reply_form_of(source)); }, py::arg("chat_template"));
  m.def("reply_tokens", [](const Tokenizer& t, const std::string& form) { return reply_tokens(t, form); }, py::arg("tokenizer"), py::arg("form"));
  m.def("gguf_metadata", &gguf_metadata, py::arg("path"));
  m.def("render_template",
        [](const std::string& source, const std::string& variables) {
          const py::gil_scoped_release free;
          return ChatTemplate(source).render_json(variables);
        },
        py::arg("source"), py::arg("variables"));

  py::class_<Adapter>(m, "Adapter")
      .def_static("load",
                  [](const std::string& path, const Model& model) {
                    const py::gil_scoped_release free;
                    return Adapter::load(path, model.config());
                  },
                  py::arg("path"), py::arg("model"))
      .def_property_readonly("matrices", [](const Adapter& a) { return a.matrices().size(); })
      .def_property_readonly("rank", &Adapter::rank)
      .def_property_readonly("nbytes", &Adapter::bytes);

  py::class_<Model>(m, "Model")
      .def_static("load", &load, py::arg("path"), py::kw_only(), py::arg("memory") = "automatic", py::arg("gptq_zero") = "automatic", py::arg("memory_limit") = 0, py::arg("device_map") = "")
      .def_static("load_bytes", &load_bytes, py::arg("data"), py::kw_only(), py::arg("memory") = "automatic")
      .def("save", [](const Model& model, const std::string& path) { model.save(path); }, py::arg("path"),
           py::call_guard<py::gil_scoped_release>())
      .def("with_experts", &Model::with_experts, py::arg("used"))
      .def("with_cold_experts", [](const Model& model, float prefer_cached, float drop) { return model.with_cold_experts({.prefer_cached = prefer_cached, .drop = drop}); })
      .def_property_readonly("config", &config_of)
      .def_property_readonly("tokenizer", [](const Model& model) { return model.tokenizer(); })
      .def_property_readonly("nbytes", &Model::bytes)
      .def("tensors", &tensors_of)
      .def("tensor", &tensor_of, py::arg("name"));
}

}  // namespace bantam::python
