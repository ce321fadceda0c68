// What a process takes beside weights, before it does.
#include "memory_bound.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <set>

#include "bantam/core/cpu.hpp"
#include "bantam/core/memory.hpp"
#include "bantam/io/file.hpp"
#include "bantam/io/scratch_file.hpp"
#include "bantam/model/forward.hpp"
#include "bantam/model/pass_bytes.hpp"
#include "bantam/model/residency.hpp"
#include "fit.hpp"

namespace bantam::cli {

namespace {

/// Code that is touched later, stacks of threads, what allocators hold back.
constexpr std::int64_t margin_bytes = std::int64_t{20} << 20;

std::int64_t buffer_bytes(const Checkpoint& checkpoint, const TextRoom& texts, std::span<const ScaledAdapter> adapters) {
  const ModelConfig& c = checkpoint.config();
  // Tokens that see each other go through the layers together.
  const std::int64_t rows = c.arch->causal && !c.has_source() ? std::min(Forward::largest_chunk, texts.context * texts.sequences) : std::max(Forward::largest_chunk, texts.context);
  PassRoom room{.context = texts.context, .workers = usable_processors()};
  for (const ScaledAdapter& one : adapters) room.ranks += round_up<std::int64_t>(one.adapter.rank(), 16);
  std::set<int> forms;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    if (!tensor.is_matrix) continue;
    if (!tensor.format().is_float) forms.insert(tensor.format().activation_block);
    room.has_orders = room.has_orders || tensor.order() != nullptr;
  }
  room.forms = static_cast<int>(forms.size());
  const std::int64_t own = pass_bytes(c, room).of(rows);
  if (!texts.drafts || c.drafting.empty()) return own;
  // The layer that drafts has buffers of its own, reads rows of two states side by side, and waits with as many.
  constexpr std::int64_t plain = sizeof(float), rounded = plain + 4;
  room.ranks = 0;
  return own + pass_bytes(c.drafter(), room).of(rows) + rows * c.dim * (2 * (plain + rounded) + 2 * plain);
}

/// Buffers, vectors, and what comes later.
std::int64_t bytes_beside(const Checkpoint& checkpoint, const TextRoom& texts, std::span<const ScaledAdapter> adapters) {
  std::int64_t vectors = 0;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) vectors += tensor.is_matrix ? 0 : tensor.columns * static_cast<std::int64_t>(sizeof(float));
  return buffer_bytes(checkpoint, texts, adapters) + 2 * vectors + margin_bytes;
}

/// Whether there can be a file for keys and values. Where not, they stay in memory.
bool can_spill() {
  try {
    const ScratchFile file(ScratchFile::usual_folder(), "keys and values");
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// What a model, its texts and everything beside them ask for.
struct Wanted {
  std::int64_t beside = 0, beside_short = 0;  ///< the second with texts of bounded_context tokens at most
  std::int64_t weights = 0, least_weights = 0;
  TextBytes texts = {};
  std::int64_t short_texts = 0, longest_texts = 0;  ///< of bounded_context tokens at most; as long as they may get
  bool may_spill = true;
};

/// Says how long texts are, where nobody has.
Wanted wanted_by(ModelToLoad& model) {
  const ModelConfig& config = model.checkpoint.config();
  TextRoom& texts = model.texts;
  const std::int64_t usual = std::min(config.context, bounded_context), longest = texts.context == 0 ? config.context : texts.context;
  if (texts.context == 0) texts.context = usual;
  TextRoom short_texts = texts;
  short_texts.context = std::min(texts.context, usual);
  const TextMemory text(config, texts.kv, texts.drafts);
  const TextBytes each = text.bytes(texts.context);
  return {.beside = bytes_beside(model.checkpoint, texts, model.adapters),
          .beside_short = bytes_beside(model.checkpoint, short_texts, model.adapters),
          .weights = residency_with_room(model.checkpoint).pinned_bytes,
          .least_weights = residency_of(model.checkpoint, 0).least,
          .texts = {each.all * texts.sequences, each.usual * texts.sequences, each.least * texts.sequences},
          .short_texts = text.bytes(short_texts.context).all * texts.sequences,
          .longest_texts = text.bytes(longest).all * texts.sequences,
          .may_spill = texts.may_spill};
}

Wanted sum_of(std::span<const Wanted> all) {
  Wanted sum;
  for (const Wanted& one : all) {
    for (std::int64_t Wanted::* of : {&Wanted::beside, &Wanted::beside_short, &Wanted::weights, &Wanted::least_weights, &Wanted::short_texts, &Wanted::longest_texts}) sum.*of += one.*of;
    for (std::int64_t TextBytes::* of : {&TextBytes::all, &TextBytes::usual, &TextBytes::least}) sum.texts.*of += one.texts.*of;
    sum.may_spill = sum.may_spill && one.may_spill;
  }
  return sum;
}

/// To each model its part of what all of them have.
std::vector<MemoryDivision> share_out(const MemoryDivision& whole, std::span<const Wanted> wanted, const TextBytes& texts) {
  std::vector<MemoryDivision> division(wanted.size());
  for (std::size_t i = 0; whole.texts > 0 && i < wanted.size(); ++i) {
    const TextBytes& own = wanted[i].texts;
    const double share = static_cast<double>(own.all - own.least) / static_cast<double>(std::max<std::int64_t>(1, texts.all - texts.least));
    division[i].texts = std::max<std::int64_t>(1, own.least + static_cast<std::int64_t>(share * static_cast<double>(whole.texts - texts.least)));
  }
  // The smaller first: what it leaves of its share is the other's.
  std::vector<std::size_t> order(wanted.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return wanted[i].weights; });
  std::int64_t room = whole.weights, left = std::ssize(wanted);
  for (const std::size_t i : order) {
    division[i].weights = left == 1 ? room : std::min(wanted[i].weights, room / left);
    room -= division[i].weights;
    --left;
  }
  return division;
}

}  // namespace

std::int64_t taken_bytes() {
  // Pages: of addresses, in memory, and more.
  const std::string pages = read_text_file("/proc/self/statm");
  return std::strtoll(pages.c_str() + std::min(pages.find(' '), pages.size()), nullptr, 10) * ::sysconf(_SC_PAGESIZE);
}

std::int64_t TextMemory::kept(std::int64_t tokens, std::int64_t checkpoints) const noexcept {
  return (recurrent_ == nullptr ? 0 : recurrent_->bytes_with(checkpoints)) + (source_ ? source_->memory_bytes(tokens) : 0);
}

std::int64_t TextMemory::all(std::int64_t tokens) const noexcept {
  std::int64_t sum = kept(tokens, nn::RecurrentState::most_checkpoints);
  for (const nn::KvState* keys : keys()) sum += keys == nullptr ? 0 : keys->cache().memory_bytes(tokens);
  return sum;
}

TextBytes TextMemory::bytes(std::int64_t tokens) const noexcept {
  const std::int64_t of_all = all(tokens);
  if (!causal_ || source_) return {of_all, of_all, of_all};
  std::int64_t least = kept(tokens, 1);
  for (const nn::KvState* keys : keys()) least += keys == nullptr ? 0 : keys->cache().least_bytes(tokens, Forward::largest_chunk);
  return {of_all, all(std::min(tokens, bounded_context)), std::min(of_all, least)};
}

std::int64_t TextMemory::stored(std::int64_t tokens, std::int64_t limit) const noexcept {
  return keys_ == nullptr ? 0 : keys_->cache().stored_bytes(tokens, limit - kept(tokens, 1));
}

std::optional<MemoryDivision> divide(std::int64_t room, std::int64_t all_weights, std::int64_t least_weights, const TextBytes& texts) noexcept {
  if (all_weights + texts.all <= room) return MemoryDivision{room - texts.all, 0};
  if (all_weights + texts.least <= room) return MemoryDivision{all_weights, room - all_weights};
  for (const std::int64_t share : {std::max(texts.usual, texts.least), texts.least}) {
    if (least_weights + share <= room) return MemoryDivision{room - share, share < texts.all ? share : 0};
  }
  return std::nullopt;
}

std::int64_t whole_bytes(ModelToLoad& model, const std::string& size) {
  const Wanted wanted = wanted_by(model);
  return wanted.weights + (size.empty() ? wanted.beside_short + wanted.short_texts : wanted.beside + wanted.texts.all);
}

std::int64_t bound_bytes(const std::string& size) {
  if (!size.empty()) return parse_size("--memory", size);
  const std::int64_t free = available_memory();
  return free == 0 ? std::numeric_limits<std::int64_t>::max() : taken_bytes() + free - free / 16;
}

std::vector<MemoryDivision> divide_memory(std::span<ModelToLoad> models, const std::string& size, std::int64_t taken) {
  std::vector<Wanted> wanted;
  std::int64_t tokens = 0;
  for (ModelToLoad& model : models) {
    wanted.push_back(wanted_by(model));
    tokens = std::max(tokens, model.texts.context);
  }
  Wanted sum = sum_of(wanted);
  constexpr std::int64_t unbounded = std::numeric_limits<std::int64_t>::max();
  const std::int64_t bound = bound_bytes(size);
  if (size.empty()) {
    // Memory of a text is taken as it grows: long ones that may never come do not push out weights that fit.
    if (taken + sum.beside_short + sum.short_texts + sum.weights <= bound) {
      const std::int64_t room = bound - taken - sum.beside - sum.weights;
      const bool spills = bound != unbounded && sum.longest_texts > room && sum.may_spill && can_spill();
      std::vector<MemoryDivision> division = share_out({.weights = unbounded, .texts = spills ? std::max<std::int64_t>(1, room) : 0}, wanted, sum.texts);
      for (MemoryDivision& one : division) one.weights = unbounded;
      return division;
    }
  }
  const std::int64_t room = bound - taken - sum.beside;
  if (sum.weights + sum.texts.all > room && !(sum.may_spill && can_spill())) sum.texts.usual = sum.texts.least = sum.texts.all;
  if (sum.texts.least >= room) {
    fail(Errc::out_of_memory, "--memory: expected more than ", bound - room + sum.texts.least, " bytes, which the program, buffers and ", tokens, " tokens take beside weights, found ", bound,
         size.empty() ? " free" : "");
  }
  // Where there is too little for weights, loading them says so.
  return share_out(divide(room, sum.weights, sum.least_weights, sum.texts).value_or(MemoryDivision{.weights = room - sum.texts.least}), wanted, sum.texts);
}

std::string description(const Model& model, const Residency& residency) {
  std::int64_t streamed = 0, cached = 0, experts = 0, with_experts = 0;
  for (std::size_t i = 0; i < residency.layers.size(); ++i) {
    streamed += residency.layers[i].streams();
    if (const std::int64_t of_layer = model.config().specs[i].experts; of_layer > 0) {
      ++with_experts;
      experts += of_layer;
      cached += residency.layers[i].cached_experts == 0 ? of_layer : residency.layers[i].cached_experts;
    }
  }
  std::string line = message(in_bytes(model.bytes()), " of weights, ", in_bytes(residency.resident_bytes()), " of them in memory");
  std::vector<std::string> in_file;
  if (streamed > 0) in_file.push_back(message("matrices of ", streamed, " of ", residency.layers.size(), " layers are read from the file for each pass"));
  if (cached < experts) in_file.push_back(message("experts beyond ", cached / with_experts, " of ", experts / with_experts, " a layer are read when they are wanted"));
  if (residency.table_bytes > 0) in_file.push_back(message("rows of ", in_bytes(residency.table_bytes), " of tables are looked up"));
  for (std::size_t i = 0; i < in_file.size(); ++i) line += (i == 0 ? ": " : i + 1 == in_file.size() ? ", and " : ", ") + in_file[i];
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
