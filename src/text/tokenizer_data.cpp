// What a tokenizer looks things up in.
#include "text/tokenizer_data.hpp"

#include <utility>

#include "bantam/core/error.hpp"
#include "text/utf8.hpp"

namespace bantam::inline v0 {

void Neighbors::add(std::uint32_t left, std::uint32_t right) {
  if (left < 128 && right < 128) {
    ascii_[left * 128 + right] = true;
    return;
  }
  std::uint64_t& slot = others_[slot_of(pair_of(left, right))];
  if (slot != 0) return;
  slot = pair_of(left, right);
  if (2 * ++count_ <= others_.size()) return;
  const std::vector<std::uint64_t> before = std::exchange(others_, std::vector<std::uint64_t>(4 * others_.size()));
  for (const std::uint64_t pair : before) {
    if (pair != 0) others_[slot_of(pair)] = pair;
  }
}

void Neighbors::add(std::string_view piece) {
  if (piece.empty()) return;
  utf8::Char left = utf8::decode(piece, 0);
  for (std::size_t at = left.length; at < piece.size();) {
    const utf8::Char right = utf8::decode(piece, at);
    add(left.code, right.code);
    at += right.length;
    left = right;
  }
}

void CharSymbols::set(std::uint32_t code, Symbol symbol) {
  if (code < low_.size()) {
    low_[code] = symbol;
  } else {
    high_[code] = symbol;
  }
}

Symbol CharSymbols::get(std::uint32_t code) const noexcept {
  if (code < low_.size()) return low_[code];
  const auto found = high_.find(code);
  return found == high_.end() ? no_symbol : found->second;
}

std::string Tokenizer::Data::text_of(TokenId id, TokenPosition at) const {
  const bool as_within = !(at.first && decoder.minds_beginning()) && !(at.last && decoder.minds_end());
  std::string text;
  if (as_within) {
    text = decoded.of(id);
  } else {
    decoder.append(text, spec, id, at, deadline_for(1));
  }
  if (!at.first) return text;
  std::size_t dropped = 0;
  for (std::uint32_t n = 0; n < spec.decode.strip && std::string_view(text).substr(dropped).starts_with(spec.decode.strip_of); ++n) {
    dropped += spec.decode.strip_of.size();
  }
  return text.erase(0, dropped);
}

void Tokenizer::Data::check(TokenId id) const {
  if (id < 0 || static_cast<std::size_t>(id) >= spec.pieces.size()) {
    fail(Errc::invalid_argument, "token ", id, " is outside the vocabulary of ", spec.pieces.size());
  }
}

int byte_of_piece(std::string_view piece) noexcept {
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece[5] != '>') return -1;
  int value = 0;
  for (const char c : piece.substr(3, 2)) {
    int digit = -1;
    if (c >= '0' && c <= '9') digit = c - '0';
    if (c >= 'A' && c <= 'F') digit = c - 'A' + 10;
    if (c >= 'a' && c <= 'f') digit = c - 'a' + 10;
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

}  // namespace bantam::inline v0
