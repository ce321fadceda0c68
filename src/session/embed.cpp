// Pooling of hidden states.
#include "bantam/session/embed.hpp"

#include <cmath>

#include "bantam/core/names.hpp"

namespace bantam::inline v0 {

namespace {

constexpr std::string_view pooling_names[] = {"mean", "cls", "last"};

}  // namespace

std::string_view name_of(Pooling pooling) noexcept { return pooling_names[static_cast<std::size_t>(pooling)]; }
Pooling find_pooling(std::string_view name) { return poolings[find_name("pooling", name, pooling_names)]; }

std::vector<float> embed(Session& session, std::span<const TokenId> tokens, const EmbedOptions& options) {
  if (tokens.empty()) fail(Errc::invalid_argument, "embed: expected at least one token, found none");
  const auto last = static_cast<std::int64_t>(tokens.size()) - 1;
  std::vector<double> sums(static_cast<std::size_t>(session.model().config().dim));
  session.clear();
  session.states(tokens, [&](std::int64_t index, std::span<const float> state) {
    if ((options.pooling == Pooling::cls && index != 0) || (options.pooling == Pooling::last && index != last)) return;
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += static_cast<double>(state[i]);
  });
  double scale = options.pooling == Pooling::mean ? static_cast<double>(tokens.size()) : 1;
  if (options.normalize) {
    double squares = 0;
    for (const double sum : sums) squares += sum * sum;
    if (squares > 0) scale = std::sqrt(squares);
  }
  std::vector<float> embedding(sums.size());
  for (std::size_t i = 0; i < sums.size(); ++i) embedding[i] = static_cast<float>(sums[i] / scale);
  return embedding;
}

std::vector<float> embed(Session& session, std::string_view text, const EmbedOptions& options) {
  return embed(session, session.model().tokenizer().encode(text, options.encode), options);
}

}  // namespace bantam::inline v0
