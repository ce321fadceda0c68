// DeciLM's configs: layers with sizes of their own, which may lack attention, the MLP or both.
#include "bantam/compress/compress.hpp"
#include "bantam/io/gguf.hpp"
#include "tiny_model.hpp"

namespace bantam::test {
namespace {

/// What Nemotron Super 49B's folder says, with fewer layers.
constexpr const char* published = R"({"architectures":["DeciLMForCausalLM"],"model_type":"nemotron-nas","attention_bias":false,"attention_dropout":0.0,
  "block_configs":[
    {"attention":{"n_heads_in_group":8,"no_op":false,"num_sink_tokens":null,"replace_with_linear":false,"sparsify":null,"unshifted_sink":false,
      "use_prefill_window_in_sink_attention":false,"window_length":null},"ffn":{"ffn_mult":5.25,"no_op":false,"replace_with_linear":false,"sparsify":null}},
    {"attention":{"n_heads_in_group":null,"no_op":true,"replace_with_linear":false},"ffn":{"ffn_mult":2.625,"no_op":false,"replace_with_linear":false}},
    {"attention":{"n_heads_in_group":16,"no_op":false,"replace_with_linear":false},"ffn":{"ffn_mult":0.5,"no_op":false,"replace_with_linear":false}},
    {"attention":{"n_heads_in_group":null,"no_op":true,"replace_with_linear":false},"ffn":{"ffn_mult":null,"no_op":true,"replace_with_linear":false}},
    {"attention":{"n_heads_in_group":8,"no_op":false,"replace_with_linear":false},"ffn":{"ffn_mult":null,"no_op":true,"replace_with_linear":false}}],
  "bos_token_id":128000,"eos_token_id":[128001,128008,128009],"hidden_act":"silu","hidden_size":8192,"initializer_range":0.02,"intermediate_size":null,
  "max_position_embeddings":131072,"mlp_bias":false,"num_attention_heads":64,"num_hidden_layers":5,"num_key_value_heads":null,"pretraining_tp":1,
  "rms_norm_eps":1e-05,"rope_scaling":{"factor":8.0,"high_freq_factor":4.0,"low_freq_factor":1.0,"original_max_position_embeddings":8192,"rope_type":"llama3"},
  "rope_theta":500000.0,"tie_word_embeddings":false,"torch_dtype":"bfloat16","use_cache":true,"vocab_size":128256})";

TEST_CASE("block_configs say what each layer has, and are written as they are read") {
  const ModelConfig config = parse_hf_config(published, "config.json");
  CHECK(config.arch == &archs::deci);
  const auto check = [](const ModelConfig& c) {
    REQUIRE(c.layers == 5);
    const std::int64_t kv_heads[] = {8, 0, 4, 0, 8}, widths[] = {28672, 14336, 2816, 0, 0};
    for (std::int64_t i = 0; i < 5; ++i) {
      CAPTURE(i);
      CHECK(attends(c.layer(i).mixer) == (kv_heads[i] > 0));
      if (kv_heads[i] > 0) CHECK(c.kv_heads_of(i) == kv_heads[i]);
      if (kv_heads[i] > 0) CHECK(c.heads_of(i) == 64);
      CHECK(c.ffn_of(i) == widths[i]);
      CHECK(c.layer(i).has_feed_forward() == (widths[i] > 0));
    }
    CHECK(c.head_dim == 128);
    CHECK(c.rope.scaling == nn::RopeScaling::llama3);
  };
  check(config);
  const std::string written = write_hf_config(config, "bfloat16");
  check(parse_hf_config(written, "config.json"));
  const Json said = Json::parse(published, "published"), again = Json::parse(written, "written");
  for (const char* key : {"num_attention_heads", "num_key_value_heads", "intermediate_size", "num_hidden_layers", "hidden_size", "model_type", "architectures"}) {
    CAPTURE(std::string(key));
    CHECK(again[key] == said[key]);
  }
  for (std::size_t i = 0; i < 5; ++i) {
    CAPTURE(i);
    const Json &own = again["block_configs"][i], &of = said["block_configs"][i];
    CHECK(own["attention"]["n_heads_in_group"] == of["attention"]["n_heads_in_group"]);
    for (const char* half : {"attention", "ffn"}) CHECK(own[half]["no_op"] == of[half]["no_op"]);
  }
  CHECK(again["block_configs"][0]["ffn"]["ffn_mult"] == 5.25);
}

TEST_CASE("DeciLM 7B's key-value heads differ from layer to layer") {
  const ModelConfig c = parse_hf_config(R"({"architectures":["DeciLMForCausalLM"],"model_type":"deci","hidden_size":256,"intermediate_size":768,"num_hidden_layers":3,
    "num_attention_heads":8,"num_key_value_heads_per_layer":[4,2,1],"rms_norm_eps":1e-5,"vocab_size":1000})", "config.json");
  for (std::int64_t i = 0; i < 3; ++i) CHECK(c.kv_heads_of(i) == 4 >> i);
  for (std::int64_t i = 0; i < 3; ++i) CHECK(c.ffn_of(i) == 768);
}

TEST_CASE("what block_configs cannot mean is refused in one line") {
  const auto with = [](std::size_t layer, const char* half, const char* key, const Json& value) {
    Json json = Json::parse(published, "published");
    json["block_configs"][layer][half][key] = value;
    return error_of([&] { (void)parse_hf_config(json.dump(), "config.json"); });
  };
  has(with(2, "attention", "replace_with_linear", true), "config.json: block_configs[2]: attention: replace_with_linear: expected false, found true");
  has(with(1, "ffn", "replace_with_linear", true), "config.json: block_configs[1]: ffn: replace_with_linear: expected false, found true");
  has(with(0, "attention", "window_length", 4096), "config.json: block_configs[0]: attention: window_length: expected null, found 4096");
  has(with(0, "attention", "n_heads_in_group", 7), "config.json: block_configs[0]: attention: n_heads_in_group: expected a divisor of the 64 heads, found 7");
  has(with(0, "attention", "n_heads_in_group", "all"), "config.json: block_configs[0]: attention: n_heads_in_group: expected a number, found");
  has(with(0, "ffn", "ffn_mult", -1), "config.json: block_configs[0]: ffn: ffn_mult: expected a number of at least 0, found -1");
  has(with(0, "ffn", "ffn_mult", 1e300), "config.json: intermediate_size: expected a whole number");
  Json json = Json::parse(published, "published");
  json["num_hidden_layers"] = 4;
  has(error_of([&] { (void)parse_hf_config(json.dump(), "config.json"); }), "expected one number or 4, found 5");
  json["block_configs"] = 3;
  has(error_of([&] { (void)parse_hf_config(json.dump(), "config.json"); }), "config.json: block_configs: expected a list, found number");
  json["block_configs"] = Json::array({3});
  has(error_of([&] { (void)parse_hf_config(json.dump(), "config.json"); }), "config.json: block_configs[0]: expected a JSON object, found number");
}

TEST_CASE("a matrix in the place of attention is refused in GGUF files") {
  TinyModel tiny{.arch = &archs::deci};
  tiny.make();
  const TemporaryFolder folder;
  tiny.write_gguf(folder / "m.gguf");
  std::string bytes = read_text_file(folder / "m.gguf");
  // Behind the name are two types and a count; then the list.
  const std::string name = "deci.attention.head_count_kv";
  bytes[bytes.find(name) + name.size() + 16] = 0;
  write_file(folder / "m.gguf", bytes);
  has(error_of([&] { (void)Checkpoint::open(folder / "m.gguf"); }), "deci.attention.head_count_kv[0]: expected attention, found a matrix in its place");
}

}  // namespace
}  // namespace bantam::test
