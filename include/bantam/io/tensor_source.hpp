// What every container of tensors looks like to the loader: named, typed, shaped views of mapped bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bantam/io/file.hpp"

namespace bantam::inline v0 {

/// One tensor of a file. Nothing is read until `bytes` is touched; its range was checked against the file.
struct TensorEntry {
  std::string name;
  std::string type;                 ///< element type as the file spells it: "F32", "BF16", "U8", "Q4_0"
  std::vector<std::int64_t> shape;  ///< outermost first (row-major), also for GGUF, which stores it reversed
  std::span<const std::byte> bytes;  ///< anywhere in the file: not aligned to the element
  std::shared_ptr<const MappedFile> file;  ///< keeps `bytes` alive
};

/// The tensors of one or several files, by name.
class TensorSource {
 public:
  virtual ~TensorSource() = default;
  /// In file order.
  [[nodiscard]] virtual std::span<const TensorEntry> tensors() const noexcept = 0;
  /// Null when there is none of that name. O(1).
  [[nodiscard]] virtual const TensorEntry* find(std::string_view name) const noexcept = 0;
};

}  // namespace bantam::inline v0
