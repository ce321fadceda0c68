// GGUF as it is written: little-endian, tensors at multiples of 32 bytes.
#include "bantam/io/gguf_writer.hpp"

#include <bit>

#include "bantam/core/memory.hpp"
#include "io/ggml_types.hpp"
#include "io/names.hpp"
#include "io/posix.hpp"

namespace bantam::inline v0 {

namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::size_t alignment = gguf_alignment;
constexpr std::size_t longest_tensor_name = 63;

enum Kind : std::uint32_t { kind_u8 = 0, kind_u32 = 4, kind_i32 = 5, kind_f32 = 6, kind_bool = 7, kind_string = 8, kind_array = 9, kind_u64 = 10 };

const detail::GgmlType& type_of(std::string_view name, const std::string& place) {
  for (const detail::GgmlType& type : detail::ggml_types) {
    if (type.name == name) return type;
  }
  fail(Errc::invalid_argument, place, ": expected a type of GGUF, found ", printable(name));
}

std::uint64_t bytes_of(const GgufWriter::Announced& tensor, const detail::GgmlType& type, const std::string& place) {
  if (tensor.shape.empty() || tensor.shape.size() > 4) fail(Errc::invalid_argument, place, ": expected 1 to 4 dimensions, found ", tensor.shape.size());
  std::uint64_t elements = 1;
  for (const std::int64_t extent : tensor.shape) {
    if (extent <= 0 || __builtin_mul_overflow(elements, static_cast<std::uint64_t>(extent), &elements)) {
      fail(Errc::invalid_argument, place, ": expected extents above 0 whose product is below 2^64, found ", extent);
    }
  }
  if (tensor.shape.back() % type.block_elements != 0) {
    fail(Errc::invalid_argument, place, ": expected rows of a multiple of ", type.block_elements, " weights for ", type.name, ", found ", tensor.shape.back());
  }
  return elements / type.block_elements * type.block_bytes;
}

}  // namespace

template <class T>
void GgufWriter::put(T value) {
  metadata_.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void GgufWriter::put_text(std::string_view text) {
  put(static_cast<std::uint64_t>(text.size()));
  metadata_.append(text);
}

void GgufWriter::put_key(std::string_view name, std::uint32_t type) {
  put_text(name);
  put(type);
  ++keys_;
}

void GgufWriter::put_array(std::string_view name, std::uint32_t type, std::size_t count) {
  put_key(name, kind_array);
  put(type);
  put(static_cast<std::uint64_t>(count));
}

void GgufWriter::key(std::string_view name, std::uint32_t value) {
  put_key(name, kind_u32);
  put(value);
}
void GgufWriter::key(std::string_view name, float value) {
  put_key(name, kind_f32);
  put(value);
}
void GgufWriter::key(std::string_view name, bool value) {
  put_key(name, kind_bool);
  put(static_cast<std::uint8_t>(value));
}
void GgufWriter::key(std::string_view name, std::string_view value) {
  put_key(name, kind_string);
  put_text(value);
}
void GgufWriter::key(std::string_view name, std::span<const std::string> values) {
  put_array(name, kind_string, values.size());
  for (const std::string& value : values) put_text(value);
}
void GgufWriter::key(std::string_view name, std::span<const float> values) {
  put_array(name, kind_f32, values.size());
  for (const float value : values) put(value);
}
void GgufWriter::key(std::string_view name, std::span<const std::int32_t> values) {
  put_array(name, kind_i32, values.size());
  for (const std::int32_t value : values) put(value);
}

void GgufWriter::key(std::string_view name, std::span<const std::uint64_t> values) {
  put_array(name, kind_u64, values.size());
  for (const std::uint64_t value : values) put(value);
}

void GgufWriter::key(std::string_view name, std::span<const std::uint8_t> values) {
  put_array(name, kind_u8, values.size());
  for (const std::uint8_t value : values) put(value);
}

void GgufWriter::key(std::string_view name, const std::vector<bool>& values) {
  put_array(name, kind_bool, values.size());
  for (const bool value : values) put(static_cast<std::uint8_t>(value));
}

/// Makes all of what stands before the first tensor.
void GgufWriter::describe(std::span<const Announced> tensors) {
  const std::string keys = std::move(metadata_);
  metadata_ = "GGUF";
  put(std::uint32_t{3});
  put(static_cast<std::uint64_t>(tensors.size()));
  put(keys_);
  metadata_ += keys;
  std::uint64_t offset = 0;
  for (const Announced& tensor : tensors) {
    const std::string place = message(detail::shown(path_), ": ", printable(tensor.name));
    if (const auto fault = detail::tensor_name_fault(tensor.name); !fault.empty() || tensor.name.size() > longest_tensor_name) {
      fail(Errc::invalid_argument, place, ": expected a name of at most ", longest_tensor_name, " bytes, found ", fault.empty() ? "more" : fault);
    }
    const detail::GgmlType& type = type_of(tensor.type, place);
    put_text(tensor.name);
    put(static_cast<std::uint32_t>(tensor.shape.size()));
    for (auto extent = tensor.shape.rbegin(); extent != tensor.shape.rend(); ++extent) put(static_cast<std::uint64_t>(*extent));
    put(type.id);
    put(offset);
    left_.push_back(bytes_of(tensor, type, place));
    offset += round_up<std::uint64_t>(left_.back(), alignment);
  }
}

void GgufWriter::begin(std::span<const Announced> tensors) {
  describe(tensors);
  file_.emplace(path_);
  file_->write(metadata_);
  file_->pad_to(alignment);
  metadata_.clear();
}

std::uint64_t GgufWriter::file_bytes(std::span<const Announced> tensors) {
  describe(tensors);
  std::uint64_t bytes = round_up<std::uint64_t>(metadata_.size(), alignment);
  for (const std::uint64_t tensor : left_) bytes += round_up<std::uint64_t>(tensor, alignment);
  return bytes;
}

void GgufWriter::write(std::span<const std::byte> bytes) {
  if (next_ == left_.size() || bytes.size() > left_[next_]) {
    fail(Errc::invalid_argument, detail::shown(path_), ": expected no more bytes than were announced, found ", bytes.size(), " more");
  }
  file_->write(bytes);
  left_[next_] -= bytes.size();
  if (left_[next_] > 0) return;
  file_->pad_to(alignment);
  ++next_;
}

void GgufWriter::commit() {
  if (!file_ || next_ != left_.size()) fail(Errc::invalid_argument, detail::shown(path_), ": expected ", left_.size(), " tensors, found ", next_);
  file_->commit();
}

}  // namespace bantam::inline v0
