// What to do to a model: a method, a format, and exceptions by name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bantam/quant/format_info.hpp"

namespace bantam::inline v0 {

/// A plan for every matrix of a model. Exceptions are lines, not code: plan.keep("*.down_proj", "q8"), last match wins.
class Recipe {
 public:
  struct Exception {
    std::string pattern;  ///< with * and ?, against names like "model.layers.0.mlp.down_proj" and "lm_head"
    const FormatInfo* format;
  };

  explicit Recipe(const FormatInfo& format) : format_(&format) {}

  /// Matrices whose name matches get this format instead. Throws invalid_argument for an unknown format.
  Recipe& keep(std::string pattern, std::string_view format);
  /// The format of one matrix. Without an exception, embeddings and head get int8 when the body gets 4 bits.
  [[nodiscard]] const FormatInfo& format_of(std::string_view name, bool embedding_or_head) const;
  [[nodiscard]] const FormatInfo& format() const noexcept { return *format_; }
  [[nodiscard]] const std::vector<Exception>& exceptions() const noexcept { return exceptions_; }
  /// {"method":"rtn","format":...,"keep":[...]}
  [[nodiscard]] std::string to_json() const;

 private:
  const FormatInfo* format_;
  std::vector<Exception> exceptions_;
};

namespace recipe {

struct Options {
  int group = -1;  ///< weights per scale; -1: the format's usual group
};

/// Round to nearest, without calibration.
[[nodiscard]] Recipe rtn(std::string_view format, const Options& options = {});

}  // namespace recipe

/// Whether a name matches a pattern with * (any text) and ? (any character).
[[nodiscard]] bool matches(std::string_view name, std::string_view pattern) noexcept;

}  // namespace bantam::inline v0
