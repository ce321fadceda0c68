// The text of models that see, hear or speak: it is the model that it would be by itself.
#include "bantam/model/seeing.hpp"
#include "model/family_parts.hpp"

namespace bantam::test {
namespace {

const std::vector<std::string> tower = {"model.vision_embed_tokens.img_projection.0.weight", "visual.blocks.0.attn.qkv.weight"};

/// A folder of a model that sees, with this text's tensors under `beginning`, and a tower beside them.
void write_seeing(const TinyModel& text, const std::string& beginning, const std::filesystem::path& folder, Json config) {
  TinyModel whole = text;
  whole.tensors.clear();
  for (TinyTensor t : text.folder_tensors()) {
    t.gguf_name.clear();
    t.fused_name.clear();
    t.less = 0;
    if (t.name.starts_with("model.")) t.name.replace(0, std::string("model.").size(), beginning);
    whole.tensors.push_back(std::move(t));
  }
  for (const std::string& name : tower) whole.tensors.push_back({name, "", {2, 3}, {1, 2, 3, 4, 5, 6}});
  whole.config = std::move(config);
  whole.write_folder(folder);
}

TEST_CASE("the text of models that see is read under every name that they have for it, the tower left out") {
  for (const auto& [type, gguf, arch] : seeing_models) {
    CAPTURE(std::string(type));
    TinyModel tiny{.arch = arch, .sees = true};
    tiny.make();
    const auto tokens = some_tokens(20);
    const std::vector<float> logits = folder_logits(tiny, tokens);
    CHECK(distance(logits, tiny.reference().logits(tokens)) < family_tolerance);
    Json text = tiny.config;
    text["architectures"] = nullptr;
    text["model_type"] = std::string(type) + "_text";
    if (!text.contains("rope_scaling") && !text.contains("rope_parameters")) text["rope_scaling"] = {{"type", "mrope"}, {"mrope_section", {2, 1, 1}}};
    const Json nested{{"architectures", {"SeeingForConditionalGeneration"}}, {"model_type", std::string(type)}, {"text_config", text}};
    const Json spoken{{"architectures", {"SeeingForConditionalGeneration"}}, {"model_type", std::string(type)}, {"thinker_config", {{"text_config", text}}}};
    const Json called{{"architectures", {"InternVLChatModel"}}, {"model_type", "internvl_chat"}, {"llm_config", tiny.config}};
    const Json language{{"architectures", {"MultiModalityCausalLM"}}, {"model_type", "multi_modality"}, {"language_config", tiny.config}};
    Json flat = text;
    flat["architectures"] = {"SeeingForConditionalGeneration"};
    flat["model_type"] = std::string(type);
    for (const auto& [beginning, config] : {std::pair<std::string, Json>{"model.language_model.", nested}, {"language_model.model.", nested}, {"model.text_model.", nested},
                                            {"thinker.model.", spoken}, {"llm.model.", called}, {"language.model.", language}, {"model.", flat}}) {
      CAPTURE(beginning);
      const TemporaryFolder folder;
      write_seeing(tiny, beginning, folder / "hf", config);
      CHECK(Checkpoint::open(folder / "hf").left_out() == tower);
      CHECK(logits_of(Model::load(folder / "hf"), tokens) == logits);
    }
  }
}

TEST_CASE("GGUF files of the text of models that see are those of the text") {
  for (const auto& [type, gguf, arch] : seeing_models) {
    CAPTURE(std::string(type));
    TinyModel tiny{.arch = arch};
    tiny.make();
    const auto tokens = some_tokens(20);
    const std::vector<float> logits = folder_logits(tiny, tokens);
    tiny.sees = true;
    const TemporaryFolder folder;
    tiny.write_gguf(folder / "m.gguf");
    CHECK(logits_of(Model::load(folder / "m.gguf"), tokens) == logits);
  }
}

TEST_CASE("a GGUF file whose rows are ordered for the axes of an image is not read as one of text") {
  TinyModel tiny{.arch = &archs::glm4};
  tiny.make();
  GgufBuilder file = tiny.gguf();
  file.key("glm4.rope.dimension_sections", std::vector<std::int32_t>{2, 1, 1, 0});
  const TemporaryFolder folder;
  write_file(folder / "m.gguf", file.bytes());
  has(error_of([&] { (void)Checkpoint::open(folder / "m.gguf"); }), "glm4.rope.dimension_sections: expected none of a model of type glm4");
}

TEST_CASE("classes that nobody knows are refused by name, whatever is beside them") {
  const std::string line = error_of([] { (void)parse_hf_config(R"({"architectures":["SeeingForConditionalGeneration"],"model_type":"seeing"})", "config.json"); });
  has(line, "architectures: expected one that `bantam formats` lists, found SeeingForConditionalGeneration");
}

TEST_CASE("what the config of a text leaves out is what transformers' class has, within a larger config alone") {
  const auto config_of = [](const Json& text) { return parse_hf_config(Json{{"architectures", {"SeeingForConditionalGeneration"}}, {"text_config", text}}.dump(), "config.json"); };
  for (const auto& [arch, field, value] : text_defaults) {
    CAPTURE(std::string(arch->name));
    CAPTURE(std::string(arch->find(field)->hf));
    const std::string name(arch->name);
    const ModelConfig c = config_of({{"model_type", name}});
    CHECK(c.arch == arch);
    CHECK(std::get<std::int64_t>(value_of(c, field).value()) == static_cast<std::int64_t>(value));
    CHECK(c.layer(0).kv_heads == static_cast<std::int64_t>(text_default(*arch, Field::kv_heads).value_or(*text_default(*arch, Field::heads))));
    const std::string flat = Json{{"model_type", name}, {"architectures", {std::string(arch->hf_class)}}}.dump();
    has(error_of([&] { (void)parse_hf_config(flat, "config.json"); }), "hidden_size: expected a number, found nothing");
  }
  // What is said holds: Pixtral, LLaVA 1.6.
  const ModelConfig c = config_of({{"model_type", "mistral"}, {"hidden_size", 5120}, {"head_dim", 128}, {"sliding_window", nullptr}});
  CHECK(c.dim == 5120);
  CHECK(c.heads == 32);
  CHECK(c.window == 0);
}

TEST_CASE("the text of a larger model is what its type says, whatever class it was trained as") {
  const Json text{{"architectures", {"VLlama3ForCausalLM"}}, {"model_type", "llama"}, {"hidden_size", 2048}};
  const ModelConfig c = parse_hf_config(Json{{"architectures", {"SmolVLMForConditionalGeneration"}}, {"text_config", text}}.dump(), "config.json");
  CHECK(c.arch == &archs::llama);
  CHECK(c.heads == 32);
  has(error_of([&] { (void)parse_hf_config(text.dump(), "config.json"); }), "architectures: expected one that `bantam formats` lists, found VLlama3ForCausalLM");
  has(error_of([] { (void)parse_hf_config(R"({"architectures":["S"],"llm_config":{"architectures":["T"],"model_type":"u"}})", "config.json"); }),
      "config.json: llm_config: model_type: expected one that `bantam formats` lists, found u");
}

TEST_CASE("sizes that Gemma 4 12B's configs leave out are those of its class") {
  const ModelConfig c = parse_hf_config(R"({"architectures":["Gemma4UnifiedForConditionalGeneration"],"text_config":{"model_type":"gemma4_unified_text"}})", "config.json");
  CHECK(c.arch == &archs::gemma4_12b);
  CHECK(c.per_layer_dim == 0);
  CHECK(c.context == 262144);
  CHECK(c.window_of(0) == 1024);
  CHECK(c.window_of(5) == 0);
  CHECK(c.head_dim_of(5) == 512);
}

}  // namespace
}  // namespace bantam::test
