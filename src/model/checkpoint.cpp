// Opening checkpoints.
#include "bantam/model/checkpoint.hpp"

#include <cmath>
#include <set>

#include "bantam/core/names.hpp"
#include "bantam/io/gguf.hpp"
#include "bantam/model/locate.hpp"
#include "bantam/model/native_file.hpp"
#include "language_part.hpp"
#include "match_tensors.hpp"
#include "metadata.hpp"
#include "ngram_config.hpp"
#include "io/config_text.hpp"
#include "packed/family.hpp"
#include "sentence_modules.hpp"

namespace bantam::inline v0 {

GptqZero find_gptq_zero(std::string_view name) {
  constexpr std::string_view names[] = {"automatic", "wrapped", "legacy"};
  return static_cast<GptqZero>(find_name("gptq_zero", name, names));
}

std::string CheckpointTensor::tensor_name() const { return is_weight ? name + ".weight" : name; }

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

namespace {

/// Whether a folder has a head whose numbers are not the embedding's, whatever its config says: transformers 5 ties all T5's by their configs, and
/// keeps apart what differs.
bool has_own_head(const TensorSource& source, const ArchSpec& arch) {
  const TensorKey *head = arch.find(Role::head), *embedding = arch.find(Role::embedding);
  const TensorEntry* own = head == nullptr ? nullptr : source.find(head->hf);
  const TensorEntry* table = own == nullptr || embedding == nullptr ? nullptr : source.find(embedding->hf);
  return table != nullptr && own->type == table->type && own->shape == table->shape && !std::ranges::equal(own->bytes, table->bytes);
}

}  // namespace

Checkpoint Checkpoint::open_folder(const std::filesystem::path& path, const OpenOptions& options) {
  Checkpoint c;
  c.path_ = path;
  c.container_ = "safetensors";
  c.config_ = read_hf_config(path / "config.json");
  const std::vector<std::filesystem::path> modules = read_sentence_modules(path, c.config_);
  c.metadata_ = metadata_of(detail::read_config_text(path / "config.json"));
  LanguagePart part = language_part(SafetensorsFile::open_folder(path), *c.config_.arch);
  c.source_ = with_modules(by_own_names(std::move(part.tensors), *c.config_.arch), modules);
  c.left_out_ = std::move(part.left_out);
  detail::read_ngram_tensors(*c.source_, path.string(), c.config_);
  c.tokenizer_ = Tokenizer::from_folder(path);
  if (c.config_.tied && has_own_head(*c.source_, *c.config_.arch)) c.config_.tied = false;
  c.find_tensors(open_packed_family(path, options).get());
  c.warn_of_doubts();
  return c.config_.arch->scales_tied_logits && !c.config_.scales_tied_logits ? c.untied() : c;
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
  c.config_.tied = c.config_.has_head && file->find("output.weight") == nullptr;
  c.find_tensors();
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
  c.find_tensors();
  find_native_sources(c.tensors_, {*file, place, c.container_}, text(native::tensors_key), text(native::hashes_key));
  return c;
}

void Checkpoint::find_tensors(const PackedFamily* family) {
  const TensorFiles files{*source_, path_.string(), container_, family, dynamic_cast<const GgufFile*>(source_.get())};
  count_tables(files, config_);
  if (auto drafting = config_.drafting_like(); !drafting.empty() && has_drafting(files, config_)) config_.drafting = std::move(drafting);
  tensors_ = match_tensors(files, config_);
  for (const TensorEntry& entry : source_->tensors()) file_bytes_ += static_cast<std::int64_t>(entry.bytes.size());
  if (tokenizer_->vocab_size() > config_.vocab) {
    fail(Errc::corrupt, path_.string(), ": expected a vocabulary of at most ", config_.vocab, " tokens (rows of the embedding), the tokenizer has ", tokenizer_->vocab_size());
  }
  for (const CheckpointTensor& tensor : tensors_) {
    if (tensor.role != Role::rope_divisors) continue;
    config_.rope.divisors = load_vector(tensor);
    config_.rope.divisors.resize(static_cast<std::size_t>(config_.rope.dim / 2));  // see gguf_rope_tensors()
    for (const float divisor : config_.rope.divisors) {
      if (divisor > 0 && std::isfinite(divisor)) continue;
      fail(Errc::corrupt, path_.string(), ": ", printable(tensor.source->parts()[0].entry->name), ": expected divisors above 0, found ", divisor);
    }
  }
}

void Checkpoint::warn_of_doubts() {
  const CheckpointTensor* first = nullptr;
  std::int64_t count = 0;
  for (const CheckpointTensor& tensor : tensors_) {
    if (tensor.source->doubt().empty()) continue;
    if (count++ == 0) first = &tensor;
  }
  if (count == 0) return;
  warnings_.push_back(message(path_.string(), ": ", first->name, count == 1 ? "" : message(" and ", count - 1, " others"), ": ", first->source->doubt()));
}

std::int64_t Checkpoint::stored_bytes() const {
  if (stored_bytes_ > 0) return stored_bytes_;
  if (path_.empty()) {
    return static_cast<std::int64_t>(NativeWriter::file_bytes(config_, *tokenizer_, recipe_.empty() ? "{}" : recipe_, entries_in_memory(*this)));
  }
  std::set<const MappedFile*> files;
  for (const CheckpointTensor& tensor : tensors_) {
    for (const TensorPart& part : tensor.source->parts()) files.insert(part.entry->file.get());
  }
  std::int64_t bytes = 0;
  for (const MappedFile* file : files) bytes += static_cast<std::int64_t>(file->bytes().size());
  return bytes;
}

std::vector<float> Checkpoint::load_vector(const CheckpointTensor& tensor) const {
  std::vector<float> values(static_cast<std::size_t>(tensor.columns));
  RowCodes scratch;
  tensor.source->read_row(0, values, scratch);
  return values;
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
