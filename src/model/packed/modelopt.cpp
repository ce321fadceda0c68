// NVIDIA's Model Optimizer. What a module is stored as shows in its tensors, for `in` columns and `out` rows:
//   NVFP4  weight U8 (out, in / 2), weight_scale F8_E4M3 (out, in / 16), weight_scale_2 F32 of the matrix, a factor
//   MXFP8  weight F8_E4M3 (out, in), weight_scale U8 (out, in / 32), exponents
//   FP8    weight F8_E4M3 (out, in), weight_scale F32: one, one a row, or one each 128 x 128 (with axes of length 1 between)
#include <algorithm>

#include "e2m1.hpp"
#include "family.hpp"
#include "float8.hpp"

namespace bantam::inline v0 {

namespace {

constexpr std::string_view modelopt_activations[] = {"input_scale", "output_scale", "k_scale", "v_scale", "q_scale"};
constexpr std::string_view refused[] = {"INT8_SQ", "W8A8_SQ_PER_CHANNEL", "W4A16_AWQ", "W4A8_AWQ"};

class ModelOpt final : public PackedFamily {
 public:
  ModelOpt(const Json& config, const std::string& place) {
    // hf_quant_config.json has it one level down.
    const Json* inner = member(config, "quantization");
    const std::string algorithm = text_or(inner != nullptr ? *inner : config, "quant_algo", "", place);
    if (std::ranges::find(refused, algorithm) != std::end(refused)) {
      fail(Errc::unsupported, place, ": quant_algo ", printable(algorithm), ": not yet; what works: NVFP4, MXFP8, FP8, and mixtures of them");
    }
  }

  [[nodiscard]] std::shared_ptr<MatrixSource> open(ModuleTensors tensors, std::int64_t rows, std::int64_t columns) const override {
    const TensorEntry* weight = tensors.peek("weight");
    if (weight == nullptr || (weight->type != "U8" && weight->type != "F8_E4M3")) return nullptr;
    if (tensors.peek("pre_quant_scale") != nullptr) fail(Errc::unsupported, tensors.place("pre_quant_scale"), ": activations scaled while the model runs: not yet");
    tensors.pass_over(modelopt_activations);
    if (weight->type == "U8") {
      const float unit = tensors.peek("weight_scale_2") == nullptr ? 1 : tensors.number("weight_scale_2");
      return open_e2m1(std::move(tensors), "weight", rows, columns, unit, "modelopt");
    }
    const auto [rectangles, scales] = scales_of(tensors, rows, columns);
    const std::string place = tensors.place("weight_scale");
    return std::make_shared<Float8Matrix>("modelopt fp8", std::move(tensors), rows, columns, scales, rectangles, place);
  }

 private:
  static std::pair<Rectangles, FloatsView> scales_of(ModuleTensors& tensors, std::int64_t rows, std::int64_t columns) {
    constexpr std::int64_t block = 128, group = 32;
    const TensorEntry* entry = tensors.peek("weight_scale");
    if (entry != nullptr && entry->type == "U8") {
      const Rectangles groups(rows, columns, 1, std::min(group, columns));
      return {groups, tensors.exponents("weight_scale", {rows, groups.count_across})};
    }
    std::vector<std::int64_t> shape = entry == nullptr ? std::vector<std::int64_t>{} : entry->shape;
    const FloatsView scales = tensors.floats("weight_scale", shape);
    std::erase(shape, 1);
    if (shape.empty()) return {{rows, columns, rows, columns}, scales};
    if (shape == std::vector{rows}) return {{rows, columns, 1, columns}, scales};
    const Rectangles blocks(rows, columns, std::min(block, rows), std::min(block, columns));
    std::vector<std::int64_t> expected{blocks.count_down, blocks.count_across};
    std::erase(expected, 1);
    if (shape == expected) return {blocks, scales};
    fail(Errc::corrupt, tensors.place("weight_scale"), ": expected one, ", rows, " or ", blocks.count_down, " x ", blocks.count_across, " scales, found ",
         to_string(entry->shape));
  }
};

}  // namespace

std::unique_ptr<const PackedFamily> open_modelopt(const Json& config, const std::string& place, const OpenOptions&) {
  return std::make_unique<ModelOpt>(config, place);
}

}  // namespace bantam::inline v0
