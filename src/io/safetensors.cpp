// Safetensors files and folders as one source of tensors and metadata.
#include "bantam/io/safetensors.hpp"

#include <system_error>

#include "bantam/io/path_error.hpp"
#include "io/names.hpp"
#include "io/posix.hpp"
#include "io/safetensors_header.hpp"
#include "io/safetensors_index.hpp"
#include "io/safetensors_types.hpp"

namespace bantam::inline v0 {

namespace {

bool is_pickle(std::string_view name) { return name.ends_with(".bin") || name.ends_with(".pt") || name.ends_with(".pth") || name.ends_with(".ckpt"); }

// Says why a folder holds nothing that can be opened.
[[noreturn]] void fail_without_weights(const std::filesystem::path& folder) {
  std::error_code error;
  const std::string place = detail::shown(folder);
  if (!std::filesystem::is_directory(folder, error)) {
    if (path_kind(folder) == PathKind::nothing) fail_missing(folder, place, ": expected a folder, found nothing");
    fail(Errc::invalid_argument, place, ": expected a folder, found a file");
  }
  detail::for_each_name(folder, [&](std::string_view name) -> bool {
    if (!is_pickle(name)) return true;
    fail_missing(folder, place, ": expected model.safetensors, found ", printable(name),
                 ": pickled weights can run code and are never read; convert them with safetensors' convert.py");
  });
  fail_missing(folder, place, ": expected model.safetensors or model.safetensors.index.json, found neither");
}

}  // namespace

std::shared_ptr<const SafetensorsFile> SafetensorsFile::open(const std::filesystem::path& file) {
  const std::shared_ptr<SafetensorsFile> opened(new SafetensorsFile);
  opened->add_file(file);
  opened->index_names(detail::shown(file));
  return opened;
}

std::shared_ptr<const SafetensorsFile> SafetensorsFile::open_folder(const std::filesystem::path& folder) {
  if (path_kind(folder / "model.safetensors") != PathKind::nothing) return open(detail::resolve_weights(folder, "model.safetensors"));
  const std::filesystem::path index_file = folder / "model.safetensors.index.json";
  if (path_kind(index_file) == PathKind::nothing) fail_without_weights(folder);

  const detail::SafetensorsIndex index = detail::read_safetensors_index(index_file);
  const std::shared_ptr<SafetensorsFile> opened(new SafetensorsFile);
  HashMap<std::string_view, std::size_t> shard_ends;  // where the tensors of a shard end among all of them
  for (const auto& [shard, names] : index) {
    opened->add_file(detail::resolve_weights(folder, shard));
    shard_ends[shard] = opened->tensors_.size();
  }
  opened->index_names(detail::shown(index_file));

  std::size_t begin = 0;
  for (const auto& [shard, names] : index) {
    const std::size_t end = shard_ends[shard];
    for (const std::string& name : names) {
      const auto found = opened->index_.find(name);
      if (found == opened->index_.end() || found->second < begin || found->second >= end) {
        fail(Errc::corrupt, detail::shown(index_file), ": tensor '", printable(name), "': expected in ", printable(shard),
             ", found no such tensor there");
      }
    }
    begin = end;
  }
  return opened;
}

void SafetensorsFile::add_file(const std::filesystem::path& file) {
  detail::SafetensorsHeader header = detail::parse_safetensors(MappedFile::open(file));
  for (TensorEntry& tensor : header.tensors) {
    if (!detail::is_padding_name(tensor.name)) tensors_.push_back(std::move(tensor));
  }
  metadata_.merge(header.metadata);  // of two shards that disagree, the first is kept
}

void SafetensorsFile::index_names(const std::string& place) {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const std::string& name = tensors_[i].name;
    if (!index_.try_emplace(name, i).second) {
      fail(Errc::corrupt, place, ": tensor '", printable(name), "': expected in one file, found in two");
    }
  }
}

const TensorEntry* SafetensorsFile::find(std::string_view name) const noexcept {
  const auto entry = index_.find(name);
  return entry == index_.end() ? nullptr : &tensors_[entry->second];
}

}  // namespace bantam::inline v0
