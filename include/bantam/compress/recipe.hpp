// What to do to a model: a method, a format, and exceptions by name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bantam/compress/gptq.hpp"

namespace bantam::inline v0 {

/// How weights are rounded.
enum class Method : std::uint8_t {
  rtn,   ///< each to nearest; needs no calibration
  gptq,  ///< so that the outputs of the block's layers change least
};

/// A plan for every matrix of a model. Exceptions are lines, not code: plan.keep("*.down_proj", "q8"), last match wins.
class Recipe {
 public:
  struct Exception {
    std::string pattern;  ///< with * and ?, against names like "model.layers.0.mlp.down_proj" and "lm_head"
    const FormatInfo* format;
  };

  explicit Recipe(const FormatInfo& format, Method method = Method::rtn, const GptqOptions& gptq = {})
      : format_(&format), method_(method), gptq_(gptq) {}

  /// Matrices whose name matches get this format instead. Throws invalid_argument for an unknown format.
  Recipe& keep(std::string pattern, std::string_view format);
  /// The format of one matrix. Without an exception, embeddings and head get int8 when the body gets 4 bits.
  [[nodiscard]] const FormatInfo& format_of(std::string_view name, bool embedding_or_head) const;
  [[nodiscard]] const FormatInfo& format() const noexcept { return *format_; }
  [[nodiscard]] Method method() const noexcept { return method_; }
  [[nodiscard]] const GptqOptions& gptq_options() const noexcept { return gptq_; }
  [[nodiscard]] const std::vector<Exception>& exceptions() const noexcept { return exceptions_; }
  /// {"method":"rtn","format":...,"keep":[...]}
  [[nodiscard]] std::string to_json() const;

 private:
  const FormatInfo* format_;
  Method method_;
  GptqOptions gptq_;
  std::vector<Exception> exceptions_;
};

namespace recipe {

struct Options {
  int group = -1;  ///< weights per scale; -1: the format's usual group
};

/// Round to nearest, without calibration.
[[nodiscard]] Recipe rtn(std::string_view format, const Options& options = {});
/// GPTQ on every block's matrices; embeddings and head to nearest. Needs calibration.
[[nodiscard]] Recipe gptq(std::string_view format, const Options& options = {}, const GptqOptions& gptq = {});

}  // namespace recipe

/// Whether a name matches a pattern with * (any text) and ? (any character).
[[nodiscard]] bool matches(std::string_view name, std::string_view pattern) noexcept;

}  // namespace bantam::inline v0
