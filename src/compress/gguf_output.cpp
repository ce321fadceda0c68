// Tensors under GGUF's names, in GGUF's order of rows and in its blocks.
#include "gguf_output.hpp"

#include <algorithm>
#include <map>

#include "bantam/core/parallel.hpp"
#include "bantam/model/roles.hpp"
#include "model/arrangement.hpp"
#include "model/fused_rows.hpp"
#include "model/listed_numbers.hpp"

namespace bantam::inline v0 {

namespace {

/// Rows of a matrix that the file has none of, before the others: those of RoBERTa's that call themselves BERT.
std::int64_t rows_left_out(const ModelConfig& config, const CheckpointTensor& tensor) noexcept {
  return tensor.role == Role::position_embedding && config.arch->pads_positions && !config.arch->gguf.empty() ? config.arch->position_offset : 0;
}

/// Rows that the file has behind a matrix's own: its tables of per-layer embeddings are as long as the vocabulary.
std::int64_t rows_put_in(const ModelConfig& config, const CheckpointTensor& tensor) noexcept {
  return tensor.role == Role::per_layer_embedding ? config.vocab - config.per_layer_tokens() : 0;
}

/// Keys, values and norms of keys of layers that read those of others: readers ask for them, and nobody reads them.
std::vector<GgufWriter::Announced> unread_keys(const ModelConfig& config) {
  std::vector<GgufWriter::Announced> tensors;
  for (std::int64_t i = 0; config.arch->lists_shared_keys && i < config.layers; ++i) {
    if (config.layer(i).kv_layer < 0) continue;
    for (const Role role : {Role::k, Role::v, Role::k_norm}) {
      const auto [rows, columns] = shape_of(role, config.layer(i).kv_layer, config);
      const bool is_matrix = info_of(role).is_matrix();
      tensors.push_back({name_in(config, config.key_of(role, i)->gguf, {role, i}), is_matrix ? "F16" : "F32", is_matrix ? std::vector{rows, columns} : std::vector{columns}});
    }
  }
  return tensors;
}

/// Of formats that check_formats() let through.
const SourceType& type_of(const FormatInfo& format) {
  const SourceType* type = source_type_of(format);
  BANTAM_ASSERT(type != nullptr);
  return *type;
}

/// One row as bytes of `type`.
void put_row(const WeightMatrix& matrix, const SourceType& type, std::int64_t row, std::byte* to, RowCodes& codes, std::vector<float>& floats) {
  const FormatInfo& format = matrix.format();
  if (type.write_codes != nullptr) {
    const std::byte* panel = matrix.view().data + row / panel_rows * format.panel_bytes(matrix.columns());
    format.load_codes(panel, static_cast<int>(row % panel_rows), matrix.columns(), codes);
    type.write_codes(codes.codes.data(), codes.sides.data(), matrix.columns(), to);
    return;
  }
  matrix.read_row(row, floats, codes);
  for (std::size_t c = 0; c < floats.size(); ++c) {
    std::byte* at = to + c * static_cast<std::size_t>(type.block_bytes);
    if (format.id == F16Format::id) {
      detail::store_as(at, f16(floats[c]));
    } else if (format.id == BF16Format::id) {
      detail::store_as(at, bf16(floats[c]));
    } else {
      detail::store_as(at, floats[c]);
    }
  }
}

/// Gives the file its keys, and lists its tensors.
std::vector<GgufWriter::Announced> announce(GgufWriter& file, const Checkpoint& checkpoint, const std::vector<NativeWriter::Entry>& entries,
                                            const std::vector<std::pair<std::string, std::vector<float>>>& rope) {
  const ModelConfig& config = checkpoint.config();
  write_gguf_config(file, config);
  checkpoint.tokenizer().write_gguf(file, config.vocab);
  std::vector<GgufWriter::Announced> tensors;
  std::map<std::string_view, std::vector<float>> lists;
  std::size_t next = 0;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    if (tensor.role == Role::rope_divisors) continue;
    const FormatInfo* format = entries[next++].format;
    const TensorKey* key = config.key_of(tensor.role, tensor.layer);
    if (key != nullptr && key->is_listed) {
      lists[list_of(*key)].push_back(checkpoint.load_vector(tensor)[0]);
      continue;
    }
    GgufWriter::Announced announced{key == nullptr ? std::string() : name_in(config, key->gguf, tensor), "F32", {tensor.columns}};
    if (format != nullptr) announced = {std::move(announced.name), std::string(type_of(*format).name), {tensor.rows - rows_left_out(config, tensor) + rows_put_in(config, tensor), tensor.columns}};
    if (std::vector<std::int64_t> shape = stored_shape(tensor, config, Container::gguf); !shape.empty()) announced.shape = std::move(shape);
    if (info_of(tensor.role).by_heads) announced.shape = {config.heads_of(tensor.layer), tensor.rows / config.heads_of(tensor.layer), tensor.columns};
    if (info_of(tensor.role).by_streams && config.streams > 2) announced.shape = {config.streams - 1, tensor.rows / (config.streams - 1), tensor.columns};
    if (tensor.expert >= 0 && is_stacked(key->gguf)) {
      // Those of the first expert stand for all: their bytes follow each other.
      if (tensor.expert > 0 && announced.type != tensors.back().type) {
        fail(Errc::invalid_argument, tensor.name, ": expected the format of all experts of the layer, which GGUF files have in one tensor (", tensors.back().type, "), found ",
             announced.type);
      }
      if (tensor.expert > 0) continue;
      announced.shape.insert(announced.shape.begin(), config.layer(tensor.layer).experts);
    }
    // Gate and up of one name: the rows of the second follow those of the first.
    if (!tensors.empty() && tensors.back().name == announced.name) {
      if (announced.type != tensors.back().type) {
        fail(Errc::invalid_argument, tensor.name, ": expected the format of the matrix before it, with which GGUF files have it in one tensor (", tensors.back().type, "), found ",
             announced.type);
      }
      tensors.back().shape[0] += announced.shape[0];
      continue;
    }
    tensors.push_back(std::move(announced));
  }
  for (const auto& [name, numbers] : lists) file.key(name, std::span<const float>(numbers));
  for (const auto& [name, divisors] : rope) tensors.push_back({name, "F32", {std::ssize(divisors)}});
  for (GgufWriter::Announced& keys : unread_keys(config)) tensors.push_back(std::move(keys));
  return tensors;
}

}  // namespace

const FormatInfo& gguf_format(const CheckpointTensor& tensor, const FormatInfo& format) {
  // What llama.cpp's own tool takes instead, for the same reason.
  constexpr std::pair<std::string_view, std::string_view> smaller_blocks[] = {
      {"q2_k", "q4_0"}, {"q3_k", "q4_0"}, {"q4_k", "q5_0"}, {"q5_k", "q5_1"}, {"q6_k", "q8_0"}, {"iq4_xs", "iq4_nl"}};
  const FormatInfo* fitting = &format;
  if (format.vectors != nullptr && tensor.columns % type_of(format).block != 0) fitting = &find_format("iq4_nl");
  for (const auto& [from, to] : smaller_blocks) {
    if (tensor.columns % type_of(*fitting).block != 0 && fitting == &find_format(from)) fitting = &find_format(to);
  }
  return tensor.columns % type_of(*fitting).block == 0 ? *fitting : format_info<F16Format>();
}

GgufOutput::GgufOutput(const std::filesystem::path& path, const Checkpoint& checkpoint, const std::vector<NativeWriter::Entry>& entries)
    : config_(checkpoint.config()), file_(path), rope_(gguf_rope_tensors(checkpoint.config())) {
  file_.begin(announce(file_, checkpoint, entries, rope_));
}

std::int64_t gguf_file_bytes(const Checkpoint& checkpoint, const std::vector<NativeWriter::Entry>& entries) {
  GgufWriter file{std::filesystem::path()};
  return static_cast<std::int64_t>(file.file_bytes(announce(file, checkpoint, entries, gguf_rope_tensors(checkpoint.config()))));
}

void GgufOutput::write_vector(const CheckpointTensor& tensor, const std::vector<float>& values) {
  if (const TensorKey* key = config_.key_of(tensor.role, tensor.layer); key != nullptr && key->is_listed) return;
  const std::vector<float> stored = in_container(values, arrangement_of(tensor, config_, Container::gguf));
  file_.write(std::as_bytes(std::span(stored)));
}

void GgufOutput::write_matrix(const CheckpointTensor& tensor, const WeightMatrix& matrix) {
  BANTAM_ASSERT(matrix.order() == nullptr);
  const SourceType& type = type_of(matrix.format());
  const Arrangement theirs = arrangement_of(tensor, config_, Container::gguf);
  BANTAM_ASSERT(theirs.columns.empty());
  const std::vector<std::int64_t> order = inverse(theirs.rows);
  const std::int64_t row_bytes = type.row_bytes(matrix.columns());
  const auto bytes = allocate_storage(static_cast<std::size_t>(matrix.rows() * row_bytes));
  parallel_for(matrix.rows(), panel_rows, [&](Range rows) {
    RowCodes codes;
    std::vector<float> floats(static_cast<std::size_t>(matrix.columns()));
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      put_row(matrix, type, order.empty() ? row : order[static_cast<std::size_t>(row)], bytes.get() + row * row_bytes, codes, floats);
    }
  });
  const std::int64_t left_out = rows_left_out(config_, tensor);
  const std::span<const std::byte> rows(bytes.get() + left_out * row_bytes, static_cast<std::size_t>((matrix.rows() - left_out) * row_bytes));
  const TensorKey* key = config_.key_of(tensor.role, tensor.layer);
  if (key->fused.by_key_heads && key->fused.gguf == key->gguf) return write_part(tensor, *key, rows);
  file_.write(rows);
  // Tokens without a per-layer embedding of their own have the first's.
  for (std::int64_t i = 0; i < rows_put_in(config_, tensor); ++i) file_.write(rows.first(static_cast<std::size_t>(row_bytes)));
}

/// Puts a part of a tensor into its place; the last one writes all.
void GgufOutput::write_part(const CheckpointTensor& tensor, const TensorKey& key, std::span<const std::byte> rows) {
  const FusedRows places = *fused_rows(config_, key, tensor.layer, true);
  const std::size_t row_bytes = rows.size() / static_cast<std::size_t>(tensor.rows);
  parts_.resize(static_cast<std::size_t>(places.rows) * row_bytes);
  for (std::int64_t row = 0; row < tensor.rows; ++row) {
    std::ranges::copy(rows.subspan(static_cast<std::size_t>(row) * row_bytes, row_bytes), parts_.begin() + places.place(row) * static_cast<std::ptrdiff_t>(row_bytes));
  }
  parts_rows_ += tensor.rows;
  if (parts_rows_ < places.rows) return;
  file_.write(parts_);
  parts_.clear();
  parts_rows_ = 0;
}

void GgufOutput::commit() {
  for (const auto& [name, divisors] : rope_) file_.write(std::as_bytes(std::span(divisors)));
  for (const GgufWriter::Announced& keys : unread_keys(config_)) {
    const std::int64_t numbers = keys.shape.size() == 2 ? keys.shape[0] * keys.shape[1] : keys.shape[0];
    file_.write(std::vector<std::byte>(static_cast<std::size_t>(numbers) * (keys.type == "F16" ? sizeof(f16) : sizeof(float))));
  }
  file_.commit();
}

}  // namespace bantam::inline v0
