// Texts of many requests at once: one thread that steps them together, and a queue in front of it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bantam/session/session.hpp"

namespace bantam::inline v0 {

/// A pass of a scheduler over the weights.
struct SchedulerPass {
  std::chrono::steady_clock::time_point begin = {}, end = {};
  std::int64_t texts = 0;          ///< in it
  std::int64_t prompt_tokens = 0;  ///< that were read; the other texts got a token or more each
  StreamStats weights = {};        ///< what streaming them took in it
};

/// A smaller model that guesses what a scheduler's texts go on with.
struct DraftModel {
  Model model;
  StateMemory memory = {};  ///< of each place's text on it
};

struct SchedulerOptions {
  int parallel = 4;          ///< texts that are generated at once, 1 to 1024
  int queue = -1;            ///< requests that may be at hand beyond `parallel`; -1: four for each place
  int kept = -1;             ///< ended texts that are kept for prompts that begin like them; -1: as many as `parallel`
  std::int64_t context = 0;  ///< most tokens of a text; 0: the engine's
  std::string kv = "f16";    ///< as in SessionOptions
  std::vector<ScaledAdapter> adapters = {};  ///< in the same way, of texts whose request says nothing
  StateMemory memory = {};   ///< in the same way, of each text, whether it runs or is kept
  /// Long prompts are read in pieces that take about so long, so that texts that are generated beside them go on.
  std::chrono::milliseconds step{200};
  /// Guesses of each text's next tokens, as Speculation has them, that are checked with the tokens of all texts in one pass; texts are what they
  /// are without. As many are checked as pay: fewer where more texts run, as a pass is then as long as its tokens.
  int lookup = 0;
  int mtp = 0;
  std::optional<DraftModel> draft = {};  ///< of the same vocabulary; each place has a session on it, for as many tokens as both models let
  /// Called on the scheduler's thread after each pass. Must throw nothing but std::bad_alloc, which ends a text, as want of memory does anywhere
  /// in a step.
  std::function<void(const SchedulerPass&)> on_pass = {};
};

/// One or several texts that somebody asks for.
struct TextRequest {
  std::vector<std::vector<TokenId>> prompts = {};  ///< at least one, each of at least one token; 1024 texts in all at most
  int count = 1;                 ///< texts for each prompt, which is read once; text i of it draws with generate.sampling.seed + i
  GenerateOptions generate = {}; ///< of its speculation `lookup` and `mtp`, where they are more than the scheduler's; texts are the same without
  int top_logprobs = -1;         ///< log probabilities of tokens, and so many of the most probable ones beside each; -1: none
  /// The same of the prompts' tokens, as Session::score() gives their logits; of a prompt with several texts they come with the first. Such a
  /// prompt is read from its beginning, whatever other texts read.
  int prompt_logprobs = -1;
  bool tells_reading = false;    ///< updates without tokens say when a prompt begins to be read, and what each pass read of it: TextStats::read_tokens
  bool reuse = true;             ///< goes on from what other texts read already; the result is the same
  std::optional<std::vector<ScaledAdapter>> adapters = {};  ///< in the place of SchedulerOptions::adapters
  int place = -1;                ///< the place, from 0 on, that its first text would like; any where that is taken, or for -1
  /// The higher, the earlier it gets a place; among equals clients take turns. Texts that have a place keep it, and the one that came first
  /// of all that wait is passed over 16 times at most, so that none waits for ever.
  int priority = 0;
  std::string client = {};       ///< who asks: places that become free go to those who have the fewest
  std::chrono::milliseconds most_waiting{0};  ///< for the first place, then it ends as TextEnd::late; 0: without bound
  std::chrono::milliseconds most_time{0};     ///< until all texts ended, in the same way
};

/// A token that was drawn, or one of a prompt.
struct DrawnToken {
  TokenId id = 0;
  float logprob = 0;  ///< natural logarithm, before anything of sampling; where top_logprobs or prompt_logprobs asked for it
  int rank = 0;       ///< 1: the most probable one; equal ones by id; in the same way
  std::vector<std::pair<TokenId, float>> top = {};  ///< the most probable ones first, equal ones by id
};

/// How a text of a request ended.
enum class TextEnd : std::uint8_t {
  running,
  stop,       ///< the model ended it, a stop text or the grammar
  length,     ///< max_tokens, or the context is full
  cancelled,  ///< by Scheduler::cancel(), or because the scheduler ended
  late,       ///< the request took longer than it wanted to
  failed,     ///< TextUpdate::error says why
};

/// What a text took.
struct TextStats {
  std::int64_t prompt_tokens = 0;
  std::int64_t reused_tokens = 0;  ///< of the prompt, read for other texts before
  std::int64_t read_tokens = 0;    ///< of the prompt, that are there: those, and what was read since
  std::int64_t generated_tokens = 0;
  std::int64_t guessed_tokens = 0;  ///< by speculation
  std::int64_t right_guesses = 0;
  double waited_ms = 0;    ///< until there was a place
  double prompt_ms = 0;    ///< from there to the first token
  double generate_ms = 0;  ///< from there on
  int place = -1;          ///< that it has or had, from 0 on; -1: none yet
};

/// What a step brought for one text. Everything lives for the call.
struct TextUpdate {
  std::size_t text = 0;         ///< prompt by prompt, `count` of each
  std::string_view piece = {};  ///< valid UTF-8; may be empty while a character or a stop text is incomplete
  std::span<const DrawnToken> tokens = {};
  std::span<const DrawnToken> prompt = {};  ///< the next tokens of the prompt, from its second on, where prompt_logprobs asked for them
  TextEnd end = TextEnd::running;  ///< once, in the last update of the text
  std::string_view error = {};     ///< of TextEnd::failed
  std::optional<Errc> code = {};   ///< of that, where it was an Error
  std::string_view stop_text = {}; ///< of TextEnd::stop, where one of them ended it
  const TextStats& stats;
};

/// Called on the scheduler's thread, where others wait for it: hand the work on. May call no more of the scheduler than cancel() and stats().
/// What it throws cancels the request, std::bad_alloc fails the text.
using TextListener = std::function<void(const TextUpdate&)>;

/// What a scheduler does now, and has done since it began.
struct SchedulerStats {
  int parallel = 0;
  int running = 0;           ///< texts that have a place
  int waiting = 0;           ///< texts that have none yet
  int requests = 0;          ///< at hand
  int kept = 0;              ///< ended texts that are kept
  std::int64_t kv_bytes = 0; ///< keys, values and states; what texts share counts in full
  std::int64_t context = 0;
  std::int64_t prompt_tokens = 0;  ///< read, those of ended requests included
  std::int64_t reused_tokens = 0;  ///< not read, because they were there
  std::int64_t generated_tokens = 0;
  std::int64_t guessed_tokens = 0;  ///< by speculation
  std::int64_t right_guesses = 0;
  std::int64_t most_tokens = 0;    ///< of a text
  std::int64_t steps = 0;
  std::int64_t stepped_texts = 0;  ///< texts in all steps
  double prompt_seconds = 0;       ///< of steps that read prompts alone or beside others
  double generate_seconds = 0;     ///< of the others
  std::int64_t refused = 0;        ///< requests, for a full queue
  StreamStats weights = {};        ///< what streaming them took
};

/// Takes a text in pieces, as Session::save() writes it.
using TextSink = FunctionRef<void(std::span<const std::byte>)>;

/// Runs requests on one engine: every step, a token more for each text that has a place, and a piece of the prompts that are being read,
/// in the same passes over the weights. A request begins at the step after it came if there is a place. What a text is depends on its
/// request alone: the same bits as Session::stream() gives. Memory of keys and values is that of parallel + kept texts at most, and of
/// each prompt that texts still wait to go on from. Where it runs out, kept texts go first, then of the texts of the least priority the one
/// that came last fails. May be used from any thread.
class Scheduler {
 public:
  /// Throws invalid_argument for options out of range.
  explicit Scheduler(Engine engine, SchedulerOptions options = {});
  /// Ends what still runs as cancelled.
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  /// Takes a request, and calls the listener until each of its texts ended; none where the queue is full, or after close(). Throws
  /// invalid_argument for what Session::stream() refuses.
  [[nodiscard]] std::optional<std::uint64_t> submit(TextRequest request, TextListener listener);
  /// Ends all texts of a request at the next step; nothing where it ended already.
  void cancel(std::uint64_t request) noexcept;
  void cancel_all() noexcept;
  /// Takes no more requests; what is at hand goes on.
  void close() noexcept;
  /// From now on so many texts get a place at most, at least 1; those that have one keep it. SchedulerOptions::parallel at first.
  void limit_places(int most) noexcept;
  /// Waits until nothing is at hand; false after that long.
  [[nodiscard]] bool wait(std::chrono::milliseconds most);

  /// Hands on what is kept of the text that had a place last; how many tokens it has, 0: nothing is kept. This and what follows waits for the step at
  /// hand and holds the next one up, throws invalid_argument for a place that there is not, and what `sink` throws.
  std::int64_t save_text(int place, TextSink sink);
  /// The same of all that is kept, by number, what was wanted last first; 0 behind the last.
  std::int64_t save_kept(std::size_t number, TextSink sink);
  /// Keeps a text on this engine as if it had had that place, -1: none; what was kept of it goes.
  void keep_text(int place, Session text);
  /// Forgets what is kept of a place; how many tokens that had.
  std::int64_t forget_text(int place);

  [[nodiscard]] const Engine& engine() const noexcept;
  /// Most tokens of a text.
  [[nodiscard]] std::int64_t context() const noexcept;
  [[nodiscard]] SchedulerStats stats() const;

 private:
  struct Job;
  struct Text;
  class KeptTexts;
  class TextQueue;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace bantam::inline v0
