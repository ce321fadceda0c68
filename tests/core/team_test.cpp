// The team of threads: deals, workers that do not come, ends.
#include "bantam/core/team.hpp"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "bantam/core/cpu.hpp"
#include "bantam/core/impl/losses.hpp"
#include "support.hpp"

using bantam::Range;
using bantam::Team;

namespace {

/// All workers take part, on however few processors.
void crowd(Team& team) { team.set_active(team.size()); }

/// Stops a thread wherever it is, until it is let go: a signal handler that waits in read().
class Stop {
 public:
  explicit Stop(pthread_t thread) {
    REQUIRE(pipe(entered_) == 0);
    REQUIRE(pipe(released_) == 0);
    struct sigaction action {};
    action.sa_handler = [](int) {
      const int saved = errno;
      char byte = 1;
      [[maybe_unused]] auto n = write(entered_[1], &byte, 1);
      n = read(released_[0], &byte, 1);
      errno = saved;
    };
    sigaction(SIGUSR1, &action, &before_);
    pthread_kill(thread, SIGUSR1);
    char byte = 0;
    REQUIRE(read(entered_[0], &byte, 1) == 1);
  }
  ~Stop() {
    const char byte = 1;
    [[maybe_unused]] const auto n = write(released_[1], &byte, 1);
    sigaction(SIGUSR1, &before_, nullptr);
    for (const int end : {entered_[0], entered_[1]}) close(end);
    // The handler still reads from the other pipe: its ends stay open.
  }

 private:
  static inline int entered_[2], released_[2];
  struct sigaction before_ {};
};

/// How long other programs, and other machines on the same host, have had processors, of all processors together.
std::chrono::nanoseconds time_of_others() {
  std::string cpu;
  std::int64_t user = 0, nice = 0, system = 0, idle = 0, disk = 0, interrupts = 0, soft = 0, stolen = 0;
  std::ifstream("/proc/stat") >> cpu >> user >> nice >> system >> idle >> disk >> interrupts >> soft >> stolen;
  const auto tick = std::chrono::nanoseconds(1'000'000'000 / sysconf(_SC_CLK_TCK));
  timespec own{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own);
  return (user + nice + system + stolen) * tick - std::chrono::seconds(own.tv_sec) - std::chrono::nanoseconds(own.tv_nsec);
}

/// The thread that is worker 1 of a team. Nothing, having said so, where other programs want the processors all the time: workers
/// make room for them then, for as long as that lasts. Where nobody does a worker that stays away is a failure.
std::optional<pthread_t> thread_of_worker(Team& team) {
  std::atomic<bool> found = false;
  pthread_t thread{};
  const auto begin = std::chrono::steady_clock::now();
  const auto others = time_of_others();
  while (!found) {
    if (const auto spent = std::chrono::steady_clock::now() - begin; spent > std::chrono::seconds(10)) {
      // One of them is enough, on a processor that this thread never asks for.
      REQUIRE(time_of_others() - others > spent / 8);
      MESSAGE("skipped: other programs want the processors, and the worker leaves them");
      return std::nullopt;
    }
    team.deal(2, 1, [&](Range, int worker) {
      if (worker == 1) {
        thread = pthread_self();
        found = true;
      }
      for (int i = 0; worker == 0 && !found && i < 1000; ++i) std::this_thread::yield();
    });
  }
  return thread;
}

std::size_t threads_of_process() {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/task"), {}));
}

}  // namespace

TEST_CASE("deals hand out every item exactly once, cut at multiples of the grain, on more threads than cores") {
  for (const int threads : {1, 2, 3, 7}) {
    CAPTURE(threads);
    Team team(threads);
    crowd(team);
    for (const std::int64_t items : {0, 1, 5, 31, 32, 33, 1001}) {
      for (const std::int64_t grain : {1, 4, 32}) {
        std::vector<std::atomic<int>> seen(static_cast<std::size_t>(items));
        std::atomic<int> wrong = 0;
        for (int round = 0; round < 20; ++round) {
          team.deal(items, grain, [&](Range range, int worker) {
            const bool alone = team.size() == 1 && range.begin == 0 && range.end == items;
            const bool part = range.begin % grain == 0 && range.begin < range.end && (range.end % grain == 0 || range.end == items);
            wrong += !alone && !part;
            wrong += worker < 0 || worker >= team.size();
            for (std::int64_t i = range.begin; i < range.end; ++i) ++seen[static_cast<std::size_t>(i)];
          });
        }
        for (const auto& n : seen) wrong += n != 20;
        CHECK(wrong == 0);
      }
    }
  }
}

TEST_CASE("deals begin with long parts and end with a grain") {
  for (const int threads : {2, 3, 7}) {
    CAPTURE(threads);
    Team team(threads);
    for (const std::int64_t items : {64, 1001}) {
      std::mutex mutex;
      std::vector<Range> parts;
      team.deal(items, 4, [&](Range range, int) {
        const std::lock_guard lock(mutex);
        parts.push_back(range);
      });
      std::ranges::sort(parts, {}, &Range::begin);
      const auto length = [](const Range& range) { return range.end - range.begin; };
      CHECK(std::ranges::is_sorted(parts, std::greater<>(), length));
      CHECK(length(parts.back()) <= 4);
      const std::int64_t takers = 64 / team.grain_of(64, 1);
      for (const Range& part : parts) {
        const std::int64_t left = (items - part.begin + 3) / 4, grains = std::max<std::int64_t>(1, left / (2 * takers));
        CHECK(part.end == std::min(items, part.begin + 4 * grains));
      }
    }
  }
}

TEST_CASE("a profile counts what is dealt while it is set, by its work") {
  for (const int threads : {1, 4}) {
    CAPTURE(threads);
    Team team(threads);
    bantam::Profile profile;
    const auto spin = [](Range, int) {
      const bantam::detail::NanosecondWatch watch;
      while (watch.passed() < 100'000) {
      }
    };
    team.deal(4, 1, spin, bantam::Work::head);
    team.set_profile(&profile);
    team.deal(4, 1, spin, bantam::Work::head);
    team.deal(4, 1, spin, bantam::Work::head);
    team.deal(1, 1, spin);
    team.set_profile(nullptr);
    team.deal(4, 1, spin);
    CHECK(profile[bantam::Work::head].times == 2);
    CHECK(profile[bantam::Work::other].times == 1);
    CHECK(profile[bantam::Work::products].times == 0);
    // A team of one gets all items at once.
    CHECK(profile[bantam::Work::head].busy >= 2 * (threads == 1 ? 1 : 4) * 100'000);
    for (const bantam::Profile::Phase& phase : profile.phases) CHECK(1e-9 * static_cast<double>(phase.busy) <= phase.seconds * threads);
    CHECK(profile.seconds() == doctest::Approx(profile[bantam::Work::head].seconds + profile[bantam::Work::other].seconds));
  }
}

TEST_CASE("a deal sees all that the one before did, whatever the number of threads is and becomes") {
  Team team(8);
  constexpr std::int64_t n = 997;
  std::vector<std::int64_t> values(n, 1), sums(n);
  int mistakes = 0;
  for (int phase = 0; phase < 600; ++phase) {
    // From the first to the last number of threads and back, and for a while as many as suit the machine.
    team.set_active(phase % 20 < 15 ? 1 + phase % 8 : 0);
    team.deal(n, 10, [&](Range part, int) {
      for (std::int64_t i = part.begin; i < part.end; ++i) {
        sums[static_cast<std::size_t>(i)] = values[static_cast<std::size_t>((i * 31 + phase) % n)];  // of somebody else
      }
    });
    team.deal(n, 7, [&](Range part, int) {
      for (std::int64_t i = part.begin; i < part.end; ++i) values[static_cast<std::size_t>(i)] = sums[static_cast<std::size_t>(i)] + 1;
    });
    for (const std::int64_t value : values) mistakes += value != phase + 2;
  }
  CHECK(mistakes == 0);
}

TEST_CASE("a worker has one part at a time") {
  Team team(5);
  crowd(team);
  std::vector<std::atomic<int>> busy(5);
  std::atomic<int> doubled = 0;
  for (int i = 0; i < 200; ++i) {
    team.deal(64, 1, [&](Range, int worker) {
      doubled += busy[static_cast<std::size_t>(worker)]++ != 0;
      --busy[static_cast<std::size_t>(worker)];
    });
  }
  CHECK(doubled == 0);
}

TEST_CASE("a worker puts up with losses now and then, but not with a neighbor that computes") {
  using namespace std::chrono_literals;
  for (const int size : {2, 4, 16, 64}) {
    CAPTURE(size);
    bantam::detail::team::Losses now_and_then;
    bool too_much = false;
    // A slice of 3 ms, as often as half of what the team would gain without the thread.
    for (int i = 0; i < 1000; ++i) too_much = now_and_then.add(2 * size * 3ms, 3ms, size) || too_much;
    CHECK_FALSE(too_much);
    // Half of the processor, in slices.
    bantam::detail::team::Losses neighbor;
    int slices = 1;
    while (!neighbor.add(6ms, 3ms, size)) REQUIRE(++slices < 5);
    CHECK(slices > 1);
  }
}

TEST_CASE("work ends without a worker that is stopped before it begins a part") {
  Team team(2);
  crowd(team);
  const std::optional<pthread_t> worker = thread_of_worker(team);
  if (!worker) return;
  std::int64_t done = 0;
  {
    const Stop stop(*worker);
    for (int i = 0; i < 1000; ++i) team.deal(16, 1, [&](Range part, int who) { done += who == 0 ? part.end - part.begin : 1 << 20; });
  }
  CHECK(done == 16000);
  if (const auto back = thread_of_worker(team)) CHECK(pthread_equal(*back, *worker) != 0);
}

TEST_CASE("a thousand deals in a row, and deals to a team that slept, lose nothing") {
  Team team(3);
  crowd(team);
  std::atomic<std::int64_t> done = 0;
  const auto count = [&](Range range, int) { done += range.end - range.begin; };
  for (int i = 0; i < 1000; ++i) team.deal(3, 1, count);
  for (int i = 0; i < 3; ++i) {
    // Longer than the spinning: the other threads sleep by now.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    team.deal(30, 1, count);
  }
  CHECK(done == 3090);
  if (const auto worker = thread_of_worker(team)) CHECK(pthread_equal(*worker, pthread_self()) == 0);
}

TEST_CASE("no more threads take part than there are processors, unless told to") {
  Team team(64);
  CHECK(team.size() == 64);
  std::vector<std::atomic<int>> parts(64);
  const auto took_part = [&] {
    for (auto& n : parts) n = 0;
    for (int i = 0; i < 200; ++i) {
      team.deal(640, 1, [&](Range, int worker) {
        ++parts[static_cast<std::size_t>(worker)];
        for (int k = 0; k < 100; ++k) __asm__ volatile("");
      });
    }
    return std::count_if(parts.begin(), parts.end(), [](const auto& n) { return n > 0; });
  };
  CHECK(took_part() <= bantam::usable_processors());
  CHECK(team.grain_of(640, 1) >= 640 / bantam::usable_processors());
  team.set_active(1);
  // Who was on its way may still come, not for long.
  int rounds = 0;
  while (took_part() > 1 && rounds < 1000) ++rounds;
  CHECK(rounds < 1000);
}

TEST_CASE("teams start and end without work, and leave no thread behind") {
  const std::size_t before = threads_of_process();
  for (int i = 0; i < 50; ++i) {
    Team team(4);
    if (i % 2 == 0) crowd(team);
    if (i % 3 == 0) team.deal(100, 1, [](Range, int) {});
  }
  CHECK(threads_of_process() == before);
}

#if !defined(__SANITIZE_THREAD__)  // refuses threads after a fork of several
TEST_CASE("in a child of the process the caller does all the work, and says that it is one") {
  Team team(3);
  crowd(team);
  (void)thread_of_worker(team);
  CHECK_FALSE(team.is_forked());
  const pid_t child = fork();
  if (child == 0) {
    int done = 0;
    for (int i = 0; i < 100; ++i) {
      team.deal(16, 1, [&](Range part, int worker) { done += worker == 0 ? static_cast<int>(part.end - part.begin) : 1 << 20; });
    }
    if (!team.is_forked()) done = -1;
    std::destroy_at(&team);  // must not wait for threads that are not there; nobody ends it again
    _exit(done == 1600 ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}
#endif

TEST_CASE("a team of one does all at once") {
  Team alone(1);
  CHECK(alone.size() == 1);
  int calls = 0;
  alone.deal(10, 4, [&](Range range, int worker) {
    ++calls;
    CHECK(worker == 0);
    CHECK(range.begin == 0);
    CHECK(range.end == 10);
  });
  CHECK(calls == 1);
}

TEST_CASE("no number of threads stands for all cores, impossible ones are refused") {
  CHECK(Team().size() == bantam::usable_cores());
  CHECK(bantam::test::error_of([] { Team team(-1); }) == "threads: expected 0 (all cores) to 1024, found -1");
  CHECK(bantam::test::error_of([] { Team team(1025); }) == "threads: expected 0 (all cores) to 1024, found 1025");
}
