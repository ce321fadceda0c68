// Checkpoints that other projects quantized: values against a writer of its own (tests/reference/foreign_checkpoints.py).
#include <algorithm>
#include <bit>
#include <cstring>

#include "bantam/nn/ops.hpp"
#include "bantam/tensor/random.hpp"
#include "model/foreign_folders.hpp"
#include "tiny_model.hpp"

namespace bantam::test {
namespace {

int differing(std::span<const float> a, std::span<const float> b) {
  REQUIRE(a.size() == b.size());
  int count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    // Zeros of either sign are one value.
    count += std::bit_cast<std::uint32_t>(a[i]) != std::bit_cast<std::uint32_t>(b[i]) && (a[i] != 0 || b[i] != 0);
  }
  return count;
}

TEST_CASE("foreign checkpoints hold the values of their definition, bit for bit, in the format that fits") {
  for (const ForeignFolder& folder : foreign_folders()) {
    CAPTURE(folder.name);
    const Checkpoint found = Checkpoint::open(folder.path);
    const Checkpoint expected = Checkpoint::open(folder.plain);
    for (const CheckpointTensor& plain : expected.tensors()) {
      CAPTURE(plain.name);
      const auto place = std::ranges::find(found.tensors(), plain.name, &CheckpointTensor::name);
      REQUIRE(place != found.tensors().end());
      const CheckpointTensor& tensor = *place;
      if (!tensor.is_matrix) {
        CHECK(differing(found.load_vector(tensor), expected.load_vector(plain)) == 0);
        continue;
      }
      CAPTURE(tensor.stored_as());
      const std::string format = folder.formats.value(tensor.tensor_name(), "f32");
      CHECK(tensor.format().name == format);
      const auto values = expected.load_matrix(plain, Reading::buffered).dequantize();
      CHECK(differing(found.load_matrix(tensor, Reading::buffered).dequantize().span(), values.span()) == 0);
      std::vector<float> row(static_cast<std::size_t>(tensor.columns));
      RowCodes scratch;
      int wrong = 0;
      for (std::int64_t r = 0; r < tensor.rows; ++r) {
        found.read_row(tensor, r, row, scratch);
        wrong += differing(row, {&values(r, 0), row.size()});
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("foreign checkpoints run as their values do in floats, but for 8-bit activations") {
  for (const ForeignFolder& folder : foreign_folders()) {
    CAPTURE(folder.name);
    const std::vector<float> found = logits_of(Model::load(folder.path), some_tokens());
    const std::vector<float> expected = logits_of(Model::load(folder.plain), some_tokens());
    REQUIRE(found.size() == expected.size());
    double difference = 0, size = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      difference += std::pow(static_cast<double>(found[i]) - static_cast<double>(expected[i]), 2);
      size += std::pow(static_cast<double>(expected[i]), 2);
    }
    // Rounding activations to 8 bits costs half a percent a product, up to 3.5 percent in all (measured over the cases); a
    // wrong order of columns costs a hundred.
    CHECK(std::sqrt(difference / size) < 0.05);
  }
}

TEST_CASE("zeros of GPTQ's first version that are stored as all ones mean 0, with a warning, or 2^bits if asked for") {
  for (const ForeignFolder& folder : foreign_folders()) {
    const bool first_version = folder.name == "gptq-4-128-zeros" || folder.name == "gptq-3-128-zeros" || folder.name == "gptq-2-64";
    if (!first_version && folder.name != "gptq-4-64-v2" && folder.name != "gptq-4-128") continue;
    CAPTURE(folder.name);
    const Checkpoint automatic = Checkpoint::open(folder.path);
    const Checkpoint wrapped = Checkpoint::open(folder.path, {.gptq_zero = GptqZero::wrapped});
    const Checkpoint legacy = Checkpoint::open(folder.path, {.gptq_zero = GptqZero::legacy});
    CHECK(wrapped.warnings().empty());
    CHECK(legacy.warnings().empty());
    CHECK(automatic.warnings().size() == (first_version ? 1 : 0));
    if (first_version) {
      const int largest = folder.name[5] == '4' ? 15 : folder.name[5] == '3' ? 7 : 3;
      const std::string says = message("zero points are stored as ", largest, ", which old tools mean as ", largest + 1);
      CHECK_MESSAGE(automatic.warnings()[0].find(says) != std::string::npos, automatic.warnings()[0]);
      CHECK(automatic.warnings()[0].starts_with(folder.path.string() + ": model.layers.0.self_attn.q_proj and "));
    }
    int moved = 0;
    for (std::size_t i = 0; i < legacy.tensors().size(); ++i) {
      const CheckpointTensor& tensor = legacy.tensors()[i];
      if (!tensor.is_matrix) continue;
      const auto defined = wrapped.load_matrix(wrapped.tensors()[i], Reading::buffered).dequantize();
      const auto old = legacy.load_matrix(tensor, Reading::buffered).dequantize();
      CHECK(differing(automatic.load_matrix(automatic.tensors()[i], Reading::buffered).dequantize().span(), defined.span()) == 0);
      if (!tensor.stored_as().starts_with("gptq")) continue;
      // Rows whose zero is 0 lie 2^bits steps lower; the writer made every third row such a one.
      for (std::int64_t row = 0; row < tensor.rows; ++row) {
        const int bits = folder.name[5] - '0';
        const auto line = [&](const Tensor<float, 2>& w) { return std::span<const float>(&w(row, 0), static_cast<std::size_t>(tensor.columns)); };
        if (differing(line(old), line(defined)) == 0) continue;
        ++moved;
        const float step = (defined(row, 0) - old(row, 0)) / static_cast<float>(1 << bits);
        CHECK(step > 0);
        CHECK(defined(row, 0) / step == doctest::Approx(std::round(defined(row, 0) / step)));
        CHECK(std::ranges::min(line(defined)) >= 0);
        CHECK(std::ranges::max(line(old)) <= 0);
      }
    }
    CHECK((moved > 0) == first_version);
    CHECK(differing(logits_of(Model::load(folder.path, {.gptq_zero = GptqZero::wrapped}), some_tokens()), logits_of(Model::load(folder.path), some_tokens())) == 0);
    CHECK((differing(logits_of(Model::load(folder.path, {.gptq_zero = GptqZero::legacy}), some_tokens()), logits_of(Model::load(folder.path), some_tokens())) > 0) == first_version);
  }
}

TEST_CASE("a file that says GPTQModel wrote it leaves nothing open") {
  for (const ForeignFolder& folder : foreign_folders()) {
    if (folder.name != "gptq-4-128-zeros") continue;
    const TemporaryFolder temporary;
    const auto copy = temporary / "m";
    std::filesystem::copy(folder.path, copy);
    const std::pair<nlohmann::json, std::size_t> cases[] = {{nlohmann::json::array({"gptqmodel:5.0.0"}), 0}, {"gptqmodel:1.4", 0}, {"other:1", 1}, {4, 1}, {nullptr, 1}};
    for (const auto& [quantizer, warnings] : cases) {
      CAPTURE(quantizer.dump());
      auto config = nlohmann::json::parse(read_file(folder.path / "config.json"));
      config["quantization_config"]["meta"] = {{"quantizer", quantizer}};
      write_file(copy / "config.json", config.dump());
      CHECK(Checkpoint::open(copy).warnings().size() == warnings);
    }
  }
}

TEST_CASE("native files keep the order of columns, and a damaged one is refused") {
  for (const ForeignFolder& folder : foreign_folders()) {
    if (folder.name != "gptq-4-32-sorted" && folder.name != "gptq-4-128-sorted") continue;
    CAPTURE(folder.name);
    const TemporaryFolder temporary;
    const Model model = Model::load(folder.path);
    model.save(temporary / "m.bantam");
    const LayerWeights& layer = model.weights().layers[0];
    if (folder.name == "gptq-4-32-sorted") {
      // Sorted alike: one gathered form serves both.
      CHECK(layer.mlp.gate.order() != nullptr);
      CHECK(layer.mlp.gate.order() == layer.mlp.up.order());
    }
    const std::vector<float> expected = logits_of(model, some_tokens());
    for (const WeightMemory memory : {WeightMemory::mapped, WeightMemory::huge_pages}) {
      CHECK(differing(logits_of(Model::load(temporary / "m.bantam", {.memory = memory}), some_tokens()), expected) == 0);
    }
    std::string bytes = read_file(temporary / "m.bantam");
    {
      const Checkpoint saved = Checkpoint::open(temporary / "m.bantam");
      const auto down = std::ranges::find(saved.tensors(), Role::down, &CheckpointTensor::role);
      REQUIRE(down->order() != nullptr);
      const std::span<const std::byte> part = down->source->parts()[0].bytes;
      const auto end = static_cast<std::size_t>(part.data() - down->source->parts()[0].entry->file->bytes().data()) + part.size();
      std::memcpy(bytes.data() + end - 4, bytes.data() + end - 8, 4);
    }
    write_file(temporary / "twice.bantam", bytes);
    const std::string text = error_of([&] { (void)Model::load(temporary / "twice.bantam"); });
    CHECK_MESSAGE(text.find("down_proj.weight: expected each column once, found ") != std::string::npos, text);
  }
}

TEST_CASE("products outside a model read a sorted matrix in the model's order") {
  for (const ForeignFolder& folder : foreign_folders()) {
    if (folder.name != "gptq-3-64-sorted") continue;
    const Checkpoint checkpoint = Checkpoint::open(folder.path);
    const auto down = std::ranges::find(checkpoint.tensors(), Role::down, &CheckpointTensor::role);
    const WeightMatrix w = checkpoint.load_matrix(*down, Reading::buffered);
    REQUIRE(w.order() != nullptr);
    const WeightMatrix plain = WeightMatrix::quantize(w.dequantize(), find_format("f32"));
    const auto x = random::normal<float>({3, w.columns()}, 5);
    const auto expected = ops::matmul(x, plain);
    CHECK(relative_error(expected, ops::matmul(x, w)) < 1e-6);
    CHECK(relative_error(expected, ops::matmul(x, w, ops::Precision::fast)) < 0.02);
  }
}

}  // namespace
}  // namespace bantam::test
