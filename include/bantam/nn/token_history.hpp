// The tokens of a sequence, for blocks that read some of those before the one at hand.
#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include "bantam/nn/sequence_state.hpp"

namespace bantam::inline v0::nn {

/// A pass sets those that extend() made room for.
class TokenHistory final : public BlockState {
 public:
  void set(std::int64_t position, std::int32_t token) noexcept { tokens_[static_cast<std::size_t>(position)] = token; }
  /// -1 before the first.
  [[nodiscard]] std::int32_t at(std::int64_t position) const noexcept { return position < 0 ? -1 : tokens_[static_cast<std::size_t>(position)]; }

  [[nodiscard]] std::int64_t tokens() const noexcept override { return std::ssize(tokens_); }
  void extend(std::int64_t count) override { tokens_.resize(tokens_.size() + static_cast<std::size_t>(count), -1); }
  void truncate(std::int64_t tokens) noexcept override {
    if (tokens < std::ssize(tokens_)) tokens_.resize(static_cast<std::size_t>(tokens));
  }
  [[nodiscard]] std::unique_ptr<BlockState> fork() const override { return std::make_unique<TokenHistory>(*this); }
  void save(StateSink sink) const override { sink(std::as_bytes(std::span(tokens_))); }
  void restore(std::int64_t tokens, StateSource in) override {
    const std::span<const std::byte> saved = in(static_cast<std::uint64_t>(tokens) * sizeof(std::int32_t), "tokens before the next");
    std::vector<std::int32_t> restored(static_cast<std::size_t>(tokens));
    std::memcpy(restored.data(), saved.data(), saved.size());
    tokens_ = std::move(restored);
  }
  [[nodiscard]] std::int64_t bytes() const noexcept override { return tokens() * bytes_per_token(); }
  [[nodiscard]] std::int64_t bytes_per_token() const noexcept override { return sizeof(std::int32_t); }

 private:
  std::vector<std::int32_t> tokens_;
};

}  // namespace bantam::inline v0::nn
