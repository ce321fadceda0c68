// Reading rows of safetensors' and GGUF's element types.
#include "bantam/model/source_type.hpp"

#include <array>
#include <cstring>

#include "bantam/core/message.hpp"

namespace bantam::inline v0 {

namespace {

using detail::load_as;

template <class T>
void read_floats(const std::byte* row, std::span<float> out) {
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(load_as<T>(row + i * sizeof(T)));
}

/// GGUF's 32-weight blocks. Q8_0: f16 scale, 32 signed bytes.
void q8_0_codes(const std::byte* row, std::int64_t columns, RowCodes& out) {
  for (std::int64_t b = 0; b < columns / 32; ++b, row += 34) {
    out.sides[static_cast<std::size_t>(b)].scale = float(load_as<f16>(row));
    std::memcpy(out.codes.data() + b * 32, row + 2, 32);
  }
}

/// 16 bytes hold weights i (low nibble) and i + 16 (high nibble).
void read_nibbles(const std::byte* from, std::int8_t* to) {
  for (int i = 0; i < 16; ++i) {
    to[i] = static_cast<std::int8_t>(static_cast<unsigned>(from[i]) & 15u);
    to[i + 16] = static_cast<std::int8_t>(static_cast<unsigned>(from[i]) >> 4);
  }
}

/// Q4_0: f16 scale, 32 nibbles; w = d (q - 8).
void q4_0_codes(const std::byte* row, std::int64_t columns, RowCodes& out) {
  for (std::int64_t b = 0; b < columns / 32; ++b, row += 18) {
    out.sides[static_cast<std::size_t>(b)].scale = float(load_as<f16>(row));
    read_nibbles(row + 2, out.codes.data() + b * 32);
  }
}

/// Q4_1: f16 scale, f16 minimum, 32 nibbles; w = d q + m.
void q4_1_codes(const std::byte* row, std::int64_t columns, RowCodes& out) {
  for (std::int64_t b = 0; b < columns / 32; ++b, row += 20) {
    out.sides[static_cast<std::size_t>(b)].scale = float(load_as<f16>(row));
    out.sides[static_cast<std::size_t>(b)].min = float(load_as<f16>(row + 2));
    read_nibbles(row + 4, out.codes.data() + b * 32);
  }
}

template <QuantFormat F, void (*Codes)(const std::byte*, std::int64_t, RowCodes&)>
void read_decoded(const std::byte* row, std::span<float> out) {
  static thread_local RowCodes codes;
  codes.codes.resize(out.size());
  codes.sides.resize(out.size() / 32);
  Codes(row, static_cast<std::int64_t>(out.size()), codes);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = decode_code<F>(codes.codes[i], codes.sides[i / 32]);
}

const std::array<SourceType, 6> all{{
    {"F32", 1, 4, &format_info<F32Format>(), read_floats<float>, nullptr},
    {"F16", 1, 2, &format_info<F16Format>(), read_floats<f16>, nullptr},
    {"BF16", 1, 2, &format_info<BF16Format>(), read_floats<bf16>, nullptr},
    {"Q8_0", 32, 34, &format_info<Int8<32>>(), read_decoded<Int8<32>, q8_0_codes>, q8_0_codes},
    {"Q4_0", 32, 18, &format_info<Int4<32>>(), read_decoded<Int4<32>, q4_0_codes>, q4_0_codes},
    {"Q4_1", 32, 20, &format_info<Int4Min>(), read_decoded<Int4Min, q4_1_codes>, q4_1_codes},
}};

}  // namespace

const SourceType* find_source_type(std::string_view name) noexcept {
  for (const SourceType& type : all) {
    if (type.name == name) return &type;
  }
  return nullptr;
}

std::string source_type_names() {
  std::string names;
  for (const SourceType& type : all) names += message(names.empty() ? "" : ", ", type.name);
  return names;
}

}  // namespace bantam::inline v0
