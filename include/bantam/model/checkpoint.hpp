// A checkpoint of any container: its config, tokenizer and weights by role, opened and checked, nothing read yet.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bantam/io/tensor_source.hpp"
#include "bantam/model/config.hpp"
#include "bantam/model/matrix_source.hpp"
#include "bantam/model/source_type.hpp"
#include "bantam/text/tokenizer.hpp"

namespace bantam::inline v0 {

struct ModelWeights;
struct ScaledAdapter;
class PackedFamily;

/// One tensor that the model uses.
struct CheckpointTensor : TensorId {
  CheckpointTensor() = default;
  explicit CheckpointTensor(const TensorId& id) noexcept : TensorId(id) {}

  std::string name;       ///< Hugging Face's, without ".weight": "model.layers.0.mlp.down_proj"
  bool is_weight = true;  ///< its name in files ends with ".weight"
  std::int64_t rows = 0;  ///< 1 for vectors
  std::int64_t columns = 0;
  bool is_matrix = false;
  bool is_drafting = false;  ///< of the layer that drafts, which takes no part in passes
  std::shared_ptr<const MatrixSource> source;  ///< its numbers, rows in Hugging Face's order
  std::string expected_hash;  ///< native files: XXH3-64 of the bytes, hexadecimal

  /// Its name in safetensors files: Hugging Face's.
  [[nodiscard]] std::string tensor_name() const;
  /// The format that holds the tensor exactly.
  [[nodiscard]] const FormatInfo& format() const noexcept { return source->format(); }
  /// The order of columns that load_matrix gives; null: the model's.
  [[nodiscard]] const std::shared_ptr<const ColumnPermutation>& order() const noexcept { return source->order(); }
  /// How the file spells its type: "Q4_0", "IQ2_XS, kept in iq2.g16", "gptq 4 bits, groups of 128", or our format's name.
  [[nodiscard]] const std::string& stored_as() const noexcept { return source->description(); }
  [[nodiscard]] std::int64_t stored_bytes() const noexcept { return source->stored_bytes(); }
};

/// What a file says of its model, key by key: numbers, truth values and texts of GGUF's metadata or of config.json, members of
/// members after a dot ("rope_scaling.factor"). Lists are left out, the vocabulary among them, and keys of more than
/// 256 bytes; of hostile files there are no more than 10 000. Ordered by key.
using Metadata = std::map<std::string, std::string, std::less<>>;

/// What a zero point of GPTQ's first version stands for where all its bits are set, in files that are not symmetric: it is
/// stored less one, and kernels differ in what they make of the carry.
enum class GptqZero : std::uint8_t {
  automatic,  ///< wrapped, with a word in Checkpoint::warnings() unless the file says that GPTQModel wrote it
  wrapped,    ///< 0: (stored + 1) mod 2^bits, the definition
  legacy,     ///< 2^bits: what AutoGPTQ's kernels computed
};

/// By the names above. Throws invalid_argument listing them.
[[nodiscard]] GptqZero find_gptq_zero(std::string_view name);

struct OpenOptions {
  GptqZero gptq_zero = GptqZero::automatic;
};

class Checkpoint {
 public:
  /// `path`: a Hugging Face folder, a GGUF or a native file, told apart by content whatever it is called, or what else find_model()
  /// finds. Throws Error naming the place for whatever is missing, superfluous or misshapen.
  [[nodiscard]] static Checkpoint open(const std::filesystem::path& path, const OpenOptions& options = {});
  /// What a config.json, or a folder with one and no weights, says that a model consists of: shapes in the type that it names, to be looked
  /// at, not read. What files of the architecture may have or lack is left out, but for a head. It has no tokenizer.
  [[nodiscard]] static Checkpoint outline(const std::filesystem::path& path);
  /// The model of another checkpoint with weights that lie in memory: same shapes, any formats. Matrices without bytes are those of `like`.
  [[nodiscard]] static Checkpoint in_memory(const Checkpoint& like, std::shared_ptr<const ModelWeights> weights, std::string recipe_json);
  /// The same with other shapes, which `config` says, of some of the layers, ascending. Without weights: shapes and the formats
  /// that `like` has, to be looked at, not read.
  [[nodiscard]] static Checkpoint in_memory(const Checkpoint& like, const ModelConfig& config, std::span<const std::int64_t> layers,
                                            std::shared_ptr<const ModelWeights> weights, std::string recipe_json);

  /// The same shapes with matrices in other formats: to be looked at, not read.
  [[nodiscard]] Checkpoint in_formats(FunctionRef<const FormatInfo&(const CheckpointTensor& matrix)> format_of) const;

  /// Empty for models in memory.
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  /// "safetensors", "gguf", "bantam", "memory", or "config" of an outline.
  [[nodiscard]] const std::string& container() const noexcept { return container_; }
  [[nodiscard]] const ModelConfig& config() const noexcept { return config_; }
  [[nodiscard]] const Tokenizer& tokenizer() const noexcept { return *tokenizer_; }
  /// In layer order; the same order whatever the container.
  [[nodiscard]] const std::vector<CheckpointTensor>& tensors() const noexcept { return tensors_; }
  /// Of the file, and of models in memory that came from one.
  [[nodiscard]] const Metadata& metadata() const noexcept { return metadata_; }
  /// The JSON of the recipe that made a native file or a model in memory; empty otherwise.
  [[nodiscard]] const std::string& recipe() const noexcept { return recipe_; }
  /// Parts that were taken out of a model in memory or a native file, and of those it was made of: "heads:0.25". Recipes of files
  /// name them.
  [[nodiscard]] const std::vector<std::string>& removed() const noexcept { return removed_; }
  void note_removed(std::string part) { removed_.push_back(std::move(part)); }
  /// Of a model in memory, or what of it is there; null for files, and for shapes alone.
  [[nodiscard]] const std::shared_ptr<const ModelWeights>& weights() const noexcept { return weights_; }
  /// Of all tensors that the files hold.
  [[nodiscard]] std::int64_t file_bytes() const noexcept { return file_bytes_; }
  /// What the model takes on disk: the files that hold its tensors, whole. Of a model in memory those that it was loaded from as
  /// it is; of one that was made in memory the native file that Model::save writes. Every report's size of a model is this.
  [[nodiscard]] std::int64_t stored_bytes() const;
  /// Of a model in memory that was loaded as it lies there.
  void note_stored_bytes(std::int64_t bytes) noexcept { stored_bytes_ = bytes; }
  /// Names of a folder's tensors that belong to other parts than the language model: images, sound.
  [[nodiscard]] const std::vector<std::string>& left_out() const noexcept { return left_out_; }
  /// What the files leave open and was decided, a line each, for people.
  [[nodiscard]] const std::vector<std::string>& warnings() const noexcept { return warnings_; }

  /// The same with a head of its own, after the final norm, that is read from the embedding's bytes; a copy of it where the
  /// model is not tied. Throws unsupported when the architecture has no name for a head.
  [[nodiscard]] Checkpoint untied() const;

  /// The same with adapters added to its weights, which are summed up in double precision as they are read, and are in f32 where something
  /// was added. A head that is the embedding, and is changed apart from it, gets its own. Throws as Adapter::check_fits() does.
  [[nodiscard]] Checkpoint merged(std::span<const ScaledAdapter> adapters) const;

  /// Of these, as fingerprint_of() says; 0: none.
  [[nodiscard]] std::uint64_t merged_adapters() const noexcept { return merged_; }

  /// The same with all scales of its model in the weights, as GGUF files of some architectures have it (ArchSpec::folds_scales); a copy of it
  /// for the others.
  [[nodiscard]] Checkpoint with_folded_scales() const;

  /// The same without the layer that drafts.
  [[nodiscard]] Checkpoint without_drafting() const;

  /// Row `row` of a matrix (or the whole vector) as floats, rows in Hugging Face's order. out: (columns).
  void read_row(const CheckpointTensor& tensor, std::int64_t row, std::span<float> out, RowCodes& scratch) const {
    tensor.source->read_row(row, out, scratch);
  }
  /// The whole matrix in strip16, bit-exact. Source pages are given back to the system.
  [[nodiscard]] WeightMatrix load_matrix(const CheckpointTensor& tensor, Reading reading, StorageArena* arena = nullptr) const { return tensor.source->load(reading, arena); }
  [[nodiscard]] std::vector<float> load_vector(const CheckpointTensor& tensor) const;
  /// Gives the pages of a tensor that was read back to the system.
  void drop(const CheckpointTensor& tensor) const noexcept { tensor.source->drop(); }

 private:
  Checkpoint() = default;
  static Checkpoint open_folder(const std::filesystem::path& path, const OpenOptions& options);
  static Checkpoint open_gguf(const std::filesystem::path& path);
  static Checkpoint open_native(const std::filesystem::path& path);
  void find_tensors(const PackedFamily* family = nullptr);
  void outline_layer(std::int64_t layer, const FormatInfo& format);
  void warn_of_doubts();

  std::filesystem::path path_;
  std::string container_;
  ModelConfig config_;
  std::optional<Tokenizer> tokenizer_;
  std::shared_ptr<const TensorSource> source_;   ///< null: all is in memory
  std::shared_ptr<const ModelWeights> weights_;  ///< null: in files
  std::vector<CheckpointTensor> tensors_;
  Metadata metadata_;
  std::string recipe_;
  std::vector<std::string> removed_;
  std::int64_t file_bytes_ = 0;
  std::int64_t stored_bytes_ = 0;  ///< 0: to be found
  std::uint64_t merged_ = 0;
  std::vector<std::string> warnings_;
  std::vector<std::string> left_out_;
};

/// The tokenizer of a model folder or file that may hold nothing else. `path` as Checkpoint::open takes it.
[[nodiscard]] Tokenizer open_tokenizer(const std::filesystem::path& path);

}  // namespace bantam::inline v0
