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
#include "huggingface_folder.hpp"

namespace bantam::inline v0 {

namespace {

/// Where rows of floats come from.
using ReadRow = FunctionRef<void(std::int64_t row, std::span<float> out, RowCodes& scratch)>;

struct Rounded {
  WeightMatrix matrix;
  double relative_error = 0;
};

void check_finite(const std::string& name, std::int64_t row, std::span<const float> values) {
  for (std::size_t c = 0; c < values.size(); ++c) {
    if (!std::isfinite(values[c])) fail(Errc::corrupt, name, ": expected finite weights, found ", values[c], " at (", row, ", ", c, ")");
  }
}

[[noreturn]] void fail_too_large(const std::string& name, const FormatInfo& format, float value, std::int64_t row, std::size_t column) {
  fail(Errc::invalid_argument, name, ": expected weights that ", format.name, " can hold, found ", value, " at (", row, ", ", column, ")");
}

/// For matrices that are copied as they are.
void check_finite(const std::string& name, const WeightMatrix& matrix) {
  parallel_for(div_up<std::int64_t>(matrix.rows(), panel_rows), 1, [&](Range panels) {
    std::vector<float> values(static_cast<std::size_t>(matrix.columns()));
    RowCodes scratch;
    for (std::int64_t row = panels.begin * panel_rows; row < std::min(panels.end * panel_rows, matrix.rows()); ++row) {
      matrix.read_row(row, values, scratch);
      check_finite(name, row, values);
    }
  });
}

/// ||W - W'|| / ||W|| of a matrix, on all cores; `rows_of` makes a row of W and one of W'. Sums are added in row order: the
/// same on any machine. Throws naming the weight where W' is not finite.
double relative_error(const std::string& name, const FormatInfo& format, std::int64_t rows, std::int64_t columns,
                      FunctionRef<void(std::int64_t row, std::span<float> original, std::span<float> decoded, RowCodes& scratch)> rows_of) {
  struct Sums {
    double difference = 0;
    double size = 0;
  };
  std::vector<Sums> panels(static_cast<std::size_t>(div_up<std::int64_t>(rows, panel_rows)));
  parallel_for(static_cast<std::int64_t>(panels.size()), 1, [&](Range range) {
    std::vector<float> original(static_cast<std::size_t>(columns));
    std::vector<float> decoded(static_cast<std::size_t>(columns));
    RowCodes scratch;
    for (std::int64_t p = range.begin; p < range.end; ++p) {
      Sums& sums = panels[static_cast<std::size_t>(p)];
      for (std::int64_t row = p * panel_rows; row < std::min((p + 1) * panel_rows, rows); ++row) {
        rows_of(row, original, decoded, scratch);
        for (std::size_t c = 0; c < original.size(); ++c) {
          if (!std::isfinite(decoded[c])) fail_too_large(name, format, original[c], row, c);
          const double d = static_cast<double>(original[c]) - static_cast<double>(decoded[c]);
          sums.difference += d * d;
          sums.size += static_cast<double>(original[c]) * static_cast<double>(original[c]);
        }
      }
    }
  });
  Sums all;
  for (const Sums& sums : panels) {
    all.difference += sums.difference;
    all.size += sums.size;
  }
  return all.size > 0 ? std::sqrt(all.difference / all.size) : 0.0;
}

/// Rounds a matrix row by row on all cores.
Rounded round_matrix(const std::string& name, std::int64_t rows, std::int64_t columns, const FormatInfo& format, ReadRow read) {
  const auto data = allocate_storage(static_cast<std::size_t>(format.matrix_bytes(rows, columns)));
  const std::int64_t panel_bytes = format.panel_bytes(columns);
  const double error = relative_error(name, format, rows, columns, [&](std::int64_t row, std::span<float> original, std::span<float> decoded, RowCodes& scratch) {
    std::byte* panel = data.get() + row / panel_rows * panel_bytes;
    const int lane = static_cast<int>(row % panel_rows);
    read(row, original, scratch);
    check_finite(name, row, original);
    format.encode_row(panel, lane, original, scratch);
    format.decode_row(panel, lane, decoded, scratch);
  });
  return {{format, rows, columns, data}, error};
}

bool is_table(Role role) { return role == Role::embedding || role == Role::head; }

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

/// Bytes of a file, or of a folder's checkpoint files.
std::int64_t bytes_of(const std::filesystem::path& path) {
  if (std::filesystem::is_regular_file(path)) return static_cast<std::int64_t>(std::filesystem::file_size(path));
  std::int64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    if (entry.is_regular_file() && entry.path().extension() == ".safetensors") bytes += static_cast<std::int64_t>(entry.file_size());
  }
  return bytes;
}

}  // namespace

Report compress_file(const Checkpoint& checkpoint, const std::filesystem::path& out, const Recipe& recipe, Target target,
                     const ProgressFn& progress, const Calibration& calibration) {
  const auto is_input = [&](const CheckpointTensor& tensor) { return same_file(tensor.entry->file->path(), out); };
  if (same_file(checkpoint.path(), out) || std::ranges::any_of(checkpoint.tensors(), is_input)) {
    fail(Errc::invalid_argument, out.string(), ": expected an output other than the input, found the same file");
  }
  std::vector<NativeWriter::Entry> entries;
  std::int64_t matrices = 0, weights = 0, bytes = 0;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    if (!tensor.is_matrix && tensor.role == Role::rope_divisors) continue;
    const FormatInfo* format = tensor.is_matrix ? &recipe.format_of(tensor.name, is_table(tensor.role)) : nullptr;
    if (target == Target::safetensors && format != nullptr && !format->is_float) {
      fail(Errc::invalid_argument, "format: expected f32, f16 or bf16 for plain safetensors, found ", format->name, " for ", tensor.name);
    }
    const bool copied = format != nullptr && format == &tensor.format();
    entries.push_back({tensor.tensor_name(), format, tensor.rows, tensor.columns, copied ? tensor.order.get() : nullptr});
    if (format == nullptr) continue;
    ++matrices;
    weights += tensor.rows * tensor.columns;
    bytes += tensor.stored_bytes();
  }
  Tracker tracker(progress, matrices, bytes);
  tracker.report.bytes_before = bytes_of(checkpoint.path());

  std::unique_ptr<NativeWriter> native;
  std::unique_ptr<HuggingFaceFolderWriter> folder;
  if (target == Target::native) {
    if (std::filesystem::is_directory(out)) fail(Errc::invalid_argument, out.string(), ": expected the name of a file, found a folder");
    native = std::make_unique<NativeWriter>(out, checkpoint.config(), checkpoint.tokenizer(),
                                            recipe_record(recipe, checkpoint.path().filename().string()), entries);
  } else {
    folder = std::make_unique<HuggingFaceFolderWriter>(out, checkpoint, recipe.format(), entries);
  }
  std::optional<BlockPass> pass;
  if (recipe.method() != Method::rtn) pass.emplace(checkpoint, recipe, calibration);
  std::map<Role, WeightMatrix> block;  // what the pass has rounded
  std::int64_t layer = -1;             // of it
  std::size_t next = 0;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    if (pass && tensor.layer > layer) {
      layer = tensor.layer;
      block = pass->round_block(layer);
    }
    if (!tensor.is_matrix) {
      if (tensor.role == Role::rope_divisors) continue;
      const std::vector<float> vector = checkpoint.load_vector(tensor);
      check_finite(tensor.name, 0, vector);
      for (std::size_t c = 0; folder && recipe.format().id == F16Format::id && c < vector.size(); ++c) {
        if (!std::isfinite(float(f16(vector[c])))) fail_too_large(tensor.name, recipe.format(), vector[c], 0, c);
      }
      native ? native->write(std::as_bytes(std::span(vector))) : folder->write_vector(vector);
      ++next;
      continue;
    }
    const FormatInfo& format = *entries[next++].format;
    Rounded rounded;
    if (const auto found = block.find(tensor.role); found != block.end() && tensor.layer == layer) {
      rounded.matrix = found->second;
      rounded.relative_error = relative_error(tensor.name, format, tensor.rows, tensor.columns,
                                              [&](std::int64_t row, std::span<float> original, std::span<float> decoded, RowCodes& scratch) {
                                                checkpoint.read_row(tensor, row, original, scratch);
                                                rounded.matrix.read_row(row, decoded, scratch);
                                              });
    } else if (&format == &tensor.format()) {
      rounded.matrix = checkpoint.load_matrix(tensor, Reading::mapped);
      check_finite(tensor.name, rounded.matrix);
    } else {
      rounded = round_matrix(tensor.name, tensor.rows, tensor.columns, format, [&](std::int64_t row, std::span<float> to, RowCodes& scratch) {
        checkpoint.read_row(tensor, row, to, scratch);
      });
      tensor.entry->file->drop(tensor.entry->bytes);
    }
    if (native) {
      native->write({rounded.matrix.view().data, static_cast<std::size_t>(rounded.matrix.bytes())});
    } else {
      folder->write_matrix(rounded.matrix);
    }
    tracker.formats.emplace_back(&format, tensor.rows * tensor.columns);
    tracker.add({tensor.name, std::string(format.name), rounded.relative_error,
                 tensor.stored_bytes(), rounded.matrix.bytes()});
  }
  native ? native->commit() : folder->commit();
  tracker.finish(weights);
  tracker.report.bytes_after = bytes_of(out);
  return std::move(tracker.report);
}

std::pair<Model, Report> compress(const Model& model, const Recipe& recipe, const ProgressFn& progress) {
  if (recipe.method() != Method::rtn) fail(Errc::unsupported, "compress in memory: methods that calibrate: not yet; what works: compress_file");
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
      Rounded rounded = round_matrix(tensor.name, tensor.rows, tensor.columns, format, [&](std::int64_t row, std::span<float> to, RowCodes& scratch) {
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
