// Models: loading, looking into, saving.
#include "bantam/model/archs.hpp"
#include "bantam/model/roles.hpp"
#include "objects.hpp"

using namespace bantam;
using namespace bantam::capi;

namespace bantam::capi {

namespace {

LoadOptions load_options(const bantam_load_options* given) {
  const bantam_load_options initial = BANTAM_LOAD_OPTIONS_INIT;
  const bantam_load_options o = options_of(given, initial, "load options");
  std::int64_t limit = 0;
  DeviceMap devices;
  read_settings(o.settings, o.setting_count, "memory_limit or device_map", [&](std::string_view name, std::string_view value) {
    if (name == "memory_limit") {
      limit = number_of<std::int64_t>(name, value);
    } else if (name == "device_map") {
      devices = DeviceMap::parse(value);
    } else {
      return false;
    }
    return true;
  });
  return {.memory = find_weight_memory(&need(o.memory, "memory")),
          .gptq_zero = find_gptq_zero(&need(o.gptq_zero, "gptq_zero")),
          .progress = progress_of(o.progress, o.progress_user),
          .memory_limit = limit,
          .device_map = std::move(devices)};
}

bantam_model* opened(const Checkpoint& checkpoint, const LoadOptions& options) {
  for (const std::string& line : checkpoint.warnings()) log_warning(line);
  return new bantam_model(Model::from_checkpoint(checkpoint, options));
}

}  // namespace

bantam_tensor_info describe(const CheckpointTensor& tensor) {
  bantam_tensor_info info = BANTAM_TENSOR_INFO_INIT;
  info.name = tensor.name.c_str();
  info.format = tensor.format().name.data();
  info.layer = tensor.layer;
  info.rows = tensor.rows;
  info.columns = tensor.columns;
  info.bytes = tensor.stored_bytes();
  info.is_matrix = tensor.is_matrix ? 1 : 0;
  return info;
}

}  // namespace bantam::capi

namespace {

/// What only a model with weights has.
void describe(const Model& model, bantam_model_info& info) {
  const ModelConfig& c = model.config();
  info.architecture = c.arch->name.data();
  info.vocabulary = c.vocab;
  info.context = c.context;
  info.layers = c.layers;
  info.width = c.dim;
  info.heads = c.heads;
  info.kv_heads = c.kv_heads;
  info.head_width = c.head_dim;
  info.ffn_width = c.ffn;
  for (const CheckpointTensor& tensor : model.tensors()) {
    if (tensor.is_matrix) info.weights += tensor.rows * tensor.columns;
  }
  info.bytes = model.bytes();
}

const CheckpointTensor& tensor_of(const Model& model, const char* name) {
  const CheckpointTensor* tensor = model.find(&need(name, "name"));
  if (tensor == nullptr) fail(Errc::not_found, "model: expected a tensor of this model, found ", printable(name));
  return *tensor;
}

}  // namespace

extern "C" {

bantam_status bantam_model_load(bantam_model** model, const char* path) { return bantam_model_load_with(model, path, nullptr); }

bantam_status bantam_model_load_with(bantam_model** model, const char* path, const bantam_load_options* options) {
  return guarded([&] {
    bantam_model*& out = need(model, "model");
    const LoadOptions chosen = load_options(options);
    out = opened(Checkpoint::open(&need(path, "path"), {.gptq_zero = chosen.gptq_zero}), chosen);
  });
}

bantam_status bantam_model_load_memory(bantam_model** model, const void* bytes, size_t size, const bantam_load_options* options) {
  return guarded([&] {
    bantam_model*& out = need(model, "model");
    const std::span all(static_cast<const std::byte*>(bytes), size);
    if (size != 0) (void)need(all.data(), "bytes");
    out = new bantam_model(Model::load_from(bytes_of(all), load_options(options)));
  });
}

bantam_status bantam_model_load_reader(bantam_model** model, bantam_read_callback read, void* user, const bantam_load_options* options) {
  return guarded([&] {
    bantam_model*& out = need(model, "model");
    if (read == nullptr) fail(Errc::invalid_argument, "read: expected a function, found NULL");
    const auto source = [&](std::span<std::byte> to) -> std::size_t {
      const std::int64_t count = read(to.data(), to.size(), user);
      if (count < 0) fail(Errc::io, "model in memory: the read callback failed with ", count);
      return static_cast<std::size_t>(count);
    };
    out = new bantam_model(Model::load_from(source, load_options(options)));
  });
}

bantam_status bantam_model_load_tokenizer(bantam_model** model, const char* path) {
  return guarded([&] {
    bantam_model*& out = need(model, "model");
    out = new bantam_model(open_tokenizer(&need(path, "path")));
  });
}

bantam_status bantam_model_save(const bantam_model* model, const char* path) {
  return guarded([&] { model_of(model).save(&need(path, "path")); });
}

void bantam_model_free(bantam_model* model) { delete model; }

bantam_status bantam_model_get_info(const bantam_model* model, bantam_model_info* info) {
  return guarded([&] {
    const Tokenizer& tokenizer = need(model, "model").tokenizer;
    bantam_model_info values = BANTAM_MODEL_INFO_INIT;
    values.architecture = "";
    values.tokenizer = model->tokenizer_kind.c_str();
    values.chat_template = tokenizer.chat_template().c_str();
    values.vocabulary = tokenizer.vocab_size();
    values.bos_token = tokenizer.bos();
    values.eos_token = tokenizer.eos();
    if (model->whole) describe(*model->whole, values);
    fill_struct(info, values, "info");
  });
}

size_t bantam_model_metadata_count(const bantam_model* model) {
  return model == nullptr || !model->whole ? 0 : model->whole->checkpoint().metadata().size();
}

bantam_status bantam_model_get_metadata(const bantam_model* model, size_t index, const char** key, const char** value) {
  return guarded([&] {
    const Metadata& metadata = model_of(model).checkpoint().metadata();
    if (index >= metadata.size()) fail(Errc::invalid_argument, "index: expected below ", metadata.size(), ", found ", index);
    const auto at = std::next(metadata.begin(), static_cast<std::ptrdiff_t>(index));
    if (key != nullptr) *key = at->first.c_str();
    if (value != nullptr) *value = at->second.c_str();
  });
}

size_t bantam_model_label_count(const bantam_model* model) { return model == nullptr ? 0 : model->labels.size(); }

const char* bantam_model_label(const bantam_model* model, size_t index) { return index < bantam_model_label_count(model) ? model->labels[index].c_str() : nullptr; }

size_t bantam_model_tensor_count(const bantam_model* model) {
  return model == nullptr || !model->whole ? 0 : model->whole->tensors().size();
}

bantam_status bantam_model_get_tensor(const bantam_model* model, size_t index, bantam_tensor_info* info) {
  return guarded([&] {
    const Model& m = model_of(model);
    if (index >= m.tensors().size()) fail(Errc::invalid_argument, "index: expected below ", m.tensors().size(), ", found ", index);
    fill_struct(info, describe(m.tensors()[index]), "info");
  });
}

bantam_status bantam_model_read_tensor(const bantam_model* model, const char* name, float* out, size_t count) {
  return guarded([&] {
    const Model& m = model_of(model);
    const CheckpointTensor& tensor = tensor_of(m, name);
    const auto numbers = static_cast<std::size_t>(tensor.rows * tensor.columns);
    if (count != numbers) fail(Errc::invalid_argument, "count: expected ", numbers, " numbers of ", tensor.name, ", found ", count);
    (void)need(out, "out");
    RowCodes scratch;
    for (std::int64_t row = 0; row < tensor.rows; ++row) {
      m.checkpoint().read_row(tensor, row, {out + row * tensor.columns, static_cast<std::size_t>(tensor.columns)}, scratch);
    }
  });
}

bantam_status bantam_weights_of_model(bantam_weights** weights, const bantam_model* model, const char* name) {
  return guarded([&] {
    bantam_weights*& out = need(weights, "weights");
    const Model& m = model_of(model);
    const CheckpointTensor& tensor = tensor_of(m, name);
    if (!tensor.is_matrix) fail(Errc::invalid_argument, tensor.name, ": expected a matrix, found a vector");
    out = new bantam_weights{m.checkpoint().load_matrix(tensor, Reading::direct), tensor.name};
  });
}

}  // extern "C"
