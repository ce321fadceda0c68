// GET and POST /lora-adapters: how much of each adapter is added.
#include "server/app.hpp"

namespace bantam::server {

std::vector<float> Adapters::scales_of(const Json& scales, std::string_view param) const {
  if (!scales.is_array()) refuse(param, "an array of objects with id and scale", scales);
  std::vector<float> out(all_.size(), 0.0f);
  for (const Json& one : scales) {
    if (!one.is_object()) refuse(param, "objects with id and scale", one);
    const Fields fields(one, std::string(param));
    constexpr double largest = 1e3;
    const auto id = fields.integer("id", 0);
    const auto scale = fields.number("scale", -largest, largest);
    if (!id || !scale) throw bad_request(message(param, ": expected objects with id and scale, found one without"), param);
    if (*id >= std::ssize(all_)) throw bad_request(message(param, ": expected ids of ", all_.size(), " adapters, found ", *id), param);
    out[static_cast<std::size_t>(*id)] = static_cast<float>(*scale);
  }
  return out;
}

std::vector<ScaledAdapter> Adapters::now() const {
  std::vector<ScaledAdapter> some;
  const std::lock_guard lock(mutex_);
  for (const ScaledAdapter& one : all_) {
    if (one.scale != 0) some.push_back(one);
  }
  return some;
}

std::vector<ScaledAdapter> Adapters::with(const Json& scales, std::string_view param) const {
  const std::vector<float> given = scales_of(scales, param);
  std::vector<ScaledAdapter> some;
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (given[i] != 0) some.push_back({all_[i].adapter, given[i]});
  }
  return some;
}

void Adapters::set(const Json& scales) {
  const std::vector<float> given = scales_of(scales, "scales");
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < given.size(); ++i) all_[i].scale = given[i];
}

Json Adapters::json() const {
  Json list = Json::array();
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < all_.size(); ++i)
    list.push_back({{"id", i}, {"path", all_[i].adapter.path().filename().string()}, {"scale", static_cast<double>(all_[i].scale)}});
  return list;
}

void list_adapters(App& app, const std::shared_ptr<Exchange>& exchange) { app.answer(*exchange, app.adapters.json()); }

void set_adapters(App& app, const std::shared_ptr<Exchange>& exchange) {
  Json scales;
  try {
    scales = Json::parse(exchange->request().body, "request");
  } catch (const Error& error) {
    throw bad_request(error.what());
  }
  app.adapters.set(scales);
  app.answer(*exchange, Json{{"success", true}});
}

}  // namespace bantam::server
