// Embeddings of hidden states.
#include "bantam/session/embed.hpp"

#include <cmath>

#include "bantam/model/classifier.hpp"
#include "pooled.hpp"

namespace bantam::inline v0 {

namespace {

/// Of what stands for a text as much as is asked for.
void put_embedding(std::span<const double> values, bool normalize, std::span<float> out) {
  values = values.first(out.size());
  double scale = 1;
  if (normalize) {
    double squares = 0;
    for (const double value : values) squares += value * value;
    if (squares > 0) scale = std::sqrt(squares);
  }
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(values[i] / scale);
}

bool normalizes(const ModelConfig& config, const EmbedOptions& options) { return options.normalize.value_or(config.normalizes.value_or(true)); }

std::int64_t dimensions_of(const ModelConfig& config, const EmbedOptions& options) {
  const std::int64_t all = config.embedding_dim(), asked = options.dimensions;
  if (asked < 0 || asked > all) fail(Errc::invalid_argument, "embed: dimensions: expected 1 to ", all, ", which the model's vectors have, found ", asked);
  return asked == 0 ? all : asked;
}

/// Those of an option that cuts texts.
EncodeOptions encoding(const EmbedOptions& options, std::int64_t context) {
  EncodeOptions encode = options.encode;
  if (options.truncate && encode.longest == 0) encode.longest = static_cast<std::size_t>(context);
  return encode;
}

}  // namespace

std::vector<float> embed(Session& session, std::span<const TokenId> tokens, const EmbedOptions& options) {
  if (tokens.empty()) fail(Errc::invalid_argument, "embed: expected at least one token, found none");
  const ModelConfig& config = session.model().config();
  check_pooled(config, "embed");
  std::vector<float> embedding(static_cast<std::size_t>(dimensions_of(config, options)));
  Pool pool(options.pooling.value_or(config.usual_pooling()), std::ssize(tokens), static_cast<std::size_t>(config.dim));
  session.clear();
  session.states(tokens, [&](std::int64_t index, std::span<const float> state) { pool.add(index, state); });
  put_embedding(behind_pooling(config, session.model().weights(), pool.finish()), normalizes(config, options), embedding);
  return embedding;
}

std::vector<float> embed(Session& session, std::string_view text, const EmbedOptions& options) {
  return embed(session, session.model().tokenizer().encode(text, encoding(options, session.context())), options);
}

Tensor<float, 2> embed(Engine& engine, std::span<const std::vector<TokenId>> texts, const EmbedOptions& options) {
  const ModelConfig& config = engine.model().config();
  std::vector<PooledText> read;
  for (const std::vector<TokenId>& text : texts) {
    read.push_back({.ids = text, .adapters = options.adapters});
    if (options.truncate && std::ssize(text) > engine.context()) read.back().ids = read.back().ids.first(static_cast<std::size_t>(engine.context()));
  }
  const std::int64_t dimensions = dimensions_of(config, options);
  Tensor<float, 2> embeddings({std::ssize(texts), dimensions});
  read_pooled(engine, read, options.pooling.value_or(config.usual_pooling()), PassOutput::state, options.progress, "embed", [&](std::size_t i, std::span<const double> values) {
    const std::vector<double> made = behind_pooling(config, engine.model().weights(), values);
    put_embedding(made, normalizes(config, options), {&embeddings(static_cast<std::int64_t>(i), 0), static_cast<std::size_t>(dimensions)});
  });
  return embeddings;
}

Tensor<float, 2> embed(Engine& engine, std::span<const std::string> texts, const EmbedOptions& options) {
  const EncodeOptions encode = encoding(options, engine.context());
  std::vector<std::vector<TokenId>> ids;
  for (const std::string& text : texts) ids.push_back(engine.model().tokenizer().encode(text, encode));
  return embed(engine, ids, options);
}

}  // namespace bantam::inline v0
