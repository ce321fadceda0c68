// Rotary position embedding with the scalings that llama-family checkpoints use.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <span>
#include <vector>

#include "bantam/core/error.hpp"
#include "bantam/kernels/table.hpp"

namespace bantam::inline v0::nn {

/// Which two elements of a head turn together.
enum class RopePairs : std::uint8_t {
  half,      ///< (i, i + dim / 2): GPT-NeoX, Hugging Face's Llama
  adjacent,  ///< (2 i, 2 i + 1): the paper; GGUF files of Llama
};

enum class RopeScaling : std::uint8_t { none, linear, dynamic, llama3, yarn, longrope };

/// Everything that defines the angles. Su et al., arXiv:2104.09864.
struct RopeOptions {
  std::int64_t dim = 0;  ///< rotated elements of a head; even
  double base = 10000;
  RopePairs pairs = RopePairs::half;
  RopeScaling scaling = RopeScaling::none;
  double factor = 1;
  std::int64_t original_context = 0;  ///< tokens the model was trained with; dynamic, llama3, yarn, longrope
  double low_freq_factor = 1;         ///< llama3
  double high_freq_factor = 4;        ///< llama3
  double beta_fast = 32;              ///< yarn
  double beta_slow = 1;               ///< yarn
  bool truncate = true;               ///< yarn: whole dimensions at the ends of the ramp
  /// yarn, longrope: what cosines and sines are multiplied by; 0 means 0.1 ln(factor) + 1.
  double attention_factor = 0;
  /// yarn, DeepSeek's mscale_all_dim: scores are multiplied by (0.1 mscale_all_dim ln(factor) + 1)^2.
  double score_mscale = 0;
  /// Divisors of each frequency (dim / 2), as GGUF's rope_freqs.weight carries them; empty for none.
  std::vector<float> divisors{};
  /// longrope (arXiv:2402.13753): the same of sequences that may grow beyond the original context.
  std::vector<float> long_divisors{};
};

/// The frequency of each pair, and cosines and sines by position.
class Rope {
 public:
  /// `context_tokens` is the longest sequence to come: dynamic scaling fixes its base by it, once, and longrope its divisors, so that
  /// angles do not change under keys already stored. Throws invalid_argument naming the option that is out of range.
  explicit Rope(RopeOptions options, std::int64_t context_tokens = 0);

  [[nodiscard]] std::int64_t dim() const noexcept { return options_.dim; }
  [[nodiscard]] std::span<const double> frequencies() const noexcept { return frequencies_; }
  /// What cosines and sines are multiplied by (1 but for yarn and longrope).
  [[nodiscard]] double magnitude() const noexcept { return magnitude_; }

  /// cosines, sines: (dim / 2) each, for one position.
  void angles(std::int64_t position, float* cosines, float* sines) const noexcept {
    angles(position, magnitude_, cosines, sines);
  }
  /// The same of the rotation that brings a head from one position to another, `by` positions on: its length stays.
  void shift_angles(std::int64_t by, float* cosines, float* sines) const noexcept { angles(by, 1, cosines, sines); }
  /// Rotates one head of at least dim() elements in place.
  void apply(const KernelTable& kernels, float* head, const float* cosines, const float* sines) const noexcept {
    const std::int64_t half = options_.dim / 2;
    if (options_.pairs == RopePairs::half) {
      kernels.rope_half(head, cosines, sines, half);
    } else {
      kernels.rope_pairs(head, cosines, sines, half);
    }
  }

 private:
  void angles(std::int64_t position, double magnitude, float* cosines, float* sines) const noexcept {
    for (std::size_t i = 0; i < frequencies_.size(); ++i) {
      const double angle = static_cast<double>(position) * frequencies_[i];
      cosines[i] = static_cast<float>(std::cos(angle) * magnitude);
      sines[i] = static_cast<float>(std::sin(angle) * magnitude);
    }
  }
  void scale_yarn();
  void scale_llama3();

  RopeOptions options_;
  std::vector<double> frequencies_;
  double magnitude_ = 1;
};

inline Rope::Rope(RopeOptions options, std::int64_t context_tokens) : options_(std::move(options)) {
  const RopeOptions& o = options_;
  if (o.dim <= 0 || o.dim % 2 != 0) fail(Errc::invalid_argument, "rope: expected an even dimension above 0, found ", o.dim);
  if (!(o.base > 0) || !std::isfinite(o.base)) fail(Errc::invalid_argument, "rope: expected a base above 0, found ", o.base);
  if (o.scaling != RopeScaling::none && (!(o.factor >= 1) || !std::isfinite(o.factor))) {
    fail(Errc::invalid_argument, "rope: expected a scaling factor of at least 1, found ", o.factor);
  }
  const bool needs_original =
      o.scaling == RopeScaling::dynamic || o.scaling == RopeScaling::llama3 || o.scaling == RopeScaling::yarn || o.scaling == RopeScaling::longrope;
  if (needs_original && o.original_context <= 0) {
    fail(Errc::invalid_argument, "rope: expected the original context above 0, found ", o.original_context);
  }
  if (o.scaling == RopeScaling::llama3 && !(o.low_freq_factor > 0 && o.high_freq_factor > o.low_freq_factor)) {
    fail(Errc::invalid_argument, "rope: expected frequency factors 0 < low < high, found ", o.low_freq_factor, " and ", o.high_freq_factor);
  }
  if (o.scaling == RopeScaling::yarn && !(o.base > 1 && o.beta_slow > 0 && o.beta_fast > 0)) {
    fail(Errc::invalid_argument, "rope: yarn expects a base above 1 and betas above 0, found ", o.base, ", ", o.beta_fast, " and ", o.beta_slow);
  }
  if (o.scaling == RopeScaling::longrope && o.divisors.size() != o.long_divisors.size()) {
    fail(Errc::invalid_argument, "rope: expected as many divisors for long contexts as for short ones, found ", o.long_divisors.size(), " and ", o.divisors.size());
  }
  for (const auto& list : {std::span(o.divisors), std::span(o.long_divisors)}) {
    for (const float divisor : list) {
      if (!(divisor > 0) || !std::isfinite(divisor)) {
        fail(Errc::invalid_argument, "rope: expected frequency divisors above 0, found ", divisor);
      }
    }
    if (!list.empty() && static_cast<std::int64_t>(list.size()) != o.dim / 2) {
      fail(Errc::invalid_argument, "rope: expected ", o.dim / 2, " frequency divisors, found ", list.size());
    }
  }

  double base = o.base;
  const auto d = static_cast<double>(o.dim);
  if (o.scaling == RopeScaling::dynamic && context_tokens > o.original_context) {
    // NTK-aware scaling by length ("dynamic NTK"): transformers' _compute_dynamic_ntk_parameters.
    const double stretch = o.factor * static_cast<double>(context_tokens) / static_cast<double>(o.original_context) - (o.factor - 1);
    base *= std::pow(stretch, d / (d - 2));
  }
  const bool is_long = o.scaling == RopeScaling::longrope && context_tokens > o.original_context;
  const std::span<const float> divisors = is_long ? o.long_divisors : o.divisors;
  frequencies_.resize(static_cast<std::size_t>(o.dim / 2));
  for (std::size_t i = 0; i < frequencies_.size(); ++i) {
    frequencies_[i] = std::pow(base, -2.0 * static_cast<double>(i) / d);
    if (o.scaling == RopeScaling::linear) frequencies_[i] /= o.factor;
    if (!divisors.empty()) frequencies_[i] /= static_cast<double>(divisors[i]);
  }
  if (o.scaling == RopeScaling::longrope && o.attention_factor > 0) magnitude_ = o.attention_factor;
  if (o.scaling == RopeScaling::llama3) scale_llama3();
  if (o.scaling == RopeScaling::yarn) scale_yarn();
}

/// Llama 3.1: long wavelengths are stretched by `factor`, short ones kept, with a ramp in between.
inline void Rope::scale_llama3() {
  const auto original = static_cast<double>(options_.original_context);
  const double low = original / options_.low_freq_factor;
  const double high = original / options_.high_freq_factor;
  for (double& frequency : frequencies_) {
    const double wavelength = 2 * std::numbers::pi / frequency;
    if (wavelength < high) continue;
    if (wavelength > low) {
      frequency /= options_.factor;
    } else {
      const double smooth = (original / wavelength - options_.low_freq_factor) / (options_.high_freq_factor - options_.low_freq_factor);
      frequency *= (1 - smooth) / options_.factor + smooth;
    }
  }
}

/// YaRN (Peng et al., arXiv:2309.00071, section 3.2).
inline void Rope::scale_yarn() {
  const RopeOptions& o = options_;
  const auto dimension_of = [&](double rotations) {
    return static_cast<double>(o.dim) * std::log(static_cast<double>(o.original_context) / (rotations * 2 * std::numbers::pi)) /
           (2 * std::log(o.base));
  };
  double low = dimension_of(o.beta_fast);
  double high = dimension_of(o.beta_slow);
  if (o.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(o.dim - 1));
  if (low == high) high += 0.001;  // a ramp of no width would divide by zero
  for (std::size_t i = 0; i < frequencies_.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    frequencies_[i] = frequencies_[i] / o.factor * ramp + frequencies_[i] * (1 - ramp);
  }
  magnitude_ = o.attention_factor > 0 ? o.attention_factor : 0.1 * std::log(o.factor) + 1;
}

}  // namespace bantam::inline v0::nn
