// `bantam tokenize`: text to token ids and back.
#include "bantam/model/checkpoint.hpp"
#include "input.hpp"
#include "options.hpp"
#include "output.hpp"
#include "verbs.hpp"

namespace bantam::cli {

namespace {

struct TokenizeOptions {
  CommonOptions common;
  std::string model;
  std::string file = "-";
  bool decode = false;
  bool lines = false;
  bool no_special = false;
  bool parse_special = false;
};

std::string as_array(const std::vector<TokenId>& ids) {
  std::string text = "[";
  for (const TokenId id : ids) text += message(text.size() > 1 ? "," : "", id);
  return text + "]";
}

void encode(const Tokenizer& tokenizer, const TokenizeOptions& options, std::string_view text) {
  const EncodeOptions how{.add_special = !options.no_special, .parse_special = options.parse_special};
  if (!options.lines) return print(as_array(tokenizer.encode(text, how)) + "\n");
  // With --json the lines together are one document.
  std::string out = options.common.json ? "[" : "";
  for (const std::string& line : lines_of(text)) {
    if (options.common.json && out.size() > 1) out += ",\n";
    out += as_array(tokenizer.encode(line, how));
    if (!options.common.json) out += "\n";
  }
  print(options.common.json ? out + "]\n" : out);
}

void decode(const Tokenizer& tokenizer, const TokenizeOptions& options, std::string_view json) {
  const std::string place = input_name(options.file);
  if (!options.lines) {
    const std::string text = tokenizer.decode(parse_ids(json, place), options.parse_special);
    return options.common.json ? print_json({{"text", text}}) : print(text);
  }
  Json texts = Json::array();
  std::size_t number = 0;
  std::string out;
  for (const std::string& line : lines_of(json)) {
    const std::string text =
        tokenizer.decode(parse_ids(line, message(place, ": line ", ++number)), options.parse_special);
    options.common.json ? texts.push_back(text) : void(out += text + "\n");
  }
  options.common.json ? print_json({{"texts", texts}}) : print(out);
}

int tokenize(const TokenizeOptions& options) {
  apply(options.common);
  if (options.file == "-" && input_is_terminal()) note("bantam: reading standard input; Ctrl-D ends it");
  const std::string text = read_input(options.file);
  const Tokenizer tokenizer = open_tokenizer(options.model);
  options.decode ? decode(tokenizer, options, text) : encode(tokenizer, options, text);
  return 0;
}

}  // namespace

void add_tokenize(CLI::App& app, Action& action) {
  CLI::App& verb = add_verb(app, "tokenize", "turn text into a JSON array of token ids, or back");
  const auto o = std::make_shared<TokenizeOptions>();
  add_argument(verb, "MODEL", o->model,
               "a model, or a folder, .gguf, tokenizer.json or tokenizer.model with its vocabulary alone");
  add_text(verb, "-f,--file", o->file, "FILE", "read this file; - is standard input");
  add_flag(verb, "-d,--decode", o->decode, "from ids to text: exactly the text, no newline added");
  add_flag(verb, "--lines", o->lines, "each line for itself: one array a line, without the line's end");
  add_flag(verb, "--no-special", o->no_special, "leave out BOS and whatever else the tokenizer adds");
  add_flag(verb, "--parse-special", o->parse_special,
           "special tokens spelled out in the text are tokens; --decode spells them out");
  add_common(verb, o->common);
  finish_verb(
      verb,
      "Text is read byte for byte, a newline at its end included.\n\n"
      "Examples:\n"
      "  printf 'Once upon a time' | bantam tokenize model.gguf\n"
      "  bantam tokenize model.gguf -f text.txt --no-special | bantam tokenize model.gguf --decode",
      [o, &action] { action = [o] { return tokenize(*o); }; });
}

}  // namespace bantam::cli
