// The queue, the thread, and what a step does.
#include "bantam/session/scheduler.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <future>
#include <list>
#include <map>
#include <mutex>
#include <new>
#include <thread>

#include "bantam/model/forward.hpp"
#include "state.hpp"

namespace bantam::inline v0 {

namespace {

using SchedulerClock = std::chrono::steady_clock;

double ms_between(SchedulerClock::time_point from, SchedulerClock::time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

/// How much of two sequences is the same from the beginning.
std::size_t common_length(std::span<const TokenId> a, std::span<const TokenId> b) {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

/// A token with the log probabilities that go with it: over (vocab) logits, `top` of them beside its own.
DrawnToken described(TokenId id, std::span<const float> logits, int top) {
  DrawnToken token{.id = id};
  if (top < 0) return token;
  const float highest = std::ranges::max(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit - highest));
  const double log_total = static_cast<double>(highest) + std::log(sum);
  const auto logprob = [&](TokenId of) {
    return static_cast<float>(static_cast<double>(logits[static_cast<std::size_t>(of)]) - log_total);
  };
  token.logprob = logprob(id);
  if (top == 0) return token;
  std::vector<TokenId> order(logits.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<TokenId>(i);
  const auto better = [&](TokenId a, TokenId b) {
    const float x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
    return x > y || (x == y && a < b);
  };
  const auto count = std::min(order.size(), static_cast<std::size_t>(top));
  std::ranges::partial_sort(order, order.begin() + static_cast<std::ptrdiff_t>(count), better);
  for (std::size_t i = 0; i < count; ++i) token.top.emplace_back(order[i], logprob(order[i]));
  return token;
}

}  // namespace

struct Scheduler::Impl {
  struct Job {
    Job(TextRequest r, TextListener l)
        : request(std::move(r)), listener(std::move(l)), adapters(fingerprint_of(*request.adapters)),
          left(request.prompts.size() * static_cast<std::size_t>(request.count)), read(request.prompts.size()) {}

    TextRequest request;
    TextListener listener;
    std::uint64_t adapters;  ///< their fingerprint: texts of others are of no use
    std::size_t left;  ///< texts that did not end
    std::uint64_t id = 0;
    SchedulerClock::time_point came = SchedulerClock::now();
    std::atomic<bool> cancelled{false};
    bool begun = false;  ///< one of its texts has, or had, a place
    std::vector<std::unique_ptr<Session>> read;  ///< of each prompt that several texts go on from, when it is read, until the last of them did
  };

  struct Text {
    std::shared_ptr<Job> job;
    std::size_t number = 0;
    std::unique_ptr<Session> session = {};  // from when it has a place on
    std::optional<TextRange> range = {};    // from when the prompt is there on
    TextStats stats = {};
    SchedulerClock::time_point placed = {}, first_token = {};

    [[nodiscard]] std::size_t prompt() const { return number / static_cast<std::size_t>(job->request.count); }
    [[nodiscard]] std::size_t choice() const { return number % static_cast<std::size_t>(job->request.count); }
    [[nodiscard]] const std::vector<TokenId>& tokens() const { return job->request.prompts[prompt()]; }
    [[nodiscard]] bool is_reading() const { return !range.has_value(); }
    /// It waits for another one to read what it shares with that.
    [[nodiscard]] bool is_blocked() const { return choice() > 0 && job->read[prompt()] == nullptr; }
  };
  using Texts = std::list<Text>;

  /// A text that ended.
  struct KeptText {
    std::unique_ptr<Session> session;
    int place;

    [[nodiscard]] SavedText save() const {
      SavedText saved{.tokens = std::ssize(session->tokens())};
      session->save_to([&](std::span<const std::byte> part) { saved.bytes.append(reinterpret_cast<const char*>(part.data()), part.size()); });
      return saved;
    }
  };
  using KeptTexts = std::list<KeptText>;

  Impl(Engine e, SchedulerOptions o)
      : engine(std::move(e)), options(std::move(o)), prototype(engine, {.context = options.context, .kv = options.kv}) {
    if (const ModelConfig& config = engine.model().config(); config.has_source()) {
      fail(Errc::unsupported, "scheduler: expected a model that goes on with a text, found one of type ", config.arch->name, ", whose decoder answers what its encoder reads: see Session");
    }
    constexpr int most = 1024;
    if (options.parallel < 1 || options.parallel > most)
      fail(Errc::invalid_argument, "parallel: expected 1 to ", most, " texts, found ", options.parallel);
    if (options.queue < -1)
      fail(Errc::invalid_argument, "queue: expected -1 (four for each place) or more requests, found ", options.queue);
    if (options.kept < -1) fail(Errc::invalid_argument, "kept: expected -1 (as many as run at once) or more texts, found ", options.kept);
    if (options.step.count() < 1) fail(Errc::invalid_argument, "step: expected at least a millisecond, found ", options.step.count());
    if (options.queue < 0) options.queue = 4 * options.parallel;
    if (options.kept < 0) options.kept = options.parallel;
    thread = std::thread([this] { loop(); });
  }

  ~Impl() {
    {
      const std::lock_guard lock(mutex);
      closed = ending = true;
    }
    changed.notify_all();
    thread.join();
  }

  // ---------------------------------------------------------------- from any thread

  [[nodiscard]] const Session::State& state_of_prototype() const { return *prototype.state_; }

  void check(const TextRequest& request) const {
    constexpr std::size_t most_texts = 1024;
    const Session::State& s = state_of_prototype();
    if (request.count < 1 || request.prompts.empty() || request.prompts.size() > most_texts / static_cast<std::size_t>(request.count)) {
      fail(Errc::invalid_argument, "request: expected 1 to ", most_texts, " texts, found ", request.prompts.size(),
           " prompts and ", request.count, " texts for each");
    }
    for (const std::vector<TokenId>& prompt : request.prompts) {
      if (prompt.empty()) fail(Errc::invalid_argument, "prompt: expected at least one token, found none");
      s.check_room(std::ssize(prompt));
      engine.check(prompt);
    }
    if (request.place < -1) fail(Errc::invalid_argument, "place: expected -1 (any) or more, found ", request.place);
    s.check(*request.adapters);
    s.check(request.generate);
    (void)s.sampler_of(request.generate.sampling);
    (void)s.matcher_of(request.generate);
  }

  std::optional<std::uint64_t> submit(TextRequest request, TextListener listener) {
    request.generate.speculation = {};
    if (!request.adapters) request.adapters = options.adapters;
    check(request);
    const auto job = std::make_shared<Job>(std::move(request), std::move(listener));
    const std::lock_guard lock(mutex);
    if (closed || std::ssize(jobs) >= options.parallel + options.queue) {
      ++shown.refused;
      return std::nullopt;
    }
    job->id = ++last_id;
    jobs.emplace(job->id, job);
    incoming.push_back(job);
    shown.requests = static_cast<int>(jobs.size());
    changed.notify_all();
    return job->id;
  }

  void cancel(std::uint64_t id) noexcept {
    const std::lock_guard lock(mutex);
    if (const auto found = jobs.find(id); found != jobs.end()) found->second->cancelled = true;
  }

  /// Runs `task` on the scheduler's thread when the step at hand is over, and waits for it.
  void between_steps(const std::function<void()>& task) {
    std::packaged_task<void()> packaged(task);
    std::future<void> done = packaged.get_future();
    {
      const std::lock_guard lock(mutex);
      if (ending) fail(Errc::cancelled, "scheduler: expected one that runs, found one that ended");
      tasks.push_back(std::move(packaged));
    }
    changed.notify_all();
    done.get();
  }

  /// The last of them that had a place; the end where none did.
  [[nodiscard]] KeptTexts::iterator kept_of(int place) {
    if (place < 0 || place >= options.parallel) fail(Errc::invalid_argument, "place: expected 0 to ", options.parallel - 1, ", found ", place);
    return std::ranges::find(kept, place, &KeptText::place);
  }

  /// Throws invalid_argument for a text that none here would go on from.
  void check_kept(const Session& text) const {
    const Session::State& s = *text.state_;
    if (s.options.kv != options.kv) fail(Errc::invalid_argument, "text: expected keys and values as ", options.kv, ", found ", printable(s.options.kv));
    if (s.context != prototype.context()) fail(Errc::invalid_argument, "text: expected a context of ", prototype.context(), " tokens, found ", s.context);
  }

  bool wait(std::chrono::milliseconds most) {
    std::unique_lock lock(mutex);
    return emptied.wait_for(lock, most, [&] { return jobs.empty(); });
  }

  // ---------------------------------------------------------------- on the scheduler's thread

  void loop() {
    for (;;) {
      bool ends = false;
      std::vector<std::packaged_task<void()>> doing;
      {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return ending || !incoming.empty() || !tasks.empty() || !waiting.empty() || !running.empty(); });
        for (const std::shared_ptr<Job>& job : incoming) {
          for (std::size_t i = 0; i < job->left; ++i) waiting.push_back({.job = job, .number = i});
        }
        incoming.clear();
        doing = std::exchange(tasks, {});
        ends = ending;
      }
      for (std::packaged_task<void()>& task : doing) task();
      doing.clear();
      if (ends) {
        end_all(waiting, TextEnd::cancelled);
        end_all(running, TextEnd::cancelled);
        return;
      }
      end_unwanted(waiting);
      end_unwanted(running);
      give_places();
      if (!running.empty()) step();
      show();
    }
  }

  void show() {
    std::int64_t bytes = 0;
    for (const KeptText& text : kept) bytes += text.session->kv_bytes();
    for (const Text& text : running) bytes += text.session ? text.session->kv_bytes() : 0;
    const std::lock_guard lock(mutex);
    counts.parallel = options.parallel;
    counts.context = prototype.context();
    counts.running = static_cast<int>(running.size());
    counts.waiting = static_cast<int>(waiting.size());
    counts.kept = static_cast<int>(kept.size());
    counts.kv_bytes = bytes;
    counts.requests = static_cast<int>(jobs.size());
    counts.refused = shown.refused;
    shown = counts;
  }

  void tell(Text& text, TextUpdate update) {
    update.text = text.number;
    try {
      text.job->listener(update);
    } catch (...) {
      text.job->cancelled = true;  // nobody is there to listen
    }
  }

  /// The last that is heard of a text, with the piece that its last step brought. The caller takes it out of its list.
  void finish(Text& text, TextEnd end, std::string_view error = {}, std::span<const DrawnToken> tokens = {}) {
    if (text.first_token != SchedulerClock::time_point{}) text.stats.generate_ms = ms_between(text.first_token, SchedulerClock::now());
    TextUpdate update{.tokens = tokens, .end = end, .error = error, .stats = text.stats};
    const bool whole = end == TextEnd::stop || end == TextEnd::length;
    if (whole) update.piece = text.range->piece_;
    if (whole) update.stop_text = text.range->stop_text_;
    tell(text, update);
    text.range.reset();
    if (end != TextEnd::failed && text.job->request.reuse) keep(std::move(text.session), text.stats.place);
    text.session.reset();
    if (--text.job->left > 0) return;
    text.job->listener = {};
    const std::lock_guard lock(mutex);
    jobs.erase(text.job->id);
    const std::string& client = text.job->request.client;
    if (std::ranges::none_of(jobs, [&](const auto& job) { return job.second->request.client == client; })) last_place.erase(client);
    shown.requests = static_cast<int>(jobs.size());
    if (jobs.empty()) emptied.notify_all();
  }

  void end_all(Texts& texts, TextEnd end) {
    for (Text& text : texts) finish(text, end);
    texts.clear();
  }

  /// What nobody waits for any more.
  void end_unwanted(Texts& texts) {
    const auto now = SchedulerClock::now();
    for (auto text = texts.begin(); text != texts.end();) {
      const std::optional<TextEnd> end = unwanted(*text->job, now);
      if (end) finish(*text, *end);
      text = end ? texts.erase(text) : std::next(text);
    }
  }

  static std::optional<TextEnd> unwanted(const Job& job, SchedulerClock::time_point now) {
    if (job.cancelled) return TextEnd::cancelled;
    const TextRequest& r = job.request;
    if (r.most_time.count() > 0 && now - job.came > r.most_time) return TextEnd::late;
    if (!job.begun && r.most_waiting.count() > 0 && now - job.came > r.most_waiting) return TextEnd::late;
    return std::nullopt;
  }

  /// Keeps what was read for prompts that begin like it, in the place of what was wanted longest ago.
  void keep(std::unique_ptr<Session> session, int place) {
    if (!session || options.kept == 0) return;
    Session::State& s = *session->state_;
    // Of a prompt that was not read to its end, what was.
    if (static_cast<std::int64_t>(s.tokens.size()) > s.sequence.tokens() + 1)
      s.tokens.resize(static_cast<std::size_t>(s.sequence.tokens()));
    s.sampler.reset();
    s.matcher.reset();
    s.logits = {};
    if (s.tokens.empty()) return;
    kept.push_front({std::move(session), place});
    while (std::ssize(kept) > options.kept) kept.pop_back();
  }

  void give_places() {
    while (std::ssize(running) < options.parallel) {
      std::map<std::string_view, int> places;
      for (const Text& text : running) ++places[text.job->request.client];
      // Who has the fewest places, and of those who was given one longest ago.
      using Claim = std::pair<int, std::uint64_t>;
      const auto claim_of = [&](const Text& text) -> Claim {
        const auto has = places.find(text.job->request.client);
        const auto given = last_place.find(text.job->request.client);
        return {has == places.end() ? 0 : has->second, given == last_place.end() ? 0 : given->second};
      };
      auto chosen = waiting.end();
      Claim best{};
      for (auto text = waiting.begin(); text != waiting.end(); ++text) {
        if (text->is_blocked() || is_being_read(*text)) continue;
        const Claim claim = claim_of(*text);
        if (chosen != waiting.end() && claim >= best) continue;
        chosen = text;
        best = claim;
      }
      if (chosen == waiting.end()) return;
      last_place[chosen->job->request.client] = ++places_given;
      running.splice(running.end(), waiting, chosen);
      begin(running.back());
    }
  }

  void begin(Text& text) {
    text.job->begun = true;
    text.stats.place = free_place(text);
    text.placed = SchedulerClock::now();
    text.stats.waited_ms = ms_between(text.job->came, text.placed);
    text.stats.prompt_tokens = std::ssize(text.tokens());
    try {
      if (text.choice() == 0) {
        start_reading(text);
      } else {
        std::unique_ptr<Session>& read = text.job->read[text.prompt()];
        const bool is_last = static_cast<int>(text.choice()) + 1 == text.job->request.count;
        text.session = is_last ? std::move(read) : std::make_unique<Session>(read->fork());
        text.stats.reused_tokens = text.stats.prompt_tokens;
        counts.reused_tokens += text.stats.reused_tokens;
        start_generating(text);
      }
    } catch (...) {
      fail_current(text);
    }
  }

  /// A place that nobody has, the one that is wanted if it is one of them.
  [[nodiscard]] int free_place(const Text& text) const {
    const auto is_free = [&](int place) {
      return std::ranges::none_of(running, [&](const Text& other) { return &other != &text && other.stats.place == place; });
    };
    const int wanted = text.number == 0 ? text.job->request.place : -1;
    if (wanted >= 0 && wanted < options.parallel && is_free(wanted)) return wanted;
    int place = 0;
    while (!is_free(place)) ++place;
    return place;
  }

  /// What of a prompt has been read before, at most, and by whom.
  struct Known {
    std::size_t common = 0;
    const Session* session = nullptr;
    KeptTexts::iterator kept;  ///< where it is kept; the end for those that run
  };

  /// What of its prompt a text may take over: all but the last token, which is always read, as logits are known only behind what was.
  static std::span<const TokenId> sought_by(const Text& text) {
    const std::span<const TokenId> prompt = text.tokens();
    return prompt.first(text.job->request.reuse ? prompt.size() - 1 : 0);
  }

  [[nodiscard]] Known known_of(const Text& text) {
    const std::span<const TokenId> sought = sought_by(text);
    Known known{.kept = kept.end()};
    for (auto other = kept.begin(); other != kept.end(); ++other) {
      if (fingerprint_of(other->session->adapters()) != text.job->adapters) continue;
      const std::size_t same = common_length(sought, other->session->tokens());
      if (same > known.common) known = {same, other->session.get(), other};
    }
    for (const Text& other : running) {
      if (!other.session || other.job->adapters != text.job->adapters) continue;
      const Session::State& s = *other.session->state_;
      const auto read = std::min(s.tokens.size(), static_cast<std::size_t>(s.sequence.tokens()));
      const std::size_t same = common_length(sought, std::span(s.tokens).first(read));
      if (same > known.common) known = {same, other.session.get(), kept.end()};
    }
    return known;
  }

  /// Whether another text is about to read so much of the same beginning that it is better waited for than read twice.
  [[nodiscard]] bool is_being_read(const Text& text) {
    // A page of keys and values.
    constexpr std::size_t worth_it = 64;
    if (text.choice() > 0) return false;
    const std::span<const TokenId> sought = sought_by(text);
    std::size_t coming = 0;
    for (const Text& other : running) {
      const bool is_alike = other.session && other.is_reading() && other.job->adapters == text.job->adapters;
      if (is_alike) coming = std::max(coming, common_length(sought, other.session->tokens()));
    }
    return coming >= worth_it && coming >= known_of(text).common + worth_it;
  }

  /// With a session that holds as much of the prompt as any other one does; the rest waits to be read.
  void start_reading(Text& text) {
    const auto [common, from, from_kept] = known_of(text);
    // A conversation that went on loses next to nothing. Of another one that begins like it a fork leaves the rest as it is, as long as
    // that takes no other's place.
    const std::size_t lost = from_kept == kept.end() ? 0 : from->tokens().size() - common;
    const bool goes_on = 16 * lost <= common || (std::ssize(kept) >= options.kept && lost <= common);
    if (from_kept != kept.end() && goes_on) {
      text.session = std::move(from_kept->session);
      kept.erase(from_kept);
    } else if (from != nullptr) {
      text.session = std::make_unique<Session>(from->fork());
      if (from_kept != kept.end()) kept.splice(kept.begin(), kept, from_kept);
    } else {
      text.session = std::make_unique<Session>(engine, SessionOptions{.context = options.context, .kv = options.kv, .adapters = *text.job->request.adapters, .memory = options.memory});
    }
    Session::State& s = *text.session->state_;
    s.drop_from(common);
    s.forget_reply();
    text.stats.reused_tokens = s.sequence.tokens();
    counts.reused_tokens += text.stats.reused_tokens;
    s.tokens = text.tokens();
  }

  void start_generating(Text& text) {
    GenerateOptions generate = text.job->request.generate;
    generate.sampling.seed += text.choice();
    text.range = text.session->stream(std::span<const TokenId>{}, std::move(generate));
    text.range->started_ = true;
  }

  /// The prompt is read: others that go on from it may begin.
  static void share_prompt(const Text& first) {
    if (first.job->request.count > 1)
      first.job->read[first.prompt()] = std::make_unique<Session>(first.session->fork());
  }

  /// Ends a text with the exception that is being handled, and those that wait for what it should have read.
  void fail_current(Text& text) {
    std::string error;
    try {
      throw;
    } catch (const std::bad_alloc&) {
      error = "out of memory";
    } catch (const std::exception& e) {
      error = e.what();
    }
    fail_with(text, error);
  }

  void fail_with(Text& text, const std::string& error) {
    const auto job = text.job;
    const std::size_t prompt = text.prompt();
    const bool was_reading = text.is_reading();
    finish(text, TextEnd::failed, error);
    std::erase_if(running, [&](const Text& other) { return &other == &text; });
    if (!was_reading) return;
    for (auto other = waiting.begin(); other != waiting.end();) {
      const bool hangs = other->job == job && other->prompt() == prompt && other->is_blocked();
      if (hangs) finish(*other, TextEnd::failed, error);
      other = hangs ? waiting.erase(other) : std::next(other);
    }
  }

  /// Tokens of prompts to read in a step. Alone they get whole passes: a pass costs little more than its weights.
  [[nodiscard]] std::int64_t reading_room(std::int64_t generating, std::int64_t readers) const {
    const std::int64_t most = std::max<std::int64_t>(1, Forward::largest_chunk - generating);
    if (generating == 0 || seconds_per_token == 0) return most;
    // Fewer would read the weights for next to nothing.
    constexpr std::int64_t least = 32;
    const auto fitting = static_cast<std::int64_t>(std::chrono::duration<double>(options.step).count() / seconds_per_token);
    return std::min(most, std::max({least, readers, fitting}));
  }

  void step() {
    std::vector<Text*> generating, reading;
    for (Text& text : running) (text.is_reading() ? reading : generating).push_back(&text);
    std::vector<Text*> in_pass;
    std::vector<Engine::Sequence> sequences;
    for (Text* text : generating) {
      Session::State& s = *text->session->state_;
      // Forks of a prompt know their logits, and what may write no token needs none.
      if (!s.logits.empty() || text->range->at_limit()) continue;
      sequences.push_back(s.unread());
      in_pass.push_back(text);
    }
    const auto tokens_left = [](const Text* text) {
      const Session::State& s = *text->session->state_;
      return static_cast<std::int64_t>(s.tokens.size()) - s.sequence.tokens();
    };
    // The shortest first: a short prompt does not wait for a long one, and what it leaves goes to the others.
    std::ranges::stable_sort(reading, {}, tokens_left);
    std::int64_t readers = std::ssize(reading), room = reading_room(std::ssize(sequences), readers), read = 0;
    for (Text* text : reading) {
      Session::State& s = *text->session->state_;
      const std::int64_t count = std::min(tokens_left(text), (room + readers - 1) / readers);
      --readers;
      if (count == 0) continue;
      room -= count;
      read += count;
      const auto begin = static_cast<std::size_t>(s.sequence.tokens());
      const bool whole = count == tokens_left(text);
      sequences.push_back({.tokens = std::span<const TokenId>(s.tokens).subspan(begin, static_cast<std::size_t>(count)),
                           .state = &s.sequence,
                           .first_output = whole ? count - 1 : count,
                           .adapters = s.options.adapters});
      in_pass.push_back(text);
    }
    if (!sequences.empty() && !pass(in_pass, sequences, read)) return;
    for (Text* text : reading) {
      if (tokens_left(text) == 0) generate_from_now(*text, generating);
    }
    ++counts.steps;
    counts.stepped_texts += std::ssize(generating);
    for (Text* text : generating) draw(*text);
  }

  void generate_from_now(Text& text, std::vector<Text*>& generating) {
    try {
      // The next turn of a conversation may begin here again: templates leave out what was thought.
      text.session->state_->sequence.keep_checkpoint();
      share_prompt(text);
      start_generating(text);
      generating.push_back(&text);
    } catch (...) {
      fail_current(text);
    }
  }

  /// Reads. False where nothing came of it: the next step tries again with what is left.
  bool pass(const std::vector<Text*>& texts, const std::vector<Engine::Sequence>& sequences, std::int64_t prompt_tokens) {
    const Stopwatch watch;
    const auto sink = [&](std::int64_t i, std::int64_t, std::span<const float> row) {
      texts[static_cast<std::size_t>(i)]->session->state_->logits.assign(row.begin(), row.end());
    };
    // A long pass that nobody waits for is not worth its end.
    const auto keep_going = [&](std::int64_t) {
      return std::ranges::any_of(texts, [](const Text* text) { return !text->job->cancelled; });
    };
    try {
      engine.run(sequences, sink, keep_going);
    } catch (const Error& error) {
      if (error.code() == Errc::cancelled) return false;
      give_way(texts, error.code() == Errc::out_of_memory, error.what());
      return false;
    } catch (const std::bad_alloc&) {
      give_way(texts, true, "out of memory");
      return false;
    }
    const double seconds = watch.seconds();
    counts.prompt_tokens += prompt_tokens;
    (prompt_tokens > 0 ? counts.prompt_seconds : counts.generate_seconds) += seconds;
    // What passes cost depends on how many tokens they have: those with enough of them tell.
    if (prompt_tokens >= 32) {
      const double now = seconds / static_cast<double>(prompt_tokens);
      seconds_per_token = seconds_per_token == 0 ? now : 0.75 * seconds_per_token + 0.25 * now;
    }
    return true;
  }

  /// After a pass that failed: memory is made, or those who were in it end.
  void give_way(const std::vector<Text*>& texts, bool no_memory, const std::string& error) {
    if (no_memory && !kept.empty()) return kept.clear();
    if (no_memory) return fail_with(running.back(), error);
    for (Text* text : texts) fail_with(*text, error);
  }

  /// The next token of a text whose logits are known, or its end.
  void draw(Text& text) {
    try {
      Session::State& s = *text.session->state_;
      TextRange& range = *text.range;
      range.piece_.clear();
      std::vector<DrawnToken> drawn;
      if (range.at_limit()) {
        range.finish(Finish::length);
      } else {
        if (text.first_token == SchedulerClock::time_point{}) {
          text.first_token = SchedulerClock::now();
          text.stats.prompt_ms = ms_between(text.placed, text.first_token);
        }
        if (range.choose(s.logits)) {
          const auto vocab = static_cast<std::size_t>(s.vocab());
          drawn.push_back(described(range.tokens_.back(), std::span<const float>(s.logits).first(vocab), text.job->request.top_logprobs));
          s.logits.clear();
          ++text.stats.generated_tokens;
          ++counts.generated_tokens;
          counts.most_tokens = std::max(counts.most_tokens, std::ssize(s.tokens));
          // Known now, and nobody has to wait another step for it.
          if (range.finish_ == Finish::running && range.at_limit()) range.finish(Finish::length);
        }
      }
      if (range.finish_ == Finish::running) return tell(text, {.piece = range.piece_, .tokens = drawn, .stats = text.stats});
      finish(text, range.finish_ == Finish::length ? TextEnd::length : TextEnd::stop, {}, drawn);
      std::erase_if(running, [&](const Text& other) { return &other == &text; });
    } catch (...) {
      fail_current(text);
    }
  }

  Engine engine;
  SchedulerOptions options;
  const Session prototype;  ///< checks requests; reads nothing

  mutable std::mutex mutex;  // of what follows
  std::condition_variable changed, emptied;
  std::map<std::uint64_t, std::shared_ptr<Job>> jobs;  ///< that did not end
  std::vector<std::shared_ptr<Job>> incoming;
  std::vector<std::packaged_task<void()>> tasks;  ///< of between_steps()
  std::uint64_t last_id = 0;
  bool closed = false, ending = false;
  SchedulerStats shown;

  // The thread's own.
  Texts waiting, running;
  KeptTexts kept;  ///< wanted last first
  std::map<std::string, std::uint64_t> last_place;  ///< of clients with requests at hand: when one of them got a place
  std::uint64_t places_given = 0;
  SchedulerStats counts;
  double seconds_per_token = 0;  ///< of prompts

  std::thread thread;
};

Scheduler::Scheduler(Engine engine, SchedulerOptions options) : impl_(std::make_unique<Impl>(std::move(engine), std::move(options))) {}
Scheduler::~Scheduler() = default;

std::optional<std::uint64_t> Scheduler::submit(TextRequest request, TextListener listener) {
  return impl_->submit(std::move(request), std::move(listener));
}

void Scheduler::cancel(std::uint64_t request) noexcept { impl_->cancel(request); }

void Scheduler::cancel_all() noexcept {
  const std::lock_guard lock(impl_->mutex);
  for (const auto& [id, job] : impl_->jobs) job->cancelled = true;
}

void Scheduler::close() noexcept {
  const std::lock_guard lock(impl_->mutex);
  impl_->closed = true;
}

bool Scheduler::wait(std::chrono::milliseconds most) { return impl_->wait(most); }
SavedText Scheduler::save_text(int place) {
  SavedText saved;
  impl_->between_steps([&] {
    if (const auto found = impl_->kept_of(place); found != impl_->kept.end()) saved = found->save();
  });
  return saved;
}

SavedText Scheduler::save_kept(std::size_t number) {
  SavedText saved;
  impl_->between_steps([&] {
    if (number < impl_->kept.size()) saved = std::next(impl_->kept.begin(), static_cast<std::ptrdiff_t>(number))->save();
  });
  return saved;
}

void Scheduler::keep_text(int place, Session text) {
  if (!impl_->engine.runs_like(text.engine())) fail(Errc::invalid_argument, "text: expected a session on the scheduler's engine");
  impl_->check_kept(text);
  impl_->between_steps([&] {
    if (place >= 0) {
      if (const auto found = impl_->kept_of(place); found != impl_->kept.end()) impl_->kept.erase(found);
    }
    impl_->keep(std::make_unique<Session>(std::move(text)), place);
    impl_->show();
  });
}

std::int64_t Scheduler::forget_text(int place) {
  std::int64_t tokens = 0;
  impl_->between_steps([&] {
    for (auto found = impl_->kept_of(place); found != impl_->kept.end(); found = impl_->kept_of(place)) {
      tokens = std::max(tokens, std::ssize(found->session->tokens()));
      impl_->kept.erase(found);
    }
    impl_->show();
  });
  return tokens;
}

const Engine& Scheduler::engine() const noexcept { return impl_->engine; }
std::int64_t Scheduler::context() const noexcept { return impl_->prototype.context(); }

SchedulerStats Scheduler::stats() const {
  const std::lock_guard lock(impl_->mutex);
  SchedulerStats stats = impl_->shown;
  stats.parallel = impl_->options.parallel;
  stats.context = impl_->prototype.context();
  return stats;
}

}  // namespace bantam::inline v0
