// The pass over a model: decode a matrix, round it, measure, hand it on.
#include "bantam/compress/compress.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <ostream>

#include "bantam/core/cpu.hpp"
#include "bantam/core/parallel.hpp"
#include "bantam/core/stopwatch.hpp"
#include "bantam/io/safetensors.hpp"
#include "bantam/model/native_file.hpp"
#include "bantam/model/roles.hpp"
#include "bantam/quant/formats.hpp"
#include "calibrate/model_source.hpp"
#include "held_out.hpp"
#include "io/json.hpp"
#include "journal.hpp"
#include "model_shares.hpp"
#include "output.hpp"
#include "plan.hpp"
#include "rounding_pass.hpp"

namespace bantam::inline v0 {

namespace {

/// Rounds each matrix of a rotated block by itself.
RoundedBlock round_rotated(const Recipe& recipe, const ModelSource& source, std::int64_t layer) {
  const LayerWeights weights = *source.acquire(layer);
  RoundedBlock block;
  for (const CheckpointTensor& tensor : source.checkpoint().tensors()) {
    if (tensor.layer != layer) continue;
    if (const std::vector<float>* vector = vector_of(weights, tensor)) block.vectors[tensor] = *vector;
    if (!tensor.is_matrix) continue;
    const WeightMatrix& matrix = *matrix_of(weights, tensor);
    block.matrices[tensor] = round_alone(
        recipe, tensor, recipe.format_of(tensor.name, false),
        [&](std::int64_t row, std::span<float> to, RowCodes& scratch) { matrix.read_row(row, to, scratch); });
  }
  return block;
}

/// Keeps count of what is done and asks whether to go on.
class Tracker {
 public:
  Tracker(const ProgressFn& progress, std::int64_t total, std::int64_t total_bytes)
      : progress_(progress), total_(total), total_bytes_(total_bytes) {}

  void add(LayerReport layer) {
    ++done_;
    bytes_ += layer.bytes_before;
    report.layers.push_back(layer);
    if (!progress_) return;
    const double elapsed = watch_.seconds();
    const double left = bytes_ > 0 ? elapsed * static_cast<double>(total_bytes_ - bytes_) / static_cast<double>(bytes_) : 0;
    if (!progress_({done_, total_, layer.name, layer.relative_error, left})) fail(Errc::cancelled, "compress: cancelled after ", layer.name);
  }
  void finish(std::int64_t weights) {
    double bits = 0;
    for (const auto& [format, count] : formats) bits += format->bits_per_weight * static_cast<double>(count);
    report.bits_per_weight = weights > 0 ? bits / static_cast<double>(weights) : 0;
    if (pruned > 0) report.sparsity = static_cast<double>(zeros) / static_cast<double>(pruned);
    report.seconds = watch_.seconds();
    report.peak_rss_bytes = peak_rss_bytes();
  }

  Report report;
  std::vector<std::pair<const FormatInfo*, std::int64_t>> formats;
  std::int64_t pruned = 0;  ///< weights of the matrices that are pruned
  std::int64_t zeros = 0;   ///< of these

 private:
  const ProgressFn& progress_;
  std::int64_t total_;
  std::int64_t total_bytes_;
  std::int64_t done_ = 0;
  std::int64_t bytes_ = 0;
  Stopwatch watch_;
};

std::int64_t tokens_in(const std::vector<std::vector<TokenId>>& samples) {
  std::int64_t tokens = 0;
  for (const std::vector<TokenId>& sample : samples) tokens += static_cast<std::int64_t>(sample.size());
  return tokens;
}

/// Says so where GPTQ was given too little text to go by.
void judge_calibration(Report& report, std::int64_t widest, const std::string& widest_name) {
  // Below a token a column the second moments do not have full rank, and some changes to the weights seem to cost nothing. On other
  // text i3.g32 of books4m is worse than rounding up to 2 tokens a column, and better from 4 on (docs/numbers.md).
  constexpr std::int64_t tokens_a_column = 3;
  if (report.calibration_tokens < tokens_a_column * widest) {
    report.warnings.push_back(message("calibration: ", report.calibration_tokens, " tokens are few for the ", widest, " columns of ", widest_name,
                                      ": below ", tokens_a_column, " tokens a column gptq may be worse than rounding to nearest; expected a longer text"));
  }
  if (!report.held_out || report.held_out->error <= report.held_out->nearest_error) return;
  const auto percent = [](double share) { return std::round(1000 * share) / 10; };
  report.warnings.push_back(message("calibration: worse than rounding on held-out text: over ", report.held_out->tokens,
                                    " tokens that were kept apart gptq changes the last hidden states by ", percent(report.held_out->error),
                                    " %, rounding to nearest by ", percent(report.held_out->nearest_error), " %; expected more text, or method rtn"));
}

/// One compression, whatever the tensors come from and go to.
class Run {
 public:
  /// Everything that can be refused before the output is begun. `original` and `progress` outlive it.
  Run(const Checkpoint& original, const Recipe& asked, Target target, const ProgressFn& progress, const Calibration& calibration)
      : source_(original, asked.options().rotation), target_(target), entries_(entries_of(checkpoint(), asked, target)), recipe_(asked.for_model(checkpoint())),
        tracker_(count(progress)), rounding_(with_shares(source_, recipe_)) {
    const bool calibrated = needs_calibration(asked) || (asked.method() == Method::rtn && !calibration.samples.empty());
    if (asked.options().smooth && calibration.samples.empty()) fail(Errc::invalid_argument, "smooth: expected calibration text, found none");
    if (!calibrated) return;
    pass_.emplace(source_, rounding_, calibration, true);
    tracker_.report.calibration_tokens = tokens_in(calibration.samples);
    if (rounds_by_gptq(recipe_.method()) && tokens_in(calibration.held_out) > 0) held_out_.emplace(source_, rounding_, calibration);
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  /// What is to be written.
  [[nodiscard]] const Checkpoint& checkpoint() const noexcept { return source_.checkpoint(); }
  /// What was asked for, with what the container makes of it.
  [[nodiscard]] const Recipe& recipe() const noexcept { return recipe_; }
  [[nodiscard]] const std::vector<NativeWriter::Entry>& entries() const noexcept { return entries_; }
  [[nodiscard]] bool calibrates() const noexcept { return pass_.has_value(); }

  /// Writes every tensor, and commits. `journal`: null for none.
  Report into(Output& output, Journal* journal) {
    std::size_t next = 0;
    for (const CheckpointTensor& tensor : checkpoint().tensors()) {
      if (tensor.layer > layer_) enter_block(tensor.layer, journal);
      if (tensor.is_matrix) {
        write_matrix(tensor, *entries_[next++].format, output);
      } else if (tensor.role != Role::rope_divisors) {
        write_vector(tensor, output);
        ++next;
      }
    }
    output.commit();
    tracker_.finish(weights_);
    if (recipe_.options().pruning) tracker_.report.pruning = recipe_.options().pruning->text();
    if (pass_ && rounds_by_gptq(recipe_.method())) judge();
    return std::move(tracker_.report);
  }

 private:
  /// Adds up what is to come; notes in the recipe where the container has another format.
  Tracker count(const ProgressFn& progress) {
    std::int64_t matrices = 0, bytes = 0;
    auto entry = entries_.begin();
    for (const CheckpointTensor& tensor : checkpoint().tensors()) {
      if (!tensor.is_matrix && tensor.role == Role::rope_divisors) continue;
      const FormatInfo* format = (entry++)->format;
      if (format == nullptr) continue;
      if (format != &recipe_.format_of(tensor.name, info_of(tensor.role).is_table())) recipe_.keep(tensor.name, format->name);
      ++matrices;
      weights_ += tensor.rows * tensor.columns;
      bytes += tensor.stored_bytes();
    }
    return {progress, matrices, bytes};
  }

  /// Warns of too little calibration.
  void judge() {
    if (held_out_) tracker_.report.held_out = held_out_->report(pass_->held_out_states());
    const CheckpointTensor* widest = nullptr;  // of those that are rounded by the text
    for (const CheckpointTensor& tensor : checkpoint().tensors()) {
      if (!tensor.is_matrix || tensor.layer < 0 || recipe_.format_of(tensor.name, false).is_float) continue;
      if (widest == nullptr || tensor.columns > widest->columns) widest = &tensor;
    }
    if (widest != nullptr) judge_calibration(tracker_.report, widest->columns, widest->name);
  }

  /// Rounds what is rounded block by block.
  void enter_block(std::int64_t layer, Journal* journal) {
    layer_ = layer;
    // A layer that drafts is rounded by itself: what it guesses is checked, so that nothing but speed hangs on it.
    if (checkpoint().config().is_drafting(layer)) {
      block_ = {};
      return;
    }
    if (!pass_) {
      if (source_.rotated()) block_ = round_rotated(rounding_, source_, layer);
      return;
    }
    block_ = {};  // the last one
    if (held_out_) held_out_->advance(layer);
    std::optional<RoundedBlock> done;
    if (journal != nullptr) done = journal->read(layer);
    if (done) {
      pass_->skip_block(layer, *done);
      ++tracker_.report.resumed_blocks;
    } else {
      done = pass_->round_block(layer);
      tracker_.report.inputs.insert(tracker_.report.inputs.end(), done->inputs.begin(), done->inputs.end());
      tracker_.report.warnings.insert(tracker_.report.warnings.end(), done->warnings.begin(), done->warnings.end());
      if (journal != nullptr) journal->append(layer, *done);
    }
    block_ = *std::move(done);
  }

  void write_vector(const CheckpointTensor& tensor, Output& output) const {
    const auto changed = block_.vectors.find(tensor);
    const std::vector<float> vector = changed != block_.vectors.end() ? changed->second : source_.load_vector(tensor);
    check_finite(tensor.name, 0, vector);
    const FormatInfo& stored = vector_format(target_, recipe_);
    for (std::size_t c = 0; stored.id == F16Format::id && c < vector.size(); ++c) {
      if (!std::isfinite(float(f16(vector[c])))) fail_too_large(tensor.name, stored, vector[c], 0, c);
    }
    output.write_vector(tensor, vector);
  }

  void write_matrix(const CheckpointTensor& tensor, const FormatInfo& format, Output& output) {
    Rounded rounded;
    if (const auto found = block_.matrices.find(tensor); found != block_.matrices.end()) {
      rounded = found->second;
    } else if (is_copied(target_, tensor, format) && !source_.rotated() && !is_pruned(rounding_, tensor)) {
      rounded.matrix = checkpoint().load_matrix(tensor, Reading::mapped);
      check_finite(tensor.name, rounded.matrix);
    } else {
      rounded = round_alone(rounding_, tensor, format,
                            [&](std::int64_t row, std::span<float> to, RowCodes& scratch) { source_.read_row(tensor, row, to, scratch); });
      checkpoint().drop(tensor);
    }
    output.write_matrix(tensor, rounded.matrix);
    tracker_.formats.emplace_back(&format, tensor.rows * tensor.columns);
    const std::int64_t bytes = target_ == Target::gguf ? stored_size(target_, tensor.rows, tensor.columns, format).bytes : rounded.matrix.bytes();
    LayerReport report{tensor.name, std::string(format.name), rounded.relative_error, tensor.stored_bytes(), bytes};
    report.output_error = rounded.output_error;
    if (is_pruned(rounding_, tensor)) {
      const std::int64_t weights = tensor.rows * tensor.columns;
      report.sparsity = static_cast<double>(rounded.zeros) / static_cast<double>(weights);
      tracker_.pruned += weights;
      tracker_.zeros += rounded.zeros;
    }
    tracker_.add(std::move(report));
  }

  const ModelSource source_;
  const Target target_;
  const std::vector<NativeWriter::Entry> entries_;
  Recipe recipe_;
  std::int64_t weights_ = 0;  ///< of all matrices
  Tracker tracker_;
  const Recipe rounding_;  ///< with shares that are found by a look at the weights
  std::optional<RoundingPass> pass_;
  std::optional<HeldOut> held_out_;
  RoundedBlock block_;       ///< what was rounded with others
  std::int64_t layer_ = -1;  ///< of it
};

Json prune_json(const PruneReport& pruned) {
  const auto costs = [](const Costs& all) {
    const auto whole = [&](Cost cost) { return static_cast<std::int64_t>(all[cost]); };
    Json json = {{"parameters", whole(Cost::parameters)}, {"flops_per_token", whole(Cost::flops)}, {"bytes", whole(Cost::bytes)}};
    if (all[Cost::latency] > 0) json["seconds_per_token"] = all[Cost::latency];
    return json;
  };
  Json json;
  for (const Removal& removal : pruned.removals) json["removals"].push_back(removal.text());
  json["before"] = costs(pruned.before);
  json["after"] = costs(pruned.after);
  if (pruned.layers.empty()) return json;
  json["layers"] = pruned.layers;
  json["influence"] = pruned.influence;
  return json;
}

}  // namespace

void check_not_an_input(const Checkpoint& checkpoint, const std::filesystem::path& out) {
  const auto is_out = [&](const CheckpointTensor& tensor) {
    return std::ranges::any_of(tensor.source->parts(), [&](const TensorPart& part) { return same_file(part.entry->file->path(), out); });
  };
  if (same_file(checkpoint.path(), out) || std::ranges::any_of(checkpoint.tensors(), is_out)) {
    fail(Errc::invalid_argument, out.string(), ": expected an output other than the input, found the same file");
  }
}

Report compress_file(const Checkpoint& checkpoint, const std::filesystem::path& out, const Recipe& recipe, Target target,
                     const ProgressFn& progress, const Calibration& calibration, const std::filesystem::path& journal_path) {
  check_not_an_input(checkpoint, out);
  const std::int64_t bytes_before = checkpoint.stored_bytes();
  std::optional<Checkpoint> folded;
  Run run(as_written(target, checkpoint, folded), recipe, target, progress, calibration);
  const std::unique_ptr<Output> output = make_output(target, out, run.checkpoint(), run.recipe(), run.entries());
  std::optional<Journal> journal;
  if (run.calibrates() && !journal_path.empty()) journal.emplace(journal_path, run.checkpoint(), run.recipe(), calibration);
  // Known before: nothing may fail once the file is there.
  const std::int64_t bytes_after = output_bytes(target, run.checkpoint(), run.recipe(), run.entries());
  Report report = run.into(*output, journal ? &*journal : nullptr);
  if (journal) journal->remove();
  report.bytes_before = bytes_before;
  report.bytes_after = bytes_after;
  return report;
}

std::pair<Model, Report> compress(const Model& model, const Recipe& recipe, const ProgressFn& progress, const Calibration& calibration) {
  Run run(model.checkpoint(), recipe, Target::native, progress, calibration);
  MemoryOutput output(run.checkpoint(), run.recipe());
  Report report = run.into(output, nullptr);
  report.bytes_before = model.checkpoint().stored_bytes();
  report.bytes_after = output.model().checkpoint().stored_bytes();
  return {output.model(), std::move(report)};
}

double InputReport::outlier_ratio() const noexcept {
  const auto largest = [](ValueRange r) { return std::max(std::fabs(r.low), std::fabs(r.high)); };
  return largest(central) > 0 ? largest(range) / largest(central) : 1.0;
}

void Report::follow(PruneReport before) {
  bytes_before = before.bytes_before;
  warnings.insert(warnings.begin(), before.warnings.begin(), before.warnings.end());
  pruned = std::move(before);
}

std::string Report::to_json() const {
  Json json;
  json["bytes_before"] = bytes_before;
  json["bytes_after"] = bytes_after;
  json["bits_per_weight"] = bits_per_weight;
  if (sparsity) json["sparsity"] = *sparsity;
  if (!pruning.empty()) json["pruning"] = pruning;
  json["layers"] = Json::array();
  for (const LayerReport& layer : layers) {
    json["layers"].push_back({{"name", layer.name},
                              {"format", layer.format},
                              {"relative_error", layer.relative_error},
                              {"bytes_before", layer.bytes_before},
                              {"bytes_after", layer.bytes_after}});
    if (layer.sparsity) json["layers"].back()["sparsity"] = *layer.sparsity;
    if (layer.output_error) json["layers"].back()["output_error"] = *layer.output_error;
  }
  json["inputs"] = Json::array();
  for (const InputReport& input : inputs) {
    json["inputs"].push_back({{"matrices", input.matrices},
                              {"min", input.range.low},
                              {"max", input.range.high},
                              {"p0.1", input.central.low},
                              {"p99.9", input.central.high},
                              {"outlier_ratio", input.outlier_ratio()}});
  }
  if (pruned) json["prune"] = prune_json(*pruned);
  if (calibration_tokens > 0) json["calibration"] = {{"tokens", calibration_tokens}};
  if (held_out) json["calibration"]["held_out"] = {{"tokens", held_out->tokens}, {"error", held_out->error}, {"nearest_error", held_out->nearest_error}};
  json["resumed_blocks"] = resumed_blocks;
  json["warnings"] = warnings;
  json["seconds"] = seconds;
  json["peak_rss_bytes"] = peak_rss_bytes;
  return json.dump(2);
}

std::ostream& operator<<(std::ostream& out, const Report& report) {
  const auto rounded = [](double x) { return std::round(x * 100) / 100; };
  const auto megabytes = [&](std::int64_t bytes) { return message(rounded(static_cast<double>(bytes) / 1e6), " MB"); };
  out << megabytes(report.bytes_before) << " -> " << megabytes(report.bytes_after) << " (" << rounded(report.bits_per_weight) << " bits a weight)";
  if (report.pruned) {
    out << ", without";
    for (const Removal& removal : report.pruned->removals) out << ' ' << removal.text();
    const auto millions = [&](const Costs& costs) { return rounded(costs[Cost::parameters] / 1e6); };
    out << " (" << millions(report.pruned->before) << " -> " << millions(report.pruned->after) << " million parameters)";
  }
  if (report.sparsity) out << ", " << report.pruning << ": " << rounded(100 * *report.sparsity) << " % of the blocks' weights are 0";
  const bool outputs = std::ranges::any_of(report.layers, [](const LayerReport& layer) { return layer.output_error.has_value(); });
  const auto error = [&](const LayerReport& layer) { return outputs ? layer.output_error.value_or(0) : layer.relative_error; };
  const auto worst = std::ranges::max_element(report.layers, {}, error);
  if (worst == report.layers.end()) return out;
  out << ", worst " << (outputs ? "output" : "layer") << " error " << rounded(100 * error(*worst)) << " % (" << worst->name << ")";
  return out;
}

}  // namespace bantam::inline v0
