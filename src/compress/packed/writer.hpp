// How families of quantizers store matrices in Hugging Face folders: what model/packed/ reads, written.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bantam/compress/compress.hpp"
#include "bantam/core/team.hpp"
#include "bantam/io/safetensors.hpp"
#include "io/json.hpp"

namespace bantam::inline v0 {

/// A matrix of a block: what these families quantize. Embeddings and head stay floats.
struct PackedModule {
  std::string name;  ///< "model.layers.0.mlp.down_proj"
  const FormatInfo* format;
  std::int64_t rows;
  std::int64_t columns;
  bool sorted;  ///< columns lie in an order of their own
};

/// One family's way of storing them. Stateless.
class PackedWriter {
 public:
  virtual ~PackedWriter() = default;
  /// Whether files of the family hold every value of the format exactly (nested scales of bitsandbytes: nearly).
  [[nodiscard]] virtual bool has(const FormatInfo& format) const noexcept = 0;
  /// Whether a matrix of this shape may have that format; other matrices are left as floats.
  [[nodiscard]] virtual bool fits(const FormatInfo& format, std::int64_t rows, std::int64_t columns) const noexcept = 0;
  /// Whether matrices keep an order of columns.
  [[nodiscard]] virtual bool keeps_order() const noexcept { return false; }
  /// quantization_config of config.json, which says what the modules, one of them quantized at least, are stored
  /// as. Throws invalid_argument where one file cannot hold them together.
  [[nodiscard]] virtual Json config(std::span<const PackedModule> modules, const Recipe& recipe) const = 0;
  /// A file that repeats it for older readers; empty: none.
  [[nodiscard]] virtual std::string_view config_file() const noexcept { return {}; }
  /// The tensors of a quantized module, in the order in which write() writes them.
  [[nodiscard]] virtual std::vector<SafetensorsWriter::Announced> announce(const PackedModule& module) const = 0;
  /// Throws invalid_argument for numbers that the family cannot hold.
  virtual void write(const std::string& module, const WeightMatrix& matrix, SafetensorsWriter& file) const = 0;
};

/// Null for targets that are no family of quantizers.
[[nodiscard]] const PackedWriter* packed_writer(Target target) noexcept;

// The list, each in its file.
[[nodiscard]] const PackedWriter& gptq_writer() noexcept;
[[nodiscard]] const PackedWriter& gptq_v2_writer() noexcept;
[[nodiscard]] const PackedWriter& awq_writer() noexcept;
[[nodiscard]] const PackedWriter& bitsandbytes_writer() noexcept;

/// A format as codes from 0 on: w = scale (code - zero), scale one f16 a group.
struct IntegerGrid {
  int bits;
  bool has_zeros;  ///< zero of each group; otherwise it is 2^(bits - 1)
};
/// Empty for formats that are something else.
[[nodiscard]] std::optional<IntegerGrid> integer_grid(const FormatInfo& format) noexcept;

/// Calls f(row, codes) for each row of a quantized matrix, on all cores: 32 neighboring rows, from a multiple of 32 on,
/// come from one thread. Columns are in the order in which they are stored.
void for_code_rows(const WeightMatrix& matrix, FunctionRef<void(std::int64_t row, RowCodes& codes)> f);
/// The same of an integer_grid: codes count from 0, zeros are set. Throws invalid_argument, naming the module, for a zero
/// that its bits do not hold.
void for_grid_rows(
    const std::string& module, const WeightMatrix& matrix,
    FunctionRef<void(std::int64_t row, std::span<const std::uint8_t> codes, std::span<const GroupSide> sides)> f);

/// The bytes of a tensor, to SafetensorsWriter::write.
template <class T>
void write_all(SafetensorsWriter& file, const std::vector<T>& values) {
  file.write(std::as_bytes(std::span(values)));
}

}  // namespace bantam::inline v0
