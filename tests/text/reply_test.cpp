// Replies told apart: what templates write of calls is read back, however it is cut.
#include "bantam/text/reply.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "bantam/core/error.hpp"
#include "reply_support.hpp"

using namespace bantam;
using namespace bantam::test;
using nlohmann::json;

namespace {

struct Written {
  std::string_view form;
  std::string_view reply;
  std::string_view reasoning, text;
  std::vector<ToolCall> calls;
};

/// Replies in forms whose templates are not at hand, and in other ways of writing those that are.
const Written written[] = {
    {"text", "<think>a</think> <tool_call>{}</tool_call>\n", "", "<think>a</think> <tool_call>{}</tool_call>\n", {}},
    {"hermes", " Hi \n there. \n", "", " Hi \n there. \n", {}},
    {"hermes", "<think>\nA b.\n</think>\n\nText.\n\n", "A b.", "Text.\n\n", {}},
    {"hermes", "I <think> so.", "", "I <think> so.", {}},
    {"hermes", "<tool_call>\n{\"arguments\": {\"a\": [1, {}]}, \"name\": \"f\"}\n</tool_call>", "", "", {{"", "f", "{\"a\": [1, {}]}"}}},
    {"hermes", "<tool_call>{\"name\": \"f\"}</tool_call> done", "", "done", {{"", "f", "{}"}}},
    {"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": null}</tool_call>", "", "", {{"", "f", "{}"}}},
    {"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1}\", \"id\": \"x1\"}</tool_call>", "", "", {{"x1", "f", "{\"a\": 1}"}}},
    {"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"x\ny\"}}</tool_call>", "", "", {{"", "f", "{\"a\": \"x\\ny\"}"}}},
    {"hermes", "a <tool_call>no <tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>", "", "a <tool_call>no", {{"", "f", "{}"}}},
    {"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 01}}</tool_call>", "", "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 01}}</tool_call>", {}},
    {"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {}} x</tool_call>", "", "x</tool_call>", {{"", "f", "{}"}}},
    {"ernie", "<think>\nT\n</think>\n\n<response>\nHi\n</response>\n", "T", "Hi", {}},
    {"qwen-xml", "<function=f>\n<parameter=a>\n1\n</parameter>\n</function>", "", "", {{"", "f", "{\"a\": 1}"}}},
    {"qwen-xml", "<tool_call>\n<function=f>\n</function>\n</tool_call>", "", "", {{"", "f", "{}"}}},
    {"qwen-xml", "x <tool_call>\n<function=f>\n<parameter=a>\n1", "", "x <tool_call>\n<function=f>\n<parameter=a>\n1", {}},
    {"deepseek", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\": 1}<｜tool▁call▁end｜><｜tool▁call▁begin｜>g<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     "", "", {{"", "f", "{\"a\": 1}"}, {"", "g", "{}"}}},
    {"minimax-m2", "<think>T</think>\n<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"a\">[1]</parameter>\n</invoke>\n</minimax:tool_call>",
     "T", "", {{"", "f", "{\"a\": [1]}"}}},
    {"mistral", "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"a\": 1}, \"id\": \"abcdefghi\"}, {\"name\": \"g\", \"arguments\": {}}]", "", "",
     {{"abcdefghi", "f", "{\"a\": 1}"}, {"", "g", "{}"}}},
    {"mistral", "[THINK]T[/THINK]A[TOOL_CALLS]f[CALL_ID]abcdefghi[ARGS]{\"a\": 1}", "T", "A", {{"abcdefghi", "f", "{\"a\": 1}"}}},
    {"llama-3", "<|python_tag|>{\"type\": \"function\", \"name\": \"f\", \"parameters\": {\"a\": 1}}; {\"name\": \"g\", \"parameters\": {}}", "", "",
     {{"", "f", "{\"a\": 1}"}, {"", "g", "{}"}}},
    {"llama-3", "{\"name\": \"Ann\", \"age\": 3}", "", "{\"name\": \"Ann\", \"age\": 3}", {}},
    {"llama-3", "{\"name\": \"Ann\"}", "", "{\"name\": \"Ann\"}", {}},
    {"functionary", "<function=f>{\"a\": 1}</function>", "", "", {{"", "f", "{\"a\": 1}"}}},
    {"tool-calls", "<tool_calls>\n<tool_call>f\n```json\n{\"a\": 1}\n```\n</tool_call>\n<tool_call>g\n```json\n{}\n```\n</tool_call>\n</tool_calls>", "", "",
     {{"", "f", "{\"a\": 1}"}, {"", "g", "{}"}}},
    {"command-r7b", "<|START_THINKING|>T<|END_THINKING|><|START_ACTION|>[\n {\"tool_call_id\": \"0\", \"tool_name\": \"f\", \"parameters\": {\"a\": 1}}\n]<|END_ACTION|>",
     "T", "", {{"0", "f", "{\"a\": 1}"}}},
    {"command-r7b", "<|START_RESPONSE|>Hi<|END_RESPONSE|>", "", "Hi", {}},
    {"phi-4-mini", "<|tool_call|>[{\"name\": \"f\", \"arguments\": {\"a\": 1}}]<|/tool_call|>", "", "", {{"", "f", "{\"a\": 1}"}}},
    {"phi-4-mini", "functools[{\"name\": \"f\", \"arguments\": {\"a\": 1}}]", "", "", {{"", "f", "{\"a\": 1}"}}},
    {"nemotron-2", "<TOOLCALL>[{\"name\": \"f\", \"arguments\": {\"a\": 1}}]</TOOLCALL>", "", "", {{"", "f", "{\"a\": 1}"}}},
    {"lfm2", "<|tool_call_start|>[f(a=1, s='it\\'s \"x\"', l=[True, None], d={'k': 1.5}), g()]<|tool_call_end|>Wait.", "", "Wait.",
     {{"", "f", "{\"a\": 1, \"s\": \"it's \\\"x\\\"\", \"l\": [true, null], \"d\": {\"k\": 1.5}}"}, {"", "g", "{}"}}},
    {"lfm2", "<|tool_call_start|>[f(a=)]<|tool_call_end|>", "", "<|tool_call_start|>[f(a=)]<|tool_call_end|>", {}},
    {"gemma4", "<|channel>thought\nT\n<channel|>A<|tool_call>call:f{o:{k:[1,<|\"|>x<|\"|>]}}<tool_call|>", "T", "A", {{"", "f", "{\"o\": {\"k\": [1, \"x\"]}}"}}},
    {"harmony", "<|channel|>analysis<|message|>T<|end|><|start|>assistant<|channel|>commentary<|message|>P<|end|><|start|>assistant<|channel|>commentary "
                "to=functions.f <|constrain|>json<|message|>{\"a\": 1}<|call|>",
     "T", "P", {{"", "f", "{\"a\": 1}"}}},
    {"harmony", "<|channel|>final<|message|>Hi  there <|return|>", "", "Hi  there", {}},
    {"harmony", "No header.", "", "No header.", {}},
    {"harmony", "<|channel|>commentary to=python<|message|>print(1)<|call|>", "", "<|channel|>commentary to=python<|message|>print(1)", {}},
};

}  // namespace

TEST_CASE("replies as models write them") {
  for (const Written& one : written) {
    CAPTURE(one.form);
    CAPTURE(one.reply);
    const ParsedReply reply = parse_reply(one.reply, one.form);
    CHECK(reply.reasoning == one.reasoning);
    CHECK(reply.text == one.text);
    REQUIRE(reply.calls.size() == one.calls.size());
    for (std::size_t i = 0; i < one.calls.size(); ++i) {
      CHECK(reply.calls[i].name == one.calls[i].name);
      CHECK(reply.calls[i].id == one.calls[i].id);
      CHECK(reply.calls[i].arguments == one.calls[i].arguments);
    }
  }
}

TEST_CASE("cuts change nothing, and no byte is lost") {
  std::mt19937 random(1);
  for (const Written& one : written) {
    // In every form: most replies are broken ones there.
    for (const std::string_view form : reply_forms()) check_cuts(form, one.reply, {}, random);
    check_prefixes(one.form, one.reply, {});
  }
}

TEST_CASE("whatever stands in a reply, cuts change nothing, and no byte is lost") {
  std::mt19937 random(2);
  const std::vector<std::string> pieces = reply_pieces();
  for (const std::string_view form : reply_forms()) {
    for (int i = 0; i < 150; ++i) {
      std::string reply;
      for (std::size_t n = random() % 24; n > 0; --n) reply += pieces[random() % pieces.size()];
      ReplyOptions options;
      if (random() % 4 == 0) options.call_bytes = random() % 100;
      if (random() % 4 == 0) options.prompt = "x<think>\n";
      if (random() % 2 == 0) options.tools = R"([{"name":"f","parameters":{"properties":{"a":{"type":"string"},"b":{"type":["array","null"]}}}}])";
      check_cuts(form, reply, options, random);
    }
  }
}

TEST_CASE("types of arguments follow the schema, and without one the value") {
  const auto argument = [](std::string_view value, std::string_view schema) {
    const std::string tools = "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"properties\":{\"a\":" + std::string(schema) + "}}}}]";
    const ParsedReply reply = parse_reply("<tool_call>f<arg_key>a</arg_key><arg_value>" + std::string(value) + "</arg_value></tool_call>", "glm", {.tools = tools});
    REQUIRE(reply.calls.size() == 1);
    return reply.calls[0].arguments;
  };
  CHECK(argument("1", "{}") == "{\"a\": 1}");
  CHECK(argument("1", R"({"type":"string"})") == "{\"a\": \"1\"}");
  CHECK(argument(" x\"y\n", R"({"type":"string"})") == "{\"a\": \" x\\\"y\\n\"}");
  CHECK(argument("True", R"({"type":"boolean"})") == "{\"a\": true}");
  CHECK(argument("True", R"({"type":"string"})") == "{\"a\": \"True\"}");
  CHECK(argument("None", R"({"type":["string","null"]})") == "{\"a\": null}");
  CHECK(argument("5", R"({"type":["string","null"]})") == "{\"a\": \"5\"}");
  CHECK(argument("5", R"({"anyOf":[{"type":"string"},{"type":"integer"}]})") == "{\"a\": 5}");
  CHECK(argument("{'k': [1, 'x']}", R"({"type":"object"})") == "{\"a\": {\"k\": [1, \"x\"]}}");
  CHECK(argument("", R"({"type":"string"})") == "{\"a\": \"\"}");
  CHECK(argument("", R"({"type":"array"})") == "{\"a\": []}");
  CHECK(argument("12345678901234567890.10", "{}") == "{\"a\": 12345678901234567890.10}");
  CHECK(argument("red", R"({"enum":["red",1]})") == "{\"a\": \"red\"}");
  CHECK(argument("two words", "{}") == "{\"a\": \"two words\"}");
}

TEST_CASE("arguments stream while they are written") {
  ReplyParser parser("hermes");
  std::string arguments;
  for (const ReplyEvent& event : parser.feed("<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"long ")) arguments += event.kind == ReplyEvent::Kind::arguments ? event.text : "";
  CHECK(arguments == "{\"a\": \"long ");
  ReplyParser xml("qwen-xml", {.tools = R"([{"name":"f","parameters":{"properties":{"a":{"type":"string"}}}}])"});
  arguments.clear();
  for (const ReplyEvent& event : xml.feed("<tool_call>\n<function=f>\n<parameter=a>\nlong \"te")) arguments += event.kind == ReplyEvent::Kind::arguments ? event.text : "";
  CHECK(arguments == "{\"a\": \"long \\\"te");
}

TEST_CASE("the prompt may open the reasoning") {
  CHECK(parse_reply("T</think>\n\nA", "hermes", {.prompt = "<|im_start|>assistant\n<think>\n"}) == ParsedReply{"T", "A", {}});
  CHECK(parse_reply("T", "hermes", {.prompt = "<think>"}) == ParsedReply{"T", "", {}});
  CHECK(parse_reply("T", "hermes", {.prompt = "<think>\n\n</think>\n\n"}) == ParsedReply{"", "T", {}});
}

TEST_CASE("thoughts are text where they are wanted so, with their marks, and calls stay calls") {
  std::mt19937 random(7);
  for (const Written& w : written) {
    CAPTURE(w.form);
    CAPTURE(w.reply);
    const ParsedReply reply = parse_reply(w.reply, w.form, {.reasoning = false});
    CHECK(reply.reasoning.empty());
    CHECK(reply.text.find(w.reasoning) != std::string::npos);
    CHECK(reply.text.find(w.text) != std::string::npos);
    CHECK(reply.calls == w.calls);
    (void)check_cuts(w.form, w.reply, {.reasoning = false}, random);
  }
  CHECK(parse_reply("<think>\nA b.\n</think>\n\nText.\n\n", "hermes", {.reasoning = false}).text == "<think>\nA b.\n</think>\n\nText.\n\n");
  // What the prompt opened is closed by the reply alone.
  CHECK(parse_reply("A\n</think>\n\nT", "hermes", {.prompt = "<|im_start|>assistant\n<think>\n", .reasoning = false}).text == "A\n</think>\n\nT");
}

TEST_CASE("a name that no tool has is no call where nothing else says so") {
  const std::string_view tools = R"([{"name":"f"}])";
  CHECK(parse_reply(R"({"name": "f", "parameters": {}})", "llama-3", {.tools = tools}).calls.size() == 1);
  CHECK(parse_reply(R"({"name": "g", "parameters": {}})", "llama-3", {.tools = tools}).text == R"({"name": "g", "parameters": {}})");
}

TEST_CASE("unknown forms and tools that are no JSON are refused") {
  CHECK_THROWS_WITH_AS(ReplyParser("nothing"), doctest::Contains("reply form: expected one of harmony, "), Error);
  CHECK_THROWS_AS(ReplyParser("hermes", {.tools = "{"}), Error);
  CHECK_THROWS_AS(ReplyParser("hermes", {.tools = "3"}), Error);
}

TEST_CASE("a call that takes too much is text") {
  const std::string reply = "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"" + std::string(1000, 'x') + "\"}}</tool_call>";
  CHECK(parse_reply(reply, "hermes", {.call_bytes = 500}).text == reply);
  CHECK(parse_reply(reply, "hermes").calls.size() == 1);
}
