// Names of a language model within a larger one.
#include "language_part.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "bantam/core/hash.hpp"
#include "bantam/core/message.hpp"

namespace bantam::inline v0 {

namespace {

// What names begin with there, and by themselves.
constexpr std::pair<std::string_view, std::string_view> of_language_model[] = {
    {"language_model.model.", "model."}, {"model.language_model.", "model."}, {"language_model.lm_head.", "lm_head."},
    {"model.text_model.", "model."},     {"thinker.model.", "model."},        {"thinker.lm_head.", "lm_head."},
    {"llm.model.", "model."},            {"llm.lm_head.", "lm_head."},        {"language.model.", "model."},
    {"language.lm_head.", "lm_head."}};

/// Whether a tensor is of a tower beside a language model whose tensors have their own names (Qwen2-VL, Phi-3-Vision).
bool is_of_tower(std::string_view name) { return name.starts_with("visual.") || name.starts_with("model.vision_embed_tokens."); }

std::optional<std::string> own_name(std::string_view name) {
  for (const auto& [there, alone] : of_language_model) {
    if (name.starts_with(there)) return std::string(alone).append(name.substr(there.size()));
  }
  return {};
}

class Renamed final : public TensorSource {
 public:
  Renamed(std::shared_ptr<const TensorSource> whole, std::vector<TensorEntry> entries) : whole_(std::move(whole)), entries_(std::move(entries)) {
    for (std::size_t i = 0; i < entries_.size(); ++i) index_.emplace(entries_[i].name, i);
  }
  [[nodiscard]] std::span<const TensorEntry> tensors() const noexcept override { return entries_; }
  [[nodiscard]] const TensorEntry* find(std::string_view name) const noexcept override {
    const auto it = index_.find(name);
    return it == index_.end() ? nullptr : &entries_[it->second];
  }

 private:
  std::shared_ptr<const TensorSource> whole_;
  std::vector<TensorEntry> entries_;
  HashMap<std::string_view, std::size_t> index_;
};

/// What names of an architecture's model begin with, where the files lack it; else empty.
std::string_view lost_beginning(const TensorSource& files, const ArchSpec& arch) {
  const std::string_view embedding = arch.find(Role::embedding)->hf, beginning = embedding.substr(0, embedding.find('.') + 1);
  const bool is_lost = files.find(embedding) == nullptr && files.find(embedding.substr(beginning.size())) != nullptr;
  return is_lost ? beginning : std::string_view();
}

bool is_of_head(std::string_view name, const ArchSpec& arch) {
  const TensorKey* head = arch.find(Role::head);
  return head != nullptr && name.starts_with(head->hf.substr(0, head->hf.rfind('.')));
}

}  // namespace

std::shared_ptr<const TensorSource> renamed(std::shared_ptr<const TensorSource> whole, std::vector<TensorEntry> entries) {
  return std::make_shared<const Renamed>(std::move(whole), std::move(entries));
}

LanguagePart language_part(std::shared_ptr<const TensorSource> whole, const ArchSpec& arch) {
  const auto all = whole->tensors();
  const bool is_within = std::ranges::any_of(all, [](const TensorEntry& entry) { return own_name(entry.name).has_value(); });
  const std::string_view lost = is_within ? std::string_view() : lost_beginning(*whole, arch);
  const auto name_alone = [&](const std::string& name) -> std::optional<std::string> {
    if (is_of_tower(name)) return {};
    if (!is_within) return name.starts_with(lost) || is_of_head(name, arch) ? name : std::string(lost) + name;
    return name.starts_with("lm_head.") || name.starts_with("mtp.") ? name : own_name(name);
  };
  if (std::ranges::all_of(all, [&](const TensorEntry& entry) { return name_alone(entry.name) == entry.name; })) return {std::move(whole), {}};
  LanguagePart part;
  std::vector<TensorEntry> entries;
  for (const TensorEntry& entry : all) {
    std::optional<std::string> name = name_alone(entry.name);
    if (!name) {
      part.left_out.push_back(entry.name);
      continue;
    }
    entries.push_back(entry);
    entries.back().name = std::move(*name);
  }
  part.tensors = renamed(std::move(whole), std::move(entries));
  return part;
}

std::shared_ptr<const TensorSource> by_own_names(std::shared_ptr<const TensorSource> tensors, const ArchSpec& arch) {
  constexpr std::string_view usual = "model.";
  const std::string_view embedding = arch.find(Role::embedding)->hf;
  const auto has = [&](const std::string& name) { return tensors->find(name) != nullptr; };
  const bool plain = has(std::string(embedding));
  const bool prefixed = !plain && !arch.prefix.empty() && has(message(arch.prefix, embedding));
  const bool alone = !plain && embedding.starts_with(usual) && has(std::string(embedding.substr(usual.size())));
  constexpr std::pair<std::string_view, std::string_view> old_endings[] = {{".LayerNorm.gamma", ".LayerNorm.weight"}, {".LayerNorm.beta", ".LayerNorm.bias"}};
  const auto own = [&](const std::string& name) {
    std::string result = name;
    if (prefixed && name.starts_with(arch.prefix)) result = name.substr(arch.prefix.size());
    if (alone && !name.starts_with("lm_head.") && !name.starts_with("score.")) result.insert(0, usual);
    for (const auto& [old, now] : old_endings) {
      if (!arch.causal && result.ends_with(old)) result.replace(result.size() - old.size(), old.size(), now);
    }
    return result;
  };
  if (std::ranges::all_of(tensors->tensors(), [&](const TensorEntry& entry) { return own(entry.name) == entry.name; })) return tensors;
  std::vector<TensorEntry> entries;
  for (const TensorEntry& entry : tensors->tensors()) {
    entries.push_back(entry);
    entries.back().name = own(entry.name);
  }
  return std::make_shared<const Renamed>(std::move(tensors), std::move(entries));
}

}  // namespace bantam::inline v0
