// Vectors of texts, how well documents answer a query, and which labels texts have.
#include <algorithm>
#include <bit>

#include "bantam/core/stopwatch.hpp"
#include "bantam/session/rerank.hpp"
#include "server/app.hpp"
#include "text/base64.hpp"

namespace bantam::server {

namespace {

/// As many as OpenAI takes.
constexpr std::size_t most_texts = 2048;

/// Follows the reading of texts: counts their tokens, and ends it when the client goes away.
class Reading {
 public:
  explicit Reading(Exchange& exchange) : record_(exchange.record()) {
    exchange.on_gone([gone = gone_] { *gone = true; });
  }
  [[nodiscard]] ReadProgress progress() {
    return [this](std::int64_t, std::int64_t total) {
      tokens_ = total;
      if (record_ != nullptr) record_->prompt_tokens = total;
      return !*gone_;
    };
  }
  [[nodiscard]] std::int64_t tokens() const noexcept { return tokens_; }
  [[nodiscard]] Json usage() const { return {{"prompt_tokens", tokens_}, {"total_tokens", tokens_}}; }

 private:
  std::shared_ptr<std::atomic<bool>> gone_ = std::make_shared<std::atomic<bool>>(false);
  std::int64_t tokens_ = 0;
  RequestRecord* record_;
};

/// A text, tokens, or an array of either; llama.cpp says `content`, and Hugging Face `inputs`.
std::vector<std::vector<TokenId>> inputs_of(const App& app, const Fields& fields, std::string_view name) {
  const Json* input = fields.find(name);
  if (input == nullptr) input = fields.find("input");
  if (input == nullptr) throw bad_request("input: expected a text, tokens, or an array of either, found none", "input");
  // The end of a text is left out, and not what the tokenizer puts behind it.
  EncodeOptions encode;
  const std::int64_t most = fields.integer("truncate_prompt_tokens", -1).value_or(fields.flag("truncate", false) ? -1 : 0);
  if (most != 0) encode.longest = static_cast<std::size_t>(most < 0 ? app.engine.context() : most);
  const auto tokens_of = [&](const Json& one) {
    if (one.is_string()) return app.tokenizer().encode(one.string(), encode);
    if (!one.is_array()) refuse("input", "texts or arrays of tokens", one);
    std::vector<TokenId> tokens;
    for (const Json& id : one) tokens.push_back(token_of(id, app.vocab(), "input"));
    if (most != 0) tokens.resize(std::min(tokens.size(), encode.longest));
    return tokens;
  };
  std::vector<std::vector<TokenId>> inputs;
  const bool is_one = input->is_string() || (input->is_array() && input->size() > 0 && (*input)[0].is_number());
  if (is_one) {
    inputs.push_back(tokens_of(*input));
  } else if (!input->is_array() || input->size() == 0 || input->size() > most_texts) {
    refuse("input", message("a text, tokens, or 1 to ", most_texts, " of either"), *input);
  } else {
    for (const Json& one : *input) inputs.push_back(tokens_of(one));
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].empty()) throw bad_request(message("input: text ", i, ": expected at least one token, found none"), "input");
  }
  return inputs;
}

/// What the model makes of a request's texts, a row each.
Tensor<float, 2> embedded(App& app, const Fields& fields, std::string_view name, Reading& reading) {
  const std::int64_t dim = app.engine.model().config().embedding_dim();
  EmbedOptions options{.pooling = app.options.pooling, .normalize = app.options.normalize, .adapters = app.adapters.now(), .progress = reading.progress()};
  options.dimensions = fields.integer("dimensions", 1).value_or(0);
  if (options.dimensions > dim) {
    throw bad_request(message("dimensions: expected 1 to ", dim, ", which the model's vectors have, found ", options.dimensions), "dimensions");
  }
  // llama.cpp's number of a norm, of which 2 and none are known.
  if (const auto norm = fields.integer("embd_normalize", -1)) {
    if (*norm != 2 && *norm != -1) throw bad_request(message("embd_normalize: expected 2, length 1, or -1, as they are, found ", *norm), "embd_normalize");
    options.normalize = *norm == 2;
  }
  if (fields.find("normalize") != nullptr) options.normalize = fields.flag("normalize", true);
  return embed(app.engine, inputs_of(app, fields, name), options);
}

std::vector<float> row_of(const Tensor<float, 2>& rows, std::int64_t i) { return {&rows(i, 0), &rows(i, 0) + rows.extent(1)}; }

Json list_of(const Tensor<float, 2>& rows) {
  Json list = Json::array();
  for (std::int64_t i = 0; i < rows.extent(0); ++i) list.push_back(row_of(rows, i));
  return list;
}

}  // namespace

void embeddings(App& app, const std::shared_ptr<Exchange>& exchange) {
  const Json body = parse_body(exchange->request());
  const Fields fields(body);
  app.check_model(fields);
  const std::string format = fields.text("encoding_format").value_or("float");
  if (format != "float" && format != "base64") throw bad_request("encoding_format: expected float or base64", "encoding_format");
  Reading reading(*exchange);
  const Tensor<float, 2> rows = embedded(app, fields, "input", reading);
  Json data = Json::array();
  for (std::int64_t i = 0; i < rows.extent(0); ++i) {
    const std::vector<float> row = row_of(rows, i);
    // Floats, the least byte first, as OpenAI's clients ask for them.
    static_assert(std::endian::native == std::endian::little);
    const std::string_view bytes(reinterpret_cast<const char*>(row.data()), row.size() * sizeof(float));
    Json vector = format == "base64" ? Json(base64_of(bytes)) : Json(row);
    data.push_back({{"object", "embedding"}, {"index", i}, {"embedding", std::move(vector)}});
  }
  app.answer(*exchange, Json{{"object", "list"}, {"data", std::move(data)}, {"model", app.options.name}, {"usage", reading.usage()}});
}

void native_embedding(App& app, const std::shared_ptr<Exchange>& exchange) {
  const Json body = parse_body(exchange->request());
  Reading reading(*exchange);
  const Tensor<float, 2> rows = embedded(app, Fields(body), "content", reading);
  Json list = Json::array();
  for (std::int64_t i = 0; i < rows.extent(0); ++i) {
    // A list of vectors, of which there is one where they are pooled.
    list.push_back({{"index", i}, {"embedding", Json::array({row_of(rows, i)})}});
  }
  app.answer(*exchange, list);
}

void plain_embedding(App& app, const std::shared_ptr<Exchange>& exchange) {
  const Json body = parse_body(exchange->request());
  Reading reading(*exchange);
  app.answer(*exchange, list_of(embedded(app, Fields(body), "inputs", reading)));
}

void ollama_embed(App& app, const std::shared_ptr<Exchange>& exchange) {
  Json body = parse_body(exchange->request());
  app.check_model(Fields(body));
  if (Fields(body).find("truncate") == nullptr) body["truncate"] = true;
  Reading reading(*exchange);
  const Stopwatch watch;
  Json json = {{"model", app.options.name}, {"embeddings", list_of(embedded(app, Fields(body), "input", reading))}};
  json["total_duration"] = static_cast<std::int64_t>(1e9 * watch.seconds());
  json["load_duration"] = 0;
  json["prompt_eval_count"] = reading.tokens();
  app.answer(*exchange, json);
}

/// The older form, of one text.
void ollama_embeddings(App& app, const std::shared_ptr<Exchange>& exchange) {
  const Json body = parse_body(exchange->request());
  app.check_model(Fields(body));
  Reading reading(*exchange);
  const Tensor<float, 2> rows = embedded(app, Fields(body), "prompt", reading);
  app.answer(*exchange, Json{{"embedding", row_of(rows, 0)}});
}

void rerank_documents(App& app, const std::shared_ptr<Exchange>& exchange) {
  const Json body = parse_body(exchange->request());
  const Fields fields(body);
  app.check_model(fields);
  const std::optional<std::string> query = fields.text("query");
  if (!query) throw bad_request("query: expected a text, found none", "query");
  // Hugging Face's server (TEI) calls them texts, and answers with a list.
  const bool as_tei = fields.find("documents") == nullptr && fields.find("texts") != nullptr;
  const std::string_view name = as_tei ? "texts" : "documents";
  const Json* given = fields.array(name);
  if (given == nullptr || given->size() == 0 || given->size() > most_texts) {
    throw bad_request(message(name, ": expected 1 to ", most_texts, " texts, found ", given == nullptr ? 0 : given->size()), std::string(name));
  }
  std::vector<std::string> documents;
  for (const Json& one : *given) {
    const Json* text = one.is_object() ? one.find("text") : &one;  // Cohere's documents are objects
    if (text == nullptr || !text->is_string()) refuse(name, "texts", one);
    documents.emplace_back(text->string());
  }
  const auto most = fields.integer("top_n", 1).value_or(std::ssize(documents));
  Reading reading(*exchange);
  const std::vector<float> scores = rerank(app.engine, *query, documents, {.adapters = app.adapters.now(), .progress = reading.progress()});
  Json results = Json::array();
  for (const std::int64_t i : best_first(scores)) {
    if (static_cast<std::int64_t>(results.size()) == most) break;
    const auto at = static_cast<std::size_t>(i);
    Json one = {{"index", i}, {as_tei ? "score" : "relevance_score", static_cast<double>(scores[at])}};
    if (as_tei && fields.flag("return_text", false)) one["text"] = documents[at];
    if (!as_tei && fields.flag("return_documents", false)) one["document"] = Json{{"text", documents[at]}};
    results.push_back(std::move(one));
  }
  if (as_tei) return app.answer(*exchange, results);
  app.answer(*exchange, Json{{"object", "list"}, {"model", app.options.name}, {"results", std::move(results)}, {"usage", reading.usage()}});
}

void classify_texts(App& app, const std::shared_ptr<Exchange>& exchange) {
  const Json body = parse_body(exchange->request());
  const Fields fields(body);
  app.check_model(fields);
  const std::vector<std::string> texts = fields.texts("input");
  if (texts.empty() || texts.size() > most_texts) throw bad_request(message("input: expected 1 to ", most_texts, " texts, found ", texts.size()), "input");
  Reading reading(*exchange);
  const Tensor<float, 2> rows = classify(app.engine, texts, {.adapters = app.adapters.now(), .progress = reading.progress()});
  const std::vector<std::string> names = app.engine.model().config().names_of_labels();
  Json data = Json::array();
  for (std::int64_t i = 0; i < rows.extent(0); ++i) {
    const std::span<const float> row(&rows(i, 0), static_cast<std::size_t>(rows.extent(1)));
    const auto best = static_cast<std::size_t>(best_first(row).front());
    data.push_back({{"index", i}, {"label", names[best]}, {"probs", std::vector<float>(row.begin(), row.end())}, {"num_classes", rows.extent(1)}});
  }
  app.answer(*exchange, Json{{"object", "list"}, {"model", app.options.name}, {"labels", names}, {"data", std::move(data)}, {"usage", reading.usage()}});
}

}  // namespace bantam::server
