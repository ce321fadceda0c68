// Folders that others quantized: GPTQ, AWQ, bitsandbytes, compressed-tensors, FP8 and BitNet, their tensors and settings changed.
#include <nlohmann/json.hpp>

#include "bantam/compress/compress.hpp"
#include "bantam/io/safetensors.hpp"
#include "fuzz/fuzz.hpp"
#include "fuzz/readers.hpp"
#include "fuzz/structures.hpp"
#include "hostile/safetensors_builder.hpp"

namespace bantam::fuzz {

namespace {

using nlohmann::json;

struct PackedTensor {
  std::string name, type;
  std::vector<std::int64_t> shape;
  std::string bytes;
};
struct PackedFolder {
  json config;
  std::vector<PackedTensor> tensors;
};

PackedFolder read_packed(const std::filesystem::path& folder) {
  PackedFolder out{json::parse(test::read_file(folder / "config.json")), {}};
  const auto file = SafetensorsFile::open_folder(folder);
  for (const TensorEntry& t : file->tensors()) {
    out.tensors.push_back({t.name, t.type, t.shape, {reinterpret_cast<const char*>(t.bytes.data()), t.bytes.size()}});
  }
  return out;
}

/// Replaces the matrices of a plain folder's blocks by what `pack` makes of (name, rows, columns).
template <class Pack>
PackedFolder with_packed(PackedFolder folder, const char* settings, Pack&& pack) {
  folder.config["quantization_config"] = json::parse(settings);
  std::vector<PackedTensor> tensors;
  for (PackedTensor& t : folder.tensors) {
    if (t.name.find("proj.weight") == t.name.npos) tensors.push_back(std::move(t));
    else for (PackedTensor& part : pack(t.name.substr(0, t.name.size() - 7), t.shape[0], t.shape[1])) tensors.push_back(std::move(part));
  }
  folder.tensors = std::move(tensors);
  return folder;
}

std::string filled(std::int64_t bytes, char with) { return std::string(static_cast<std::size_t>(bytes), with); }

/// One of each kind, of a model that suits all of them.
std::vector<PackedFolder> packed_folders(const Scratch& scratch) {
  test::TinyModel tiny{.dim = 64, .layers = 1, .heads = 2, .kv_heads = 1, .head_dim = 32, .ffn = 96, .vocab = 32, .context = 16};
  tiny.make().write_folder(scratch / "plain", "F16");
  tiny.write_tokenizer(scratch.path());  // what the changed folders lie beside
  const Checkpoint checkpoint = Checkpoint::open(scratch / "plain");
  const std::pair<bantam::Target, const char*> written[] = {
      {bantam::Target::gptq, "i4.g32"},   {bantam::Target::gptq, "i8.g32"},  {bantam::Target::gptq, "i4z.g32"}, {bantam::Target::gptq_v2, "i3z.g32"},
      {bantam::Target::gptq_v2, "i2z.g32"}, {bantam::Target::awq, "i4z.g32"}, {bantam::Target::bnb, "nf4.g64"},  {bantam::Target::bnb, "nf4dq.g64"},
      {bantam::Target::bnb, "fp4w.g64"},  {bantam::Target::bnb, "i8.row"}};
  std::vector<PackedFolder> out;
  for (const auto& [target, format] : written) {
    compress_file(checkpoint, scratch / "made", Recipe(find_format(format)), target);
    out.push_back(read_packed(scratch / "made"));
    std::filesystem::remove_all(scratch / "made");
  }
  const PackedFolder plain = read_packed(scratch / "plain");
  out.push_back(with_packed(plain,
                            R"({"quant_method":"compressed-tensors","format":"pack-quantized","config_groups":{"group_0":{"targets":["Linear"],)"
                            R"("weights":{"num_bits":4,"type":"int","symmetric":true,"strategy":"group","group_size":32}}},"ignore":["lm_head"]})",
                            [](const std::string& name, std::int64_t rows, std::int64_t columns) {
                              return std::vector<PackedTensor>{{name + ".weight_packed", "I32", {rows, columns / 8}, filled(rows * columns / 2, '\x79')},
                                                               {name + ".weight_scale", "F16", {rows, columns / 32}, filled(rows * columns / 16, '\x2c')},
                                                               {name + ".weight_shape", "I64", {2}, test::little(rows) + test::little(columns)}};
                            }));
  out.push_back(with_packed(plain, R"({"quant_method":"fp8","fmt":"e4m3","weight_block_size":[32,32],"activation_scheme":"dynamic"})",
                            [](const std::string& name, std::int64_t rows, std::int64_t columns) {
                              const std::int64_t down = (rows + 31) / 32, across = (columns + 31) / 32;
                              return std::vector<PackedTensor>{{name + ".weight", "F8_E4M3", {rows, columns}, filled(rows * columns, '\x31')},
                                                               {name + ".weight_scale_inv", "F32", {down, across}, filled(4 * down * across, '\x3c')}};
                            }));
  out.push_back(with_packed(plain, R"({"quant_method":"bitnet","linear_class":"autobitlinear","quantization_mode":"offline"})", [](const std::string& name, std::int64_t rows, std::int64_t columns) {
    return std::vector<PackedTensor>{{name + ".weight", "U8", {rows / 4, columns}, filled(rows / 4 * columns, '\x61')}, {name + ".weight_scale", "BF16", {1}, filled(2, '\x3c')}};
  }));
  out.push_back(with_packed(plain, R"({"quant_method":"modelopt","quant_algo":"NVFP4"})", [](const std::string& name, std::int64_t rows, std::int64_t columns) {
    return std::vector<PackedTensor>{{name + ".weight", "U8", {rows, columns / 2}, filled(rows * columns / 2, '\x79')},
                                     {name + ".weight_scale", "F8_E4M3", {rows, columns / 16}, filled(rows * columns / 16, '\x31')},
                                     {name + ".weight_scale_2", "F32", {1}, filled(4, '\x3c')}};
  }));
  out.push_back(with_packed(plain,
                            R"({"quant_method":"compressed-tensors","format":"mxfp8-quantized","config_groups":{"group_0":{"targets":["Linear"],)"
                            R"("weights":{"num_bits":8,"type":"float","symmetric":true,"strategy":"group","group_size":32}}},"ignore":["lm_head"]})",
                            [](const std::string& name, std::int64_t rows, std::int64_t columns) {
                              return std::vector<PackedTensor>{{name + ".weight", "F8_E4M3", {rows, columns}, filled(rows * columns, '\x31')},
                                                               {name + ".weight_scale", "U8", {rows, columns / 32}, filled(rows * columns / 32, '\x7c')}};
                            }));
  out.push_back(with_packed(plain,
                            R"({"quant_method":"compressed-tensors","format":"int-quantized","config_groups":{"group_0":{"targets":["Linear"],)"
                            R"("weights":{"num_bits":8,"type":"int","symmetric":true,"strategy":"channel"}}},"ignore":["lm_head"]})",
                            [](const std::string& name, std::int64_t rows, std::int64_t columns) {
                              return std::vector<PackedTensor>{{name + ".weight", "I8", {rows, columns}, filled(rows * columns, '\x31')},
                                                               {name + ".weight_scale", "BF16", {rows, 1}, filled(2 * rows, '\x3c')}};
                            }));
  // All of them are read as they are: what chance changes has something to lose.
  for (const PackedFolder& folder : out) require(!folder.tensors.empty(), "a folder has tensors");
  return out;
}

/// The file as it says, sizes and types unchecked.
std::string file_of(const std::vector<PackedTensor>& tensors) {
  json header = json::object();
  std::string data;
  for (const PackedTensor& t : tensors) {
    header[t.name] = {{"dtype", t.type}, {"shape", t.shape}, {"data_offsets", {data.size(), data.size() + t.bytes.size()}}};
    data += t.bytes;
  }
  return test::safetensors(header.dump(-1, ' ', false, json::error_handler_t::replace), data);
}

void change(PackedFolder& folder, Choices& choices) {
  static constexpr const char* types[] = {"I32", "F16", "BF16", "F32", "U8", "I8", "I64", "F8_E4M3"};
  static constexpr const char* endings[] = {".qweight", ".qzeros", ".scales", ".g_idx", ".bias", ".weight", ".weight.absmax", ".SCB", ".weight_packed",
                                            ".weight_scale", ".weight_zero_point", ".weight_g_idx", ".weight_shape", ".weight.quant_map"};
  PackedTensor& t = folder.tensors[choices.below(folder.tensors.size())];
  switch (choices.below(8)) {
    case 0: folder.tensors.erase(folder.tensors.begin() + (&t - folder.tensors.data())); break;
    case 1: t.type = choices.of(types); break;
    case 2:  // another shape, with the bytes that it needs
      if (!t.shape.empty()) {
        auto& extent = t.shape[choices.below(t.shape.size())];
        const std::int64_t other = choices.between(0, 100);
        t.bytes.resize(extent > 0 ? t.bytes.size() / static_cast<std::size_t>(extent) * static_cast<std::size_t>(other) : 0);
        extent = other;
      }
      break;
    case 3:
      if (t.shape.size() == 2) std::swap(t.shape[0], t.shape[1]);
      break;
    case 4: {
      const std::size_t at = choices.raw<std::uint16_t>();
      const std::string value = test::little(choices.number());
      if (at < t.bytes.size()) t.bytes.replace(at, std::min<std::size_t>(8, t.bytes.size() - at), value.substr(0, std::min<std::size_t>(8, t.bytes.size() - at)));
      break;
    }
    case 5: {
      PackedTensor copy = t;
      copy.name = t.name.substr(0, t.name.find("_proj") + 5) + choices.of(endings);
      folder.tensors.push_back(std::move(copy));
      break;
    }
    case 6: t.name = t.name.substr(0, t.name.find("_proj") + 5) + choices.of(endings); break;
    default: {
      json& part = folder.config.contains("quantization_config") && !choices.once_in(4) ? folder.config["quantization_config"] : folder.config;
      part = json::parse(mutate_json(part.dump(), choices.raw<std::uint32_t>()));
      break;
    }
  }
}

void run_packed(Bytes bytes) {
  static const Scratch scratch;
  static const std::vector<PackedFolder> folders = packed_folders(scratch);
  Choices choices(bytes);
  PackedFolder folder = folders[choices.below(folders.size())];
  for (std::size_t changes = choices.below(4); changes > 0 && !folder.tensors.empty(); --changes) change(folder, choices);
  std::string file = file_of(folder.tensors);
  damage(file, choices);
  scratch.put("config.json", folder.config.dump());
  scratch.put("model.safetensors", file);
  survives([&] { use(Model::load(scratch.path())); });
}

const Target packed_target("packed", run_packed);

}  // namespace
}  // namespace bantam::fuzz
