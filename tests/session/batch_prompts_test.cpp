// Prompts of several sessions in shared passes, and conversations as JSON.
#include <optional>

#include "bantam/bantam.hpp"
#include "limits.hpp"
#include "session/demo.hpp"
#include "support.hpp"

using namespace bantam;
using namespace bantam::test;

namespace {

std::vector<TokenId> tokens_of(std::string_view text) { return demo().tokenizer().encode(text); }

}  // namespace

TEST_CASE("prompts read together leave each session, bit for bit, as if read alone") {
  const std::vector<std::vector<TokenId>> texts = {tokens_of("The sea"), tokens_of(std::string(quick() ? 700 : 2500, 'a') + " long"), {}, tokens_of("A boy said to the old man")};
  std::vector<Session> together, alone;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    together.emplace_back(demo(), SessionOptions{.context = 4096});
    alone.emplace_back(demo(), SessionOptions{.context = 4096});
    if (i != 1) together.back().prefill("Once"), alone.back().prefill("Once");  // some go on
    alone.back().prefill(texts[i]);
  }
  std::vector<Prompt> prompts;
  for (std::size_t i = 0; i < texts.size(); ++i) prompts.push_back({&together[i], texts[i]});
  prefill(prompts);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    CAPTURE(i);
    CHECK(together[i].tokens() == alone[i].tokens());
    CHECK(logits_of(together[i]) == logits_of(alone[i]));
  }
  prefill({});
}

TEST_CASE("prompts that cannot be read together leave all sessions as they were") {
  std::int64_t allowed = 1000000;
  const SessionOptions asks{.context = 64, .progress = [&](std::int64_t, std::int64_t) { return allowed-- > 0; }};
  Session a(demo(), {.context = 64}), b(demo(), asks), other(demo(), {.context = 65});
  a.prefill("Once upon");
  const std::vector<TokenId> held = a.tokens();
  const std::vector<float> before = logits_of(a);
  const auto words = tokens_of("The sea and the old man");
  const std::vector<TokenId> outside = {1, 1 << 30}, many(70, 5);
  const auto refused = [&](std::vector<Prompt> prompts) {
    const std::string error = test::error_of([&] { prefill(prompts); });
    CHECK(!error.empty());
    CHECK(a.tokens() == held);
    CHECK(b.tokens().empty());
    return error;
  };
  CHECK(refused({{&a, words}, {&a, words}}).find("twice") != std::string::npos);
  CHECK(refused({{&a, words}, {&other, words}}).find("equal context") != std::string::npos);
  (void)refused({{&a, words}, {nullptr, words}});
  (void)refused({{&a, words}, {&b, outside}});
  (void)refused({{&a, words}, {&b, many}});
  allowed = 1;
  (void)refused({{&a, words}, {&b, words}});
  CHECK(logits_of(a) == before);
}

TEST_CASE("a conversation as JSON is answered as the same messages are, and what is held is not read again") {
  const test::TemporaryFolder folder;
  for (const char* name : {"config.json", "model.safetensors", "tokenizer.json"}) std::filesystem::copy_file(demo_folder / name, folder / name);
  test::write_file(folder / "tokenizer_config.json",
                   R"({"bos_token":"<s>","eos_token":"</s>","chat_template":"{{ bos_token }}{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}[{{ m.role }}] {{ m.content }}{% for c in m.tool_calls %}{{ c.function.name }}({{ c.function.arguments.city }}){% endfor %}\n{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}"})");
  const Model chatty = Model::load(folder.path());
  const GenerateOptions options{.max_tokens = 8, .sampling = {.temperature = 0}};
  Session spoken(chatty), written(chatty);
  const std::string reply = spoken.chat({{"system", "Be brief."}, {"user", "Who are you?"}}, options).text();
  CHECK(written.chat_json(R"([{"role":"system","content":"Be brief."},{"role":"user","content":[{"type":"text","text":"Who are "},{"type":"text","text":"you?"}]}])", options).text() == reply);
  CHECK(spoken.tokens() == written.tokens());
  // The next turn reads the new end alone.
  const std::int64_t held = static_cast<std::int64_t>(written.tokens().size());
  TextRange next = written.chat_json(R"({"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Who are you?"},{"role":"user","content":"Well?"}]})", options);
  (void)next.text();
  CHECK(next.stats().prompt_tokens < held);

  const auto prompt = [&](std::string_view json) { return chat_prompt_json(chatty.tokenizer(), json); };
  CHECK(prompt(R"([{"role":"user","content":"hi"}])") == chat_prompt(chatty.tokenizer(), std::vector<ChatMessage>{{"user", "hi"}}));
  CHECK(prompt(R"({"messages":[{"role":"user","content":"hi"}],"add_generation_prompt":false})") == "<s>[user] hi");
  CHECK(prompt(R"({"messages":[{"role":"assistant","content":null,"tool_calls":[{"type":"function","function":{"name":"weather","arguments":"{\"city\": \"Rome\"}"}}]}]})") ==
        "<s>[assistant] Noneweather(Rome)[assistant]");
  CHECK(prompt(R"({"messages":[],"tools":[{"type":"function","b":1,"a":2}]})") == R"(<s>[{"type": "function", "b": 1, "a": 2}][assistant])");
  for (const char* wrong : {"", "{", "7", "{}", R"({"messages":7})", R"([7])", R"([{"content":"x"}])", R"([{"role":"user","content":7}])",
                            R"([{"role":"user","content":[{"type":"text"}]}])", R"([{"role":"assistant","tool_calls":[7]}])"}) {
    CAPTURE(wrong);
    std::optional<Errc> code;
    try {
      (void)prompt(wrong);
    } catch (const Error& error) {
      code = error.code();
    }
    CHECK(code == Errc::invalid_argument);
  }
  CHECK(test::error_of([&] { (void)prompt(R"([{"role":"user","content":[{"type":"image_url","image_url":"x"}]}])"); }).find("image_url") != std::string::npos);
  CHECK(test::error_of([&] { (void)chat_prompt_json(demo().tokenizer(), "[]"); }).find("template") != std::string::npos);
}
