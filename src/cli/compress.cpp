// `bantam compress`: a recipe over a model, written to a file.
#include "bantam/compress/compress.hpp"

#include <algorithm>
#include <map>
#include <sstream>

#include "bantam/compress/mix.hpp"
#include "bantam/core/parallel.hpp"
#include "bantam/model/roles.hpp"
#include "compress_options.hpp"
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
  CompressRequest request;
  PruneRequest pruning;                ///< of the request
  std::vector<std::string> idle;       ///< options that nothing comes of where nothing is calibrated
  std::vector<std::string> overruled;  ///< options that --fit decides
  bool target_given = false;
  std::string fit, candidates, evaluate, gptq_zero, imatrix, save_imatrix;
  std::int64_t limit = 20'000;
  bool resume = false, dry_run = false, report = false;
};

std::string format_list() {
  std::vector<std::string> names;
  for (const FormatInfo& format : formats()) names.emplace_back(format.name);
  for (const Mix& mix : mixes()) names.emplace_back(mix.name);
  return with_commas(names);
}

/// The recipe that the options describe; UsageError names the option that does not fit.
Recipe make_recipe(const CompressOptions& o) {
  CompressRequest request = o.request;
  if (!o.fit.empty()) {
    // Any format will do that every method takes: each matrix gets its own.
    request.format = "i4m";
    request.group = -1;
  }
  if (!o.imatrix.empty()) request.details.importance = std::make_shared<const ImportanceMatrix>(read_importance(o.imatrix));
  return checked_options([&] { return recipe_of(request); });
}

/// --to, or what the name of the output says.
void settle_target(CompressOptions& o, const Recipe& recipe) {
  const std::filesystem::path out = o.output;
  Target& target = o.request.target;
  if (!o.target_given && !o.output.empty()) {
    target = checked_options([&] { return target_for(out, recipe); });
    if (writes_folder(target)) note(message("bantam: ", printable(o.output, 4096), ": a Hugging Face folder, as --to ", name_of(target), " makes it"));
  }
  // Journals and reports lie beside a folder, not in it.
  while (o.output.size() > 1 && o.output.ends_with('/')) o.output.pop_back();
  const std::string ending = out.extension().string();
  const bool other = (ending == ".gguf" && target != Target::gguf) || (ending == ".bantam" && target != Target::native);
  if (other) warn(message(printable(o.output, 4096), ": --to ", name_of(target), " writes ", writes_folder(target) ? "a folder" : "another kind of file", ", whatever its name says"));
  try {
    check_formats(recipe, target);
  } catch (const Error& error) {
    throw UsageError(message("--to ", name_of(target), ": --", error.what()));
  }
}

void check_fit(const CompressOptions& o) {
  if (o.fit.empty()) return;
  (void)parse_candidates(o.candidates);
  if (writes_folder(o.request.target)) throw UsageError(message("--fit: expected --to native or gguf, found ", name_of(o.request.target)));
  if (o.request.details.smooth) {
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
  if (!o.request.calibration_path.empty()) return read_input(o.request.calibration_path);
  note("bantam: calibrating with the bundled text, pieces of English books; text like that which the model will read is better: --calibration FILE");
  return std::string(default_calibration_text());
}

/// Opens, reads the calibration text, prunes, and chooses formats if that is asked for.
Task prepare(const CompressOptions& o, Recipe recipe, bool calibrated) {
  Task task{merged(o.request, open_checkpoint(o.model, o.gptq_zero)), std::move(recipe), o.request.target, {}, {}, {}, {}};
  const bool removes = o.pruning.removes_parts();
  // Rotation looks at norms, and a fit at everything.
  const bool shapes_only = o.dry_run && o.fit.empty() && !o.request.details.rotation;
  if (removes) task.pruned = plan_parts(o.pruning, task.checkpoint, task.recipe, task.target);
  if ((calibrated || !o.fit.empty() || removes || !o.save_imatrix.empty()) && !shapes_only) {
    CalibrationText text = o.request.calibration;
    text.text = calibration_text(o);
    task.calibration = samples_of(text, task.checkpoint);
    if (!o.fit.empty()) task.evaluation_text = *std::move(text.text);
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
    PrunedModel left = remove_parts(*std::move(task.pruned), task.checkpoint, task.calibration, o.request.parts,
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
    const std::string name = calibration && o.request.calibration_path.empty() ? "the bundled text" : input_name(calibration ? o.request.calibration_path : o.evaluate);
    evaluation = evaluate(merged(o.request, Checkpoint::open(o.model)), o.output, {name, calibration, {}}, task.evaluation_text, o.limit, o.common);
  }
  const Record record{o.model, o.output, task.recipe, report, task.fit, evaluation};
  if (o.report) write_report(record);
  if (o.common.json) {
    print(as_json(record).dump({.indent = 2, .replace_invalid = true}) + "\n");
  } else {
    const bool has_runs = task.target == Target::native && task.checkpoint.config().has_experts();
    print(as_table(report) + (has_runs ? "matrices of an expert lie side by side: one read, where experts do not fit in memory\n" : "") + measurements(record));
  }
  return 0;
}

/// Measures what the model's matrices read, and writes it.
ImportanceMatrix save_imatrix(const CompressOptions& o, const Task& task) {
  const Section section(Insisting::changes_nothing);
  const CancelScope scope([] { return interrupted() != 0; });
  const std::string& path = o.request.calibration_path;
  ImportanceMatrix importance = save_importance(task.checkpoint, task.calibration, path.empty() ? path : input_name(path), o.save_imatrix);
  note(message("bantam: ", printable(o.save_imatrix, 4096), ": an importance matrix of ", importance.entries.size(), " tensors"));
  return importance;
}

int compress_model(CompressOptions o) {
  if (o.request.format == "help") {
    print(format_list() + "\n");
    return 0;
  }
  const bool measures_alone = o.output.empty() && !o.save_imatrix.empty();
  if (o.output.empty() && !o.dry_run && !measures_alone) throw UsageError("-o is required: the name of the output");
  if (o.dry_run && !o.save_imatrix.empty()) throw UsageError("--save-imatrix: not with --dry-run, which writes nothing");
  if (!o.save_imatrix.empty()) refuse_overwriting(o.model, o.save_imatrix);
  // Wrong usage is told before anything is opened.
  Recipe recipe = make_recipe(o);
  if (!o.dry_run && !measures_alone) refuse_overwriting(o.model, o.output);
  settle_target(o, recipe);
  check_fit(o);
  apply(o.common);
  const std::string journal = o.output + ".journal";
  const Method method = o.request.method;
  const bool asked = method != Method::hqq && (!o.request.calibration_path.empty() || !o.fit.empty());
  const bool calibrated = asked || needs_calibration(recipe);
  if (!o.dry_run && !measures_alone) {
    if (!writes_folder(o.request.target) && path_kind(o.output) == PathKind::folder) {
      fail(Errc::invalid_argument, printable(o.output, 4096), ": expected the name of a file, found a folder");
    }
    if (!calibrated && o.resume) note(message("bantam: --resume: ", name_of(method), " without calibration keeps no journal, starting over"));
  }
  if (!calibrated && o.fit.empty() && !o.pruning.removes_parts() && o.save_imatrix.empty()) {
    for (const std::string& option : o.idle) warn(message(option, " has no effect: ", name_of(method), " without calibration"));
  }
  const bool gptq = rounds_by_gptq(method);
  if (calibrated && o.request.details.gptq.order == ColumnOrder::activation && !gptq) warn(message("--desc-act has no effect: ", name_of(method)));
  for (const std::string& option : o.overruled)
    warn(message(option, " has no effect: --fit chooses formats; --keep and --candidates guide it"));
  if (o.fit.empty() && !o.candidates.empty()) warn("--candidates has no effect without --fit");
  const Task task = prepare(o, std::move(recipe), calibrated);
  if (o.dry_run) return print_plan(o, task);
  if (!o.save_imatrix.empty()) {
    const ImportanceMatrix importance = save_imatrix(o, task);
    if (measures_alone) {
      if (o.common.json) print_json({{"imatrix", o.save_imatrix}, {"tensors", importance.entries.size()}, {"pieces", importance.pieces}, {"piece_tokens", importance.piece_tokens}});
      return 0;
    }
  }
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
  if (o.request.details.rotation) note_head(task.checkpoint, report);
  return conclude(o, task, report);
}

}  // namespace

void add_compress(CLI::App& app, Action& action) {
  CLI::App& verb = add_verb(app, "compress", "make a model smaller");
  const auto o = std::make_shared<CompressOptions>();
  const CLI::Option* model =
      add_argument(verb, "MODEL", o->model, "Hugging Face folder, .gguf or .bantam file", false);
  add_text(verb, "-o,--output", o->output, "OUT", "the file to write, or the folder; its name says which kind: x.gguf, folder/, x.bantam");
  const auto table = std::make_shared<TableOptions>(verb);
  const CLI::Option* fit = add_text(verb, "--fit", o->fit, "SIZE",
                                    "mixed precision: the formats that cost least in a file of 6GiB, 402MB ..., or with "
                                    "3.5bpw (bits a weight), by measurement on the calibration text");
  add_text(verb, "--candidates", o->candidates, "LIST", "formats that --fit chooses from besides those that matrices have, separated by commas [fifteen of 1.6 to 16 bits]");
  add_text(verb, "--imatrix", o->imatrix, "FILE", "llama.cpp's importance matrix: what errors count where no calibration text says it");
  add_text(verb, "--save-imatrix", o->save_imatrix, "FILE", "write one, of the calibration text, for llama-quantize and --imatrix; -o may be left out then");
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
      "  bantam compress Qwen3-0.6B -o tiny.gguf --format IQ2_M --imatrix imatrix.gguf\n"
      "  bantam compress Qwen3-0.6B -o q4-gptq --format i4 --group 128 --method gptq --calibration text.txt --to gptq\n"
      "  bantam compress Qwen3-0.6B -o sparse --format f16 --prune sparsegpt:2:4 --calibration text.txt --to safetensors",
      [=, &action] {
        if (given(fit)) (void)parse_budget(o->fit);
        o->request = table->request();
        o->pruning = checked_options([&] { return prune_of(o->request); });
        if (o->pruning.goal && o->pruning.goal->cost == Cost::bytes && given(fit)) throw UsageError("--prune-to bytes: not with --fit, which says the size");
        o->target_given = table->given("to");
        o->idle = table->given_where([](const CompressOption& option) { return option.calibrates; });
        if (given(fit)) o->overruled = table->given_where([](const CompressOption& option) { return option.name == "format" || option.name == "group"; });
        if (o->request.format != "help" && !given(model)) throw UsageError("MODEL is required");
        action = [o] { return compress_model(*o); };
      });
}

}  // namespace bantam::cli
