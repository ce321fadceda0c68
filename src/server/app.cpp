// A model that is loaded: what is found out about it once.
#include "server/app.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>
#include <utility>

#include "bantam/text/reply.hpp"
#include "server/chat.hpp"

namespace bantam::server {

namespace {

/// What Qwen and others use, for models whose files have no template.
constexpr std::string_view chatml =
    "{{ bos_token }}{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + (message['content'] or '') + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

}  // namespace

std::int64_t unix_time() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string random_id(std::string_view prefix, std::size_t length) {
  constexpr std::string_view letters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  static thread_local std::mt19937_64 random{(std::uint64_t{std::random_device()()} << 32) | std::random_device()()};
  std::string id(prefix);
  for (std::size_t i = 0; i < length; ++i) id += letters[random() % letters.size()];
  return id;
}

App::App(ModelOptions o, Common& c, Metrics& m, const Model& model)
    : options(std::move(o)),
      common(c),
      metrics(m),
      engine(model, {.context = options.scheduler.context, .threads = options.threads}),
      scheduler(engine, watched(options.scheduler)),
      grammars(model.tokenizer()),
      adapters(options.scheduler.adapters),
      template_source(!options.chat_template.empty()               ? options.chat_template
                      : !model.tokenizer().chat_template().empty() ? model.tokenizer().chat_template()
                                                                   : std::string(chatml)),
      chat_template(template_source),
      has_own_template(template_source != chatml),
      calls_without_text(takes_null_text(chat_template, model.tokenizer())),
      reply_form(reply_form_of(template_source)),
      reply_marks(reply_tokens(model.tokenizer(), reply_form)),
      replays(model.tokenizer(), reply_form) {}

SchedulerOptions App::watched(SchedulerOptions o) {
  o.on_pass = [this](const SchedulerPass& pass) { passed(pass); };
  return o;
}

void App::passed(const SchedulerPass& pass) {
  common.front.trace().add_pass(pass);
  // The next pass keeps to what the governor says now.
  const double wanted = common.front.share();
  if (wanted == std::exchange(share, wanted)) return;
  const auto part = [&](int all) { return std::max(1, static_cast<int>(std::lround(share * all))); };
  engine.limit_threads(share < 1 ? part(engine.threads()) : 0);
  scheduler.limit_places(part(options.scheduler.parallel));
}

void App::check_model(const Fields& fields) const {
  const std::string name = fields.text("model").value_or("");
  if (common.options.has_choice || common.options.any_name || name.empty() || options.is_called(name) || name == "default") return;
  throw ApiError(404, "invalid_request_error",
                 message("the model ", printable(name), " does not exist: expected ", options.name), "model",
                 "model_not_found");
}

void Common::answer(Exchange& exchange, HttpReply reply) {
  answers.add(reply.status);
  exchange.reply(std::move(reply));
}

void Common::answer(Exchange& exchange, const Json& json) {
  answer(exchange, HttpReply{.body = json.dump(Json::Style{.replace_invalid = true})});
}
void Common::answer(Exchange& exchange, const ApiError& error) { answer(exchange, error.reply(exchange.request().path)); }

}  // namespace bantam::server
