// Signal handlers: everything here must be safe inside one.
#include "signals.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <string_view>

namespace bantam::cli {

namespace {

enum State : int { at_once, waits, waits_whatever_comes };

std::atomic<int> received{0};
std::atomic<int> state{at_once};
std::atomic<bool> open_line{false};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

// Written by the handlers and waited for with the keys: a handler may run on any thread, where it ends no wait of another's.
int wake_read = -1;
int wake_write = -1;

void tell(std::string_view text) noexcept {
  [[maybe_unused]] const auto ignored = ::write(STDERR_FILENO, text.data(), text.size());
}

void on_interruption(int signal) {
  const int now = state.load();
  if (now == at_once || (now == waits && received.load() != 0)) {
    if (open_line.load()) tell("\n");
    ::_exit(128 + signal);
  }
  received.store(signal);
  wake();
}

void on_lost_pages(int) {
  tell(
      "bantam: a mapped file lost its end, or its disk failed: expected the bytes that were there at the start\n");
  ::_exit(1);
}

void handle(int signal, void (*handler)(int)) {
  struct sigaction before {};
  ::sigaction(signal, nullptr, &before);
  if (before.sa_handler == SIG_IGN) return;
  struct sigaction action {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  // Without SA_RESTART: a write that waits for a reader comes back.
  ::sigaction(signal, &action, nullptr);
}

}  // namespace

void install_signal_handlers() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0) {
    wake_read = ends[0];
    wake_write = ends[1];
  }
  handle(SIGINT, on_interruption);
  handle(SIGTERM, on_interruption);
  handle(SIGHUP, on_interruption);
  handle(SIGBUS, on_lost_pages);
  ::signal(SIGPIPE, SIG_IGN);
  // EFBIG instead of the signal.
  ::signal(SIGXFSZ, SIG_IGN);
}

int interrupted() noexcept { return received.load(); }
void clear_interruption() noexcept { received.store(0); }

void wake() noexcept {
  // A pipe that is full wakes too.
  const int error = errno;
  [[maybe_unused]] const auto ignored = ::write(wake_write, "", 1);
  errno = error;
}

int wake_descriptor() noexcept { return wake_read; }

void sleep_again() noexcept {
  char bytes[64];
  while (::read(wake_read, bytes, sizeof bytes) > 0) {
  }
}

Section::Section(Insisting insisting) noexcept {
  state.store(insisting == Insisting::ends_at_once ? waits : waits_whatever_comes);
}
Section::~Section() { state.store(at_once); }

void set_open_line(bool open) noexcept { open_line.store(open); }

}  // namespace bantam::cli
