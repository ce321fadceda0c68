// Interruption: SIGINT, SIGTERM and SIGHUP end the program at once, or at the next step where something must be tidied.
#pragma once

#include <exception>

namespace bantam::cli {

/// A signal asked the program to end; what had to be tidied is tidied.
struct Interrupted : std::exception {};

/// Installs the handlers. Signals that were ignored at the start (nohup, background jobs) stay ignored; a closed pipe
/// becomes an error of write(); a mapped file that loses its end becomes one line and exit status 1.
void install_signal_handlers();

/// The signal that came during a Section, 0 if none.
[[nodiscard]] int interrupted() noexcept;
/// Forgets it.
void clear_interruption() noexcept;

/// Readable after a signal until sleep_again(), whichever thread the signal was handled on: to be waited for with other input.
/// -1 where there is none.
[[nodiscard]] int wake_descriptor() noexcept;
void sleep_again() noexcept;
/// Makes it readable; for handlers of other signals.
void wake() noexcept;

enum class Insisting : bool {
  ends_at_once,    ///< a second signal does not wait for the step
  changes_nothing  ///< a temporary file would stay behind
};

/// While one exists, a signal only sets interrupted(). Outside, it ends the program at once.
class Section {
 public:
  explicit Section(Insisting insisting) noexcept;
  ~Section();
  Section(const Section&) = delete;
  Section& operator=(const Section&) = delete;
};

/// Whether the cursor stands in an unfinished line of standard error, which ending at once should end.
void set_open_line(bool open) noexcept;

}  // namespace bantam::cli
