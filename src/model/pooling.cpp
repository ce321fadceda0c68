// Names of what stands for a text.
#include "bantam/model/pooling.hpp"

#include "bantam/core/names.hpp"

namespace bantam::inline v0 {

namespace {

constexpr std::string_view pooling_names[] = {"mean", "cls", "last"};

}  // namespace

std::string_view name_of(Pooling pooling) noexcept { return pooling_names[static_cast<std::size_t>(pooling)]; }
Pooling find_pooling(std::string_view name) { return poolings[find_name("pooling", name, pooling_names)]; }

}  // namespace bantam::inline v0
