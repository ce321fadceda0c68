// BitNet's ternary matrices as transformers stores them (arXiv:2402.17764), their values -1, 0 and 1 under one scale a matrix.
//   packed: MODULE.weight U8 (out / 4, in)   bits 2 i and 2 i + 1 of byte (r, c) are 1 more than the value in row i out / 4 + r
//           MODULE.weight_scale              by which values are multiplied (AutoBitLinear), or divided (BitLinear)
//   online: MODULE.weight of floats, which are rounded whenever they are used: s = mean |w|, w' = s round(w / s), values kept from -1 to 1
#include <algorithm>
#include <cmath>

#include "family.hpp"

namespace bantam::inline v0 {

namespace {

/// Scales are kept in half floats: software that runs these models rounds what it multiplies by them to 8 bits. One out of their range stays as it is.
float near_half(float scale) noexcept {
  const auto half = float(f16(scale));
  return std::fabs(half - scale) <= std::fabs(scale) / 2048 ? half : scale;
}

class Ternary : public GridMatrix {
 protected:
  Ternary(std::string description, std::int64_t rows, std::int64_t columns) : GridMatrix(std::move(description), rows, columns, {.bits = 2, .group = columns}) {}
  [[nodiscard]] Side side(std::int64_t, std::int64_t) const noexcept final { return {scale_, 1}; }

  float scale_ = 0;
};

class PackedTernary final : public Ternary {
 public:
  PackedTernary(ModuleTensors tensors, std::int64_t rows, std::int64_t columns, bool divides) : Ternary("bitnet, packed", rows, columns) {
    if (rows % 4 != 0) fail(Errc::corrupt, tensors.place("weight"), ": expected rows in multiples of 4, found ", rows);
    bytes_ = tensors.take("weight", "U8", {rows / 4, columns}).bytes.data();
    const float scale = tensors.number("weight_scale");
    scale_ = near_half(divides ? 1 / scale : scale);
    parts_ = tensors.taken();
    settle(tensors.place("weight_scale"));
  }

 protected:
  void read_codes(std::int64_t first_row, int rows, std::uint8_t* codes) const noexcept override {
    const std::int64_t quarter = rows_ / 4;
    for (std::int64_t row = first_row; row < first_row + rows; ++row) {
      const std::byte* bytes = bytes_ + row % quarter * columns_;
      for (std::int64_t c = 0; c < columns_; ++c) *codes++ = static_cast<std::uint8_t>(bytes[c] >> 2 * (row / quarter)) & 3;
    }
  }

 private:
  const std::byte* bytes_;
};

class RoundedTernary final : public Ternary {
 public:
  RoundedTernary(ModuleTensors tensors, std::int64_t rows, std::int64_t columns)
      : Ternary("bitnet, rounded as it is read", rows, columns), weights_(tensors.floats("weight", {rows, columns})) {
    parts_ = tensors.taken();
    double sum = 0;
    for (std::int64_t i = 0; i < rows * columns; ++i) sum += std::fabs(static_cast<double>(weights_[i]));
    mean_ = static_cast<float>(std::max(sum / static_cast<double>(rows * columns), 1e-5));
    scale_ = near_half(mean_);
    settle(tensors.place("weight"));
  }

 protected:
  void read_codes(std::int64_t first_row, int rows, std::uint8_t* codes) const noexcept override {
    for (std::int64_t i = first_row * columns_; i < (first_row + rows) * columns_; ++i) {
      *codes++ = static_cast<std::uint8_t>(std::clamp(std::nearbyint(weights_[i] / mean_), -1.0F, 1.0F) + 1);
    }
  }

 private:
  FloatsView weights_;
  float mean_;
};

class BitNet final : public PackedFamily {
 public:
  BitNet(const Json& config, const std::string& place) {
    const std::string layer = text_or(config, "linear_class", "bitlinear", place), mode = text_or(config, "quantization_mode", "offline", place);
    if (layer != "bitlinear" && layer != "autobitlinear") fail(Errc::unsupported, place, ": linear_class ", printable(layer), ": not yet; what works: bitlinear, autobitlinear");
    if (mode != "offline" && mode != "online") fail(Errc::unsupported, place, ": quantization_mode ", printable(mode), ": not yet; what works: offline, online");
    if (const Json* norms = member(config, "use_rms_norm"); norms != nullptr && *norms != false) fail(Errc::unsupported, place, ": use_rms_norm: expected false, found ", printable(norms->dump()));
    divides_ = layer == "bitlinear";
    rounds_ = !divides_ && mode == "online";
    const Json* plain = member(config, "modules_to_not_convert");
    if (plain == nullptr) return;
    expect(plain->is_array(), place + ": modules_to_not_convert", "a list of names", *plain);
    for (const Json& name : *plain) {
      expect(name.is_string(), place + ": modules_to_not_convert", "a list of names", name);
      plain_.push_back(name.get<std::string>());
    }
  }

  [[nodiscard]] std::shared_ptr<MatrixSource> open(ModuleTensors tensors, std::int64_t rows, std::int64_t columns) const override {
    const TensorEntry* weight = tensors.peek("weight");
    if (weight == nullptr) return nullptr;
    if (weight->type == "U8") return std::make_shared<PackedTernary>(std::move(tensors), rows, columns, divides_);
    const std::string& module = tensors.module();
    const bool is_table = module.ends_with("lm_head") || module.ends_with("embed_tokens");
    if (!rounds_ || is_table || std::ranges::any_of(plain_, [&](const std::string& part) { return module.find(part) != module.npos; })) return nullptr;
    return std::make_shared<RoundedTernary>(std::move(tensors), rows, columns);
  }

 private:
  bool divides_;  ///< by the scale
  bool rounds_ = false;
  std::vector<std::string> plain_;  ///< modules whose names have one of these in them are not ternary
};

}  // namespace

std::unique_ptr<const PackedFamily> open_bitnet(const Json& config, const std::string& place, const OpenOptions&) { return std::make_unique<BitNet>(config, place); }

}  // namespace bantam::inline v0
