// Passes over texts that are forgotten once they are read.
#include "pooled.hpp"

#include "bantam/core/parallel.hpp"
#include "bantam/model/forward.hpp"

namespace bantam::inline v0 {

namespace {

/// What stands for a text, as its states come in.
class Pool {
 public:
  Pool(Pooling pooling, std::int64_t tokens, std::size_t size) : pooling_(pooling), last_(tokens - 1), sums_(size) {}
  void add(std::int64_t index, std::span<const float> state) {
    if ((pooling_ == Pooling::cls && index != 0) || (pooling_ == Pooling::last && index != last_)) return;
    for (std::size_t i = 0; i < sums_.size(); ++i) sums_[i] += static_cast<double>(state[i]);
  }
  std::span<const double> values() {
    if (pooling_ == Pooling::mean) {
      for (double& sum : sums_) sum /= static_cast<double>(last_ + 1);
    }
    return sums_;
  }

 private:
  Pooling pooling_;
  std::int64_t last_;
  std::vector<double> sums_;
};

}  // namespace

void read_pooled(Engine& engine, std::span<const PooledText> texts, Pooling pooling, PassOutput output, const ReadProgress& progress, std::string_view what,
                 FunctionRef<void(std::size_t text, std::span<const double> values)> sink) {
  const ModelConfig& config = engine.model().config();
  if (output == PassOutput::logits) pooling = Pooling::last;
  const auto size = static_cast<std::size_t>(output == PassOutput::logits ? config.vocab : config.dim);
  std::int64_t total = 0, done = 0;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].ids.empty()) fail(Errc::invalid_argument, what, ": expected at least one token, found none", texts.size() > 1 ? message(" in text ", i) : std::string());
    total += std::ssize(texts[i].ids);
  }
  // As many as go through the layers together: their states are all that is kept.
  for (std::size_t first = 0; first < texts.size();) {
    std::size_t last = first;
    std::int64_t tokens = 0;
    while (last < texts.size() && (last == first || tokens + std::ssize(texts[last].ids) <= Forward::largest_chunk)) tokens += std::ssize(texts[last++].ids);
    std::vector<nn::SequenceState> states;
    std::vector<Engine::Sequence> sequences;
    std::vector<Pool> pools;
    states.reserve(last - first);
    for (std::size_t i = first; i < last; ++i) {
      const std::int64_t count = std::ssize(texts[i].ids);
      sequences.push_back({.tokens = texts[i].ids, .state = &states.emplace_back(engine.new_state("f32")), .first_output = pooling == Pooling::last ? count - 1 : 0, .types = texts[i].types});
      pools.emplace_back(pooling, count, size);
    }
    engine.run(
        sequences, [&](std::int64_t sequence, std::int64_t index, std::span<const float> values) { pools[static_cast<std::size_t>(sequence)].add(index, values); },
        [&](std::int64_t read) {
          check_cancelled();
          return !progress || progress(done + read, total);
        },
        output);
    for (std::size_t i = first; i < last; ++i) sink(i, pools[i - first].values());
    done += tokens;
    first = last;
  }
  if (progress && total > 0) (void)progress(total, total);
}

}  // namespace bantam::inline v0
