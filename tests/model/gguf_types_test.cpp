// GGUF's block types, value for value: as llama.cpp's own library decodes them where it is installed
// (tests/peers/README.md), and by hashes of what it gave elsewhere.
#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "bantam/core/random.hpp"
#include "bantam/model/native_file.hpp"
#include "bantam/model/source_type.hpp"
#include "io/ggml_types.hpp"
#include "tiny_model.hpp"

namespace {

using bantam::SourceType;
using bantam::test::TemporaryFolder;
using bantam::test::TinyModel;

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
  constexpr std::string_view last[] = {"Q2_K", "Q3_K", "Q6_K", "IQ1_M", "TQ1_0", "TQ2_0"};
  const int at = std::ranges::find(last, type.name) != std::end(last) ? type.block_bytes - 4 : 0;
  for (int b = 0; b < count; ++b) {
    std::byte* block = bytes.data() + b * type.block_bytes;
    if (type.name == "NVFP4") continue;
    if (type.name == "MXFP4") {
      block[0] &= std::byte{0x7f};  // 255 is no number
      continue;
    }
    for (const int high : {at + 1, at + 3}) block[high] &= std::byte{0xbf};
  }
  return bytes;
}

/// Every type of blocks that is read, in ggml's order.
std::vector<const SourceType*> block_types() {
  std::vector<const SourceType*> types;
  for (const bantam::detail::GgmlType& listed : bantam::detail::ggml_types) {
    const SourceType* type = bantam::find_source_type(listed.name);
    if (type == nullptr || type->block == 1) continue;
    CHECK(type->block == static_cast<int>(listed.block_elements));
    CHECK(type->block_bytes == static_cast<int>(listed.block_bytes));
    types.push_back(type);
  }
  return types;
}

constexpr int columns = 1024;
/// So many that every entry of every grid is looked up, the 2048 of iq1 too.
constexpr int rows = 200;

/// The same bytes on every machine.
std::vector<std::byte> some_rows(const SourceType& type) {
  bantam::Random random(17);
  return random_blocks(type, rows * columns / type.block, random);
}

std::vector<float> values_of(const SourceType& type, const std::vector<std::byte>& blocks) {
  const std::size_t count = blocks.size() / static_cast<std::size_t>(type.block_bytes);
  std::vector<float> values(count * static_cast<std::size_t>(type.block));
  type.read_row(blocks.data(), values);
  return values;
}

/// The values of rows that went through a panel of the type's format.
std::vector<float> values_in_panel(const SourceType& type, const std::vector<std::byte>& blocks) {
  const bantam::FormatInfo& format = *type.format;
  std::vector<std::byte> panel(static_cast<std::size_t>(format.panel_bytes(columns)));
  bantam::RowCodes codes;
  std::vector<float> values;
  std::vector<float> row(columns);
  for (const std::byte* from = blocks.data(); from < blocks.data() + blocks.size(); from += type.row_bytes(columns)) {
    codes.codes.resize(columns);
    codes.sides.resize(static_cast<std::size_t>(columns / format.group));
    type.read_codes(from, columns, codes.codes.data(), codes.sides.data());
    format.store_codes(panel.data(), 21, columns, codes);
    format.decode_row(panel.data(), 21, row, codes);
    values.insert(values.end(), row.begin(), row.end());
  }
  return values;
}

int differing(const std::vector<float>& a, const std::vector<float>& b) {
  int count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    // Zeros of either sign are equal: a code of zero times a negative scale.
    count += !(a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])));
  }
  return count;
}

/// Of the bits of all values, zeros without their sign.
std::string hash_of(std::vector<float> values) {
  for (float& x : values) x += 0.0f;
  return bantam::content_hash(std::as_bytes(std::span(values)));
}

}  // namespace

TEST_CASE("GGUF's block types have the values that llama.cpp gives them, and panels keep them") {
  const Ggml ggml;
  if (!ggml.found()) MESSAGE("only hashes are compared: node-llama-cpp is not installed (tests/peers/README.md)");
  // Of what llama.cpp's library (node-llama-cpp 3.22.1) makes of some_rows().
  const std::map<std::string_view, std::string_view> hashes = {
      {"Q4_0", "418a44b7be67c7bf"}, {"Q4_1", "e4479d79490cba5d"}, {"Q5_0", "aa4ade07a5817827"},
      {"Q5_1", "255c54de3cb358e0"}, {"Q8_0", "0fa1a859b880c0ee"}, {"Q2_K", "c49431cfd458acfc"},
      {"Q3_K", "57b3fe3a702c8aa8"}, {"Q4_K", "e2a2802532463920"}, {"Q5_K", "cdc144fc47980dee"},
      {"Q6_K", "bbae80f2ceb0dd90"}, {"IQ2_XXS", "3fdb7821e8eab1c3"}, {"IQ2_XS", "43428b0b07403730"},
      {"IQ3_XXS", "69e69479b4c0106a"}, {"IQ1_S", "c0631a0a0ef2ecca"}, {"IQ4_NL", "a4ae92e53993c7b7"},
      {"IQ3_S", "f6e35b86b0d8a9fa"}, {"IQ2_S", "ceebe7ed32658612"}, {"IQ4_XS", "595cef77c6cba23f"},
      {"IQ1_M", "22892b3a4f5f3c2f"}, {"TQ1_0", "44acec33b0faa285"}, {"TQ2_0", "140ae6c65a70cf42"},
      {"MXFP4", "66171dc71f5e2be8"}, {"NVFP4", "6e7e9ec64e37c322"}, {"Q1_0", "981403229acc693a"}, {"Q2_0", "f711e1fd2df5adfe"},
  };
  const auto types = block_types();
  CHECK(types.size() == hashes.size());
  for (const SourceType* type : types) {
    CAPTURE(std::string(type->name));
    const std::vector<std::byte> blocks = some_rows(*type);
    const std::vector<float> found = values_of(*type, blocks);
    REQUIRE(hashes.contains(type->name));
    CHECK(hash_of(found) == hashes.at(type->name));
    CHECK(differing(values_in_panel(*type, blocks), found) == 0);
    if (!ggml.found()) continue;
    std::vector<float> expected(found.size());
    ggml.dequantize(type->name, blocks.data(), expected);
    CHECK(differing(found, expected) == 0);
    CHECK(hash_of(expected) == hashes.at(type->name));
  }
}

TEST_CASE("a format is as large as the type that it is written as, and at most 4.6 bits where the type is read only") {
  for (const SourceType* type : block_types()) {
    CAPTURE(std::string(type->name));
    const double bits = 8.0 * static_cast<double>(type->format->matrix_bytes(32, columns)) / (32 * columns);
    const double bits_in_file = 8.0 * type->block_bytes / type->block;
    if (type->can_be_written()) {
      CHECK(bits == bits_in_file);
      CHECK(bantam::source_type_of(*type->format) == type);
    } else {
      CHECK(bits >= bits_in_file);
      CHECK(bits <= 4.6);
      CHECK(bantam::source_type_of(*type->format) != type);
    }
  }
}

TEST_CASE("blocks of any bits are read, and what is no number stays none") {
  for (const SourceType* type : block_types()) {
    CAPTURE(std::string(type->name));
    const auto size = static_cast<std::size_t>(type->row_bytes(columns));
    bantam::Random random(5);
    for (int round = 0; round < 40; ++round) {
      std::vector<std::byte> blocks(size, static_cast<std::byte>(round == 0 ? 0 : 255));
      if (round > 1) {
        for (std::byte& b : blocks) b = static_cast<std::byte>(random.next() & 255u);
      }
      CHECK(differing(values_in_panel(*type, blocks), values_of(*type, blocks)) == 0);
    }
    const std::vector<float> ones = values_of(*type, std::vector<std::byte>(size, std::byte{255}));
    CHECK(std::ranges::all_of(ones, [](float x) { return std::isnan(x); }) == (type->name != "MXFP4" && type->name != "NVFP4"));
  }
}

TEST_CASE("a tensor of every type is loaded as its blocks read; too few bytes and broken rows are refused") {
  TinyModel tiny{.dim = 64, .heads = 4, .head_dim = 16, .ffn = 256};
  tiny.make();
  tiny.remove("model.layers.1.mlp.down_proj.weight");
  const TemporaryFolder folder;
  for (const SourceType* type : block_types()) {
    CAPTURE(std::string(type->name));
    const auto number = std::ranges::find(bantam::detail::ggml_types, type->name, &bantam::detail::GgmlType::name)->id;
    bantam::Random random(9);
    const std::vector<std::byte> blocks = random_blocks(*type, 64 * 256 / type->block, random);
    const std::string bytes(reinterpret_cast<const char*>(blocks.data()), blocks.size());
    const auto file_with = [&](std::vector<std::int64_t> shape, std::string_view data) {
      return tiny.gguf().tensor("blk.1.ffn_down.weight", shape, number, data);
    };
    const std::filesystem::path path = folder / "m.gguf";
    bantam::test::write_file(path, file_with({256, 64}, bytes).bytes());
    const bantam::Checkpoint checkpoint = bantam::Checkpoint::open(path);
    const auto& tensors = checkpoint.tensors();
    const auto name_of = [](const bantam::CheckpointTensor& t) { return t.source->parts()[0].entry->name; };
    const auto tensor = std::ranges::find(tensors, "blk.1.ffn_down.weight", name_of);
    REQUIRE(tensor != tensors.end());
    const std::string kept = type->can_be_written() ? "" : ", kept in " + std::string(type->format->name);
    CHECK(tensor->stored_as() == std::string(type->name) + kept);
    const bantam::WeightMatrix matrix = checkpoint.load_matrix(*tensor, bantam::Reading::mapped);
    const std::vector<float> expected = values_of(*type, blocks);
    std::vector<float> found(expected.size());
    bantam::RowCodes scratch;
    for (std::size_t row = 0; row < 64; ++row) {
      matrix.read_row(static_cast<std::int64_t>(row), std::span(found).subspan(row * 256, 256), scratch);
    }
    CHECK(differing(found, expected) == 0);

    for (const bantam::test::GgufBuilder& broken :
         {file_with({256, 64}, std::string_view(bytes).substr(1)), file_with({type->block - 1, 64}, bytes)}) {
      bantam::test::write_file(path, broken.bytes());
      const std::string error = bantam::test::error_of([&] { (void)bantam::Checkpoint::open(path); });
      CHECK_MESSAGE(error.find("blk.1.ffn_down.weight") != std::string::npos, error);
    }
  }
}

TEST_CASE("NVFP4 times the factor that goes with it stays NVFP4") {
  TinyModel tiny{.dim = 64, .heads = 4, .head_dim = 16, .ffn = 256};
  tiny.make();
  tiny.remove("model.layers.1.mlp.down_proj.weight");
  const TemporaryFolder folder;
  const SourceType& type = *bantam::find_source_type("NVFP4");
  const auto number = std::ranges::find(bantam::detail::ggml_types, type.name, &bantam::detail::GgmlType::name)->id;
  bantam::Random random(3);
  const std::vector<std::byte> blocks = random_blocks(type, 64 * 256 / type.block, random);
  const float factor = 0x1.23456p-7f;
  const auto file_with = [&](std::string_view bytes) {
    return tiny.gguf()
        .tensor("blk.1.ffn_down.weight", {256, 64}, number, {reinterpret_cast<const char*>(blocks.data()), blocks.size()})
        .tensor("blk.1.ffn_down.scale", {static_cast<std::int64_t>(bytes.size() / 4)}, 0, bytes)
        .tensor("blk.1.ffn_down.input_scale", {1}, 0, "abcd");
  };
  const std::string_view bytes(reinterpret_cast<const char*>(&factor), sizeof factor);
  bantam::test::write_file(folder / "m.gguf", file_with(bytes).bytes());
  const bantam::Checkpoint checkpoint = bantam::Checkpoint::open(folder / "m.gguf");
  const auto tensor = std::ranges::find(checkpoint.tensors(), "model.layers.1.mlp.down_proj", &bantam::CheckpointTensor::name);
  REQUIRE(tensor != checkpoint.tensors().end());
  CHECK(tensor->format().name == "nvfp4.g16");
  const auto found = checkpoint.load_matrix(*tensor, bantam::Reading::buffered).dequantize();
  const std::vector<float> plain = values_of(type, blocks);
  std::vector<float> row(256);
  bantam::RowCodes scratch;
  int far = 0, differing_rows = 0;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    // The factor is rounded into the scale, the product once more.
    far += !(std::fabs(found.data()[i] - plain[i] * factor) <= 0x1p-23f * std::fabs(plain[i] * factor));
  }
  for (std::int64_t r = 0; r < 64; ++r) {
    checkpoint.read_row(*tensor, r, row, scratch);
    differing_rows += differing(row, {&found(r, 0), &found(r, 0) + 256}) != 0;
  }
  CHECK(far == 0);
  CHECK(differing_rows == 0);
  // Several of them, or none that is a number.
  for (const std::string& broken : {std::string(8, '\x31'), std::string("\x00\x00\xc0\x7f", 4)}) {
    bantam::test::write_file(folder / "m.gguf", file_with(broken).bytes());
    const std::string error = bantam::test::error_of([&] { (void)bantam::Checkpoint::open(folder / "m.gguf"); });
    CHECK_MESSAGE(error.find("blk.1.ffn_down.scale: expected f") != std::string::npos, error);
  }
}
