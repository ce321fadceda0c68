// Decodes a stream of tokens into pieces of valid UTF-8.
#include <algorithm>
#include <utility>

#include "bantam/text/tokenizer.hpp"
#include "text/tokenizer_data.hpp"
#include "text/utf8.hpp"

namespace bantam::inline v0 {

namespace {

/// How many bytes at the end of a token are others where it ends a text, and these.
std::pair<std::size_t, std::string> ending_of(const Tokenizer::Data& data, TokenId id) {
  if (id < 0 || !data.decoder.minds_end()) return {};
  const std::string_view within = data.decoded.of(id);
  const std::string last = data.text_of(id, {.last = true});
  const auto same = static_cast<std::size_t>(std::mismatch(within.begin(), within.end(), last.begin(), last.end()).first - within.begin());
  return {within.size() - same, last.substr(same)};
}

}  // namespace

TextStream::TextStream(const Tokenizer& tokenizer, bool first, std::vector<TokenId> spelled)
    : tokenizer_(tokenizer), spelled_(std::move(spelled)), first_(first) {
  std::ranges::sort(spelled_);
}

std::string TextStream::push(TokenId id) {
  const Tokenizer::Data& data = *tokenizer_.data_;
  data.check(id);
  const bool spelled = std::ranges::binary_search(spelled_, id);
  if (tokenizer_.is_special(id) && !spelled) return {};
  if (id == std::exchange(before_, id) && data.spec.decode.collapse_repeats) return {};
  std::string bytes(data.bytes_of(id));
  if (spelled) {
    bytes = tokenizer_.piece(id);
    before_ = -1;
    first_ = false;
  }
  if (first_ && !bytes.empty()) {
    bytes = data.text_of(id, {.first = true});
    first_ = data.begins_nothing(id, bytes);
  }
  held_ += bytes;
  // A text that ends here would lose its end.
  // A text that begins with the token may have less of it.
  std::size_t held = std::max(data.dropped_at_end(held_), std::min(ending_of(data, before_).first, held_.size()));
  if (held == 0) held = utf8::unfinished_tail(held_);
  std::string rest = held_.substr(held_.size() - held);
  held_.resize(held_.size() - rest.size());
  return utf8::repaired(std::exchange(held_, std::move(rest)));
}

std::string TextStream::finish() {
  const auto [held, instead] = ending_of(*tokenizer_.data_, before_);
  held_.resize(held_.size() - std::min(held, held_.size()));
  held_ += instead;
  held_.resize(held_.size() - tokenizer_.data_->dropped_at_end(held_));
  return utf8::repaired(std::exchange(held_, {}));
}

}  // namespace bantam::inline v0
