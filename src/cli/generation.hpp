// What `bantam run` is told, and one reply streamed out of a session: shared by plain runs and chats.
#pragma once

#include "bantam/text/reply.hpp"
#include "options.hpp"
#include "output.hpp"

namespace bantam::cli {

struct RunOptions {
  CommonOptions common;
  LoadingOptions loading;
  std::string model;
  std::string prompt, file;
  bool has_prompt = false, has_file = false;
  bool parse_special = false;
  bool chat = false;
  std::string system;
  std::string reasoning;  ///< "show", "hide", "raw"; empty: shown on a terminal, raw elsewhere
  std::string load_session, save_session;
  std::int64_t context = 0;
  std::string kv = "f16";
  bool quiet = false;
  bool stats = false;
  bool no_history = false;
  bool max_tokens_given = false;
  GenerateOptions generate;
  std::string draft;
  std::int64_t continuations = 0;  ///< texts behind the prompt; 0: one, streamed
  std::int64_t beams = 0;          ///< of a beam search; 0: texts are drawn
  float length_penalty = 1.0f;
  std::optional<Grammar> grammar;  ///< over this model's tokens when it is loaded
};

struct Reply {
  std::string text;
  std::vector<TokenId> tokens;
  SessionStats stats;
  Finish finish = Finish::running;
  bool reader_gone = false;
};

/// A bar while a long prompt is read, and the end of reading when a signal came during a Section.
[[nodiscard]] ReadProgress reading_progress(bool drawn);

/// Prints a reply with what the model thinks apart: dimmed on a terminal, or hidden.
class ReplyPrinter {
 public:
  ReplyPrinter(std::string_view form, std::string_view prompt, bool hides);
  void feed(std::string_view piece) { print_events(parser_.feed(piece)); }
  void finish() { print_events(parser_.finish()); }
  /// What was said without the thoughts.
  [[nodiscard]] const std::string& text() const { return said_.text; }

 private:
  void print_events(std::span<const ReplyEvent> events);
  ReplyParser parser_;
  ParsedReply said_;
  std::vector<std::size_t> calls_;
  bool hides_;
};

/// Runs a generation to its end, to an interruption (inside a Section) or until nobody reads any more. `echo`: pieces
/// go to standard output as they come, or to the printer.
[[nodiscard]] Reply stream_reply(TextRange range, bool echo, ReplyPrinter* printer = nullptr);

/// {text, tokens, prompt_tokens, generated_tokens, prompt_ms, generate_ms, finish_reason, seed}
[[nodiscard]] Json to_json(const Reply& reply, std::uint64_t seed);

/// "12 prompt tokens at 345.6 tok/s, 80 generated at 78.9 tok/s, finish: length, seed 17"
[[nodiscard]] std::string statistics(const Reply& reply, std::uint64_t seed);

/// `run --continuations`, `--beams`: writes the texts behind a prompt. Returns the exit status.
int write_several(const RunOptions& options, Session& session, const std::string& prompt);

/// The chat of `run --chat`. Returns the exit status.
int chat(const RunOptions& options, Session& session);

}  // namespace bantam::cli
