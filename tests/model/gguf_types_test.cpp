// GGUF's block types, value for value, against llama.cpp's own library where it is installed (tests/peers/README.md).
#include <dlfcn.h>

#include <bit>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "bantam/core/random.hpp"
#include "bantam/model/source_type.hpp"
#include "io/ggml_types.hpp"
#include "support.hpp"

namespace {

using bantam::SourceType;

/// libggml-base.so of node-llama-cpp; empty where it is not installed.
class Ggml {
 public:
  Ggml() {
    const char* peers = std::getenv("BANTAM_PEERS");
    const std::filesystem::path folder = peers != nullptr ? peers : BANTAM_SOURCE_DIR "/tests/peers";
    const auto path = folder / "node_modules/@node-llama-cpp/linux-x64/bins/linux-x64/libggml-base.so";
    if (std::filesystem::exists(path)) library_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  [[nodiscard]] bool found() const { return library_ != nullptr; }

  /// "Q4_K" -> dequantize_row_q4_K.
  void dequantize(std::string_view type, const std::byte* blocks, std::vector<float>& out) const {
    std::string name = "dequantize_row_";
    for (const char c : type) name += c == 'K' ? c : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    const auto f = reinterpret_cast<void (*)(const void*, float*, std::int64_t)>(dlsym(library_, name.c_str()));
    REQUIRE_MESSAGE(static_cast<bool>(f), name);
    f(blocks, out.data(), static_cast<std::int64_t>(out.size()));
  }

 private:
  void* library_ = nullptr;
};

/// Random bits in every field, but scales that are numbers: two halves at the start or the end of a block, of which the
/// second may be codes.
std::vector<std::byte> random_blocks(const SourceType& type, int count, bantam::Random& random) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(count * type.block_bytes));
  for (std::byte& b : bytes) b = static_cast<std::byte>(random.next() & 255u);
  const bool last = type.name == "Q2_K" || type.name == "Q3_K" || type.name == "Q6_K";
  for (int b = 0; b < count; ++b) {
    std::byte* block = bytes.data() + b * type.block_bytes;
    if (type.name == "MXFP4") {
      block[0] &= std::byte{0x7f};  // 255 is no number
      continue;
    }
    const int at = last ? type.block_bytes - 4 : 0;
    for (const int high : {at + 1, at + 3}) block[high] &= std::byte{0xbf};
  }
  return bytes;
}

int differing(const std::vector<float>& a, const std::vector<float>& b) {
  int count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    // Zeros of either sign are equal: a code of zero times a negative scale.
    count += !(a[i] == b[i]);
  }
  return count;
}

}  // namespace

TEST_CASE("GGUF's block types have the values that llama.cpp gives them, and panels keep them") {
  const Ggml ggml;
  if (!ggml.found()) {
    MESSAGE("skipped: node-llama-cpp is not installed (tests/peers/README.md)");
    return;
  }
  bantam::Random random(17);
  int types = 0;
  for (const bantam::detail::GgmlType& listed : bantam::detail::ggml_types) {
    const SourceType* type = bantam::find_source_type(listed.name);
    if (type == nullptr || type->block == 1) continue;
    ++types;
    CAPTURE(std::string(type->name));
    CHECK(type->block == static_cast<int>(listed.block_elements));
    CHECK(type->block_bytes == static_cast<int>(listed.block_bytes));
    const int count = 1024 / type->block;
    for (int round = 0; round < 20; ++round) {
      const std::vector<std::byte> blocks = random_blocks(*type, count, random);
      std::vector<float> expected(1024);
      ggml.dequantize(type->name, blocks.data(), expected);
      std::vector<float> found(1024);
      type->read_row(blocks.data(), found);
      CHECK(differing(found, expected) == 0);

      const bantam::FormatInfo& format = *type->format;
      CHECK(format.matrix_bytes(32, 1024) * type->block == 32 * 1024 * type->block_bytes);
      std::vector<std::byte> panel(static_cast<std::size_t>(format.panel_bytes(1024)));
      bantam::RowCodes codes;
      codes.codes.resize(1024);
      codes.sides.resize(static_cast<std::size_t>(1024 / format.group));
      type->read_codes(blocks.data(), 1024, codes.codes.data(), codes.sides.data());
      format.store_codes(panel.data(), 21, 1024, codes);
      format.decode_row(panel.data(), 21, found, codes);
      CHECK(differing(found, expected) == 0);
    }
  }
  CHECK(types == 13);
}
