// Checks that every container makes of the names it finds.
#pragma once

#include <string_view>

#include "bantam/core/error.hpp"

namespace bantam::inline v0::detail {

/// Whether `text` is well-formed UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF. Linear.
[[nodiscard]] bool is_utf8(std::string_view text) noexcept;

/// Refuses names of keys and tensors that could not be shown, stored or compared safely: empty ones, bytes that are no
/// UTF-8, and NUL, where C programs would cut them. `place` opens the message: "model.gguf: offset 24: tensor name".
void check_name(std::string_view name, std::string_view place);

/// The standard hash is not keyed, so a file can be built whose names all share one bucket and whose look-ups then take
/// quadratic time. Random names put about one into a bucket; among 2^20 the fullest holds around ten.
template <class Map>
void check_collisions(const Map& map, const typename Map::key_type& key, std::string_view place) {
  constexpr std::size_t most = 64;
  if (map.bucket_size(map.bucket(key)) > most) {
    fail(Errc::corrupt, place, ": expected ordinary names, found more than ", most, " that are built to collide");
  }
}

}  // namespace bantam::inline v0::detail
