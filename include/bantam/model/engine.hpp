// A model with the threads and buffers to run it, for any number of sequences.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

#include "bantam/core/team.hpp"
#include "bantam/model/model.hpp"
#include "bantam/model/sequence_input.hpp"

namespace bantam::inline v0 {

/// What streaming weights took since it began.
struct StreamStats {
  std::int64_t resident_bytes = 0;  ///< memory for weights: those that stay, slots and cache
  std::int64_t streamed_bytes = 0;  ///< of the file, read
  std::int64_t expert_hits = 0;     ///< experts that were asked for and there, counted once a layer and pass
  std::int64_t expert_misses = 0;   ///< and those that were read
  double read_seconds = 0;          ///< while something was read
  double waited_seconds = 0;        ///< while inference waited for it

  /// The same since earlier ones were taken of the same engine; memory is what it is now.
  [[nodiscard]] StreamStats since(const StreamStats& before) const noexcept {
    return {.resident_bytes = resident_bytes, .streamed_bytes = streamed_bytes - before.streamed_bytes, .expert_hits = expert_hits - before.expert_hits,
            .expert_misses = expert_misses - before.expert_misses, .read_seconds = read_seconds - before.read_seconds, .waited_seconds = waited_seconds - before.waited_seconds};
  }
};

/// How much of a sequence's state is in memory: keys and values of its tokens, and states of recurrent layers. The oldest of them are in a file, which
/// a pass reads a layer ahead, or where layers do not fit a part of one; results are the same.
struct StateMemory {
  std::int64_t limit = 0;  ///< bytes; 0: all of it is in memory. It holds the tokens of a pass, and twice what a layer has of 512 others
  std::filesystem::path folder = {};  ///< where the file is, which nobody else sees; empty: $TMPDIR, or /var/tmp
};

struct EngineOptions {
  std::int64_t context = 0;  ///< most tokens of a sequence; 0: what the model was made for. Dynamic rope scaling goes by it
  int threads = 0;           ///< 0: the physical cores that the process may use
};

/// Runs passes of tokens of several sequences through a model. A handle: copies share threads and buffers, which are made for the
/// first pass, and made again in a child process; so is the memory of layers and experts of a model that is not in memory whole. May be used from any thread: passes take turns. States of sequences are for
/// one thread at a time.
class Engine {
 public:
  /// Throws invalid_argument for options out of range.
  explicit Engine(Model model, EngineOptions options = {});

  [[nodiscard]] const Model& model() const noexcept;
  /// Most tokens of a sequence.
  [[nodiscard]] std::int64_t context() const noexcept;
  /// As many as there are; before the first pass, as many as were asked for.
  [[nodiscard]] int threads() const noexcept;
  /// Passes that begin from now on, of all copies of this engine, keep to so many threads; 0: all there are. Results are the same.
  void limit_threads(int most) noexcept;

  /// Counts where the time of passes goes, until it is null; costs a hundredth of it. Not while one runs. The profile outlives that.
  void set_profile(Profile* profile);

  /// What reading weights took since the first pass, where they are not in memory whole. From any thread, at any time.
  [[nodiscard]] StreamStats stream_stats() const;

  /// Of a sequence that has read nothing. `kv`: keys and values as "f32", "f16", "q8", "q4" or "q3", or invalid_argument. Those of one engine share a file.
  /// Throws not_found, io or invalid_argument where there can be none. Encoders keep everything in memory.
  [[nodiscard]] nn::SequenceState new_state(std::string_view kv = "f16", const StateMemory& memory = {}) const;

  using Sequence = SequenceInput;
  using Output = PassOutput;
  using Sink = PassSink;
  using KeepGoing = bantam::KeepGoing;

  /// Reads the tokens of all sequences, each with a state of its own from new_state() of an engine of this model, in as few passes
  /// over the weights as they need, and hands out what is asked for. Results depend neither on how tokens were divided into calls,
  /// nor on what else is in the pass, nor on the number of threads. Throws invalid_argument for token ids outside of the
  /// vocabulary, embeddings of another width or beside tokens, a sequence beyond context(), a part of one whose tokens all see each other,
  /// and when a callback calls its engine; unsupported for logits of a model without a head; cancelled when keep_going says so;
  /// out_of_memory; io where a file of keys and values cannot be written or read; and what Adapter::check_fits() and the callbacks throw. States are then as truncate() to their tokens leaves them.
  void run(std::span<const Sequence> sequences, Sink sink, KeepGoing keep_going, Output output = Output::logits, SinkCalls calls = SinkCalls::in_order);

  /// Calls f(i) for each i below `count` on the engine's threads: what comes between passes, once for each sequence. f must neither throw nor
  /// call the engine.
  void for_each(std::int64_t count, FunctionRef<void(std::int64_t)> f);

  /// Whether the model has a layer that guesses the token after the next one (ModelConfig::drafting).
  [[nodiscard]] bool drafts() const noexcept { return !model().config().drafting.empty(); }
  /// Of that layer, of a sequence that it has read nothing of.
  [[nodiscard]] nn::SequenceState new_draft_state(std::string_view kv = "f16") const;
  /// The same beside a state of new_state() with the same memory, whose keys and values leave it its share of that.
  [[nodiscard]] nn::SequenceState new_draft_state(std::string_view kv, nn::SequenceState& beside, const StateMemory& memory) const;
  /// Has the layer that drafts read pairs of neighbors: of each the state of one token, which run() hands out, and the id of the token after it.
  /// `logits`, (vocab), are those of the token after the last; `state`, (dim), goes with that one into the next call, to guess the one after
  /// it. Throws invalid_argument for a model that does not draft, and as run() does.
  void draft(nn::SequenceState& draft_state, std::span<const TokenId> tokens, std::span<const float> states, std::span<float> logits, std::span<float> state);

  /// Why nothing can be taken out of the middle of a text, as remove() says it; empty: it can.
  [[nodiscard]] std::string kept_whole(nn::SequenceState& state) const;
  /// Forgets tokens first .. last; those behind take their places, their keys turned to their new positions (Session::remove).
  /// Throws invalid_argument for a range that was not read, unsupported for models that nothing can be taken out of, and out_of_memory, leaving it as it was.
  void remove(nn::SequenceState& state, std::int64_t first, std::int64_t last);

  /// Throws invalid_argument naming the first that is not in the vocabulary.
  void check(std::span<const TokenId> tokens) const;
  /// Whether sequences of both give on either the same results: one model, and one context.
  [[nodiscard]] bool runs_like(const Engine& other) const noexcept;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

namespace detail {
/// Throws invalid_argument unless `more` tokens fit a context beside those held.
void check_room(std::int64_t context, std::int64_t held, std::int64_t more);
}  // namespace detail

}  // namespace bantam::inline v0
