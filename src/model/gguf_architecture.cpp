#include "model/gguf_architecture.hpp"

#include <algorithm>

#include "bantam/core/error.hpp"
#include "bantam/core/names.hpp"
#include "bantam/model/archs.hpp"
#include "bantam/model/seeing.hpp"

namespace bantam::inline v0::detail {

const ArchSpec& find_gguf_arch(const GgufFile& file, const std::string& name) {
  const bool has_experts = file.number(name + ".expert_count").value_or(0) != 0;
  const double function = file.number(name + ".expert_gating_func").value_or(0);
  const bool windowed = file.number(name + ".attention.sliding_window").value_or(0) > 0;
  const ArchSpec* arch = nullptr;
  std::vector<std::string_view> names;
  const ArchSpec* seeing = text_of_seeing(name);
  const bool is_ggufs = std::ranges::any_of(architectures, [&](const ArchSpec* candidate) { return candidate->gguf_name() == name; });
  for (const ArchSpec* candidate : architectures) {
    names.push_back(candidate->gguf_name());
    const bool named = candidate->gguf_name() == name || (!is_ggufs && candidate->name == name) || candidate == seeing;
    if (!named || candidate->has_experts() != has_experts) continue;
    if (!candidate->gguf_mark.empty() && file.find(candidate->gguf_mark) == nullptr) continue;
    // OLMo 2 and 3 share a name: the second has windows.
    const bool steps = windowed && candidate->full_attention_step > 0 && arch != nullptr && arch->full_attention_step == 0;
    // DeepSeek V2 and V3 share a name, and differ in how they score experts.
    const bool scores = function != 0 && candidate->router.score == score_of(function) && (arch == nullptr || arch->router.score != candidate->router.score);
    const bool marked = !candidate->gguf_mark.empty();
    // GPT-NeoX's with halves one after the other.
    const bool halves = candidate->says_parallel && file.boolean(name + ".use_parallel_residual") == candidate->parallel;
    // BERT and DistilBERT share a name: the second has no token types.
    const TensorKey* types = arch == nullptr ? nullptr : arch->find(Role::token_type_embedding);
    const bool untyped = types != nullptr && candidate->find(Role::token_type_embedding) == nullptr && file.find(types->gguf) == nullptr;
    if (arch == nullptr || marked || halves || untyped || (candidate->name == name && !windowed && arch->gguf_mark.empty()) || scores || steps) arch = candidate;
  }
  const std::string place = file.path().string();
  if (arch == nullptr && is_ggufs) {
    fail(Errc::unsupported, place, ": ", name, ".expert_count: expected ", has_experts ? "no experts in a model of type " : "the experts of a model of type ", name, ", found ", has_experts ? "some" : "none");
  }
  if (arch == nullptr) fail(Errc::unsupported, place, ": general.architecture: expected one that `bantam formats` lists, found ", printable(name), did_you_mean(name, names));
  // The rows of q and k are in another order there: llama.cpp turns pairs by axes of an image as halves of a head alone.
  if (arch->gguf_pairs == nn::RopePairs::adjacent && file.value(name + ".rope.dimension_sections") != nullptr) {
    fail(Errc::unsupported, place, ": ", name, ".rope.dimension_sections: expected none of a model of type ", arch->name, "; the folder that this file was made from is read");
  }
  return *arch;
}

}  // namespace bantam::inline v0::detail
