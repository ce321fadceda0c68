// Picks the next token from a model's logits: penalties, truncation, temperature and the draw.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bantam/core/random.hpp"
#include "bantam/text/tokenizer.hpp"

namespace bantam::inline v0 {

namespace detail {

struct SamplerCandidate {
  double logit;
  TokenId id;
};

/// A candidate's place in a stage's order (lower is better) and its share of the probability.
struct SamplerRank {
  double key;
  double weight;
  TokenId id;

  friend bool operator<(const SamplerRank& a, const SamplerRank& b) noexcept {
    return a.key < b.key || (a.key == b.key && a.id < b.id);
  }
};

/// The memory that one choice works in.
struct SamplerScratch {
  std::vector<SamplerCandidate> candidates;  ///< by rising id
  std::vector<SamplerRank> ranks;
  std::vector<double> weights;  ///< of the candidates, in their order
  double log_total = 0;  ///< what Mirostat measures surprise from: log of the sum of e^logit before it cut
};

}  // namespace detail

/// The steps between the logit bias, which always comes first, and the draw, which always comes last.
enum class SamplerStage : std::uint8_t { penalties, top_k, typical, top_p, min_p, temperature, dry, top_n_sigma, xtc };
/// By the names above; typ_p, as llama.cpp has it, is typical. Throws invalid_argument listing them.
[[nodiscard]] SamplerStage find_stage(std::string_view name);

/// Mirostat (Basu et al., arXiv:2007.14966): cuts so that the surprise of the tokens drawn stays at a target. Version 1
/// keeps the k most probable tokens, by a fit of Zipf's law; version 2 those of bounded surprise.
enum class Mirostat : std::uint8_t { off, v1, v2 };

/// How to choose the next token. A stage at its "off" value changes nothing.
struct Sampling {
  float temperature = 0.8f;  ///< divides the logits; 0 takes the most probable token (greedy)
  int top_k = 40;            ///< keep the k most probable tokens; 0: off
  float top_p = 0.95f;       ///< keep the fewest tokens that hold this much probability, at least one; 1: off
  float min_p = 0.05f;       ///< drop tokens less probable than this share of the most probable; 0: off
  float typical_p = 1.0f;    ///< locally typical sampling (Meister et al., arXiv:2202.00666); 1: off
  float repeat_penalty = 1.0f;     ///< repeated tokens: positive logits are divided, others multiplied by it; 1: off
  float frequency_penalty = 0.0f;  ///< taken from a logit for each time that its token was seen; 0: off
  float presence_penalty = 0.0f;   ///< taken from the logits of all tokens seen; 0: off
  int repeat_last_n = 64;          ///< the penalties see this many last tokens; 0: none, -1: all
  /// DRY: a token that would go on with a repetition of L tokens, dry_allowed_length or more, loses
  /// dry_multiplier * dry_base^(L - dry_allowed_length). 0: off
  float dry_multiplier = 0.0f;
  float dry_base = 1.75f;
  int dry_allowed_length = 2;
  int dry_penalty_last_n = -1;  ///< tokens that it looks back; 0: none, -1: all
  /// Repetitions do not reach back over tokens that hold one of these texts; sessions turn them into dry_breakers.
  std::vector<std::string> dry_sequence_breakers = {"\n", ":", "\"", "*"};
  std::vector<TokenId> dry_breakers = {};  ///< nor over these tokens
  float top_n_sigma = 0.0f;      ///< keep logits of at least the highest less n standard deviations of them; 0 or below: off
  float xtc_probability = 0.0f;  ///< how often XTC drops all tokens of xtc_threshold or more but the least probable of them; 0: off
  float xtc_threshold = 0.1f;    ///< above 0.5 it drops none
  /// Above 0 the temperature goes by entropy (dynamic temperature), from temperature - range to temperature + range.
  float dynatemp_range = 0.0f;
  float dynatemp_exponent = 1.0f;
  /// Takes the place of the stages that leave tokens out, after those that are left.
  Mirostat mirostat = Mirostat::off;
  float mirostat_tau = 5.0f;  ///< the target: mean surprise of a token, in bits
  float mirostat_eta = 0.1f;  ///< how fast the bound follows: the paper's learning rate
  std::vector<std::pair<TokenId, float>> logit_bias = {};  ///< added to logits; minus infinity forbids the token
  std::uint64_t seed = 0;  ///< 0 is a seed like any other
  /// The stages in their order, each at most once; one that is left out is off (greedy stays greedy). The default is
  /// llama.cpp's; Hugging Face and vLLM put temperature before the truncations.
  std::vector<SamplerStage> order = {SamplerStage::penalties, SamplerStage::dry,   SamplerStage::top_n_sigma,
                                     SamplerStage::top_k,     SamplerStage::typical, SamplerStage::top_p,
                                     SamplerStage::min_p,     SamplerStage::xtc,   SamplerStage::temperature};
};

/// One sequence's way of choosing tokens: the options, the random numbers and what the penalties remember.
/// Equal probabilities are told apart by the token id: the lower id is the better one. The same options, accepted
/// tokens and logits give the same tokens, whatever the threads or the batch. Belongs to one thread at a time.
class Sampler {
 public:
  /// Throws invalid_argument that names the option, its value and what is allowed.
  explicit Sampler(Sampling options, std::int32_t vocab_size);

  /// Chooses a token. logits: (vocab_size), left as they are. Takes one random number a call (two with XTC), also when there
  /// is no choice, so that random numbers stay in step with tokens. Does not accept() the token. Throws invalid_argument
  /// for a wrong size, corrupt when logits hold NaN or +infinity or leave no token. Time linear in the vocabulary.
  [[nodiscard]] TokenId sample(std::span<const float> logits);

  /// Remembers a token for the penalties: generated ones, and the prompt's if these are to count, as they do in
  /// llama.cpp and in Hugging Face's repetition penalty (OpenAI's frequency and presence count generated ones only).
  /// Throws invalid_argument for an id outside the vocabulary.
  void accept(TokenId id);

  /// The distribution that sample() would draw from, over all that XTC may do: the tokens that can come, by rising id, and their probabilities,
  /// which add up to 1. Throws as sample() does.
  [[nodiscard]] std::vector<std::pair<TokenId, double>> probabilities(std::span<const float> logits) const;

  /// The random numbers' state, Mirostat's and the remembered tokens as bytes, the same on every machine.
  [[nodiscard]] std::string save() const;

  /// Goes on exactly where save() stood; the seed in `options` plays no part. Throws corrupt for bytes that save()
  /// cannot have written or that belong to another vocabulary, and as the constructor does.
  [[nodiscard]] static Sampler restore(std::string_view state, Sampling options, std::int32_t vocab_size);

  [[nodiscard]] const Sampling& options() const noexcept { return options_; }

 private:
  /// What a random number decides of the stages.
  enum class Xtc : std::uint8_t { skipped, applied };
  void run(std::span<const float> logits, detail::SamplerScratch& scratch, Xtc xtc) const;
  [[nodiscard]] bool draws_xtc() const noexcept;
  [[nodiscard]] detail::SamplerCandidate draw(double uniform);

  Sampling options_;
  std::int32_t vocab_size_;
  Random random_;
  double mu_;  ///< Mirostat's bound of surprise, in bits
  std::deque<TokenId> recent_;
  std::map<TokenId, std::int64_t> counts_;  ///< of the last repeat_last_n of recent_; ordered, like the candidates
  detail::SamplerScratch scratch_;  ///< kept from call to call
};

}  // namespace bantam::inline v0
