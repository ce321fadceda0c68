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
};

bool is_of(const Spelling& spelling, std::string_view verb) {
  return (" " + std::string(spelling.verbs) + " ").find(message(' ', verb, ' ')) != std::string::npos;
}

bool is_argument(std::string_view ours) { return !ours.starts_with('-'); }

}  // namespace

std::vector<std::string> in_our_words(const std::vector<std::string>& words, FunctionRef<bool(const std::string&)> takes_value) {
  if (words.empty()) return words;
  std::vector<std::string> result{words[0]};
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
    const auto spelling = std::ranges::find_if(all, [&](const Spelling& s) { return s.theirs == name && is_of(s, words[0]); });
    if (spelling == std::end(all)) {
      result.push_back(word);
      value = equals == word.size() && takes_value(name);
    } else if (!is_argument(spelling->ours)) {
      result.push_back(std::string(spelling->ours) + word.substr(equals));
      value = equals == word.size() && takes_value(std::string(spelling->ours));
    } else if (equals < word.size()) {
      add_argument(spelling->ours, word.substr(equals + 1));
    } else if (i + 1 < words.size()) {
      add_argument(spelling->ours, words[++i]);
    }
  }
  return result;
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
  return text + line;
}

}  // namespace bantam::cli
