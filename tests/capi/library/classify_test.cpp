// Labels of texts through the C interface, against the library itself.
#include <algorithm>

#include "bantam/session/rerank.hpp"
#include "support.hpp"
#include "tiny_model.hpp"

using namespace bantam;
using namespace capi_test;

TEST_CASE("an embedder gives texts the labels that the library gives, alone and as pairs") {
  constexpr std::int64_t labels = 3;
  test::TinyModel tiny{.arch = &archs::roberta, .labels = labels};
  tiny.make();
  tiny.config["id2label"] = {{"0", "calm"}, {"1", "stormy"}};
  const Folder folder;
  const std::string path = folder / "classifier";
  tiny.write_folder(path);
  const auto model = load(path);
  REQUIRE(bantam_model_label_count(model.get()) == labels);
  for (const auto& [index, name] : {std::pair{0, "calm"}, {1, "stormy"}, {2, "LABEL_2"}}) CHECK(std::string(bantam_model_label(model.get(), static_cast<std::size_t>(index))) == name);
  CHECK(bantam_model_label(model.get(), labels) == nullptr);
  CHECK(bantam_model_label(nullptr, 0) == nullptr);
  bantam_embedder* opened = nullptr;
  bantam_embedder_options options = BANTAM_EMBEDDER_OPTIONS_INIT;
  options.threads = 2;
  REQUIRE_OK(bantam_embedder_new(&opened, model.get(), &options));
  const Owned<bantam_embedder> embedder(opened);
  Engine engine(Model::load(path));
  const std::vector<std::string> texts = {"the sea", "a calm wind"};
  const char* const given[] = {texts[0].c_str(), texts[1].c_str()};
  std::vector<float> rows(2 * labels);
  for (const char* second : {static_cast<const char*>(nullptr), "the ship"}) {
    CAPTURE(second != nullptr);
    REQUIRE_OK(bantam_embedder_classify(embedder.get(), given, 2, second, rows.data(), rows.size()));
    const Tensor<float, 2> expected = classify(engine, texts, {.second = second == nullptr ? "" : second});
    CHECK(std::ranges::equal(rows, expected.span()));
    CHECK(rows[0] + rows[1] + rows[2] == doctest::Approx(1));
  }
  CHECK(bantam_embedder_classify(embedder.get(), given, 2, nullptr, rows.data(), rows.size() - 1) == BANTAM_INVALID_ARGUMENT);
  CHECK(std::string(bantam_last_error()) == "labels: expected room for 2 rows of 3 numbers, found 5");
  CHECK(bantam_embedder_classify(embedder.get(), given, 2, nullptr, nullptr, rows.size()) == BANTAM_INVALID_ARGUMENT);
  CHECK(bantam_embedder_classify(embedder.get(), nullptr, 0, nullptr, nullptr, 0) == BANTAM_OK);
}

TEST_CASE("a model without a classifier has no labels") {
  const auto model = load();
  CHECK(bantam_model_label_count(model.get()) == 0);
  CHECK(bantam_model_label(model.get(), 0) == nullptr);
  bantam_embedder* opened = nullptr;
  REQUIRE_OK(bantam_embedder_new(&opened, model.get(), nullptr));
  const Owned<bantam_embedder> embedder(opened);
  const char* text = "the sea";
  float label = 0;
  CHECK(bantam_embedder_classify(embedder.get(), &text, 1, nullptr, &label, 1) == BANTAM_UNSUPPORTED);
}
