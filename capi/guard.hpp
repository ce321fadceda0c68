// The border between C and C++: exceptions become a status and a message, pointers and option structs are checked.
#pragma once

#include <cstring>
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

/// What the caller set of a struct of options, over the values of its _INIT. The struct may be older than this library, and
/// shorter, or newer, and longer: fields that one side does not know keep their first value.
template <class T>
T options_of(const T* given, const T& initial, std::string_view name) {
  T options = initial;
  if (given == nullptr) return options;
  constexpr std::size_t most = 4096;
  if (given->struct_size <= sizeof(std::size_t) || given->struct_size > most) {
    fail(Errc::invalid_argument, name, ": expected struct_size as the struct's _INIT sets it, found ", given->struct_size);
  }
  std::memcpy(static_cast<void*>(&options), given, std::min(given->struct_size, sizeof(T)));
  return options;
}

/// Fills what the caller's struct has room for, and leaves its size.
template <class T>
void fill_struct(T* out, T values, std::string_view name) {
  const std::size_t size = need(out, name).struct_size;
  if (size <= sizeof(std::size_t)) fail(Errc::invalid_argument, name, ": expected struct_size as the struct's _INIT sets it, found ", size);
  values.struct_size = size;
  std::memcpy(static_cast<void*>(out), &values, std::min(size, sizeof(T)));
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

}  // namespace bantam::capi
