// model.safetensors.index.json: which shard of a folder holds which tensor.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace bantam::inline v0::detail {

/// Shard to the tensors that it must hold; shards in the order of their names.
using SafetensorsIndex = std::map<std::string, std::vector<std::string>>;

/// Reads an index. Throws corrupt when it is none, or names a shard that is no plain file name.
/// Metadata such as total_size is not read: the shards themselves are checked.
[[nodiscard]] SafetensorsIndex read_safetensors_index(const std::filesystem::path& file);

/// The real path of a file of weights, a shard or the only one. Throws corrupt when a link leads out of the folder, as a folder
/// from elsewhere could have one to weights that are not its maker's; the one link out that is followed is that of a Hugging
/// Face cache, snapshots/<revision>/<name> to blobs/<hash> of the same model.
[[nodiscard]] std::filesystem::path resolve_weights(const std::filesystem::path& folder, const std::string& name);

}  // namespace bantam::inline v0::detail
