// Decodes a stream of tokens into pieces of valid UTF-8.
#include <algorithm>
#include <utility>

#include "bantam/text/tokenizer.hpp"
#include "text/tokenizer_data.hpp"
#include "text/utf8.hpp"

namespace bantam::inline v0 {

TextStream::TextStream(const Tokenizer& tokenizer, bool first, std::vector<TokenId> spelled)
    : tokenizer_(tokenizer), spelled_(std::move(spelled)), first_(first) {
  std::ranges::sort(spelled_);
}

std::string TextStream::push(TokenId id) {
  const Tokenizer::Data& data = *tokenizer_.data_;
  data.check(id);
  if (data.spec.decode.collapse_repeats && !tokenizer_.is_special(id) && id == std::exchange(before_, id)) return {};
  std::string bytes(data.bytes_of(id));
  if (std::ranges::binary_search(spelled_, id)) {
    bytes = tokenizer_.piece(id);
    first_ = false;
  }
  if (first_ && !bytes.empty()) {
    bytes = data.first_bytes_of(id);
    first_ = false;
  }
  held_ += bytes;
  // A text that ends here would lose its end.
  std::size_t held = data.dropped_at_end(held_);
  if (held == 0) held = utf8::unfinished_tail(held_);
  std::string rest = held_.substr(held_.size() - held);
  held_.resize(held_.size() - rest.size());
  return utf8::repaired(std::exchange(held_, std::move(rest)));
}

std::string TextStream::finish() {
  held_.resize(held_.size() - tokenizer_.data_->dropped_at_end(held_));
  return utf8::repaired(std::exchange(held_, {}));
}

}  // namespace bantam::inline v0
