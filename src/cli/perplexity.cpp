// `bantam perplexity`: how well a model predicts a text, and how far it is from another model.
#include <algorithm>

#include "bantam/session/evaluate.hpp"
#include "input.hpp"
#include "options.hpp"
#include "output.hpp"
#include "progress.hpp"
#include "verbs.hpp"

namespace bantam::cli {

namespace {

struct PerplexityArguments {
  CommonOptions common;
  LoadingOptions loading;
  std::string model;
  std::string file;
  std::string against;
  std::int64_t context = 512;
  std::int64_t limit = 0;
  std::string kv = "f32";
};

Json optional(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

int measure(const PerplexityArguments& o) {
  apply(o.common);
  const std::string text = read_input(o.file);
  std::vector<std::string> paths{o.model};
  if (!o.against.empty()) paths.push_back(o.against);
  const std::vector<AdaptedModel> models = load_together(paths, o.loading, {.context = o.context, .kv = o.kv}, !o.common.json);
  const auto& [model, adapters, room] = models[0];
  const Model* const base = models.size() > 1 ? &models[1].model : nullptr;
  std::int64_t context = o.context;
  for (const AdaptedModel& m : models) context = std::min(context, m.model.config().context);
  ProgressBar bar(!o.common.json);
  const PerplexityResult result = perplexity(
      model, text, {.context = context, .limit = o.limit, .threads = static_cast<int>(o.common.threads), .kv = o.kv, .base_kv = "f32", .adapters = adapters},
      base, [&](std::int64_t done, std::int64_t total) {
        bar.show(done, total, "windows");
        return true;
      });
  if (context < o.context)
    note(message("bantam: windows of ", context, " tokens instead of ", o.context, ": the model was made for no more"));
  if (o.common.json) {
    print_json({{"perplexity", result.perplexity},
                {"nll", result.nll},
                {"tokens", result.tokens},
                {"windows", result.windows},
                {"base_perplexity", optional(result.base_perplexity)},
                {"kl_mean", optional(result.kl_mean)},
                {"kl_p99", optional(result.kl_p99)},
                {"top1_agreement", optional(result.top1_agreement)},
                {"window_tokens", result.window_tokens},
                {"window_nll", result.window_nll},
                {"window_kl", base ? Json(result.window_kl) : Json(nullptr)},
                {"seconds", result.seconds}});
    return 0;
  }
  std::string out = message("perplexity      ", fixed(result.perplexity, 4), "\nnll             ", fixed(result.nll, 6),
                            " nats a token\ntokens          ", result.tokens, " in ", result.windows,
                            " windows of up to ", context, "\n");
  if (result.kl_mean) {
    out += message("of the base     ", fixed(*result.base_perplexity, 4), "\nkl mean         ", fixed(*result.kl_mean, 6), " nats\nkl 99 %         ", fixed(*result.kl_p99, 6),
                   " nats\nsame top token  ", fixed(100 * *result.top1_agreement, 2), " %\n");
  }
  print(out + message("seconds         ", fixed(result.seconds, 2), "\n"));
  return 0;
}

}  // namespace

void add_perplexity(CLI::App& app, Action& action) {
  CLI::App& verb = add_verb(app, "perplexity", "measure how well a model predicts a text");
  const auto o = std::make_shared<PerplexityArguments>();
  add_argument(verb, "MODEL", o->model, "Hugging Face folder, .gguf or .bantam file");
  add_argument(verb, "FILE", o->file, "the text; - is standard input");
  add_integer(verb, "--context", o->context, {2, std::int64_t{1} << 31},
              "tokens a window, BOS included; at most the model's own");
  add_integer(verb, "--limit", o->limit, {}, "use this many tokens of the text; 0: all");
  add_text(verb, "--against", o->against, "BASE", "also measure the divergence from this model, on the same tokens");
  add_kv(verb, o->kv);
  add_loading(verb, o->loading);
  add_common(verb, o->common);
  finish_verb(
      verb,
      "Windows do not overlap, every target of a window is scored, and BOS starts each window when the\n"
      "tokenizer adds one. With --against: KL(base || model) in nats, its mean and 99th percentile, and\n"
      "the share of positions where both find the same token most probable. This verb measures, so keys\n"
      "and values are kept in f32 unless --kv says otherwise; those of BASE always are.\n\n"
      "Examples:\n"
      "  bantam perplexity model.gguf wiki.txt\n"
      "  bantam perplexity q4.bantam wiki.txt --against model.gguf --limit 100000 --json",
      [o, &action] { action = [o] { return measure(*o); }; });
}

}  // namespace bantam::cli
