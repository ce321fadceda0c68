// Adapters: folders of PEFT's and GGUF files, their pairs of tensors and their config changed, for a tiny model that then runs with them.
#include "fuzz/fuzz.hpp"
#include "fuzz/structures.hpp"
#include "tiny_adapter.hpp"

namespace bantam::fuzz {

namespace {

struct AdapterBase {
  AdapterBase() {
    tiny.make();
    made.make(1);
    model = Model::load(folder.put("base.gguf", tiny.gguf().bytes()));
  }
  Scratch folder;
  test::TinyModel tiny{.dim = 8, .layers = 1, .heads = 2, .kv_heads = 1, .head_dim = 4, .ffn = 9, .vocab = 30, .context = 100};
  test::TinyAdapter made{.model = tiny, .rank = 2};
  std::optional<Model> model;
};

void run_adapter(Bytes bytes) {
  static AdapterBase base;
  static constexpr const char* keys[] = {"r", "lora_alpha", "use_rslora", "use_dora", "bias", "rank_pattern", "alpha_pattern", "peft_type", "init_lora_weights"};
  static constexpr const char* values[] = {"2", "0", "-1", "1e308", "null", "true", "\"none\"", "\"LORA\"", "{\"q_proj\": 2}", "[]"};
  Choices choices(bytes);
  std::filesystem::path path;
  if (choices.once_in(2)) {
    std::string file = base.made.gguf().bytes();
    damage(file, choices);
    path = base.folder.put("changed.gguf", file);
  } else {
    path = base.folder / "peft";
    base.made.write_folder(path);
    Json config = base.made.config();
    for (std::size_t changes = choices.below(3); changes > 0; --changes) {
      const std::string key = choices.of(keys), value = choices.of(values);
      config[key] = Json::parse(value, "fuzz");
    }
    std::string text = config.dump(), tensors = test::read_file(path / "adapter_model.safetensors");
    if (choices.once_in(2)) damage(text, choices);
    if (choices.once_in(2)) damage(tensors, choices);
    test::write_file(path / "adapter_config.json", text);
    test::write_file(path / "adapter_model.safetensors", tensors);
  }
  survives([&] {
    const Adapter adapter = Adapter::load(path, base.model->config());
    require(!adapter.matrices().empty(), "an adapter that is loaded changes something");
    Session session(*base.model, {.threads = 1, .adapters = {{adapter, 0.5F}}});
    session.prefill(std::vector<TokenId>{1, 5, 9});
    const std::vector<ScaledAdapter> one{{adapter}};
    survives([&] { (void)Model::from_checkpoint(base.model->checkpoint().merged(one)); });
  });
}

const Target adapter_target("adapter", run_adapter);

}  // namespace
}  // namespace bantam::fuzz
