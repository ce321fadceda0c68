// Schedulers through the C interface: texts of many requests, cancelling, deadlines, what is refused.
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

#include "support.hpp"

using namespace capi_test;

namespace {

Owned<bantam_scheduler> schedule(const bantam_model* model, std::int32_t parallel = 8, const bantam_model* draft = nullptr) {
  bantam_scheduler_options options = BANTAM_SCHEDULER_OPTIONS_INIT;
  options.context_tokens = 256;
  options.threads = 2;
  options.parallel = parallel;
  options.draft = draft;
  bantam_scheduler* scheduler = nullptr;
  REQUIRE_OK(bantam_scheduler_new(&scheduler, model, &options));
  return Owned<bantam_scheduler>(scheduler);
}

/// What a request's callbacks say, text by text. Is there until its texts ended.
struct Asked {
  struct Of {
    std::string text, error, stop_text;
    std::vector<std::int32_t> ids;
    std::vector<std::pair<float, float>> logprobs;  ///< of each token, and of the most probable one
    std::vector<std::pair<std::int32_t, float>> prompt;
    bantam_text_end end = BANTAM_TEXT_RUNNING;
    bantam_status status = BANTAM_OK;
    int updates_behind_end = 0;
    std::int64_t prompt_tokens = 0, generated_tokens = 0;
  };
  explicit Asked(std::size_t texts = 1) : of(texts), left(texts) {}

  static int hear(const bantam_text_update* update, void* user) {
    auto& asked = *static_cast<Asked*>(user);
    const std::lock_guard lock(asked.mutex);
    Of& of = asked.of.at(update->text);
    of.updates_behind_end += of.end != BANTAM_TEXT_RUNNING;
    of.text.append(update->piece, update->piece_bytes);
    CHECK(update->piece[update->piece_bytes] == '\0');
    for (std::size_t i = 0; i < update->token_count; ++i) {
      const bantam_drawn_token& token = update->tokens[i];
      of.ids.push_back(token.id);
      of.logprobs.emplace_back(token.log_probability, token.top_count > 0 ? token.top_log_probabilities[0] : 0.0F);
    }
    for (std::size_t i = 0; i < update->prompt_count; ++i) of.prompt.emplace_back(update->prompt[i].id, update->prompt[i].log_probability);
    of.end = update->end;
    of.status = update->status;
    of.error = update->error;
    of.stop_text = update->stop_text;
    of.prompt_tokens = update->prompt_tokens;
    of.generated_tokens = update->generated_tokens;
    if (update->end != BANTAM_TEXT_RUNNING) --asked.left;
    asked.changed.notify_all();
    return asked.stop_behind > 0 && std::ssize(of.ids) >= asked.stop_behind ? 1 : 0;
  }
  const std::vector<Of>& wait() {
    std::unique_lock lock(mutex);
    REQUIRE(changed.wait_for(lock, std::chrono::seconds(60), [&] { return left == 0; }));
    return of;
  }
  void wait_for_tokens(std::size_t count) {
    std::unique_lock lock(mutex);
    REQUIRE(changed.wait_for(lock, std::chrono::seconds(60), [&] { return of[0].ids.size() >= count || left == 0; }));
  }

  std::ptrdiff_t stop_behind = 0;  ///< asks for no more at so many tokens
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Of> of;
  std::size_t left;
};

std::uint64_t submit(bantam_scheduler* scheduler, Asked& asked, const std::string& prompt, const bantam_generate_options& generate,
                     bantam_request_options options = BANTAM_REQUEST_OPTIONS_INIT) {
  options.generate = &generate;
  std::uint64_t request = 0;
  REQUIRE_OK(bantam_scheduler_submit(scheduler, &request, prompt.data(), prompt.size(), &options, &Asked::hear, &asked));
  return request;
}

std::string alone(const bantam_model* model, const std::string& prompt, const bantam_generate_options& generate) {
  const auto session = open(model);
  return rest_of(start(session.get(), prompt, generate).get());
}

bantam_generate_options drawn(std::int64_t tokens, std::uint64_t seed) {
  bantam_generate_options options = BANTAM_GENERATE_OPTIONS_INIT;
  options.max_tokens = tokens;
  options.seed = seed;
  return options;
}

}  // namespace

TEST_CASE("requests of several threads have the texts that they have alone") {
  const auto model = load();
  bool guesses = false;
  SUBCASE("without guesses") {}
  SUBCASE("with guesses") { guesses = true; }
  const auto scheduler = schedule(model.get(), 4, guesses ? model.get() : nullptr);
  const std::vector<std::string> prompts{"Once upon a time", "The captain", "The sea was", "It was a dark night, and", "A", "The captain said", "One", "Nothing"};
  std::vector<std::unique_ptr<Asked>> asked;
  std::vector<bantam_generate_options> options;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    asked.push_back(std::make_unique<Asked>());
    options.push_back(drawn(20, i));
  }
  const char* const stop = " the";
  options[1].stop = &stop;
  options[1].stop_count = 1;
  options[2].lookup = 4;
  std::vector<std::uint64_t> ids(prompts.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < prompts.size(); ++i) threads.emplace_back([&, i] { ids[i] = submit(scheduler.get(), *asked[i], prompts[i], options[i]); });
  for (std::thread& thread : threads) thread.join();
  CHECK(std::set<std::uint64_t>(ids.begin(), ids.end()).size() == ids.size());
  CHECK(bantam_scheduler_wait(scheduler.get(), 60000) == 1);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    CAPTURE(i);
    const Asked::Of& of = asked[i]->wait()[0];
    CHECK(of.text == alone(model.get(), prompts[i], options[i]));
    CHECK(of.end == (of.stop_text.empty() ? BANTAM_TEXT_LENGTH : BANTAM_TEXT_STOP));
    CHECK(of.updates_behind_end == 0);
    CHECK(of.prompt_tokens == static_cast<std::int64_t>(tokenize(model.get(), prompts[i]).size()));
    CHECK(of.generated_tokens == std::ssize(of.ids));
  }
  bantam_scheduler_stats stats = BANTAM_SCHEDULER_STATS_INIT;
  REQUIRE_OK(bantam_scheduler_get_stats(scheduler.get(), &stats));
  CHECK(stats.parallel == 4);
  CHECK(stats.requests == 0);
  CHECK(stats.context_tokens == 256);
  CHECK(stats.generated_tokens > 100);
  CHECK(stats.refused == 0);
  if (guesses) CHECK(stats.guessed_tokens > 0);
  CHECK(stats.right_guesses <= stats.guessed_tokens);
}

TEST_CASE("a request has several texts, log probabilities, a grammar and adapters of its own") {
  const Folder folder;
  const auto model = load();
  const auto scheduler = schedule(model.get());
  const std::string prompt = "The old captain";
  const std::vector<std::int32_t> ids = tokenize(model.get(), prompt);
  bantam_request_options options = BANTAM_REQUEST_OPTIONS_INIT;
  bantam_generate_options generate = drawn(12, 5);
  options.generate = &generate;
  options.texts = 3;
  options.top_logprobs = 2;
  options.prompt_logprobs = 0;
  Asked several(3);
  REQUIRE_OK(bantam_scheduler_submit_tokens(scheduler.get(), nullptr, ids.data(), ids.size(), &options, &Asked::hear, &several));
  REQUIRE(several.wait()[0].prompt.size() == ids.size() - 1);
  for (std::size_t i = 1; i < ids.size(); ++i) {
    CHECK(several.wait()[0].prompt[i - 1].first == ids[i]);
    CHECK(several.wait()[0].prompt[i - 1].second < 0);
  }
  for (std::size_t i = 0; i < 3; ++i) {
    const Asked::Of& of = several.wait()[i];
    CHECK(of.text == alone(model.get(), prompt, drawn(12, 5 + i)));
    for (const auto& [own, best] : of.logprobs) {
      CHECK(own < 0);
      CHECK(own <= best);
    }
  }
  bantam_grammar* made = nullptr;
  const std::string gbnf = "root ::= \"yes\" | \"no\"";
  REQUIRE_OK(bantam_grammar_new(&made, model.get(), gbnf.data(), gbnf.size()));
  generate.grammar = made;
  Asked strict;
  (void)submit(scheduler.get(), strict, "Is it so? ", generate);
  bantam_grammar_free(made);  // the request keeps what it needs
  const std::string answer = strict.wait()[0].text;
  CHECK((answer == "yes" || answer == "no"));

  write_adapter(folder / "lora");
  bantam_adapter* adapter = nullptr;
  REQUIRE_OK(bantam_adapter_load(&adapter, model.get(), (folder / "lora").c_str()));
  const Owned<bantam_adapter> kept(adapter);
  const bantam_adapter* const adapters[] = {adapter};
  bantam_session_options adapted = two_threads();
  adapted.adapters = adapters;
  adapted.adapter_count = 1;
  const auto session = open(model.get(), adapted);
  const std::string expected = rest_of(start(session.get(), prompt, greedy(16)).get());
  bantam_request_options with = BANTAM_REQUEST_OPTIONS_INIT;
  with.adapters = adapters;
  with.adapter_count = 1;
  Asked plain, changed;
  (void)submit(scheduler.get(), changed, prompt, greedy(16), with);
  (void)submit(scheduler.get(), plain, prompt, greedy(16));
  CHECK(changed.wait()[0].text == expected);
  CHECK(plain.wait()[0].text == greedy_text(model.get(), prompt, 16));
}

TEST_CASE("requests are cancelled, late, broken and refused") {
  const auto model = load();
  const auto scheduler = schedule(model.get(), 1);
  bantam_generate_options endless = greedy(-1);
  endless.ignore_end = 1;
  Asked first, second, late, stopped, broken;
  const std::uint64_t id = submit(scheduler.get(), first, "The", endless);
  CHECK(id > 0);
  bantam_request_options impatient = BANTAM_REQUEST_OPTIONS_INIT;
  impatient.most_waiting_ms = 1;
  (void)submit(scheduler.get(), late, "A", endless, impatient);
  first.wait_for_tokens(3);
  CHECK(bantam_scheduler_wait(scheduler.get(), 0) == 0);
  bantam_scheduler_cancel(scheduler.get(), id);
  CHECK(first.wait()[0].end == BANTAM_TEXT_CANCELLED);
  CHECK((late.wait()[0].end == BANTAM_TEXT_LATE || late.wait()[0].end == BANTAM_TEXT_LENGTH));
  stopped.stop_behind = 4;
  (void)submit(scheduler.get(), stopped, "The sea", endless);
  CHECK(stopped.wait()[0].end == BANTAM_TEXT_CANCELLED);
  CHECK(stopped.wait()[0].ids.size() <= 5);
  // Arguments that make no sense are refused at once, and nobody is called.
  const auto refused = [&](bantam_request_options options, const char* prompt, bantam_update_callback callback, const char* names) {
    std::uint64_t request = 77;
    CHECK(bantam_scheduler_submit(scheduler.get(), &request, prompt, std::char_traits<char>::length(prompt), &options, callback, &broken) == BANTAM_INVALID_ARGUMENT);
    CHECK(std::string(bantam_last_error()).find(names) != std::string::npos);
    CHECK(request == 77);
  };
  bantam_request_options wrong = BANTAM_REQUEST_OPTIONS_INIT;
  refused(wrong, "x", nullptr, "callback");
  wrong.texts = 0;
  refused(wrong, "x", &Asked::hear, "texts");
  wrong = BANTAM_REQUEST_OPTIONS_INIT;
  wrong.most_time_ms = -1;
  refused(wrong, "x", &Asked::hear, "most_time_ms");
  wrong.most_time_ms = INT64_MAX;
  refused(wrong, "x", &Asked::hear, "most_time_ms");
  wrong = BANTAM_REQUEST_OPTIONS_INIT;
  wrong.struct_size = 3;
  refused(wrong, "x", &Asked::hear, "struct_size");
  bantam_generate_options hot = greedy(3);
  hot.top_p = 2;
  wrong = BANTAM_REQUEST_OPTIONS_INIT;
  wrong.generate = &hot;
  refused(wrong, "x", &Asked::hear, "top_p");
  CHECK(bantam_scheduler_submit_tokens(scheduler.get(), nullptr, nullptr, 0, nullptr, &Asked::hear, &broken) == BANTAM_INVALID_ARGUMENT);
  CHECK(bantam_scheduler_submit(nullptr, nullptr, "x", 1, nullptr, &Asked::hear, &broken) == BANTAM_INVALID_ARGUMENT);
  bantam_scheduler_options none = BANTAM_SCHEDULER_OPTIONS_INIT;
  none.parallel = 0;
  bantam_scheduler* made = nullptr;
  CHECK(bantam_scheduler_new(&made, model.get(), &none) == BANTAM_INVALID_ARGUMENT);
  CHECK(made == nullptr);
  // What ends with its scheduler is told so.
  (void)submit(scheduler.get(), second, "The", endless);
  bantam_scheduler_close(scheduler.get());
  std::uint64_t request = 77;
  CHECK_OK(bantam_scheduler_submit(scheduler.get(), &request, "x", 1, nullptr, &Asked::hear, &broken));
  CHECK(request == 0);
  second.wait_for_tokens(2);
  bantam_scheduler_cancel_all(scheduler.get());
  CHECK(second.wait()[0].end == BANTAM_TEXT_CANCELLED);
  CHECK(broken.left == 1);
  bantam_scheduler_cancel(nullptr, 1);
  bantam_scheduler_free(nullptr);
}
