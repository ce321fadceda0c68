// What any thread asks of a scheduler.
#include "bantam/session/scheduler.hpp"

#include "scheduler_impl.hpp"

namespace bantam::inline v0 {

namespace {

SchedulerOptions checked(SchedulerOptions options) {
  constexpr int most = 1024;
  if (options.parallel < 1 || options.parallel > most)
    fail(Errc::invalid_argument, "parallel: expected 1 to ", most, " texts, found ", options.parallel);
  if (options.queue < -1)
    fail(Errc::invalid_argument, "queue: expected -1 (four for each place) or more requests, found ", options.queue);
  if (options.kept < -1) fail(Errc::invalid_argument, "kept: expected -1 (as many as run at once) or more texts, found ", options.kept);
  if (options.step.count() < 1) fail(Errc::invalid_argument, "step: expected at least a millisecond, found ", options.step.count());
  if (options.queue < 0) options.queue = 4 * options.parallel;
  if (options.kept < 0) options.kept = options.parallel;
  return options;
}

}  // namespace

Scheduler::Impl::Impl(Engine e, SchedulerOptions o)
    : engine(std::move(e)), options(checked(std::move(o))), prototype(engine, {.context = options.context, .kv = options.kv}), kept(options.kept),
      costs((SpeculationPolicy::most + 1) * options.parallel), drafts(static_cast<std::size_t>(options.parallel)) {
  if (const ModelConfig& config = engine.model().config(); config.has_source()) {
    fail(Errc::unsupported, "scheduler: expected a model that goes on with a text, found one of type ", config.arch->name, ", whose decoder answers what its encoder reads: see Session");
  }
  prototype.state_->check({.lookup = options.lookup, .mtp = options.mtp});
  if (options.draft) {
    const ModelConfig& small = options.draft->model.config();
    if (small.vocab != engine.model().config().vocab) fail(Errc::invalid_argument, "draft: expected a model of a vocabulary of ", engine.model().config().vocab, " tokens, found one of ", small.vocab);
    if (small.has_source() || !small.arch->causal) fail(Errc::unsupported, "draft: expected a model that goes on with a text, found one of type ", small.arch->name);
    drafting.emplace(options.draft->model, EngineOptions{.context = std::min(engine.context(), small.context), .threads = engine.threads()});
  }
  thread = std::thread([this] { loop(); });
}

Scheduler::Impl::~Impl() {
  {
    const std::lock_guard lock(mutex);
    closed = ending = true;
  }
  changed.notify_all();
  thread.join();
}

void Scheduler::Impl::check(const TextRequest& request) const {
  constexpr std::size_t most_texts = 1024;
  const Session::State& s = *prototype.state_;
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

std::optional<std::uint64_t> Scheduler::Impl::submit(TextRequest request, TextListener listener) {
  request.generate.speculation.draft = nullptr;
  if (!request.adapters) request.adapters = options.adapters;
  check(request);
  const auto job = std::make_shared<Job>(std::move(request), std::move(listener));
  Texts texts;
  for (std::size_t i = 0; i < job->left; ++i) texts.push_back({.job = job, .number = i});
  const std::lock_guard lock(mutex);
  if (closed || unended >= options.parallel + options.queue) {
    ++shown.refused;
    return std::nullopt;
  }
  job->id = ++last_id;
  jobs.emplace(job->id, job);
  ++unended;
  incoming.splice(incoming.end(), texts);
  shown.requests = static_cast<int>(jobs.size());
  changed.notify_all();
  return job->id;
}

void Scheduler::Impl::between_steps(const std::function<void()>& task) {
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

void Scheduler::Impl::check_place(int place) const {
  if (place < 0 || place >= options.parallel) fail(Errc::invalid_argument, "place: expected 0 to ", options.parallel - 1, ", found ", place);
}

void Scheduler::Impl::check_kept(const Session& text) const {
  const Session::State& s = *text.state_;
  if (s.options.kv != options.kv) fail(Errc::invalid_argument, "text: expected keys and values as ", options.kv, ", found ", printable(s.options.kv));
  if (s.context != prototype.context()) fail(Errc::invalid_argument, "text: expected a context of ", prototype.context(), " tokens, found ", s.context);
}

Scheduler::Scheduler(Engine engine, SchedulerOptions options) : impl_(std::make_unique<Impl>(std::move(engine), std::move(options))) {}
Scheduler::~Scheduler() = default;

std::optional<std::uint64_t> Scheduler::submit(TextRequest request, TextListener listener) {
  return impl_->submit(std::move(request), std::move(listener));
}

void Scheduler::cancel(std::uint64_t request) noexcept {
  const std::lock_guard lock(impl_->mutex);
  if (const auto found = impl_->jobs.find(request); found != impl_->jobs.end()) found->second->cancelled = true;
}

void Scheduler::cancel_all() noexcept {
  const std::lock_guard lock(impl_->mutex);
  for (const auto& [id, job] : impl_->jobs) job->cancelled = true;
}

void Scheduler::close() noexcept {
  const std::lock_guard lock(impl_->mutex);
  impl_->closed = true;
}

void Scheduler::limit_places(int most) noexcept { impl_->most_places = std::max(1, most); }
bool Scheduler::wait(std::chrono::milliseconds most) {
  std::unique_lock lock(impl_->mutex);
  return impl_->emptied.wait_for(lock, most, [&] { return impl_->jobs.empty(); });
}

std::int64_t Scheduler::save_text(int place, TextSink sink) {
  impl_->check_place(place);
  std::int64_t tokens = 0;
  impl_->between_steps([&] {
    if (const KeptTexts::One* const found = impl_->kept.of_place(place)) tokens = found->save(sink);
  });
  return tokens;
}

std::int64_t Scheduler::save_kept(std::size_t number, TextSink sink) {
  std::int64_t tokens = 0;
  impl_->between_steps([&] {
    if (const KeptTexts::One* const found = impl_->kept.at(number)) tokens = found->save(sink);
  });
  return tokens;
}

void Scheduler::keep_text(int place, Session text) {
  if (!impl_->engine.runs_like(text.engine())) fail(Errc::invalid_argument, "text: expected a session on the scheduler's engine");
  impl_->check_kept(text);
  if (place >= 0) impl_->check_place(place);
  impl_->between_steps([&] {
    if (const KeptTexts::One* const found = place < 0 ? nullptr : impl_->kept.of_place(place)) impl_->kept.forget(*found);
    impl_->kept.keep(std::make_unique<Session>(std::move(text)), place);
    impl_->show();
  });
}

std::int64_t Scheduler::forget_text(int place) {
  impl_->check_place(place);
  std::int64_t tokens = 0;
  impl_->between_steps([&] {
    while (const KeptTexts::One* const found = impl_->kept.of_place(place)) {
      tokens = std::max(tokens, std::ssize(found->session->tokens()));
      impl_->kept.forget(*found);
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
