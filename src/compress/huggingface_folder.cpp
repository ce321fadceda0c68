// Hugging Face folders.
#include "huggingface_folder.hpp"

#include <algorithm>
#include <cctype>

#include "bantam/model/roles.hpp"
#include "bantam/quant/formats.hpp"
#include "model/arrangement.hpp"
#include "model/ngram_config.hpp"
#include "model/sentence_modules.hpp"

namespace bantam::inline v0 {

namespace {

std::string upper(std::string_view name) {
  std::string text(name);
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

std::string torch_dtype(const FormatInfo& format) {
  return format.name == "f16" ? "float16" : format.name == "bf16" ? "bfloat16" : "float32";
}

std::string without_weight(const std::string& name) { return name.substr(0, name.rfind(".weight")); }

PackedModule packed_module_of(const NativeWriter::Entry& entry) {
  return {without_weight(entry.name), entry.format, entry.rows, entry.columns, entry.order != nullptr};
}

std::vector<SafetensorsWriter::Announced> announce(const std::vector<NativeWriter::Entry>& entries, const FormatInfo& format, const PackedWriter* family) {
  std::vector<SafetensorsWriter::Announced> tensors;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const NativeWriter::Entry& entry = entries[i];
    if (module_of(entry.name)) continue;  // in a file of its own
    if (!entry.wholes.empty()) {
      tensors.push_back({entry.name, "I64", {std::ssize(entry.wholes)}});
    } else if (!entry.joined.empty()) {
      // It is whole where its last part is.
      const auto more = std::find_if(entries.begin() + static_cast<std::ptrdiff_t>(i) + 1, entries.end(), [&](const auto& other) { return other.joined == entry.joined; });
      if (more == entries.end()) tensors.push_back({entry.joined, upper((entry.format != nullptr ? *entry.format : format).name), entry.joined_shape});
    } else if (!entry.pieces.empty()) {
      for (const std::string& piece : entry.pieces) tensors.push_back({piece, upper(entry.format->name), {entry.rows / std::ssize(entry.pieces), entry.columns}});
    } else if (entry.format != nullptr && !entry.format->is_float) {
      const auto parts = family->announce(packed_module_of(entry));
      tensors.insert(tensors.end(), parts.begin(), parts.end());
    } else if (entry.format == nullptr) {
      tensors.push_back({entry.name, upper(format.name), entry.shape.value_or(std::vector{entry.columns})});
    } else {
      tensors.push_back({entry.name, upper(entry.format->name), {entry.rows, entry.columns}});
    }
  }
  return tensors;
}

/// What `family` says of the matrices of all blocks.
Json quantization_of(const Checkpoint& checkpoint, const std::vector<NativeWriter::Entry>& entries, const PackedWriter& family,
                                       const Recipe& recipe) {
  std::vector<PackedModule> modules;
  std::size_t next = 0;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    if (tensor.role == Role::rope_divisors) continue;
    const NativeWriter::Entry& entry = entries[next++];
    if (entry.format != nullptr && tensor.layer >= 0) modules.push_back(packed_module_of(entry));
  }
  if (std::ranges::all_of(modules, [](const PackedModule& module) { return module.format->is_float; })) {
    fail(Errc::invalid_argument, "recipe: expected a quantized matrix in some block, found none");
  }
  return family.config(modules, recipe);
}

/// Settings of older tools, which readers take for what config.json lacks: an old one must not stand beside a new model.
void check_no_old_settings(const std::filesystem::path& folder, const PackedWriter* family) {
  for (const char* name : {"quantize_config.json", "quant_config.json"}) {
    if ((family == nullptr || family->config_file() != name) && path_kind(folder / name) != PathKind::nothing) {
      fail(Errc::invalid_argument, (folder / name).string(), ": expected no settings of another quantized model in the output's folder, found some");
    }
  }
}
std::vector<std::pair<std::string, std::string>> metadata() { return {{"format", "pt"}}; }

/// Files that a folder of the same model shares with its source, byte for byte.
constexpr const char* companions[] = {"tokenizer.json",         "tokenizer.model",   "tokenizer_config.json", "special_tokens_map.json",
                                      "generation_config.json", "added_tokens.json", "chat_template.jinja",   "vocab.json",
                                      "merges.txt",             "sentence_bert_config.json", "config_sentence_transformers.json"};

std::string config_json(const Checkpoint& checkpoint, const FormatInfo& format, const Json& quantization) {
  auto json = Json::parse(write_hf_config(checkpoint.config(), torch_dtype(format)), "config.json");
  // Hugging Face's Llama ignores biases unless this says that they are there.
  const auto has = [&](Role role) { return std::ranges::find(checkpoint.tensors(), role, &CheckpointTensor::role) != checkpoint.tensors().end(); };
  if (checkpoint.config().arch->causal && has(Role::q_bias)) json["attention_bias"] = true;
  // And GLM its norms.
  const TensorKey* norm = checkpoint.config().arch->find(Role::q_norm);
  if (norm != nullptr && norm->presence == Presence::optional) json["use_qk_norm"] = has(Role::q_norm);
  // MPT says both elsewhere.
  if (json.contains("attn_config")) json["attn_config"]["qk_ln"] = has(Role::q_norm), json["no_bias"] = !has(Role::q_bias);
  if (!quantization.is_null()) json["quantization_config"] = quantization;
  return json.dump(2) + "\n";
}

/// Which tokens begin and end texts, where Hugging Face's generate() looks for them.
std::string generation_json(const Tokenizer& tokenizer) {
  Json json;
  if (tokenizer.bos() >= 0) json["bos_token_id"] = tokenizer.bos();
  json["eos_token_id"] = Json::array();
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    if (tokenizer.ends_generation(id)) json["eos_token_id"].push_back(id);
  }
  return json.dump(2) + "\n";
}

}  // namespace

HuggingFaceFolderWriter::HuggingFaceFolderWriter(const std::filesystem::path& folder, const Checkpoint& checkpoint,
                                                 const FormatInfo& format, const std::vector<NativeWriter::Entry>& entries,
                                                 const PackedWriter* family, const Recipe& recipe)
    : folder_(folder), checkpoint_(checkpoint), format_(format), family_(family) {
  if (family != nullptr) quantization_ = quantization_of(checkpoint, entries, *family, recipe);
  std::error_code error;
  if (const PathKind kind = path_kind(folder); kind != PathKind::nothing && kind != PathKind::folder) {
    fail(Errc::invalid_argument, folder.string(), ": expected a folder or nothing, found a file");
  }
  check_no_old_settings(folder, family);
  created_ = std::filesystem::create_directories(folder, error);
  if (error) fail(Errc::io, folder.string(), ": expected to create the folder, the system says ", error.message());
  writer_ = std::make_unique<SafetensorsWriter>(folder / "model.safetensors", announce(entries, format, family), metadata());
}

HuggingFaceFolderWriter::~HuggingFaceFolderWriter() {
  writer_.reset();  // removes its partial file
  std::error_code ignored;  // a folder that others have put files into stays
  if (created_ && !complete_) std::filesystem::remove(folder_, ignored);
}

void HuggingFaceFolderWriter::write(std::span<const float> values, const FormatInfo& format) {
  bytes_.clear();
  const auto append = [&](auto value) {
    const auto* p = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), p, p + sizeof value);
  };
  for (const float x : values) {
    if (format.id == F16Format::id) {
      append(f16(x));
    } else if (format.id == BF16Format::id) {
      append(bf16(x));
    } else {
      append(x);
    }
  }
  writer_->write(bytes_);
}

/// Puts a part of a joined tensor into its place; the last one writes all. `row_of` gives a row's floats.
void HuggingFaceFolderWriter::join(const CheckpointTensor& tensor, const Joined& joined, const FormatInfo& format,
                                   FunctionRef<void(std::int64_t row, std::span<float> out)> row_of) {
  Part& part = parts_[joined.name];
  part.values.resize(static_cast<std::size_t>(joined.size()));
  std::vector<float> row(static_cast<std::size_t>(tensor.columns));
  for (std::int64_t r = 0; r < tensor.rows; ++r) {
    row_of(r, row);
    for (std::int64_t c = 0; c < tensor.columns; ++c) part.values[static_cast<std::size_t>(tensor.is_matrix ? joined.place(r, c) : joined.place(c, 0))] = row[static_cast<std::size_t>(c)];
  }
  part.filled += tensor.rows * tensor.columns;
  if (part.filled < joined.size()) return;
  write(part.values, format);
  parts_.erase(joined.name);
}

void HuggingFaceFolderWriter::write_vector(const CheckpointTensor& tensor, const std::vector<float>& model_values) {
  const std::vector<float> values = in_container(model_values, arrangement_of(tensor, checkpoint_.config(), Container::folder));
  const std::optional<Joined> joined = joined_of(checkpoint_.config(), tensor);
  if (auto module = module_of(tensor.tensor_name())) {
    modules_[module->first].push_back({module->second, stored_shape(tensor, checkpoint_.config(), Container::folder), values});
    return;
  }
  const float less = is_norm(tensor.role) ? checkpoint_.config().arch->norm_offset : 0;
  if (less != 0) {
    std::vector<float> stored = values;
    for (float& x : stored) x -= less;
    return write(stored, format_);
  }
  if (!joined) return write(values, format_);
  join(tensor, *joined, format_, [&](std::int64_t, std::span<float> out) { std::ranges::copy(values, out.begin()); });
}

void HuggingFaceFolderWriter::write_matrix(const CheckpointTensor& tensor, const WeightMatrix& matrix) {
  if (const std::optional<Joined> joined = joined_of(checkpoint_.config(), tensor)) {
    RowCodes scratch;
    return join(tensor, *joined, matrix.format(), [&](std::int64_t r, std::span<float> out) { matrix.read_row(r, out, scratch); });
  }
  if (!matrix.format().is_float) return family_->write(tensor.name, matrix, *writer_);
  const Arrangement theirs = arrangement_of(tensor, checkpoint_.config(), Container::folder);
  const std::vector<std::int64_t> rows = inverse(theirs.rows);
  std::vector<float> row(static_cast<std::size_t>(matrix.columns()));
  RowCodes scratch;
  for (std::int64_t r = 0; r < matrix.rows(); ++r) {
    matrix.read_row(rows.empty() ? r : rows[static_cast<std::size_t>(r)], row, scratch);
    write(in_container(row, {.columns = theirs.columns}), matrix.format());
  }
}

void HuggingFaceFolderWriter::commit() {
  const auto put = [&](const std::string& name, std::string_view text) {
    AtomicFile file(folder_ / name);
    file.write(text);
    file.commit();
  };
  put("config.json", config_json(checkpoint_, format_, quantization_));
  for (const auto& [name, text] : sentence_modules_of(checkpoint_.config())) {
    std::error_code error;
    std::filesystem::create_directories((folder_ / name).parent_path(), error);  // what is wrong, opening the file says
    put(name, text);
  }
  for (const auto& [name, tensors] : modules_) {
    std::vector<SafetensorsWriter::Announced> announced;
    for (const ModuleTensor& tensor : tensors) announced.push_back({tensor.name, "F32", tensor.shape.empty() ? std::vector{std::ssize(tensor.values)} : tensor.shape});
    std::error_code error;
    std::filesystem::create_directories(folder_ / name, error);  // what is wrong, opening the file says
    SafetensorsWriter writer(folder_ / name / "model.safetensors", announced, metadata());
    for (const ModuleTensor& tensor : tensors) writer.write(std::as_bytes(std::span(tensor.values)));
    writer.commit();
  }
  if (family_ != nullptr && !family_->config_file().empty()) put(std::string(family_->config_file()), quantization_.dump(2) + "\n");
  if (checkpoint_.container() == "safetensors") {
    for (const char* name : companions) {
      const std::filesystem::path from = checkpoint_.path() / name;
      if (path_kind(from) == PathKind::file) put(name, read_text_file(from));
    }
  } else {
    checkpoint_.tokenizer().write_folder(folder_);
    put("generation_config.json", generation_json(checkpoint_.tokenizer()));
  }
  for (const auto& [name, numbers] : detail::ngram_tensors(checkpoint_.config())) writer_->write(std::as_bytes(std::span(numbers)));
  writer_->commit();
  complete_ = true;
}

std::int64_t huggingface_matrix_bytes(std::int64_t rows, std::int64_t columns, const FormatInfo& format, const PackedWriter* family) {
  std::int64_t bytes = 0;
  for (const SafetensorsWriter::Announced& tensor : announce({{"weight", &format, rows, columns}}, format, family)) {
    bytes += static_cast<std::int64_t>(SafetensorsWriter::tensor_bytes(tensor));
  }
  return bytes;
}

std::int64_t huggingface_file_bytes(const FormatInfo& format, const std::vector<NativeWriter::Entry>& entries, const PackedWriter* family) {
  return static_cast<std::int64_t>(SafetensorsWriter::file_bytes(announce(entries, format, family), metadata(), {}));
}

}  // namespace bantam::inline v0
