// The containers that compressed models are written to.
#include "output.hpp"

#include <nlohmann/json.hpp>

#include "gguf_output.hpp"
#include "huggingface_folder.hpp"

namespace bantam::inline v0 {

namespace {

std::string recipe_record(const Recipe& recipe, const Checkpoint& checkpoint) {
  auto json = nlohmann::ordered_json::parse(recipe.to_json());
  json["source"] = checkpoint.path().filename().string();
  return json.dump();
}

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

}  // namespace

std::unique_ptr<Output> make_output(Target target, const std::filesystem::path& path, const Checkpoint& checkpoint, const Recipe& recipe,
                                    const std::vector<NativeWriter::Entry>& entries) {
  if (target == Target::safetensors) return std::make_unique<HuggingFaceFolderWriter>(path, checkpoint, recipe.format(), entries);
  if (std::filesystem::is_directory(path)) fail(Errc::invalid_argument, path.string(), ": expected the name of a file, found a folder");
  if (target == Target::gguf) return std::make_unique<GgufOutput>(path, checkpoint, entries);
  return std::make_unique<NativeOutput>(path, checkpoint, recipe, entries);
}

std::int64_t output_bytes(Target target, const Checkpoint& checkpoint, const Recipe& recipe, const std::vector<NativeWriter::Entry>& entries) {
  switch (target) {
    case Target::safetensors: return huggingface_file_bytes(recipe.format(), entries);
    case Target::gguf: return gguf_file_bytes(checkpoint, entries);
    case Target::native: break;
  }
  return static_cast<std::int64_t>(NativeWriter::file_bytes(checkpoint.config(), checkpoint.tokenizer(), recipe_record(recipe, checkpoint), entries));
}

StoredSize stored_size(Target target, std::int64_t rows, std::int64_t columns, const FormatInfo& format) {
  switch (target) {
    case Target::safetensors: return {rows * columns * static_cast<std::int64_t>(format.bits_per_weight) / 8, 1};
    case Target::gguf: return {rows * source_type_of(format)->row_bytes(columns), gguf_alignment};
    case Target::native: break;
  }
  return {format.matrix_bytes(rows, columns), native::alignment};
}

}  // namespace bantam::inline v0
