// POST /infill, as llama.cpp's server has it: what stands between two texts.
#include <algorithm>

#include "server/completions.hpp"

namespace bantam::server {

namespace {

/// Tokens that models know the parts of a file by.
struct FillMarks {
  TokenId prefix = -1, suffix = -1, middle = -1;
  TokenId repository = -1, file = -1;  ///< in front of other files; -1: they are told in words
  bool suffix_first = false;
};

FillMarks fill_marks_of(const Tokenizer& tokenizer) {
  struct Names {
    std::string_view prefix, suffix, middle;
    bool suffix_first = false;
  };
  constexpr Names all[] = {
      {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},    // Qwen 2.5 Coder and later, tiktoken
      {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},          // StarCoder 2, Granite
      {"<fim-prefix>", "<fim-suffix>", "<fim-middle>"},          // SantaCoder
      {"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"}, // GLM
      {"<\xef\xbd\x9c" "fim\xe2\x96\x81" "begin\xef\xbd\x9c>", "<\xef\xbd\x9c" "fim\xe2\x96\x81" "hole\xef\xbd\x9c>", "<\xef\xbd\x9c" "fim\xe2\x96\x81" "end\xef\xbd\x9c>"},  // DeepSeek
      {"\xe2\x96\x81<PRE>", "\xe2\x96\x81<SUF>", "\xe2\x96\x81<MID>"},  // Code Llama
      {"<PRE>", "<SUF>", "<MID>"},
      {"[PREFIX]", "[SUFFIX]", "[MIDDLE]", true},  // Codestral
  };
  FillMarks marks;
  for (const Names& names : all) {
    const TokenId prefix = tokenizer.find(names.prefix), suffix = tokenizer.find(names.suffix);
    if (prefix < 0 || suffix < 0) continue;
    marks = {.prefix = prefix, .suffix = suffix, .middle = tokenizer.find(names.middle), .suffix_first = names.suffix_first};
    break;
  }
  for (const std::string_view name : {"<|repo_name|>", "<reponame>", "<repo_name>"}) marks.repository = std::max(marks.repository, tokenizer.find(name));
  for (const std::string_view name : {"<|file_sep|>", "<file_sep>", "<|file_separator|>"}) marks.file = std::max(marks.file, tokenizer.find(name));
  return marks;
}

class FillPrompt {
 public:
  explicit FillPrompt(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  void mark(TokenId id) {
    if (id >= 0) tokens.push_back(id);
  }
  void text(std::string_view words) {
    const std::vector<TokenId> more = tokenizer_.encode(words, {.add_special = false});
    tokens.insert(tokens.end(), more.begin(), more.end());
  }

  std::vector<TokenId> tokens;

 private:
  const Tokenizer& tokenizer_;
};

/// Other files that the text belongs to.
void add_files(FillPrompt& prompt, const FillMarks& marks, const Json& files) {
  if (marks.repository >= 0 && marks.file >= 0) {
    prompt.mark(marks.repository);
    prompt.text("project\n");
  }
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::string place = message("input_extra[", i, ']');
    if (!files[i].is_object()) refuse(place, "an object", files[i]);
    const Fields file(files[i], place);
    const auto words = file.text("text");
    if (!words) throw bad_request(place + ".text: expected a text, found none", "input_extra");
    if (marks.file >= 0) {
      prompt.mark(marks.file);
      prompt.text(file.text("filename").value_or("file") + "\n");
    } else {
      prompt.text("\n\n--- file ---\n\n");
    }
    prompt.text(*words);
  }
  if (marks.file >= 0) {
    prompt.mark(marks.file);
    prompt.text("filename\n");
  }
}

}  // namespace

void infill(App& app, const std::shared_ptr<Exchange>& exchange) {
  const Json body = parse_body(exchange->request());
  const Fields fields(body);
  const Tokenizer& tokenizer = app.tokenizer();
  const FillMarks marks = fill_marks_of(tokenizer);
  if (marks.prefix < 0) throw ApiError(501, "not_supported_error", "this model has no tokens that mark what is to be filled in");
  const auto prefix = fields.text("input_prefix"), suffix = fields.text("input_suffix");
  if (!prefix || !suffix) throw bad_request("input_prefix, input_suffix: expected texts, found none", prefix ? "input_suffix" : "input_prefix");
  NativeAsked native = read_native(app, fields);
  FillPrompt prompt(tokenizer);
  if (tokenizer.adds_bos()) prompt.mark(tokenizer.bos());
  if (const Json* files = fields.array("input_extra"); files != nullptr && !files->empty()) add_files(prompt, marks, *files);
  const auto add_prefix = [&] {
    prompt.mark(marks.prefix);
    prompt.text(*prefix + fields.text("prompt").value_or(""));
  };
  if (!marks.suffix_first) add_prefix();
  prompt.mark(marks.suffix);
  prompt.text(*suffix);
  if (marks.suffix_first) add_prefix();
  prompt.mark(marks.middle);
  native.asked.texts.prompts = {std::move(prompt.tokens)};
  start_native(app, exchange, std::move(native));
}

}  // namespace bantam::server
