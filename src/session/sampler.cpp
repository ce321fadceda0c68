// The sampler: options checked, stages in their order, the draw, and what is remembered from token to token.
#include "bantam/session/sampler.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numbers>
#include <utility>

#include "bantam/core/names.hpp"
#include "sampler_stages.hpp"

namespace bantam::inline v0 {

SamplerStage find_stage(std::string_view name) {
  constexpr std::string_view names[] = {"penalties", "top_k", "typical", "top_p", "min_p", "temperature", "dry", "top_n_sigma", "xtc"};
  return static_cast<SamplerStage>(find_name("order", name == "typ_p" ? "typical" : name, names));
}

namespace {

void check_range(std::string_view name, float value, bool in_range, std::string_view allowed) {
  if (!in_range) fail(Errc::invalid_argument, "sampling: ", name, " is ", value, ", expected ", allowed);
}

void check(const Sampling& options, std::int32_t vocab_size) {
  if (vocab_size < 1) fail(Errc::invalid_argument, "sampling: vocab_size is ", vocab_size, ", expected at least 1");
  const auto share = [](std::string_view name, float value) {
    check_range(name, value, value >= 0.0f && value <= 1.0f, "0 to 1");
  };
  const auto finite = [](std::string_view name, float value) {
    check_range(name, value, std::isfinite(value), "a finite number");
  };
  check_range("temperature", options.temperature, std::isfinite(options.temperature) && options.temperature >= 0.0f,
              "0 (greedy) or a finite number above");
  if (options.top_k < 0) fail(Errc::invalid_argument, "sampling: top_k is ", options.top_k, ", expected 0 (off) or more");
  share("top_p", options.top_p);
  share("min_p", options.min_p);
  share("typical_p", options.typical_p);
  check_range("repeat_penalty", options.repeat_penalty,
              std::isfinite(options.repeat_penalty) && options.repeat_penalty > 0.0f, "a finite number above 0");
  finite("frequency_penalty", options.frequency_penalty);
  finite("presence_penalty", options.presence_penalty);
  if (options.mirostat > Mirostat::v2) {
    fail(Errc::invalid_argument, "sampling: mirostat is ", static_cast<int>(options.mirostat), ", expected 0 (off), 1 or 2");
  }
  const auto positive = [](std::string_view name, float value) {
    check_range(name, value, std::isfinite(value) && value > 0.0f, "a finite number above 0");
  };
  positive("mirostat_tau", options.mirostat_tau);
  positive("mirostat_eta", options.mirostat_eta);
  finite("top_n_sigma", options.top_n_sigma);
  share("xtc_probability", options.xtc_probability);
  share("xtc_threshold", options.xtc_threshold);
  const auto not_negative = [](std::string_view name, float value) {
    check_range(name, value, std::isfinite(value) && value >= 0.0f, "0 or a finite number above");
  };
  not_negative("dynatemp_range", options.dynatemp_range);
  not_negative("dynatemp_exponent", options.dynatemp_exponent);
  finite("dry_multiplier", options.dry_multiplier);
  check_range("dry_base", options.dry_base, std::isfinite(options.dry_base) && options.dry_base >= 1.0f, "a finite number of at least 1");
  if (options.dry_allowed_length < 1) {
    fail(Errc::invalid_argument, "sampling: dry_allowed_length is ", options.dry_allowed_length, ", expected at least 1");
  }
  if (options.dry_penalty_last_n < -1) {
    fail(Errc::invalid_argument, "sampling: dry_penalty_last_n is ", options.dry_penalty_last_n,
         ", expected -1 (all), 0 (off) or a number of tokens");
  }
  if (options.repeat_last_n < -1) {
    fail(Errc::invalid_argument, "sampling: repeat_last_n is ", options.repeat_last_n,
         ", expected -1 (all), 0 (off) or a number of tokens");
  }
  for (const auto& [id, bias] : options.logit_bias) {
    if (id < 0 || id >= vocab_size) {
      fail(Errc::invalid_argument, "sampling: logit_bias names token ", id, ", expected 0 to ", vocab_size - 1);
    }
    if (!(bias <= std::numeric_limits<float>::max())) {
      fail(Errc::invalid_argument, "sampling: logit_bias of token ", id, " is ", bias,
           ", expected a finite number or minus infinity");
    }
  }
  for (auto stage = options.order.begin(); stage != options.order.end(); ++stage) {
    if (*stage > SamplerStage::xtc) {
      fail(Errc::invalid_argument, "sampling: order holds stage ", static_cast<int>(*stage), ", expected 0 to ",
           static_cast<int>(SamplerStage::xtc));
    }
    if (std::find(options.order.begin(), stage, *stage) != stage) {
      fail(Errc::invalid_argument, "sampling: order holds stage ", static_cast<int>(*stage),
           " twice, expected each at most once");
    }
  }
}

bool penalizes(const Sampling& options) noexcept {
  return options.repeat_penalty != 1.0f || options.frequency_penalty != 0.0f || options.presence_penalty != 0.0f;
}

bool looks_for_repetitions(const Sampling& options) noexcept { return options.dry_multiplier != 0.0f && options.dry_penalty_last_n != 0; }

// Whether one of the stages can change which token is the most probable: the others need not run for it.
bool moves_the_best(const Sampling& options, std::span<const SamplerStage> stages) noexcept {
  return std::any_of(stages.begin(), stages.end(), [&](SamplerStage stage) {
    return (stage == SamplerStage::penalties && penalizes(options)) ||
           (stage == SamplerStage::dry && looks_for_repetitions(options)) ||
           (stage == SamplerStage::xtc && options.xtc_probability > 0.0f) ||
           (stage == SamplerStage::typical && options.typical_p < 1.0f);
  });
}

bool truncates(SamplerStage stage) noexcept {
  return stage != SamplerStage::penalties && stage != SamplerStage::dry && stage != SamplerStage::temperature;
}

// Saved state: the magic with its version, then little-endian words. Version 1 has no Mirostat.
constexpr std::string_view state_magic = "bsample2";
constexpr std::string_view state_magic_v1 = "bsample1";
constexpr std::size_t word_count = std::tuple_size_v<Random::State>;
constexpr std::size_t header_bytes = state_magic.size() + word_count * 8 + 4 + 8;
constexpr std::size_t header_bytes_v1 = header_bytes - 8;

void put(std::string& out, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
}

std::uint64_t get(std::string_view in, std::size_t at, int bytes) {
  std::uint64_t value = 0;
  for (int i = bytes; i-- > 0;) value = value << 8 | static_cast<unsigned char>(in[at + static_cast<std::size_t>(i)]);
  return value;
}

}  // namespace

Sampler::Sampler(Sampling options, std::int32_t vocab_size)
    : options_(std::move(options)), vocab_size_(vocab_size), random_(options_.seed),
      mu_(2.0 * static_cast<double>(options_.mirostat_tau)) {  // the paper's start
  check(options_, vocab_size_);
  std::ranges::sort(options_.dry_breakers);
}

bool Sampler::draws_xtc() const noexcept {
  return options_.xtc_probability > 0.0f && options_.mirostat == Mirostat::off && std::ranges::find(options_.order, SamplerStage::xtc) != options_.order.end();
}

void Sampler::run(std::span<const float> logits, detail::SamplerScratch& scratch, Xtc xtc) const {
  if (logits.size() != static_cast<std::size_t>(vocab_size_)) {
    fail(Errc::invalid_argument, "logits: expected ", vocab_size_, " of them, found ", logits.size());
  }
  detail::gather(logits, options_.logit_bias, scratch.candidates);
  const bool greedy = options_.temperature <= 0.0f;
  for (auto stage = options_.order.begin(); stage != options_.order.end(); ++stage) {
    if (greedy && !moves_the_best(options_, {stage, options_.order.end()})) break;
    if (options_.mirostat != Mirostat::off && truncates(*stage)) continue;
    switch (*stage) {
      case SamplerStage::penalties:
        if (penalizes(options_)) detail::penalize(scratch.candidates, counts_, options_);
        break;
      case SamplerStage::typical:
        if (options_.typical_p < 1.0f) detail::keep_typical(scratch, options_.typical_p);
        break;
      case SamplerStage::top_k:
        if (options_.top_k > 0) detail::keep_top_k(scratch, static_cast<std::size_t>(options_.top_k));
        break;
      case SamplerStage::top_p:
        if (options_.top_p < 1.0f) detail::keep_top_p(scratch, options_.top_p);
        break;
      case SamplerStage::min_p:
        if (options_.min_p > 0.0f) detail::keep_min_p(scratch.candidates, options_.min_p);
        break;
      case SamplerStage::temperature:
        if (options_.dynatemp_range > 0.0f && !greedy) {
          detail::apply_temperature(scratch.candidates, detail::dynamic_temperature(scratch, options_));
        } else {
          detail::apply_temperature(scratch.candidates, options_.temperature);
        }
        break;
      case SamplerStage::dry:
        if (looks_for_repetitions(options_)) {
          const auto window = options_.dry_penalty_last_n < 0 ? recent_.size() : std::min(recent_.size(), static_cast<std::size_t>(options_.dry_penalty_last_n));
          const std::vector<TokenId> last(recent_.end() - static_cast<std::ptrdiff_t>(window), recent_.end());
          detail::penalize_repetitions(scratch.candidates, last, options_);
        }
        break;
      case SamplerStage::top_n_sigma:
        if (options_.top_n_sigma > 0.0f) detail::keep_top_n_sigma(scratch.candidates, options_.top_n_sigma);
        break;
      case SamplerStage::xtc:
        if (xtc == Xtc::applied) detail::exclude_top_choices(scratch, options_.xtc_threshold);
        break;
    }
  }
  if (greedy) return detail::keep_most_probable(scratch.candidates);
  if (options_.mirostat == Mirostat::off) return;
  const double highest = std::ranges::max(scratch.candidates, {}, &detail::SamplerCandidate::logit).logit;
  scratch.log_total = highest + std::log(detail::softmax_weights(scratch));
  if (options_.mirostat == Mirostat::v1) {
    detail::keep_mirostat_v1(scratch, mu_);
  } else {
    detail::keep_mirostat_v2(scratch, mu_);
  }
}

TokenId Sampler::sample(std::span<const float> logits) {
  if (options_.temperature <= 0.0f && options_.logit_bias.empty() && !moves_the_best(options_, options_.order) &&
      logits.size() == static_cast<std::size_t>(vocab_size_)) {
    // What the stages come to then, without a copy of the logits. Logits that make no sense are theirs to refuse.
    if (const TokenId best = detail::most_probable(logits); best >= 0) {
      (void)random_.uniform();
      return best;
    }
  }
  const bool excludes = draws_xtc() && random_.uniform() < static_cast<double>(options_.xtc_probability);
  run(logits, scratch_, excludes ? Xtc::applied : Xtc::skipped);
  const detail::SamplerCandidate chosen = draw(random_.uniform());
  if (options_.mirostat != Mirostat::off && options_.temperature > 0.0f) {
    // Surprise is that of the whole distribution, not of what was left of it: the paper's S(X).
    const double surprise = (scratch_.log_total - chosen.logit) / std::numbers::ln2;
    mu_ -= static_cast<double>(options_.mirostat_eta) * (surprise - static_cast<double>(options_.mirostat_tau));
  }
  return chosen.id;
}

detail::SamplerCandidate Sampler::draw(double uniform) {
  if (scratch_.candidates.size() == 1) return scratch_.candidates.front();
  const double total = detail::softmax_weights(scratch_);
  const double target = uniform * total;
  double sum = 0.0;
  std::size_t chosen = 0;
  for (std::size_t i = 0; i < scratch_.weights.size() && sum <= target; ++i) {
    sum += scratch_.weights[i];
    // Rounding may bring the target up to the total: then the last token that can come at all.
    if (scratch_.weights[i] > 0.0) chosen = i;
  }
  return scratch_.candidates[chosen];
}

std::vector<std::pair<TokenId, double>> Sampler::probabilities(std::span<const float> logits) const {
  std::map<TokenId, double> sums;
  const auto add = [&](Xtc xtc, double share) {
    if (share <= 0.0) return;
    detail::SamplerScratch scratch;
    run(logits, scratch, xtc);
    const double total = detail::softmax_weights(scratch);
    for (std::size_t i = 0; i < scratch.candidates.size(); ++i) {
      if (scratch.weights[i] > 0.0) sums[scratch.candidates[i].id] += share * (scratch.weights[i] / total);
    }
  };
  const double excluding = draws_xtc() ? static_cast<double>(options_.xtc_probability) : 0.0;
  add(Xtc::skipped, 1.0 - excluding);
  add(Xtc::applied, excluding);
  return {sums.begin(), sums.end()};
}

void Sampler::accept(TokenId id) {
  if (id < 0 || id >= vocab_size_) {
    fail(Errc::invalid_argument, "sampler: token is ", id, ", expected 0 to ", vocab_size_ - 1);
  }
  const bool dry = looks_for_repetitions(options_);
  if (options_.repeat_last_n == 0 && !dry) return;
  recent_.push_back(id);
  ++counts_[id];
  const std::size_t size = recent_.size();
  if (options_.repeat_last_n < 0) return;
  const auto counted = static_cast<std::size_t>(options_.repeat_last_n);
  if (size > counted) {
    const auto oldest = counts_.find(recent_[size - 1 - counted]);
    if (--oldest->second == 0) counts_.erase(oldest);
  }
  // DRY may look back further than the penalties do.
  if (dry && options_.dry_penalty_last_n < 0) return;
  if (size > std::max(counted, dry ? static_cast<std::size_t>(options_.dry_penalty_last_n) : 0)) recent_.pop_front();
}

std::string Sampler::save() const {
  std::string out(state_magic);
  out.reserve(header_bytes + recent_.size() * 4);
  for (const std::uint64_t word : random_.state()) put(out, word, 8);
  put(out, static_cast<std::uint64_t>(vocab_size_), 4);
  put(out, std::bit_cast<std::uint64_t>(mu_), 8);
  for (const TokenId id : recent_) put(out, static_cast<std::uint64_t>(id), 4);
  return out;
}

Sampler Sampler::restore(std::string_view state, Sampling options, std::int32_t vocab_size) {
  Sampler sampler(std::move(options), vocab_size);
  const bool v1 = state.starts_with(state_magic_v1);
  if (!v1 && !state.starts_with(state_magic)) {
    fail(Errc::corrupt, "sampler state: expected it to begin with ", state_magic, ", found ",
         printable(state.substr(0, state_magic.size())));
  }
  const std::size_t header = v1 ? header_bytes_v1 : header_bytes;
  if (state.size() < header || (state.size() - header) % 4 != 0) {
    fail(Errc::corrupt, "sampler state: expected ", header, " bytes and 4 for each token, found ", state.size());
  }
  std::size_t at = state_magic.size();
  Random::State words{};
  for (std::uint64_t& word : words) {
    word = get(state, at, 8);
    at += 8;
  }
  sampler.random_ = Random::from_state(words);
  if (const std::uint64_t found = get(state, at, 4); found != static_cast<std::uint64_t>(vocab_size)) {
    fail(Errc::corrupt, "sampler state: expected a vocabulary of ", vocab_size, " tokens, found ", found);
  }
  at += 4;
  if (!v1) {
    sampler.mu_ = std::bit_cast<double>(get(state, at, 8));
    if (!std::isfinite(sampler.mu_)) fail(Errc::corrupt, "sampler state: expected Mirostat's bound to be a finite number");
    at += 8;
  }
  for (; at < state.size(); at += 4) {
    const std::uint64_t id = get(state, at, 4);
    if (id >= static_cast<std::uint64_t>(vocab_size)) {
      fail(Errc::corrupt, "sampler state: token at byte ", at, " is ", id, ", expected 0 to ", vocab_size - 1);
    }
    sampler.accept(static_cast<TokenId>(id));
  }
  return sampler;
}

}  // namespace bantam::inline v0
