// `bantam run --continuations N`, `--beams N`: several texts behind one prompt.
#include "bantam/core/stopwatch.hpp"
#include "bantam/session/beam.hpp"
#include "bantam/session/continuations.hpp"
#include "generation.hpp"
#include "memory_bound.hpp"
#include "progress.hpp"
#include "signals.hpp"

namespace bantam::cli {

namespace {

struct Found {
  std::string text;
  std::vector<TokenId> tokens;
  Finish finish;
  Json of_its_own;      ///< what JSON says of it beside these
  std::string heading;  ///< what a person reads of it
};

std::vector<Found> search(const RunOptions& o, Session& session, std::span<const TokenId> prompt) {
  std::vector<Found> out;
  const BeamOptions options{.beams = static_cast<int>(o.beams),
                            .results = static_cast<int>(std::max<std::int64_t>(o.continuations, 1)),
                            .max_tokens = o.generate.max_tokens,
                            .length_penalty = o.length_penalty,
                            .grammar = o.generate.grammar};
  for (Beam& b : beam_search(session, prompt, options)) {
    out.push_back({std::move(b.text), std::move(b.tokens), b.finish, {{"log_probability", b.log_probability}, {"score", b.score}},
                   message("score ", fixed(b.score, 4), ", log probability ", fixed(b.log_probability, 4))});
  }
  return out;
}

std::vector<Found> draw(const RunOptions& o, Session& session, std::span<const TokenId> prompt) {
  std::vector<Found> out;
  ProgressBar bar(!o.quiet && !o.common.json);
  std::int64_t pieces = 0;
  const auto sink = [&](std::size_t, std::string_view) {
    if (o.generate.max_tokens > 0) bar.show(++pieces, o.continuations * o.generate.max_tokens, "pieces of text");
    return interrupted() == 0;
  };
  std::uint64_t seed = o.generate.sampling.seed;
  for (Continuation& c : continuations(session, prompt, static_cast<int>(o.continuations), o.generate, sink)) {
    out.push_back({std::move(c.text), std::move(c.tokens), c.finish, {{"seed", seed}}, message("seed ", seed)});
    ++seed;
  }
  return out;
}

}  // namespace

int write_several(const RunOptions& o, Session& session, const std::string& prompt) {
  const std::vector<TokenId> ids = session.encode(prompt, {.parse_special = o.parse_special});
  const Section section(Insisting::ends_at_once);
  const Stopwatch prompt_time;
  session.prefill(ids);
  const double prompt_ms = 1000 * prompt_time.seconds();
  const Stopwatch watch;
  const std::vector<Found> texts = o.beams > 0 ? search(o, session, {}) : draw(o, session, {});
  const double ms = 1000 * watch.seconds();
  std::int64_t generated = 0;
  Json all = Json::array();
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const Found& t = texts[i];
    generated += std::ssize(t.tokens);
    if (o.common.json) {
      Json one = {{"text", t.text}, {"tokens", t.tokens}, {"finish_reason", std::string(to_string(t.finish))}};
      for (const Json::Member& m : t.of_its_own.items()) one[m.key] = m.value;
      all.push_back(std::move(one));
    } else {
      print(message("--- ", i + 1, " of ", texts.size(), ": ", t.heading, ", finish: ", to_string(t.finish), "\n"));
      print(t.text.ends_with('\n') ? t.text : t.text + '\n');
    }
  }
  if (o.common.json) {
    Json json = {{"texts", std::move(all)}, {"prompt_tokens", ids.size()}, {"generated_tokens", generated}, {"prompt_ms", prompt_ms}, {"generate_ms", ms}};
    if (o.stats) json["stats"] = to_json(session.engine().stream_stats());
    print_json(json);
  } else if (!o.quiet) {
    note(message("bantam: ", ids.size(), " prompt tokens, ", generated, " generated in ", texts.size(), " texts at ",
                 fixed(1000 * static_cast<double>(generated) / ms, 1), " tok/s"));
  }
  return interrupted() == 0 ? 0 : 128 + interrupted();
}

}  // namespace bantam::cli
