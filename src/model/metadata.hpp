// What files say of their models, as text.
#pragma once

#include "bantam/model/checkpoint.hpp"

namespace bantam::inline v0 {

[[nodiscard]] Metadata metadata_of(const GgufFile& file);
/// Of the text of a config.json, which has been read before.
[[nodiscard]] Metadata metadata_of(std::string_view config_json);

}  // namespace bantam::inline v0
