// Chats, whatever API they come by. Each API is a translation of its requests into OpenAI's chats, whose shape templates read, and a
// ChatWriting that says the parts of replies in its own words.
#pragma once

#include "bantam/text/reply.hpp"
#include "server/writing.hpp"

namespace bantam::server {

/// How a reply may call tools.
enum class ToolUse : std::uint8_t {
  none,     ///< what looks like a call is text
  free,     ///< the model decides, and marks calls in its way
  must,     ///< the reply is one call, JSON with name and parameters
  named,    ///< the reply is the arguments of `name`
};

struct ToolChoice {
  ToolUse use = ToolUse::none;
  std::string name = {};
  Json tools = nullptr;  ///< as they were given
};

/// The tools as ReplyOptions has them.
[[nodiscard]] std::string tools_text(const ToolChoice& choice);

struct ChatAsked {
  Asked asked;
  ToolChoice tools;
  std::string prompt;     ///< the conversation as the template writes it
  bool is_plain = false;  ///< JSON comes and nothing else: no marks
  bool reasoning_apart = true;  ///< ChatOptions::reasoning_apart
};

/// Reads a request in the shape of OpenAI's chats.
[[nodiscard]] ChatAsked read_chat(App& app, const Json& body);
/// The prompt that the chat template makes of the messages of a request, with whatever else of it the template reads.
[[nodiscard]] std::string chat_prompt_of(const App& app, const Json& body, bool with_tools);
/// A call in a message: {"id", "type", "function"}.
[[nodiscard]] Json function_call(const std::string& id, const std::string& name, const std::string& arguments);
/// Whether a template takes null for the text of a message that does nothing but call tools, as clients send it: some ask what is in it, and
/// others write "None".
[[nodiscard]] bool takes_null_text(const ChatTemplate& chat_template, const Tokenizer& tokenizer);
/// A prompt as tokens.
[[nodiscard]] std::vector<TokenId> chat_tokens(const App& app, std::string_view prompt);

/// How many tokens the prompt of a chat has.
[[nodiscard]] std::size_t count_chat_tokens(App& app, const Json& body);

/// A part of a reply; its parts follow each other.
struct ReplyPart {
  enum class Kind : std::uint8_t { reasoning, text, call };
  Kind kind = Kind::text;
  std::string text = {};           ///< of a call its arguments
  std::string id = {}, name = {};  ///< of a call
  bool broken = false;             ///< a call that turned out to be none: its bytes are in the text behind it
};

struct ChatReply {
  std::vector<ReplyPart> parts = {};
  Json logprobs = Json::array();  ///< of a stream: those that no event carried yet
  std::vector<TokenId> tokens = {};  ///< the same, where they were asked for
  TextEnd end = TextEnd::running;
  std::string stop_text = {};
  std::int64_t reasoning_tokens = 0;
  TextStats stats = {};

  [[nodiscard]] bool calls() const;
  /// Parts of a kind joined.
  [[nodiscard]] ParsedReply parsed() const;
  /// As OpenAI's chats have it, and templates read it: {"role", "content", "reasoning_content", "tool_calls"}.
  [[nodiscard]] Json message() const;
};

/// Tells replies apart while they are written.
class ChatWriting : public Writing {
 public:
  ChatWriting(App& app, std::shared_ptr<Exchange> exchange, ChatAsked chat);

 protected:
  // What a stream says, in this order; end_part() comes before the next part of the same text begins.
  virtual void begin_reply(std::size_t text) = 0;
  virtual void begin_part(std::size_t text, std::size_t part) = 0;
  virtual void say_piece(std::size_t text, std::size_t part, std::string_view piece) = 0;
  virtual void end_part(std::size_t text, std::size_t part) = 0;
  virtual void end_reply(std::size_t text) = 0;

  [[nodiscard]] std::vector<ChatReply>& replies() noexcept { return replies_; }
  [[nodiscard]] const std::vector<ChatReply>& replies() const noexcept { return replies_; }
  [[nodiscard]] const ToolChoice& tools() const noexcept { return tools_; }
  /// What was asked for of the prompt's tokens, from the second on.
  [[nodiscard]] std::span<const DrawnToken> scored() const noexcept { return scored_; }

 private:
  /// What is known of a reply that is not whole.
  struct Open {
    ReplyParser parser;
    std::vector<std::size_t> calls = {};  ///< which part a call is, by number
    std::optional<std::size_t> part = {};
    std::vector<TokenId> tokens = {};
    bool begun = false;
  };

  void take(const Update& update) final;
  void take_event(std::size_t text, const ReplyEvent& event);
  void open_part(std::size_t text, ReplyPart part);
  void close_part(std::size_t text);
  void grow(std::size_t text, std::size_t part, std::string_view piece);
  void grow_kind(std::size_t text, ReplyPart::Kind kind, std::string_view piece);
  void remember(std::size_t text);

  ToolChoice tools_;
  std::string prompt_;
  std::vector<ChatReply> replies_;
  std::vector<Open> open_;
  std::vector<DrawnToken> scored_;
};

}  // namespace bantam::server
