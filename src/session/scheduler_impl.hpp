// What a scheduler holds: requests at hand, which any thread may bring, and its thread's texts.
#pragma once

#include <atomic>
#include <condition_variable>
#include <future>
#include <limits>
#include <map>
#include <mutex>
#include <thread>

#include "kept_texts.hpp"
#include "speculation.hpp"
#include "text_queue.hpp"

namespace bantam::inline v0 {

/// Why a text failed.
struct TextFailure {
  std::string message;
  std::optional<Errc> code = {};
};

inline const TextFailure out_of_memory{"out of memory", Errc::out_of_memory};

struct Scheduler::Impl {
  using Texts = std::list<Text>;

  Impl(Engine e, SchedulerOptions o);
  ~Impl();

  // From any thread.

  void check(const TextRequest& request) const;
  [[nodiscard]] std::optional<std::uint64_t> submit(TextRequest request, TextListener listener);
  /// Runs `task` on the scheduler's thread when the step at hand is over, and waits for it.
  void between_steps(const std::function<void()>& task);
  /// Throws invalid_argument for a place that there is not.
  void check_place(int place) const;
  /// Throws invalid_argument for a text that none here would go on from.
  void check_kept(const Session& text) const;

  // On the scheduler's thread: what runs.

  void loop();
  void show();
  /// The last that is heard of a text, with the piece that its last step brought. The caller takes it out of its list.
  void finish(Text& text, TextEnd end, std::span<const DrawnToken> tokens = {}, const TextFailure& failure = {});
  void end_all(Texts& texts, TextEnd end);
  /// What nobody waits for any more.
  void end_unwanted(Texts& texts);
  /// Ends a text with the exception that is being handled, and those that wait for what it should have read.
  void fail_current(Text& text);
  void fail_with(Text& text, const TextFailure& failure);
  /// After a step for whose own books there was no memory: some is made.
  void relieve() noexcept;
  void give_places();
  void begin(Text& text);
  /// A place that nobody has, the one that is wanted if it is one of them.
  [[nodiscard]] int free_place(const Text& text) const;
  /// Whether another text is about to read so much of the same beginning that it is better waited for than read twice.
  [[nodiscard]] bool is_being_read(const Text& text);
  /// With a session that holds as much of the prompt as any other one does.
  void start_reading(Text& text);

  // On the scheduler's thread: a step.

  void step();
  /// How a text's next tokens are guessed.
  [[nodiscard]] Speculation speculation_of(const Text& text);
  /// Guesses for texts that are generated in the next pass, beside so many tokens of prompts.
  void guess(const std::vector<Text*>& texts, std::int64_t prompt_tokens);
  void make_guesses(const std::vector<Text*>& texts, std::int64_t prompt_tokens);
  /// Has smaller models make some.
  void draft(std::vector<Session::State::Drafting>& wanted);
  /// Tokens of prompts to read in a step.
  [[nodiscard]] std::int64_t reading_room(std::int64_t generating, std::int64_t readers) const;
  /// After a pass in which it read: says what is to be said of the prompt, and generates where all of it is read.
  void go_on_reading(Text& text, std::vector<Text*>& generating);
  /// Reads. False where nothing came of it: the next step tries again with what is left.
  [[nodiscard]] bool pass(const std::vector<Text*>& texts, const std::vector<Engine::Sequence>& sequences, std::int64_t prompt_tokens);
  /// After a pass that failed: memory is made, or those who were in it end.
  void give_way(const std::vector<Text*>& texts, const TextFailure& failure);
  /// Has all threads draw for those texts that any may draw for.
  void draw_ahead(const std::vector<Text*>& texts);
  /// The next token of a text whose logits are known, or its end.
  void draw(Text& text);

  Engine engine;
  SchedulerOptions options;
  const Session prototype;  ///< checks requests; reads nothing

  mutable std::mutex mutex;  ///< of what follows
  std::condition_variable changed, emptied;
  std::map<std::uint64_t, std::shared_ptr<Job>> jobs;  ///< that did not end, and whose listener knows
  int unended = 0;                                     ///< of them, without those whose end is being told: what the queue counts
  Texts incoming;
  std::vector<std::packaged_task<void()>> tasks;  ///< of between_steps()
  std::uint64_t last_id = 0;
  bool closed = false, ending = false;
  std::atomic<int> most_places{std::numeric_limits<int>::max()};
  SchedulerStats shown;

  // The thread's own.
  TextQueue queue;
  Texts running;
  KeptTexts kept;
  SchedulerStats counts;
  double seconds_per_token = 0;  ///< of prompts
  PassCosts costs;               ///< of passes without prompts
  std::optional<Engine> drafting;                ///< of the smaller model, where there is one
  std::vector<std::unique_ptr<Session>> drafts;  ///< on it, of each place

  std::thread thread;
};

}  // namespace bantam::inline v0
