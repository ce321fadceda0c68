// Writing GGUF files, version 3: metadata, then tensors one after the other.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "bantam/io/file.hpp"

namespace bantam::inline v0 {

/// Where tensors start: what readers take when general.alignment is absent.
inline constexpr std::int64_t gguf_alignment = 32;

/// First every key, then begin(), then the bytes of each tensor in the order announced, then commit(). The file is
/// complete under its name or not there.
class GgufWriter {
 public:
  struct Announced {
    std::string name;
    std::string type;                 ///< "F32", "Q4_K"
    std::vector<std::int64_t> shape;  ///< rows first, as everywhere here
  };

  explicit GgufWriter(const std::filesystem::path& path) : path_(path) {}

  void key(std::string_view name, std::uint32_t value);
  void key(std::string_view name, float value);
  void key(std::string_view name, bool value);
  void key(std::string_view name, std::string_view value);
  void key(std::string_view name, std::span<const std::string> values);
  void key(std::string_view name, std::span<const float> values);
  void key(std::string_view name, std::span<const std::int32_t> values);
  void key(std::string_view name, std::span<const std::uint64_t> values);
  void key(std::string_view name, std::span<const std::uint8_t> values);
  void key(std::string_view name, const std::vector<bool>& values);
  /// A string literal would rather be a bool.
  void key(std::string_view name, const char* value) { key(name, std::string_view(value)); }

  /// Throws invalid_argument for a name, type or shape that GGUF does not hold.
  void begin(std::span<const Announced> tensors);
  /// In place of begin(): bytes of the file that would become; nothing is written. Throws what begin() throws for them.
  [[nodiscard]] std::uint64_t file_bytes(std::span<const Announced> tensors);
  /// The next tensor, or more of it. Throws invalid_argument for more bytes than were announced, io.
  void write(std::span<const std::byte> bytes);
  /// Throws invalid_argument when bytes are missing, io.
  void commit();

 private:
  template <class T>
  void put(T value);
  void put_text(std::string_view text);
  void put_key(std::string_view name, std::uint32_t type);
  void put_array(std::string_view name, std::uint32_t type, std::size_t count);
  void describe(std::span<const Announced> tensors);

  std::filesystem::path path_;
  std::optional<AtomicFile> file_;
  std::string metadata_;
  std::uint64_t keys_ = 0;
  std::vector<std::uint64_t> left_;  ///< bytes of each tensor that are still to come
  std::size_t next_ = 0;
};

}  // namespace bantam::inline v0
