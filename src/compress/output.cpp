// The containers that compressed models are written to.
#include "output.hpp"

#include <algorithm>

#include "bantam/core/names.hpp"
#include "bantam/model/roles.hpp"
#include "gguf_output.hpp"
#include "huggingface_folder.hpp"
#include "io/json.hpp"
#include "model/arrangement.hpp"
#include "packed/writer.hpp"

namespace bantam::inline v0 {

namespace {

constexpr std::string_view target_names[] = {"native", "safetensors", "gguf", "gptq", "gptq_v2", "awq", "bnb"};

class NativeOutput : public Output {
 public:
  NativeOutput(const std::filesystem::path& path, const Checkpoint& checkpoint, const Recipe& recipe, const std::vector<NativeWriter::Entry>& entries)
      : writer_(path, checkpoint.config(), checkpoint.tokenizer(), recipe_record(recipe, checkpoint), entries) {}
  void write_vector(const CheckpointTensor&, const std::vector<float>& values) override { writer_.write(std::as_bytes(std::span(values))); }
  void write_matrix(const CheckpointTensor&, const WeightMatrix& matrix) override {
    writer_.write({matrix.view().data, static_cast<std::size_t>(matrix.bytes())});
  }
  void commit() override { writer_.commit(); }

 private:
  NativeWriter writer_;
};

bool holds(Target target, const FormatInfo& format) noexcept {
  if (target == Target::gguf) return source_type_of(format) != nullptr;
  if (format.vectors != nullptr) return false;
  if (target == Target::native || format.is_float) return true;
  const PackedWriter* family = packed_writer(target);
  return family != nullptr && family->has(format);
}

std::string formats_of(Target target) {
  std::string names;
  for (const std::span<const FormatInfo> list : {formats(), vector_formats()}) {
    for (const FormatInfo& format : list) {
      if (holds(target, format)) names += message(names.empty() ? "" : ", ", format.name);
    }
  }
  return names;
}

}  // namespace

std::string recipe_record(const Recipe& recipe, const Checkpoint& checkpoint) {
  auto json = Json::parse(recipe.to_json(), "recipe");
  if (!checkpoint.removed().empty()) json["removed"] = checkpoint.removed();
  json["source"] = checkpoint.path().filename().string();
  return json.dump();
}

MemoryOutput::MemoryOutput(const Checkpoint& checkpoint, const Recipe& recipe)
    : checkpoint_(checkpoint), record_(recipe_record(recipe, checkpoint)) {
  make_room(weights_, checkpoint.config());
}

void MemoryOutput::write_vector(const CheckpointTensor& tensor, const std::vector<float>& values) {
  *vector_of(weights_, tensor) = values;
}

void MemoryOutput::write_matrix(const CheckpointTensor& tensor, const WeightMatrix& matrix) {
  *matrix_of(weights_, tensor) = matrix;
}

void MemoryOutput::commit() { model_ = Model::from_weights(checkpoint_, std::move(weights_), std::move(record_)); }

void check_format(const FormatInfo& format, Target target, std::string_view what) {
  if (format.vectors != nullptr && target == Target::native) fail(Errc::invalid_argument, what, ": expected a GGUF file as output, which alone has ", format.name, ", found a native one");
  if (!holds(target, format)) fail(Errc::invalid_argument, what, ": expected one that such files have (", formats_of(target), "), found ", format.name);
}

std::string_view name_of(Target target) noexcept { return target_names[static_cast<std::size_t>(target)]; }
Target find_target(std::string_view name) { return targets[find_name("target", name, target_names)]; }

void check_formats(const Recipe& recipe, Target target) {
  check_format(recipe.format(), target, "format");
  for (const Recipe::Exception& exception : recipe.exceptions()) check_format(*exception.format, target, message("keep ", printable(exception.pattern)));
}

Target target_for(const std::filesystem::path& out, const Recipe& recipe) {
  std::error_code ignored;
  // Not a folder of other things, which somebody forgot to say a name in.
  const bool model_folder = std::filesystem::is_directory(out, ignored) && (std::filesystem::is_empty(out, ignored) || std::filesystem::exists(out / "config.json", ignored));
  const bool folder = !out.has_filename() || model_folder;
  if (!folder && out.extension() == ".safetensors") {
    fail(Errc::invalid_argument, printable(out.string(), 400),
         ": expected a name that says what to write: a folder (out/) for Hugging Face's loaders, or a native file (.bantam)");
  }
  if (!folder) return out.extension() == ".gguf" ? Target::gguf : Target::native;
  if (recipe.format().is_float) return Target::safetensors;
  const bool awq = recipe.method() == Method::awq || recipe.method() == Method::awq_gptq;
  for (const Target target : {awq ? Target::awq : Target::gptq, Target::gptq, Target::awq, Target::bnb}) {
    if (holds(target, recipe.format())) return target;
  }
  fail(Errc::invalid_argument, "format: expected one that Hugging Face folders have (", formats_of(Target::gptq), ", ", formats_of(Target::bnb), "), found ",
       recipe.format().name);
}

const FormatInfo& format_in(Target target, const CheckpointTensor& tensor, const Recipe& recipe, const ModelConfig& config) {
  const FormatInfo& asked = recipe.format_of(tensor.name, info_of(tensor.role).is_table());
  if (target == Target::gguf) return gguf_format(tensor, asked);
  const PackedWriter* family = packed_writer(target);
  if (family == nullptr || asked.is_float) return asked;
  const Arrangement theirs = arrangement_of(tensor, config, Container::folder);
  const bool is_arranged = !theirs.rows.empty() || !theirs.columns.empty();
  if (info_of(tensor.role).by_heads) return format_info<F16Format>();  // one tensor with its sister, transposed
  if (is_arranged) return format_info<F16Format>();  // packed columns stay where they are
  if (!info_of(tensor.role).is_table()) return family->fits(asked, tensor.rows, tensor.columns) ? asked : format_info<F16Format>();
  const auto names_it = [&](const Recipe::Exception& exception) { return matches(tensor.name, exception.pattern); };
  if (std::ranges::any_of(recipe.exceptions(), names_it)) {
    fail(Errc::invalid_argument, tensor.name, ": expected f32, f16 or bf16, as such files have embeddings and heads, found ", asked.name);
  }
  return format_info<F16Format>();
}

bool is_copied(Target target, const CheckpointTensor& tensor, const FormatInfo& format) noexcept {
  const PackedWriter* family = packed_writer(target);
  const bool keeps_order = target == Target::native || (family != nullptr && family->keeps_order());
  return &format == &tensor.format() && (tensor.order() == nullptr || keeps_order);
}

const FormatInfo& vector_format(Target target, const Recipe& recipe) noexcept {
  if (target == Target::safetensors) return recipe.format();
  return packed_writer(target) != nullptr ? format_info<F16Format>() : format_info<F32Format>();
}

std::unique_ptr<Output> make_output(Target target, const std::filesystem::path& path, const Checkpoint& checkpoint, const Recipe& recipe,
                                    const std::vector<NativeWriter::Entry>& entries) {
  if (writes_folder(target)) {
    return std::make_unique<HuggingFaceFolderWriter>(path, checkpoint, vector_format(target, recipe), entries, packed_writer(target), recipe);
  }
  if (path_kind(path) == PathKind::folder) fail(Errc::invalid_argument, path.string(), ": expected the name of a file, found a folder");
  if (target == Target::gguf) return std::make_unique<GgufOutput>(path, checkpoint, entries);
  return std::make_unique<NativeOutput>(path, checkpoint, recipe, entries);
}

const Checkpoint& as_written(Target target, const Checkpoint& checkpoint, std::optional<Checkpoint>& folded) {
  if (target != Target::gguf || !checkpoint.config().arch->folds_scales) return checkpoint;
  return folded.emplace(checkpoint.with_folded_scales());
}

std::int64_t output_bytes(Target target, const Checkpoint& checkpoint, const Recipe& recipe, const std::vector<NativeWriter::Entry>& entries) {
  if (writes_folder(target)) return huggingface_file_bytes(vector_format(target, recipe), entries, packed_writer(target));
  if (target == Target::gguf) return gguf_file_bytes(checkpoint, entries);
  return static_cast<std::int64_t>(NativeWriter::file_bytes(checkpoint.config(), checkpoint.tokenizer(), recipe_record(recipe, checkpoint), entries));
}

StoredSize stored_size(Target target, std::int64_t rows, std::int64_t columns, const FormatInfo& format) {
  if (writes_folder(target)) return {huggingface_matrix_bytes(rows, columns, format, packed_writer(target)), 1};
  if (target == Target::gguf) return {rows * source_type_of(format)->row_bytes(columns), gguf_alignment};
  return {format.matrix_bytes(rows, columns), native::alignment};
}

}  // namespace bantam::inline v0
