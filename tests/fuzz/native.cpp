// Native files: a small model in any format, its header's JSON and its bytes changed.
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "bantam/compress/compress.hpp"
#include "fuzz/fuzz.hpp"
#include "fuzz/readers.hpp"
#include "fuzz/structures.hpp"
#include "hostile/safetensors_builder.hpp"

namespace bantam::fuzz {

namespace {

/// A model's native file in each of the formats.
std::map<std::string_view, std::string> native_files(const Scratch& folder) {
  test::TinyModel tiny{.dim = 8, .layers = 1, .heads = 2, .kv_heads = 1, .head_dim = 4, .ffn = 9, .vocab = 30, .context = 16};
  const Model model = Model::load(folder.put("base.gguf", tiny.make().gguf().bytes()));
  std::map<std::string_view, std::string> files;
  for (const FormatInfo& format : formats()) {
    // Paths of trellises are searched for, under sanitizers 50 to 250 ms a row: one small matrix has one, the others are in the plainest format.
    const Recipe recipe = format.step_bits > 0 ? Recipe(find_format("q8_0")).keep("*.k_proj", format.name) : Recipe(format);
    compress(model, recipe).first.save(folder / "base.bantam");
    files[format.name] = test::read_file(folder / "base.bantam");
  }
  return files;
}

void run_native(Bytes bytes) {
  static const Scratch folder;
  static const std::map<std::string_view, std::string> files = native_files(folder);
  Choices choices(bytes);
  const std::string& base = files.at(choices.of(formats()).name);
  std::uint64_t length = 0;
  std::memcpy(&length, base.data(), sizeof length);
  std::string header = base.substr(8, length), data = base.substr(8 + length);
  for (std::size_t changes = choices.below(3); changes > 0; --changes) {
    auto json = nlohmann::json::parse(header, nullptr, false);
    if (json.is_discarded()) break;
    static constexpr const char* keys[] = {"bantam.config", "bantam.tensors", "bantam.tokenizer", "bantam.recipe", "bantam.hashes"};
    const char* key = choices.of(keys);
    if (choices.once_in(4) || !json.contains("__metadata__") || !json["__metadata__"].is_object() || !json["__metadata__"].contains(key) ||
        !json["__metadata__"][key].is_string()) {
      header = mutate_json(header, choices.raw<std::uint32_t>());
    } else {
      json["__metadata__"][key] = mutate_json(json["__metadata__"][key].get<std::string>(), choices.raw<std::uint32_t>());
      header = json.dump();
    }
  }
  damage(header, choices);
  damage(data, choices);
  // Data begins where it did, or a page or more later.
  header.resize(header.size() <= length ? length : length + round_up<std::uint64_t>(header.size() - length, 4096), ' ');
  const auto path = folder.put("model.bantam", test::safetensors(header, data));
  survives([&] {
    const Model model = Model::load(path);
    use(model.tokenizer(), choices.rest());
    use(model);
  });
}

const Target native_target("native", run_native);

}  // namespace
}  // namespace bantam::fuzz
