// llama.cpp's importance matrices: two kinds of file, and a run of the model that makes one.
#include "bantam/calibrate/importance.hpp"

#include <cmath>
#include <cstring>

#include "bantam/core/error.hpp"
#include "bantam/core/names.hpp"
#include "bantam/io/gguf.hpp"
#include "bantam/io/gguf_writer.hpp"
#include "bantam/model/roles.hpp"
#include "block_pass.hpp"

namespace bantam::inline v0 {

namespace {

constexpr std::string_view sums_end = ".in_sum2", counts_end = ".counts";

std::vector<float> floats_of(const TensorEntry& tensor, const std::string& file) {
  if (tensor.type != "F32") fail(Errc::corrupt, file, ": ", printable(tensor.name), ": expected F32, found ", printable(tensor.type));
  std::vector<float> values(tensor.bytes.size() / sizeof(float));
  std::memcpy(values.data(), tensor.bytes.data(), values.size() * sizeof(float));
  return values;
}

/// Sums to means, `counts` for each matrix. Throws where a number is none, or below 0.
ImportanceMatrix::Entry entry_of(std::vector<float> sums, std::vector<double> counts, const std::string& place) {
  if (sums.empty() || counts.empty() || sums.size() % counts.size() != 0) {
    fail(Errc::corrupt, place, ": expected as many sums for each count, found ", sums.size(), " of ", counts.size());
  }
  const std::size_t columns = sums.size() / counts.size();
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const double count = counts[i / columns];
    if (!(std::isfinite(count) && count >= 0)) fail(Errc::corrupt, place, ": expected a count of 0 or more, found ", count);
    if (!(std::isfinite(sums[i]) && sums[i] >= 0)) fail(Errc::corrupt, place, ": expected a sum of squares, found ", sums[i], " at ", i);
    sums[i] = count > 0 ? static_cast<float>(static_cast<double>(sums[i]) / count) : 0.0f;
  }
  return {std::move(sums), std::move(counts)};
}

ImportanceMatrix read_gguf(const std::filesystem::path& path, const std::string& file) {
  const auto gguf = GgufFile::open(path);
  ImportanceMatrix importance;
  for (const TensorEntry& tensor : gguf->tensors()) {
    if (!tensor.name.ends_with(sums_end)) continue;
    const std::string name = tensor.name.substr(0, tensor.name.size() - sums_end.size());
    const TensorEntry* counted = gguf->find(name + std::string(counts_end));
    if (counted == nullptr) fail(Errc::corrupt, file, ": ", printable(name), ": expected counts beside the sums, found none");
    const std::vector<float> counts = floats_of(*counted, file);
    importance.entries[name] = entry_of(floats_of(tensor, file), {counts.begin(), counts.end()}, message(file, ": ", printable(name)));
  }
  if (const auto* texts = gguf->texts("imatrix.datasets")) importance.texts = *texts;
  importance.pieces = gguf->integer("imatrix.chunk_count").value_or(0);
  importance.piece_tokens = gguf->integer("imatrix.chunk_size").value_or(0);
  return importance;
}

/// The older kind: a number of entries, each the length of a name, the name, pieces of text, a number of values, and their sums over
/// pieces of means; then the number of pieces, the length of a text's name, and the name. Little-endian numbers of 4 bytes.
class OlderFile {
 public:
  OlderFile(std::span<const std::byte> bytes, const std::string& file) : bytes_(bytes), file_(file), place_(file) {}

  ImportanceMatrix read() {
    ImportanceMatrix importance;
    const std::int32_t entries = number("a number of entries");
    if (entries < 1) fail(Errc::corrupt, file_, ": expected an importance matrix of llama.cpp, found ", entries, " entries at its beginning");
    for (std::int32_t i = 0; i < entries; ++i) {
      const std::string name = text(message("the name of entry ", i));
      place_ = message(file_, ": ", printable(name));
      const std::int32_t pieces = number("pieces of text"), count = number("a number of values");
      if (pieces < 0) fail(Errc::corrupt, place_, ": expected 0 or more pieces of text, found ", pieces);
      if (count < 1) fail(Errc::corrupt, place_, ": expected values, found ", count);
      const auto raw = take(static_cast<std::size_t>(count) * sizeof(float), "values");
      std::vector<float> sums(static_cast<std::size_t>(count));
      std::memcpy(sums.data(), raw.data(), raw.size());
      // Of none they are not sums.
      if (!importance.entries.emplace(name, entry_of(std::move(sums), {pieces > 0 ? pieces : 1.0}, place_)).second) fail(Errc::corrupt, place_, ": expected once, found twice");
      place_ = file_;
    }
    if (at_ == bytes_.size()) return importance;  // the oldest end here
    importance.pieces = number("pieces of text");
    if (at_ < bytes_.size()) importance.texts.push_back(text("the name of a text"));
    return importance;
  }

 private:
  std::span<const std::byte> take(std::size_t size, std::string_view what) {
    if (bytes_.size() - at_ < size) fail(Errc::corrupt, place_, ": expected ", what, " of ", size, " bytes at ", at_, ", found ", bytes_.size() - at_);
    at_ += size;
    return bytes_.subspan(at_ - size, size);
  }
  std::int32_t number(std::string_view what) {
    std::int32_t value = 0;
    std::memcpy(&value, take(sizeof value, what).data(), sizeof value);
    return value;
  }
  std::string text(const std::string& what) {
    const std::int32_t length = number(what);
    if (length < 0) fail(Errc::corrupt, file_, ": expected the length of ", what, ", found ", length);
    const auto bytes = take(static_cast<std::size_t>(length), what);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  std::span<const std::byte> bytes_;
  const std::string& file_;
  std::string place_;  ///< where a fault is
  std::size_t at_ = 0;
};

/// What the matrices of blocks read, by the names of their tensors.
class ImportancePass : public BlockPass {
 public:
  ImportancePass(const ModelSource& source, const Calibration& calibration) : BlockPass(source, calibration) {}

  void measure(ImportanceMatrix& importance) {
    for (std::int64_t layer = 0; layer < checkpoint_.config().layers; ++layer) {
      if (checkpoint_.config().is_drafting(layer)) continue;
      check_cancelled();
      const LayerWeights block = *source_.acquire(layer);
      const std::vector<Hessian> moments = observe_all(block, layer);
      for (const CheckpointTensor& tensor : checkpoint_.tensors()) {
        if (tensor.layer != layer || !tensor.is_matrix || tensor.expert >= 0 || info_of(tensor.role).is_ungrouped()) continue;
        if (const auto group = group_reading(tensor.role)) note(importance, tensor, moments[*group], static_cast<double>(moments[*group].tokens()));
      }
      if (block.experts.experts.empty()) {
        advance_over(block, layer);
        continue;
      }
      for (const Half half : halves) {
        if (half == Half::feed_forward) measure_experts(importance, block, layer);
        advance(block, layer, half);
      }
    }
  }

 private:
  static std::optional<std::size_t> group_reading(Role role) {
    for (std::size_t g = 0; g < input_groups().size(); ++g) {
      if (std::ranges::find(input_groups()[g].roles, role) != input_groups()[g].roles.end()) return g;
    }
    return std::nullopt;
  }

  void note(ImportanceMatrix& importance, const CheckpointTensor& tensor, const Hessian& moments, double tokens) const {
    const ModelConfig& config = checkpoint_.config();
    const TensorKey* key = config.key_of(tensor.role, tensor.layer);
    if (key == nullptr || key->gguf.empty() || moments.columns() != tensor.columns) return;
    ImportanceMatrix::Entry& entry = importance.entries[name_in(config, key->gguf, tensor)];
    const auto matrices = static_cast<std::size_t>(tensor.expert >= 0 ? config.layer(tensor.layer).experts : 1), at = static_cast<std::size_t>(std::max<std::int64_t>(tensor.expert, 0));
    const auto columns = static_cast<std::size_t>(tensor.columns);
    entry.mean_squares.resize(matrices * columns);
    entry.counts.resize(matrices);
    std::ranges::copy(moments.mean_squares(), entry.mean_squares.begin() + static_cast<std::ptrdiff_t>(at * columns));
    entry.counts[at] = tokens;
  }

  void measure_experts(ImportanceMatrix& importance, const LayerWeights& block, std::int64_t layer) {
    const std::vector<nn::RoutedExpert> routed = route(block, layer);
    std::optional<Hessian> of_all;
    for (std::int64_t e = 0; e < std::ssize(block.experts.experts); ++e) {
      check_cancelled();
      const LayerWeights alone = expert_alone(block, e);
      const ExpertInputs inputs = inputs_of(routed, checkpoint_.config().router, e, fitted_tokens(), 1);
      for (const std::size_t group : {input_group_of(Role::gate), input_group_of(Role::down)}) {
        if (first_of(alone, input_groups()[group]) == nullptr) continue;
        const Hessian moments = observe_expert(alone, layer, group, inputs, of_all);
        for (const CheckpointTensor& tensor : checkpoint_.tensors()) {
          const bool reads = tensor.layer == layer && tensor.expert == e && tensor.is_matrix && group_reading(mlp_role_of(tensor.role)) == group;
          if (reads) note(importance, tensor, moments, static_cast<double>(inputs.seen));
        }
      }
    }
  }
};

}  // namespace

std::span<const float> ImportanceMatrix::of(std::string_view tensor, std::int64_t expert) const noexcept {
  const auto found = entries.find(tensor);
  if (found == entries.end()) return {};
  const Entry& entry = found->second;
  const std::size_t at = entry.counts.size() == 1 || expert < 0 ? 0 : static_cast<std::size_t>(expert);
  if (at >= entry.counts.size() || !(entry.counts[at] > 0)) return {};
  const std::size_t columns = entry.mean_squares.size() / entry.counts.size();
  return std::span(entry.mean_squares).subspan(at * columns, columns);
}

ImportanceMatrix read_importance(const std::filesystem::path& path) {
  const std::string file = printable(path.string(), 400);
  const auto mapped = MappedFile::open(path);
  const std::span<const std::byte> bytes = mapped->bytes();
  ImportanceMatrix importance = bytes.size() >= 4 && std::memcmp(bytes.data(), "GGUF", 4) == 0 ? read_gguf(path, file) : OlderFile(bytes, file).read();
  if (importance.entries.empty()) fail(Errc::corrupt, file, ": expected an importance matrix, tensors named NAME", sums_end, " and NAME", counts_end, ", found none");
  return importance;
}

void write_importance(const ImportanceMatrix& importance, const std::filesystem::path& path) {
  GgufWriter file(path);
  file.key("general.type", "imatrix");
  file.key("imatrix.datasets", std::span<const std::string>(importance.texts));
  file.key("imatrix.chunk_count", static_cast<std::uint32_t>(importance.pieces));
  file.key("imatrix.chunk_size", static_cast<std::uint32_t>(importance.piece_tokens));
  std::vector<GgufWriter::Announced> tensors;
  for (const auto& [name, entry] : importance.entries) {
    const std::int64_t matrices = std::ssize(entry.counts);
    tensors.push_back({name + std::string(sums_end), "F32", {matrices, std::ssize(entry.mean_squares) / matrices}});
    tensors.push_back({name + std::string(counts_end), "F32", {matrices, 1}});
  }
  file.begin(tensors);
  for (const auto& [name, entry] : importance.entries) {
    const std::size_t columns = entry.mean_squares.size() / entry.counts.size();
    std::vector<float> sums(entry.mean_squares), counts(entry.counts.begin(), entry.counts.end());
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] *= counts[i / columns];
    file.write(std::as_bytes(std::span(sums)));
    file.write(std::as_bytes(std::span(counts)));
  }
  file.commit();
}

ImportanceMatrix measure_importance(const Checkpoint& checkpoint, const Calibration& calibration) {
  const ModelSource source(checkpoint, {});
  ImportanceMatrix importance;
  for (const auto& sample : calibration.samples) importance.piece_tokens = std::max(importance.piece_tokens, std::ssize(sample));
  importance.pieces = std::ssize(calibration.samples);
  ImportancePass(source, calibration).measure(importance);
  return importance;
}

}  // namespace bantam::inline v0
