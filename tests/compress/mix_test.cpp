// Mixes of llama.cpp's names. What llama.cpp itself makes of them is compared in tests/peers.
#include "bantam/compress/mix.hpp"

#include "inputs.hpp"
#include "tiny_model.hpp"

namespace bantam::test {
namespace {

ModelConfig config_of(std::int64_t layers, std::int64_t heads, std::int64_t kv_heads, bool tied = false) {
  ModelConfig config;
  config.layers = layers;
  config.heads = heads;
  config.kv_heads = kv_heads;
  config.tied = tied;
  return config;
}

std::string_view format_of(std::string_view mix, Role role, std::int64_t layer, const ModelConfig& config) {
  return format_in(*find_mix(mix), role, layer, config).name;
}

TEST_CASE("names of mixes are llama.cpp's, in any case, and other names are none") {
  CHECK(find_mix("q4_k_m") == find_mix("Q4_K_M"));
  CHECK(find_mix("Q4_k_M")->name == "Q4_K_M");
  for (const Mix& mix : mixes()) {
    CAPTURE(std::string(mix.name));
    CHECK(find_mix(mix.name) == &mix);
    CHECK(find_format(mix.format).name == mix.format);
  }
  for (const char* name : {"", "q4", "q4_k", "q4_k_m ", "i4.g32", "Q4_K_XL"}) CHECK(find_mix(name) == nullptr);
}

TEST_CASE("Q4_K_M gives more bits to v and the down projection of the first and last eighth and of every third layer between") {
  const ModelConfig config = config_of(16, 8, 4);
  for (const Role role : {Role::v, Role::down}) {
    std::string more;
    for (std::int64_t layer = 0; layer < 16; ++layer) more += format_of("Q4_K_M", role, layer, config) == "q6k.g16" ? '6' : '4';
    CHECK(more == "6644644644644666");
  }
  for (const Role role : {Role::q, Role::k, Role::o, Role::gate, Role::up}) CHECK(format_of("Q4_K_M", role, 0, config) == "q4k.g32");
  CHECK(format_of("Q4_K_M", Role::embedding, -1, config) == "q4k.g32");
  CHECK(format_of("Q4_K_M", Role::head, -1, config) == "q6k.g16");
  CHECK(format_of("Q4_K_M", Role::embedding, -1, config_of(16, 8, 4, true)) == "q6k.g16");
  CHECK(format_of("Q8_0", Role::head, -1, config) == "i8.g32");
}

TEST_CASE("mixes of few bits spend more on v, o and the first down projections") {
  const ModelConfig config = config_of(16, 8, 4), shared = config_of(16, 8, 2);
  CHECK(format_of("IQ2_XXS", Role::gate, 3, config) == "iq2_xxs.g32");
  CHECK(format_of("IQ2_XXS", Role::v, 3, config) == "q2k.g16");
  CHECK(format_of("IQ2_XXS", Role::v, 3, shared) == "q4k.g32");
  CHECK(format_of("IQ2_XXS", Role::head, -1, config) == "q5k.g32");
  CHECK(format_of("IQ1_S", Role::o, 3, config) == "iq2_xxs.g32");
  CHECK(format_of("IQ2_M", Role::down, 1, config) == "iq3_s.g32");
  CHECK(format_of("IQ2_M", Role::down, 2, config) == "iq2_s.g16");
  CHECK(format_of("IQ3_XS", Role::up, 1, config) == "iq3_s.g32");
  CHECK(format_of("IQ3_XS", Role::up, 2, config) == "iq3_xxs.g32");
  CHECK(format_of("IQ3_S", Role::head, -1, config) == "q6k.g16");
}

TEST_CASE("a mix is a recipe of every matrix, exceptions come before it, and the record names it") {
  TinyModel tiny{.dim = 256, .layers = 8, .heads = 4, .kv_heads = 4, .head_dim = 64, .ffn = 256};
  tiny.make();
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  const Checkpoint checkpoint = Checkpoint::open(folder / "hf");
  Recipe recipe = recipe::rtn("q4_k_m");
  recipe.keep("*.0.*.v_proj", "f16");
  for (const Target target : {Target::native, Target::gguf}) {
    const Plan planned = plan_file(checkpoint, recipe, target);
    compress_file(checkpoint, folder / "m", recipe, target);
    const Checkpoint made = Checkpoint::open(folder / "m");
    for (const CheckpointTensor& tensor : made.tensors()) {
      if (!tensor.is_matrix) continue;
      CAPTURE(tensor.name);
      const bool kept = tensor.role == Role::v && tensor.layer == 0;
      CHECK(tensor.format().name == (kept ? "f16" : format_of("Q4_K_M", tensor.role, tensor.layer, checkpoint.config())));
      const auto plan = std::ranges::find(planned.matrices, tensor.name, &Plan::Matrix::name);
      CHECK(plan->format == &tensor.format());
    }
    if (target == Target::native) CHECK(Json::parse(made.recipe(), "recipe")["format"].string() == "Q4_K_M");
  }
  const auto [model, report] = compress(Model::load(folder / "hf"), recipe::rtn("Q2_K"));
  CHECK(model.weights().layers[3].mlp.down.format().name == "q3k.g16");
  CHECK(model.weights().layers[3].mlp.gate.format().name == "q2k.g16");
}

TEST_CASE("methods round mixes as they round single formats") {
  TinyModel tiny{.dim = 256, .layers = 8, .heads = 4, .kv_heads = 4, .head_dim = 64, .ffn = 256};
  tiny.make();
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  const Checkpoint checkpoint = Checkpoint::open(folder / "hf");
  compress_file(checkpoint, folder / "m", recipe::gptq("Q3_K_M"), Target::gguf, {}, some_calibration());
  const Model model = Model::load(folder / "m");
  CHECK(model.weights().layers[1].attention.v.format().name == "q5k.g32");
  CHECK(model.weights().layers[2].attention.v.format().name == "q4k.g32");
  CHECK(model.weights().layers[2].attention.q.format().name == "q3k.g16");
}

TEST_CASE("a group or another container's folder refuses a mix") {
  CHECK(error_of([] { (void)recipe::with(Method::rtn, "q4_k_m", {.group = 64}); }).find("q4_k_m with group 64") != std::string::npos);
  CHECK(error_of([] { check_formats(recipe::rtn("q4_k_m"), Target::gptq); }).find("found q4k") != std::string::npos);
  CHECK(error_of([] { (void)recipe::rtn("q4_km"); }).find("did you mean Q4_K_M, ") != std::string::npos);
}

TEST_CASE("the name of an output says what kind it is") {
  const TemporaryFolder folder;
  const Recipe plain = recipe::rtn("i4");
  CHECK(target_for("m.gguf", plain) == Target::gguf);
  CHECK(target_for("m.bantam", plain) == Target::native);
  CHECK(target_for("m", plain) == Target::native);
  CHECK(target_for("m.v2", plain) == Target::native);
  CHECK(target_for("m/", plain) == Target::gptq);
  CHECK(target_for(folder.path(), plain) == Target::gptq);
  write_file(folder / "notes.txt", "");
  CHECK(target_for(folder.path(), plain) == Target::native);
  write_file(folder / "config.json", "{}");
  CHECK(target_for(folder.path(), plain) == Target::gptq);
  CHECK(target_for("m/", recipe::awq("i4z")) == Target::awq);
  CHECK(target_for("m/", recipe::rtn("nf4")) == Target::bnb);
  CHECK(target_for("m/", recipe::rtn("bf16")) == Target::safetensors);
  CHECK(error_of([] { (void)target_for("m/", recipe::rtn("q4_k_m")); }).find("found q4k") != std::string::npos);
  CHECK(error_of([&] { (void)target_for("m.safetensors", plain); }).find("m.safetensors: expected a name") == 0);
}

}  // namespace
}  // namespace bantam::test
