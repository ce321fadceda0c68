// Qwen4's preview: configs as they are published, n-grams by hash, hyper-connections.
#include "bantam/nn/ngram.hpp"
#include "bantam/nn/token_history.hpp"
#include "model/family_parts.hpp"

namespace bantam::test {
namespace {

/// What Qwen3.8-Flash-Next's config.json says, shortened.
Json published() {
  Json text{{"model_type", "qwen4_exp_text"}, {"attention_bias", false}, {"eos_token_id", 248044}, {"full_attention_interval", 4}, {"hc_count", 4}, {"hc_lowrank", 320},
            {"head_dim", 256}, {"heads_per_ngram", 8}, {"hidden_act", "silu"}, {"hidden_size", 2560}, {"indexer_budget", 2048}, {"indexer_compress_ratio", 4}, {"indexer_head_dim", 128},
            {"indexer_kv_heads", 1}, {"indexer_n_heads", 4}, {"linear_conv_kernel_dim", 4}, {"linear_key_head_dim", 128}, {"linear_num_key_heads", 16}, {"linear_num_value_heads", 48},
            {"linear_value_head_dim", 128}, {"make_ngram_vocab_size_divisible_by", 128}, {"max_position_embeddings", 262144}, {"moe_intermediate_size", 640}, {"mtp_num_hidden_layers", 1},
            {"ngram_size", 3}, {"ngram_vocab_size_base", 20000000}, {"num_attention_heads", 24}, {"num_experts", 512}, {"num_experts_per_tok", 10}, {"num_hidden_layers", 48},
            {"num_key_value_heads", 2}, {"output_gate_type", "sigmoid"}, {"partial_rotary_factor", 0.25}, {"ple_conv_kernel_size", 4}, {"ple_embed_dim", 2560}, {"rms_norm_eps", 1e-6},
            {"shared_expert_intermediate_size", 640}, {"split_ngram_parts", 128}, {"vocab_size", 248320}};
  text["ple_layer_ids"] = Json::array({Json(2)});
  text["rope_parameters"] = {{"mrope_interleaved", true}, {"mrope_section", {11, 11, 10}}, {"partial_rotary_factor", 0.25}, {"rope_theta", 10000000.0}, {"rope_type", "default"}};
  text["layer_types"] = Json::array();
  for (int i = 0; i < 48; ++i) text["layer_types"].push_back(i % 4 == 3 ? "full_attention" : "linear_attention");
  return {{"architectures", {"Qwen4ExpForConditionalGeneration"}}, {"model_type", "qwen4_exp"}, {"image_token_id", 248056}, {"tie_word_embeddings", false}, {"vision_config", Json::object()}, {"text_config", text}};
}

TEST_CASE("Qwen4's configs are read as they are published, and n-grams come to the published rows") {
  const ModelConfig c = parse_hf_config(published().dump(), "config.json");
  CHECK(c.arch == &archs::qwen4_exp);
  CHECK(c.connects_streams());
  CHECK(c.state_dim() == 4 * 2560);
  CHECK(c.stream_rank == 320);
  CHECK(c.sigmoid_delta);
  CHECK(c.rope.dim == 64);
  CHECK(c.index.block == 4);
  CHECK(c.index.used == 2048);
  CHECK(c.context == 262144);
  CHECK(c.layer(0).ffn == 640);
  CHECK(c.router.renormalize);
  CHECK_FALSE(attends(c.layer(2).mixer));
  CHECK(attends(c.layer(3).mixer));
  for (std::int64_t i = 0; i < c.layers; ++i) CHECK(c.layer(i).reads_ngrams == (i == 1));
  // What the published GGUF files and the checkpoint's own tensors say.
  const nn::NgramOptions& o = c.ngrams;
  CHECK(o.multipliers == std::vector<std::uint64_t>{23703573157769, 20109073645365, 8052911324071});
  CHECK(o.sizes == std::vector<std::int64_t>{20000003, 20000023, 20000033, 20000047, 20000059, 20000063, 20000069, 20000077, 20000081, 20000093, 20000107, 20000147, 20000153, 20000159, 20000161, 20000171});
  CHECK(o.offsets.back() == 300001275);
  CHECK(o.rows == 320001536);
  CHECK(o.width == 160);
  CHECK(o.end == 248044);
  CHECK(o.stand_in() == 248056);
  const Json written = Json::parse(write_hf_config(c, "bfloat16"), "written");
  for (const char* key : {"ple_layer_ids", "ngram_size", "heads_per_ngram", "ple_embed_dim", "hc_count", "hc_lowrank", "indexer_budget", "indexer_compress_ratio", "output_gate_type", "layer_types", "max_position_embeddings"}) {
    CAPTURE(key);
    CHECK(written[key] == published()["text_config"][key]);
  }
  const ModelConfig again = parse_hf_config(written.dump(), "written");
  CHECK(again.ngrams == o);
  CHECK(again.specs == c.specs);
}

TEST_CASE("what transformers calls layers with an indexer is known") {
  for (const char* name : {"qwen_sparse_attention", "indexed_attention", "deepseek_sparse_attention"}) {
    Json config = published();
    for (Json& type : config["text_config"]["layer_types"]) {
      if (type == Json("full_attention")) type = name;
    }
    CHECK(parse_hf_config(config.dump(), "config.json").specs == parse_hf_config(published().dump(), "config.json").specs);
  }
}

TEST_CASE("numbers of Qwen4 that cannot be are refused by name") {
  const auto refused = [](const char* key, const Json& value) {
    Json config = published();
    config["text_config"][key] = value;
    return error_of([&] { (void)parse_hf_config(config.dump(), "config.json"); });
  };
  has(refused("hc_count", 1), "hc_count: expected 2 to 16, found 1");
  has(refused("hc_lowrank", 0), "hc_lowrank: expected a whole number from 1");
  has(refused("output_gate_type", "tanh"), "output_gate_type: expected sigmoid or silu, found tanh");
  has(refused("ple_layer_ids", {2, 6}), "ple_layer_ids: expected one layer that reads n-grams, found 2");
  has(refused("ple_layer_ids", {49}), "ple_layer_ids: expected a layer of 48, found number 48 from 0 on");
  has(refused("ple_layer_ids", {0}), "ple_layer_ids: expected a layer of 48, found number -1 from 0 on");
  has(refused("ple_embed_dim", 2561), "ple_embed_dim: expected a multiple of the 16 heads of n-grams, found 2561");
  has(refused("ngram_size", 9), "ngram_size: expected a whole number from 2 to 8, found 9");
  has(refused("heads_per_ngram", 33), "heads_per_ngram: expected a whole number from 1 to 32, found 33");
  has(refused("ple_conv_kernel_size", 9), "ple_conv_kernel_size: expected a whole number from 1 to 8, found 9");
  has(refused("eos_token_id", nullptr), "eos_token_id: expected the token that n-grams do not reach over, found nothing");
  has(refused("ngram_vocab_size_base", 1e12), "ngram_vocab_size_base: expected a whole number from 2");
  has(refused("ngram_sizes", {1, 2}), "expected 3 multipliers of n-grams, found 0");
  has(refused("indexer_budget", 3), "indexer_compress_ratio: expected up to 3 tokens, found 4");
  has(refused("indexer_compress_ratio", 6), "blocks of the indexer: expected a divisor of 64 tokens, found 6");
  has(refused("indexer_head_dim", 32), "heads of the indexer: expected at least the 64 numbers that rope turns, found 32");
  has(refused("indexer_budget", nullptr), "indexer_budget: expected a number, found nothing");
}

TEST_CASE("a model without a table of n-grams has none of its tensors, and one with two ends of text takes the first") {
  TinyModel tiny{.arch = &archs::qwen4_exp, .reads_ngrams = false};
  tiny.make();
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  tiny.write_gguf(folder / "m.gguf");
  for (const char* name : {"hf", "m.gguf"}) {
    const Model model = Model::load(folder / name);
    CHECK_FALSE(model.config().ngrams.exist());
    CHECK(distance(logits_of(model, some_tokens()), tiny.reference().logits(some_tokens())) < family_tolerance);
  }
  Json config = published();
  config["text_config"]["eos_token_id"] = Json::array({Json(5), Json(6)});
  CHECK(parse_hf_config(config.dump(), "config.json").ngrams.end == 5);
}

TEST_CASE("each part of Qwen4 counts") {
  const auto end = [](std::int32_t token) { return [token](reference::Transformer& r) { r.ngrams.end = token; }; };
  const FamilyPart parts[] = {
      {&archs::qwen4_exp, "gates of streams", filled("layers.0.mixer_streams_up", 0)},
      {&archs::qwen4_exp, "what is written to streams", filled("layers.1.ffn_streams_inject", 0)},
      {&archs::qwen4_exp, "norms of streams", filled("layers.2.ffn_streams_norm", 1)},
      {&archs::qwen4_exp, "gates before the head", filled("head_streams_down", 0)},
      {&archs::qwen4_exp, "n-grams", filled("ngram_value", 0)},
      {&archs::qwen4_exp, "gates of n-grams", filled("ngram_key", 0)},
      {&archs::qwen4_exp, "their convolution", filled("ngram_convolution", 0)},
      {&archs::qwen4_exp, "how far it reaches", [](reference::Transformer& r) { r.ngrams.taps = 1, r.weights["model.layers.1.ngram_convolution"].resize(144); }},
      {&archs::qwen4_exp, "the token that n-grams do not reach over", end(0)},
      {&archs::qwen4_exp, "multipliers", [](reference::Transformer& r) { r.ngrams.multipliers[2] += 2; }},
      {&archs::qwen4_exp, "the sigmoid of delta nets", [](reference::Transformer& r) { r.sigmoid_delta = false; }},
      {&archs::qwen4_exp, "gates of attention", [](reference::Transformer& r) { for (float& x : r.weights.at("model.layers.3.self_attn.q_proj.weight")) x *= 0.5F; }},
  };
  check_parts_count(parts, some_tokens(30));
}

TEST_CASE("quantized matrices of hyper-connections stay as they are") {
  TinyModel tiny{.arch = &archs::qwen4_exp, .dim = 64};
  tiny.make();
  const std::string name = "model.layers.0.mixer_streams_down";
  const std::size_t width = static_cast<std::size_t>(tiny.sizes.streams * tiny.sizes.dim), count = tiny.reference().weights.at(name).size();
  REQUIRE(width % 32 == 0);
  // Q8_0: a scale of 2^-7 as a half, and 32 codes.
  std::string blocks;
  std::vector<float> values;
  for (std::size_t i = 0; i < count; ++i) {
    if (i % 32 == 0) blocks += {'\x00', '\x20'};
    const auto code = static_cast<signed char>(static_cast<int>(i * 37 % 61) - 30);
    blocks += static_cast<char>(code);
    values.push_back(static_cast<float>(code) / 128);
  }
  reference::Transformer reference = tiny.reference();
  reference.weights.at(name) = values;
  tiny.remove("model.layers.0.attn_hyper_connection.input_mix_weight_down.weight");
  const TemporaryFolder folder;
  write_file(folder / "m.gguf", tiny.gguf().tensor("blk.0.hc_attn_down.weight", {static_cast<std::int64_t>(width), static_cast<std::int64_t>(count / width)}, 8, blocks).bytes());
  const Model model = Model::load(folder / "m.gguf", {.memory = WeightMemory::huge_pages});
  const WeightMatrix& down = model.weights().layers[0].mixer_streams.down;
  CHECK(!down.format().is_float);
  CHECK(std::ranges::equal(down.dequantize().span(), values));
  const auto tokens = some_tokens(12);
  CHECK(distance(logits_of(model, tokens), reference.logits(tokens)) < 0.02);  // what it reads is rounded to 8 bits
}

TEST_CASE("n-grams that are no longer than a text, and none over its end, whatever is asked first") {
  const nn::NgramOptions o{.tokens = 3, .heads = 1, .width = 1, .rows = 30, .taps = 1, .end = 9, .multipliers = {1, 100, 10'000}, .offsets = {0, 0}, .sizes = {1'000'000, 1'000'000}};
  const auto rows_of = [&](std::vector<std::int64_t> text) {
    std::vector<std::int64_t> rows(2);
    const auto last = std::ssize(text) - 1;
    nn::find_ngram_rows(o, text.back(), [&](std::int64_t i) { return last < i ? -1 : text[static_cast<std::size_t>(last - i)]; }, rows);
    return rows;
  };
  const auto hash = [](std::int64_t now, std::int64_t before, std::int64_t first) { return std::vector<std::int64_t>{now ^ before * 100, now ^ before * 100 ^ first * 10'000}; };
  CHECK(rows_of({3}) == hash(3, 9, 9));
  CHECK(rows_of({4, 3}) == hash(3, 4, 9));
  CHECK(rows_of({5, 4, 3}) == hash(3, 4, 5));
  CHECK(rows_of({5, 9, 3}) == hash(3, 9, 9));
  CHECK(rows_of({9, 4, 3}) == hash(3, 4, 9));
  CHECK(rows_of({5, 4, 9}) == hash(9, 4, 5));  // it does not end its own
}

TEST_CASE("the tokens of a sequence are cut, forked and restored") {
  nn::TokenHistory tokens;
  tokens.extend(3);
  for (std::int32_t i = 0; i < 3; ++i) tokens.set(i, 10 + i);
  const std::unique_ptr<nn::BlockState> other = tokens.fork();
  tokens.truncate(2);
  tokens.extend(1);
  tokens.set(2, 50);
  CHECK(tokens.at(2) == 50);
  CHECK(tokens.at(-1) == -1);
  CHECK(dynamic_cast<nn::TokenHistory&>(*other).at(2) == 12);
  std::vector<std::byte> saved;
  tokens.save([&](std::span<const std::byte> bytes) { saved.insert(saved.end(), bytes.begin(), bytes.end()); });
  nn::TokenHistory restored;
  restored.restore(3, [&](std::uint64_t size, std::string_view) { return std::span<const std::byte>(saved).first(size); });
  CHECK(restored.at(0) == 10);
  CHECK(restored.at(2) == 50);
  CHECK(restored.bytes() == 12);
}

}  // namespace
}  // namespace bantam::test
