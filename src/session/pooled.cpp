// Passes over texts that are forgotten once they are read.
#include "pooled.hpp"

#include "bantam/core/parallel.hpp"
#include "bantam/model/forward.hpp"

namespace bantam::inline v0 {

void check_pooled(const ModelConfig& config, std::string_view what) {
  if (config.has_source()) fail(Errc::unsupported, what, ": expected a model of one text, found one of type ", config.arch->name, ", whose decoder answers what its encoder reads; encoders alone work");
}

void read_pooled(Engine& engine, std::span<const PooledText> texts, Pooling pooling, PassOutput output, const ReadProgress& progress, std::string_view what,
                 FunctionRef<void(std::size_t text, std::span<const double> values)> sink) {
  const ModelConfig& config = engine.model().config();
  check_pooled(config, what);
  if (output == PassOutput::logits) pooling = Pooling::last;
  const auto size = static_cast<std::size_t>(output == PassOutput::logits ? config.vocab : config.dim);
  std::int64_t total = 0, done = 0;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].ids.empty()) fail(Errc::invalid_argument, what, ": expected at least one token, found none", texts.size() > 1 ? message(" in text ", i) : std::string());
    total += std::ssize(texts[i].ids);
  }
  // As many as go through the layers together. Of decoders the keys and values of all layers are kept meanwhile, in whole pages.
  const auto room_of = [&](const PooledText& text) {
    const std::int64_t count = std::ssize(text.ids), page = config.arch->causal ? page_tokens : 1;
    return div_up(count, page) * page;
  };
  for (std::size_t first = 0; first < texts.size();) {
    std::size_t last = first;
    for (std::int64_t room = Forward::largest_chunk; last < texts.size() && (last == first || room_of(texts[last]) <= room); ++last) room -= room_of(texts[last]);
    std::vector<nn::SequenceState> states;
    std::vector<Engine::Sequence> sequences;
    std::vector<Pool> pools;
    std::int64_t tokens = 0;
    states.reserve(last - first);
    for (std::size_t i = first; i < last; ++i) {
      const std::int64_t count = std::ssize(texts[i].ids);
      sequences.push_back({.tokens = texts[i].ids, .state = &states.emplace_back(engine.new_state("f32")), .first_output = pooling == Pooling::last ? count - 1 : 0, .types = texts[i].types, .adapters = texts[i].adapters});
      pools.emplace_back(pooling, count, size);
      tokens += count;
    }
    engine.run(
        sequences, [&](std::int64_t sequence, std::int64_t index, std::span<const float> values) { pools[static_cast<std::size_t>(sequence)].add(index, values); },
        [&](std::int64_t read) {
          check_cancelled();
          return !progress || progress(done + read, total);
        },
        output);
    for (std::size_t i = first; i < last; ++i) sink(i, pools[i - first].finish());
    done += tokens;
    first = last;
  }
  if (progress && total > 0) (void)progress(total, total);
}

}  // namespace bantam::inline v0
