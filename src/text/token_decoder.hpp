// What a token gives in decoded text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bantam/core/hash.hpp"
#include "text/normalizer.hpp"
#include "text/spec.hpp"

namespace bantam::inline v0 {

/// Where in a text a token is decoded.
struct TokenPosition {
  bool first = false;
  bool last = false;
};

/// The decoding of a specification, ready to run. Immutable.
class TokenDecoder {
 public:
  TokenDecoder() = default;
  /// `added`: of each added token of `spec` what it looks like where it is looked for, empty where nothing is. Throws corrupt, unsupported.
  TokenDecoder(const TokenizerSpec& spec, const std::vector<std::string>& added, std::string_view place);

  /// Appends what a token gives there; a special one as it is spelled. `spec` is the one that this was made of.
  void append(std::string& out, const TokenizerSpec& spec, TokenId id, TokenPosition at, const Deadline& deadline) const;
  /// Whether tokens give anything else where they begin a text, or where they end one.
  [[nodiscard]] bool minds_beginning() const noexcept { return minds_beginning_; }
  [[nodiscard]] bool minds_end() const noexcept { return minds_end_; }

 private:
  std::vector<Normalizer> expressions_;       ///< of each replacement; empty where it is of literals
  HashMap<TokenId, std::string> normalized_;  ///< added tokens, where the normalizer changes them
  bool minds_beginning_ = false;
  bool minds_end_ = false;
};

}  // namespace bantam::inline v0
