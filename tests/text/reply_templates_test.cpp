// Every template's calls, cut out of what it renders, are read back as they were put in.
#include <doctest/doctest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "bantam/core/error.hpp"
#include "bantam/text/chat_template.hpp"
#include "reply_support.hpp"
#include "support.hpp"

using namespace bantam;
using namespace bantam::test;
using nlohmann::ordered_json;

namespace {

/// Templates that write no calls: an assistant's message is its text alone.
const std::map<std::string, std::string> without_calls = {
    {"google-gemma-2-2b-it.jinja", "Gemma 2 knows no tools"},
    {"HuggingFaceTB-SmolLM3-3B.jinja", "leaves tool_calls out; the model writes them as hermes"},
    {"LFM2-8B-A1B.jinja", "leaves tool_calls out; the model writes them as lfm2"},
    {"LFM2.5-Instruct.jinja", "leaves tool_calls out; the model writes them as lfm2"},
};

/// Kimi K2 Thinking changes a list, which Jinja2's sandbox and we refuse: the same without that line.
const std::map<std::string, std::pair<std::string, std::string>> mended = {
    {"Kimi-K2-Thinking.jinja", {"{%- set _ = tool_response_queue.ids.append(formatted_id) -%}", "{%- set tool_response_queue.ids = tool_response_queue.ids + [formatted_id] -%}"}},
};

const std::string said = "The \"text\".\nOf two lines, 3 < 4 & ünï.", thought = "The thought,\n\nlong.";

ordered_json tools() {
  const auto property = [](const char* type) { return ordered_json{{"type", type}, {"description", "d"}}; };
  ordered_json object = property("object"), array = property("array"), nullable;
  object["properties"] = {{"deep", {{"type", "array"}, {"items", {{"type", "object"}, {"properties", {{"n", property("number")}, {"s", property("string")}}}}}}},
                          {"word", property("string")}};
  object["additionalProperties"] = property("string");
  array["items"] = property("string");
  ordered_json first = {{"type", "object"},
                        {"properties",
                         {{"city", property("string")}, {"digits", property("string")}, {"empty", property("string")}, {"count", property("integer")},
                          {"ratio", property("number")}, {"flag", property("boolean")}, {"where", object}, {"list", array}}},
                        {"required", {"city"}}};
  ordered_json none = {{"type", "object"}, {"properties", ordered_json::object()}};
  return {{{"type", "function"}, {"function", {{"name", "get_weather"}, {"description", "d"}, {"parameters", first}}}},
          {{"type", "function"}, {"function", {{"name", "no-arguments_2"}, {"description", "d"}, {"parameters", none}}}}};
}

ordered_json call(const char* id, const char* name, ordered_json arguments) {
  return {{"id", id}, {"type", "function"}, {"function", {{"name", name}, {"arguments", std::move(arguments)}}}};
}

/// Arguments of many types.
std::vector<ordered_json> arguments() {
  return {
      {{"city", "Paris"}},
      {{"city", "A \"q\" 'b'\n\\ Zürich 🌍\t<b>&amp;</b> {x: [1]}"}, {"count", -7}},
      {{"city", "1"}, {"digits", "007"}, {"count", 42}, {"ratio", 0.25}, {"flag", true}},
      {{"city", "true"}, {"flag", false}, {"list", {"x", "1", "y z"}}},
      {{"city", "null"}, {"where", {{"deep", {{{"n", 1}, {"s", "1"}}, {{"n", 2.5}, {"s", "a,b}"}}}}, {"word", "w"}}}},
      {{"city", " spaces "}, {"digits", "two\nlines\n"}},
  };
}

struct Rendered {
  std::string text;
  bool fails = false;
};

class Family {
 public:
  Family(std::string name, std::string source) : name_(std::move(name)) {
    if (const auto found = mended.find(name_); found != mended.end()) {
      const std::size_t at = source.find(found->second.first);
      REQUIRE(at != source.npos);
      source.replace(at, found->second.first.size(), found->second.second);
    }
    form_ = reply_form_of(source);
    chat_.emplace(source);
    offers_tools_ = !render({}, true).fails;
  }

  [[nodiscard]] std::string_view form() const { return form_; }

  [[nodiscard]] Rendered render(const ordered_json& reply, bool opens) const {
    ordered_json messages = {{{"role", "user"}, {"content", "Q"}}};
    if (!reply.is_null()) messages.push_back(reply);
    ordered_json context = {{"messages", messages}, {"add_generation_prompt", opens}, {"bos_token", "<BOS>"}, {"eos_token", "<EOS>"},
                            {"enable_thinking", true}, {"thinking", true}};
    if (offers_tools_) context["tools"] = tools();
    try {
      return {chat_->render_json(context.dump())};
    } catch (const Error& error) {
      return {error.what(), true};
    }
  }

  /// What the assistant wrote of a message, and the prompt in front of it.
  [[nodiscard]] std::pair<std::string, std::string> cut(const std::string& whole) const {
    const std::string prompt = render({}, true).text;
    std::size_t begin = static_cast<std::size_t>(std::mismatch(prompt.begin(), prompt.end(), whole.begin(), whole.end()).first - prompt.begin());
    // Where the template shows old turns in another way, no mark is cut.
    if (begin < prompt.size()) {
      const std::size_t open = whole.find_last_of("<[", begin - 1);
      if (open != whole.npos && whole.find_first_of(">]", open) >= begin) begin = open;
    }
    // What follows a text follows calls too.
    const std::string other = render({{"role", "assistant"}, {"content", "Text"}}, false).text;
    std::size_t ending = 0;
    while (ending < std::min(other.size(), whole.size() - begin) && other[other.size() - 1 - ending] == whole[whole.size() - 1 - ending]) ++ending;
    std::size_t end = whole.size() - ending;
    const std::size_t open = whole.rfind("<", end - 1), close = whole.find('>', end);
    if (ending > 0 && open != whole.npos && open >= begin && whole.find('>', open) == close && close != whole.npos && close - open < 16) end = close + 1;
    const std::string reply = whole.substr(begin, end - begin);
    return {reply.find(thought) != reply.npos ? prompt : whole.substr(0, begin), reply};
  }

 private:
  std::string name_;
  std::string_view form_;
  std::optional<ChatTemplate> chat_;
  bool offers_tools_ = true;
};

void check_calls(const Family& family, const ordered_json& message, std::mt19937& random, bool prefixes) {
  Rendered whole = family.render(message, false);
  ordered_json calls = message["tool_calls"];
  if (whole.fails && calls.size() > 1) return;  // Llama 3: one call a turn
  REQUIRE_MESSAGE(!whole.fails, whole.text);
  const auto [prompt, reply] = family.cut(whole.text);
  CAPTURE(reply);
  const std::string known = tools().dump();
  const ReplyOptions options{.prompt = prompt, .tools = known};
  const ParsedReply parsed = parse_reply(reply, family.form(), options);
  // gpt-oss and GigaChat write the first one alone, R1's old template none beside a text.
  const std::size_t least = message["content"] == "" ? 1 : 0;
  while (calls.size() > least && reply.find(calls.back()["function"]["name"].get<std::string>()) == reply.npos) calls.erase(calls.size() - 1);
  REQUIRE(parsed.calls.size() == calls.size());
  for (std::size_t i = 0; i < calls.size(); ++i) {
    CHECK(parsed.calls[i].name == calls[i]["function"]["name"].get<std::string>());
    CHECK(nlohmann::json::parse(parsed.calls[i].arguments) == nlohmann::json::parse(calls[i]["function"]["arguments"].dump()));
  }
  const bool has_text = message["content"] == said && reply.find(said) != reply.npos, has_thought = reply.find(thought) != reply.npos;
  // gpt-oss: what is said in front of a call is thought.
  const bool swapped = family.form() == "harmony";
  CHECK(parsed.text == (has_text && !swapped ? said : ""));
  CHECK(parsed.reasoning == (has_thought ? thought : has_text && swapped ? said : ""));
  check_cuts(family.form(), reply, options, random);
  if (prefixes) check_prefixes(family.form(), reply, options);
}

}  // namespace

TEST_CASE("the calls that templates write are read back, whatever the pieces in which they stream") {
  BANTAM_NEED_SHARED(folder, "chat-templates");
  std::mt19937 random(3);
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".jinja") continue;
    const std::string name = entry.path().filename().string();
    if (without_calls.contains(name)) continue;
    CAPTURE(name);
    const Family family(name, read_file(entry.path()));
    CAPTURE(family.form());
    bool first = true;
    for (const ordered_json& given : arguments()) {
      ordered_json message = {{"role", "assistant"}, {"content", ""}, {"tool_calls", {call("abcdefgh1", "get_weather", given)}}};
      check_calls(family, message, random, first);
      message["content"] = said;
      message["reasoning_content"] = message["reasoning"] = thought;
      message["tool_calls"].push_back(call("abcdefgh2", "no-arguments_2", ordered_json::object()));
      check_calls(family, message, random, std::exchange(first, false));
    }
  }
}

TEST_CASE("what templates write of text and reasoning is read back") {
  BANTAM_NEED_SHARED(folder, "chat-templates");
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".jinja") continue;
    const std::string name = entry.path().filename().string();
    CAPTURE(name);
    const Family family(name, read_file(entry.path()));
    const Rendered whole = family.render({{"role", "assistant"}, {"content", said}, {"reasoning_content", thought}, {"reasoning", thought}}, false);
    REQUIRE_MESSAGE(!whole.fails, whole.text);
    const auto [prompt, reply] = family.cut(whole.text);
    CAPTURE(reply);
    const ParsedReply parsed = parse_reply(reply, family.form(), {.prompt = prompt, .tools = tools().dump()});
    CHECK(parsed.text == said);
    CHECK(parsed.reasoning == (reply.find(thought) != reply.npos ? thought : ""));
    CHECK(parsed.calls.empty());
  }
}

TEST_CASE("each template has a form") {
  BANTAM_NEED_SHARED(folder, "chat-templates");
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".jinja") continue;
    const std::string name = entry.path().filename().string();
    CAPTURE(name);
    // One without marks is right only for a model that writes none.
    CHECK((reply_form_of(read_file(entry.path())) != "text" || name == "google-gemma-2-2b-it.jinja"));
  }
}
