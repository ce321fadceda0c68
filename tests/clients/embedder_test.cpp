// Embedders of the C interface give the library's own numbers, of encoders and of classifiers.
#include "bantam/session/rerank.hpp"
#include "support.hpp"
#include "tiny_model.hpp"

using namespace capi_test;

TEST_CASE("an encoder's embeddings and a classifier's scores are the same in C") {
  for (const std::int64_t labels : {0, 1}) {
    bantam::test::TinyModel tiny{.arch = &bantam::archs::bert, .labels = labels};
    tiny.make();
    const bantam::test::TemporaryFolder folder;
    tiny.write_folder(folder / "hf");
    bantam::Engine engine(bantam::Model::load(folder / "hf"), {.threads = 2});
    const std::vector<std::string> texts{"abc", "the quick fox", "x", "the quick brown fox"};
    std::vector<const char*> as_c;
    for (const std::string& text : texts) as_c.push_back(text.c_str());

    const auto model = load((folder / "hf").string());
    bantam_embedder_options options = BANTAM_EMBEDDER_OPTIONS_INIT;
    options.threads = 2;
    options.truncate = 1;
    bantam_embedder* embedder = nullptr;
    REQUIRE_OK(bantam_embedder_new(&embedder, model.get(), &options));
    const bantam::Tensor<float, 2> rows = bantam::embed(engine, texts);
    std::vector<float> found(static_cast<std::size_t>(rows.size()));
    CHECK_OK(bantam_embedder_embed(embedder, as_c.data(), as_c.size(), found.data(), found.size()));
    CHECK(std::ranges::equal(found, rows.span()));
    std::vector<float> scores(texts.size());
    const bantam_status status = bantam_embedder_rerank(embedder, "quick", as_c.data(), as_c.size(), scores.data());
    if (labels == 1) {
      CHECK(status == BANTAM_OK);
      CHECK(scores == bantam::rerank(engine, "quick", texts));
      CHECK(scores[0] != scores[1]);
    } else {
      CHECK(status == BANTAM_UNSUPPORTED);
      CHECK(std::string(bantam_last_error()) == "rerank: expected a model with a classifier, found one of type bert, which makes embeddings: see embed()");
    }
    bantam_embedder_free(embedder);
  }
}
