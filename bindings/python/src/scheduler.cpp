// Schedulers: what their threads say waits in an inbox, which one thread of Python's empties.
#include "bantam/session/scheduler.hpp"

#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <shared_mutex>

#include "options.hpp"

namespace bantam::python {

namespace {

/// An update that outlives its call.
struct News {
  std::uint64_t key = 0;
  std::string piece = {};
  std::vector<DrawnToken> tokens = {}, prompt = {};
  TextEnd end = TextEnd::running;
  std::string error = {}, stop_text = {};
  int code = 0;  ///< of the error; 0: none of the library's own
  TextStats stats = {};
};

std::string_view name_of(TextEnd end) {
  switch (end) {
    case TextEnd::running: return "running";
    case TextEnd::stop: return "stop";
    case TextEnd::length: return "length";
    case TextEnd::cancelled: return "cancelled";
    case TextEnd::late: return "late";
    case TextEnd::failed: return "failed";
  }
  return "";
}

py::dict took(const TextStats& s) {
  py::dict d;
  d["prompt_tokens"] = s.prompt_tokens;
  d["reused_tokens"] = s.reused_tokens;
  d["generated_tokens"] = s.generated_tokens;
  d["guessed_tokens"] = s.guessed_tokens;
  d["right_guesses"] = s.right_guesses;
  d["waited_ms"] = s.waited_ms;
  d["prompt_ms"] = s.prompt_ms;
  d["generate_ms"] = s.generate_ms;
  return d;
}

/// [(id, log probability, [(id, log probability)])]
py::list as_list(const std::vector<DrawnToken>& tokens) {
  py::list out;
  for (const DrawnToken& token : tokens) out.append(py::make_tuple(token.id, token.logprob, token.top));
  return out;
}

/// (key, piece, tokens, tokens of the prompt, how it ended, error, its code, stop text, stats)
py::tuple as_tuple(const News& n) {
  return py::make_tuple(n.key, n.piece, as_list(n.tokens), as_list(n.prompt), name_of(n.end), n.error, n.code, n.stop_text, took(n.stats));
}

/// A wait that clocks can add to now: a year at most, which is as good as without bound.
std::chrono::milliseconds duration_of(double seconds, std::string_view name) {
  constexpr double year = 365.25 * 24 * 3600;
  if (!(seconds > 0)) fail(Errc::invalid_argument, name, ": expected more than 0 seconds, found ", seconds);
  return std::chrono::milliseconds(static_cast<std::int64_t>(std::ceil(1000 * std::min(seconds, year))));
}

class SchedulerHandle {
 public:
  SchedulerHandle(const Model& model, std::int64_t context, int threads, SchedulerOptions options)
      : state_(new State(Engine(model, {.context = context, .threads = threads}), std::move(options))) {}
  SchedulerHandle(const SchedulerHandle&) = delete;
  SchedulerHandle& operator=(const SchedulerHandle&) = delete;
  ~SchedulerHandle() {
    // In a child of fork() its thread is not there, and what that held stays as it was.
    if (process_ != getpid()) return;
    stop();
    delete state_;
  }

  void check_process() const {
    if (process_ == getpid()) return;
    fail(Errc::invalid_argument, "scheduler: expected a call in the process that made it, found one in a child of it: its thread is not there, make another one");
  }

  /// The request's number; 0 where the queue is full. `key`: by which news of it are known.
  std::uint64_t submit(std::uint64_t key, const Prompt& prompt, const py::kwargs& kwargs) {
    check_process();
    EncodeOptions encode;
    std::shared_ptr<Grammar> grammar;
    TextRequest request;
    Keywords k(kwargs);
    request.generate = generate_options(k, encode, grammar);
    std::optional<Adapters> adapters;
    std::optional<double> timeout, queue_timeout;
    k.read("logprobs", request.top_logprobs);
    k.read("prompt_logprobs", request.prompt_logprobs);
    k.read("priority", request.priority);
    k.read("client", request.client);
    k.read("reuse", request.reuse);
    k.read("adapters", adapters);
    k.read("timeout", timeout);
    k.read("queue_timeout", queue_timeout);
    k.finish("submit");
    if (adapters) request.adapters = as_library(*adapters);
    if (timeout) request.most_time = duration_of(*timeout, "timeout");
    if (queue_timeout) request.most_waiting = duration_of(*queue_timeout, "queue_timeout");
    const py::gil_scoped_release free;
    const std::shared_lock use = state_->use();
    const auto* ids = std::get_if<std::vector<TokenId>>(&prompt);
    const Tokenizer& tokenizer = state_->scheduler->engine().model().tokenizer();
    request.prompts = {ids != nullptr ? *ids : tokenizer.encode(std::get<std::string>(prompt), encode)};
    if (grammar) {
      const std::lock_guard lock(state_->grammar_mutex);
      request.generate.grammar = state_->grammar.of(grammar);
    }
    return state_->scheduler->submit(std::move(request), [s = state_, key](const TextUpdate& update) { s->hear(key, update); }).value_or(0);
  }

  void cancel(std::uint64_t request) {
    if (process_ != getpid()) return;
    const py::gil_scoped_release free;
    if (const std::shared_lock use(state_->alive, std::try_to_lock); use && state_->scheduler) state_->scheduler->cancel(request);
  }

  /// What came since the last call; waits for some. Empty when the scheduler ended and all was taken.
  py::list take() {
    std::deque<News> news;
    {
      const py::gil_scoped_release free;
      std::unique_lock lock(state_->mutex);
      state_->changed.wait(lock, [&] { return !state_->inbox.empty() || state_->ended; });
      news.swap(state_->inbox);
    }
    py::list out;
    for (const News& n : news) out.append(as_tuple(n));
    return out;
  }

  /// Ends what still runs as cancelled; take() says so.
  void stop() {
    if (process_ != getpid()) return;
    const py::gil_scoped_release free;
    {
      const std::unique_lock use(state_->alive);
      state_->scheduler.reset();
    }
    const std::lock_guard lock(state_->mutex);
    state_->ended = true;
    state_->changed.notify_all();
  }

  py::dict stats() {
    check_process();
    SchedulerStats s;
    {
      const py::gil_scoped_release free;
      const std::shared_lock use = state_->use();
      s = state_->scheduler->stats();
    }
    py::dict d;
    d["parallel"] = s.parallel;
    d["running"] = s.running;
    d["waiting"] = s.waiting;
    d["requests"] = s.requests;
    d["kept"] = s.kept;
    d["kv_bytes"] = s.kv_bytes;
    d["context"] = s.context;
    d["prompt_tokens"] = s.prompt_tokens;
    d["reused_tokens"] = s.reused_tokens;
    d["generated_tokens"] = s.generated_tokens;
    d["guessed_tokens"] = s.guessed_tokens;
    d["right_guesses"] = s.right_guesses;
    d["steps"] = s.steps;
    d["stepped_texts"] = s.stepped_texts;
    d["refused"] = s.refused;
    d["prompt_seconds"] = s.prompt_seconds;
    d["generate_seconds"] = s.generate_seconds;
    return d;
  }

 private:
  struct State {
    State(Engine engine, SchedulerOptions options) : grammar(engine.model().tokenizer()), scheduler(std::make_unique<Scheduler>(std::move(engine), std::move(options))) {}

    void hear(std::uint64_t key, const TextUpdate& u) {
      News news{.key = key,
                .piece = std::string(u.piece),
                .tokens = {u.tokens.begin(), u.tokens.end()},
                .prompt = {u.prompt.begin(), u.prompt.end()},
                .end = u.end,
                .error = std::string(u.error),
                .stop_text = std::string(u.stop_text),
                .code = u.code ? static_cast<int>(*u.code) : 0,
                .stats = u.stats};
      const std::lock_guard lock(mutex);
      inbox.push_back(std::move(news));
      changed.notify_one();
    }
    /// Keeps the scheduler where it is. Does not wait for one that ends, which may wait for who asks.
    std::shared_lock<std::shared_mutex> use() {
      std::shared_lock lock(alive, std::try_to_lock);
      if (!lock || !scheduler) fail(Errc::invalid_argument, "scheduler: expected an open one, this one is closed");
      return lock;
    }

    std::mutex mutex;  ///< of what follows
    std::condition_variable changed;
    std::deque<News> inbox;
    bool ended = false;

    std::mutex grammar_mutex;
    BoundGrammar grammar;

    std::shared_mutex alive;
    std::unique_ptr<Scheduler> scheduler;  ///< last: its thread uses the rest
  };

  State* state_;  ///< leaks in children of fork()
  pid_t process_ = getpid();
};

}  // namespace

void bind_scheduler(py::module_& m) {
  py::class_<SchedulerHandle>(m, "Scheduler")
      .def(py::init([](const Model& model, std::int64_t context, int threads, const std::string& kv, const Adapters& adapters, std::int64_t memory_limit,
                       const std::string& memory_folder, int parallel, int queue, int kept, std::int64_t step_ms, int lookup, int mtp, const Model* draft) {
             SchedulerOptions options{.parallel = parallel,
                                      .queue = queue,
                                      .kept = kept,
                                      .kv = kv,
                                      .adapters = as_library(adapters),
                                      .memory = {.limit = memory_limit, .folder = memory_folder},
                                      .step = std::chrono::milliseconds(step_ms),
                                      .lookup = lookup,
                                      .mtp = mtp};
             if (draft != nullptr) options.draft = DraftModel{*draft};
             return std::make_unique<SchedulerHandle>(model, context, threads, std::move(options));
           }),
           py::arg("model"), py::kw_only(), py::arg("context"), py::arg("threads"), py::arg("kv"), py::arg("adapters"), py::arg("memory_limit"),
           py::arg("memory_folder"), py::arg("parallel"), py::arg("queue"), py::arg("kept"), py::arg("step_ms"), py::arg("lookup"), py::arg("mtp"), py::arg("draft"))
      .def("submit", &SchedulerHandle::submit, py::arg("key"), py::arg("prompt"))
      .def("cancel", &SchedulerHandle::cancel, py::arg("request"))
      .def("take", &SchedulerHandle::take)
      .def("stop", &SchedulerHandle::stop)
      .def("check_process", &SchedulerHandle::check_process)
      .def("stats", &SchedulerHandle::stats);
}

}  // namespace bantam::python
