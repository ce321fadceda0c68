// The tensors of one module of a quantized checkpoint, each checked as it is taken.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bantam/core/error.hpp"
#include "bantam/model/matrix_source.hpp"
#include "bantam/quant/codes.hpp"

namespace bantam::inline v0 {

/// Floats of a file in F16, BF16 or F32; or powers of two of which it has the exponents.
class FloatsView {
 public:
  FloatsView() = default;
  /// Null `read_` for other types; see ModuleTensors::floats.
  explicit FloatsView(const TensorEntry& entry);
  /// Of bytes (E8M0).
  [[nodiscard]] static FloatsView powers(const TensorEntry& entry) noexcept;
  [[nodiscard]] bool readable() const noexcept { return read_ != nullptr; }
  [[nodiscard]] float operator[](std::int64_t i) const noexcept { return read_(data_, i); }

 private:
  const std::byte* data_ = nullptr;
  float (*read_)(const std::byte* data, std::int64_t i) noexcept = nullptr;
};

/// Exponents of E8M0, of which 255 stands for what is no number: throws corrupt, `place` first, where there is one.
void check_exponents(const TensorEntry& entry, const std::string& place);

/// Takes the tensors "MODULE.qweight", "MODULE.scales", ... and remembers which.
class ModuleTensors {
 public:
  /// `folder` and `module` name the place in messages.
  ModuleTensors(const TensorSource& source, std::string folder, std::string module)
      : source_(source), folder_(std::move(folder)), module_(std::move(module)) {}

  [[nodiscard]] const std::string& module() const noexcept { return module_; }
  [[nodiscard]] const std::vector<TensorPart>& taken() const noexcept { return taken_; }
  /// Null when there is none.
  [[nodiscard]] const TensorEntry* peek(std::string_view name) const { return source_.find(message(module_, ".", name)); }
  /// The tensor `name`, of this type and shape. Throws corrupt.
  const TensorEntry& take(std::string_view name, std::string_view type, const std::vector<std::int64_t>& shape);
  /// Any type and shape.
  const TensorEntry& take(std::string_view name);
  /// Counts those of these tensors that there are as the module's: they say how other software rounds activations.
  void pass_over(std::span<const std::string_view> names);
  FloatsView floats(std::string_view name, const std::vector<std::int64_t>& shape);
  /// A float alone, () or (1).
  float number(std::string_view name);
  /// Powers of two, their exponents in U8 or F8_E8M0.
  FloatsView exponents(std::string_view name, const std::vector<std::int64_t>& shape);

  /// "FOLDER: MODULE.name", for messages.
  [[nodiscard]] std::string place(std::string_view name) const { return message(folder_, ": ", printable(module_, 200), ".", printable(name)); }

 private:
  const TensorSource& source_;
  std::string folder_;
  std::string module_;
  std::vector<TensorPart> taken_;
};

}  // namespace bantam::inline v0
