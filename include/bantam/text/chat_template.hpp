// Chat templates: the Jinja text that turns a conversation into the prompt a model was trained on.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace bantam::inline v0 {

class Tokenizer;

/// One turn of a conversation.
struct ChatMessage {
  std::string role;  ///< "system", "user", "assistant", "tool": what the template knows
  std::string content;
};

/// What a template gets besides the messages.
struct ChatOptions {
  bool add_generation_prompt = true;  ///< end with the words that open the assistant's turn
  std::string bos_token{};
  std::string eos_token{};
  /// The time that `strftime_now` formats, as a civil time without a zone; empty: this machine's local time.
  std::optional<std::chrono::sys_seconds> now{};
};

/// A model's chat template: Jinja as Hugging Face's templates use it, run by a bounded interpreter: no file, no network,
/// no attribute of the host; steps, depth, memory and output are limited. Immutable, safe to use from any number of
/// threads; copying is cheap.
class ChatTemplate {
 public:
  /// Parses a template. Throws corrupt (place, line, what was expected and found) or unsupported (over a limit).
  explicit ChatTemplate(std::string_view source, std::string_view place = "chat template");

  /// The prompt of a conversation. Throws invalid_argument where the template refuses it (`raise_exception`, a variable
  /// that is missing, a wrong type) and unsupported over a limit; both name the place and the line.
  [[nodiscard]] std::string render(std::span<const ChatMessage> messages, const ChatOptions& options = {}) const;

  /// The same from JSON: {"messages":[...], "tools":[...], "add_generation_prompt":true, "bos_token":"<s>", ...}; every
  /// member is a variable of the template. `now` as in ChatOptions. Throws invalid_argument for text that is no JSON
  /// object.
  [[nodiscard]] std::string render_json(std::string_view context_json,
                                        std::optional<std::chrono::sys_seconds> now = {}) const;

  struct Data;  ///< private

 private:
  std::shared_ptr<const Data> data_;
};

/// The prompt that a model's own template makes of a conversation; special tokens are spelled out in it. Throws unsupported
/// where the model has no template, and as ChatTemplate does.
[[nodiscard]] std::string chat_prompt(const Tokenizer& tokenizer, std::span<const ChatMessage> messages,
                                      bool add_generation_prompt = true);

/// The same of a conversation as JSON in the shape of OpenAI's API: an array of messages, or an object with "messages" and
/// whatever else the template reads: "tools", "enable_thinking", "add_generation_prompt" (true unless given). Parts of type text
/// are joined into one content, and arguments of tool calls that are a JSON object in a string become that object, as templates
/// expect. Throws invalid_argument for what is none of these, and unsupported for parts that are no text.
[[nodiscard]] std::string chat_prompt_json(const Tokenizer& tokenizer, std::string_view conversation);
/// The same by another template than the model's own.
[[nodiscard]] std::string chat_prompt_json(const ChatTemplate& chat_template, const Tokenizer& tokenizer, std::string_view conversation);

}  // namespace bantam::inline v0
