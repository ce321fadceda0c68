// Embeddings: texts as points, near each other where the model finds them alike.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "bantam/session/session.hpp"

namespace bantam::inline v0 {

/// Which of the hidden states that the head would read stand for the text.
enum class Pooling : std::uint8_t {
  mean,  ///< all of them
  cls,   ///< the first token's, where a model was trained so
  last,  ///< the last token's: what a causal model knows of all others
};
inline constexpr Pooling poolings[] = {Pooling::mean, Pooling::cls, Pooling::last};
[[nodiscard]] std::string_view name_of(Pooling pooling) noexcept;
/// By the names above. Throws invalid_argument listing them.
[[nodiscard]] Pooling find_pooling(std::string_view name);

struct EmbedOptions {
  Pooling pooling = Pooling::mean;
  bool normalize = true;  ///< to length 1, so that the scalar product of two embeddings is their cosine
  EncodeOptions encode = {};
};

/// The embedding (dim) of a text, read from its beginning: the session then holds it and nothing else. Throws
/// invalid_argument without a token, and as Session::prefill() does.
[[nodiscard]] std::vector<float> embed(Session& session, std::span<const TokenId> tokens, const EmbedOptions& options = {});
[[nodiscard]] std::vector<float> embed(Session& session, std::string_view text, const EmbedOptions& options = {});

}  // namespace bantam::inline v0
