// GET /api/tags and /api/version, POST /api/show: models as Ollama lists them.
#include <map>

#include "bantam/compress/footprint.hpp"
#include "bantam/core/hash.hpp"
#include "core/number_text.hpp"
#include "server/models.hpp"
#include "server/time_text.hpp"

namespace bantam::server {

namespace {

/// What clients ask for before they use what Ollama has since then.
constexpr std::string_view spoken_version = "0.13.0";

/// Something of 64 hexadecimal digits that differs by model, which clients shorten for lists. Ollama's is the hash of a manifest, which there is none of.
std::string digest_of(std::string_view name) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string digest;
  for (std::uint64_t key = 0; key < 4; ++key) {
    std::uint64_t hash = sip_hash<2, 4>(name, {.low = key, .high = 0});
    for (int i = 0; i < 16; ++i, hash >>= 4) digest += digits[hash & 15];
  }
  return digest;
}

/// "8.0B", "270M"
std::string size_text(std::int64_t parameters) {
  const auto count = static_cast<double>(parameters);
  return count >= 1e9 ? message(fixed(count / 1e9, 1), 'B') : message(fixed(count / 1e6, 0), 'M');
}

/// The format that most bytes are in.
std::string_view usual_format(const Model& model) {
  std::map<std::string_view, std::int64_t> bytes;
  std::string_view most;
  for (const CheckpointTensor& tensor : model.tensors()) {
    const std::string_view name = tensor.format().name;
    bytes[name] += tensor.stored_bytes();
    if (most.empty() || bytes[name] > bytes[most]) most = name;
  }
  return most;
}

Json details_of(const ModelState& state) {
  const std::string family = state.app ? std::string(state.app->engine.model().config().arch->name) : std::string();
  Json details = {{"parent_model", ""}, {"format", ""}, {"family", family}};
  details["families"] = family.empty() ? Json::array() : Json::array({family});
  details["parameter_size"] = state.app ? size_text(footprint_of(state.app->engine.model().checkpoint()).parameters) : std::string();
  details["quantization_level"] = state.app ? usual_format(state.app->engine.model()) : std::string_view();
  return details;
}

Json listed(const Common& common, const ModelState& state) {
  Json json = {{"name", state.name},
               {"model", state.name},
               {"modified_at", time_text(std::chrono::system_clock::time_point(std::chrono::seconds(common.started)))},
               {"digest", digest_of(state.name)},
               {"size", state.app ? state.app->engine.model().bytes() : 0}};
  json["details"] = details_of(state);
  return json;
}

/// What a model that is there can do, by its head, its template and the marks of its replies.
Json capabilities_of(const App& app) {
  Json list = Json::array();
  if (!app.engine.model().config().has_head) return Json::array({"embedding"});
  list.push_back("completion");
  if (app.has_own_template && app.template_source.find("tools") != std::string::npos) list.push_back("tools");
  if (app.template_source.find("think") != std::string::npos) list.push_back("thinking");
  return list;
}

}  // namespace

void ollama_version(Models& models, const std::shared_ptr<Exchange>& exchange) { models.common().answer(*exchange, Json{{"version", spoken_version}}); }

void ollama_tags(Models& models, const std::shared_ptr<Exchange>& exchange) {
  Json list = Json::array();
  for (const ModelState& state : models.states()) list.push_back(listed(models.common(), state));
  Json json = Json::object();
  json["models"] = std::move(list);
  models.common().answer(*exchange, json);
}

void ollama_show(Models& models, const std::shared_ptr<Exchange>& exchange) {
  const Json body = parse_body(exchange->request());
  const Fields fields(body);
  const std::string name = fields.text("model").value_or(fields.text("name").value_or(""));
  if (name.empty()) throw bad_request("model: expected a name, found none", "model");
  const ModelState state = models.state(name);
  Json json = {{"modelfile", ""}, {"parameters", ""}, {"template", state.app ? state.app->template_source : std::string()}};
  json["details"] = details_of(state);
  // Of a model that is not loaded nothing is known yet, and most write texts.
  json["capabilities"] = state.app ? capabilities_of(*state.app) : Json::array({"completion"});
  Json info = Json::object();
  if (state.app) {
    const ModelConfig& config = state.app->engine.model().config();
    const std::string family(config.arch->name);
    info["general.architecture"] = family;
    info["general.parameter_count"] = footprint_of(state.app->engine.model().checkpoint()).parameters;
    info[family + ".context_length"] = state.app->scheduler.context();
    info[family + ".embedding_length"] = config.embedding_dim();
  }
  json["model_info"] = std::move(info);
  models.common().answer(*exchange, json);
}

}  // namespace bantam::server
