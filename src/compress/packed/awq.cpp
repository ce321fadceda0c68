// AWQ folders in AutoAWQ's gemm version; model/packed/awq.cpp draws the tensors.
#include "bantam/core/error.hpp"
#include "model/packed/words.hpp"
#include "writer.hpp"

namespace bantam::inline v0 {

namespace {

class AwqWriter final : public PackedWriter {
 public:
  [[nodiscard]] bool has(const FormatInfo& format) const noexcept override {
    const auto grid = integer_grid(format);
    return grid && grid->bits == 4;
  }
  [[nodiscard]] bool fits(const FormatInfo& format, std::int64_t rows, std::int64_t columns) const noexcept override {
    return rows % 8 == 0 && columns % format.group == 0;
  }

  [[nodiscard]] Json config(std::span<const PackedModule> modules, const Recipe&) const override {
    const PackedModule* first = nullptr;
    Json floats = Json::array();
    for (const PackedModule& module : modules) {
      if (module.format->is_float) {
        floats.push_back(module.name);
      } else if (first == nullptr) {
        first = &module;
      } else if (module.format->group != first->format->group) {
        fail(Errc::invalid_argument, "awq: expected one size of groups in a file, found ", first->format->name, " for ",
             first->name, " and ", module.format->name, " for ", module.name);
      }
    }
    Json json;
    json["quant_method"] = "awq";
    json["bits"] = 4;
    json["group_size"] = first->format->group;
    json["zero_point"] = true;
    json["version"] = "gemm";
    json["modules_to_not_convert"] = floats.empty() ? Json() : std::move(floats);
    return json;
  }

  [[nodiscard]] std::vector<SafetensorsWriter::Announced> announce(const PackedModule& module) const override {
    const std::int64_t groups = module.columns / module.format->group;
    return {{module.name + ".qweight", "I32", {module.columns, module.rows / 8}},
            {module.name + ".qzeros", "I32", {groups, module.rows / 8}},
            {module.name + ".scales", "F16", {groups, module.rows}}};
  }

  void write(const std::string& module, const WeightMatrix& matrix, SafetensorsWriter& file) const override {
    const std::int64_t rows = matrix.rows(), columns = matrix.columns(), group = matrix.format().group,
                       groups = columns / group;
    std::vector<std::uint32_t> codes(static_cast<std::size_t>(columns * rows / 8));
    std::vector<std::uint32_t> zeros(static_cast<std::size_t>(groups * rows / 8));
    std::vector<f16> scales(static_cast<std::size_t>(groups * rows));
    for_grid_rows(module, matrix, [&](std::int64_t row, std::span<const std::uint8_t> from, std::span<const GroupSide> sides) {
      const auto put = [&](std::vector<std::uint32_t>& words, std::int64_t line, int number) {
        words[static_cast<std::size_t>((line * rows + row) / 8)] |= static_cast<std::uint32_t>(number)
                                                                    << 4 * awq_place[row % 8];
      };
      for (std::int64_t c = 0; c < columns; ++c) put(codes, c, from[static_cast<std::size_t>(c)]);
      for (std::int64_t g = 0; g < groups; ++g) {
        const GroupSide& side = sides[static_cast<std::size_t>(g)];
        put(zeros, g, side.zero);
        scales[static_cast<std::size_t>(g * rows + row)] = f16(side.scale);
      }
    });
    write_all(file, codes);
    write_all(file, zeros);
    write_all(file, scales);
  }
};

}  // namespace

const PackedWriter& awq_writer() noexcept {
  static const AwqWriter writer;
  return writer;
}

}  // namespace bantam::inline v0
