// Formats and sizes of an output before it is written.
#include "plan.hpp"

#include <algorithm>

#include "calibrate/model_source.hpp"
#include "gguf_output.hpp"
#include "joined.hpp"
#include "model/arrangement.hpp"
#include "model/match_tensors.hpp"
#include "model/ngram_config.hpp"
#include "output.hpp"
#include "rounding.hpp"

namespace bantam::inline v0 {

namespace {

/// The shape of a vector in a folder.
std::vector<std::int64_t> folder_shape(const ModelConfig& config, const CheckpointTensor& tensor) {
  const TensorKey* key = config.key_of(tensor.role, tensor.layer);
  if (key != nullptr && key->is_scalar) return {};
  if (key != nullptr && key->is_row) return {1, tensor.columns};
  std::vector<std::int64_t> shape = stored_shape(tensor, config, Container::folder);
  return shape.empty() ? std::vector{tensor.columns} : shape;
}

void check_prunable(const Recipe& recipe, const CheckpointTensor& tensor, const FormatInfo& format) {
  naming(tensor.name, [&] { check(recipe.pruning_of(tensor.name)->sparsity, tensor.columns); });
  if (!holds_zero(format)) {
    fail(Errc::invalid_argument, tensor.name, ": expected a format that holds 0 exactly, to prune, found ", format.name,
         "; i4, i4z, nf4, q3_k, q6_k and f16 do");
  }
}

}  // namespace

void check_holds(const Recipe& recipe, const FormatInfo& format, std::string_view what) {
  const std::optional<Pruning> pruning = recipe.pruning_of(what);
  const bool chooses = recipe.method() == Method::rtn && !pruning;
  if (chooses || holds_rest(format, pruning ? pruning->sparsity : Sparsity{})) return;
  const std::string pattern = to_string(sparsity_of(format));
  fail(Errc::invalid_argument, what, ": ", format.name, " holds what pruning by ", pattern, " leaves: expected --prune wanda:", pattern, " or sparsegpt:",
       pattern, ", found ", pruning ? pruning->text() : "none");
}

std::vector<NativeWriter::Entry> entries_of(const Checkpoint& checkpoint, const Recipe& asked, Target target) {
  check_formats(asked, target);
  const Recipe recipe = asked.for_model(checkpoint);
  if (target != Target::native && !checkpoint.config().is_uniform() && !checkpoint.config().has_block_configs()) {
    fail(Errc::unsupported, name_of(target), ": expected layers of the same heads and FFN width, which such files give once, found several; native files hold them");
  }
  const TensorKey* experts = checkpoint.config().arch->find(Role::expert_gate, true);
  if (writes_folder(target) && target != Target::safetensors && experts != nullptr && !experts->fused.name.empty()) {
    fail(Errc::unsupported, name_of(target), ": experts of ", checkpoint.config().arch->name, " lie in one tensor, which such folders have in floats alone; native and GGUF files hold them");
  }
  const auto joins = [&](const CheckpointTensor& tensor) {
    const std::optional<Joined> joined = tensor.is_matrix ? joined_of(checkpoint.config(), tensor) : std::nullopt;
    return joined && joined->own;
  };
  if (writes_folder(target) && target != Target::safetensors) {
    const auto fused = std::ranges::find_if(checkpoint.tensors(), joins);
    if (fused != checkpoint.tensors().end()) {
      fail(Errc::unsupported, name_of(target), ": ", fused->name, " of ", checkpoint.config().arch->name, " lies in one tensor with others, which such folders have in floats alone; native and GGUF files hold them");
    }
  }
  std::vector<NativeWriter::Entry> entries;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    if (!tensor.is_matrix && tensor.role == Role::rope_divisors) continue;
    const FormatInfo* format = tensor.is_matrix ? &format_in(target, tensor, recipe, checkpoint.config()) : nullptr;
    const bool copied = format != nullptr && is_copied(target, tensor, *format) && !recipe.options().rotation && !is_pruned(recipe, tensor);
    if (is_pruned(recipe, tensor)) check_prunable(recipe, tensor, *format);
    if (format != nullptr && tensor.layer >= 0 && !copied) check_holds(recipe, *format, tensor.name);
    NativeWriter::Entry& entry = entries.emplace_back(NativeWriter::Entry{tensor.tensor_name(), format, tensor.rows, tensor.columns, copied ? tensor.order().get() : nullptr});
    if (!tensor.is_matrix) entry.shape = folder_shape(checkpoint.config(), tensor);
    entry.layer = tensor.layer;
    entry.expert = tensor.expert;
    if (!writes_folder(target)) continue;
    entry.pieces = names_of_pieces(checkpoint.config(), tensor);
    if (const std::optional<Joined> joined = joined_of(checkpoint.config(), tensor)) entry.joined = joined->name, entry.joined_shape = joined->shape;
  }
  for (auto& [name, numbers] : detail::ngram_tensors(checkpoint.config())) {
    if (writes_folder(target)) entries.push_back({.name = std::move(name), .format = nullptr, .rows = 1, .columns = std::ssize(numbers), .wholes = std::move(numbers)});
  }
  return entries;
}

Plan plan_file(const Checkpoint& original, const Recipe& asked, Target target) {
  std::optional<Checkpoint> folded;
  const ModelSource source(as_written(target, original, folded), asked.options().rotation);
  const Checkpoint& checkpoint = source.checkpoint();
  const Recipe recipe = asked.for_model(checkpoint);
  const std::vector<NativeWriter::Entry> entries = entries_of(checkpoint, recipe, target);
  Plan plan;
  plan.bytes_before = checkpoint.stored_bytes();
  plan.bytes = output_bytes(target, checkpoint, recipe, entries);
  std::int64_t weights = 0, bytes = 0;
  std::size_t next = 0;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    if (!tensor.is_matrix && tensor.role == Role::rope_divisors) continue;
    const FormatInfo* format = entries[next++].format;
    if (format == nullptr) continue;
    const std::int64_t size = stored_size(target, tensor.rows, tensor.columns, *format).bytes;
    plan.matrices.push_back({tensor.name, format, tensor.rows * tensor.columns, tensor.stored_bytes(), size, tensor.expert});
    weights += tensor.rows * tensor.columns;
    bytes += size;
  }
  plan.bits_per_weight = weights > 0 ? 8 * static_cast<double>(bytes) / static_cast<double>(weights) : 0;
  return plan;
}

}  // namespace bantam::inline v0
