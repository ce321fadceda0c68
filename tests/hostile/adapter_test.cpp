// Broken adapters: one line that names the file, the place, what was expected and what was found, within a second.
#include "hostile_file.hpp"
#include "tiny_adapter.hpp"

namespace bantam::test {
namespace {

/// A model, and what is said of broken adapters of it.
class Refusals {
 public:
  Refusals() {
    tiny_.make();
    made_.make(1);
    config_ = made_.config();
    tensors_ = made_.folder_tensors();
  }

  [[nodiscard]] const TinyAdapter& made() const { return made_; }
  [[nodiscard]] Json config() const { return config_; }
  [[nodiscard]] std::vector<TinyTensor> tensors() const { return tensors_; }

  std::string load(const std::filesystem::path& path) const {
    const double start = cpu_seconds();
    const std::string line = error_of([&] { (void)Adapter::load(path, tiny_.sizes); });
    CHECK(cpu_seconds() - start < 1);
    CHECK_MESSAGE(line.find('\n') == std::string::npos, line);
    return line;
  }
  std::string of_config(std::string_view text) const {
    made_.write_folder(folder_ / "peft");
    write_file(folder_ / "peft/adapter_config.json", text);
    const std::string line = load(folder_ / "peft");
    CHECK_MESSAGE(line.find("adapter_config.json") != std::string::npos, line);
    return line;
  }
  std::string of_tensors(const std::vector<TinyTensor>& all) const {
    made_.write_folder(folder_ / "peft");
    TinyAdapter::write_tensors(folder_ / "peft", all);
    return load(folder_ / "peft");
  }
  std::string of_bytes(const std::string& name, std::string_view bytes) const {
    write_file(folder_ / name, bytes);
    return load(folder_ / name);
  }
  [[nodiscard]] const TemporaryFolder& folder() const { return folder_; }

 private:
  TinyModel tiny_;
  TinyAdapter made_{.model = tiny_};
  Json config_;
  std::vector<TinyTensor> tensors_;
  TemporaryFolder folder_;
};

TEST_CASE("what adapter_config.json asks for and nobody computes is refused by its key") {
  const Refusals refused;
  const std::pair<const char*, Json> cases[] = {
      {"use_dora", true}, {"use_qalora", true}, {"lora_bias", true}, {"modules_to_save", {"embed_tokens"}}, {"layer_replication", {{0, 1}}}, {"bias", "all"},
      {"target_parameters", {"mlp.experts.gate_up_proj"}}, {"trainable_token_indices", {1}}, {"alora_invocation_tokens", {1, 2}}, {"init_lora_weights", "pissa"},
      {"init_lora_weights", "olora"}, {"init_lora_weights", "loftq"}, {"peft_type", "LOHA"}, {"rank_pattern", {{"layers.*.q_proj", 3}}}, {"alpha_pattern", {{"(a+)+", 3}}}};
  for (const auto& [key, value] : cases) {
    CAPTURE(key);
    Json config = refused.config();
    config[key] = value;
    const std::string line = refused.of_config(config.dump());
    has(line, message(": ", key, ": "));
    has(line, ": expected ");
  }
}

TEST_CASE("numbers of adapter_config.json that are none are refused by their key") {
  const Refusals refused;
  const std::pair<const char*, Json> cases[] = {{"r", 0}, {"r", -1}, {"r", 1.5}, {"r", "8"}, {"r", nullptr}, {"r", std::int64_t{1} << 40}, {"lora_alpha", "16"}, {"lora_alpha", nullptr},
                                                {"rank_pattern", {{"q_proj", "3"}}}, {"alpha_pattern", {{"q_proj", {1}}}}, {"rank_pattern", {1}}};
  for (const auto& [key, value] : cases) {
    CAPTURE(key);
    CAPTURE(value.dump());
    Json config = refused.config();
    config[key] = value;
    has(refused.of_config(config.dump()), message(": ", key, ": "));
  }
  has(refused.of_config("{}"), "expected peft_type");
  has(refused.of_config(R"({"peft_type": "LORA", "r": 8})"), "no lora_alpha");
  has(refused.of_config(R"({"peft_type": "LORA", "lora_alpha": 8})"), "no r");
  (void)refused.of_config("");
  (void)refused.of_config("[1, 2");
  (void)refused.of_config(std::string(200'000, '['));
  Json many = refused.config();
  for (int i = 0; i < 5000; ++i) many["rank_pattern"][message("m", i)] = 3;
  has(refused.of_config(many.dump()), "rank_pattern: expected up to 4096 names");
  Json other = refused.config();
  other["r"] = 8;
  has(refused.of_config(other.dump()), "expected tensors of rank 8, found 3");
}

TEST_CASE("tensors of folders that do not make pairs of this model's are refused by name") {
  const Refusals refused;
  const std::string q = "base_model.model.model.layers.0.self_attn.q_proj";
  const auto changed = [&](FunctionRef<void(std::vector<TinyTensor>&)> change) {
    std::vector<TinyTensor> all = refused.tensors();
    change(all);
    return refused.of_tensors(all);
  };
  const auto tensor = [](std::vector<TinyTensor>& all, const std::string& name) -> TinyTensor& { return *std::ranges::find(all, name, &TinyTensor::name); };
  const auto filled = [](std::int64_t rows, std::int64_t columns, float value = 0) { return std::vector<float>(static_cast<std::size_t>(rows * columns), value); };
  has(changed([&](auto& all) { std::erase_if(all, [&](const TinyTensor& t) { return t.name == q + ".lora_B.weight"; }); }), "expected tensor model.layers.0.self_attn.q_proj.lora_B.weight beside");
  has(changed([&](auto& all) { std::erase_if(all, [&](const TinyTensor& t) { return t.name == q + ".lora_A.weight"; }); }), "expected tensor model.layers.0.self_attn.q_proj.lora_A.weight beside");
  has(changed([&](auto& all) { tensor(all, q + ".lora_A.weight").shape = {3, 35}, tensor(all, q + ".lora_A.weight").values = filled(3, 35); }), "q_proj.lora_A.weight: expected shape (3, 36), found (3, 35)");
  has(changed([&](auto& all) { tensor(all, q + ".lora_B.weight").shape = {61, 3}, tensor(all, q + ".lora_B.weight").values = filled(61, 3); }), "q_proj.lora_B.weight: expected shape (60, 3), found (61, 3)");
  has(changed([&](auto& all) { tensor(all, q + ".lora_B.weight").shape = {60, 2}, tensor(all, q + ".lora_B.weight").values = filled(60, 2); }), "q_proj.lora_B.weight: expected shape (60, 3), found (60, 2)");
  has(changed([&](auto& all) { tensor(all, q + ".lora_A.weight").shape = {0, 36}, tensor(all, q + ".lora_A.weight").values = {}; }), "q_proj.lora_A.weight: expected");
  has(changed([&](auto& all) { tensor(all, q + ".lora_A.weight").shape = {108}; }), "q_proj.lora_A.weight: expected shape (rank, columns), found (108)");
  for (const float wrong : {NAN, INFINITY}) {
    has(changed([&](auto& all) { tensor(all, q + ".lora_A.weight").values = filled(3, 36, wrong); }), "q_proj.lora_A.weight: expected finite numbers");
    has(changed([&](auto& all) { tensor(all, q + ".lora_B.weight").values[7] = wrong; }), "q_proj.lora_B.weight: expected finite numbers");
  }
  for (const char* other : {"base_model.model.model.layers.2.self_attn.q_proj.lora_A.weight", "base_model.model.model.embed_tokens.lora_embedding_A", "base_model.model.model.norm.weight",
                            "base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude_vector", "x"}) {
    has(changed([&](auto& all) { all.push_back({other, "", {3, 36}, filled(3, 36)}); }), message("adapter_model.safetensors: ", other, ": expected changes of matrices that a model of type llama"));
  }
  has(refused.of_tensors({}), "expected pairs of tensors, found none");
}

TEST_CASE("folders without their files, and other files, are refused") {
  const Refusals refused;
  const TemporaryFolder& folder = refused.folder();
  refused.made().write_folder(folder / "peft");
  has(refused.load(folder / "nothing"), "nothing");
  has(refused.load(folder / "peft/adapter_model.safetensors"), "give the folder that holds it");
  has(refused.load(folder / "peft/adapter_config.json"), "expected an adapter");
  std::filesystem::rename(folder / "peft/adapter_model.safetensors", folder / "peft/adapter_model.bin");
  has(refused.load(folder / "peft"), "found adapter_model.bin");
  std::filesystem::remove(folder / "peft/adapter_model.bin");
  has(refused.load(folder / "peft"), "adapter_model.safetensors");
  std::filesystem::remove(folder / "peft/adapter_config.json");
  has(refused.load(folder / "peft"), "adapter_config.json");
}

TEST_CASE("GGUF files that are no adapters of this model are refused by key") {
  const Refusals refused;
  const std::string name(archs::llama.gguf_name());
  const auto keys = [&](const std::string& architecture, const std::string& type, const std::string& kind) {
    return GgufBuilder().key("general.architecture", architecture).key("general.type", type).key("adapter.type", kind);
  };
  has(refused.of_bytes("a.gguf", keys(name, "model", "lora").bytes()), "general.type: expected adapter, found model");
  has(refused.of_bytes("b.gguf", keys(name, "adapter", "control_vector").bytes()), "adapter.type: expected lora, found control_vector");
  has(refused.of_bytes("c.gguf", keys("qwen3", "adapter", "lora").bytes()), "general.architecture: expected llama, found qwen3");
  has(refused.of_bytes("d.gguf", GgufBuilder().key("general.type", "adapter").bytes()), "adapter.type: expected lora, found none");
  has(refused.of_bytes("e.gguf", refused.made().gguf_keys().bytes()), "expected pairs of tensors, found none");
  has(refused.of_bytes("f.gguf", keys(name, "adapter", "lora").key("adapter.lora.alpha", NAN).bytes()), "adapter.lora.alpha: expected a finite number");
  has(refused.of_bytes("g.gguf", keys(name, "adapter", "lora").key("adapter.lora.alpha", "16").bytes()), "adapter.lora.alpha");
  has(refused.of_bytes("h.gguf", refused.made().gguf().key("adapter.alora.invocation_tokens", std::vector<std::uint32_t>{1}).bytes()), "adapter.alora.invocation_tokens: expected");
  const std::string floats(4 * 36 * 3, '\0');
  has(refused.of_bytes("i.gguf", refused.made().gguf().tensor("token_embd.weight.lora_a", {36, 3}, 0, floats).bytes()), "token_embd.weight.lora_a: expected changes of matrices");
  has(refused.of_bytes("j.gguf", refused.made().gguf_keys().tensor("blk.0.attn_q.weight.lora_a", {36, 3}, 0, floats).bytes()), "expected tensor blk.0.attn_q.weight.lora_b beside");
}

TEST_CASE("an adapter whose bytes are cut or changed is read or refused") {
  const Refusals refused;
  const TemporaryFolder& folder = refused.folder();
  refused.made().write_folder(folder / "peft");
  const std::string gguf = refused.made().gguf().bytes(), safetensors = read_file(folder / "peft/adapter_model.safetensors");
  Random random(3);
  const auto load_any = [&](const std::filesystem::path& path) {
    try {
      (void)Adapter::load(path, refused.made().model.sizes);
    } catch (const Error& error) {
      CHECK(std::string_view(error.what()).find('\n') == std::string_view::npos);
    }
  };
  for (int i = 0; i < 200; ++i) {
    for (const bool is_gguf : {false, true}) {
      std::string bytes = is_gguf ? gguf : safetensors;
      if (i % 2 == 0) bytes.resize(static_cast<std::size_t>(random.next() % bytes.size()));
      // Headers are what there is to misread.
      if (i % 2 == 1) bytes[static_cast<std::size_t>(random.next() % std::min<std::size_t>(bytes.size(), 4096))] = static_cast<char>(random.next());
      const std::filesystem::path file = is_gguf ? folder / "x.gguf" : folder / "peft/adapter_model.safetensors";
      write_file(file, bytes);
      load_any(is_gguf ? file : folder / "peft");
    }
  }
}

}  // namespace
}  // namespace bantam::test
