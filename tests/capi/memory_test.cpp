// Memory of the host, and memory that runs out: every allocation of a run fails once.
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <map>
#include <mutex>
#include <new>
#include <utility>

#include "limits.hpp"
#include "support.hpp"

namespace {

/// Allocations of this process since the last reset; from the first that fails on, so many fail.
std::atomic<std::int64_t> allocations = 0;
constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();
std::atomic<std::int64_t> first_failing = never;
std::atomic<std::int64_t> failures_at_once = 1;

/// Whether operator new takes part; else only the host's allocator does.
std::atomic<bool> small_ones_fail = false;

/// Set while the host keeps its own books, which never fail.
thread_local bool keeps_books = false;

bool fails_now() noexcept {
  const std::int64_t turn = allocations.fetch_add(1, std::memory_order_relaxed) - first_failing.load(std::memory_order_relaxed);
  return turn >= 0 && turn < failures_at_once.load(std::memory_order_relaxed);
}

void* allocate(std::size_t bytes, std::size_t alignment) noexcept {
  if (small_ones_fail && !keeps_books && fails_now()) return nullptr;
  return alignment <= alignof(std::max_align_t) ? std::malloc(bytes == 0 ? 1 : bytes)
                                                : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

void* allocate_or_throw(std::size_t bytes, std::size_t alignment = 1) {
  void* p = allocate(bytes, alignment);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}

}  // namespace

// Inlined, these look to gcc like operators that do not match.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
// The library finds these: what it asks of C++ comes from its host.
void* operator new(std::size_t bytes) { return allocate_or_throw(bytes); }
void* operator new[](std::size_t bytes) { return allocate_or_throw(bytes); }
void* operator new(std::size_t bytes, std::align_val_t alignment) { return allocate_or_throw(bytes, static_cast<std::size_t>(alignment)); }
void* operator new[](std::size_t bytes, std::align_val_t alignment) { return allocate_or_throw(bytes, static_cast<std::size_t>(alignment)); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes, 1); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes, 1); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }

namespace {

using namespace capi_test;

/// The host's memory: counts what is out, and takes part in failing.
struct Host {
  std::mutex mutex;
  std::map<void*, std::size_t> out;
  std::size_t taken = 0;
};

bantam_allocator allocator_of(Host& host) {
  bantam_allocator a = BANTAM_ALLOCATOR_INIT;
  a.user = &host;
  a.allocate = [](std::size_t bytes, std::size_t alignment, void* user) -> void* {
    if (fails_now()) return nullptr;
    auto& h = *static_cast<Host*>(user);
    void* p = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    const std::scoped_lock lock(h.mutex);
    keeps_books = true;
    h.taken += bytes;
    h.out[p] = bytes;
    keeps_books = false;
    return p;
  };
  a.release = [](void* p, std::size_t bytes, void* user) {
    auto& h = *static_cast<Host*>(user);
    const std::scoped_lock lock(h.mutex);
    if (h.out[p] != bytes) std::abort();
    h.out.erase(p);
    std::free(p);
  };
  return a;
}

struct Life {
  bantam_status status = BANTAM_OK;
  std::string writing;                  ///< the file of the call that failed; empty: it writes none
  std::vector<std::int64_t> written;    ///< allocations until a call that writes a file had ended
};

/// Rows of every position, a batch of prompts, removal from the middle, state through memory.
bantam_status use_context(const bantam_model* model, bantam_session* session, const bantam_session_options& options) {
  const auto ignore = [](std::int64_t, const float*, std::size_t, void*) { return 0; };
  const std::int32_t ids[] = {5, 6, 7};
  bantam_session *fork = nullptr, *restored = nullptr;
  std::size_t size = 0;
  static unsigned char bytes[1 << 20];
  bantam_status status = bantam_session_score(session, ids, 3, ignore, nullptr);
  if (status == BANTAM_OK) status = bantam_session_states(session, ids, 3, ignore, nullptr);
  if (status == BANTAM_OK) status = bantam_session_fork(&fork, session);
  if (status == BANTAM_OK) status = bantam_session_remove(fork, 1, 3);
  bantam_session* const both[] = {session, fork};
  const std::int32_t* const texts[] = {ids, ids};
  const std::size_t counts[] = {3, 2};
  if (status == BANTAM_OK) status = bantam_sessions_prefill(both, texts, counts, 2);
  if (status == BANTAM_OK) status = bantam_session_save_memory(session, bytes, sizeof bytes, &size);
  if (status == BANTAM_OK) status = bantam_session_restore_memory(&restored, model, bytes, size, &options);
  bantam_session_free(fork);
  bantam_session_free(restored);
  return status;
}

/// Several requests at once, with guesses: each ends, well or for want of memory.
bantam_status use_scheduler(const bantam_model* model) {
  bantam_scheduler_options options = BANTAM_SCHEDULER_OPTIONS_INIT;
  options.context_tokens = 32;
  options.threads = 2;
  options.parallel = 2;
  options.lookup = 2;
  options.draft = model;
  bantam_scheduler* scheduler = nullptr;
  bantam_status status = bantam_scheduler_new(&scheduler, model, &options);
  struct Ends {
    std::atomic<int> whole = 0, hungry = 0, other = 0;
  } ends;
  const auto hear = [](const bantam_text_update* update, void* user) {
    auto& e = *static_cast<Ends*>(user);
    if (update->end == BANTAM_TEXT_RUNNING) return 0;
    ++(update->end == BANTAM_TEXT_LENGTH || update->end == BANTAM_TEXT_STOP ? e.whole : update->status == BANTAM_OUT_OF_MEMORY ? e.hungry : e.other);
    return 0;
  };
  bantam_generate_options generate = BANTAM_GENERATE_OPTIONS_INIT;
  generate.max_tokens = 3;
  bantam_request_options request = BANTAM_REQUEST_OPTIONS_INIT;
  request.generate = &generate;
  request.texts = 2;
  request.top_logprobs = 1;
  int texts = 0;
  for (const char* prompt : {"Hello", "Hello there", "One"}) {
    if (status == BANTAM_OK) status = bantam_scheduler_submit(scheduler, nullptr, prompt, std::char_traits<char>::length(prompt), &request, hear, &ends);
    if (status == BANTAM_OK) texts += 2;
  }
  const bool all_ended = bantam_scheduler_wait(scheduler, 60000) == 1;
  bantam_scheduler_free(scheduler);
  if (!all_ended || ends.whole + ends.hungry != texts) return BANTAM_INTERNAL;
  return status == BANTAM_OK && ends.hungry > 0 ? BANTAM_OUT_OF_MEMORY : status;
}

/// A tiny model's life: loaded, heard, made smaller, saved, and once more from file to file. The first failure ends it.
Life live(const std::string& path, const std::string& output) {
  keeps_books = true;
  const std::string second = output + "2";
  keeps_books = false;
  bantam_model *model = nullptr, *small = nullptr;
  bantam_session* session = nullptr;
  bantam_session_options options = BANTAM_SESSION_OPTIONS_INIT;
  options.context_tokens = 32;
  options.threads = 2;
  bantam_compress_options to = BANTAM_COMPRESS_OPTIONS_INIT;
  const auto ignore = [](const char*, std::size_t, void*) { return 0; };
  bantam_report* report = nullptr;
  to.report = &report;
  Life life;
  bantam_status& status = life.status;
  const auto write = [&](const std::string& file, auto&& call) {
    if (status != BANTAM_OK) return;
    status = call(file.c_str());
    const std::int64_t until = allocations;
    keeps_books = true;
    if (status != BANTAM_OK) life.writing = file;
    life.written.push_back(until);
    keeps_books = false;
  };
  status = bantam_model_load(&model, path.c_str());
  if (status == BANTAM_OK) status = bantam_session_new(&session, model, &options);
  if (status == BANTAM_OK) status = bantam_session_generate(session, "Hello", 3, ignore, nullptr);
  if (status == BANTAM_OK) status = use_context(model, session, options);
  if (status == BANTAM_OK) status = use_scheduler(model);
  if (status == BANTAM_OK) status = bantam_model_compress(&small, model, &to);
  bantam_report_free(std::exchange(report, nullptr));
  write(output, [&](const char* file) { return bantam_model_save(small, file); });
  write(second, [&](const char* file) { return bantam_compress_file(path.c_str(), file, &to); });
  bantam_report_free(report);
  bantam_session_free(session);
  bantam_model_free(small);
  bantam_model_free(model);
  return life;
}

TEST_CASE("the host's allocator gives all large memory and gets it back") {
  Host host;
  const bantam_allocator a = allocator_of(host);
  REQUIRE_OK(bantam_set_allocator(&a));
  const Folder folder;
  CHECK_OK(live(model_path(), folder / "small.bantam").status);
  CHECK(host.taken > (1u << 20));
  REQUIRE_OK(bantam_set_allocator(nullptr));
  CHECK(host.out.empty());
  bantam_allocator half = BANTAM_ALLOCATOR_INIT;
  half.release = a.release;
  CHECK(bantam_set_allocator(&half) == BANTAM_INVALID_ARGUMENT);
}

/// Lets allocations of a life fail, from another one on in each of many lives.
void try_failures(Host& host, const std::string& path, const std::string& output) {
  REQUIRE_OK(live(path, output).status);  // pools that live as long as the process are filled
  allocations = 0;
  const Life whole = live(path, output);
  REQUIRE_OK(whole.status);
  const std::int64_t total = allocations;
  CAPTURE(total);
  const bool quick = bantam::test::quick();
  const std::int64_t step = std::max<std::int64_t>(1, total / (quick ? 16 : 300)), near = quick ? 10 : 30;
  std::vector<std::int64_t> places;
  for (std::int64_t n = 0; n < total; n += step) places.push_back(n);
  // Every one around the moment in which a file gets its name.
  for (const std::int64_t end : whole.written) {
    for (std::int64_t n = std::max<std::int64_t>(0, end - near); n < end; ++n) places.push_back(n);
  }
  int failures = 0;
  const std::filesystem::path folder = std::filesystem::path(output).parent_path();
  for (const std::int64_t n : places) {
    CAPTURE(n);
    for (const auto& entry : std::filesystem::directory_iterator(folder)) std::filesystem::remove(entry);
    allocations = 0;
    first_failing = n;
    const Life life = live(path, output);
    first_failing = never;
    // What is optional may do without; else it is this error and no other.
    if (life.status != BANTAM_OK) {
      ++failures;
      REQUIRE_MESSAGE(life.status == BANTAM_OUT_OF_MEMORY, bantam_last_error());
      // None of the call that failed, not even in part; whole ones of those before it.
      for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        CHECK(entry.path() == output);
        CHECK(entry.path() != life.writing);
        bantam_model* made = nullptr;
        CHECK_OK(bantam_model_load(&made, entry.path().c_str()));
        bantam_model_free(made);
      }
    }
    REQUIRE(host.out.empty());
  }
  CHECK(failures > 10);
  CHECK_OK(live(path, output).status);
}

void try_all_failures(const std::string& path) {
  if (!std::filesystem::exists(path)) {
    MESSAGE("skipped: " << path << " is not there");
    return;
  }
  CAPTURE(path);
  for (const bool everything : {false, true}) {
    CAPTURE(everything);
    for (const std::int64_t count : {std::int64_t{1}, never}) {
      CAPTURE(count);
      Host host;
      const bantam_allocator a = allocator_of(host);
      REQUIRE_OK(bantam_set_allocator(&a));
      const Folder folder;
      small_ones_fail = everything;
      failures_at_once = count;
      try_failures(host, path, folder / "small.bantam");
      small_ones_fail = false;
      REQUIRE_OK(bantam_set_allocator(nullptr));
    }
  }
}

TEST_CASE("whichever allocation fails while a folder is looked into, the call says so") {
  const Folder folder;
  const auto write = [&](const std::string& name) { std::ofstream(folder / name) << "x"; };
  // Names that strings have no room for within themselves.
  for (const char* name : {"pickled", "several", "neither"}) std::filesystem::create_directory(folder / name);
  for (const char* name : {"pickled", "neither"}) std::filesystem::copy_file(model_path() + "/config.json", folder / name + "/config.json");
  write("pickled/pytorch_model-00001-of-00001.bin");
  write("neither/what-else-may-be-in-a-folder.txt");
  write("several/the-first-of-the-models.gguf");
  write("several/the-second-of-the-models.gguf");
  for (const std::string& path : {folder / "pickled", folder / "several", folder / "neither"}) {
    CAPTURE(path);
    for (const std::int64_t count : {std::int64_t{1}, never}) {
      bantam_model* model = nullptr;
      allocations = 0;
      small_ones_fail = true;
      failures_at_once = count;
      bantam_status status = bantam_model_load(&model, path.c_str());
      small_ones_fail = false;
      REQUIRE(status == BANTAM_NOT_FOUND);
      const std::int64_t total = allocations;
      int failures = 0;
      for (std::int64_t n = 0; n < total; ++n) {
        allocations = 0;
        first_failing = n;
        small_ones_fail = true;
        status = bantam_model_load(&model, path.c_str());
        small_ones_fail = false;
        first_failing = never;
        if (status != BANTAM_NOT_FOUND) REQUIRE(status == BANTAM_OUT_OF_MEMORY);
        failures += status == BANTAM_OUT_OF_MEMORY;
      }
      CHECK(failures > total / 2);
    }
  }
}

TEST_CASE("whichever allocation fails, the call says so, nothing is lost, and the next call works") {
  SUBCASE("from GGUF") { try_all_failures(BANTAM_SHARED_DATA "/models/stories260k/stories260k-f32.gguf"); }
  SUBCASE("from a Hugging Face folder") { try_all_failures(BANTAM_SHARED_DATA "/models/stories260k"); }
}

}  // namespace
