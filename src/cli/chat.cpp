// `bantam run --chat`: messages in, replies out, by the model's own template.
#include <unistd.h>

#include <csignal>

#include "bantam/core/names.hpp"
#include "bantam/session/conversation.hpp"
#include "chat_file.hpp"
#include "generation.hpp"
#include "history.hpp"
#include "line_editor.hpp"
#include "signals.hpp"

namespace bantam::cli {

namespace {

class Chat {
 public:
  Chat(const RunOptions& options, Session& session);

  int run();

 private:
  struct Command {
    std::string_view name, argument, help;
    void (Chat::*run)(const std::string& argument);
  };
  static const Command commands[];

  /// Nothing when the chat is over.
  std::optional<std::string> next_message();
  std::optional<std::string> typed_message();
  /// True when the message was a command, which was obeyed.
  bool obey(const std::string& message);

  void answer(const std::string& message);
  /// Streams a reply and keeps it. `start` begins the generation.
  template <class F>
  void reply_to(F&& start);
  /// What a full context cuts off goes on in the room that the oldest turns leave.
  Reply stream_whole(TextRange range, const GenerateOptions& generate, ReplyPrinter* printer);
  /// Thoughts are told apart on terminals, unless asked otherwise; what goes through a pipe is what the model wrote.
  [[nodiscard]] bool tells_apart() const;
  void tell_forgotten();
  /// Of the next reply: no two replies share a seed.
  [[nodiscard]] GenerateOptions next_options();

  void help(const std::string&);
  void reset(const std::string&);
  void regenerate(const std::string&);
  void system(const std::string& text);
  void save(const std::string& path);
  void load(const std::string& path);
  void stats(const std::string&);
  void leave(const std::string&) { status_ = 0; }

  const RunOptions& options_;
  Session& session_;
  Conversation conversation_;
  GenerateOptions generate_;
  const bool typed_ = input_is_terminal();
  LineEditor lines_;
  bool first_ = true;
  std::uint64_t turn_ = 0;
  std::size_t told_forgotten_ = 0;
  std::optional<Reply> last_;
  std::uint64_t last_seed_ = 0;
  const std::string_view form_ = reply_form_of(session_.model().tokenizer().chat_template());
  std::optional<int> status_;  ///< set when the chat is over
  Json replies_ = Json::array();
};

const Chat::Command Chat::commands[] = {
    {"/help", "", "this list", &Chat::help},
    {"/reset", "", "forget everything that was said", &Chat::reset},
    {"/regen", "", "another reply to the last message", &Chat::regenerate},
    {"/system", "TEXT", "what the model is told to be, from here on", &Chat::system},
    {"/save", "FILE", "write the chat and its settings", &Chat::save},
    {"/load", "FILE", "go on with a chat that was written", &Chat::load},
    {"/stats", "", "speed of the last reply, and how full the context is", &Chat::stats},
    {"/bye", "", "leave; so do /exit, Ctrl-D, and Ctrl-C on an empty line", &Chat::leave},
    {"/exit", "", "", &Chat::leave},
    {"/quit", "", "", &Chat::leave},
};

Chat::Chat(const RunOptions& options, Session& session)
    : options_(options), session_(session), conversation_(session), generate_(options.generate),
      lines_(options.no_history || !input_is_terminal() ? std::filesystem::path() : history_path()) {
  conversation_.set_system(options_.system);
  if (tells_apart()) generate_.spell = reply_tokens(session_.model().tokenizer(), form_);
}

bool Chat::tells_apart() const {
  if (options_.common.json || options_.reasoning == "raw" || form_ == "text") return false;
  return !options_.reasoning.empty() || output_is_terminal();
}

GenerateOptions Chat::next_options() {
  GenerateOptions generate = generate_;
  last_seed_ = generate.sampling.seed += turn_++;
  return generate;
}

// Messages ------------------------------------------------------------------------------------------------------------

std::optional<std::string> Chat::next_message() {
  if (std::exchange(first_, false) && options_.has_prompt) return options_.prompt;
  // A script that gave its message may leave standard input open for ever.
  if (options_.has_prompt && !typed_) return std::nullopt;
  if (typed_) return typed_message();
  TypedLine line = lines_.read("");
  return line.kind == TypedLine::Kind::line ? std::optional(std::move(line.text)) : std::nullopt;
}

std::optional<std::string> Chat::typed_message() {
  constexpr std::string_view quotes = "\"\"\"";
  std::string message;
  bool begun = false, block = false;
  for (;;) {
    TypedLine line = lines_.read(begun ? ". " : "> ");
    if (line.kind == TypedLine::Kind::interrupted) {
      const bool ends = interrupted() != SIGINT || (line.text.empty() && !begun);
      if (ends) status_ = 128 + interrupted();
      if (ends) return std::nullopt;
      clear_interruption();
      message.clear();
      begun = block = false;
      continue;
    }
    if (line.kind == TypedLine::Kind::end) return begun ? std::optional(std::move(message)) : std::nullopt;
    std::string& text = line.text;
    if (begun) message += '\n';
    bool more = line.more_pasted;
    if (!begun && text.starts_with(quotes)) {
      text.erase(0, quotes.size());
      block = true;
    }
    if (block && text.ends_with(quotes)) {
      text.resize(text.size() - quotes.size());
      block = false;
    } else if (!block && !more && text.ends_with('\\')) {
      text.pop_back();
      more = true;
    }
    message += text;
    begun = true;
    if (block || more) continue;
    return message;
  }
}

// Replies -------------------------------------------------------------------------------------------------------------

void Chat::tell_forgotten() {
  const std::size_t forgotten = conversation_.forgotten();
  if (forgotten > told_forgotten_ && !options_.quiet) {
    note(message("bantam: the context is full: the oldest ", forgotten, " messages are left out of what the model reads"));
  }
  told_forgotten_ = forgotten;
}

Reply Chat::stream_whole(TextRange range, const GenerateOptions& generate, ReplyPrinter* printer) {
  Reply whole = stream_reply(std::move(range), !options_.common.json, printer);
  Reply* last = &whole;
  Reply part;
  while (last->finish == Finish::length && static_cast<std::int64_t>(session_.tokens().size()) >= session_.context()) {
    GenerateOptions rest = generate;
    const auto made = static_cast<std::int64_t>(whole.tokens.size());
    if (rest.max_tokens >= 0 && (rest.max_tokens -= made) <= 0) break;
    std::optional<TextRange> more;
    try {
      more = conversation_.go_on(rest);
    } catch (const Error& error) {
      // Stopped while it reads the rest again: what was said until then stays.
      if (error.code() != Errc::cancelled) throw;
      whole.finish = Finish::cancelled;
    }
    if (!more) break;
    part = stream_reply(*std::move(more), !options_.common.json, printer);
    whole.text += part.text;
    whole.tokens.insert(whole.tokens.end(), part.tokens.begin(), part.tokens.end());
    whole.stats.generated_tokens += part.stats.generated_tokens;
    whole.stats.generate_ms += part.stats.generate_ms;
    whole.stats.prompt_tokens += part.stats.prompt_tokens;
    whole.stats.prompt_ms += part.stats.prompt_ms;
    whole.finish = part.finish;
    whole.reader_gone = part.reader_gone;
    last = &part;
  }
  return whole;
}

template <class F>
void Chat::reply_to(F&& start) {
  const GenerateOptions generate = next_options();
  std::optional<ReplyPrinter> printer;
  {
    const Section section(Insisting::ends_at_once);
    try {
      TextRange range = start(generate);
      if (tells_apart()) {
        // Where the template opens the reasoning, its mark is among the last tokens.
        constexpr std::size_t tail_tokens = 32;
        const std::span<const TokenId> read = session_.tokens();
        const std::string tail = session_.model().tokenizer().decode(read.last(std::min(read.size(), tail_tokens)), true);
        printer.emplace(form_, tail, options_.reasoning == "hide");
      }
      last_ = stream_whole(std::move(range), generate, printer ? &*printer : nullptr);
      if (printer && !last_->reader_gone) printer->finish();
    } catch (const Error& error) {
      if (!typed_) throw;
      conversation_.drop_unanswered();
      if (error.code() == Errc::cancelled && interrupted() == SIGINT) {
        clear_interruption();
        return;
      }
      note(message("bantam: ", error.what(), "; /reset starts anew"));
      return;
    }
    // Templates leave thoughts of old turns out, or refuse their marks.
    conversation_.keep_reply(printer && !printer->text().empty() ? printer->text() : last_->text);
    if (last_->reader_gone) status_ = 0;
    if (last_->reader_gone) return;
    if (options_.common.json) {
      replies_.push_back(to_json(*last_, generate.sampling.seed));
    } else {
      print("\n");
    }
  }
  tell_forgotten();
  if (!options_.quiet && !options_.common.json && !typed_) note("bantam: " + statistics(*last_, generate.sampling.seed));
  // At the keyboard Ctrl-C stops the reply only.
  if (interrupted() == SIGINT && typed_) clear_interruption();
  if (interrupted() != 0) status_ = 128 + interrupted();
}

void Chat::answer(const std::string& message) {
  reply_to([&](const GenerateOptions& generate) { return conversation_.answer(message, generate); });
}

// Commands ------------------------------------------------------------------------------------------------------------

bool Chat::obey(const std::string& message) {
  const std::size_t space = std::min(message.find_first_of(" \t\n"), message.size());
  const std::string name = message.substr(0, space);
  const std::size_t begin = std::min(message.find_first_not_of(" \t\n", space), message.size());
  std::string argument = message.substr(begin);
  argument.resize(argument.find_last_not_of(" \t\n") + 1);
  // "/usr/lib/x" is a path in a message.
  const bool is_command = name.size() > 1 && name[0] == '/' && name.find_first_not_of("abcdefghijklmnopqrstuvwxyz", 1) == std::string::npos;
  if (!is_command) return false;
  // Through a pipe whatever is no command of old is a message.
  const bool known_to_pipes = argument.empty() && (name == "/reset" || name == "/exit" || name == "/bye");
  if (!typed_ && !known_to_pipes) return false;
  std::vector<std::string_view> names;
  for (const Command& command : commands) {
    names.push_back(command.name);
    if (command.name != name) continue;
    if (command.argument.empty() && !argument.empty()) {
      note(bantam::message("bantam: ", name, ": expected nothing after it, found ", printable(argument)));
    } else if (command.argument == "FILE" && argument.empty()) {
      note(bantam::message("bantam: ", name, ": expected the name of a file after it"));
    } else {
      (this->*command.run)(argument);
    }
    return true;
  }
  note(bantam::message("bantam: unknown command ", name, did_you_mean(name, names), " (see /help)"));
  return true;
}

void Chat::help(const std::string&) {
  Table table("ll");
  for (const Command& command : commands) {
    if (!command.help.empty()) table.add({message(command.name, command.argument.empty() ? "" : " ", command.argument), std::string(command.help)});
  }
  note(table.text() +
       "A message of several lines: end a line with \\, or put it between \"\"\" and \"\"\". Ctrl-C stops a reply.");
}

void Chat::reset(const std::string&) {
  conversation_.clear();
  told_forgotten_ = 0;
}

void Chat::regenerate(const std::string&) {
  reply_to([&](const GenerateOptions& generate) { return conversation_.answer_again(generate); });
}

void Chat::system(const std::string& text) {
  const auto& messages = conversation_.messages();
  if (text.empty()) {
    note(messages.empty() || messages[0].role != "system" ? "bantam: there is no system message; /system TEXT sets one" : messages[0].content);
    return;
  }
  conversation_.set_system(text);
}

void Chat::save(const std::string& path) {
  try {
    refuse_overwriting(options_.model, path);
    save_chat(path, {options_.model, conversation_.messages(), generate_});
    note(message("bantam: ", conversation_.messages().size(), " messages are in ", printable(path, 400)));
  } catch (const Error& error) {
    note(message("bantam: /save: ", error.what()));
  }
}

void Chat::load(const std::string& path) {
  try {
    SavedChat saved = load_chat(path, generate_);
    conversation_.set_messages(std::move(saved.messages));
    generate_ = std::move(saved.generate);
    told_forgotten_ = 0;
    note(message("bantam: ", conversation_.messages().size(), " messages from ", printable(path, 400),
                 saved.model.empty() || saved.model == options_.model ? "" : ", said with " + printable(saved.model, 400)));
  } catch (const Error& error) {
    note(message("bantam: /load: ", error.what()));
  }
}

void Chat::stats(const std::string&) {
  if (last_) note("bantam: last reply: " + statistics(*last_, last_seed_));
  note(message("bantam: ", session_.tokens().size(), " of ", session_.context(), " tokens of context, ", conversation_.messages().size(), " messages",
               conversation_.forgotten() == 0 ? "" : message(", the oldest ", conversation_.forgotten(), " left out"), ", keys and values ",
               in_bytes(session_.kv_bytes())));
}

int Chat::run() {
  if (typed_ && !options_.quiet) {
    const std::string name = std::filesystem::path(options_.model).lexically_normal().filename().string();
    note(message("bantam: ", printable(name.empty() ? options_.model : name), conversation_.has_template() ? ", " : " has no chat template and goes on with your text, ",
                 session_.context(), " tokens of context; /help lists commands"));
  }
  while (!status_) {
    const std::optional<std::string> message = next_message();
    if (!message) break;
    if (message->empty() || obey(*message)) continue;
    answer(*message);
  }
  if (options_.common.json) print_json({{"replies", replies_}});
  return status_.value_or(0);
}

}  // namespace

int chat(const RunOptions& options, Session& session) {
  const bool typed = input_is_terminal() && output_is_terminal();
  if (session.model().tokenizer().chat_template().empty() && !typed) {
    fail(Errc::unsupported, printable(options.model, 4096),
         ": expected a model with a chat template, this one has none: use a plain prompt (-p)");
  }
  return Chat(options, session).run();
}

}  // namespace bantam::cli
