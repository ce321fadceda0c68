// Quantized checkpoints that are damaged or contradict themselves: one line that names the place, before anything runs.
#include <algorithm>
#include <cstring>
#include <functional>

#include "bantam/bantam.hpp"
#include "bantam/io/safetensors.hpp"
#include "model/foreign_folders.hpp"

namespace bantam::test {
namespace {

using Json = nlohmann::json;

struct RawTensor {
  std::string name, type;
  std::vector<std::int64_t> shape;
  std::string bytes;
};

/// A folder that can be changed before it is opened.
struct Draft {
  Json config;
  std::vector<RawTensor> tensors;

  explicit Draft(const std::filesystem::path& folder) : config(Json::parse(read_file(folder / "config.json"))) {
    const auto file = SafetensorsFile::open_folder(folder);
    for (const TensorEntry& t : file->tensors()) {
      tensors.push_back({t.name, t.type, t.shape, {reinterpret_cast<const char*>(t.bytes.data()), t.bytes.size()}});
    }
  }
  [[nodiscard]] Json& settings() { return config["quantization_config"]; }
  [[nodiscard]] RawTensor& tensor(const std::string& name) {
    const auto found = std::ranges::find(tensors, name, &RawTensor::name);
    REQUIRE_MESSAGE(found != tensors.end(), name);
    return *found;
  }
  void remove(const std::string& name) { std::erase_if(tensors, [&](const RawTensor& t) { return t.name == name; }); }
  template <class T>
  void put(const std::string& name, std::size_t index, T value) {
    RawTensor& t = tensor(name);
    REQUIRE((index + 1) * sizeof value <= t.bytes.size());
    std::memcpy(t.bytes.data() + index * sizeof value, &value, sizeof value);
  }
  /// Another shape, with as many bytes as it needs.
  void reshape(const std::string& name, std::vector<std::int64_t> shape) {
    RawTensor& t = tensor(name);
    std::int64_t before = 1, after = 1;
    for (const std::int64_t d : t.shape) before *= d;
    for (const std::int64_t d : shape) after *= d;
    t.bytes.resize(t.bytes.size() / static_cast<std::size_t>(before) * static_cast<std::size_t>(after));
    t.shape = std::move(shape);
  }
  void set_text(const std::string& name, const std::string& text) {
    RawTensor& t = tensor(name);
    t.bytes = text;
    t.shape = {static_cast<std::int64_t>(text.size())};
  }

  void write(const std::filesystem::path& from, const std::filesystem::path& folder) const {
    std::filesystem::create_directories(folder);
    for (const char* name : {"tokenizer.json", "tokenizer_config.json"}) std::filesystem::copy_file(from / name, folder / name);
    write_file(folder / "config.json", config.dump());
    std::vector<SafetensorsWriter::Announced> announced;
    for (const RawTensor& t : tensors) announced.push_back({t.name, t.type, t.shape});
    SafetensorsWriter writer(folder / "model.safetensors", announced, {});
    for (const RawTensor& t : tensors) writer.write(std::as_bytes(std::span(t.bytes)));
    writer.commit();
  }
};

const std::string up = "model.layers.1.mlp.up_proj", down = "model.layers.0.mlp.down_proj";
constexpr std::uint16_t half_nan = 0x7e00, half_infinity = 0x7c00;

struct Case {
  std::string folder;
  std::function<void(Draft&)> damage;
  std::string says;
};

const Case cases[] = {
    // GPTQ: tensors.
    {"gptq-4-128-zeros", [](Draft& d) { d.remove(up + ".scales"); }, up + ".scales: expected such a tensor, found none"},
    {"gptq-4-128-zeros", [](Draft& d) { d.remove(up + ".qzeros"); }, up + ".qzeros: expected zeros of a module that is not symmetric, found none"},
    {"gptq-4-128-zeros", [](Draft& d) { d.remove(up + ".qweight"); }, "expected tensor " + up + ".weight, found none"},
    {"gptq-4-128-zeros", [](Draft& d) { d.put(down + ".scales", 128 + 7, half_nan); }, down + ".scales: expected finite scales, found nan in row 7, group 1"},
    {"gptq-4-128-zeros", [](Draft& d) { d.put(down + ".scales", 5, half_infinity); }, down + ".scales: expected finite scales, found inf in row 5, group 0"},
    {"gptq-4-128-zeros", [](Draft& d) { d.tensor(up + ".scales").type = "I16"; }, up + ".scales: expected F16, BF16 or F32, found I16"},
    {"gptq-4-128-zeros", [](Draft& d) { d.reshape(up + ".scales", {2, 352}); }, up + ".scales: expected shape (1, 352), found (2, 352)"},
    {"gptq-4-128-zeros", [](Draft& d) { d.tensor(up + ".qweight").type = "F32"; }, up + ".qweight: expected type I32, found F32"},
    {"gptq-4-128-zeros", [](Draft& d) { d.reshape(up + ".qweight", {15, 352}); }, up + ".qweight: expected shape (16, 352), found (15, 352)"},
    {"gptq-4-128-zeros", [](Draft& d) { d.reshape(up + ".qweight", {0, 352}); }, up + ".qweight: expected shape (16, 352), found (0, 352)"},
    {"gptq-4-128-zeros", [](Draft& d) { d.reshape(up + ".qzeros", {1, 43}); }, up + ".qzeros: expected shape (1, 44), found (1, 43)"},
    {"gptq-4-128-zeros", [](Draft& d) { d.reshape(up + ".g_idx", {127}); }, up + ".g_idx: expected shape (128), found (127)"},
    {"gptq-4-128-zeros", [](Draft& d) { d.put(up + ".g_idx", 17, 1); }, up + ".g_idx: expected groups from 0 to 0, found 1 at 17"},
    {"gptq-4-128-zeros", [](Draft& d) { d.put(up + ".g_idx", 17, -1); }, up + ".g_idx: expected groups from 0 to 0, found -1 at 17"},
    {"gptq-4-128-sorted", [](Draft& d) { d.put(down + ".g_idx", 351, 3); }, down + ".g_idx: expected groups from 0 to 2, found 3 at 351"},
    {"gptq-4-128", [](Draft& d) { d.put(down + ".bias", 9, std::uint16_t{1}); }, down + ".bias: expected no such tensor"},
    {"gptq-4-128", [](Draft& d) { d.tensors.push_back({up + ".weight", "F16", {1}, "xx"}); }, up + ".weight: expected no such tensor"},
    {"gptq-mixed", [](Draft& d) { d.settings()["dynamic"]["-:.*up_proj"] = Json::object(); }, ".up_proj.qweight: expected none, as quantization_config leaves this module out"},
    // GPTQ: settings that contradict the tensors, or that nothing here reads.
    {"gptq-4-128-zeros", [](Draft& d) { d.settings()["bits"] = 8; }, ".qweight: expected shape ("},
    {"gptq-4-128-zeros", [](Draft& d) { d.settings()["bits"] = 3; }, ".qweight: expected shape ("},
    {"gptq-4-128-zeros", [](Draft& d) { d.settings()["group_size"] = 64; }, ".scales: expected shape (2, "},
    {"gptq-4-128-zeros", [](Draft& d) { d.settings()["bits"] = 5; }, "5 bits: not yet; what works: 2, 3, 4, 8"},
    {"gptq-4-128-zeros", [](Draft& d) { d.settings()["bits"] = "four"; }, "quantization_config: bits: expected a whole number from 1 to 32, found \"four\""},
    {"gptq-4-128-zeros", [](Draft& d) { d.settings()["bits"] = 18446744073709551615u; }, "bits: expected a whole number"},
    {"gptq-4-128-zeros", [](Draft& d) { d.settings().erase("bits"); }, "quantization_config: bits: expected a number, found none"},
    {"gptq-4-128-zeros", [](Draft& d) { d.settings()["group_size"] = 0; }, "group_size: expected -1 or a number above 0, found 0"},
    {"gptq-4-128-zeros", [](Draft& d) { d.settings()["sym"] = 1; }, "sym: expected true or false"},
    {"gptq-4-128-zeros", [](Draft& d) { d.settings()["checkpoint_format"] = "marlin"; }, "checkpoint_format marlin: not yet; what works: gptq, gptq_v2"},
    {"gptq-4-128-zeros", [](Draft& d) { d.settings()["pack_dtype"] = "int64"; }, "pack_dtype int64: not yet; what works: int32"},
    {"gptq-4-128-zeros", [](Draft& d) { d.settings()["quant_method"] = "exl2\n"; }, "quant_method exl2\\x0a: not yet; what works: gptq, awq, "},
    {"gptq-4-128-zeros", [](Draft& d) { d.settings().erase("quant_method"); }, "expected \"quant_method\", found none"},
    {"gptq-4-128-zeros", [](Draft& d) { d.settings() = 4; }, "quantization_config: expected an object, found number"},
    {"gptq-4-128-zeros", [](Draft& d) { d.settings()["dynamic"] = {{"+:(", Json::object()}}; }, "dynamic"},
    {"gptq-4-128-zeros", [](Draft& d) { d.settings()["dynamic"] = {{"+:.*", 4}}; }, "dynamic: expected an object, found number"},
    {"gptq-4-128-zeros", [](Draft& d) { d.settings()["dynamic"] = Json::array({1}); }, "dynamic: expected an object, found array"},
    {"gptq-4-128-zeros", [](Draft& d) { d.settings()["dynamic"] = "x"; }, "dynamic: expected an object, found string"},
    // AWQ.
    {"awq-gemm-128", [](Draft& d) { d.settings()["version"] = "gemv"; }, ".qzeros: expected I32 (128, at least 1), found I32 (1, 16)"},
    {"awq-gemm-128", [](Draft& d) { d.settings()["version"] = "gemv_fast"; }, "version gemv_fast: not yet; what works: gemm, gemv"},
    {"awq-gemm-128", [](Draft& d) { d.settings()["bits"] = 3; }, "3 bits: not yet; what works: 4"},
    {"awq-gemm-128", [](Draft& d) { d.settings()["group_size"] = 32; }, ".qzeros: expected shape (4, "},
    {"awq-gemm-128", [](Draft& d) { d.put(up + ".scales", 0, half_nan); }, up + ".scales: expected finite scales, found nan"},
    {"awq-gemv-64", [](Draft& d) { d.reshape(up + ".qzeros", {352, 0}); }, up + ".qzeros: expected I32 (352, at least 1), found I32 (352, 0)"},
    {"awq-gemv-64", [](Draft& d) { d.reshape(up + ".scales", {352, 15}); }, up + ".scales: expected shape (352, 16), found (352, 15)"},
    // bitsandbytes.
    {"bnb-nf4", [](Draft& d) { d.remove(up + ".weight.absmax"); }, up + ".weight.absmax: expected such a tensor, found none"},
    {"bnb-nf4", [](Draft& d) { d.reshape(up + ".weight.absmax", {703}); }, up + ".weight.absmax: expected shape (704), found (703)"},
    {"bnb-nf4", [](Draft& d) { d.put(up + ".weight.absmax", 703, std::uint32_t{0x7fc00000}); }, up + ".weight.absmax: expected finite scales, found nan in row 351, group 1"},
    {"bnb-nf4", [](Draft& d) { d.reshape(up + ".weight", {22527, 1}); }, up + ".weight: expected 22528 bytes, found 22527"},
    {"bnb-nf4", [](Draft& d) { d.reshape(up + ".weight.quant_map", {15}); }, up + ".weight.quant_map: expected shape (16), found (15)"},
    {"bnb-nf4", [](Draft& d) { d.put(up + ".weight.quant_map", 3, std::uint32_t{0x7f800000}); }, up + ".weight.quant_map: expected finite levels, found inf"},
    {"bnb-nf4", [](Draft& d) { d.remove(up + ".weight.quant_state.bitsandbytes__nf4"); }, up + ".weight.quant_state.bitsandbytes__nf4: expected such a tensor"},
    {"bnb-nf4", [](Draft& d) { d.set_text(up + ".weight.quant_state.bitsandbytes__nf4", "{\"quant_type\": \"nf4\", \"blo"); }, "not json"},
    {"bnb-nf4", [](Draft& d) { d.set_text(up + ".weight.quant_state.bitsandbytes__nf4", R"({"quant_type":"nf4","blocksize":0,"shape":[352,128]})"); }, "blocksize: expected a whole number from 1 to 65536, found 0"},
    {"bnb-nf4", [](Draft& d) { d.set_text(up + ".weight.quant_state.bitsandbytes__nf4", R"({"quant_type":"nf4","blocksize":48,"shape":[352,128]})"); }, "blocksize: expected a power of two from 32 on, found 48"},
    {"bnb-nf4", [](Draft& d) { d.set_text(up + ".weight.quant_state.bitsandbytes__nf4", R"({"quant_type":"nf4","blocksize":64,"shape":[128,352]})"); }, "shape: expected (352, 128), found [128,352]"},
    {"bnb-nf4", [](Draft& d) { d.set_text(up + ".weight.quant_state.bitsandbytes__nf4", R"({"quant_type":"int4","blocksize":64,"shape":[352,128]})"); }, "quant_type: expected nf4, found int4"},
    {"bnb-nf4-nested", [](Draft& d) { d.set_text(up + ".weight.quant_state.bitsandbytes__nf4", R"({"quant_type":"nf4","blocksize":64,"shape":[352,128],"nested_blocksize":256})"); }, "expected \"nested_offset\", found none"},
    {"bnb-nf4-nested", [](Draft& d) { d.reshape(up + ".weight.nested_quant_map", {255}); }, up + ".weight.nested_quant_map: expected shape (256), found (255)"},
    {"bnb-nf4-nested", [](Draft& d) { d.reshape(up + ".weight.nested_absmax", {2}); }, up + ".weight.nested_absmax: expected shape (3), found (2)"},
    {"bnb-nf4", [](Draft& d) { d.tensors.push_back({up + ".SCB", "F32", {1}, "1234"}); }, up + ".weight: expected weight.absmax or SCB, found both"},
    {"bnb-int8", [](Draft& d) { d.remove(up + ".SCB"); }, up + ".SCB: expected such a tensor, found none"},
    {"bnb-int8", [](Draft& d) { d.put(up + ".SCB", 3, std::uint32_t{0x7f800000}); }, up + ".SCB: expected finite scales, found inf in row 3"},
    {"bnb-int8", [](Draft& d) { d.put(up + ".weight_format", 0, std::uint8_t{1}); }, up + ".weight_format: not yet; what works: 0, rows"},
    {"bnb-int8", [](Draft& d) { d.reshape(up + ".weight", {352, 127}); }, up + ".weight: expected shape (352, 128), found (352, 127)"},
    // compressed-tensors.
    {"packed-4-128", [](Draft& d) { d.put(up + ".weight_shape", 0, std::int64_t{353}); }, up + ".weight_shape: expected (352, 128), found (353, 128)"},
    {"packed-4-128", [](Draft& d) { d.tensor(up + ".weight_shape").type = "F64"; }, up + ".weight_shape: expected a list of I64 or I32, found F64"},
    {"packed-4-128", [](Draft& d) { d.reshape(up + ".weight_packed", {352, 15}); }, up + ".weight_packed: expected shape (352, 16), found (352, 15)"},
    {"packed-4-128", [](Draft& d) { d.remove(up + ".weight_scale"); }, up + ".weight_scale: expected such a tensor, found none"},
    {"packed-4-128", [](Draft& d) { d.put(up + ".weight_scale", 3, std::uint16_t{0x7fc0}); }, up + ".weight_scale: expected finite scales, found nan in row 3"},
    {"packed-4-128", [](Draft& d) { d.settings()["ignore"].push_back("re:.*up_proj"); }, ".up_proj.weight_packed: expected floats, as quantization_config ignores this module"},
    {"packed-4-128", [](Draft& d) { d.settings()["config_groups"]["group_0"]["targets"] = Json::array({"re:.*self_attn"}); }, ".weight_packed: expected floats, as no group of quantization_config"},
    {"packed-4-128", [](Draft& d) { d.settings()["config_groups"]["group_0"]["targets"] = 4; }, "targets: expected a list, found number"},
    {"packed-4-128", [](Draft& d) { d.settings()["config_groups"]["group_0"]["weights"]["num_bits"] = 0; }, "num_bits: expected a whole number from 2 to 8, found 0"},
    {"packed-4-128", [](Draft& d) { d.settings()["config_groups"]["group_0"]["weights"]["group_size"] = -1; }, "group_size: expected a number above 0, found -1"},
    {"packed-4-128", [](Draft& d) { d.settings()["config_groups"]["group_0"]["weights"]["strategy"] = "attn_head"; }, "strategy attn_head: not yet"},
    {"packed-4-128", [](Draft& d) { d.settings()["format"] = "marlin-24"; }, "format marlin-24: not yet; what works: dense, pack-quantized"},
    {"packed-4-128", [](Draft& d) { d.settings()["transform_config"] = {{"config_groups", 1}}; }, "transform_config: activations rotated"},
    {"packed-4-32-zeros", [](Draft& d) { d.reshape(up + ".weight_zero_point", {43, 4}); }, up + ".weight_zero_point: expected shape (44, 4), found (43, 4)"},
    {"packed-4-64-sorted", [](Draft& d) { d.put(up + ".weight_g_idx", 127, 2); }, up + ".weight_g_idx: expected groups from 0 to 1, found 2 at 127"},
    {"int8-channel-zeros", [](Draft& d) { d.reshape(up + ".weight_zero_point", {351, 1}); }, up + ".weight_zero_point: expected 352 of I8, found I8 (351, 1)"},
    {"int8-block", [](Draft& d) { d.settings()["config_groups"]["group_0"]["weights"]["block_structure"] = {0, 32}; }, "block_structure: expected two numbers above 0, found [0,32]"},
    {"fp8-tensor", [](Draft& d) { d.reshape(up + ".weight_scale", {2}); }, up + ".weight_scale: expected shape (1, 1), found (2)"},
    {"fp8-block", [](Draft& d) { d.reshape(up + ".weight_scale_inv", {3, 2}); }, up + ".weight_scale_inv: expected shape (3, 1), found (3, 2)"},
    {"fp8-block", [](Draft& d) { d.put(up + ".weight_scale_inv", 2, std::uint32_t{0x7fc00000}); }, up + ".weight_scale_inv: expected finite scales, found nan at 2"},
    {"fp8-block", [](Draft& d) { d.remove(up + ".weight_scale_inv"); }, up + ".weight_scale_inv: expected such a tensor, found none"},
    {"fp8-block", [](Draft& d) { d.settings()["weight_block_size"] = {128, 0}; }, "weight_block_size: expected two numbers above 0, found [128,0]"},
    // Ternary values.
    {"bitnet-packed", [](Draft& d) { d.reshape(up + ".weight", {87, 128}); }, up + ".weight: expected shape (88, 128), found (87, 128)"},
    {"bitnet-packed", [](Draft& d) { d.put(up + ".weight_scale", 0, std::uint16_t{0}); }, up + ".weight_scale: expected finite scales, found inf in row 0, group 0"},
    {"bitnet-auto", [](Draft& d) { d.put(up + ".weight_scale", 0, std::uint16_t{0x7fc0}); }, up + ".weight_scale: expected finite scales, found nan in row 0, group 0"},
    {"bitnet-auto", [](Draft& d) { d.remove(up + ".weight_scale"); }, up + ".weight_scale: expected such a tensor, found none"},
    {"bitnet-auto", [](Draft& d) { d.settings()["linear_class"] = "linear"; }, "linear_class linear: not yet; what works: bitlinear, autobitlinear"},
    {"bitnet-auto", [](Draft& d) { d.settings()["use_rms_norm"] = true; }, "use_rms_norm: expected false, found true"},
    {"bitnet-auto", [](Draft& d) { d.settings()["modules_to_not_convert"] = 3; }, "modules_to_not_convert: expected a list of names, found number"},
    {"bitnet-online", [](Draft& d) { d.settings()["quantization_mode"] = "dynamic"; }, "quantization_mode dynamic: not yet; what works: offline, online"},
    {"bitnet-online", [](Draft& d) { d.put(up + ".weight", 7, std::uint32_t{0x7fc00000}); }, up + ".weight: expected finite scales, found nan in row 0, group 0"},
    // Floats of 4 and 8 bits.
    {"nvfp4", [](Draft& d) { d.put(up + ".weight_scale", 5, std::uint8_t{0x7f}); }, up + ".weight_scale: expected numbers from 0 to 448, found the byte 127 at 5"},
    {"nvfp4", [](Draft& d) { d.put(up + ".weight_global_scale", 0, std::uint32_t{0}); }, up + ".weight_scale: expected a positive scale of the matrix, found inf"},
    {"nvfp4", [](Draft& d) { d.reshape(up + ".weight_global_scale", {2}); }, up + ".weight_global_scale: expected shape (1), found (2)"},
    {"nvfp4", [](Draft& d) { d.reshape(up + ".weight_packed", {352, 63}); }, up + ".weight_packed: expected shape (352, 64), found (352, 63)"},
    {"nvfp4", [](Draft& d) { d.remove(up + ".weight_scale"); }, up + ".weight_scale: expected such a tensor, found none"},
    {"mxfp4", [](Draft& d) { d.put(up + ".weight_scale", 7, std::uint8_t{255}); }, up + ".weight_scale: expected exponents up to 254, found 255 at 7"},
    {"mxfp4", [](Draft& d) { d.tensor(up + ".weight_scale").type = "I8"; }, up + ".weight_scale: expected U8 or F8_E8M0, found I8"},
    {"mxfp8", [](Draft& d) { d.reshape(up + ".weight_scale", {352, 3}); }, up + ".weight_scale: expected shape (352, 4), found (352, 3)"},
    {"modelopt-nvfp4", [](Draft& d) { d.put(up + ".weight_scale_2", 0, std::uint32_t{0x7fc00000}); }, up + ".weight_scale: expected a positive scale of the matrix, found nan"},
    {"modelopt-nvfp4", [](Draft& d) { d.settings()["quant_algo"] = "W4A16_AWQ"; }, "quant_algo W4A16_AWQ: not yet; what works: NVFP4"},
    {"modelopt-nvfp4", [](Draft& d) { d.tensors.push_back({up + ".pre_quant_scale", "F32", {1}, "1234"}); }, up + ".pre_quant_scale: activations scaled while the model runs: not yet"},
    {"modelopt-fp8-blocks", [](Draft& d) { d.reshape(up + ".weight_scale", {2}); }, up + ".weight_scale: expected one, 352 or 3 x 1 scales, found (2)"},
    {"sparse-2of4", [](Draft& d) { d.put(up + ".bitmask", 0, std::uint8_t{0xff}); }, up + ".bitmask: expected 64 weights in row 0, found 68"},
    {"sparse-2of4", [](Draft& d) { d.reshape(up + ".compressed", {352, 63}); }, up + ".compressed: expected shape (352, 64), found (352, 63)"},
    {"sparse-2of4", [](Draft& d) { d.put(up + ".shape", 1, std::int64_t{64}); }, up + ".shape: expected (352, 128), found (352, 64)"},
    {"sparse-any", [](Draft& d) { d.put(up + ".row_offsets", 9, std::int64_t{-1}); }, up + ".row_offsets: expected the "},
    {"sparse-any", [](Draft& d) { d.put(up + ".row_offsets", 351, std::int64_t{1} << 62); }, up + ".row_offsets: expected the "},
    {"sparse-any", [](Draft& d) { d.reshape(up + ".row_offsets", {351}); }, up + ".row_offsets: expected 352 numbers, found 351"},
    {"sparse-any", [](Draft& d) { d.remove(up + ".row_offsets"); }, up + ".row_offsets: expected such a tensor, found none"},
};

TEST_CASE("a quantized checkpoint that is damaged or contradicts itself is one line that names the place") {
  for (const ForeignFolder& folder : foreign_folders()) {
    for (const Case& c : cases) {
      if (c.folder != folder.name) continue;
      CAPTURE(c.says);
      const TemporaryFolder temporary;
      Draft draft(folder.path);
      c.damage(draft);
      draft.write(folder.path, temporary / "m");
      const std::string text = error_of([&] { (void)Model::load(temporary / "m"); });
      CHECK_MESSAGE(text.starts_with((temporary / "m").string()), text);
      CHECK_MESSAGE(text.find(c.says) != std::string::npos, text);
    }
  }
}

TEST_CASE("the state of a bitsandbytes matrix is refused wherever it is cut") {
  for (const ForeignFolder& folder : foreign_folders()) {
    if (folder.name != "bnb-nf4-nested") continue;
    const std::string name = up + ".weight.quant_state.bitsandbytes__nf4";
    const std::string whole = Draft(folder.path).tensor(name).bytes;
    for (std::size_t length = 0; length < whole.size(); length += 7) {
      const TemporaryFolder temporary;
      Draft draft(folder.path);
      draft.set_text(name, whole.substr(0, length));
      draft.write(folder.path, temporary / "m");
      CHECK(error_of([&] { (void)Checkpoint::open(temporary / "m"); }).find("up_proj") != std::string::npos);
    }
  }
}

}  // namespace
}  // namespace bantam::test
