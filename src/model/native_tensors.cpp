// What a native file's metadata says of its tensors: formats, orders of columns, hashes.
#include <cstring>

#include "bantam/core/error.hpp"
#include "bantam/model/native_file.hpp"
#include "io/json.hpp"
#include "match_tensors.hpp"
#include "sources/strip16_source.hpp"
#include "text/json.hpp"

namespace bantam::inline v0 {

namespace {

/// The order of columns behind a native file's matrix: each once.
std::shared_ptr<const ColumnPermutation> read_order(std::span<const std::byte> bytes, std::int64_t columns, const std::string& place) {
  ColumnPermutation order(static_cast<std::size_t>(columns));
  std::memcpy(order.data(), bytes.data(), bytes.size());
  std::vector<bool> seen(order.size());
  for (const std::int32_t column : order) {
    if (column < 0 || column >= columns || seen[static_cast<std::size_t>(column)]) fail(Errc::corrupt, place, ": expected each column once, found ", column);
    seen[static_cast<std::size_t>(column)] = true;
  }
  return std::make_shared<const ColumnPermutation>(std::move(order));
}

}  // namespace

void find_native_sources(std::vector<CheckpointTensor>& found, const TensorFiles& files, const std::string& tensors_json, const std::string& hashes_json) {
  const std::string& file = files.path;
  const Json tensors = Json::parse_or_null(tensors_json);
  const Json hashes = Json::parse_or_null(hashes_json);
  if (!tensors.is_object() || !hashes.is_object()) {
    fail(Errc::corrupt, file, ": __metadata__: expected ", native::tensors_key, " and ", native::hashes_key, " as JSON objects");
  }
  for (CheckpointTensor& tensor : found) {
    const TensorEntry& entry = *files.tensors.find(tensor.tensor_name());
    const std::string place = message(file, ": ", printable(entry.name));
    const Json* hash = hashes.find(entry.name);
    if (hash == nullptr || !hash->is_string()) fail(Errc::corrupt, file, ": ", native::hashes_key, ": ", printable(entry.name), ": expected its hash, found none");
    tensor.expected_hash = std::string(hash->string());
    if (!tensor.is_matrix) continue;
    const Json* described = tensors.find(entry.name);
    const Json* format_id = described != nullptr ? described->find("id") : nullptr;
    const Json* shape = described != nullptr ? described->find("shape") : nullptr;
    const std::string key = message(file, ": ", native::tensors_key, ": ", printable(entry.name));
    if (format_id == nullptr || !format_id->is_number_unsigned() || shape == nullptr || *shape != Json::array({tensor.rows, tensor.columns})) {
      fail(Errc::corrupt, key, ": expected id and shape (", tensor.rows, ", ", tensor.columns, "), found something else");
    }
    const auto id = format_id->get<std::uint64_t>();
    const FormatInfo* format = id <= 0xffff ? find_format(FormatId{static_cast<std::uint16_t>(id)}) : nullptr;
    if (format == nullptr) fail(Errc::unsupported, place, ": expected a format of this version, found number ", id);
    const bool ordered = flag(*described, "ordered", false, key);
    const auto plain_bytes = static_cast<std::uint64_t>(format->matrix_bytes(tensor.rows, tensor.columns));
    const std::uint64_t bytes = plain_bytes + (ordered ? static_cast<std::uint64_t>(tensor.columns) * sizeof(std::int32_t) : 0);
    if (entry.bytes.size() != bytes) fail(Errc::corrupt, place, ": expected ", bytes, " bytes of ", format->name, ", found ", entry.bytes.size());
    if (reinterpret_cast<std::uintptr_t>(entry.bytes.data()) % storage_alignment != 0) {
      fail(Errc::corrupt, place, ": expected its bytes at a multiple of ", storage_alignment, " in the file");
    }
    std::shared_ptr<const ColumnPermutation> order;
    if (ordered) order = shared_order(found, tensor.layer, read_order(entry.bytes.subspan(plain_bytes), tensor.columns, place));
    if (ordered && format->is_float) fail(Errc::corrupt, place, ": expected floats in the model's order");
    tensor.source = native_source(entry, *format, tensor.rows, tensor.columns, std::move(order));
  }
}

}  // namespace bantam::inline v0
