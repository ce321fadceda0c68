// Matching roles with tensors.
#include "match_tensors.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "arrangement.hpp"
#include "fused_rows.hpp"
#include "listed_numbers.hpp"
#include "ngram_config.hpp"
#include "packed/family.hpp"
#include "sources/fused.hpp"
#include "sources/plain_source.hpp"
#include "sources/strip16_source.hpp"

namespace bantam::inline v0 {

namespace {

/// Tensors that old checkpoints carry and nobody reads, for they follow from the config; and what of Qwen3.5's layers that draft is not
/// read.
bool is_leftover(std::string_view name) {
  // Masks of GPT-2, GPT-J and GPT-NeoX.
  for (const std::string_view mask : {".attn.bias", ".attn.masked_bias", ".attention.bias", ".attention.masked_bias"}) {
    if (name.ends_with(mask)) return true;
  }
  return name.starts_with("mtp.") || name.ends_with(".rotary_emb.inv_freq") || name.starts_with("__pad_") ||
         name == "rope_factors_long.weight" || name == "rope_factors_short.weight";  // which the config has read
}

constexpr std::int64_t most_weights = std::int64_t{1} << 48;

/// Whether a tensor of floats is all zeros: GPTQ's tools write biases that the model does not have.
bool is_zero(const TensorEntry& entry) {
  const FloatsView values(entry);
  if (!values.readable() || entry.shape.size() != 1) return false;
  for (std::int64_t i = 0; i < entry.shape[0]; ++i) {
    if (values[i] != 0) return false;
  }
  return true;
}

class Matcher {
 public:
  Matcher(const TensorFiles& files, const ModelConfig& config)
      : files_(files), config_(config), arch_(*config.arch), gguf_(files.container == "gguf"), used_(files.tensors.tensors().size()) {}

  std::vector<CheckpointTensor> match() {
    const auto count = static_cast<std::int64_t>(used_.size());
    // A file cannot hold more layers than tensors; checked before the loop believes the config.
    if (config_.layers > count) fail(Errc::corrupt, files_.path, ": expected tensors of ", config_.layers, " layers, found ", count, " tensors in all");
    if (config_.vocab == 0) fail(Errc::corrupt, files_.path, ": expected the size of the vocabulary, found none");
    for (const std::int64_t start : {config_.decoder_start, config_.forced_start}) {
      if (start >= config_.vocab) fail(Errc::corrupt, files_.path, ": expected a decoder that begins with tokens below ", config_.vocab, ", found ", start);
    }
    for (std::int64_t layer = -1; layer < config_.layers + std::ssize(config_.drafting); ++layer) match_layer(layer);
    refuse_others();
    return std::move(found_);
  }

 private:
  [[nodiscard]] std::string_view pattern_of(const TensorKey& key) const noexcept { return gguf_ ? key.gguf : key.hf; }

  void match_layer(std::int64_t layer) {
    for_each_key(config_, layer, gguf_, [&](const TensorKey& key) {
      const RoleInfo& info = info_of(key.role);
      if (info.is_of_expert() && match_fused_experts(key, layer)) return;
      if (info.by_heads && match_latent(key, layer)) return;
      if (match_fused_rows(key, layer)) return;
      const std::int64_t experts = info.is_of_expert() && !is_stacked(pattern_of(key)) ? config_.layer(layer).experts : 0;
      if (experts == 0) match_one(key, {key.role, layer});
      for (std::int64_t e = 0; e < experts; ++e) match_one(key, {key.role, layer, e});
    });
  }

  void match_one(const TensorKey& key, const TensorId& id) {
    if (gguf_ && key.is_listed) return add(id, name_of(config_, key, id), source_of(std::make_shared<const std::vector<float>>(1, listed_number(*files_.gguf, key, id.layer, config_.layers)), 1));
    const std::string name = name_in(config_, pattern_of(key), id);
    const RoleInfo& info = info_of(id.role);
    if (!key.fused.pieces.empty() && container() == Container::folder) return add(id, name_of(config_, key, id), pieces_of(id));
    const bool repeats_embedding = id.role == Role::head && config_.tied;
    const auto [rows, columns] = shape_of(id.role, id.layer, config_);
    if (info.is_matrix() && !repeats_embedding) {
      if (SharedSource matrix = open_packed(name, id.layer, rows, columns)) return add(id, name, arranged(std::move(matrix), id));
    }
    const TensorEntry* entry = files_.tensors.find(name);
    if (entry == nullptr) {
      const bool may_lack = key.presence == Presence::optional && (id.role != Role::head || repeats_embedding);
      if (!may_lack) fail(Errc::corrupt, files_.path, ": expected tensor ", name, ", found none of that name");
      return;
    }
    use(*entry);
    // A tied model's second copy of the embedding says nothing new.
    if (repeats_embedding) return;
    if (info.is_matrix() && files_.container == "bantam") return add_native(id, name_of(config_, key, id), *entry);
    std::vector<std::int64_t> shape{columns};
    if (info.is_matrix()) shape.insert(shape.begin(), rows);
    const bool stacked = info.is_of_expert() && is_stacked(pattern_of(key));
    const std::int64_t experts = stacked ? config_.layer(id.layer).experts : 1;
    if (experts > 1) shape.insert(shape.begin(), experts);
    // A matrix of each head: GGUF counts them.
    if (gguf_ && info.by_heads) shape = {config_.heads_of(id.layer), rows / config_.heads_of(id.layer), columns};
    if (gguf_ && info.by_streams && config_.streams > 2) shape = {config_.streams - 1, rows / (config_.streams - 1), columns};
    // A vector may be a matrix of one row: the gate of Qwen's shared expert.
    if (!info.is_matrix() && entry->shape == std::vector<std::int64_t>{1, columns}) shape = entry->shape;
    if (key.is_scalar && entry->shape.empty()) shape.clear();
    if (auto theirs = stored_shape(id, config_, container()); !theirs.empty()) return add(id, name_of(config_, key, id), arranged(flat(*entry, std::move(theirs)), id));
    const SharedSource source = less_offset(open(*entry, shape), id.role);
    if (!stacked) return add(id, name_of(config_, key, id), arranged(source, id));
    for (std::int64_t e = 0; e < experts; ++e) add({id.role, id.layer, e}, name_of(config_, key, {id.role, id.layer, e}), slice(source, e, experts));
  }

  /// A matrix of which folders have equal parts.
  [[nodiscard]] SharedSource pieces_of(const TensorId& id) {
    const auto [rows, columns] = shape_of(id.role, id.layer, config_);
    std::vector<SharedSource> pieces;
    const std::vector<std::string> names = names_of_pieces(config_, id);
    if (rows % std::ssize(names) != 0) fail(Errc::unsupported, files_.path, ": ", names[0], ": expected ", names.size(), " equal parts of ", rows, " rows");
    for (const std::string& name : names) {
      const std::int64_t own = rows / std::ssize(names);
      if (SharedSource packed = open_packed(name, id.layer, own, columns)) {
        pieces.push_back(std::move(packed));
        continue;
      }
      const TensorEntry* entry = files_.tensors.find(name);
      if (entry == nullptr) fail(Errc::corrupt, files_.path, ": expected tensor ", name, ", found none of that name");
      pieces.push_back(open(*entry, {own, columns}));
    }
    return stack(std::move(pieces));
  }

  /// A tensor of floats or of GGUF's blocks. Those of NVFP4 go with a tensor of one factor, or one for each expert.
  [[nodiscard]] SharedSource open(const TensorEntry& entry, const std::vector<std::int64_t>& shape) {
    SharedSource source = open_plain(entry, files_.path, shape);
    if (entry.type != "NVFP4") return source;
    const std::string module = without_weight(entry.name), name = module + ".scale";
    // What activations would be rounded under.
    if (const TensorEntry* inputs = files_.tensors.find(module + ".input_scale")) use(*inputs);
    const TensorEntry* scale = files_.tensors.find(name);
    if (scale == nullptr) return source;
    use(*scale);
    const FloatsView values(*scale);
    const std::int64_t count = scale->shape.size() == 1 ? scale->shape[0] : scale->shape.empty() ? 1 : 0;
    if (!values.readable() || (count != 1 && (shape.size() < 3 || count != shape[0]))) {
      fail(Errc::corrupt, files_.path, ": ", printable(name), ": expected floats, one or one an expert, found ", printable(scale->type), " ", to_string(scale->shape));
    }
    std::vector<float> factors;
    for (std::int64_t i = 0; i < count; ++i) {
      if (!std::isfinite(values[i])) fail(Errc::corrupt, files_.path, ": ", printable(name), ": expected finite scales, found ", values[i], " at ", i);
      factors.push_back(values[i]);
    }
    return scaled_nvfp4(std::move(source), std::move(factors));
  }

  /// Norms of folders that store them less a number.
  [[nodiscard]] SharedSource less_offset(SharedSource source, Role role) const {
    const bool is_less = arch_.norm_offset != 0 && files_.container == "safetensors" && is_norm(role);
    return is_less ? offset(std::move(source), arch_.norm_offset) : source;
  }

  [[nodiscard]] Container container() const noexcept {
    return gguf_ ? Container::gguf : files_.container == "bantam" ? Container::native : Container::folder;
  }
  /// What the model has, of what the file has of it.
  [[nodiscard]] SharedSource arranged(SharedSource source, const TensorId& id) const {
    Arrangement theirs = arrangement_of(id, config_, container());
    if (!theirs.rows.empty()) source = select_rows(std::move(source), IndexList{std::move(theirs.rows)});
    if (!theirs.columns.empty()) source = select_columns(std::move(source), IndexList{std::move(theirs.columns)});
    if (theirs.is_negative) return scaled(std::move(source), {-1});
    return theirs.is_log ? minus_exp(std::move(source)) : source;
  }
  /// A vector that is stored as a tensor of this shape, or without axes of length 1.
  [[nodiscard]] SharedSource flat(const TensorEntry& entry, std::vector<std::int64_t> shape) {
    const auto without_ones = [](std::vector<std::int64_t> axes) {
      std::erase(axes, 1);
      return axes;
    };
    if (without_ones(entry.shape) == without_ones(shape)) shape = entry.shape;
    return as_row(open(entry, shape));
  }

  /// The matrix of a folder that others quantized; null where it is stored plainly.
  [[nodiscard]] std::shared_ptr<MatrixSource> open_packed(const std::string& name, std::int64_t layer, std::int64_t rows, std::int64_t columns) const {
    if (files_.family == nullptr) return nullptr;
    // Families multiply sizes before they have seen that the file is as large.
    if (rows > most_weights / columns) {
      fail(Errc::corrupt, files_.path, ": ", name, ": expected a matrix that memory holds, the config says (", rows, ", ", columns, ")");
    }
    std::shared_ptr<MatrixSource> matrix = files_.family->open({files_.tensors, files_.path, without_weight(name)}, rows, columns);
    if (matrix != nullptr) matrix->share_order(shared_order(found_, layer, matrix->order()));
    return matrix;
  }

  /// Whether the folder has those of all experts in one tensor.
  [[nodiscard]] bool match_fused_experts(const TensorKey& key, std::int64_t layer) {
    if (gguf_) return match_stacked_experts(key, layer);
    if (key.fused.name.empty()) return false;
    const std::string name = name_in(config_, key.fused.name, {key.role, layer}), single = name_in(config_, key.hf, {key.role, layer, 0});
    const TensorEntry* entry = files_.tensors.find(name);
    if (files_.tensors.find(single) != nullptr) {
      const bool both = entry != nullptr || files_.tensors.find(name + "_blocks") != nullptr;
      if (both) fail(Errc::corrupt, files_.path, ": ", name, ": expected a tensor of all experts or one of each, found ", single, " besides");
      return false;
    }
    const std::int64_t experts = config_.layer(layer).experts;
    const auto [rows, columns] = shape_of(key.role, layer, config_);
    std::vector<SharedSource> sources;
    if (info_of(key.role).is_matrix()) {
      sources = open_fused_experts(files_.tensors, files_.path, name, key.fused, {experts, rows, columns});
    } else if (entry != nullptr) {
      std::vector<std::int64_t> shape{key.fused.parts * columns};
      if (experts > 1) shape.insert(shape.begin(), experts);
      const SharedSource all = open(*entry, shape);
      for (std::int64_t e = 0; e < experts; ++e) sources.push_back(select_columns(slice(all, e, experts), fused_part(key.fused, columns)));
    }
    for (std::int64_t e = 0; e < std::ssize(sources); ++e) {
      const TensorId id{key.role, layer, e};
      add(id, name_of(config_, key, id), std::move(sources[static_cast<std::size_t>(e)]));
    }
    return !sources.empty();
  }

  /// The same of a GGUF file where gate and up of all experts may be one tensor.
  [[nodiscard]] bool match_stacked_experts(const TensorKey& key, std::int64_t layer) {
    if (key.fused.gguf.empty()) return false;
    const std::string name = name_from(key.fused.gguf, {key.role, layer}), own = name_from(key.gguf, {key.role, layer});
    const TensorEntry* entry = files_.tensors.find(name);
    if (entry == nullptr) return false;
    if (files_.tensors.find(own) != nullptr) fail(Errc::corrupt, files_.path, ": ", name, ": expected gate and up in one tensor or each in its own, found ", own, " besides");
    const std::int64_t experts = config_.layer(layer).experts;
    const auto [rows, columns] = shape_of(key.role, layer, config_);
    std::vector<std::int64_t> shape{key.fused.parts * rows, columns};
    if (experts > 1) shape.insert(shape.begin(), experts);
    const SharedSource all = open(*entry, shape);
    for (std::int64_t e = 0; e < experts; ++e) {
      const TensorId id{key.role, layer, e};
      add(id, name_of(config_, key, id), select_rows(slice(all, e, experts), fused_part(key.fused, rows)));
    }
    return true;
  }

  /// Whether the file has a role's rows in a tensor with those of others.
  [[nodiscard]] bool match_fused_rows(const TensorKey& key, std::int64_t layer) {
    const std::string_view pattern = gguf_ ? key.fused.gguf : container() == Container::folder ? key.fused.name : std::string_view();
    const TensorId id{key.role, layer};
    const std::optional<FusedRows> fused = pattern.empty() ? std::nullopt : fused_rows(config_, key, layer, gguf_);
    if (!fused || (pattern != pattern_of(key) && files_.tensors.find(name_in(config_, pattern_of(key), id)) != nullptr)) return false;
    const std::string name = name_in(config_, pattern, id);
    const std::int64_t columns = shape_of(key.role, layer, config_).second;
    const bool is_matrix = info_of(key.role).is_matrix();
    SharedSource all = is_matrix ? open_packed(name, layer, fused->rows, columns) : nullptr;
    const TensorEntry* entry = files_.tensors.find(name);
    if (all == nullptr && entry == nullptr) return false;
    if (all == nullptr) {
      const bool transposed = key.fused.transposed && !gguf_ && is_matrix;
      const auto shape = !is_matrix ? std::vector{fused->rows} : transposed ? std::vector{columns, fused->rows} : std::vector{fused->rows, columns};
      all = open(*entry, shape);
      if (transposed) all = transpose(std::move(all));
    }
    SharedSource own = std::visit([&](const auto& rows) { return is_matrix ? select_rows(all, rows) : select_columns(all, rows); }, fused->own);
    add(id, name_of(config_, key, id), arranged(std::move(own), id));
    return true;
  }

  /// Whether the file has the up-projections of latent attention in one tensor.
  [[nodiscard]] bool match_latent(const TensorKey& key, std::int64_t layer) {
    const TensorId id{key.role, layer};
    const std::string_view pattern = gguf_ ? key.fused.gguf : key.fused.name;
    if (pattern.empty() || files_.tensors.find(name_in(config_, pattern_of(key), id)) != nullptr) return false;
    const std::string name = name_in(config_, pattern, id);
    const LatentShape shape{config_.heads_of(layer), config_.head_dim - config_.rope.dim, config_.value_dim, config_.kv_rank};
    const std::int64_t rows = shape.heads * (shape.nope + shape.value);
    SharedSource both = open_packed(name, layer, rows, shape.rank);
    const TensorEntry* entry = files_.tensors.find(name);
    if (both == nullptr && entry != nullptr) both = open(*entry, {rows, shape.rank});
    if (both != nullptr) add(id, name_of(config_, key, id), latent_part(both, shape, key.fused));
    return both != nullptr;
  }

  void use(const TensorEntry& entry) { used_[static_cast<std::size_t>(&entry - files_.tensors.tensors().data())] = true; }

  void add(const TensorId& id, std::string name, SharedSource source) {
    CheckpointTensor& tensor = found_.emplace_back(id);
    set_name(tensor, std::move(name));
    std::tie(tensor.rows, tensor.columns) = shape_of(id.role, id.layer, config_);
    tensor.is_drafting = config_.is_drafting(id.layer);
    tensor.is_matrix = info_of(id.role).is_matrix();
    if (source == nullptr) return;
    for (const TensorPart& part : source->parts()) use(*part.entry);
    tensor.source = std::move(source);
  }
  void add_native(const TensorId& id, std::string name, const TensorEntry& entry) {
    if (entry.type != "U8" || entry.shape.size() != 1) {
      fail(Errc::corrupt, files_.path, ": ", printable(entry.name), ": expected packed bytes (U8), found ", entry.type, " ", to_string(entry.shape));
    }
    add(id, std::move(name), nullptr);
  }

  void refuse_others() const {
    std::vector<std::string> left_out;  // what names of tensors that nobody asks for begin with: of layers that only guess, and some others
    for (std::int64_t i = config_.layers; i < config_.layers + config_.drafting_layers; ++i) {
      const TensorKey* const norm = arch_.find(Role::attention_norm);
      const std::string_view pattern = pattern_of(norm != nullptr ? *norm : *arch_.find(Role::mixer_streams_norm));
      left_out.push_back(name_from(pattern.substr(0, pattern.find("{}") + 3), {Role::attention_norm, i}));
    }
    // The config has read them.
    for (const auto& [name, numbers] : detail::ngram_tensors(config_)) left_out.push_back(name);
    const auto is_left_out = [&](std::string_view name) { return std::ranges::any_of(left_out, [&](const std::string& begin) { return name.starts_with(begin); }); };
    // Some files have keys and values of layers that read others'. Nobody asks for them.
    for (std::int64_t i = 0; i < config_.layers; ++i) {
      if (config_.layer(i).kv_layer < 0) continue;
      for (const Role role : {Role::k, Role::v, Role::k_norm}) {
        if (const TensorKey* key = arch_.find(role)) left_out.push_back(without_weight(name_from(pattern_of(*key), {role, i})) + '.');
      }
    }
    for (std::size_t i = 0; i < used_.size(); ++i) {
      const TensorEntry& entry = files_.tensors.tensors()[i];
      const bool no_bias = files_.family != nullptr && entry.name.ends_with(".bias") && is_zero(entry);
      const bool of_training = std::ranges::any_of(arch_.leftovers, [&](std::string_view begin) { return entry.name.starts_with(begin); });
      if (used_[i] || is_leftover(entry.name) || no_bias || of_training || is_left_out(entry.name)) continue;
      fail(Errc::unsupported, files_.path, ": ", printable(entry.name), ": expected no such tensor in a model of type ", arch_.name);
    }
  }

  const TensorFiles& files_;
  const ModelConfig& config_;
  const ArchSpec& arch_;
  bool gguf_;
  std::vector<bool> used_;  ///< of the files' tensors
  std::vector<CheckpointTensor> found_;
};

}  // namespace

std::vector<std::string> names_of_pieces(const ModelConfig& config, const TensorId& id) {
  const TensorKey* const key = config.key_of(id.role, id.layer);
  std::vector<std::string> names;
  if (key == nullptr || key->fused.pieces.empty()) return names;
  // Of each residual stream but the first; or of a table that belongs to a layer.
  const bool by_streams = info_of(id.role).by_streams;
  const std::int64_t layer = by_streams ? id.layer : config.ngram_layer();
  for (std::int64_t i = 0; i < (by_streams ? config.streams - 1 : config.ngrams.parts); ++i) names.push_back(name_in(config, key->fused.pieces, {id.role, layer, i}));
  return names;
}

std::string without_weight(std::string name) {
  constexpr std::string_view ending = ".weight";
  if (name.ends_with(ending)) name.resize(name.size() - ending.size());
  return name;
}

void set_name(CheckpointTensor& tensor, std::string name) {
  tensor.name = without_weight(name);
  tensor.is_weight = tensor.name != name;
}

std::string name_of(const ModelConfig& config, const TensorKey& key, const TensorId& id) { return name_in(config, key.hf.empty() ? key.gguf : key.hf, id); }

std::shared_ptr<const ColumnPermutation> shared_order(std::span<const CheckpointTensor> tensors, std::int64_t layer,
                                                      std::shared_ptr<const ColumnPermutation> order) {
  if (order == nullptr) return order;
  for (auto other = tensors.rbegin(); other != tensors.rend() && other->layer >= layer; ++other) {
    if (other->source == nullptr) continue;
    const auto& theirs = other->order();
    if (theirs != nullptr && *theirs == *order) return theirs;
  }
  return order;
}

bool has_drafting(const TensorFiles& files, const ModelConfig& config) {
  const TensorKey& key = *config.arch->find(Role::draft_projection);
  const std::string name = name_from(files.container == "gguf" ? key.gguf : key.hf, {Role::draft_projection, config.layers});
  // Packed formats have several tensors in the place of a matrix, all of which begin with its name.
  return std::ranges::any_of(files.tensors.tensors(), [&, stem = without_weight(name)](const TensorEntry& entry) { return entry.name.starts_with(stem + '.'); });
}

void count_tables(const TensorFiles& files, ModelConfig& config) {
  const auto key_of = [&](Role role) {
    const TensorKey* key = config.arch->find(role);
    return key == nullptr ? std::string_view() : files.container == "gguf" ? key->gguf : key->hf;
  };
  const auto rows_of = [&](Role role, std::int64_t most, bool required) -> std::int64_t {
    const std::string_view name = key_of(role);
    const TensorEntry* entry = name.empty() ? nullptr : files.tensors.find(name);
    if (entry == nullptr && required) fail(Errc::corrupt, files.path, ": expected tensor ", name, ", found none of that name");
    if (entry == nullptr) return 0;
    // GGUF has no axes of one row, and native files have numbers in a row.
    std::int64_t numbers = 1;
    for (const std::int64_t extent : entry->shape) numbers = extent > 0 && numbers <= most_weights / extent ? numbers * extent : 0;
    if (numbers > 0 && numbers % config.dim == 0 && numbers / config.dim <= most) return numbers / config.dim;
    fail(Errc::corrupt, files.path, ": ", name, ": expected 1 to ", most, " rows of ", config.dim, " numbers, found ", to_string(entry->shape));
  };
  const TensorKey* types = config.arch->find(Role::token_type_embedding);
  config.token_types = rows_of(Role::token_type_embedding, 256, types != nullptr && (types->presence == Presence::required || (files.container != "gguf" && config.token_types > 0)));
  // Of decoders folders say by their class that there is one.
  const bool may_judge = config.labels > 0 || files.container == "gguf" || !config.arch->causal;
  config.labels = may_judge ? rows_of(Role::class_head, 1 << 16, config.labels > 0) : 0;
  // A GGUF file of a classifier without a head has none, rather than the embedding's.
  if (files.container == "gguf" && config.labels > 0 && config.tied) config.has_head = config.tied = false;
  if (!config.has_head || config.tied || (config.labels == 0 && !config.pooling)) return;
  // Models that were made to embed or to judge are saved without one, or with it.
  const std::string head(without_weight(std::string(key_of(Role::head))));
  config.has_head = std::ranges::any_of(files.tensors.tensors(), [&](const TensorEntry& entry) { return entry.name.starts_with(head + '.'); });
}

std::vector<CheckpointTensor> match_tensors(const TensorFiles& files, const ModelConfig& config) { return Matcher(files, config).match(); }

}  // namespace bantam::inline v0
