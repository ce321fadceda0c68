// What a process takes beside weights, before it does.
#include "memory_bound.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "bantam/core/cpu.hpp"
#include "bantam/io/file.hpp"
#include "bantam/io/scratch_file.hpp"
#include "bantam/model/forward.hpp"
#include "bantam/model/residency.hpp"
#include "fit.hpp"

namespace bantam::cli {

namespace {

/// Code that is touched later, stacks of threads, what allocators hold back.
constexpr std::int64_t margin_bytes = std::int64_t{20} << 20;

/// What the process has in memory now: the program, and a tokenizer.
std::int64_t taken_bytes() {
  // Pages: of addresses, in memory, and more.
  const std::string pages = read_text_file("/proc/self/statm");
  return std::strtoll(pages.c_str() + std::min(pages.find(' '), pages.size()), nullptr, 10) * ::sysconf(_SC_PAGESIZE);
}

std::int64_t buffer_bytes(const ModelConfig& c, const TextRoom& texts, std::span<const ScaledAdapter> adapters) {
  // Tokens that see each other go through the layers together.
  const std::int64_t rows = c.arch->causal ? std::min(Forward::largest_chunk, texts.context * texts.sequences) : std::max(Forward::largest_chunk, texts.context);
  return rows * row_bytes(c, adapters) + 32 * c.vocab * static_cast<std::int64_t>(sizeof(float));
}

/// Buffers, vectors, and what comes later.
std::int64_t bytes_beside(const Checkpoint& checkpoint, const TextRoom& texts, std::span<const ScaledAdapter> adapters) {
  std::int64_t vectors = 0;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) vectors += tensor.is_matrix ? 0 : tensor.columns * static_cast<std::int64_t>(sizeof(float));
  return buffer_bytes(checkpoint.config(), texts, adapters) + 2 * vectors + margin_bytes;
}

/// Whether keys and values may go to a file where they would.
bool may_spill(const TextRoom& texts) {
  if (!texts.may_spill) return false;
  try {
    const ScratchFile file(ScratchFile::usual_folder(), "keys and values");
    return true;
  } catch (const Error&) {  // they stay in memory, or there is none
    return false;
  }
}

}  // namespace

std::int64_t row_bytes(const ModelConfig& c, std::span<const ScaledAdapter> adapters) {
  constexpr std::int64_t plain = sizeof(float), rounded = plain + 4;
  std::int64_t mixer = 0, ffn = c.ffn, experts = 0;
  for (std::int64_t i = 0; i < c.layers; ++i) {
    const LayerSpec& spec = c.layer(i);
    const std::int64_t heads = c.heads_of(i), keys = c.kv_heads_of(i);
    mixer = std::max(mixer, heads * (c.head_dim_of(spec) * 2 * plain + c.value_dim_of(spec) * (plain + rounded)) + 2 * keys * c.head_dim_of(spec) * plain);
    ffn = std::max(ffn, spec.ffn);
    experts = std::max(experts, c.router.used * (c.expert_dim() * (plain + rounded) + spec.expert_ffn * (plain + rounded)));
  }
  const std::int64_t recurrent = (2 * c.recurrent.channels + 2 * c.recurrent.value_heads * c.recurrent.value_dim) * rounded;
  // What is added to six products side by side, to the two of each of a token's experts, and to each head's, where it has matrices of its own.
  std::int64_t ranks = 0, widest = 6 + 2 * c.router.used;
  for (const ScaledAdapter& one : adapters) ranks += round_up<std::int64_t>(one.adapter.rank(), 16);
  if (c.kv_rank > 0) widest += c.heads;
  return c.dim * (3 * plain + 2 * rounded) + mixer + recurrent + ffn * (plain + rounded) + experts + 2 * c.layers * c.per_layer_dim * plain + widest * ranks * plain;
}

std::int64_t TextMemory::all(std::int64_t tokens) const noexcept {
  const std::int64_t states = recurrent_ == nullptr ? 0 : recurrent_->bytes_with(nn::RecurrentState::most_checkpoints);
  return states + (keys_ == nullptr ? 0 : keys_->cache().memory_bytes(tokens));
}

TextBytes TextMemory::bytes(std::int64_t tokens) const noexcept {
  const std::int64_t of_all = all(tokens);
  if (!causal_) return {of_all, of_all, of_all};
  const std::int64_t states = recurrent_ == nullptr ? 0 : recurrent_->bytes_with(1);
  const std::int64_t least = states + (keys_ == nullptr ? 0 : keys_->cache().least_bytes(tokens, Forward::largest_chunk));
  return {of_all, all(std::min(tokens, bounded_context)), std::min(of_all, least)};
}

std::int64_t TextMemory::stored(std::int64_t tokens, std::int64_t limit) const noexcept {
  const std::int64_t states = recurrent_ == nullptr ? 0 : recurrent_->bytes_with(1);
  return keys_ == nullptr ? 0 : keys_->cache().stored_bytes(tokens, limit - states);
}

std::optional<MemoryDivision> divide(std::int64_t room, std::int64_t all_weights, std::int64_t least_weights, const TextBytes& texts) noexcept {
  if (all_weights + texts.all <= room) return MemoryDivision{room - texts.all, 0};
  if (all_weights + texts.least <= room) return MemoryDivision{all_weights, room - all_weights};
  for (const std::int64_t share : {std::max(texts.usual, texts.least), texts.least}) {
    if (least_weights + share <= room) return MemoryDivision{room - share, share < texts.all ? share : 0};
  }
  return std::nullopt;
}

MemoryDivision divide_memory(const Checkpoint& checkpoint, const std::string& size, TextRoom texts, std::span<const ScaledAdapter> adapters) {
  const std::int64_t model_context = checkpoint.config().context, usual = std::min(model_context, bounded_context), taken = taken_bytes(), asked = texts.context;
  if (texts.context == 0) texts.context = usual;
  const std::int64_t weights = bytes_in_memory(checkpoint), beside = taken + bytes_beside(checkpoint, texts, adapters);
  const TextMemory text(checkpoint.config(), texts.kv);
  std::int64_t bound = 0;
  if (!size.empty()) {
    bound = parse_size("--memory", size);
  } else {
    const std::int64_t free = available_memory();
    bound = taken + free - free / 16;
    constexpr std::int64_t unbounded = std::numeric_limits<std::int64_t>::max();
    if (free == 0) return {.weights = unbounded};
    // Memory of a text is taken as it grows: long ones that may never come do not push out weights that fit.
    TextRoom short_texts = texts;
    short_texts.context = std::min(texts.context, usual);
    const std::int64_t left = bound - taken - bytes_beside(checkpoint, short_texts, adapters) - weights;
    if (text.all(short_texts.context) * texts.sequences <= left) {
      const std::int64_t longest = asked == 0 ? model_context : asked;
      const bool fits = text.all(longest) * texts.sequences <= bound - beside - weights;
      return {.weights = unbounded, .texts = !fits && may_spill(texts) ? bound - beside - weights : 0};
    }
  }
  TextBytes bytes = text.bytes(texts.context);
  for (std::int64_t* of_texts : {&bytes.all, &bytes.usual, &bytes.least}) *of_texts *= texts.sequences;
  if (beside + weights + bytes.all > bound && !may_spill(texts)) bytes.usual = bytes.least = bytes.all;
  if (beside + bytes.least >= bound) {
    fail(Errc::out_of_memory, "--memory: expected more than ", beside + bytes.least, " bytes, which the program, buffers and ", texts.context, " tokens take beside weights, found ", bound,
         size.empty() ? " free" : "");
  }
  // Where there is too little for weights, loading them says so.
  return divide(bound - beside, weights, residency_of(checkpoint, 0).least, bytes).value_or(MemoryDivision{.weights = bound - beside - bytes.least});
}

std::string description(const Model& model, const Residency& residency) {
  std::int64_t streamed = 0, cached = 0, experts = 0, with_experts = 0;
  for (std::size_t i = 0; i < residency.layers.size(); ++i) {
    streamed += residency.layers[i].streams;
    if (const std::int64_t of_layer = model.config().specs[i].experts; of_layer > 0) {
      ++with_experts;
      experts += of_layer;
      cached += residency.layers[i].cached_experts;
    }
  }
  std::string line = message(in_bytes(model.bytes()), " of weights, ", in_bytes(residency.resident_bytes()), " of them in memory");
  if (streamed > 0) line += message(": ", streamed, " of ", residency.layers.size(), " layers are read from the file for each pass");
  if (cached < experts) line += message(streamed > 0 ? ", and " : ": ", "experts beyond ", cached / with_experts, " of ", experts / with_experts, " a layer", streamed > 0 ? "" : " are read from the file");
  return line;
}

Json to_json(const StateStats& stats) {
  return {{"memory_bytes", stats.memory_bytes},
          {"file_bytes", stats.file_bytes},
          {"read_bytes", stats.read_bytes},
          {"read_gb_s", stats.read_seconds > 0 ? 1e-9 * static_cast<double>(stats.read_bytes) / stats.read_seconds : 0.0},
          {"waited_ms", 1000 * stats.waited_seconds}};
}

std::string statistics(const StateStats& stats) {
  std::string line = message("keys and values: ", in_bytes(stats.memory_bytes), " in memory");
  if (stats.file_bytes == 0) return line;
  line += message(", ", in_bytes(stats.file_bytes), " in a file");
  if (stats.read_bytes == 0) return line;
  return line + message(", ", in_bytes(stats.read_bytes), " read at ", fixed(1e-9 * static_cast<double>(stats.read_bytes) / stats.read_seconds, 2), " GB/s, waited ", fixed(stats.waited_seconds, 1), " s");
}

Json to_json(const StreamStats& stats) {
  return {{"resident_bytes", stats.resident_bytes},
          {"streamed_bytes", stats.streamed_bytes},
          {"expert_hits", stats.expert_hits},
          {"expert_misses", stats.expert_misses},
          {"read_gb_s", stats.read_seconds > 0 ? 1e-9 * static_cast<double>(stats.streamed_bytes) / stats.read_seconds : 0.0},
          {"waited_ms", 1000 * stats.waited_seconds}};
}

std::string statistics(const StreamStats& stats) {
  std::string line = message("weights: ", in_bytes(stats.resident_bytes), " in memory");
  if (stats.streamed_bytes == 0) return line;
  line += message(", ", in_bytes(stats.streamed_bytes), " read at ", fixed(1e-9 * static_cast<double>(stats.streamed_bytes) / stats.read_seconds, 2), " GB/s, waited ",
                  fixed(stats.waited_seconds, 1), " s");
  const std::int64_t experts = stats.expert_hits + stats.expert_misses;
  if (experts > 0) line += message(", ", fixed(100 * static_cast<double>(stats.expert_hits) / static_cast<double>(experts), 0), " % of experts were there");
  return line;
}

}  // namespace bantam::cli
