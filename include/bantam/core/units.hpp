// Units of bytes.
#pragma once

#include <optional>
#include <string_view>
#include <utility>

namespace bantam::inline v0 {

/// Bytes of "", "B", "kB", "MiB" and their like, in letters of either case; nothing for what is none.
[[nodiscard]] constexpr std::optional<double> byte_unit(std::string_view name) noexcept {
  constexpr std::pair<std::string_view, double> units[] = {{"", 1},      {"b", 1},        {"kb", 1e3}, {"kib", 0x1p10},
                                                           {"mb", 1e6},  {"mib", 0x1p20}, {"gb", 1e9}, {"gib", 0x1p30},
                                                           {"tb", 1e12}, {"tib", 0x1p40}};
  for (const auto& [unit, bytes] : units) {
    bool same = unit.size() == name.size();
    for (std::size_t i = 0; same && i < unit.size(); ++i) same = unit[i] == (name[i] >= 'A' && name[i] <= 'Z' ? name[i] - 'A' + 'a' : name[i]);
    if (same) return bytes;
  }
  return {};
}

}  // namespace bantam::inline v0
