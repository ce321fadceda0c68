// Several texts behind one prompt, which is read once.
#pragma once

#include "bantam/session/session.hpp"

namespace bantam::inline v0 {

struct Continuation {
  std::vector<TokenId> tokens;  ///< the end token left out
  std::string text;
  Finish finish = Finish::running;
};

/// Called with each piece of text and which continuation it belongs to; false ends all of them, Finish::cancelled where one still ran.
using ContinuationSink = std::function<bool(std::size_t, std::string_view)>;

/// `count` texts drawn behind what the session holds and the prompt, in one pass over the weights for all of them, with keys and values of
/// the prompt shared. Continuation i draws with the seed options.sampling.seed + i, and is what Session::stream() gives with that seed.
/// Speculation plays no part. The session then holds the prompt. Throws invalid_argument for a count outside of 1 to 1024, and as
/// Session::stream() does.
[[nodiscard]] std::vector<Continuation> continuations(Session& session, std::span<const TokenId> prompt, int count, GenerateOptions options = {},
                                                      const ContinuationSink& sink = {});
[[nodiscard]] std::vector<Continuation> continuations(Session& session, std::string_view prompt, int count, GenerateOptions options = {},
                                                      EncodeOptions encode = {}, const ContinuationSink& sink = {});

}  // namespace bantam::inline v0
