// Files made of choices, well-formed but for what chance puts into them.
#pragma once

#include "fuzz/fuzz.hpp"
#include "hostile/gguf_builder.hpp"
#include "tiny_model.hpp"

namespace bantam::fuzz {

/// A GGUF file of any keys and tensors.
[[nodiscard]] test::GgufBuilder gguf_file(Choices& choices);
/// One more key, of known or unknown name, of any type.
void add_gguf_key(test::GgufBuilder& builder, Choices& choices);

/// A model of few weights of some architecture.
[[nodiscard]] test::TinyModel tiny_model(Choices& choices);

/// A safetensors file: header length, header, data.
[[nodiscard]] std::string safetensors_file(Choices& choices);

}  // namespace bantam::fuzz
