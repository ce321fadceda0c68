// `bantam run --chat`: messages in, replies out, by the model's own template.
#include <unistd.h>

#include <csignal>

#include "generation.hpp"
#include "input.hpp"
#include "signals.hpp"

namespace bantam::cli {

namespace {

class Chat {
 public:
  Chat(const RunOptions& options, Session& session) : options_(options), session_(session) { reset(); }

  int run();

 private:
  void reset();
  std::optional<std::string> next_message();
  /// The exit status when the chat is over.
  std::optional<int> answer(const std::string& message);

  const RunOptions& options_;
  Session& session_;
  LineReader lines_;
  const bool typed_ = input_is_terminal();
  bool first_ = true;
  std::uint64_t turn_ = 0;
  std::vector<ChatMessage> waiting_;  ///< messages that the session has not seen
  Json replies_ = Json::array();
};

void Chat::reset() {
  session_.clear();
  waiting_.clear();
  if (!options_.system.empty()) waiting_.push_back({"system", options_.system});
}

std::optional<std::string> Chat::next_message() {
  if (std::exchange(first_, false) && options_.has_prompt) return options_.prompt;
  // A script that gave its message may leave standard input open for ever.
  if (options_.has_prompt && !typed_) return std::nullopt;
  if (typed_) {
    [[maybe_unused]] const auto ignored = ::write(STDERR_FILENO, "> ", 2);
  }
  return lines_.next();
}

std::optional<int> Chat::answer(const std::string& message) {
  waiting_.push_back({"user", message});
  GenerateOptions generate = options_.generate;
  generate.sampling.seed += turn_++;
  Reply reply;
  {
    const Section section(Insisting::ends_at_once);
    try {
      reply = stream_reply(session_.chat(waiting_, generate), !options_.common.json);
    } catch (const Error& error) {
      if (!typed_) throw;
      waiting_.pop_back();
      if (error.code() == Errc::cancelled && interrupted() == SIGINT) {
        clear_interruption();
        return std::nullopt;
      }
      note(bantam::message("bantam: ", error.what(), "; /reset starts anew"));
      return std::nullopt;
    }
    waiting_.clear();
    if (reply.reader_gone) return 0;
    if (options_.common.json) {
      replies_.push_back(to_json(reply, generate.sampling.seed));
    } else {
      print("\n");
    }
  }
  if (!options_.quiet && !options_.common.json && !typed_) note("bantam: " + statistics(reply, generate.sampling.seed));
  // At the keyboard Ctrl-C stops the reply only.
  if (interrupted() == SIGINT && typed_) clear_interruption();
  return interrupted() != 0 ? std::optional<int>(128 + interrupted()) : std::nullopt;
}

int Chat::run() {
  int status = 0;
  if (typed_ && !options_.quiet)
    note("bantam: /reset forgets everything, /exit or Ctrl-D leaves, Ctrl-C stops a reply");
  while (const std::optional<std::string> message = next_message()) {
    if (*message == "/exit") break;
    if (*message == "/reset") {
      reset();
      continue;
    }
    if (message->empty()) continue;
    if (const std::optional<int> ended = answer(*message)) {
      status = *ended;
      break;
    }
  }
  if (options_.common.json) print_json({{"replies", replies_}});
  return status;
}

}  // namespace

int chat(const RunOptions& options, Session& session) {
  if (session.model().tokenizer().chat_template().empty()) {
    fail(Errc::unsupported, printable(options.model, 4096),
         ": expected a model with a chat template, this one has none: use a plain prompt (-p)");
  }
  return Chat(options, session).run();
}

}  // namespace bantam::cli
