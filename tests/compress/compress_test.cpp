// Compressing: what comes out, what is refused, and what a failure leaves behind.
#include "bantam/compress/compress.hpp"

#include <sys/resource.h>

#include <csignal>

#include "bantam/model/native_file.hpp"
#include "tiny_model.hpp"

namespace bantam::test {
namespace {

/// Names of everything in a folder.
std::vector<std::string> listing(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

struct Fixture {
  Fixture() {
    tiny.make();
    tiny.write_folder(folder / "hf");
  }
  [[nodiscard]] Checkpoint open(const std::string& name = "hf") const { return Checkpoint::open(folder / name); }
  TinyModel tiny;
  TemporaryFolder folder;
};

TEST_CASE_FIXTURE(Fixture, "compressing a file and a model gives the same weights") {
  for (const FormatInfo& format : formats()) {
    if (another_has_its_search(format)) continue;
    const std::string name(format.name);
    CAPTURE(name);
    const Recipe plan = recipe::rtn(name).keep("*.k_proj", "q8");
    const Report report = compress_file(open(), folder / "m.bantam", plan);
    const Model from_file = Model::load(folder / "m.bantam");
    const auto [in_memory, memory_report] = compress(Model::load(folder / "hf"), plan);
    const auto tokens = some_tokens();
    CHECK(logits_of(from_file, tokens) == logits_of(in_memory, tokens));
    CHECK(from_file.weights().layers[0].attention.k.format().name == find_format("q8").name);
    CHECK(from_file.weights().layers[0].attention.v.format().name == find_format(name).name);
    REQUIRE(report.layers.size() == memory_report.layers.size());
    for (std::size_t i = 0; i < report.layers.size(); ++i) {
      CHECK(report.layers[i].name == memory_report.layers[i].name);
      CHECK(report.layers[i].relative_error == memory_report.layers[i].relative_error);
    }
  }
}

TEST_CASE_FIXTURE(Fixture, "a report's sums are those of its layers and files") {
  const Report report = compress_file(open(), folder / "m.bantam", recipe::rtn("q4"));
  CHECK(report.layers.size() == 2 + 2 * 7);
  CHECK(report.bytes_before == static_cast<std::int64_t>(std::filesystem::file_size(folder / "hf" / "model.safetensors")));
  CHECK(report.bytes_after == static_cast<std::int64_t>(std::filesystem::file_size(folder / "m.bantam")));
  const Model model = Model::load(folder / "m.bantam");
  std::int64_t after = 0;
  double bits = 0, weights = 0;
  for (const LayerReport& layer : report.layers) {
    after += layer.bytes_after;
    CHECK(layer.relative_error > 0);
    CHECK(layer.relative_error < (layer.format.starts_with("int8") ? 0.02 : 0.2));
    const auto& shape = tiny.tensor(layer.name + ".weight").shape;
    CHECK(layer.bytes_before == shape[0] * shape[1] * 4);
    bits += find_format(layer.format).bits_per_weight * static_cast<double>(shape[0] * shape[1]);
    weights += static_cast<double>(shape[0] * shape[1]);
  }
  CHECK(after == model.bytes());
  CHECK(report.bits_per_weight == doctest::Approx(bits / weights));
  CHECK(report.seconds > 0);
  CHECK(report.peak_rss_bytes > 0);
  const auto json = Json::parse(report.to_json(), "test");
  CHECK(json["bytes_after"] == report.bytes_after);
  CHECK(json["layers"].size() == report.layers.size());
  const auto record = Json::parse(Checkpoint::open(folder / "m.bantam").recipe(), "test");
  CHECK(record["method"] == "rtn");
  CHECK(record["source"] == "hf");
}

TEST_CASE_FIXTURE(Fixture, "an output that is the input is refused, by whatever name") {
  compress_file(open(), folder / "m.bantam", recipe::rtn("q8"));
  std::filesystem::create_symlink(folder / "m.bantam", folder / "symlink.bantam");
  std::filesystem::create_hard_link(folder / "m.bantam", folder / "hardlink.bantam");
  const std::string before = read_file(folder / "m.bantam");
  for (const char* name : {"m.bantam", "symlink.bantam", "hardlink.bantam"}) {
    has(error_of([&] { compress_file(open("m.bantam"), folder / name, recipe::rtn("q4")); }), "found the same file");
  }
  CHECK((read_file(folder / "m.bantam") == before));
  const std::string weights = read_file(folder / "hf" / "model.safetensors");
  has(error_of([&] { compress_file(open(), folder / "hf", recipe::rtn("f16"), Target::safetensors); }), "found the same file");
  has(error_of([&] { compress_file(open(), folder / "hf" / "model.safetensors", recipe::rtn("q4")); }), "found the same file");
  CHECK((read_file(folder / "hf" / "model.safetensors") == weights));
}

TEST_CASE_FIXTURE(Fixture, "targets of the wrong kind are refused") {
  std::filesystem::create_directory(folder / "d");
  has(error_of([&] { compress_file(open(), folder / "d", recipe::rtn("q4")); }), "found a folder");
  write_file(folder / "f", "x");
  has(error_of([&] { compress_file(open(), folder / "f", recipe::rtn("f16"), Target::safetensors); }), "found a file");
  CHECK(read_file(folder / "f") == "x");
  has(error_of([&] { compress_file(open(), folder / "out", recipe::rtn("q4"), Target::safetensors); }), "expected one that such files have (f32, f16, bf16), found i4.g32");
  has(error_of([&] { compress_file(open(), folder / "out", recipe::rtn("f16").keep("*.q_proj", "q8"), Target::safetensors); }), "q_proj");
  CHECK(listing(folder.path()) == std::vector<std::string>{"d", "f", "hf"});
}

TEST_CASE_FIXTURE(Fixture, "weights that are not finite are named, matrices and vectors, copied or rounded") {
  for (const char* name : {"model.embed_tokens.weight", "model.layers.1.mlp.down_proj.weight", "model.layers.0.input_layernorm.weight", "model.norm.weight"}) {
    for (const float bad : {NAN, INFINITY, -INFINITY}) {
      TinyModel broken = tiny;
      broken.tensor(name).values.back() = bad;
      broken.write_folder(folder / "broken");
      for (const char* format : {"q4", "f16", "f32"}) {
        const std::string text = error_of([&] { compress_file(open("broken"), folder / "m.bantam", recipe::rtn(format)); });
        has(text, std::string(name).substr(0, std::string(name).rfind('.')) + ": expected finite weights, found ");
        CHECK_FALSE(std::filesystem::exists(folder / "m.bantam"));
      }
    }
  }
  TinyModel large = tiny;
  large.tensor("lm_head.weight").values[3] = 1e6F;
  large.write_folder(folder / "large");
  has(error_of([&] { compress_file(open("large"), folder / "m.bantam", recipe::rtn("f16")); }), "lm_head: expected weights that f16 can hold, found 1e+06 at (0, 3)");
  TinyModel wide = tiny;
  wide.tensor("model.norm.weight").values[2] = 1e6F;
  wide.write_folder(folder / "wide");
  has(error_of([&] { compress_file(open("wide"), folder / "out", recipe::rtn("f16"), Target::safetensors); }), "model.norm: expected weights that f16 can hold, found 1e+06 at (0, 2)");
}

TEST_CASE_FIXTURE(Fixture, "a cancelled compression leaves nothing") {
  for (const Target target : {Target::native, Target::safetensors}) {
    int calls = 0;
    const auto stop = [&](const Progress& progress) {
      CHECK(progress.done == ++calls);
      CHECK(progress.total == 16);
      CHECK(progress.seconds_left >= 0);
      return calls < 5;
    };
    try {
      compress_file(open(), folder / "out", recipe::rtn("f16"), target, stop);
      FAIL_CHECK("not cancelled");
    } catch (const Error& error) {
      CHECK(error.code() == Errc::cancelled);
    }
    CHECK(calls == 5);
    CHECK(listing(folder.path()) == std::vector<std::string>{"hf"});
  }
}

TEST_CASE_FIXTURE(Fixture, "a full disk leaves the old file whole") {
  compress_file(open(), folder / "m.bantam", recipe::rtn("q8"));
  const std::string before = read_file(folder / "m.bantam");
  rlimit old{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &old) == 0);
  const auto previous = std::signal(SIGXFSZ, SIG_IGN);
  for (rlim_t limit = 0; limit < 60'000; limit += 4999) {
    CAPTURE(limit);
    rlimit small = old;
    small.rlim_cur = limit;
    REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
    const std::string text = error_of([&] { compress_file(open(), folder / "m.bantam", recipe::rtn("f32")); });
    REQUIRE(setrlimit(RLIMIT_FSIZE, &old) == 0);
    has(text, "m.bantam");
    CHECK((read_file(folder / "m.bantam") == before));
    CHECK(listing(folder.path()) == std::vector<std::string>{"hf", "m.bantam"});
  }
  std::signal(SIGXFSZ, previous);
}

TEST_CASE_FIXTURE(Fixture, "copying in the same format is bit-exact") {
  compress_file(open(), folder / "a.bantam", recipe::rtn("nf4"));
  compress_file(open("a.bantam"), folder / "b.bantam", recipe::rtn("nf4"));
  const Checkpoint a = open("a.bantam"), b = open("b.bantam");
  REQUIRE(a.tensors().size() == b.tensors().size());
  for (std::size_t i = 0; i < a.tensors().size(); ++i) {
    CHECK(std::ranges::equal(a.tensors()[i].source->parts()[0].bytes, b.tensors()[i].source->parts()[0].bytes));
    CHECK(a.tensors()[i].expected_hash == b.tensors()[i].expected_hash);
  }
}

TEST_CASE_FIXTURE(Fixture, "a folder of f32 from four-bit weights has exactly the numbers that they stand for") {
  compress_file(open(), folder / "m.bantam", recipe::rtn("q4"));
  compress_file(open("m.bantam"), folder / "out", recipe::rtn("f32"), Target::safetensors);
  const Checkpoint native = open("m.bantam"), plain = open("out");
  REQUIRE(native.tensors().size() == plain.tensors().size());
  RowCodes scratch;
  for (std::size_t i = 0; i < native.tensors().size(); ++i) {
    const CheckpointTensor& a = native.tensors()[i];
    const CheckpointTensor& b = plain.tensors()[i];
    CHECK(a.name == b.name);
    CHECK(b.source->parts()[0].entry->type == "F32");
    std::vector<float> x(static_cast<std::size_t>(a.columns)), y(x.size());
    for (std::int64_t row = 0; row < a.rows; ++row) {
      native.read_row(a, row, x, scratch);
      plain.read_row(b, row, y, scratch);
      CHECK(x == y);
    }
  }
  CHECK(listing(folder / "out") == std::vector<std::string>{"config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"});
}

TEST_CASE("folders made from GGUF files are the same models") {
  for (const ArchSpec* arch : architectures_by_parts()) {
    CAPTURE(std::string(arch->name));
    TinyModel tiny{.arch = arch, .biases = arch == &archs::llama};
    tiny.make();
    const TemporaryFolder folder;
    tiny.write_gguf(folder / "m.gguf");
    compress_file(Checkpoint::open(folder / "m.gguf"), folder / "out", recipe::rtn("f32"), Target::safetensors);
    const Model before = Model::load(folder / "m.gguf"), after = Model::load(folder / "out");
    const std::string text = "the quick brown fox";
    CHECK(after.tokenizer().encode(text) == before.tokenizer().encode(text));
    CHECK(logits_of(after, after.tokenizer().encode(text)) == logits_of(before, before.tokenizer().encode(text)));
    const auto config = Json::parse(read_file(folder / "out" / "config.json"), "test");
    CHECK(config["torch_dtype"] == "float32");
    const auto has_tensor = [&](std::string_view ending) {
      return std::ranges::any_of(tiny.tensors, [&](const TinyTensor& tensor) { return tensor.name.ends_with(ending); });
    };
    CHECK((config.contains("attention_bias") && config["attention_bias"] == Json(true)) == has_tensor("q_proj.bias"));
    if (arch == &archs::glm4_moe) CHECK(config["use_qk_norm"] == has_tensor("q_norm.weight"));
    CHECK(Json::parse(read_file(folder / "out" / "generation_config.json"), "test")["eos_token_id"] == Json::array({2}));
  }
}

TEST_CASE("a shared GGUF model becomes a folder that says the same") {
  BANTAM_NEED_SHARED(gguf, "models/stories260k/stories260k-f32.gguf");
  const TemporaryFolder folder;
  compress_file(Checkpoint::open(gguf), folder / "out", recipe::rtn("f32"), Target::safetensors);
  const Model before = Model::load(gguf), after = Model::load(folder / "out");
  const auto ids = before.tokenizer().encode("Once upon a time, there was a little girl named Lily.");
  CHECK(after.tokenizer().encode("Once upon a time, there was a little girl named Lily.") == ids);
  CHECK(logits_of(after, ids) == logits_of(before, ids));
}

}  // namespace
}  // namespace bantam::test
