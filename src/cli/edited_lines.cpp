// Editing lines by libedit, whose input comes through here: signals are waited for together with keys, and what is pasted is told
// from what is typed.
#include "edited_lines.hpp"

#ifdef BANTAM_HAS_LIBEDIT

#include <histedit.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "history.hpp"
#include "signals.hpp"
#include "text/utf8.hpp"

namespace bantam::cli {

namespace {

// Terminals that can put these around what is pasted ("bracketed paste") do so when asked; others ignore it.
constexpr std::string_view ask_for_marks = "\x1b[?2004h";
constexpr std::string_view no_more_marks = "\x1b[?2004l";
constexpr std::string_view paste_begins = "\x1b[200~";
constexpr std::string_view paste_ends = "\x1b[201~";
// A key that sends several bytes sends them at once.
constexpr int milliseconds_within_key = 50;

volatile std::sig_atomic_t resized = 0;

void write_error(std::string_view text) {
  [[maybe_unused]] const auto ignored = ::write(STDERR_FILENO, text.data(), text.size());
}

std::string to_utf8(const wchar_t* text, std::size_t size) {
  std::string out;
  for (std::size_t i = 0; i < size; ++i) utf8::append(out, static_cast<std::uint32_t>(text[i]));
  return out;
}

std::wstring to_wide(std::string_view text) {
  std::wstring wide;
  for (std::size_t at = 0; at < text.size();) {
    const utf8::Char c = utf8::decode(text, at);
    wide += static_cast<wchar_t>(c.valid ? c.code : 0xfffd);
    at += c.length;
  }
  return wide;
}

class LibeditLines : public EditedLines {
 public:
  explicit LibeditLines(std::filesystem::path history);
  ~LibeditLines() override;
  LibeditLines(const LibeditLines&) = delete;
  LibeditLines& operator=(const LibeditLines&) = delete;
  [[nodiscard]] bool works() const noexcept { return editor_ != nullptr; }
  TypedLine read(const std::string& prompt) override;

 private:
  static int get_character(EditLine* editor, wchar_t* c);
  /// 1, 0 at the end of the input, -1 after a signal.
  int next(wchar_t& c);
  /// Waits for more input; as next().
  int fill(int timeout_ms);
  /// Whether what was read begins with `mark`; more is waited for where it may become it.
  bool take(std::string_view mark);

  std::filesystem::path path_;
  std::FILE* screen_ = nullptr;
  EditLine* editor_ = nullptr;
  HistoryW* history_ = nullptr;
  std::string prompt_;
  std::string bytes_;     ///< read and not yet handed out
  std::wstring quoted_;   ///< characters to hand out first
  bool pasting_ = false;  ///< between the marks
  sigset_t waiting_ = {};  ///< the signals let through while input is waited for
};

LibeditLines::LibeditLines(std::filesystem::path history) : path_(std::move(history)) {
  // Characters are as wide as the user's locale has them; any that knows UTF-8 will do.
  std::setlocale(LC_CTYPE, "");
  if (MB_CUR_MAX == 1) std::setlocale(LC_CTYPE, "C.UTF-8");
  const int descriptor = ::dup(STDERR_FILENO);
  screen_ = descriptor < 0 ? nullptr : ::fdopen(descriptor, "w");
  if (screen_ == nullptr) return;
  editor_ = ::el_init("bantam", stdin, screen_, screen_);
  if (editor_ == nullptr) return;
  ::el_wset(editor_, EL_CLIENTDATA, this);
  const auto prompt = [](EditLine* editor) -> char* {
    LibeditLines* self = nullptr;
    ::el_wget(editor, EL_CLIENTDATA, &self);
    return self->prompt_.data();
  };
  ::el_set(editor_, EL_PROMPT, static_cast<char* (*)(EditLine*)>(prompt));
  ::el_set(editor_, EL_EDITOR, "emacs");
  ::el_set(editor_, EL_SIGNAL, 0);
  for (const auto& [keys, command] : {std::pair{"^R", "em-inc-search-prev"}, {"\\e[3~", "ed-delete-next-char"}, {"\\e[1;5C", "em-next-word"},
                                      {"\\e[1;5D", "ed-prev-word"}, {"\\e[H", "ed-move-to-beg"}, {"\\e[F", "ed-move-to-end"}}) {
    ::el_set(editor_, EL_BIND, keys, command, nullptr);
  }
  history_ = ::history_winit();
  HistEventW event;
  ::history_w(history_, &event, H_SETSIZE, static_cast<int>(most_remembered));
  ::history_w(history_, &event, H_SETUNIQUE, 1);
  ::el_wset(editor_, EL_HIST, history_w, history_);
  if (!path_.empty()) {
    for (const std::string& line : read_history(path_)) ::history_w(history_, &event, H_ENTER, to_wide(line).c_str());
  }
  ::el_source(editor_, nullptr);  // ~/.editrc
  ::el_wset(editor_, EL_GETCFN, &get_character);
  struct sigaction action {};
  action.sa_handler = [](int) {
    resized = 1;
    wake();
  };
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGWINCH, &action, nullptr);
}

LibeditLines::~LibeditLines() {
  if (history_ != nullptr) ::history_wend(history_);
  if (editor_ != nullptr) ::el_end(editor_);
  if (screen_ != nullptr) std::fclose(screen_);
}

int LibeditLines::get_character(EditLine* editor, wchar_t* c) {
  LibeditLines* self = nullptr;
  ::el_wget(editor, EL_CLIENTDATA, &self);
  return self->next(*c);
}

int LibeditLines::fill(int timeout_ms) {
  for (;;) {
    sleep_again();
    if (resized != 0) {
      resized = 0;
      ::el_resize(editor_);
    }
    if (interrupted() != 0) return -1;
    pollfd ready[2] = {{STDIN_FILENO, POLLIN, 0}, {wake_descriptor(), POLLIN, 0}};
    const timespec limit{timeout_ms / 1000, timeout_ms % 1000 * 1'000'000L};
    const int count = ::ppoll(ready, 2, timeout_ms < 0 ? nullptr : &limit, &waiting_);
    if (count == 0) return 0;
    if (count < 0 && errno != EINTR) return 0;
    if (count < 0 || ready[0].revents == 0) continue;
    char buffer[4096];
    const ssize_t got = ::read(STDIN_FILENO, buffer, sizeof buffer);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0) return 0;
    bytes_.append(buffer, static_cast<std::size_t>(got));
    return 1;
  }
}

bool LibeditLines::take(std::string_view mark) {
  while (bytes_.size() < mark.size() && mark.starts_with(bytes_) && fill(milliseconds_within_key) == 1) {
  }
  if (!bytes_.starts_with(mark)) return false;
  bytes_.erase(0, mark.size());
  return true;
}

int LibeditLines::next(wchar_t& c) {
  for (;;) {
    if (!quoted_.empty()) {
      c = quoted_[0];
      quoted_.erase(0, 1);
      return 1;
    }
    // A character in parts is waited for; what is none is replaced.
    while (bytes_.empty() || utf8::unfinished_tail(bytes_) == bytes_.size()) {
      const bool begun = !bytes_.empty();
      const int filled = fill(begun ? milliseconds_within_key : -1);
      if (filled == 1) continue;
      if (filled == 0 && begun) break;
      return filled;
    }
    if (bytes_[0] == '\x1b') {
      if (take(pasting_ ? paste_ends : paste_begins)) {
        pasting_ = !pasting_;
        continue;
      }
      if (take(pasting_ ? paste_begins : paste_ends)) continue;
    }
    const utf8::Char character = utf8::decode(bytes_, 0);
    c = static_cast<wchar_t>(character.valid ? character.code : 0xfffd);
    bytes_.erase(0, character.length);
    if (!pasting_) return 1;
    // Pasted text has no keys, but ends of lines and tabs.
    if (c == L'\r' || c == L'\n') {
      c = L'\n';
      return 1;
    }
    if (c == L'\t') {
      quoted_ = L"\t";
      c = L'\x16';  // ed-quoted-insert
      return 1;
    }
    if (c >= 0x20 && c != 0x7f) return 1;
  }
}

TypedLine LibeditLines::read(const std::string& prompt) {
  prompt_ = prompt;
  // A signal must not end the program while the terminal is in the editor's hands.
  const Section section(Insisting::changes_nothing);
  // Nor may it cut short what the editor writes.
  sigset_t held;
  sigemptyset(&held);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGWINCH}) sigaddset(&held, signal);
  ::pthread_sigmask(SIG_BLOCK, &held, &waiting_);
  // The editor itself would do so after it has shown the prompt, too late for a key that is pressed at once.
  ::el_set(editor_, EL_PREP_TERM, 1);
  write_error(ask_for_marks);
  int count = 0;
  const wchar_t* const line = ::el_wgets(editor_, &count);
  write_error(no_more_marks);
  ::pthread_sigmask(SIG_SETMASK, &waiting_, nullptr);
  TypedLine typed;
  if (line != nullptr && count > 0) {
    typed.kind = TypedLine::Kind::line;
    typed.text = to_utf8(line, static_cast<std::size_t>(count));
    while (!typed.text.empty() && (typed.text.back() == '\n' || typed.text.back() == '\r')) typed.text.pop_back();
    typed.more_pasted = pasting_;
    HistEventW event;
    if (!typed.text.empty()) {
      ::history_w(history_, &event, H_ENTER, to_wide(typed.text).c_str());
      if (!path_.empty()) remember(path_, typed.text);
    }
    return typed;
  }
  pasting_ = false;
  bytes_.clear();
  quoted_.clear();
  if (interrupted() != 0) {
    typed.kind = TypedLine::Kind::interrupted;
    const LineInfoW* const info = ::el_wline(editor_);
    typed.text = to_utf8(info->buffer, static_cast<std::size_t>(info->lastchar - info->buffer));
  }
  write_error("\n");
  return typed;
}

}  // namespace

std::unique_ptr<EditedLines> make_edited_lines(std::filesystem::path history) {
  auto lines = std::make_unique<LibeditLines>(std::move(history));
  if (!lines->works()) return nullptr;
  return lines;
}

}  // namespace bantam::cli

#else

namespace bantam::cli {

std::unique_ptr<EditedLines> make_edited_lines(std::filesystem::path) { return nullptr; }

}  // namespace bantam::cli

#endif
