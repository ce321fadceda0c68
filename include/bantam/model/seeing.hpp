// Models that see, hear or speak, and the architecture that their text is of. Of images and sound nothing is read.
#pragma once

#include <algorithm>
#include <optional>
#include <string_view>

#include "bantam/model/archs.hpp"

namespace bantam::inline v0 {

struct SeeingModel {
  std::string_view type;  ///< config.json's model_type; that of its text_config has "_text" behind it
  std::string_view gguf;  ///< GGUF's name of the text; empty: that of its architecture
  const ArchSpec* text;
};

/// Those whose text has a type of its own. Others say that it is a Llama, a Mistral or the like.
inline constexpr SeeingModel seeing_models[] = {
    {"qwen2_vl", "qwen2vl", &archs::qwen2},
    {"qwen2_5_vl", "qwen2vl", &archs::qwen2},
    {"qwen2_5_omni", "qwen2vl", &archs::qwen2},
    {"qwen3_vl", "qwen3vl", &archs::qwen3},
    {"qwen3_vl_moe", "qwen3vlmoe", &archs::qwen3_moe},
    {"qwen3_omni_moe", "qwen3vlmoe", &archs::qwen3_moe},
    {"glm4v", "", &archs::glm4},
    {"glm_ocr", "", &archs::glm4},
    {"glm4v_moe", "", &archs::glm4_moe},
    {"phi3_v", "", &archs::phi3},
    {"kimi_k2", "", &archs::deepseek_v3},  // its text_config (K2.5) is of the same type
};

/// Sizes that transformers' class of a text has where its config does not say: within the config of a larger model those that are as there
/// are left out (LLaVA 1.5, Pixtral, SmolVLM2).
struct TextDefault {
  const ArchSpec* text;
  Field field;
  double value;
};
inline constexpr TextDefault text_defaults[] = {
    {&archs::llama, Field::dim, 4096},     {&archs::llama, Field::ffn, 11008},    {&archs::llama, Field::layers, 32},   {&archs::llama, Field::heads, 32},
    {&archs::llama, Field::vocab, 32000},  {&archs::llama, Field::context, 2048},

    {&archs::mistral, Field::dim, 4096},   {&archs::mistral, Field::ffn, 14336},  {&archs::mistral, Field::layers, 32}, {&archs::mistral, Field::heads, 32},
    {&archs::mistral, Field::kv_heads, 8}, {&archs::mistral, Field::window, 4096},
    {&archs::mistral, Field::vocab, 32000}, {&archs::mistral, Field::context, 131072},

    {&archs::qwen2, Field::dim, 4096},     {&archs::qwen2, Field::ffn, 22016},    {&archs::qwen2, Field::layers, 32},   {&archs::qwen2, Field::heads, 32},
    {&archs::qwen2, Field::kv_heads, 32},  {&archs::qwen2, Field::vocab, 151936}, {&archs::qwen2, Field::context, 32768},
};
/// One of these; nothing where there is none.
[[nodiscard]] constexpr std::optional<double> text_default(const ArchSpec& arch, Field field) noexcept {
  const auto* found = std::ranges::find_if(text_defaults, [&](const TextDefault& one) { return one.text == &arch && one.field == field; });
  return found == std::end(text_defaults) ? std::nullopt : std::optional(found->value);
}

/// The text's architecture by a model's type or GGUF's name of the text; null where there is none of that name.
[[nodiscard]] constexpr const ArchSpec* text_of_seeing(std::string_view name) noexcept {
  const auto* found = std::ranges::find_if(seeing_models, [&](const SeeingModel& model) { return !name.empty() && (model.type == name || model.gguf == name); });
  return found == std::end(seeing_models) ? nullptr : found->text;
}

/// GGUF's name of an architecture as the text of a model that sees; empty: that of the architecture.
[[nodiscard]] constexpr std::string_view gguf_seeing(const ArchSpec& arch) noexcept {
  const auto* found = std::ranges::find(seeing_models, &arch, &SeeingModel::text);
  return found == std::end(seeing_models) ? std::string_view() : found->gguf;
}

}  // namespace bantam::inline v0
