// The border between C and C++: exceptions become a status and a message, pointers and option structs are checked.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstring>
#include <functional>
#include <new>
#include <string_view>

#include "bantam.h"
#include "bantam/core/error.hpp"

namespace bantam::capi {

/// Keeps the message for bantam_last_error() of this thread; takes no memory.
void set_last_error(std::string_view message) noexcept;
/// Hands a line to the log callback, if there is one.
void log_warning(const std::string& line);

/// Runs a function of the interface: its status, with the message kept when it threw.
template <class F>
bantam_status guarded(F&& work) noexcept {
  try {
    work();
    return BANTAM_OK;
  } catch (const Error& error) {
    set_last_error(error.what());
    return -static_cast<bantam_status>(error.code());
  } catch (const std::bad_alloc&) {
    set_last_error("memory: there is no room for more");
    return BANTAM_OUT_OF_MEMORY;
  } catch (const std::exception& error) {
    set_last_error(error.what());
    return BANTAM_INTERNAL;
  } catch (...) {
    set_last_error("an exception of unknown type: please report it");
    return BANTAM_INTERNAL;
  }
}

/// The object behind a pointer from outside.
template <class T>
T& need(T* pointer, std::string_view name) {
  if (pointer == nullptr) fail(Errc::invalid_argument, name, ": expected a pointer, found NULL");
  return *pointer;
}

/// Text from outside: NULL is allowed for no bytes.
inline std::string_view text_of(const char* text, std::size_t bytes, std::string_view name) {
  if (bytes == 0) return {};
  return {&need(text, name), bytes};
}

/// How many bytes of a caller's struct both sides know. It may be older than this library, and shorter, or newer, and longer.
template <class T>
std::size_t known_bytes(const T& given, std::string_view name) {
  // Fields are of at most 8 bytes and lie at multiples of their size, so that one which begins before a multiple of 8 ends there
  // or before: no size that a compiler gives such a struct ends inside a field.
  static_assert(alignof(T) == 8);
  constexpr std::size_t most = 4096;
  const std::size_t size = given.struct_size;
  if (size <= sizeof(std::size_t) || size > most || size % alignof(T) != 0) {
    fail(Errc::invalid_argument, name, ": expected struct_size as the struct's _INIT sets it (", sizeof(T), " here), found ", size);
  }
  return std::min(size, sizeof(T));
}

/// What the caller set of a struct of options, over the values of its _INIT: fields that one side does not know keep their first
/// value.
template <class T>
T options_of(const T* given, const T& initial, std::string_view name) {
  T options = initial;
  if (given != nullptr) std::memcpy(static_cast<void*>(&options), given, known_bytes(*given, name));
  return options;
}

/// Fills what the caller's struct has room for, and leaves its size.
template <class T>
void fill_struct(T* out, T values, std::string_view name) {
  const std::size_t known = known_bytes(need(out, name), name);
  values.struct_size = out->struct_size;
  std::memcpy(static_cast<void*>(out), &values, known);
}

/// Fills an array as far as it goes and says how much there is.
template <class T, class Range>
void fill_array(const Range& from, T* out, std::size_t capacity, std::size_t* count) {
  std::size_t& size = need(count, "count");
  if (capacity != 0) (void)need(out, "array");
  std::copy_n(from.begin(), std::min(capacity, from.size()), out);
  size = from.size();
}
/// The same for text, with a zero behind it where that fits.
inline void fill_text(std::string_view from, char* out, std::size_t capacity, std::size_t* bytes) {
  fill_array(from, out, capacity, bytes);
  if (capacity > from.size()) out[from.size()] = '\0';
}

/// A callback that tells how far work is, as the library's; empty for NULL.
inline std::function<bool(std::int64_t, std::int64_t)> progress_of(bantam_read_progress callback, void* user) {
  if (callback == nullptr) return {};
  return [callback, user](std::int64_t done, std::int64_t total) { return callback(done, total, user) == 0; };
}

/// Hands every setting to `set(name, value)`, which returns false for a name that it does not know.
template <class Set>
void read_settings(const bantam_setting* settings, std::size_t count, std::string_view known, Set&& set) {
  for (std::size_t i = 0; i < count; ++i) {
    const bantam_setting& s = (&need(settings, "settings"))[i];
    const std::string_view name = &need(s.name, "setting's name");
    if (set(name, std::string_view(&need(s.value, name)))) continue;
    fail(Errc::invalid_argument, "settings: expected ", known.empty() ? "none here" : known, ", found ", printable(name));
  }
}

/// The number that a setting's value spells, in whole.
template <class T>
T number_of(std::string_view name, std::string_view value) {
  T number{};
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size()) fail(Errc::invalid_argument, name, ": expected a number, found ", printable(value));
  return number;
}

}  // namespace bantam::capi
