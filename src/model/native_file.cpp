// Writing native files.
#include "bantam/model/native_file.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "io/json.hpp"

namespace bantam::inline v0 {

namespace {

std::span<const std::byte> order_bytes(const NativeWriter::Entry& entry) {
  return entry.order != nullptr ? std::as_bytes(std::span(*entry.order)) : std::span<const std::byte>();
}

std::string hexadecimal(XXH64_hash_t hash) {
  constexpr char digits[] = "0123456789abcdef";
  std::string text(16, '0');
  for (std::size_t i = 16; i-- > 0; hash >>= 4) text[i] = digits[hash & 15];
  return text;
}

std::string describe(const std::vector<NativeWriter::Entry>& entries) {
  Json json = Json::object();
  for (const NativeWriter::Entry& entry : entries) {
    if (entry.format == nullptr) continue;
    json[entry.name] = {{"format", std::string(entry.format->name)},
                        {"id", static_cast<int>(entry.format->id)},
                        {"shape", {entry.rows, entry.columns}}};
    if (entry.order != nullptr) json[entry.name]["ordered"] = true;
  }
  return json.dump();
}

std::vector<SafetensorsWriter::Announced> announce(const std::vector<NativeWriter::Entry>& entries) {
  std::vector<SafetensorsWriter::Announced> tensors;
  for (const NativeWriter::Entry& entry : entries) {
    if (entry.format == nullptr) {
      tensors.push_back({entry.name, "F32", {entry.columns}});
    } else {
      const auto order = static_cast<std::int64_t>(order_bytes(entry).size());
      tensors.push_back({entry.name, "U8", {entry.format->matrix_bytes(entry.rows, entry.columns) + order}});
    }
  }
  return tensors;
}

std::vector<std::pair<std::string, std::string>> metadata_of(const ModelConfig& config, const Tokenizer& tokenizer, std::string_view recipe_json,
                                                             const std::vector<NativeWriter::Entry>& entries) {
  return {
      {"format", "pt"},  // what Hugging Face's loaders want to see
      {std::string(native::version_key), std::string(native::version)},
      {std::string(native::config_key), write_hf_config(config, "")},
      {std::string(native::tensors_key), describe(entries)},
      {std::string(native::tokenizer_key), tokenizer.to_json()},
      {std::string(native::recipe_key), std::string(recipe_json)},
  };
}

SafetensorsWriter::Options options_of(const std::vector<NativeWriter::Entry>& entries) {
  std::size_t room = 64;  // for the hashes
  for (const NativeWriter::Entry& entry : entries) room += entry.name.size() + 40;
  return {.alignment = native::alignment, .metadata_room = room};
}

}  // namespace

std::string content_hash(std::span<const std::byte> bytes) {
  return hexadecimal(XXH3_64bits(bytes.data(), bytes.size()));
}

struct NativeWriter::State {
  std::vector<Entry> entries;
  SafetensorsWriter writer;
  Json hashes = {};
  std::size_t next = 0;
};

NativeWriter::NativeWriter(const std::filesystem::path& path, const ModelConfig& config, const Tokenizer& tokenizer,
                           std::string_view recipe_json, std::vector<Entry> entries) {
  for (const Entry& entry : entries) {
    // No reader would know it.
    if (entry.format != nullptr && entry.format->index < 0) {
      fail(Errc::unsupported, entry.name, ": expected a format of the list, which files know, found ", entry.format->name);
    }
  }
  auto announced = announce(entries);
  auto metadata = metadata_of(config, tokenizer, recipe_json, entries);
  const auto options = options_of(entries);
  state_.reset(new State{std::move(entries), SafetensorsWriter(path, std::move(announced), std::move(metadata), options)});
}

std::uint64_t NativeWriter::file_bytes(const ModelConfig& config, const Tokenizer& tokenizer, std::string_view recipe_json,
                                       const std::vector<Entry>& entries) {
  return SafetensorsWriter::file_bytes(announce(entries), metadata_of(config, tokenizer, recipe_json, entries), options_of(entries));
}

NativeWriter::~NativeWriter() = default;

void NativeWriter::write(std::span<const std::byte> bytes) {
  BANTAM_ASSERT(state_->next < state_->entries.size());
  const Entry& entry = state_->entries[state_->next++];
  XXH3_state_t hash;
  XXH3_64bits_reset(&hash);
  for (const auto part : {bytes, order_bytes(entry)}) {
    state_->writer.write(part);
    XXH3_64bits_update(&hash, part.data(), part.size());
  }
  state_->hashes[entry.name] = hexadecimal(XXH3_64bits_digest(&hash));
}

void NativeWriter::commit() {
  state_->writer.set_metadata(std::string(native::hashes_key), state_->hashes.dump());
  state_->writer.commit();
}

}  // namespace bantam::inline v0
