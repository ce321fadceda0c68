// `bantam plan`: whether a model fits and how fast it will be, from its header or its config alone.
#include "bantam/core/cpu.hpp"
#include "fit.hpp"
#include "options.hpp"
#include "planned.hpp"
#include "progress.hpp"
#include "verbs.hpp"

namespace bantam::cli {

namespace {

struct PlanOptions {
  CommonOptions common;
  PlanAsked asked;
  std::string memory, svg;
  float read_gb_s = 0, int8_gop_s = 0, disk_gb_s = 0;
};

std::string in_billions(std::int64_t count) { return message(fixed(1e-9 * static_cast<double>(count), 2), " billion"); }

std::string as_text(const Plan& plan) {
  const auto& [o, m, checkpoint, context, state, c, others, smaller] = plan;
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
    if (c.expert_hits > 0) {
      out += message(", and experts beyond ", c.cached_experts, " that are cached: ", o.expert_hits > 0 ? "--expert-hits says that " : "texts were seen to find ", fixed(100 * c.expert_hits, 0),
                     o.expert_hits > 0 ? " % of a token's are there" : " % of a token's there");
    }
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

int plan(const PlanOptions& o) {
  apply(o.common);
  Checkpoint checkpoint = open_outline(o.asked.model);
  const Machine machine{.memory_bytes = o.memory.empty() ? available_memory() : parse_size("--memory", o.memory),
                        .read_gb_s = o.read_gb_s,
                        .int8_gop_s = o.int8_gop_s,
                        .disk = {.gb_s = o.disk_gb_s}};
  const Machine whole = measured(machine, static_cast<int>(o.common.threads), checkpoint);
  const Plan plan = plan_of(o.asked, whole, std::move(checkpoint));
  const Case& c = plan.chosen;
  if (!o.svg.empty()) {
    if (c.timeline.seconds == 0) fail(Errc::invalid_argument, "--svg: expected a model of which weights are streamed, on a drive whose rate is known, found ", c.fits ? "one that fits in memory" : "none");
    write_file(o.svg, svg(c.timeline, message("A token of ", o.asked.model, " in ", in_bytes(plan.machine.memory_bytes))));
  }
  if (o.common.json) {
    print_json(to_json(plan));
  } else {
    print(as_text(plan));
  }
  return 0;
}

}  // namespace

void add_plan(CLI::App& app, Action& action) {
  CLI::App& verb = add_verb(app, "plan", "tell whether a model fits here and how fast it will be, without loading it");
  const auto o = std::make_shared<PlanOptions>();
  add_argument(verb, "MODEL", o->asked.model, "Hugging Face folder, .gguf or .bantam file; a config.json alone is enough");
  add_text(verb, "--format", o->asked.format, "NAME", "as `compress --format NAME` would leave it [as it is]");
  add_text(verb, "--memory", o->memory, "SIZE", "what it may take: 12GiB [what is free]");
  add_integer(verb, "--context", o->asked.context, {0, std::int64_t{1} << 31}, "tokens of a text; 0: what the model was made for, 8192 at most");
  add_kv(verb, o->asked.kv);
  add_number(verb, "--read-gb-s", o->read_gb_s, "of another machine: GB/s that all threads read from memory; 0: measured here");
  add_number(verb, "--int8-gop-s", o->int8_gop_s, "of another machine: 10^9 int8 operations a second (bench); 0: measured here");
  add_number(verb, "--disk-gb-s", o->disk_gb_s, "GB/s that weights are read from the disk with, where they do not fit; 0: measured here");
  add_number(verb, "--expert-hits", o->asked.expert_hits,
             "share of a token's experts that is in memory where not all fit, as `run --stats` counts it; 0: what texts were seen to find, by the share that fits")
      ->check(CLI::Range(0.0, 1.0));
  add_device_map(verb, o->asked.devices);
  add_text(verb, "--svg", o->svg, "FILE", "draws when a token's reads and arithmetic take place, where weights are streamed");
  add_common(verb, o->common);
  finish_verb(
      verb,
      "Sizes follow from the shapes alone. Speeds are shares of what this machine reads and computes, as\n"
      "measured for models of real shapes (docs/numbers.md): decoding reads the weights that work for a\n"
      "token, a prompt computes with them. A file that does not fit is run all the same (--memory of run):\n"
      "reads and arithmetic of a pass are followed in time, and experts are found in their caches as often\n"
      "as texts were seen to. Text is at its beginning: a long one reads its keys and values besides.\n\n"
      "Examples:\n"
      "  bantam plan Qwen3-8B\n"
      "  bantam plan config.json --format i4.g32 --memory 16GiB --read-gb-s 60 --int8-gop-s 900",
      [o, &action] { action = [o] { return plan(*o); }; });
}

}  // namespace bantam::cli
