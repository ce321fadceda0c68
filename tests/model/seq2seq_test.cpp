// Decoders behind encoders: from every container, against double precision.
#include "bantam/io/gguf.hpp"
#include "bantam/prune/structure.hpp"
#include "limits.hpp"
#include "model/family_parts.hpp"

namespace bantam::test {
namespace {

std::vector<const ArchSpec*> pairs_of_stacks() {
  std::vector<const ArchSpec*> all;
  std::ranges::copy_if(architectures, std::back_inserter(all), [](const ArchSpec* arch) { return arch->encodes; });
  return all;
}

std::vector<TokenId> random_text(std::int64_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<TokenId> tokens;
  for (std::int64_t i = 0; i < count; ++i) tokens.push_back(static_cast<TokenId>(random.next() % 30));
  return tokens;
}

/// Logits after the decoder's start and each of `tokens` but the last.
std::vector<float> answers(const Model& model, const std::vector<TokenId>& source, const std::vector<TokenId>& tokens, int threads) {
  Session session(model, {.threads = threads, .kv = "f32"});
  session.prefill(source);
  std::vector<float> all{session.logits().begin(), session.logits().end()};
  session.score(std::span(tokens).first(tokens.size() - 1), [&](std::int64_t, std::span<const float> row) { all.insert(all.end(), row.begin(), row.end()); });
  return all;
}

TEST_CASE("decoders answer as the reference does, over sources longer than a page, a span of attention, a pass and the last bucket") {
  for (const ArchSpec* arch : pairs_of_stacks()) {
    CAPTURE(std::string(arch->name));
    TinyModel tiny{.arch = arch, .decoder_layers = 2, .dim = 24, .layers = 3, .heads = 2, .kv_heads = 2, .head_dim = 12, .ffn = 20, .context = 800};
    tiny.make();
    const TemporaryFolder folder;
    tiny.write_folder(folder / "hf");
    const Model model = Model::load(folder / "hf");
    for (const auto& [from, to] : {std::pair{1, 1}, {2, 40}, {64, 3}, {65, 70}, {200, 200}, {600, 5}, {7, 300}}) {
      if (quick() && (from == 64 || from == 200)) continue;
      CAPTURE(from);
      CAPTURE(to);
      const std::vector<TokenId> source = random_text(from, 5), tokens = random_text(to, 6);
      reference::Transformer reference = tiny.reference();
      reference.source = source;
      const std::vector<float> found = answers(model, source, tokens, 2);
      CHECK(distance(found, reference.logits(tokens)) < family_tolerance);
      CHECK(answers(model, source, tokens, 1) == found);
    }
  }
}

TEST_CASE("each part of encoders and decoders is noticed when it is left out") {
  const auto without = [](std::string_view ending) {
    return [=](reference::Transformer& r) { std::erase_if(r.weights, [&](const auto& w) { return w.first.ends_with(ending); }); };
  };
  const FamilyPart parts[] = {
      {&archs::t5, "what the encoder made", without("cross_attn.q_proj.weight")},
      {&archs::t5, "its norm", without("encoder_norm.weight")},
      {&archs::t5, "the norm before it is read", without("cross_norm.weight")},
      {&archs::t5, "biases by distance", filled("relative_bias", 0)},
      {&archs::t5, "biases of the encoder", filled("layers.0.self_attn.relative_bias", 0)},
      {&archs::t5, "biases of the decoder", filled("layers.2.self_attn.relative_bias", 0)},
      {&archs::t5, "buckets of several distances", [](reference::Transformer& r) { r.relative_distance = 30; }},
      {&archs::t5, "scores that are not scaled", [](reference::Transformer& r) { r.attention_scale = 0; }},
      {&archs::t5, "the decoder's start", [](reference::Transformer& r) { r.decoder_start = 4; }},
      {&archs::t5, "ReLU", [](reference::Transformer& r) { r.activation = [](double x) { return x; }; }},
      {&archs::t5_gated, "gate", without("gate_proj.weight")},
      {&archs::t5_gated, "GELU", [](reference::Transformer& r) { r.activation = [](double x) { return std::max(x, 0.0); }; }},
      {&archs::umt5, "a bias of each layer", without("layers.1.self_attn.relative_bias")},
      {&archs::umt5, "the same of the decoder", without("layers.4.self_attn.relative_bias")},
      {&archs::t5_encoder, "biases by distance", filled("relative_bias", 0)},
      {&archs::t5_encoder, "tokens that see what follows", [](reference::Transformer& r) { r.sees_all = false; }},
      {&archs::umt5_encoder, "a bias of each layer", without("layers.1.self_attn.relative_bias")},
      {&archs::bart, "what the encoder made", without("cross_attn.q_proj.weight")},
      {&archs::bart, "norms of sums", [](reference::Transformer& r) { r.norms_sums = false; }},
      {&archs::bart, "norm of the sum with what the encoder made", without("cross_out_norm")},
      {&archs::bart, "biases across", filled("cross_attn.v_proj.bias", 0)},
      {&archs::bart, "rows of padding", [](reference::Transformer& r) { r.position_offset = 0; }},
      {&archs::bart, "positions of the encoder", without("encoder_position_embedding")},
      {&archs::bart, "norm of the encoder's embedding", without("encoder_embedding_norm.weight")},
      {&archs::mbart, "norm behind the encoder", without("encoder_norm.weight")},
      {&archs::mbart, "bias of that", without("encoder_norm.bias")},
      {&archs::mbart, "norm across", without("cross_norm.weight")},
      {&archs::mbart, "scaled embedding", [](reference::Transformer& r) { r.embedding_scale = 1; }},
  };
  check_parts_count(parts, some_tokens(40));
}

TEST_CASE("of encoders with biases by distance heads, and layers that share them, are not removed") {
  TinyModel tiny{.arch = &archs::t5_encoder};
  tiny.make();
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  const auto refusal = [&](const char* removal) {
    const Removal removals[] = {parse_removal(removal)};
    return error_of([&] { (void)prune_structure(Checkpoint::open(folder / "hf"), removals, {{some_tokens(20)}}); });
  };
  has(refusal("heads:0.5"), "prune heads:0.5: t5: of heads that have biases by distance: not yet");
  has(refusal("layers:1"), "prune layers:1: t5: its first layer has the biases by distance of all");
}

TEST_CASE("BART's head has a bias, and what it writes may have to begin with a token") {
  TinyModel tiny{.arch = &archs::bart, .tied = true, .biases = true};
  tiny.make();
  const auto tokens = some_tokens();
  reference::Transformer reference = tiny.reference();
  CHECK(distance(folder_logits(tiny, tokens), reference.logits(tokens)) < family_tolerance);
  std::erase_if(reference.weights, [](const auto& w) { return w.first == "lm_head.bias"; });
  CHECK(distance(folder_logits(tiny, tokens), reference.logits(tokens)) > 20 * family_tolerance);

  tiny.config["forced_bos_token_id"] = 5;
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  compress_file(Checkpoint::open(folder / "hf"), folder / "m.gguf", recipe::rtn("f32"), Target::gguf);
  compress_file(Checkpoint::open(folder / "hf"), folder / "m.bantam", recipe::rtn("f32"));
  for (const char* name : {"hf", "m.gguf", "m.bantam"}) {
    CAPTURE(std::string(name));
    Session session(Model::load(folder / name), {.threads = 1});
    session.prefill(tokens);
    CHECK(session.tokens() == std::vector<TokenId>{3, 5});
  }
  for (const auto& [members, words] : {std::pair{R"("normalize_before":true)", "config.json: normalize_before: expected false of a model of type bart, found true"},
                                       {R"("decoder_attention_heads":4)", "config.json: decoder_attention_heads: expected the 6 of encoder_attention_heads, found 4"},
                                       {R"("decoder_ffn_dim":4)", "config.json: decoder_ffn_dim: expected the 50 of encoder_ffn_dim, found 4"}}) {
    std::string json = tiny.config.dump();
    json.insert(1, std::string(members) + ',');
    std::string key(members);
    key = key.substr(0, key.find(':'));
    // The member of that name that was there goes.
    if (const auto again = json.find(key, 5); again != std::string::npos) json.replace(again, key.size(), "\"other\"");
    has(error_of([&] { (void)parse_hf_config(json, "config.json"); }), words);
  }
}

TEST_CASE("logits of a tied T5 are scaled, those of one with a head are not") {
  for (const bool tied : {false, true}) {
    TinyModel tiny{.arch = &archs::t5, .tied = tied};
    tiny.make();
    const auto tokens = some_tokens();
    reference::Transformer reference = tiny.reference();
    CHECK(distance(folder_logits(tiny, tokens), reference.logits(tokens)) < family_tolerance);
    reference.logit_scale = tied ? 1 : 1 / std::sqrt(36.0);
    CHECK(distance(folder_logits(tiny, tokens), reference.logits(tokens)) > 100 * family_tolerance);
  }
}

TEST_CASE("published configs of T5 are told apart, and old folders are read") {
  const auto arch_of = [](std::string_view members) {
    return parse_hf_config(R"({"d_ff":2048,"d_kv":64,"d_model":512,"num_heads":8,"num_layers":6,"vocab_size":32128,"relative_attention_num_buckets":32,"layer_norm_epsilon":1e-06,
      "n_positions":512,"is_encoder_decoder":true,"decoder_start_token_id":0,"pad_token_id":0,"eos_token_id":1,)" + std::string(members) + "}", "config.json").arch;
  };
  CHECK(arch_of(R"("architectures":["T5ForConditionalGeneration"],"model_type":"t5")") == &archs::t5);
  CHECK(arch_of(R"("architectures":["T5WithLMHeadModel"],"model_type":"t5")") == &archs::t5);
  CHECK(arch_of(R"("architectures":["T5ForConditionalGeneration"],"model_type":"t5","feed_forward_proj":"relu","dense_act_fn":"relu","is_gated_act":false)") == &archs::t5);
  CHECK(arch_of(R"("architectures":["T5ForConditionalGeneration"],"model_type":"t5","feed_forward_proj":"gated-gelu","dense_act_fn":"gelu_new","is_gated_act":true,"tie_word_embeddings":false)") == &archs::t5_gated);
  CHECK(arch_of(R"("model_type":"t5","feed_forward_proj":"gated-gelu")") == &archs::t5_gated);
  CHECK(arch_of(R"("architectures":["MT5ForConditionalGeneration"],"model_type":"mt5","feed_forward_proj":"gated-gelu")") == &archs::mt5);
  CHECK(arch_of(R"("architectures":["UMT5ForConditionalGeneration"],"model_type":"umt5","feed_forward_proj":"gated-gelu")") == &archs::umt5);
  CHECK(arch_of(R"("architectures":["T5EncoderModel"],"model_type":"t5","feed_forward_proj":"gated-gelu")") == &archs::t5_gated_encoder);
  has(error_of([&] { (void)arch_of(R"("architectures":["T5ForConditionalGeneration"],"feed_forward_proj":"gated-silu")"); }), "config.json: feed_forward_proj: expected relu of a model of type t5, found \"gated-silu\"");
  has(error_of([&] { (void)arch_of(R"("architectures":["T5ForConditionalGeneration"],"decoder_start_token_id":-1)"); }), "config.json: decoder_start_token_id: expected a whole number from 0");
  has(error_of([&] { (void)arch_of(R"("architectures":["T5ForConditionalGeneration"],"relative_attention_num_buckets":30)"); }), "config.json: relative_attention_num_buckets: expected a multiple of 4 up to 16384, found 30");
  has(error_of([&] { (void)arch_of(R"("architectures":["T5ForConditionalGeneration"],"relative_attention_max_distance":16)"); }), "config.json: relative_attention_max_distance: expected more than 16 and up to 16384 tokens, found 16");

  TinyModel tiny{.arch = &archs::t5};
  tiny.make();
  const auto tokens = some_tokens();
  const std::vector<float> logits = folder_logits(tiny, tokens);
  TinyModel old = tiny;
  for (const char* name : {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight"}) {
    old.tensors.push_back(tiny.tensor("shared.weight"));
    old.tensors.back().name = name;
  }
  old.tensors.push_back({"decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight", "", {32, 6}, std::vector<float>(192, 3.0F)});
  CHECK(folder_logits(old, tokens) == logits);
  tiny.config["decoder_start_token_id"] = 37;
  has(error_of([&] { (void)folder_logits(tiny, tokens); }), "expected a decoder that begins with tokens below 37, found 37");
}

TEST_CASE("GGUF files have llama.cpp's names, and say which kind of T5 they hold") {
  for (const ArchSpec* arch : {&archs::t5, &archs::t5_gated, &archs::umt5, &archs::t5_encoder}) {
    CAPTURE(std::string(arch->name));
    TinyModel tiny{.arch = arch};
    tiny.make();
    const TemporaryFolder folder;
    tiny.write_folder(folder / "hf");
    compress_file(Checkpoint::open(folder / "hf"), folder / "m.gguf", recipe::rtn("f32"), Target::gguf);
    const auto file = GgufFile::open(folder / "m.gguf");
    for (const char* name : {"enc.blk.0.attn_norm", "enc.blk.1.attn_q", "enc.blk.1.attn_o", "enc.blk.0.attn_rel_b", "enc.blk.1.ffn_up", "enc.output_norm", "token_embd"}) {
      CHECK_MESSAGE(file->find(std::string(name) + ".weight") != nullptr, name);
    }
    for (const char* name : {"dec.blk.2.attn_v", "dec.blk.0.attn_rel_b", "dec.blk.0.cross_attn_norm", "dec.blk.2.cross_attn_q", "dec.blk.2.cross_attn_o", "dec.blk.1.ffn_down", "dec.output_norm", "output"}) {
      CHECK_MESSAGE((file->find(std::string(name) + ".weight") != nullptr) == arch->encodes, name);
    }
    CHECK(file->find("enc.blk.0.attn_rel_b.weight")->shape == std::vector<std::int64_t>{32, 6});
    CHECK((file->find("enc.blk.1.attn_rel_b.weight") != nullptr) == !arch->shares_bias);
    const std::string prefix = arch->encodes ? "t5." : "t5encoder.";
    CHECK(file->number(prefix + "attention.relative_buckets_count") == 32.0);
    CHECK(file->number(prefix + "block_count") == 2.0);
    if (arch->encodes) {
      CHECK(file->number(prefix + "decoder_block_count") == 3.0);
      CHECK(file->number(prefix + "decoder_start_token_id") == 3.0);
    }
    CHECK(Checkpoint::open(folder / "m.gguf").config().arch == arch);
  }
  // llama.cpp knows one distance.
  TinyModel far{.arch = &archs::t5};
  far.make();
  far.config["relative_attention_max_distance"] = 64;
  const TemporaryFolder folder;
  far.write_folder(folder / "hf");
  has(error_of([&] { compress_file(Checkpoint::open(folder / "hf"), folder / "m.gguf", recipe::rtn("f32"), Target::gguf); }), "GGUF has no words for it");
}

}  // namespace
}  // namespace bantam::test
