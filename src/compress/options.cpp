// The table of options of compression, and how their texts are read.
#include "bantam/compress/options.hpp"

#include <algorithm>
#include <cmath>

#include "bantam/core/names.hpp"
#include "core/number_text.hpp"

namespace bantam::inline v0 {

namespace {

template <const auto& choices>
std::vector<std::string_view> names_in() {
  std::vector<std::string_view> names;
  for (const auto choice : choices) names.push_back(name_of(choice));
  return names;
}

constexpr CompressOption option_table[] = {
    {.name = "method", .kind = OptionKind::choice, .words = names_in<methods>, .initial = "rtn", .example = "rtn",
     .meaning = "how weights are rounded; rtn: to nearest",
     .set = [](CompressRequest& r, const OptionValue& v) { r.method = find_method(v.text); }},
    {.name = "format", .kind = OptionKind::format, .placeholder = "NAME", .initial = "q4", .example = "i8.g32",
     .meaning = "of the weights, as `bantam formats` lists them, or llama.cpp's mixes (Q4_K_M)",
     .set = [](CompressRequest& r, const OptionValue& v) { r.format = v.text; }},
    {.name = "group", .kind = OptionKind::integer, .least = -1, .placeholder = "N", .initial = "-1", .example = "64",
     .meaning = "weights per scale; 0: a whole row, -1: the format's usual group",
     .set = [](CompressRequest& r, const OptionValue& v) { r.group = static_cast<int>(v.integer); }},
    {.name = "keep", .kind = OptionKind::exceptions, .placeholder = "PATTERN=FORMAT", .example = "*.down_proj=q8",
     .meaning = "matrices with such names get this format; the last that matches counts",
     .set = [](CompressRequest& r, const OptionValue& v) {
       const auto equals = v.text.rfind('=');
       if (equals == std::string_view::npos) fail(Errc::invalid_argument, "keep: expected PATTERN=FORMAT, found ", printable(v.text));
       r.keep.emplace_back(v.text.substr(0, equals), v.text.substr(equals + 1));
     }},
    {.name = "to", .older = "target", .kind = OptionKind::choice, .words = names_in<targets>, .initial = "native", .example = "native", .of_files = true,
     .meaning = "the kind of output, whatever its name; gptq_v2: gptq as GPTQModel wants it for formats with zero points",
     .set = [](CompressRequest& r, const OptionValue& v) { r.target = find_target(v.text); }},
    {.name = "rotate", .kind = OptionKind::seed, .example = "7",
     .meaning = "rotate the weights at random first: the same model, easier to round to 3 and 2 bits",
     .set = [](CompressRequest& r, const OptionValue& v) { r.details.rotation = v.seed; }},
    {.name = "smooth", .kind = OptionKind::number, .placeholder = "ALPHA", .example = "0.5",
     .meaning = "make inputs even at the cost of the weights, to this degree from 0 to 1 (SmoothQuant); 0.5 is usual",
     .set = [](CompressRequest& r, const OptionValue& v) { r.details.smooth = v.number; }},
    {.name = "clip", .kind = OptionKind::text, .placeholder = "HOW", .example = "percentile:99.9",
     .meaning = "how far grids follow the largest weights (rtn): minmax, mse, percentile:99.9; with calibration mse is usual, else minmax",
     .set = [](CompressRequest& r, const OptionValue& v) { r.details.clip = find_clip(v.text); }},
    {.name = "calibration", .kind = OptionKind::corpus, .placeholder = "FILE", .calibrates = true,
     .meaning = "text to calibrate with: gptq and awq use a bundled one without, rtn gains by it",
     .set = [](CompressRequest& r, const OptionValue& v) { r.calibration_path = v.text; }},
    {.name = "samples", .kind = OptionKind::integer, .least = 1, .placeholder = "N", .initial = "128", .example = "2", .calibrates = true,
     .meaning = "pieces of calibration text",
     .set = [](CompressRequest& r, const OptionValue& v) { r.calibration.samples = v.integer; }},
    {.name = "tokens", .kind = OptionKind::integer, .least = 1, .placeholder = "N", .initial = "2048", .example = "16", .calibrates = true,
     .meaning = "tokens a piece",
     .set = [](CompressRequest& r, const OptionValue& v) { r.calibration.tokens = v.integer; }},
    {.name = "imatrix", .program = "", .kind = OptionKind::importance,  // the program says what is wrong with a file apart from wrong usage
     .meaning = "llama.cpp's importance matrix: what errors count where no calibration text says it",
     .set = [](CompressRequest& r, const OptionValue& v) { r.details.importance = std::make_shared<const ImportanceMatrix>(read_importance(v.text)); }},
    {.name = "desc_act", .kind = OptionKind::flag, .initial = "off", .calibrates = true,
     .meaning = "columns strictly in the order of their activations (gptq)",
     .set = [](CompressRequest& r, const OptionValue& v) { r.details.gptq.order = v.on ? ColumnOrder::activation : ColumnOrder::group; }},
    {.name = "true_sequential", .kind = OptionKind::flag, .initial = "on", .calibrates = true,
     .meaning = "round each group of a block's matrices for the inputs that the rounded ones before it make, which takes longer",
     .set = [](CompressRequest& r, const OptionValue& v) { r.details.true_sequential = v.on; }},
    {.name = "merge_lora", .kind = OptionKind::adapters, .placeholder = "PATH[:SCALE]",
     .meaning = "merge a LoRA adapter into the weights first, a folder of PEFT's or a GGUF file, so many times as much of it",
     .set = [](CompressRequest& r, const OptionValue& v) { r.adapters.push_back(parse_adapter(v.text)); }},
    {.name = "prune", .kind = OptionKind::texts, .placeholder = "WHAT:AMOUNT", .example = "magnitude:0.5",
     .meaning = "remove first: parts, the least needed on the calibration text (layers:COUNT, channels:SHARE of the FFN's, heads:SHARE "
                "with all that share their keys, experts:SHARE of each layer's, hidden:SHARE of the dimensions of the hidden states), which makes the model "
                "smaller; or weights (magnitude, magnitude_row, magnitude_model, wanda, sparsegpt, and a SHARE, N:M or 16x4; "
                ",PATTERN=AMOUNT after it for some matrices), which leaves zeros in their places",
     .set = [](CompressRequest& r, const OptionValue& v) { r.prune.emplace_back(v.text); }},
    {.name = "prune_to", .kind = OptionKind::text, .placeholder = "COST:AMOUNT", .example = "parameters:0.9x", .needs = {"prune", "channels"},
     .meaning = "the same share of every part that prune names without an amount, so that the model costs no more: parameters:1.1B, flops:0.7x, "
                "bytes:600MB, latency:12ms a token; 0.7x: of what the whole model costs in this format",
     .set = [](CompressRequest& r, const OptionValue& v) { r.prune_to = v.text; }},
    {.name = "compensate", .program = "no-compensation", .kind = OptionKind::flag, .initial = "on", .needs = {"prune", "channels:0.25"},
     .meaning = "what is left takes over what it can of the parts that prune removed",
     .set = [](CompressRequest& r, const OptionValue& v) { r.parts.compensate = v.on; }},
    {.name = "journal", .program = "", .kind = OptionKind::file, .of_files = true,
     .meaning = "keeps finished blocks of methods that calibrate: an interrupted run goes on from there",
     .set = [](CompressRequest& r, const OptionValue& v) { r.journal = v.text; }},
};

/// An option by its name. Throws invalid_argument listing the names there are.
const CompressOption& find_option(std::string_view name) {
  std::vector<std::string_view> names;
  for (const CompressOption& option : option_table) {
    if (option.older == name && !name.empty()) return option;
    names.push_back(option.name);
  }
  return option_table[find_name("option", name, names)];
}

template <class T>
T number_of(std::string_view name, std::string_view text) {
  const std::optional<T> value = number_in<T>(text);
  if (!value) fail(Errc::invalid_argument, name, ": expected a number, found ", printable(text));
  return *value;
}

/// `name` is the one of the option's that was used.
OptionValue read_value(const CompressOption& option, std::string_view name, std::string_view text) {
  constexpr std::string_view answers[] = {"off", "on"};
  OptionValue value{.text = text};
  if (option.kind == OptionKind::flag) value.on = find_name(name, text, answers) == 1;
  if (option.kind == OptionKind::integer) value.integer = whole_number(name, text, option.least, option.most);
  if (option.kind == OptionKind::seed) value.seed = number_of<std::uint64_t>(name, text);
  if (option.kind == OptionKind::number) value.number = number_of<double>(name, text);
  if (option.kind == OptionKind::choice) (void)find_name(name, text, option.words());
  return value;
}

/// Calls f; errors begin with the option's name, which some already do.
template <class F>
auto naming_option(std::string_view name, F&& f) {
  try {
    return f();
  } catch (const Error& error) {
    if (std::string_view(error.what()).starts_with(message(name, ':'))) throw;
    fail(error.code(), name, ": ", error.what());
  }
}

}  // namespace

CompressRequest::CompressRequest() {
  for (const CompressOption& option : option_table) {
    if (!option.initial.empty()) option.set(*this, read_value(option, option.name, option.initial));
  }
}

PruneRequest prune_of(const CompressRequest& request) { return parse_prune(request.prune, request.prune_to); }

Recipe recipe_of(const CompressRequest& request) {
  MethodOptions details = request.details;
  details.pruning = prune_of(request).weights;
  Recipe recipe = recipe::with(request.method, request.format, {.group = request.group}, details);
  for (const auto& kept : request.keep) naming_option("keep", [&] { recipe.keep(kept.first, kept.second); });
  return recipe;
}

Checkpoint merged(const CompressRequest& request, const Checkpoint& checkpoint) {
  return naming_option("merge_lora", [&] { return checkpoint.merged(load_adapters(request.adapters, checkpoint.config(), AdapterUse::merge)); });
}

Model with_adapters(const CompressRequest& request, const Model& model) {
  return request.adapters.empty() ? model : Model::from_checkpoint(merged(request, model.checkpoint()));
}

std::span<const CompressOption> compress_options() noexcept { return option_table; }

std::string program_name(const CompressOption& option) {
  if (option.program) return std::string(*option.program);
  std::string name = message(option.kind == OptionKind::flag && option.initial == "on" ? "no-" : "", option.name);
  std::ranges::replace(name, '_', '-');
  return name;
}

void set_option(CompressRequest& request, std::string_view name, std::string_view text) {
  const CompressOption& option = find_option(name);
  naming_option(name, [&] { option.set(request, read_value(option, name, text)); });
}

}  // namespace bantam::inline v0
