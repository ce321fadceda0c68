// Reading how tokens are chosen.
#include "sampling_options.hpp"

namespace bantam::cli {

namespace {

/// ID=BIAS, or ID+BIAS and ID-BIAS as llama.cpp has it.
std::pair<TokenId, float> parse_bias(const std::string& text) {
  const auto sign = text.find_first_of("=+-");
  if (sign == std::string::npos) throw UsageError(message("--logit-bias: expected ID=BIAS, found ", printable(text)));
  const auto id = parse_integer("--logit-bias", text.substr(0, sign), {0, std::numeric_limits<TokenId>::max()});
  return {static_cast<TokenId>(id), static_cast<float>(parse_number("--logit-bias", text.substr(text[sign] == '-' ? sign : sign + 1)))};
}

std::vector<SamplerStage> parse_order(const std::string& names) {
  std::vector<SamplerStage> order;
  for (std::size_t at = 0; at <= names.size();) {
    const std::size_t end = std::min(names.find(';', at), names.size());
    order.push_back(find_stage(std::string_view(names).substr(at, end - at)));
    at = end + 1;
  }
  return order;
}

}  // namespace

void add_sampling(CLI::App& verb, SamplingOptions& options) {
  constexpr std::int64_t most_int = std::numeric_limits<std::int32_t>::max();
  Sampling& s = options.sampling;
  add_number(verb, "--temperature", s.temperature, "0 takes the most probable token (greedy)");
  add_integer(verb, "--top-k", options.top_k, {0, most_int}, "keep the k most probable tokens; 0: all");
  add_number(verb, "--top-p", s.top_p, "keep the fewest tokens that hold this probability; 1: all");
  add_number(verb, "--min-p", s.min_p, "drop tokens below this share of the best one's probability; 0: none");
  add_number(verb, "--typical", s.typical_p, "locally typical sampling; 1: off");
  add_number(verb, "--repeat-penalty", s.repeat_penalty, "divides the logits of repeated tokens; 1: off");
  add_number(verb, "--frequency-penalty", s.frequency_penalty, "taken from a logit for each repetition; 0: off");
  add_number(verb, "--presence-penalty", s.presence_penalty, "taken from the logits of tokens seen; 0: off");
  add_integer(verb, "--repeat-last-n", options.repeat_last_n, {-1, most_int}, "tokens that the penalties look back; 0: none, -1: all");
  add_number(verb, "--dry-multiplier", s.dry_multiplier, "DRY: lowers what goes on with a repetition; 0: off");
  add_number(verb, "--dry-base", s.dry_base, "DRY: by this to the power of what it is longer than allowed");
  add_integer(verb, "--dry-allowed-length", options.dry_allowed_length, {1, most_int}, "DRY: tokens that may be repeated");
  add_integer(verb, "--dry-penalty-last-n", options.dry_penalty_last_n, {-1, most_int}, "DRY: tokens that it looks back; 0: none, -1: all");
  add_texts(verb, "--dry-sequence-breaker", options.dry_breakers, "TEXT", "DRY: repetitions end at tokens with this text, in place of line ends, :, \" and *; none: at no token; may be repeated");
  add_number(verb, "--top-nsigma", s.top_n_sigma, "keep logits this many standard deviations below the highest; 0: all");
  add_number(verb, "--xtc-probability", s.xtc_probability, "XTC: how often the most probable tokens are left out; 0: off");
  add_number(verb, "--xtc-threshold", s.xtc_threshold, "XTC: of tokens of this probability and more the least stays");
  add_number(verb, "--dynatemp-range", s.dynatemp_range, "the temperature goes by entropy, so far up and down; 0: off");
  add_number(verb, "--dynatemp-exp", s.dynatemp_exponent, "exponent of the share of entropy in that");
  add_integer(verb, "--mirostat", options.mirostat, {0, 2}, "1 or 2: Mirostat in place of the stages that leave tokens out; 0: off");
  add_number(verb, "--mirostat-ent", s.mirostat_tau, "Mirostat's target: surprise of a token, in bits");
  add_number(verb, "--mirostat-lr", s.mirostat_eta, "Mirostat's learning rate");
  add_text(verb, "--samplers", options.samplers, "NAME;...", "these steps alone, in this order: penalties, dry, top_n_sigma, top_k, typical, top_p, min_p, xtc, temperature [all, in this order]");
  add_texts(verb, "--logit-bias", options.logit_bias, "ID=BIAS", "added to the logit of a token, -inf forbids it; may be repeated");
}

Sampling sampling_of(const SamplingOptions& options) {
  Sampling s = options.sampling;
  s.top_k = static_cast<int>(options.top_k);
  s.repeat_last_n = static_cast<int>(options.repeat_last_n);
  s.dry_allowed_length = static_cast<int>(options.dry_allowed_length);
  s.dry_penalty_last_n = static_cast<int>(options.dry_penalty_last_n);
  s.mirostat = static_cast<Mirostat>(options.mirostat);
  if (!options.dry_breakers.empty()) {
    s.dry_sequence_breakers = options.dry_breakers;
    std::erase(s.dry_sequence_breakers, "none");
  }
  try {
    if (!options.samplers.empty()) s.order = parse_order(options.samplers);
    // Which ids there are depends on the model.
    const Sampler sampler(s, 1);
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
  for (const std::string& bias : options.logit_bias) s.logit_bias.push_back(parse_bias(bias));
  return s;
}

}  // namespace bantam::cli
