// Embeddings and scores of several texts.
#include "bantam/session/rerank.hpp"
#include "objects.hpp"

using namespace bantam;
using namespace bantam::capi;

struct bantam_embedder {
  Engine engine;
  EmbedOptions options;
};

namespace {

std::vector<std::string> texts_of(const char* const* texts, std::size_t count, std::string_view name) {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < count; ++i) all.emplace_back(&need((&need(texts, name))[i], name));
  return all;
}

}  // namespace

extern "C" {

bantam_status bantam_embedder_new(bantam_embedder** embedder, const bantam_model* model, const bantam_embedder_options* options) {
  return guarded([&] {
    bantam_embedder*& out = need(embedder, "embedder");
    const bantam_embedder_options initial = BANTAM_EMBEDDER_OPTIONS_INIT;
    const bantam_embedder_options o = options_of(options, initial, "embedder options");
    EmbedOptions made{.truncate = o.truncate != 0, .progress = progress_of(o.progress, o.progress_user)};
    if (o.pooling != nullptr) made.pooling = find_pooling(o.pooling);
    if (o.normalize >= 0) made.normalize = o.normalize > 0;
    out = new bantam_embedder{Engine(model_of(model), {.context = o.context_tokens, .threads = o.threads}), std::move(made)};
  });
}

void bantam_embedder_free(bantam_embedder* embedder) { delete embedder; }

bantam_status bantam_embedder_embed(bantam_embedder* embedder, const char* const* texts, size_t count, float* embeddings, size_t numbers) {
  return guarded([&] {
    bantam_embedder& e = need(embedder, "embedder");
    const auto width = static_cast<std::size_t>(e.engine.model().config().embedding_dim());
    if (numbers != count * width) fail(Errc::invalid_argument, "embeddings: expected room for ", count, " rows of ", width, " numbers, found ", numbers);
    const Tensor<float, 2> rows = embed(e.engine, texts_of(texts, count, "texts"), e.options);
    if (numbers > 0) std::ranges::copy(rows.span(), &need(embeddings, "embeddings"));
  });
}

bantam_status bantam_embedder_rerank(bantam_embedder* embedder, const char* query, const char* const* documents, size_t count, float* scores) {
  return guarded([&] {
    bantam_embedder& e = need(embedder, "embedder");
    const std::vector<float> found = rerank(e.engine, &need(query, "query"), texts_of(documents, count, "documents"), {.truncate = e.options.truncate, .progress = e.options.progress});
    if (count > 0) std::ranges::copy(found, &need(scores, "scores"));
  });
}

bantam_status bantam_embedder_classify(bantam_embedder* embedder, const char* const* texts, size_t count, const char* second, float* labels, size_t numbers) {
  return guarded([&] {
    bantam_embedder& e = need(embedder, "embedder");
    const ClassifyOptions options{.second = second == nullptr ? "" : second, .truncate = e.options.truncate, .progress = e.options.progress};
    const Tensor<float, 2> rows = classify(e.engine, texts_of(texts, count, "texts"), options);
    if (numbers != rows.span().size()) fail(Errc::invalid_argument, "labels: expected room for ", count, " rows of ", rows.extent(1), " numbers, found ", numbers);
    if (numbers > 0) std::ranges::copy(rows.span(), &need(labels, "labels"));
  });
}

}  // extern "C"
