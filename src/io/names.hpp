// Checks that every container makes of the names it finds.
#pragma once

#include <string_view>

#include "bantam/core/error.hpp"

namespace bantam::inline v0::detail {

/// Whether `text` is well-formed UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF. Linear.
[[nodiscard]] bool is_utf8(std::string_view text) noexcept;

/// What makes a name of a key or tensor one that could not be shown, stored or compared safely, or nothing: empty, no
/// UTF-8, or a zero byte, where C programs would cut it.
[[nodiscard]] std::string_view name_fault(std::string_view name) noexcept;

/// As name_fault, and also a path that climbs ("a/../b"): tools that unpack checkpoints use tensor names as paths.
[[nodiscard]] std::string_view tensor_name_fault(std::string_view name) noexcept;

/// Throws corrupt unless `fault` is empty. `place` opens the message: "model.gguf: offset 24: tensor name".
inline void check_fault(std::string_view fault, std::string_view name, std::string_view place) {
  if (!fault.empty()) fail(Errc::corrupt, place, " '", printable(name), "': expected a name, found ", fault);
}
inline void check_name(std::string_view name, std::string_view place) { check_fault(name_fault(name), name, place); }
inline void check_tensor_name(std::string_view name, std::string_view place) { check_fault(tensor_name_fault(name), name, place); }

}  // namespace bantam::inline v0::detail
