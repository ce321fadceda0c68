// GGUF files and their shards as one source of tensors and metadata.
#include "bantam/io/gguf.hpp"

#include <algorithm>
#include <limits>

#include "io/gguf_parse.hpp"
#include "io/names.hpp"
#include "io/posix.hpp"

namespace bantam::inline v0 {

namespace {

std::optional<std::uint64_t> split_number(const detail::GgufMetadata& metadata, const std::string& file, const char* key) {
  const auto entry = metadata.find(key);
  if (entry == metadata.end()) return std::nullopt;
  if (const auto* value = std::get_if<std::uint64_t>(&entry->second)) return *value;
  if (const auto* value = std::get_if<std::int64_t>(&entry->second); value != nullptr && *value >= 0) {
    return static_cast<std::uint64_t>(*value);
  }
  fail(Errc::corrupt, file, ": key '", key, "': expected a count, found ", detail::kind_of(entry->second));
}

std::string five_digits(std::uint64_t number) {
  const std::string digits = std::to_string(number);
  return std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0') + digits;
}

// "-00001-of-00003.gguf"
std::string shard_ending(std::uint64_t number, std::uint64_t count) {
  return message('-', five_digits(number + 1), "-of-", five_digits(count), ".gguf");
}

// What a file says about the set that it belongs to.
struct Split {
  std::uint64_t number = 0;
  std::uint64_t count = 1;
};

Split split_of(const detail::GgufMetadata& metadata, const std::string& file) {
  const Split split{split_number(metadata, file, "split.no").value_or(0),
                    split_number(metadata, file, "split.count").value_or(1)};
  // A file that was never split may say 0 shards.
  const std::uint64_t count = std::max<std::uint64_t>(split.count, 1);
  if (split.number >= count) {
    fail(Errc::corrupt, file, ": key 'split.no': expected less than split.count, ", count, ", found ", split.number);
  }
  return {split.number, count};
}

// The other shards lie next to the first and bear its name with another number: no name is taken from the files.
void join_shards(detail::GgufPart& all, const std::filesystem::path& path, std::uint64_t count) {
  const std::string file = detail::shown(path);
  const std::string name = path.filename().string();
  const std::string ending = shard_ending(0, count);
  if (!name.ends_with(ending)) {
    fail(Errc::invalid_argument, file, ": is the first of ", count, " shards: expected a name that ends in '", ending, '\'');
  }
  const std::string stem = name.substr(0, name.size() - ending.size());
  for (std::uint64_t number = 1; number < count; ++number) {
    const std::filesystem::path shard = path.parent_path() / (stem + shard_ending(number, count));
    detail::GgufPart part = detail::parse_gguf(MappedFile::open(shard));
    const Split split = split_of(part.metadata, detail::shown(shard));
    if (split.number != number || split.count != count) {
      fail(Errc::corrupt, detail::shown(shard), ": expected shard ", number + 1, " of ", count, ", found ", split.number + 1,
           " of ", split.count);
    }
    std::move(part.tensors.begin(), part.tensors.end(), std::back_inserter(all.tensors));
  }
  const std::uint64_t declared = split_number(all.metadata, file, "split.tensors.count").value_or(all.tensors.size());
  if (declared != all.tensors.size()) {
    fail(Errc::corrupt, file, ": key 'split.tensors.count': expected ", declared, " tensors, the shards hold ",
         all.tensors.size());
  }
}

template <class T>
const T* typed(const GgufFile& file, std::string_view key, std::string_view expected) {
  const GgufValue* value = file.value(key);
  if (value == nullptr) return nullptr;
  if (const T* found = std::get_if<T>(value)) return found;
  fail(Errc::corrupt, detail::shown(file.path()), ": key '", printable(key), "': expected ", expected, ", found ",
       detail::kind_of(*value));
}

template <class T>
std::optional<T> copied(const T* value) {
  return value == nullptr ? std::nullopt : std::optional<T>(*value);
}

}  // namespace

std::shared_ptr<const GgufFile> GgufFile::open(const std::filesystem::path& path) {
  const std::string file = detail::shown(path);
  detail::GgufPart part = detail::parse_gguf(MappedFile::open(path));
  const Split split = split_of(part.metadata, file);
  if (split.number != 0) {
    fail(Errc::invalid_argument, file, ": is shard ", split.number + 1, " of ", split.count, ": expected the first, '...",
         shard_ending(0, split.count), '\'');
  }
  if (split.count > 1) join_shards(part, path, split.count);

  const std::shared_ptr<GgufFile> opened(new GgufFile);
  opened->path_ = path;
  opened->metadata_ = std::move(part.metadata);
  opened->tensors_ = std::move(part.tensors);
  // The index points at the names, which stay where they are from here on.
  for (std::size_t i = 0; i < opened->tensors_.size(); ++i) {
    const std::string& name = opened->tensors_[i].name;
    if (!opened->index_.try_emplace(name, i).second) {
      fail(Errc::corrupt, file, ": tensor '", printable(name), "': expected once, found twice");
    }
  }
  return opened;
}

const TensorEntry* GgufFile::find(std::string_view name) const noexcept {
  const auto entry = index_.find(name);
  return entry == index_.end() ? nullptr : &tensors_[entry->second];
}

const GgufValue* GgufFile::value(std::string_view key) const {
  const auto entry = metadata_.find(std::string(key));
  return entry == metadata_.end() ? nullptr : &entry->second;
}

std::optional<std::int64_t> GgufFile::integer(std::string_view key) const {
  const GgufValue* found = value(key);
  if (found == nullptr) return std::nullopt;
  if (const auto* number = std::get_if<std::uint64_t>(found)) {
    if (*number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      fail(Errc::corrupt, detail::shown(path_), ": key '", printable(key), "': expected a number below 2^63, found ", *number);
    }
    return static_cast<std::int64_t>(*number);
  }
  return copied(typed<std::int64_t>(*this, key, "an integer"));
}

std::optional<double> GgufFile::number(std::string_view key) const {
  const GgufValue* found = value(key);
  if (found == nullptr) return std::nullopt;
  if (const auto* number = std::get_if<std::uint64_t>(found)) return static_cast<double>(*number);
  if (const auto* number = std::get_if<std::int64_t>(found)) return static_cast<double>(*number);
  return copied(typed<double>(*this, key, "a number"));
}

std::optional<bool> GgufFile::boolean(std::string_view key) const {
  return copied(typed<bool>(*this, key, "a truth value"));
}

const std::string* GgufFile::text(std::string_view key) const { return typed<std::string>(*this, key, "a text"); }

const std::vector<std::string>* GgufFile::texts(std::string_view key) const {
  return typed<std::vector<std::string>>(*this, key, "a list of texts");
}

const std::vector<double>* GgufFile::numbers(std::string_view key) const {
  return typed<std::vector<double>>(*this, key, "a list of numbers");
}

const std::vector<std::int64_t>* GgufFile::integers(std::string_view key) const {
  return typed<std::vector<std::int64_t>>(*this, key, "a list of integers");
}

}  // namespace bantam::inline v0
