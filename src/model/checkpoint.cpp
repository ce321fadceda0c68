// Opening checkpoints: which tensor of a file serves which role, and whether all of them fit.
#include "bantam/model/checkpoint.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <set>
#include <tuple>

#include "bantam/core/names.hpp"
#include "bantam/io/file.hpp"
#include "bantam/io/gguf.hpp"
#include "bantam/io/safetensors.hpp"
#include "bantam/model/archs.hpp"
#include "bantam/model/locate.hpp"
#include "bantam/model/native_file.hpp"
#include "bantam/model/roles.hpp"
#include "model/metadata.hpp"
#include "model/packed/family.hpp"
#include "model/packed/fused_experts.hpp"
#include "model/packed/latent_heads.hpp"

namespace bantam::inline v0 {

namespace {

std::string without_weight(std::string name) {
  constexpr std::string_view ending = ".weight";
  if (name.ends_with(ending)) name.resize(name.size() - ending.size());
  return name;
}

void set_name(CheckpointTensor& tensor, std::string name) {
  tensor.name = without_weight(name);
  tensor.is_weight = tensor.name != name;
}

std::string name_of(const TensorKey& key, const TensorId& id) { return name_from(key.hf.empty() ? key.gguf : key.hf, id); }

/// Tensors that old checkpoints carry and nobody reads: they follow from the config.
bool is_leftover(std::string_view name) {
  return name.ends_with(".rotary_emb.inv_freq") || name.ends_with(".attention.masked_bias") || name.starts_with("__pad_");
}

/// The order of columns behind a native file's matrix: each once.
std::shared_ptr<const ColumnPermutation> read_order(const CheckpointTensor& tensor, std::span<const std::byte> bytes, const std::string& place) {
  ColumnPermutation order(static_cast<std::size_t>(tensor.columns));
  std::memcpy(order.data(), bytes.data(), bytes.size());
  std::vector<bool> seen(order.size());
  for (const std::int32_t column : order) {
    if (column < 0 || column >= tensor.columns || seen[static_cast<std::size_t>(column)]) {
      fail(Errc::corrupt, place, ": ", printable(tensor.entry->name), ": expected each column once, found ", column);
    }
    seen[static_cast<std::size_t>(column)] = true;
  }
  if (tensor.native->is_float) fail(Errc::corrupt, place, ": ", printable(tensor.entry->name), ": expected floats in the model's order");
  return std::make_shared<const ColumnPermutation>(std::move(order));
}

/// The same order as another matrix of the layer has, if it has: q, k and v are sorted alike, and share what they read.
std::shared_ptr<const ColumnPermutation> shared_order(std::span<const CheckpointTensor> tensors, std::int64_t layer,
                                                      std::shared_ptr<const ColumnPermutation> order) {
  if (order == nullptr) return order;
  for (auto other = tensors.rbegin(); other != tensors.rend() && other->layer >= layer; ++other) {
    if (other->order != nullptr && *other->order == *order) return other->order;
  }
  return order;
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

}  // namespace

GptqZero find_gptq_zero(std::string_view name) {
  constexpr std::string_view names[] = {"automatic", "wrapped", "legacy"};
  return static_cast<GptqZero>(find_name("gptq_zero", name, names));
}

std::string CheckpointTensor::tensor_name() const { return is_weight ? name + ".weight" : name; }

const FormatInfo& CheckpointTensor::format() const noexcept {
  return native != nullptr ? *native : packed != nullptr ? packed->format() : *source->format;
}

std::string CheckpointTensor::stored_as() const {
  if (native != nullptr) return std::string(native->name);
  if (packed != nullptr) return packed->description();
  return source->can_be_written() ? std::string(source->name) : message(source->name, ", kept in ", source->format->name);
}

std::int64_t CheckpointTensor::stored_bytes() const noexcept {
  if (entry == nullptr) return is_matrix ? native->matrix_bytes(rows, columns) : source->row_bytes(columns);
  return packed != nullptr ? packed->stored_bytes() : static_cast<std::int64_t>(bytes.size()) / step;
}

Checkpoint Checkpoint::open(const std::filesystem::path& name, const OpenOptions& options) {
  const std::filesystem::path path = find_model(name);
  const FileKind kind = kind_of(path);
  switch (kind) {
    case FileKind::folder: return open_folder(path, options);
    case FileKind::gguf: return open_gguf(path);
    case FileKind::native: return open_native(path);
    default: break;
  }
  // Its name says what it was to be, and reading it as that what is wrong.
  if (path.extension() == ".bantam") return open_native(path);
  if (kind == FileKind::safetensors) {
    fail(Errc::invalid_argument, printable(path.string(), 400),
         ": expected a native file, found plain safetensors: give the folder that holds it and its config.json");
  }
  if (path.extension() == ".gguf") return open_gguf(path);
  fail(Errc::unsupported, printable(path.string(), 400), ": expected a Hugging Face folder, a GGUF or a native file, found something else");
}

Checkpoint Checkpoint::open_folder(const std::filesystem::path& path, const OpenOptions& options) {
  Checkpoint c;
  c.path_ = path;
  c.container_ = "safetensors";
  c.config_ = read_hf_config(path / "config.json");
  c.metadata_ = metadata_of(read_text_file(path / "config.json"));
  c.source_ = SafetensorsFile::open_folder(path);
  c.tokenizer_ = Tokenizer::from_folder(path);
  c.collect(false, open_packed_family(path, options).get());
  c.warn_of_doubts();
  return c;
}

Checkpoint Checkpoint::open_gguf(const std::filesystem::path& path) {
  Checkpoint c;
  c.path_ = path;
  c.container_ = "gguf";
  const auto file = GgufFile::open(path);
  c.config_ = read_gguf_config(*file);
  c.metadata_ = metadata_of(*file);
  c.tokenizer_ = Tokenizer::from_gguf(*file);
  c.source_ = file;
  c.config_.tied = file->find("output.weight") == nullptr;
  c.collect(true);
  return c;
}

Checkpoint Checkpoint::open_native(const std::filesystem::path& path) {
  Checkpoint c;
  c.path_ = path;
  c.container_ = "bantam";
  const auto file = SafetensorsFile::open(path);
  const std::string place = path.string();
  const auto text = [&](std::string_view key) -> const std::string& {
    const auto it = file->metadata().find(std::string(key));
    if (it == file->metadata().end()) fail(Errc::corrupt, place, ": __metadata__: expected ", key, ", found nothing");
    return it->second;
  };
  if (text(native::version_key) != native::version) {
    fail(Errc::unsupported, place, ": ", native::version_key, ": expected ", native::version, ", found ", printable(text(native::version_key)));
  }
  c.config_ = parse_hf_config(text(native::config_key), place);
  c.metadata_ = metadata_of(text(native::config_key));
  c.tokenizer_ = Tokenizer::from_json(text(native::tokenizer_key), place);
  c.recipe_ = text(native::recipe_key);
  const Json recipe = Json::parse_or_null(c.recipe_);
  if (const Json* removed = recipe.find("removed")) {
    for (const Json& part : *removed) {
      if (part.is_string()) c.note_removed(std::string(part.string()));
    }
  }
  c.source_ = file;
  c.collect(false);
  const Json tensors = Json::parse_or_null(text(native::tensors_key));
  const Json hashes = Json::parse_or_null(text(native::hashes_key));
  if (!tensors.is_object() || !hashes.is_object()) {
    fail(Errc::corrupt, place, ": __metadata__: expected ", native::tensors_key, " and ", native::hashes_key, " as JSON objects");
  }
  for (CheckpointTensor& tensor : c.tensors_) {
    const std::string& name = tensor.entry->name;
    const Json* hash = hashes.find(name);
    if (hash == nullptr || !hash->is_string()) fail(Errc::corrupt, place, ": ", native::hashes_key, ": ", printable(name), ": expected its hash, found none");
    tensor.expected_hash = std::string(hash->string());
    if (!tensor.is_matrix) continue;
    const Json* entry = tensors.find(name);
    const Json* format_id = entry != nullptr ? entry->find("id") : nullptr;
    const Json* shape = entry != nullptr ? entry->find("shape") : nullptr;
    if (format_id == nullptr || !format_id->is_number_unsigned() || shape == nullptr || *shape != Json::array({tensor.rows, tensor.columns})) {
      fail(Errc::corrupt, place, ": ", native::tensors_key, ": ", printable(name), ": expected id and shape (", tensor.rows, ", ", tensor.columns, "), found something else");
    }
    const auto id = format_id->get<std::uint64_t>();
    tensor.native = id <= 0xffff ? find_format(FormatId{static_cast<std::uint16_t>(id)}) : nullptr;
    if (tensor.native == nullptr) {
      fail(Errc::unsupported, place, ": ", printable(name), ": expected a format of this version, found number ", id);
    }
    const bool ordered = flag(*entry, "ordered", false, message(place, ": ", native::tensors_key, ": ", printable(name)));
    const auto plain_bytes = static_cast<std::uint64_t>(tensor.native->matrix_bytes(tensor.rows, tensor.columns));
    const std::uint64_t bytes = plain_bytes + (ordered ? static_cast<std::uint64_t>(tensor.columns) * sizeof(std::int32_t) : 0);
    if (tensor.entry->bytes.size() != bytes) {
      fail(Errc::corrupt, place, ": ", printable(name), ": expected ", bytes, " bytes of ", tensor.native->name, ", found ", tensor.entry->bytes.size());
    }
    if (reinterpret_cast<std::uintptr_t>(tensor.entry->bytes.data()) % storage_alignment != 0) {
      fail(Errc::corrupt, place, ": ", printable(name), ": expected its bytes at a multiple of ", storage_alignment, " in the file");
    }
    if (ordered) tensor.order = shared_order(c.tensors_, tensor.layer, read_order(tensor, tensor.entry->bytes.subspan(plain_bytes), place));
  }
  return c;
}

void Checkpoint::collect(bool gguf, const PackedFamily* family) {
  const ArchSpec& arch = *config_.arch;
  std::vector<bool> used(source_->tensors().size());
  const auto number_of = [&](const TensorEntry& entry) { return static_cast<std::size_t>(&entry - source_->tensors().data()); };
  const auto visit = [&](const TensorKey& key, const TensorId& id) {
    const std::string_view pattern = gguf ? key.gguf : key.hf;
    const std::string name = name_from(pattern, id);
    const bool repeats_embedding = key.role == Role::head && config_.tied;
    if (family != nullptr && info_of(key.role).is_matrix() && !repeats_embedding) {
      const auto [rows, columns] = shape_of(key.role, id.layer, config_);
      // Families multiply sizes before they have seen that the file is as large.
      if (rows > most_weights / columns) {
        fail(Errc::corrupt, path_.string(), ": ", name, ": expected a matrix that memory holds, the config says (", rows, ", ", columns, ")");
      }
      if (auto matrix = family->open({*source_, path_.string(), without_weight(name)}, rows, columns)) {
        for (const TensorEntry* part : matrix->parts()) used[number_of(*part)] = true;
        return add_packed(id, without_weight(name), std::move(matrix));
      }
    }
    const TensorEntry* entry = source_->find(name);
    if (entry == nullptr) {
      const bool may_lack = key.presence == Presence::optional && (key.role != Role::head || repeats_embedding);
      if (!may_lack) fail(Errc::corrupt, path_.string(), ": expected tensor ", name, ", found none of that name");
      return;
    }
    used[number_of(*entry)] = true;
    // A tied model's second copy of the embedding says nothing new.
    if (repeats_embedding) return;
    if (!info_of(key.role).is_of_expert() || !is_stacked(pattern)) return add_tensor(id, name_of(key, id), *entry, {}, gguf);
    const std::int64_t experts = config_.layer(id.layer).experts;
    for (std::int64_t e = 0; e < experts; ++e) add_tensor({id.role, id.layer, e}, name_of(key, {id.role, id.layer, e}), *entry, {e, experts}, gguf);
  };
  /// Whether the folder has those of all experts in one tensor.
  const auto visit_fused = [&](const TensorKey& key, std::int64_t layer) {
    const std::int64_t experts = config_.layer(layer).experts;
    if (gguf || key.fused.name.empty()) return false;
    const std::string name = name_from(key.fused.name, {key.role, layer}), single = name_from(key.hf, {key.role, layer, 0});
    if (source_->find(single) != nullptr) {
      const bool both = source_->find(name) != nullptr || source_->find(name + "_blocks") != nullptr;
      if (both) fail(Errc::corrupt, path_.string(), ": ", name, ": expected a tensor of all experts or one of each, found ", single, " besides");
      return false;
    }
    if (!info_of(key.role).is_matrix()) {
      const TensorEntry* entry = source_->find(name);
      if (entry == nullptr) return false;
      used[number_of(*entry)] = true;
      for (std::int64_t e = 0; e < experts; ++e) {
        const TensorId id{key.role, layer, e};
        add_tensor(id, name_of(key, id), *entry, {e, experts}, gguf, key.fused);
      }
      return true;
    }
    const auto [rows, columns] = shape_of(key.role, layer, config_);
    std::vector<const TensorEntry*> taken;
    auto matrices = open_fused_experts(*source_, path_.string(), name, key.fused, experts, rows, columns, taken);
    for (const TensorEntry* entry : taken) used[number_of(*entry)] = true;
    for (std::int64_t e = 0; e < std::ssize(matrices); ++e) {
      const TensorId id{key.role, layer, e};
      add_packed(id, without_weight(name_of(key, id)), std::move(matrices[static_cast<std::size_t>(e)]));
    }
    return !matrices.empty();
  };
  /// Whether the file has the up-projections of latent attention in one tensor.
  const auto visit_latent = [&](const TensorKey& key, std::int64_t layer) {
    const TensorId id{key.role, layer};
    const std::string_view pattern = gguf ? key.fused.gguf : key.fused.name;
    if (pattern.empty() || source_->find(name_from(gguf ? key.gguf : key.hf, id)) != nullptr) return false;
    const std::string name = name_from(pattern, id);
    const LatentShape shape{config_.heads_of(layer), config_.head_dim - config_.rope.dim, config_.value_dim, config_.kv_rank};
    const std::int64_t rows = shape.heads * (shape.nope + shape.value);
    LatentRows from;
    if (family != nullptr) {
      if (std::shared_ptr<const PackedMatrix> matrix = family->open({*source_, path_.string(), without_weight(name)}, rows, shape.rank)) {
        from = {[matrix](std::int64_t row, std::span<float> out) { matrix->read_row(row, out); }, matrix->parts(),
                matrix->format().is_float ? &matrix->format() : &format_info<F32Format>(), matrix->description()};
      }
    }
    const TensorEntry* entry = source_->find(name);
    if (!from.read && entry == nullptr) return false;
    if (!from.read) {
      const std::string place = message(path_.string(), ": ", printable(name));
      const SourceType* type = find_source_type(entry->type);
      if (type == nullptr) fail(Errc::unsupported, place, ": type ", printable(entry->type), ": not yet; what works: ", source_type_names());
      if (entry->shape != std::vector<std::int64_t>{rows, shape.rank} || shape.rank % type->block != 0) {
        fail(Errc::corrupt, place, ": expected shape ", to_string(std::vector<std::int64_t>{rows, shape.rank}), ", found ", to_string(entry->shape));
      }
      const auto row_bytes = static_cast<std::size_t>(type->row_bytes(shape.rank));
      if (entry->bytes.size() != static_cast<std::size_t>(rows) * row_bytes) {
        fail(Errc::corrupt, place, ": expected ", static_cast<std::size_t>(rows) * row_bytes, " bytes of ", entry->type, ", found ", entry->bytes.size());
      }
      from = {[entry, type, row_bytes, source = source_](std::int64_t row, std::span<float> out) {
                std::vector<std::byte> bytes(row_bytes);
                entry->file->read(entry->bytes.subspan(static_cast<std::size_t>(row) * row_bytes, row_bytes), bytes.data());
                type->read_row(bytes.data(), out);
              },
              {entry}, type->format->is_float ? type->format : &format_info<F32Format>(), std::string(type->name)};
    }
    for (const TensorEntry* part : from.parts) used[number_of(*part)] = true;
    add_packed(id, without_weight(name_of(key, id)), open_latent_heads(std::move(from), shape, key.fused));
    return true;
  };
  const auto visit_all = [&](std::int64_t layer) {
    const bool sparse = layer >= 0 && config_.layer(layer).is_sparse();
    for (const auto& list : {arch.tensors, arch.more_tensors}) {
      for (const TensorKey& key : list) {
        const RoleInfo& info = info_of(key.role);
        const std::string_view pattern = gguf ? key.gguf : key.hf;
        if (info.is_of_layer() != (layer >= 0) || pattern.empty() || arch.find(key.role, sparse) != &key || !is_in_layer(key.role, layer, config_)) continue;
        if (info.is_of_expert() && visit_fused(key, layer)) continue;
        if (info.by_heads && visit_latent(key, layer)) continue;
        const std::int64_t experts = info.is_of_expert() && !is_stacked(pattern) ? config_.layer(layer).experts : 0;
        if (experts == 0) visit(key, {key.role, layer});
        for (std::int64_t e = 0; e < experts; ++e) visit(key, {key.role, layer, e});
      }
    }
  };
  // A file cannot hold more layers than tensors; checked before the loop believes the config.
  if (config_.layers > static_cast<std::int64_t>(source_->tensors().size())) {
    fail(Errc::corrupt, path_.string(), ": expected tensors of ", config_.layers, " layers, found ", source_->tensors().size(), " tensors in all");
  }
  if (config_.vocab == 0) fail(Errc::corrupt, path_.string(), ": expected the size of the vocabulary, found none");
  for (std::int64_t layer = -1; layer < config_.layers; ++layer) visit_all(layer);
  std::vector<std::string> drafting;  // what names of tensors of layers that only guess begin with
  for (std::int64_t i = config_.layers; i < config_.layers + config_.drafting_layers; ++i) {
    const std::string_view pattern = gguf ? arch.find(Role::attention_norm)->gguf : arch.find(Role::attention_norm)->hf;
    drafting.push_back(name_from(pattern.substr(0, pattern.find("{}") + 3), {Role::attention_norm, i}));
  }
  const auto drafts = [&](std::string_view name) { return std::ranges::any_of(drafting, [&](const std::string& begin) { return name.starts_with(begin); }); };
  for (const TensorEntry& entry : source_->tensors()) {
    file_bytes_ += static_cast<std::int64_t>(entry.bytes.size());
    const bool no_bias = family != nullptr && entry.name.ends_with(".bias") && is_zero(entry);
    if (!used[number_of(entry)] && !is_leftover(entry.name) && !no_bias && !drafts(entry.name)) {
      fail(Errc::unsupported, path_.string(), ": ", printable(entry.name), ": expected no such tensor in a model of type ", arch.name);
    }
  }
  if (tokenizer_->vocab_size() > config_.vocab) {
    fail(Errc::corrupt, path_.string(), ": expected a vocabulary of at most ", config_.vocab, " tokens (rows of the embedding), the tokenizer has ", tokenizer_->vocab_size());
  }
  for (const CheckpointTensor& tensor : tensors_) {
    if (tensor.role != Role::rope_divisors) continue;
    config_.rope.divisors = load_vector(tensor);
    for (const float divisor : config_.rope.divisors) {
      if (divisor > 0 && std::isfinite(divisor)) continue;
      fail(Errc::corrupt, path_.string(), ": ", printable(tensor.entry->name), ": expected divisors above 0, found ", divisor);
    }
  }
}

void Checkpoint::warn_of_doubts() {
  const CheckpointTensor* first = nullptr;
  std::int64_t count = 0;
  for (const CheckpointTensor& tensor : tensors_) {
    if (tensor.packed == nullptr || tensor.packed->doubt().empty()) continue;
    if (count++ == 0) first = &tensor;
  }
  if (count == 0) return;
  warnings_.push_back(message(path_.string(), ": ", first->name, count == 1 ? "" : message(" and ", count - 1, " others"), ": ", first->packed->doubt()));
}

void Checkpoint::add_packed(const TensorId& id, std::string name, std::shared_ptr<const PackedMatrix> matrix) {
  CheckpointTensor tensor(id);
  tensor.name = std::move(name);
  tensor.rows = matrix->rows();
  tensor.columns = matrix->columns();
  tensor.is_matrix = true;
  tensor.entry = matrix->parts().front();
  tensor.order = shared_order(tensors_, id.layer, matrix->order());
  tensor.packed = std::move(matrix);
  tensors_.push_back(std::move(tensor));
}

void Checkpoint::add_tensor(const TensorId& id, std::string name, const TensorEntry& entry, Slice slice, bool gguf, const Fused& fused) {
  CheckpointTensor tensor(id);
  set_name(tensor, std::move(name));
  tensor.is_matrix = info_of(id.role).is_matrix();
  tensor.entry = &entry;
  const auto [rows, columns] = shape_of(id.role, id.layer, config_);
  tensor.rows = rows;
  tensor.columns = columns;
  const std::string place = message(path_.string(), ": ", printable(entry.name));
  if (tensor.is_matrix && container_ == "bantam") {
    if (entry.type != "U8" || entry.shape.size() != 1) fail(Errc::corrupt, place, ": expected packed bytes (U8), found ", entry.type, " ", to_string(entry.shape));
    tensor.bytes = entry.bytes;
    tensors_.push_back(std::move(tensor));
    return;
  }
  tensor.source = find_source_type(entry.type);
  if (tensor.source == nullptr) {
    fail(Errc::unsupported, place, ": type ", printable(entry.type), ": not yet; what works: ", source_type_names());
  }
  tensor.step = fused.interleaved ? fused.parts : 1;
  tensor.first = fused.interleaved ? fused.part : 0;
  std::vector<std::int64_t> expected{fused.parts * columns};
  if (tensor.is_matrix) expected.insert(expected.begin(), rows);
  if (slice.count > 1) expected.insert(expected.begin(), slice.count);
  // A matrix of each head: GGUF counts them.
  if (gguf && info_of(id.role).by_heads) expected = {config_.heads_of(id.layer), rows / config_.heads_of(id.layer), columns};
  // A vector may be a matrix of one row: the gate of Qwen's shared expert.
  const bool one_row = !tensor.is_matrix && entry.shape == std::vector<std::int64_t>{1, columns};
  if (entry.shape != expected && !one_row) fail(Errc::corrupt, place, ": expected shape ", to_string(expected), ", found ", to_string(entry.shape));
  const std::int64_t bytes = rows * tensor.source->row_bytes(fused.parts * columns);
  if (columns % tensor.source->block != 0 || static_cast<std::int64_t>(entry.bytes.size()) != slice.count * bytes) {
    fail(Errc::corrupt, place, ": expected ", slice.count * bytes, " bytes of ", entry.type, ", found ", entry.bytes.size());
  }
  tensor.bytes = entry.bytes.subspan(static_cast<std::size_t>(slice.index * bytes), static_cast<std::size_t>(bytes));
  if (fused.parts > 1 && !fused.interleaved) {
    const std::size_t own = tensor.bytes.size() / static_cast<std::size_t>(fused.parts);
    tensor.bytes = tensor.bytes.subspan(static_cast<std::size_t>(fused.part) * own, own);
  }
  if (gguf && config_.arch->gguf_pairs != config_.arch->pairs) tensor.unpermute_heads = rope_heads_of(id.role, id.layer, config_);
  tensors_.push_back(std::move(tensor));
}

std::vector<NativeWriter::Entry> entries_in_memory(const Checkpoint& checkpoint) {
  std::vector<NativeWriter::Entry> entries;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    entries.push_back({tensor.tensor_name(), tensor.native, tensor.rows, tensor.columns, tensor.order.get()});
  }
  return entries;
}

std::int64_t Checkpoint::stored_bytes() const {
  if (stored_bytes_ > 0) return stored_bytes_;
  if (path_.empty()) {
    return static_cast<std::int64_t>(NativeWriter::file_bytes(config_, *tokenizer_, recipe_.empty() ? "{}" : recipe_, entries_in_memory(*this)));
  }
  std::set<const MappedFile*> files;
  for (const CheckpointTensor& tensor : tensors_) {
    if (tensor.entry != nullptr) files.insert(tensor.entry->file.get());
    if (tensor.packed == nullptr) continue;
    for (const TensorEntry* part : tensor.packed->parts()) files.insert(part->file.get());
  }
  std::int64_t bytes = 0;
  for (const MappedFile* file : files) bytes += static_cast<std::int64_t>(file->bytes().size());
  return bytes;
}

Checkpoint Checkpoint::in_memory(const Checkpoint& like, std::shared_ptr<const ModelWeights> weights, std::string recipe_json) {
  std::vector<std::int64_t> layers(static_cast<std::size_t>(like.config_.layers));
  std::iota(layers.begin(), layers.end(), 0);
  return in_memory(like, like.config_, layers, std::move(weights), std::move(recipe_json));
}

Checkpoint Checkpoint::in_memory(const Checkpoint& like, const ModelConfig& config, std::span<const std::int64_t> layers,
                                 std::shared_ptr<const ModelWeights> weights, std::string recipe_json) {
  BANTAM_ASSERT(static_cast<std::int64_t>(layers.size()) == config.layers);
  Checkpoint c;
  c.container_ = "memory";
  c.config_ = config;
  c.tokenizer_ = like.tokenizer_;
  c.metadata_ = like.metadata_;
  c.recipe_ = std::move(recipe_json);
  c.removed_ = like.removed_;
  c.file_bytes_ = weights ? weights->matrix_bytes : 0;
  for (const CheckpointTensor& tensor : like.tensors_) {
    if (tensor.role == Role::rope_divisors) continue;  // the config has them
    const auto place = std::ranges::find(layers, tensor.layer);
    if (tensor.layer >= 0 && place == layers.end()) continue;
    if (tensor.expert >= 0 && tensor.expert >= config.layer(place - layers.begin()).experts) continue;
    CheckpointTensor& own = c.tensors_.emplace_back(TensorId(tensor.role, tensor.layer < 0 ? -1 : place - layers.begin(), tensor.expert));
    const bool sparse = own.layer >= 0 && config.layer(own.layer).is_sparse();
    set_name(own, own.layer == tensor.layer ? tensor.tensor_name() : name_of(*config.arch->find(tensor.role, sparse), own));
    std::tie(own.rows, own.columns) = shape_of(tensor.role, own.layer, config);
    own.is_matrix = tensor.is_matrix;
    if (tensor.is_matrix && !weights) {
      own.native = &tensor.format();
    } else if (tensor.is_matrix) {
      const WeightMatrix& matrix = *matrix_of(*weights, own);
      BANTAM_ASSERT(matrix.rows() == own.rows && matrix.columns() == own.columns);
      own.native = &matrix.format();
      own.order = matrix.order();
    } else {
      own.source = find_source_type("F32");
    }
  }
  c.weights_ = std::move(weights);
  return c;
}

Checkpoint Checkpoint::untied() const {
  Checkpoint c = *this;
  if (!config_.tied) return c;
  const auto of_role = [](Role role) { return [role](const auto& tensor) { return tensor.role == role; }; };
  const TensorKey* key = config_.arch->find(Role::head);
  if (key != nullptr && !key->hf.empty()) {
    CheckpointTensor head = *std::ranges::find_if(tensors_, of_role(Role::embedding));
    head.role = Role::head;
    head.name = without_weight(std::string(key->hf));
    c.tensors_.insert(std::ranges::find_if(c.tensors_, of_role(Role::final_norm)) + 1, std::move(head));
    c.config_.tied = false;
    return c;
  }
  fail(Errc::unsupported, path_.string(), ": expected an architecture with a head of its own, found ", config_.arch->name);
}

Tokenizer open_tokenizer(const std::filesystem::path& name) {
  const std::filesystem::path path = find_model(name);
  switch (kind_of(path)) {
    case FileKind::folder: return Tokenizer::from_folder(path);
    case FileKind::gguf: return Tokenizer::from_gguf(*GgufFile::open(path));
    case FileKind::native: return Checkpoint::open(path).tokenizer();
    default: break;
  }
  if (path.extension() == ".gguf") return Tokenizer::from_gguf(*GgufFile::open(path));  // says what is wrong with it
  return Tokenizer::from_file(path);
}

}  // namespace bantam::inline v0
