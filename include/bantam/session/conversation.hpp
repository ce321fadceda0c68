// A talk that does not end when the context is full.
#pragma once

#include "bantam/session/session.hpp"
#include "bantam/text/chat_template.hpp"

namespace bantam::inline v0 {

/// Messages and replies, read by the model's chat template or, where it has none, as one text that the model goes on writing. What
/// the session has read already is not read again. When the context is full the oldest turns are left out of what is read, never
/// the system message; messages() keeps all.
class Conversation {
 public:
  /// The session is borrowed, and this alone uses it from here on.
  explicit Conversation(Session& session);

  [[nodiscard]] bool has_template() const noexcept;
  /// The system message, if any, comes first.
  [[nodiscard]] const std::vector<ChatMessage>& messages() const noexcept { return messages_; }
  /// How many messages the model no longer reads.
  [[nodiscard]] std::size_t forgotten() const noexcept { return first_ - turns_begin(); }

  /// Replaces the system message; empty: none.
  void set_system(std::string text);
  /// Replaces all: system at most first, then user and assistant in turn. Throws invalid_argument for anything else.
  void set_messages(std::vector<ChatMessage> messages);
  /// Forgets all but the system message.
  void clear();

  /// Adds a user's message and generates the reply, which belongs to messages() once keep_reply() was told it. Drops a message
  /// that got none. Throws what Session::stream and chat_prompt throw, leaving messages() as it was otherwise.
  [[nodiscard]] TextRange answer(std::string message, GenerateOptions options);
  /// Throws invalid_argument where no message waits for one.
  void keep_reply(std::string text);
  /// Takes the last message back if no reply to it was kept.
  void drop_unanswered() noexcept;
  /// Takes the last reply back and generates another. Throws invalid_argument when there is none.
  [[nodiscard]] TextRange answer_again(GenerateOptions options);
  /// After a reply that was ended by a full context, and before it is kept: leaves out the oldest turns and goes on with it.
  /// Nothing when that would make no room. Throws invalid_argument when there is no such reply.
  [[nodiscard]] std::optional<TextRange> go_on(GenerateOptions options);

 private:
  [[nodiscard]] std::size_t turns_begin() const noexcept { return !messages_.empty() && messages_[0].role == "system" ? 1 : 0; }
  /// The prompt without what comes before message `first`, the system message kept.
  [[nodiscard]] std::vector<TokenId> prompt_from(std::size_t first) const;
  /// The prompt with as many turns as leave room for `reply` tokens; moves first_.
  [[nodiscard]] std::vector<TokenId> fitting_prompt(std::int64_t reply);
  [[nodiscard]] bool is_unanswered() const noexcept { return !messages_.empty() && messages_.back().role == "user"; }

  Session& session_;
  std::vector<ChatMessage> messages_;
  std::size_t first_ = 0;          ///< the first message after the system's that the model reads
  std::size_t prompt_tokens_ = 0;  ///< of the session, before the reply
};

}  // namespace bantam::inline v0
