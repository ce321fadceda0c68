// GPTQ folders, as AutoGPTQ and GPTQModel write them; model/packed/gptq.cpp draws the tensors.
#include <algorithm>
#include <map>
#include <numeric>

#include "bantam/core/error.hpp"
#include "model/packed/words.hpp"
#include "writer.hpp"

namespace bantam::inline v0 {

namespace {

/// What quantization_config says of a module.
struct Settings {
  int bits;
  int group;
  bool symmetric;
  [[nodiscard]] auto operator<=>(const Settings&) const = default;
};

Settings settings_of(const FormatInfo& format) {
  const IntegerGrid grid = *integer_grid(format);
  return {grid.bits, format.group, !grid.has_zeros};
}

/// Those of most modules; of the first where as many have others.
Settings usual_settings(std::span<const PackedModule> modules) {
  std::map<Settings, int> counts;
  const Settings* usual = nullptr;
  int most = 0;
  for (const PackedModule& module : modules) {
    if (!module.format->is_float) ++counts[settings_of(*module.format)];
  }
  for (const PackedModule& module : modules) {
    if (module.format->is_float) continue;
    const auto& [settings, count] = *counts.find(settings_of(*module.format));
    if (count > most) {
      most = count;
      usual = &settings;
    }
  }
  return *usual;
}

/// The expression that this name alone matches.
std::string expression_of(const std::string& name) {
  std::string out;
  for (const char c : name) out += c == '.' ? std::string("\\.") : std::string(1, c);
  return out + "$";
}

/// Settings of single modules: "+:" and others than the usual, "-:" is not quantized.
Json exceptions_of(std::span<const PackedModule> modules, const Settings& usual) {
  Json dynamic = Json::object();
  for (const PackedModule& module : modules) {
    const std::string expression = expression_of(module.name);
    if (module.format->is_float) {
      dynamic["-:" + expression] = Json::object();
    } else if (const Settings s = settings_of(*module.format); s != usual) {
      dynamic["+:" + expression] = {{"bits", s.bits}, {"group_size", s.group}, {"sym", s.symmetric}};
    }
  }
  return dynamic;
}

class GptqWriter final : public PackedWriter {
 public:
  explicit GptqWriter(bool stores_less_one) : stores_less_one_(stores_less_one) {}

  [[nodiscard]] bool has(const FormatInfo& format) const noexcept override {
    const auto grid = integer_grid(format);
    return grid && grid->bits != 5;
  }
  [[nodiscard]] bool fits(const FormatInfo& format, std::int64_t rows, std::int64_t columns) const noexcept override {
    // AutoGPTQ's modules take no other sizes, whatever the words would allow.
    return rows % 32 == 0 && columns % 32 == 0 && columns % format.group == 0;
  }
  [[nodiscard]] bool keeps_order() const noexcept override { return true; }
  [[nodiscard]] std::string_view config_file() const noexcept override { return "quantize_config.json"; }

  [[nodiscard]] Json config(std::span<const PackedModule> modules, const Recipe& recipe) const override {
    const Settings usual = usual_settings(modules);
    const GptqOptions& options = recipe.options().gptq;
    Json json;
    json["quant_method"] = "gptq";
    json["bits"] = usual.bits;
    json["group_size"] = usual.group;
    json["desc_act"] = std::ranges::any_of(modules, &PackedModule::sorted);
    json["sym"] = usual.symmetric;
    json["lm_head"] = false;
    json["true_sequential"] = recipe.options().true_sequential;
    json["static_groups"] = options.static_groups || options.order == ColumnOrder::activation;
    json["damp_percent"] = options.damping;
    json["checkpoint_format"] = stores_less_one_ ? "gptq" : "gptq_v2";
    json["pack_dtype"] = "int32";
    if (auto dynamic = exceptions_of(modules, usual); !dynamic.empty()) json["dynamic"] = std::move(dynamic);
    json["meta"]["quantizer"] = Json::array({"bantam:" BANTAM_VERSION});
    return json;
  }

  [[nodiscard]] std::vector<SafetensorsWriter::Announced> announce(const PackedModule& module) const override {
    const int bits = integer_grid(*module.format)->bits;
    const std::int64_t groups = module.columns / module.format->group;
    return {{module.name + ".qweight", "I32", {module.columns * bits / 32, module.rows}},
            {module.name + ".qzeros", "I32", {groups, module.rows * bits / 32}},
            {module.name + ".scales", "F16", {groups, module.rows}},
            {module.name + ".g_idx", "I32", {module.columns}}};
  }

  void write(const std::string& module, const WeightMatrix& matrix, SafetensorsWriter& file) const override {
    const int bits = integer_grid(matrix.format())->bits;
    const std::int64_t rows = matrix.rows(), columns = matrix.columns(), group = matrix.format().group;
    const std::int64_t groups = columns / group, zero_words = rows * bits / 32;
    std::vector<std::int32_t> place(static_cast<std::size_t>(columns));  // in the model, of each column
    std::iota(place.begin(), place.end(), 0);
    if (matrix.order() != nullptr) place = *matrix.order();
    std::vector<std::uint32_t> codes(static_cast<std::size_t>(columns * bits / 32 * rows));
    std::vector<std::uint32_t> zeros(static_cast<std::size_t>(groups * zero_words));
    std::vector<f16> scales(static_cast<std::size_t>(groups * rows));
    for_grid_rows(module, matrix, [&](std::int64_t row, std::span<const std::uint8_t> from, std::span<const GroupSide> sides) {
      for (std::int64_t g = 0; g < groups; ++g) {
        const GroupSide& side = sides[static_cast<std::size_t>(g)];
        const Stored stored = stored_as(side, bits);
        scales[static_cast<std::size_t>(g * rows + row)] = f16(stored.scale);
        put_bits(&zeros[static_cast<std::size_t>(g * zero_words)], 1, row, bits, stored.zero);
        for (auto c = static_cast<std::size_t>(g * group); c < static_cast<std::size_t>((g + 1) * group); ++c) {
          put_bits(&codes[static_cast<std::size_t>(row)], rows, place[c], bits, from[c] ^ stored.flipped);
        }
      }
    });
    std::vector<std::int32_t> group_of(place.size());
    for (std::size_t c = 0; c < place.size(); ++c) {
      group_of[static_cast<std::size_t>(place[c])] = static_cast<std::int32_t>(c) / static_cast<std::int32_t>(group);
    }
    write_all(file, codes);
    write_all(file, zeros);
    write_all(file, scales);
    write_all(file, group_of);
  }

 private:
  /// A group as the file has it.
  struct Stored {
    float scale;
    unsigned zero;
    unsigned flipped;  ///< bits of the codes that change
  };
  [[nodiscard]] Stored stored_as(const GroupSide& side, int bits) const noexcept {
    const auto zero = static_cast<unsigned>(side.zero);
    if (!stores_less_one_) return {side.scale, zero, 0};
    if (zero != 0) return {side.scale, zero - 1, 0};
    // Less one, a zero of 0 is all ones, and readers differ in what they make of that. The grid turned around,
    // -scale ((largest - code) - largest), has the same values and another zero.
    const unsigned largest = (1u << bits) - 1;
    return {-side.scale, largest - 1, largest};
  }

  bool stores_less_one_;  ///< the first version's zeros
};

}  // namespace

const PackedWriter& gptq_writer() noexcept {
  static const GptqWriter writer(true);
  return writer;
}

const PackedWriter& gptq_v2_writer() noexcept {
  static const GptqWriter writer(false);
  return writer;
}

}  // namespace bantam::inline v0
