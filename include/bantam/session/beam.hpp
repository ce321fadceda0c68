// Beam search: the most probable texts instead of drawn ones.
#pragma once

#include "bantam/session/session.hpp"

namespace bantam::inline v0 {

struct BeamOptions {
  int beams = 4;                 ///< beginnings that are followed at once, in one pass over the weights
  int results = 1;               ///< texts to give back, at most `beams`
  std::int64_t max_tokens = 64;
  float length_penalty = 1.0f;   ///< scores are log probabilities over tokens to this power: above 0 longer texts gain
  std::optional<TokenGrammar> grammar = {};  ///< as in GenerateOptions
};

struct Beam {
  std::vector<TokenId> tokens;  ///< the end token left out
  std::string text;
  double log_probability = 0;  ///< of all tokens, that of the end included; among those that the grammar lets come
  double score = 0;
  Finish finish = Finish::stop;
};

/// The best texts found behind what the session holds and the prompt, the best first. As in Hugging Face's generate() with num_beams: each
/// step looks at twice as many tokens as there are beams, ended texts compete by score, and the search stops when no beginning can catch
/// up. Equal probabilities are told apart by the beam, then by the lower id. The session then holds the prompt. Throws invalid_argument for
/// options out of range, and as Session::prefill() does.
[[nodiscard]] std::vector<Beam> beam_search(Session& session, std::span<const TokenId> prompt, const BeamOptions& options = {});
[[nodiscard]] std::vector<Beam> beam_search(Session& session, std::string_view prompt, const BeamOptions& options = {}, EncodeOptions encode = {});

}  // namespace bantam::inline v0
