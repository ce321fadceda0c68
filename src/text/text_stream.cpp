// Decodes a stream of tokens into pieces of valid UTF-8.
#include <algorithm>
#include <utility>

#include "bantam/text/tokenizer.hpp"
#include "text/utf8.hpp"

namespace bantam::inline v0 {

TextStream::TextStream(const Tokenizer& tokenizer, bool first, std::vector<TokenId> spelled)
    : tokenizer_(tokenizer), spelled_(std::move(spelled)), first_(first) {
  std::ranges::sort(spelled_);
}

std::string TextStream::push(TokenId id) {
  std::string bytes = tokenizer_.piece_bytes(id);
  if (std::ranges::binary_search(spelled_, id)) {
    bytes = tokenizer_.piece(id);
    first_ = false;
  }
  if (first_ && !bytes.empty()) {
    bytes = tokenizer_.first_piece_bytes(id);
    first_ = false;
  }
  held_ += bytes;
  std::string rest = held_.substr(held_.size() - utf8::unfinished_tail(held_));
  held_.resize(held_.size() - rest.size());
  return utf8::repaired(std::exchange(held_, std::move(rest)));
}

std::string TextStream::finish() { return utf8::repaired(std::exchange(held_, {})); }

}  // namespace bantam::inline v0
