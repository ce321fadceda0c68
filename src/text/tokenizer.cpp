// The public face of a tokenizer: encoding with BOS and EOS, decoding, looking tokens up.
#include "bantam/text/tokenizer.hpp"

#include <algorithm>
#include <utility>

#include "text/tokenizer_data.hpp"
#include "text/utf8.hpp"

namespace bantam::inline v0 {

Tokenizer::Tokenizer(std::shared_ptr<const Data> data) : data_(std::move(data)) {}

std::vector<TokenId> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  std::vector<TokenId> ids = encode_text(*data_, text, options.parse_special);
  const TokenizerSpec& spec = data_->spec;
  if (options.longest > 0) {
    const std::size_t added = options.add_special ? spec.prefix.size() + spec.suffix.size() : 0;
    ids.resize(std::min(ids.size(), options.longest - std::min(added, options.longest)));
  }
  if (options.add_special) {
    ids.insert(ids.begin(), spec.prefix.begin(), spec.prefix.end());
    ids.insert(ids.end(), spec.suffix.begin(), spec.suffix.end());
  }
  return ids;
}

TokenPair Tokenizer::encode_pair(std::string_view first, std::string_view second, EncodeOptions options) const {
  std::vector<TokenId> a = encode_text(*data_, first, options.parse_special), b = encode_text(*data_, second, options.parse_special);
  const TokenizerSpec& spec = data_->spec;
  const bool said = !spec.between.empty() || !spec.pair_suffix.empty();
  const std::vector<TokenId>&between = said ? spec.between : spec.suffix, &behind = said ? spec.pair_suffix : spec.suffix;
  if (options.longest > 0) {
    const std::size_t added = options.add_special ? spec.prefix.size() + between.size() + behind.size() : 0;
    const std::size_t room = options.longest - std::min(added, options.longest);
    a.resize(std::min(a.size(), room));
    b.resize(std::min(b.size(), room - a.size()));
  }
  TokenPair pair;
  const auto add = [&](const std::vector<TokenId>& ids, bool of_second) {
    pair.ids.insert(pair.ids.end(), ids.begin(), ids.end());
    pair.types.resize(pair.ids.size(), of_second && spec.types_pairs ? 1 : 0);
  };
  if (options.add_special) add(spec.prefix, false);
  add(a, false);
  if (options.add_special) add(between, false);
  add(b, true);
  if (options.add_special) add(behind, true);
  return pair;
}

std::string Tokenizer::decode(std::span<const TokenId> ids, bool keep_special) const {
  std::string out, text;
  bool first = true, last_begun = true;
  TokenId before = -1;
  std::size_t begin = 0;  // of the last token's text
  for (const TokenId id : ids) {
    data_->check(id);
    if (is_special(id) && !keep_special) continue;
    if (id == std::exchange(before, id) && data_->spec.decode.collapse_repeats) continue;
    begin = out.size();
    last_begun = first;
    if (!first) {
      out += data_->decoded.of(id);
      continue;
    }
    text = data_->text_of(id, {.first = true});
    out += text;
    first = data_->begins_nothing(id, text);
  }
  if (before >= 0 && data_->decoder.minds_end()) {
    out.resize(begin);
    out += data_->text_of(before, {.first = last_begun, .last = true});
  }
  out.resize(out.size() - data_->dropped_at_end(out));
  return utf8::repaired(out);
}

std::string Tokenizer::piece_bytes(TokenId id) const {
  data_->check(id);
  return std::string(data_->bytes_of(id));
}

std::string Tokenizer::first_piece_bytes(TokenId id) const {
  data_->check(id);
  return is_special(id) ? std::string() : data_->text_of(id, {.first = true});
}

std::string_view Tokenizer::piece(TokenId id) const {
  data_->check(id);
  return data_->spec.pieces(id);
}

TokenType Tokenizer::type(TokenId id) const {
  data_->check(id);
  return data_->spec.types[static_cast<std::size_t>(id)];
}

float Tokenizer::score(TokenId id) const {
  data_->check(id);
  return data_->spec.scores.empty() ? 0.0f : static_cast<float>(data_->spec.scores[static_cast<std::size_t>(id)]);
}

TokenId Tokenizer::find(std::string_view piece) const noexcept {
  static_assert(PieceIndex::none == -1, "what find() promises");
  return data_->id_of(piece);
}

std::int32_t Tokenizer::vocab_size() const noexcept { return static_cast<std::int32_t>(data_->spec.pieces.size()); }
TokenId Tokenizer::bos() const noexcept { return data_->spec.bos; }
TokenId Tokenizer::eos() const noexcept { return data_->spec.eos; }
TokenId Tokenizer::unknown() const noexcept { return data_->spec.unknown; }

bool Tokenizer::adds_bos() const noexcept {
  const TokenizerSpec& spec = data_->spec;
  return spec.bos >= 0 && !spec.prefix.empty() && spec.prefix.front() == spec.bos;
}

bool Tokenizer::is_special(TokenId id) const noexcept {
  return id >= 0 && id < vocab_size() && data_->special[static_cast<std::size_t>(id)];
}

bool Tokenizer::ends_generation(TokenId id) const noexcept {
  return id >= 0 && id < vocab_size() && data_->ends[static_cast<std::size_t>(id)];
}

std::string Tokenizer::kind() const {
  const TokenizerSpec& spec = data_->spec;
  return spec.pre.empty() ? spec.kind : spec.kind + " " + spec.pre;
}

const std::string& Tokenizer::chat_template() const noexcept { return data_->spec.chat_template; }

}  // namespace bantam::inline v0
