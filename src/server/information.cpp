// What a server says of a model, and its tokenizer and template as services.
#include "server/chat.hpp"
#include "text/utf8.hpp"

namespace bantam::server {

namespace {

/// A token's text, or its bytes as numbers where they are part of a character.
Json piece_json(const Tokenizer& tokenizer, TokenId id) {
  const std::string bytes = tokenizer.is_special(id) ? std::string(tokenizer.piece(id)) : tokenizer.piece_bytes(id);
  if (utf8::is_valid(bytes)) return bytes;
  Json numbers = Json::array();
  for (const char byte : bytes) numbers.push_back(static_cast<std::int64_t>(static_cast<unsigned char>(byte)));
  return numbers;
}

}  // namespace

Json model_json(const App& app) {
  const ModelConfig& config = app.engine.model().config();
  Json meta = {{"n_vocab", config.vocab},
               {"n_ctx", app.scheduler.context()},
               {"n_ctx_train", config.context},
               {"n_embd", config.dim},
               {"size", app.engine.model().bytes()}};
  return {{"id", app.options.name},
          {"object", "model"},
          {"type", "model"},
          {"display_name", app.options.name},
          {"created", app.started},
          {"owned_by", "bantam"},
          {"max_model_len", app.scheduler.context()},
          {"meta", std::move(meta)}};
}

void tokenize(App& app, const std::shared_ptr<Exchange>& exchange) {
  const Json body = parse_body(exchange->request());
  const Fields fields(body);
  // vLLM asks with `prompt` or `messages`, and wants BOS unless it says otherwise.
  const bool as_vllm = fields.find("content") == nullptr;
  std::vector<TokenId> tokens;
  if (as_vllm && fields.find("messages") != nullptr) {
    tokens = chat_tokens(app, chat_prompt_of(app, body, true));
  } else {
    const auto text = fields.text(as_vllm ? "prompt" : "content");
    if (!text) throw bad_request("content: expected a text, found none", "content");
    tokens = app.tokenizer().encode(
        *text, {.add_special = fields.flag(as_vllm ? "add_special_tokens" : "add_special", as_vllm),
                .parse_special = fields.flag("parse_special", true)});
  }
  Json list = Json::array();
  const bool with_pieces = fields.flag("with_pieces", false);
  for (const TokenId id : tokens) {
    Json one = static_cast<std::int64_t>(id);
    if (with_pieces) one = {{"id", static_cast<std::int64_t>(id)}, {"piece", piece_json(app.tokenizer(), id)}};
    list.push_back(std::move(one));
  }
  Json json = Json::object();
  json["tokens"] = std::move(list);
  if (as_vllm) json["count"] = tokens.size();
  if (as_vllm) json["max_model_len"] = app.scheduler.context();
  if (as_vllm && fields.flag("return_token_strs", false)) {
    Json pieces = Json::array();
    for (const TokenId id : tokens) pieces.push_back(app.tokenizer().piece(id));
    json["token_strs"] = std::move(pieces);
  }
  app.answer(*exchange, json);
}

void detokenize(App& app, const std::shared_ptr<Exchange>& exchange) {
  const Json body = parse_body(exchange->request());
  const Json* given = Fields(body).array("tokens");
  if (given == nullptr) throw bad_request("tokens: expected an array, found none", "tokens");
  std::vector<TokenId> tokens;
  for (const Json& id : *given) tokens.push_back(token_of(id, app.tokenizer().vocab_size(), "tokens"));
  const std::string text = app.tokenizer().decode(tokens, true);
  app.answer(*exchange, Json{{"content", text}, {"prompt", text}});
}

void apply_template(App& app, const std::shared_ptr<Exchange>& exchange) {
  const Json body = parse_body(exchange->request());
  app.answer(*exchange, Json{{"prompt", chat_prompt_of(app, body, true)}});
}

Json settings_json(const GenerateOptions& g, std::int64_t context) {
  const Sampling& s = g.sampling;
  Json stop = Json::array();
  for (const std::string& text : g.stop) stop.push_back(text);
  return {{"n_ctx", context},
          {"n_predict", g.max_tokens},
          {"max_tokens", g.max_tokens},
          {"seed", s.seed},
          {"temperature", static_cast<double>(s.temperature)},
          {"top_k", s.top_k},
          {"top_p", static_cast<double>(s.top_p)},
          {"min_p", static_cast<double>(s.min_p)},
          {"typical_p", static_cast<double>(s.typical_p)},
          {"repeat_penalty", static_cast<double>(s.repeat_penalty)},
          {"repeat_last_n", s.repeat_last_n},
          {"presence_penalty", static_cast<double>(s.presence_penalty)},
          {"frequency_penalty", static_cast<double>(s.frequency_penalty)},
          {"ignore_eos", g.ignore_end},
          {"stop", std::move(stop)}};
}

void props(App& app, const std::shared_ptr<Exchange>& exchange) {
  const Tokenizer& tokenizer = app.tokenizer();
  const auto spelled = [&](TokenId id) { return Json(id >= 0 ? tokenizer.piece(id) : std::string_view()); };
  GenerateOptions usual;
  usual.sampling = app.options.sampling;
  usual.max_tokens = app.options.max_tokens;
  usual.ignore_end = app.options.ignore_end;
  Json params = settings_json(usual, app.scheduler.context());
  // Another one for each request.
  if (!app.options.has_seed) params["seed"] = std::numeric_limits<std::uint32_t>::max();
  Json settings = {{"n_ctx", app.scheduler.context()}, {"params", std::move(params)}};
  Json modalities = {{"vision", false}, {"audio", false}};
  Json json = {{"default_generation_settings", std::move(settings)},
               {"total_slots", app.scheduler.stats().parallel},
               {"model_alias", app.options.name},
               {"model_path", app.options.name},
               {"modalities", std::move(modalities)},
               {"chat_template", app.template_source},
               {"bos_token", spelled(tokenizer.bos())},
               {"eos_token", spelled(tokenizer.eos())},
               {"reply_form", app.reply_form},
               {"build_info", "bantam"}};
  app.answer(*exchange, json);
}

void slots(App& app, const std::shared_ptr<Exchange>& exchange) {
  if (!app.common.options.has_slots) throw ApiError(501, "not_supported_error", "slots: this server was started with --no-slots");
  const SchedulerStats stats = app.scheduler.stats();
  Json list = Json::array();
  for (int i = 0; i < stats.parallel; ++i) list.push_back({{"id", i}, {"n_ctx", stats.context}, {"is_processing", i < stats.running}});
  app.answer(*exchange, list);
}

}  // namespace bantam::server
