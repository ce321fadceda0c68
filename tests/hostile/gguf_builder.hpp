// Builds GGUF files in memory, well-formed or broken on purpose.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace bantam::test {

/// The bytes of a number as a file has them.
template <class T>
std::string little(T value) {
  static_assert(std::is_arithmetic_v<T>);
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

/// Type numbers of values.
enum GgufKind : std::uint32_t {
  gguf_u8, gguf_i8, gguf_u16, gguf_i16, gguf_u32, gguf_i32, gguf_f32, gguf_bool, gguf_text, gguf_array, gguf_u64, gguf_i64, gguf_f64
};

/// A GGUF file piece by piece. What the fields and the raw_ functions say goes into the file unchecked:
///
///     GgufBuilder().key("general.architecture", "llama").tensor("w", {32, 2}, 0, floats).bytes()
class GgufBuilder {
 public:
  std::string magic = "GGUF";
  std::uint32_t version = 3;
  std::optional<std::uint64_t> tensor_count;  ///< instead of the true one
  std::optional<std::uint64_t> key_count;

  static std::string text(std::string_view value) { return little<std::uint64_t>(value.size()).append(value); }

  GgufBuilder& raw_key(std::string_view name, std::uint32_t kind, std::string_view payload) {
    return raw_pair(text(name) + little(kind) + std::string(payload));
  }
  /// A whole key-value pair as bytes.
  GgufBuilder& raw_pair(std::string_view bytes) {
    keys_ += bytes;
    ++keys_written_;
    return *this;
  }

  GgufBuilder& key(std::string_view name, const char* value) { return raw_key(name, gguf_text, text(value)); }
  GgufBuilder& key(std::string_view name, const std::string& value) { return raw_key(name, gguf_text, text(value)); }
  GgufBuilder& key(std::string_view name, bool value) { return raw_key(name, gguf_bool, little<std::uint8_t>(value)); }
  template <class T>
    requires std::is_arithmetic_v<T>
  GgufBuilder& key(std::string_view name, T value) {
    return raw_key(name, kind<T>(), little(value));
  }
  GgufBuilder& key(std::string_view name, const std::vector<std::string>& values) {
    std::string payload = little<std::uint32_t>(gguf_text) + little<std::uint64_t>(values.size());
    for (const std::string& value : values) payload += text(value);
    return raw_key(name, gguf_array, payload);
  }
  GgufBuilder& key(std::string_view name, const std::vector<bool>& values) {
    std::string payload = little<std::uint32_t>(gguf_bool) + little<std::uint64_t>(values.size());
    for (const bool value : values) payload += little<std::uint8_t>(value);
    return raw_key(name, gguf_array, payload);
  }
  template <class T>
    requires std::is_arithmetic_v<T>
  GgufBuilder& key(std::string_view name, const std::vector<T>& values) {
    std::string payload = little<std::uint32_t>(kind<T>()) + little<std::uint64_t>(values.size());
    for (const T value : values) payload += little(value);
    return raw_key(name, gguf_array, payload);
  }
  /// Sets general.alignment and spaces the tensors accordingly.
  GgufBuilder& alignment(std::uint32_t value) {
    alignment_ = value;
    return key("general.alignment", value);
  }

  /// `dimensions` innermost first, as the file has them; `type` as ggml numbers it.
  GgufBuilder& tensor(std::string_view name, const std::vector<std::int64_t>& dimensions, std::uint32_t type, std::string_view data) {
    data_.resize((data_.size() + alignment_ - 1) / alignment_ * alignment_, '\0');
    std::string bytes = text(name) + little(static_cast<std::uint32_t>(dimensions.size()));
    for (const std::int64_t dimension : dimensions) bytes += little(dimension);
    raw_tensor(bytes + little(type) + little<std::uint64_t>(data_.size()));
    data_ += data;
    return *this;
  }
  /// A whole entry of the tensor list as bytes, without data.
  GgufBuilder& raw_tensor(std::string_view bytes) {
    tensors_ += bytes;
    ++tensors_written_;
    return *this;
  }
  /// Bytes at the end of the data.
  GgufBuilder& raw_data(std::string_view bytes) {
    data_ += bytes;
    return *this;
  }

  [[nodiscard]] std::string bytes() const {
    std::string file = magic + little(version) + little(tensor_count.value_or(tensors_written_)) +
                       little(key_count.value_or(keys_written_)) + keys_ + tensors_;
    if (!data_.empty()) file.resize((file.size() + alignment_ - 1) / alignment_ * alignment_, '\0');
    return file + data_;
  }

 private:
  template <class T>
  static constexpr std::uint32_t kind() {
    if constexpr (std::is_same_v<T, std::uint8_t>) return gguf_u8;
    else if constexpr (std::is_same_v<T, std::int8_t>) return gguf_i8;
    else if constexpr (std::is_same_v<T, std::uint16_t>) return gguf_u16;
    else if constexpr (std::is_same_v<T, std::int16_t>) return gguf_i16;
    else if constexpr (std::is_same_v<T, std::uint32_t>) return gguf_u32;
    else if constexpr (std::is_same_v<T, std::int32_t>) return gguf_i32;
    else if constexpr (std::is_same_v<T, std::uint64_t>) return gguf_u64;
    else if constexpr (std::is_same_v<T, std::int64_t>) return gguf_i64;
    else if constexpr (std::is_same_v<T, float>) return gguf_f32;
    else return gguf_f64;
  }

  std::uint64_t alignment_ = 32;
  std::uint64_t keys_written_ = 0;
  std::uint64_t tensors_written_ = 0;
  std::string keys_;
  std::string tensors_;
  std::string data_;
};

/// `count` floats 0, 1, 2, ... as bytes.
inline std::string float_bytes(std::size_t count) {
  std::string bytes;
  for (std::size_t i = 0; i < count; ++i) bytes += little(static_cast<float>(i));
  return bytes;
}

/// A valid file of some two kilobytes with every kind of value and a few types of tensors. It ends with the last byte
/// of its last tensor, so each of its prefixes is broken.
inline GgufBuilder small_gguf() {
  GgufBuilder builder;
  builder.key("general.architecture", "llama")
      .key("general.name", std::string("a small model"))
      .key("a.u8", std::uint8_t{200}).key("a.i8", std::int8_t{-100})
      .key("a.u16", std::uint16_t{60000}).key("a.i16", std::int16_t{-30000})
      .key("a.u32", std::uint32_t{4000000000}).key("a.i32", std::int32_t{-2000000000})
      .key("a.u64", std::uint64_t{1} << 63).key("a.i64", std::int64_t{-1} << 62)
      .key("a.f32", 0.5F).key("a.f64", 0.1).key("a.yes", true).key("a.no", false)
      .key("l.u8", std::vector<std::uint8_t>{1, 255}).key("l.i8", std::vector<std::int8_t>{-128, 127})
      .key("l.u16", std::vector<std::uint16_t>{65535}).key("l.i16", std::vector<std::int16_t>{-32768})
      .key("l.u32", std::vector<std::uint32_t>{4294967295}).key("l.i32", std::vector<std::int32_t>{-1, 7})
      .key("l.u64", std::vector<std::uint64_t>{1}).key("l.i64", std::vector<std::int64_t>{-1})
      .key("l.f32", std::vector<float>{1.5F}).key("l.f64", std::vector<double>{2.5})
      .raw_key("l.bool", gguf_array, little<std::uint32_t>(gguf_bool) + little<std::uint64_t>(3) + std::string("\1\0\1", 3))
      .key("tokenizer.ggml.tokens", std::vector<std::string>{"<s>", "", "\xe2\x96\x81the", "\xff"})
      .key("l.empty", std::vector<float>{})
      .tensor("token_embd.weight", {32, 2}, 0, float_bytes(64))
      .tensor("blk.0.attn_q.weight", {64, 3}, 2, std::string(std::size_t{18} * 2 * 3, '\x11'))
      .tensor("blk.0.ffn_up.weight", {256, 1, 1, 1}, 12, std::string(144, '\x22'))
      .tensor("output_norm.weight", {5}, 1, std::string(10, '\x33'));
  return builder;
}

}  // namespace bantam::test
