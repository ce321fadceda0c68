// Weighing a model on a machine.
#include "planned.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

#include "bantam/core/cpu.hpp"
#include "bantam/io/file.hpp"
#include "bantam/model/forward.hpp"
#include "bantam/model/locate.hpp"
#include "bantam/model/pass_bytes.hpp"
#include "bantam/model/residency.hpp"
#include "fit.hpp"
#include "memory_bound.hpp"

namespace bantam::cli {

namespace {

/// Shares of the machine's limits that models of real shapes were measured to reach (docs/numbers.md). Of decoding, where the machine is another one:
/// on this one it is measured.
constexpr double decode_share = 0.88, prompt_share = 0.55, prompt_share_of_experts = 0.42;
/// A product of floats takes as long as so many of int8.
constexpr double float_cost = 4;
/// What a layer takes for a token beside its weights, in steps as measure_step_seconds() times them: `bench --profile` counts 10, and 4 where tokens are routed, but one that
/// does more than norm a row takes longer, positions and attention ten times as long (docs/numbers.md).
constexpr std::int64_t steps_of_layer = 28, steps_of_routing = 8;
/// Activations, a pass's buffers and the program itself, as measured with models of 1 to 30 billion parameters.
constexpr std::int64_t program_bytes = std::int64_t{192} << 20;

StateBytes state_bytes_of(const ModelConfig& config, const std::string& kv) {
  nn::SequenceState state = config.new_state(kv);
  StateBytes bytes{.per_token = state.bytes_per_token(), .row = config.arch->causal ? 0 : pass_bytes(config, {}).row};
  if (const auto* recurrent = state.find<nn::RecurrentState>(); recurrent != nullptr) bytes.fixed = recurrent->least_bytes();
  return bytes;
}

/// What a layer takes for a token beside its weights.
double step_seconds(const LayerSpec& spec, const Machine& m) { return m.step_seconds * static_cast<double>(steps_of_layer + (spec.is_sparse() ? steps_of_routing : 0)); }

double step_seconds(const ModelConfig& config, const Machine& m) {
  double sum = 0;
  for (const LayerSpec& spec : config.specs) sum += step_seconds(spec, m);
  return sum;
}

/// A matrix of layers like those that most bytes of a token's weights are in; null: there is none.
const CheckpointTensor* usual_matrix(const Checkpoint& checkpoint) {
  struct Alike {
    const CheckpointTensor* one = nullptr;
    std::int64_t bytes = 0;
  };
  std::map<std::tuple<const FormatInfo*, std::int64_t, std::int64_t>, Alike> all;
  const Alike* most = nullptr;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    if (!detail::can_stream(tensor) || tensor.expert >= checkpoint.config().router.used) continue;
    Alike& alike = all[{&tensor.format(), tensor.rows, tensor.columns}];
    alike.one = &tensor;
    alike.bytes += tensor.stored_bytes();
    if (most == nullptr || alike.bytes > most->bytes) most = &alike;
  }
  return most == nullptr ? nullptr : most->one;
}

/// What it is to write.
struct Texts {
  const TextMemory& memory;
  StateBytes state;
  std::int64_t context;
  double expert_hits;  ///< as PlanAsked has it
  const DeviceMap& devices;
};

/// The share of a token's experts that is in memory.
double hits_in(const Residency::Layer& layer, std::int64_t experts, double asked) {
  const bool has_all = layer.cached_experts == 0 || layer.cached_experts == experts;
  return has_all ? 1 : asked > 0 ? asked : expert_hits(layer.cached_experts, experts);
}

/// How many of a token's experts are not there in one of many passes, each missing with the same probability: over passes and layers as often as
/// that has it (the binomial distribution, at places that fill the interval from 0 to 1 evenly).
std::int64_t count_of_misses(std::int64_t used, double missed, std::size_t pass, std::size_t layer) {
  // Parts of the golden ratio and of the plastic number, whose multiples are spread in two dimensions alike (Roberts's sequence).
  constexpr double golden = 0.6180339887498949, plastic = 0.7548776662466927;
  double whole = 0;
  double left = std::modf(golden * static_cast<double>(pass) + plastic * static_cast<double>(layer), &whole);
  double probability = std::pow(1 - missed, static_cast<double>(used));
  std::int64_t count = 0;
  while (left >= probability && count < used && missed < 1) {
    left -= probability;
    ++count;
    probability *= missed / (1 - missed) * static_cast<double>(used - count + 1) / static_cast<double>(count);
  }
  return missed < 1 ? count : used;
}

/// Tokens differ in how many experts they miss, and a miss that takes longer than what hides it is not made up for by a token without one.
constexpr std::size_t token_passes = 256;

/// What each layer of a model that streams asks for: in many passes of one token, or one of many.
std::vector<std::vector<LayerTime>> pass_times(const Checkpoint& checkpoint, const Residency& residency, const Machine& m, double asked_hits, std::int64_t tokens) {
  const ModelConfig& config = checkpoint.config();
  // One token is as long as its weights take to be read from memory, many are as long as their products.
  const bool decodes = tokens == 1;
  const double share = config.has_experts() ? prompt_share_of_experts : prompt_share;
  const auto seconds = [&](const CheckpointTensor& tensor) {
    if (decodes) return static_cast<double>(tensor.stored_bytes()) / (1e9 * m.weights_gb_s());
    const double cost = tensor.format().is_float ? float_cost : 1;
    return tensor.is_matrix ? static_cast<double>(tokens) * 2 * cost * static_cast<double>(tensor.rows * tensor.columns) / (share * 1e9 * m.int8_gop_s) : 0;
  };
  // Processor time that a second of reading takes from products, where they have all processors: blocks are rearranged.
  const double taken = m.threads >= usable_cores() ? m.disk.gb_s * m.disk.processor_s_per_gb : 0;
  std::vector<LayerTime> all(residency.layers.size());  // of a layer with all of its experts, each read alone
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    if (tensor.layer < 0 || tensor.is_drafting) continue;
    LayerTime& time = all[static_cast<std::size_t>(tensor.layer)];
    const double read = 1e-9 * static_cast<double>(tensor.stored_bytes()) / m.disk.gb_s;
    if (tensor.expert < 0) {
      time.arithmetic += seconds(tensor);
      if (!residency.keeps(tensor)) time.read_ahead += read;
      continue;
    }
    time.late_arithmetic += seconds(tensor);
    time.read_experts += read;
  }
  std::vector<std::vector<LayerTime>> passes(decodes ? token_passes : 1, all);
  for (std::size_t pass = 0; pass < passes.size(); ++pass) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      LayerTime& time = passes[pass][i];
      const std::int64_t experts = config.specs[i].experts, used = config.router.used;
      if (taken > 0) time.arithmetic += taken * time.read_ahead / m.threads;
      if (experts == 0) continue;
      const Residency::Layer& layer = residency.layers[i];
      const double each = 1 / static_cast<double>(experts);
      time.expert_arithmetic = time.late_arithmetic * static_cast<double>(used) * each;
      time.late_arithmetic = 0;
      if (!decodes) {
        // Those of a long prompt are all of them, and are run as they come.
        time.read_experts *= layer.cached_experts == 0 ? 0 : static_cast<double>(experts - layer.cached_experts) * each;
        if (taken > 0) time.expert_arithmetic += taken * time.read_experts / m.threads;
        continue;
      }
      const std::int64_t count = count_of_misses(used, 1 - hits_in(layer, experts, asked_hits), pass, i);
      const double read = time.read_experts * static_cast<double>(count) * each;
      // Few do not keep a drive busy: they take no less than one alone.
      time.read_experts = count == 0 ? 0 : std::max(m.disk.expert_seconds, read);
      time.late_arithmetic = time.expert_arithmetic * static_cast<double>(count) / static_cast<double>(used);
      time.expert_arithmetic -= time.late_arithmetic;
      // All of it shows: the thread whose processor a reader took is the one that the others wait for.
      time.late_arithmetic += taken * read;
    }
  }
  return passes;
}

/// One that does not fit whole runs from its file: what is left beside everything else is for what stays, slots and cached experts.
void stream(Case& c, const Checkpoint& checkpoint, std::int64_t others, double asked_hits, const DeviceMap& devices, const Machine& m) {
  if (others >= m.memory_bytes) return;
  Residency found = residency_of(checkpoint, m.memory_bytes - others, devices.empty() ? nullptr : &devices);
  if (!found.fits()) return;
  c.fits = c.streams = true;
  c.residency = std::move(found);
  const Residency& residency = c.residency;
  c.resident_bytes = others + residency.resident_bytes();
  c.streamed_bytes = residency.streamed_layer_bytes;
  c.table_bytes = residency.table_bytes;
  const ModelConfig& config = checkpoint.config();
  int caches = 0;
  for (std::size_t i = 0; i < residency.layers.size(); ++i) {
    const Residency::Layer& layer = residency.layers[i];
    c.streamed_layers += layer.streams();
    c.cached_experts += layer.cached_experts;
    const double hits = hits_in(layer, config.specs[i].experts, asked_hits);
    c.streamed_bytes += static_cast<std::int64_t>((1 - hits) * static_cast<double>(layer.expert_file_bytes * config.router.used));
    if (layer.cached_experts == 0) continue;
    c.expert_hits += hits;
    ++caches;
  }
  if (caches > 0) c.expert_hits /= caches;
  if (m.disk.gb_s == 0) {
    c.generate_tok_s = c.prompt_tok_s = 0;
    return;
  }
  std::vector<std::vector<LayerTime>> passes = pass_times(checkpoint, residency, m, asked_hits, 1);
  for (std::vector<LayerTime>& layers : passes) {
    for (std::size_t i = 0; i < layers.size(); ++i) layers[i].arithmetic += step_seconds(config.specs[i], m);
  }
  c.timeline = timeline_of(passes, static_cast<double>(c.size.token_bytes - c.size.layer_token_bytes) / (1e9 * m.weights_gb_s()));
  if (config.has_head) c.generate_tok_s = 1 / c.timeline.seconds;
  const std::vector<std::vector<LayerTime>> prompt = pass_times(checkpoint, residency, m, asked_hits, Forward::largest_chunk);
  c.prompt_tok_s = static_cast<double>(Forward::largest_chunk) / timeline_of(prompt, 0).seconds;
}

Case weigh(const Checkpoint& checkpoint, const std::string& format, const Texts& texts, const Machine& m) {
  const ModelConfig& config = checkpoint.config();
  const TextMemory& text = texts.memory;
  const StateBytes& state = texts.state;
  const std::int64_t context = texts.context;
  const Footprint size = footprint_of(checkpoint);
  Residency whole = residency_with_room(checkpoint);
  const std::int64_t tables = whole.table_bytes, weights = size.bytes - tables;
  Case c{.size = size, .format = format, .residency = std::move(whole), .table_bytes = tables};
  const std::int64_t others = program_bytes + state.of_text(context);
  c.resident_bytes = weights + others;
  // At the beginning of a text; a token at the end of a long one reads its keys and values besides.
  if (config.has_head) c.generate_tok_s = 1 / (static_cast<double>(size.token_bytes) / (1e9 * m.weights_gb_s()) + step_seconds(config, m));
  const double share = config.has_experts() ? prompt_share_of_experts : prompt_share;
  c.prompt_tok_s = share * 1e9 * m.int8_gop_s / (size.layer_operations + (float_cost - 1) * size.float_operations);
  const std::int64_t least = residency_of(checkpoint, 0).least;
  const auto divided = [&](std::int64_t tokens) { return divide(m.memory_bytes - program_bytes - state.row * tokens, weights, least, text.bytes(tokens)); };
  if (const auto division = divided(context)) {
    const bool spills = division->texts > 0;
    if (spills) c.stored_key_bytes = text.stored(context, division->texts);
    c.fits = division->weights >= weights && !texts.devices.has_disk();
    if (c.fits && spills) c.resident_bytes = weights + program_bytes + state.row * context + division->texts;
    if (!c.fits) stream(c, checkpoint, spills ? program_bytes + state.row * context + division->texts : others, texts.expert_hits, texts.devices, m);
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

/// least: bytes of the smallest format that is proposed. room: for weights, so that all of them stay in memory.
std::vector<Smaller> smaller_ones(const PlanAsked& o, const Checkpoint& checkpoint, const Case& c, std::int64_t least, std::int64_t room) {
  std::vector<Smaller> ways;
  const std::string command = message("bantam compress ", o.name, " -o small.bantam ");
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

}  // namespace

double Machine::weights_gb_s() const noexcept { return product_gb_s > 0 ? product_gb_s : decode_share * read_gb_s; }

Machine measured(Machine m, int threads, const Checkpoint& checkpoint) {
  if (m.read_gb_s == 0) {
    m.read_gb_s = measure_read_gb_s(threads);
    m.step_seconds = measure_step_seconds(checkpoint.config().dim, threads);
  }
  if (const CheckpointTensor* matrix = usual_matrix(checkpoint); m.step_seconds > 0 && m.product_gb_s == 0 && matrix != nullptr) {
    m.product_gb_s = measure_product_gb_s(matrix->format(), matrix->rows, matrix->columns, threads);
  }
  if (m.int8_gop_s == 0) m.int8_gop_s = measure_int8_gop_s(threads);
  if (m.disk.gb_s == 0) {
    m.disk = measure_streaming(checkpoint);
    m.threads = threads > 0 ? threads : usable_cores();
  }
  return m;
}

std::string command_of(const PlanAsked& asked, std::string_view format) {
  return message("bantam compress ", asked.name, " -o small.bantam --method gptq --format ", format);
}

/// A config alone, or a folder with nothing else, is enough.
Checkpoint open_outline(const std::string& name) {
  if (name.ends_with(".json")) return Checkpoint::outline(name);
  const std::filesystem::path path = find_model(name);
  return path_kind(path) != PathKind::folder || has_weights(path) ? Checkpoint::open(path) : Checkpoint::outline(path);
}

Plan plan_of(PlanAsked asked, Machine machine, Checkpoint checkpoint) {
  if (asked.name.empty()) asked.name = asked.model;
  const ModelConfig& config = checkpoint.config();
  const StateBytes state = state_bytes_of(config, asked.kv);
  const TextMemory text(config, asked.kv);
  const std::int64_t context = asked.context > 0 ? asked.context : std::min<std::int64_t>(config.context, 8192);
  const Texts texts{.memory = text, .state = state, .context = context, .expert_hits = asked.expert_hits, .devices = asked.devices};
  // What was timed are products of the weights as they are.
  Machine untimed = machine;
  untimed.product_gb_s = 0;
  const auto as = [&](std::string_view format) { return weigh(outline_of(checkpoint, recipe::rtn(format)), std::string(format), texts, untimed); };
  const Checkpoint stored = asked.format.empty() ? checkpoint : outline_of(checkpoint, recipe::rtn(asked.format));
  const Case chosen = weigh(stored, asked.format, texts, asked.format.empty() ? machine : untimed);
  std::vector<Case> others;
  for (const std::string_view format : proposals) {
    Case other = as(format);
    if (other.size.bytes < chosen.size.bytes) others.push_back(std::move(other));
  }
  const std::int64_t room = machine.memory_bytes - program_bytes - state.of_text(context);
  std::vector<Smaller> smaller = smaller_ones(asked, stored, chosen, others.empty() ? chosen.size.bytes : others.back().size.bytes, room);
  return {.asked = std::move(asked),
          .machine = machine,
          .checkpoint = std::move(checkpoint),
          .context = context,
          .state = state,
          .chosen = chosen,
          .others = std::move(others),
          .smaller = std::move(smaller)};
}

Json to_json(const Plan& plan) {
  const Case& c = plan.chosen;
  const Machine& m = plan.machine;
  const ModelConfig& config = plan.checkpoint.config();
  Json advice = Json::array();
  for (const Case& other : plan.others) {
    advice.push_back({{"command", command_of(plan.asked, other.format)}, {"format", other.format}, {"bytes", other.size.bytes}, {"fits", other.fits}, {"streamed_bytes_per_token", other.streamed_bytes},
                      {"generate_tok_s", known(other.generate_tok_s)}, {"prompt_tok_s", known(other.prompt_tok_s)}});
  }
  Json ways = Json::array();
  for (const Smaller& way : plan.smaller) ways.push_back({{"for", std::string(way.purpose)}, {"bytes", way.bytes}, {"command", way.command}});
  return {{"path", plan.asked.name},
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
          {"device_map", c.fits ? Json::parse(DeviceMap::of(plan.checkpoint, c.residency).to_json(), "device_map") : Json(nullptr)},
          {"expert_hits", c.expert_hits > 0 ? Json(c.expert_hits) : Json(nullptr)},
          {"stored_key_bytes", c.stored_key_bytes},
          {"prompt_tok_s", known(c.prompt_tok_s)},
          {"generate_tok_s", known(c.generate_tok_s)},
          {"context", plan.context},
          {"largest_context", c.largest_context},
          {"kv_bytes_per_token", plan.state.per_token},
          {"state_bytes", plan.state.fixed},
          {"memory_bytes", m.memory_bytes},
          {"disk_gb_s", m.disk.gb_s > 0 ? Json(m.disk.gb_s) : Json(nullptr)},
          {"read_gb_s", m.read_gb_s},
          {"int8_gop_s", m.int8_gop_s},
          {"product_gb_s", m.product_gb_s > 0 ? Json(m.product_gb_s) : Json(nullptr)},
          {"step_us", m.step_seconds > 0 ? Json(1e6 * m.step_seconds) : Json(nullptr)},
          {"shares", {{"decode", decode_share}, {"prompt", prompt_share}, {"experts", prompt_share_of_experts}}},
          {"advice", std::move(advice)},
          {"smaller", std::move(ways)}};
}

}  // namespace bantam::cli
