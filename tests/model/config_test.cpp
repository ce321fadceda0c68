// config.json: what it says, what it may not say, and what is written of it.
#include <nlohmann/json.hpp>

#include "tiny_model.hpp"

namespace bantam::test {
namespace {

using Library = nlohmann::ordered_json;

Library config_of(TinyModel tiny) { return Library::parse(tiny.make().config.dump()); }

/// The valid config with some members replaced.
std::string with(const char* members) {
  Library json = config_of({});
  json.update(Library::parse(members));
  return json.dump();
}

ModelConfig parse(const std::string& text) { return parse_hf_config(text, "m/config.json"); }

TEST_CASE("a config that breaks its rules is refused in one line that names file, key, expected and found") {
  struct Case {
    const char* members;
    const char* key;
    const char* rest;
  };
  for (const Case& c : {
           Case{R"({"architectures":["PegasusForConditionalGeneration"]})", "architectures", "found PegasusForConditionalGeneration"},
           Case{R"({"architectures":null,"model_type":"pegasus"})", "model_type", "found pegasus"},
           Case{R"({"architectures":[],"model_type":7})", "model_type", "expected text, found 7"},
           Case{R"({"hidden_size":null})", "hidden_size", "found nothing"},
           Case{R"({"hidden_size":"36"})", "hidden_size", "expected a number, found \"36\""},
           Case{R"({"hidden_size":[36]})", "hidden_size", "expected a number, found [36]"},
           Case{R"({"hidden_size":0})", "hidden_size", "found 0"},
           Case{R"({"hidden_size":-36})", "hidden_size", "found -36"},
           Case{R"({"hidden_size":36.5})", "hidden_size", "found 36.5"},
           Case{R"({"hidden_size":1000000000000})", "hidden_size", "found 1e+12"},
           Case{R"({"hidden_size":18446744073709551615})", "hidden_size", "expected a whole number from 1 to"},
           Case{R"({"hidden_size":37,"head_dim":null})", "hidden_size", "expected a multiple of the 6 heads, found 37"},
           Case{R"({"num_hidden_layers":0})", "num_hidden_layers", "found 0"},
           Case{R"({"num_hidden_layers":1000000000})", "num_hidden_layers", "expected at most 100000, found 1000000000"},
           Case{R"({"num_attention_heads":0})", "num_attention_heads", "found 0"},
           Case{R"({"num_attention_heads":1073741824,"head_dim":4096,"num_key_value_heads":1})", "num_attention_heads", "rows of q"},
           Case{R"({"num_key_value_heads":0})", "num_key_value_heads", "found 0"},
           Case{R"({"num_key_value_heads":4})", "num_key_value_heads", "expected a divisor of the 6 heads, found 4"},
           Case{R"({"num_key_value_heads":12})", "num_key_value_heads", "found 12"},
           Case{R"({"head_dim":0})", "head_dim", "found 0"},
           Case{R"({"head_dim":9})", "head_dim", "even size up to 4096, found 9"},
           Case{R"({"head_dim":8192})", "head_dim", "found 8192"},
           Case{R"({"intermediate_size":true})", "intermediate_size", "expected a number, found true"},
           Case{R"({"intermediate_size":[]})", "intermediate_size", "expected numbers, found none"},
           Case{R"({"intermediate_size":[50]})", "intermediate_size", "expected one number or 2, found 1"},
           Case{R"({"intermediate_size":[50,"50"]})", "intermediate_size", "expected numbers, found \"50\""},
           Case{R"({"intermediate_size":[50,0]})", "intermediate_size", "found 0"},
           Case{R"({"num_key_value_heads":[2,4]})", "num_key_value_heads", "expected a divisor of the 6 heads, found 4"},
           Case{R"({"num_key_value_heads":[2,3]})", "num_key_value_heads[1]", "expected 3 heads for each, as in layer 0, found 2"},
           Case{R"({"vocab_size":1099511627776})", "vocab_size", "found 1099511627776"},
           Case{R"({"vocab_size":null})", "vocab_size", "found nothing"},
           Case{R"({"max_position_embeddings":9223372036854775808})", "max_position_embeddings", "found 9223372036854775808"},
           Case{R"({"rms_norm_eps":0})", "rms_norm_eps", "above 0, found 0"},
           Case{R"({"rms_norm_eps":-1e-5})", "rms_norm_eps", "found -1e-05"},
           Case{R"({"rope_theta":0})", "rope_theta", "found 0"},
           Case{R"({"rope_theta":{}})", "rope_theta", "expected a number, found {}"},
           Case{R"({"hidden_act":"tanh"})", "hidden_act", "found tanh"},
           Case{R"({"hidden_act":1})", "hidden_act", "expected text, found 1"},
           Case{R"({"tie_word_embeddings":"yes"})", "tie_word_embeddings", "found \"yes\""},
           Case{R"({"sliding_window":0})", "sliding_window", "found 0"},
           Case{R"({"sliding_window":-4})", "sliding_window", "found -4"},
           Case{R"({"sliding_window":4,"use_sliding_window":1})", "use_sliding_window", "true or false, found 1"},
           Case{R"({"sliding_window":4,"use_sliding_window":true,"max_window_layers":-1})", "max_window_layers", "found -1"},
           Case{R"({"layer_types":"full_attention"})", "layer_types", "expected a list of 2 kinds, found string"},
           Case{R"({"layer_types":["full_attention"]})", "layer_types", "expected a list of 2 kinds, found 1"},
           Case{R"({"layer_types":["full_attention","mamba"]})", "layer_types[1]", "found \"mamba\""},
           Case{R"({"layer_types":["full_attention","sliding_attention"]})", "sliding_window", "found none"},
           Case{R"({"partial_rotary_factor":0})", "partial_rotary_factor", "found 0"},
           Case{R"({"partial_rotary_factor":1.5})", "partial_rotary_factor", "found 1.5"},
           Case{R"({"partial_rotary_factor":0.5})", "partial_rotary_factor", "found 0.5"},
           Case{R"({"rope_scaling":"linear"})", "rope_scaling", "expected a JSON object, found string"},
           Case{R"({"rope_scaling":{"type":"linear"}})", "rope_scaling: factor", "found nothing"},
           Case{R"({"rope_scaling":{"type":"linear","factor":0.5}})", "rope_scaling: factor", "at least 1, found 0.5"},
           Case{R"({"rope_scaling":{"type":"linear","factor":"2"}})", "rope_scaling: factor", "found \"2\""},
           Case{R"({"rope_scaling":{"type":"longrope","factor":2}})", "rope_scaling", "expected \"short_factor\", found none"},
           Case{R"({"rope_scaling":{"type":"longrope","short_factor":[1,1,1,1,1],"long_factor":[1,1,1,1,0]}})", "rope", "above 0, found 0"},
           Case{R"({"rope_scaling":{"type":"odd","factor":2}})", "rope_scaling", "linear, dynamic, llama3, yarn or longrope, found odd"},
           Case{R"({"rope_scaling":{"type":"linear","rope_type":"yarn","factor":2}})", "rope_scaling", "found linear and yarn"},
           Case{R"({"rope_scaling":{"rope_type":"llama3","factor":8}})", "rope_scaling: low_freq_factor", "found nothing"},
           Case{R"({"rope_scaling":{"rope_type":"llama3","factor":8,"low_freq_factor":4,"high_freq_factor":1,"original_max_position_embeddings":64}})",
                "rope_scaling", "found 4 and 1"},
           Case{R"({"rope_scaling":{"rope_type":"llama3","factor":8,"low_freq_factor":1,"high_freq_factor":4}})",
                "rope_scaling: original_max_position_embeddings", "found nothing"},
           Case{R"({"rope_scaling":{"rope_type":"yarn","factor":8,"original_max_position_embeddings":0}})",
                "rope_scaling: original_max_position_embeddings", "found 0"},
           Case{R"({"rope_scaling":{"rope_type":"yarn","factor":8,"beta_fast":0}})", "rope", "betas above 0"},
           Case{R"({"rope_scaling":{"rope_type":"yarn","factor":8},"rope_theta":0.5})", "rope", "a base above 1"},
           Case{R"({"rope_scaling":{"rope_type":"yarn","factor":8,"attention_factor":-1}})", "rope", "attention factor"},
           Case{R"({"rope_parameters":{"rope_type":"linear","rope_theta":100}})", "rope_parameters: factor", "found nothing"},
           Case{R"({"rope_divisors":[1,2]})", "rope_divisors", "expected 5 numbers, found 2"},
           Case{R"({"rope_divisors":"x"})", "rope_divisors", "expected numbers, found string"},
           Case{R"({"rope_divisors":[1,1,1,0,1]})", "rope_divisors", "above 0, found 0"},
       }) {
    CAPTURE(std::string(c.members));
    const std::string text = error_of([&] { (void)parse(with(c.members)); });
    CHECK_MESSAGE(text.starts_with("m/config.json: "), text);
    CHECK_MESSAGE(text.find(c.key) != std::string::npos, text);
    CHECK_MESSAGE(text.find(c.rest) != std::string::npos, text);
  }
}

TEST_CASE("a class that is not there is refused by one short line that says where those stand that are") {
  CHECK(error_of([] { (void)parse(with(R"({"architectures":["PegasusForConditionalGeneration"]})")); }) ==
        "m/config.json: architectures: expected one that `bantam formats` lists, found PegasusForConditionalGeneration");
  has(error_of([] { (void)parse(with(R"({"architectures":["LlamaForCasualLM"]})")); }), "found LlamaForCasualLM; did you mean LlamaForCausalLM");
  has(error_of([] { (void)parse(with(R"({"architectures":null,"model_type":"qwen3moe"})")); }), "model_type: expected one that `bantam formats` lists, found qwen3moe; did you mean qwen3_moe");
}

TEST_CASE("text that is no config is refused") {
  for (const std::string text : {"", "{", "[]", "null", "7", "{\"hidden_size\": NaN}", "{\"hidden_size\": 1e400}", "\xff\xfe", "{\"a\":\"\xff\"}"}) {
    CAPTURE(printable(text));
    CHECK(error_of([&] { (void)parse(text); }).starts_with("m/config.json: "));
  }
  // Every beginning of a valid one.
  const std::string whole = config_of({}).dump();
  for (std::size_t n = 0; n < whole.size(); ++n) (void)error_of([&] { (void)parse(whole.substr(0, n)); });
}

TEST_CASE("nesting of any depth is refused before anything recurses") {
  for (const char* key : {"hidden_size", "model_type", "layer_types", "rope_scaling"}) {
    const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
    CHECK(error_of([&] { (void)parse("{\"architectures\":[],\"" + std::string(key) + "\":" + deep + "}"); }).find("nests deeper") != std::string::npos);
  }
}

TEST_CASE("a missing or endless config.json is refused") {
  const TemporaryFolder folder;
  CHECK(error_of([&] { (void)read_hf_config(folder / "config.json"); }).find("config.json") != std::string::npos);
  write_file(folder / "config.json", std::string(std::size_t{5} << 20, ' '));
  CHECK(error_of([&] { (void)read_hf_config(folder / "config.json"); }).find("expected at most 4194304 bytes") != std::string::npos);
}

TEST_CASE("code that a config names is ignored") {
  CHECK(parse(with(R"({"auto_map":{"AutoModel":"evil.Model"},"trust_remote_code":true})")).dim == 36);
}

TEST_CASE("each kind of rope scaling lands in the options") {
  const auto linear = parse(with(R"({"rope_scaling":{"type":"linear","factor":2.5}})")).rope;
  CHECK(linear.scaling == nn::RopeScaling::linear);
  CHECK(linear.factor == 2.5);
  CHECK(linear.base == 5000);
  CHECK(linear.dim == 10);

  const auto dynamic = parse(with(R"({"rope_scaling":{"type":"dynamic","factor":2}})")).rope;
  CHECK(dynamic.scaling == nn::RopeScaling::dynamic);
  CHECK(dynamic.original_context == 64);

  const auto llama3 = parse(with(R"({"rope_scaling":{"rope_type":"llama3","factor":8,"low_freq_factor":1.5,"high_freq_factor":5,"original_max_position_embeddings":32}})")).rope;
  CHECK(llama3.scaling == nn::RopeScaling::llama3);
  CHECK(llama3.factor == 8);
  CHECK(llama3.low_freq_factor == 1.5);
  CHECK(llama3.high_freq_factor == 5);
  CHECK(llama3.original_context == 32);

  const auto yarn = parse(with(R"({"rope_scaling":{"rope_type":"yarn","factor":4,"beta_fast":16,"beta_slow":2,"truncate":false,"attention_factor":1.25,"original_max_position_embeddings":16}})")).rope;
  CHECK(yarn.scaling == nn::RopeScaling::yarn);
  CHECK(yarn.beta_fast == 16);
  CHECK(yarn.beta_slow == 2);
  CHECK_FALSE(yarn.truncate);
  CHECK(yarn.attention_factor == 1.25);
  CHECK(yarn.original_context == 16);

  const auto none = parse(with(R"({"rope_scaling":{"rope_type":"default"}})")).rope;
  CHECK(none.scaling == nn::RopeScaling::none);
  // DeepSeek's pair of scales: (0.1 ln 4 + 1) / (0.05 ln 4 + 1).
  const auto scales = parse(with(R"({"rope_scaling":{"rope_type":"yarn","factor":4,"mscale":1.0,"mscale_all_dim":0.5}})")).rope;
  CHECK(scales.attention_factor == doctest::Approx((0.1 * std::log(4.0) + 1) / (0.05 * std::log(4.0) + 1)));
}

TEST_CASE("rope_parameters of newer configs carries base and scaling") {
  const auto rope = parse(with(R"({"rope_theta":null,"rope_parameters":{"rope_type":"linear","factor":3,"rope_theta":123456}})")).rope;
  CHECK(rope.base == 123456);
  CHECK(rope.scaling == nn::RopeScaling::linear);
  CHECK(rope.factor == 3);
  CHECK(parse(with(R"({"rope_parameters":{"rope_type":"default","rope_theta":77}})")).rope.base == 77);
}

TEST_CASE("sizes that configs may leave out follow from others") {
  Library json = config_of({});
  json.erase("num_key_value_heads");
  json.erase("head_dim");
  json.erase("max_position_embeddings");
  json.erase("rms_norm_eps");
  const ModelConfig c = parse(json.dump());
  CHECK(c.kv_heads == 6);
  CHECK(c.head_dim == 6);
  CHECK(c.context == 2048);
  CHECK(c.norm_eps == 1e-6);
  CHECK_FALSE(c.tied);
}

TEST_CASE("what is written of a config reads the same") {
  for (const ArchSpec* arch : architectures_by_parts()) {
    for (const char* members :
         {"{}", R"({"tie_word_embeddings":true,"hidden_act":"gelu"})", R"({"hidden_act":"gelu_pytorch_tanh","head_dim":null})",
          R"({"sliding_window":7,"use_sliding_window":true,"max_window_layers":1})", R"({"sliding_window":7})",
          R"({"partial_rotary_factor":0.6})", R"({"rope_divisors":[1,1.5,2,3,4]})",
          R"({"rope_scaling":{"type":"linear","factor":2.5}})", R"({"rope_scaling":{"type":"dynamic","factor":2}})",
          R"({"rope_scaling":{"rope_type":"llama3","factor":8,"low_freq_factor":1.5,"high_freq_factor":5,"original_max_position_embeddings":32}})",
          R"({"rope_scaling":{"rope_type":"yarn","factor":4,"beta_fast":16,"beta_slow":2,"truncate":false,"attention_factor":1.25}})",
          R"({"rope_scaling":{"rope_type":"yarn","factor":4,"mscale":1.0,"mscale_all_dim":0.5}})"}) {
      CAPTURE(std::string(arch->name));
      CAPTURE(std::string(members));
      const bool other_heads = arch->latent || arch->proportional_rope || arch->find(Field::head_dim) == nullptr || !arch->causal;
      if (other_heads && std::string_view(members).find("rope_divisors") != std::string_view::npos) continue;  // of as many as llama's heads have
      // Mamba-2 does not attend, and has the width of its own heads by that name, as Ling 3 has that of delta nets.
      if ((!arch->feeds || arch == &archs::bailing_moe_v3) && (std::string_view(members).find("head_dim") != std::string_view::npos || std::string_view(members).find("rope_divisors") != std::string_view::npos)) continue;
      // Ropes by kind of layer turn parts of the heads that were left out, and residual streams' width is no multiple of the heads.
      if ((arch->step_words || arch->find(Field::streams) != nullptr) && std::string_view(members).find("head_dim") != std::string_view::npos) continue;
      Library json = config_of({.arch = arch});
      json.update(Library::parse(members));
      if (json.contains("rope_divisors")) {
        json["partial_rotary_factor"] = 1.0, json["rotary_dim"] = 10;
        if (json.contains("rope_parameters")) json["rope_parameters"]["full_attention"]["partial_rotary_factor"] = 1.0;
      }
      const ModelConfig a = parse(json.dump());
      const std::string written = write_hf_config(a, "float16");
      const ModelConfig b = parse(written);
      CHECK(Library::parse(written)["torch_dtype"] == "float16");
      CHECK(write_hf_config(b, "float16") == written);
      CHECK(b.arch == arch);
      CHECK(b.dim == a.dim);
      CHECK(b.layers == a.layers);
      CHECK(b.heads == a.heads);
      CHECK(b.kv_heads == a.kv_heads);
      CHECK(b.head_dim == a.head_dim);
      CHECK(b.ffn == a.ffn);
      CHECK(b.vocab == a.vocab);
      CHECK(b.context == a.context);
      CHECK(b.norm_eps == a.norm_eps);
      CHECK(b.gate == a.gate);
      CHECK(b.tied == a.tied);
      CHECK(b.specs == a.specs);
      CHECK(b.rope.dim == a.rope.dim);
      CHECK(b.rope.base == a.rope.base);
      CHECK(b.rope.scaling == a.rope.scaling);
      CHECK(b.rope.factor == a.rope.factor);
      CHECK(b.rope.original_context == a.rope.original_context);
      CHECK(b.rope.low_freq_factor == a.rope.low_freq_factor);
      CHECK(b.rope.high_freq_factor == a.rope.high_freq_factor);
      CHECK(b.rope.beta_fast == a.rope.beta_fast);
      CHECK(b.rope.beta_slow == a.rope.beta_slow);
      CHECK(b.rope.truncate == a.rope.truncate);
      CHECK(b.rope.attention_factor == a.rope.attention_factor);
      CHECK(b.rope.divisors == a.rope.divisors);
    }
  }
}

}  // namespace
}  // namespace bantam::test
