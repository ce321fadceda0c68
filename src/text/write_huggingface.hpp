// The parts of a tokenizer.json that surround its model, as they are written.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "io/json.hpp"
#include "text/spec.hpp"

namespace bantam::inline v0::detail {

/// SentencePiece's own symbols are found in the normalized text and never merge with others. One of a single character
/// is in no merge, so it is left alone without a word.
[[nodiscard]] bool needs_no_mention(const TokenizerSpec& spec, const AddedToken& token);

/// What merging makes of which pair, first things first. SentencePiece merges by the score of the result: every way to
/// make a piece of two others comes at its place, of several ways those with the longer beginning first.
[[nodiscard]] std::vector<std::array<TokenId, 2>> pairs_in_order(const Tokenizer::Data& data, std::string_view place);

/// Null for what a tokenizer does without. `place` names the file; the pre-tokenizer throws unsupported for what
/// tokenizer.json cannot express.
[[nodiscard]] Json normalizer_of(const TokenizerSpec& spec);
[[nodiscard]] Json pre_tokenizer_of(const TokenizerSpec& spec, std::string_view place);
[[nodiscard]] Json post_processor_of(const TokenizerSpec& spec);
[[nodiscard]] Json decoder_of(const TokenizerSpec& spec);

}  // namespace bantam::inline v0::detail
