// Reading options.
#include "options.hpp"

#include <CLI/CLI.hpp>
#include <cmath>

#include "bantam/core/names.hpp"
#include "bantam/core/parallel.hpp"
#include "bantam/io/scratch_file.hpp"
#include "bantam/kernels/table.hpp"
#include "bantam/model/residency.hpp"
#include "other_experts.hpp"
#include "fit.hpp"
#include "io/posix.hpp"
#include "memory_bound.hpp"
#include "output.hpp"
#include "progress.hpp"
#include "spellings.hpp"

namespace bantam::cli {

namespace {

/// "-n,--max-tokens" -> "--max-tokens".
std::string long_name(const std::string& names) {
  const auto comma = names.rfind(',');
  return comma == std::string::npos ? names : names.substr(comma + 1);
}

template <class F>
CLI::Option* add_parsed(CLI::App& app, const std::string& names, const std::string& type, const std::string& help,
                        F parse) {
  return app.add_option_function<std::string>(names, parse, help)
      ->type_name(type)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

std::string with_default(const std::string& help, const std::string& value) {
  return value.empty() ? help : message(help, " [", value, "]");
}

}  // namespace

std::int64_t parse_integer(std::string_view option, std::string_view text, Bounds bounds) {
  try {
    return whole_number(option, text, bounds.least, bounds.most);
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
}

double parse_number(std::string_view option, std::string_view text) {
  const std::optional<double> value = number_in<double>(text);
  if (!value) throw UsageError(message(option, ": expected a number, found ", printable(text)));
  return *value;
}

CLI::Option* add_integer(CLI::App& app, const std::string& names, std::int64_t& target, Bounds bounds,
                         const std::string& help) {
  return add_parsed(app, names, "N", with_default(help, message(target)),
                    [&target, bounds, name = long_name(names)](const std::string& text) {
                      target = parse_integer(name, text, bounds);
                    });
}

std::vector<std::string> between_commas(std::string_view option, std::span<const std::string> values) {
  std::vector<std::string> found;
  for (const std::string& value : values) {
    for (std::size_t at = 0; at <= value.size();) {
      const std::size_t end = std::min(value.find(',', at), value.size());
      if (end == at) throw UsageError(message(option, ": expected something between commas, found ", value.empty() ? "nothing" : printable(value)));
      found.push_back(value.substr(at, end - at));
      at = end + 1;
    }
  }
  return found;
}

CLI::Option* add_integers(CLI::App& app, const std::string& names, std::vector<std::int64_t>& target, Bounds bounds, const std::string& help) {
  std::string usual;
  for (const std::int64_t value : target) usual += message(usual.empty() ? "" : ",", value);
  return add_parsed(app, names, "N[,N...]", with_default(help, usual), [&target, bounds, name = long_name(names)](const std::string& text) {
    target.clear();
    for (const std::string& one : between_commas(name, {&text, 1})) target.push_back(parse_integer(name, one, bounds));
  });
}

CLI::Option* add_number(CLI::App& app, const std::string& names, float& target, const std::string& help) {
  return add_parsed(app, names, "X", with_default(help, message(target)),
                    [&target, name = long_name(names)](const std::string& text) {
                      const auto value = static_cast<float>(parse_number(name, text));
                      if (!std::isfinite(value))
                        throw UsageError(message(name, ": expected a finite number, found ", printable(text)));
                      target = value;
                    });
}

CLI::Option* add_text(CLI::App& app, const std::string& names, std::string& target, const std::string& type,
                      const std::string& help) {
  return add_parsed(app, names, type, with_default(help, target),
                    [&target](const std::string& text) { target = text; });
}

CLI::Option* add_texts(CLI::App& app, const std::string& names, std::vector<std::string>& target,
                       const std::string& type, const std::string& help) {
  // One value each time: the parser would otherwise take the arguments that follow, and split values in brackets.
  return app.add_option(names, target, help)->type_name(type)->allow_extra_args(false);
}

CLI::Option* add_open_choice(CLI::App& app, const std::string& names, std::string& target, const std::vector<std::string>& words,
                             const std::string& help) {
  std::string list;
  for (const std::string& word : words) list += message(list.empty() ? "" : "|", word);
  return add_parsed(app, names, list, help, [&target, words, list, name = long_name(names)](const std::string& text) {
    if (std::find(words.begin(), words.end(), text) == words.end()) {
      const std::vector<std::string_view> views(words.begin(), words.end());
      throw UsageError(message(name, ": expected ", list, ", found ", printable(text), did_you_mean(text, views)));
    }
    target = text;
  });
}

CLI::Option* add_choice(CLI::App& app, const std::string& names, std::string& target,
                        const std::vector<std::string>& words, const std::string& help) {
  if (target.empty()) target = words.front();
  return add_open_choice(app, names, target, words, with_default(help, target));
}

CLI::Option* add_flag(CLI::App& app, const std::string& names, bool& target, const std::string& help) {
  return app.add_flag(names, target, help);
}

CLI::Option* add_argument(CLI::App& app, const std::string& name, std::string& target, const std::string& help,
                          bool required) {
  return app.add_option(name, target, help)->type_name("")->required(required);
}

CLI::Option* add_arguments(CLI::App& app, const std::string& name, std::vector<std::string>& target, const std::string& help) {
  return app.add_option(name, target, help)->type_name("");
}

bool given(const CLI::Option* option) { return option->count() > 0; }

std::string name_of(const CLI::Option* option) { return option->get_name(); }

void needs(CLI::Option* option, CLI::Option* other) { option->needs(other); }

CLI::App& add_verb(CLI::App& app, const std::string& name, const std::string& help) {
  return *app.add_subcommand(name, help);
}

void finish_verb(CLI::App& verb, const std::string& examples, std::function<void()> chosen) {
  const std::string spellings = spellings_help(verb.get_name());
  verb.footer(spellings.empty() ? examples : message(examples, "\n\n", spellings))->callback(std::move(chosen));
}

std::vector<TokenId> parse_ids(std::string_view json, const std::string& place) {
  const auto array = Json::parse_or_null(json);
  if (!array.is_array()) {
    fail(Errc::invalid_argument, place, ": expected a JSON array of token ids, found ",
         json.empty() ? "nothing" : printable(json, 40));
  }
  std::vector<TokenId> ids;
  ids.reserve(array.size());
  for (const Json& element : array) {
    constexpr std::uint64_t most = std::numeric_limits<TokenId>::max();
    if (!element.is_number_unsigned() || element.get<std::uint64_t>() > most) {
      fail(Errc::invalid_argument, place, ": element ", ids.size(), ": expected a token id, found ",
           printable(element.dump({.ascii = true}), 40));
    }
    ids.push_back(element.get<TokenId>());
  }
  return ids;
}

void add_common(CLI::App& app, CommonOptions& options) {
  constexpr const char* group = "Common options";
  add_parsed(app, "--threads", "N", "threads to use; 0: the physical cores that the process may use [0]",
             [&](const std::string& text) {
               options.threads = parse_integer("--threads", text, {0, 1024});
             })
      ->group(group);
  add_text(app, "--isa", options.isa, "NAME", "instruction set, of those that `bantam cpuinfo` lists [the best]")
      ->group(group);
  add_flag(app, "--json", options.json, "print one JSON document and nothing else")->group(group);
}

void apply(const CommonOptions& options) {
  set_parallel_threads(static_cast<int>(options.threads));
  if (options.isa.empty()) return;
  try {
    use_kernels(options.isa);
  } catch (const Error& error) {
    throw UsageError(message("--isa: ", error.what()));
  }
}

void add_loading(CLI::App& app, LoadingOptions& options) {
  add_flag(app, "--mmap", options.map, "native files: use the file's own pages: loads at once; the file must stay as it is");
  add_flag(app, "--no-mmap", options.no_map, "native files: read into memory in huge pages: faster decoding [default]; tables of per-layer embeddings (Gemma 3n, 4) and n-grams (Qwen4), too");
  add_flag(app, "--direct", options.direct, "the same, read around the system's cache: large files not read lately");
  add_flag(app, "--verify", options.verify, "native files: compare everything with the hashes that they store");
  add_text(app, "--memory", options.memory, "SIZE",
           "what the process may take: 12GiB; weights beyond it are read from the file as they are wanted, with the same results [what is free]");
  add_device_map(app, options.devices);
  add_integer(app, "--experts", options.experts, {0, 1 << 20},
              "send tokens to so many experts: fewer are faster, and another model; says how far it is from the right one; 0: the model's number");
  add_number(app, "--prefer-cached", options.cold.prefer_cached,
             "of models whose experts are read from the file: take an expert in memory in place of one that is not where it scores more than 1 - this; "
             "says how far that is from the right model; 0: off")
      ->check(CLI::Range(0.0, 1.0));
  add_number(app, "--drop-cold", options.cold.drop,
             "leave out experts that are not in memory where they count less than this share of a token's; says how far that is, too; 0: off")
      ->check(CLI::Range(0.0, 1.0));
  add_texts(app, "--lora", options.lora, "PATH[:SCALE]",
            "add a LoRA adapter to the weights: a folder of PEFT's or a GGUF file, so many times as much of it; may be repeated");
  add_gptq_zero(app, options.gptq_zero);
}

void add_device_map(CLI::App& app, DeviceMap& target) {
  add_parsed(app, "--device-map", "FILE", "JSON that says what of the weights stays in memory (\"cpu\") and what in the file (\"disk\"), as accelerate's device_map, or what `bantam plan --json` wrote",
             [&target](const std::string& path) { target = DeviceMap::parse(read_text_file(path), message("--device-map: ", printable(path, 4096))); });
}

void add_gptq_zero(CLI::App& app, std::string& target) {
  add_choice(app, "--gptq-zero", target, {"automatic", "wrapped", "legacy"},
             "zero points of GPTQ folders that are stored as all ones mean 0, or, as in files of old tools, 2^bits; automatic: 0, and says so");
}

Checkpoint open_checkpoint(const std::string& path, const std::string& gptq_zero) {
  // Verbs without the option leave the name empty.
  Checkpoint checkpoint = Checkpoint::open(path, {.gptq_zero = gptq_zero.empty() ? GptqZero::automatic : find_gptq_zero(gptq_zero)});
  for (const std::string& line : checkpoint.warnings()) warn(line + "; --gptq-zero wrapped or legacy decides");
  return checkpoint;
}

void refuse_overwriting(const std::string& model, const std::string& out) {
  bool same = same_file(model, out);
  // A folder's files are the model, too.
  detail::for_each_name(model, [&](std::string_view name) {
    same = same || same_file(std::filesystem::path(model) / name, out);
    return !same;
  });
  if (same)
    fail(Errc::invalid_argument, printable(out, 4096),
         ": expected an output other than the input, found the same file");
}

std::int64_t context_of(const Model& model, const LoadingOptions& options, std::int64_t context) {
  const bool is_bounded = !options.memory.empty() || (model.residency() != nullptr && model.residency()->is_bounded());
  return context == 0 && is_bounded ? std::min(model.config().context, bounded_context) : context;
}

namespace {

WeightMemory weight_memory(const LoadingOptions& options) {
  at_most_one(options.map + options.no_map + options.direct, "--mmap, --no-mmap, --direct");
  if (options.map && !options.memory.empty()) throw UsageError("--memory: expected weights that are read, found --mmap");
  return options.map ? WeightMemory::mapped : options.direct ? WeightMemory::direct : options.no_map ? WeightMemory::huge_pages : WeightMemory::automatic;
}

std::vector<ScaledAdapter> adapters_of(const LoadingOptions& options, const ModelConfig& config) {
  std::vector<AdapterChoice> choices;
  for (const std::string& text : options.lora) choices.push_back(parse_adapter(text));
  return load_adapters(choices, config);
}

/// With what it was given of memory, but for its adapters.
AdaptedModel load_divided(const ModelToLoad& wanted, const LoadingOptions& options, const TextRoom& texts, const MemoryDivision& division, const DeviceMap& devices,
                          const LoadProgress& progress) {
  const StateMemory text{.limit = division.texts / texts.sequences};
  Model model = Model::from_checkpoint(wanted.checkpoint, {.memory = weight_memory(options), .progress = progress, .verify = options.verify, .memory_limit = division.weights, .device_map = devices});
  if (model.residency() != nullptr && model.residency()->is_bounded() && options.memory.empty()) note("bantam: " + description(model, *model.residency()));
  // Nobody has asked for the longest text that a model was made for.
  const bool is_asked = texts.context > 0 || !options.memory.empty();
  if (text.limit > 0 && is_asked) note(message("bantam: keys and values beyond ", in_bytes(text.limit), " a text go to a file in ", ScratchFile::usual_folder().string()));
  return {std::move(model), {}, text};
}

}  // namespace

std::vector<AdaptedModel> load_together(std::span<const std::string> paths, const LoadingOptions& options, const TextRoom& texts, bool drawn) {
  (void)weight_memory(options);
  std::vector<Checkpoint> checkpoints;
  for (const std::string& path : paths) checkpoints.push_back(open_checkpoint(path, options.gptq_zero));
  // First: weights get what is left beside them.
  std::vector<ScaledAdapter> adapters = adapters_of(options, checkpoints[0].config());
  std::vector<ModelToLoad> wanted;
  for (const Checkpoint& checkpoint : checkpoints) wanted.push_back({checkpoint, texts, wanted.empty() ? std::span<const ScaledAdapter>(adapters) : std::span<const ScaledAdapter>()});
  const std::vector<MemoryDivision> division = options.map ? std::vector<MemoryDivision>(paths.size()) : divide_memory(wanted, options.memory, taken_bytes());
  std::vector<AdaptedModel> loaded;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    ProgressBar bar(drawn);
    const LoadProgress show = [&](std::int64_t done, std::int64_t total) {
      constexpr std::int64_t at_once = 32 << 20;  // a bar would only flash
      if (total >= at_once) bar.show_bytes(done, total);
      return true;
    };
    loaded.push_back(load_divided(wanted[i], options, texts, division[i], i == 0 ? options.devices : DeviceMap(), show));
  }
  loaded[0].model = with_other_experts(loaded[0].model, options);
  loaded[0].adapters = std::move(adapters);
  return loaded;
}

AdaptedModel load_adapted(const std::string& path, const LoadingOptions& options, const TextRoom& texts, bool drawn) {
  return std::move(load_together({&path, 1}, options, texts, drawn)[0]);
}

std::optional<ModelBeside> load_beside(const std::string& path, const LoadingOptions& options, const TextRoom& texts, std::int64_t others, std::int64_t base, LoadProgress progress) {
  (void)weight_memory(options);
  const std::int64_t before = taken_bytes();
  const Checkpoint checkpoint = open_checkpoint(path, options.gptq_zero);
  std::vector<ScaledAdapter> adapters = adapters_of(options, checkpoint.config());
  // Tokenizers and adapters, which nothing else counts.
  const std::int64_t opened = std::max<std::int64_t>(0, taken_bytes() - before);
  ModelToLoad wanted{checkpoint, texts, adapters};
  const std::int64_t taken = others == 0 ? taken_bytes() : base + others + opened;
  const std::int64_t room = bound_bytes(options.memory) - taken, whole = options.map ? 0 : whole_bytes(wanted, options.memory);
  if (others > 0 && whole > room) return std::nullopt;
  const MemoryDivision division = options.map ? MemoryDivision{} : divide_memory({&wanted, 1}, options.memory, taken)[0];
  AdaptedModel loaded = load_divided(wanted, options, texts, division, options.devices, progress);
  loaded.model = with_other_experts(loaded.model, options);
  loaded.adapters = std::move(adapters);
  return ModelBeside{std::move(loaded), std::max<std::int64_t>(1, opened + std::min(whole, room))};
}

std::vector<std::string> kv_kinds() {
  std::vector<std::string> kinds;
  for (const KvKernels& kind : kernel_tables().back()->kv) kinds.emplace_back(kind.name);
  return kinds;
}

namespace {

/// What comes nearest to llama.cpp's types of keys and values.
std::string kv_of_type(std::string_view option, const std::string& type) {
  constexpr std::pair<std::string_view, std::string_view> kinds[] = {{"f32", "f32"},   {"f16", "f16"},  {"bf16", "f16"}, {"q8_0", "q8"}, {"q5_1", "q8"},
                                                                     {"q5_0", "q8"}, {"q4_1", "q4"}, {"q4_0", "q4"},  {"iq4_nl", "q4"}};
  for (const auto& [theirs, ours] : kinds) {
    if (theirs == type) return std::string(ours);
  }
  throw UsageError(message(option, ": expected ", with_commas(kinds, &std::pair<std::string_view, std::string_view>::first), ", found ", printable(type)));
}

}  // namespace

CLI::Option* add_kv(CLI::App& app, std::string& target) {
  // Of keys and values: both are kept in one way.
  const auto type = std::make_shared<std::string>();
  for (const char* const name : {"--cache-type-k", "--cache-type-v"}) {
    add_parsed(app, name, "TYPE", "", [&target, type, name](const std::string& text) {
      target = kv_of_type(name, text);
      if (!type->empty() && *type != text) throw UsageError(message("--cache-type-k, --cache-type-v: expected the same type, found ", *type, " and ", text));
      *type = text;
    })->group("");
  }
  return add_choice(app, "--kv", target, kv_kinds(), "how keys and values are kept");
}

void at_most_one(int count, std::string_view names) {
  if (count > 1) throw UsageError(message(names, ": expected one of them, found ", count));
}

void not_yet(std::string_view what) { fail(Errc::unsupported, what, ": not yet"); }

}  // namespace bantam::cli
