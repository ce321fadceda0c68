// The public face of a tokenizer: encoding with BOS and EOS, decoding, looking tokens up.
#include "bantam/text/tokenizer.hpp"

#include <utility>

#include "text/tokenizer_data.hpp"
#include "text/utf8.hpp"

namespace bantam::inline v0 {

Tokenizer::Tokenizer(std::shared_ptr<const Data> data) : data_(std::move(data)) {}

std::vector<TokenId> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  std::vector<TokenId> ids = encode_text(*data_, text, options.parse_special);
  if (options.add_special) {
    ids.insert(ids.begin(), data_->spec.prefix.begin(), data_->spec.prefix.end());
    ids.insert(ids.end(), data_->spec.suffix.begin(), data_->spec.suffix.end());
  }
  return ids;
}

std::string Tokenizer::decode(std::span<const TokenId> ids, bool keep_special) const {
  std::string out;
  bool begun = false;
  TokenId before = -1;
  for (const TokenId id : ids) {
    data_->check(id);
    if (is_special(id) && !keep_special) continue;
    if (data_->spec.decode.collapse_repeats && id == std::exchange(before, id)) continue;
    if (is_special(id)) {
      if (begun && data_->spec.decode.join) out += ' ';
      out += piece(id);
    } else if (begun) {
      out += data_->bytes_of(id);
    } else {
      out += data_->first_bytes_of(id);
    }
    begun = begun || !data_->bytes_of(id).empty() || is_special(id);
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
  return std::string(data_->first_bytes_of(id));
}

const std::string& Tokenizer::piece(TokenId id) const {
  data_->check(id);
  return data_->spec.pieces[static_cast<std::size_t>(id)];
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
