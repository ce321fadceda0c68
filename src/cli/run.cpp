// `bantam run`: text streaming from a model.
#include <random>

#include "generation.hpp"
#include "input.hpp"
#include "memory_bound.hpp"
#include "sampling_options.hpp"
#include "signals.hpp"
#include "stall_watch.hpp"
#include "verbs.hpp"

namespace bantam::cli {

namespace {

/// What the parser reads before it becomes GenerateOptions.
struct GenerateArguments {
  SamplingOptions sampling;
  std::int64_t max_tokens = 256;
  std::int64_t lookup = 0, mtp = 0;
  std::string seed;
  std::string grammar, grammar_file, json_schema, json_schema_file;
};

/// The text itself, or what is in the file that it names.
std::string text_or_file(const std::string& given, bool is_text) { return is_text ? given : read_input(given); }

bool looks_like_json(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string::npos && (text[first] == '{' || text == "true" || text == "false");
}

/// Also where it is broken: names of files hold neither quotes nor line ends.
bool looks_like_gbnf(const std::string& text) { return text.find("::=") != std::string::npos || text.find_first_of("\n\"") != std::string::npos; }

/// The grammar that was asked for; what is wrong with it shows before the model is loaded.
std::optional<Grammar> grammar_of(const GenerateArguments& a) {
  const int given = !a.grammar.empty() + !a.grammar_file.empty() + !a.json_schema.empty() + !a.json_schema_file.empty();
  if (given == 0) return std::nullopt;
  if (given > 1) throw UsageError("expected one of --grammar, --grammar-file, --json-schema and --json-schema-file, found several");
  if (!a.grammar.empty()) return Grammar::from_gbnf(text_or_file(a.grammar, looks_like_gbnf(a.grammar)));
  if (!a.json_schema.empty()) return Grammar::from_json_schema(text_or_file(a.json_schema, looks_like_json(a.json_schema)));
  const std::string text = read_input(a.grammar_file.empty() ? a.json_schema_file : a.grammar_file);
  return a.grammar_file.empty() ? Grammar::from_json_schema(text) : Grammar::from_gbnf(text);
}

/// Somebody sits there, and nothing was said of what to write.
bool opens_chat(const RunOptions& o) {
  const bool asked = o.has_prompt || o.has_file || o.common.json || !o.load_session.empty() || !o.save_session.empty();
  return o.chat || (!asked && input_is_terminal() && output_is_terminal());
}

void check_several(const RunOptions& o) {
  const char* name = o.beams > 0 ? "--beams" : "--continuations";
  const Speculation& s = o.generate.speculation;
  if (o.chat) throw UsageError(message(name, ": expected a prompt, found --chat"));
  if (!o.save_session.empty()) throw UsageError(message(name, ": expected no --save-session beside it"));
  if (s.lookup > 0 || s.mtp > 0 || !o.draft.empty()) throw UsageError(message(name, ": expected no --lookup, --mtp or --draft beside it: a batch guesses nothing"));
  if (o.beams > 0 && o.continuations > o.beams) throw UsageError(message("--continuations: expected 1 to ", o.beams, " (--beams), found ", o.continuations));
  if (o.beams > 0 && o.generate.max_tokens < 1) throw UsageError(message("-n: expected 1 or more tokens with --beams, found ", o.generate.max_tokens));
}

void finish_options(RunOptions& o, const GenerateArguments& arguments) {
  o.chat = opens_chat(o);
  GenerateOptions& generate = o.generate;
  // A chat's replies end where the model ends them.
  generate.max_tokens = o.chat && !o.max_tokens_given ? -1 : arguments.max_tokens;
  generate.sampling = sampling_of(arguments.sampling);
  generate.speculation.lookup = static_cast<int>(arguments.lookup);
  generate.speculation.mtp = static_cast<int>(arguments.mtp);
  if (arguments.seed.empty()) {
    // 32 bits: short enough to type again.
    generate.sampling.seed = std::random_device()();
  } else {
    generate.sampling.seed = static_cast<std::uint64_t>(parse_integer("--seed", arguments.seed, {}));
  }
  o.grammar = grammar_of(arguments);
  for (const std::string& stop : generate.stop) {
    if (stop.empty()) throw UsageError("--stop: expected a text of at least one character, found an empty one");
  }
  if (o.chat && o.has_file) throw UsageError("--chat: expected messages from -p and standard input, found -f");
  if (!o.chat && !o.reasoning.empty()) throw UsageError("--reasoning: expected --chat with it");
  if (!o.chat && !o.system.empty()) throw UsageError("--system: expected --chat with it");
  if (o.continuations > 0 || o.beams > 0) check_several(o);
  if (o.chat && !(o.load_session.empty() && o.save_session.empty()))
    not_yet("--chat with --load-session or --save-session");
}

Session open_session(const RunOptions& o, AdaptedModel loaded) {
  auto& [model, adapters, text] = loaded;
  if (o.context > model.config().context) {
    warn(message("a context of ", o.context, " tokens, the model was made for ", model.config().context));
  }
  const SessionOptions options{.context = context_of(model, o.loading, o.context),
                               .threads = static_cast<int>(o.common.threads),
                               .kv = o.kv,
                               .progress = reading_progress(!o.quiet && !o.common.json),
                               .adapters = std::move(adapters),
                               .memory = text};
  return o.load_session.empty() ? Session(std::move(model), options)
                                : Session::restore(std::move(model), o.load_session, options);
}

int generate(const RunOptions& o, Session& session, const std::optional<std::string>& prompt) {
  TextRange range =
      prompt ? session.stream(*prompt, o.generate, {.parse_special = o.parse_special}) : session.resume(o.generate);
  const Section section(o.save_session.empty() ? Insisting::ends_at_once : Insisting::changes_nothing);
  const Reply reply = stream_reply(std::move(range), !o.common.json);
  if (!o.save_session.empty()) session.save(o.save_session);
  if (reply.reader_gone) return 0;
  if (o.common.json) {
    Json json = to_json(reply, o.generate.sampling.seed);
    if (o.stats) json["stats"] = to_json(session.engine().stream_stats());
    if (o.stats) json["stats"]["keys"] = to_json(session.state_stats());
    print_json(json);
  } else {
    if (output_is_terminal() && !reply.text.ends_with('\n')) print("\n");
    if (!o.quiet) note("bantam: " + statistics(reply, o.generate.sampling.seed));
    if (o.stats) note("bantam: " + statistics(session.engine().stream_stats()));
    if (o.stats) note("bantam: " + statistics(session.state_stats()));
  }
  return 0;
}

/// A model without a template never ends its text.
int open_chat(RunOptions o, Session& session) {
  if (!o.max_tokens_given && session.model().tokenizer().chat_template().empty()) o.generate.max_tokens = 256;
  return chat(o, session);
}

int run(RunOptions o) {
  // What is wrong with the prompt shows before the model is loaded.
  std::optional<std::string> prompt;
  const bool resumes = !o.load_session.empty() && !o.has_prompt && !o.has_file;
  if (!o.chat && !resumes) {
    PromptSource source;
    if (o.has_prompt) source.text = o.prompt;
    if (o.has_file) source.file = o.file;
    prompt = read_prompt(source);
  }
  apply(o.common);
  if (!o.save_session.empty()) refuse_overwriting(o.model, o.save_session);
  std::vector<std::string> paths{o.model};
  if (!o.draft.empty()) paths.push_back(o.draft);
  const StallWatch watch;
  std::vector<AdaptedModel> models = load_together(paths, o.loading, {.context = o.context, .kv = o.kv, .sequences = std::max<std::int64_t>({1, o.continuations, o.beams}), .may_spill = true, .drafts = o.generate.speculation.mtp > 0}, !o.quiet && !o.common.json);
  Session session = open_session(o, std::move(models[0]));
  if (o.grammar) o.generate.grammar.emplace(*o.grammar, session.model().tokenizer());
  if (o.continuations > 0 || o.beams > 0) return write_several(o, session, prompt.value_or(""));
  if (o.draft.empty()) return o.chat ? open_chat(o, session) : generate(o, session, prompt);
  Session draft(std::move(models[1].model), {.context = session.context(), .threads = static_cast<int>(o.common.threads), .kv = o.kv, .memory = models[1].text});
  RunOptions with_draft = o;
  with_draft.generate.speculation.draft = &draft;
  return o.chat ? open_chat(with_draft, session) : generate(with_draft, session, prompt);
}

void add_generating(CLI::App& verb, RunOptions& o, GenerateArguments& arguments) {
  add_sampling(verb, arguments.sampling);
  add_text(verb, "--seed", arguments.seed, "N", "of the random numbers; printed after the run [random]");
  add_texts(verb, "--stop", o.generate.stop, "TEXT", "end before this text; may be repeated");
  add_integer(verb, "--lookup", arguments.lookup, {0, 16},
              "guess up to this many tokens at once from the text so far: faster where it repeats, never other text; 0: off");
  add_integer(verb, "--mtp", arguments.mtp, {0, 16},
              "guess up to this many tokens by the layer that the model has for it (multi-token prediction); never other text; 0: off");
  add_text(verb, "--draft", o.draft, "MODEL", "a smaller model of the same vocabulary that guesses tokens; never other text");
  add_text(verb, "--grammar", arguments.grammar, "FILE|TEXT", "only texts of this grammar (GBNF, docs/grammars.md)");
  add_text(verb, "--grammar-file", arguments.grammar_file, "FILE", "the same, surely from a file");
  add_text(verb, "-j,--json-schema", arguments.json_schema, "FILE|JSON", "only JSON that this JSON schema allows; {} is any");
  add_text(verb, "--json-schema-file", arguments.json_schema_file, "FILE", "the same, surely from a file");
  add_integer(verb, "--continuations", o.continuations, {1, 1024},
              "write this many texts for the prompt, which is read once; their seeds count up from --seed");
  add_integer(verb, "--beams", o.beams, {1, 1024}, "beam search: the most probable text of this many that are followed, or as many as --continuations");
  add_number(verb, "--length-penalty", o.length_penalty, "of beam search: scores are log probabilities over tokens to this power");
  add_flag(verb, "--ignore-eos", o.generate.ignore_end, "go on after the model's end token");
}

}  // namespace

void add_run(CLI::App& app, Action& action) {
  CLI::App& verb = add_verb(app, "run", "generate text from a prompt, or chat");
  const auto o = std::make_shared<RunOptions>();
  const auto arguments = std::make_shared<GenerateArguments>();
  add_argument(verb, "MODEL", o->model, "Hugging Face folder, .gguf or .bantam file");
  CLI::Option* prompt =
      add_text(verb, "-p,--prompt", o->prompt, "TEXT", "the prompt; BOS is added as the tokenizer says");
  CLI::Option* file =
      add_text(verb, "-f,--file", o->file, "FILE", "read the prompt from a file, byte for byte; - is standard input");
  CLI::Option* max_tokens =
      add_integer(verb, "-n,--max-tokens", arguments->max_tokens, {-1, std::numeric_limits<std::int64_t>::max()},
                  "most tokens to generate; -1: until the model ends");
  add_generating(verb, *o, *arguments);
  add_integer(verb, "--context", o->context, {0, std::int64_t{1} << 31},
              "most tokens to hold; 0: what the model was made for, with --memory 8192 of them at most");
  add_kv(verb, o->kv);
  add_flag(verb, "--parse-special", o->parse_special, "special tokens spelled out in the prompt are tokens");
  add_flag(verb, "--chat", o->chat, "chat by the model's template, one message a line; what a terminal gets without -p and -f");
  add_text(verb, "--system", o->system, "TEXT", "the system message of the chat");
  add_open_choice(verb, "--reasoning", o->reasoning, {"show", "hide", "raw"},
                  "what the model thinks, in a chat: show (dimmed on a terminal), hide, or raw: with its marks [show on a terminal, else raw]");
  add_flag(verb, "--no-history", o->no_history, "a chat neither reads nor writes the lines typed in others");
  add_text(verb, "--save-session", o->save_session, "FILE", "afterwards, save all that the model has in mind");
  add_text(verb, "--load-session", o->load_session, "FILE", "go on from there; without -p or -f with the same text");
  add_flag(verb, "--stats", o->stats, "what weights took: memory, bytes read, experts that were there, and waiting (`stats` in --json)");
  add_flag(verb, "-q,--quiet", o->quiet, "no statistics on standard error");
  add_loading(verb, o->loading);
  add_common(verb, o->common);
  finish_verb(
      verb,
      "Prints the generated text and nothing else. Without -p and -f the prompt is standard input, as it\n"
      "is, and a terminal gets a chat. Ctrl-C ends the text; in a chat it stops the reply, and /help\n"
      "lists commands; replies are as long as the model makes them unless -n says otherwise. A full\n"
      "context leaves out the oldest messages. Lines typed are remembered in\n"
      "~/.local/state/bantam/chat_history.\n\n"
      "Examples:\n"
      "  bantam run q4.bantam\n"
      "  bantam run q4.bantam -p 'The capital of France is' -n 64\n"
      "  bantam run q4.bantam -f story.txt --temperature 0 --stop $'\\n\\n' --json\n"
      "  bantam run q4.bantam --chat --system 'You are a terse assistant.'",
      [=, &action] {
        o->has_prompt = given(prompt);
        o->has_file = given(file);
        o->max_tokens_given = given(max_tokens);
        action = [=] {
          finish_options(*o, *arguments);
          return run(*o);
        };
      });
}

}  // namespace bantam::cli
