// `bantam embed`, `bantam rerank` and `bantam classify`: texts as rows of numbers, documents by how well they answer a query, texts by their labels.
#include <algorithm>

#include "bantam/model/forward.hpp"
#include "bantam/session/rerank.hpp"
#include "core/number_text.hpp"
#include "input.hpp"
#include "options.hpp"
#include "output.hpp"
#include "progress.hpp"
#include "text/unicode.hpp"
#include "verbs.hpp"

namespace bantam::cli {

namespace {

struct TextsArguments {
  CommonOptions common;
  LoadingOptions loading;
  std::string model;
  std::vector<std::string> texts;
  std::string file;
  std::int64_t context = 0;
};

struct EmbedArguments : TextsArguments {
  std::string pooling;
  bool normalize = false;
  std::int64_t dimensions = 0;
  bool no_normalize = false;
  bool truncate = false;
  std::vector<std::string> ids;
};

struct RerankArguments : TextsArguments {
  std::string query;
  std::string instruction;
};

struct ClassifyArguments : TextsArguments {
  std::string second;
  std::int64_t top = 1;
};

/// Those of the command line, or the lines of a file or of standard input.
std::vector<std::string> texts_of(const TextsArguments& o, std::string_view what) {
  at_most_one(!o.texts.empty() + !o.file.empty(), message(what, " and --file"));
  if (!o.texts.empty()) return o.texts;
  if (o.file.empty() && input_is_terminal()) note("bantam: reading standard input, a text a line; Ctrl-D ends it");
  return lines_of(read_input(o.file.empty() ? "-" : o.file));
}

struct AdaptedEngine {
  Engine engine;
  std::vector<ScaledAdapter> adapters;
};

AdaptedEngine engine_of(const TextsArguments& o) {
  // Short texts go together: what a pass holds, or one long text.
  auto [model, adapters, room] = load_adapted(o.model, o.loading, {.context = o.context == 0 ? 0 : std::max(o.context, Forward::largest_chunk), .kv = "f32"}, !o.common.json);
  const std::int64_t context = context_of(model, o.loading, o.context);
  return {Engine(std::move(model), {.context = context, .threads = static_cast<int>(o.common.threads)}), std::move(adapters)};
}

ReadProgress progress_of(ProgressBar& bar) {
  return [&bar](std::int64_t done, std::int64_t total) {
    bar.show(done, total, "tokens");
    return true;
  };
}

int run_embed(const EmbedArguments& o) {
  at_most_one(o.normalize + o.no_normalize, "--normalize and --no-normalize");
  at_most_one(!o.ids.empty() + !o.texts.empty() + !o.file.empty(), "TEXT, --file and --ids");
  const std::vector<std::string> texts = o.ids.empty() ? texts_of(o, "TEXT") : std::vector<std::string>();
  std::vector<std::vector<TokenId>> ids;
  for (const std::string& json : o.ids) {
    try {
      ids.push_back(parse_ids(json, "--ids"));
    } catch (const Error& error) {
      throw UsageError(error.what());
    }
  }
  apply(o.common);
  auto [engine, adapters] = engine_of(o);
  ProgressBar bar(!o.common.json);
  EmbedOptions options{.dimensions = o.dimensions, .truncate = o.truncate, .adapters = std::move(adapters), .progress = progress_of(bar)};
  if (!o.pooling.empty()) options.pooling = find_pooling(o.pooling);
  if (o.normalize || o.no_normalize) options.normalize = o.normalize;
  const Tensor<float, 2> rows = o.ids.empty() ? embed(engine, texts, options) : embed(engine, ids, options);
  Json all = Json::array();
  std::string lines;
  for (std::int64_t i = 0; i < rows.extent(0); ++i) {
    const std::span<const float> row(&rows(i, 0), static_cast<std::size_t>(rows.extent(1)));
    if (o.common.json) {
      all.push_back(std::vector<float>(row.begin(), row.end()));
      continue;
    }
    for (std::size_t c = 0; c < row.size(); ++c) lines += message(c > 0 ? " " : "", row[c]);
    lines += '\n';
  }
  if (o.common.json) {
    const ModelConfig& config = engine.model().config();
    print_json({{"embeddings", all}, {"dim", rows.extent(1)}, {"pooling", std::string(name_of(options.pooling.value_or(config.usual_pooling())))}});
  } else {
    print(lines);
  }
  return 0;
}

int run_rerank(const RerankArguments& o) {
  const std::vector<std::string> documents = texts_of(o, "DOCUMENT");
  apply(o.common);
  auto [engine, adapters] = engine_of(o);
  ProgressBar bar(!o.common.json);
  const std::vector<float> scores = rerank(engine, o.query, documents, {.instruction = o.instruction, .adapters = std::move(adapters), .progress = progress_of(bar)});
  const std::vector<std::int64_t> order = best_first(scores);
  if (o.common.json) {
    print_json({{"scores", scores}, {"order", order}});
    return 0;
  }
  std::string lines;
  for (const std::int64_t i : order) lines += message(fixed(static_cast<double>(scores[static_cast<std::size_t>(i)]), 4), '\t', documents[static_cast<std::size_t>(i)], '\n');
  print(lines);
  return 0;
}

int run_classify(const ClassifyArguments& o) {
  const std::vector<std::string> texts = texts_of(o, "TEXT");
  apply(o.common);
  auto [engine, adapters] = engine_of(o);
  const ModelConfig& config = engine.model().config();
  ProgressBar bar(!o.common.json);
  const Tensor<float, 2> rows = classify(engine, texts, {.second = o.second, .adapters = std::move(adapters), .progress = progress_of(bar)});
  const std::vector<std::string> names = config.names_of_labels();
  Json all = Json::array(), best = Json::array();
  std::string lines;
  for (std::int64_t i = 0; i < rows.extent(0); ++i) {
    const std::span<const float> row(&rows(i, 0), static_cast<std::size_t>(rows.extent(1)));
    const std::vector<std::int64_t> order = best_first(row);
    all.push_back(std::vector<float>(row.begin(), row.end()));
    best.push_back(names[static_cast<std::size_t>(order.front())]);
    const std::int64_t shown = o.top == 0 ? config.labels : std::min(o.top, config.labels);
    for (std::int64_t k = 0; k < shown; ++k) {
      // Names are the file's: control characters would go to the terminal.
      const auto label = static_cast<std::size_t>(order[static_cast<std::size_t>(k)]);
      lines += message(unicode::cleaned(names[label]), '\t', fixed(static_cast<double>(row[label]), 4), '\t', texts[static_cast<std::size_t>(i)], '\n');
    }
  }
  o.common.json ? print_json({{"labels", names}, {"scores", all}, {"best", best}}) : print(lines);
  return 0;
}

void add_texts_of(CLI::App& verb, const std::string& name, TextsArguments& o) {
  add_arguments(verb, name, o.texts, "the texts; without any a text a line of --file, or of standard input");
  add_text(verb, "-f,--file", o.file, "FILE", "a text a line; - is standard input");
  add_integer(verb, "--context", o.context, {0, std::int64_t{1} << 31}, "most tokens of a text; 0: what the model was made for");
  add_loading(verb, o.loading);
  add_common(verb, o.common);
}

}  // namespace

void add_embed(CLI::App& app, Action& action) {
  CLI::App& verb = add_verb(app, "embed", "turn texts into vectors");
  const auto o = std::make_shared<EmbedArguments>();
  add_argument(verb, "MODEL", o->model, "Hugging Face folder, .gguf or .bantam file");
  add_open_choice(verb, "--pooling", o->pooling, {"mean", "cls", "last"}, "what stands for a text: all of its tokens, the first or the last; as the model's files say, else mean");
  add_flag(verb, "--normalize", o->normalize, "vectors of length 1: the default where the model's files say nothing else");
  add_flag(verb, "--no-normalize", o->no_normalize, "vectors as the model makes them");
  add_integer(verb, "--dimensions", o->dimensions, {0, std::numeric_limits<std::int32_t>::max()}, "the first so many numbers alone, of models that were trained for it (Matryoshka); 0: all");
  add_flag(verb, "--truncate", o->truncate, "leave out the end of texts that are longer than the context");
  add_texts(verb, "--ids", o->ids, "JSON", "in the place of a text exactly these token ids, as in '[1,2,3]'; may be given again");
  add_texts_of(verb, "TEXT", *o);
  finish_verb(verb,
              "A vector a line, numbers with spaces between; with --json {\"embeddings\": [[...], ...]}.\n\n"
              "Examples:\n"
              "  bantam embed bge-small 'The sea was calm' 'The lake lay still'\n"
              "  bantam embed nomic.gguf -f lines.txt --json",
              [o, &action] { action = [o] { return run_embed(*o); }; });
}

void add_rerank(CLI::App& app, Action& action) {
  CLI::App& verb = add_verb(app, "rerank", "sort documents by how well they answer a query");
  const auto o = std::make_shared<RerankArguments>();
  add_argument(verb, "MODEL", o->model, "Hugging Face folder, .gguf or .bantam file");
  add_argument(verb, "QUERY", o->query, "what the documents are to answer");
  add_text(verb, "--instruction", o->instruction, "TEXT", "what a model that answers yes or no is to look for");
  add_texts_of(verb, "DOCUMENT", *o);
  finish_verb(verb,
              "The best document first, each behind its score; with --json {\"scores\": [...], \"order\": [...]}, scores\n"
              "in the order of the documents. Scores are what the classifier makes: 1 / (1 + exp(-score)) is a\n"
              "probability; those of models that answer yes or no are the probability of yes.\n\n"
              "Examples:\n"
              "  bantam rerank bge-reranker 'when do owls sleep' 'Owls hunt at night.' 'The sea was calm.'\n"
              "  bantam rerank bge-reranker 'when do owls sleep' -f documents.txt --json",
              [o, &action] { action = [o] { return run_rerank(*o); }; });
}

void add_classify(CLI::App& app, Action& action) {
  CLI::App& verb = add_verb(app, "classify", "say which labels texts have");
  const auto o = std::make_shared<ClassifyArguments>();
  add_argument(verb, "MODEL", o->model, "Hugging Face folder, .gguf or .bantam file");
  add_integer(verb, "--top", o->top, {0, 1 << 16}, "labels shown of each text, the likeliest; 0: all");
  add_text(verb, "--second", o->second, "TEXT", "what each text is read together with, as a pair: a hypothesis beside premises");
  add_texts_of(verb, "TEXT", *o);
  finish_verb(verb,
              "A label, its probability and the text, a line each; with --json {\"labels\": [...], \"scores\": [[...], ...],\n"
              "\"best\": [...]}, scores of all labels in their order. Probabilities of labels of which a text has one sum to 1;\n"
              "of others (problem_type multi_label_classification) each stands alone, and regressions give their numbers.\n\n"
              "Examples:\n"
              "  bantam classify distilbert-sst-2 'A charming film.' 'Two hours too long.'\n"
              "  bantam classify nli 'The owls hunt at night.' --second 'Owls sleep at night.' --top 0",
              [o, &action] { action = [o] { return run_classify(*o); }; });
}

}  // namespace bantam::cli
