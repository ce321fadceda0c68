// Latent attention: old and new GGUF files, quantized and plain up-projections, YaRN's two scales, the size of the cache, chunks.
#include "kv_kinds.hpp"
#include "limits.hpp"
#include "tiny_model.hpp"

namespace bantam::test {
namespace {

/// Rounding of f32 products and sums in two layers of tiny matrices; logits are of size 1.
constexpr double exactness = 1e-4;

std::vector<const ArchSpec*> latent_architectures() {
  std::vector<const ArchSpec*> found;
  std::ranges::copy_if(architectures, std::back_inserter(found), &ArchSpec::latent);
  return found;
}

TEST_CASE("queries of low rank or of one matrix, up-projections in one tensor or in two: the same as the paper's loops") {
  for (const ArchSpec* arch : latent_architectures()) {
    for (const std::int64_t q_rank : {0, 12}) {
      if (q_rank == 0 && arch->find(Field::index_used) != nullptr) continue;  // an indexer reads them
      for (const bool old : {false, true}) {
        CAPTURE(std::string(arch->name));
        CAPTURE(q_rank);
        CAPTURE(old);
        TinyModel tiny{.arch = arch, .q_rank = q_rank, .old_gguf = old};
        tiny.make();
        const TemporaryFolder folder;
        tiny.write_folder(folder / "hf");
        tiny.write_gguf(folder / "m.gguf");
        const auto tokens = some_tokens(30);
        const Model gguf = Model::load(folder / "m.gguf");
        const std::vector<float> logits = logits_of(gguf, tokens);
        CHECK(distance(logits, tiny.reference().logits(tokens)) < exactness);
        CHECK(logits_of(Model::load(folder / "hf"), tokens) == logits);
        CHECK(gguf.config().q_rank == q_rank);
        CHECK(gguf.config().kv_rank == 32);
        gguf.save(folder / "m.bantam");
        CHECK(logits_of(Model::load(folder / "m.bantam"), tokens) == logits);
      }
    }
  }
}

TEST_CASE("the cache of latent attention holds one vector and one rotated key a token") {
  TinyModel tiny{.arch = &archs::deepseek_v3, .kv_rank = 96};
  tiny.make();
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  const Model model = Model::load(folder / "hf");
  // 96 and 4, padded to a multiple of 16, of halves, in two layers.
  CHECK(nn::KvCache(model.config().kv_shape(), "f16").bytes_per_token() == 2 * 2 * 112);
}

TEST_CASE("latent attention gives the same bits for any chunks and any number of threads, with every kind of cache") {
  TinyModel tiny{.arch = &archs::deepseek_v2, .heads = 20, .context = 700};
  tiny.make();
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  const Model model = Model::load(folder / "hf");
  const auto tokens = some_tokens(600);
  for (const char* kv : kv_kinds()) {
    CAPTURE(kv);
    std::vector<float> expected;
    for (const int threads : {1, 2, 3}) {
      for (const std::size_t chunk : {std::size_t{600}, std::size_t{37}, std::size_t{1}}) {
        if (chunk == 1 && threads == 3) continue;  // slow under sanitizers, and two threads share single tokens out, too
        if (quick() && chunk == 37 && threads != 2) continue;
        Session session(model, {.threads = threads, .kv = kv});
        std::vector<float> last;
        for (std::size_t first = 0; first < tokens.size(); first += chunk) {
          session.score(std::span(tokens).subspan(first, std::min(chunk, tokens.size() - first)),
                        [&](std::int64_t, std::span<const float> logits) { last.assign(logits.begin(), logits.end()); });
        }
        if (expected.empty()) expected = last;
        CHECK(last == expected);
      }
    }
  }
}

TEST_CASE("YaRN's mscale_all_dim makes scores larger by its square, from both containers") {
  for (const ArchSpec* arch : latent_architectures()) {
    if (arch->find(Field::temperature_scale) != nullptr) continue;  // a tiny model of it has the scaling anyway
    CAPTURE(std::string(arch->name));
    TinyModel tiny{.arch = arch};
    tiny.make();
    tiny.config["rope_scaling"] = {{"type", "yarn"}, {"factor", 40}, {"original_max_position_embeddings", 16}, {"mscale", 0.7}, {"mscale_all_dim", 0.7}};
    const TemporaryFolder folder;
    tiny.write_folder(folder / "hf");
    const Model hf = Model::load(folder / "hf");
    reference::Transformer reference = tiny.reference();
    const double m = 0.1 * 0.7 * std::log(40.0) + 1;
    reference.attention_scale *= m * m;
    const nn::Rope rope(hf.config().rope);
    reference.frequencies.assign(rope.frequencies().begin(), rope.frequencies().end());
    const auto tokens = some_tokens(30);
    const std::vector<float> logits = logits_of(hf, tokens);
    CHECK(distance(logits, reference.logits(tokens)) < exactness);
    reference.attention_scale /= m * m;
    CHECK(distance(logits, reference.logits(tokens)) > 10 * exactness);
    compress_file(Checkpoint::open(folder / "hf"), folder / "m.gguf", recipe::rtn("f32"), Target::gguf);
    compress_file(Checkpoint::open(folder / "m.gguf"), folder / "again", recipe::rtn("f32"), Target::safetensors);
    // A float holds the multiplier there.
    CHECK(Model::load(folder / "m.gguf").config().rope.score_mscale == doctest::Approx(0.7));
    CHECK(Model::load(folder / "again").config().rope.score_mscale == doctest::Approx(0.7));
    CHECK(distance(logits_of(Model::load(folder / "again"), tokens), {logits.begin(), logits.end()}) < exactness);
  }
}

TEST_CASE("broken sizes of latent attention are one line each") {
  const auto message_of = [](const std::function<void(TinyModel&)>& change) {
    TinyModel tiny{.arch = &archs::deepseek_v3};
    tiny.make();
    change(tiny);
    const TemporaryFolder folder;
    tiny.write_folder(folder / "hf");
    return error_of([&] { (void)Model::load(folder / "hf"); });
  };
  has(message_of([](TinyModel& tiny) { tiny.config["kv_lora_rank"] = 33; }), "kv_lora_rank: expected a multiple of 32");
  has(message_of([](TinyModel& tiny) { tiny.config["v_head_dim"] = 0; }), "v_head_dim: expected a whole number from 1");
  has(message_of([](TinyModel& tiny) { tiny.config["qk_rope_head_dim"] = 3; }), "qk_rope_head_dim: expected an even size");
  has(message_of([](TinyModel& tiny) { tiny.config["qk_nope_head_dim"] = 7; }), "q_b_proj");
  has(message_of([](TinyModel& tiny) { tiny.config["kv_lora_rank"] = nullptr; }), "kv_lora_rank: expected a number, found nothing");
  has(message_of([](TinyModel& tiny) { tiny.config["rope_interleave"] = false; }), "rope_interleave: expected true");
}

}  // namespace
}  // namespace bantam::test
