// The library as a whole: version, features, errors, log, memory, machine.
#include <algorithm>
#include <mutex>

#include "bantam/compress/compress.hpp"
#include "bantam/core/cpu.hpp"
#include "bantam/core/memory.hpp"
#include "bantam/kernels/table.hpp"
#include "bantam/model/archs.hpp"
#include "bantam/quant/format_info.hpp"
#include "guard.hpp"

namespace bantam::capi {

namespace {

thread_local char last_error[2048] = "";

struct Log {
  std::mutex mutex;
  bantam_log_callback callback = nullptr;
  void* user = nullptr;
};

Log& log_sink() {
  static Log sink;
  return sink;
}

}  // namespace

void set_last_error(std::string_view message) noexcept {
  std::size_t size = std::min(message.size(), sizeof last_error - 1);
  // Not in the middle of a character.
  while (size < message.size() && size > 0 && (message[size] & 0xc0) == 0x80) --size;
  std::memcpy(last_error, message.data(), size);
  last_error[size] = '\0';
}

void log_warning(const std::string& line) {
  bantam_log_callback callback = nullptr;
  void* user = nullptr;
  {
    const std::scoped_lock lock(log_sink().mutex);
    callback = log_sink().callback;
    user = log_sink().user;
  }
  if (callback != nullptr) callback(BANTAM_LOG_WARNING, line.c_str(), user);
}

namespace {

bool has(std::string_view feature) {
  const auto colon = feature.find(':');
  if (colon == std::string_view::npos) return false;
  const std::string_view kind = feature.substr(0, colon);
  const std::string_view name = feature.substr(colon + 1);
  const auto any = [&](const auto& list, auto name_in) {
    return std::ranges::any_of(list, [&](const auto& entry) { return name_in(entry) == name; });
  };
  if (kind == "format") return any(formats(), [](const FormatInfo& format) { return format.name; });
  if (kind == "isa") return any(kernel_tables(), [](const KernelTable* table) { return std::string_view(table->name); });
  if (kind == "architecture") return any(architectures, [](const ArchSpec* arch) { return std::string_view(arch->name); });
  if (kind == "method") return any(methods, [](Method method) { return name_of(method); });
  if (kind == "target") return any(targets, [](Target target) { return name_of(target); });
  return false;
}

}  // namespace
}  // namespace bantam::capi

using namespace bantam;
using namespace bantam::capi;

extern "C" {

int32_t bantam_version_number(void) { return BANTAM_VERSION_NUMBER; }

const char* bantam_version(void) { return BANTAM_VERSION; }

int bantam_has(const char* feature) {
  bool found = false;
  if (feature != nullptr) (void)guarded([&] { found = has(feature); });
  return found ? 1 : 0;
}

const char* bantam_status_name(bantam_status status) {
  constexpr const char* names[] = {"ok",          "invalid argument", "not found", "input or output", "corrupt",
                                   "unsupported", "out of memory",    "cancelled", "internal",  "grammar"};
  return status <= BANTAM_OK && status >= BANTAM_GRAMMAR ? names[-status] : "unknown";
}

const char* bantam_last_error(void) { return last_error; }

void bantam_set_log_callback(bantam_log_callback callback, void* user) {
  const std::scoped_lock lock(log_sink().mutex);
  log_sink().callback = callback;
  log_sink().user = user;
}

bantam_status bantam_set_allocator(const bantam_allocator* allocator) {
  return guarded([&] {
    const bantam_allocator initial = BANTAM_ALLOCATOR_INIT;
    const bantam_allocator a = options_of(allocator, initial, "allocator");
    if ((a.allocate == nullptr) != (a.release == nullptr)) {
      fail(Errc::invalid_argument, "allocator: expected both allocate and release, found one of them");
    }
    set_storage_allocator({.allocate = a.allocate, .release = a.release, .user = a.user});
  });
}

int32_t bantam_core_count(void) {
  int cores = 1;
  (void)guarded([&] { cores = usable_cores(); });
  return cores;
}

const char* bantam_isa(void) {
  const char* name = "";
  (void)guarded([&] { name = kernels_in_use().name; });
  return name;
}

bantam_status bantam_set_isa(const char* name) {
  return guarded([&] { use_kernels(&need(name, "name")); });
}

size_t bantam_format_count(void) { return formats().size(); }

const char* bantam_format_name(size_t index) { return index < formats().size() ? formats()[index].name.data() : nullptr; }

}  // extern "C"
