// Rendering a conversation, and leaving out what no longer fits.
#include "bantam/session/conversation.hpp"

#include <algorithm>

namespace bantam::inline v0 {

Conversation::Conversation(Session& session) : session_(session) {}

bool Conversation::has_template() const noexcept { return !session_.model().tokenizer().chat_template().empty(); }

void Conversation::set_system(std::string text) {
  const std::size_t forgotten_turns = forgotten();
  if (turns_begin() == 1) messages_.erase(messages_.begin());
  if (!text.empty()) messages_.insert(messages_.begin(), {"system", std::move(text)});
  first_ = turns_begin() + forgotten_turns;
}

void Conversation::set_messages(std::vector<ChatMessage> messages) {
  const std::size_t begin = !messages.empty() && messages[0].role == "system" ? 1 : 0;
  for (std::size_t i = begin; i < messages.size(); ++i) {
    const std::string_view expected = (i - begin) % 2 == 0 ? "user" : "assistant";
    if (messages[i].role != expected) fail(Errc::invalid_argument, "message ", i, ": expected role ", expected, ", found ", printable(messages[i].role));
  }
  if ((messages.size() - begin) % 2 != 0) fail(Errc::invalid_argument, "messages: expected a reply to the last one, found none");
  messages_ = std::move(messages);
  first_ = turns_begin();
}

void Conversation::clear() {
  messages_.resize(turns_begin());
  first_ = turns_begin();
}

std::vector<TokenId> Conversation::prompt_from(std::size_t first) const {
  std::vector<ChatMessage> read(messages_.begin(), messages_.begin() + static_cast<std::ptrdiff_t>(turns_begin()));
  read.insert(read.end(), messages_.begin() + static_cast<std::ptrdiff_t>(first), messages_.end());
  const Tokenizer& tokenizer = session_.model().tokenizer();
  // Templates write special tokens, BOS among them.
  if (has_template()) return tokenizer.encode(chat_prompt(tokenizer, read), {.add_special = false, .parse_special = true});
  std::string text;
  for (const ChatMessage& message : read) {
    if (!text.empty() && message.role == "user") text += '\n';
    text += message.content;
    if (message.role == "system") text += '\n';
  }
  return tokenizer.encode(text);
}

std::vector<TokenId> Conversation::fitting_prompt(std::int64_t reply) {
  const std::int64_t context = session_.context();
  std::vector<TokenId> prompt = prompt_from(first_);
  // A reply may be as long as it likes; an eighth is room for some answer.
  const std::int64_t room = std::clamp<std::int64_t>(reply < 0 ? context / 8 : std::min(reply, context / 8), 1, context);
  if (static_cast<std::int64_t>(prompt.size()) + room <= context) return prompt;
  // The message to answer stays, whatever comes of it. Half of the context becomes free: all that is left is read again, which is
  // not wanted at each turn.
  std::size_t low = first_, high = messages_.size() - 1;
  while (low < high) {
    // Turns begin with a user's message, every second.
    const std::size_t middle = low + (high - low) / 4 * 2;
    prompt = prompt_from(middle);
    if (static_cast<std::int64_t>(prompt.size()) <= context / 2) {
      high = middle;
    } else {
      low = middle + 2;
    }
  }
  first_ = high;
  return prompt_from(first_);
}

TextRange Conversation::answer(std::string message, GenerateOptions options) {
  drop_unanswered();
  const std::size_t forgotten_before = first_;
  messages_.push_back({"user", std::move(message)});
  try {
    const std::vector<TokenId> prompt = fitting_prompt(options.max_tokens);
    TextRange range = session_.stream_whole(prompt, std::move(options));
    prompt_tokens_ = prompt.size();
    return range;
  } catch (...) {
    messages_.pop_back();
    first_ = forgotten_before;
    throw;
  }
}

void Conversation::keep_reply(std::string text) {
  if (!is_unanswered()) fail(Errc::invalid_argument, "expected a message that this is the reply to, found none");
  messages_.push_back({"assistant", std::move(text)});
}

void Conversation::drop_unanswered() noexcept {
  if (is_unanswered()) messages_.pop_back();
}

TextRange Conversation::answer_again(GenerateOptions options) {
  if (messages_.empty() || messages_.back().role != "assistant") fail(Errc::invalid_argument, "expected a reply to generate again, found none");
  ChatMessage reply = std::move(messages_.back());
  messages_.pop_back();
  std::string question = std::move(messages_.back().content);
  messages_.pop_back();
  first_ = std::min(first_, messages_.size());
  std::string copy = question;
  try {
    return answer(std::move(copy), std::move(options));
  } catch (...) {
    messages_.push_back({"user", std::move(question)});
    messages_.push_back(std::move(reply));
    throw;
  }
}

std::optional<TextRange> Conversation::go_on(GenerateOptions options) {
  if (!is_unanswered()) fail(Errc::invalid_argument, "expected a reply that is not kept yet, found none");
  const std::size_t last = messages_.size() - 1;  // the user's
  if (first_ >= last) return {};
  const std::vector<TokenId> reply(session_.tokens().begin() + static_cast<std::ptrdiff_t>(prompt_tokens_), session_.tokens().end());
  // A whole turn goes at least, and as many as make the rest half of the context.
  std::vector<TokenId> prompt;
  do {
    first_ += 2;
    prompt = prompt_from(first_);
  } while (first_ < last && static_cast<std::int64_t>(prompt.size() + reply.size()) > session_.context() / 2);
  if (static_cast<std::int64_t>(prompt.size() + reply.size()) >= session_.context()) return {};
  prompt_tokens_ = prompt.size();
  prompt.insert(prompt.end(), reply.begin(), reply.end());
  return session_.stream_whole(prompt, std::move(options));
}

}  // namespace bantam::inline v0
