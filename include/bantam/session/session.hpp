// A conversation with a model: what it has read, and text streaming out of it.
#pragma once

#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bantam/grammar/grammar.hpp"
#include "bantam/model/engine.hpp"
#include "bantam/session/sampler.hpp"

namespace bantam::inline v0 {

/// Called while several tokens are read, many times and on the thread that reads, with (tokens read, tokens to read);
/// false cancels. The last call has both equal, and its answer is not asked for.
using ReadProgress = std::function<bool(std::int64_t, std::int64_t)>;

struct SessionOptions {
  std::int64_t context = 0;  ///< most tokens the session may hold; 0: the engine's, which without one given is the model's
  int threads = 0;           ///< of an engine of its own; 0: the physical cores that the process may use
  std::string kv = "f16";    ///< keys and values as "f32", "f16", "q8", "q4" or "q3"
  ReadProgress progress = {};
  std::vector<ScaledAdapter> adapters = {};  ///< as Session::set_adapters() takes them
  StateMemory memory = {};   ///< for keys, values and recurrent states, of the session and each fork of it
};

/// Keys, values and recurrent states of a session, and the file of those that are not in memory, which sessions of one engine share.
struct StateStats {
  std::int64_t memory_bytes = 0;
  std::int64_t file_bytes = 0;  ///< of this session's keys and values in the file
  std::int64_t read_bytes = 0;  ///< of the file, since it was made
  double read_seconds = 0;      ///< while something was read
  double waited_seconds = 0;    ///< while inference waited for it
};

class Session;

/// What one of several sessions is to read.
struct Prompt {
  Session* session = nullptr;
  std::span<const TokenId> tokens;
};

/// Guesses of the next tokens that are checked together, in one pass over the weights. The text is exactly what it is
/// without them, also when sampled; only the speed differs. As many are checked as pay, by what passes and guesses were
/// seen to cost and to bring.
struct Speculation {
  int lookup = 0;            ///< guess up to this many (16 at most) from where the last tokens stood before; 0: off
  /// Guess up to this many (16 at most) by the layer that the model has for it, where lookup does not: multi-token prediction of
  /// Qwen3.5, GLM-4.5 and DeepSeek V3 (arXiv:2412.19437, 2.2). Refused for models without such a layer; 0: off.
  int mtp = 0;
  Session* draft = nullptr;  ///< a session of a smaller model of the same vocabulary, which guesses where the others do
                             ///< not; it is borrowed, and follows this one
};

/// Looks at a token that is to be drawn: every token of the session so far, and the logits (vocab), which it may change.
/// False ends the generation as a stop text does.
using LogitsProcessor = std::function<bool(std::span<const TokenId> tokens, std::span<float> logits)>;

struct GenerateOptions {
  std::int64_t max_tokens = 256;  ///< -1: until the model ends or the context is full
  Sampling sampling = {};
  std::vector<std::string> stop = {};  ///< texts that end the generation; they are not part of it
  bool ignore_end = false;             ///< go on after the model's end token (benchmarks)
  std::vector<TokenId> end_tokens = {};  ///< end the generation as the model's own do, whatever ignore_end says
  std::int64_t min_tokens = 0;         ///< before so many none of these may come, unless nothing else may
  std::vector<TokenId> spell = {};     ///< special tokens that stand in the text as they are spelled: reply_tokens()
  Speculation speculation = {};
  /// What may be generated: the text is one of the grammar's, or the beginning of one where max_tokens cut it off, and ends where nothing
  /// may follow. Tokens that may not come are left out before anything else of sampling, so that the others keep their proportions.
  std::optional<TokenGrammar> grammar = {};
  LogitsProcessor process = {};  ///< called before the grammar and the sampler, on the thread that generates; what it throws comes out
};

/// Why a generation ended.
enum class Finish : std::uint8_t { running, stop, length, cancelled };

/// "stop", "length", ...
[[nodiscard]] std::string_view to_string(Finish finish) noexcept;

struct SessionStats {
  std::int64_t prompt_tokens = 0;
  std::int64_t generated_tokens = 0;
  double prompt_ms = 0;
  double generate_ms = 0;
  double tokens_per_second = 0;  ///< generated tokens over generate_ms
  std::int64_t guessed_tokens = 0;  ///< by speculation
  std::int64_t right_guesses = 0;
};

/// Text as it is generated: a single-pass range of pieces, each valid UTF-8. Every step of the iterator computes one
/// or more tokens; leaving the loop computes no further one, and the session stays usable. Borrows its session.
class TextRange {
 public:
  class Iterator {
   public:
    using iterator_concept = std::input_iterator_tag;
    using value_type = std::string_view;
    using difference_type = std::ptrdiff_t;
    Iterator() = default;
    explicit Iterator(TextRange* range) : range_(range) {}
    [[nodiscard]] std::string_view operator*() const { return range_->piece_; }
    Iterator& operator++() {
      range_->advance();
      return *this;
    }
    void operator++(int) { range_->advance(); }
    [[nodiscard]] bool operator==(std::default_sentinel_t) const { return range_->done_; }

   private:
    TextRange* range_ = nullptr;
  };

  TextRange(TextRange&&) noexcept = default;
  TextRange& operator=(TextRange&&) noexcept = default;

  /// Starts (or goes on with) the generation.
  [[nodiscard]] Iterator begin();
  [[nodiscard]] std::default_sentinel_t end() const { return {}; }
  /// The next piece, until the next call; none at the end. What a step of the iterator gives, for callers without a loop.
  [[nodiscard]] std::optional<std::string_view> next();
  /// Runs to the end and returns everything.
  [[nodiscard]] std::string text();

  [[nodiscard]] const SessionStats& stats() const noexcept { return stats_; }
  [[nodiscard]] Finish finish() const noexcept { return finish_; }
  /// The tokens generated so far, the end token left out.
  [[nodiscard]] const std::vector<TokenId>& tokens() const noexcept { return tokens_; }
  /// The stop text that ended it; empty where none did.
  [[nodiscard]] const std::string& stop_text() const noexcept { return stop_text_; }
  /// What the last step added; may be empty while a character or a stop text is incomplete.
  [[nodiscard]] std::string_view piece() const noexcept { return piece_; }

 private:
  friend class Session;
  friend class Scheduler;
  friend std::size_t advance(std::span<TextRange* const> generations);
  TextRange(Session& session, GenerateOptions options);
  void advance();
  void step();
  [[nodiscard]] bool at_limit() const;
  [[nodiscard]] bool speculate();
  /// How many guesses of what follows may be checked now.
  [[nodiscard]] int guess_room() const;
  void keep_allowed(std::vector<TokenId>& guesses);
  void confirm(int kind, std::span<const TokenId> guesses, std::span<const float> logits, FunctionRef<void(std::span<const float>)> drawn);
  bool choose(std::span<const float> logits);
  static void choose_all(std::span<TextRange* const> ranges);
  void finish(Finish why);
  void count_time(double seconds);
  void hold_back_stop_prefix();

  Session* session_;
  GenerateOptions options_;
  TextStream stream_;
  std::vector<TokenId> tokens_;
  std::vector<float> processed_;  ///< logits that options_.process may change
  std::string ready_;  ///< decoded, not yet handed out: may be the beginning of a stop text
  std::string piece_;
  std::string stop_text_;
  SessionStats stats_;
  Finish finish_ = Finish::running;
  bool started_ = false;
  bool done_ = false;
};

/// One more token for each of several generations that are still running, in one pass over the weights: batched
/// decoding. Their pieces are in piece(). Returns how many are still running. The sessions are different ones on one engine,
/// or on engines of one model and of equal context, whose first runs the pass, or invalid_argument; each generation is what it would
/// be alone. Speculation plays no part.
std::size_t advance(std::span<TextRange* const> generations);
std::size_t advance(std::span<TextRange> generations);

/// One sequence of tokens with its state, on an engine: its own, or one that sessions share. In a model with an encoder before its decoder
/// (T5, BART) the first tokens that a session is given are what the encoder reads, whole; those that follow are the decoder's, behind the one
/// that it begins with. clear() forgets both, truncate() the decoder's. For one thread at a time; sessions on
/// one engine may be on different threads, and then take turns. What is called back while they read must not use their engine.
class Session {
 public:
  /// With an engine of its own. Throws invalid_argument for options out of range.
  explicit Session(Model model, SessionOptions options = {});
  /// On an engine that is shared. Throws invalid_argument for a context above the engine's, and for threads.
  explicit Session(Engine engine, SessionOptions options = {});
  ~Session();
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;

  /// The tokens of a text behind what the session holds: what the tokenizer adds in front (BOS) is there for the first alone.
  [[nodiscard]] std::vector<TokenId> encode(std::string_view text, EncodeOptions options = {}) const;

  /// Reads text without generating. BOS is added in front of the first text of a session as the tokenizer says.
  /// Throws invalid_argument when the context is too small and cancelled when options.progress said so, leaving the
  /// session as it was.
  void prefill(std::string_view text, EncodeOptions encode = {});
  void prefill(std::span<const TokenId> tokens);

  /// Reads `prompt` and generates from it. The prompt may be empty when the session holds tokens already: text goes on
  /// where it stood, and with the sampler where it stood, if the previous generation was resumed by resume().
  [[nodiscard]] TextRange stream(std::string_view prompt, GenerateOptions options = {}, EncodeOptions encode = {});
  [[nodiscard]] TextRange stream(std::span<const TokenId> prompt, GenerateOptions options = {});
  /// Generates from these tokens, whatever the session holds: of the longest common beginning nothing is read again, the rest
  /// is forgotten. What throws leaves the session as it was.
  [[nodiscard]] TextRange stream_whole(std::span<const TokenId> tokens, GenerateOptions options = {});
  /// Renders messages by the model's chat template, reads them and generates the reply. Only messages since the last
  /// call are given; the session remembers the others.
  [[nodiscard]] TextRange chat(std::vector<ChatMessage> messages, GenerateOptions options = {});
  /// The same of the whole conversation so far, as JSON in the shape of OpenAI's API (chat_prompt_json()): tools, tool calls,
  /// parts. What the session holds of it already is not read again.
  [[nodiscard]] TextRange chat_json(std::string_view conversation, GenerateOptions options = {});
  /// Goes on generating with the random numbers and penalties of the last generation: the text is what an
  /// uninterrupted one would have been. options.sampling must be that of the last generation.
  [[nodiscard]] TextRange resume(GenerateOptions options);

  /// Logits of the next token, (vocab). Throws invalid_argument on an empty session.
  [[nodiscard]] std::span<const float> logits();
  /// Reads tokens and hands out the logits after each of them: sink(index, logits).
  void score(std::span<const TokenId> tokens, FunctionRef<void(std::int64_t, std::span<const float>)> sink);
  /// Reads tokens and hands out the hidden state (dim) after each of them, as the head would read it: sink(index, state).
  void states(std::span<const TokenId> tokens, FunctionRef<void(std::int64_t, std::span<const float>)> sink);

  /// A session of its own with the same past; pages of keys and values are shared until one of them writes, those in a file for good. It is on the same
  /// engine where that was given, else on one of its own, so that both may run at once.
  [[nodiscard]] Session fork() const;
  /// Writes tokens, keys and values, and the state of the last generation to a file; complete or absent.
  void save(const std::filesystem::path& path) const;
  /// The same bytes to whatever takes them, front to back in pieces.
  void save_to(FunctionRef<void(std::span<const std::byte>)> sink) const;
  /// The inverse. Throws corrupt for bytes that save() did not write, invalid_argument for another model's, and for other adapters than those
  /// in the options.
  [[nodiscard]] static Session restore(Model model, const std::filesystem::path& path, SessionOptions options = {});
  [[nodiscard]] static Session restore(Model model, std::span<const std::byte> bytes, SessionOptions options = {});
  [[nodiscard]] static Session restore(Engine engine, const std::filesystem::path& path, SessionOptions options = {});
  [[nodiscard]] static Session restore(Engine engine, std::span<const std::byte> bytes, SessionOptions options = {});
  /// Forgets everything.
  void clear();
  /// Forgets all tokens but the first `count`. Throws invalid_argument when there are fewer.
  void truncate(std::int64_t count);
  /// Forgets tokens first .. last; those behind take their places, their keys turned to their new positions: what lets a
  /// text go on when its context is full. Values, and what is in front of `first`, stay bit for bit; keys are turned in f32
  /// and rounded again as `kv` says, so that each removal costs f16 and narrower kinds as much as storing once more. What
  /// is left has seen what went: only removing from the end gives what a session has that never read it. Throws
  /// invalid_argument for a range outside of the tokens held, unsupported for encoders, out_of_memory, leaving the session as it was.
  void remove(std::int64_t first, std::int64_t last);
  /// What is added to the model's matrices for this session alone, in this order; sessions of one pass may differ in it. What the session
  /// holds is read again with it when it goes on: nothing that others made is ever used. Throws invalid_argument for adapters of models of
  /// other shapes, leaving the session as it was.
  void set_adapters(std::vector<ScaledAdapter> adapters);
  [[nodiscard]] std::span<const ScaledAdapter> adapters() const noexcept;
  /// Replaces SessionOptions::progress.
  void set_progress(ReadProgress progress);

  [[nodiscard]] const Engine& engine() const noexcept;
  [[nodiscard]] const Model& model() const noexcept;
  /// Every token read or generated; of a model with an encoder before its decoder those of the decoder, its first included.
  [[nodiscard]] const std::vector<TokenId>& tokens() const noexcept;
  /// What the encoder of such a model has read, or is to read; nothing in others.
  [[nodiscard]] std::span<const TokenId> source() const noexcept;
  [[nodiscard]] std::int64_t context() const noexcept;
  /// Memory for keys, values and recurrent states, those of the layer that drafts among them.
  [[nodiscard]] std::int64_t kv_bytes() const noexcept;
  [[nodiscard]] StateStats state_stats() const;
  [[nodiscard]] int threads() const noexcept;

 private:
  friend class TextRange;
  friend class Scheduler;
  friend std::size_t advance(std::span<TextRange* const> generations);
  friend void prefill(std::span<const Prompt> prompts);
  struct State;
  explicit Session(std::unique_ptr<State> state);
  [[nodiscard]] TextRange stream_source(std::span<const TokenId> tokens, GenerateOptions options);
  [[nodiscard]] TextRange answer(const std::string& conversation, GenerateOptions options);
  class Saved;
  static Session restore_file(std::unique_ptr<State> state, const std::filesystem::path& path);
  static Session restore_bytes(std::unique_ptr<State> state, std::span<const std::byte> bytes);
  static Session restore_from(std::unique_ptr<State> state, const Saved& saved);
  std::unique_ptr<State> state_;
};

/// Reads prompts of several sessions together, in as few passes over the weights as their tokens need: what each then holds is
/// what Session::prefill() gives, bit for bit. The sessions are different ones, on engines as for advance(). Throws as that does, and
/// leaves all of them as they were.
void prefill(std::span<const Prompt> prompts);

}  // namespace bantam::inline v0
