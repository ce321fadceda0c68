// Continuations: forks of a session that generate as a batch.
#include "bantam/session/continuations.hpp"

namespace bantam::inline v0 {

std::vector<Continuation> continuations(Session& session, std::span<const TokenId> prompt, int count, GenerateOptions options,
                                        const ContinuationSink& sink) {
  constexpr int most = 1024;
  if (count < 1 || count > most) fail(Errc::invalid_argument, "continuations: expected 1 to ", most, ", found ", count);
  options.speculation = {};
  // Checks the options before it reads the prompt; the forks then generate from nothing more.
  (void)session.stream(prompt, options);
  (void)session.logits();  // before the forks, or each would read the last token again
  std::vector<Session> forks;
  std::vector<TextRange> ranges;
  forks.reserve(static_cast<std::size_t>(count));
  const std::uint64_t seed = options.sampling.seed;
  for (int i = 0; i < count; ++i) {
    options.sampling.seed = seed + static_cast<std::uint64_t>(i);
    ranges.push_back(forks.emplace_back(session.fork()).stream(std::span<const TokenId>{}, options));
  }
  std::vector<Continuation> out(ranges.size());
  for (bool running = true, wanted = true; running && wanted;) {
    running = advance(std::span(ranges)) > 0;
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      const std::string_view piece = ranges[i].piece();
      if (piece.empty()) continue;
      out[i].text += piece;
      if (sink && !sink(i, piece)) wanted = false;
    }
  }
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    out[i].tokens = ranges[i].tokens();
    out[i].finish = ranges[i].finish() == Finish::running ? Finish::cancelled : ranges[i].finish();
  }
  return out;
}

std::vector<Continuation> continuations(Session& session, std::string_view prompt, int count, GenerateOptions options, EncodeOptions encode,
                                        const ContinuationSink& sink) {
  return continuations(session, session.encode(prompt, encode), count, std::move(options), sink);
}

}  // namespace bantam::inline v0
