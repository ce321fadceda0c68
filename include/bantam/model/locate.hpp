// Finding models: what a file holds by its content, and the local cache of Hugging Face's hub.
#pragma once

#include <cstdint>
#include <filesystem>

namespace bantam::inline v0 {

/// What a path leads to. Names play no part, only the first bytes.
enum class FileKind : std::uint8_t {
  folder,
  gguf,
  native,       ///< a .bantam file
  safetensors,  ///< plain: weights without what says which model they are of
  tokenizer,    ///< begins as tokenizer.json or SentencePiece's tokenizer.model do
  other,
};

/// Throws not_found, io, and invalid_argument for pipes, sockets and devices, which are never waited for.
[[nodiscard]] FileKind kind_of(const std::filesystem::path& path);

/// Whether a folder holds a file of weights, by its name.
[[nodiscard]] bool has_weights(const std::filesystem::path& folder);

/// Whether a file has the name of a model: .gguf or .bantam, of one in parts (NAME-00001-of-00003.gguf) the first, which leads to the others, and
/// nothing that sees or hears (mmproj), which is part of another model.
[[nodiscard]] bool is_model_file(const std::filesystem::path& path);

/// The folder or file of a model by its path, or by its name on the hub ("Qwen/Qwen3-0.6B", "Qwen/Qwen3-0.6B@revision") where
/// the local cache has it: HF_HUB_CACHE, HF_HOME/hub or ~/.cache/huggingface/hub; nothing is downloaded. A folder that holds
/// nothing to load but one .gguf or .bantam file is that file; "owner/name:Q4_K_M" is of several the one with that in its name. Throws not_found, saying
/// what is there instead or what may have been meant.
[[nodiscard]] std::filesystem::path find_model(const std::filesystem::path& name);

}  // namespace bantam::inline v0
