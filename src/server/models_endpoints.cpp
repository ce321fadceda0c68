// What a server says of itself and all its models, and who loads and unloads them by hand.
#include "server/models.hpp"

namespace bantam::server {

namespace {

/// Beside what it is where it is loaded, as llama.cpp's router says it.
Json listed_model(const Common& common, const ModelState& state) {
  Json json;
  if (state.app) {
    json = model_json(*state.app);
  } else {
    json = {{"id", state.name}, {"object", "model"}, {"type", "model"}, {"display_name", state.name}, {"created", common.started}, {"owned_by", "bantam"}};
  }
  if (!common.options.has_choice) return json;
  Json status = Json::object();
  status["value"] = state.status;
  if (!state.failure.empty()) status["failed"] = true;
  if (!state.failure.empty()) status["error"] = state.failure;
  json["status"] = std::move(status);
  return json;
}

/// The model that a body names.
std::string named_in(const Exchange& exchange) {
  const Json body = parse_body(exchange.request());
  const std::string name = Fields(body).text("model").value_or("");
  if (name.empty()) throw bad_request("model: expected a name, found none", "model");
  return name;
}

}  // namespace

void health(Models& models, const std::shared_ptr<Exchange>& exchange) {
  if (models.common().draining) throw ApiError(503, "unavailable_error", "the server is shutting down");
  if (const std::optional<std::string> complaint = models.common().front.probe().complaint()) throw ApiError(503, "unavailable_error", *complaint);
  models.common().answer(*exchange, Json{{"status", "ok"}});
}

void list_models(Models& models, const std::shared_ptr<Exchange>& exchange) {
  Common& common = models.common();
  const std::string_view path = exchange->request().path;
  constexpr std::string_view folder = "/models/";
  if (const std::size_t begin = path.find(folder); begin != std::string_view::npos) {
    const std::string_view name = path.substr(begin + folder.size());
    return common.answer(*exchange, listed_model(common, models.state(name)));
  }
  const std::vector<ModelState> states = models.states();
  Json list = Json::array();
  for (const ModelState& state : states) list.push_back(listed_model(common, state));
  Json json = Json::object();
  json["object"] = "list";
  json["data"] = std::move(list);
  // As Anthropic's clients page.
  json["first_id"] = states.front().name;
  json["last_id"] = states.back().name;
  json["has_more"] = false;
  common.answer(*exchange, json);
}

void plan(Models& models, const std::shared_ptr<Exchange>& exchange) {
  models.common().answer(*exchange, models.plan(exchange->request().parameter("model").value_or("")));
}

void load_model(Models& models, const std::shared_ptr<Exchange>& exchange) {
  models.load(named_in(*exchange));
  models.common().answer(*exchange, Json{{"success", true}});
}

void unload_model(Models& models, const std::shared_ptr<Exchange>& exchange) {
  models.unload(named_in(*exchange));
  models.common().answer(*exchange, Json{{"success", true}});
}

void reload_models(Models& models, const std::shared_ptr<Exchange>& exchange) {
  const HttpRequest& request = exchange->request();
  const Json body = request.body.empty() ? Json::object() : parse_body(request);
  const std::vector<std::string> names = models.reload(Fields(body).text("model").value_or(""));
  Json json = {{"success", true}};
  json["models"] = names;
  models.common().answer(*exchange, json);
}

void metrics(Models& models, const std::shared_ptr<Exchange>& exchange) {
  // Connections belong to the server's thread.
  models.common().http.post([models = models.shared_from_this(), exchange] {
    Common& common = models->common();
    try {
      const std::string name = common.options.has_choice ? exchange->request().parameter("model").value_or("") : "";
      Exposition figures;
      models->write_metrics(figures, name);
      figures.gauge("bantam:connections", "Connections that are open.", static_cast<double>(common.http.connections()));
      common.answers.write(figures);
      common.steering.write_metrics(figures);
      for (const Figure& figure : common.front.figures()) figures.add(figure);
      common.answer(*exchange, HttpReply{.body = figures.text(), .type = "text/plain; version=0.0.4; charset=utf-8"});
    } catch (const std::exception& error) {
      common.answer(*exchange, to_api_error(error));
    }
  });
}

}  // namespace bantam::server
