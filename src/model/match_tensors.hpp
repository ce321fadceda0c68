// Which tensor of a file serves which role, and whether all of them fit.
#pragma once

#include "bantam/model/checkpoint.hpp"
#include "bantam/model/roles.hpp"

namespace bantam::inline v0 {

/// What tensors are looked for in.
struct TensorFiles {
  const TensorSource& tensors;
  std::string path;       ///< names the place in messages
  std::string container;  ///< "safetensors", "gguf" or "bantam"
  const PackedFamily* family = nullptr;
  const GgufFile* gguf = nullptr;  ///< the tensors, where they are of such a file
};

/// Whether files have the layer that config.drafting_like() is for; many writers leave it out and count it all the same.
[[nodiscard]] bool has_drafting(const TensorFiles& files, const ModelConfig& config);
/// Sets what of a model its tensors alone say: token types, labels of a classifier, whether there is a head. Throws corrupt naming the tensor.
void count_tables(const TensorFiles& files, ModelConfig& config);
/// One for each role that the model has, in layer order. Matrices of native files have no source yet: find_native_sources(). Throws corrupt
/// or unsupported naming what is missing, superfluous or misshapen.
[[nodiscard]] std::vector<CheckpointTensor> match_tensors(const TensorFiles& files, const ModelConfig& config);

/// Looks up the formats of a native file's matrices, and the hashes of all tensors. `tensors_json` and `hashes_json`: its metadata.
void find_native_sources(std::vector<CheckpointTensor>& tensors, const TensorFiles& files, const std::string& tensors_json, const std::string& hashes_json);

/// The same order as another matrix of the layer has, if it has: q, k and v are sorted alike, and share what they read.
[[nodiscard]] std::shared_ptr<const ColumnPermutation> shared_order(std::span<const CheckpointTensor> tensors, std::int64_t layer,
                                                                    std::shared_ptr<const ColumnPermutation> order);

/// Calls f(key) for each tensor that a layer may have in containers of a kind; of -1, for those of no layer.
template <class F>
void for_each_key(const ModelConfig& config, std::int64_t layer, bool gguf, F&& f) {
  const ArchSpec& arch = *config.arch;
  for (const auto& list : {arch.tensors, arch.more_tensors, arch.behind()}) {
    for (const TensorKey& key : list) {
      const bool named = !(gguf ? key.gguf : key.hf).empty();
      if (named && info_of(key.role).is_of_layer() == (layer >= 0) && config.key_of(key.role, layer) == &key && is_in_layer(key.role, layer, config)) f(key);
    }
  }
}

/// What folders call the equal parts that they have a matrix in; empty: it is one.
[[nodiscard]] std::vector<std::string> names_of_pieces(const ModelConfig& config, const TensorId& id);

/// A name less ".weight" at its end.
[[nodiscard]] std::string without_weight(std::string name);
/// Names a tensor, with ".weight" or not.
void set_name(CheckpointTensor& tensor, std::string name);
/// Hugging Face's name, or GGUF's where it has none.
[[nodiscard]] std::string name_of(const ModelConfig& config, const TensorKey& key, const TensorId& id);

}  // namespace bantam::inline v0
