// Conversations that outgrow their context.
#include "bantam/session/conversation.hpp"

#include "tiny_model.hpp"

namespace bantam::test {
namespace {

constexpr const char* template_text = "{% for m in messages %}<{{ m.role[0] }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<a>{% endif %}";

Model model_of(const TemporaryFolder& folder, bool with_template) {
  TinyModel tiny;
  tiny.make().write_folder(folder / "hf");
  if (with_template) {
    Json config = {{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"unk_token", "<unk>"}};
    config["chat_template"] = template_text;
    write_file(folder / "hf" / "tokenizer_config.json", config.dump());
  }
  return Model::load(folder / "hf");
}

GenerateOptions greedy(std::int64_t count) { return {.max_tokens = count, .sampling = {.temperature = 0}, .ignore_end = true}; }

/// A turn from message to kept reply.
std::string turn(Conversation& talk, const std::string& message, std::int64_t count = 6) {
  std::string reply = talk.answer(message, greedy(count)).text();
  talk.keep_reply(reply);
  return reply;
}

TEST_CASE("a conversation reads what the template writes of it, and what it has read already not again") {
  const TemporaryFolder folder;
  const Model model = model_of(folder, true);
  Session session(model, {.context = 1000}), fresh(model, {.context = 1000});
  Conversation talk(session);
  talk.set_system("ab");
  turn(talk, "abc");
  TextRange second = talk.answer("cab", greedy(6));
  const std::string prompt = chat_prompt(model.tokenizer(), talk.messages());
  const std::vector<TokenId> tokens = model.tokenizer().encode(prompt, {.add_special = false, .parse_special = true});
  CHECK(session.tokens() == tokens);
  CHECK(second.stats().prompt_tokens < static_cast<std::int64_t>(tokens.size()));
  CHECK(second.text() == fresh.stream(tokens, greedy(6)).text());
}

TEST_CASE("the oldest turns leave a full context, the system message stays, and nothing is forgotten that was said") {
  const TemporaryFolder folder;
  for (const bool with_template : {true, false}) {
    CAPTURE(with_template);
    const Model model = model_of(folder, with_template);
    Session session(model, {.context = 120});
    Conversation talk(session);
    talk.set_system("abcabc");
    for (int i = 0; i < 30; ++i) {
      turn(talk, "abc" + std::string(static_cast<std::size_t>(i % 5), 'b'));
      CHECK(static_cast<std::int64_t>(session.tokens().size()) <= session.context());
      CHECK(model.tokenizer().decode(session.tokens()).find("abcabc") != std::string::npos);
    }
    CHECK(talk.forgotten() > 0);
    CHECK(talk.forgotten() % 2 == 0);
    CHECK(talk.messages().size() == 61);
    talk.clear();
    CHECK(talk.messages().size() == 1);
    CHECK(talk.forgotten() == 0);
  }
}

TEST_CASE("a reply that meets the end of the context goes on in the room of the oldest turns") {
  const TemporaryFolder folder;
  const Model model = model_of(folder, false);
  Session session(model, {.context = 100});
  Conversation talk(session);
  turn(talk, std::string(20, 'a'), 20);
  TextRange range = talk.answer(std::string(20, 'b'), greedy(-1));
  const std::string begun = range.text();
  CHECK(range.finish() == Finish::length);
  CHECK(static_cast<std::int64_t>(session.tokens().size()) == session.context());
  const std::size_t before = range.tokens().size();
  std::optional<TextRange> more = talk.go_on(greedy(5));
  REQUIRE(more.has_value());
  CHECK(more->text().size() > 0);
  CHECK(talk.forgotten() == 2);
  // What was generated is still read.
  const std::vector<TokenId>& held = session.tokens();
  CHECK(std::ranges::search(held, range.tokens()).begin() != held.end());
  CHECK(before == range.tokens().size());
  CHECK_FALSE(talk.go_on(greedy(5)).has_value());
}

TEST_CASE("a message that is too long is refused and leaves the conversation as it was") {
  const TemporaryFolder folder;
  Session session(model_of(folder, true), {.context = 60});
  Conversation talk(session);
  turn(talk, "abc");
  CHECK(error_of([&] { (void)talk.answer(std::string(300, 'a'), greedy(5)); }).find("context: expected at most 60 tokens") == 0);
  CHECK(talk.messages().size() == 2);
  CHECK(talk.forgotten() == 0);
  CHECK_FALSE(turn(talk, "abc").empty());
}

TEST_CASE("another reply takes the place of the last") {
  const TemporaryFolder folder;
  Session session(model_of(folder, true), {.context = 200});
  Conversation talk(session);
  CHECK(error_of([&] { (void)talk.answer_again(greedy(5)); }).find("expected a reply") == 0);
  turn(talk, "ab");
  const std::string first = turn(talk, "abc");
  CHECK(talk.answer_again(greedy(6)).text() == first);
  CHECK(talk.messages().size() == 3);
  talk.keep_reply(first);
  CHECK(error_of([&] { (void)talk.answer_again({.sampling = {.temperature = -1, .top_p = -3}}); }).size() > 0);
  CHECK(talk.messages().size() == 4);
}

TEST_CASE("a message whose reply was not kept goes when the next one comes, and replies have a message") {
  const TemporaryFolder folder;
  Session session(model_of(folder, true), {.context = 200});
  Conversation talk(session);
  CHECK(error_of([&] { talk.keep_reply("ab"); }).find("expected a message") == 0);
  CHECK(error_of([&] { (void)talk.go_on(greedy(5)); }).find("expected a reply") == 0);
  turn(talk, "ab");
  (void)talk.answer("abc", greedy(6)).text();
  turn(talk, "cab");
  REQUIRE(talk.messages().size() == 4);
  CHECK(talk.messages()[2].content == "cab");
  CHECK(error_of([&] { talk.keep_reply("ab"); }).find("expected a message") == 0);
  CHECK(error_of([&] { (void)talk.go_on(greedy(5)); }).find("expected a reply") == 0);
  (void)talk.answer("abc", greedy(6)).text();
  talk.drop_unanswered();
  CHECK(talk.messages().size() == 4);
  talk.set_messages(talk.messages());
}

TEST_CASE("messages from outside are turns, or refused") {
  const TemporaryFolder folder;
  Session session(model_of(folder, true), {.context = 200});
  Conversation talk(session);
  talk.set_messages({{"system", "a"}, {"user", "b"}, {"assistant", "c"}});
  CHECK(talk.messages().size() == 3);
  turn(talk, "ab");
  CHECK(error_of([&] { talk.set_messages({{"assistant", "a"}}); }) == "message 0: expected role user, found assistant");
  CHECK(error_of([&] { talk.set_messages({{"user", "a"}, {"user", "a"}}); }) == "message 1: expected role assistant, found user");
  CHECK(error_of([&] { talk.set_messages({{"user", "a"}}); }).find("expected a reply") != std::string::npos);
  CHECK(talk.messages().size() == 5);
  talk.set_system("");
  CHECK(talk.messages().size() == 4);
}

}  // namespace
}  // namespace bantam::test
