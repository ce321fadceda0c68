// Lists of metadata as numbers of layers.
#include "listed_numbers.hpp"

#include <string>

#include "bantam/core/error.hpp"

namespace bantam::inline v0 {

float listed_number(const GgufFile& file, const TensorKey& key, std::int64_t layer, std::int64_t layers) {
  const std::string name(list_of(key)), place = file.path().string();
  const GgufValue* value = file.value(name);
  if (value == nullptr) fail(Errc::corrupt, place, ": ", name, ": expected one number or ", layers, ", found nothing");
  const auto* list = std::get_if<std::vector<double>>(value);
  if (list == nullptr) return static_cast<float>(file.number(name).value_or(0));
  if (std::ssize(*list) != layers) fail(Errc::corrupt, place, ": ", name, ": expected one number or ", layers, ", found ", list->size());
  return static_cast<float>((*list)[static_cast<std::size_t>(layer)]);
}

}  // namespace bantam::inline v0
