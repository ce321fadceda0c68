// Opening files of adapters.
#include "adapter_file.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>

#include "bantam/io/gguf.hpp"
#include "bantam/io/safetensors.hpp"
#include "bantam/model/locate.hpp"
#include "bantam/model/seeing.hpp"
#include "io/json.hpp"
#include "language_part.hpp"
#include "match_tensors.hpp"

namespace bantam::inline v0 {

namespace {

/// What adapter_config.json says of the size of changes.
struct PeftScales {
  std::string place;
  std::int64_t rank = 0;
  double alpha = 0;
  bool by_root = false;  ///< alpha / sqrt(rank): rsLoRA (arXiv:2312.03732)
  std::vector<std::pair<std::string, std::int64_t>> ranks = {};  ///< of some modules, by their names or the ends of these
  std::vector<std::pair<std::string, double>> alphas = {};
  bool has_magnitudes = false;
  std::vector<std::int64_t> tokens = {};

  /// Of a module; `found`: the rank of its tensors.
  [[nodiscard]] double scale_of(std::string_view module, std::int64_t found) const {
    const std::int64_t expected = value_of(ranks, module).value_or(rank);
    if (found != expected) fail(Errc::corrupt, place, ": ", printable(module), ": expected tensors of rank ", expected, ", found ", found);
    const auto r = static_cast<double>(found);
    return value_of(alphas, module).value_or(alpha) / (by_root ? std::sqrt(r) : r);
  }

 private:
  template <class T>
  static std::optional<T> value_of(const std::vector<std::pair<std::string, T>>& patterns, std::string_view module) {
    for (const auto& [pattern, value] : patterns) {
      const std::size_t rest = module.size() - std::min(module.size(), pattern.size());
      if (module.substr(rest) == pattern && (rest == 0 || module[rest - 1] == '.')) return value;
    }
    return {};
  }
};

constexpr std::string_view merge_it = ": such an adapter is merged (compress --merge-lora)";

/// Whether a member says nothing: absent, null, false, or empty.
bool is_idle(const Json* value) {
  if (value == nullptr || value->is_null()) return true;
  if (value->is_boolean()) return !value->get<bool>();
  if (value->is_string()) return value->string().empty();
  return !value->is_number() && value->empty();
}

double finite_number(const Json& value, const std::string& place) {
  if (!value.is_number() || !std::isfinite(value.get<double>())) fail(Errc::corrupt, place, ": expected a number, found ", printable(value.dump({.ascii = true}), 40));
  return value.get<double>();
}

std::int64_t rank_in(const Json& value, const std::string& place) {
  // As many as a matrix that anyone adapts has columns.
  constexpr std::int64_t most = 1 << 20;
  const bool whole = value.is_number_unsigned() && value.get<std::uint64_t>() >= 1 && value.get<std::uint64_t>() <= most;
  if (!whole) fail(Errc::corrupt, place, ": expected a rank from 1 to ", most, ", found ", printable(value.dump({.ascii = true}), 40));
  return value.get<std::int64_t>();
}

/// rank_pattern or alpha_pattern. PEFT takes the names for regular expressions; what it writes are names of modules.
template <class T, class Read>
std::vector<std::pair<std::string, T>> patterns_in(const Json& config, std::string_view key, const std::string& place, Read read) {
  std::vector<std::pair<std::string, T>> patterns;
  const Json* list = config.find(key);
  if (list == nullptr || list->is_null()) return patterns;
  if (!list->is_object()) fail(Errc::corrupt, place, ": ", key, ": expected an object, found ", list->type_name());
  for (const auto& [name, value] : list->items()) {
    const std::string at = message(place, ": ", key, ": ", printable(name));
    const std::string_view plain = name.starts_with('^') ? name.substr(1) : name;
    if (plain.empty() || plain.find_first_of("*+?()[]{}|\\^$") != plain.npos) fail(Errc::unsupported, at, ": expected the name of a module, found a regular expression");
    patterns.emplace_back(plain, read(value, at));
  }
  // Each tensor is compared with all of them.
  constexpr std::size_t most = 4096;
  if (patterns.size() > most) fail(Errc::unsupported, place, ": ", key, ": expected up to ", most, " names, found ", patterns.size());
  return patterns;
}

/// trainable_token_indices: a list, or one beside the name of the embedding.
std::vector<std::int64_t> tokens_in(const Json& config, const std::string& place) {
  constexpr std::string_view key = "trainable_token_indices";
  const Json* list = config.find(key);
  if (is_idle(list)) return {};
  if (list->is_object() && list->size() == 1) {
    for (const auto& [name, own] : list->items()) list = &own;
  }
  if (!list->is_array()) fail(Errc::unsupported, place, ": ", key, ": expected tokens of one embedding, found ", printable(list->dump({.ascii = true}), 40));
  std::vector<std::int64_t> tokens;
  for (const Json& token : *list) {
    const bool whole = token.is_number_unsigned() && token.get<std::uint64_t>() <= static_cast<std::uint64_t>(std::numeric_limits<TokenId>::max());
    if (!whole) fail(Errc::corrupt, place, ": ", key, ": expected tokens, found ", printable(token.dump({.ascii = true}), 40));
    tokens.push_back(token.get<std::int64_t>());
  }
  return tokens;
}

PeftScales read_peft_config(const std::filesystem::path& file, AdapterUse use) {
  const std::string place = printable(file.string(), 400);
  const Json config = Json::parse(read_text_file(file), place);
  const Json* type = config.find("peft_type");
  if (type == nullptr || !type->is_string()) fail(Errc::corrupt, place, ": expected peft_type, found none");
  if (type->string() != "LORA") fail(Errc::unsupported, place, ": peft_type: expected LORA, found ", printable(type->string()));
  // Whatever else there is says which modules were trained, or how: the tensors tell the first, and the second is over.
  constexpr std::string_view merged_alone[] = {"use_dora", "modules_to_save", "trainable_token_indices"};
  for (const std::string_view key : {"use_dora", "use_qalora", "use_bdlora", "lora_bias", "modules_to_save", "layer_replication", "target_parameters", "trainable_token_indices",
                                     "alora_invocation_tokens", "arrow_config", "ensure_weight_tying"}) {
    const Json* value = config.find(key);
    const bool merges = std::ranges::find(merged_alone, key) != std::end(merged_alone);
    if (is_idle(value) || (merges && use == AdapterUse::merge)) continue;
    fail(Errc::unsupported, place, ": ", key, ": expected none, found ", printable(value->dump({.ascii = true}), 40), merges ? merge_it : "");
  }
  if (const Json* bias = config.find("bias"); !is_idle(bias) && !(bias->is_string() && bias->string() == "none")) {
    fail(Errc::unsupported, place, ": bias: expected none, found ", printable(bias->dump({.ascii = true}), 40));
  }
  // These begin by changing the model's own weights, which then are not what the adapter is added to.
  if (const Json* init = config.find("init_lora_weights"); init != nullptr && init->is_string()) {
    const std::string_view how = init->string();
    if (how != "gaussian" && how != "eva" && how != "orthogonal") {
      fail(Errc::unsupported, place, ": init_lora_weights: expected a start that leaves the model as it is, found ", printable(how), ": PEFT converts such adapters as it saves them");
    }
  }
  PeftScales scales{.place = place};
  const Json *rank = config.find("r"), *alpha = config.find("lora_alpha");
  if (rank == nullptr || alpha == nullptr) fail(Errc::corrupt, place, ": expected r and lora_alpha, found ", rank == nullptr ? "no r" : "no lora_alpha");
  scales.rank = rank_in(*rank, place + ": r");
  scales.alpha = finite_number(*alpha, place + ": lora_alpha");
  scales.has_magnitudes = !is_idle(config.find("use_dora"));
  scales.tokens = tokens_in(config, place);
  scales.by_root = !is_idle(config.find("use_rslora"));
  scales.ranks = patterns_in<std::int64_t>(config, "rank_pattern", place, rank_in);
  scales.alphas = patterns_in<double>(config, "alpha_pattern", place, finite_number);
  return scales;
}

// What PEFT wraps a model in is called so.
constexpr std::string_view peft_prefix = "base_model.model.", peft_a = ".lora_A.weight", peft_b = ".lora_B.weight";

AdapterFile open_peft(const std::filesystem::path& folder, const ArchSpec& arch, AdapterUse use) {
  const std::filesystem::path config = folder / "adapter_config.json", file = folder / "adapter_model.safetensors";
  AdapterFile adapter{.tensors = nullptr, .place = printable(file.string(), 400), .container = Container::folder, .names = {}, .scale = {}};
  PeftScales scales = read_peft_config(config, use);
  adapter.use = use;
  adapter.has_magnitudes = scales.has_magnitudes;
  adapter.tokens = scales.tokens;
  if (!std::filesystem::exists(file) && std::filesystem::exists(folder / "adapter_model.bin")) {
    fail(Errc::unsupported, printable(folder.string(), 400), ": expected adapter_model.safetensors, found adapter_model.bin: PEFT saves it with safe_serialization=True");
  }
  std::shared_ptr<const TensorSource> whole = SafetensorsFile::open(file);
  std::vector<TensorEntry> entries;
  for (const TensorEntry& entry : whole->tensors()) {
    adapter.names.push_back(entry.name);
    entries.push_back(entry);
    if (entry.name.starts_with(peft_prefix)) entries.back().name.erase(0, peft_prefix.size());
  }
  LanguagePart part = language_part(renamed(std::move(whole), std::move(entries)), arch);
  if (!part.left_out.empty()) fail(Errc::unsupported, adapter.place, ": ", printable(part.left_out[0]), ": expected changes of the language model alone");
  adapter.tensors = std::move(part.tensors);
  adapter.scale = [scales = std::move(scales)](std::string_view name, std::int64_t rank) {
    if (name.starts_with(peft_prefix)) name.remove_prefix(peft_prefix.size());
    return scales.scale_of(name.substr(0, name.rfind(".lora_")), rank);
  };
  return adapter;
}

AdapterFile open_gguf(const std::filesystem::path& path, const ArchSpec& arch) {
  const auto file = GgufFile::open(path);
  AdapterFile adapter{.tensors = file, .place = printable(path.string(), 400), .container = Container::gguf, .names = {}, .scale = {}};
  const auto expect = [&](std::string_view key, std::string_view wanted, std::initializer_list<std::string_view> also = {}) {
    const std::string* found = file->text(key);
    if (found == nullptr) fail(Errc::corrupt, adapter.place, ": ", key, ": expected ", wanted, ", found none");
    if (*found != wanted && (found->empty() || std::ranges::find(also, *found) == also.end())) fail(Errc::unsupported, adapter.place, ": ", key, ": expected ", wanted, ", found ", printable(*found));
  };
  expect("general.type", "adapter");
  expect("adapter.type", "lora");
  expect("general.architecture", arch.gguf_name(), {arch.gguf_attending, gguf_seeing(arch)});
  if (file->value("adapter.alora.invocation_tokens") != nullptr) {
    fail(Errc::unsupported, adapter.place, ": adapter.alora.invocation_tokens: expected an adapter of whole texts, found one that some tokens turn on");
  }
  const double alpha = file->number("adapter.lora.alpha").value_or(0);
  if (!std::isfinite(alpha)) fail(Errc::corrupt, adapter.place, ": adapter.lora.alpha: expected a finite number, found ", alpha);
  for (const TensorEntry& entry : file->tensors()) adapter.names.push_back(entry.name);
  // 0 says nothing there.
  adapter.scale = [alpha](std::string_view, std::int64_t rank) { return alpha == 0 ? 1.0 : alpha / static_cast<double>(rank); };
  return adapter;
}

}  // namespace

std::string AdapterFile::a_of(std::string_view matrix) const {
  return container == Container::gguf ? message(matrix, ".lora_a") : message(without_weight(std::string(matrix)), peft_a);
}

std::string AdapterFile::b_of(std::string_view matrix) const {
  return container == Container::gguf ? message(matrix, ".lora_b") : message(without_weight(std::string(matrix)), peft_b);
}

AdapterFile open_adapter(const std::filesystem::path& path, const ModelConfig& config, AdapterUse use) {
  switch (kind_of(path)) {
    case FileKind::folder: return open_peft(path, *config.arch, use);
    case FileKind::gguf: return open_gguf(path, *config.arch);
    case FileKind::safetensors:
      fail(Errc::invalid_argument, printable(path.string(), 400), ": expected an adapter, found plain safetensors: give the folder that holds it and its adapter_config.json");
    default: break;
  }
  fail(Errc::unsupported, printable(path.string(), 400), ": expected an adapter (a folder of PEFT's or a GGUF file), found something else");
}

}  // namespace bantam::inline v0
