// Parts taken out of a tiny model by hand: the oracle of everything that prunes them.
#pragma once

#include <cmath>

#include "tiny_model.hpp"

namespace bantam::test {

/// What a layer keeps, in order.
struct KeptParts {
  std::vector<std::int64_t> groups;    ///< key-value heads, each with its query heads
  std::vector<std::int64_t> channels;  ///< of the FFN
};

/// Rows (or columns) of a tensor, in units of `unit` neighbors, that run along a layer's parts.
struct PartsOfTensor {
  const char* name;  ///< after "model.layers.N."
  bool columns;
  bool channels;     ///< or groups
  bool queries;      ///< of groups: all their query heads
};

inline constexpr PartsOfTensor parts_of_tensors[] = {
    {"self_attn.q_proj.weight", false, false, true}, {"self_attn.k_proj.weight", false, false, false},
    {"self_attn.v_proj.weight", false, false, false}, {"self_attn.o_proj.weight", true, false, true},
    {"self_attn.q_proj.bias", false, false, true},   {"self_attn.k_proj.bias", false, false, false},
    {"self_attn.v_proj.bias", false, false, false},  {"mlp.gate_proj.weight", false, true, false},
    {"mlp.up_proj.weight", false, true, false},      {"mlp.down_proj.weight", true, true, false},
    {"mlp.gate_proj.bias", false, true, false},      {"mlp.up_proj.bias", false, true, false},
    {"self_attn.attn_sub_norm.weight", false, false, true}, {"mlp.ffn_sub_norm.weight", false, true, false}};

/// Calls f(tensor, its parts in that layer, neighbors a part).
template <class F>
void for_tensors_of_parts(TinyModel& tiny, std::int64_t layer, F&& f) {
  for (const PartsOfTensor& parts : parts_of_tensors) {
    const std::string name = "model.layers." + std::to_string(layer) + "." + parts.name;
    const auto tensor = std::ranges::find(tiny.tensors, name, &TinyTensor::name);
    if (tensor == tiny.tensors.end()) continue;
    f(*tensor, parts, parts.channels ? 1 : tiny.head_dim * (parts.queries ? tiny.heads / tiny.kv_heads : 1));
  }
}

/// The same sizes, with nothing left of what the parts that go make and what they add to the hidden states.
inline TinyModel with_zeros(TinyModel tiny, const std::vector<KeptParts>& kept) {
  for (std::int64_t layer = 0; layer < tiny.layers; ++layer) {
    for_tensors_of_parts(tiny, layer, [&](TinyTensor& tensor, const PartsOfTensor& parts, std::int64_t unit) {
      const std::string_view name = parts.name;
      if (!parts.columns && !name.starts_with("self_attn.v_proj") && !name.starts_with("mlp.up_proj")) return;
      const KeptParts& own = kept[static_cast<std::size_t>(layer) % kept.size()];
      for (std::size_t i = 0; i < tensor.values.size(); ++i) {
        const std::int64_t columns = tensor.shape.size() > 1 ? tensor.shape[1] : 1, at = static_cast<std::int64_t>(i);
        const std::int64_t part = (parts.columns ? at % columns : at / columns) / unit;
        if (!std::ranges::binary_search(parts.channels ? own.channels : own.groups, part)) tensor.values[i] = 0;
      }
    });
  }
  return tiny;
}

/// Smaller tensors, and a config that says so.
inline TinyModel without_parts(TinyModel tiny, const std::vector<KeptParts>& kept) {
  const std::int64_t group = tiny.heads / tiny.kv_heads;
  Json heads = Json::array(), kv_heads = heads, ffn = heads;
  for (std::int64_t layer = 0; layer < tiny.layers; ++layer) {
    const KeptParts& own = kept[static_cast<std::size_t>(layer) % kept.size()];
    for_tensors_of_parts(tiny, layer, [&](TinyTensor& tensor, const PartsOfTensor& parts, std::int64_t unit) {
      std::vector<float> left;
      const std::int64_t columns = tensor.shape.size() > 1 ? tensor.shape[1] : 1;
      for (std::int64_t i = 0; i < static_cast<std::int64_t>(tensor.values.size()); ++i) {
        const std::int64_t part = (parts.columns ? i % columns : i / columns) / unit;
        if (std::ranges::binary_search(parts.channels ? own.channels : own.groups, part)) left.push_back(tensor.values[static_cast<std::size_t>(i)]);
      }
      // The mean of all squares, those that went being 0.
      const bool is_norm = std::string_view(parts.name).ends_with("sub_norm.weight");
      for (float& x : left) x *= is_norm ? std::sqrt(static_cast<float>(tensor.values.size()) / static_cast<float>(left.size())) : 1;
      std::int64_t& extent = tensor.shape[parts.columns ? 1 : 0];
      extent = static_cast<std::int64_t>(left.size()) / (static_cast<std::int64_t>(tensor.values.size()) / extent);
      tensor.values = std::move(left);
      const auto groups = static_cast<std::int64_t>(own.groups.size());
      if (tensor.permuted_heads != 0) tensor.permuted_heads = parts.queries ? groups * group : groups;
    });
    heads.push_back(static_cast<std::int64_t>(own.groups.size()) * group);
    kv_heads.push_back(own.groups.size());
    ffn.push_back(own.channels.size());
  }
  tiny.config["num_attention_heads"] = heads;
  tiny.config["num_key_value_heads"] = kv_heads;
  tiny.config["intermediate_size"] = ffn;
  return tiny;
}

/// How far a model without parts may be from the one with zeros: where an RMS norm runs over them, what is added to its mean of squares counts more.
inline double cut_tolerance(const ArchSpec& arch) { return arch.find(Role::down_norm) != nullptr ? 1e-3 : 2e-5; }

/// The largest difference.
inline double distance(const std::vector<float>& a, const std::vector<float>& b) { return distance(a, std::vector<double>(b.begin(), b.end())); }

/// 0 .. count, but every `step`th from `first` on.
inline std::vector<std::int64_t> all_but(std::int64_t count, std::int64_t first, std::int64_t step) {
  std::vector<std::int64_t> kept;
  for (std::int64_t i = 0; i < count; ++i) {
    if (i < first || (i - first) % step != 0) kept.push_back(i);
  }
  return kept;
}

}  // namespace bantam::test
