// Texts on their way to a client: what its request asks for, and the answer as it comes.
#pragma once

#include <algorithm>
#include <span>

#include "server/app.hpp"

namespace bantam::server {

/// What a request asks for, whatever its endpoint.
struct Asked {
  TextRequest texts;
  bool stream = false;
  bool include_usage = false;
  bool usage_so_far = false;  ///< with every event of a stream, not behind the last alone
  bool keeps_stop = false;    ///< a stop text that ends a text is part of it
  bool is_cut = false;        ///< a prompt is not what was sent, but a part of it
  bool timings = false;      ///< with every event that brings tokens, not with the last alone
  bool logprobs = false;
  int prompt_logprobs = -1;  ///< beside each token of the prompt, as vLLM gives them; -1: none, not even of the token
  bool token_ids = false;  ///< of prompts and texts, beside what they are
  bool is_answer = false;  ///< a grammar says what the answer is: no marks of thoughts and calls come
  std::vector<std::string> prompts = {};  ///< as texts, where the answer repeats them
};

/// Reads what the endpoints have in common: sampling, stop texts, grammar, n, stream. `max_tokens` where nothing says how many.
[[nodiscard]] Asked read_asked(App& app, const Fields& fields, std::int64_t max_tokens);
/// Leaves as many tokens of each prompt as a member of that name says, -1: as many as there is room for; the last ones, or with `truncation_side` right the
/// first. As vLLM has it.
void cut_prompts(const App& app, const Fields& fields, std::string_view name, Asked& asked);
/// Reads what asks for log probabilities of prompts.
void read_prompt_logprobs(const Fields& fields, Asked& asked);
/// Throws ApiError (400, with the numbers) unless the prompts leave room for a token.
void check_room(const App& app, const TextRequest& request);

/// Throws ApiError (400) where they ask for more of the model's logits than the server gives.
void check_logprobs(const App& app, const Asked& asked);

/// TextUpdate, to keep.
struct Update {
  explicit Update(const TextUpdate& u)
      : text(u.text),
        piece(u.piece),
        tokens(u.tokens.begin(), u.tokens.end()),
        prompt(u.prompt.begin(), u.prompt.end()),
        end(u.end),
        error(u.error),
        code(u.code),
        stop_text(u.stop_text),
        stats(u.stats) {}
  std::size_t text;
  std::string piece;
  std::vector<DrawnToken> tokens, prompt;
  TextEnd end;
  std::string error;
  std::optional<Errc> code;
  std::string stop_text;
  TextStats stats;
};

/// An answer while it is written. Made on any thread; all else happens on the server's.
class Writing : public std::enable_shared_from_this<Writing> {
 public:
  Writing(App& app, std::shared_ptr<Exchange> exchange, Asked asked);
  virtual ~Writing() = default;
  /// Hands the request to the scheduler. Throws ApiError (429, 503) where that takes none.
  void start();

 protected:
  /// What a step brought, for a stream or to keep.
  virtual void take(const Update& update) = 0;
  /// What an event of a stream is that brings nothing of a text; null: this API has none.
  [[nodiscard]] virtual Json bare_event(std::size_t /*text*/) { return nullptr; }
  /// All texts ended: the rest of the stream.
  virtual void end_stream() = 0;
  /// The same for an answer at once.
  [[nodiscard]] virtual Json whole() = 0;
  /// The rest of a stream that comes to nothing.
  virtual void end_stream_with(const ApiError& error);

  [[nodiscard]] virtual StreamForm stream_form() const { return server_sent_events; }

  /// An event of a stream; some APIs give each a name.
  void event(const Json& json, std::string_view name = {});
  /// A line of one whose form is json_lines.
  void line(const Json& json);
  [[nodiscard]] std::string_view path() const noexcept { return exchange_->request().path; }
  /// The event that ends streams of OpenAI's API.
  void done() { held_ += "data: [DONE]\n\n"; }
  /// The same behind usage, where that was asked for: an event of its own, without choices.
  void done_in(Json frame);
  /// What an event before that says of usage, if anything.
  void add_usage(Json& frame) const;
  [[nodiscard]] const Asked& asked() const noexcept { return asked_; }
  [[nodiscard]] Asked& asked() noexcept { return asked_; }
  [[nodiscard]] App& app() noexcept { return app_; }
  [[nodiscard]] const Tokenizer& tokenizer() const noexcept { return app_.tokenizer(); }
  /// {prompt_tokens, completion_tokens, total_tokens, prompt_tokens_details}
  [[nodiscard]] Json usage() const;
  /// llama.cpp's figures of a text.
  [[nodiscard]] static Json timings(const TextStats& stats);
  /// The tokens of texts and prompts, as vLLM gives them.
  [[nodiscard]] static Json ids_of(std::span<const TokenId> tokens);
  [[nodiscard]] static Json ids_of(std::span<const DrawnToken> tokens);
  /// As answers say it: OpenAI's number for what cannot come, in the place of minus infinity, which JSON has no word for.
  [[nodiscard]] static double said_logprob(float logprob) { return std::max(static_cast<double>(logprob), -9999.0); }
  /// A token's text as bytes.
  [[nodiscard]] std::string bytes_of(TokenId id) const;
  /// [null, {"TOKEN": {logprob, rank, decoded_token}}], as vLLM has them, of a prompt's tokens from the second on: as many of the most probable ones
  /// beside each as were asked for.
  [[nodiscard]] Json prompt_logprobs_of(std::span<const DrawnToken> scored) const;
  /// {token, logprob, bytes, top_logprobs}, as OpenAI's chats have it.
  [[nodiscard]] Json logprob_entry(const DrawnToken& token) const;

  const std::int64_t created_ = unix_time();

 private:
  void update(const Update& update);
  void say_progress(const Update& update);
  void measure(const Update& update);
  void record(const Update& update);
  void fail(const ApiError& error);
  void end_all();

  App& app_;
  const std::shared_ptr<Exchange> exchange_;
  Asked asked_;
  std::size_t left_;
  bool streams_ = false;  ///< an event was sent
  bool failed_ = false;
  std::string held_;      ///< events of one update, sent together
  std::vector<TextStats> stats_;
  std::atomic<std::uint64_t> id_{0};
  std::chrono::steady_clock::time_point came_ = std::chrono::steady_clock::now();
  std::vector<std::chrono::steady_clock::time_point> last_token_;
  const bool compares_;      ///< what Steering compares
  std::vector<double> nll_;  ///< of each text's tokens, where that is so
};

/// "stop" or "length".
[[nodiscard]] std::string_view finish_reason(TextEnd end);

}  // namespace bantam::server
