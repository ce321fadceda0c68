// `bantam compress`: a recipe over a model, written to a file.
#include "bantam/compress/compress.hpp"

#include <algorithm>
#include <map>
#include <sstream>

#include "bantam/compress/mix.hpp"
#include "bantam/core/parallel.hpp"
#include "bantam/model/roles.hpp"
#include "fit.hpp"
#include "input.hpp"
#include "options.hpp"
#include "output.hpp"
#include "progress.hpp"
#include "prune.hpp"
#include "report.hpp"
#include "signals.hpp"
#include "verbs.hpp"

namespace bantam::cli {

namespace {

struct CompressOptions {
  CommonOptions common;
  std::string model;
  std::string output;
  std::string method = "rtn";
  std::string format = "q4";
  std::int64_t group = -1;
  std::vector<std::string> keep;
  std::vector<std::string> overruled;  ///< options that --fit decides
  std::string to;  ///< empty until the name of the output has said it
  std::vector<std::string> prune;
  std::string prune_to;
  PruneRequest pruning;  ///< what these say
  std::string calibration, smooth, clip, fit, candidates, evaluate, gptq_zero;
  std::int64_t samples = 128, tokens = 2048, seed = 0, limit = 20'000;
  bool rotate = false, desc_act = false, one_run = false, no_compensation = false, resume = false, dry_run = false, report = false;
};

std::string format_list() {
  std::string names;
  for (const FormatInfo& format : formats()) names += message(names.empty() ? "" : ", ", format.name);
  for (const Mix& mix : mixes()) names += message(", ", mix.name);
  return names;
}

// The parser has let no other names through.
Method method_of(const CompressOptions& o) { return find_method(o.method); }
Target target_of(const CompressOptions& o) { return find_target(o.to); }

/// What options say that make no sense is wrong usage.
template <class F>
auto checked(F&& make) {
  try {
    return make();
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
}

/// The recipe that the options describe; UsageError names the option that does not fit.
Recipe make_recipe(const CompressOptions& o) {
  // With --fit any format will do that every method takes: each matrix gets its own.
  const std::string format = o.fit.empty() ? o.format : "i4m";
  const recipe::Options options{.group = o.fit.empty() ? static_cast<int>(o.group) : -1};
  const auto rotation = o.rotate ? std::optional(static_cast<std::uint64_t>(o.seed)) : std::nullopt;
  const auto smooth = o.smooth.empty() ? std::nullopt : std::optional(parse_number("--smooth", o.smooth));
  const auto clip = checked([&] { return o.clip.empty() ? std::nullopt : std::optional(find_clip(o.clip)); });
  const MethodOptions details{.true_sequential = !o.one_run,
                              .rotation = rotation,
                              .smooth = smooth,
                              .clip = clip,
                              .pruning = o.pruning.weights,
                              .gptq = {.order = o.desc_act ? ColumnOrder::activation : ColumnOrder::group}};
  Recipe recipe = checked([&] { return recipe::with(method_of(o), format, options, details); });
  for (const std::string& exception : o.keep) {
    const auto equals = exception.rfind('=');
    if (equals == std::string::npos)
      throw UsageError(message("--keep: expected PATTERN=FORMAT, found ", printable(exception)));
    checked([&] { return recipe.keep(exception.substr(0, equals), exception.substr(equals + 1)); });
  }
  return recipe;
}

/// --to, or what the name of the output says.
void settle_target(CompressOptions& o, const Recipe& recipe) {
  const std::filesystem::path out = o.output;
  const bool told = !o.to.empty();
  if (!told) {
    o.to = o.output.empty() ? name_of(Target::native) : name_of(checked([&] { return target_for(out, recipe); }));
    if (writes_folder(target_of(o))) note(message("bantam: ", printable(o.output, 4096), ": a Hugging Face folder, as --to ", o.to, " makes it"));
  }
  // Journals and reports lie beside a folder, not in it.
  while (o.output.size() > 1 && o.output.ends_with('/')) o.output.pop_back();
  const std::string ending = out.extension().string();
  const bool other = (ending == ".gguf" && target_of(o) != Target::gguf) || (ending == ".bantam" && target_of(o) != Target::native);
  if (other) warn(message(printable(o.output, 4096), ": --to ", o.to, " writes ", writes_folder(target_of(o)) ? "a folder" : "another kind of file", ", whatever its name says"));
  try {
    check_formats(recipe, target_of(o));
  } catch (const Error& error) {
    throw UsageError(message("--to ", o.to, ": --", error.what()));
  }
}

void check_fit(const CompressOptions& o) {
  if (o.fit.empty()) return;
  (void)parse_candidates(o.candidates);
  if (writes_folder(target_of(o))) throw UsageError(message("--fit: expected --to native or gguf, found ", o.to));
  if (!o.smooth.empty()) {
    throw UsageError("--fit: not yet with --smooth; what works: --fit on a model that was smoothed into f32 before");
  }
}

void warn_of_idle_patterns(const Recipe& recipe, const Checkpoint& checkpoint) {
  const auto warn_if_idle = [&](std::string_view option, const std::string& pattern) {
    const bool matched = std::ranges::any_of(checkpoint.tensors(), [&](const CheckpointTensor& t) { return t.is_matrix && matches(t.name, pattern); });
    if (!matched) warn(message(option, printable(pattern), ": no matrix of this model has such a name"));
  };
  for (const Recipe::Exception& exception : recipe.exceptions()) warn_if_idle("--keep ", exception.pattern);
  if (!recipe.options().pruning) return;
  for (const Pruning::Exception& exception : recipe.options().pruning->exceptions) warn_if_idle("--prune ", exception.pattern);
}

/// GGUF's blocks are up to 256 weights long, and quantized folders have modules of certain sizes: other matrices were given
/// another format.
void warn_of_other_formats(const Recipe& recipe, Target target, const Checkpoint& checkpoint, const Report& report) {
  std::map<std::string, int> counts;  // of "asked, given"
  auto layer = report.layers.begin();
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    if (!tensor.is_matrix || layer == report.layers.end()) continue;
    if (layer->name != tensor.name) ++layer;  // a head that the checkpoint does not have
    const bool table = info_of(tensor.role).is_table();
    const FormatInfo& asked = recipe.format_of(tensor.name, table);
    const bool expected = table && target != Target::gguf;  // floats there, always
    if (asked.name != layer->format && !expected) {
      ++counts[message("(", tensor.rows, ", ", tensor.columns, ") weights are no whole blocks of ", asked.name, ": kept in ", layer->format)];
    }
    ++layer;
  }
  for (const auto& [what, count] : counts) warn(message(count, count == 1 ? " matrix: " : " matrices: ", what));
}

/// Rotation unties a head whose norm has weights of its own.
void note_head(const Checkpoint& checkpoint, const Report& report) {
  const auto head = std::find_if(report.layers.begin(), report.layers.end(), [](const LayerReport& layer) { return layer.name == "lm_head"; });
  if (!checkpoint.config().tied || head == report.layers.end()) return;
  note(message("bantam: --rotate: the head is no longer the embedding, which takes ", in_bytes(head->bytes_after), " more"));
}

std::string as_table(const Report& report) {
  std::vector<LayerReport> layers = report.layers;
  std::stable_sort(layers.begin(), layers.end(),
                   [](const LayerReport& a, const LayerReport& b) { return a.output_error.value_or(a.relative_error) > b.output_error.value_or(b.relative_error); });
  constexpr std::size_t most_shown = 8;
  const bool outputs = std::ranges::any_of(layers, [](const LayerReport& layer) { return layer.output_error.has_value(); });
  Table table("lrrrrr");
  std::vector<std::string> head{"largest errors", "format", "bytes", outputs ? "of weights" : "relative error"};
  if (outputs) head.emplace_back("of outputs");
  if (report.sparsity) head.emplace_back("zeros");
  table.add(head);
  for (std::size_t i = 0; i < std::min(layers.size(), most_shown); ++i) {
    const LayerReport& layer = layers[i];
    std::vector<std::string> row{printable(layer.name), layer.format, in_bytes(layer.bytes_before) + " -> " + in_bytes(layer.bytes_after),
                                 fixed(100 * layer.relative_error, 3) + " %"};
    if (outputs) row.push_back(layer.output_error ? fixed(100 * *layer.output_error, 3) + " %" : "");
    if (report.sparsity) row.push_back(layer.sparsity ? fixed(100 * *layer.sparsity, 2) + " %" : "");
    table.add(row);
  }
  std::ostringstream summary;
  summary << report;
  return message(summary.str(), "\n\n", table.text(), "\n", report.layers.size(), " matrices in ",
                 fixed(report.seconds, 2), " s, peak memory ",
                 in_bytes(static_cast<std::int64_t>(report.peak_rss_bytes)), "\n");
}

/// False: Ctrl-C came.
bool show(ProgressBar& bar, const Progress& p) {
  bar.show(p.done, p.total, p.layer, p.seconds_left);
  return interrupted() == 0;
}

/// Everything about the run before weights are touched.
struct Task {
  Checkpoint checkpoint;
  Recipe recipe;
  Target target;
  Calibration calibration;
  std::optional<Fit> fit;
  std::string evaluation_text;
  std::optional<PruneReport> pruned;  ///< then `checkpoint` is what it left
};

/// The text to calibrate with: the user's, or the bundled one.
std::string calibration_text(const CompressOptions& o) {
  if (!o.calibration.empty()) return read_input(o.calibration);
  note("bantam: calibrating with the bundled text, pieces of English books; text like that which the model will read is better: --calibration FILE");
  return std::string(default_calibration_text());
}

/// Opens, reads the calibration text, prunes, and chooses formats if that is asked for.
Task prepare(const CompressOptions& o, Recipe recipe, bool calibrated) {
  Task task{open_checkpoint(o.model, o.gptq_zero), std::move(recipe), target_of(o), {}, {}, {}, {}};
  const bool removes = o.pruning.removes_parts();
  // Rotation looks at norms, and a fit at everything.
  const bool shapes_only = o.dry_run && o.fit.empty() && !o.rotate;
  if (removes) task.pruned = plan_parts(o.pruning, task.checkpoint, task.recipe, task.target);
  if ((calibrated || !o.fit.empty() || removes) && !shapes_only) {
    std::string text = calibration_text(o);
    task.calibration = Calibration::from_text(task.checkpoint.tokenizer(), text, o.samples,
                                              std::min<std::int64_t>(o.tokens, task.checkpoint.config().context));
    if (!o.fit.empty()) task.evaluation_text = std::move(text);
  }
  // Now: it would be a pity to miss a file after hours.
  if (!o.evaluate.empty()) task.evaluation_text = read_input(o.evaluate);
  warn_of_idle_patterns(task.recipe, task.checkpoint);
  if (removes && shapes_only) {
    task.checkpoint = outline_of(task.checkpoint, plan_structure(task.checkpoint.config(), task.pruned->removals));
  } else if (removes) {
    if (task.pruned->before[Cost::latency] == 0) task.pruned = time_parts(*std::move(task.pruned), task.checkpoint, task.recipe, task.target);
    const Section section(Insisting::changes_nothing);
    const CancelScope scope([] { return interrupted() != 0; });
    ProgressBar bar(!o.common.json);
    PrunedModel left = remove_parts(*std::move(task.pruned), task.checkpoint, task.calibration, {.compensate = !o.no_compensation},
                                    [&](const Progress& p) { return show(bar, p); });
    task.checkpoint = std::move(left.checkpoint);
    task.pruned = std::move(left.report);
  }
  task.recipe = task.recipe.for_model(task.checkpoint);
  if (o.fit.empty()) return task;
  task.fit = fit_to_budget(task.checkpoint, task.recipe, task.calibration, task.target, parse_candidates(o.candidates),
                           o.fit, o.common.json);
  task.recipe = task.fit->recipe;
  return task;
}

int print_plan(const CompressOptions& o, const Task& task) {
  Plan plan = plan_file(task.checkpoint, task.recipe, task.target);
  Report planned;  // of parts alone
  if (task.pruned) {
    plan.bytes_before = task.pruned->bytes_before;
    planned.follow(*task.pruned);
  }
  for (const std::string& line : planned.warnings) warn(printable(line, 4096));
  if (o.common.json) {
    Json json = plan_json(plan, task.fit);
    if (task.pruned) json["prune"] = Json::parse(planned.to_json(), "report")["prune"];
    print_json(json);
  } else {
    print(plan_table(plan, task.fit) + (task.pruned ? pruned_text(*task.pruned) : ""));
  }
  return 0;
}

/// Measures what was written, writes the report, prints.
int conclude(const CompressOptions& o, const Task& task, const Report& report) {
  std::optional<Evaluation> evaluation;
  if ((!o.evaluate.empty() || task.fit) && interrupted() == 0) {
    const bool calibration = o.evaluate.empty();
    const std::string name = calibration && o.calibration.empty() ? "the bundled text" : input_name(calibration ? o.calibration : o.evaluate);
    evaluation = evaluate(o.model, o.output, {name, calibration, {}}, task.evaluation_text, o.limit, o.common);
  }
  const Record record{o.model, o.output, task.recipe, report, task.fit, evaluation};
  if (o.report) write_report(record);
  if (o.common.json) {
    print(as_json(record).dump({.indent = 2, .replace_invalid = true}) + "\n");
  } else {
    print(as_table(report) + measurements(record));
  }
  return 0;
}

int compress_model(CompressOptions o, const std::vector<std::string>& idle) {
  if (o.format == "help") {
    print(format_list() + "\n");
    return 0;
  }
  if (o.output.empty() && !o.dry_run) throw UsageError("-o is required: the name of the output");
  // Wrong usage is told before anything is opened.
  Recipe recipe = make_recipe(o);
  if (!o.dry_run) refuse_overwriting(o.model, o.output);
  settle_target(o, recipe);
  check_fit(o);
  apply(o.common);
  const std::string journal = o.output + ".journal";
  const bool asked = o.method != "hqq" && (!o.calibration.empty() || !o.fit.empty());
  const bool calibrated = asked || needs_calibration(recipe);
  if (!o.dry_run) {
    if (!writes_folder(target_of(o)) && path_kind(o.output) == PathKind::folder) {
      fail(Errc::invalid_argument, printable(o.output, 4096), ": expected the name of a file, found a folder");
    }
    if (!calibrated && o.resume) note(message("bantam: --resume: ", o.method, " without calibration keeps no journal, starting over"));
  }
  if (!calibrated && o.fit.empty() && !o.pruning.removes_parts()) {
    for (const std::string& option : idle) warn(message(option, " has no effect: ", o.method, " without calibration"));
  }
  if (calibrated && o.desc_act && o.method.find("gptq") == std::string::npos) warn(message("--desc-act has no effect: ", o.method));
  for (const std::string& option : o.overruled)
    warn(message(option, " has no effect: --fit chooses formats; --keep and --candidates guide it"));
  if (o.fit.empty() && !o.candidates.empty()) warn("--candidates has no effect without --fit");
  const Task task = prepare(o, std::move(recipe), calibrated);
  if (o.dry_run) return print_plan(o, task);
  std::error_code ignored;
  if (calibrated && !o.resume) std::filesystem::remove(journal, ignored);
  Report report;
  try {
    // A temporary file lies beside the output until the end.
    const Section section(Insisting::changes_nothing);
    const CancelScope scope([] { return interrupted() != 0; });
    ProgressBar bar(!o.common.json);
    report = compress_file(task.checkpoint, o.output, task.recipe, task.target,
                           [&](const Progress& p) { return show(bar, p); },
                           calibrated ? task.calibration : Calibration(), calibrated ? journal : "");
  } catch (const Error& error) {
    if (error.code() == Errc::cancelled && path_kind(journal) == PathKind::file) {
      note(message("bantam: finished blocks are kept in ", printable(journal), ": --resume goes on from there"));
    }
    throw;
  }
  if (task.pruned) report.follow(*task.pruned);
  for (const std::string& line : report.warnings) warn(printable(line, 4096));
  if (report.resumed_blocks > 0) note(message("bantam: --resume: ", report.resumed_blocks, " blocks were done already"));
  warn_of_other_formats(task.recipe, task.target, task.checkpoint, report);
  if (o.rotate) note_head(task.checkpoint, report);
  return conclude(o, task, report);
}

}  // namespace

void add_compress(CLI::App& app, Action& action) {
  CLI::App& verb = add_verb(app, "compress", "make a model smaller");
  const auto o = std::make_shared<CompressOptions>();
  const CLI::Option* model =
      add_argument(verb, "MODEL", o->model, "Hugging Face folder, .gguf or .bantam file", false);
  add_text(verb, "-o,--output", o->output, "OUT", "the file to write, or the folder; its name says which kind: x.gguf, folder/, x.bantam");
  std::vector<std::string> method_names;
  for (const Method method : methods) method_names.emplace_back(name_of(method));
  add_choice(verb, "--method", o->method, method_names, "how weights are rounded; rtn: to nearest");
  const std::vector<CLI::Option*> choosing = {
      add_text(verb, "--format", o->format, "NAME",
               "of the weights, as `bantam formats` lists them, or llama.cpp's mixes (Q4_K_M); help prints the list"),
      add_integer(verb, "--group", o->group, {-1, std::numeric_limits<std::int32_t>::max()},
                  "weights per scale; 0: a whole row, -1: the format's usual group")};
  add_texts(verb, "--keep", o->keep, "PATTERN=FORMAT",
            "matrices with such names get this format; may be repeated, last match wins");
  std::vector<std::string> target_names;
  for (const Target target : targets) target_names.emplace_back(name_of(target));
  add_open_choice(verb, "--to", o->to, target_names, "the kind of output, whatever its name; gptq_v2: gptq as GPTQModel wants it for formats with zero points [by the name]");
  CLI::Option* rotate = add_flag(verb, "--rotate", o->rotate, "rotate the weights at random first: the same model, easier to round to 3 and 2 bits");
  needs(add_integer(verb, "--seed", o->seed, {}, "of --rotate"), rotate);
  add_text(verb, "--smooth", o->smooth, "ALPHA", "make inputs even at the cost of the weights, to this degree (SmoothQuant); 0.5 is usual");
  add_text(verb, "--clip", o->clip, "HOW", "how far grids follow the largest weights (rtn): minmax, mse, percentile:99.9; with calibration mse is usual, else minmax");
  const std::vector<CLI::Option*> calibrating = {
      add_text(verb, "--calibration", o->calibration, "FILE", "text to calibrate with: gptq and awq use a bundled one without, rtn gains by it"),
      add_integer(verb, "--samples", o->samples, {1, std::numeric_limits<std::int32_t>::max()},
                  "pieces of calibration text"),
      add_integer(verb, "--tokens", o->tokens, {1, std::numeric_limits<std::int32_t>::max()},
                  "tokens a piece"),
      add_flag(verb, "--desc-act", o->desc_act, "columns strictly in the order of their activations (gptq)"),
      add_flag(verb, "--no-true-sequential", o->one_run,
               "round all matrices of a block for the inputs that it had before any was rounded: faster")};
  CLI::Option* prune = add_texts(verb, "--prune", o->prune, "WHAT:AMOUNT",
                                 "remove first: parts, the least needed on the calibration text (layers:COUNT, channels:SHARE of the FFN's, heads:SHARE "
                                 "with all that share their keys, experts:SHARE of each layer's, hidden:SHARE of the dimensions of the hidden states), which makes the model "
                                 "smaller; or weights (magnitude, magnitude_row, magnitude_model, wanda, sparsegpt, and a SHARE, N:M or 16x4; "
                                 ",PATTERN=AMOUNT after it for some matrices), which leaves zeros in their places; may be repeated");
  needs(add_text(verb, "--prune-to", o->prune_to, "COST:AMOUNT",
                 "the same share of every part that --prune names without an amount, so that the model costs no more: parameters:1.1B, flops:0.7x, "
                 "bytes:600MB, latency:12ms a token; 0.7x: of what the whole model costs in this format"),
        prune);
  needs(add_flag(verb, "--no-compensation", o->no_compensation, "what is left takes nothing over from the parts that --prune removed"), prune);
  const CLI::Option* fit = add_text(verb, "--fit", o->fit, "SIZE",
                                    "mixed precision: the formats that cost least in a file of 6GiB, 402MB ..., or with "
                                    "3.5bpw (bits a weight), by measurement on the calibration text");
  add_text(verb, "--candidates", o->candidates, "LIST", "formats that --fit chooses from besides those that matrices have, separated by commas [ten of 2.4 to 16 bits]");
  add_flag(verb, "--dry-run", o->dry_run, "print formats and sizes, write nothing");
  add_text(verb, "--evaluate", o->evaluate, "FILE",
           "measure perplexity before and after, and the divergence, on this text; with --fit else on the calibration "
           "text");
  add_integer(verb, "--limit", o->limit, {}, "measure over this many tokens of it; 0: all");
  add_flag(verb, "--report", o->report, "write OUT.report.html, .md, .json and .svg: errors of every matrix, what was measured, charts");
  add_flag(verb, "--resume", o->resume, "go on after the last block of OUT.journal, which an interrupted run that calibrates leaves");
  add_gptq_zero(verb, o->gptq_zero);
  add_common(verb, o->common);
  finish_verb(
      verb,
      "Embeddings and head get int8 when the rest gets 4 bits, unless --keep says otherwise. Memory holds\n"
      "a few matrices at a time. The output is complete under its name, or the old one is still there.\n\n"
      "Examples:\n"
      "  bantam compress Qwen3-0.6B -o q4.bantam --format q4 --group 64\n"
      "  bantam compress model.gguf -o m.bantam --format nf4 --keep '*.down_proj=q8' --keep lm_head=f16\n"
      "  bantam compress Qwen3-0.6B -o q3.bantam --format i3z --group 128 --method awq+gptq --calibration text.txt\n"
      "  bantam compress Qwen3-0.6B -o fit.bantam --fit 300MiB --method gptq --calibration text.txt --report\n"
      "  bantam compress Qwen3-0.6B -o small.bantam --prune heads:0.25 --prune channels:0.3 --method gptq --calibration text.txt\n"
      "  bantam compress Qwen3-0.6B -o fast.bantam --prune heads --prune channels --prune-to latency:0.7x\n"
      "  bantam compress q4.bantam -o plain/ --format f32\n"
      "  bantam compress Qwen3-0.6B -o small.gguf --format Q4_K_M\n"
      "  bantam compress Qwen3-0.6B -o q4-gptq --format i4 --group 128 --method gptq --calibration text.txt --to gptq\n"
      "  bantam compress Qwen3-0.6B -o sparse --format f16 --prune sparsegpt:2:4 --calibration text.txt --to safetensors",
      [=, &action] {
        std::vector<std::string> idle;
        for (const CLI::Option* option : calibrating) {
          if (given(option)) idle.push_back(name_of(option));
        }
        if (given(fit)) (void)parse_budget(o->fit);
        o->pruning = checked([&] { return parse_prune(o->prune, o->prune_to); });
        if (o->pruning.goal && o->pruning.goal->cost == Cost::bytes && given(fit)) throw UsageError("--prune-to bytes: not with --fit, which says the size");
        for (const CLI::Option* option : choosing) {
          if (!o->fit.empty() && given(option)) o->overruled.push_back(name_of(option));
        }
        if (o->format != "help" && !given(model)) throw UsageError("MODEL is required");
        action = [o, idle] { return compress_model(*o, idle); };
      });
}

}  // namespace bantam::cli
