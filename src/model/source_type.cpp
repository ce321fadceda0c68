// The list of element types of safetensors and GGUF files.
#include "bantam/model/source_type.hpp"

#include <algorithm>
#include <array>

#include "bantam/core/message.hpp"
#include "model/gguf_codes.hpp"
#include "model/gguf_grid_codes.hpp"
#include "sources/fill_rows.hpp"

namespace bantam::inline v0 {

namespace {

template <class T>
void read_floats(const std::byte* row, std::span<float> out) {
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(detail::load_as<T>(row + i * sizeof(T)));
}

template <class Block>
void read_codes(const std::byte* blocks, std::int64_t columns, std::int8_t* codes, GroupSide* sides) noexcept {
  for (std::int64_t b = 0; b < columns / Block::columns; ++b) {
    Block::read(blocks + b * Block::bytes, codes + b * Block::columns, sides + b * (Block::columns / Block::Format::group));
  }
}

template <class Block>
void fill_block_rows(std::byte* panel, int place, int rows, std::int64_t columns, const std::byte* bytes, std::int64_t row_bytes) {
  constexpr int next_bytes = block_columns / Block::columns * Block::bytes;
  fill_rows(format_info<typename Block::Format>(), panel, place, rows, columns, [&](int row, std::int64_t first, std::int64_t count, BlockCodes& block) {
    const std::byte* from = bytes + row * row_bytes + first / Block::columns * Block::bytes;
    // The next block of the row. No prefetcher follows rows that are left after a few lines each, and a drive leaves them in memory.
    for (int line = 0; line < next_bytes; line += 64) __builtin_prefetch(from + next_bytes + line);
    read_codes<Block>(from, count, block.codes, block.sides);
  });
}

template <class Block>
void write_codes(const std::int8_t* codes, const GroupSide* sides, std::int64_t columns, std::byte* blocks) noexcept {
  for (std::int64_t b = 0; b < columns / Block::columns; ++b) {
    Block::write(codes + b * Block::columns, sides + b * (Block::columns / Block::Format::group), blocks + b * Block::bytes);
  }
}

template <class Block>
void read_decoded(const std::byte* row, std::span<float> out) {
  using F = typename Block::Format;
  std::int8_t codes[Block::columns];
  GroupSide sides[Block::columns / F::group];
  for (std::size_t first = 0; first < out.size(); first += Block::columns, row += Block::bytes) {
    Block::read(row, codes, sides);
    for (std::size_t i = 0; i < Block::columns; ++i) out[first + i] = decode_code<F>(codes[i], sides[i / F::group]);
  }
}

const FormatInfo& vector_format(std::string_view name) noexcept {
  const auto found = std::ranges::find(vector_formats(), name, &FormatInfo::name);
  BANTAM_ASSERT(found != vector_formats().end());
  return *found;
}

template <class Block>
SourceType blocks(std::string_view name) {
  SourceType type{name, Block::columns, Block::bytes, &format_info<typename Block::Format>(), read_decoded<Block>, fill_block_rows<Block>,
                  read_codes<Block>, nullptr, nullptr};
  if constexpr (requires { Block::write; }) {
    type.write_codes = write_codes<Block>;
    type.written = type.format;
  }
  if constexpr (requires { Block::written; }) type.written = &vector_format(Block::written);
  return type;
}

template <class F, class T>
SourceType floats(std::string_view name) {
  return {name, 1, sizeof(T), &format_info<F>(), read_floats<T>, fill_float_rows<F>, nullptr, nullptr, &format_info<F>()};
}

const std::array all{
    floats<F32Format, float>("F32"),
    floats<F16Format, f16>("F16"),
    floats<BF16Format, bf16>("BF16"),
    blocks<gguf::Q8_0>("Q8_0"),
    blocks<gguf::Q5_0>("Q5_0"),
    blocks<gguf::Q5_1>("Q5_1"),
    blocks<gguf::Q4_0>("Q4_0"),
    blocks<gguf::Q4_1>("Q4_1"),
    blocks<gguf::Q6K>("Q6_K"),
    blocks<gguf::Q5K>("Q5_K"),
    blocks<gguf::Q4K>("Q4_K"),
    blocks<gguf::Q3K>("Q3_K"),
    blocks<gguf::Q2K>("Q2_K"),
    blocks<gguf::Iq4Nl>("IQ4_NL"),
    blocks<gguf::Iq4Xs>("IQ4_XS"),
    blocks<gguf::Mxfp4>("MXFP4"),
    blocks<gguf::Nvfp4>("NVFP4"),
    blocks<gguf::Iq3S>("IQ3_S"),
    blocks<gguf::Iq3Xxs>("IQ3_XXS"),
    blocks<gguf::Iq2S>("IQ2_S"),
    blocks<gguf::Iq2Xs>("IQ2_XS"),
    blocks<gguf::Iq2Xxs>("IQ2_XXS"),
    blocks<gguf::Iq1M>("IQ1_M"),
    blocks<gguf::Iq1S>("IQ1_S"),
    blocks<gguf::Q2_0>("Q2_0"),
    blocks<gguf::Tq2_0>("TQ2_0"),
    blocks<gguf::Tq1_0>("TQ1_0"),
    blocks<gguf::Q1_0>("Q1_0"),
};

}  // namespace

const SourceType* find_source_type(std::string_view name) noexcept {
  for (const SourceType& type : all) {
    if (type.name == name) return &type;
  }
  return nullptr;
}

const SourceType* source_type_of(const FormatInfo& format) noexcept {
  for (const SourceType& type : all) {
    if (type.written == &format) return &type;
  }
  return nullptr;
}

std::string source_type_names() { return with_commas(all, &SourceType::name); }

}  // namespace bantam::inline v0
