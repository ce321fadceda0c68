// Recipes and the patterns of their exceptions.
#include "bantam/compress/recipe.hpp"

#include <charconv>

#include "bantam/compress/nearest.hpp"
#include "bantam/core/names.hpp"
#include "bantam/model/checkpoint.hpp"
#include "bantam/model/roles.hpp"
#include "bantam/quant/formats.hpp"
#include "io/json.hpp"

namespace bantam::inline v0 {

namespace {

constexpr std::string_view method_names[] = {"rtn", "gptq", "awq", "awq+gptq", "hqq"};

/// What is known of a model's matrices, by their names.
std::map<std::string, std::span<const float>, std::less<>> importance_by_name(const MethodOptions& options, const Checkpoint& checkpoint) {
  std::map<std::string, std::span<const float>, std::less<>> found;
  if (options.importance == nullptr) return found;
  if (options.rotation) fail(Errc::invalid_argument, "imatrix: expected weights that are not rotated, of whose inputs it knows, found rotation asked for");
  const ModelConfig& config = checkpoint.config();
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    const TensorKey* key = tensor.is_matrix ? config.key_of(tensor.role, tensor.layer) : nullptr;
    if (key == nullptr || key->gguf.empty()) continue;
    const std::string name = name_in(config, key->gguf, tensor);
    const std::span<const float> importance = options.importance->of(name, tensor.expert);
    if (importance.empty()) continue;
    if (std::ssize(importance) != tensor.columns) {
      fail(Errc::invalid_argument, "imatrix: ", printable(name), ": expected ", tensor.columns, " columns, found ", importance.size());
    }
    found[tensor.name] = importance;
  }
  if (found.empty()) fail(Errc::invalid_argument, "imatrix: expected entries of this model's matrices (blk.0.attn_q.weight), found none");
  return found;
}

}  // namespace

std::string_view name_of(Method method) noexcept { return method_names[static_cast<std::size_t>(method)]; }
Method find_method(std::string_view name) { return methods[find_name("method", name, method_names)]; }

std::string name_of(const Clip& clip) {
  if (clip.percentile < 100) return message("percentile:", clip.percentile);
  return clip.search == GridSearch::range ? "minmax" : "mse";
}

Clip find_clip(std::string_view name) {
  constexpr std::string_view mark = "percentile:";
  if (name == "minmax") return {.search = GridSearch::range};
  if (name == "mse") return {};
  Clip clip{.search = GridSearch::range};
  const char* const last = name.data() + name.size();
  std::from_chars_result read{name.data(), std::errc::invalid_argument};
  if (name.starts_with(mark)) read = std::from_chars(name.data() + mark.size(), last, clip.percentile);
  if (read.ec != std::errc{} || read.ptr != last) {
    fail(Errc::invalid_argument, "clip: expected one of minmax, mse, percentile:P, found ", printable(name));
  }
  check_percentile(clip.percentile);
  return clip;
}

Recipe& Recipe::keep(std::string pattern, std::string_view format) {
  if (pattern.empty()) fail(Errc::invalid_argument, "keep: expected a pattern of tensor names, found an empty one");
  exceptions_.push_back({std::move(pattern), &find_format(format)});
  return *this;
}

const FormatInfo* Recipe::exception_of(std::string_view name) const noexcept {
  for (auto exception = exceptions_.rbegin(); exception != exceptions_.rend(); ++exception) {
    if (matches(name, exception->pattern)) return exception->format;
  }
  return nullptr;
}

const FormatInfo& Recipe::format_of(std::string_view name, bool embedding_or_head) const {
  if (const auto router = fixed_.find(name); router != fixed_.end()) return *router->second;
  if (const FormatInfo* format = exception_of(name)) return *format;
  if (const auto mixed = mixed_.find(name); mixed != mixed_.end()) return *mixed->second;
  // Every token passes through these two, and their rows are rounded apart from each other: 8 bits cost little there.
  if (embedding_or_head && !format_->is_float && format_->bits_per_weight < 6) return format_info<Int8<32>>();
  return *format_;
}

std::span<const float> Recipe::importance_of(std::string_view name) const noexcept {
  const auto found = importance_.find(name);
  return found == importance_.end() ? std::span<const float>() : found->second;
}

std::optional<Pruning> Recipe::pruning_of(std::string_view name) const {
  const Sparsity sparsity = options_.pruning ? options_.pruning->sparsity_of(name) : Sparsity();
  return sparsity.any() ? std::optional<Pruning>({options_.pruning->method, sparsity}) : std::nullopt;
}

Recipe Recipe::pruned(const Pruning& pruning) const {
  check(pruning);
  Recipe recipe = *this;
  recipe.options_.pruning = pruning;
  return recipe;
}

Recipe Recipe::without_rotation() const {
  Recipe recipe = *this;
  recipe.options_.rotation.reset();
  return recipe;
}

Recipe Recipe::for_model(const Checkpoint& checkpoint) const {
  Recipe recipe = *this;
  recipe.mixed_.clear();
  recipe.fixed_.clear();
  recipe.importance_ = importance_by_name(options_, checkpoint);
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    const bool as_it_is = tensor.format().is_float && !options_.rotation;
    const RoleInfo& info = info_of(tensor.role);
    if (info.stays_float()) recipe.fixed_[tensor.name] = as_it_is ? &tensor.format() : &format_info<F32Format>();
    // No calibrated method knows what heads read of their own, or the space of experts; these matrices are few, and every token passes
    // through them. GGUF's blocks of bytes are 32 long.
    const bool named = std::ranges::any_of(exceptions_, [&](const Exception& exception) { return matches(tensor.name, exception.pattern); });
    if (info.is_ungrouped() && !named && !format_->is_float && format_->bits_per_weight < 8) {
      recipe.fixed_[tensor.name] = tensor.columns % 32 == 0 ? &format_info<Int8<32>>() : &format_info<F16Format>();
    }
    if (tensor.is_matrix && mix_ != nullptr) recipe.mixed_[tensor.name] = &format_in(*mix_, tensor.role, tensor.layer, checkpoint.config());
  }
  return recipe;
}

std::string Recipe::to_json() const {
  Json json;
  json["method"] = name_of(method_);
  json["format"] = std::string(mix_ != nullptr ? mix_->name : format_->name);
  if (options_.pruning) json["prune"] = printable(options_.pruning->text(), 4096);
  if (needs_calibration(*this)) json["true_sequential"] = options_.true_sequential;
  if (options_.smooth) json["smooth"] = *options_.smooth;
  if (options_.clip) json["clip"] = name_of(*options_.clip);
  if (options_.importance != nullptr) json["imatrix"] = {{"entries", options_.importance->entries.size()}, {"pieces", options_.importance->pieces}};
  if (options_.rotation) json["rotation_seed"] = *options_.rotation;
  const bool gptq = rounds_by_gptq(method_);
  if (gptq || (options_.pruning && options_.pruning->method == PruneMethod::sparsegpt)) json["follow_original"] = options_.follow_original;
  if (gptq) {
    json["damping"] = options_.gptq.damping;
    json["desc_act"] = options_.gptq.order == ColumnOrder::activation;
    json["static_groups"] = options_.gptq.static_groups;
    json["sweeps"] = options_.gptq.sweeps;
    json["search"] = options_.gptq.search == GridSearch::range ? "range" : "error";
  }
  if (method_ == Method::awq || method_ == Method::awq_gptq) {
    json["ratios"] = options_.awq.ratios;
    json["weigh_weights"] = options_.awq.weigh_weights;
    json["clip"] = options_.awq.clip;
  }
  json["keep"] = Json::array();
  for (const Exception& exception : exceptions_) {
    json["keep"].push_back({{"pattern", printable(exception.pattern)}, {"format", std::string(exception.format->name)}});
  }
  return json.dump();
}

Recipe recipe::with(Method method, std::string_view format, const Options& options, const MethodOptions& details) {
  const Mix* const mix = options.group < 0 ? find_mix(format) : nullptr;
  std::vector<std::string_view> names;
  for (const Mix& other : mixes()) names.push_back(other.name);
  const FormatInfo& info = mix != nullptr ? find_format(mix->format) : find_format(format, options.group, names);
  if (method != Method::rtn && info.is_float) {
    fail(Errc::invalid_argument, name_of(method), ": expected a format of integers or levels, found ", info.name);
  }
  if (method == Method::hqq) check_hqq(info);
  if (details.pruning) check(*details.pruning);
  if (details.smooth) {
    if (method != Method::rtn && method != Method::gptq) fail(Errc::invalid_argument, "smooth: expected method rtn or gptq, found ", name_of(method));
    if (!(*details.smooth >= 0 && *details.smooth <= 1)) fail(Errc::invalid_argument, "smooth: expected an exponent from 0 to 1, found ", *details.smooth);
  }
  if (details.clip) {
    if (method != Method::rtn) fail(Errc::invalid_argument, "clip: expected method rtn, found ", name_of(method));
    if (info.is_float) fail(Errc::invalid_argument, "clip: expected a format of integers or levels, found ", info.name);
    check_percentile(details.clip->percentile);
  }
  if (!(details.follow_original >= 0 && details.follow_original <= 1)) {
    fail(Errc::invalid_argument, name_of(method), ": expected a share from 0 to 1 to follow the original by, found ", details.follow_original);
  }
  return mix != nullptr ? Recipe(*mix, method, details) : Recipe(info, method, details);
}

Recipe recipe::rtn(std::string_view format, const Options& options) { return with(Method::rtn, format, options); }

Recipe recipe::gptq(std::string_view format, const Options& options, const MethodOptions& method) {
  return with(Method::gptq, format, options, method);
}

Recipe recipe::awq(std::string_view format, const Options& options, const MethodOptions& method) {
  return with(Method::awq, format, options, method);
}

Recipe recipe::hqq(std::string_view format, const Options& options) { return with(Method::hqq, format, options); }

}  // namespace bantam::inline v0
