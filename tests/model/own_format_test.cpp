// Models with weights of formats outside the list.
#include "bantam/bantam.hpp"
#include "bantam/kernels/own_format.hpp"
#include "support.hpp"

using namespace bantam;

namespace {

/// The same numbers as i4.g32, under another name.
struct Twin : Int<4, 32> {
  static constexpr std::string_view name = "twin.g32";
  static constexpr FormatId id{0x7f01};
};

}  // namespace

TEST_CASE("a model with weights of a format outside the list runs, and is not saved") {
  const test::TemporaryFolder folder;
  const Model model = Model::load(std::filesystem::path(BANTAM_SOURCE_DIR) / "models/books4m");
  const auto with = [&]<class F>(std::type_identity<F>) {
    ModelWeights weights = model.weights();
    for (LayerWeights& layer : weights.layers) layer.mlp.down = quantize<F>(layer.mlp.down.dequantize());
    return Model::from_weights(model.checkpoint(), std::move(weights), "");
  };
  const Model mine = with(std::type_identity<Twin>{}), listed = with(std::type_identity<Int<4, 32>>{});
  const GenerateOptions options{.max_tokens = 12, .sampling = {.temperature = 0}};
  Session a(mine), b(listed);
  CHECK(a.stream("The sea", options).text() == b.stream("The sea", options).text());
  CHECK(test::error_of([&] { mine.save(folder / "x.bantam"); }).find("twin.g32") != std::string::npos);
  CHECK(!std::filesystem::exists(folder / "x.bantam"));
}
