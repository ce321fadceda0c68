// Calibration text as samples of tokens.
#include <algorithm>

#include "bantam/calibrate/calibration.hpp"
#include "bantam/core/error.hpp"

namespace bantam::inline v0 {

namespace {

/// Pieces of the gaps between samples, which begin at `first(i)`; after a single one, of what follows it.
template <class F>
std::vector<std::vector<TokenId>> between(const std::vector<TokenId>& ids, std::size_t pieces, std::size_t length, F&& first) {
  // A gap of fewer tokens shows too little of what comes after other tokens; four places are not all from one page.
  constexpr std::size_t shortest = 16, longest = 64, total = 256;
  const std::size_t gaps = std::max<std::size_t>(pieces - 1, 1);
  const std::size_t gap = std::min((ids.size() - pieces * length) / gaps, pieces > 1 ? longest : total);
  if (gap < shortest) return {};
  const std::size_t count = std::clamp<std::size_t>(total / gap, 1, gaps);
  std::vector<std::vector<TokenId>> result;
  for (std::size_t i = 0; i < count; ++i) {
    const auto begin = ids.begin() + static_cast<std::ptrdiff_t>(first(gaps * i / count) + length);
    result.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(gap));
  }
  return result;
}

}  // namespace

Calibration Calibration::from_text(const Tokenizer& tokenizer, std::string_view text, std::int64_t samples, std::int64_t tokens) {
  if (samples < 1 || tokens < 1) fail(Errc::invalid_argument, "calibration: expected at least one sample of one token, found ", samples, " of ", tokens);
  // An empty text has a token too, where sequences begin with one.
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) fail(Errc::invalid_argument, "calibration: expected text, found none");
  const std::vector<TokenId> ids = tokenizer.encode(text);
  Calibration result;
  const auto length = std::min<std::size_t>(static_cast<std::size_t>(tokens), ids.size());
  const std::size_t pieces = std::min<std::size_t>(static_cast<std::size_t>(samples), ids.size() / length);
  // Spread over the whole text: its beginning alone may be a table of contents.
  const auto first = [&](std::size_t piece) { return pieces > 1 ? (ids.size() - length) * piece / (pieces - 1) : 0; };
  for (std::size_t i = 0; i < pieces; ++i) {
    const auto begin = ids.begin() + static_cast<std::ptrdiff_t>(first(i));
    result.samples.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(length));
  }
  result.held_out = between(ids, pieces, length, first);
  return result;
}

}  // namespace bantam::inline v0
