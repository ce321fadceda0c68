// Reads tiktoken's files of ranks (*.tiktoken, tiktoken.model, Llama 3's tokenizer.model).
#include <algorithm>
#include <charconv>

#include "bantam/core/error.hpp"
#include "text/base64.hpp"
#include "text/loaders.hpp"
#include "text/utf8.hpp"

namespace bantam::inline v0 {

namespace {

/// What the file does not say: the expression, by the number of ranks, which differs between all of these.
struct KnownRanks {
  std::size_t ranks;
  std::string_view gguf_name;  ///< of the pre-tokenizer
  std::vector<std::pair<TokenId, std::string_view>> special;
};

const std::vector<KnownRanks>& known_ranks() {
  static const std::vector<KnownRanks> list = {
      {50256, "gpt-2", {{50256, "<|endoftext|>"}}},  // r50k_base
      {50280, "gpt-2", {{50256, "<|endoftext|>"}}},  // p50k_base
      {100256,                                       // cl100k_base
       "dbrx",
       {{100257, "<|endoftext|>"}, {100258, "<|fim_prefix|>"}, {100259, "<|fim_middle|>"}, {100260, "<|fim_suffix|>"}, {100276, "<|endofprompt|>"}}},
      {199998, "gpt-4o", {{199999, "<|endoftext|>"}, {200018, "<|endofprompt|>"}}},                      // o200k_base
      {151643, "qwen2", {{151643, "<|endoftext|>"}, {151644, "<|im_start|>"}, {151645, "<|im_end|>"}}},  // Qwen
      {128000,                                                                                           // Llama 3
       "llama-bpe",
       {{128000, "<|begin_of_text|>"}, {128001, "<|end_of_text|>"}, {128006, "<|start_header_id|>"}, {128007, "<|end_header_id|>"}, {128009, "<|eot_id|>"}}},
      {163584, "kimi-k2", {{163584, "[BOS]"}, {163585, "[EOS]"}, {163586, "<|im_end|>"}}},  // Kimi K2
  };
  return list;
}

}  // namespace

TokenizerSpec spec_from_tiktoken(std::string_view text, std::string_view place) {
  TokenizerSpec spec;
  spec.kind = "bpe";
  spec.byte_level = true;
  std::size_t ranks = 0;
  for (std::size_t line = 1; !text.empty(); ++line) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view row = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (row.ends_with('\r')) row.remove_suffix(1);
    if (row.empty()) continue;
    const std::size_t space = std::min(row.find(' '), row.size());
    const auto bytes = bytes_of_base64(row.substr(0, space));
    const std::string_view digits = row.substr(std::min(space + 1, row.size()));
    TokenId rank = -1;
    const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
    if (!bytes || bytes->empty() || error != std::errc{} || stop != digits.data() + digits.size() || rank < 0) {
      fail(Errc::corrupt, place, ": line ", line, ": expected a token in base64 and its rank, found ", printable(row));
    }
    const auto id = static_cast<std::size_t>(rank);
    if (id >= limits::pieces) fail(Errc::corrupt, place, ": line ", line, ": rank ", id, ", at most ", limits::pieces, " are read");
    if (id >= spec.pieces.size()) spec.pieces.resize(id + 1);
    if (!spec.pieces[id].empty()) fail(Errc::corrupt, place, ": line ", line, ": rank ", id, " comes twice");
    spec.pieces.set(id, utf8::spelled(*bytes));
    ++ranks;
  }
  const auto known = std::ranges::find(known_ranks(), ranks, &KnownRanks::ranks);
  if (known == known_ranks().end()) {
    fail(Errc::unsupported, place, ": ", ranks, " ranks are no known vocabulary's, and tiktoken's files do not say how texts are cut");
  }
  const KnownPreTokenizer* pre = find_pre_tokenizer(known->gguf_name);
  spec.pre = pre->name;
  spec.pre_tokenizer = pre->steps;
  spec.types.assign(spec.pieces.size(), TokenType::normal);
  for (std::size_t i = 0; i < spec.pieces.size(); ++i) {
    if (spec.pieces[i].empty()) spec.types[i] = TokenType::unused;
    // Whatever two tokens make a third merge, lowest rank first.
    spec.scores.push_back(-static_cast<double>(i));
  }
  for (const auto& [id, content] : known->special) add_token(spec, {.id = id, .special = true}, content, place);
  guess_bos_and_eos(spec);
  set_adds_bos(spec, pre->adds_bos);
  add_known_ends(spec);
  return spec;
}

}  // namespace bantam::inline v0
