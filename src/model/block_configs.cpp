#include "model/block_configs.hpp"

#include <algorithm>
#include <cmath>

#include "bantam/core/error.hpp"
#include "model/config_json.hpp"
#include "model/config_source.hpp"
#include "text/json.hpp"

namespace bantam::inline v0::detail {

namespace {

/// Widths are whole blocks of so many.
constexpr std::int64_t width_step = 256;

/// An MLP's width from the factor that DeciLM says it by: two thirds of so many times dim, in whole blocks.
double width_of(double factor, double dim) {
  return std::ceil(std::floor(2 * factor * dim / 3) / static_cast<double>(width_step)) * static_cast<double>(width_step);
}

/// One of a layer's halves.
struct Half {
  const Json* said;  ///< null: the layer has none
  std::string place;

  Half(const Json& block, const char* name, const std::string& of) : place(message(of, ": ", name)) {
    const Json& half = parse_object(need(block, name, of), place);
    if (flag_at(half, "replace_with_linear", place, false)) fail(Errc::unsupported, place, ": replace_with_linear: expected false, found true");
    for (const char* key : {"window_length", "num_sink_tokens", "sparsify"}) {
      if (const Json* other = member(half, key); other != nullptr && !other->is_null()) fail(Errc::unsupported, place, ": ", key, ": expected null, found ", printable(other->dump()));
    }
    said = flag_at(half, "no_op", place, false) ? nullptr : &half;
  }
  /// 0 where there is none.
  [[nodiscard]] double number(const char* key) const {
    const double number = said == nullptr ? 0 : number_at(*said, key, place).value_or(0);
    if (!(number >= 0) || !std::isfinite(number)) fail(Errc::corrupt, place, ": ", key, ": expected a number of at least 0, found ", number);
    return number;
  }
};

}  // namespace

Json with_listed_sizes(const Json& json, const std::string& place) {
  Json usual = json;
  if (const Json* list = member(json, "num_key_value_heads_per_layer"); list != nullptr && list->is_array()) usual["num_key_value_heads"] = *list;
  const Json* blocks = member(json, "block_configs");
  if (blocks == nullptr || blocks->is_null()) return usual;
  if (!blocks->is_array()) fail(Errc::corrupt, place, ": block_configs: expected a list, found ", blocks->type_name());
  const double heads = number_at(json, "num_attention_heads", place).value_or(0), dim = number_at(json, "hidden_size", place).value_or(0);
  Json groups = Json::array(), widths = Json::array();
  for (std::size_t i = 0; i < blocks->size(); ++i) {
    const std::string within = message(place, ": block_configs[", i, "]");
    const Json& block = parse_object((*blocks)[i], within);
    const Half attention(block, "attention", within), ffn(block, "ffn", within);
    const double shared = attention.number("n_heads_in_group");
    if (shared > 0 && std::fmod(heads, shared) != 0) fail(Errc::corrupt, attention.place, ": n_heads_in_group: expected a divisor of the ", heads, " heads, found ", shared);
    groups.push_back(shared > 0 ? heads / shared : 0.0);
    const double width = ffn.number("intermediate_size");
    widths.push_back(width > 0 ? width : width_of(ffn.number("ffn_mult"), dim));
  }
  usual["num_key_value_heads"] = std::move(groups);
  usual["intermediate_size"] = std::move(widths);
  return usual;
}

void put_block_configs(const ModelConfig& c, Json& json) {
  Json blocks = Json::array();
  for (std::int64_t i = 0; i < c.layers; ++i) {
    const LayerSpec& spec = c.layer(i);
    const bool has_attention = attends(spec.mixer), has_mlp = spec.ffn > 0;
    Json attention = {{"n_heads_in_group", nullptr}, {"no_op", !has_attention}, {"replace_with_linear", false}};
    if (has_attention) attention["n_heads_in_group"] = c.group_of(spec);
    Json ffn = {{"ffn_mult", nullptr}, {"no_op", !has_mlp}, {"replace_with_linear", false}};
    if (has_mlp && spec.ffn % width_step == 0) ffn["ffn_mult"] = 1.5 * static_cast<double>(spec.ffn) / static_cast<double>(c.dim);
    else if (has_mlp) ffn["intermediate_size"] = spec.ffn;
    blocks.push_back({{"attention", std::move(attention)}, {"ffn", std::move(ffn)}});
  }
  json["block_configs"] = std::move(blocks);
  json["num_attention_heads"] = c.heads;
  json["num_key_value_heads"] = nullptr;
  json["intermediate_size"] = nullptr;
}

}  // namespace bantam::inline v0::detail
