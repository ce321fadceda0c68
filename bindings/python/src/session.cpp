// Sessions and generations. Each is used by one thread at a time: a lock makes that so, whoever calls.
#include <unistd.h>

#include <atomic>
#include <deque>
#include <thread>

#include "bantam/session/beam.hpp"
#include "bantam/session/continuations.hpp"
#include "bantam/session/evaluate.hpp"
#include "bantam/session/rerank.hpp"
#include "options.hpp"

namespace bantam::python {

namespace {

/// A session that stays where it is, and that any thread may cancel.
class SessionHandle {
 public:
  explicit SessionHandle(Session made) : session(std::move(made)) {
    session.set_progress([this](std::int64_t, std::int64_t) {
      signals();
      return !cancelled.exchange(false);
    });
  }
  SessionHandle(const SessionHandle&) = delete;
  SessionHandle& operator=(const SessionHandle&) = delete;

  /// Does `work` on the session without the GIL; other threads wait their turn.
  template <class Work>
  auto alone(Work&& work) {
    check_usable();
    const py::gil_scoped_release free;
    const std::scoped_lock lock(mutex);
    const User mark(*this);
    check();
    return work(session);
  }
  /// A callback of the session's work holds the lock already; so does, for ever, a thread that was at work when the process
  /// forked. With the GIL, so that one thread of a child is the first.
  void check_usable() {
    if (user.load() == std::this_thread::get_id()) fail(Errc::invalid_argument, "session: expected no use from inside its own callback");
    if (process == getpid()) return;
    if (user.load() != std::thread::id() || !mutex.try_lock()) {
      fail(Errc::invalid_argument, "session: expected one that no other thread used while the process forked");
    }
    mutex.unlock();
    process = getpid();
  }
  void check() {
    if (cancelled.exchange(false)) fail(Errc::cancelled, "session: cancelled");
    signals();
  }

  /// Says for its life that this thread uses the session.
  class User {
   public:
    explicit User(SessionHandle& h) : handle_(h) { handle_.user = std::this_thread::get_id(); }
    ~User() { handle_.user = std::thread::id(); }
    User(const User&) = delete;
    User& operator=(const User&) = delete;

   private:
    SessionHandle& handle_;
  };

  Session session;
  BoundGrammar grammar{session.model().tokenizer()};
  pid_t process = getpid();  ///< that used it last
  std::mutex mutex;
  std::atomic<std::thread::id> user = {};
  std::atomic<bool> cancelled = false;
  SignalCheck signals;
};

using Handle = std::shared_ptr<SessionHandle>;

struct Generation {
  Handle session;
  TextRange range;
};

Handle open(const Model& model, std::int64_t context, int threads, const std::string& kv, const Adapters& adapters, std::int64_t memory_limit, const std::string& memory_folder) {
  return std::make_shared<SessionHandle>(
      Session(model, {.context = context, .threads = threads, .kv = kv, .adapters = as_library(adapters), .memory = {.limit = memory_limit, .folder = memory_folder}}));
}

Generation stream(const Handle& h, const Prompt& prompt, const py::kwargs& kwargs) {
  EncodeOptions encode;
  std::shared_ptr<Grammar> grammar;
  GenerateOptions options = generate_options(kwargs, encode, grammar);
  return h->alone([&](Session& s) {
    if (grammar) options.grammar = h->grammar.of(grammar);
    const auto* text = std::get_if<std::string>(&prompt);
    return Generation{h, text != nullptr ? s.stream(*text, std::move(options), encode) : s.stream(std::get<1>(prompt), std::move(options))};
  });
}

Generation stream_whole(const Handle& h, const std::vector<TokenId>& ids, const py::kwargs& kwargs) {
  EncodeOptions encode;
  std::shared_ptr<Grammar> grammar;
  GenerateOptions options = generate_options(kwargs, encode, grammar);
  return h->alone([&](Session& s) {
    if (grammar) options.grammar = h->grammar.of(grammar);
    return Generation{h, s.stream_whole(ids, std::move(options))};
  });
}

/// Token ids of a prompt behind what the session holds.
std::vector<TokenId> ids_behind(const Session& s, const Prompt& prompt, EncodeOptions encode) {
  const auto* ids = std::get_if<std::vector<TokenId>>(&prompt);
  return ids != nullptr ? *ids : s.encode(std::get<std::string>(prompt), encode);
}

/// [(ids, text, how it ended)]
py::list continue_texts(const Handle& h, const Prompt& prompt, int count, const py::kwargs& kwargs) {
  EncodeOptions encode;
  std::shared_ptr<Grammar> grammar;
  GenerateOptions options = generate_options(kwargs, encode, grammar);
  const std::vector<Continuation> made = h->alone([&](Session& s) {
    if (grammar) options.grammar = h->grammar.of(grammar);
    const auto sink = [&](std::size_t, std::string_view) {
      h->check();
      return true;
    };
    return continuations(s, ids_behind(s, prompt, encode), count, std::move(options), sink);
  });
  py::list out;
  for (const Continuation& c : made) out.append(py::make_tuple(c.tokens, c.text, std::string(to_string(c.finish))));
  return out;
}

/// [(ids, text, how it ended, log probability, score)]
py::list search_beams(const Handle& h, const Prompt& prompt, int beams, int results, std::int64_t max_tokens, float length_penalty,
                      const std::shared_ptr<Grammar>& grammar) {
  BeamOptions options{.beams = beams, .results = results, .max_tokens = max_tokens, .length_penalty = length_penalty};
  const std::vector<Beam> found = h->alone([&](Session& s) {
    if (grammar) options.grammar = h->grammar.of(grammar);
    return beam_search(s, ids_behind(s, prompt, {}), options);
  });
  py::list out;
  for (const Beam& b : found) out.append(py::make_tuple(b.tokens, b.text, std::string(to_string(b.finish)), b.log_probability, b.score));
  return out;
}

std::string next_piece(Generation& g) {
  const auto piece = g.session->alone([&](Session&) { return g.range.next(); });
  if (!piece) throw py::stop_iteration();
  return std::string(*piece);
}

/// One token more for each that still runs: the pieces, and how many run on.
std::pair<std::vector<std::string>, std::size_t> step(const std::vector<Generation*>& generations) {
  std::vector<TextRange*> ranges;
  std::vector<Handle> handles;
  for (Generation* g : generations) {
    ranges.push_back(&g->range);
    handles.push_back(g->session);
  }
  std::size_t running = 0;
  for (const Handle& h : handles) h->check_usable();
  {
    const py::gil_scoped_release free;
    // In one order for all callers; a session that is there twice is told of below.
    std::ranges::sort(handles);
    const auto same = std::ranges::unique(handles);
    handles.erase(same.begin(), same.end());
    std::vector<std::unique_lock<std::mutex>> locks;
    std::deque<SessionHandle::User> users;
    for (const Handle& h : handles) {
      locks.emplace_back(h->mutex);
      users.emplace_back(*h);
    }
    for (const Handle& h : handles) h->check();
    running = advance(ranges);
  }
  std::vector<std::string> pieces;
  for (const TextRange* range : ranges) pieces.emplace_back(range->piece());
  return {pieces, running};
}

py::dict stats_of(const Generation& g) {
  const SessionStats& s = g.range.stats();
  py::dict d;
  d["prompt_tokens"] = s.prompt_tokens;
  d["generated_tokens"] = s.generated_tokens;
  d["prompt_ms"] = s.prompt_ms;
  d["generate_ms"] = s.generate_ms;
  d["guessed_tokens"] = s.guessed_tokens;
  d["right_guesses"] = s.right_guesses;
  return d;
}

py::dict measure(const Model& model, const std::string& text, const Model* base, std::int64_t context, std::int64_t limit, int threads,
                 const std::string& kv, const Adapters& adapters, const std::function<bool(std::int64_t, std::int64_t)>& progress) {
  PerplexityResult seen;
  {
    const py::gil_scoped_release free;
    const CancelScope scope(raising_signals());
    const EvaluationProgress report = [&](std::int64_t done, std::int64_t total) {
      if (!progress) return true;
      const py::gil_scoped_acquire gil;
      return progress(done, total);
    };
    seen = perplexity(model, text, {.context = context, .limit = limit, .threads = threads, .kv = kv, .adapters = as_library(adapters)}, base, report);
  }
  py::dict d;
  d["perplexity"] = seen.perplexity;
  d["nll"] = seen.nll;
  d["tokens"] = seen.tokens;
  d["windows"] = seen.windows;
  d["seconds"] = seen.seconds;
  d["base_perplexity"] = seen.base_perplexity;
  d["kl_mean"] = seen.kl_mean;
  d["kl_p99"] = seen.kl_p99;
  d["top1_agreement"] = seen.top1_agreement;
  return d;
}

Tensor<float, 1> copy_of(std::span<const float> values) {
  Tensor<float, 1> copy({static_cast<std::int64_t>(values.size())});
  std::copy(values.begin(), values.end(), copy.data());
  return copy;
}

/// What `read` hands out after each of the tokens, in rows.
py::array rows_after(SessionHandle& h, const std::vector<TokenId>& ids, std::int64_t width,
                     void (Session::*read)(std::span<const TokenId>, FunctionRef<void(std::int64_t, std::span<const float>)>)) {
  return as_array(h.alone([&](Session& s) {
    Tensor<float, 2> rows({static_cast<std::int64_t>(ids.size()), width});
    (s.*read)(ids, [&](std::int64_t index, std::span<const float> row) { std::copy(row.begin(), row.end(), &rows(index, 0)); });
    return rows;
  }));
}

void bind_generation(py::module_& m) {
  py::class_<Generation>(m, "Generation")
      .def("__iter__", [](Generation& g) -> Generation& { return g; })
      .def("__next__", &next_piece)
      .def_property_readonly("tokens", [](const Generation& g) { return g.range.tokens(); })
      .def_property_readonly("finish_reason", [](const Generation& g) { return std::string(to_string(g.range.finish())); })
      .def_property_readonly("stats", &stats_of);
  m.def("step", &step, py::arg("generations"));
}

void bind_grammar(py::module_& m) {
  py::class_<Grammar, std::shared_ptr<Grammar>>(m, "Grammar")
      .def_static("from_gbnf", [](const std::string& text, const std::string& root) { return std::make_shared<Grammar>(Grammar::from_gbnf(text, root)); },
                  py::arg("text"), py::arg("root") = "root", py::call_guard<py::gil_scoped_release>())
      .def_static("from_json_schema", [](const std::string& schema) { return std::make_shared<Grammar>(Grammar::from_json_schema(schema)); },
                  py::arg("schema"), py::call_guard<py::gil_scoped_release>())
      .def_static("json_object", [] { return std::make_shared<Grammar>(Grammar::json_object()); })
      .def("matches", [](const Grammar& g, const std::string& text) { return g.matches(text); }, py::arg("text"), py::call_guard<py::gil_scoped_release>());
}

void bind_sampler(py::module_& m) {
  py::class_<Sampler>(m, "Sampler")
      .def(py::init([](std::int32_t vocab, const py::kwargs& kwargs) {
             Sampling s;
             Keywords k(kwargs);
             read_sampling(k, s);
             k.finish("Sampler");
             return Sampler(std::move(s), vocab);
           }),
           py::arg("vocab"))
      .def("sample",
           [](Sampler& s, const py::object& given) {
             const Floats logits = floats_of(given, "logits");
             return s.sample({logits.data(), static_cast<std::size_t>(logits.size())});
           },
           py::arg("logits"))
      .def("probabilities",
           [](const Sampler& s, const py::object& given) {
             const Floats logits = floats_of(given, "logits");
             return s.probabilities({logits.data(), static_cast<std::size_t>(logits.size())});
           },
           py::arg("logits"))
      .def("accept", &Sampler::accept, py::arg("id"));
}

/// Of texts, or of token ids.
py::array embed_all(Engine& engine, const std::variant<std::vector<std::string>, std::vector<std::vector<TokenId>>>& texts, const std::optional<std::string>& pooling,
                    std::optional<bool> normalize, std::int64_t dimensions, bool truncate) {
  EmbedOptions options{.pooling = pooling ? std::optional(find_pooling(*pooling)) : std::nullopt, .normalize = normalize, .dimensions = dimensions, .truncate = truncate};
  options.progress = [signals = SignalCheck()](std::int64_t, std::int64_t) mutable {
    signals();
    return true;
  };
  return as_array([&] {
    const py::gil_scoped_release free;
    const CancelScope scope(raising_signals());
    return std::visit([&](const auto& list) { return embed(engine, list, options); }, texts);
  }());
}

std::vector<float> rerank_all(Engine& engine, const std::string& query, const std::vector<std::string>& documents, const std::string& instruction, bool truncate) {
  const py::gil_scoped_release free;
  const CancelScope scope(raising_signals());
  RerankOptions options{.instruction = instruction, .truncate = truncate};
  options.progress = [signals = SignalCheck()](std::int64_t, std::int64_t) mutable {
    signals();
    return true;
  };
  return rerank(engine, query, documents, options);
}

py::object classify_all(Engine& engine, const std::vector<std::string>& texts, const std::string& second, bool truncate) {
  return as_array([&] {
    const py::gil_scoped_release free;
    const CancelScope scope(raising_signals());
    ClassifyOptions options{.second = second, .truncate = truncate};
    options.progress = [signals = SignalCheck()](std::int64_t, std::int64_t) mutable {
      signals();
      return true;
    };
    return classify(engine, texts, options);
  }());
}

}  // namespace

void bind_session(py::module_& m) {
  bind_grammar(m);
  bind_generation(m);
  bind_sampler(m);
  py::class_<SessionHandle, Handle>(m, "Session")
      .def(py::init(&open), py::arg("model"), py::kw_only(), py::arg("context") = 0, py::arg("threads") = 0, py::arg("kv") = "f16",
           py::arg("adapters") = Adapters(), py::arg("memory_limit") = 0, py::arg("memory_folder") = "")
      .def_static("restore",
                  [](const Model& model, const std::string& path, std::int64_t context, int threads, const Adapters& adapters, std::int64_t memory_limit, const std::string& memory_folder) {
                    const py::gil_scoped_release free;
                    return std::make_shared<SessionHandle>(Session::restore(
                        model, path, {.context = context, .threads = threads, .adapters = as_library(adapters), .memory = {.limit = memory_limit, .folder = memory_folder}}));
                  },
                  py::arg("model"), py::arg("path"), py::kw_only(), py::arg("context") = 0, py::arg("threads") = 0, py::arg("adapters") = Adapters(), py::arg("memory_limit") = 0,
                  py::arg("memory_folder") = "")
      .def("set_adapters", [](SessionHandle& h, const Adapters& adapters) { h.alone([&](Session& s) { s.set_adapters(as_library(adapters)); }); }, py::arg("adapters"))
      .def("prefill",
           [](SessionHandle& h, const Prompt& prompt) {
             h.alone([&](Session& s) {
               if (const auto* text = std::get_if<std::string>(&prompt)) return s.prefill(*text);
               s.prefill(std::get<1>(prompt));
             });
           },
           py::arg("prompt"))
      .def("stream", &stream, py::arg("prompt"))
      .def("stream_whole", &stream_whole, py::arg("ids"))
      .def("continuations", &continue_texts, py::arg("prompt"), py::arg("count"))
      .def("beam_search", &search_beams, py::arg("prompt"), py::arg("beams"), py::arg("results"), py::arg("max_tokens"),
           py::arg("length_penalty"), py::arg("grammar"))
      .def("logits",
           [](SessionHandle& h) {
             return as_array(h.alone([](Session& s) { return copy_of(s.logits()); }));
           })
      .def("score",
           [](SessionHandle& h, const std::vector<TokenId>& ids) {
             return rows_after(h, ids, h.session.model().config().vocab, &Session::score);
           },
           py::arg("ids"))
      .def("embed",
           [](SessionHandle& h, const Prompt& prompt, const std::optional<std::string>& pooling, std::optional<bool> normalize, std::int64_t dimensions) {
             const EmbedOptions options{.pooling = pooling ? std::optional(find_pooling(*pooling)) : std::nullopt, .normalize = normalize, .dimensions = dimensions};
             return as_array(h.alone([&](Session& s) {
               const auto* text = std::get_if<std::string>(&prompt);
               return copy_of(text != nullptr ? embed(s, *text, options) : embed(s, std::get<1>(prompt), options));
             }));
           },
           py::arg("prompt"), py::arg("pooling"), py::arg("normalize"), py::arg("dimensions"))
      .def("states",
           [](SessionHandle& h, const std::vector<TokenId>& ids) {
             return rows_after(h, ids, h.session.model().config().dim, &Session::states);
           },
           py::arg("ids"))
      .def("fork", [](SessionHandle& h) { return h.alone([](Session& s) { return std::make_shared<SessionHandle>(s.fork()); }); })
      .def("save", [](SessionHandle& h, const std::string& path) { h.alone([&](Session& s) { s.save(path); }); }, py::arg("path"))
      .def("clear", [](SessionHandle& h) { h.alone([](Session& s) { s.clear(); }); })
      .def("truncate", [](SessionHandle& h, std::int64_t count) { h.alone([&](Session& s) { s.truncate(count); }); }, py::arg("count"))
      .def("cancel", [](SessionHandle& h) { h.cancelled = true; })
      .def_property_readonly("tokens", [](SessionHandle& h) { return h.alone([](Session& s) { return s.tokens(); }); })
      .def_property_readonly("context", [](const SessionHandle& h) { return h.session.context(); })
      .def_property_readonly("kv_bytes", [](SessionHandle& h) { return h.alone([](Session& s) { return s.kv_bytes(); }); });
  py::class_<Engine>(m, "Engine")
      .def(py::init([](const Model& model, std::int64_t context, int threads) { return Engine(model, {.context = context, .threads = threads}); }), py::arg("model"), py::kw_only(),
           py::arg("context") = 0, py::arg("threads") = 0)
      .def("embed", &embed_all, py::arg("texts"), py::arg("pooling"), py::arg("normalize"), py::arg("dimensions"), py::arg("truncate"))
      .def("rerank", &rerank_all, py::arg("query"), py::arg("documents"), py::arg("instruction"), py::arg("truncate"))
      .def("classify", &classify_all, py::arg("texts"), py::arg("second"), py::arg("truncate"));
  m.def("default_options", &default_options);
  m.def("perplexity", &measure, py::arg("model"), py::arg("text"), py::arg("base") = nullptr, py::kw_only(), py::arg("context") = 512,
        py::arg("limit") = 0, py::arg("threads") = 0, py::arg("kv") = "f16", py::arg("adapters") = Adapters(), py::arg("progress") = nullptr);
}

}  // namespace bantam::python
