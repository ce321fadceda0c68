// GPTQ, AWQ and bitsandbytes folders that bantam writes: the values of a native file of the same recipe, as our own
// readers and as a decoder that knows nothing of bantam (tests/reference/read_quantized.py) see them.
#include <cstdlib>
#include <cstring>

#include "bantam/compress/compress.hpp"
#include "bantam/core/parallel.hpp"
#include "bantam/io/safetensors.hpp"
#include "compress/inputs.hpp"
#include "model/foreign_folders.hpp"
#include "tiny_model.hpp"

namespace bantam::test {
namespace {

constexpr std::pair<const char*, Target> families[] = {
    {"gptq", Target::gptq}, {"gptq_v2", Target::gptq_v2}, {"awq", Target::awq}, {"bnb", Target::bnb}};

bool holds(Target target, const FormatInfo& format) {
  try {
    check_formats(Recipe(format), target);
    return !format.is_float;
  } catch (const Error&) {
    return false;
  }
}

/// Sizes that every family takes, in groups of up to 128.
TinyModel fitting_model(bool biases = false) {
  TinyModel tiny{.dim = 256, .layers = 1, .heads = 4, .kv_heads = 2, .head_dim = 64, .ffn = 256, .biases = biases};
  tiny.make();
  // A zero point at each end of its range: weights that are all above 0, or all below.
  std::vector<float>& up = tiny.tensor("model.layers.0.mlp.up_proj.weight").values;
  for (std::size_t i = 0; i < 128 * 256; ++i) up[i] = i < 64 * 256 ? std::fabs(up[i]) : -std::fabs(up[i]);
  return tiny;
}

/// Embeddings and head in f16, as in these folders.
Recipe plan(Recipe recipe) { return recipe.keep("lm_head", "f16").keep("model.embed_tokens", "f16"); }

bool equal(std::span<const float> a, std::span<const float> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());  // zeros of either sign are one value
}

double difference(const Checkpoint& a, const Checkpoint& b, const std::string& name) {
  const auto of = [&](const Checkpoint& c) {
    const auto found = std::ranges::find(c.tensors(), name, &CheckpointTensor::name);
    REQUIRE(found != c.tensors().end());
    return c.load_matrix(*found, Reading::buffered).dequantize();
  };
  return relative_error(of(b), of(a));
}

/// Matrices as in the native file, vectors cut to f16.
void check_as_native(const Checkpoint& found, const Checkpoint& native) {
  REQUIRE(found.tensors().size() == native.tensors().size());
  for (std::size_t i = 0; i < found.tensors().size(); ++i) {
    const CheckpointTensor& a = found.tensors()[i];
    const CheckpointTensor& b = native.tensors()[i];
    CAPTURE(a.name);
    REQUIRE(a.name == b.name);
    if (a.is_matrix) {
      CHECK(a.format().name == b.format().name);
      CHECK(equal(found.load_matrix(a, Reading::buffered).dequantize().span(),
                  native.load_matrix(b, Reading::buffered).dequantize().span()));
      continue;
    }
    std::vector<float> values = native.load_vector(b);
    for (float& x : values) x = float(f16(x));
    CHECK(equal(found.load_vector(a), values));
  }
}

/// Pairs of folders for the decoder, in one run of it.
class Decoder {
 public:
  /// Writes what we make of `folder` beside it.
  void add(const std::filesystem::path& folder) {
    const std::string plain = folder.string() + "-plain";
    compress_file(Checkpoint::open(folder), plain, recipe::rtn("f32"), Target::safetensors);
    arguments_ += " '" + folder.string() + "' '" + plain + "'";
  }
  void run() const {
    if (std::system("/usr/bin/python3 -c 'import numpy' 2>/dev/null") != 0) {
      MESSAGE("skipped: no python3 with numpy");
      return;
    }
    const std::string command =
        "/usr/bin/python3 -B '" BANTAM_SOURCE_DIR "/tests/reference/read_quantized.py'" + arguments_;
    CHECK(std::system(command.c_str()) == 0);
  }

 private:
  std::string arguments_;
};

Json quantization_of(const std::filesystem::path& folder) {
  return Json::parse(read_file(folder / "config.json"), "test").at("quantization_config");
}

struct OneThread {
  OneThread() { set_parallel_threads(1); }  // more would cost these small models more than they save
  ~OneThread() { set_parallel_threads(0); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;
};

}  // namespace

TEST_CASE_FIXTURE(OneThread, "every format of every family is written as it is, and read by a decoder of its own") {
  const TemporaryFolder folder;
  fitting_model().write_folder(folder / "hf");
  const Checkpoint model = Checkpoint::open(folder / "hf");
  Decoder decoder;
  int count = 0;
  for (const auto& [name, target] : families) {
    CAPTURE(std::string(name));
    for (const FormatInfo& format : formats()) {
      if (!holds(target, format)) continue;
      CAPTURE(std::string(format.name));
      ++count;
      const auto out = folder / (std::string(name) + "-" + std::string(format.name));
      compress_file(model, out, recipe::rtn(format.name), target);
      compress_file(model, folder / "m.bantam", plan(recipe::rtn(format.name)));
      const Checkpoint found = Checkpoint::open(out);
      CHECK(found.warnings().empty());
      const Checkpoint native = Checkpoint::open(folder / "m.bantam");
      decoder.add(out);
      const std::string family(format.name.substr(0, format.name.find('.')));
      if (family.ends_with("dq")) {
        // Scales are rounded once more, under what the whole matrix shares, to numbers that lie 1/64 of the next power
        // of ten apart or less; seen: 0.002 to 0.005.
        CHECK(difference(found, native, "model.layers.0.mlp.gate_proj") < 0.01);
      } else {
        check_as_native(found, native);
      }
      CHECK(logits_of(Model::load(out), some_tokens()).size() == 12 * 37);
    }
  }
  CHECK(count == 2 * 17 + 6 + 7);
  decoder.run();
}

TEST_CASE_FIXTURE(OneThread, "what calibrated methods make of a block goes into the folders") {
  const TemporaryFolder folder;
  fitting_model().write_folder(folder / "hf");
  const Checkpoint model = Checkpoint::open(folder / "hf");
  const Calibration calibration = some_calibration();
  Decoder decoder;
  const MethodOptions details{.gptq = {.order = ColumnOrder::activation}, .awq = {.ratios = 3, .weigh_weights = false}};
  const std::tuple<Method, const char*, Target> cases[] = {{Method::gptq, "i4.g128", Target::gptq},
                                                           {Method::gptq, "i3z.g64", Target::gptq_v2},
                                                           {Method::awq, "i4z.g64", Target::awq},
                                                           {Method::awq, "nf4w.g64", Target::bnb}};
  for (const auto& [method, format, target] : cases) {
    if (quick() && (target == Target::gptq_v2 || target == Target::bnb)) continue;  // one of each method
    CAPTURE(std::string(format));
    const Recipe recipe = recipe::with(method, format, {}, details);
    const auto out = folder / ("calibrated-" + std::string(format));
    compress_file(model, out, recipe, target, {}, calibration);
    compress_file(model, folder / "m.bantam", plan(recipe), Target::native, {}, calibration);
    CHECK(difference(Checkpoint::open(out), Checkpoint::open(folder / "m.bantam"), "model.layers.0.self_attn.k_proj") ==
          0);
    CHECK(difference(Checkpoint::open(out), Checkpoint::open(folder / "m.bantam"), "model.layers.0.mlp.down_proj") ==
          0);
    decoder.add(out);
  }
  decoder.run();
  const Json config = quantization_of(folder / "calibrated-i4.g128");
  CHECK(config["static_groups"] == true);
  CHECK(config["desc_act"] == false);  // groups are those of the model's columns, so readers need no g_idx
}

TEST_CASE_FIXTURE(OneThread, "a matrix that a container gives another format takes part in its block like the others") {
  const TemporaryFolder folder;
  TinyModel tiny{.dim = 256, .layers = 1, .heads = 4, .kv_heads = 4, .head_dim = 64, .ffn = 96};
  tiny.make();
  // Inputs of down differ in size, so that AWQ has scales to fold.
  std::vector<float>& up = tiny.tensor("model.layers.0.mlp.up_proj.weight").values;
  for (std::size_t i = 0; i < up.size(); ++i) up[i] *= i / 256 % 7 == 0 ? 8.0f : 1.0f;
  tiny.write_folder(folder / "hf");
  const Checkpoint model = Checkpoint::open(folder / "hf");
  const MethodOptions details{.awq = {.ratios = 5}};
  const std::tuple<const char*, Target, const char*, const char*> cases[] = {{"q4k", Target::gguf, "m.gguf", "i5.g32"},
                                                                             {"i4z.g64", Target::awq, "awq", "f16"}};
  for (const auto& [format, target, out, other] : cases) {
    CAPTURE(std::string(format));
    const Recipe recipe = recipe::awq(format, {}, details);
    compress_file(model, folder / out, recipe, target, {}, some_calibration());
    compress_file(model, folder / "m.bantam", plan(recipe).keep("*.down_proj", other), Target::native, {},
                  some_calibration());
    const Checkpoint found = Checkpoint::open(folder / out), native = Checkpoint::open(folder / "m.bantam");
    for (const char* name : {"model.layers.0.mlp.up_proj", "model.layers.0.mlp.down_proj"}) {
      CAPTURE(std::string(name));
      CHECK(difference(found, native, name) == 0);
    }
    // Scales were folded into what down reads, as a format of few bits gains by it; f16 does not.
    const bool folded = difference(found, model, "model.layers.0.mlp.down_proj") > 0.1;
    CHECK(folded == (target == Target::gguf));
  }
}

TEST_CASE_FIXTURE(OneThread, "modules of other formats are named in the config") {
  const TemporaryFolder folder;
  fitting_model(true).write_folder(folder / "hf");
  const Checkpoint model = Checkpoint::open(folder / "hf");
  Decoder decoder;
  const auto write = [&](const char* name, const Recipe& recipe, Target target) {
    compress_file(model, folder / name, recipe, target);
    compress_file(model, folder / "m.bantam", plan(recipe));
    check_as_native(Checkpoint::open(folder / name), Checkpoint::open(folder / "m.bantam"));
    decoder.add(folder / name);
    return quantization_of(folder / name);
  };
  const auto mixed =
      recipe::rtn("i4.g64").keep("*.down_proj", "i8.g128").keep("*.k_proj", "i3z.g32").keep("*.o_proj", "bf16");
  const Json gptq = write("gptq", mixed, Target::gptq);
  CHECK(gptq["bits"] == 4);
  CHECK(gptq["dynamic"].size() == 3);
  CHECK(gptq["dynamic"]["-:model\\.layers\\.0\\.self_attn\\.o_proj$"].empty());
  CHECK(gptq["dynamic"]["+:model\\.layers\\.0\\.mlp\\.down_proj$"] ==
        Json{{"bits", 8}, {"group_size", 128}, {"sym", true}});
  const Json awq = write("awq", recipe::rtn("i4z.g32").keep("*.v_proj", "f32"), Target::awq);
  CHECK(awq["modules_to_not_convert"] == Json::array({"model.layers.0.self_attn.v_proj"}));
  const Json bnb = write("bnb", recipe::rtn("nf4").keep("*.v_proj", "f16"), Target::bnb);
  CHECK(bnb["llm_int8_skip_modules"] == Json::array({"lm_head", "model.layers.0.self_attn.v_proj"}));
  decoder.run();
}

TEST_CASE_FIXTURE(OneThread, "matrices whose shapes a family does not take stay in f16") {
  const TemporaryFolder folder;
  TinyModel tiny{.dim = 128, .layers = 1, .heads = 4, .kv_heads = 2, .head_dim = 32, .ffn = 168};
  tiny.make();
  tiny.write_folder(folder / "hf");
  const std::tuple<const char*, Target, const char*, const char*> cases[] = {
      {"i4.g32", Target::gptq, "f16", "f16"},
      {"i4z.g32", Target::awq, "i4z.g32", "f16"},
      {"nf4.g64", Target::bnb, "nf4.g64", "f16"},
      {"i8.row", Target::bnb, "i8.row", "i8.row"}};
  for (const auto& [format, target, gate, down] : cases) {
    CAPTURE(std::string(format));
    const auto out = folder / (std::string(format) + "-" + gate);
    compress_file(Checkpoint::open(folder / "hf"), out, recipe::rtn(format), target);
    const Model model = Model::load(out);
    CHECK(model.weights().layers[0].mlp.gate.format().name == gate);
    CHECK(model.weights().layers[0].mlp.down.format().name == down);
    CHECK(model.weights().layers[0].attention.q.format().name == format);
  }
}

TEST_CASE_FIXTURE(OneThread,
                  "columns that GPTQ sorted stay sorted in GPTQ folders, and lie in the model's order elsewhere") {
  for (const ForeignFolder& folder : foreign_folders()) {
    if (folder.name != "gptq-4-32-sorted") continue;
    const TemporaryFolder temporary;
    const Checkpoint sorted = Checkpoint::open(folder.path);
    compress_file(sorted, temporary / "gptq", recipe::rtn("i4.g32"), Target::gptq);
    const auto before = SafetensorsFile::open_folder(folder.path),
               after = SafetensorsFile::open_folder(temporary / "gptq");
    int matrices = 0;
    for (const TensorEntry& entry : before->tensors()) {
      if (!entry.name.ends_with(".g_idx") && !entry.name.ends_with(".qweight") && !entry.name.ends_with(".scales"))
        continue;
      CAPTURE(entry.name);
      const TensorEntry* found = after->find(entry.name);
      REQUIRE(found != nullptr);
      CHECK(std::ranges::equal(found->bytes, entry.bytes));
      ++matrices;
    }
    CHECK(matrices == 3 * 2 * 7);
    CHECK(quantization_of(temporary / "gptq")["desc_act"] == true);
    Decoder decoder;
    decoder.add(temporary / "gptq");
    decoder.run();
    const std::tuple<const char*, Target, const char*> others[] = {{"awq", Target::awq, "i4.g32"},
                                                                   {"m.gguf", Target::gguf, "i4.g32"}};
    for (const auto& [name, target, format] : others) {
      CAPTURE(std::string(name));
      compress_file(sorted, temporary / name, recipe::rtn(format), target);
      // Rounded again, to groups of neighbors: about what rounding to 4 bits costs. Columns in a wrong order cost 1.4.
      CHECK(difference(Checkpoint::open(temporary / name), Checkpoint::open(folder.plain),
                       "model.layers.1.mlp.down_proj") < 0.15);
    }
  }
}

TEST_CASE_FIXTURE(OneThread, "what a family cannot hold is refused by name before anything is written") {
  const TemporaryFolder folder;
  TinyModel tiny = fitting_model();
  tiny.write_folder(folder / "hf");
  const auto refused = [&](const Recipe& recipe, Target target, const std::string& says) {
    const std::string text =
        error_of([&] { compress_file(Checkpoint::open(folder / "hf"), folder / "out", recipe, target); });
    CHECK_MESSAGE(text.find(says) != std::string::npos, text);
    CHECK(!std::filesystem::exists(folder / "out"));
  };
  refused(recipe::rtn("nf4"), Target::gptq,
          "format: expected one that such files have (f32, f16, bf16, i8.g128, i8.g32, i4.g32, ");
  refused(recipe::rtn("i5"), Target::gptq, "found i5.g32");
  refused(recipe::rtn("i8.row"), Target::gptq_v2, "found i8.row");
  refused(recipe::rtn("i3"), Target::awq,
          "(f32, f16, bf16, i4.g32, i4.g64, i4.g128, i4z.g32, i4z.g64, i4z.g128), found i3.g32");
  refused(recipe::rtn("iq4nl"), Target::bnb, "found iq4nl.g32");
  refused(recipe::rtn("i4").keep("*.q_proj", "q4k"), Target::gptq, "keep *.q_proj: expected one that such files have");
  refused(recipe::rtn("i4").keep("lm_head", "i8"), Target::gptq,
          "lm_head: expected f32, f16 or bf16, as such files have embeddings and heads, found i8.g32");
  refused(recipe::rtn("f16"), Target::gptq, "recipe: expected a quantized matrix in some block, found none");
  refused(recipe::rtn("f16"), Target::awq, "recipe: expected a quantized matrix in some block, found none");
  refused(recipe::rtn("f16"), Target::bnb, "recipe: expected a quantized matrix in some block, found none");
  refused(
      recipe::rtn("i4.g64").keep("*.up_proj", "i4z.g32"), Target::awq,
      "awq: expected one size of groups in a file, found i4.g64 for model.layers.0.self_attn.q_proj and i4z.g32 for model.layers.0.mlp.up_proj");
  refused(recipe::rtn("nf4").keep("*.up_proj", "i8.row"), Target::bnb,
          "bnb: expected one kind of format in a file, found nf4.g64");
  tiny.tensor("model.norm.weight").values[3] = 70000;
  tiny.write_folder(folder / "hf");
  refused(recipe::rtn("i4"), Target::gptq, "model.norm: expected weights that f16 can hold, found 70000");
}

TEST_CASE_FIXTURE(OneThread, "settings of another model in the output's folder are not taken over") {
  const TemporaryFolder folder;
  fitting_model().write_folder(folder / "hf");
  const Checkpoint model = Checkpoint::open(folder / "hf");
  compress_file(model, folder / "out", recipe::rtn("i4"), Target::gptq);
  compress_file(model, folder / "out", recipe::rtn("i8"), Target::gptq);  // its own are written anew
  CHECK(quantization_of(folder / "out")["bits"] == 8);
  for (const Target target : {Target::safetensors, Target::awq}) {
    const Recipe recipe = recipe::rtn(target == Target::awq ? "i4" : "f16");
    const std::string text = error_of([&] { compress_file(model, folder / "out", recipe, target); });
    CHECK(text.find("quantize_config.json: expected no settings of another quantized model") != std::string::npos);
  }
}

TEST_CASE_FIXTURE(OneThread, "zero points beyond the codes, as old GPTQ files may mean them, are refused") {
  for (const ForeignFolder& folder : foreign_folders()) {
    if (folder.name != "gptq-4-128-zeros") continue;
    const TemporaryFolder temporary;
    const Checkpoint legacy = Checkpoint::open(folder.path, {.gptq_zero = GptqZero::legacy});
    for (const Target target : {Target::gptq, Target::gptq_v2, Target::awq}) {
      const std::string text =
          error_of([&] { compress_file(legacy, temporary / "out", recipe::rtn("i4z.g128"), target); });
      CHECK_MESSAGE(text.find("_proj: expected zero points up to 15, found 16 in row ") != std::string::npos, text);
      CHECK(!std::filesystem::exists(temporary / "out"));
    }
    // Read as the definition has it, the same file goes through, and comes out without what was left open.
    const Checkpoint wrapped = Checkpoint::open(folder.path, {.gptq_zero = GptqZero::wrapped});
    compress_file(wrapped, temporary / "out", recipe::rtn("i4z.g128"), Target::gptq);
    CHECK(Checkpoint::open(temporary / "out").warnings().empty());
    CHECK(difference(Checkpoint::open(temporary / "out"), wrapped, "model.layers.1.mlp.up_proj") == 0);
  }
}

}  // namespace bantam::test
