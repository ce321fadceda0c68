// Streaming a reply.
#include "generation.hpp"

#include "progress.hpp"
#include "signals.hpp"

namespace bantam::cli {

ReadProgress reading_progress(bool drawn) {
  struct State {
    std::chrono::steady_clock::time_point start;
    std::optional<ProgressBar> bar;
  };
  return [drawn, state = std::make_shared<State>()](std::int64_t read, std::int64_t total) {
    const auto now = std::chrono::steady_clock::now();
    if (read == 0) {
      state->start = now;
      state->bar.emplace(drawn);
    }
    // What is read at once needs no bar.
    if (state->bar && now - state->start > std::chrono::milliseconds(200)) state->bar->show(read, total, "tokens of the prompt");
    if (read == total || interrupted() != 0) state->bar.reset();
    return interrupted() == 0;
  };
}

ReplyPrinter::ReplyPrinter(std::string_view form, std::string_view prompt, bool hides)
    : parser_(form, {.prompt = prompt, .calls = false}), hides_(hides) {}

void ReplyPrinter::print_events(std::span<const ReplyEvent> events) {
  // What a terminal calls faint, and the end of it: never left open behind a piece.
  const bool colors = output_is_terminal();
  for (const ReplyEvent& event : events) {
    // One empty line stands between thoughts and what is said.
    if (event.kind == ReplyEvent::Kind::text && said_.text.empty() && !said_.reasoning.empty() && !hides_ && !event.text.empty()) print("\n\n");
    add_event(said_, calls_, event);
    if (event.kind == ReplyEvent::Kind::text) print(event.text);
    if (event.kind == ReplyEvent::Kind::reasoning && !hides_) print(colors ? "\x1b[2m" + event.text + "\x1b[22m" : event.text);
  }
}

Reply stream_reply(TextRange range, bool echo, ReplyPrinter* printer) {
  Reply reply;
  try {
    for (const std::string_view piece : range) {
      reply.text += piece;
      if (echo && printer != nullptr) {
        printer->feed(piece);
      } else if (echo) {
        print(piece);
      }
      if (interrupted() != 0) break;
    }
  } catch (const ClosedPipe&) {
    reply.reader_gone = true;
  } catch (const Interrupted&) {
    // The reader was slow; what is left of the piece is not worth waiting for.
  }
  reply.tokens = range.tokens();
  reply.stats = range.stats();
  reply.finish = range.finish() == Finish::running ? Finish::cancelled : range.finish();
  return reply;
}

Json to_json(const Reply& reply, std::uint64_t seed) {
  return {{"text", reply.text},
          {"tokens", reply.tokens},
          {"prompt_tokens", reply.stats.prompt_tokens},
          {"generated_tokens", reply.stats.generated_tokens},
          {"prompt_ms", reply.stats.prompt_ms},
          {"generate_ms", reply.stats.generate_ms},
          {"guessed_tokens", reply.stats.guessed_tokens},
          {"right_guesses", reply.stats.right_guesses},
          {"finish_reason", std::string(to_string(reply.finish))},
          {"seed", seed}};
}

std::string statistics(const Reply& reply, std::uint64_t seed) {
  const auto rate = [](std::int64_t tokens, double ms) {
    return ms > 0 ? message(" at ", fixed(1000 * static_cast<double>(tokens) / ms, 1), " tok/s") : std::string();
  };
  const SessionStats& stats = reply.stats;
  return message(stats.prompt_tokens, " prompt tokens", rate(stats.prompt_tokens, stats.prompt_ms), ", ",
                 stats.generated_tokens, " generated", rate(stats.generated_tokens, stats.generate_ms),
                 stats.guessed_tokens == 0 ? "" : message(", ", stats.right_guesses, " of ", stats.guessed_tokens, " guesses right"),
                 ", finish: ", to_string(reply.finish), ", seed ", seed);
}

}  // namespace bantam::cli
