// What reading a ModelConfig takes from a container: numbers by field name, and the checks that all containers share.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bantam/model/config.hpp"

namespace bantam::inline v0::detail {

// Larger than any model to come, small enough that products of two fit 64 bits.
inline constexpr std::int64_t largest_extent = std::int64_t{1} << 30;

/// Numbers by field name, wherever they come from.
struct Source {
  std::string place;
  std::function<std::optional<double>(std::string_view field)> number;
  std::function<std::vector<double>(std::string_view field)> list;  ///< empty where there is none
  std::function<std::string(std::string_view field)> key;
};

/// A whole number from 1 to largest_extent. Throws corrupt when it is another, or absent.
[[nodiscard]] std::int64_t require_extent(const Source& source, std::string_view field);
/// The same, where absence gives `otherwise`, unchecked.
[[nodiscard]] std::int64_t extent_or(const Source& source, std::string_view field, std::int64_t otherwise);

/// What both containers share: sizes, then what follows from them. Throws corrupt.
[[nodiscard]] ModelConfig read_sizes(const ArchSpec& arch, const Source& source);
/// What Rope asks of its options, with the file's name. Throws corrupt.
void check_rope(const nn::RopeOptions& rope, const std::string& place);

}  // namespace bantam::inline v0::detail
