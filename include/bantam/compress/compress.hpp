// Running a recipe over a model, one matrix at a time, in bounded memory.
#pragma once

#include <functional>
#include <iosfwd>
#include <utility>

#include "bantam/calibrate/calibration.hpp"
#include "bantam/calibrate/observers.hpp"
#include "bantam/calibrate/progress.hpp"
#include "bantam/compress/recipe.hpp"
#include "bantam/model/model.hpp"
#include "bantam/prune/removal.hpp"

namespace bantam::inline v0 {

struct LayerReport {
  std::string name;
  std::string format;
  double relative_error = 0;  ///< ||W - W'|| / ||W||
  std::int64_t bytes_before = 0;
  std::int64_t bytes_after = 0;
  std::optional<double> sparsity = {};  ///< share of the weights that are 0, rounding's included; of pruned matrices
  /// ||X (W - W')T|| / ||X WT||, where the run calibrated: X is what the matrix reads of the tokens that the calibration holds out,
  /// or, where it holds out none, of the beginning of its samples. What counts: GPTQ moves weights further than rounding does,
  /// and outputs less.
  std::optional<double> output_error = {};
};

/// How well GPTQ's result does on tokens that it was not fitted to, beside plain rounding in the same formats.
struct HeldOutReport {
  std::int64_t tokens = 0;
  double error = 0;          ///< ||Y - Y'|| / ||Y||, Y the hidden states that the head reads
  double nearest_error = 0;  ///< the same of weights rounded to nearest
};

/// What the calibration text makes the matrices of a block read that read the same: the inputs that they are rounded for. With
/// AWQ and SmoothQuant those of q, k and v, and of all where the recipe is not truly sequential, are as before their scales.
struct InputReport {
  std::vector<std::string> matrices;
  ValueRange range;    ///< the smallest and the largest
  ValueRange central;  ///< without 0.1 % of all values at each end, to within a bin of Histogram

  /// The largest magnitude of all in those of the central range: what a few large inputs cost a grid that spans them. At least 1.
  [[nodiscard]] double outlier_ratio() const noexcept;
};

struct Report {
  std::int64_t bytes_before = 0;  ///< of the file or files; of models in memory as Checkpoint::stored_bytes() says
  std::int64_t bytes_after = 0;
  double bits_per_weight = 0;  ///< of all matrices, scales included, padding not
  std::optional<double> sparsity = {};  ///< of all matrices that were pruned
  std::string pruning = {};             ///< how, "wanda:0.5"; empty: not
  std::vector<LayerReport> layers;
  std::vector<InputReport> inputs;  ///< where the run calibrated; of blocks from the journal there are none
  std::optional<PruneReport> pruned;  ///< where parts went before
  std::int64_t calibration_tokens = 0;
  std::optional<HeldOutReport> held_out = {};  ///< of GPTQ, where the calibration holds tokens out
  std::int64_t resumed_blocks = 0;  ///< taken from the journal
  /// What went otherwise than asked, a line each: too little calibration text, GPTQ that is worse than rounding on held-out tokens;
  /// naming the matrix, inputs that the text never uses, second moments that took more damping or no GPTQ at all. Of blocks
  /// from the journal there are none.
  std::vector<std::string> warnings;
  double seconds = 0;
  std::size_t peak_rss_bytes = 0;

  /// This one, of what remove_parts() left, becomes a report on the whole model.
  void follow(PruneReport before);
  [[nodiscard]] std::string to_json() const;
};

/// "1192 MB -> 402 MB (4.52 bits a weight), worst layer error 8.1 % (model.layers.3.mlp.up_proj)"; where the errors of outputs are
/// known, the worst of those: "worst output error ...".
std::ostream& operator<<(std::ostream& out, const Report& report);

/// Containers that compress_file writes.
enum class Target : std::uint8_t {
  native,       ///< a .bantam file; any format
  safetensors,  ///< a Hugging Face folder; f32, f16 or bf16: dequantizes any checkpoint exactly
  gguf,         ///< a .gguf file, as llama.cpp reads it; formats that GGUF has. Rows that are no whole blocks get a finer one, or f16
  // Hugging Face folders of quantized matrices, f16 besides. Matrices whose shapes do not fit are left in f16.
  gptq,     ///< as AutoGPTQ reads it: i2z, i3, i3z, i4, i4z, i8.g32, i8.g128
  gptq_v2,  ///< the same with zeros as they are, as GPTQModel writes them: it takes no others for i2z, i3z and i4z
  awq,      ///< AutoAWQ's gemm version: i4, i4z
  bnb,      ///< bitsandbytes: nf4, nf4w, nf4dq, fp4, fp4w, fp4dq, i8.row
};

inline constexpr Target targets[] = {Target::native,  Target::safetensors, Target::gguf, Target::gptq,
                                     Target::gptq_v2, Target::awq,         Target::bnb};
/// "native", "gptq_v2", ...
[[nodiscard]] std::string_view name_of(Target target) noexcept;
/// The inverse. Throws invalid_argument listing the names there are.
[[nodiscard]] Target find_target(std::string_view name);
[[nodiscard]] constexpr bool writes_folder(Target target) noexcept { return target != Target::native && target != Target::gguf; }

/// The kind of output that its name asks for: gguf for "x.gguf"; a Hugging Face folder for a name that ends with a slash and for a
/// folder that is empty or holds a model, safetensors for floats, else the first of gptq, awq and bnb that has the recipe's formats, the method's own
/// before; native for any other name. Throws invalid_argument for "x.safetensors", which is what two kinds could be called, and
/// where no folder has the formats.
[[nodiscard]] Target target_for(const std::filesystem::path& out, const Recipe& recipe);

/// Throws invalid_argument, naming what there is, unless files of this kind hold the recipe's formats.
void check_formats(const Recipe& recipe, Target target);

/// What a recipe will make of a checkpoint: formats and sizes, nothing else.
struct Plan {
  struct Matrix {
    std::string name;
    const FormatInfo* format;
    std::int64_t weights = 0;
    std::int64_t bytes_before = 0;
    std::int64_t bytes = 0;  ///< scales and padding of rows included
    std::int64_t expert = -1;  ///< whose it is; -1: nobody's
  };
  std::vector<Matrix> matrices;
  std::int64_t bytes_before = 0;
  std::int64_t bytes = 0;     ///< of the file, to the byte; of a folder, of its weights
  double bits_per_weight = 0; ///< of all matrices, with their padding
};

/// Writes nothing and reads no weight. Throws what compress_file throws for recipes that do not fit the target.
[[nodiscard]] Plan plan_file(const Checkpoint& checkpoint, const Recipe& recipe, Target target = Target::native);

/// Throws invalid_argument where an output would be a file of the checkpoint. compress_file asks, too: this is for work before it.
void check_not_an_input(const Checkpoint& checkpoint, const std::filesystem::path& out);

/// Reads a checkpoint matrix by matrix and writes it under the recipe. Peak memory: a few matrices, whatever the depth.
/// Throws what reading and writing throw, invalid_argument when input and output are the same file or the format does
/// not fit the target, corrupt naming the tensor when a weight is not finite. The output is complete or not there.
/// Methods that calibrate (and rtn, if given samples) read `calibration` and hold one block, its activations' second moments
/// and the samples' hidden states in memory besides; invalid_argument without samples.
/// `journal`: a file, made when needed, that finished blocks of such methods are kept in until the output is complete; empty:
/// none. What an earlier run of the same checkpoint, recipe and calibration left there is used: the output then has the bytes
/// that one uninterrupted run would have given it. What another run left is overwritten.
Report compress_file(const Checkpoint& checkpoint, const std::filesystem::path& out, const Recipe& recipe,
                     Target target = Target::native, const ProgressFn& progress = {}, const Calibration& calibration = {},
                     const std::filesystem::path& journal = {});

/// The same in memory: the tensors that compress_file would write to a native file. The given model is left untouched.
[[nodiscard]] std::pair<Model, Report> compress(const Model& model, const Recipe& recipe, const ProgressFn& progress = {},
                                                const Calibration& calibration = {});

}  // namespace bantam::inline v0
