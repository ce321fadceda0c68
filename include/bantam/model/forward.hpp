// The forward pass: one loop that reads an ArchSpec's choices, on the persistent team.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "bantam/core/team.hpp"
#include "bantam/model/weights.hpp"
#include "bantam/nn/attention.hpp"
#include "bantam/nn/linear.hpp"

namespace bantam::inline v0 {

/// Buffers and threads to run a model with. The weights and the config outlive it. For one thread at a time.
class Forward {
 public:
  /// Tokens that go through the layers together: enough to amortize a pass over the weights many times, while the
  /// activations of a wide FFN stay in the last-level cache.
  static constexpr std::int64_t largest_chunk = 512;

  Forward(const ModelConfig& config, const ModelWeights& weights, std::int64_t context_tokens, int threads);

  /// Called with (index of the token in `tokens`, its logits (vocab)), in order. The logits live for the call.
  using LogitsSink = FunctionRef<void(std::int64_t index, std::span<const float> logits)>;
  /// Asked on the calling thread before each layer of more than one token, with the tokens read so far; false stops.
  /// Must not throw.
  using KeepGoing = FunctionRef<bool(std::int64_t tokens_read)>;

  /// Appends the keys and values of `tokens` (any number) to the cache and hands out the logits of tokens
  /// `first_output` and later. The caller has checked ids and room. Results do not depend on how tokens were divided
  /// into calls, nor on the number of threads. Throws cancelled when keep_going says so, out_of_memory, and what the
  /// sink throws; the cache is then as it was.
  void run(std::span<const TokenId> tokens, nn::KvCache& cache, std::int64_t first_output, LogitsSink sink,
           KeepGoing keep_going);

  [[nodiscard]] int threads() const noexcept { return team_.size(); }

 private:
  void resize(std::int64_t tokens);
  void chunk(std::span<const TokenId> tokens, nn::KvCache& cache, std::int64_t position, KeepGoing keep_going) noexcept;
  void layer(const Worker& worker, const LayerWeights& w, std::int64_t index, nn::KvCache& cache, std::int64_t position) noexcept;
  void attention_inputs(const Worker& worker, const LayerWeights& w, std::int64_t index, nn::KvCache& cache, std::int64_t position) noexcept;
  void normalize(const Worker& worker, const std::vector<float>& weight, const float* addend) noexcept;

  const ModelConfig& config_;
  const ModelWeights& weights_;
  const KernelTable& kernels_;
  Team team_;
  nn::Rope rope_;

  std::int64_t tokens_ = 0;         ///< of the chunk under way
  bool stopped_ = false;            ///< by keep_going
  AlignedBuffer<float> residual_;   ///< (tokens, dim)
  AlignedBuffer<float> branch_;     ///< (tokens, dim): what a sub-layer adds to the residual
  AlignedBuffer<float> q_, k_, v_;  ///< (tokens, heads * head_dim), (tokens, kv_heads * head_dim) twice
  AlignedBuffer<float> up_;         ///< (tokens, ffn)
  AlignedBuffer<float> angles_;     ///< (tokens, 2, rope dim / 2): cosines, sines
  AlignedBuffer<float> logits_;     ///< (outputs at a time, vocab)
  nn::Activations normed_, attended_, hidden_;
  std::vector<nn::AttentionScratch> scratch_;  ///< one a worker
  std::vector<AlignedBuffer<float>> heads_;    ///< one a worker: a padded head
  std::vector<RowCodes> codes_;                ///< one a worker
};

}  // namespace bantam::inline v0
