// A model: loaded once, constant, shared by any number of sessions.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "bantam/io/byte_source.hpp"
#include "bantam/model/device_map.hpp"
#include "bantam/model/weights.hpp"
#include "bantam/text/chat_template.hpp"

namespace bantam::inline v0 {

/// Where the weights of native files lie. Other files are converted into memory in any case. Of models with per-layer embeddings (Gemma 3n, 4) the first
/// two leave their table in the file, which must stay as it is, and look up a row for each token: up to half of such a model.
enum class WeightMemory : std::uint8_t {
  /// huge_pages, as what happens to the file of another model later does not matter; direct where the page cache has no room for the file beside the weights.
  automatic,
  /// The file's own pages: loads at once, shared by processes. A program that cuts the file short meanwhile ends this one (SIGBUS).
  mapped,
  huge_pages, ///< read into memory in 2 MiB pages: 15 to 30 % more bandwidth
  direct,     ///< the same, read around the system's page cache: for files that are not in it, on fast disks
};

/// By the names above. Throws invalid_argument listing them.
[[nodiscard]] WeightMemory find_weight_memory(std::string_view name);

struct LoadOptions {
  WeightMemory memory = WeightMemory::automatic;
  GptqZero gptq_zero = GptqZero::automatic;
  LoadProgress progress = {};
  /// Compares everything with the hashes that native files store (check_hashes). Throws unsupported for other files.
  bool verify = false;
  /// Bytes of memory for weights; 0: seven eighths of what the system has left for this process (available_memory()), unless they are mapped.
  /// Where they do not fit, experts and then matrices of layers are read from the file when they are wanted, with the same results, by each Engine
  /// for itself; the file must stay as it is. Throws out_of_memory where even that needs more.
  std::int64_t memory_limit = 0;
  /// Says what of the weights stays in memory and what in the file, in the place of what memory_limit would; the same results. Throws invalid_argument for
  /// a tensor that it does not name. Empty: decided here.
  DeviceMap device_map = {};
};

/// A handle: copies share the weights. Everything on it is const and may be used from any thread at once.
class Model {
 public:
  /// Loads a Hugging Face folder, a .gguf or a native .bantam file. Throws Error naming the place.
  [[nodiscard]] static Model load(const std::filesystem::path& path, const LoadOptions& options = {});
  /// The same of a .gguf or native file that lies elsewhere than in a file.
  [[nodiscard]] static Model load_from(ByteSource source, const LoadOptions& options = {});
  [[nodiscard]] static Model from_checkpoint(const Checkpoint& checkpoint, const LoadOptions& options = {});
  /// The model of a checkpoint with other weights: same shapes, any formats. `recipe_json` records what made them.
  [[nodiscard]] static Model from_weights(const Checkpoint& checkpoint, ModelWeights weights, std::string recipe_json);

  [[nodiscard]] const ModelConfig& config() const noexcept;
  [[nodiscard]] const ModelWeights& weights() const noexcept;
  [[nodiscard]] const Tokenizer& tokenizer() const noexcept;
  /// A number that differs between models: sessions are restored only into the model that they were saved from.
  /// Reads all weights when it is first asked for.
  [[nodiscard]] std::uint64_t fingerprint() const;
  /// The model as a checkpoint in memory, but for what is in its file alone, for all that takes one: compress_file writes it to any container.
  [[nodiscard]] const Checkpoint& checkpoint() const noexcept;
  /// What the model consists of, in layer order.
  [[nodiscard]] const std::vector<CheckpointTensor>& tensors() const noexcept { return checkpoint().tensors(); }
  /// By its full name ("model.layers.0.mlp.down_proj"); null when there is none.
  [[nodiscard]] const CheckpointTensor* find(std::string_view name) const noexcept;
  /// The same weights with tokens that go to so many experts in place of config().router.used: faster when fewer, and another model. Throws
  /// invalid_argument for a model without experts, and unless each of its mixtures has as many.
  [[nodiscard]] Model with_experts(std::int64_t used) const;
  /// The same weights with experts that are passed over where they would have to be read from the file first: faster, and another model, one that
  /// depends on what was read before. Changes nothing where residency() has all experts in memory. Throws invalid_argument for a model without
  /// experts, and for shares out of range.
  [[nodiscard]] Model with_cold_experts(nn::ColdExperts cold) const;
  /// What of the weights is in memory; null: all of them.
  [[nodiscard]] const Residency* residency() const noexcept;
  /// Bytes of all weight matrices as they are in memory, or would be; what the model takes on disk is checkpoint().stored_bytes().
  [[nodiscard]] std::int64_t bytes() const noexcept { return weights().matrix_bytes; }

  /// Writes a native file with the weights as they are. Complete or absent under that name.
  void save(const std::filesystem::path& path) const;

 private:
  struct Data;
  /// The same weights, for a config that differs in what it does with them.
  [[nodiscard]] Model with(const ModelConfig& config) const;
  [[nodiscard]] static Model with(const Checkpoint& checkpoint, ModelWeights weights, std::string recipe_json, std::int64_t stored_bytes,
                                  std::optional<Residency> residency);
  explicit Model(std::shared_ptr<const Data> data) : data_(std::move(data)) {}
  std::shared_ptr<const Data> data_;
};

}  // namespace bantam::inline v0
