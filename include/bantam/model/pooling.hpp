// What stands for a text among the states of its tokens.
#pragma once

#include <cstdint>
#include <string_view>

namespace bantam::inline v0 {

/// Which of the hidden states that a head would read stand for a text.
enum class Pooling : std::uint8_t {
  mean,  ///< all of them
  cls,   ///< the first token's, where a model was trained so
  last,  ///< the last token's: what a causal model knows of all others
};
inline constexpr Pooling poolings[] = {Pooling::mean, Pooling::cls, Pooling::last};
[[nodiscard]] std::string_view name_of(Pooling pooling) noexcept;
/// By the names above. Throws invalid_argument listing them.
[[nodiscard]] Pooling find_pooling(std::string_view name);

}  // namespace bantam::inline v0
