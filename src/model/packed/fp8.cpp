// FP8 as DeepSeek, Qwen and transformers' FineGrainedFP8 store it: MODULE.weight F8_E4M3 (out, in) and
// MODULE.weight_scale_inv, a float for each block of weight_block_size, by which the numbers are multiplied.
#include <algorithm>

#include "family.hpp"
#include "float8.hpp"

namespace bantam::inline v0 {

namespace {

constexpr std::string_view activation_scales[] = {"input_scale", "activation_scale"};

class Fp8 final : public PackedFamily {
 public:
  Fp8(const Json& config, const std::string& place) {
    if (const std::string format = text_or(config, "fmt", "e4m3", place); format != "e4m3" && format != "float8_e4m3fn") {
      fail(Errc::unsupported, place, ": fmt ", printable(format), ": not yet; what works: e4m3");
    }
    const Json* size = member(config, "weight_block_size");
    if (size == nullptr) return;
    const bool sound = size->is_array() && size->size() == 2 && (*size)[0].is_number_unsigned() && (*size)[1].is_number_unsigned();
    if (sound) {
      block_rows_ = static_cast<std::int64_t>(std::min<std::uint64_t>((*size)[0].get<std::uint64_t>(), 1 << 30));
      block_columns_ = static_cast<std::int64_t>(std::min<std::uint64_t>((*size)[1].get<std::uint64_t>(), 1 << 30));
    }
    if (!sound || block_rows_ < 1 || block_columns_ < 1) {
      fail(Errc::corrupt, place, ": weight_block_size: expected two numbers above 0, found ", printable(size->dump()));
    }
  }

  [[nodiscard]] std::shared_ptr<MatrixSource> open(ModuleTensors tensors, std::int64_t rows, std::int64_t columns) const override {
    const TensorEntry* weight = tensors.peek("weight");
    if (weight == nullptr || (weight->type != "F8_E4M3" && tensors.peek("weight_scale_inv") == nullptr)) return nullptr;
    const Rectangles blocks(rows, columns, std::min(block_rows_, rows), std::min(block_columns_, columns));
    const FloatsView scales = tensors.floats("weight_scale_inv", {blocks.count_down, blocks.count_across});
    const std::string place = tensors.place("weight_scale_inv");
    tensors.pass_over(activation_scales);
    return std::make_shared<Float8Matrix>(message("fp8 e4m3, blocks of ", block_rows_, " x ", block_columns_), std::move(tensors), rows, columns,
                                          scales, blocks, place);
  }

 private:
  std::int64_t block_rows_ = 128;
  std::int64_t block_columns_ = 128;
};

}  // namespace

std::unique_ptr<const PackedFamily> open_fp8(const Json& config, const std::string& place, const OpenOptions&) { return std::make_unique<Fp8>(config, place); }

}  // namespace bantam::inline v0
