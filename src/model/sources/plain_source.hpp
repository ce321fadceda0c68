// Tensors that hold rows of one element type: floats of safetensors files, blocks of GGUF's.
#pragma once

#include "bantam/model/matrix_source.hpp"

namespace bantam::inline v0 {

/// The last extent of `shape` is a row's. `file` names the place in messages. Throws unsupported for types that nothing here reads, corrupt
/// for another shape or number of bytes.
[[nodiscard]] std::shared_ptr<const MatrixSource> open_plain(const TensorEntry& tensor, const std::string& file, const std::vector<std::int64_t>& shape);

}  // namespace bantam::inline v0
