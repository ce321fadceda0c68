// Requests to the server: a line with a method and a path, then a body, through the handlers themselves, without HTTP between.
#include <condition_variable>
#include <thread>

#include "fuzz/fuzz.hpp"
#include "fuzz/structures.hpp"
#include "server/endpoints.hpp"

namespace bantam::fuzz {

namespace {

using server::HttpReply;
using server::HttpRequest;

/// What a request was answered.
struct Answered {
  std::mutex mutex;
  std::condition_variable changed;
  int replies = 0;  ///< whole ones, and streams that ended
  HttpReply reply;
  std::string events;
  server::StreamForm form = server::server_sent_events;
  bool streams = false;
  bool released = false;  ///< nobody is left who could answer
  bool left = false;      ///< nobody waits for one
  std::vector<std::function<void()>> tasks;  ///< that may bring it, for who waits to run; what a loading model hands over comes late
};

/// A client that keeps what it gets, and goes away when it is asked to.
class KeptExchange final : public server::Exchange {
 public:
  KeptExchange(HttpRequest request, std::shared_ptr<Answered> answered) : request_(std::move(request)), answered_(std::move(answered)) {}
  ~KeptExchange() override {
    change([](Answered& a) { a.released = true; });
  }
  [[nodiscard]] const HttpRequest& request() const noexcept override { return request_; }
  void reply(HttpReply reply) override {
    change([&](Answered& a) {
      if (a.streams) return;
      ++a.replies;
      a.reply = std::move(reply);
    });
  }
  void expect_stream(server::StreamForm form) override {
    change([&](Answered& a) { a.form = form; });
  }
  void send(std::string events) override {
    change([&](Answered& a) {
      if (a.replies > 0) return;
      a.streams = true;
      a.events += events;
    });
  }
  void end() override {
    change([](Answered& a) { a.replies += a.streams ? 1 : 0; });
  }
  void on_gone(std::function<void()> f) override {
    const std::lock_guard lock(gone_mutex_);
    gone_ ? f() : void(on_gone_ = std::move(f));
  }
  void go_away() {
    const std::lock_guard lock(gone_mutex_);
    gone_ = true;
    if (on_gone_) std::exchange(on_gone_, {})();
  }

 private:
  template <class F>
  void change(F&& f) {
    {
      const std::lock_guard lock(answered_->mutex);
      f(*answered_);
    }
    answered_->changed.notify_all();
  }

  const HttpRequest request_;
  const std::shared_ptr<Answered> answered_;
  std::mutex gone_mutex_;
  std::function<void()> on_gone_;
  bool gone_ = false;
};

/// A tiny model that reads JSON, with a template that reads tools and thoughts, behind a server's handlers.
class ServedModel {
 public:
  ServedModel() {
    tiny_.make();
    tiny_.pieces.resize(4);
    for (char c = '!'; c <= '~'; ++c) tiny_.pieces.emplace_back(1, c);
    for (const char* more : {"\n", "<think>", "</think>", "<tool_call>", "</tool_call>", "<PRE>", "<SUF>", "<MID>"}) tiny_.pieces.emplace_back(more);
    tiny_.more_keys = [](test::GgufBuilder& b) {
      b.key("tokenizer.chat_template",
            "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}[{{ m.role }}]{{ m.content }}{% if m.reasoning_content %}<think>"
            "{{ m.reasoning_content }}</think>{% endif %}{% for c in m.tool_calls or [] %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}"
            "{% endfor %}{% if add_generation_prompt %}[assistant]{% if enable_thinking %}<think>{% endif %}{% endif %}");
    };
    model_.emplace(Model::load(folder_.put("model.gguf", tiny_.gguf().bytes())));
    options_ = {.address = {.host = (folder_ / "door.sock").string()}};
    const server::ModelOptions how{.threads = 1, .scheduler = {.parallel = 2, .queue = 8, .kv = "f32"}, .has_seed = true, .slot_folder = (folder_ / "slots").string(), .max_tokens = 4};
    slots_ = how.slot_folder;
    http_.emplace(options_.address, options_.limits);
    front_.emplace(options_.front, [](std::string_view) {});
    common_.emplace(options_, *http_, *front_, [](std::string_view) {});
    const auto load = [this](std::int64_t, const auto&) { return server::LoadedModel{.model = *model_, .context = 320, .bytes = 1}; };
    models_ = std::make_shared<server::Models>(*common_, std::vector<server::ServedModel>{{.options = how, .path = folder_ / "model.gguf", .load = load}}, [](std::string_view) {});
    models_->start();
    http_->listen([](const HttpRequest&, server::HttpHeaders&) { return HttpReply{}; }, [](const auto&) {},
                  [](int status, std::string_view, std::string_view, std::string_view) { return HttpReply{.status = status}; });
    thread_ = std::thread([this] { http_->run(); });
  }
  ~ServedModel() {
    http_->stop();
    thread_.join();
    models_->end(false);
  }

  void ask(HttpRequest request) {
    if (std::optional<HttpReply> refused = check_request(options_, request)) return check(request, *refused);
    if (request.path.starts_with("/slots/")) {
      std::filesystem::remove_all(slots_);
      std::filesystem::create_directory(slots_);
    }
    const auto answered = std::make_shared<Answered>();
    auto exchange = std::make_shared<KeptExchange>(request, answered);
    const server::Endpoint& endpoint = *server::find_endpoint(request);
    server::serve_request(*models_, endpoint, front_->follow(exchange, server::client_of(options_, request), server::generates(endpoint)),
                          [answered](server::Endpoint::Kind, std::function<void()> task) { hand_over(*answered, std::move(task)); });
    // A trace comes when its time is over: half of all time would go by waiting for it.
    constexpr std::chrono::milliseconds patience{50}, no_patience{1};
    const bool waited = is_answered(*answered, endpoint.path == "/debug/trace" ? no_patience : patience);
    // Who waited long enough goes: texts end then, within a step.
    if (!waited) http_->post([exchange] { exchange->go_away(); });
    exchange.reset();
    require(is_idle(), "a request ends when its client is gone");
    const std::lock_guard lock(answered->mutex);
    require(answered->replies <= 1, "a request is answered once");
    require(answered->replies == 1 || !waited, "a request is answered");
    if (answered->replies == 0) return;
    answered->streams ? check_stream(answered->events, answered->form.type == server::json_lines.type) : check(request, answered->reply);
  }

 private:
  /// A model that was unloaded has nothing at hand.
  [[nodiscard]] bool is_idle() const {
    const server::ModelState state = models_->state("");
    // A minute, second by second: to a process that was stopped for longer it is none.
    for (int seconds = 0; state.app && seconds < 60; ++seconds) {
      if (state.app->scheduler.wait(std::chrono::seconds(1))) return true;
    }
    return !state.app;
  }

  static void hand_over(Answered& answered, std::function<void()> task) {
    {
      const std::lock_guard lock(answered.mutex);
      if (answered.left) return;
      answered.tasks.push_back(std::move(task));
    }
    answered.changed.notify_all();
  }

  /// Runs what is handed over. Whether there is an answer, or nobody left who could give one, after a while; then nobody waits.
  static bool is_answered(Answered& answered, std::chrono::milliseconds patience) {
    const auto until = std::chrono::steady_clock::now() + patience;
    std::unique_lock lock(answered.mutex);
    const auto is_over = [&] { return answered.replies > 0 || answered.released; };
    while (answered.changed.wait_until(lock, until, [&] { return is_over() || !answered.tasks.empty(); }) && !answered.tasks.empty()) {
      std::vector<std::function<void()>> tasks = std::exchange(answered.tasks, {});
      lock.unlock();
      for (const std::function<void()>& task : tasks) task();
      tasks.clear();
      lock.lock();
    }
    answered.left = true;
    // What comes with the last moment goes without the mutex: it holds who answers.
    const std::vector<std::function<void()>> unwanted = std::exchange(answered.tasks, {});
    const bool is_answered = is_over();
    lock.unlock();
    return is_answered;
  }

  void check(const HttpRequest& request, const HttpReply& reply) const {
    const bool is_json = reply.type.starts_with("application/json");
    Json json;
    require(!is_json || survives([&] { json = Json::parse(reply.body, "reply"); }), "answers are JSON");
    if (reply.status < 400) return;
    static constexpr int refusals[] = {400, 404, 405, 429, 501, 503};
    require(std::ranges::find(refusals, reply.status) != std::end(refusals), message("a request is refused by a status of those, found ", reply.status));
    require(is_json, "errors are JSON");
    const Json* error = json.find("error");
    const bool is_ollamas = request.path.starts_with("/api/");
    require(error != nullptr && (is_ollamas ? error->is_string() : error->is_object()), "errors have the shape of the API");
    const Json *words = is_ollamas ? error : error->find("message"), *type = is_ollamas ? error : error->find("type");
    require(words != nullptr && words->is_string() && type != nullptr && type->is_string(), "errors have a message and a type");
    const std::string_view line = words->string();
    require(!line.empty() && line.find('\n') == line.npos, "a message is one line");
    constexpr std::size_t longest = 4096;
    require(line.size() <= longest, "a message is short");
    // Unless the client said it: comparisons tell the fuzzer.
    const std::string folder = folder_.path().string(), asked = message(request.method, request.path, request.query, request.body);
    require(line.find(folder) == line.npos || asked.find(folder) != asked.npos, "a message names no path");
  }

  static void check_stream(std::string_view events, bool has_lines) {
    while (!events.empty()) {
      const std::size_t end = events.find('\n');
      require(end != events.npos, "an event ends with a line");
      const std::string_view line = events.substr(0, end);
      events.remove_prefix(end + 1);
      if (has_lines) {
        Json json;
        require(survives([&] { json = Json::parse(line, "line"); }) && json.is_object(), "lines are objects of JSON");
        continue;
      }
      if (line.empty() || line.starts_with("event: ") || line.starts_with(':')) continue;
      require(line.starts_with("data: "), "events are data");
      const std::string data(line.substr(std::string_view("data: ").size()));
      require(data == "[DONE]" || survives([&] { (void)Json::parse(data, "event"); }), "events are JSON");
    }
  }

  Scratch folder_;
  test::TinyModel tiny_{.dim = 8, .layers = 1, .heads = 2, .kv_heads = 1, .head_dim = 4, .ffn = 9, .vocab = 106, .context = 320};
  std::optional<Model> model_;
  server::ServerOptions options_;
  std::optional<server::Front> front_;
  std::optional<server::HttpServer> http_;
  std::filesystem::path slots_;
  std::optional<server::Common> common_;
  std::shared_ptr<server::Models> models_;
  std::thread thread_;
};

/// "POST /v1/completions?query", a line's end, the body.
void run_server(Bytes bytes) {
  static ServedModel served;
  const std::string_view text = text_of(bytes);
  const std::size_t line = std::min(text.find('\n'), text.size()), word = text.substr(0, line).find(' ');
  if (word == text.npos) return;
  const std::string_view target = text.substr(word + 1, line - word - 1);
  const std::size_t query = std::min(target.find('?'), target.size());
  served.ask({.method = std::string(text.substr(0, word)),
              .path = std::string(target.substr(0, query)),
              .query = std::string(target.substr(std::min(query + 1, target.size()))),
              .authorization = {},
              .api_key = {},
              .peer = "127.0.0.1",
              .body = std::string(text.substr(std::min(line + 1, text.size())))});
}

/// Changes the body's tree, and now and then which endpoint gets it.
std::string mutate_request(std::string_view text, std::uint64_t seed) {
  const std::size_t line = std::min(text.find('\n'), text.size());
  std::string head(text.substr(0, line));
  constexpr std::uint64_t how_often = 16;
  if (seed / 2 % how_often == 0) {
    const auto all = server::all_endpoints();
    const server::Endpoint& other = all[seed / 2 / how_often % all.size()];
    head = message(other.method, ' ', other.path, other.path.ends_with('/') ? "0" : "");
  }
  return head + '\n' + mutate_json(text.substr(std::min(line + 1, text.size())), seed);
}

const Target server_target("server", run_server, mutate_request);

}  // namespace
}  // namespace bantam::fuzz
