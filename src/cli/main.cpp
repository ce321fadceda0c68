// The program: finds the verb, reads its options, turns errors into exit statuses.
#include <fcntl.h>
#include <unistd.h>

#include <new>

#include "options.hpp"
#include "output.hpp"
#include "signals.hpp"
#include "verbs.hpp"

namespace bantam::cli {

namespace {

constexpr int world_error = 1;
constexpr int usage_error = 2;

constexpr const char* examples =
    "Examples:\n"
    "  bantam compress Qwen3-0.6B -o q4.bantam --format q4\n"
    "  bantam run q4.bantam -p 'The capital of France is' -n 64\n"
    "  bantam perplexity q4.bantam wiki.txt --against Qwen3-0.6B\n"
    "\n"
    "MODEL is a Hugging Face folder, a .gguf file or a native .bantam file. Results go to standard\n"
    "output, everything else to standard error. Exit status: 0 done, 1 the world said no, 2 wrong\n"
    "usage, 130 interrupted. `bantam VERB --help` explains a verb.";

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
  return result;
}

/// One line, lower case at the start, safe to print, with a hint at the help that fits.
int report_usage(std::string text, const std::string& verb) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  if (text.size() > 1 && std::isupper(static_cast<unsigned char>(text[0])) && std::islower(static_cast<unsigned char>(text[1]))) {
    text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  }
  note(message("bantam: ", verb.empty() ? "" : verb + ": ", printable(text, 1000), " (see `bantam ", verb.empty() ? "" : verb + " ", "--help`)"));
  return usage_error;
}

int report_error(std::string_view text) {
  note(message("bantam: ", text));
  return world_error;
}

void check_verb(const CLI::App& app, const std::vector<std::string>& words) {
  std::string verbs;
  for (const CLI::App* verb : app.get_subcommands({})) {
    if (!words.empty() && verb->get_name() == words[0]) return;
    verbs += message(verbs.empty() ? "" : ", ", verb->get_name());
  }
  if (!words.empty() && words[0].starts_with("-")) return;
  throw UsageError(message("expected a verb (", verbs, "), found ", words.empty() ? "nothing" : printable(words[0])));
}

/// 128 + the signal when one came while the work was being tidied up, else `status`.
int interruption_or(int status) { return interrupted() != 0 ? 128 + interrupted() : status; }

int run_program(int argc, char** argv) {
  std::string verb;
  try {
    CLI::App app("bantam compresses large language models and runs them on the machine you have.", "bantam");
    Action action;
    app.get_formatter()->column_width(34);
    app.get_formatter()->label("REQUIRED", "");
    app.get_formatter()->label("SUBCOMMAND", "VERB");
    app.get_formatter()->label("Positionals", "Arguments");
    app.set_version_flag("--version", "bantam " BANTAM_VERSION, "print the version and leave");
    app.set_help_flag("-h,--help", "print this help and leave");
    app.footer(examples);
    app.require_subcommand(1);
    for (const auto add : {add_run, add_tokenize, add_logits, add_perplexity, add_compress, add_inspect, add_bench, add_formats, add_cpuinfo}) {
      add(app, action);
    }
    for (CLI::App* sub : app.get_subcommands({})) sub->group("Verbs");
    const std::vector<std::string> words = arguments(argc, argv);
    check_verb(app, words);
    if (!words.empty() && !words[0].starts_with("-")) verb = words[0];
    try {
      // The parser takes them from the back.
      app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
    } catch (const CLI::CallForHelp&) {
      print(app.help());
      return 0;
    } catch (const CLI::CallForVersion& version) {
      print(message(version.what(), "\n"));
      return 0;
    } catch (const CLI::ParseError& error) {
      return report_usage(error.what(), verb);
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
