// plane::Trellis as docs/formats.md says it, bit by bit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bantam::reference {

/// The bits of row `n` of a strip in the order of the stream, out of the strip's plane of k columns.
inline std::string stream_of(const std::uint8_t* plane, int n, int k, int step_bits) {
  const int columns = step_bits % 2 == 0 ? 32 : 64, lines = columns * step_bits / 64;
  std::string stream;
  for (int unit = 0; unit < k / columns; ++unit) {
    for (int half = 0; half < 2; ++half) {
      for (int line = 0; line < lines; ++line) {
        const std::uint8_t* at = plane + (unit * lines + line) * 64 + 4 * n + 2 * half;
        for (int bit = 15; bit >= 0; --bit) stream += (at[bit / 8] >> bit % 8 & 1) != 0 ? '1' : '0';
      }
    }
  }
  return stream;
}

/// What the weights of k columns are before their scales.
inline std::vector<int> trellis_values(const std::string& stream, int k, int step_bits) {
  const int levels[16] = {-86, -53, -44, -33, -27, -18, -9, -3, 3, 8, 19, 25, 35, 42, 57, 86};
  const int offsets[8] = {12, -34, -4, 19, -18, 3, 34, -11};
  const int columns = step_bits % 2 == 0 ? 32 : 64;
  std::vector<int> values(static_cast<std::size_t>(k));
  const std::string padded = std::string(16, '0') + stream;
  for (int step = 0; step < k / 2; ++step) {
    const unsigned long state = std::stoul(padded.substr(static_cast<std::size_t>((step + 1) * step_bits), 16), nullptr, 2);
    const int unit = step / (columns / 2), of_unit = step % (columns / 2);
    const int column = unit * columns + of_unit % (columns / 4) * 4 + of_unit / (columns / 4) * 2;
    const unsigned long a = state * 36097 % 65536 / 512, b = state * 4635 % 65536 / 256 % 128;
    values[static_cast<std::size_t>(column)] = levels[a % 16] + offsets[a / 16];
    values[static_cast<std::size_t>(column + 1)] = levels[b % 16] + offsets[b / 16];
  }
  return values;
}

}  // namespace bantam::reference
