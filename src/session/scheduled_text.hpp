// A request that is at hand, and one of its texts: what it reads, what it draws, and how it ends.
#pragma once

#include <atomic>
#include <chrono>
#include <list>

#include "bantam/session/scheduler.hpp"
#include "state.hpp"

namespace bantam::inline v0 {

using SchedulerClock = std::chrono::steady_clock;

struct Scheduler::Job {
  Job(TextRequest r, TextListener l)
      : request(std::move(r)), listener(std::move(l)), adapters(fingerprint_of(*request.adapters)),
        left(request.prompts.size() * static_cast<std::size_t>(request.count)), read(request.prompts.size()) {}

  TextRequest request;
  TextListener listener;
  std::uint64_t adapters;  ///< their fingerprint: texts of others are of no use
  std::size_t left;        ///< texts that did not end
  std::uint64_t id = 0;
  SchedulerClock::time_point came = SchedulerClock::now();
  std::atomic<bool> cancelled{false};
  bool begun = false;  ///< one of its texts has, or had, a place
  std::vector<std::unique_ptr<Session>> read;  ///< of each prompt that several texts go on from, when it is read, until the last of them did

  /// How its texts end now where nobody waits for them any more.
  [[nodiscard]] std::optional<TextEnd> unwanted(SchedulerClock::time_point now) const;
};

struct Scheduler::Text {
  std::shared_ptr<Job> job;
  std::size_t number = 0;
  std::unique_ptr<Session> session = {};  ///< from when it has a place on
  std::optional<TextRange> range = {};    ///< from when the prompt is there on
  TextStats stats = {};
  SchedulerClock::time_point placed = {}, first_token = {};
  std::int64_t piece_begin = 0;        ///< of the prompt, where the piece in the pass at hand begins
  std::vector<DrawnToken> scored = {}; ///< what that pass says of the prompt's tokens
  Guesses guesses = {};                ///< that it checks
  std::vector<TokenId> checked = {};   ///< the token that waits, and these
  std::vector<float> logits = {};      ///< behind each of them, (checked, vocab)
  std::optional<std::vector<DrawnToken>> ahead = {};  ///< what draw_ahead() drew, or
  std::exception_ptr ahead_failed = {};               ///< what it threw
  std::vector<float> states = {};      ///< of the tokens in the pass, (tokens, dim), for the layer that drafts

  [[nodiscard]] std::size_t prompt() const { return number / static_cast<std::size_t>(job->request.count); }
  [[nodiscard]] std::size_t choice() const { return number % static_cast<std::size_t>(job->request.count); }
  [[nodiscard]] const std::vector<TokenId>& tokens() const { return job->request.prompts[prompt()]; }
  [[nodiscard]] bool is_reading() const { return !range.has_value(); }
  /// It waits for another one to read what it shares with that.
  [[nodiscard]] bool is_blocked() const { return choice() > 0 && job->read[prompt()] == nullptr; }
  /// Somebody asked how probable the tokens of its prompt are.
  [[nodiscard]] bool scores_prompt() const { return job->request.prompt_logprobs >= 0 && choice() == 0; }
  /// What of its prompt it may take over: nothing where all of it is scored, else all but the last token, which is always read, as logits are known only behind what was.
  [[nodiscard]] std::span<const TokenId> sought() const;
  /// Tokens that its session holds and has not read.
  [[nodiscard]] std::int64_t tokens_left() const;
  /// Those of a step that did not come to draw: the pass may have read them.
  void forget_guesses();
  /// What waits of a text that is generated as part of a pass, with guesses behind it, if there are any.
  [[nodiscard]] Engine::Sequence next_token();
  /// The next `count` of them as part of a pass.
  [[nodiscard]] Engine::Sequence next_piece(std::int64_t count);

  /// Takes the logits behind token `index` of its part of a pass.
  void take_logits(std::int64_t index, std::span<const float> logits);
  /// The pass is over.
  void end_pass();
  /// It has a place, and waits no longer.
  void place(int number);
  /// With a session that holds some of the prompt's beginning; the rest waits to be read.
  void start_reading(std::unique_ptr<Session> beginning, std::size_t common);
  /// The prompt is read: others that go on from it may begin.
  void share_prompt();
  /// With what one that shares the prompt has read.
  void take_prompt();
  void start_generating(const Speculation& speculation);
  /// The next token, or those that a pass over guesses brought, or the end: the range says whether it goes on.
  [[nodiscard]] std::vector<DrawnToken> draw();
  /// Whether another thread may draw while this one draws for others: nobody else's code is called, and the state is left alone.
  [[nodiscard]] bool draws_alone() const { return guesses.tokens.empty() && !job->request.generate.process; }
  /// draw(), for take_drawn() to have.
  void draw_ahead() noexcept;
  /// What was drawn ahead, or draw().
  [[nodiscard]] std::vector<DrawnToken> take_drawn();
  /// The listener hears of it. Who cannot listen is taken to have cancelled; std::bad_alloc comes out.
  void tell(TextUpdate update);

 private:
  /// Has a pass hand out what the layer that drafts reads.
  void want_states(Engine::Sequence& part);
};

}  // namespace bantam::inline v0
