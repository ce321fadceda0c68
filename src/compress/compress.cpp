// The pass over a model: decode a matrix, round it, measure, hand it on.
#include "bantam/compress/compress.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>

#include "bantam/core/cpu.hpp"
#include "bantam/core/parallel.hpp"
#include "bantam/core/stopwatch.hpp"
#include "bantam/io/safetensors.hpp"
#include "bantam/model/native_file.hpp"
#include "bantam/quant/formats.hpp"
#include "block_pass.hpp"
#include "journal.hpp"
#include "model_source.hpp"
#include "output.hpp"
#include "plan.hpp"

namespace bantam::inline v0 {

namespace {

/// Rounds each matrix of a rotated block by itself.
RoundedBlock round_rotated(const Recipe& recipe, const ModelSource& source, std::int64_t layer) {
  ModelWeights weights;
  weights.layers.push_back(source.load_block(layer));
  RoundedBlock block;
  for (const CheckpointTensor& tensor : source.checkpoint().tensors()) {
    if (tensor.layer != layer) continue;
    if (const std::vector<float>* vector = vector_of(weights, tensor.role, 0)) block.vectors[tensor.role] = *vector;
    if (!tensor.is_matrix) continue;
    const WeightMatrix& matrix = *matrix_of(weights, tensor.role, 0);
    block.matrices[tensor.role] = round_alone(
        recipe, tensor.name, tensor.rows, tensor.columns, recipe.format_of(tensor.name, false),
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
    report.seconds = watch_.seconds();
    report.peak_rss_bytes = peak_rss_bytes();
  }

  Report report;
  std::vector<std::pair<const FormatInfo*, std::int64_t>> formats;

 private:
  const ProgressFn& progress_;
  std::int64_t total_;
  std::int64_t total_bytes_;
  std::int64_t done_ = 0;
  std::int64_t bytes_ = 0;
  Stopwatch watch_;
};

std::string recipe_record(const Recipe& recipe, const std::string& from) {
  auto json = nlohmann::ordered_json::parse(recipe.to_json());
  json["source"] = from;
  return json.dump();
}

}  // namespace

Report compress_file(const Checkpoint& original, const std::filesystem::path& out, const Recipe& asked, Target target,
                     const ProgressFn& progress, const Calibration& calibration, const std::filesystem::path& journal_path) {
  const ModelSource source(original, asked);
  const Checkpoint& checkpoint = source.checkpoint();
  const auto is_input = [&](const CheckpointTensor& tensor) { return same_file(tensor.entry->file->path(), out); };
  if (same_file(checkpoint.path(), out) || std::ranges::any_of(checkpoint.tensors(), is_input)) {
    fail(Errc::invalid_argument, out.string(), ": expected an output other than the input, found the same file");
  }
  const std::vector<NativeWriter::Entry> entries = entries_of(checkpoint, asked, target);
  Recipe recipe = asked;  // with what the container makes of it
  std::int64_t matrices = 0, weights = 0, bytes = 0;
  std::size_t at = 0;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    if (!tensor.is_matrix && tensor.role == Role::rope_divisors) continue;
    const FormatInfo* format = entries[at++].format;
    if (format == nullptr) continue;
    if (format != &asked.format_of(tensor.name, is_table(tensor.role))) recipe.keep(tensor.name, format->name);
    ++matrices;
    weights += tensor.rows * tensor.columns;
    bytes += tensor.stored_bytes();
  }
  Tracker tracker(progress, matrices, bytes);
  tracker.report.bytes_before = bytes_of(checkpoint.path());

  const std::unique_ptr<Output> output = make_output(target, out, checkpoint, recipe, entries);
  std::optional<BlockPass> pass;
  const bool calibrated = needs_calibration(recipe.method()) || (recipe.method() == Method::rtn && !calibration.samples.empty());
  if (recipe.options().smooth && !calibrated) fail(Errc::invalid_argument, "smooth: expected calibration text, found none");
  std::optional<Journal> journal;
  if (calibrated) pass.emplace(source, recipe, calibration);
  if (calibrated && !journal_path.empty()) journal.emplace(journal_path, checkpoint, recipe, calibration);
  RoundedBlock block;      // what was rounded with others
  std::int64_t layer = -1;  // of it
  std::size_t next = 0;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    if (!pass && source.rotated() && tensor.layer > layer) {
      layer = tensor.layer;
      block = round_rotated(recipe, source, layer);
    }
    if (pass && tensor.layer > layer) {
      layer = tensor.layer;
      std::optional<RoundedBlock> done;
      if (journal) done = journal->read(layer);
      if (done) {
        pass->skip_block(layer, *done);
        ++tracker.report.resumed_blocks;
      } else {
        done = pass->round_block(layer);
        tracker.report.warnings.insert(tracker.report.warnings.end(), done->warnings.begin(), done->warnings.end());
        if (journal) journal->append(layer, *done);
      }
      block = *std::move(done);
    }
    if (!tensor.is_matrix) {
      if (tensor.role == Role::rope_divisors) continue;
      const auto changed = tensor.layer == layer ? block.vectors.find(tensor.role) : block.vectors.end();
      const std::vector<float> vector = changed != block.vectors.end() ? changed->second : source.load_vector(tensor);
      check_finite(tensor.name, 0, vector);
      const FormatInfo& stored = vector_format(target, recipe);
      for (std::size_t c = 0; stored.id == F16Format::id && c < vector.size(); ++c) {
        if (!std::isfinite(float(f16(vector[c])))) fail_too_large(tensor.name, stored, vector[c], 0, c);
      }
      output->write_vector(tensor, vector);
      ++next;
      continue;
    }
    const FormatInfo& format = *entries[next++].format;
    Rounded rounded;
    if (const auto found = block.matrices.find(tensor.role); found != block.matrices.end() && tensor.layer == layer) {
      rounded = found->second;
    } else if (is_copied(target, tensor, format) && !source.rotated()) {
      rounded.matrix = checkpoint.load_matrix(tensor, Reading::mapped);
      check_finite(tensor.name, rounded.matrix);
    } else {
      rounded = round_alone(recipe, tensor.name, tensor.rows, tensor.columns, format, [&](std::int64_t row, std::span<float> to, RowCodes& scratch) {
        source.read_row(tensor, row, to, scratch);
      });
      tensor.entry->file->drop(tensor.entry->bytes);
    }
    output->write_matrix(tensor, rounded.matrix);
    tracker.formats.emplace_back(&format, tensor.rows * tensor.columns);
    tracker.add({tensor.name, std::string(format.name), rounded.relative_error,
                 tensor.stored_bytes(), rounded.matrix.bytes()});
  }
  output->commit();
  if (journal) journal->remove();
  tracker.finish(weights);
  tracker.report.bytes_after = bytes_of(out);
  return std::move(tracker.report);
}

std::pair<Model, Report> compress(const Model& model, const Recipe& recipe, const ProgressFn& progress) {
  if (needs_calibration(recipe.method())) fail(Errc::unsupported, "compress in memory: methods that calibrate: not yet; what works: compress_file");
  if (recipe.options().smooth) fail(Errc::unsupported, "compress in memory: smooth: not yet; what works: compress_file");
  if (recipe.options().rotation) fail(Errc::unsupported, "compress in memory: rotation: not yet; what works: compress_file");
  std::int64_t matrices = 0, weights = 0;
  for (const CheckpointTensor& tensor : model.tensors()) {
    if (!tensor.is_matrix) continue;
    ++matrices;
    weights += tensor.rows * tensor.columns;
  }
  Tracker tracker(progress, matrices, model.bytes());
  tracker.report.bytes_before = model.bytes();
  ModelWeights result = model.weights();
  result.matrix_bytes = 0;
  for (const CheckpointTensor& tensor : model.tensors()) {
    if (!tensor.is_matrix) continue;
    WeightMatrix& place = *matrix_of(result, tensor.role, tensor.layer);
    const WeightMatrix original = place;
    const FormatInfo& format = recipe.format_of(tensor.name, is_table(tensor.role));
    double error = 0;
    if (&format == &original.format()) {
      check_finite(tensor.name, original);
    } else {
      Rounded rounded = round_alone(recipe, tensor.name, tensor.rows, tensor.columns, format, [&](std::int64_t row, std::span<float> to, RowCodes& scratch) {
        original.read_row(row, to, scratch);
      });
      place = std::move(rounded.matrix);
      error = rounded.relative_error;
    }
    result.matrix_bytes += place.bytes();
    tracker.formats.emplace_back(&format, tensor.rows * tensor.columns);
    tracker.add({tensor.name, std::string(format.name), error, original.bytes(), place.bytes()});
  }
  if (model.config().tied) result.head = result.embedding;
  result.streamed_bytes = result.matrix_bytes - (model.config().tied ? 0 : result.embedding.bytes());
  tracker.finish(weights);
  tracker.report.bytes_after = result.matrix_bytes;
  return {model.with_weights(std::move(result), recipe_record(recipe, "")), std::move(tracker.report)};
}

std::string Report::to_json() const {
  nlohmann::ordered_json json;
  json["bytes_before"] = bytes_before;
  json["bytes_after"] = bytes_after;
  json["bits_per_weight"] = bits_per_weight;
  json["layers"] = nlohmann::ordered_json::array();
  for (const LayerReport& layer : layers) {
    json["layers"].push_back({{"name", layer.name},
                              {"format", layer.format},
                              {"relative_error", layer.relative_error},
                              {"bytes_before", layer.bytes_before},
                              {"bytes_after", layer.bytes_after}});
  }
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
  const LayerReport* worst = nullptr;
  for (const LayerReport& layer : report.layers) {
    if (worst == nullptr || layer.relative_error > worst->relative_error) worst = &layer;
  }
  if (worst != nullptr) out << ", worst layer error " << rounded(100 * worst->relative_error) << " % (" << worst->name << ")";
  return out;
}

}  // namespace bantam::inline v0
