// Sessions: chunks, threads, forks, stops, cancelling, saving.
#include <sys/wait.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cmath>
#include <cstring>
#include <set>

#include "bantam/bantam.hpp"
#include "kv_kinds.hpp"
#include "limits.hpp"
#include "session/demo.hpp"
#include "support.hpp"

using namespace bantam;
using namespace bantam::test;

namespace {

/// The bundled model, in floats and in int4, loaded once.
const Model& model_of(std::string_view format) {
  static const Model small = compress(demo(), recipe::rtn("i4.g32")).first;
  return format == "int4" ? small : demo();
}

const std::string prompt = "The old captain looked at the sea, and said to the boy that";

std::vector<TokenId> tokens_of(const std::string& text) { return model_of("f16").tokenizer().encode(text); }

GenerateOptions sampled(std::int64_t n) { return {.max_tokens = n, .sampling = {.temperature = 0.9f, .repeat_penalty = 1.1f, .seed = 5}}; }

}  // namespace

TEST_CASE("a callback that throws when all is read leaves the session as it was") {
  bool throws = false;
  const SessionOptions options{.context = 100, .progress = [&](std::int64_t read, std::int64_t total) {
    if (throws && read == total) fail(Errc::invalid_argument, "mine");
    return true;
  }};
  Session session(model_of("f16"), options), expected(model_of("f16"), {.context = 100});
  session.prefill(prompt);
  expected.prefill(prompt);
  const std::vector<TokenId> held = session.tokens(), more = tokens_of(" the wind");
  throws = true;
  CHECK(test::error_of([&] { session.prefill(tokens_of("No more of it")); }) == "mine");
  CHECK(session.tokens() == held);
  const Prompt together[] = {{&session, more}};
  CHECK(test::error_of([&] { prefill(together); }) == "mine");
  CHECK(session.tokens() == held);
  throws = false;
  session.prefill(more);
  expected.prefill(more);
  CHECK(session.tokens() == expected.tokens());
  CHECK(logits_of(session) == logits_of(expected));
}

TEST_CASE("a prompt read in chunks gives the same logits, bit for bit, as read whole") {
  for (const char* format : {"f16", "int4"}) {
    for (const char* kv : test::kv_kinds()) {
      CAPTURE(format);
      CAPTURE(kv);
      std::vector<TokenId> ids;
      while (ids.size() < (test::quick() ? 70 : 150)) {
        const auto more = tokens_of(prompt);
        ids.insert(ids.end(), more.begin(), more.end());
      }
      Session whole(model_of(format), {.kv = kv});
      whole.prefill(ids);
      const std::vector<float> expected = logits_of(whole);
      for (const std::size_t chunk : {1, 7, 64, 100}) {
        Session pieces(model_of(format), {.kv = kv});
        for (std::size_t i = 0; i < ids.size(); i += chunk) {
          pieces.prefill(std::span(ids).subspan(i, std::min(chunk, ids.size() - i)));
        }
        CHECK(logits_of(pieces) == expected);
      }
    }
  }
}

TEST_CASE("a whole sequence is read from where it differs, and what fails leaves the session") {
  const Model& model = model_of("int4");
  const std::vector<TokenId> ids = tokens_of(prompt);
  const std::string expected = Session(model).stream(ids, sampled(8)).text();
  Session session(model, {.context = 64});
  CHECK(session.stream_whole(ids, sampled(8)).text() == expected);
  const std::vector<TokenId> held = session.tokens();
  std::vector<TokenId> wrong = ids;
  wrong.back() = 1 << 30;
  CHECK_THROWS_AS((void)session.stream_whole(wrong, sampled(1)), Error);
  CHECK(session.tokens() == held);
  TextRange again = session.stream_whole(ids, sampled(8));
  CHECK(again.text() == expected);
  CHECK(again.stats().prompt_tokens == 1);
  const std::vector<TokenId> own = session.tokens();
  CHECK(session.stream_whole(session.tokens(), sampled(3)).text() == Session(model).stream(own, sampled(3)).text());
  CHECK(session.stream_whole(std::span(ids).first(4), sampled(3)).text() == Session(model).stream(std::span(ids).first(4), sampled(3)).text());
}

TEST_CASE("a session goes on in a child process") {
  const Model& model = model_of("int4");
  Session session(model, {.threads = 3});
  session.prefill(prompt);
  const std::string expected = session.fork().stream("", sampled(12)).text();
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    alarm(60);  // threads that are not there would be waited for
    const bool same = session.stream("", sampled(12)).text() == expected;
    { const Session gone = std::move(session); }
    _exit(same ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(session.stream("", sampled(12)).text() == expected);
}

TEST_CASE("results do not depend on the number of threads") {
  for (const char* format : {"f16", "int4"}) {
    std::set<std::string> texts;
    for (const int threads : {1, 2, 3, test::quick() ? 4 : 8}) {
      Session session(model_of(format), {.threads = threads});
      texts.insert(session.stream(prompt, sampled(60)).text());
    }
    CHECK(texts.size() == 1);
  }
}

TEST_CASE("a fork shares the past and goes its own way") {
  Session base(model_of("int4"));
  base.prefill(prompt);
  Session fork = base.fork();
  CHECK(fork.tokens() == base.tokens());
  const std::string mine = base.stream("", sampled(40)).text();
  const std::string theirs = fork.stream("", sampled(40)).text();
  CHECK(mine == theirs);
  Session other = base.fork();
  const std::string after = other.stream(" Then", sampled(30)).text();
  // What a fork writes does not reach the one it came from.
  Session again = base.fork();
  CHECK(again.stream(" Then", sampled(30)).text() == after);
}

TEST_CASE("the same seed gives the same text and another seed another") {
  Session a(model_of("f16")), b(model_of("f16")), c(model_of("f16"));
  GenerateOptions other = sampled(40);
  other.sampling.seed = 6;
  const std::string text = a.stream(prompt, sampled(40)).text();
  CHECK(b.stream(prompt, sampled(40)).text() == text);
  CHECK(c.stream(prompt, other).text() != text);
}

TEST_CASE("a session that was saved and restored goes on as if uninterrupted") {
  const test::TemporaryFolder folder;
  for (const char* kv : test::kv_kinds()) {
    CAPTURE(kv);
    Session whole(model_of("int4"), {.kv = kv});
    const std::string expected = whole.stream(prompt, sampled(90)).text();
    Session first(model_of("int4"), {.kv = kv});
    std::string text = first.stream(prompt, sampled(33)).text();
    first.save(folder / "session");
    Session second = Session::restore(model_of("int4"), folder / "session");
    // In memory it is the same bytes.
    std::vector<std::byte> bytes;
    first.save_to([&](std::span<const std::byte> part) { bytes.insert(bytes.end(), part.begin(), part.end()); });
    CHECK(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()) == test::read_file(folder / "session"));
    Session third = Session::restore(model_of("int4"), bytes);
    bytes.back() ^= std::byte{1};
    CHECK(test::error_of([&] { (void)Session::restore(model_of("int4"), bytes); }).find("session in memory") == 0);
    const std::string rest = second.resume(sampled(57)).text();
    CHECK(text + rest == expected);
    CHECK(third.resume(sampled(57)).text() == rest);
  }
}

TEST_CASE("a session that has read nothing is saved and restored too") {
  const test::TemporaryFolder folder;
  Session(model_of("int4")).save(folder / "session");
  Session restored = Session::restore(model_of("int4"), folder / "session");
  CHECK(restored.tokens().empty());
  CHECK(restored.stream(prompt, sampled(9)).text() == Session(model_of("int4")).stream(prompt, sampled(9)).text());
}

TEST_CASE("a session file says how its pages are laid out, and other layouts are refused by name") {
  const test::TemporaryFolder folder;
  for (const KvKernels& kv : kernel_tables().back()->kv) {
    Session session(model_of("int4"), {.kv = kv.name});
    session.prefill(prompt);
    session.save(folder / "session");
    std::string bytes = test::read_file(folder / "session");
    std::string layout = kv.saved_as;
    layout.resize(8);
    CHECK(bytes.substr(48, 8) == layout);
    if (std::string_view(kv.name) != "q4") continue;
    // As it was written when a group of these had a minimum, and nothing was rotated.
    bytes.replace(48, 8, std::string("q4\0\0\0\0\0\0", 8));
    const std::uint64_t hash = XXH3_64bits(bytes.data(), bytes.size() - 8);
    std::memcpy(bytes.data() + bytes.size() - 8, &hash, 8);
    test::write_file(folder / "old", bytes);
    CHECK(error_of([&] { (void)Session::restore(model_of("int4"), folder / "old"); }) ==
          (folder / "old").string() + ": keys and values: expected a layout of this version (f32, f16, q8, q4.rot or q3.rot), found q4");
  }
}

TEST_CASE("a damaged or foreign session file is refused with one line") {
  const test::TemporaryFolder folder;
  Session session(model_of("int4"));
  (void)session.stream(prompt, sampled(3)).text();
  session.save(folder / "session");
  CHECK_FALSE(test::error_of([&] { (void)Session::restore(model_of("f16"), folder / "session"); }).empty());
  const std::string bytes = test::read_file(folder / "session");
  for (std::size_t n = 0; n < bytes.size(); n += n < 200 ? 1 : 997) {
    test::write_file(folder / "cut", std::string_view(bytes).substr(0, n));
    CHECK_FALSE(test::error_of([&] { (void)Session::restore(model_of("int4"), folder / "cut"); }).empty());
  }
  for (std::size_t at = 0; at < bytes.size(); at += at < 100 ? 1 : 1013) {
    std::string bad = bytes;
    bad[at] = static_cast<char>(bad[at] ^ 0x10);
    test::write_file(folder / "bad", bad);
    CHECK_FALSE(test::error_of([&] { (void)Session::restore(model_of("int4"), folder / "bad"); }).empty());
  }
}

TEST_CASE("a stop text ends the generation and is not part of it") {
  Session plain(model_of("f16"));
  const std::string text = plain.stream(prompt, sampled(60)).text();
  REQUIRE(text.size() > 40);
  // Texts across token borders: wherever one begins, what comes before it remains.
  for (std::size_t at = 5; at + 6 < text.size(); at += test::quick() ? 35 : 7) {
    const std::string stop = text.substr(at, 6);
    Session session(model_of("f16"));
    GenerateOptions options = sampled(60);
    options.stop = {"not in the text at all", stop};
    TextRange range = session.stream(prompt, options);
    CHECK(range.text() == text.substr(0, text.find(stop)));
    CHECK(range.finish() == Finish::stop);
  }
}

TEST_CASE("leaving the loop cancels the work and leaves a usable session") {
  Session session(model_of("int4"));
  int pieces = 0;
  TextRange range = session.stream(prompt, sampled(200));
  for (const std::string_view piece : range) {
    CHECK_FALSE(piece.empty());
    if (++pieces == 4) break;
  }
  CHECK(range.tokens().size() < 10);
  CHECK(session.tokens().size() == tokens_of(prompt).size() + range.tokens().size());
  CHECK_FALSE(session.stream(" and", sampled(5)).text().empty());
}

TEST_CASE("reading tells how far it is, and stops when asked to, leaving the session as it was") {
  std::vector<TokenId> ids;
  while (ids.size() < 700) ids.push_back(static_cast<TokenId>(100 + ids.size() % 50));  // two chunks
  std::int64_t limit = std::numeric_limits<std::int64_t>::max();
  std::vector<std::int64_t> seen;
  const auto progress = [&](std::int64_t read, std::int64_t total) {
    CHECK(total == 700);
    seen.push_back(read);
    return read < limit;
  };
  Session session(model_of("int4"), {.context = 1000, .progress = progress});
  session.prefill(std::span<const TokenId>(ids));
  CHECK(std::is_sorted(seen.begin(), seen.end()));
  CHECK(seen.size() > 2 * 2);
  CHECK(seen.front() == 0);
  CHECK(seen.back() == 700);

  // Stopped in the first chunk, in the second, and by an exception.
  session.clear();
  const auto past = std::span<const TokenId>(ids).first(1);
  session.prefill(past);
  const std::vector<float> logits = logits_of(session);
  for (const std::int64_t at : {0, 10, 520, 600}) {
    limit = at;
    CAPTURE(at);
    CHECK(test::error_of([&] { session.prefill(std::span<const TokenId>(ids)); }).find("cancelled") != std::string::npos);
    CHECK(session.tokens().size() == 1);
    CHECK(logits_of(session) == logits);
    CHECK(test::error_of([&] { session.score(ids, [](std::int64_t, std::span<const float>) {}); }).find("cancelled") != std::string::npos);
    CHECK(session.tokens().size() == 1);
  }
  limit = std::numeric_limits<std::int64_t>::max();
  Session thrower(model_of("int4"), {.context = 1000, .progress = [](std::int64_t, std::int64_t) -> bool { throw std::runtime_error("mine"); }});
  CHECK_THROWS_WITH_AS(thrower.prefill(std::span<const TokenId>(ids)), "mine", std::runtime_error);
  CHECK(thrower.tokens().empty());
  // What was cancelled is read in full when asked again.
  session.clear();
  session.prefill(std::span<const TokenId>(ids));
  Session whole(model_of("int4"), {.context = 1000});
  whole.prefill(std::span<const TokenId>(ids));
  CHECK(logits_of(session) == logits_of(whole));
}

TEST_CASE("what ends a pass over guesses after it read them leaves the session as it was") {
  const GenerateOptions greedy{.max_tokens = 40, .sampling = {.temperature = 0}, .ignore_end = true};
  Session plain(model_of("int4"), {.context = 200});
  const std::string expected = plain.stream(prompt, greedy).text();
  Session draft(model_of("int4"), {.context = 200});  // whose guesses are right
  bool throws = false, threw = false;
  Session session(model_of("int4"), {.context = 200, .progress = [&](std::int64_t read, std::int64_t total) {
                                       if (throws && read == total) throw std::runtime_error("mine");
                                       return true;
                                     }});
  GenerateOptions guessing = greedy;
  guessing.speculation.draft = &draft;
  TextRange range = session.stream(prompt, guessing);
  std::string text;
  int thrown = 0;
  for (bool ended = false; !ended;) {
    throws = !std::exchange(threw, false);
    const std::vector<TokenId> before(session.tokens().begin(), session.tokens().end());
    try {
      const std::optional<std::string_view> piece = range.next();
      ended = !piece;
      text += piece.value_or("");
    } catch (const std::runtime_error& error) {
      REQUIRE(std::string(error.what()) == "mine");
      ++thrown;
      // A copy of it goes on with another text.
      REQUIRE(std::ranges::equal(session.tokens(), before));
      Session copy = session.fork(), fresh(model_of("int4"), {.context = 200});
      throws = false;
      const std::vector<TokenId> more = tokens_of(" and then");
      copy.prefill(std::span<const TokenId>(more));
      fresh.prefill(std::span<const TokenId>(before));
      fresh.prefill(std::span<const TokenId>(more));
      CHECK(logits_of(copy) == logits_of(fresh));
      threw = true;
    }
  }
  CHECK(text == expected);
  CHECK(thrown > 0);  // the first pass over guesses is always tried, later ones by time
}

TEST_CASE("the context is a limit: generation ends there, longer prompts are refused whole") {
  const auto ids = tokens_of(prompt);
  Session session(model_of("int4"), {.context = static_cast<std::int64_t>(ids.size()) + 5});
  TextRange range = session.stream(prompt, {.max_tokens = -1, .sampling = {.temperature = 0}, .ignore_end = true});
  (void)range.text();
  CHECK(range.tokens().size() == 5);
  CHECK(range.finish() == Finish::length);
  Session small(model_of("int4"), {.context = 4});
  CHECK(test::error_of([&] { small.prefill(prompt); }).find("context") != std::string::npos);
  CHECK(small.tokens().empty());
  small.prefill(std::span(ids).first(3));
  CHECK(small.tokens().size() == 3);
}

TEST_CASE("asking for no tokens gives no text") {
  Session session(model_of("int4"));
  TextRange range = session.stream(prompt, {.max_tokens = 0});
  CHECK(range.text().empty());
  CHECK(range.finish() == Finish::length);
}

TEST_CASE("wrong options are refused with one line each") {
  const Model& model = model_of("int4");
  const auto refused = [&](SessionOptions options) {
    CHECK_FALSE(test::error_of([&] { Session session(model, options); }).empty());
  };
  refused({.context = -1});
  refused({.threads = -3});
  refused({.kv = "q5"});
  Session session(model);
  const TokenId outside[] = {4096};
  CHECK_FALSE(test::error_of([&] { session.prefill(outside); }).empty());
  CHECK_FALSE(test::error_of([&] { (void)session.logits(); }).empty());
  CHECK_FALSE(test::error_of([&] { (void)session.stream(std::span<const TokenId>{}, {}); }).empty());
  // What cannot be generated by is refused before the prompt is read.
  for (const GenerateOptions& options :
       {GenerateOptions{.stop = {""}}, GenerateOptions{.max_tokens = -2}, GenerateOptions{.sampling = {.temperature = -3}},
        GenerateOptions{.sampling = {.temperature = std::nanf("")}}, GenerateOptions{.sampling = {.top_k = -1}}, GenerateOptions{.sampling = {.top_p = 7}},
        GenerateOptions{.sampling = {.min_p = -0.1f}}, GenerateOptions{.sampling = {.repeat_penalty = 0}}, GenerateOptions{.sampling = {.repeat_last_n = -2}},
        GenerateOptions{.speculation = {.lookup = 17}}, GenerateOptions{.speculation = {.draft = &session}}}) {
    CHECK_FALSE(test::error_of([&] { (void)session.stream(prompt, options); }).empty());
    CHECK(session.tokens().empty());
  }
  CHECK_FALSE(test::error_of([&] { (void)session.chat({{"user", "hello"}}); }).empty());
}

TEST_CASE("a chat remembers both sides of it") {
  const test::TemporaryFolder folder;
  for (const char* name : {"config.json", "model.safetensors", "tokenizer.json"}) {
    std::filesystem::copy_file(demo_folder / name, folder / name);
  }
  test::write_file(folder / "tokenizer_config.json",
                   R"({"bos_token":"<s>","eos_token":"</s>","chat_template":"{{ bos_token }}{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}[assistant]"})");
  const Model model = Model::load(folder.path());
  Session session(model);
  TextRange first = session.chat({{"system", "Be brief."}, {"user", "Who are you?"}}, sampled(8));
  const std::string reply = first.text();
  TextRange second = session.chat({{"user", "And then?"}}, sampled(8));
  (void)second.text();
  const std::string past = model.tokenizer().decode(session.tokens());
  CHECK(past.find("[system] Be brief.\n[user] Who are you?\n[assistant]" ) != std::string::npos);
  CHECK(past.find(reply) != std::string::npos);
  CHECK(past.find("[user] And then?\n[assistant]") > past.find(reply));
}

TEST_CASE("a native file gives the same integers under every instruction set") {
  const test::TemporaryFolder folder;
  model_of("int4").save(folder / "model.bantam");
  const std::string chosen = kernels_in_use().name;
  std::vector<std::vector<TokenId>> texts;
  for (const KernelTable* table : kernel_tables()) {
    use_kernels(table->name);
    Session session(Model::load(folder / "model.bantam"));
    TextRange range = session.stream(prompt, {.max_tokens = 12, .sampling = {.temperature = 0}});
    (void)range.text();
    texts.push_back(range.tokens());
  }
  use_kernels(chosen);
  for (const auto& tokens : texts) CHECK(tokens == texts[0]);
}

TEST_CASE("a batch gives every sequence the text that it has alone") {
  const std::string prompts[] = {prompt, "Once upon a time there was a king who", "It was the best of times", "\"No,\" said"};
  for (const char* format : {"f16", "int4"}) {
    CAPTURE(std::string(format));
    std::vector<std::string> alone;
    std::vector<Session> sessions;
    std::vector<TextRange> generations;
    for (std::size_t i = 0; i < std::size(prompts); ++i) {
      // Different lengths and ways to choose.
      GenerateOptions options = sampled(10 + static_cast<std::int64_t>(i) * 7);
      if (i == 1) options.sampling.temperature = 0;
      if (i == 2) options.stop = {"e"};
      Session single(model_of(format));
      alone.push_back(single.stream(prompts[i], options).text());
      sessions.emplace_back(model_of(format));
    }
    for (std::size_t i = 0; i < std::size(prompts); ++i) {
      GenerateOptions options = sampled(10 + static_cast<std::int64_t>(i) * 7);
      if (i == 1) options.sampling.temperature = 0;
      if (i == 2) options.stop = {"e"};
      generations.push_back(sessions[i].stream(prompts[i], options));
    }
    std::vector<std::string> together(std::size(prompts));
    std::size_t left = 0;
    do {
      left = advance(generations);
      for (std::size_t i = 0; i < std::size(prompts); ++i) together[i] += generations[i].piece();
    } while (left > 0);
    for (std::size_t i = 0; i < std::size(prompts); ++i) CHECK(together[i] == alone[i]);
    // Each of them goes on by itself.
    CHECK_FALSE(sessions[0].stream(" and then", sampled(5)).text().empty());
  }
}

TEST_CASE("a batch refuses sessions that do not belong together") {
  std::vector<Session> sessions;
  sessions.emplace_back(model_of("f16"));
  sessions.emplace_back(model_of("int4"));
  std::vector<TextRange> generations;
  for (Session& s : sessions) generations.push_back(s.stream(prompt, sampled(5)));
  CHECK(test::error_of([&] { (void)advance(generations); }).find("one model") != std::string::npos);
  std::vector<TextRange> twice;
  for (int i = 0; i < 2; ++i) twice.push_back(sessions[0].stream(prompt, sampled(5)));
  CHECK(test::error_of([&] { (void)advance(twice); }).find("twice") != std::string::npos);
}

TEST_CASE("guessed tokens never change the text: lookup, a draft model, a bad draft, greedy and sampled") {
  const std::string repeated = "The cat sat on the mat. The dog sat on the log. The cat sat on the mat. The dog sat on";
  // A draft that is nearly right, and one that always is.
  Session good(model_of("int4"));
  Session same(model_of("f16"));
  for (const float temperature : {0.0f, 0.7f}) {
    for (const auto& [lookup, draft] : {std::pair<int, Session*>{8, nullptr}, {0, &good}, {0, &same}, {4, &good}}) {
      CAPTURE(temperature);
      CAPTURE(lookup);
      GenerateOptions options{.max_tokens = test::quick() ? 48 : 80, .sampling = {.temperature = temperature, .seed = 3}, .stop = {"zzz"}, .ignore_end = true};
      Session plain(model_of("f16"));
      TextRange expected = plain.stream(repeated, options);
      const std::string text = expected.text();
      options.speculation = {.lookup = lookup, .draft = draft};
      Session session(model_of("f16"));
      TextRange range = session.stream(repeated, options);
      CHECK(range.text() == text);
      CHECK(range.tokens() == expected.tokens());
      CHECK(session.tokens() == plain.tokens());
      CHECK(range.stats().guessed_tokens >= range.stats().right_guesses);
      // Passes not seen yet are taken for cheap, so the first chance to guess is used.
      CHECK(range.stats().guessed_tokens > 0);
      if (temperature == 0 && draft == &same) {
        // Where both models are one, every guess that was made is right.
        CHECK(range.stats().right_guesses == range.stats().guessed_tokens);
      }
      // And the session goes on as if nothing had been guessed.
      options.speculation = {};
      CHECK(session.stream(" and", options).text() == plain.stream(" and", options).text());
    }
  }
  Session session(model_of("f16"));
  GenerateOptions options = sampled(5);
  options.speculation.draft = &session;
  CHECK(test::error_of([&] { (void)session.stream(prompt, options); }).find("draft: expected another session") != std::string::npos);
  options.speculation = {.lookup = 17};
  CHECK(test::error_of([&] { (void)session.stream(prompt, options); }).find("lookup: expected 0 to 16") != std::string::npos);
}

TEST_CASE("guessing respects the limits: tokens asked for, the context, stop texts, the model's end") {
  const auto ids = tokens_of("a b a b a b a b a b a b a b");
  for (const std::int64_t room : {1, 2, 3, 5, 9}) {
    CAPTURE(room);
    GenerateOptions options{.max_tokens = room, .sampling = {.temperature = 0}, .ignore_end = true, .speculation = {.lookup = 16}};
    Session limited(model_of("f16"));
    TextRange range = limited.stream(std::span<const TokenId>(ids), options);
    (void)range.text();
    CHECK(static_cast<std::int64_t>(range.tokens().size()) == room);
    CHECK(range.finish() == Finish::length);
    options.max_tokens = -1;
    Session narrow(model_of("f16"), {.context = static_cast<std::int64_t>(ids.size()) + room});
    TextRange full = narrow.stream(std::span<const TokenId>(ids), options);
    (void)full.text();
    CHECK(full.tokens() == range.tokens());
  }
}

TEST_CASE("a scope that cancels stops encoding within a few words and perplexity within a window") {
  const Model model = Model::load(demo_folder);
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += "word" + std::to_string(i) + ' ';
  const std::string one_word(100'000, 'a');
  int asked = 0;
  const auto stopped = [&](auto&& work) {
    asked = 0;
    const CancelScope scope([&] { return ++asked > 3; });
    return test::error_of(work).find("cancelled") != std::string::npos;
  };
  CHECK(stopped([&] { (void)model.tokenizer().encode(text); }));
  CHECK(stopped([&] { (void)model.tokenizer().encode(one_word); }));
  // A single window, of whose layers the first ones are read.
  CHECK(stopped([&] { (void)perplexity(model, text, {.context = 64, .limit = 64}); }));
  CHECK(asked == 4);
}
