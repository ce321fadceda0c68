// What a pass of tokens takes beside weights and states.
#pragma once

#include "bantam/model/config.hpp"

namespace bantam::inline v0 {

/// Bytes of the buffers of Forward: for each token that goes through the layers together with others, and for all of them.
struct PassBytes {
  std::int64_t row = 0, fixed = 0;

  [[nodiscard]] std::int64_t of(std::int64_t tokens) const noexcept { return tokens * row + fixed; }
};

/// What passes have to be ready for.
struct PassRoom {
  std::int64_t context = 0;  ///< tokens of a text, at most
  int workers = 1;
  std::int64_t ranks = 0;   ///< of adapters, together
  int forms = 1;            ///< 8-bit forms of what matrices read: one for each FormatInfo::activation_block
  bool has_orders = false;  ///< some matrices have orders of columns of their own
};

/// No less than passes of such a model take, as tests/model/pass_bytes_test.cpp finds for every architecture.
[[nodiscard]] PassBytes pass_bytes(const ModelConfig& config, const PassRoom& room);

}  // namespace bantam::inline v0
