// GGUF files that bantam writes: the same model when they are read again, and the same bytes as blocks that were read.
#include <algorithm>

#include "bantam/compress/compress.hpp"
#include "bantam/core/random.hpp"
#include "bantam/io/gguf.hpp"
#include "bantam/model/archs.hpp"
#include "io/ggml_types.hpp"
#include "limits.hpp"
#include "tiny_model.hpp"

namespace bantam::test {
namespace {

std::vector<std::byte> bytes_of(const TensorEntry& entry) { return {entry.bytes.begin(), entry.bytes.end()}; }

}  // namespace

TEST_CASE("a block of every type becomes the same bytes again") {
  Random random(3);
  int types = 0;
  for (const detail::GgmlType& listed : detail::ggml_types) {
    const SourceType* type = find_source_type(listed.name);
    if (type == nullptr || type->write_codes == nullptr) continue;
    ++types;
    CAPTURE(std::string(type->name));
    CHECK(source_type_of(*type->written) == type);
    const int count = 512 / type->block;
    std::vector<std::byte> blocks(static_cast<std::size_t>(count * type->block_bytes));
    for (int round = 0; round < 50; ++round) {
      // Bit 6 of the high bytes of halves is cleared wherever they lie: all of them are numbers then.
      for (std::byte& b : blocks) b = static_cast<std::byte>(random.next() & 0xbfu);
      std::vector<std::int8_t> codes(512);
      std::vector<GroupSide> sides(static_cast<std::size_t>(512 / type->format->group));
      type->read_codes(blocks.data(), 512, codes.data(), sides.data());
      std::vector<std::byte> again(blocks.size());
      type->write_codes(codes.data(), sides.data(), 512, again.data());
      CHECK(again == blocks);
    }
  }
  CHECK(types == 20);
}

TEST_CASE("a model written as GGUF is the same model, whatever its architecture and format") {
  std::vector<const FormatInfo*> written;
  for (const FormatInfo& format : formats()) {
    if (source_type_of(format) != nullptr) written.push_back(&format);
  }
  REQUIRE(!written.empty());
  // Codebooks of four bits take half of the time of all.
  std::vector<const FormatInfo*> quick_ones = written;
  std::erase_if(quick_ones, [](const FormatInfo* format) { return format->name.starts_with("iq4"); });
  std::vector<const FormatInfo*> short_ones = written;
  std::erase_if(short_ones, [](const FormatInfo* format) { return source_type_of(*format)->block > 32; });
  bool seen_experts = false, seen_latent = false;
  const std::vector<const ArchSpec*>& taken = few_architectures();
  for (std::size_t a = 0; a < std::size(architectures); ++a) {
    const ArchSpec* arch = architectures[a];
    if (std::ranges::find(taken, arch) == taken.end()) continue;
    CAPTURE(std::string(arch->name));
    // A format is written by the kind of tensor, an architecture by names: what they do to each other does not depend on which they
    // are. The first architecture of each kind has all formats, the others each the next one that is quick to fit.
    // GGUF files have decays of recurrent layers as other numbers, which are not the same to the last bit.
    const bool experts = arch->has_experts(), latent = arch->latent && arch->recurrent == MixerKind::none;
    const bool all = a == 0 || (!quick() && ((experts && !seen_experts) || (latent && !seen_latent)));
    seen_experts |= experts;
    seen_latent |= latent;
    const bool wide = all || (!quick() && a % 3 == 0);
    const std::vector<const FormatInfo*>& others = wide ? quick_ones : short_ones;
    const std::int64_t d = wide ? 256 : 64;  // rows of whole blocks
    TinyModel tiny{.arch = arch, .dim = d, .heads = 4, .kv_heads = 2, .head_dim = arch->latent ? 2 * d : 64, .ffn = d, .experts = 2, .experts_used = 1, .expert_ffn = d, .expert_latent = d, .key_dim = 64, .state_value_dim = 64, .q_rank = d, .kv_rank = d, .value_dim = 64, .per_layer_dim = d};
    tiny.make();
    const TemporaryFolder folder;
    tiny.write_folder(folder / "hf");
    const auto tokens = some_tokens();
    for (std::size_t f = 0; f < written.size(); ++f) {
      if (!all && written[f] != others[a % others.size()]) continue;
      const FormatInfo& format = *written[f];
      CAPTURE(std::string(format.name));
      Recipe plan = recipe::rtn(format.name).keep("*", format.name);
      if (tiny.sizes.ngrams.exist()) plan.keep("ngram_embedding", "f16");  // whose rows are no whole blocks
      compress_file(Checkpoint::open(folder / "hf"), folder / "m.bantam", plan);
      compress_file(Checkpoint::open(folder / "hf"), folder / "m.gguf", plan, Target::gguf);
      const Model gguf = Model::load(folder / "m.gguf");
      const LayerWeights& layer = gguf.weights().layers[1];
      const InputGroup* last = last_of(layer, Half::mixer);
      if (last != nullptr) CHECK(first_of(layer, *last)->format().name == format.name);
      CHECK(logits_of(gguf, tokens) == logits_of(Model::load(folder / "m.bantam"), tokens));
    }
  }
}

TEST_CASE("rows that are no whole blocks get a finer format in GGUF") {
  TinyModel tiny{.dim = 256, .heads = 4, .kv_heads = 2, .head_dim = 64, .ffn = 96};
  tiny.make();
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  const auto formats_of = [&](const char* format) {
    compress_file(Checkpoint::open(folder / "hf"), folder / "m.gguf", recipe::rtn(format).keep("*", format), Target::gguf);
    const Model model = Model::load(folder / "m.gguf");
    return std::pair{std::string(model.weights().layers[0].mlp.gate.format().name), std::string(model.weights().layers[0].mlp.down.format().name)};
  };
  CHECK(formats_of("q4_k") == std::pair<std::string, std::string>{"q4k.g32", "i5.g32"});
  CHECK(formats_of("q6_k") == std::pair<std::string, std::string>{"q6k.g16", "i8.g32"});
  CHECK(formats_of("q4_0") == std::pair<std::string, std::string>{"i4.g32", "i4.g32"});
  tiny = TinyModel{};
  tiny.make();
  tiny.write_folder(folder / "hf");
  CHECK(formats_of("q4_k") == std::pair<std::string, std::string>{"f16", "f16"});
}

TEST_CASE("rope scalings survive GGUF") {
  for (const char* scaling : {R"({"rope_type":"llama3","factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position_embeddings":16})",
                              R"({"rope_type":"linear","factor":2.0})", R"({"rope_type":"yarn","factor":4.0,"original_max_position_embeddings":16})"}) {
    CAPTURE(std::string(scaling));
    TinyModel tiny{};
    tiny.make();
    tiny.config["rope_scaling"] = Json::parse(scaling, "test");
    const TemporaryFolder folder;
    tiny.write_folder(folder / "hf");
    compress_file(Checkpoint::open(folder / "hf"), folder / "m.gguf", recipe::rtn("f32"), Target::gguf);
    const auto tokens = some_tokens();
    const std::vector<float> expected = logits_of(Model::load(folder / "hf"), tokens);
    // Divisors are kept in f32.
    CHECK(distance(logits_of(Model::load(folder / "m.gguf"), tokens), {expected.begin(), expected.end()}) < 1e-4);
  }
}

TEST_CASE("what GGUF cannot hold is refused by name, and leaves nothing") {
  TinyModel tiny{};
  tiny.make();
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  const auto error = [&](const Recipe& plan) {
    const std::string text = error_of([&] { compress_file(Checkpoint::open(folder / "hf"), folder / "m.gguf", plan, Target::gguf); });
    CHECK(!std::filesystem::exists(folder / "m.gguf"));
    return text;
  };
  const std::string other = error(recipe::rtn("f32").keep("*.q_proj", "i4.g64"));
  CHECK(other.find("keep *.q_proj: expected one that such files have (f32, f16, bf16, i8.g32, ") != std::string::npos);
  CHECK(other.find("found i4.g64") != std::string::npos);
  tiny.config["rope_scaling"] = {{"rope_type", "dynamic"}, {"factor", 2.0}};
  tiny.write_folder(folder / "hf");
  CHECK(error(recipe::rtn("f32")).find("dynamic rope scaling: GGUF has no words for it") != std::string::npos);
}

TEST_CASE("the shared models say in GGUF what their own GGUF files say") {
  BANTAM_NEED_SHARED(data, "models/golden.json");
  for (const char* name : {"stories260k", "babyllama105", "books4m"}) {
    CAPTURE(std::string(name));
    const TemporaryFolder folder;
    const auto path = shared_data(std::string("models/") + name);
    std::filesystem::path theirs;
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
      if (entry.path().extension() == ".gguf") theirs = entry.path();
    }
    const Checkpoint original = Checkpoint::open(path);
    compress_file(original, folder / "m.gguf", recipe::rtn(theirs.filename().string().find("f16") != std::string::npos ? "f16" : "f32"), Target::gguf);
    const auto a = GgufFile::open(folder / "m.gguf");
    const auto b = GgufFile::open(theirs);
    for (const char* key : {"tokenizer.ggml.model", "tokenizer.ggml.tokens", "general.architecture", "llama.block_count", "llama.embedding_length",
                            "llama.attention.head_count_kv", "llama.feed_forward_length", "llama.rope.dimension_count", "llama.context_length"}) {
      CAPTURE(std::string(key));
      REQUIRE(b->value(key) != nullptr);
      CHECK((a->value(key) != nullptr && *a->value(key) == *b->value(key)));
    }
    for (const TensorEntry& tensor : b->tensors()) {
      CAPTURE(tensor.name);
      const TensorEntry* found = a->find(tensor.name);
      REQUIRE(found != nullptr);
      CHECK(found->shape == tensor.shape);
      if (found->type == tensor.type) CHECK(bytes_of(*found) == bytes_of(tensor));
    }
    const std::string text = read_file(shared_data(std::string(name) == "books4m" ? "corpora/books-valid.txt" : "corpora/tinystories-700.txt")).substr(0, 20000);
    const Tokenizer written = open_tokenizer(folder / "m.gguf");
    CHECK(written.encode(text) == original.tokenizer().encode(text));
    CHECK(written.decode(written.encode(text)) == original.tokenizer().decode(original.tokenizer().encode(text)));
    for (const char* id : {"<s>", "</s>", "<unk>"}) CHECK(written.find(id) == original.tokenizer().find(id));
  }
}

TEST_CASE("scales that are folded stay with matrices that GGUF takes in another format") {
  TinyModel tiny{.kv_heads = 6};
  tiny.make();  // rows of 36 and 50: no whole blocks of anything
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  Calibration calibration;
  for (int i = 0; i < 4; ++i) calibration.samples.push_back(some_tokens(12 + i));
  for (const Method method : {Method::awq, Method::gptq}) {
    CAPTURE(std::string(name_of(method)));
    compress_file(Checkpoint::open(folder / "hf"), folder / "m.gguf", recipe::with(method, "q4_0"), Target::gguf, {}, calibration);
    const Model model = Model::load(folder / "m.gguf");
    CHECK(model.weights().layers[0].attention.q.format().name == "f16");
    const auto expected = logits_of(Model::load(folder / "hf"), some_tokens());
    CHECK(distance(logits_of(model, some_tokens()), {expected.begin(), expected.end()}) < 0.02);
  }
}

}  // namespace bantam::test
