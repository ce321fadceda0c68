// Writing native files.
#include "bantam/model/native_file.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>

#include "bantam/core/parallel.hpp"
#include "bantam/model/roles.hpp"
#include "io/json.hpp"
#include "io/stream_hash.hpp"

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

constexpr std::size_t hash_digits = 16;

/// Where the digits of the header's hash begin, or npos. Quotes within values are escaped, so this is nothing else.
std::size_t find_header_hash(std::string_view header) {
  const std::string opening = message('"', native::header_key, "\":\"");
  const std::size_t at = header.find(opening);
  return at == header.npos ? at : at + opening.size();
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

/// As announced, but that an expert's matrices follow its first.
std::vector<std::size_t> order_of(const std::vector<NativeWriter::Entry>& entries) {
  std::vector<std::size_t> order(entries.size()), places(entries.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::map<std::pair<std::int64_t, std::int64_t>, std::size_t> first;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const NativeWriter::Entry& entry = entries[i];
    places[i] = entry.expert < 0 ? i : first.try_emplace({entry.layer, entry.expert}, i).first->second;
  }
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return places[i]; });
  return order;
}

SafetensorsWriter::Options options_of(const std::vector<NativeWriter::Entry>& entries) {
  std::size_t room = 128;  // for the names of the hashes, and that of the header
  for (const NativeWriter::Entry& entry : entries) room += entry.name.size() + 40;
  return {.alignment = native::alignment, .metadata_room = room, .order = order_of(entries)};
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
    if (entry.format != nullptr && find_format(entry.format->id) != entry.format) {
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
  StreamHash hash;
  for (const auto part : {bytes, order_bytes(entry)}) {
    state_->writer.write(part);
    hash.add(part);
  }
  state_->hashes[entry.name] = hexadecimal(hash.value());
}

void NativeWriter::commit() {
  state_->writer.set_metadata(std::string(native::hashes_key), state_->hashes.dump());
  state_->writer.set_metadata(std::string(native::header_key), std::string(hash_digits, '0'));
  state_->writer.commit([](std::span<char> header) {
    const std::size_t at = find_header_hash({header.data(), header.size()});
    std::ranges::copy(content_hash(std::as_bytes(header)), header.begin() + static_cast<std::ptrdiff_t>(at));
  });
}

HeaderHash check_header(const std::filesystem::path& path) {
  const auto file = SafetensorsFile::open(path);
  constexpr std::string_view known[] = {"format",           native::version_key, native::config_key, native::tensors_key, native::tokenizer_key,
                                        native::recipe_key, native::hashes_key,  native::header_key};
  for (const auto& [key, value] : file->metadata()) {
    if (std::ranges::find(known, key) == std::end(known)) return HeaderHash::wrong;
  }
  const std::string length = read_head(path, 8);
  std::uint64_t json_bytes = 0;
  std::memcpy(&json_bytes, length.data(), std::min(length.size(), sizeof json_bytes));
  // Opening has checked the length against its limit and the file.
  std::string header = read_head(path, 8 + static_cast<std::size_t>(json_bytes));
  const std::size_t at = find_header_hash(header);
  if (at == header.npos || at + hash_digits > header.size()) return HeaderHash::absent;
  const std::string expected = header.substr(at, hash_digits);
  header.replace(at, hash_digits, hash_digits, '0');
  return content_hash(std::as_bytes(std::span(header))) == expected ? HeaderHash::right : HeaderHash::wrong;
}

void check_hashes(const Checkpoint& checkpoint, const ModelWeights& weights) {
  const std::string place = printable(checkpoint.path().string(), 4096);
  if (checkpoint.container() != "bantam") fail(Errc::unsupported, place, ": expected a native file, which stores hashes, found ", checkpoint.container());
  if (check_header(checkpoint.path()) == HeaderHash::wrong) fail(Errc::corrupt, place, ": expected the header that its hash describes, found another");
  const std::vector<CheckpointTensor>& tensors = checkpoint.tensors();
  std::vector<char> differs(tensors.size());
  parallel_for(std::ssize(tensors), 1, [&](Range range) {
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      const CheckpointTensor& tensor = tensors[static_cast<std::size_t>(i)];
      StreamHash hash;
      if (const WeightMatrix* held = matrix_of(weights, tensor)) {
        if (held->empty()) {
          tensor.source->for_each_part(0, tensor.format().matrix_bytes(tensor.rows, tensor.columns), Reading::direct, [&](std::span<const std::byte> part) { hash.add(part); });
        } else {
          hash.add({held->view().data, static_cast<std::size_t>(held->bytes())});
        }
        const auto& order = held->empty() ? tensor.order() : held->order();
        if (order != nullptr) hash.add(std::as_bytes(std::span(*order)));
      } else if (const std::vector<float>* vector = vector_of(weights, tensor)) {
        hash.add(std::as_bytes(std::span(*vector)));
      } else {
        continue;  // what the config carries
      }
      differs[static_cast<std::size_t>(i)] = hexadecimal(hash.value()) != tensor.expected_hash;
    }
  });
  const auto found = std::ranges::find(differs, 1);
  if (found == differs.end()) return;
  fail(Errc::corrupt, place, ": ", tensors[static_cast<std::size_t>(found - differs.begin())].tensor_name(), " and ", std::ranges::count(differs, 1) - 1,
       " others: expected the bytes that their hashes describe, found other bytes");
}

}  // namespace bantam::inline v0
