// modules.json and the configs of its modules.
#include "sentence_modules.hpp"

#include <algorithm>

#include "bantam/core/error.hpp"
#include "bantam/io/file.hpp"
#include "bantam/io/safetensors.hpp"
#include "language_part.hpp"
#include "text/json.hpp"

namespace bantam::inline v0 {

namespace {

/// Real ones have a kilobyte and three or four modules.
constexpr std::size_t most_module_bytes = std::size_t{1} << 20, most_modules = 16;

constexpr std::pair<std::string_view, Pooling> pooling_flags[] = {
    {"pooling_mode_cls_token", Pooling::cls}, {"pooling_mode_mean_tokens", Pooling::mean}, {"pooling_mode_lasttoken", Pooling::last}};

/// Of layers behind pooling, as names of tensors (tensors_behind) have them.
constexpr std::string_view module_folders[most_pooled_layers] = {"2_Dense", "3_Dense"};

/// Where a module's config is: a folder in this one.
std::filesystem::path inside(const std::filesystem::path& folder, const std::string& name, const std::string& place) {
  const bool plain = !name.empty() && name.find('/') == name.npos && name != "." && name != ".." && name.find('\0') == name.npos;
  if (!plain) fail(Errc::corrupt, place, ": path: expected the name of a folder beside the file, found ", printable(name));
  return folder / name / "config.json";
}

Pooling read_pooling(const std::filesystem::path& file, std::int64_t dim) {
  const std::string place = printable(file.string(), 400);
  const Json json = Json::parse(read_text_file(file, most_module_bytes), place);
  if (!json.is_object()) fail(Errc::corrupt, place, ": expected a JSON object, found ", json.type_name());
  if (const Json* width = member(json, "word_embedding_dimension"); width != nullptr && *width != Json(dim)) {
    fail(Errc::corrupt, place, ": word_embedding_dimension: expected the model's ", dim, ", found ", printable(width->dump()));
  }
  // Newer files name it.
  if (const Json* mode = member(json, "pooling_mode")) {
    const std::string_view name = mode->is_string() ? mode->string() : std::string_view();
    if (name == "lasttoken" || name == "last") return Pooling::last;
    if (name == "mean") return Pooling::mean;
    if (name == "cls") return Pooling::cls;
    fail(Errc::unsupported, place, ": pooling_mode: expected mean, cls or lasttoken, found ", printable(mode->dump()));
  }
  std::optional<Pooling> pooling;
  for (const auto& [key, value] : json.items()) {
    if (!key.starts_with("pooling_mode_")) continue;
    if (!value.is_boolean()) fail(Errc::corrupt, place, ": ", printable(key), ": expected true or false, found ", printable(value.dump()));
    if (!value.get<bool>()) continue;
    const auto* flag = std::ranges::find(pooling_flags, std::string_view(key), &std::pair<std::string_view, Pooling>::first);
    if (flag == std::end(pooling_flags)) fail(Errc::unsupported, place, ": ", printable(key), ": expected pooling by cls_token, mean_tokens or lasttoken");
    if (pooling) fail(Errc::unsupported, place, ": expected one kind of pooling, found ", name_of(*pooling), " and ", name_of(flag->second));
    pooling = flag->second;
  }
  if (!pooling) fail(Errc::corrupt, place, ": expected a kind of pooling (pooling_mode_mean_tokens), found none");
  return *pooling;
}

/// More than any model has by far.
constexpr std::int64_t most_outputs = 1 << 16;

/// The outputs of a layer behind pooling; 0: they are no such number.
std::int64_t outputs_in(const Json* said) {
  const bool whole = said != nullptr && said->is_number_unsigned() && said->get<std::uint64_t>() <= most_outputs;
  return whole ? said->get<std::int64_t>() : 0;
}

/// A layer behind pooling.
PooledLayer read_dense(const std::filesystem::path& file) {
  const std::string place = printable(file.string(), 400);
  const Json json = Json::parse(read_text_file(file, most_module_bytes), place);
  if (!json.is_object()) fail(Errc::corrupt, place, ": expected a JSON object, found ", json.type_name());
  const Json *said = member(json, "out_features"), *bias = member(json, "bias");
  const std::int64_t outputs = outputs_in(said);
  if (outputs == 0) fail(Errc::corrupt, place, ": out_features: expected a whole number from 1 to ", most_outputs, ", found ", said == nullptr ? std::string("nothing") : printable(said->dump()));
  if (bias != nullptr && !bias->is_boolean()) fail(Errc::corrupt, place, ": bias: expected true or false, found ", printable(bias->dump()));
  const std::string function = text_or(json, "activation_function", "torch.nn.modules.activation.Tanh", place);
  const std::string_view name = std::string_view(function).substr(function.rfind('.') + 1);
  if (name != "Identity" && name != "Tanh") fail(Errc::unsupported, place, ": activation_function: expected Identity or Tanh, found ", printable(function));
  return {outputs, bias == nullptr || bias->get<bool>(), name == "Tanh"};
}

}  // namespace

std::vector<std::filesystem::path> read_sentence_modules(const std::filesystem::path& folder, ModelConfig& config) {
  const std::filesystem::path file = folder / "modules.json";
  std::vector<std::filesystem::path> dense;
  if (path_kind(file) != PathKind::file) return dense;
  const std::string place = printable(file.string(), 400);
  const Json modules = Json::parse(read_text_file(file, most_module_bytes), place);
  if (!modules.is_array() || modules.size() > most_modules) fail(Errc::corrupt, place, ": expected a list of up to ", most_modules, " modules, found ", modules.is_array() ? message(modules.size()) : std::string(modules.type_name()));
  config.normalizes = false;
  config.pooled_layers.clear();
  for (const Json& module : modules) {
    const std::string type = module.is_object() ? text_or(module, "type", "", place) : std::string();
    const std::string_view name = std::string_view(type).substr(type.rfind('.') + 1);  // all of it where there is no dot
    if (name == "Transformer") continue;
    if (name == "Pooling") {
      config.pooling = read_pooling(inside(folder, text_or(module, "path", "", place), place), config.dim);
    } else if (name == "Normalize") {
      config.normalizes = true;
    } else if (name == "Dense") {
      const std::filesystem::path own = inside(folder, text_or(module, "path", "", place), place);
      if (!config.pooling || config.normalizes == true) fail(Errc::unsupported, place, ": expected Dense between Pooling and Normalize, found it elsewhere");
      if (dense.size() == most_pooled_layers) fail(Errc::unsupported, place, ": expected up to ", most_pooled_layers, " modules Dense, found more");
      config.pooled_layers.push_back(read_dense(own));
      dense.push_back(own.parent_path());
    } else {
      fail(Errc::unsupported, place, ": expected modules Transformer, Pooling, Dense and Normalize, found ", type.empty() ? "one without a type" : printable(type));
    }
  }
  return dense;
}

std::vector<std::pair<std::string, std::string>> sentence_modules_of(const ModelConfig& config) {
  if (!config.pooling || config.labels > 0) return {};
  Json modules = Json::array();
  const auto add = [&](std::string_view path, std::string_view type) {
    modules.push_back({{"idx", modules.size()}, {"name", std::to_string(modules.size())}, {"path", std::string(path)}, {"type", message("sentence_transformers.models.", type)}});
  };
  add("", "Transformer");
  add("1_Pooling", "Pooling");
  for (std::size_t i = 0; i < config.pooled_layers.size(); ++i) add(module_folders[i], "Dense");
  if (config.normalizes.value_or(true)) add(message(2 + config.pooled_layers.size(), "_Normalize"), "Normalize");
  Json pooling = {{"word_embedding_dimension", config.dim}};
  for (const auto& [key, mode] : pooling_flags) pooling[std::string(key)] = mode == *config.pooling;
  std::vector<std::pair<std::string, std::string>> files = {{"modules.json", modules.dump(2) + "\n"}, {"1_Pooling/config.json", pooling.dump(2) + "\n"}};
  std::int64_t inputs = config.dim;
  for (std::size_t i = 0; i < config.pooled_layers.size(); ++i) {
    const PooledLayer& layer = config.pooled_layers[i];
    const Json dense = {{"in_features", inputs}, {"out_features", layer.outputs}, {"bias", layer.has_bias}, {"activation_function", layer.is_tanh ? "torch.nn.modules.activation.Tanh" : "torch.nn.modules.linear.Identity"}};
    files.emplace_back(message(module_folders[i], "/config.json"), dense.dump(2) + "\n");
    inputs = layer.outputs;
  }
  return files;
}


std::shared_ptr<const TensorSource> with_modules(std::shared_ptr<const TensorSource> model, std::span<const std::filesystem::path> folders) {
  if (folders.empty()) return model;
  std::vector<TensorEntry> entries(model->tensors().begin(), model->tensors().end());
  for (std::size_t i = 0; i < folders.size(); ++i) {
    const auto own = SafetensorsFile::open_folder(folders[i]);
    for (const TensorEntry& entry : own->tensors()) {
      entries.push_back(entry);  // which keeps its file
      entries.back().name = message(module_folders[i], '.', entry.name);
    }
  }
  return renamed(std::move(model), std::move(entries));
}

std::optional<std::pair<std::string, std::string>> module_of(std::string_view name) {
  for (const std::string_view folder : module_folders) {
    if (name.starts_with(folder) && name.substr(folder.size()).starts_with('.')) return std::pair(std::string(folder), std::string(name.substr(folder.size() + 1)));
  }
  return {};
}

void read_pooled_layers(const Json& json, const std::string& place, ModelConfig& config) {
  const Json* list = member(json, "bantam_pooled_layers");
  if (list == nullptr) return;
  const auto wrong = [&] { fail(Errc::corrupt, place, ": bantam_pooled_layers: expected up to ", most_pooled_layers, " layers of outputs, bias and tanh, found ", printable(list->dump(), 100)); };
  if (!list->is_array() || list->size() > most_pooled_layers) wrong();
  for (const Json& layer : *list) {
    if (!layer.is_object()) wrong();
    const std::int64_t outputs = outputs_in(member(layer, "outputs"));
    const Json *bias = member(layer, "bias"), *tanh = member(layer, "tanh");
    if (outputs == 0 || bias == nullptr || !bias->is_boolean() || tanh == nullptr || !tanh->is_boolean()) wrong();
    config.pooled_layers.push_back({outputs, bias->get<bool>(), tanh->get<bool>()});
  }
}

Json json_of(std::span<const PooledLayer> layers) {
  Json list = Json::array();
  for (const PooledLayer& layer : layers) list.push_back({{"outputs", layer.outputs}, {"bias", layer.has_bias}, {"tanh", layer.is_tanh}});
  return list;
}

}  // namespace bantam::inline v0
