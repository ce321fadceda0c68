// The text that shows a quantizer what a model's layers read.
#pragma once

#include <string_view>
#include <vector>

#include "bantam/text/tokenizer.hpp"

namespace bantam::inline v0 {

struct Calibration {
  std::vector<std::vector<TokenId>> samples;  ///< each read from its beginning, apart from the others
  /// Tokens of the same text that nothing is fitted to: what is made of the weights is judged by them. May be empty.
  std::vector<std::vector<TokenId>> held_out = {};

  /// Up to `samples` pieces of `tokens` tokens, spread evenly over the text without overlap; fewer where it is short. Up to
  /// 256 tokens of what lies between them are held out, none where hardly anything does.
  [[nodiscard]] static Calibration from_text(const Tokenizer& tokenizer, std::string_view text, std::int64_t samples = 128,
                                             std::int64_t tokens = 2048);
};

/// A text for when there is none of one's own: 188 kB of English books that are in the public domain. Text like that which
/// the model will read calibrates better.
[[nodiscard]] std::string_view default_calibration_text() noexcept;

}  // namespace bantam::inline v0
