// `bantam plan`: whether a model fits and how fast it will be, from its header or its config alone.

#include <cmath>
#include <limits>

#include "bantam/compress/footprint.hpp"
#include "bantam/core/cpu.hpp"
#include "bantam/io/file.hpp"
#include "bantam/model/forward.hpp"
#include "bantam/model/locate.hpp"
#include "bantam/model/residency.hpp"
#include "bantam/model/streamed_blocks.hpp"
#include "bantam/session/machine.hpp"
#include "fit.hpp"
#include "memory_bound.hpp"
#include "options.hpp"
#include "output.hpp"
#include "progress.hpp"
#include "timeline.hpp"
#include "verbs.hpp"

namespace bantam::cli {

namespace {

struct PlanOptions {
  CommonOptions common;
  std::string model, format, memory, svg;
  std::string kv = "f16";
  std::int64_t context = 0;
  float read_gb_s = 0, int8_gop_s = 0, disk_gb_s = 0;
};

/// Shares of the machine's limits that models of real shapes were measured to reach (docs/numbers.md).
constexpr double decode_share = 0.88, prompt_share = 0.55, prompt_share_of_experts = 0.42;
/// A product of floats takes as long as so many of int8.
constexpr double float_cost = 4;
/// Activations, a pass's buffers and the program itself, as measured with models of 1 to 30 billion parameters.
constexpr std::int64_t program_bytes = std::int64_t{192} << 20;

struct Machine {
  std::int64_t memory_bytes;
  double read_gb_s, int8_gop_s;
  StreamingRate disk = {};
};

Machine machine_of(const PlanOptions& o, const Checkpoint& checkpoint) {
  Machine m{.memory_bytes = available_memory(), .read_gb_s = o.read_gb_s, .int8_gop_s = o.int8_gop_s, .disk = {.gb_s = o.disk_gb_s}};
  if (!o.memory.empty()) m.memory_bytes = parse_size("--memory", o.memory);
  const int threads = static_cast<int>(o.common.threads);
  if (m.read_gb_s == 0) m.read_gb_s = measure_read_gb_s(threads);
  if (m.int8_gop_s == 0) m.int8_gop_s = measure_int8_gop_s(threads);
  if (m.disk.gb_s == 0) m.disk = measure_streaming(checkpoint);
  return m;
}

/// What a session takes beside the weights, where all of it is in memory.
struct StateBytes {
  std::int64_t per_token = 0;  ///< keys and values
  std::int64_t fixed = 0;      ///< states of recurrent layers
  std::int64_t row = 0;        ///< activations of a token, where those of a text go through the layers together, however many they are
  [[nodiscard]] std::int64_t of_text(std::int64_t tokens) const noexcept { return fixed + (per_token + row) * tokens; }
};

StateBytes state_bytes_of(const ModelConfig& config, const std::string& kv) {
  nn::SequenceState state = config.new_state(kv);
  StateBytes bytes{.per_token = state.bytes_per_token(), .row = config.arch->causal ? 0 : row_bytes(config)};
  if (const auto* recurrent = state.find<nn::RecurrentState>(); recurrent != nullptr) bytes.fixed = recurrent->least_bytes();
  return bytes;
}

/// One way to store the model, on the machine.
struct Case {
  Footprint size;
  std::string format;  ///< empty: as it is
  std::int64_t resident_bytes = 0, largest_context = 0;
  bool fits = false;
  bool streams = false;  ///< some of it stays in the file
  std::int64_t streamed_bytes = 0;  ///< read from the file for each token, where it fits so; prompts read as much for each 512 tokens, and more experts
  std::int64_t table_bytes = 0;  ///< of the file, in which rows are looked up
  std::int64_t streamed_layers = 0, cached_experts = 0;
  std::int64_t stored_key_bytes = 0;  ///< of the text in a file: what its last token reads
  double generate_tok_s = 0, prompt_tok_s = 0;
  Timeline timeline = {};  ///< of a token, where weights are streamed
};

/// What it takes on average to read those of a token's experts that are not there: each is missed with the same probability. Few do not keep a
/// drive busy: none takes less than one alone.
double seconds_of_misses(std::int64_t used, double missed, double seconds_each, double seconds_alone) {
  double seconds = 0, probability = std::pow(1 - missed, static_cast<double>(used));
  for (std::int64_t count = 1; count <= used && missed < 1; ++count) {
    probability *= missed / (1 - missed) * static_cast<double>(used - count + 1) / static_cast<double>(count);
    seconds += probability * std::max(seconds_alone, static_cast<double>(count) * seconds_each);
  }
  return seconds;
}

/// What each layer of a model that streams asks for, in a pass of so many tokens.
std::vector<LayerTime> layer_times(const Checkpoint& checkpoint, const Residency& residency, const Machine& m, std::int64_t tokens) {
  const ModelConfig& config = checkpoint.config();
  // One token is as long as its weights take to be read from memory, many are as long as their products.
  const bool decodes = tokens == 1;
  const double share = config.has_experts() ? prompt_share_of_experts : prompt_share;
  const auto seconds = [&](const CheckpointTensor& tensor) {
    if (decodes) return static_cast<double>(tensor.stored_bytes()) / (decode_share * 1e9 * m.read_gb_s);
    const double cost = tensor.format().is_float ? float_cost : 1;
    return tensor.is_matrix ? static_cast<double>(tokens) * 2 * cost * static_cast<double>(tensor.rows * tensor.columns) / (share * 1e9 * m.int8_gop_s) : 0;
  };
  std::vector<LayerTime> times(residency.layers.size());
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    if (tensor.layer < 0 || tensor.is_drafting) continue;
    LayerTime& time = times[static_cast<std::size_t>(tensor.layer)];
    const double read = 1e-9 * static_cast<double>(tensor.stored_bytes()) / m.disk.gb_s;
    if (tensor.expert < 0) {
      time.arithmetic += seconds(tensor);
      if (!residency.keeps(tensor)) time.read_ahead += read;
      continue;
    }
    // Of all experts, which are as large; divided below.
    time.late_arithmetic += seconds(tensor);
    time.read_experts += read;
  }
  for (std::size_t i = 0; i < times.size(); ++i) {
    LayerTime& time = times[i];
    const std::int64_t experts = config.specs[i].experts, cached = residency.layers[i].cached_experts, used = config.router.used;
    if (experts == 0) continue;
    const double whole = time.read_experts, arithmetic = time.late_arithmetic * static_cast<double>(used) / static_cast<double>(experts);
    // Those of a long prompt are all of them.
    const double missed = cached == 0 ? 0 : decodes ? 1 - expert_hits(cached, experts) : static_cast<double>(experts - cached) / static_cast<double>(experts);
    time.arithmetic += (1 - missed) * arithmetic;
    time.late_arithmetic = missed * arithmetic;
    time.read_experts = decodes ? seconds_of_misses(used, missed, whole / static_cast<double>(experts), m.disk.expert_seconds) : missed * whole;
  }
  return times;
}

/// One that does not fit whole runs from its file: what is left beside everything else is for what stays, slots and cached experts.
void stream(Case& c, const Checkpoint& checkpoint, std::int64_t others, const Machine& m) {
  if (others >= m.memory_bytes) return;
  const Residency residency = residency_of(checkpoint, m.memory_bytes - others);
  if (!residency.fits()) return;
  c.fits = c.streams = true;
  c.resident_bytes = others + residency.resident_bytes();
  c.streamed_bytes = residency.streamed_layer_bytes + residency.missed_expert_bytes;
  c.table_bytes = residency.table_bytes;
  for (const Residency::Layer& layer : residency.layers) {
    c.streamed_layers += layer.streams();
    c.cached_experts += layer.cached_experts;
  }
  if (m.disk.gb_s == 0) {
    c.generate_tok_s = c.prompt_tok_s = 0;
    return;
  }
  double head = static_cast<double>(c.size.token_bytes) / (decode_share * 1e9 * m.read_gb_s);
  std::vector<LayerTime> times = layer_times(checkpoint, residency, m, 1);
  for (const LayerTime& time : times) head -= time.arithmetic + time.late_arithmetic;
  c.timeline = timeline_of(times, std::max(0.0, head));
  if (checkpoint.config().has_head) c.generate_tok_s = 1 / c.timeline.seconds;
  times = layer_times(checkpoint, residency, m, Forward::largest_chunk);
  c.prompt_tok_s = static_cast<double>(Forward::largest_chunk) / timeline_of(times, 0).seconds;
}

Case weigh(const Checkpoint& checkpoint, const std::string& format, const TextMemory& text, StateBytes state, std::int64_t context, const Machine& m) {
  const ModelConfig& config = checkpoint.config();
  const Footprint size = footprint_of(checkpoint);
  Case c{.size = size, .format = format};
  const std::int64_t others = program_bytes + state.of_text(context);
  c.resident_bytes = size.bytes + others;
  // At the beginning of a text; a token at the end of a long one reads its keys and values besides.
  if (config.has_head) c.generate_tok_s = decode_share * 1e9 * m.read_gb_s / static_cast<double>(size.token_bytes);
  const double share = config.has_experts() ? prompt_share_of_experts : prompt_share;
  c.prompt_tok_s = share * 1e9 * m.int8_gop_s / (size.layer_operations + (float_cost - 1) * size.float_operations);
  const std::int64_t least = residency_of(checkpoint, 0).least;
  const auto divided = [&](std::int64_t tokens) { return divide(m.memory_bytes - program_bytes - state.row * tokens, size.bytes, least, text.bytes(tokens)); };
  if (const auto division = divided(context)) {
    const bool spills = division->texts > 0;
    if (spills) c.stored_key_bytes = text.stored(context, division->texts);
    c.fits = division->weights >= size.bytes;
    if (c.fits && spills) c.resident_bytes = size.bytes + program_bytes + state.row * context + division->texts;
    if (!c.fits) stream(c, checkpoint, spills ? program_bytes + state.row * context + division->texts : others, m);
  }
  // A longer one takes memory from weights, and has more of itself in a file, as long as the least of both is left.
  std::int64_t none = config.context + 1;
  while (c.largest_context + 1 < none) {
    const std::int64_t middle = c.largest_context + (none - c.largest_context) / 2;
    (divided(middle) ? c.largest_context : none) = middle;
  }
  return c;
}

/// Formats from the most exact to the smallest that are proposed.
constexpr std::string_view proposals[] = {"i8.g32", "q6_k", "i4.g32", "i3.g64", "i2z.g64"};

std::string command_of(const PlanOptions& o, std::string_view format) {
  return message("bantam compress ", o.model, " -o small.bantam --method gptq --format ", format);
}

/// What makes the model smaller by a goal rather than by a format.
struct Smaller {
  std::string_view purpose;
  std::int64_t bytes = 0;  ///< of what it makes
  std::string command;
};

/// least: bytes of the smallest format that is proposed. room: for weights, so that all of them stay in memory.
std::vector<Smaller> smaller_ones(const PlanOptions& o, const Checkpoint& checkpoint, const Case& c, std::int64_t least, std::int64_t room) {
  std::vector<Smaller> ways;
  const std::string command = message("bantam compress ", o.model, " -o small.bantam ");
  const auto fit = [&](std::string_view purpose, std::int64_t bytes) {
    if (bytes >= least) ways.push_back({purpose, bytes, message(command, "--fit ", bytes / 1'000'000, "MB")});
  };
  if (c.fits && !c.streams) {
    fit("twice as fast", c.size.bytes / 2);
    return ways;
  }
  fit("to fit whole", room);
  std::int64_t of_experts = 0, fewest = std::numeric_limits<std::int64_t>::max();
  for (const CheckpointTensor& tensor : checkpoint.tensors()) of_experts += tensor.expert >= 0 ? tensor.stored_bytes() : 0;
  for (const LayerSpec& spec : checkpoint.config().specs) fewest = spec.is_sparse() ? std::min(fewest, spec.experts) : fewest;
  if (of_experts == 0) return ways;
  // In hundredths, rounded up. More than half of the experts is more than anybody reports to work.
  const double share = std::ceil(100 * static_cast<double>(c.size.bytes - room) / static_cast<double>(of_experts)) / 100;
  const bool leaves_enough = static_cast<double>(fewest) * (1 - share) >= static_cast<double>(checkpoint.config().router.used);
  if (share > 0.5 || !leaves_enough) return ways;
  const std::string format = o.format.empty() ? std::string() : message(" --format ", o.format);
  ways.push_back({"to fit whole", c.size.bytes - static_cast<std::int64_t>(share * static_cast<double>(of_experts)), message(command, "--prune experts:", fixed(share, 2), format)});
  return ways;
}

Json known(double rate) { return rate > 0 ? Json(rate) : Json(nullptr); }

Json as_json(const PlanOptions& o, const Checkpoint& checkpoint, const Case& c, const std::vector<Case>& others, const std::vector<Smaller>& smaller, StateBytes state,
             std::int64_t context, const Machine& m) {
  const ModelConfig& config = checkpoint.config();
  Json advice = Json::array();
  for (const Case& other : others) {
    advice.push_back({{"command", command_of(o, other.format)}, {"format", other.format}, {"bytes", other.size.bytes}, {"fits", other.fits}, {"streamed_bytes_per_token", other.streamed_bytes},
                      {"generate_tok_s", known(other.generate_tok_s)}, {"prompt_tok_s", known(other.prompt_tok_s)}});
  }
  Json ways = Json::array();
  for (const Smaller& way : smaller) ways.push_back({{"for", std::string(way.purpose)}, {"bytes", way.bytes}, {"command", way.command}});
  return {{"path", o.model},
          {"architecture", std::string(config.arch->name)},
          {"format", c.format.empty() ? Json(nullptr) : Json(c.format)},
          {"parameters", c.size.parameters},
          {"active_parameters", c.size.active_parameters},
          {"bytes", c.size.bytes},
          {"bytes_per_token", c.size.token_bytes},
          {"bits_per_weight", c.size.bits_per_weight()},
          {"fits", c.fits},
          {"resident_bytes", c.resident_bytes},
          {"streamed_bytes_per_token", c.streamed_bytes},
          {"table_bytes", c.table_bytes},
          {"streamed_layers", c.streamed_layers},
          {"cached_experts", c.cached_experts},
          {"stored_key_bytes", c.stored_key_bytes},
          {"prompt_tok_s", known(c.prompt_tok_s)},
          {"generate_tok_s", known(c.generate_tok_s)},
          {"context", context},
          {"largest_context", c.largest_context},
          {"kv_bytes_per_token", state.per_token},
          {"state_bytes", state.fixed},
          {"memory_bytes", m.memory_bytes},
          {"disk_gb_s", m.disk.gb_s > 0 ? Json(m.disk.gb_s) : Json(nullptr)},
          {"read_gb_s", m.read_gb_s},
          {"int8_gop_s", m.int8_gop_s},
          {"shares", {{"decode", decode_share}, {"prompt", prompt_share}, {"experts", prompt_share_of_experts}}},
          {"advice", std::move(advice)},
          {"smaller", std::move(ways)}};
}

std::string in_billions(std::int64_t count) { return message(fixed(1e-9 * static_cast<double>(count), 2), " billion"); }

std::string as_text(const Checkpoint& checkpoint, const Case& c, const std::vector<Case>& others, const std::vector<Smaller>& smaller, StateBytes state,
                    std::int64_t context, const Machine& m, const PlanOptions& o) {
  const ModelConfig& config = checkpoint.config();
  std::string out = message("model           ", config.arch->name, ", ", in_billions(c.size.parameters), " parameters");
  if (config.has_experts()) out += message(", ", in_billions(c.size.active_parameters), " of them work for a token");
  out += message("\nweights         ", in_bytes(c.size.bytes), " ", c.format.empty() ? "as they are" : "as " + c.format, " (", fixed(c.size.bits_per_weight(), 2), " bits a weight), of which a token reads ",
                 in_bytes(c.size.token_bytes), "\n");
  out += message("a text          ", state.per_token, " bytes a token in ", config.arch->causal ? o.kv : "f32", state.fixed > 0 ? message(" and ", in_bytes(state.fixed), " of recurrent states") : "", ": ",
                 in_bytes(state.fixed + state.per_token * context), " for ", context, " tokens; the model was made for ", config.context, "\n");
  out += message("memory          ", in_bytes(c.resident_bytes), " with buffers, ", !c.fits ? "does NOT fit in " : c.streams ? "runs from its file in " : "fits in ", in_bytes(m.memory_bytes));
  out += c.fits ? message("; the largest context is ", c.largest_context, "\n") : std::string("\n");
  if (c.table_bytes > 0) out += message("looked up       a row for each token in ", in_bytes(c.table_bytes), " of the file's tables\n");
  if (c.streamed_bytes > 0) {
    out += message("streamed        ", in_bytes(c.streamed_bytes), " a token: matrices of ", c.streamed_layers, " of ", config.layers, " layers");
    if (config.has_experts()) out += message(", and experts beyond ", c.cached_experts, " that are cached, as texts choose them");
    out += m.disk.gb_s > 0 ? message(", at ", fixed(m.disk.gb_s, 2), " GB/s\n") : "; --disk-gb-s says how fast that is\n";
  }
  if (c.stored_key_bytes > 0) out += message("keys, values    ", in_bytes(c.stored_key_bytes), " of such a text are in a file: its last token reads all of them, those before less\n");
  if (c.fits && c.prompt_tok_s > 0) {
    const std::string generated = config.has_head ? message(fixed(c.generate_tok_s, 1), " tok/s of text, ") : "";
    out += message("speed           about ", generated, fixed(c.prompt_tok_s, 0), config.has_head ? " of a prompt" : " tok/s of texts that are read", " (memory read at ", fixed(m.read_gb_s, 1), " GB/s, ",
                   fixed(m.int8_gop_s, 0), " Gop/s of int8)\n");
  }
  if (others.empty()) return out;
  Table table("lrrrl");
  table.add({"compressed to", "bytes", "text tok/s", "prompt tok/s", ""});
  for (const Case& other : others) {
    table.add({other.format, in_bytes(other.size.bytes), other.generate_tok_s > 0 ? fixed(other.generate_tok_s, 1) : "-", other.prompt_tok_s > 0 ? fixed(other.prompt_tok_s, 0) : "-",
               other.streams ? "runs from its file" : other.fits ? "fits" : "does not fit"});
  }
  const auto fits_whole = [](const Case& other) { return other.fits && !other.streams; };
  const auto best = std::ranges::find_if(others, fits_whole);
  out += "\n" + table.text();
  if (best != others.end()) out += "\n" + command_of(o, best->format) + "\n";
  if (!smaller.empty()) out += "\n";
  for (const Smaller& way : smaller) out += message(way.purpose, std::string(16 - way.purpose.size(), ' '), way.command, "\n");
  return out;
}

/// A config alone, or a folder with nothing else, is enough.
Checkpoint open_outline(const std::string& name) {
  if (name.ends_with(".json")) return Checkpoint::outline(name);
  const std::filesystem::path path = find_model(name);
  return path_kind(path) != PathKind::folder || has_weights(path) ? Checkpoint::open(path) : Checkpoint::outline(path);
}

int plan(const PlanOptions& o) {
  apply(o.common);
  const Checkpoint checkpoint = open_outline(o.model);
  const ModelConfig& config = checkpoint.config();
  const Machine m = machine_of(o, checkpoint);
  const StateBytes state = state_bytes_of(config, o.kv);
  const TextMemory text(config, o.kv);
  const std::int64_t context = o.context > 0 ? o.context : std::min<std::int64_t>(config.context, 8192);
  const auto as = [&](std::string_view format) { return weigh(outline_of(checkpoint, recipe::rtn(format)), std::string(format), text, state, context, m); };
  const Checkpoint stored = o.format.empty() ? checkpoint : outline_of(checkpoint, recipe::rtn(o.format));
  const Case chosen = weigh(stored, o.format, text, state, context, m);
  std::vector<Case> others;
  for (const std::string_view format : proposals) {
    Case other = as(format);
    if (other.size.bytes < chosen.size.bytes) others.push_back(std::move(other));
  }
  const std::int64_t room = m.memory_bytes - program_bytes - state.of_text(context);
  const std::vector<Smaller> smaller = smaller_ones(o, stored, chosen, others.empty() ? chosen.size.bytes : others.back().size.bytes, room);
  if (!o.svg.empty()) {
    if (chosen.timeline.seconds == 0) fail(Errc::invalid_argument, "--svg: expected a model of which weights are streamed, on a drive whose rate is known, found ", chosen.fits ? "one that fits in memory" : "none");
    write_file(o.svg, svg(chosen.timeline, message("A token of ", o.model, " in ", in_bytes(m.memory_bytes))));
  }
  if (o.common.json) {
    print_json(as_json(o, checkpoint, chosen, others, smaller, state, context, m));
  } else {
    print(as_text(checkpoint, chosen, others, smaller, state, context, m, o));
  }
  return 0;
}

}  // namespace

void add_plan(CLI::App& app, Action& action) {
  CLI::App& verb = add_verb(app, "plan", "tell whether a model fits here and how fast it will be, without loading it");
  const auto o = std::make_shared<PlanOptions>();
  add_argument(verb, "MODEL", o->model, "Hugging Face folder, .gguf or .bantam file; a config.json alone is enough");
  add_text(verb, "--format", o->format, "NAME", "as `compress --format NAME` would leave it [as it is]");
  add_text(verb, "--memory", o->memory, "SIZE", "what it may take: 12GiB [what is free]");
  add_integer(verb, "--context", o->context, {0, std::int64_t{1} << 31}, "tokens of a text; 0: what the model was made for, 8192 at most");
  add_kv(verb, o->kv);
  add_number(verb, "--read-gb-s", o->read_gb_s, "of another machine: GB/s that all threads read from memory; 0: measured here");
  add_number(verb, "--int8-gop-s", o->int8_gop_s, "of another machine: 10^9 int8 operations a second (bench); 0: measured here");
  add_number(verb, "--disk-gb-s", o->disk_gb_s, "GB/s that weights are read from the disk with, where they do not fit; 0: measured here");
  add_text(verb, "--svg", o->svg, "FILE", "draws when a token's reads and arithmetic take place, where weights are streamed");
  add_common(verb, o->common);
  finish_verb(
      verb,
      "Sizes follow from the shapes alone. Speeds are shares of what this machine reads and computes, as\n"
      "measured for models of real shapes (docs/numbers.md): decoding reads the weights that work for a\n"
      "token, a prompt computes with them. A file that does not fit is run all the same (--memory of run):\n"
      "reads and arithmetic of a pass are followed in time, and experts are found in their caches as often\n"
      "as texts were seen to.\n\n"
      "Examples:\n"
      "  bantam plan Qwen3-8B\n"
      "  bantam plan config.json --format i4.g32 --memory 16GiB --read-gb-s 60 --int8-gop-s 900",
      [o, &action] { action = [o] { return plan(*o); }; });
}

}  // namespace bantam::cli
