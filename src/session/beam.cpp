// Beam search over forks of a session, which share keys and values until they part.
#include "bantam/session/beam.hpp"

#include <algorithm>
#include <cmath>

namespace bantam::inline v0 {

namespace {

struct Beginning {
  Session session;
  std::optional<GrammarMatcher> matcher;
  std::vector<TokenId> tokens;
  double log_probability = 0;
};

struct NextToken {
  double log_probability;
  std::size_t parent;
  TokenId id;
  friend bool operator<(const NextToken& a, const NextToken& b) noexcept {
    if (a.log_probability != b.log_probability) return a.log_probability > b.log_probability;
    return a.parent != b.parent ? a.parent < b.parent : a.id < b.id;
  }
};

/// The `count` most probable tokens behind a beginning.
void add_best(std::vector<NextToken>& out, Beginning& from, std::size_t parent, std::size_t count) {
  const auto vocab = static_cast<std::size_t>(from.session.model().tokenizer().vocab_size());
  const std::span<const float> found = from.session.logits();
  std::vector<float> logits(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(std::min(vocab, found.size())));
  if (from.matcher) from.matcher->apply(logits);
  const double highest = *std::ranges::max_element(logits);
  double total = 0;
  for (const float logit : logits) total += std::exp(static_cast<double>(logit) - highest);
  const double shift = from.log_probability - highest - std::log(total);
  std::vector<NextToken> all;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (std::isfinite(logits[i])) all.push_back({static_cast<double>(logits[i]) + shift, parent, static_cast<TokenId>(i)});
  }
  count = std::min(count, all.size());
  std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count), all.end());
  out.insert(out.end(), all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count));
}

void check_beams(const BeamOptions& o) {
  if (o.beams < 1 || o.beams > 1024) fail(Errc::invalid_argument, "beams: expected 1 to 1024, found ", o.beams);
  if (o.results < 1 || o.results > o.beams) fail(Errc::invalid_argument, "results: expected 1 to ", o.beams, " (the beams), found ", o.results);
  if (o.max_tokens < 1) fail(Errc::invalid_argument, "max_tokens: expected 1 or more, found ", o.max_tokens);
  if (!std::isfinite(o.length_penalty)) fail(Errc::invalid_argument, "length_penalty: expected a finite number, found ", o.length_penalty);
}

}  // namespace

std::vector<Beam> beam_search(Session& session, std::string_view prompt, const BeamOptions& options, EncodeOptions encode) {
  return beam_search(session, session.encode(prompt, encode), options);
}

std::vector<Beam> beam_search(Session& session, std::span<const TokenId> prompt, const BeamOptions& options) {
  check_beams(options);
  const Tokenizer& tokenizer = session.model().tokenizer();
  session.prefill(prompt);
  (void)session.logits();
  const auto beams = static_cast<std::size_t>(options.beams);
  const auto score = [&](double log_probability, std::size_t tokens) {
    return log_probability / std::pow(static_cast<double>(std::max<std::size_t>(tokens, 1)), static_cast<double>(options.length_penalty));
  };
  std::vector<Beam> done;
  const auto finish = [&](std::vector<TokenId> tokens, double log_probability, std::size_t length, Finish why) {
    Beam beam{std::move(tokens), {}, log_probability, score(log_probability, length), why};
    TextStream stream(tokenizer);
    for (const TokenId id : beam.tokens) beam.text += stream.push(id);
    beam.text += stream.finish();
    done.push_back(std::move(beam));
    std::ranges::stable_sort(done, std::greater<>{}, &Beam::score);
    if (done.size() > beams) done.pop_back();
  };
  std::vector<Beginning> alive;
  alive.push_back({session.fork(), options.grammar ? std::optional<GrammarMatcher>(*options.grammar) : std::nullopt, {}, 0});
  for (std::size_t step = 1; !alive.empty(); ++step) {
    const bool room = static_cast<std::int64_t>(step) <= options.max_tokens && static_cast<std::int64_t>(alive.front().session.tokens().size()) < session.context();
    // The alive ones are in falling order. Ended texts are left only by better ones.
    const bool caught_up = done.size() == beams && score(alive.front().log_probability, step - 1) <= done.back().score && step > 1;
    if (!room || caught_up) break;
    std::vector<NextToken> next;
    for (std::size_t i = 0; i < alive.size(); ++i) add_best(next, alive[i], i, 2 * beams);
    std::ranges::sort(next, std::less<>{});
    std::vector<Beginning> following;
    for (std::size_t rank = 0; rank < next.size() && rank < 2 * beams && following.size() < beams; ++rank) {
      const NextToken& token = next[rank];
      const Beginning& parent = alive[token.parent];
      std::vector<TokenId> tokens = parent.tokens;
      if (tokenizer.ends_generation(token.id)) {
        if (rank < beams) finish(std::move(tokens), token.log_probability, step, Finish::stop);
        continue;
      }
      tokens.push_back(token.id);
      std::optional<GrammarMatcher> matcher = parent.matcher;
      if (matcher && matcher->accept(token.id) && matcher->finished()) {
        if (rank < beams) finish(std::move(tokens), token.log_probability, step, Finish::stop);
        continue;
      }
      following.push_back({parent.session.fork(), std::move(matcher), std::move(tokens), token.log_probability});
    }
    alive = std::move(following);
    std::vector<Prompt> prompts;
    const bool last = static_cast<std::int64_t>(step) == options.max_tokens;
    for (Beginning& b : alive) prompts.push_back({&b.session, std::span<const TokenId>(b.tokens).last(1)});
    if (!prompts.empty() && !last) prefill(prompts);
  }
  for (Beginning& b : alive) {
    const std::size_t length = b.tokens.size();
    finish(std::move(b.tokens), b.log_probability, length, Finish::length);
  }
  done.resize(std::min(done.size(), static_cast<std::size_t>(options.results)));
  return done;
}

}  // namespace bantam::inline v0
