// Encoding against byte-pair merging by its definition: the lowest rank, leftmost first, until nothing merges.
#include <algorithm>
#include <functional>
#include <map>
#include <optional>

#include "fuzz/fuzz.hpp"
#include "text/tokenizer_data.hpp"
#include "text/utf8.hpp"

namespace bantam::fuzz {

namespace {

/// What the pair becomes, and its rank.
using Merges = std::map<std::pair<std::string, std::string>, std::size_t>;

/// Merges characters by ranked pairs of spellings. Characters that no piece can be made of never match.
std::vector<std::string> merged(std::vector<std::string> parts, const std::function<std::optional<double>(const std::string&, const std::string&)>& rank) {
  for (;;) {
    std::optional<double> best;
    std::size_t where = 0;
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto found = rank(parts[i], parts[i + 1]);
      if (found && (!best || *found < *best)) best = found, where = i;
    }
    if (!best) return parts;
    parts[where] += parts[where + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(where) + 1);
  }
}

constexpr const char* alphabet[] = {"a", "b", "c", "\xc3\xa9", "\xe4\xb8\x80", "\xe2\x96\x81"};

void run_encode(Bytes bytes) {
  Choices choices(bytes);
  TokenizerSpec spec;
  const bool scored = choices.once_in(2);
  spec.kind = scored ? "spm" : "bpe";
  spec.pieces = {"<unk>"};
  spec.unknown = 0;
  // Some of the letters may be no piece of their own; in a list of merges all parts are pieces.
  for (const char* letter : alphabet) {
    if (!scored || !choices.once_in(6)) spec.pieces.push_back(letter);
  }
  std::map<std::string, double> by_score;
  Merges by_pair;
  const std::size_t wanted = 1 + choices.below(24);
  for (std::size_t i = 0; i < wanted; ++i) {
    std::string piece;
    if (scored) {
      for (std::size_t n = 2 + choices.below(4); n > 0; --n) piece += choices.of(alphabet);
    } else {
      const std::size_t l = 1 + choices.below(spec.pieces.size() - 1), r = 1 + choices.below(spec.pieces.size() - 1);
      const std::string left(spec.pieces[l]), right(spec.pieces[r]);
      piece = left + right;
      if (piece.size() > 60 || by_pair.contains({left, right})) continue;
      if (spec.pieces.find(piece) < 0) spec.pieces.push_back(piece);
      spec.merges.push_back({static_cast<TokenId>(l), static_cast<TokenId>(r), spec.pieces.find(piece)});
      by_pair[{left, right}] = by_pair.size();
      continue;
    }
    if (spec.pieces.find(piece) < 0) spec.pieces.push_back(piece);
  }
  spec.types.assign(spec.pieces.size(), TokenType::normal);
  spec.types[0] = TokenType::unknown;
  for (std::size_t i = 0; scored && i < spec.pieces.size(); ++i) {
    spec.scores.push_back(-static_cast<float>(choices.below(16)));  // some alike
    if (i > 0) by_score[std::string(spec.pieces[i])] = spec.scores.back();
  }
  std::vector<std::string> parts;
  std::string text;
  const bool foreign = choices.once_in(2);
  while (!choices.done() && parts.size() < 400) {
    parts.emplace_back(foreign && choices.once_in(20) ? "z" : choices.of(alphabet));
    text += parts.back();
  }
  const auto pieces = spec.pieces;
  const std::vector<TokenId> found = encode_text(*build_tokenizer(std::move(spec), "fuzz"), text, false);

  std::vector<TokenId> expected;
  const auto plain = merged(parts, [&](const std::string& l, const std::string& r) -> std::optional<double> {
    if (scored) {
      const auto at = by_score.find(l + r);
      return at == by_score.end() ? std::nullopt : std::optional<double>(-at->second);
    }
    const auto at = by_pair.find({l, r});
    return at == by_pair.end() ? std::nullopt : std::optional<double>(static_cast<double>(at->second));
  });
  for (const std::string& part : plain) {
    expected.push_back(std::max(pieces.find(part), 0));
  }
  require(found == expected, "encoding gives what merging by definition gives");
}

const Target encode_target("encode", run_encode);

}  // namespace
}  // namespace bantam::fuzz
