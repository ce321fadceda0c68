// Calibration text as samples of tokens.
#include <algorithm>

#include "bantam/compress/calibration.hpp"
#include "bantam/core/error.hpp"

namespace bantam::inline v0 {

Calibration Calibration::from_text(const Tokenizer& tokenizer, std::string_view text, std::int64_t samples, std::int64_t tokens) {
  if (samples < 1 || tokens < 1) fail(Errc::invalid_argument, "calibration: expected at least one sample of one token, found ", samples, " of ", tokens);
  // An empty text has a token too, where sequences begin with one.
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) fail(Errc::invalid_argument, "calibration: expected text, found none");
  const std::vector<TokenId> ids = tokenizer.encode(text);
  Calibration result;
  const auto length = std::min<std::size_t>(static_cast<std::size_t>(tokens), ids.size());
  const std::size_t pieces = std::min<std::size_t>(static_cast<std::size_t>(samples), ids.size() / length);
  // Spread over the whole text: its beginning alone may be a table of contents.
  for (std::size_t i = 0; i < pieces; ++i) {
    const std::size_t last = ids.size() - length;
    const std::size_t first = pieces > 1 ? last * i / (pieces - 1) : 0;
    result.samples.emplace_back(ids.begin() + static_cast<std::ptrdiff_t>(first), ids.begin() + static_cast<std::ptrdiff_t>(first + length));
  }
  return result;
}

}  // namespace bantam::inline v0
