// What models wrote, as the tokens that they wrote it in.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "bantam/text/reply.hpp"
#include "text/literals.hpp"

namespace bantam::server {

/// The last few replies. A prompt that repeats one begins with its tokens, so that nothing of it is read twice, and the model reads what it
/// wrote: a tokenizer may cut the same text in other places, and a template may set a call or a thought in other spaces. Only where the
/// template's words say the same, thoughts and calls included, do the tokens take their place: a template that leaves out earlier thoughts
/// has its way. Safe from any thread.
class Replays {
 public:
  /// `form` is one of reply_forms().
  Replays(const Tokenizer& tokenizer, std::string_view form);

  /// A prompt of a template's as tokens. `tools`: as ReplyOptions has them.
  [[nodiscard]] std::vector<TokenId> tokens_of(std::string_view prompt, std::string_view tools);
  /// Remembers a reply that ended. `tokens`: of the prompt and the reply.
  void add(std::string prompt, std::vector<TokenId> tokens, ParsedReply said);

  struct Entry {
    std::string prompt;
    std::vector<TokenId> tokens;
    ParsedReply said;
    [[nodiscard]] std::size_t bytes() const noexcept;
  };
  /// All of them, the oldest first.
  [[nodiscard]] std::vector<std::shared_ptr<const Entry>> entries();

 private:
  static constexpr std::size_t most = 256, most_bytes = std::size_t{64} << 20;
  using Shared = std::shared_ptr<const Entry>;

  [[nodiscard]] std::vector<Shared> beginnings_of(std::string_view prompt);
  void touch(const Shared& entry);

  Tokenizer tokenizer_;
  std::string_view form_;
  Literals marks_;  ///< special tokens as they are spelled
  std::mutex mutex_;
  std::list<Shared> entries_;  ///< wanted last first
  std::size_t bytes_ = 0;
};

}  // namespace bantam::server
