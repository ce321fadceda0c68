// Checkpoints without files of weights: those made of others, in memory or with a head of their own, and outlines.
#include <algorithm>
#include <numeric>
#include <tuple>

#include "bantam/io/file.hpp"
#include "bantam/model/archs.hpp"
#include "bantam/model/native_file.hpp"
#include "bantam/model/roles.hpp"
#include "match_tensors.hpp"
#include "metadata.hpp"
#include "io/config_text.hpp"
#include "sources/strip16_source.hpp"

namespace bantam::inline v0 {

std::vector<NativeWriter::Entry> entries_in_memory(const Checkpoint& checkpoint) {
  std::vector<NativeWriter::Entry> entries;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    entries.push_back({tensor.tensor_name(), tensor.is_matrix ? &tensor.format() : nullptr, tensor.rows, tensor.columns, tensor.order().get()});
    entries.back().layer = tensor.layer;
    entries.back().expert = tensor.expert;
  }
  return entries;
}

Checkpoint Checkpoint::in_memory(const Checkpoint& like, std::shared_ptr<const ModelWeights> weights, std::string recipe_json) {
  std::vector<std::int64_t> layers(static_cast<std::size_t>(like.config_.layers));
  std::iota(layers.begin(), layers.end(), 0);
  return in_memory(like, like.config_, layers, std::move(weights), std::move(recipe_json));
}

Checkpoint Checkpoint::in_memory(const Checkpoint& like, const ModelConfig& config, std::span<const std::int64_t> layers,
                                 std::shared_ptr<const ModelWeights> weights, std::string recipe_json) {
  BANTAM_ASSERT(static_cast<std::int64_t>(layers.size()) == config.layers);
  Checkpoint c;
  c.container_ = "memory";
  c.config_ = config;
  c.tokenizer_ = like.tokenizer_;
  c.metadata_ = like.metadata_;
  c.recipe_ = std::move(recipe_json);
  c.removed_ = like.removed_;
  c.file_bytes_ = weights ? weights->matrix_bytes : 0;
  for (const CheckpointTensor& tensor : like.tensors_) {
    if (tensor.role == Role::rope_divisors) continue;  // the config has them
    if (tensor.layer < 0 && !is_in_layer(tensor.role, -1, config)) continue;  // a layer that is no longer there read it
    // The layer that drafts is behind the others, here as there.
    const std::int64_t found = std::ranges::find(layers, tensor.layer) - layers.begin();
    if (tensor.is_drafting ? config.drafting.empty() : tensor.layer >= 0 && found == config.layers) continue;
    const std::int64_t place = tensor.layer < 0 ? -1 : tensor.is_drafting ? config.layers : found;
    if (tensor.expert >= 0 && tensor.expert >= config.layer(place).experts) continue;
    CheckpointTensor& own = c.tensors_.emplace_back(TensorId(tensor.role, place, tensor.expert));
    own.is_drafting = tensor.is_drafting;
    set_name(own, own.layer == tensor.layer ? tensor.tensor_name() : name_of(config, *config.key_of(tensor.role, own.layer), own));
    std::tie(own.rows, own.columns) = shape_of(tensor.role, own.layer, config);
    own.is_matrix = tensor.is_matrix;
    if (tensor.is_matrix) {
      const WeightMatrix matrix = weights ? *matrix_of(*weights, own) : WeightMatrix(tensor.format(), own.rows, own.columns, nullptr);
      BANTAM_ASSERT(matrix.rows() == own.rows && matrix.columns() == own.columns);
      // What is not in memory is where it was.
      const bool in_file = weights && matrix.empty();
      own.source = in_file ? tensor.source : source_of(matrix);
      if (in_file) c.source_ = like.source_;
    } else {
      own.source = source_of({weights, weights ? vector_of(*weights, own) : nullptr}, own.columns);
    }
  }
  c.weights_ = std::move(weights);
  return c;
}

Checkpoint Checkpoint::outline(const std::filesystem::path& path) {
  const std::filesystem::path file = path_kind(path) == PathKind::folder ? path / "config.json" : path;
  Checkpoint c;
  c.path_ = path;
  c.container_ = "config";
  c.config_ = read_hf_config(file);
  c.metadata_ = metadata_of(detail::read_config_text(file));
  c.config_.drafting = c.config_.drafting_like();
  const auto type = c.metadata_.find(c.metadata_.contains("dtype") ? "dtype" : "torch_dtype");
  const FormatInfo& format = find_format(type == c.metadata_.end() || type->second == "bfloat16" ? "bf16" : type->second == "float32" ? "f32" : "f16");
  for (std::int64_t layer = -1; layer < c.config_.layers + std::ssize(c.config_.drafting); ++layer) c.outline_layer(layer, format);
  return c;
}

void Checkpoint::outline_layer(std::int64_t layer, const FormatInfo& format) {
  for_each_key(config_, layer, false, [&](const TensorKey& key) {
    const RoleInfo& info = info_of(key.role);
    if (key.role == Role::head ? config_.tied : key.presence == Presence::optional) return;
    const auto [rows, columns] = shape_of(key.role, layer, config_);
    const std::int64_t experts = info.is_of_expert() ? config_.layer(layer).experts : 0;
    for (std::int64_t e = experts > 0 ? 0 : -1; e < experts; ++e) {
      CheckpointTensor& tensor = tensors_.emplace_back(TensorId(key.role, layer, e));
      set_name(tensor, name_of(config_, key, tensor));
      tensor.rows = rows;
      tensor.columns = columns;
      tensor.is_matrix = info.is_matrix();
      tensor.is_drafting = config_.is_drafting(layer);
      tensor.source = tensor.is_matrix ? source_of(WeightMatrix(format, rows, columns, nullptr)) : source_of(std::shared_ptr<const std::vector<float>>(), columns);
    }
  });
}

Checkpoint Checkpoint::in_formats(FunctionRef<const FormatInfo&(const CheckpointTensor& matrix)> format_of) const {
  Checkpoint c = *this;
  for (CheckpointTensor& tensor : c.tensors_) {
    tensor.source = tensor.is_matrix ? source_of(WeightMatrix(format_of(tensor), tensor.rows, tensor.columns, nullptr)) : source_of(std::shared_ptr<const std::vector<float>>(), tensor.columns);
  }
  return c;
}

Checkpoint Checkpoint::without_drafting() const {
  Checkpoint c = *this;
  c.config_.drafting.clear();
  std::erase_if(c.tensors_, [](const CheckpointTensor& tensor) { return tensor.is_drafting; });
  return c;
}

Checkpoint Checkpoint::untied() const {
  Checkpoint c = *this;
  if (!config_.tied) return c;
  const auto of_role = [](Role role) { return [role](const auto& tensor) { return tensor.role == role; }; };
  const TensorKey* key = config_.arch->find(Role::head);
  if (key != nullptr && !key->hf.empty()) {
    CheckpointTensor head = *std::ranges::find_if(tensors_, of_role(Role::embedding));
    head.role = Role::head;
    set_name(head, std::string(key->hf));
    c.tensors_.insert(std::ranges::find_if(c.tensors_, of_role(Role::final_norm)) + 1, std::move(head));
    c.config_.tied = false;
    return c;
  }
  fail(Errc::unsupported, path_.string(), ": expected an architecture with a head of its own, found ", config_.arch->name);
}

}  // namespace bantam::inline v0
