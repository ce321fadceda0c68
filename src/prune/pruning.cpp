// Methods of pruning by name, and formats that keep what they remove.
#include "bantam/prune/pruning.hpp"

#include <vector>

#include "bantam/core/names.hpp"
#include "bantam/tensor/random.hpp"

namespace bantam::inline v0 {

namespace {

constexpr std::string_view method_names[] = {"magnitude", "wanda", "sparsegpt"};

}  // namespace

std::string_view name_of(PruneMethod method) noexcept { return method_names[static_cast<std::size_t>(method)]; }
PruneMethod find_prune_method(std::string_view name) { return prune_methods[find_name("pruning", name, method_names)]; }

bool holds_zero(const FormatInfo& format) {
  if (format.is_float) return true;
  if (format.has_minimums) return false;
  // Grids that are symmetric or have whole zero points hit 0 whatever the weights; others miss that of one of these.
  constexpr std::int64_t tries = 8;
  const std::int64_t columns = format.grid_columns == 0 ? 64 : format.grid_columns;
  const auto samples = random::normal<float>({tries, columns}, 1, {.mean = 0.3});
  std::vector<GroupSide> sides(static_cast<std::size_t>(format.group == 0 ? 1 : columns / format.group));
  for (std::int64_t t = 0; t < tries; ++t) {
    format.fit_grid({&samples(t, 0), static_cast<std::size_t>(columns)}, {}, GridSearch::range, sides);
    for (const GroupSide& side : sides) {
      if (format.decode_code(format.round_to_grid(0.0f, side), side) != 0) return false;
    }
  }
  return true;
}

}  // namespace bantam::inline v0
