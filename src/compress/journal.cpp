// The journal of finished blocks.
#include "journal.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "bantam/kernels/table.hpp"
#include "bantam/model/native_file.hpp"
#include "io/json.hpp"

namespace bantam::inline v0 {

namespace {

std::string hash_of(std::string_view text) { return content_hash(std::as_bytes(std::span(text))); }

/// Of the tensor of a model in memory.
std::string hash_in_memory(const Checkpoint& checkpoint, const CheckpointTensor& tensor) {
  if (!tensor.is_matrix) {
    const std::vector<float> vector = checkpoint.load_vector(tensor);
    return content_hash(std::as_bytes(std::span(vector)));
  }
  const WeightMatrix matrix = checkpoint.load_matrix(tensor, Reading::mapped);
  return content_hash({matrix.view().data, static_cast<std::size_t>(matrix.bytes())});
}

/// What decides every byte of the blocks. Files of weights count by size and time of change, as for make: reading them whole
/// would take as long as a compression to nearest.
std::string key_of(const Checkpoint& checkpoint, const Recipe& recipe, const Calibration& calibration) {
  std::string text = message(BANTAM_VERSION, '\n', kernels_in_use().name, '\n', recipe.to_json(), '\n');
  const MappedFile* file = nullptr;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    text += message(tensor.name, ' ', tensor.rows, ' ', tensor.columns, ' ', tensor.format().name, '\n');
    if (tensor.source->parts().empty()) {
      text += message(hash_in_memory(checkpoint, tensor), '\n');
      continue;
    }
    const MappedFile* own = tensor.source->parts()[0].entry->file.get();
    if (own == file) continue;
    file = own;
    std::error_code ignored;
    const auto changed = std::filesystem::last_write_time(file->path(), ignored).time_since_epoch().count();
    text += message(file->path().filename().string(), ' ', file->bytes().size(), ' ', static_cast<std::int64_t>(changed), '\n');
  }
  text += write_hf_config(checkpoint.config(), "");
  if (checkpoint.merged_adapters() != 0) text += message('\n', checkpoint.merged_adapters());
  for (const std::vector<TokenId>& sample : calibration.samples) text += message('\n', content_hash(std::as_bytes(std::span(sample))));
  return hash_of(text);
}

const CheckpointTensor* find_tensor(const Checkpoint& checkpoint, const Json& entry, std::int64_t layer) {
  const Json* name = entry.find("name");
  if (name == nullptr || !name->is_string()) return nullptr;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    if (tensor.layer == layer && tensor.tensor_name() == name->string()) return &tensor;
  }
  return nullptr;
}

bool has_hash(const Json& entry, std::span<const std::byte> bytes) {
  const Json* hash = entry.find("hash");
  return hash != nullptr && hash->is_string() && hash->string() == content_hash(bytes);
}

}  // namespace

Journal::Journal(std::filesystem::path path, const Checkpoint& checkpoint, const Recipe& recipe, const Calibration& calibration)
    : path_(std::move(path)), checkpoint_(checkpoint), recipe_(recipe),
      first_line_(message("bantam journal 1 ", key_of(checkpoint, recipe, calibration))) {
  if (path_kind(path_) == PathKind::nothing) return;
  file_ = MappedFile::open(path_);
  if (line() == first_line_) {
    end_ = at_;
  } else {
    file_ = nullptr;
  }
}

/// Up to the next end of line, which is passed; empty where there is none.
std::string_view Journal::line() {
  constexpr std::size_t longest = 16 << 20;  // a block's line takes about 2 KiB, and 400 bytes more for each expert
  const auto* text = reinterpret_cast<const char*>(file_->bytes().data()) + at_;
  const std::size_t room = std::min(longest, file_->bytes().size() - at_);
  const void* end = room == 0 ? nullptr : std::memchr(text, '\n', room);
  if (end == nullptr) return {};
  const std::string_view found(text, static_cast<std::size_t>(static_cast<const char*>(end) - text));
  at_ += found.size() + 1;
  return found;
}

/// The next bytes; none where the file has fewer.
std::span<const std::byte> Journal::take(std::size_t bytes) {
  if (file_->bytes().size() - at_ < bytes) return {};
  at_ += bytes;
  return file_->bytes().subspan(at_ - bytes, bytes);
}

std::optional<RoundedBlock> Journal::read(std::int64_t layer) {
  if (file_ == nullptr) return {};
  const auto whole = [&]() -> std::optional<RoundedBlock> {
    const std::string_view described = line();
    const std::size_t space = described.find(' ');
    if (space == std::string_view::npos || described.substr(0, space) != hash_of(described.substr(space + 1))) return {};
    const Json json = Json::parse_or_null(described.substr(space + 1));
    const Json* described_layer = json.find("layer");
    const Json* tensors = json.find("tensors");
    if (described_layer == nullptr || *described_layer != layer || tensors == nullptr || !tensors->is_array()) return {};
    RoundedBlock block;
    for (const Json& entry : *tensors) {
      const CheckpointTensor* tensor = find_tensor(checkpoint_, entry, layer);
      if (tensor == nullptr) return {};
      if (!tensor->is_matrix) {
        const auto bytes = take(static_cast<std::size_t>(tensor->columns) * sizeof(float));
        if (bytes.empty() || !has_hash(entry, bytes)) return {};
        std::vector<float>& vector = block.vectors[*tensor];
        vector.resize(static_cast<std::size_t>(tensor->columns));
        std::memcpy(vector.data(), bytes.data(), bytes.size());
        continue;
      }
      const FormatInfo& format = recipe_.format_of(tensor->name, false);
      const auto size = static_cast<std::size_t>(format.matrix_bytes(tensor->rows, tensor->columns));
      const auto bytes = take(size);
      if (bytes.empty() || !has_hash(entry, bytes)) return {};
      const Json* error = entry.find("error");
      const Json* zeros = entry.find("zeros");
      if (error == nullptr || !error->is_number() || zeros == nullptr || !zeros->is_number_integer()) return {};
      const auto data = allocate_storage(size);
      std::memcpy(data.get(), bytes.data(), size);
      file_->drop(bytes);
      const Json* output_error = entry.find("output_error");
      const bool judged = output_error != nullptr && output_error->is_number();
      block.matrices[*tensor] = {{format, tensor->rows, tensor->columns, data}, error->get<double>(), zeros->get<std::int64_t>(),
                                      judged ? std::optional(output_error->get<double>()) : std::nullopt};
    }
    return block;
  };
  std::optional<RoundedBlock> block = whole();
  if (block) {
    end_ = at_;
  } else {
    file_ = nullptr;
  }
  return block;
}

void Journal::open() {
  output_.emplace(::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW, 0666));
  if (output_->get() < 0) detail::fail_system(path_, "open", errno);
  if (path_kind(path_) != PathKind::file) fail(Errc::invalid_argument, detail::shown(path_), ": expected a regular file or none, found a device or pipe");
  if (::flock(output_->get(), LOCK_EX | LOCK_NB) != 0) detail::fail_system(path_, "lock", errno);
  if (::ftruncate(output_->get(), static_cast<off_t>(end_)) != 0) detail::fail_system(path_, "cut", errno);
}

void Journal::append(std::int64_t layer, const RoundedBlock& block) {
  if (!output_) open();
  const auto write = [&](std::span<const std::byte> bytes) {
    detail::write_all(path_, output_->get(), end_, bytes);
    end_ += bytes.size();
  };
  const auto write_line = [&](std::string text) {
    text += '\n';
    write(std::as_bytes(std::span(text)));
  };
  if (end_ == 0) write_line(first_line_);
  Json tensors = Json::array();
  std::vector<std::span<const std::byte>> contents;
  for (const CheckpointTensor& tensor : checkpoint_.tensors()) {
    if (tensor.layer != layer) continue;
    Json entry{{"name", tensor.tensor_name()}};
    if (const auto matrix = block.matrices.find(tensor); tensor.is_matrix && matrix != block.matrices.end()) {
      contents.emplace_back(matrix->second.matrix.view().data, static_cast<std::size_t>(matrix->second.matrix.bytes()));
      entry["error"] = matrix->second.relative_error;
      entry["zeros"] = matrix->second.zeros;
      if (matrix->second.output_error) entry["output_error"] = *matrix->second.output_error;
    } else if (const auto vector = block.vectors.find(tensor); !tensor.is_matrix && vector != block.vectors.end()) {
      contents.push_back(std::as_bytes(std::span(vector->second)));
    } else {
      continue;
    }
    entry["hash"] = content_hash(contents.back());
    tensors.push_back(std::move(entry));
  }
  const std::string described = Json{{"layer", layer}, {"tensors", tensors}}.dump();
  write_line(message(hash_of(described), ' ', described));
  for (const auto& bytes : contents) write(bytes);
  detail::sync(path_, output_->get());
}

void Journal::remove() noexcept {
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

}  // namespace bantam::inline v0
