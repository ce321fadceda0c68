// What a process takes beside weights, before it does.
#include "memory_bound.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <numeric>

#include "bantam/core/cpu.hpp"
#include "bantam/io/file.hpp"
#include "bantam/model/forward.hpp"
#include "bantam/model/residency.hpp"
#include "bantam/nn/recurrent_state.hpp"
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
  const std::int64_t rows = c.arch->causal && !c.has_source() ? std::min(Forward::largest_chunk, texts.context * texts.sequences) : std::max(Forward::largest_chunk, texts.context);
  return rows * row_bytes(c, adapters) + 32 * c.vocab * static_cast<std::int64_t>(sizeof(float));
}

/// Keys, values and states of the texts, buffers, vectors, and what comes later.
std::int64_t bytes_beside_weights(const Checkpoint& checkpoint, const TextRoom& texts, std::span<const ScaledAdapter> adapters) {
  const ModelConfig& config = checkpoint.config();
  nn::SequenceState state = config.new_state(texts.kv);
  const auto* recurrent = state.find<nn::RecurrentState>();
  // Pages of keys and values hold 64 tokens.
  const std::int64_t tokens = (texts.context + 63) / 64 * 64;
  const std::int64_t of_source = config.has_source() ? config.new_source(texts.kv).bytes_per_token() * tokens : 0;
  const std::int64_t of_text = state.bytes_per_token() * tokens + of_source + (recurrent != nullptr ? recurrent->least_bytes() : 0);
  std::int64_t vectors = 0;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) vectors += tensor.is_matrix ? 0 : tensor.columns * static_cast<std::int64_t>(sizeof(float));
  return of_text * texts.sequences + buffer_bytes(config, texts, adapters) + 2 * vectors + margin_bytes;
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

std::vector<std::int64_t> rooms_for_weights(std::span<ModelToLoad> models, const std::string& size) {
  const std::int64_t taken = taken_bytes();
  std::int64_t others = taken, others_of_short_texts = taken, weights = 0, tokens = 0;
  for (ModelToLoad& model : models) {
    const std::int64_t usual = std::min(model.checkpoint.config().context, bounded_context);
    if (model.texts.context == 0) model.texts.context = usual;
    TextRoom short_texts = model.texts;
    short_texts.context = std::min(model.texts.context, usual);
    others += bytes_beside_weights(model.checkpoint, model.texts, model.adapters);
    others_of_short_texts += bytes_beside_weights(model.checkpoint, short_texts, model.adapters);
    weights += bytes_in_memory(model.checkpoint);
    tokens = std::max(tokens, model.texts.context);
  }
  std::vector<std::int64_t> rooms(models.size(), std::numeric_limits<std::int64_t>::max());
  std::int64_t bound = 0;
  if (!size.empty()) {
    bound = parse_size("--memory", size);
  } else {
    const std::int64_t free = available_memory();
    bound = taken + free - free / 16;
    // Memory of a text is taken as it grows: long ones that may never come do not push out weights that fit.
    if (free == 0 || others_of_short_texts + weights <= bound) return rooms;
  }
  if (others >= bound) {
    fail(Errc::out_of_memory, "--memory: expected more than ", others, " bytes, which the program, buffers and ", tokens, " tokens take beside weights, found ", bound, size.empty() ? " free" : "");
  }
  // The smaller first: what it leaves of its share is the other's.
  std::vector<std::size_t> order(models.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return bytes_in_memory(models[i].checkpoint); });
  std::int64_t room = bound - others, left = std::ssize(models);
  for (const std::size_t i : order) {
    rooms[i] = left == 1 ? room : std::min(bytes_in_memory(models[i].checkpoint), room / left);
    room -= rooms[i];
    --left;
  }
  return rooms;
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
  std::vector<std::string> in_file;
  if (streamed > 0) in_file.push_back(message(streamed, " of ", residency.layers.size(), " layers are read from the file for each pass"));
  if (cached < experts) in_file.push_back(message("experts beyond ", cached / with_experts, " of ", experts / with_experts, " a layer are read when they are wanted"));
  if (residency.table_bytes > 0) in_file.push_back(message("rows of ", in_bytes(residency.table_bytes), " of tables are looked up"));
  for (std::size_t i = 0; i < in_file.size(); ++i) line += (i == 0 ? ": " : i + 1 == in_file.size() ? ", and " : ", ") + in_file[i];
  return line;
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
