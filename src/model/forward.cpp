// One pass of tokens through the layers, in phases with a barrier between them.
#include "bantam/model/forward.hpp"

namespace bantam::inline v0 {

namespace {

/// Logits computed at once: a panel of the head is read once for this many tokens.
constexpr std::int64_t outputs_at_once = 16;

/// Takes a cache back to where it was, unless everything went well.
class Rollback {
 public:
  explicit Rollback(nn::KvCache& cache) noexcept : cache_(&cache), tokens_(cache.tokens()) {}
  ~Rollback() {
    if (cache_ != nullptr) cache_->truncate(tokens_);
  }
  Rollback(const Rollback&) = delete;
  Rollback& operator=(const Rollback&) = delete;
  void release() noexcept { cache_ = nullptr; }

 private:
  nn::KvCache* cache_;
  std::int64_t tokens_;
};

}  // namespace

Forward::Forward(const ModelConfig& config, const ModelWeights& weights, std::int64_t context_tokens, int threads)
    : config_(config), weights_(weights), kernels_(kernels_in_use()), team_(threads), rope_(config.rope, context_tokens) {
  for (const LayerWeights& layer : weights.layers) {
    for (const WeightMatrix* w : {&layer.q, &layer.k, &layer.v, &layer.gate, &layer.up}) normed_.serve(*w);
    attended_.serve(layer.o);
    hidden_.serve(layer.down);
  }
  normed_.serve(weights.head);
  const std::int64_t padded = round_up<std::int64_t>(config.head_dim, 16);
  scratch_.resize(static_cast<std::size_t>(team_.size()));
  heads_.resize(static_cast<std::size_t>(team_.size()));
  codes_.resize(static_cast<std::size_t>(team_.size()));
  for (auto& scratch : scratch_) scratch.resize(padded, config.heads / config.kv_heads);
  for (auto& head : heads_) head.ensure(static_cast<std::size_t>(padded));
}

void Forward::resize(std::int64_t tokens) {
  const ModelConfig& c = config_;
  tokens_ = tokens;
  const auto room = [&](AlignedBuffer<float>& buffer, std::int64_t columns) { buffer.ensure(static_cast<std::size_t>(tokens * columns)); };
  room(residual_, c.dim);
  room(branch_, c.dim);
  room(q_, c.heads * c.head_dim);
  room(k_, c.kv_heads * c.head_dim);
  room(v_, c.kv_heads * c.head_dim);
  room(up_, c.ffn);
  room(angles_, c.rope.dim);
  normed_.resize(tokens, c.dim);
  attended_.resize(tokens, c.heads * c.head_dim);
  hidden_.resize(tokens, c.ffn);
}

void Forward::run(std::span<const TokenId> tokens, nn::KvCache& cache, std::int64_t first_output, LogitsSink sink,
                  KeepGoing keep_going) {
  const auto count = static_cast<std::int64_t>(tokens.size());
  const std::int64_t before = cache.tokens();
  Rollback rollback(cache);
  if (first_output < count) logits_.ensure(static_cast<std::size_t>(outputs_at_once * config_.vocab));
  for (std::int64_t first = 0; first < count; first += largest_chunk) {
    const std::int64_t n = std::min(largest_chunk, count - first);
    resize(n);
    cache.extend(n);
    stopped_ = false;
    chunk(tokens.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(n)), cache, before + first,
          [&](std::int64_t read) { return keep_going(first + read); });
    if (stopped_) fail(Errc::cancelled, "cancelled while reading ", count, " tokens");
    for (std::int64_t out = std::max(first, first_output); out < first + n; out += outputs_at_once) {
      const std::int64_t outputs = std::min(outputs_at_once, first + n - out);
      normed_.resize(outputs, config_.dim);  // its old content is spent
      team_.run([&](const Worker& worker) {
        const Range share = worker.share(outputs);
        for (std::int64_t t = share.begin; t < share.end; ++t) {
          kernels_.rms_norm(residual_.data() + (out - first + t) * config_.dim, weights_.final_norm.data(),
                            static_cast<float>(config_.norm_eps), normed_.row(t), config_.dim);
          normed_.quantize_row(kernels_, t);
        }
        worker.barrier();
        nn::linear(kernels_, worker, weights_.head, normed_, nullptr, logits_.data(), config_.vocab);
      });
      for (std::int64_t t = 0; t < outputs; ++t) {
        sink(out + t, {logits_.data() + t * config_.vocab, static_cast<std::size_t>(config_.vocab)});
      }
    }
  }
  rollback.release();
}

void Forward::chunk(std::span<const TokenId> tokens, nn::KvCache& cache, std::int64_t position,
                    KeepGoing keep_going) noexcept {
  team_.run([&](const Worker& worker) {
    const Range share = worker.share(tokens_);
    const auto dim = static_cast<std::size_t>(config_.dim);
    const std::int64_t half = config_.rope.dim / 2;
    for (std::int64_t t = share.begin; t < share.end; ++t) {
      weights_.embedding.read_row(tokens[static_cast<std::size_t>(t)], {residual_.data() + t * config_.dim, dim},
                                  codes_[static_cast<std::size_t>(worker.index())]);
      float* angles = angles_.data() + t * 2 * half;
      rope_.angles(position + t, angles, angles + half);
    }
    for (std::int64_t i = 0; i < config_.layers; ++i) {
      if (tokens_ > 1) {
        if (worker.index() == 0) stopped_ = !keep_going(tokens_ * i / config_.layers);
        worker.barrier();  // all of them see the same answer
        if (stopped_) return;
      }
      layer(worker, weights_.layers[static_cast<std::size_t>(i)], i, cache, position);
    }
    // What the last layer adds.
    for (std::int64_t t = share.begin; t < share.end; ++t) {
      kernels_.add(residual_.data() + t * config_.dim, branch_.data() + t * config_.dim, config_.dim);
    }
  });
}

/// residual += addend (when there is one); normed = norm(residual), rounded too. Rows are this worker's own.
void Forward::normalize(const Worker& worker, const std::vector<float>& weight, const float* addend) noexcept {
  const Range share = worker.share(tokens_);
  for (std::int64_t t = share.begin; t < share.end; ++t) {
    float* x = residual_.data() + t * config_.dim;
    if (addend != nullptr) kernels_.add(x, addend + t * config_.dim, config_.dim);
    kernels_.rms_norm(x, weight.data(), static_cast<float>(config_.norm_eps), normed_.row(t), config_.dim);
    normed_.quantize_row(kernels_, t);
  }
}

/// Norms and rotates the heads of q and k, and stores k and v. Units are (token, head).
void Forward::attention_inputs(const Worker& worker, const LayerWeights& w, std::int64_t index, nn::KvCache& cache,
                               std::int64_t position) noexcept {
  const std::int64_t d = config_.head_dim;
  const std::int64_t half = config_.rope.dim / 2;
  const auto eps = static_cast<float>(config_.norm_eps);
  float* padded = heads_[static_cast<std::size_t>(worker.index())].data();
  const auto store = [&](bool value, std::int64_t head, std::int64_t token, const float* x) {
    std::copy_n(x, d, padded);
    cache.store(kernels_, index, value, head, position + token, padded);
  };
  const std::int64_t units = config_.heads + config_.kv_heads;
  const Range share = worker.share(tokens_ * units);
  for (std::int64_t unit = share.begin; unit < share.end; ++unit) {
    const std::int64_t t = unit / units;
    const std::int64_t h = unit % units;
    const bool is_q = h < config_.heads;
    const std::int64_t kv = h - config_.heads;
    float* head = is_q ? q_.data() + (t * config_.heads + h) * d : k_.data() + (t * config_.kv_heads + kv) * d;
    const std::vector<float>& norm = is_q ? w.q_norm : w.k_norm;
    if (!norm.empty()) kernels_.rms_norm(head, norm.data(), eps, head, d);
    const float* angles = angles_.data() + t * 2 * half;
    rope_.apply(kernels_, head, angles, angles + half);
    if (is_q) continue;
    store(false, kv, t, head);
    store(true, kv, t, v_.data() + (t * config_.kv_heads + kv) * d);
  }
}

void Forward::layer(const Worker& worker, const LayerWeights& w, std::int64_t index, nn::KvCache& cache,
                    std::int64_t position) noexcept {
  const ModelConfig& c = config_;
  const std::int64_t q_columns = c.heads * c.head_dim;
  const std::int64_t kv_columns = c.kv_heads * c.head_dim;
  const auto bias = [](const std::vector<float>& b) { return b.empty() ? nullptr : b.data(); };

  normalize(worker, w.attention_norm, index == 0 ? nullptr : branch_.data());
  worker.barrier();
  nn::linear(kernels_, worker, w.q, normed_, bias(w.q_bias), q_.data(), q_columns);
  nn::linear(kernels_, worker, w.k, normed_, bias(w.k_bias), k_.data(), kv_columns);
  nn::linear(kernels_, worker, w.v, normed_, bias(w.v_bias), v_.data(), kv_columns);
  worker.barrier();
  attention_inputs(worker, w, index, cache, position);
  worker.barrier();
  nn::attention(kernels_, worker, cache, index, {.heads = c.heads, .head_dim = c.head_dim, .window = c.window_of(index)},
                q_.data(), q_columns, tokens_, position, attended_.row(0), q_columns,
                scratch_[static_cast<std::size_t>(worker.index())]);
  worker.barrier();
  const Range share = worker.share(tokens_);
  for (std::int64_t t = share.begin; t < share.end; ++t) attended_.quantize_row(kernels_, t);
  worker.barrier();
  nn::linear(kernels_, worker, w.o, attended_, bias(w.o_bias), branch_.data(), c.dim);
  worker.barrier();

  normalize(worker, w.ffn_norm, branch_.data());
  worker.barrier();
  nn::linear(kernels_, worker, w.gate, normed_, nullptr, hidden_.row(0), c.ffn);
  nn::linear(kernels_, worker, w.up, normed_, nullptr, up_.data(), c.ffn);
  worker.barrier();
  const auto gate = c.gate == ops::Gate::silu        ? kernels_.silu_mul
                    : c.gate == ops::Gate::gelu_tanh ? kernels_.gelu_tanh_mul
                                                     : kernels_.gelu_erf_mul;
  for (std::int64_t t = share.begin; t < share.end; ++t) {
    gate(hidden_.row(t), up_.data() + t * c.ffn, hidden_.row(t), c.ffn);
    hidden_.quantize_row(kernels_, t);
  }
  worker.barrier();
  nn::linear(kernels_, worker, w.down, hidden_, nullptr, branch_.data(), c.dim);
  worker.barrier();
}

}  // namespace bantam::inline v0
