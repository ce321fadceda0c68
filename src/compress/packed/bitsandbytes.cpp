// bitsandbytes folders, as transformers saves them; model/packed/bitsandbytes.cpp draws the tensors.
#include <algorithm>
#include <cmath>

#include "bantam/core/error.hpp"
#include "bantam/quant/dynamic_map.hpp"
#include "writer.hpp"

namespace bantam::inline v0 {

namespace {

constexpr std::int64_t block = 64;
constexpr std::int64_t nested_block = 256;

/// How a format is stored.
struct Kind {
  std::string_view type;  ///< "nf4", "fp4" or "int8"
  bool nested;
  [[nodiscard]] bool operator==(const Kind&) const = default;
};

std::optional<Kind> kind_of(const FormatInfo& format) noexcept {
  if (format.id == Nf4::id || format.id == Nf4Wide::id) return Kind{"nf4", false};
  if (format.id == Fp4::id || format.id == Fp4Wide::id) return Kind{"fp4", false};
  if (format.id == Nf4Nested::id) return Kind{"nf4", true};
  if (format.id == Fp4Nested::id) return Kind{"fp4", true};
  if (format.id == Int8<0>::id) return Kind{"int8", false};
  return std::nullopt;
}

/// Scales under two more: what bitsandbytes calls double quantization.
struct Nested {
  std::vector<std::uint8_t> codes;
  std::vector<float> scales;
  float offset = 0;
};

Nested nest(const std::vector<float>& absmax) {
  Nested nested;
  double sum = 0;
  for (const float a : absmax) sum += static_cast<double>(a);
  nested.offset = static_cast<float>(sum / static_cast<double>(absmax.size()));
  for (std::size_t first = 0; first < absmax.size(); first += nested_block) {
    const std::size_t last = std::min(first + nested_block, absmax.size());
    float largest = 0;
    for (std::size_t i = first; i < last; ++i) largest = std::max(largest, std::fabs(absmax[i] - nested.offset));
    for (std::size_t i = first; i < last; ++i) {
      nested.codes.push_back(dynamic_map_index(largest > 0 ? (absmax[i] - nested.offset) / largest : 0.0f));
    }
    nested.scales.push_back(largest);
  }
  return nested;
}

/// The SCB for which SCB / 127 is this scale. Where no float is, the nearest: one unit of the last place off.
float scb_of(float scale) noexcept {
  const float scb = scale * 127.0f;
  for (const float other : {std::nextafter(scb, 0.0f), std::nextafter(scb, INFINITY)}) {
    if (scb / 127.0f != scale && other / 127.0f == scale) return other;
  }
  return scb;
}

/// weight.quant_state, in a length that does not depend on the offset: it is announced before that is known.
std::string state_of(const Kind& kind, std::int64_t rows, std::int64_t columns, float offset) {
  Json json;
  json["quant_type"] = kind.type;
  json["blocksize"] = block;
  json["dtype"] = "float16";
  json["shape"] = {rows, columns};
  if (!kind.nested) return json.dump();
  json["nested_blocksize"] = nested_block;
  json["nested_dtype"] = "float32";
  json["nested_offset"] = 0;
  constexpr std::size_t longest_number = 25;  // of the shortest decimals that give a double back
  const std::size_t length = json.dump().size() + longest_number;
  json["nested_offset"] = offset;
  std::string text = json.dump();
  text.resize(length, ' ');
  return text;
}

/// MODULE.weight.quant_state.bitsandbytes__nf4.
std::string state_name(const std::string& module, const Kind& kind) {
  return message(module, ".weight.quant_state.bitsandbytes__", kind.type);
}

void write_levels(const Kind& kind, const WeightMatrix& matrix, SafetensorsWriter& file) {
  const std::int64_t rows = matrix.rows(), columns = matrix.columns();
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(rows * columns / 2));
  std::vector<float> absmax(static_cast<std::size_t>(rows * columns / block));
  for_code_rows(matrix, [&](std::int64_t row, const RowCodes& from) {
    std::uint8_t* to = &codes[static_cast<std::size_t>(row * columns / 2)];
    for (std::size_t i = 0; i < static_cast<std::size_t>(columns); i += 2)
      *to++ = static_cast<std::uint8_t>(from.codes[i] << 4 | from.codes[i + 1]);
    for (std::int64_t g = 0; g < columns / block; ++g) {
      absmax[static_cast<std::size_t>(row * columns / block + g)] = from.sides[static_cast<std::size_t>(g)].scale;
    }
  });
  std::vector<float> levels;
  for (int code = 0; code < 16; ++code) levels.push_back(matrix.format().decode_code(code, {.scale = 1}));
  write_all(file, codes);
  float offset = 0;
  if (kind.nested) {
    const Nested nested = nest(absmax);
    offset = nested.offset;
    write_all(file, nested.codes);
    write_all(file, nested.scales);
    write_all(file, std::vector(dynamic_map.begin(), dynamic_map.end()));
  } else {
    write_all(file, absmax);
  }
  write_all(file, levels);
  const std::string state = state_of(kind, rows, columns, offset);
  file.write(std::as_bytes(std::span(state)));
}

void write_bytes(const WeightMatrix& matrix, SafetensorsWriter& file) {
  const std::int64_t columns = matrix.columns();
  std::vector<std::int8_t> codes(static_cast<std::size_t>(matrix.rows() * columns));
  std::vector<float> scales(static_cast<std::size_t>(matrix.rows()));
  for_code_rows(matrix, [&](std::int64_t row, const RowCodes& from) {
    std::copy_n(from.codes.begin(), columns, codes.begin() + row * columns);
    scales[static_cast<std::size_t>(row)] = scb_of(from.sides[0].scale);
  });
  write_all(file, codes);
  write_all(file, scales);
  write_all(file, std::vector<std::uint8_t>{0});  // rows, in the model's order
}

class BitsAndBytesWriter final : public PackedWriter {
 public:
  [[nodiscard]] bool has(const FormatInfo& format) const noexcept override { return kind_of(format).has_value(); }
  [[nodiscard]] bool fits(const FormatInfo& format, std::int64_t, std::int64_t columns) const noexcept override {
    // Blocks run on from row to row; ours end with each.
    return format.group == 0 || columns % block == 0;
  }

  [[nodiscard]] Json config(std::span<const PackedModule> modules, const Recipe&) const override {
    const PackedModule* first = nullptr;
    // A list takes the place of what transformers skips by itself.
    Json skipped = Json::array({"lm_head"});
    for (const PackedModule& module : modules) {
      if (module.format->is_float) {
        skipped.push_back(module.name);
      } else if (first == nullptr) {
        first = &module;
      } else if (*kind_of(*module.format) != *kind_of(*first->format)) {
        fail(Errc::invalid_argument, "bnb: expected one kind of format in a file, found ", first->format->name, " for ",
             first->name, " and ", module.format->name, " for ", module.name);
      }
    }
    const Kind kind = *kind_of(*first->format);
    const bool bytes = kind.type == "int8";
    Json json;
    json["quant_method"] = "bitsandbytes";
    json["_load_in_4bit"] = !bytes;
    json["_load_in_8bit"] = bytes;
    json["load_in_4bit"] = !bytes;
    json["load_in_8bit"] = bytes;
    json["bnb_4bit_compute_dtype"] = "float16";
    json["bnb_4bit_quant_storage"] = "uint8";
    json["bnb_4bit_quant_type"] = bytes ? "fp4" : kind.type;  // fp4: what transformers has where it is not used
    json["bnb_4bit_use_double_quant"] = kind.nested;
    json["llm_int8_enable_fp32_cpu_offload"] = false;
    json["llm_int8_has_fp16_weight"] = false;
    json["llm_int8_skip_modules"] = std::move(skipped);
    json["llm_int8_threshold"] = 6.0;
    return json;
  }

  [[nodiscard]] std::vector<SafetensorsWriter::Announced> announce(const PackedModule& module) const override {
    const Kind kind = *kind_of(*module.format);
    const std::string weight = module.name + ".weight";
    if (kind.type == "int8") {
      return {{weight, "I8", {module.rows, module.columns}},
              {module.name + ".SCB", "F32", {module.rows}},
              {module.name + ".weight_format", "U8", {}}};
    }
    const std::int64_t blocks = module.rows * module.columns / block;
    std::vector<SafetensorsWriter::Announced> tensors{{weight, "U8", {module.rows * module.columns / 2, 1}},
                                                      {weight + ".absmax", kind.nested ? "U8" : "F32", {blocks}}};
    if (kind.nested) {
      tensors.push_back({weight + ".nested_absmax", "F32", {div_up(blocks, nested_block)}});
      tensors.push_back({weight + ".nested_quant_map", "F32", {static_cast<std::int64_t>(dynamic_map.size())}});
    }
    tensors.push_back({weight + ".quant_map", "F32", {16}});
    tensors.push_back({state_name(module.name, kind),
                       "U8",
                       {static_cast<std::int64_t>(state_of(kind, module.rows, module.columns, 0).size())}});
    return tensors;
  }

  void write(const std::string&, const WeightMatrix& matrix, SafetensorsWriter& file) const override {
    const Kind kind = *kind_of(matrix.format());
    kind.type == "int8" ? write_bytes(matrix, file) : write_levels(kind, matrix, file);
  }
};

}  // namespace

const PackedWriter& bitsandbytes_writer() noexcept {
  static const BitsAndBytesWriter writer;
  return writer;
}

}  // namespace bantam::inline v0
