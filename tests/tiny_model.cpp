// Making and writing tiny models: once for all test programs.
#include "tiny_model.hpp"

#include <cmath>

#include "bantam/core/half.hpp"
#include "bantam/io/safetensors.hpp"

namespace bantam::test {

namespace {

/// Row i of half j of a head goes to 2 i + j.
std::vector<float> for_gguf(const TinyTensor& t) {
  if (t.permuted_heads == 0) return t.values;
  const std::int64_t rows = t.shape[0], d = rows / t.permuted_heads, columns = static_cast<std::int64_t>(t.values.size()) / rows;
  std::vector<float> out(t.values.size());
  for (std::int64_t h = 0; h < t.permuted_heads; ++h) {
    for (std::int64_t j = 0; j < 2; ++j) {
      for (std::int64_t i = 0; i < d / 2; ++i) {
        std::copy_n(t.values.begin() + (h * d + j * d / 2 + i) * columns, columns, out.begin() + (h * d + 2 * i + j) * columns);
      }
    }
  }
  return out;
}

/// What the reference calls a tensor: by the names of Llama, and of Qwen3 for what Llama lacks.
std::string reference_name(Role role, std::int64_t layer) {
  const TensorKey* key = archs::llama.find(role) != nullptr ? archs::llama.find(role) : archs::qwen3.find(role);
  return key == nullptr ? std::string() : layer_name(key->hf, layer);
}

}  // namespace

/// Nothing, where the architecture has no such tensor or may do without.
void TinyModel::add(Random& random, const RoleInfo& info, std::int64_t layer, const ModelConfig& sizes) {
  const TensorKey* key = arch->find(info.role);
  if (key == nullptr) return;
  const bool wanted = info.role == Role::head ? !tied : info.bias_of.has_value() && biases;
  if (key->presence == Presence::optional && !wanted) return;
  const auto [rows, columns] = shape_of(info.role, layer, sizes);
  TinyTensor t{layer_name(key->hf, layer), layer_name(key->gguf, layer), {columns}, {}, 0, reference_name(info.role, layer)};
  if (info.is_matrix()) t.shape.insert(t.shape.begin(), rows);
  if (arch->gguf_pairs == nn::RopePairs::adjacent) t.permuted_heads = rope_heads_of(info.role, layer, sizes);
  const double mean = info.is_matrix() || info.bias_of ? 0 : 1, spread = info.is_matrix() ? 1 / std::sqrt(static_cast<double>(columns)) : 0.3;
  for (std::int64_t i = 0; i < rows * columns; ++i) t.values.push_back(static_cast<float>(mean + spread * random.normal()));
  tensors.push_back(std::move(t));
}

TinyModel& TinyModel::make() {
  Random random(seed);
  ModelConfig sizes;
  sizes.dim = dim, sizes.heads = heads, sizes.kv_heads = kv_heads, sizes.head_dim = head_dim, sizes.vocab = vocab;
  sizes.set_layers(std::vector<LayerSpec>(static_cast<std::size_t>(layers), {.kv_heads = kv_heads, .ffn = ffn}));
  for (std::int64_t layer = -1; layer < layers; ++layer) {
    for (const RoleInfo& info : roles) {
      if (info.is_of_layer() == (layer >= 0)) add(random, info, layer, sizes);
    }
  }
  config = {{"architectures", {std::string(arch->hf_class)}}, {"model_type", std::string(arch->name)},
            {"hidden_size", dim}, {"num_hidden_layers", layers}, {"num_attention_heads", heads},
            {"num_key_value_heads", kv_heads}, {"head_dim", head_dim}, {"intermediate_size", ffn},
            {"vocab_size", vocab}, {"max_position_embeddings", context}, {"rms_norm_eps", 0.00001},
            {"rope_theta", 5000.0}, {"tie_word_embeddings", tied}};
  pieces = {"<unk>", "<s>", "</s>", "\xe2\x96\x81"};
  for (char c = 'a'; c <= 'z'; ++c) pieces.emplace_back(1, c);
  return *this;
}

void TinyModel::write_tokenizer(const std::filesystem::path& folder) const {
  Json vocabulary, added = Json::array();
  for (std::size_t i = 0; i < pieces.size(); ++i) vocabulary[pieces[i]] = i;
  for (int id = 0; id < 3; ++id) added.push_back({{"id", id}, {"content", pieces[static_cast<std::size_t>(id)]}, {"special", true}, {"normalized", false}});
  const Json json = {
      {"version", "1.0"}, {"added_tokens", added},
      {"normalizer", {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", pieces[3]}}},
      {"decoder", {{"type", "Replace"}, {"pattern", {{"String", pieces[3]}}}, {"content", " "}}},
      {"model", {{"type", "BPE"}, {"unk_token", "<unk>"}, {"fuse_unk", true}, {"vocab", vocabulary}, {"merges", Json::array()}}}};
  write_file(folder / "tokenizer.json", json.dump());
  write_file(folder / "tokenizer_config.json", R"({"bos_token":"<s>","eos_token":"</s>","unk_token":"<unk>","add_bos_token":true})");
}

void TinyModel::write_folder(const std::filesystem::path& folder, const std::string& type) const {
  std::filesystem::create_directories(folder);
  write_tokenizer(folder);
  write_file(folder / "config.json", config.dump(1));
  std::vector<SafetensorsWriter::Announced> announced;
  for (const TinyTensor& t : tensors) announced.push_back({t.name, type, t.shape});
  SafetensorsWriter writer(folder / "model.safetensors", announced, {{"format", "pt"}});
  for (const TinyTensor& t : tensors) {
    const std::string bytes = bytes_of(t.values, type);
    writer.write(std::as_bytes(std::span(bytes)));
  }
  writer.commit();
}

GgufBuilder TinyModel::gguf() const {
  const std::string name(arch->name);
  GgufBuilder b;
  b.key("general.architecture", name);
  const auto number = [&](const char* key, std::int64_t value) { b.key(name + "." + key, static_cast<std::uint32_t>(value)); };
  number("embedding_length", dim);
  number("block_count", layers);
  number("attention.head_count", heads);
  number("attention.head_count_kv", kv_heads);
  number("attention.key_length", head_dim);
  number("feed_forward_length", ffn);
  number("vocab_size", vocab);
  number("context_length", context);
  // What the file has room for is less exact than config.json: the nearest float.
  b.key(name + ".attention.layer_norm_rms_epsilon", 0.00001F).key(name + ".rope.freq_base", 5000.0F);
  put_vocabulary(b);
  if (more_keys) more_keys(b);
  put_tensors(b);
  return b;
}

void TinyModel::put_vocabulary(GgufBuilder& b) const {
  std::vector<float> scores;
  std::vector<std::int32_t> types;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    scores.push_back(-static_cast<float>(i));
    types.push_back(i == 0 ? 2 : i < 3 ? 3 : 1);
  }
  b.key("tokenizer.ggml.model", "llama").key("tokenizer.ggml.tokens", pieces).key("tokenizer.ggml.scores", scores);
  b.key("tokenizer.ggml.token_type", types).key("tokenizer.ggml.add_space_prefix", false);
}

void TinyModel::put_tensors(GgufBuilder& b) const {
  for (const TinyTensor& t : tensors) {
    if (t.gguf_name.empty()) continue;
    std::vector<std::int64_t> dimensions(t.shape.rbegin(), t.shape.rend());
    b.tensor(t.gguf_name, dimensions, 0, bytes_of(for_gguf(t), "F32"));
  }
}

reference::Transformer TinyModel::reference() const {
  reference::Transformer r{.dim = dim, .layers = layers, .heads = heads, .kv_heads = kv_heads, .head_dim = head_dim,
                           .ffn = ffn, .vocab = vocab, .norm_eps = 0.00001, .frequencies = {}, .weights = {}};
  for (std::int64_t i = 0; i < head_dim / 2; ++i) {
    r.frequencies.push_back(std::pow(5000.0, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim)));
  }
  for (const TinyTensor& t : tensors) r.weights[t.reference_name.empty() ? t.name : t.reference_name] = t.values;
  return r;
}

std::string TinyModel::bytes_of(const std::vector<float>& values, const std::string& type) {
  std::string bytes;
  const auto append = [&](auto value) { bytes.append(reinterpret_cast<const char*>(&value), sizeof value); };
  for (const float v : values) type == "F32" ? append(v) : type == "F16" ? append(f16(v)) : append(bf16(v));
  return bytes;
}

std::vector<float> logits_of(const Model& model, const std::vector<TokenId>& tokens) {
  Session session(model, {.threads = 2, .kv = "f32"});
  std::vector<float> all;
  session.score(tokens, [&](std::int64_t, std::span<const float> logits) { all.insert(all.end(), logits.begin(), logits.end()); });
  return all;
}

std::vector<TokenId> some_tokens(int count) {
  std::vector<TokenId> tokens{1};
  for (int i = 1; i < count; ++i) tokens.push_back((i * 7 + i * i) % 30);
  return tokens;
}

double distance(const std::vector<float>& found, const std::vector<double>& expected) {
  REQUIRE(found.size() == expected.size());
  double largest = 0;
  for (std::size_t i = 0; i < found.size(); ++i) largest = std::max(largest, std::fabs(static_cast<double>(found[i]) - expected[i]));
  return largest;
}

}  // namespace bantam::test
