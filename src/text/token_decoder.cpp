// What a token gives in decoded text.
#include "text/token_decoder.hpp"

#include <algorithm>
#include <utility>

#include "bantam/core/error.hpp"
#include "text/tokenizer_data.hpp"
#include "text/utf8.hpp"

namespace bantam::inline v0 {

namespace {

using Where = DecodeReplace::Where;

/// Takes the space before punctuation and before the ends of English contractions, as WordPiece's decoder does.
std::string cleaned_up(std::string text) {
  constexpr std::pair<std::string_view, std::string_view> rules[] = {
      {" .", "."},    {" ?", "?"},     {" !", "!"},           {" ,", ","},   {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"},  {" do not", " don't"}, {" 's", "'s"},   {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : rules) {
    for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) text.replace(at, from.size(), to);
  }
  return text;
}

/// Replaces in place, from a place on, by what is no longer than the pattern. Linear.
void replace_all(std::string& text, std::size_t begin, std::string_view pattern, std::string_view content) {
  std::size_t hit = text.find(pattern, begin);
  if (hit == text.npos) return;
  auto end = text.begin() + static_cast<std::ptrdiff_t>(hit);
  while (hit != text.npos) {
    end = std::ranges::copy(content, end).out;
    const std::size_t from = hit + pattern.size();
    hit = text.find(pattern, from);
    end = std::copy(text.begin() + static_cast<std::ptrdiff_t>(from), text.begin() + static_cast<std::ptrdiff_t>(std::min(hit, text.size())), end);
  }
  text.erase(end, text.end());
}

/// Puts a space before the piece that begins at `begin`, where tokens are joined by spaces.
void join(std::string& out, std::size_t begin, const DecodeSpec& how, bool first) {
  if (how.join && !first) {
    if (!how.continuing.empty() && std::string_view(out).substr(begin).starts_with(how.continuing)) {
      out.erase(begin, how.continuing.size());
    } else {
      out.insert(begin, " ");
    }
  }
  if (how.cleanup) out.replace(begin, out.npos, cleaned_up(out.substr(begin)));
}

}  // namespace

TokenDecoder::TokenDecoder(const TokenizerSpec& spec, const std::vector<std::string>& added, std::string_view place) {
  const DecodeSpec& decode = spec.decode;
  minds_beginning_ = decode.join;
  for (const DecodeReplace& step : decode.replace) {
    // A longer content would let few bytes of a file become many.
    if (step.pattern.empty() || (!step.regex && step.content.size() > step.pattern.size()) || (step.regex && step.content.size() > 1)) {
      fail(Errc::unsupported, place, ": a decoder that replaces by longer text");
    }
    std::vector<NormalizerStep> expression;
    if (step.regex) expression.push_back({.kind = NormalizerStep::Kind::replace_regex, .pattern = step.pattern, .content = step.content});
    expressions_.emplace_back(expression, place);
    minds_beginning_ = minds_beginning_ || step.where == Where::first;
    minds_end_ = minds_end_ || step.where == Where::last;
  }
  if ((decode.strip > 0 || decode.strip_end > 0) && (decode.strip_of.empty() || utf8::decode(decode.strip_of, 0).length != decode.strip_of.size())) {
    fail(Errc::corrupt, place, ": a decoder that strips ", printable(decode.strip_of), ", expected one character");
  }
  for (std::size_t i = 0; i < added.size(); ++i) {
    const TokenId id = spec.added[i].id;
    if (!added[i].empty() && added[i] != spec.pieces[static_cast<std::size_t>(id)]) normalized_[id] = added[i];
  }
}

void TokenDecoder::append(std::string& out, const TokenizerSpec& spec, TokenId id, TokenPosition at, const Deadline& deadline) const {
  const auto i = static_cast<std::size_t>(id);
  const std::size_t begin = out.size();
  // An added token begins as what was found in the text, so that what undoes the normalizer undoes it there.
  const auto changed = normalized_.empty() ? normalized_.end() : normalized_.find(id);
  const bool is_changed = changed != normalized_.end();
  const std::string_view spelled = is_changed ? std::string_view(changed->second) : spec.pieces[i];
  switch (spec.types[i]) {
    case TokenType::byte: {
      const int byte = byte_of_piece(spelled);
      if (byte < 0) {
        out += spelled;
      } else {
        out += static_cast<char>(static_cast<unsigned char>(byte));
      }
      return;
    }
    case TokenType::unknown:
    case TokenType::control:
    case TokenType::user_defined:
      if (spec.byte_level) {
        out += spelled;
        return join(out, begin, spec.decode, at.first);
      }
      if (spec.spelled_bytes && is_changed) return utf8::append_bytes_of_spelling(out, spelled);
      break;
    case TokenType::normal:
    case TokenType::unused:
      if (spec.byte_level || spec.spelled_bytes) return utf8::append_bytes_of_spelling(out, spelled);
      break;
  }
  out += spelled;
  for (std::size_t r = 0; r < expressions_.size(); ++r) {
    const DecodeReplace& step = spec.decode.replace[r];
    if ((step.where == Where::first && !at.first) || (step.where == Where::last && !at.last)) continue;
    if (step.regex) {
      out.replace(begin, out.npos, expressions_[r].apply(std::string_view(out).substr(begin), deadline));
    } else {
      replace_all(out, begin, step.pattern, step.content);
    }
  }
  join(out, begin, spec.decode, at.first);
}

}  // namespace bantam::inline v0
