// --memory: what a process may take, divided between weights and everything else.
#pragma once

#include <algorithm>
#include <array>
#include <optional>

#include "bantam/nn/kv_state.hpp"
#include "bantam/nn/recurrent_state.hpp"
#include "options.hpp"
#include "output.hpp"

namespace bantam::cli {

/// Bytes of texts: of all that may come, of a usual one of bounded_context tokens, and the least that has to be in memory where a file has the rest.
struct TextBytes {
  std::int64_t all = 0, usual = 0, least = 0;
};
/// Keys, values and recurrent states of a text, in bytes.
class TextMemory {
 public:
  /// drafts: the layer of the model that drafts, where it has one, reads the text, too.
  TextMemory(const ModelConfig& config, const std::string& kv, bool drafts = false)
      : state_(config.new_state(kv)), keys_(state_.find<nn::KvState>()), recurrent_(state_.find<nn::RecurrentState>()), causal_(config.arch->causal) {
    if (config.has_source()) source_.emplace(config.new_source(kv));
    if (!drafts || config.drafting.empty()) return;
    drafting_.emplace(config.drafter().new_state(kv));
    drafting_keys_ = drafting_->find<nn::KvState>();
  }
  /// All of a text of so many tokens.
  [[nodiscard]] std::int64_t all(std::int64_t tokens) const noexcept;
  /// Encoders, and decoders behind them, keep all of it in memory.
  [[nodiscard]] TextBytes bytes(std::int64_t tokens) const noexcept;
  /// Keys and values in the file, where memory has `limit` for all of it; a token at the end of the text reads them.
  [[nodiscard]] std::int64_t stored(std::int64_t tokens, std::int64_t limit) const noexcept;

 private:
  /// What stays in memory beside keys and values of the text: states, with so many checkpoints, and keys and values of a source as long.
  [[nodiscard]] std::int64_t kept(std::int64_t tokens, std::int64_t checkpoints) const noexcept;
  /// Keys and values of the text, and those of the layer that drafts; null where there are none.
  [[nodiscard]] std::array<const nn::KvState*, 2> keys() const noexcept { return {keys_, drafting_keys_}; }

  nn::SequenceState state_;
  const nn::KvState* keys_;
  const nn::RecurrentState* recurrent_;
  std::optional<nn::KvCache> source_;
  std::optional<nn::SequenceState> drafting_;
  const nn::KvState* drafting_keys_ = nullptr;
  bool causal_;
};

/// What a model and its texts may take.
struct MemoryDivision {
  std::int64_t weights = 0;  ///< LoadOptions::memory_limit
  std::int64_t texts = 0;    ///< of all of them together, with older keys and values in a file; 0: all of each is in memory
};
/// Divides what is left beside everything else. Weights stay in memory where the least of the texts fits beside them, for every token reads them;
/// else texts have what usual ones take, or where that is too much the least, and weights the rest. Nothing: not even the least of both fits.
[[nodiscard]] std::optional<MemoryDivision> divide(std::int64_t room, std::int64_t all_weights, std::int64_t least_weights, const TextBytes& texts) noexcept;

/// A model that a process is about to load.
struct ModelToLoad {
  const Checkpoint& checkpoint;
  TextRoom texts;
  std::span<const ScaledAdapter> adapters = {};  ///< in memory already
};
/// What the process has in memory now: the program, a tokenizer, and models that are loaded.
[[nodiscard]] std::int64_t taken_bytes();
/// What a process may take in all: --memory's SIZE, or where that is empty what it has and the system has left for it, less a sixteenth of that.
[[nodiscard]] std::int64_t bound_bytes(const std::string& size);
/// What a model takes that is in memory whole, with buffers and all of its texts; with no SIZE, where memory of texts is taken as they grow, texts of
/// bounded_context tokens.
[[nodiscard]] std::int64_t whole_bytes(ModelToLoad& model, const std::string& size);
/// Divides bound_bytes() but for what is taken. The smaller of two models is in memory whole, if that leaves the other half of the room. Throws Error
/// where nothing is left.
[[nodiscard]] std::vector<MemoryDivision> divide_memory(std::span<ModelToLoad> models, const std::string& size, std::int64_t taken);
/// "18.5 GB of weights, 12.0 GB of them in memory: experts beyond 12 of 128 a layer are read when they are wanted, and rows of 0.2 GB of tables are
/// looked up"
[[nodiscard]] std::string description(const Model& model, const Residency& residency);

/// {memory_bytes, file_bytes, read_bytes, read_gb_s, waited_ms}
[[nodiscard]] Json to_json(const StateStats& stats);
/// "keys and values: 1.20 GB in memory, 3.45 GB in a file, 34.56 GB read at 2.1 GB/s, waited 12.3 s"
[[nodiscard]] std::string statistics(const StateStats& stats);
/// {resident_bytes, streamed_bytes, expert_hits, expert_misses, read_gb_s, waited_ms}
[[nodiscard]] Json to_json(const StreamStats& stats);
/// "weights: 1.20 GB in memory, 34.56 GB read at 2.1 GB/s, waited 12.3 s, 81 % of experts were there"
[[nodiscard]] std::string statistics(const StreamStats& stats);

}  // namespace bantam::cli
