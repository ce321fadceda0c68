// Where the matrices of a loaded model lie: side by side in one arena, whatever file they came from.
#include "bantam/core/memory.hpp"
#include "bantam/model/roles.hpp"
#include "tiny_model.hpp"

namespace bantam::test {
namespace {

/// 10 MB of experts of 0.1 MB.
TinyModel many_experts() {
  TinyModel tiny{.arch = &archs::qwen3_moe, .dim = 128, .layers = 2, .ffn = 64, .vocab = 300, .experts = 24, .expert_ffn = 144};
  return tiny.make();
}

/// Matrices that do not begin where the one before ends.
int gaps(const Model& model) {
  const std::byte* next = nullptr;
  int gaps = 0;
  for (const CheckpointTensor& tensor : model.checkpoint().tensors()) {
    const WeightMatrix* matrix = matrix_of(*model.checkpoint().weights(), tensor);
    if (matrix == nullptr) continue;
    const std::byte* const data = matrix->view().data;
    gaps += next != nullptr && data != next;
    next = data + round_up<std::int64_t>(matrix->bytes(), StorageArena::block_alignment);
  }
  return gaps;
}

}  // namespace

TEST_CASE("matrices that a file was read into lie side by side, from a huge page on") {
  const TemporaryFolder folder;
  const TinyModel tiny = many_experts();
  tiny.write_folder(folder / "hf");
  tiny.write_gguf(folder / "m.gguf");
  const Model hf = Model::load(folder / "hf");
  hf.save(folder / "m.bantam");
  const std::vector<float> logits = logits_of(hf, some_tokens());
  for (const char* name : {"hf", "m.gguf", "m.bantam"}) {
    CAPTURE(std::string(name));
    const Model model = Model::load(folder / name);
    CHECK(gaps(model) == 0);
    const WeightMatrix* first = matrix_of(*model.checkpoint().weights(), model.checkpoint().tensors().front());
    REQUIRE(first != nullptr);
    CHECK(reinterpret_cast<std::uintptr_t>(first->view().data) % (2u << 20) == 0);
    CHECK(logits_of(model, some_tokens()) == logits);
  }
  for (const WeightMemory memory : {WeightMemory::mapped, WeightMemory::direct}) CHECK(logits_of(Model::load(folder / "m.bantam", {.memory = memory}), some_tokens()) == logits);
}

TEST_CASE("a matrix outlives the model it was loaded with") {
  const TemporaryFolder folder;
  many_experts().write_folder(folder / "hf");
  WeightMatrix last;
  Tensor<float, 2> expected;
  {
    const Model model = Model::load(folder / "hf");
    last = model.checkpoint().weights()->layers[1].experts.experts.back().down;
    expected = last.dequantize();
  }
  const Model again = Model::load(folder / "hf");
  CHECK(std::ranges::equal(last.dequantize().span(), expected.span()));
}

}  // namespace bantam::test
