// The program: finds the verb, reads its options, turns errors into exit statuses.
#include <CLI/CLI.hpp>
#include <fcntl.h>
#include <unistd.h>

#include <new>

#include "bantam/core/names.hpp"
#include "complete.hpp"
#include "options.hpp"
#include "output.hpp"
#include "signals.hpp"
#include "spellings.hpp"
#include "verbs.hpp"

namespace bantam::cli {

namespace {

constexpr int world_error = 1;
constexpr int usage_error = 2;

constexpr const char* examples =
    "Examples:\n"
    "  bantam compress Qwen3-0.6B -o q4.bantam --format q4\n"
    "  bantam run q4.bantam                                            # a chat\n"
    "  bantam run q4.bantam -p 'The capital of France is' -n 64\n"
    "  bantam perplexity q4.bantam wiki.txt --against Qwen3-0.6B\n"
    "\n"
    "MODEL is a Hugging Face folder, a .gguf file, a native .bantam file, or a name on Hugging Face's hub\n"
    "(Qwen/Qwen3-0.6B) that was downloaded before. Results go to standard output, everything else to\n"
    "standard error. Exit status: 0 done, 1 the world said no, 2 wrong usage, 130 interrupted.\n"
    "`bantam VERB --help` explains a verb.";

/// Help as the parser makes it, but for what it says of options that may be repeated, and its empty lines.
class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter() {
    column_width(34);
    label("SUBCOMMAND", "VERB");
    label("Positionals", "Arguments");
  }
  std::string make_option_opts(const CLI::Option* option) const override {
    return option->get_type_name().empty() ? "" : " " + option->get_type_name();
  }
  std::string make_usage(const CLI::App* app, std::string name) const override {
    return "\n" + CLI::Formatter::make_usage(app, name);
  }
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
    std::string text = CLI::Formatter::make_help(app, name, mode);
    for (std::size_t at; (at = text.find("\n\n\n")) != std::string::npos;) text.erase(at, 1);
    return text;
  }
};

/// A file opened while one of the three standard descriptors is closed would take its number, and our output.
void keep_standard_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) != -1) continue;
    // Opened the wrong way round: reading input or writing results still fails, as it must.
    [[maybe_unused]] const int got = ::open("/dev/null", descriptor == STDOUT_FILENO ? O_RDONLY : O_WRONLY);
  }
}

/// "--prompt=" means an empty prompt; the parser would take the next argument for its value.
std::vector<std::string> arguments(int count, char** values) {
  std::vector<std::string> result;
  bool options = true;
  for (int i = 1; i < count; ++i) {
    std::string text = values[i];
    options = options && text != "--";
    if (options && text.size() > 3 && text.starts_with("--") && text.find('=') == text.size() - 1) {
      text.pop_back();
      result.push_back(std::move(text));
      text.clear();
    }
    result.push_back(std::move(text));
  }
  // `bantam help run` is what people try first.
  if (!result.empty() && result[0] == "help") {
    result.erase(result.begin());
    result.emplace_back("--help");
  }
  return result;
}

/// One line, lower case at the start, safe to print, with a hint at the help that fits.
int report_usage(std::string text, const std::string& verb) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  if (text.size() > 1 && std::isupper(static_cast<unsigned char>(text[0])) &&
      std::islower(static_cast<unsigned char>(text[1]))) {
    text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  }
  note(message("bantam: ", verb.empty() ? "" : verb + ": ", printable(text, 1000), " (see `bantam ",
               verb.empty() ? "" : verb + " ", "--help`)"));
  return usage_error;
}

int report_error(std::string_view text) {
  note(message("bantam: ", text));
  return world_error;
}

/// The verb that the first word is; empty when an option stands there that does without.
std::string verb_of(const CLI::App& app, const std::vector<std::string>& words) {
  const std::string first = words.empty() ? "" : words[0];
  if (first == "-h" || first == "--help" || first == "--version") return "";
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands({})) {
    if (verb->get_name() == first) return first;
    names.push_back(verb->get_name());
  }
  const std::vector<std::string_view> views(names.begin(), names.end());
  std::error_code ignored;
  const bool is_path = !first.empty() && std::filesystem::exists(first, ignored);
  throw UsageError(message("expected a verb (", with_commas(names), "), found ", words.empty() ? "nothing" : printable(first),
                           is_path ? "; did you mean run " + printable(first) + "?" : did_you_mean(first, views)));
}

/// Whether the word after this option of a verb is its value; nothing where the verb has no such option.
std::optional<bool> takes_value(const CLI::App& verb, const std::string& name) {
  const CLI::Option* option = name.starts_with('-') ? verb.get_option_no_throw(name) : nullptr;
  return option == nullptr ? std::nullopt : std::optional(option->get_items_expected_max() > 0);
}

/// What is left over when all that is known was read.
std::string unexpected(const CLI::App& verb) {
  const std::vector<std::string> words = verb.remaining();
  const auto option = std::ranges::find_if(words, [](const std::string& word) { return word.starts_with('-'); });
  if (option == words.end()) return words.empty() ? "unexpected arguments" : message("unexpected argument ", words[0]);
  std::vector<std::string> names;
  for (const CLI::Option* known : verb.get_options()) {
    for (const std::string& name : known->get_lnames()) names.push_back("--" + name);
  }
  std::vector<std::string_view> views(names.begin(), names.end());
  for (const std::string_view theirs : spellings_of(verb.get_name())) views.push_back(theirs);
  const std::string name = option->substr(0, option->find('='));
  return message("unknown option ", name, did_you_mean(name, views));
}

/// The parser's own words, but for those that only its authors understand.
std::string text_of(const CLI::ParseError& error) {
  const std::string text = error.what();
  const auto colon = text.find(": ");
  if (error.get_name() == "ArgumentMismatch" && colon != std::string::npos)
    return text.substr(0, colon) + ": expected a value, found none";
  return text;
}

/// 128 + the signal when one came while the work was being tidied up, else `status`.
int interruption_or(int status) { return interrupted() != 0 ? 128 + interrupted() : status; }

int run_program(int argc, char** argv) {
  std::string verb;
  try {
    CLI::App app("bantam compresses large language models and runs them on the machine you have.", "bantam");
    Action action;
    app.formatter(std::make_shared<HelpFormatter>());
    app.set_version_flag("--version", "bantam " BANTAM_VERSION, "print the version and leave");
    app.set_help_flag("-h,--help", "print this help and leave");
    app.footer(examples);
    app.require_subcommand(1);
    for (const auto add : {add_run, add_serve, add_tokenize, add_logits, add_perplexity, add_embed, add_rerank, add_classify, add_compress, add_inspect, add_bench, add_plan,
                           add_formats, add_cpuinfo}) {
      add(app, action);
    }
    for (CLI::App* sub : app.get_subcommands({})) sub->group("Verbs");
    std::vector<std::string> words = arguments(argc, argv);
    if (!words.empty() && words[0] == "__complete") {
      print(completions(app, {words.begin() + 1, words.end()}));
      return 0;
    }
    verb = verb_of(app, words);
    const CLI::App& chosen = verb.empty() ? app : *app.get_subcommand(verb);
    if (!verb.empty()) {
      OurWords ours = in_our_words(words, [&](const std::string& name) { return takes_value(chosen, name); });
      if (!ours.ignored.empty()) note(message("bantam: without meaning here: ", with_commas(ours.ignored)));
      words = std::move(ours.words);
    }
    try {
      // The parser takes them from the back.
      app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
    } catch (const CLI::CallForHelp&) {
      print(app.help());
      return 0;
    } catch (const CLI::CallForVersion& version) {
      print(message(version.what(), "\n"));
      return 0;
    } catch (const CLI::ExtrasError&) {
      return report_usage(unexpected(chosen), verb);
    } catch (const CLI::ParseError& error) {
      return report_usage(text_of(error), verb);
    }
    return interruption_or(action());
  } catch (const UsageError& error) {
    return report_usage(error.what(), verb);
  } catch (const ClosedPipe&) {
    return interruption_or(0);
  } catch (const Interrupted&) {
    return 128 + interrupted();
  } catch (const Error& error) {
    if (error.code() == Errc::cancelled && interrupted() != 0) return 128 + interrupted();
    return report_error(error.what());
  } catch (const std::bad_alloc&) {
    return report_error("out of memory");
  } catch (const std::exception& error) {
    return report_error(printable(error.what(), 1000));
  }
}

}  // namespace

}  // namespace bantam::cli

int main(int argc, char** argv) {
  bantam::cli::keep_standard_descriptors();
  bantam::cli::install_signal_handlers();
  return bantam::cli::run_program(argc, argv);
}
