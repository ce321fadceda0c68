// Adapters of every architecture: while a model runs and merged, from both kinds of files, against double precision.
#include "bantam/model/residency.hpp"
#include "limits.hpp"
#include "tiny_adapter.hpp"

namespace bantam::test {
namespace {

/// Of f32 sums in a few layers; logits are of size 1.
constexpr double adapter_tolerance = 1e-4;

/// Logits after each token, with adapters, of encoders the states; read `at_once` by `at_once`.
std::vector<float> adapted_logits(const Model& model, std::vector<ScaledAdapter> adapters, const std::vector<TokenId>& tokens, int threads = 2, std::size_t at_once = 1000) {
  Session session(model, {.threads = threads, .kv = "f32", .adapters = std::move(adapters)});
  std::vector<float> all;
  const auto take = [&](std::int64_t, std::span<const float> values) { all.insert(all.end(), values.begin(), values.end()); };
  if (!model.config().arch->causal) at_once = tokens.size();
  auto read = std::span(tokens);
  if (model.config().has_source()) {
    session.prefill(tokens);
    take(0, session.logits());
    read = read.first(tokens.size() - 1);  // as logits_of()
  }
  for (std::size_t first = 0; first < read.size(); first += at_once) {
    const auto part = read.subspan(first, std::min(at_once, read.size() - first));
    model.config().has_head ? session.score(part, take) : session.states(part, take);
  }
  return all;
}

/// Matrices of a model that adapters may change, those of heads one by one.
std::int64_t adapted_matrices(const TinyModel& tiny) {
  std::int64_t count = 0;
  for (const TinyTensor& t : tiny.tensors) {
    const RoleInfo& info = info_of(t.own.role);
    if (t.own.layer >= tiny.sizes.layers || !info.is_adaptable() || info.is_looked_up()) continue;
    count += info.by_heads ? tiny.heads : 1;
  }
  return count;
}

TEST_CASE("adapters change every architecture's logits as the reference's, from both kinds of files") {
  for (const ArchSpec* arch : architectures) {
    CAPTURE(std::string(arch->name));
    TinyModel tiny{.arch = arch};
    tiny.make();
    TinyAdapter made{.model = tiny};
    made.make(5);
    const TemporaryFolder folder;
    tiny.write_folder(folder / "hf");
    made.write_folder(folder / "peft");
    const Model model = Model::load(folder / "hf");
    const Adapter adapter = Adapter::load(folder / "peft", model.config());
    CHECK(std::ssize(adapter.matrices()) == adapted_matrices(tiny));
    const auto tokens = some_tokens();
    const std::vector<float> logits = adapted_logits(model, {{adapter, 0.7F}}, tokens);
    reference::Transformer reference = tiny.reference();
    CHECK(distance(logits, reference.logits(tokens)) > 100 * adapter_tolerance);
    made.add_to(reference, 0.7);
    CHECK(distance(logits, reference.logits(tokens)) < adapter_tolerance);

    CHECK(made.has_gguf());
    made.write_gguf(folder / "lora.gguf");
    tiny.write_gguf(folder / "m.gguf");
    if (arch->folds_scales) {
      // An adapter is of weights with the model's scales, or without.
      has(error_of([&] { (void)Adapter::load(folder / "lora.gguf", model.config()); }), "found a model with scales in its config (a folder)");
      has(error_of([&] { (void)Adapter::load(folder / "peft", Model::load(folder / "m.gguf").config()); }), "found one with scales in its weights (a GGUF file)");
      continue;
    }
    const Adapter gguf = Adapter::load(folder / "lora.gguf", model.config());
    CHECK(gguf.fingerprint() == adapter.fingerprint());
    CHECK(adapted_logits(model, {{gguf, 0.7F}}, tokens) == logits);
    // Whatever container the model came in.
    CHECK(adapted_logits(Model::load(folder / "m.gguf"), {{adapter, 0.7F}}, tokens) == logits);
  }
}

TEST_CASE("merged adapters are those that a model runs with") {
  for (const ArchSpec* arch : architectures_by_parts()) {
    CAPTURE(std::string(arch->name));
    TinyModel tiny{.arch = arch};
    tiny.make();
    TinyAdapter made{.model = tiny}, other{.model = tiny, .rank = 2, .alpha = 1};
    made.make(6);
    other.make(7);
    const TemporaryFolder folder;
    tiny.write_folder(folder / "hf");
    made.write_folder(folder / "made");
    other.write_folder(folder / "other");
    made.write_gguf(folder / "made.gguf");
    const Checkpoint checkpoint = Checkpoint::open(folder / "hf");
    const auto merge = [&](const char* name) {
      const std::vector<ScaledAdapter> both{{Adapter::load(folder / name, checkpoint.config()), 0.5F}, {Adapter::load(folder / "other", checkpoint.config()), -0.25F}};
      return Model::from_checkpoint(checkpoint.merged(both));
    };
    const auto tokens = some_tokens();
    const Model model = merge("made");
    const std::vector<float> logits = logits_of(model, tokens);
    reference::Transformer reference = tiny.reference();
    made.add_to(reference, 0.5);
    other.add_to(reference, -0.25);
    CHECK(distance(logits, reference.logits(tokens)) < adapter_tolerance);
    if (!arch->folds_scales) CHECK(logits_of(merge("made.gguf"), tokens) == logits);
    // Of a model in memory, too: what was added goes again.
    const std::vector<ScaledAdapter> back{{Adapter::load(folder / "other", checkpoint.config()), 0.25F}};
    other.add_to(reference, 0.25);
    CHECK(distance(logits_of(Model::from_checkpoint(model.checkpoint().merged(back)), tokens), reference.logits(tokens)) < adapter_tolerance);
  }
}

TEST_CASE("sequences of a pass have adapters of their own, and results of their own, bit for bit") {
  for (const ArchSpec* arch : {&archs::llama, &archs::phi3, &archs::qwen3_5, &archs::deepseek_v3, &archs::gemma4, &archs::mixtral, &archs::nemotron_h_moe}) {
    CAPTURE(std::string(arch->name));
    TinyModel tiny{.arch = arch};
    tiny.make();
    const TemporaryFolder folder;
    tiny.write_folder(folder / "hf");
    const Model model = Model::load(folder / "hf");
    std::vector<Adapter> adapters;
    for (const std::int64_t rank : {1, 3, 40}) {
      TinyAdapter made{.model = tiny, .rank = rank};
      made.make(static_cast<std::uint64_t>(rank)).write_folder(folder / message(rank));
      adapters.push_back(Adapter::load(folder / message(rank), model.config()));
    }
    const std::vector<std::vector<ScaledAdapter>> sets{{}, {{adapters[0], 1}}, {{adapters[1], 0.5F}, {adapters[2], 2}}, {{adapters[1], 0.5F}, {adapters[2], 2}}, {{adapters[2], -1}}, {}};
    const auto tokens = some_tokens(40);
    for (const int threads : {1, 3}) {
      Engine engine(model, {.threads = threads});
      std::vector<nn::SequenceState> states;
      std::vector<Engine::Sequence> sequences;
      for (std::size_t i = 0; i < sets.size(); ++i) states.push_back(engine.new_state("f32"));
      for (std::size_t i = 0; i < sets.size(); ++i) sequences.push_back({.tokens = std::span(tokens).first(tokens.size() - i), .state = &states[i], .adapters = sets[i]});
      std::vector<std::vector<float>> found(sets.size());
      engine.run(sequences, [&](std::int64_t s, std::int64_t, std::span<const float> row) { found[static_cast<std::size_t>(s)].insert(found[static_cast<std::size_t>(s)].end(), row.begin(), row.end()); },
                 [](std::int64_t) { return true; });
      for (std::size_t i = 0; i < sets.size(); ++i) {
        CAPTURE(i);
        const std::vector<TokenId> own(tokens.begin(), tokens.end() - static_cast<std::ptrdiff_t>(i));
        for (const std::size_t at_once : {std::size_t{1}, std::size_t{7}, std::size_t{1000}}) CHECK(adapted_logits(model, sets[i], own, 2, at_once) == found[i]);
      }
      CHECK(found[0] == logits_of(model, tokens));
    }
  }
}

TEST_CASE("several adapters add up, and none at scale 0") {
  TinyModel tiny;
  tiny.make();
  TinyAdapter one{.model = tiny}, two{.model = tiny, .rank = 7, .alpha = 7};
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  one.make(1).write_folder(folder / "one");
  two.make(2).write_folder(folder / "two");
  const Model model = Model::load(folder / "hf");
  const Adapter a = Adapter::load(folder / "one", model.config()), b = Adapter::load(folder / "two", model.config());
  const auto tokens = some_tokens();
  reference::Transformer reference = tiny.reference();
  one.add_to(reference, 1);
  two.add_to(reference, -0.5);
  CHECK(distance(adapted_logits(model, {{a, 1}, {b, -0.5F}}, tokens), reference.logits(tokens)) < adapter_tolerance);
  CHECK(adapted_logits(model, {{a, 0}, {b, 0}}, tokens) == logits_of(model, tokens));
}

TEST_CASE("halves hold the same changes as floats made of them") {
  for (const std::string type : {"F16", "BF16"}) {
    CAPTURE(type);
    TinyModel tiny;
    tiny.make();
    TinyAdapter made{.model = tiny, .rank = 5};
    made.make(3);
    for (TinyAdapter::Change& change : made.changes) {
      for (auto* values : {&change.a, &change.b}) {
        for (float& x : *values) x = type == "F16" ? float(f16(x)) : float(bf16(x));
      }
    }
    const TemporaryFolder folder;
    tiny.write_folder(folder / "hf");
    made.write_folder(folder / "half", type);
    made.write_folder(folder / "whole");
    const Model model = Model::load(folder / "hf");
    const Adapter half = Adapter::load(folder / "half", model.config()), whole = Adapter::load(folder / "whole", model.config());
    CHECK(half.matrices()[0].update.a.format().name == (type == "F16" ? "f16" : "bf16"));
    CHECK(half.bytes() < whole.bytes());
    const auto tokens = some_tokens();
    reference::Transformer reference = tiny.reference();
    made.add_to(reference);
    for (const Adapter& adapter : {half, whole}) CHECK(distance(adapted_logits(model, {{adapter}}, tokens), reference.logits(tokens)) < adapter_tolerance);
  }
}

TEST_CASE("adapters change rounded weights as they change the floats that these stand for") {
  TinyModel tiny{.dim = 64, .head_dim = 16, .ffn = 96};
  tiny.make();
  TinyAdapter made{.model = tiny};
  made.make(4);
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  made.write_folder(folder / "peft");
  const Model model = Model::load(folder / "hf");
  const auto [small, report] = compress(model, recipe::rtn("i8.g32"));
  const Adapter adapter = Adapter::load(folder / "peft", small.config());
  const auto tokens = some_tokens();
  const std::vector<float> floats = adapted_logits(model, {{adapter}}, tokens), rounded = adapted_logits(small, {{adapter}}, tokens), plain = logits_of(small, tokens);
  const auto apart = [](const std::vector<float>& x, const std::vector<float>& y) {
    float largest = 0;
    for (std::size_t i = 0; i < x.size(); ++i) largest = std::max(largest, std::fabs(x[i] - y[i]));
    return largest;
  };
  // Eight bits cost as much as without.
  CHECK(apart(floats, rounded) < 3 * apart(logits_of(model, tokens), plain));
  CHECK(apart(plain, rounded) > 5 * apart(floats, rounded));
}

TEST_CASE("alpha, rank and their exceptions are PEFT's") {
  TinyModel tiny;
  tiny.make();
  TinyAdapter made{.model = tiny, .rank = 4, .alpha = 10};
  made.make(8);
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  made.write_folder(folder / "peft");
  const Model model = Model::load(folder / "hf");
  const auto scale_of = [&](const Json& more, Role role, std::int64_t layer) {
    Json config = made.config();
    for (const auto& [key, value] : more.items()) config[key] = value;
    write_file(folder / "peft/adapter_config.json", config.dump());
    const Adapter adapter = Adapter::load(folder / "peft", model.config());
    const auto found = std::ranges::find(adapter.matrices(), TensorId(role, layer), &AdapterMatrix::id);
    REQUIRE(found != adapter.matrices().end());
    return found->update.scale;
  };
  CHECK(scale_of(Json::object(), Role::q, 0) == 2.5F);
  CHECK(scale_of({{"use_rslora", true}}, Role::q, 0) == 5.0F);
  const Json some = {{"alpha_pattern", {{"q_proj", 4}, {"layers.1.mlp.down_proj", 8.0}, {"^model.layers.0.self_attn.o_proj", 12}}}};
  CHECK(scale_of(some, Role::q, 1) == 1.0F);
  CHECK(scale_of(some, Role::k, 1) == 2.5F);
  CHECK(scale_of(some, Role::down, 0) == 2.5F);
  CHECK(scale_of(some, Role::down, 1) == 2.0F);
  CHECK(scale_of(some, Role::o, 0) == 3.0F);
  CHECK(scale_of({{"r", 16}, {"rank_pattern", {{"q_proj", 4}, {"k_proj", 4}, {"v_proj", 4}, {"o_proj", 4}, {"gate_proj", 4}, {"up_proj", 4}, {"down_proj", 4}, {"lm_head", 4}}}}, Role::q, 0) == 2.5F);
  CHECK(scale_of({{"fan_in_fan_out", true}}, Role::q, 0) == 2.5F);  // how weights of the base lay, not these
}

TEST_CASE("the adapter of a language model within a larger one is its own") {
  TinyModel tiny{.arch = &archs::gemma3};
  tiny.make();
  TinyAdapter made{.model = tiny};
  made.make(9);
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  made.write_folder(folder / "alone");
  const Model model = Model::load(folder / "hf");
  const std::uint64_t alone = Adapter::load(folder / "alone", model.config()).fingerprint();
  for (const std::string prefix : {"language_model.model.", "model.language_model."}) {
    made.write_folder(folder / "whole");
    std::vector<TinyTensor> all = made.folder_tensors();
    for (TinyTensor& t : all) {
      const std::string begin = "base_model.model.model.";
      if (t.name.starts_with(begin)) t.name = "base_model.model." + prefix + t.name.substr(begin.size());
    }
    TinyAdapter::write_tensors(folder / "whole", all);
    CHECK(Adapter::load(folder / "whole", model.config()).fingerprint() == alone);
    all.push_back({"base_model.model.vision_tower.layers.0.q_proj.lora_A.weight", "", {3, 4}, std::vector<float>(12)});
    TinyAdapter::write_tensors(folder / "whole", all);
    CHECK(error_of([&] { (void)Adapter::load(folder / "whole", model.config()); }).find("expected changes of the language model alone") != std::string::npos);
  }
}

TEST_CASE("a head that is the embedding may be changed while the model runs, not merged") {
  TinyModel tiny{.tied = true};
  tiny.make();
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  const Model model = Model::load(folder / "hf");
  TinyModel untied = tiny;
  untied.tensors.push_back(tiny.tensor("model.embed_tokens.weight"));
  TinyTensor& head = untied.tensors.back();
  head.own = {Role::head}, head.name = "lm_head.weight", head.gguf_name = "output.weight", head.reference_name = "lm_head.weight";
  TinyAdapter made{.model = untied};
  made.make(10).write_folder(folder / "peft");
  const Adapter adapter = Adapter::load(folder / "peft", model.config());
  reference::Transformer reference = untied.reference();
  made.add_to(reference);
  const auto tokens = some_tokens();
  CHECK(distance(adapted_logits(model, {{adapter}}, tokens), reference.logits(tokens)) < adapter_tolerance);
  const std::vector<ScaledAdapter> one{{adapter}};
  // Merged, it has a head of its own.
  const Model merged = Model::from_checkpoint(model.checkpoint().merged(one));
  CHECK_FALSE(merged.config().tied);
  CHECK(distance(logits_of(merged, tokens), reference.logits(tokens)) < adapter_tolerance);
}

/// A PEFT folder of some tensors, with more said in its config.
void write_peft(const std::filesystem::path& folder, const std::vector<TinyTensor>& tensors, const Json& more, const TinyAdapter& like) {
  std::filesystem::create_directories(folder);
  Json config = like.config();
  for (const auto& [key, value] : more.items()) config[key] = value;
  write_file(folder / "adapter_config.json", config.dump());
  TinyAdapter::write_tensors(folder, tensors);
}

TEST_CASE("DoRA's magnitudes are the lengths of merged rows, of matrices by themselves, in one and of experts") {
  for (const ArchSpec* arch : {&archs::llama, &archs::phi3, &archs::qwen3_moe, &archs::gpt2, &archs::bert}) {
    CAPTURE(std::string(arch->name));
    TinyModel tiny{.arch = arch};
    tiny.make();
    TinyAdapter made{.model = tiny};
    made.left_out = {Role::head, Role::router};
    made.make(15);
    const TemporaryFolder folder;
    tiny.write_folder(folder / "hf");
    std::vector<TinyTensor> tensors = made.folder_tensors();
    Random random(3);
    const std::size_t pairs = tensors.size();
    std::map<std::string, std::vector<float>> lengths;
    for (std::size_t i = 0; i < pairs; ++i) {
      const std::string& name = tensors[i].name;
      if (!name.ends_with(".lora_B.weight")) continue;
      TinyTensor magnitudes{name.substr(0, name.size() - std::string("lora_B.weight").size()) + "lora_magnitude_vector", "", {tensors[i].shape[0]}, {}};
      for (std::int64_t r = 0; r < tensors[i].shape[0]; ++r) magnitudes.values.push_back(static_cast<float>(1 + 0.3 * random.normal()));
      lengths[magnitudes.name] = magnitudes.values;
      tensors.push_back(std::move(magnitudes));
    }
    write_peft(folder / "peft", tensors, {{"use_dora", true}}, made);
    const Checkpoint checkpoint = Checkpoint::open(folder / "hf");
    has(error_of([&] { (void)Adapter::load(folder / "peft", checkpoint.config()); }), "use_dora: expected none, found true: such an adapter is merged (compress --merge-lora)");
    const std::vector<ScaledAdapter> one{{Adapter::load(folder / "peft", checkpoint.config(), AdapterUse::merge), 0.5F}};
    has(error_of([&] { one[0].adapter.check_fits(checkpoint.config()); }), "expected an adapter that runs beside a model, found one that is merged");
    const Model model = Model::from_checkpoint(checkpoint.merged(one));
    reference::Transformer reference = tiny.reference();
    made.add_to(reference, 0.5);
    const auto tokens = some_tokens();
    CHECK(distance(logits_of(model, tokens), reference.logits(tokens)) > 100 * adapter_tolerance);
    for (const TinyAdapter::Change& change : made.changes) {
      const TinyTensor& t = *change.tensor;
      std::vector<float>& weights = reference.weights.at(t.reference_name.empty() ? t.name : t.reference_name);
      const std::int64_t columns = t.shape[1], rows = t.shape[0];
      // In a tensor of several the rows of one follow those of the others, with as many as they have.
      std::int64_t first = 0;
      std::string file = t.name;
      if (!t.fused_name.empty() && t.own.expert < 0) {
        file = t.fused_name;
        for (const TinyAdapter::Change& other : made.changes) {
          if (other.tensor->fused_name == t.fused_name && other.tensor->fused.part < t.fused.part) first += other.tensor->shape[0];
        }
      }
      const std::vector<float>& own = lengths.at("base_model.model." + file.substr(0, file.rfind(".weight")) + ".lora_magnitude_vector");
      for (std::int64_t r = 0; r < rows; ++r) {
        double squares = 0;
        for (std::int64_t c = 0; c < columns; ++c) squares += std::pow(static_cast<double>(weights[static_cast<std::size_t>(r * columns + c)]), 2);
        const double factor = static_cast<double>(own[static_cast<std::size_t>(first + r)]) / std::sqrt(squares);
        for (std::int64_t c = 0; c < columns; ++c) weights[static_cast<std::size_t>(r * columns + c)] = static_cast<float>(static_cast<double>(weights[static_cast<std::size_t>(r * columns + c)]) * factor);
      }
    }
    CHECK(distance(logits_of(model, tokens), reference.logits(tokens)) < adapter_tolerance);
    std::erase_if(tensors, [](const TinyTensor& t) { return t.name.ends_with("lora_magnitude_vector"); });
    write_peft(folder / "without", tensors, {{"use_dora", true}}, made);
    has(error_of([&] { (void)Adapter::load(folder / "without", checkpoint.config(), AdapterUse::merge); }), "lora_magnitude_vector, found none of that name");
  }
}

TEST_CASE("tables and heads that an adapter saves, changes or has tokens of are merged, apart from each other where they were one") {
  for (const bool tied : {false, true}) {
    CAPTURE(tied);
    TinyModel tiny{.tied = tied};
    tiny.make();
    const TemporaryFolder folder;
    tiny.write_folder(folder / "hf");
    const Checkpoint checkpoint = Checkpoint::open(folder / "hf");
    const TinyAdapter like{.model = tiny};
    const auto tokens = some_tokens();
    Random random(8);
    const auto tensor = [&](const std::string& name, std::vector<std::int64_t> shape) {
      TinyTensor t{"base_model.model." + name, "", shape, {}};
      std::int64_t count = 1;
      for (const std::int64_t extent : shape) count *= extent;
      for (std::int64_t i = 0; i < count; ++i) t.values.push_back(static_cast<float>(0.2 * random.normal()));
      return t;
    };
    int number = 0;
    const auto check = [&](const std::vector<TinyTensor>& tensors, const Json& more, const reference::Transformer& reference, const std::string& refused) {
      const std::filesystem::path peft = folder / message("peft", ++number);
      write_peft(peft, tensors, more, like);
      has(error_of([&] { (void)Adapter::load(peft, checkpoint.config()); }), refused);
      const std::vector<ScaledAdapter> one{{Adapter::load(peft, checkpoint.config(), AdapterUse::merge), 1}};
      const Model model = Model::from_checkpoint(checkpoint.merged(one));
      CHECK(distance(logits_of(model, tokens), tiny.reference().logits(tokens)) > 100 * adapter_tolerance);
      CHECK(distance(logits_of(model, tokens), reference.logits(tokens)) < adapter_tolerance);
      return model;
    };
    const auto apart = [&] {
      reference::Transformer r = tiny.reference();
      if (tied) r.weights["lm_head.weight"] = r.weights.at("model.embed_tokens.weight");
      return r;
    };
    {
      const TinyTensor head = tensor("lm_head.weight", {tiny.vocab, tiny.dim});
      reference::Transformer r = apart();
      r.weights["lm_head.weight"] = head.values;
      CHECK_FALSE(check({head}, {{"modules_to_save", {"lm_head"}}}, r, "modules_to_save: expected none, found [\"lm_head\"]: such an adapter is merged").config().tied);
    }
    {
      const TinyTensor a = tensor("model.embed_tokens.lora_embedding_A", {3, tiny.vocab}), b = tensor("model.embed_tokens.lora_embedding_B", {tiny.dim, 3});
      reference::Transformer r = apart();
      std::vector<float>& table = r.weights.at("model.embed_tokens.weight");
      for (std::int64_t v = 0; v < tiny.vocab; ++v) {
        for (std::int64_t c = 0; c < tiny.dim; ++c) {
          double sum = 0;
          for (std::int64_t i = 0; i < 3; ++i) sum += static_cast<double>(a.values[static_cast<std::size_t>(i * tiny.vocab + v)]) * static_cast<double>(b.values[static_cast<std::size_t>(c * 3 + i)]);
          float& x = table[static_cast<std::size_t>(v * tiny.dim + c)];
          x = static_cast<float>(static_cast<double>(x) + like.alpha / 3 * sum);
        }
      }
      check({a, b}, Json::object(), r, "embeddings not among them: such an adapter is merged");
    }
    {
      const TinyTensor rows = tensor("model.embed_tokens.token_adapter.trainable_tokens_delta", {2, tiny.dim});
      reference::Transformer r = tiny.reference();
      std::vector<float>& table = r.weights.at("model.embed_tokens.weight");
      for (std::int64_t i = 0; i < 2; ++i) std::copy_n(rows.values.begin() + i * tiny.dim, tiny.dim, table.begin() + (i == 0 ? 7 : 1) * tiny.dim);
      CHECK(check({rows}, {{"trainable_token_indices", {7, 1}}}, r, "trainable_token_indices: expected none").config().tied == tied);
      check({rows}, {{"trainable_token_indices", {{"embed_tokens", {7, 1}}}}}, r, "trainable_token_indices: expected none");
      const std::filesystem::path peft = folder / "wrong";
      const auto error = [&](const Json& tokens_of) {
        write_peft(peft, {rows}, {{"trainable_token_indices", tokens_of}}, like);
        return error_of([&] { (void)Adapter::load(peft, checkpoint.config(), AdapterUse::merge); });
      };
      has(error({7, 37}), "trainable_token_indices: expected tokens below 37, found 37");
      has(error({7}), "trainable_tokens_delta: expected");
      has(error({7, -1}), "trainable_token_indices: expected tokens, found -1");
      has(error({{"a", {1}}, {"b", {2}}}), "trainable_token_indices: expected tokens of one embedding");
    }
  }
}

TEST_CASE("other models' adapters are refused at every door") {
  TinyModel tiny{.arch = &archs::qwen3_moe}, other{.dim = 40};
  tiny.make();
  other.make();
  TinyAdapter made{.model = tiny};
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  other.write_folder(folder / "other");
  made.make(11).write_folder(folder / "peft");
  const Model model = Model::load(folder / "hf"), unlike = Model::load(folder / "other");
  const Adapter adapter = Adapter::load(folder / "peft", model.config());
  (void)Session(model, {.adapters = {{adapter}}});
  has(error_of([&] { Session session(unlike, {.adapters = {{adapter}}}); }), "in this model, found changes of one of");
  has(error_of([&] { Session(model).set_adapters({{adapter, NAN}}); }), "adapters: expected finite scales");
  Engine engine(unlike);
  nn::SequenceState state = engine.new_state();
  const std::vector<ScaledAdapter> one{{adapter}};
  has(error_of([&] { (void)unlike.checkpoint().merged(one); }), "in this model, found changes of one of");
  const auto tokens = some_tokens();
  const Engine::Sequence sequence{.tokens = tokens, .state = &state, .adapters = one};
  has(error_of([&] { engine.run({&sequence, 1}, [](std::int64_t, std::int64_t, std::span<const float>) {}, [](std::int64_t) { return true; }); }), "in this model, found changes of one of");
}

TEST_CASE("paths and scales are told apart") {
  const auto check = [](const char* text, const char* path, float scale) {
    CHECK(parse_adapter(text).path == path);
    CHECK(parse_adapter(text).scale == scale);
  };
  check("a/b", "a/b", 1);
  check("a/b:0.5", "a/b", 0.5F);
  check("a:b:-2", "a:b", -2);
  check("a:b", "a:b", 1);
  check("a:nan", "a:nan", 1);
  check("a:inf", "a:inf", 1);
  check(":2", ":2", 1);
  check("a:", "a:", 1);
}

TEST_CASE("a path that exists as it is written is one, whatever stands behind its colon") {
  const TemporaryFolder folder;
  const auto check = [&](const char* text, const char* path, float scale) {
    CHECK(parse_adapter((folder / text).string()).path == (folder / path).string());
    CHECK(parse_adapter((folder / text).string()).scale == scale);
  };
  check("a:2", "a", 2);
  write_file(folder / "a:2", "");
  check("a:2", "a:2", 1);
  check("a:2:3", "a:2", 3);
  std::filesystem::create_directory(folder / "b:1");
  check("b:1", "b:1", 1);
  check("b:1:0.5", "b:1", 0.5F);
}

TEST_CASE("adapters of models within a bound of memory give the bits of those in memory, merged ones too") {
  for (const ArchSpec* arch : few_architectures()) {
    CAPTURE(std::string(arch->name));
    TinyModel tiny{.arch = arch, .layers = 8, .experts = 16};
    tiny.make();
    TinyAdapter made{.model = tiny};
    made.make(12);
    const TemporaryFolder folder;
    tiny.write_folder(folder / "hf");
    made.write_folder(folder / "peft");
    const Checkpoint checkpoint = Checkpoint::open(folder / "hf");
    const Model whole = Model::from_checkpoint(checkpoint);
    const std::vector<ScaledAdapter> adapters{{Adapter::load(folder / "peft", checkpoint.config()), 0.7F}};
    const Checkpoint merged = checkpoint.merged(adapters);
    const auto tokens = some_tokens();
    const std::vector<float> expected = adapted_logits(whole, adapters, tokens), of_merged = logits_of(Model::from_checkpoint(merged), tokens);
    const std::int64_t least = residency_of(checkpoint, 0).least;
    for (const std::int64_t limit : {least, (least + whole.bytes()) / 2}) {
      if (quick() && limit != least) continue;
      CAPTURE(limit);
      const Model model = Model::from_checkpoint(checkpoint, {.memory_limit = limit});
      REQUIRE(model.residency() != nullptr);
      CHECK(adapted_logits(model, adapters, tokens) == expected);
      CHECK(adapted_logits(model, adapters, tokens, 1, 5) == expected);
      CHECK(logits_of(Model::from_checkpoint(model.checkpoint().merged(adapters)), tokens) == of_merged);
    }
    const Model streamed = Model::from_checkpoint(merged, {.memory_limit = residency_of(merged, 0).least});
    REQUIRE(streamed.residency() != nullptr);
    CHECK(logits_of(streamed, tokens) == of_merged);
  }
}

}  // namespace
}  // namespace bantam::test
