// A model that is loaded, what it shares with others, and what answers requests with it.
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "bantam/grammar/grammar.hpp"
#include "bantam/text/chat_template.hpp"
#include "server/fields.hpp"
#include "server/front.hpp"
#include "server/http.hpp"
#include "server/metrics.hpp"
#include "server/replays.hpp"
#include "server/response_store.hpp"
#include "server/server.hpp"
#include "server/steering.hpp"

namespace bantam::server {

/// Seconds of Unix time.
[[nodiscard]] std::int64_t unix_time();
/// `prefix` and random letters and digits.
[[nodiscard]] std::string random_id(std::string_view prefix, std::size_t length);

/// What a grammar is written in.
enum class GrammarKind : std::uint8_t { gbnf, json_schema, json_object, regex };

/// Grammars over the tokens of one vocabulary, of which the last few are kept: clients send the same schema with every request, and what was
/// found out about its tokens is of use again. Safe from any thread.
class Grammars {
 public:
  explicit Grammars(const Tokenizer& tokenizer) : trie_(tokenizer) {}
  /// Throws as Grammar does.
  [[nodiscard]] TokenGrammar get(GrammarKind kind, const std::string& source);

 private:
  struct Known {
    GrammarKind kind;
    std::string source;
    TokenGrammar grammar;
  };
  TokenTrie trie_;
  std::mutex mutex_;
  std::list<Known> known_;  ///< asked for last first
};

/// The adapters that the server was started with, and how much of each is added to texts that begin now. Safe from any thread.
class Adapters {
 public:
  explicit Adapters(std::vector<ScaledAdapter> all) : all_(std::move(all)) {}
  /// Those that add something.
  [[nodiscard]] std::vector<ScaledAdapter> now() const;
  /// The same with scales of a request: [{"id", "scale"}]. Those that it does not name add nothing. Throws ApiError (400).
  [[nodiscard]] std::vector<ScaledAdapter> with(const Json& scales, std::string_view param) const;
  void set(const Json& scales);
  /// As llama.cpp's server lists them.
  [[nodiscard]] Json json() const;

 private:
  [[nodiscard]] std::vector<float> scales_of(const Json& scales, std::string_view param) const;

  mutable std::mutex mutex_;
  std::vector<ScaledAdapter> all_;
};

/// What all models of a server share.
struct Common {
  Common(const ServerOptions& o, HttpServer& h, Front& f, Steering::Note note) : options(o), http(h), front(f), steering(o.steering, std::move(note)) {}

  /// Answers, and counts it.
  void answer(Exchange& exchange, HttpReply reply);
  void answer(Exchange& exchange, const Json& json);
  void answer(Exchange& exchange, const ApiError& error);

  const ServerOptions& options;
  HttpServer& http;
  Front& front;
  Steering steering;
  AnswerCounts answers;
  ResponseStore responses;  ///< conversations are of no model: another one may go on from them
  const std::int64_t started = unix_time();
  std::atomic<bool> draining{false};
};

/// A model that is loaded.
struct App {
  App(ModelOptions o, Common& c, Metrics& m, const Model& model);

  [[nodiscard]] const Tokenizer& tokenizer() const noexcept { return engine.model().tokenizer(); }
  /// Tokens that may stand in prompts.
  [[nodiscard]] std::int64_t vocab() const noexcept { return engine.model().config().vocab; }
  /// Throws ApiError (404) for another model than this one, where no other can have been chosen before.
  void check_model(const Fields& fields) const;
  template <class T>
  void answer(Exchange& exchange, T&& with) {
    common.answer(exchange, std::forward<T>(with));
  }

  const ModelOptions options;
  Common& common;
  Metrics& metrics;  ///< outlive it
  double share = 1;  ///< of threads and places, that is in use: for the scheduler's thread
  Engine engine;
  Scheduler scheduler;
  Grammars grammars;
  Adapters adapters;
  std::string template_source;
  ChatTemplate chat_template;
  bool has_own_template;         ///< the model's, or one that was given; else ChatML
  bool calls_without_text;       ///< the template wants null, not an empty text, where a message does nothing but call tools
  std::string_view reply_form;   ///< in which the model marks thoughts and calls
  std::vector<TokenId> reply_marks;
  Replays replays;
  const std::int64_t started = unix_time();

 private:
  /// On the scheduler's thread.
  void passed(const SchedulerPass& pass);
  [[nodiscard]] SchedulerOptions watched(SchedulerOptions options);
};

/// Handlers, one for each endpoint. They throw what to_api_error() knows. The model is there as long as the exchange is.
void chat_completions(App& app, const std::shared_ptr<Exchange>& exchange);
void completions(App& app, const std::shared_ptr<Exchange>& exchange);
void native_completion(App& app, const std::shared_ptr<Exchange>& exchange);
void messages(App& app, const std::shared_ptr<Exchange>& exchange);
void count_message_tokens(App& app, const std::shared_ptr<Exchange>& exchange);
void responses(App& app, const std::shared_ptr<Exchange>& exchange);
void count_response_tokens(App& app, const std::shared_ptr<Exchange>& exchange);
void infill(App& app, const std::shared_ptr<Exchange>& exchange);
void generate(App& app, const std::shared_ptr<Exchange>& exchange);
void generate_stream(App& app, const std::shared_ptr<Exchange>& exchange);
void ollama_chat(App& app, const std::shared_ptr<Exchange>& exchange);
void ollama_generate(App& app, const std::shared_ptr<Exchange>& exchange);
void ollama_embed(App& app, const std::shared_ptr<Exchange>& exchange);
void ollama_embeddings(App& app, const std::shared_ptr<Exchange>& exchange);
void native_embedding(App& app, const std::shared_ptr<Exchange>& exchange);
void list_adapters(App& app, const std::shared_ptr<Exchange>& exchange);
void set_adapters(App& app, const std::shared_ptr<Exchange>& exchange);
void change_slot(App& app, const std::shared_ptr<Exchange>& exchange);
void embeddings(App& app, const std::shared_ptr<Exchange>& exchange);
void plain_embedding(App& app, const std::shared_ptr<Exchange>& exchange);
void rerank_documents(App& app, const std::shared_ptr<Exchange>& exchange);
void classify_texts(App& app, const std::shared_ptr<Exchange>& exchange);
void tokenize(App& app, const std::shared_ptr<Exchange>& exchange);
void detokenize(App& app, const std::shared_ptr<Exchange>& exchange);
void apply_template(App& app, const std::shared_ptr<Exchange>& exchange);
void props(App& app, const std::shared_ptr<Exchange>& exchange);
void slots(App& app, const std::shared_ptr<Exchange>& exchange);

/// The same of what needs no model.
class Models;
void page(Models& models, const std::shared_ptr<Exchange>& exchange);
void health(Models& models, const std::shared_ptr<Exchange>& exchange);
void get_response(Models& models, const std::shared_ptr<Exchange>& exchange);
void delete_response(Models& models, const std::shared_ptr<Exchange>& exchange);
void ollama_version(Models& models, const std::shared_ptr<Exchange>& exchange);
void ollama_tags(Models& models, const std::shared_ptr<Exchange>& exchange);
void ollama_show(Models& models, const std::shared_ptr<Exchange>& exchange);
void list_models(Models& models, const std::shared_ptr<Exchange>& exchange);
void plan(Models& models, const std::shared_ptr<Exchange>& exchange);
void load_model(Models& models, const std::shared_ptr<Exchange>& exchange);
void unload_model(Models& models, const std::shared_ptr<Exchange>& exchange);
void reload_models(Models& models, const std::shared_ptr<Exchange>& exchange);
void metrics(Models& models, const std::shared_ptr<Exchange>& exchange);
void debug_trace(Models& models, const std::shared_ptr<Exchange>& exchange);

/// What a text is generated by, as llama.cpp's server shows it.
[[nodiscard]] Json settings_json(const GenerateOptions& options, std::int64_t context);
/// As lists show a model that is loaded.
[[nodiscard]] Json model_json(const App& app);

}  // namespace bantam::server
