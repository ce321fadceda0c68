// Layers that see what the indexer of a layer before them chose (GLM-5.2): which they are, in each container's words, and that it counts.
#include "bantam/prune/structure.hpp"
#include "model/family_parts.hpp"

namespace bantam::test {
namespace {

TinyModel deep_model() {
  TinyModel tiny{.arch = &archs::glm_moe_dsa, .layers = 7};
  tiny.make();
  return tiny;
}

/// F for a layer with an indexer of its own, S for the others.
std::string letters_of(const ModelConfig& c) {
  std::string letters;
  for (const LayerSpec& spec : c.specs) letters += spec.shares_choice ? 'S' : 'F';
  return letters;
}

}  // namespace

TEST_CASE("configs say in three ways which layers have an indexer of their own") {
  const TinyModel tiny = deep_model();
  const auto said = [&](const Json& words) {
    Json config = Json::object();
    for (const auto& [key, value] : tiny.config.items()) {
      if (key != "indexer_types") config[std::string(key)] = value;
    }
    for (const auto& [key, value] : words.items()) config[std::string(key)] = value;
    const ModelConfig read = parse_hf_config(config.dump(), "config.json");
    CHECK(parse_hf_config(write_hf_config(read, ""), "config.json").specs == read.specs);
    return letters_of(read);
  };
  CHECK(said(Json::object()) == "FFFFFFF");
  CHECK(said({{"index_topk_freq", 4}, {"index_skip_topk_offset", 3}}) == "FFFSSSF");
  CHECK(said({{"index_topk_freq", 2}}) == "FFSFSFS");
  CHECK(said({{"index_topk_pattern", "FSSFSFF"}, {"index_topk_freq", 4}}) == "FSSFSFF");
  CHECK(said({{"index_topk_pattern", nullptr}, {"index_topk_freq", 1}}) == "FFFFFFF");
  CHECK(said({{"indexer_types", {"full", "full", "shared", "shared", "full", "shared", "full"}}}) == "FFSSFSF");
  CHECK(error_of([&] { (void)said({{"index_topk_pattern", "FS"}}); }) == "config.json: index_topk_pattern: expected 7 layers, found 2");
  CHECK(error_of([&] { (void)said({{"index_topk_pattern", "FFFFXFF"}}); }) == "config.json: index_topk_pattern: letter 4: expected F or S, found \"X\"");
  CHECK(error_of([&] { (void)said({{"indexer_types", {"full", "half", "full", "full", "full", "full", "full"}}}); }) == "config.json: indexer_types[1]: expected full or shared, found \"half\"");
  CHECK(error_of([&] { (void)said({{"indexer_types", {"full"}}}); }) == "config.json: indexer_types: expected 7 layers, found 1");
  CHECK(error_of([&] { (void)said({{"index_topk_pattern", "SFFFFFF"}}); }) == "config.json: indexers: expected one in the first layer, found none");
  CHECK(error_of([&] { (void)said({{"index_topk_freq", 0}}); }) == "config.json: index_topk_freq: expected a whole number from 1 to 100000, found 0");
  CHECK(error_of([&] { (void)said({{"index_topk_freq", 2}, {"index_skip_topk_offset", -1}}); }) == "config.json: index_skip_topk_offset: expected a whole number from 1 to 100000, found -1");
  CHECK(error_of([&] { (void)said({{"index_topk_freq", 2.5}}); }) == "config.json: index_topk_freq: expected a whole number from 1 to 100000, found 2.5");
}

TEST_CASE("a GGUF file without a word on its indexers has those whose tensors are there") {
  const TinyModel tiny = deep_model();
  CHECK(letters_of(tiny.sizes) == "FFSFFSF");
  const TemporaryFolder folder;
  tiny.write_gguf(folder / "m.gguf");
  const std::vector<TokenId> tokens = some_tokens(30);
  const Model model = Model::load(folder / "m.gguf");
  const std::vector<float> expected = logits_of(model, tokens);
  CHECK(distance(expected, tiny.reference().logits(tokens)) < family_tolerance);
  std::string bytes = read_file(folder / "m.gguf");
  const std::size_t key = bytes.find("attention.indexer.types");
  REQUIRE(key != std::string::npos);
  bytes[key + 20] = 'x';
  write_file(folder / "m.gguf", bytes);
  const Model silent = Model::load(folder / "m.gguf");
  CHECK(letters_of(silent.config()) == "FFSFFSF");
  CHECK(logits_of(silent, tokens) == expected);
}

TEST_CASE("what an indexer chose counts in the layers that share it, and is kept by none of them") {
  const TinyModel tiny = deep_model();
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  const Model model = Model::load(folder / "hf");
  const std::vector<TokenId> tokens = some_tokens(30);
  // Had the layers that share it seen everything.
  reference::Transformer reference = tiny.reference();
  reference.shares_choices = false;
  CHECK(distance(logits_of(model, tokens), reference.logits(tokens)) > 100 * family_tolerance);
  const nn::KvShape shape = model.config().kv_shape();
  for (std::int64_t i = 0; i < shape.layers; ++i) CHECK((shape.layer(i).index_dim == 0) == model.config().layer(i).shares_choice);
  const Removal removals[] = {parse_removal("layers:1")};
  CHECK(error_of([&] { (void)plan_structure(model.config(), removals); }).find("of layers that see what others' indexers chose: not yet") != std::string::npos);
}

}  // namespace bantam::test
