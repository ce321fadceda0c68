// Chat templates without an oracle: what the interface promises.
#include <doctest/doctest.h>

#include <vector>

#include "bantam/text/chat_template.hpp"
#include "support.hpp"

using bantam::ChatMessage;
using bantam::ChatOptions;
using bantam::ChatTemplate;
using bantam::Errc;

namespace {

std::string render(std::string_view source, std::string_view context = "{}") { return ChatTemplate(source).render_json(context); }

Errc code_of(std::string_view source, std::string_view context = "{}") {
  try {
    (void)render(source, context);
  } catch (const bantam::Error& error) {
    return error.code();
  }
  FAIL_CHECK("no Error was thrown by: ", source);
  return Errc::cancelled;
}

constexpr std::string_view chatml =
    "{% for message in messages %}\n"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}\n"
    "{%- endfor %}\n"
    "{% if add_generation_prompt %}\n"
    "{{ '<|im_start|>assistant\\n' }}\n"
    "{%- endif %}\n";

}  // namespace

TEST_CASE("messages become the prompt") {
  const std::vector<ChatMessage> messages = {{"system", "Be brief."}, {"user", "Hi, ünïcode"}};
  const ChatTemplate chat(chatml);
  CHECK(chat.render(messages) ==
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi, ünïcode<|im_end|>\n<|im_start|>assistant\n");
  CHECK(chat.render(messages, {.add_generation_prompt = false}) ==
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi, ünïcode<|im_end|>\n");
  CHECK(chat.render({}) == "<|im_start|>assistant\n");
}

TEST_CASE("bos and eos tokens are variables") {
  const ChatTemplate chat("{{ bos_token }}{{ messages[0].content }}{{ eos_token }}");
  const std::vector<ChatMessage> messages = {{"user", "x"}};
  CHECK(chat.render(messages, {.bos_token = "<s>", .eos_token = "</s>"}) == "<s>x</s>");
}

TEST_CASE("any member of the JSON context is a variable") {
  CHECK(render("{{ tools[0].name }} {{ extra }}", R"({"tools": [{"name": "f"}], "extra": 5})") == "f 5");
}

TEST_CASE("strftime_now formats the given time") {
  const ChatOptions options{.now = std::chrono::sys_seconds{std::chrono::seconds{0}}};
  CHECK(ChatTemplate("{{ strftime_now('%d %b %Y %H:%M:%S') }}").render({}, options) == "01 Jan 1970 00:00:00");
  CHECK(ChatTemplate("{{ strftime_now('%Y') | length }}").render({}) == "4");
}

TEST_CASE("bytes of a message that are no UTF-8 pass through") {
  const std::string broken = "a\xff\xc3(b\xe2\x82";
  const std::vector<ChatMessage> messages = {{"user", broken}};
  CHECK(ChatTemplate("{{ messages[0].content }}").render(messages) == broken);
  CHECK(ChatTemplate("{{ messages[0].content | trim | length }}").render(messages) == "7");
  CHECK(ChatTemplate("{{ messages[0].content[::-1][::-1] }}").render(messages) == broken);
  CHECK(ChatTemplate("{{ messages[0].content | upper | lower }}").render(messages) == broken);
}

TEST_CASE("a template's refusal is an invalid argument that carries its words") {
  const ChatTemplate chat("line one\n{{ raise_exception('Roles must\\nalternate') }}", "tokenizer_config.json");
  const std::string text = bantam::test::error_of([&] { (void)chat.render({}); });
  CHECK(text == "tokenizer_config.json: line 2: the template refuses: Roles must\\x0aalternate");
  CHECK(code_of("{{ raise_exception('no') }}") == Errc::invalid_argument);
}

TEST_CASE("errors name the place, the line, what was expected and what was found") {
  const auto error = [](std::string_view source) {
    return bantam::test::error_of([&] { (void)ChatTemplate(source, "x.jinja").render({}); });
  };
  CHECK(error("a\n{% if x %}") == "x.jinja: line 2: expected {% endif %}, found the end of the template");
  CHECK(error("{{ (1 }}") == "x.jinja: line 1: expected ')', found '}'");
  CHECK(error("{{ 1 | nope }}") == "x.jinja: line 1: found no filter 'nope'");
  CHECK(error("\n\n{{ missing.x }}") == "x.jinja: line 3: 'missing' is undefined");
  CHECK(error("{{ messages.x.y }}") == "x.jinja: line 1: 'list object' has no attribute 'x'");
  CHECK(error("{{ 1 + 'a' }}") == "x.jinja: line 1: expected operands that fit '+', found a int and a str");
  CHECK(error("{% set x =\n %}") == "x.jinja: line 2: expected an expression, found '%}'");
}

TEST_CASE("syntax is corrupt, a wrong context is an invalid argument, a bound is unsupported") {
  CHECK(code_of("{% if %}") == Errc::corrupt);
  CHECK(code_of("{{ missing() }}") == Errc::invalid_argument);
  CHECK(code_of("x", "[1]") == Errc::invalid_argument);
  CHECK(code_of("x", "{") == Errc::invalid_argument);
  CHECK(code_of("x", "{\"a\": \"\xff\"}") == Errc::invalid_argument);
  CHECK(code_of("x", "") == Errc::invalid_argument);
  CHECK(code_of("x", R"({"a": 18446744073709551615})") == Errc::unsupported);
  CHECK(code_of("x", R"({"a": 123456789012345678901234567890})") == Errc::unsupported);
  CHECK(code_of("{{ 9223372036854775807 + 1 }}") == Errc::unsupported);
  CHECK(code_of("{% include 'x' %}") == Errc::unsupported);
}

TEST_CASE("a macro keeps the scope of its definition") {
  CHECK(render("{% set ns = namespace() %}{% for i in [1, 2] %}{% macro k() %}<{{ i }}>{% endmacro %}"
               "{% set ns.k = k %}{% endfor %}{{ ns.k() }}") == "<2>");
}

TEST_CASE("a loop kept beyond its end is harmless") {
  CHECK(render("{% set ns = namespace() %}{% for i in [1, 2] %}{% set ns.l = loop %}{% endfor %}"
               "{{ ns.l.index }}{{ ns.l.length }}{{ ns.l.last }}{{ ns.l.nextitem }}") == "22True");
}

TEST_CASE("nothing of the host is within reach") {
  CHECK(code_of("{{ ''.__class__.__mro__ }}") == Errc::invalid_argument);
  CHECK(code_of("{{ [].append(1) }}") == Errc::invalid_argument);
  CHECK(code_of("{{ messages.append(1) }}", R"({"messages": []})") == Errc::invalid_argument);
  CHECK(code_of("{{ ns.__init__() }}", R"({"ns": {}})") == Errc::invalid_argument);
  CHECK(render("{{ open is defined }}{{ os is defined }}{{ self is defined }}") == "FalseFalseFalse");
}

TEST_CASE("a template is shared by its copies") {
  const auto make = [] { return ChatTemplate("{{ x }}"); };
  const ChatTemplate copy = make();
  CHECK(copy.render_json(R"({"x": 1})") == "1");
}
