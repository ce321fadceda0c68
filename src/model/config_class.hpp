// Which architecture a config.json is of, and what its class is for.
#pragma once

#include <string>

#include "bantam/model/config.hpp"
#include "io/json.hpp"

namespace bantam::inline v0::detail {

/// The language model's part of a config, whose path is added to `place`: all of it, but for models of several parts, whose class none
/// here has.
[[nodiscard]] const Json& text_part(const Json& json, std::string& place);
/// By `architectures`, else by `model_type`, and by what else tells architectures of one name apart; `is_part`: of a config that text_part() found
/// within another. Throws unsupported.
[[nodiscard]] const ArchSpec& find_hf_arch(const Json& json, const std::string& place, bool is_part);
/// What a model is for, as far as its config says: a classifier, or embeddings.
void read_class(const Json& json, const std::string& place, ModelConfig& c);

}  // namespace bantam::inline v0::detail
