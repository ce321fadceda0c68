// Models whose layers have different numbers of heads and FFN channels.
#include <map>

#include "bantam/compress/compress.hpp"
#include "compress/inputs.hpp"
#include "kv_kinds.hpp"
#include "model/cut_model.hpp"

namespace bantam::test {
namespace {

/// Every layer of a kind of its own; the widest FFN and the most heads are in different ones.
const std::vector<KeptParts> kept{{all_but(3, 1, 2), all_but(50, 50, 1)},
                                  {all_but(3, 3, 1), all_but(50, 3, 4)},
                                  {all_but(3, 0, 2), all_but(50, 18, 1)}};

TinyModel dense(const ArchSpec* arch) {
  TinyModel tiny{.arch = arch, .layers = 3, .heads = 6, .kv_heads = 3, .context = 256, .biases = arch == &archs::llama};
  return tiny.make();
}

TEST_CASE("layers of different shapes give what the model has with zeros in place of what they lack") {
  for (const ArchSpec* arch : plain_architectures()) {
    CAPTURE(std::string(arch->name));
    const TemporaryFolder folder;
    with_zeros(dense(arch), kept).write_folder(folder / "zeros");
    without_parts(dense(arch), kept).write_folder(folder / "cut");
    const Model zeros = Model::load(folder / "zeros"), cut = Model::load(folder / "cut");
    CHECK(cut.config().heads == 6);
    CHECK(cut.config().kv_heads == 3);
    CHECK(cut.config().ffn == 50);
    CHECK(cut.config().heads_of(2) == 2);
    CHECK(cut.config().layer(2) == LayerSpec{1, 18});
    CHECK(zeros.config().is_uniform());
    const auto tokens = some_tokens(30);
    const std::vector<float> logits = logits_of(cut, tokens);
    CHECK(distance(logits, logits_of(zeros, tokens)) < cut_tolerance(*arch));
    // Through a native file of any format, and through a copy of that.
    for (const char* format : {"f32", "i4z.g32"}) {
      const Recipe plan = recipe::rtn(format).keep("*", format);
      compress_file(Checkpoint::open(folder / "cut"), folder / "m.bantam", plan);
      const Model native = Model::load(folder / "m.bantam");
      CHECK(native.config().specs == cut.config().specs);
      native.save(folder / "copy.bantam");
      CHECK(logits_of(Model::load(folder / "copy.bantam"), tokens) == logits_of(native, tokens));
      if (std::string(format) == "f32") CHECK(logits_of(native, tokens) == logits);
      CHECK(plan_file(Checkpoint::open(folder / "cut"), plan).bytes == static_cast<std::int64_t>(std::filesystem::file_size(folder / "m.bantam")));
    }
  }
}

TEST_CASE("sessions of such models go on, fork, are saved and restored like others") {
  const TemporaryFolder folder;
  without_parts(dense(&archs::llama), kept).write_folder(folder / "cut");
  const Model model = Model::load(folder / "cut");
  const auto tokens = some_tokens(150);
  const std::span<const TokenId> all = tokens;
  for (const char* kind : bantam::test::kv_kinds()) {
    for (const int threads : {1, 3}) {
      CAPTURE(std::string(kind));
      CAPTURE(threads);
      std::vector<float> whole;
      const auto last = [&](std::int64_t, std::span<const float> logits) { whole.assign(logits.begin(), logits.end()); };
      Session once(model, {.context = 160, .threads = threads, .kv = kind});
      once.score(all, last);
      const std::vector<float> expected = whole;
      Session first(model, {.context = 160, .threads = threads, .kv = kind});
      first.prefill(all.first(100));
      first.save(folder / "s");
      Session fork = first.fork();
      Session restored = Session::restore(model, folder / "s", {.context = 160, .threads = threads});
      for (Session* session : {&first, &fork, &restored}) {
        session->score(all.subspan(100), last);
        CHECK(whole == expected);
      }
    }
  }
  // Pages hold what layers have, not what the largest would take.
  const nn::KvCache cache(model.config().kv_shape(), "f32");
  CHECK(cache.bytes_per_token() == (2 + 3 + 1) * nn::KvCache({1, 1, 10}, "f32").bytes_per_token());
  TinyModel other = dense(&archs::llama);
  other.config["num_key_value_heads"] = 3;
  other.write_folder(folder / "dense");
  CHECK(error_of([&] { (void)Session::restore(Model::load(folder / "dense"), folder / "s", {}); }).find("expected a session of this model") != std::string::npos);
}

TEST_CASE("calibrated methods round such models") {
  const TemporaryFolder folder;
  without_parts(dense(&archs::llama), kept).write_folder(folder / "cut");
  const Checkpoint cut = Checkpoint::open(folder / "cut");
  const auto tokens = some_tokens(30);
  const std::vector<float> expected = logits_of(Model::load(folder / "cut"), tokens);
  for (const Method method : {Method::gptq, Method::awq}) {
    compress_file(cut, folder / "m.bantam", recipe::with(method, "i8.g32"), Target::native, {}, some_calibration());
    CHECK(distance(logits_of(Model::load(folder / "m.bantam"), tokens), expected) < 0.5);
  }
}

TEST_CASE("containers that give sizes once refuse such models before anything is written") {
  const TemporaryFolder folder;
  without_parts(dense(&archs::llama), kept).write_folder(folder / "cut");
  const Checkpoint cut = Checkpoint::open(folder / "cut");
  for (const Target target : targets) {
    if (target == Target::native) continue;
    CAPTURE(std::string(name_of(target)));
    const Recipe plan = recipe::rtn(target == Target::safetensors ? "f32" : target == Target::bnb ? "nf4" : "i4");
    const std::string text = error_of([&] { compress_file(cut, folder / "out", plan, target); });
    CHECK_MESSAGE(text.find("native files hold them") != std::string::npos, text);
    CHECK_FALSE(std::filesystem::exists(folder / "out"));
    CHECK_THROWS_AS((void)plan_file(cut, plan, target), Error);
  }
}

TEST_CASE("GGUF files may give heads and widths for each layer") {
  TinyModel tiny = without_parts(dense(&archs::llama), kept);
  const TemporaryFolder folder;
  tiny.write_folder(folder / "cut");
  GgufBuilder b;
  b.key("general.architecture", "llama");
  for (const auto& [key, value] : std::map<std::string, std::uint32_t>{{"embedding_length", 36}, {"block_count", 3}, {"attention.key_length", 10},
                                                                       {"vocab_size", 37}, {"context_length", 64}}) {
    b.key("llama." + key, value);
  }
  b.key("llama.attention.head_count", std::vector<std::int32_t>{4, 6, 2}).key("llama.attention.head_count_kv", std::vector<std::int32_t>{2, 3, 1});
  b.key("llama.feed_forward_length", std::vector<std::int32_t>{50, 38, 18});
  b.key("llama.attention.layer_norm_rms_epsilon", 0.00001F).key("llama.rope.freq_base", 5000.0F);
  tiny.put_vocabulary(b);
  tiny.put_tensors(b);
  write_file(folder / "m.gguf", b.bytes());
  const auto tokens = some_tokens(20);
  CHECK(distance(logits_of(Model::load(folder / "m.gguf"), tokens), logits_of(Model::load(folder / "cut"), tokens)) < 1e-5);
}

}  // namespace
}  // namespace bantam::test
