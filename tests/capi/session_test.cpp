#include <atomic>
#include <thread>

#include "support.hpp"

using namespace capi_test;

TEST_CASE("text streams through a callback, in pieces, and a callback ends it") {
  const auto model = load();
  const auto session = open(model.get());
  struct Seen {
    int pieces = 0;
    std::string text;
  } seen;
  const auto collect = [](const char* utf8, std::size_t bytes, void* user) {
    auto& s = *static_cast<Seen*>(user);
    s.text.append(utf8, bytes);
    CHECK(bytes > 0);
    CHECK(utf8[bytes] == '\0');
    return ++s.pieces == 5 ? 1 : 0;
  };
  REQUIRE_OK(bantam_session_generate(session.get(), "Once upon a time", 64, collect, &seen));
  CHECK(seen.pieces == 5);
  // The session stands where the callback stopped.
  const std::int32_t* ids = nullptr;
  std::size_t count = 0;
  REQUIRE_OK(bantam_session_tokens(session.get(), &ids, &count));
  CHECK(count < tokenize(model.get(), "Once upon a time").size() + 64);
}

TEST_CASE("the explicit loop, generations and batches give the same tokens") {
  const auto model = load();
  const std::string prompt = "The captain";
  const auto session = open(model.get());
  const auto generation = start(session.get(), prompt, greedy(16));
  const std::string text = rest_of(generation.get());
  const std::int32_t* ids = nullptr;
  std::size_t count = 0;
  REQUIRE_OK(bantam_generation_tokens(generation.get(), &ids, &count));
  const std::vector<std::int32_t> expected(ids, ids + count);
  CHECK(expected.size() == 16);
  bantam_stats stats = BANTAM_STATS_INIT;
  REQUIRE_OK(bantam_generation_get_stats(generation.get(), &stats));
  CHECK(stats.generated_tokens == 16);
  CHECK(stats.finish == BANTAM_FINISH_LENGTH);
  CHECK(stats.prompt_tokens == static_cast<std::int64_t>(tokenize(model.get(), prompt).size()));

  const auto by_hand = open(model.get());
  bantam_generate_options options = greedy(0);
  bantam_sampler* made = nullptr;
  REQUIRE_OK(bantam_sampler_new(&made, model.get(), &options));
  const Owned<bantam_sampler> sampler(made);
  REQUIRE_OK(bantam_session_prefill(by_hand.get(), prompt.data(), prompt.size()));
  for (const std::int32_t wanted : expected) {
    const float* logits = nullptr;
    std::int32_t id = -1;
    REQUIRE_OK(bantam_session_logits(by_hand.get(), &logits, &count));
    REQUIRE_OK(bantam_sampler_sample(sampler.get(), logits, count, &id));
    CHECK(id == wanted);
    REQUIRE_OK(bantam_sampler_accept(sampler.get(), id));
    REQUIRE_OK(bantam_session_prefill_tokens(by_hand.get(), &id, 1));
  }

  std::vector<Owned<bantam_session>> sessions;
  std::vector<Owned<bantam_generation>> owned;
  std::vector<bantam_generation*> generations;
  for (int i = 0; i < 3; ++i) {
    sessions.push_back(open(model.get()));
    owned.push_back(start(sessions.back().get(), i == 1 ? "Another text" : prompt, greedy(16)));
    generations.push_back(owned.back().get());
  }
  std::string together;
  std::size_t running = 3;
  while (running > 0) {
    REQUIRE_OK(bantam_generations_step(generations.data(), generations.size(), &running));
    std::size_t bytes = 0;
    const char* piece = bantam_generation_piece(generations[2], &bytes);
    together.append(piece, bytes);
  }
  CHECK(together == text);
  generations[0] = generations[2];
  CHECK_OK(bantam_generations_step(generations.data(), generations.size(), &running));  // all have ended
}

TEST_CASE("forks, saved files and shortened sessions go on as the original does") {
  const Folder folder;
  const auto model = load();
  const auto base = open(model.get());
  const std::string prompt = "In the morning the";
  REQUIRE_OK(bantam_session_prefill(base.get(), prompt.data(), prompt.size()));
  REQUIRE_OK(bantam_session_save(base.get(), (folder / "s").c_str()));
  bantam_session* made = nullptr;
  REQUIRE_OK(bantam_session_fork(&made, base.get()));
  const Owned<bantam_session> fork(made);
  const auto options = two_threads();
  REQUIRE_OK(bantam_session_restore(&made, model.get(), (folder / "s").c_str(), &options));
  const Owned<bantam_session> restored(made);
  const std::string expected = rest_of(start(base.get(), "", greedy(12)).get());
  CHECK(rest_of(start(fork.get(), "", greedy(12)).get()) == expected);
  CHECK(rest_of(start(restored.get(), "", greedy(12)).get()) == expected);
  REQUIRE_OK(bantam_session_truncate(base.get(), tokenize(model.get(), prompt).size()));
  CHECK(rest_of(start(base.get(), "", greedy(12)).get()) == expected);
  CHECK(bantam_session_truncate(base.get(), 1000) == BANTAM_INVALID_ARGUMENT);
  CHECK(bantam_session_context(base.get()) == 256);
}

TEST_CASE("another thread cancels a generation, and the session goes on") {
  const auto model = load();
  bantam_session_options options = two_threads();
  options.context_tokens = 0;
  const auto session = open(model.get(), options);
  std::atomic<int> pieces = 0;
  std::thread other([&] {
    while (pieces.load() == 0) std::this_thread::yield();
    bantam_session_cancel(session.get());
  });
  const auto count = [](const char*, std::size_t, void* user) {
    ++*static_cast<std::atomic<int>*>(user);
    return 0;
  };
  const bantam_status status = bantam_session_generate(session.get(), "It", 100000, count, &pieces);
  other.join();
  CHECK(status == BANTAM_CANCELLED);
  CHECK_OK(bantam_session_generate(session.get(), "", 2, count, &pieces));

  // While a prompt is read, by the callback and by a cancel that comes first.
  std::string text;
  for (int i = 0; i < 40; ++i) text += "the old man said ";
  const auto fresh = open(model.get(), options);
  bantam_session_cancel(fresh.get());
  CHECK(bantam_session_prefill(fresh.get(), text.data(), text.size()) == BANTAM_CANCELLED);
  options.progress = [](std::int64_t, std::int64_t, void*) { return 1; };
  const auto refusing = open(model.get(), options);
  CHECK(bantam_session_prefill(refusing.get(), text.data(), text.size()) == BANTAM_CANCELLED);
  const std::int32_t* ids = nullptr;
  std::size_t held = 99;
  REQUIRE_OK(bantam_session_tokens(refusing.get(), &ids, &held));
  CHECK(held == 0);
}

TEST_CASE("several threads generate from one model at once") {
  const auto model = load();
  const std::string expected = greedy_text(model.get(), "She looked", 20);
  std::vector<std::thread> threads;
  std::atomic<int> equal = 0;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      bantam_session_options options = two_threads();
      options.threads = 1;
      if (rest_of(start(open(model.get(), options).get(), "She looked", greedy(20)).get()) == expected) ++equal;
      CHECK(bantam_model_load(nullptr, "mine") == BANTAM_INVALID_ARGUMENT);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(equal == 4);
}

TEST_CASE("options are checked, and settings have names") {
  const auto model = load();
  const auto session = open(model.get());
  bantam_generate_options options = greedy(4);
  bantam_generation* generation = nullptr;
  const auto refused = [&](auto change) {
    bantam_generate_options wrong = greedy(4);
    change(wrong);
    CHECK(bantam_generation_new(&generation, session.get(), "a", 1, &wrong) == BANTAM_INVALID_ARGUMENT);
    const std::int32_t* ids = nullptr;
    std::size_t held = 9;
    REQUIRE_OK(bantam_session_tokens(session.get(), &ids, &held));
    CHECK(held == 0);  // the session is as it was
  };
  refused([](auto& o) { o.top_p = 7; });
  refused([](auto& o) { o.temperature = -3; });
  refused([](auto& o) { o.temperature = NAN; });
  refused([](auto& o) { o.temperature = INFINITY; });
  refused([](auto& o) { o.top_k = -1; });
  refused([](auto& o) { o.min_p = NAN; });
  refused([](auto& o) { o.typical_p = -1; });
  refused([](auto& o) { o.repeat_penalty = 0; });
  refused([](auto& o) { o.frequency_penalty = NAN; });
  refused([](auto& o) { o.presence_penalty = INFINITY; });
  refused([](auto& o) { o.repeat_last_n = -2; });
  refused([](auto& o) { o.max_tokens = -2; });
  refused([](auto& o) { o.lookup = -1; });
  refused([](auto& o) { o.lookup = 1000; });
  refused([](auto& o) { o.mtp = 2; });  // the model has no layer for it
  refused([&](auto& o) { o.draft = session.get(); });
  refused([](auto& o) { o.stop_count = 1; });
  refused([](auto& o) { o.bias_count = 1; });
  refused([](auto& o) { o.setting_count = 1; });
  options = greedy(4);
  bantam_setting setting = {"order", "temperature,top_k"};
  options.settings = &setting;
  options.setting_count = 1;
  REQUIRE_OK(bantam_generation_new(&generation, session.get(), "a", 1, &options));
  bantam_generation_free(generation);
  setting.value = "top_q";
  CHECK(bantam_generation_new(&generation, session.get(), "a", 1, &options) == BANTAM_INVALID_ARGUMENT);
  setting.name = "odor";
  CHECK(bantam_generation_new(&generation, session.get(), "a", 1, &options) == BANTAM_INVALID_ARGUMENT);
  CHECK(std::string(bantam_last_error()).find("odor") != std::string::npos);
  CHECK(bantam_generation_new(&generation, session.get(), nullptr, 3, nullptr) == BANTAM_INVALID_ARGUMENT);
  bantam_session_options wrong = two_threads();
  wrong.kv = "f7";
  bantam_session* made = nullptr;
  CHECK(bantam_session_new(&made, model.get(), &wrong) == BANTAM_INVALID_ARGUMENT);
  wrong = two_threads();
  wrong.threads = -1;
  CHECK(bantam_session_new(&made, model.get(), &wrong) == BANTAM_INVALID_ARGUMENT);
  wrong = two_threads();
  wrong.context_tokens = -1;
  CHECK(bantam_session_new(&made, model.get(), &wrong) == BANTAM_INVALID_ARGUMENT);
  const bantam_message message = {"user", "hello", 5};
  CHECK(bantam_generation_new_chat(&generation, session.get(), &message, 1, nullptr) == BANTAM_UNSUPPORTED);
}

TEST_CASE("an embedding has length 1, and what is wrong is said") {
  const auto model = load();
  const auto session = open(model.get());
  const auto ids = tokenize(model.get(), "The captain");
  bantam_model_info info = BANTAM_MODEL_INFO_INIT;
  REQUIRE_OK(bantam_model_get_info(model.get(), &info));
  const float* embedding = nullptr;
  std::size_t size = 0;
  for (const char* pooling : {"mean", "cls", "last"}) {
    REQUIRE_OK(bantam_session_embed(session.get(), ids.data(), ids.size(), pooling, 1, &embedding, &size));
    REQUIRE(static_cast<std::int64_t>(size) == info.width);
    double squares = 0;
    for (std::size_t i = 0; i < size; ++i) squares += static_cast<double>(embedding[i]) * static_cast<double>(embedding[i]);
    CHECK(squares == doctest::Approx(1).epsilon(1e-5));
  }
  const float first = embedding[0];
  CHECK(bantam_session_embed(session.get(), ids.data(), ids.size(), "max", 1, &embedding, &size) == BANTAM_INVALID_ARGUMENT);
  CHECK(bantam_session_embed(session.get(), nullptr, 0, "mean", 1, &embedding, &size) == BANTAM_INVALID_ARGUMENT);
  CHECK(embedding[0] == first);
}

TEST_CASE("an embedder gives each text the row that a session gives, and says what it is not for") {
  const auto model = load();
  bantam_model_info info = BANTAM_MODEL_INFO_INIT;
  REQUIRE_OK(bantam_model_get_info(model.get(), &info));
  const auto width = static_cast<std::size_t>(info.width);
  bantam_embedder_options options = BANTAM_EMBEDDER_OPTIONS_INIT;
  options.threads = 2;
  options.context_tokens = 32;
  options.pooling = "last";
  bantam_embedder* embedder = nullptr;
  REQUIRE_OK(bantam_embedder_new(&embedder, model.get(), &options));
  const char* texts[] = {"The captain", "The sea was calm and the wind was still", "The captain"};
  std::vector<float> rows(3 * width), same(2 * width);
  REQUIRE_OK(bantam_embedder_embed(embedder, texts, 3, rows.data(), rows.size()));
  REQUIRE_OK(bantam_embedder_embed(embedder, texts + 1, 2, same.data(), same.size()));
  CHECK(std::equal(same.begin(), same.end(), rows.begin() + static_cast<std::ptrdiff_t>(width)));
  const auto session = open(model.get());
  const auto ids = tokenize(model.get(), texts[1]);
  const float* embedding = nullptr;
  std::size_t size = 0;
  REQUIRE_OK(bantam_session_embed(session.get(), ids.data(), ids.size(), "last", -1, &embedding, &size));
  for (std::size_t i = 0; i < width; ++i) CHECK(embedding[i] == doctest::Approx(rows[width + i]).epsilon(1e-2));  // its keys and values are halves
  REQUIRE_OK(bantam_session_embed(session.get(), ids.data(), ids.size(), nullptr, 0, &embedding, &size));  // the mean: no file says otherwise
  CHECK(bantam_embedder_embed(embedder, texts, 3, rows.data(), rows.size() - 1) == BANTAM_INVALID_ARGUMENT);
  CHECK(std::string(bantam_last_error()).find("embeddings: expected room for 3 rows") != std::string::npos);
  CHECK(bantam_embedder_embed(embedder, nullptr, 1, rows.data(), width) == BANTAM_INVALID_ARGUMENT);
  CHECK(bantam_embedder_embed(embedder, nullptr, 0, nullptr, 0) == BANTAM_OK);
  float score = 0;
  CHECK(bantam_embedder_rerank(embedder, "who", texts, 1, &score) == BANTAM_UNSUPPORTED);
  const std::string longer(200, 'q');
  const char* long_text = longer.c_str();
  CHECK(bantam_embedder_embed(embedder, &long_text, 1, rows.data(), width) == BANTAM_INVALID_ARGUMENT);
  bantam_embedder_free(embedder);
  options.truncate = 1;
  REQUIRE_OK(bantam_embedder_new(&embedder, model.get(), &options));
  CHECK(bantam_embedder_embed(embedder, &long_text, 1, rows.data(), width) == BANTAM_OK);
  bantam_embedder_free(embedder);
  bantam_embedder_free(nullptr);
  options.pooling = "max";
  CHECK(bantam_embedder_new(&embedder, model.get(), &options) == BANTAM_INVALID_ARGUMENT);
}

TEST_CASE("a callback changes logits and ends a generation") {
  const auto model = load();
  const auto session = open(model.get());
  struct Rule {
    std::int32_t only;
    int left;
  } rule{tokenize(model.get(), " sea", 0).back(), 3};
  bantam_generate_options options = greedy(20);
  options.process = [](const std::int32_t*, std::size_t count, float* logits, std::size_t vocabulary, void* user) {
    auto& r = *static_cast<Rule*>(user);
    CHECK(count > 0);
    for (std::size_t id = 0; id < vocabulary; ++id) {
      if (static_cast<std::int32_t>(id) != r.only) logits[id] = -1e30f;
    }
    return r.left-- == 0 ? 1 : 0;
  };
  options.process_user = &rule;
  const auto generation = start(session.get(), "The", options);
  (void)rest_of(generation.get());
  const std::int32_t* ids = nullptr;
  std::size_t count = 0;
  REQUIRE_OK(bantam_generation_tokens(generation.get(), &ids, &count));
  CHECK(std::vector<std::int32_t>(ids, ids + count) == std::vector<std::int32_t>(3, rule.only));
  bantam_stats stats = BANTAM_STATS_INIT;
  REQUIRE_OK(bantam_generation_get_stats(generation.get(), &stats));
  CHECK(stats.finish == BANTAM_FINISH_STOP);
}

TEST_CASE("a grammar lets nothing else come, and newer stages are settings") {
  const auto model = load();
  bantam_grammar* made = nullptr;
  const std::string gbnf = "root ::= \" x\" [0-9]{3}", schema = R"({"type": "integer", "minimum": 10, "maximum": 12})";
  REQUIRE_OK(bantam_grammar_new(&made, model.get(), gbnf.data(), gbnf.size()));
  bantam_generate_options options = greedy(64);
  options.grammar = made;
  const bantam_setting settings[] = {{"dry_multiplier", "0.8"}, {"xtc_probability", "0.5"}, {"mirostat", "2"}};
  options.settings = settings;
  options.setting_count = 3;
  const auto session = open(model.get());
  const std::string text = rest_of(start(session.get(), "The captain", options).get());
  CHECK(text.size() == 5);
  CHECK(text.starts_with(" x"));
  bantam_grammar_free(made);
  REQUIRE_OK(bantam_grammar_new_json_schema(&made, model.get(), schema.data(), schema.size()));
  options.grammar = made;
  const auto other = open(model.get());
  const std::string number = rest_of(start(other.get(), "The captain", options).get());
  CHECK((number == "10" || number == "11" || number == "12"));
  bantam_grammar_free(made);
  CHECK(bantam_grammar_new(&made, model.get(), "root", 4) == BANTAM_INVALID_ARGUMENT);
  const std::string unknown = "root ::= <no-such-token>";
  CHECK(bantam_grammar_new(&made, model.get(), unknown.data(), unknown.size()) == BANTAM_GRAMMAR);
}

namespace {

bantam_text_info text_of(const bantam_texts* texts, std::size_t index) {
  bantam_text_info info = BANTAM_TEXT_INFO_INIT;
  REQUIRE_OK(bantam_texts_get(texts, index, &info));
  return info;
}

int count_pieces(std::size_t index, const char*, std::size_t, void* user) {
  std::vector<int>& seen = *static_cast<std::vector<int>*>(user);
  return ++seen.at(index) >= 3 ? 1 : 0;
}

}  // namespace

TEST_CASE("several texts behind one prompt are drawn, or are the most probable") {
  const auto model = load();
  const std::vector<std::int32_t> prompt = tokenize(model.get(), "The old captain");
  bantam_generate_options options = BANTAM_GENERATE_OPTIONS_INIT;
  options.max_tokens = 12;
  options.seed = 3;
  const auto session = open(model.get());
  bantam_texts* made = nullptr;
  REQUIRE_OK(bantam_continuations_new(&made, session.get(), prompt.data(), prompt.size(), 3, &options, nullptr, nullptr));
  const Owned<bantam_texts> drawn(made);
  REQUIRE(bantam_texts_count(drawn.get()) == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    bantam_generate_options alone = options;
    alone.seed = 3 + i;
    const bantam_text_info info = text_of(drawn.get(), i);
    CHECK(std::string(info.text) == rest_of(start(open(model.get()).get(), "The old captain", alone).get()));
    CHECK(std::isnan(info.log_probability));
    CHECK(info.id_count <= 12);
  }
  bantam_text_info info = BANTAM_TEXT_INFO_INIT;
  CHECK(bantam_texts_get(drawn.get(), 3, &info) == BANTAM_INVALID_ARGUMENT);

  std::vector<int> seen(2);
  REQUIRE_OK(bantam_continuations_new(&made, open(model.get()).get(), prompt.data(), prompt.size(), 2, &options, count_pieces, &seen));
  const Owned<bantam_texts> stopped(made);
  CHECK(text_of(stopped.get(), 0).finish == BANTAM_FINISH_CANCELLED);
  CHECK(seen[0] + seen[1] <= 6);

  bantam_beam_options beams = BANTAM_BEAM_OPTIONS_INIT;
  beams.max_tokens = 8;
  beams.beams = 1;
  REQUIRE_OK(bantam_beam_search(&made, open(model.get()).get(), prompt.data(), prompt.size(), &beams));
  const Owned<bantam_texts> one(made);
  REQUIRE(bantam_texts_count(one.get()) == 1);
  CHECK(std::string(text_of(one.get(), 0).text) == greedy_text(model.get(), "The old captain", 8));
  CHECK(text_of(one.get(), 0).log_probability < 0);
  beams.beams = 4;
  beams.results = 4;
  REQUIRE_OK(bantam_beam_search(&made, open(model.get()).get(), prompt.data(), prompt.size(), &beams));
  const Owned<bantam_texts> best(made);
  REQUIRE(bantam_texts_count(best.get()) == 4);
  for (std::size_t i = 1; i < 4; ++i) CHECK(text_of(best.get(), i).score <= text_of(best.get(), i - 1).score);
  beams.results = 5;
  CHECK(bantam_beam_search(&made, session.get(), prompt.data(), prompt.size(), &beams) == BANTAM_INVALID_ARGUMENT);
  CHECK(bantam_continuations_new(&made, session.get(), prompt.data(), prompt.size(), 0, &options, nullptr, nullptr) == BANTAM_INVALID_ARGUMENT);
  CHECK(bantam_texts_count(nullptr) == 0);
}

TEST_CASE("what a text may take of memory is a setting, and the text is the same") {
  const auto model = load();
  const auto text_within = [&](std::vector<bantam_setting> settings) {
    bantam_session_options options = BANTAM_SESSION_OPTIONS_INIT;
    options.settings = settings.data();
    options.setting_count = settings.size();
    bantam_session* made = nullptr;
    const bantam_status status = bantam_session_new(&made, model.get(), &options);
    if (status != BANTAM_OK) return std::string(bantam_last_error());
    const Owned<bantam_session> session(made);
    std::string text;
    const auto collect = [](const char* utf8, std::size_t bytes, void* user) {
      static_cast<std::string*>(user)->append(utf8, bytes);
      return 0;
    };
    REQUIRE_OK(bantam_session_generate(session.get(), "Once upon a time", 20, collect, &text));
    return text;
  };
  const std::string text = text_within({});
  CHECK(text_within({{"memory_limit", "40000000"}}) == text);
  CHECK(text_within({{"memory_limit", "40000000"}, {"memory_folder", "/var/tmp"}}) == text);
  CHECK(text_within({{"memory_limit", "40000000"}, {"memory_folder", "/no/such/folder"}}) == "keys and values in /no/such/folder: cannot create a file: no such file or directory");
  CHECK(text_within({{"memory_limit", "much"}}) == "memory_limit: expected a number, found much");
  CHECK(text_within({{"memory_limit", "-1"}}) == "memory: expected 0 (no limit) or bytes, found -1");
  CHECK(text_within({{"magic", "1"}}) == "settings: expected memory_limit or memory_folder, found magic");
}
