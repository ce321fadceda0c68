// The caches of keys and values of a pass's sequences.
#pragma once

#include <span>
#include <vector>

#include "bantam/nn/attention.hpp"
#include "bantam/nn/blocks/pass.hpp"
#include "bantam/nn/kv_state.hpp"

namespace bantam::inline v0::nn {

/// Found once before a pass: layers ask for them by the number of a sequence.
class PassCaches {
 public:
  /// What attention is planned for. Until the next call. Throws out_of_memory.
  std::span<const AttentionSequence> find(std::span<const PassSequence> sequences) {
    caches_.clear();
    parts_.clear();
    for (const PassSequence& s : sequences) {
      caches_.push_back(&kv_cache_of(*s.state));
      parts_.push_back({caches_.back(), s.row, s.tokens, s.position});
    }
    return parts_;
  }
  [[nodiscard]] KvCache& operator[](std::int64_t sequence) const noexcept { return *caches_[static_cast<std::size_t>(sequence)]; }

 private:
  std::vector<KvCache*> caches_;
  std::vector<AttentionSequence> parts_;
};

}  // namespace bantam::inline v0::nn
