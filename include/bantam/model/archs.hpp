// The one list of architectures. To add one: write its file of data, add it here (docs/add-an-architecture.md).
#pragma once

#include "bantam/model/archs/llama.hpp"
#include "bantam/model/archs/mistral.hpp"
#include "bantam/model/archs/qwen2.hpp"
#include "bantam/model/archs/qwen3.hpp"

namespace bantam::inline v0 {

inline constexpr const ArchSpec* architectures[] = {&archs::llama, &archs::mistral, &archs::qwen2, &archs::qwen3};

}  // namespace bantam::inline v0
