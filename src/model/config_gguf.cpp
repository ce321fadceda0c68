// GGUF metadata to a checked ModelConfig.
#include "bantam/model/config.hpp"

#include <cmath>

#include "bantam/core/error.hpp"
#include "bantam/io/gguf.hpp"
#include "bantam/model/archs.hpp"
#include "model/recurrent_config.hpp"

namespace bantam::inline v0 {

namespace {

/// llama.cpp's numbers of gating functions.
nn::RouterScore score_of(double function) noexcept {
  return function == 2 ? nn::RouterScore::sigmoid : function == 3 ? nn::RouterScore::softmax_of_chosen : nn::RouterScore::softmax;
}

/// What a file says of the router beside its numbers; few do, for the architecture decides.
void read_router(const GgufFile& file, const std::string& prefix, nn::RouterOptions& router) {
  router.renormalize = file.boolean(prefix + "expert_weights_norm").value_or(router.renormalize);
  const std::string place = file.path().string();
  if (const auto function = file.number(prefix + "expert_gating_func"); function && *function != 0) {
    if (*function != 1 && *function != 2 && *function != 3) {
      fail(Errc::unsupported, place, ": ", prefix, "expert_gating_func: expected 1 (softmax), 2 (sigmoid) or 3 (softmax of the chosen), found ", *function);
    }
    router.score = score_of(*function);
  }
}

}  // namespace

ModelConfig read_gguf_config(const GgufFile& file) {
  const std::string place = file.path().string();
  const std::string* name = file.text("general.architecture");
  if (name == nullptr) fail(Errc::corrupt, place, ": general.architecture: expected the name of an architecture, found nothing");
  const bool has_experts = file.number(*name + ".expert_count").value_or(0) != 0;
  const double function = file.number(*name + ".expert_gating_func").value_or(0);
  const ArchSpec* arch = nullptr;
  std::string names;
  for (const ArchSpec* candidate : architectures) {
    names += message(names.empty() ? "" : ", ", candidate->gguf_name(), candidate->has_experts() ? " with experts" : "");
    const bool named = candidate->name == *name || candidate->gguf_name() == *name;
    if (!named || candidate->has_experts() != has_experts) continue;
    // DeepSeek V2 and V3 share a name, and differ in how they score experts.
    const bool scores = function != 0 && candidate->router.score == score_of(function) && (arch == nullptr || arch->router.score != candidate->router.score);
    if (arch == nullptr || candidate->name == *name || scores) arch = candidate;
  }
  if (arch == nullptr) {
    fail(Errc::unsupported, place, ": general.architecture: expected one of ", names, ", found ", printable(*name), has_experts ? " with experts" : "");
  }
  const auto key_of = [&](Field field) {
    const ConfigKey* key = arch->find(field);
    return key == nullptr || key->gguf.empty() ? std::string() : message(*name, ".", key->gguf);
  };
  const auto list_of = [&](Field field) -> const std::vector<std::int64_t>* {
    const GgufValue* value = file.value(key_of(field));
    return value != nullptr ? std::get_if<std::vector<std::int64_t>>(value) : nullptr;
  };
  const detail::Source source{
      place,
      [&](Field field) -> std::optional<double> {
        const auto* list = list_of(field);
        if (list == nullptr) return file.number(key_of(field));
        // Some writers give one number a layer; equal numbers mean the same.
        const std::int64_t layers = file.integer(key_of(Field::layers)).value_or(0);
        if (static_cast<std::int64_t>(list->size()) != layers) {
          fail(Errc::corrupt, place, ": ", key_of(field), ": expected one number or ", layers, ", found ", list->size());
        }
        for (const std::int64_t entry : *list) {
          if (entry != list->front() && !detail::may_differ(field)) {
            fail(Errc::unsupported, place, ": ", key_of(field), ": expected one number for all layers, found several");
          }
        }
        return list->empty() ? std::nullopt : std::optional(static_cast<double>(list->front()));
      },
      [&](Field field) {
        const auto* list = list_of(field);
        return list != nullptr ? std::vector<double>(list->begin(), list->end()) : std::vector<double>();
      },
      key_of, true, [](std::int64_t) { return false; }, [&](std::int64_t layers) { return detail::layer_kinds_of(file, *arch, layers); }};
  ModelConfig c = detail::read_sizes(*arch, source);
  for (std::int64_t i = 0; i < c.layers; ++i) c.specs[static_cast<std::size_t>(i)].rope = detail::rope_of(*arch, i);
  if (source.number(Field::window).value_or(0) != 0) {
    const std::int64_t window = detail::require_extent(source, Field::window);
    for (std::int64_t i = 0; i < c.layers; ++i) c.specs[static_cast<std::size_t>(i)].window = detail::has_window(*arch, i) ? window : 0;
    c.set_layers(std::move(c.specs));
  }
  if (has_experts) read_router(file, *name + ".", c.router);
  if (const auto* tokens = file.texts("tokenizer.ggml.tokens")) c.vocab = static_cast<std::int64_t>(tokens->size());
  c.vocab = detail::extent_or(source, Field::vocab, c.vocab);
  const std::string prefix = message(*name, ".rope.scaling.");
  if (const std::string* type = file.text(prefix + "type"); type != nullptr && *type != "none") {
    if (*type == "linear") {
      c.rope.scaling = nn::RopeScaling::linear;
    } else if (*type == "yarn") {
      c.rope.scaling = nn::RopeScaling::yarn;
    } else {
      fail(Errc::unsupported, place, ": ", prefix, "type: expected none, linear or yarn, found ", printable(*type));
    }
    c.rope.factor = file.number(prefix + "factor").value_or(1);
    if (!(c.rope.factor >= 1) || !std::isfinite(c.rope.factor)) {
      fail(Errc::corrupt, place, ": ", prefix, "factor: expected at least 1, found ", c.rope.factor);
    }
    const auto positive = [&](std::string_view key, double otherwise) {
      const double value = file.number(prefix + std::string(key)).value_or(otherwise);
      if (!(value > 0) || !std::isfinite(value)) fail(Errc::corrupt, place, ": ", prefix, key, ": expected a number above 0, found ", value);
      return value;
    };
    const double original = positive("original_context_length", static_cast<double>(c.context));
    if (!(original >= 1) || original > static_cast<double>(detail::largest_extent)) {
      fail(Errc::corrupt, place, ": ", prefix, "original_context_length: expected 1 to ", detail::largest_extent, ", found ", original);
    }
    c.rope.original_context = static_cast<std::int64_t>(original);
    if (c.rope.scaling == nn::RopeScaling::yarn) {
      c.rope.beta_fast = positive("yarn_beta_fast", c.rope.beta_fast);
      c.rope.beta_slow = positive("yarn_beta_slow", c.rope.beta_slow);
      // 0.1 times what folders say; cosines and sines keep their length.
      if (arch->latent && file.value(prefix + "yarn_log_multiplier") != nullptr) {
        c.rope.score_mscale = positive("yarn_log_multiplier", 0.1) * 10;
        c.rope.attention_factor = 1;
      }
      // Theirs multiplies the usual factor; ours, as Hugging Face's, stands for it.
      if (file.value(prefix + "attn_factor") != nullptr) c.rope.attention_factor = positive("attn_factor", 1) * (0.1 * std::log(c.rope.factor) + 1);
    }
  }
  detail::check_router(c.router, place);
  detail::check_rope(c.rope, place);
  return c;
}

}  // namespace bantam::inline v0
