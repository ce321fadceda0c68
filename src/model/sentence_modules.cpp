// modules.json and the configs of its modules.
#include "sentence_modules.hpp"

#include <algorithm>

#include "bantam/core/error.hpp"
#include "bantam/io/file.hpp"
#include "io/json.hpp"
#include "text/json.hpp"

namespace bantam::inline v0 {

namespace {

/// Real ones have a kilobyte and three or four modules.
constexpr std::size_t most_module_bytes = std::size_t{1} << 20, most_modules = 16;

constexpr std::pair<std::string_view, Pooling> pooling_flags[] = {
    {"pooling_mode_cls_token", Pooling::cls}, {"pooling_mode_mean_tokens", Pooling::mean}, {"pooling_mode_lasttoken", Pooling::last}};

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

}  // namespace

void read_sentence_modules(const std::filesystem::path& folder, ModelConfig& config) {
  const std::filesystem::path file = folder / "modules.json";
  if (path_kind(file) != PathKind::file) return;
  const std::string place = printable(file.string(), 400);
  const Json modules = Json::parse(read_text_file(file, most_module_bytes), place);
  if (!modules.is_array() || modules.size() > most_modules) fail(Errc::corrupt, place, ": expected a list of up to ", most_modules, " modules, found ", modules.is_array() ? message(modules.size()) : std::string(modules.type_name()));
  config.normalizes = false;
  for (const Json& module : modules) {
    const std::string type = module.is_object() ? text_or(module, "type", "", place) : std::string();
    const std::string_view name = std::string_view(type).substr(type.rfind('.') + 1);  // all of it where there is no dot
    if (name == "Transformer") continue;
    if (name == "Pooling") {
      config.pooling = read_pooling(inside(folder, text_or(module, "path", "", place), place), config.dim);
    } else if (name == "Normalize") {
      config.normalizes = true;
    } else {
      fail(Errc::unsupported, place, ": expected modules Transformer, Pooling and Normalize, found ", type.empty() ? "one without a type" : printable(type));
    }
  }
}

std::vector<std::pair<std::string, std::string>> sentence_modules_of(const ModelConfig& config) {
  if (!config.pooling || config.labels > 0) return {};
  Json modules = Json::array();
  const auto add = [&](std::string_view path, std::string_view type) {
    modules.push_back({{"idx", modules.size()}, {"name", std::to_string(modules.size())}, {"path", std::string(path)}, {"type", message("sentence_transformers.models.", type)}});
  };
  add("", "Transformer");
  add("1_Pooling", "Pooling");
  if (config.normalizes.value_or(true)) add("2_Normalize", "Normalize");
  Json pooling = {{"word_embedding_dimension", config.dim}};
  for (const auto& [key, mode] : pooling_flags) pooling[std::string(key)] = mode == *config.pooling;
  return {{"modules.json", modules.dump(2) + "\n"}, {"1_Pooling/config.json", pooling.dump(2) + "\n"}};
}

}  // namespace bantam::inline v0
