// Follows a reply as text until its thoughts ended, of their own or by force.
#include "server/thinking_budget.hpp"

#include <algorithm>
#include <limits>

#include "bantam/text/reply.hpp"
#include "text/reply/forms.hpp"

namespace bantam::server {

namespace {

/// Copies go their own ways: each text of a request has one.
class ThinkingBudget {
 public:
  ThinkingBudget(const Tokenizer& tokenizer, const reply::ReplyForm& form, bool begun, std::int64_t budget)
      : form_(form), stream_(tokenizer, false, reply_tokens(tokenizer, form.name)),
        mark_(tokenizer.encode(form.think_end, {.add_special = false, .parse_special = true})), left_(budget), state_(begun ? State::thinks : State::begins) {}

  bool operator()(std::span<const TokenId> tokens, std::span<float> logits) {
    if (seen_ == 0) seen_ = tokens.size();
    for (; seen_ < tokens.size(); ++seen_) follow(tokens[seen_]);
    if (state_ == State::thinks && left_ <= 0) state_ = State::ends;
    if (state_ != State::ends) return true;
    const auto next = static_cast<std::size_t>(mark_[written_++]);
    if (written_ == mark_.size()) state_ = State::is_over;
    if (next >= logits.size()) return true;
    const float kept = logits[next];
    std::ranges::fill(logits, -std::numeric_limits<float>::infinity());
    logits[next] = std::max(kept, 0.0f);
    return true;
  }

 private:
  /// begins: what came may become the mark of a thought; ends: the mark is being written.
  enum class State : std::uint8_t { begins, thinks, ends, is_over };

  void follow(TokenId token) {
    if (state_ == State::ends || state_ == State::is_over) return;
    if (state_ == State::thinks) --left_;
    text_ += stream_.push(token);
    if (state_ == State::begins) {
      const std::size_t first = std::min(text_.find_first_not_of(" \t\r\n"), text_.size());
      const std::string_view said = std::string_view(text_).substr(first);
      if (said.starts_with(form_.think_begin)) {
        state_ = State::thinks;
        text_.erase(0, first + form_.think_begin.size());
      } else if (!form_.think_begin.starts_with(said)) {
        state_ = State::is_over;
      }
    }
    if (state_ != State::thinks) return;
    if (text_.find(form_.think_end) != std::string::npos) state_ = State::is_over;
    // What may yet become the mark.
    text_.erase(0, text_.size() - std::min(text_.size(), form_.think_end.size()));
  }

  const reply::ReplyForm& form_;
  TextStream stream_;
  std::vector<TokenId> mark_;
  std::int64_t left_;
  State state_;
  std::string text_ = {};
  std::size_t seen_ = 0, written_ = 0;
};

}  // namespace

LogitsProcessor thinking_budget(const Tokenizer& tokenizer, std::string_view form, std::string_view prompt, std::int64_t budget) {
  const auto forms = reply::forms();
  const auto found = std::ranges::find(forms, form, &reply::ReplyForm::name);
  if (found == forms.end() || found->think_begin.empty() || found->think_end.empty()) return {};
  const std::string_view end = prompt.substr(0, prompt.find_last_not_of(" \t\r\n") + 1);
  return ThinkingBudget(tokenizer, *found, end.ends_with(found->think_begin), budget);
}

}  // namespace bantam::server
