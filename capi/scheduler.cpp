// Many requests at once, and callbacks with what each step brought.
#include "bantam/session/scheduler.hpp"

#include "objects.hpp"

using namespace bantam;
using namespace bantam::capi;

struct bantam_scheduler {
  Scheduler scheduler;
};

namespace {

/// Of struct fields that say milliseconds.
std::chrono::milliseconds duration_of(std::int64_t ms, std::string_view name) {
  // A thousand years, which clocks can still add to.
  constexpr std::int64_t most = std::int64_t{31'557'600'000} * 1000;
  if (ms < 0 || ms > most) fail(Errc::invalid_argument, name, ": expected 0 to ", most, " ms, found ", ms);
  return std::chrono::milliseconds(ms);
}

/// Tokens as C has them.
struct Tokens {
  explicit Tokens(std::span<const DrawnToken> tokens) {
    std::size_t tops = 0;
    for (const DrawnToken& token : tokens) tops += token.top.size();
    ids.reserve(tops);
    logprobs.reserve(tops);
    for (const DrawnToken& token : tokens) {
      all.push_back({token.id, token.logprob, ids.data() + ids.size(), logprobs.data() + logprobs.size(), token.top.size()});
      for (const auto& [id, logprob] : token.top) {
        ids.push_back(id);
        logprobs.push_back(logprob);
      }
    }
  }
  Tokens(const Tokens&) = delete;
  Tokens& operator=(const Tokens&) = delete;

  std::vector<bantam_drawn_token> all;
  std::vector<std::int32_t> ids;  ///< of the most probable ones
  std::vector<float> logprobs;
};

/// Hands updates to a callback of C.
class UpdateCallback {
 public:
  UpdateCallback(bantam_update_callback callback, void* user) : callback_(callback), user_(user) {}

  void operator()(const TextUpdate& update) const {
    const Tokens tokens(update.tokens), prompt(update.prompt);
    bantam_text_update out = BANTAM_TEXT_UPDATE_INIT;
    out.text = update.text;
    out.piece = update.piece.empty() ? "" : update.piece.data();
    out.piece_bytes = update.piece.size();
    out.tokens = tokens.all.data();
    out.token_count = tokens.all.size();
    out.prompt = prompt.all.data();
    out.prompt_count = prompt.all.size();
    out.end = static_cast<bantam_text_end>(update.end);
    if (update.end == TextEnd::failed) out.status = update.code ? -static_cast<bantam_status>(*update.code) : BANTAM_INTERNAL;
    out.error = update.error.empty() ? "" : update.error.data();
    out.stop_text = update.stop_text.empty() ? "" : update.stop_text.data();
    out.prompt_tokens = update.stats.prompt_tokens;
    out.reused_tokens = update.stats.reused_tokens;
    out.generated_tokens = update.stats.generated_tokens;
    out.waited_ms = update.stats.waited_ms;
    out.prompt_ms = update.stats.prompt_ms;
    out.generate_ms = update.stats.generate_ms;
    out.guessed_tokens = update.stats.guessed_tokens;
    out.right_guesses = update.stats.right_guesses;
    // What a listener throws cancels its request.
    if (callback_(&out, user_) != 0 && update.end == TextEnd::running) fail(Errc::cancelled, "request: cancelled by its callback");
  }

 private:
  bantam_update_callback callback_;
  void* user_;
};

/// A request by what `prompt` gives for the options of its text.
template <class Prompt>
bantam_status submit(bantam_scheduler* scheduler, std::uint64_t* request, const bantam_request_options* given, bantam_update_callback callback, void* user, Prompt&& prompt) {
  return guarded([&] {
    Scheduler& s = need(scheduler, "scheduler").scheduler;
    if (callback == nullptr) fail(Errc::invalid_argument, "callback: expected a function, found NULL");
    const bantam_request_options initial = BANTAM_REQUEST_OPTIONS_INIT;
    const bantam_request_options o = options_of(given, initial, "request options");
    const bantam_generate_options generate = read_options(o.generate);
    const Tokenizer& tokenizer = s.engine().model().tokenizer();
    TextRequest asked{.prompts = {prompt(tokenizer, encode_options(generate.flags))},
                      .count = o.texts,
                      .generate = generate_options_of(generate, tokenizer),
                      .top_logprobs = o.top_logprobs,
                      .prompt_logprobs = o.prompt_logprobs,
                      .reuse = o.no_reuse == 0};
    if (o.adapters != nullptr) asked.adapters = adapters_of(o.adapters, o.adapter_scales, o.adapter_count);
    asked.priority = o.priority;
    if (o.client != nullptr) asked.client = o.client;
    asked.most_waiting = duration_of(o.most_waiting_ms, "most_waiting_ms");
    asked.most_time = duration_of(o.most_time_ms, "most_time_ms");
    const std::uint64_t id = s.submit(std::move(asked), UpdateCallback(callback, user)).value_or(0);
    if (request != nullptr) *request = id;
  });
}

}  // namespace

extern "C" {

bantam_status bantam_scheduler_new(bantam_scheduler** scheduler, const bantam_model* model, const bantam_scheduler_options* options) {
  return guarded([&] {
    bantam_scheduler*& out = need(scheduler, "scheduler");
    const bantam_scheduler_options initial = BANTAM_SCHEDULER_OPTIONS_INIT;
    const bantam_scheduler_options o = options_of(options, initial, "scheduler options");
    SchedulerOptions made{.parallel = o.parallel,
                          .queue = o.queue,
                          .kept = o.kept,
                          .kv = &need(o.kv, "kv"),
                          .adapters = adapters_of(o.adapters, o.adapter_scales, o.adapter_count),
                          .memory = state_memory_of(o.settings, o.setting_count),
                          .step = std::chrono::milliseconds(o.step_ms),
                          .lookup = o.lookup,
                          .mtp = o.mtp};
    if (o.draft != nullptr) made.draft = DraftModel{model_of(o.draft)};
    out = new bantam_scheduler{Scheduler(Engine(model_of(model), {.context = o.context_tokens, .threads = o.threads}), made)};
  });
}

void bantam_scheduler_free(bantam_scheduler* scheduler) { delete scheduler; }

bantam_status bantam_scheduler_submit(bantam_scheduler* scheduler, uint64_t* request, const char* prompt, size_t bytes,
                                      const bantam_request_options* options, bantam_update_callback callback, void* user) {
  return submit(scheduler, request, options, callback, user,
                [&](const Tokenizer& tokenizer, EncodeOptions encode) { return tokenizer.encode(text_of(prompt, bytes, "prompt"), encode); });
}

bantam_status bantam_scheduler_submit_tokens(bantam_scheduler* scheduler, uint64_t* request, const int32_t* prompt, size_t count,
                                             const bantam_request_options* options, bantam_update_callback callback, void* user) {
  return submit(scheduler, request, options, callback, user, [&](const Tokenizer&, EncodeOptions) {
    const std::span<const TokenId> ids = ids_of(prompt, count);
    return std::vector<TokenId>(ids.begin(), ids.end());
  });
}

void bantam_scheduler_cancel(bantam_scheduler* scheduler, uint64_t request) {
  if (scheduler != nullptr) scheduler->scheduler.cancel(request);
}

void bantam_scheduler_cancel_all(bantam_scheduler* scheduler) {
  if (scheduler != nullptr) scheduler->scheduler.cancel_all();
}

void bantam_scheduler_close(bantam_scheduler* scheduler) {
  if (scheduler != nullptr) scheduler->scheduler.close();
}

int bantam_scheduler_wait(bantam_scheduler* scheduler, int64_t most_ms) {
  constexpr std::int64_t day = 86'400'000;  // which clocks can add to now; nobody notices that longer waits are asked for again
  if (scheduler == nullptr) return 1;
  for (std::int64_t left = std::max<std::int64_t>(0, most_ms);; left -= day) {
    if (scheduler->scheduler.wait(std::chrono::milliseconds(std::min(left, day)))) return 1;
    if (left <= day) return 0;
  }
}

bantam_status bantam_scheduler_get_stats(const bantam_scheduler* scheduler, bantam_scheduler_stats* stats) {
  return guarded([&] {
    const SchedulerStats from = need(scheduler, "scheduler").scheduler.stats();
    bantam_scheduler_stats values = BANTAM_SCHEDULER_STATS_INIT;
    values.parallel = from.parallel;
    values.running = from.running;
    values.waiting = from.waiting;
    values.requests = from.requests;
    values.kept = from.kept;
    values.kv_bytes = from.kv_bytes;
    values.context_tokens = from.context;
    values.prompt_tokens = from.prompt_tokens;
    values.reused_tokens = from.reused_tokens;
    values.generated_tokens = from.generated_tokens;
    values.steps = from.steps;
    values.stepped_texts = from.stepped_texts;
    values.refused = from.refused;
    values.prompt_seconds = from.prompt_seconds;
    values.generate_seconds = from.generate_seconds;
    values.guessed_tokens = from.guessed_tokens;
    values.right_guesses = from.right_guesses;
    fill_struct(stats, values, "stats");
  });
}

}  // extern "C"
