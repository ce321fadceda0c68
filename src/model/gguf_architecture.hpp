// Which architecture a GGUF file is of.
#pragma once

#include <string>

#include "bantam/io/gguf.hpp"
#include "bantam/model/arch_spec.hpp"

namespace bantam::inline v0::detail {

/// llama.cpp's numbers of gating functions, which files have as expert_gating_func.
[[nodiscard]] constexpr nn::RouterScore score_of(double function) noexcept {
  return function == 2 ? nn::RouterScore::sigmoid : function == 3 ? nn::RouterScore::softmax_of_chosen : nn::RouterScore::softmax;
}

/// The architecture of a file whose general.architecture is `name`: several share one, and differ in what else the file has. Throws unsupported, with
/// the names there are.
[[nodiscard]] const ArchSpec& find_gguf_arch(const GgufFile& file, const std::string& name);

}  // namespace bantam::inline v0::detail
