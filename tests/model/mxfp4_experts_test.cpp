// gpt-oss as its folders have it: the experts of a layer in one tensor of MXFP4, gates and ups interleaved.
#include <cmath>

#include "bantam/compress/compress.hpp"
#include "bantam/io/gguf.hpp"
#include "bantam/io/safetensors.hpp"
#include "tiny_model.hpp"

namespace bantam::test {
namespace {

struct RawTensor {
  std::string name, type;
  std::vector<std::int64_t> shape;
  std::string bytes;
};

/// Random codes and exponents in place of the experts' matrices. `tiny` gets the numbers that they stand for (OCP microscaling formats
/// 1.0, 5.3.3 and 5.4.1).
std::vector<RawTensor> mxfp4_tensors(TinyModel& tiny) {
  constexpr float numbers[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
  Random random(3);
  const auto below = [&](std::uint64_t n) { return static_cast<unsigned>(random.next() % n); };
  std::vector<RawTensor> raw;
  for (const TinyTensor& t : tiny.folder_tensors()) {
    const std::string name = t.name;
    if (t.shape.size() != 3) {
      raw.push_back({name, "F32", t.shape, TinyModel::bytes_of(t.values, "F32")});
      continue;
    }
    const std::int64_t experts = t.shape[0], columns = t.shape[1], rows = t.shape[2];
    RawTensor blocks{name + "_blocks", "U8", {experts, rows, columns / 32, 16}, {}}, scales{name + "_scales", "U8", {experts, rows, columns / 32}, {}};
    for (std::int64_t i = 0; i < experts * rows * columns / 2; ++i) blocks.bytes += static_cast<char>(below(256));
    for (std::int64_t i = 0; i < experts * rows * columns / 32; ++i) scales.bytes += static_cast<char>(120 + below(5));
    std::int64_t of_part[2] = {0, 0};
    for (TinyTensor& one : tiny.tensors) {
      if (one.fused_name != name) continue;
      const std::int64_t e = of_part[one.fused.part]++, parts = one.fused.parts;
      for (std::int64_t i = 0; i < std::ssize(one.values); ++i) {
        const std::int64_t at = (e * rows + i / columns * parts + one.fused.part) * columns + i % columns;
        const auto two = static_cast<unsigned char>(blocks.bytes[static_cast<std::size_t>(at / 2)]);
        const int exponent = static_cast<unsigned char>(scales.bytes[static_cast<std::size_t>(at / 32)]) - 127;
        one.values[static_cast<std::size_t>(i)] = std::ldexp(numbers[at % 2 == 0 ? two & 15 : two >> 4], exponent);
      }
    }
    raw.push_back(std::move(blocks));
    raw.push_back(std::move(scales));
  }
  return raw;
}

void write_raw(const TinyModel& tiny, const std::vector<RawTensor>& raw, const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  tiny.write_tokenizer(folder);
  Json config = tiny.config;
  config["quantization_config"] = {{"quant_method", "mxfp4"}, {"modules_to_not_convert", {"model.layers.*.self_attn", "model.layers.*.mlp.router"}}};
  write_file(folder / "config.json", config.dump(1));
  std::vector<SafetensorsWriter::Announced> announced;
  for (const RawTensor& t : raw) announced.push_back({t.name, t.type, t.shape});
  SafetensorsWriter writer(folder / "model.safetensors", announced, {{"format", "pt"}});
  for (const RawTensor& t : raw) writer.write(std::as_bytes(std::span(t.bytes)));
  writer.commit();
}

/// Columns that end within a block of 256, and rows that end within a panel.
TinyModel gpt_oss_of_blocks() {
  TinyModel tiny{.arch = &archs::gpt_oss, .dim = 320, .expert_ffn = 32};
  tiny.make();
  return tiny;
}

TEST_CASE("experts in MXFP4 are read value for value, and stay as they are") {
  TinyModel tiny = gpt_oss_of_blocks();
  const std::vector<RawTensor> raw = mxfp4_tensors(tiny);
  const TemporaryFolder folder;
  write_raw(tiny, raw, folder / "hf");
  const Checkpoint checkpoint = Checkpoint::open(folder / "hf");
  std::int64_t matrices = 0, bytes = 0;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    if (tensor.expert < 0 || !tensor.is_matrix) continue;
    CAPTURE(tensor.name);
    ++matrices;
    bytes += tensor.stored_bytes();
    const WeightMatrix matrix = checkpoint.load_matrix(tensor, Reading::buffered);
    CHECK(matrix.format().name == "mxfp4.g32");
    const std::vector<float>& expected = tiny.tensor(tensor.tensor_name()).values;
    const Tensor<float, 2> values = matrix.dequantize();
    CHECK(std::ranges::equal(values.span(), expected));
    std::vector<float> row(static_cast<std::size_t>(tensor.columns));
    RowCodes scratch;
    checkpoint.read_row(tensor, tensor.rows - 1, row, scratch);
    CHECK(std::equal(row.begin(), row.end(), expected.end() - tensor.columns));
  }
  CHECK(matrices == 2 * 6 * 3);
  std::int64_t stored = 0;
  for (const RawTensor& t : raw) stored += t.type == "U8" ? std::ssize(t.bytes) : 0;
  CHECK(bytes == stored);
  // As good as the same numbers in f32, but for activations of 8 bits.
  tiny.write_folder(folder / "f32");
  const auto tokens = some_tokens(20);
  const std::vector<float> mine = logits_of(Model::load(folder / "hf"), tokens), exact = logits_of(Model::load(folder / "f32"), tokens);
  float largest = 0, apart = 0;
  for (std::size_t i = 0; i < mine.size(); ++i) largest = std::max(largest, std::fabs(exact[i])), apart = std::max(apart, std::fabs(mine[i] - exact[i]));
  CHECK(apart < 0.05f * largest);
}

TEST_CASE("experts in MXFP4 go into GGUF's blocks code for code, and come back") {
  TinyModel tiny = gpt_oss_of_blocks();
  const std::vector<RawTensor> raw = mxfp4_tensors(tiny);
  const TemporaryFolder folder;
  write_raw(tiny, raw, folder / "hf");
  compress_file(Checkpoint::open(folder / "hf"), folder / "m.gguf", recipe::rtn("f32").keep("*.experts.*", "mxfp4"), Target::gguf);
  const auto file = GgufFile::open(folder / "m.gguf");
  for (const auto& [in_gguf, in_folder, part] : {std::tuple{"gate", "gate_up_proj", 0}, {"up", "gate_up_proj", 1}, {"down", "down_proj", 0}}) {
    CAPTURE(std::string(in_gguf));
    const TensorEntry* entry = file->find(message("blk.1.ffn_", in_gguf, "_exps.weight"));
    REQUIRE(entry != nullptr);
    CHECK(entry->type == "MXFP4");
    const auto raw_of = [&](const char* ending) -> const RawTensor& {
      return *std::ranges::find(raw, message("model.layers.1.mlp.experts.", in_folder, ending), &RawTensor::name);
    };
    const RawTensor &blocks = raw_of("_blocks"), &scales = raw_of("_scales");
    const std::int64_t parts = std::string(in_folder) == "down_proj" ? 1 : 2, rows = blocks.shape[1] / parts, groups = blocks.shape[2];
    // An exponent, then 16 bytes: number i of 32 in the low half of byte i, i + 16 in the high half. Folders have neighbors in a byte.
    std::string expected;
    for (std::int64_t row = 0; row < blocks.shape[0] * rows; ++row) {
      for (std::int64_t g = 0; g < groups; ++g) {
        const std::int64_t at = (row * parts + part) * groups + g;
        const auto code = [&](std::int64_t i) {
          const auto two = static_cast<unsigned char>(blocks.bytes[static_cast<std::size_t>(16 * at + i / 2)]);
          return i % 2 == 0 ? two & 15 : two >> 4;
        };
        expected += scales.bytes[static_cast<std::size_t>(at)];
        for (std::int64_t i = 0; i < 16; ++i) expected += static_cast<char>(code(i) | code(i + 16) << 4);
      }
    }
    CHECK(std::string(reinterpret_cast<const char*>(entry->bytes.data()), entry->bytes.size()) == expected);
  }
  const Checkpoint checkpoint = Checkpoint::open(folder / "m.gguf");
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    if (tensor.expert < 0 || !tensor.is_matrix) continue;
    CAPTURE(tensor.name);
    const WeightMatrix matrix = checkpoint.load_matrix(tensor, Reading::buffered);
    CHECK(matrix.format().name == "mxfp4.g32");
    CHECK(std::ranges::equal(matrix.dequantize().span(), tiny.tensor(tensor.tensor_name()).values));
  }
}

TEST_CASE("fused experts that cannot be are refused by name") {
  const auto refusal = [](auto change) {
    TinyModel tiny = gpt_oss_of_blocks();
    std::vector<RawTensor> raw = mxfp4_tensors(tiny);
    const TemporaryFolder folder;
    const auto find = [&](const std::string& name) -> RawTensor& { return *std::ranges::find(raw, "model.layers.1.mlp.experts." + name, &RawTensor::name); };
    change(find, raw);
    write_raw(tiny, raw, folder / "hf");
    return error_of([&] { (void)Checkpoint::open(folder / "hf"); });
  };
  using Find = std::function<RawTensor&(const std::string&)>;
  has(refusal([](const Find& find, auto&) { find("gate_up_proj_blocks").shape = {6, 32, 10, 32}; }), "gate_up_proj_blocks: expected shape (6, 64, 10, 16), found (6, 32, 10, 32)");
  has(refusal([](const Find& find, auto&) { find("down_proj_scales").shape = {6, 1, 320}; }), "down_proj_scales: expected shape (6, 320, 1), found (6, 1, 320)");
  has(refusal([](const Find& find, auto&) { find("down_proj_scales").bytes[5] = static_cast<char>(255); }), "down_proj_scales: expected exponents up to 254, found 255 at 5");
  has(refusal([](const Find& find, auto&) { find("down_proj_blocks").type = "I8"; }), "down_proj_blocks: expected U8, found I8");
  has(refusal([](const Find& find, auto&) { find("gate_up_proj_scales").name = "other"; }), "expected tensor model.layers.1.mlp.experts.gate_up_proj_scales, found none");
  has(refusal([](const Find& find, auto&) { find("gate_up_proj_blocks").name = "other"; }), "expected tensor model.layers.1.mlp.experts.0.gate_proj.weight, found none");
  has(refusal([](const Find& find, auto&) { find("gate_up_proj_bias").shape = {12, 32}; }), "gate_up_proj_bias: expected shape (6, 64), found (12, 32)");
}

}  // namespace
}  // namespace bantam::test
