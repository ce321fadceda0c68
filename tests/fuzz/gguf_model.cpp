// Whole GGUF models of few weights: loaded, run, and, where the file is sound, equal to themselves when loaded again.
#include "bantam/model/model.hpp"
#include "fuzz/fuzz.hpp"
#include "fuzz/readers.hpp"
#include "fuzz/structures.hpp"

namespace bantam::fuzz {

namespace {

void run_gguf_model(Bytes bytes) {
  static const Scratch folder;
  Choices choices(bytes);
  test::TinyModel model = tiny_model(choices);
  // Keys that come first are those that count, or a reason to refuse.
  test::GgufBuilder builder = choices.once_in(3) ? test::GgufBuilder() : model.gguf();
  for (std::size_t keys = choices.below(4); keys > 0; --keys) add_gguf_key(builder, choices);
  // One tensor in another type, with as many bytes as chance gives.
  if (choices.once_in(2)) {
    const test::TinyTensor& tensor = model.tensors[choices.below(model.tensors.size())];
    const auto type = static_cast<std::uint32_t>(choices.below(42));
    builder.tensor(tensor.gguf_name, {tensor.shape.rbegin(), tensor.shape.rend()}, type, choices.text(4000));
  }
  std::string file = builder.bytes();
  damage(file, choices);
  const auto path = folder.put("model.gguf", file);
  survives([&] {
    const Model loaded = Model::load(path);
    use(loaded.tokenizer(), choices.rest());
    use(loaded);
  });
}

const Target gguf_model_target("gguf_model", run_gguf_model);

}  // namespace
}  // namespace bantam::fuzz
