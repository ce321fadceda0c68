// Memory of the host, and memory that runs out: every allocation of a run fails once.
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <map>
#include <mutex>
#include <new>

#include "support.hpp"

namespace {

/// Allocations of this process since the last reset; the one whose turn has come fails.
std::atomic<std::int64_t> allocations = 0;
std::atomic<std::int64_t> failing = -1;

/// Whether operator new takes part; else only the host's allocator does.
std::atomic<bool> small_ones_fail = false;

/// Set while the host keeps its own books, which never fail.
thread_local bool keeps_books = false;

bool fails_now() noexcept { return allocations.fetch_add(1, std::memory_order_relaxed) == failing.load(std::memory_order_relaxed); }

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

/// A tiny model's life; with an output's name, made smaller and saved too. The first failure ends it.
bantam_status live(const std::string& path, const std::string& output) {
  bantam_model *model = nullptr, *small = nullptr;
  bantam_session* session = nullptr;
  bantam_session_options options = BANTAM_SESSION_OPTIONS_INIT;
  options.context_tokens = 32;
  options.threads = 2;
  bantam_compress_options to = BANTAM_COMPRESS_OPTIONS_INIT;
  const auto ignore = [](const char*, std::size_t, void*) { return 0; };
  bantam_status status = bantam_model_load(&model, path.c_str());
  if (status == BANTAM_OK) status = bantam_session_new(&session, model, &options);
  if (status == BANTAM_OK) status = bantam_session_generate(session, "Hello", 3, ignore, nullptr);
  if (status == BANTAM_OK && !output.empty()) status = bantam_model_compress(&small, model, &to);
  if (status == BANTAM_OK && !output.empty()) status = bantam_model_save(small, output.c_str());
  bantam_session_free(session);
  bantam_model_free(small);
  bantam_model_free(model);
  return status;
}

TEST_CASE("the host's allocator gives all large memory and gets it back") {
  Host host;
  const bantam_allocator a = allocator_of(host);
  REQUIRE_OK(bantam_set_allocator(&a));
  const Folder folder;
  CHECK_OK(live(model_path(), folder / "small.bantam"));
  CHECK(host.taken > (1u << 20));
  REQUIRE_OK(bantam_set_allocator(nullptr));
  CHECK(host.out.empty());
  bantam_allocator half = BANTAM_ALLOCATOR_INIT;
  half.release = a.release;
  CHECK(bantam_set_allocator(&half) == BANTAM_INVALID_ARGUMENT);
}

/// Lets allocations of a life fail, one in each of many lives.
void try_failures(Host& host, const std::string& path, const std::string& output) {
  REQUIRE_OK(live(path, output));  // pools that live as long as the process are filled
  allocations = 0;
  REQUIRE_OK(live(path, output));
  const std::int64_t total = allocations;
  CAPTURE(total);
  const std::int64_t step = std::max<std::int64_t>(1, total / (std::getenv("BANTAM_TEST_QUICK") != nullptr ? 100 : 1000));
  int failures = 0;
  for (std::int64_t n = 0; n < total; n += step) {
    CAPTURE(n);
    if (!output.empty()) std::filesystem::remove(output);
    allocations = 0;
    failing = n;
    const bantam_status status = live(path, output);
    failing = -1;
    // What is optional may do without; else it is this error and no other.
    if (status != BANTAM_OK) {
      ++failures;
      REQUIRE_MESSAGE(status == BANTAM_OUT_OF_MEMORY, bantam_last_error());
      if (!output.empty()) {
        CHECK_FALSE(std::filesystem::exists(output));
        CHECK(std::filesystem::is_empty(std::filesystem::path(output).parent_path()));
      }
    }
    REQUIRE(host.out.empty());
  }
  CHECK(failures > 10);
  CHECK_OK(live(path, output));
}

TEST_CASE("whichever allocation fails, the call says so, nothing is lost, and the next call works") {
  const std::string path = BANTAM_SHARED_DATA "/models/stories260k/stories260k-f32.gguf";
  if (!std::filesystem::exists(path)) {
    MESSAGE("skipped: " << path << " is not there");
    return;
  }
  Host host;
  const bantam_allocator a = allocator_of(host);
  REQUIRE_OK(bantam_set_allocator(&a));
  const Folder folder;
  SUBCASE("the host's memory: loading, generating, compressing, saving") { try_failures(host, path, folder / "small.bantam"); }
  // The library that writes JSON does not survive it: files that hold any are left out (docs/c-api.md).
  SUBCASE("everything that C++ allocates: loading and generating") {
    small_ones_fail = true;
    try_failures(host, path, "");
    small_ones_fail = false;
  }
  REQUIRE_OK(bantam_set_allocator(nullptr));
}

}  // namespace
