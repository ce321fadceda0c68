// Texts behind prompts: what OpenAI's older API and llama.cpp's own share.
#pragma once

#include "server/writing.hpp"

namespace bantam::server {

struct Prompts {
  std::vector<std::vector<TokenId>> tokens;
  bool several = false;  ///< they came as a list
};

/// Texts, tokens, or both by turns; a list of texts or of arrays is several prompts. Throws ApiError (400).
[[nodiscard]] Prompts read_prompts(const App& app, const Json* given);

/// Texts, of which only what was not sent yet is kept where they are streamed.
struct Written {
  std::string text;
  std::vector<DrawnToken> tokens;
  TextEnd end = TextEnd::running;
  std::string stop_text;
  TextStats stats;
  std::size_t length = 0;  ///< bytes before what is kept
  bool is_told = false;    ///< some of it was sent

  void add(const Update& update) {
    text += update.piece;
    tokens.insert(tokens.end(), update.tokens.begin(), update.tokens.end());
    end = update.end;
    stop_text = update.stop_text;
    stats = update.stats;
  }
};

/// A request in llama.cpp's own shape.
struct NativeAsked {
  Asked asked;
  bool several = false;  ///< the answer is a list
  std::vector<std::string> fields = {};  ///< of the answer, that are wanted; none: all
};

/// Reads it, but for the prompts.
[[nodiscard]] NativeAsked read_native(App& app, const Fields& fields);
/// Answers it in llama.cpp's shape.
void start_native(App& app, const std::shared_ptr<Exchange>& exchange, NativeAsked native);

}  // namespace bantam::server
