// The table of other spellings.
#include "spellings.hpp"

#include <algorithm>

#include "bantam/core/message.hpp"

namespace bantam::cli {

namespace {

struct Spelling {
  std::string_view verbs;  ///< separated by spaces
  std::string_view theirs;
  std::string_view ours;  ///< an option, or an argument in capitals
};

constexpr std::string_view with_model = "run serve tokenize logits perplexity embed rerank compress inspect bench";
constexpr Spelling all[] = {
    {with_model, "-m", "MODEL"},
    {with_model, "--model", "MODEL"},
    {with_model, "-t", "--threads"},
    {"run serve perplexity", "-c", "--context"},
    {"run serve perplexity", "--ctx-size", "--context"},
    {"perplexity", "-f", "FILE"},
    {"perplexity", "--file", "FILE"},
    {"embed", "-p", "TEXT"},
    {"embed", "--prompt", "TEXT"},
    {"run serve", "-s", "--seed"},
    {"run serve", "--temp", "--temperature"},
    {"run serve", "--predict", "--max-tokens"},
    {"run serve", "--n-predict", "--max-tokens"},
    {"serve", "-np", "--parallel"},
    {"serve", "-a", "--alias"},
    {"serve", "--sleep-idle-seconds", "--keep-alive"},
    {"serve", "--embedding", "--embeddings"},
    {"serve", "--rerank", "--reranking"},
    {"run", "-sys", "--system"},
    {"run", "--system-prompt", "--system"},
    {"run", "-cnv", "--chat"},
    {"run", "--conversation", "--chat"},
    {"run", "-r", "--stop"},
    {"run", "--reverse-prompt", "--stop"},
    {"run serve", "-md", "--draft"},
    {"run serve", "--model-draft", "--draft"},
    {"run perplexity", "--lora-scaled", "--lora"},
    {"run serve bench perplexity", "-ctk", "--cache-type-k"},
    {"run serve bench perplexity", "-ctv", "--cache-type-v"},
    {with_model, "-hf", "MODEL"},
    {with_model, "-hfr", "MODEL"},
    {with_model, "--hf-repo", "MODEL"},
    {"run serve", "-l", "--logit-bias"},
    {"run serve", "--typical-p", "--typical"},
    {"run serve", "--top-n-sigma", "--top-nsigma"},
    {"serve", "-rea", "--reasoning"},
    {"serve", "--no-ui", "--no-webui"},
};

/// What llama.cpp's programs are told of GPUs, buffers, processors and logs, and needs no word here: nothing of it changes a text. An option of ours of
/// the same name goes before.
struct Ignored {
  enum Value : std::uint8_t { none, one, on_or_off };
  std::string_view names;  ///< separated by spaces
  Value value;
};

constexpr std::string_view with_ignored = "run serve perplexity embed rerank bench";
constexpr Ignored all_ignored[] = {
    // Where layers are
    {"-ngl --gpu-layers --n-gpu-layers -sm --split-mode -ts --tensor-split -mg --main-gpu -dev --device -ot --override-tensor -ncmoe --n-cpu-moe -ngld "
     "--gpu-layers-draft --n-gpu-layers-draft -devd --device-draft --spec-draft-ngl --spec-draft-device -ncmoed --n-cpu-moe-draft -ncffn --n-cpu-ffn "
     "--moe-cache-mib --fit -fit -fitt --fit-target -fitc --fit-ctx --rpc",
     Ignored::one},
    {"-cmoe --cpu-moe -cmoed --cpu-moe-draft -nkvo --no-kv-offload -kvo --kv-offload --op-offload --no-op-offload --no-host --repack -nr --no-repack "
     "--no-mmproj --no-mmproj-auto --mmproj-offload --no-mmproj-offload -bs --backend-sampling",
     Ignored::none},
    // How they are run
    {"-fa --flash-attn", Ignored::on_or_off},
    {"-b --batch-size -ub --ubatch-size -tb --threads-batch -td --threads-draft -tbd --threads-batch-draft --threads-http -dt --defrag-thold --numa --poll "
     "--poll-batch --prio --prio-batch -C --cpu-mask -Cr --cpu-range --cpu-strict -Cb --cpu-mask-batch -Crb --cpu-range-batch --cpu-strict-batch -ctkd "
     "--cache-type-k-draft -ctvd --cache-type-v-draft -cd --ctx-size-draft -lm --load-mode -lzm --lazy-mode",
     Ignored::one},
    {"-cb --cont-batching -nocb --no-cont-batching --warmup --no-warmup --mlock -dio --direct-io -ndio --no-direct-io --swa-full -kvu --kv-unified -no-kvu "
     "--no-kv-unified --check-tensors --perf --no-perf --spm-infill --no-context-shift --offline",
     Ignored::none},
    // What is kept and shown
    {"-cram --cache-ram --cache-reuse -ctxcp --ctx-checkpoints --swa-checkpoints -cms --checkpoint-min-step -lcs --lookup-cache-static -lcd "
     "--lookup-cache-dynamic -sps --slot-prompt-similarity -to --timeout --sse-ping-interval --tags --log-file -lv --verbosity --log-verbosity",
     Ignored::one},
    {"-v --verbose --log-verbose --log-disable --log-prefix --no-log-prefix --log-timestamps --no-log-timestamps --log-jsonl --no-log-jsonl "
     "--cache-idle-slots --no-cache-idle-slots --props --webui --ui --models-autoload",
     Ignored::none},
    {"--log-colors", Ignored::on_or_off},
};

bool has_word(std::string_view words, std::string_view word) { return message(' ', words, ' ').find(message(' ', word, ' ')) != std::string::npos; }

bool is_of(const Spelling& spelling, std::string_view verb) { return has_word(spelling.verbs, verb); }

const Ignored* find_ignored(std::string_view name, std::string_view verb) {
  if (!name.starts_with('-') || !has_word(with_ignored, verb)) return nullptr;
  const auto* const found = std::ranges::find_if(all_ignored, [&](const Ignored& one) { return has_word(one.names, name); });
  return found == std::end(all_ignored) ? nullptr : found;
}

/// What may stand behind an option that is a switch, too.
bool is_on_or_off(std::string_view word) {
  constexpr std::string_view all_words[] = {"on", "off", "auto", "true", "false", "enabled", "disabled", "1", "0", "-1"};
  return std::ranges::find(all_words, word) != std::end(all_words);
}

bool is_argument(std::string_view ours) { return !ours.starts_with('-'); }

}  // namespace

OurWords in_our_words(const std::vector<std::string>& words, FunctionRef<std::optional<bool>(const std::string&)> takes_value) {
  if (words.empty()) return {words, {}};
  std::vector<std::string> result{words[0]}, ignored;
  std::size_t models = 0;  // put first, before other arguments
  bool value = false, options = true;
  const auto add_argument = [&](std::string_view ours, const std::string& text) {
    if (ours == "MODEL") {
      result.insert(result.begin() + static_cast<std::ptrdiff_t>(++models), text);
    } else {
      result.push_back(text);
    }
  };
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    options = options && (value || word != "--");
    if (value || !options) {
      value = false;
      result.push_back(word);
      continue;
    }
    const std::size_t equals = word.starts_with("--") ? std::min(word.find('='), word.size()) : word.size();
    const std::string name = word.substr(0, equals);
    const bool has_value = equals < word.size(), has_next = i + 1 < words.size();
    const auto spelling = std::ranges::find_if(all, [&](const Spelling& s) { return s.theirs == name && is_of(s, words[0]); });
    const Ignored* const no_matter = spelling == std::end(all) && !takes_value(name) ? find_ignored(name, words[0]) : nullptr;
    if (no_matter != nullptr) {
      ignored.push_back(name);
      const bool next = no_matter->value == Ignored::one || (no_matter->value == Ignored::on_or_off && has_next && is_on_or_off(words[i + 1]));
      if (next && !has_value) ++i;
    } else if (spelling == std::end(all)) {
      result.push_back(word);
      value = !has_value && takes_value(name).value_or(false);
    } else if (!is_argument(spelling->ours)) {
      result.push_back(std::string(spelling->ours) + word.substr(equals));
      value = !has_value && takes_value(std::string(spelling->ours)).value_or(false);
    } else if (has_value) {
      add_argument(spelling->ours, word.substr(equals + 1));
    } else if (has_next) {
      add_argument(spelling->ours, words[++i]);
    }
  }
  return {std::move(result), std::move(ignored)};
}

std::vector<std::string_view> spellings_of(std::string_view verb) {
  std::vector<std::string_view> names;
  for (const Spelling& spelling : all) {
    if (is_of(spelling, verb)) names.push_back(spelling.theirs);
  }
  return names;
}

std::string spellings_help(std::string_view verb) {
  constexpr std::size_t columns = 100;
  std::string text, line = "As llama.cpp spells them:";
  for (const Spelling& spelling : all) {
    if (!is_of(spelling, verb)) continue;
    const std::string entry = is_argument(spelling.ours) ? message(' ', spelling.theirs, ' ', spelling.ours)
                                                         : message(' ', spelling.theirs, " (", spelling.ours, ')');
    if (line.size() + entry.size() + 1 > columns) {
      text += line + "\n";
      line = "   ";
    }
    line += entry + ",";
  }
  if (!line.ends_with(',')) return "";
  line.back() = '.';
  text += line;
  if (has_word(with_ignored, verb)) text += "\n    What says how to use a GPU, buffers or processors (-ngl, -fa, -b, -tb, --mlock, ...) is taken and left out.";
  return text;
}

}  // namespace bantam::cli
