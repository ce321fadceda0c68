// What to do to a model: a method, a format, and exceptions by name.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bantam/calibrate/importance.hpp"
#include "bantam/compress/awq.hpp"
#include "bantam/compress/gptq.hpp"
#include "bantam/compress/mix.hpp"
#include "bantam/compress/nearest.hpp"
#include "bantam/core/names.hpp"
#include "bantam/prune/pruning.hpp"

namespace bantam::inline v0 {

class Checkpoint;

/// How weights are rounded.
enum class Method : std::uint8_t {
  /// Each to nearest. With calibration, on grids that weigh errors by the inputs they meet; without, on plain ones.
  rtn,
  gptq,      ///< so that the outputs of the block's layers change least; needs calibration
  awq,       ///< to nearest after scales that spare large inputs were folded in; needs calibration
  awq_gptq,  ///< AWQ's scales, then GPTQ's rounding
  hqq,       ///< to nearest on grids with fitted minimums; no calibration
};
/// As the command line spells it: "rtn", "gptq", "awq", "awq+gptq", "hqq".
[[nodiscard]] std::string_view name_of(Method method) noexcept;
inline constexpr Method methods[] = {Method::rtn, Method::gptq, Method::awq, Method::awq_gptq, Method::hqq};
/// The inverse. Throws invalid_argument listing the names there are.
[[nodiscard]] Method find_method(std::string_view name);
[[nodiscard]] constexpr bool needs_calibration(Method method) noexcept { return method != Method::rtn && method != Method::hqq; }
[[nodiscard]] constexpr bool rounds_by_gptq(Method method) noexcept { return method == Method::gptq || method == Method::awq_gptq; }

/// How far the grids of `rtn` follow the extremes of the weights that share one.
struct Clip {
  GridSearch search = GridSearch::error;
  double percentile = 100;  ///< as in NearestOptions
};
/// "minmax", "mse", "percentile:99.9".
[[nodiscard]] std::string name_of(const Clip& clip);
/// The inverse. Throws invalid_argument saying what there is.
[[nodiscard]] Clip find_clip(std::string_view name);
[[nodiscard]] inline NearestOptions nearest_options(const Clip& clip, std::span<const float> importance = {}) {
  return {.search = clip.search, .importance = importance, .percentile = clip.percentile};
}

struct MethodOptions {
  /// Inside a block each group of matrices is rounded for inputs that the groups before, already rounded, make: q, k and v;
  /// o; gate and up; down. It takes a run of the block over the calibration text for each; otherwise one serves all.
  bool true_sequential = true;
  /// GPTQ and SparseGPT, truly sequential: the share of what a rounded model has drifted from the original by, in the inputs
  /// of each matrix and in the hidden states that it adds to, that the matrix is rounded to make good (the first as in GPTAQ,
  /// arXiv:2504.02692). All of it would fit the calibration text too well. It takes a run of the original block, too; 0: none.
  double follow_original = 0.6;
  /// Weights are rotated before anything else (ModelSource in src/calibrate; rotation.hpp) by random signs of this seed: exact
  /// as real numbers go, and without cost when the model runs. For passes over a file.
  std::optional<std::uint64_t> rotation = {};
  /// SmoothQuant's exponent (smooth.hpp): scales that even out the inputs of the block's matrices are folded into these and
  /// what makes the inputs. Needs calibration; with any method but AWQ's, which has scales of its own, and HQQ.
  std::optional<double> smooth = {};
  /// For `rtn`. Empty: with calibration the least error, without the extremes, as each format rounds.
  std::optional<Clip> clip = {};
  /// Weights of every block's matrices are removed as they are to be rounded: rotated, and with scales folded in.
  std::optional<Pruning> pruning = {};
  /// What errors of columns count where a matrix is rounded by itself, without calibration text: llama.cpp's importance matrix. Not rotated.
  std::shared_ptr<const ImportanceMatrix> importance = {};
  GptqOptions gptq = {};
  AwqOptions awq = {};
};

/// A plan for every matrix of a model. Exceptions are lines, not code: plan.keep("*.down_proj", "q8"), last match wins.
class Recipe {
 public:
  struct Exception {
    std::string pattern;  ///< with * and ?, against names like "model.layers.0.mlp.down_proj" and "lm_head"
    const FormatInfo* format;
  };

  explicit Recipe(const FormatInfo& format, Method method = Method::rtn, const MethodOptions& options = {})
      : format_(&format), method_(method), options_(options) {}
  /// Formats by role and layer, which for_model() finds; format() is what most get.
  explicit Recipe(const Mix& mix, Method method = Method::rtn, const MethodOptions& options = {})
      : Recipe(find_format(mix.format), method, options) { mix_ = &mix; }

  /// Matrices whose name matches get this format instead. Throws invalid_argument for an unknown format.
  Recipe& keep(std::string pattern, std::string_view format);
  /// The format of the last exception that matches; null where none does.
  [[nodiscard]] const FormatInfo* exception_of(std::string_view name) const noexcept;
  /// The format of one matrix. Without an exception, embeddings and head get int8 when the body gets 4 bits.
  [[nodiscard]] const FormatInfo& format_of(std::string_view name, bool embedding_or_head) const;
  [[nodiscard]] const FormatInfo& format() const noexcept { return *format_; }
  /// Null where one format serves all.
  [[nodiscard]] const Mix* mix() const noexcept { return mix_; }
  /// With the formats that a mix gives to the matrices of one model, and with routers of experts in the floats that they have, whatever
  /// was asked. Whatever compresses or plans does this.
  /// Throws invalid_argument for an importance matrix of another model.
  [[nodiscard]] Recipe for_model(const Checkpoint& checkpoint) const;
  /// What errors of a matrix's columns count; empty where that is not known. After for_model().
  [[nodiscard]] std::span<const float> importance_of(std::string_view name) const noexcept;
  /// The same, after pruning. Throws invalid_argument for what cannot be removed.
  [[nodiscard]] Recipe pruned(const Pruning& pruning) const;
  [[nodiscard]] Recipe without_rotation() const;
  /// What is removed of one matrix of a block, without exceptions; nothing: empty.
  [[nodiscard]] std::optional<Pruning> pruning_of(std::string_view name) const;
  [[nodiscard]] Method method() const noexcept { return method_; }
  [[nodiscard]] const MethodOptions& options() const noexcept { return options_; }
  [[nodiscard]] const std::vector<Exception>& exceptions() const noexcept { return exceptions_; }
  /// {"method":"rtn","format":...,"keep":[...]}
  [[nodiscard]] std::string to_json() const;

 private:
  const FormatInfo* format_;
  const Mix* mix_ = nullptr;
  std::map<std::string, const FormatInfo*, std::less<>> mixed_, fixed_;  ///< by name; filled by for_model()
  std::map<std::string, std::span<const float>, std::less<>> importance_;          ///< of options_.importance; the same
  Method method_;
  MethodOptions options_;
  std::vector<Exception> exceptions_;
};

[[nodiscard]] inline bool needs_calibration(const Recipe& recipe) noexcept {
  const MethodOptions& options = recipe.options();
  return needs_calibration(recipe.method()) || options.smooth || (options.pruning && needs_calibration(options.pruning->method));
}

/// Prunes, then rounds what is left: recipe::wanda(0.5f) | recipe::gptq("q4"). Sparsegpt and GPTQ do both at once.
[[nodiscard]] inline Recipe operator|(const Pruning& pruning, const Recipe& rounding) { return rounding.pruned(pruning); }

namespace recipe {

/// Removes a share of the weights, or {2, 4}: two of each four.
[[nodiscard]] inline Pruning magnitude(const Sparsity& sparsity, MaskScope scope = MaskScope::matrix) {
  return {scope == MaskScope::row ? PruneMethod::magnitude_row : PruneMethod::magnitude, sparsity};
}
[[nodiscard]] inline Pruning wanda(const Sparsity& sparsity) { return {PruneMethod::wanda, sparsity}; }
[[nodiscard]] inline Pruning sparsegpt(const Sparsity& sparsity) { return {PruneMethod::sparsegpt, sparsity}; }

struct Options {
  int group = -1;  ///< weights per scale; -1: the format's usual group
};

/// Round to nearest, without calibration.
[[nodiscard]] Recipe rtn(std::string_view format, const Options& options = {});
/// GPTQ on every block's matrices; embeddings and head to nearest. Needs calibration.
[[nodiscard]] Recipe gptq(std::string_view format, const Options& options = {}, const MethodOptions& method = {});
/// AWQ's scales and clipping on every block's matrices; embeddings and head to nearest. Needs calibration.
[[nodiscard]] Recipe awq(std::string_view format, const Options& options = {}, const MethodOptions& method = {});
/// HQQ on every matrix whose format has minimums; others to nearest. Throws invalid_argument where `format` has none.
[[nodiscard]] Recipe hqq(std::string_view format, const Options& options = {});
/// Any of them. `format` may be the name of a mix. Throws invalid_argument when the format does not suit the method.
[[nodiscard]] Recipe with(Method method, std::string_view format, const Options& options = {}, const MethodOptions& details = {});

}  // namespace recipe

}  // namespace bantam::inline v0
