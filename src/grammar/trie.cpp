// Builds the tree of a vocabulary's texts.
#include "grammar/trie.hpp"

#include <algorithm>
#include <string>

namespace bantam::inline v0 {

namespace {

struct SortedPiece {
  std::uint64_t head;  ///< the first bytes as a number: most comparisons end there
  std::string bytes;
  TokenId id;
  friend bool operator<(const SortedPiece& a, const SortedPiece& b) noexcept {
    if (a.head != b.head) return a.head < b.head;
    const int order = a.bytes.compare(b.bytes);
    return order < 0 || (order == 0 && a.id < b.id);
  }
};

std::uint64_t head_of(std::string_view bytes) noexcept {
  std::uint64_t head = 0;
  for (std::size_t i = 0; i < 8; ++i) head = head << 8 | (i < bytes.size() ? static_cast<unsigned char>(bytes[i]) : 0U);
  return head;
}

}  // namespace

bool TokenTrie::Data::is_text(TokenId id) const {
  const TokenType type = tokenizer.type(id);
  return !tokenizer.is_special(id) && type != TokenType::unknown && type != TokenType::unused && !tokenizer.ends_generation(id);
}

TokenTrie::Data::Data(const Tokenizer& t) : tokenizer(t) {
  std::vector<SortedPiece> pieces;
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    if (tokenizer.ends_generation(id)) ends.push_back(id);
    if (!is_text(id)) continue;
    // A token without bytes could come for ever.
    if (std::string piece = tokenizer.piece_bytes(id); !piece.empty()) pieces.push_back({head_of(piece), std::move(piece), id});
  }
  std::ranges::sort(pieces, std::less<>{});
  nodes.push_back({0, 0, 0, 0});
  std::vector<std::uint32_t> path{0};
  std::string_view last;
  const auto close_to = [&](std::size_t depth) {
    for (; path.size() > depth + 1; path.pop_back()) nodes[path.back()].end = static_cast<std::uint32_t>(nodes.size());
  };
  for (const SortedPiece& piece : pieces) {
    const std::string_view text = piece.bytes;
    const auto common = static_cast<std::size_t>(std::ranges::mismatch(text, last).in1 - text.begin());
    close_to(common);
    for (std::size_t depth = common; depth < text.size(); ++depth) {
      path.push_back(static_cast<std::uint32_t>(nodes.size()));
      nodes.push_back({0, static_cast<std::uint32_t>(ids.size()), static_cast<std::uint32_t>(depth + 1), static_cast<std::uint8_t>(text[depth])});
    }
    deepest = std::max(deepest, static_cast<std::uint32_t>(text.size()));
    ids.push_back(piece.id);
    offsets.push_back(bytes.size());
    bytes += text;
    last = text;
  }
  close_to(0);
  nodes[0].end = static_cast<std::uint32_t>(nodes.size());
}

TokenTrie::TokenTrie(const Tokenizer& tokenizer) : data_(std::make_shared<Data>(tokenizer)) {}
const Tokenizer& TokenTrie::tokenizer() const noexcept { return data_->tokenizer; }

}  // namespace bantam::inline v0
