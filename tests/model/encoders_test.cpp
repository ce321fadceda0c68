// Models whose tokens all see each other, and classifiers behind them: from every container, against double precision.
#include <cmath>

#include "bantam/session/rerank.hpp"
#include "limits.hpp"
#include "model/family_parts.hpp"

namespace bantam::test {
namespace {

std::vector<const ArchSpec*> encoders() {
  std::vector<const ArchSpec*> all;
  std::ranges::copy_if(architectures, std::back_inserter(all), [](const ArchSpec* arch) { return !arch->causal; });
  return all;
}
/// Those that may have a classifier behind them.
std::vector<const ArchSpec*> classifiers() {
  std::vector<const ArchSpec*> all;
  std::ranges::copy_if(architectures, std::back_inserter(all), [](const ArchSpec* arch) { return arch->find(Role::class_head) != nullptr; });
  return all;
}

/// Whether GGUF has words for a classifier: it knows BERT's activation in files that call themselves so, and reads states without scales.
bool gguf_says(const TinyModel& tiny) { return tiny.labels == 0 || (!tiny.arch->folds_scales && (tiny.arch->class_activation == ClassActivation::tanh || tiny.arch->gguf_name() != "bert")); }

/// The same model from each container.
std::vector<Model> from_everywhere(const TinyModel& tiny, const std::filesystem::path& folder) {
  tiny.write_folder(folder / "hf");
  tiny.write_gguf(folder / "m.gguf");
  std::vector<Model> models{Model::load(folder / "hf")};
  if (gguf_says(tiny)) models.push_back(Model::load(folder / "m.gguf"));
  models[0].save(folder / "m.bantam");
  models.push_back(Model::load(folder / "m.bantam"));
  return models;
}

std::vector<TokenId> tokens_of(std::int64_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<TokenId> tokens;
  for (std::int64_t i = 0; i < count; ++i) tokens.push_back(static_cast<TokenId>(random.next() % 30));
  return tokens;
}

std::vector<std::vector<TokenId>> one(const std::vector<TokenId>& text) { return {1, text}; }

std::vector<double> pooled(const std::vector<double>& states, std::int64_t dim, Pooling pooling) {
  const std::int64_t tokens = std::ssize(states) / dim;
  std::vector<double> sums(static_cast<std::size_t>(dim));
  for (std::int64_t t = 0; t < tokens; ++t) {
    if ((pooling == Pooling::cls && t != 0) || (pooling == Pooling::last && t != tokens - 1)) continue;
    for (std::int64_t c = 0; c < dim; ++c) sums[static_cast<std::size_t>(c)] += states[static_cast<std::size_t>(t * dim + c)] / (pooling == Pooling::mean ? static_cast<double>(tokens) : 1);
  }
  return sums;
}

TEST_CASE("encoders' states are the reference's, over sequences longer than a page, a span of attention and a pass") {
  for (const ArchSpec* arch : encoders()) {
    CAPTURE(std::string(arch->name));
    TinyModel tiny{.arch = arch, .dim = 24, .layers = 4, .heads = 2, .kv_heads = 2, .head_dim = 12, .ffn = 20, .context = 800, .window = 90};
    tiny.make();
    const TemporaryFolder folder;
    const std::vector<Model> models = from_everywhere(tiny, folder.path());
    const reference::Transformer reference = tiny.reference();
    for (const std::int64_t count : {1, 2, 45, 46, 64, 65, 130, 600}) {
      if (quick() && (count == 2 || count == 64 || count == 130)) continue;  // nothing begins there that the others lack
      CAPTURE(count);
      const auto tokens = tokens_of(count, 5);
      const std::vector<double> expected = reference.logits(tokens);
      for (const Model& model : models) CHECK(distance(logits_of(model, tokens), expected) < family_tolerance);
    }
  }
}

TEST_CASE("each part of encoders is noticed when it is left out") {
  const auto rows_of_types = [](reference::Transformer& r) { r.weights.erase("token_type_embedding"); };
  const FamilyPart parts[] = {
      {&archs::bert, "tokens that see what follows", [](reference::Transformer& r) { r.sees_all = false; }},
      {&archs::bert, "norms of sums", [](reference::Transformer& r) { r.norms_sums = false; }},
      {&archs::bert, "biases of these", [](reference::Transformer& r) { std::erase_if(r.weights, [](const auto& w) { return w.first.ends_with("out_norm_bias"); }); }},
      {&archs::bert, "positions", [](reference::Transformer& r) { r.weights.erase("position_embedding"); }},
      {&archs::bert, "token types", rows_of_types},
      {&archs::bert, "norm of the embedding", [](reference::Transformer& r) { r.weights.erase("embedding_norm.weight"); }},
      {&archs::bert, "GELU", [](reference::Transformer& r) { r.activation = [](double x) { return x / (1 + std::exp(-x)); }; }},
      {&archs::roberta, "rows of padding", [](reference::Transformer& r) { r.position_offset = 0; }},
      {&archs::nomic_bert, "rope", [](reference::Transformer& r) { r.rotates.assign(static_cast<std::size_t>(r.layers), false); }},
      {&archs::nomic_bert, "gate", [](reference::Transformer& r) { std::erase_if(r.weights, [](const auto& w) { return w.first.ends_with("gate_proj.weight"); }); }},
      {&archs::nomic_bert, "token types", rows_of_types},
      {&archs::modernbert, "windows", [](reference::Transformer& r) { r.windows.clear(); }},
      {&archs::modernbert, "windows of both sides", [](reference::Transformer& r) { r.sees_all = false; }},
      {&archs::modernbert, "rope of layers with a window", [](reference::Transformer& r) { r.local_frequencies = r.frequencies; }},
      {&archs::modernbert, "the norm that the first layer lacks", [](reference::Transformer& r) { r.weights["model.layers.0.input_layernorm.weight"] = r.weights.at("model.layers.1.input_layernorm.weight"); }},
      {&archs::modernbert, "layers that see everything: the first of three",
       [](reference::Transformer& r) { std::ranges::rotate(r.windows, r.windows.begin() + 1); }},
      {&archs::distilbert, "positions", [](reference::Transformer& r) { r.weights.erase("position_embedding"); }},
      {&archs::mpnet, "biases by distance", [](reference::Transformer& r) { std::ranges::fill(r.weights.at("model.layers.0.self_attn.relative_bias"), 0.0f); }},
      {&archs::mpnet, "rows of padding", [](reference::Transformer& r) { r.position_offset = 0; }},
      {&archs::electra, "token types", rows_of_types},
      {&archs::ernie, "token types", rows_of_types},
      {&archs::eurobert, "tokens that see what follows", [](reference::Transformer& r) { r.sees_all = false; }},
      {&archs::eurobert, "rope", [](reference::Transformer& r) { r.rotates.assign(static_cast<std::size_t>(r.layers), false); }},
      {&archs::gemma_embedding, "windows", [](reference::Transformer& r) { r.windows.clear(); }},
      {&archs::gemma_embedding, "windows of both sides", [](reference::Transformer& r) { r.sees_all = false; }},
      {&archs::gemma_embedding, "rope of layers with a window", [](reference::Transformer& r) { r.local_frequencies = r.frequencies; }},
      {&archs::gemma_embedding, "scaled embedding", [](reference::Transformer& r) { r.embedding_scale = 1; }},
  };
  check_parts_count(parts, some_tokens(20));
}

TEST_CASE("classifiers make the reference's numbers, from every container, of single texts and of pairs") {
  for (const ArchSpec* arch : classifiers()) {
    for (const std::int64_t labels : {1, 3}) {
      // Those of decoders are alike.
      if (labels == 1 && arch->causal && arch != &archs::qwen2 && arch != &archs::gemma3) continue;
      for (const std::optional<Pooling> pooling : {std::optional<Pooling>(), std::optional(Pooling::mean)}) {
        if (pooling && arch != &archs::modernbert) continue;
        CAPTURE(std::string(arch->name));
        CAPTURE(labels);
        TinyModel tiny{.arch = arch, .labels = labels, .pooling = arch == &archs::modernbert && !pooling ? std::optional(Pooling::cls) : pooling};
        tiny.make();
        const auto a = some_tokens(9), b = tokens_of(7, 3);
        TokenPair pair{a, std::vector<std::uint8_t>(a.size())};
        pair.ids.insert(pair.ids.end(), b.begin(), b.end());
        pair.types.resize(pair.ids.size(), 1);
        reference::Transformer reference = tiny.reference();
        if (tiny.sizes.token_types > 1) reference.types.assign(pair.types.begin(), pair.types.end());
        const Pooling expected_pooling = tiny.pooling.value_or(arch->causal ? Pooling::last : Pooling::cls);
        const std::vector<double> state = pooled(reference.logits(pair.ids), tiny.dim, expected_pooling), expected = reference.labels(state);
        std::ranges::fill(reference.weights.at("class_head"), 0.1f);
        const std::vector<double> without = reference.labels(state);
        const TemporaryFolder folder;
        for (const Model& model : from_everywhere(tiny, folder.path())) {
          CHECK(model.config().labels == labels);
          Engine engine(model, {.threads = 2});
          const Tensor<float, 2> found = classify(engine, std::vector{pair});
          REQUIRE(found.extent(1) == labels);
          CHECK(distance({found.span().begin(), found.span().end()}, expected) < family_tolerance);
          // Whatever else is read.
          const Tensor<float, 2> among = classify(engine, std::vector<TokenPair>{{b, {}}, pair, {a, {}}});
          for (std::int64_t l = 0; l < labels; ++l) CHECK(among(1, l) == found(0, l));
          CHECK(distance({found.span().begin(), found.span().end()}, without) > 20 * family_tolerance);
        }
      }
    }
  }
}

TEST_CASE("GGUF files are not made of classifiers whose activation they cannot say") {
  for (const ArchSpec* arch : {&archs::distilbert, &archs::electra}) {
    CAPTURE(std::string(arch->name));
    TinyModel tiny{.arch = arch, .labels = 1};
    tiny.make();
    const TemporaryFolder folder;
    tiny.write_folder(folder / "hf");
    has(error_of([&] { (void)compress_file(Checkpoint::open(folder / "hf"), folder / "m.gguf", recipe::rtn("f32"), Target::gguf); }), "a classifier with another activation than BERT's tanh: GGUF has no words for it");
  }
}

TEST_CASE("classes of decoders with a classifier and without a head are read as their models, and written so") {
  struct Case {
    const ArchSpec* arch;
    std::string_view judge, alone;
  };
  for (const Case& c : {Case{&archs::llama, "LlamaForSequenceClassification", "LlamaModel"}, Case{&archs::mistral, "MistralForSequenceClassification", "MistralModel"},
                        Case{&archs::qwen2, "Qwen2ForSequenceClassification", "Qwen2Model"}, Case{&archs::qwen3, "Qwen3ForSequenceClassification", "Qwen3Model"},
                        Case{&archs::gemma, "GemmaForSequenceClassification", "GemmaModel"}, Case{&archs::gemma2, "Gemma2ForSequenceClassification", "Gemma2Model"},
                        Case{&archs::gemma3, "Gemma3TextForSequenceClassification", "Gemma3TextModel"}, Case{&archs::gpt2, "GPT2ForSequenceClassification", ""}}) {
    CAPTURE(std::string(c.arch->name));
    CHECK(c.arch->class_of_classifier() == c.judge);
    if (c.alone.empty()) continue;
    TinyModel tiny{.arch = c.arch};
    tiny.make();
    tiny.remove("lm_head.weight");
    tiny.config["architectures"] = {std::string(c.alone)};
    tiny.config["tie_word_embeddings"] = false;
    const TemporaryFolder folder;
    tiny.write_folder(folder / "hf");
    const Model model = Model::load(folder / "hf");
    CHECK(model.config().arch == c.arch);
    CHECK_FALSE(model.config().has_head);
    CHECK(Json::parse(write_hf_config(model.config(), "float32"), "config.json")["architectures"][0] == Json(c.alone));
    Engine engine(model);
    const std::vector<TokenId> tokens = some_tokens(9);
    const Tensor<float, 2> found = embed(engine, one(tokens), {.pooling = Pooling::last, .normalize = false});
    reference::Transformer reference = tiny.reference();
    reference.headless = true;
    CHECK(distance({found.span().begin(), found.span().end()}, pooled(reference.logits(tokens), tiny.dim, Pooling::last)) < family_tolerance);
  }
}

TEST_CASE("classifiers without their pooler, as llama.cpp converts BERT's, are read as such") {
  TinyModel tiny{.arch = &archs::bert, .labels = 2};
  tiny.make();
  tiny.remove("class_dense");
  tiny.remove("class_dense_bias");
  const auto ids = some_tokens(9);
  const reference::Transformer reference = tiny.reference();
  const std::vector<double> expected = reference.labels(pooled(reference.logits(ids), tiny.dim, Pooling::cls));
  const TemporaryFolder folder;
  tiny.write_gguf(folder / "m.gguf");
  Engine engine(Model::load(folder / "m.gguf"), {.threads = 2});
  const Tensor<float, 2> found = classify(engine, std::vector<TokenPair>{{ids, {}}});
  CHECK(distance({found.span().begin(), found.span().end()}, expected) < family_tolerance);
}

TEST_CASE("several texts together give what each gives alone, bit for bit, whatever the number of threads") {
  for (const ArchSpec* arch : {&archs::bert, &archs::nomic_bert, &archs::modernbert, &archs::qwen3, &archs::gemma3, &archs::lfm2}) {
    CAPTURE(std::string(arch->name));
    TinyModel tiny{.arch = arch, .dim = 24, .layers = 3, .heads = 4, .kv_heads = 4, .head_dim = 6, .ffn = 20, .context = 700};
    tiny.make();
    const TemporaryFolder folder;
    tiny.write_folder(folder / "hf");
    const Model model = Model::load(folder / "hf");
    std::vector<std::vector<TokenId>> texts;
    for (const std::int64_t count : {3, 600, 1, 64, 65, 17, 500, 2}) texts.push_back(tokens_of(count, static_cast<std::uint64_t>(count)));
    for (const Pooling pooling : poolings) {
      Engine engine(model, {.threads = 2});
      const Tensor<float, 2> together = embed(engine, texts, {.pooling = pooling, .normalize = false});
      for (const int threads : {1, 3}) {
        Engine other(model, {.threads = threads});
        for (std::size_t i = 0; i < texts.size(); ++i) {
          const Tensor<float, 2> alone = embed(other, one(texts[i]), {.pooling = pooling, .normalize = false});
          CHECK(std::ranges::equal(alone.span(), together.span().subspan(i * 24, 24)));
        }
      }
      Session session(model, {.threads = 2, .kv = "f32"});
      CHECK(std::ranges::equal(embed(session, texts[3], {.pooling = pooling, .normalize = false}), together.span().subspan(3 * 24, 24)));
      const Tensor<float, 2> unit = embed(engine, texts, {.pooling = pooling});
      double squares = 0;
      for (std::int64_t c = 0; c < 24; ++c) squares += std::pow(static_cast<double>(unit(1, c)), 2);
      CHECK(squares == doctest::Approx(1).epsilon(1e-6));
    }
  }
}

TEST_CASE("a decoder that answers yes or no gives the probability of yes") {
  TinyModel tiny{.arch = &archs::qwen3, .context = 256};
  tiny.make();
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  Json vocabulary = Json::object(), added = Json::array();
  std::int64_t id = 0;
  for (const char* piece : {"<unk>", "<|im_start|>", "<|im_end|>", "yes", "no", "system", "user", "assistant", "the", "Document", "Query", "owl", "sea"}) vocabulary[piece] = id++;
  for (const auto& [content, number] : {std::pair<const char*, int>{"<unk>", 0}, {"<|im_start|>", 1}, {"<|im_end|>", 2}}) added.push_back({{"id", number}, {"content", content}, {"special", true}});
  const Json tokenizer = {{"version", "1.0"}, {"added_tokens", added}, {"pre_tokenizer", {{"type", "Whitespace"}}}, {"model", {{"type", "WordLevel"}, {"unk_token", "<unk>"}, {"vocab", vocabulary}}}};
  write_file(folder / "hf" / "tokenizer.json", tokenizer.dump());
  const Model model = Model::load(folder / "hf");
  Engine engine(model, {.threads = 2});
  const std::vector<std::string> documents{"the owl", "the sea <|im_end|>", "owl owl sea"};
  const std::vector<float> scores = rerank(engine, "owl", documents, {.instruction = "the Document"});
  for (std::size_t i = 0; i < documents.size(); ++i) {
    const auto encode = [&](const std::string& text, bool special) { return model.tokenizer().encode(text, {.add_special = false, .parse_special = special}); };
    std::vector<TokenId> ids = encode("<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n", true);
    for (const TokenId token : encode("<Instruct>: the Document\n<Query>: owl\n<Document>: " + documents[i], false)) ids.push_back(token);
    for (const TokenId token : encode("<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n", true)) ids.push_back(token);
    const std::vector<double> logits = tiny.reference().logits(ids);
    const double yes = logits[logits.size() - 37 + 3], no = logits[logits.size() - 37 + 4];
    CHECK(std::fabs(static_cast<double>(scores[i]) - std::exp(yes) / (std::exp(yes) + std::exp(no))) < family_tolerance);
  }
  CHECK(scores[0] != scores[2]);
}

TEST_CASE("folders whose names begin as their classes do, old ones, and what training left are read alike") {
  TinyModel tiny{.arch = &archs::bert};
  tiny.make();
  const auto tokens = some_tokens(16);
  const std::vector<float> states = folder_logits(tiny, tokens);
  TinyModel masked = tiny;
  for (TinyTensor& t : masked.tensors) {
    t.name.insert(0, "bert.");
    for (const auto& [now, old] : {std::pair<std::string, std::string>{"LayerNorm.weight", "LayerNorm.gamma"}, {"LayerNorm.bias", "LayerNorm.beta"}}) {
      if (t.name.ends_with(now)) t.name.replace(t.name.size() - now.size(), now.size(), old);
    }
  }
  masked.tensors.push_back({"cls.predictions.bias", "", {37}, std::vector<float>(37)});
  masked.tensors.push_back({"bert.pooler.dense.weight", "", {2, 2}, {1, 2, 3, 4}});
  masked.tensors.push_back({"bert.embeddings.position_ids", "", {1, 2}, {0, 1}});
  masked.config["architectures"] = {"BertForMaskedLM"};
  CHECK(folder_logits(masked, tokens) == states);
  masked.tensors.push_back({"bert.crossattention.weight", "", {1}, {1}});
  has(error_of([&] { (void)folder_logits(masked, tokens); }), "crossattention.weight: expected no such tensor");

  // A decoder that was saved without its head: Qwen3-Embedding.
  TinyModel decoder{.arch = &archs::qwen3, .tied = true};
  decoder.make();
  const std::vector<float> logits = folder_logits(decoder, tokens);
  TinyModel alone = decoder;
  for (TinyTensor& t : alone.tensors) t.name.erase(0, std::string("model.").size());
  CHECK(folder_logits(alone, tokens) == logits);
}

TEST_CASE("encoders say what they are not for in one line") {
  TinyModel tiny{.arch = &archs::bert};
  tiny.make();
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  const Model model = Model::load(folder / "hf");
  Session session(model);
  has(error_of([&] { session.prefill(some_tokens(4)); }), "logits: expected a model that makes some, found one of type bert, which makes embeddings: see embed()");
  has(error_of([&] { (void)session.stream(some_tokens(4)); }), "expected a model that makes some");
  has(error_of([&] { (void)perplexity(model, "abc abc abc", {.context = 8}); }), "expected a model that makes some");
  Engine engine(model);
  has(error_of([&] { (void)rerank(engine, "a", std::vector<std::string>{"b"}); }), "rerank: expected a model with a classifier, found one of type bert");
  // A sequence comes at once.
  session.states(some_tokens(4), [](std::int64_t, std::span<const float>) {});
  has(error_of([&] { session.states(some_tokens(2), [](std::int64_t, std::span<const float>) {}); }), "expected a sequence at once");
  has(error_of([&] { session.remove(1, 2); }), "remove: expected a model whose tokens see those before them alone, found one of type bert");
  CHECK(session.tokens().size() == 4);
  has(error_of([&] { Engine longer(model, {.context = 65}); }), "context: expected at most the 64 tokens that the model has learned positions of, found 65");
  has(error_of([&] { (void)embed(engine, std::vector<std::vector<TokenId>>{some_tokens(3), {}}); }), "embed: expected at least one token, found none in text 1");
  std::vector<std::uint8_t> types(4, 2);
  nn::SequenceState state = engine.new_state();
  const auto ids = some_tokens(4);
  const std::vector<Engine::Sequence> odd{{.tokens = ids, .state = &state, .types = types}};
  has(error_of([&] { engine.run(odd, [](std::int64_t, std::int64_t, std::span<const float>) {}, [](std::int64_t) { return true; }, PassOutput::state); }), "token types: expected one below 2");
}

TEST_CASE("configs of encoders that cannot be are refused by key") {
  struct Case {
    const ArchSpec* arch;
    const char* members;
    const char* words;
  };
  for (const Case& c : {Case{&archs::bert, R"({"is_decoder":true})", "is_decoder: expected false of a model of type bert, found true"},
                        Case{&archs::bert, R"({"position_embedding_type":"relative_key"})", "position_embedding_type: expected absolute, found relative_key"},
                        Case{&archs::roberta, R"({"pad_token_id":0})", "pad_token_id: expected 1 of a model of type roberta, found 0"},
                        Case{&archs::roberta, R"({"max_position_embeddings":2})", "max_position_embeddings: expected more than 2, found 2"},
                        Case{&archs::nomic_bert, R"({"prenorm":true})", "prenorm: expected false"}, Case{&archs::nomic_bert, R"({"rotary_emb_fraction":0.5})", "rotary_emb_fraction: expected 1"},
                        Case{&archs::nomic_bert, R"({"moe_every_n_layers":2})", "moe_every_n_layers: expected 0"}, Case{&archs::modernbert, R"({"attention_bias":true})", "attention_bias: expected false"},
                        Case{&archs::electra, R"({"embedding_size":16})", "embedding_size: expected the 36 of hidden_size, found 16"}, Case{&archs::ernie, R"({"use_task_id":true})", "use_task_id: expected false"},
                        Case{&archs::mpnet, R"({"pad_token_id":0})", "pad_token_id: expected 1"}, Case{&archs::mpnet, R"({"relative_attention_num_buckets":30})", "relative_attention_num_buckets: expected a multiple of 4"},
                        Case{&archs::eurobert, R"({"attention_bias":true})", "attention_bias: expected false"}, Case{&archs::gemma_embedding, R"({"use_bidirectional_attention":"text"})", "use_bidirectional_attention: expected false of a model of type gemma3_text, found \"text\""}}) {
    CAPTURE(std::string(c.members));
    TinyModel tiny{.arch = c.arch};
    tiny.make();
    const Json changes = Json::parse(c.members, "test");
    for (const auto& [key, value] : changes.items()) tiny.config[key] = value;
    has(error_of([&] { (void)parse_hf_config(tiny.config.dump(), "config.json"); }), c.words);
  }
  TinyModel tiny{.arch = &archs::bert};
  tiny.make();
  const TemporaryFolder folder;
  const auto gguf_error = [&](auto&& keys) {
    tiny.more_keys = keys;
    tiny.write_gguf(folder / "m.gguf");
    return error_of([&] { (void)Checkpoint::open(folder / "m.gguf"); });
  };
  has(gguf_error([](GgufBuilder& b) { b.key("bert.pooling_type", std::uint32_t{9}); }), "bert.pooling_type: expected 0 (none), 1 (mean), 2 (cls), 3 (last) or 4 (rank), found 9");
  TinyModel modern{.arch = &archs::modernbert, .labels = 1};
  modern.make();
  modern.write_gguf(folder / "modern.gguf");
  CHECK(Checkpoint::open(folder / "modern.gguf").config().usual_pooling() == Pooling::mean);  // which llama.cpp takes
  modern.more_keys = [](GgufBuilder& b) { b.key("modern-bert.classifier.pooling_type", std::uint32_t{4}); };
  modern.write_gguf(folder / "modern.gguf");
  has(error_of([&] { (void)Checkpoint::open(folder / "modern.gguf"); }), "modern-bert.classifier.pooling_type: expected 0 (none), 1 (mean), 2 (cls) or 3 (last), found 4");
  TinyModel causal;
  causal.make();
  causal.more_keys = [](GgufBuilder& b) { b.key("llama.attention.causal", false); };
  causal.write_gguf(folder / "causal.gguf");
  has(error_of([&] { (void)Checkpoint::open(folder / "causal.gguf"); }), "llama.attention.causal: expected true");
}

TEST_CASE("published configs of encoders are read") {
  // answerdotai/ModernBERT-base, without what does not matter.
  const ModelConfig modern = parse_hf_config(R"({"architectures":["ModernBertForMaskedLM"],"classifier_pooling":"mean","global_attn_every_n_layers":3,"global_rope_theta":160000.0,
    "hidden_activation":"gelu","hidden_size":768,"intermediate_size":1152,"local_attention":128,"local_rope_theta":10000.0,"max_position_embeddings":8192,"mlp_bias":false,
    "attention_bias":false,"model_type":"modernbert","norm_bias":false,"norm_eps":1e-05,"num_attention_heads":12,"num_hidden_layers":22,"vocab_size":50368,"tie_word_embeddings":true})", "config.json");
  CHECK(modern.gate == ops::Gate::gelu_erf);
  CHECK_FALSE(modern.has_head);
  CHECK_FALSE(modern.pooling.has_value());  // a classifier's
  REQUIRE(modern.local_rope);
  CHECK(modern.rope.base == 160000);
  CHECK(modern.local_rope->base == 10000);
  for (std::int64_t i = 0; i < modern.layers; ++i) CHECK(modern.window_of(i) == (i % 3 == 0 ? 0 : 128));
  // As newer versions of transformers write it.
  const ModelConfig newer = parse_hf_config(R"({"architectures":["ModernBertModel"],"hidden_activation":"silu","hidden_size":384,"intermediate_size":1536,"local_attention":128,
    "layer_types":["full_attention","sliding_attention","sliding_attention"],"rope_parameters":{"full_attention":{"rope_type":"default","rope_theta":80000.0},
    "sliding_attention":{"rope_type":"default","rope_theta":9000.0}},"max_position_embeddings":8192,"model_type":"modernbert","num_attention_heads":6,"num_hidden_layers":3,"vocab_size":180000})", "config.json");
  CHECK(newer.gate == ops::Gate::silu);
  CHECK(newer.rope.base == 80000);
  CHECK(newer.local_rope->base == 9000);
  // nomic-ai/nomic-embed-text-v1.5.
  const ModelConfig nomic = parse_hf_config(R"({"activation_function":"swiglu","architectures":["NomicBertModel"],"causal":false,"layer_norm_epsilon":1e-12,"max_trained_positions":2048,
    "mlp_fc1_bias":false,"mlp_fc2_bias":false,"model_type":"nomic_bert","n_embd":768,"n_head":12,"n_inner":3072,"n_layer":12,"n_positions":8192,"prenorm":false,"qkv_proj_bias":false,
    "rotary_emb_base":1000,"rotary_emb_fraction":1.0,"rotary_emb_interleaved":false,"rotary_emb_scale_base":null,"rotary_scaling_factor":null,"type_vocab_size":2,"use_rms_norm":false,
    "vocab_size":30528})", "config.json");
  CHECK(nomic.gate == ops::Gate::silu);
  CHECK(nomic.rope.base == 1000);
  CHECK(nomic.has_rope);
  // As transformers 5 writes it.
  const ModelConfig newer_nomic = parse_hf_config(R"({"architectures":["NomicBertModel"],"attention_probs_dropout_prob":0.0,"head_dim":64,"hidden_act":"silu","hidden_size":768,"intermediate_size":3072,
    "layer_norm_eps":1e-12,"max_position_embeddings":2048,"model_type":"nomic_bert","num_attention_heads":12,"num_hidden_layers":12,"pad_token_id":0,"rope_parameters":{"rope_theta":1000.0,"rope_type":"default"},
    "type_vocab_size":2,"vocab_size":30528})", "config.json");
  CHECK(newer_nomic.dim == 768);
  CHECK(newer_nomic.layers == 12);
  CHECK(newer_nomic.rope.base == 1000);
  CHECK(newer_nomic.context == 2048);
  // sentence-transformers/all-mpnet-base-v2.
  const ModelConfig mpnet = parse_hf_config(R"({"architectures":["MPNetForMaskedLM"],"attention_probs_dropout_prob":0.1,"bos_token_id":0,"eos_token_id":2,"hidden_act":"gelu","hidden_size":768,
    "intermediate_size":3072,"layer_norm_eps":1e-05,"max_position_embeddings":514,"model_type":"mpnet","num_attention_heads":12,"num_hidden_layers":12,"pad_token_id":1,
    "relative_attention_num_buckets":32,"vocab_size":30527})", "config.json");
  CHECK(mpnet.arch == &archs::mpnet);
  CHECK(mpnet.norm_eps == 1e-5);
  CHECK(mpnet.context == 512);
  CHECK(mpnet.relative_bias.buckets == 32);
  CHECK(mpnet.token_types == 0);
  CHECK(mpnet.scales.attention == 0);
  // distilbert/distilbert-base-uncased-finetuned-sst-2-english.
  const ModelConfig distilled = parse_hf_config(R"({"activation":"gelu","architectures":["DistilBertForSequenceClassification"],"dim":768,"hidden_dim":3072,"id2label":{"0":"NEGATIVE","1":"POSITIVE"},
    "max_position_embeddings":512,"model_type":"distilbert","n_heads":12,"n_layers":6,"pad_token_id":0,"sinusoidal_pos_embds":false,"tie_weights_":true,"vocab_size":30522})", "config.json");
  CHECK(distilled.labels == 2);
  CHECK(distilled.norm_eps == 1e-12);
  CHECK(distilled.gate == ops::Gate::gelu_erf);
  CHECK(distilled.ffn == 3072);
  // google/embeddinggemma-300m.
  const ModelConfig gemma = parse_hf_config(R"({"_sliding_window_pattern":6,"architectures":["Gemma3TextModel"],"attention_bias":false,"attn_logit_softcapping":null,"final_logit_softcapping":null,"head_dim":256,
    "hidden_activation":"gelu_pytorch_tanh","hidden_size":768,"intermediate_size":1152,"layer_types":["sliding_attention","sliding_attention","sliding_attention","sliding_attention","sliding_attention","full_attention"],
    "max_position_embeddings":2048,"model_type":"gemma3_text","num_attention_heads":3,"num_hidden_layers":6,"num_key_value_heads":1,"query_pre_attn_scalar":256,"rms_norm_eps":1e-06,
    "rope_local_base_freq":10000.0,"rope_scaling":null,"rope_theta":1000000.0,"sliding_window":512,"use_bidirectional_attention":true,"vocab_size":262144})", "config.json");
  CHECK(gemma.arch == &archs::gemma_embedding);
  CHECK_FALSE(gemma.has_head);
  CHECK(gemma.window_of(0) == 512);
  CHECK(gemma.window_of(5) == 0);
  CHECK(gemma.local_rope->base == 10000);
  // intfloat/e5-mistral-7b-instruct.
  const ModelConfig e5 = parse_hf_config(R"({"architectures":["MistralModel"],"bos_token_id":1,"eos_token_id":2,"hidden_act":"silu","hidden_size":4096,"intermediate_size":14336,"max_position_embeddings":32768,
    "model_type":"mistral","num_attention_heads":32,"num_hidden_layers":32,"num_key_value_heads":8,"rms_norm_eps":1e-05,"rope_theta":10000.0,"sliding_window":4096,"tie_word_embeddings":false,"vocab_size":32000})", "config.json");
  CHECK(e5.arch == &archs::mistral);
  CHECK_FALSE(e5.has_head);
  // Skywork/Skywork-Reward-Llama-3.1-8B-v0.2.
  const ModelConfig reward = parse_hf_config(R"({"architectures":["LlamaForSequenceClassification"],"hidden_act":"silu","hidden_size":4096,"id2label":{"0":"LABEL_0"},"intermediate_size":14336,"max_position_embeddings":131072,
    "model_type":"llama","num_attention_heads":32,"num_hidden_layers":32,"num_key_value_heads":8,"rms_norm_eps":1e-05,"rope_theta":500000.0,"tie_word_embeddings":false,"vocab_size":128256})", "config.json");
  CHECK(reward.labels == 1);
  CHECK_FALSE(reward.has_head);
  CHECK(reward.usual_pooling() == Pooling::last);
  // BAAI/bge-reranker-v2-m3.
  const ModelConfig bge = parse_hf_config(R"({"architectures":["XLMRobertaForSequenceClassification"],"hidden_act":"gelu","hidden_size":1024,"id2label":{"0":"LABEL_0"},"intermediate_size":4096,
    "layer_norm_eps":1e-05,"max_position_embeddings":8194,"model_type":"xlm-roberta","num_attention_heads":16,"num_hidden_layers":24,"pad_token_id":1,"position_embedding_type":"absolute",
    "type_vocab_size":1,"vocab_size":250002})", "config.json");
  CHECK(bge.context == 8192);
  CHECK(bge.positions() == 8194);
  CHECK_FALSE(bge.has_rope);
}

TEST_CASE("folders of sentence-transformers say what stands for a text, and native and GGUF files keep it") {
  for (const Pooling pooling : poolings) {
    CAPTURE(std::string(name_of(pooling)));
    TinyModel tiny{.arch = &archs::bert};
    tiny.make();
    const TemporaryFolder folder;
    tiny.write_folder(folder / "hf");
    std::filesystem::create_directories(folder / "hf" / "1_Pooling");
    write_file(folder / "hf" / "modules.json", R"([{"idx":0,"name":"0","path":"","type":"sentence_transformers.models.Transformer"},
      {"idx":1,"name":"1","path":"1_Pooling","type":"sentence_transformers.models.Pooling"}])");
    const auto flag = [&](Pooling p) { return std::string(p == pooling ? "true" : "false"); };
    write_file(folder / "hf" / "1_Pooling" / "config.json", "{\"word_embedding_dimension\":36,\"pooling_mode_cls_token\":" + flag(Pooling::cls) + ",\"pooling_mode_mean_tokens\":" + flag(Pooling::mean) +
                                                               ",\"pooling_mode_lasttoken\":" + flag(Pooling::last) + ",\"pooling_mode_max_tokens\":false,\"include_prompt\":true}");
    const Model model = Model::load(folder / "hf");
    CHECK(model.config().pooling == pooling);
    CHECK(model.config().normalizes == false);
    model.save(folder / "m.bantam");
    const Model native = Model::load(folder / "m.bantam");
    CHECK(native.config().pooling == pooling);
    CHECK(native.config().normalizes == false);
    const auto tokens = some_tokens(11);
    const std::vector<double> expected = pooled(tiny.reference().logits(tokens), tiny.dim, pooling);
    for (const Model& m : {model, native}) {
      Engine engine(m);
      const Tensor<float, 2> found = embed(engine, one(tokens));
      CHECK(distance({found.span().begin(), found.span().end()}, expected) < family_tolerance);
    }
    for (const Target target : {Target::safetensors, Target::gguf}) {
      const std::filesystem::path out = folder / (target == Target::gguf ? "out.gguf" : "out");
      (void)compress_file(Checkpoint::open(folder / "hf"), out, recipe::rtn("f32"), target);
      CHECK(Checkpoint::open(out).config().pooling == pooling);
    }
  }
}

TEST_CASE("layers behind pooling are read, from every container, and written to each that has words for them") {
  struct Case {
    const ArchSpec* arch;
    std::vector<PooledLayer> layers;
  };
  const Case cases[] = {{&archs::gemma_embedding, {{52, false, false}, {36, false, false}}}, {&archs::t5_encoder, {{28, false, false}}}, {&archs::bert, {{30, true, true}}}, {&archs::bert, {{52, true, true}, {20, false, true}}}};
  for (const Case& c : cases) {
    CAPTURE(std::string(c.arch->name));
    CAPTURE(c.layers.size());
    TinyModel tiny{.arch = c.arch, .pooling = Pooling::mean, .pooled_layers = c.layers};
    tiny.make();
    const bool said = !c.layers[0].has_bias && !c.layers[0].is_tanh;
    const TemporaryFolder folder;
    tiny.write_folder(folder / "hf");
    const auto tokens = some_tokens(11);
    const reference::Transformer reference = tiny.reference();
    const std::vector<double> mean = pooled(reference.logits(tokens), tiny.dim, Pooling::mean), expected = reference.behind_pooling(mean, c.layers[0].is_tanh);
    std::vector<Model> models{Model::load(folder / "hf")};
    models[0].save(folder / "m.bantam");
    models.push_back(Model::load(folder / "m.bantam"));
    (void)compress_file(Checkpoint::open(folder / "hf"), folder / "again", recipe::rtn("f32"), Target::safetensors);
    models.push_back(Model::load(folder / "again"));
    const auto to_gguf = [&] { (void)compress_file(Checkpoint::open(folder / "hf"), folder / "again.gguf", recipe::rtn("f32"), Target::gguf); };
    if (said) {
      tiny.write_gguf(folder / "m.gguf");
      models.push_back(Model::load(folder / "m.gguf"));
      to_gguf();
      models.push_back(Model::load(folder / "again.gguf"));
    } else {
      has(error_of(to_gguf), "layers behind pooling with a bias or a tanh: GGUF has no words for it");
    }
    for (const Model& model : models) {
      CHECK(model.config().pooled_layers == c.layers);
      REQUIRE(model.config().embedding_dim() == c.layers.back().outputs);
      Engine engine(model, {.threads = 2});
      const Tensor<float, 2> found = embed(engine, one(tokens), {.normalize = false});
      REQUIRE(found.extent(1) == c.layers.back().outputs);
      CHECK(distance({found.span().begin(), found.span().end()}, expected) < family_tolerance);
      Session session(model);
      CHECK(std::ranges::equal(embed(session, tokens, {.normalize = false}), found.span()));
      double squares = 0;
      const Tensor<float, 2> unit = embed(engine, one(tokens), {.normalize = true});
      for (const float x : unit.span()) squares += std::pow(static_cast<double>(x), 2);
      CHECK(squares == doctest::Approx(1).epsilon(1e-6));
    }
  }
}

TEST_CASE("what layers behind pooling say wrongly is said in one line") {
  TinyModel tiny{.arch = &archs::gemma_embedding, .pooling = Pooling::mean, .pooled_layers = {{52, false, false}, {36, false, false}}};
  tiny.make();
  const TemporaryFolder folder;
  const auto error = [&](const std::string& name, const std::string& text) {
    tiny.write_folder(folder / "hf");
    write_file(folder / "hf" / name, text);
    return error_of([&] { (void)Checkpoint::open(folder / "hf"); });
  };
  const std::string dense = "2_Dense/config.json";
  has(error(dense, "[]"), "2_Dense/config.json: expected a JSON object");
  has(error(dense, R"({"out_features":52,"bias":false,"activation_function":"torch.nn.modules.activation.ReLU"})"), "activation_function: expected Identity or Tanh");
  for (const char* outputs : {"0", "-1", "1.5", "99999999", "null"}) has(error(dense, message(R"({"out_features":)", outputs, "}")), "out_features: expected a whole number from 1 to 65536");
  has(error(dense, R"({"out_features":52,"bias":3})"), "bias: expected true or false, found 3");
  has(error(dense, R"({"out_features":50,"bias":false,"activation_function":"x.Identity"})"), "2_Dense.linear.weight: expected");
  has(error(dense, R"({"out_features":52,"bias":true,"activation_function":"x.Identity"})"), "expected tensor 2_Dense.linear.bias");
  const auto module = [](std::string_view path, std::string_view type) { return message(R"({"path":")", path, R"(","type":"sentence_transformers.models.)", type, R"("})"); };
  has(error("modules.json", message("[", module("2_Dense", "Dense"), ",", module("1_Pooling", "Pooling"), "]")), "expected Dense between Pooling and Normalize, found it elsewhere");
  has(error("modules.json", message("[", module("1_Pooling", "Pooling"), ",", module("2_Normalize", "Normalize"), ",", module("2_Dense", "Dense"), "]")), "expected Dense between Pooling and Normalize");
  has(error("modules.json", message("[", module("1_Pooling", "Pooling"), ",", module("2_Dense", "Dense"), ",", module("3_Dense", "Dense"), ",", module("2_Dense", "Dense"), "]")), "expected up to 2 modules Dense");
  has(error("modules.json", message("[", module("1_Pooling", "Pooling"), ",", module("../2_Dense", "Dense"), "]")), "path: expected the name of a folder beside the file");
  std::filesystem::remove(folder / "hf" / "3_Dense" / "model.safetensors");
  std::filesystem::remove(folder / "hf" / "modules.json");
  tiny.write_folder(folder / "hf");
  std::filesystem::remove(folder / "hf" / "3_Dense" / "model.safetensors");
  has(error_of([&] { (void)Checkpoint::open(folder / "hf"); }), "3_Dense");
  // In native files.
  Json config = Json::parse(tiny.config.dump(), "test");
  for (const char* layers : {"3", "[1]", R"([{"outputs":0,"bias":false,"tanh":false}])", R"([{"outputs":4,"bias":1,"tanh":false}])", R"([{"outputs":4,"bias":true}])"}) {
    config["bantam_pooled_layers"] = Json::parse(layers, "test");
    has(error_of([&] { (void)parse_hf_config(config.dump(), "config.json"); }), "bantam_pooled_layers: expected up to 2 layers");
  }
  tiny.more_keys = [](GgufBuilder& b) { b.key("gemma-embedding.dense_2_feat_out", std::uint32_t{0}); };
  TinyModel plain{.arch = &archs::gemma_embedding};
  plain.make();
  plain.more_keys = tiny.more_keys;
  plain.write_gguf(folder / "m.gguf");
  CHECK(Checkpoint::open(folder / "m.gguf").config().pooled_layers.empty());  // of which there is no tensor
}

TEST_CASE("what folders of sentence-transformers say wrongly is said in one line") {
  TinyModel tiny{.arch = &archs::bert};
  tiny.make();
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  std::filesystem::create_directories(folder / "hf" / "1_Pooling");
  const auto error = [&](const std::string& modules, const std::string& config) {
    write_file(folder / "hf" / "modules.json", modules);
    write_file(folder / "hf" / "1_Pooling" / "config.json", config);
    return error_of([&] { (void)Checkpoint::open(folder / "hf"); });
  };
  const std::string pooling = R"([{"path":"1_Pooling","type":"sentence_transformers.models.Pooling"}])";
  has(error("{}", "{}"), "modules.json: expected a list of up to 16 modules, found object");
  has(error("[1]", "{}"), "modules.json: expected modules Transformer, Pooling, Dense and Normalize, found one without a type");
  has(error(R"([{"path":"2_LSTM","type":"sentence_transformers.models.LSTM"}])", "{}"), "found sentence_transformers.models.LSTM");
  for (const char* path : {"../../etc", "..", "a/b", ""}) has(error(message(R"([{"path":")", path, R"(","type":"x.Pooling"}])"), "{}"), "path: expected the name of a folder beside the file");
  has(error(R"([{"path":7,"type":"x.Pooling"}])", "{}"), "modules.json");
  has(error(pooling, "[]"), "1_Pooling/config.json: expected a JSON object");
  has(error(pooling, "{}"), "expected a kind of pooling");
  has(error(pooling, R"({"pooling_mode_max_tokens":true})"), "pooling_mode_max_tokens: expected pooling by cls_token, mean_tokens or lasttoken");
  has(error(pooling, R"({"pooling_mode_cls_token":true,"pooling_mode_mean_tokens":true})"), "expected one kind of pooling, found cls and mean");
  has(error(pooling, R"({"pooling_mode_cls_token":1})"), "pooling_mode_cls_token: expected true or false, found 1");
  has(error(pooling, R"({"word_embedding_dimension":35,"pooling_mode_cls_token":true})"), "word_embedding_dimension: expected the model's 36, found 35");
  has(error(pooling, R"({"pooling_mode":"max"})"), "pooling_mode: expected mean, cls or lasttoken, found \"max\"");
  write_file(folder / "hf" / "1_Pooling" / "config.json", R"({"pooling_mode":"lasttoken"})");
  CHECK(Checkpoint::open(folder / "hf").config().pooling == Pooling::last);
}

}  // namespace
}  // namespace bantam::test
