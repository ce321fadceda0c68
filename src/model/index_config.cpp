// Which layers have an indexer of their own, and which see what the one of a layer before them chose (GLM-5.2).
#include <algorithm>
#include <cmath>

#include "bantam/core/error.hpp"
#include "bantam/core/message.hpp"
#include "model/config_json.hpp"
#include "model/config_source.hpp"
#include "text/json.hpp"

namespace bantam::inline v0::detail {

namespace {

/// Whether a layer says "full" or "shared", in some words for them.
bool is_shared(const Json& said, std::string_view full, std::string_view shared, const std::string& place) {
  if (!said.is_string() || (said.string() != full && said.string() != shared)) fail(Errc::unsupported, place, ": expected ", full, " or ", shared, ", found ", printable(said.dump()));
  return said.string() == shared;
}

}  // namespace

void read_shared_choices(const Json& json, const std::string& place, ModelConfig& c) {
  if (!c.arch->may_share_choices) return;
  const auto check_count = [&](std::string_view key, std::size_t count) {
    if (static_cast<std::int64_t>(count) != c.layers) fail(Errc::corrupt, place, ": ", key, ": expected ", c.layers, " layers, found ", count);
  };
  if (const Json* types = member(json, "indexer_types"); types != nullptr && types->is_array()) {
    check_count("indexer_types", types->size());
    for (std::size_t i = 0; i < c.specs.size(); ++i) c.specs[i].shares_choice = is_shared((*types)[i], "full", "shared", message(place, ": indexer_types[", i, "]"));
  } else if (const std::string letters = text_at(json, "index_topk_pattern", place, ""); !letters.empty()) {
    check_count("index_topk_pattern", letters.size());
    for (std::size_t i = 0; i < c.specs.size(); ++i) c.specs[i].shares_choice = is_shared(Json(letters.substr(i, 1)), "F", "S", message(place, ": index_topk_pattern: letter ", i));
  } else {
    const auto layers_at = [&](std::string_view key, std::int64_t otherwise) {
      const double found = number_at(json, key, place).value_or(static_cast<double>(otherwise));
      constexpr int most = 100'000;
      if (!(found >= 1 && found <= most && found == std::floor(found))) fail(Errc::corrupt, place, ": ", key, ": expected a whole number from 1 to ", most, ", found ", found);
      return static_cast<std::int64_t>(found);
    };
    const std::int64_t step = layers_at("index_topk_freq", 1), first = layers_at("index_skip_topk_offset", 2);
    for (std::int64_t i = 0; i < c.layers; ++i) c.specs[static_cast<std::size_t>(i)].shares_choice = std::max<std::int64_t>(i - first + 1, 0) % step != 0;
  }
}

void write_shared_choices(const ModelConfig& c, Json& json) {
  if (std::ranges::none_of(c.specs, &LayerSpec::shares_choice)) return;
  Json& types = json["indexer_types"] = Json::array();
  for (const LayerSpec& spec : c.specs) types.push_back(spec.shares_choice ? "shared" : "full");
}

void check_index(const ModelConfig& c, const std::string& place) {
  if (c.index.used == 0) return;
  if (c.index.block < 1 || page_tokens % c.index.block != 0) fail(Errc::unsupported, place, ": blocks of the indexer: expected a divisor of ", page_tokens, " tokens, found ", c.index.block);
  if (c.arch->latent && c.q_rank == 0) fail(Errc::unsupported, place, ": expected queries of low rank, which the indexer reads, found a rank of 0");
  if (c.index.dim < c.rope.dim) fail(Errc::corrupt, place, ": heads of the indexer: expected at least the ", c.rope.dim, " numbers that rope turns, found ", c.index.dim);
  if (!c.specs.empty() && c.specs[0].shares_choice) fail(Errc::corrupt, place, ": indexers: expected one in the first layer, found none");
}

}  // namespace bantam::inline v0::detail
