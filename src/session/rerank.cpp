// Scores of pairs of texts.
#include "bantam/session/rerank.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "bantam/model/classifier.hpp"
#include "bantam/nn/gates.hpp"
#include "pooled.hpp"

namespace bantam::inline v0 {

namespace {

/// How a model that is asked in words was trained to be asked (arXiv:2506.05176, 2).
constexpr std::string_view question =
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. "
    "Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n";
constexpr std::string_view answer_begins = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";
constexpr std::string_view usual_instruction = "Given a web search query, retrieve relevant passages that answer the query";

double yes_of(double yes, double no) { return nn::sigmoid(yes - no); }

/// Of what a classifier makes of a text.
void make_probabilities(std::span<float> labels, LabelUse use) {
  if (use == LabelUse::numbers) return;
  if (use == LabelUse::any_of || labels.size() == 1) {
    for (float& x : labels) x = static_cast<float>(nn::sigmoid(static_cast<double>(x)));
    return;
  }
  const auto most = static_cast<double>(std::ranges::max(labels));
  double sum = 0;
  for (const float x : labels) sum += std::exp(static_cast<double>(x) - most);
  for (float& x : labels) x = static_cast<float>(std::exp(static_cast<double>(x) - most) / sum);
}

std::vector<float> classified(Engine& engine, std::string_view query, std::span<const std::string> documents, const RerankOptions& options) {
  const ModelConfig& config = engine.model().config();
  // One that answers yes or no, whose labels its file keeps (llama.cpp's Qwen3-Reranker): yes comes first.
  const bool answers = config.arch->causal && config.labels == 2;
  if (config.labels != 1 && !answers) fail(Errc::unsupported, "rerank: expected a classifier of one label, found one of ", config.labels);
  std::vector<TokenPair> pairs;
  for (const std::string& document : documents) {
    pairs.push_back(engine.model().tokenizer().encode_pair(query, document, {.longest = options.truncate ? static_cast<std::size_t>(engine.context()) : 0}));
  }
  const Tensor<float, 2> labels = classify(engine, pairs, options.progress, options.adapters);
  std::vector<float> scores;
  for (std::int64_t i = 0; i < labels.extent(0); ++i) {
    scores.push_back(answers ? static_cast<float>(yes_of(static_cast<double>(labels(i, 0)), static_cast<double>(labels(i, 1)))) : labels(i, 0));
  }
  return scores;
}

std::vector<float> asked(Engine& engine, std::string_view query, std::span<const std::string> documents, const RerankOptions& options) {
  const Tokenizer& tokenizer = engine.model().tokenizer();
  const TokenId yes = tokenizer.find("yes"), no = tokenizer.find("no");
  const EncodeOptions as_template{.add_special = false, .parse_special = true}, as_text{.add_special = false};
  const bool can_answer = yes >= 0 && no >= 0 && tokenizer.is_special(tokenizer.find("<|im_start|>"));
  if (!can_answer) {
    fail(Errc::unsupported, "rerank: expected a model with a classifier, or one that is asked by ", "<|im_start|>", " and answers yes or no, found one of type ", engine.model().config().arch->name);
  }
  const std::vector<TokenId> before = tokenizer.encode(question, as_template), behind = tokenizer.encode(answer_begins, as_template);
  std::vector<std::vector<TokenId>> texts;
  for (const std::string& document : documents) {
    const std::string_view instruction = options.instruction.empty() ? usual_instruction : std::string_view(options.instruction);
    std::vector<TokenId> pair = tokenizer.encode(message("<Instruct>: ", instruction, "\n<Query>: ", query, "\n<Document>: ", document), as_text);
    const auto room = static_cast<std::size_t>(std::max<std::int64_t>(0, engine.context() - std::ssize(before) - std::ssize(behind)));
    if (options.truncate && pair.size() > room) pair.resize(room);
    pair.insert(pair.begin(), before.begin(), before.end());
    pair.insert(pair.end(), behind.begin(), behind.end());
    texts.push_back(std::move(pair));
  }
  std::vector<PooledText> read;
  for (const std::vector<TokenId>& text : texts) read.push_back({.ids = text, .adapters = options.adapters});
  std::vector<float> scores(documents.size());
  read_pooled(engine, read, Pooling::last, PassOutput::logits, options.progress, "rerank", [&](std::size_t i, std::span<const double> logits) {
    scores[i] = static_cast<float>(yes_of(logits[static_cast<std::size_t>(yes)], logits[static_cast<std::size_t>(no)]));
  });
  return scores;
}

}  // namespace

std::vector<std::int64_t> best_first(std::span<const float> scores) {
  std::vector<std::int64_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  const auto rank = [&](std::int64_t i) {
    const float score = scores[static_cast<std::size_t>(i)];
    return std::isnan(score) ? -std::numeric_limits<float>::infinity() : score;
  };
  std::ranges::stable_sort(order, std::greater<>(), rank);
  return order;
}

Tensor<float, 2> classify(Engine& engine, std::span<const TokenPair> pairs, const ReadProgress& progress, std::span<const ScaledAdapter> adapters) {
  const ModelConfig& config = engine.model().config();
  if (config.labels == 0) fail(Errc::unsupported, "classify: expected a model with a classifier, found one of type ", config.arch->name, " without");
  std::vector<PooledText> read;
  for (const TokenPair& pair : pairs) {
    read.push_back({.ids = pair.ids, .adapters = adapters});
    if (config.token_types > 1) read.back().types = pair.types;
  }
  Tensor<float, 2> labels({std::ssize(pairs), config.labels});
  read_pooled(engine, read, config.usual_pooling(), PassOutput::state, progress, "classify", [&](std::size_t i, std::span<const double> state) {
    const std::vector<double> values = classify(config, engine.model().weights(), state);
    for (std::size_t l = 0; l < values.size(); ++l) labels(static_cast<std::int64_t>(i), static_cast<std::int64_t>(l)) = static_cast<float>(values[l]);
  });
  return labels;
}

Tensor<float, 2> classify(Engine& engine, std::span<const std::string> texts, const ClassifyOptions& options) {
  const ModelConfig& config = engine.model().config();
  const Tokenizer& tokenizer = engine.model().tokenizer();
  const EncodeOptions encode{.longest = options.truncate ? static_cast<std::size_t>(engine.context()) : 0};
  std::vector<TokenPair> pairs;
  for (const std::string& text : texts) {
    if (!options.second.empty()) {
      pairs.push_back(tokenizer.encode_pair(text, options.second, encode));
      continue;
    }
    TokenPair alone{.ids = tokenizer.encode(text, encode), .types = {}};
    alone.types.resize(alone.ids.size());
    pairs.push_back(std::move(alone));
  }
  Tensor<float, 2> labels = classify(engine, pairs, options.progress, options.adapters);
  for (std::int64_t i = 0; i < labels.extent(0); ++i) make_probabilities({&labels(i, 0), static_cast<std::size_t>(config.labels)}, config.label_use);
  return labels;
}

std::vector<float> rerank(Engine& engine, std::string_view query, std::span<const std::string> documents, const RerankOptions& options) {
  const ModelConfig& config = engine.model().config();
  if (config.labels > 0) return classified(engine, query, documents, options);
  if (config.has_head) return asked(engine, query, documents, options);
  fail(Errc::unsupported, "rerank: expected a model with a classifier, found one of type ", config.arch->name, ", which makes embeddings: see embed()");
}

}  // namespace bantam::inline v0
