// Kernels on one row of floats: norms, activations, rotation, rounding to 8 bits.
#pragma once

#include "bantam/kernels/arguments.hpp"
#include "bantam/kernels/math.hpp"
#include "bantam/quant/strip16_layout.hpp"
#include "bantam/simd/dot.hpp"

namespace bantam::inline v0::kernels {

/// Calls whole(i) for every full vector of n elements, then tail(i) for each element left.
template <class A, class Whole, class Tail>
BANTAM_INLINE void for_lanes(std::int64_t n, Whole&& whole, Tail&& tail) {
  std::int64_t i = 0;
  for (; i + vec<A>::lanes <= n; i += vec<A>::lanes) whole(i);
  for (; i < n; ++i) tail(i);
}

/// Applies a function of vectors to every element; what is left of a vector goes through a padded copy.
template <class A, class F>
BANTAM_INLINE void map_row(const float* x, float* out, std::int64_t n, F&& f) {
  using V = vec<A>;
  std::int64_t i = 0;
  for (; i + V::lanes <= n; i += V::lanes) V::store(out + i, f(V::load(x + i), i));
  if (i < n) {
    float lane[V::lanes] = {};
    for (std::int64_t k = i; k < n; ++k) lane[k - i] = x[k];
    V::store(lane, f(V::load(lane), i));
    for (std::int64_t k = i; k < n; ++k) out[k] = lane[k - i];
  }
}

/// out = x / sqrt(mean(x^2) + eps) * weight. Zhang and Sennrich, arXiv:1910.07467. In place allowed.
template <class A>
void rms_norm(const float* x, const float* weight, float eps, float* out, std::int64_t n) noexcept {
  using V = vec<A>;
  auto squares = V::splat(0.0f);
  float rest = 0;
  for_lanes<A>(
      n, [&](std::int64_t i) { squares = V::fma(V::load(x + i), V::load(x + i), squares); },
      [&](std::int64_t i) { rest += x[i] * x[i]; });
  const float mean = (simd::reduce_add<A>(squares) + rest) / static_cast<float>(n);
  const float inverse = 1.0f / __builtin_sqrtf(mean + eps);
  for_lanes<A>(
      n, [&](std::int64_t i) { V::store(out + i, V::load(x + i) * V::splat(inverse) * V::load(weight + i)); },
      [&](std::int64_t i) { out[i] = x[i] * inverse * weight[i]; });
}

/// out = (x - mean) / sqrt(variance + eps) * weight + bias; either may be null. Ba et al., arXiv:1607.06450.
template <class A>
void layer_norm(const float* x, const float* weight, const float* bias, float eps, float* out, std::int64_t n) noexcept {
  using V = vec<A>;
  auto sums = V::splat(0.0f);
  float rest = 0;
  for_lanes<A>(
      n, [&](std::int64_t i) { sums = sums + V::load(x + i); }, [&](std::int64_t i) { rest += x[i]; });
  const float mean = (simd::reduce_add<A>(sums) + rest) / static_cast<float>(n);
  auto squares = V::splat(0.0f);
  rest = 0;
  for_lanes<A>(
      n,
      [&](std::int64_t i) {
        const auto d = V::load(x + i) - V::splat(mean);
        squares = V::fma(d, d, squares);
      },
      [&](std::int64_t i) { rest += (x[i] - mean) * (x[i] - mean); });
  const float variance = (simd::reduce_add<A>(squares) + rest) / static_cast<float>(n);
  const float inverse = 1.0f / __builtin_sqrtf(variance + eps);
  for (std::int64_t i = 0; i < n; ++i) {
    out[i] = (x[i] - mean) * inverse * (weight != nullptr ? weight[i] : 1.0f) + (bias != nullptr ? bias[i] : 0.0f);
  }
}

/// x += y
template <class A>
void add(float* x, const float* y, std::int64_t n) noexcept {
  using V = vec<A>;
  for_lanes<A>(
      n, [&](std::int64_t i) { V::store(x + i, V::load(x + i) + V::load(y + i)); },
      [&](std::int64_t i) { x[i] += y[i]; });
}

/// out = activation(gate) * up; `up` may be null for ungated layers.
template <class A, class Activation>
BANTAM_INLINE void gated(const float* gate, const float* up, float* out, std::int64_t n, Activation activation) {
  using V = vec<A>;
  map_row<A>(gate, out, n, [&](typename V::F g, std::int64_t) { return activation(g); });
  if (up == nullptr) return;
  for_lanes<A>(
      n, [&](std::int64_t i) { V::store(out + i, V::load(out + i) * V::load(up + i)); },
      [&](std::int64_t i) { out[i] *= up[i]; });
}

/// SwiGLU's product (Shazeer, arXiv:2002.05202). `out` may not overlap `up`; it may be `gate`.
template <class A>
void silu_mul(const float* gate, const float* up, float* out, std::int64_t n) noexcept {
  gated<A>(gate, up, out, n, [](typename vec<A>::F x) { return silu<A>(x); });
}
template <class A>
void gelu_tanh_mul(const float* gate, const float* up, float* out, std::int64_t n) noexcept {
  gated<A>(gate, up, out, n, [](typename vec<A>::F x) { return gelu_tanh<A>(x); });
}
template <class A>
void gelu_erf_mul(const float* gate, const float* up, float* out, std::int64_t n) noexcept {
  gated<A>(gate, up, out, n, [](typename vec<A>::F x) { return gelu_erf<A>(x); });
}

/// relu(gate) * up, and relu(gate)^2 * up (So et al., arXiv:2109.08668).
template <class A>
void relu_mul(const float* gate, const float* up, float* out, std::int64_t n) noexcept {
  gated<A>(gate, up, out, n, [](typename vec<A>::F x) { return vec<A>::max(x, vec<A>::splat(0.0f)); });
}
template <class A>
void relu2_mul(const float* gate, const float* up, float* out, std::int64_t n) noexcept {
  gated<A>(gate, up, out, n, [](typename vec<A>::F x) {
    const auto y = vec<A>::max(x, vec<A>::splat(0.0f));
    return y * y;
  });
}

/// sigmoid(gate) * up.
template <class A>
void sigmoid_mul(const float* gate, const float* up, float* out, std::int64_t n) noexcept {
  using V = vec<A>;
  gated<A>(gate, up, out, n, [](typename V::F x) { return V::divide(V::splat(1.0f), V::splat(1.0f) + kernels::exp<A>(V::splat(0.0f) - x)); });
}

/// x = cap tanh(x / cap), in place (arXiv:2408.00118, 2.3).
template <class A>
void softcap(float* x, float cap, std::int64_t n) noexcept {
  using V = vec<A>;
  map_row<A>(x, x, n, [&](typename V::F y, std::int64_t) { return V::splat(cap) * kernels::tanh<A>(y * V::splat(1.0f / cap)); });
}

/// xIELU, in place (Huang and Schlag, arXiv:2411.13010, eq. 11): above 0 positive x^2 + slope x, else negative (e^min(x, limit) - 1 - x) + slope x.
template <class A>
void xielu(float* x, const Xielu& curve, std::int64_t n) noexcept {
  using V = vec<A>;
  map_row<A>(x, x, n, [&](typename V::F y, std::int64_t) {
    const auto line = V::splat(curve.slope) * y;
    const auto above = V::fma(V::splat(curve.positive) * y, y, line);
    const auto bent = kernels::exp<A>(V::min(V::splat(curve.limit), y)) - V::splat(1.0f) - y;
    return V::pick_less(V::splat(0.0f), y, above, V::fma(V::splat(curve.negative), bent, line));
  });
}

/// What gpt-oss does (arXiv:2508.10925, 2.1): min(g, 7) sigmoid(1.702 min(g, 7)) (clamp(up, -7, 7) + 1). A null `up` is all zeros.
template <class A>
void clamped_silu_mul(const float* gate, const float* up, float* out, std::int64_t n) noexcept {
  using V = vec<A>;
  constexpr float limit = 7, slope = 1.702f;
  map_row<A>(gate, out, n, [&](typename V::F g, std::int64_t) {
    const auto x = V::min(V::splat(limit), g);
    return V::divide(x, V::splat(1.0f) + kernels::exp<A>(V::splat(0.0f) - V::splat(slope) * x));
  });
  if (up == nullptr) return;
  for_lanes<A>(
      n,
      [&](std::int64_t i) {
        const auto y = V::min(V::splat(limit), V::max(V::splat(-limit), V::load(up + i)));
        V::store(out + i, V::load(out + i) * (y + V::splat(1.0f)));
      },
      [&](std::int64_t i) {
        const float y = up[i] > -limit ? up[i] : -limit;
        out[i] *= (y < limit ? y : limit) + 1.0f;
      });
}

/// Rotates pairs (i, i + half) of one head by the angles whose cosines and sines are given, `half` of each.
/// Su et al., arXiv:2104.09864, eq. 34, in the order of GPT-NeoX and Hugging Face's Llama.
template <class A>
void rope_half(float* x, const float* cosines, const float* sines, std::int64_t half) noexcept {
  using V = vec<A>;
  for_lanes<A>(
      half,
      [&](std::int64_t i) {
        const auto a = V::load(x + i);
        const auto b = V::load(x + half + i);
        const auto c = V::load(cosines + i);
        const auto s = V::load(sines + i);
        V::store(x + i, a * c - b * s);
        V::store(x + half + i, b * c + a * s);
      },
      [&](std::int64_t i) {
        const float a = x[i];
        const float b = x[half + i];
        x[i] = a * cosines[i] - b * sines[i];
        x[half + i] = b * cosines[i] + a * sines[i];
      });
}

/// The same for pairs (2 i, 2 i + 1): the paper's own order, and GGUF's for Llama.
template <class A>
void rope_pairs(float* x, const float* cosines, const float* sines, std::int64_t half) noexcept {
  for (std::int64_t i = 0; i < half; ++i) {
    const float a = x[2 * i];
    const float b = x[2 * i + 1];
    x[2 * i] = a * cosines[i] - b * sines[i];
    x[2 * i + 1] = b * cosines[i] + a * sines[i];
  }
}

/// A float cut to f16 and back.
template <class A>
BANTAM_INLINE float through_half(float x) {
  float lanes[16] = {x};
  std::uint16_t halves[16];
  simd::half_strip<A>::store(halves, lanes);
  const simd::Strip<A> strip = simd::half_strip<A>::load(halves);
  vec<A>::store(lanes, strip.part[0]);
  return lanes[0];
}

/// Rounds one row to signed bytes, a scale max|x| / 127 every out.block columns, ties to even, and sums every sum_columns of them, negative.
/// Scales every 32 columns are cut to f16, as llama.cpp does: greedy text from the same file is then the same, also
/// where two tokens are almost equally probable.
/// Only columns begin .. end, multiples of 256; with end == columns the padding up to `stride`, a multiple of 256, becomes
/// zeros. A NaN or infinity makes its block's scale NaN, so that it cannot vanish in the rounding.
template <class A>
void quantize_row(const float* x, std::int64_t columns, const QuantizedRows& rows, std::int64_t token, std::int64_t begin,
                  std::int64_t end) noexcept {
  using V = vec<A>;
  const QuantizedRows out = rows;  // stores of bytes could change what a reference names
  if (end == columns) end = out.stride;
  for (std::int64_t first = begin; first < end; first += out.block) {
    const std::int64_t left = columns - first;
    const std::int64_t n = left < 0 ? 0 : left < out.block ? left : out.block;
    alignas(64) float padded[block_columns];
    const float* block = x + first;
    if (n < out.block) {
      for (std::int64_t i = 0; i < out.block; ++i) padded[i] = i < n ? x[first + i] : 0.0f;
      block = padded;
    }
    // Sizes compare as integers like floats do, infinity and NaN above all others; those are NaN when 0 times them is added.
    auto largest = V::splat_int(0);
    for (std::int64_t i = 0; i < out.block; i += V::lanes) largest = V::max(largest, V::as_int(V::abs(V::load(block + i))));
    const auto size = __builtin_bit_cast(float, simd::reduce_max<A>(largest));
    const float amax = size + 0.0f * size;
    const float inverse = amax >= smallest_range ? 127.0f / amax : 0.0f;
    const float scale = out.block == 32 ? through_half<A>(amax / 127.0f) : amax / 127.0f;
    out.scales[first / out.block * out.width + token] = scale;
    std::int8_t* values = out.values + token * out.stride + first;
    std::int32_t* sums = out.sums + first / sum_columns * out.width + token;
    for (std::int64_t g = 0; g < out.block / sum_columns; ++g) {
      std::int8_t* sixteen = values + g * sum_columns;
      alignas(64) std::int32_t rounded[sum_columns];
      for (int i = 0; i < sum_columns; i += V::lanes) {
        V::store_int(rounded + i, V::to_int(V::load(block + g * sum_columns + i) * V::splat(inverse)));
      }
      for (int i = 0; i < sum_columns; ++i) sixteen[i] = static_cast<std::int8_t>(rounded[i]);
      *sums = -simd::sum_of_16<A>(sixteen);
      sums += out.width;
    }
    if (out.interleaved == nullptr) continue;
    std::uint8_t* interleaved = out.interleaved + (token / 16 * out.stride + first) * 16 + token % 16 * 4;
    for (std::int64_t i = 0; i < out.block; i += 4) {
      std::uint32_t four;
      std::memcpy(&four, values + i, 4);
      four ^= 0x80808080u;
      std::memcpy(interleaved + i * 16, &four, 4);
    }
  }
}

}  // namespace bantam::inline v0::kernels
