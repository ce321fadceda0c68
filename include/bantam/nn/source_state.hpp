// What a decoder remembers of the text that an encoder has read before it: keys and values of all of its tokens, for each layer.
#pragma once

#include <memory>
#include <utility>

#include "bantam/nn/kv_state.hpp"

namespace bantam::inline v0::nn {

/// Stays as it is while the decoder's tokens come and go: they are counted, as every state does.
class SourceState final : public BlockState {
 public:
  /// Of a sequence whose source was not read.
  explicit SourceState(KvCache cache) : source_(std::move(cache)) {}

  /// Keys and values of the source, whole; without tokens until it is read.
  [[nodiscard]] KvCache& cache() noexcept { return source_.cache(); }
  [[nodiscard]] std::int64_t source_tokens() const noexcept { return source_.tokens(); }
  void forget() noexcept { source_.truncate(0); }
  void set(KvCache cache) noexcept { source_ = KvState(std::move(cache)); }

  [[nodiscard]] std::int64_t tokens() const noexcept override { return tokens_; }
  void extend(std::int64_t count) override { tokens_ += count; }
  void truncate(std::int64_t tokens) noexcept override { tokens_ = std::min(tokens_, tokens); }
  [[nodiscard]] std::unique_ptr<BlockState> fork() const override { return std::make_unique<SourceState>(*this); }
  void save(StateSink sink) const override;
  void restore(std::int64_t tokens, StateSource in) override;
  [[nodiscard]] std::int64_t bytes() const noexcept override { return source_.bytes(); }
  [[nodiscard]] std::int64_t bytes_per_token() const noexcept override { return 0; }

 private:
  KvState source_;
  std::int64_t tokens_ = 0;
};

inline void SourceState::save(StateSink sink) const {
  const std::int64_t count = source_tokens();
  sink(std::as_bytes(std::span(&count, 1)));
  source_.save(sink);
}

inline void SourceState::restore(std::int64_t tokens, StateSource in) {
  std::int64_t count = 0;
  std::memcpy(&count, in(sizeof count, "tokens of the source").data(), sizeof count);
  // Far above any text; keeps the bytes of its pages from overflowing.
  constexpr std::int64_t most = std::int64_t{1} << 31;
  if (count < 0 || count > most) fail(Errc::corrupt, "session: tokens of the source: expected 0 to ", most, ", found ", count);
  source_.restore(count, in);
  tokens_ = tokens;
}

}  // namespace bantam::inline v0::nn
