// How the codes of plane::Trellis become a stream of bits, and the weights that the stream stands for.
#pragma once

#include <algorithm>
#include <span>

#include "bantam/quant/codes.hpp"
#include "bantam/simd/trellis.hpp"

namespace bantam::inline v0::detail {

/// Columns of a block, after which a stream begins anew.
inline constexpr int stream_columns = 256;

/// Calls f(column, step) for each step of `columns` columns, in the order of the stream; it makes `column` and the next one.
template <int StepBits, class Visitor>
constexpr void for_steps(int columns, Visitor&& f) {
  using Unit = simd::TrellisUnit<StepBits>;
  int step = 0;
  for (int unit = 0; unit < columns; unit += Unit::columns) {
    for (int half = 0; half < 2; ++half) {
      for (int i = 0; i < Unit::steps; ++i) f(unit + 4 * i + 2 * half, step++);
    }
  }
}

/// Where piece number `piece` of a channel's stream lies, in bytes.
template <int StepBits>
[[nodiscard]] constexpr std::int64_t piece_at(int lane, int piece) noexcept {
  constexpr int lines = simd::TrellisUnit<StepBits>::lines;
  const int of_unit = piece % (2 * lines);
  return std::int64_t{piece / (2 * lines)} * lines * 64 + of_unit % lines * 64 + lane * 4 + of_unit / lines * 2;
}

/// The bits that a step adds, of its two codes, and back.
template <int StepBits>
[[nodiscard]] constexpr std::uint32_t step_of(const std::int8_t* codes) noexcept {
  constexpr int low = plane::Trellis<StepBits>::bits;
  return (static_cast<std::uint32_t>(codes[0]) & ((1u << low) - 1)) | (static_cast<std::uint32_t>(codes[1]) & ((1u << (StepBits - low)) - 1)) << low;
}
template <int StepBits>
constexpr void put_step(std::int8_t* codes, std::uint32_t bits) noexcept {
  constexpr int low = plane::Trellis<StepBits>::bits;
  codes[0] = static_cast<std::int8_t>(bits & ((1u << low) - 1));
  codes[1] = static_cast<std::int8_t>(bits >> low);
}

/// The codes of a block of k columns of one channel, into its plane.
template <int StepBits>
void store_stream(std::byte* plane, int lane, const std::int8_t* codes, int k) noexcept {
  std::uint32_t bits = 0;
  int held = 0, piece = 0;
  for_steps<StepBits>(k, [&](int column, int) {
    bits = bits << StepBits | step_of<StepBits>(codes + column);
    held += StepBits;
    if (held < 16) return;
    held -= 16;
    store_as(plane + piece_at<StepBits>(lane, piece++), static_cast<std::uint16_t>(bits >> held));
  });
}
template <int StepBits>
void load_stream(const std::byte* plane, int lane, int k, std::int8_t* codes) noexcept {
  std::uint32_t bits = 0;
  int held = 0, piece = 0;
  for_steps<StepBits>(k, [&](int column, int) {
    if (held < StepBits) {
      bits = bits << 16 | load_as<std::uint16_t>(plane + piece_at<StepBits>(lane, piece++));
      held += 16;
    }
    held -= StepBits;
    put_step<StepBits>(codes + column, bits >> held & ((1u << StepBits) - 1));
  });
}

/// Puts in the place of a row's codes what they stand for (simd::trellis_weight).
template <int StepBits>
void resolve_stream(std::span<std::int8_t> codes) noexcept {
  for (std::size_t first = 0; first < codes.size(); first += stream_columns) {
    std::int8_t* block = codes.data() + first;
    std::uint32_t state = 0;
    for_steps<StepBits>(static_cast<int>(std::min<std::size_t>(stream_columns, codes.size() - first)), [&](int column, int) {
      state = (state << StepBits | step_of<StepBits>(block + column)) & 0xffff;
      for (int i = 0; i < 2; ++i) block[column + i] = static_cast<std::int8_t>(simd::trellis_weight(state, i));
    });
  }
}

}  // namespace bantam::inline v0::detail
