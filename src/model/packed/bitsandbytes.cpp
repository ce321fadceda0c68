// bitsandbytes: NF4 and FP4 with plain or nested scales, and the rows of bytes of LLM.int8().
//
// 4 bits. MODULE.weight holds the codes of all rows one after another, two a byte, the first in the high half, whatever
// its type and shape say. Each `blocksize` of them share a scale:
//   weight.absmax                       F32, one a block; or U8, nested
//   weight.nested_absmax                F32, one each `nested_blocksize` blocks
//   weight.nested_quant_map             F32 (256)
//   weight.quant_map                    F32 (16), the levels
//   weight.quant_state.bitsandbytes__*  JSON: quant_type, blocksize, shape, nested_blocksize, nested_offset
// w = levels[code] absmax, nested absmax = nested_quant_map[byte] nested_absmax + nested_offset, each step rounded.
//
// 8 bits. MODULE.weight I8 (out, in), MODULE.SCB F32 (out): w = code (SCB / 127). Which inputs are outliers is decided
// by activations when the model runs, so nothing of it is in the file.
#include <array>
#include <cmath>
#include <numeric>

#include "family.hpp"

namespace bantam::inline v0 {

namespace {

using bantam::detail::load_as;

/// What weight.quant_state says.
struct QuantState {
  std::string type;
  std::int64_t block = 0;
  std::int64_t nested_block = 0;
  float nested_offset = 0;
};

QuantState read_state(const TensorEntry& entry, std::string_view type, std::int64_t rows, std::int64_t columns, const std::string& place) {
  const Json json = Json::parse({reinterpret_cast<const char*>(entry.bytes.data()), entry.bytes.size()}, place);
  QuantState state;
  state.type = need_text(json, "quant_type", place);
  if (state.type != type) fail(Errc::corrupt, place, ": quant_type: expected ", type, ", found ", printable(state.type));
  state.block = whole_or(json, "blocksize", 1, 1 << 16, 0, place);
  if (state.block < 32 || (state.block & (state.block - 1)) != 0) {
    fail(Errc::corrupt, place, ": blocksize: expected a power of two from 32 on, found ", state.block);
  }
  if (need(json, "shape", place) != Json::array({rows, columns})) {
    fail(Errc::corrupt, place, ": shape: expected (", rows, ", ", columns, "), found ", printable(json["shape"].dump()));
  }
  if (member(json, "nested_blocksize") == nullptr) return state;
  state.nested_block = whole_or(json, "nested_blocksize", 1, 1 << 16, 0, place);
  const Json& offset = need(json, "nested_offset", place);
  expect(offset.is_number(), place + ".nested_offset", "a number", offset);
  state.nested_offset = offset.get<float>();
  return state;
}

class LevelMatrix final : public GridMatrix {
 public:
  LevelMatrix(ModuleTensors tensors, std::int64_t rows, std::int64_t columns) : GridMatrix("", rows, columns, {.bits = 4, .group = 1}) {
    const TensorEntry& codes = tensors.take("weight");
    const std::string_view type = tensors.peek("weight.quant_state.bitsandbytes__fp4") != nullptr ? "fp4" : "nf4";
    const std::string state_name = message("weight.quant_state.bitsandbytes__", type);
    const QuantState state = read_state(tensors.take(state_name), type, rows, columns, tensors.place(state_name));
    const std::int64_t count = rows * columns;
    if (static_cast<std::int64_t>(codes.bytes.size()) != div_up<std::int64_t>(count, 2)) {
      fail(Errc::corrupt, tensors.place("weight"), ": expected ", div_up<std::int64_t>(count, 2), " bytes, found ", codes.bytes.size());
    }
    codes_ = codes.bytes.data();
    block_ = state.block;
    // Blocks run on from row to row; pieces of this size lie in one block each.
    grid_.group = std::gcd(block_, columns);
    const FloatsView levels = tensors.floats("weight.quant_map", {16});
    for (std::int64_t i = 0; i < 16; ++i) levels_[static_cast<std::size_t>(i)] = levels[i];
    for (const float level : levels_) {
      if (!std::isfinite(level)) fail(Errc::corrupt, tensors.place("weight.quant_map"), ": expected finite levels, found ", level);
    }
    grid_.levels = levels_.data();
    const std::int64_t blocks = div_up(count, block_);
    if (state.nested_block > 0) {
      scale_codes_ = tensors.take("weight.absmax", "U8", {blocks}).bytes.data();
      nested_block_ = state.nested_block;
      offset_ = state.nested_offset;
      nested_ = tensors.floats("weight.nested_absmax", {div_up(blocks, nested_block_)});
      nested_map_ = tensors.floats("weight.nested_quant_map", {256});
    } else {
      scales_ = tensors.floats("weight.absmax", {blocks});
    }
    description_ = message("bitsandbytes ", type, state.nested_block > 0 ? " nested" : "", ", blocks of ", block_);
    parts_ = tensors.taken();
    settle(tensors.place("weight.absmax"));
  }

 protected:
  void read_codes(std::int64_t first_row, int rows, std::uint8_t* codes) const noexcept override {
    std::int64_t i = first_row * columns_;
    for (const std::int64_t end = i + rows * columns_; i < end; ++i) {
      const auto two = load_as<std::uint8_t>(codes_ + i / 2);
      *codes++ = static_cast<std::uint8_t>(i % 2 == 0 ? two >> 4 : two & 15);
    }
  }
  [[nodiscard]] Side side(std::int64_t row, std::int64_t group) const noexcept override {
    const std::int64_t block = (row * columns_ + group * grid_.group) / block_;
    if (scale_codes_ == nullptr) return {scales_[block], 8};
    const float product = nested_map_[load_as<std::uint8_t>(scale_codes_ + block)] * nested_[block / nested_block_];
    return {product + offset_, 8};
  }

 private:
  const std::byte* codes_;
  const std::byte* scale_codes_ = nullptr;  ///< nested
  std::int64_t block_ = 0;
  std::int64_t nested_block_ = 0;
  float offset_ = 0;
  std::array<float, 16> levels_{};
  FloatsView scales_, nested_, nested_map_;
};

class ByteRows final : public GridMatrix {
 public:
  ByteRows(ModuleTensors tensors, std::int64_t rows, std::int64_t columns)
      : GridMatrix("bitsandbytes int8", rows, columns, {.bits = 8, .group = columns}) {
    codes_ = tensors.take("weight", "I8", {rows, columns}).bytes.data();
    scales_ = tensors.floats("SCB", {rows});
    if (tensors.peek("weight_format") != nullptr) {
      const TensorEntry& format = tensors.take("weight_format");
      if (format.type != "U8" || format.bytes.size() != 1 || format.bytes[0] != std::byte{0}) {
        fail(Errc::unsupported, tensors.place("weight_format"), ": not yet; what works: 0, rows");
      }
    }
    parts_ = tensors.taken();
    settle(tensors.place("SCB"));
  }

 protected:
  void read_codes(std::int64_t first_row, int rows, std::uint8_t* codes) const noexcept override {
    const std::byte* from = codes_ + first_row * columns_;
    for (std::int64_t i = 0; i < rows * columns_; ++i) codes[i] = static_cast<std::uint8_t>(load_as<std::uint8_t>(from + i) ^ 0x80u);
  }
  [[nodiscard]] Side side(std::int64_t row, std::int64_t) const noexcept override { return {scales_[row] / 127.0f, 128}; }

 private:
  const std::byte* codes_;
  FloatsView scales_;
};

class BitsAndBytes final : public PackedFamily {
 public:
  [[nodiscard]] std::shared_ptr<MatrixSource> open(ModuleTensors tensors, std::int64_t rows, std::int64_t columns) const override {
    const TensorEntry* weight = tensors.peek("weight");
    const bool levels = tensors.peek("weight.absmax") != nullptr;
    const bool bytes = tensors.peek("SCB") != nullptr;
    if (levels && bytes) fail(Errc::corrupt, tensors.place("weight"), ": expected weight.absmax or SCB, found both");
    if (levels || (weight != nullptr && weight->type == "U8")) return std::make_shared<LevelMatrix>(std::move(tensors), rows, columns);
    if (bytes || (weight != nullptr && weight->type == "I8")) return std::make_shared<ByteRows>(std::move(tensors), rows, columns);
    return nullptr;
  }
};

}  // namespace

std::unique_ptr<const PackedFamily> open_bitsandbytes(const Json&, const std::string&, const OpenOptions&) { return std::make_unique<BitsAndBytes>(); }

}  // namespace bantam::inline v0
