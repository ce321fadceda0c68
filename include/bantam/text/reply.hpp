// What a model wrote, told apart while it streams: reasoning, text, calls of tools.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bantam/text/tokenizer.hpp"

namespace bantam::inline v0 {

/// What happened in a reply. The texts of `raw`, one after the other, are the reply, byte for byte.
struct ReplyEvent {
  enum class Kind : std::uint8_t {
    text,        ///< `text` for the user
    reasoning,   ///< `text` that the model thinks
    call,        ///< a call of the tool `text` begins; `id` where the model wrote one
    arguments,   ///< `text` is the next piece of its arguments, a JSON object
    call_end,    ///< the call is whole; `id` once more: it may stand behind the arguments
    call_broken, ///< it is none: its arguments are void, and `text` is all that was taken for it
    markup,      ///< what stands between these, white space included; no text
  };
  Kind kind = Kind::text;
  std::size_t call = 0;  ///< which call of the reply; of a broken one the number is not given again
  std::string text{};
  std::string id{};
  std::string raw{};

  friend bool operator==(const ReplyEvent&, const ReplyEvent&) = default;
};

struct ReplyOptions {
  /// The prompt that is replied to, or its end: templates may open the reasoning themselves.
  std::string_view prompt{};
  /// The tools as JSON, as they were given to the template: an array of them, or nothing. They say which type an argument has
  /// where the form does not (`<parameter=n>1</parameter>`), and which JSON is a call where no mark says so (Llama 3).
  std::string_view tools{};
  /// False where no tools were offered: what looks like a call is text.
  bool calls = true;
  /// False where thoughts are wanted as text, with the marks around them. Harmony's, which stand in a channel of their own, come without.
  bool reasoning = true;
  /// What takes more bytes than this is no call, but text.
  std::size_t call_bytes = std::size_t{16} << 20;
};

/// A call of a tool.
struct ToolCall {
  std::string id;  ///< empty where the model wrote none
  std::string name;
  std::string arguments;  ///< a JSON object

  friend bool operator==(const ToolCall&, const ToolCall&) = default;
};

/// A whole reply.
struct ParsedReply {
  std::string reasoning;
  std::string text;
  std::vector<ToolCall> calls;

  friend bool operator==(const ParsedReply&, const ParsedReply&) = default;
};

/// Splits a reply while it streams. However it is cut into pieces, the events are the same, once neighbors of one kind and call
/// are joined. Time is linear in the reply; memory is that of a call that is not whole yet. For one thread at a time.
class ReplyParser {
 public:
  /// `form` is one of reply_forms(). Throws invalid_argument for another one, and for tools that are no JSON.
  explicit ReplyParser(std::string_view form, const ReplyOptions& options = {});
  ~ReplyParser();
  ReplyParser(ReplyParser&&) noexcept;
  ReplyParser& operator=(ReplyParser&&) noexcept;

  /// What a piece brings; what may yet become a mark is held back. The events live until the next call.
  [[nodiscard]] std::span<const ReplyEvent> feed(std::string_view piece);
  /// What was held back: the reply is over. A call that is not whole is broken.
  [[nodiscard]] std::span<const ReplyEvent> finish();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// The forms of replies by name: "text" has no marks at all.
[[nodiscard]] std::span<const std::string_view> reply_forms();

/// The form that models with this chat template write.
[[nodiscard]] std::string_view reply_form_of(std::string_view chat_template);

/// The special tokens of a vocabulary that replies of a form are marked with. A generation that is to be told apart spells them
/// (GenerateOptions::spell).
[[nodiscard]] std::vector<TokenId> reply_tokens(const Tokenizer& tokenizer, std::string_view form);

/// Adds an event to what is known of a reply. A broken call leaves it, and its bytes go to the text. Calls are numbered by
/// position while they come: `calls` holds the number of each of reply.calls.
void add_event(ParsedReply& reply, std::vector<std::size_t>& calls, const ReplyEvent& event);

/// A whole reply at once.
[[nodiscard]] ParsedReply parse_reply(std::string_view reply, std::string_view form, const ReplyOptions& options = {});

}  // namespace bantam::inline v0
