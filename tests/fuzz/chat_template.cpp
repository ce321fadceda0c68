// Chat templates: parsed, and rendered with a conversation; a template behind a line of JSON is rendered with that.
#include "bantam/text/chat_template.hpp"

#include "fuzz/fuzz.hpp"
#include "io/names.hpp"

namespace bantam::fuzz {

namespace {

constexpr std::string_view conversation =
    R"({"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":[{"type":"text","text":"h\u00e9 "}]},)"
    R"({"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":{"x":[1,2.5,true]}}}]},)"
    R"({"role":"tool","content":"42"}],"tools":[{"type":"function","function":{"name":"f","parameters":{"properties":{}}}}],)"
    R"("add_generation_prompt":true,"bos_token":"<s>","eos_token":"</s>"})";

void run_chat_template(Bytes bytes) {
  std::string_view source = text_of(bytes), context = conversation;
  if (const std::size_t line = source.find('\n'); source.starts_with('{') && !source.starts_with("{%") && !source.starts_with("{{") &&
                                                  !source.starts_with("{#") && line != source.npos) {
    context = source.substr(0, line);
    source.remove_prefix(line + 1);
  }
  survives([&] {
    const ChatTemplate chat(source);
    const std::chrono::sys_seconds now{std::chrono::seconds(1'700'000'000)};
    const std::string text = chat.render_json(context, now);
    require(chat.render_json(context, now) == text, "the same conversation gives the same prompt");
  });
}

const Target chat_template_target("chat_template", run_chat_template);

}  // namespace
}  // namespace bantam::fuzz
