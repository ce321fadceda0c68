// `bantam bench`: prefill and decode speed, beside what the machine can do.
#include <algorithm>

#include "bantam/compress/footprint.hpp"
#include "bantam/core/cpu.hpp"
#include "bantam/core/median.hpp"
#include "bantam/core/random.hpp"
#include "bantam/core/stopwatch.hpp"
#include "bantam/kernels/table.hpp"
#include "bantam/model/roles.hpp"
#include "bantam/session/machine.hpp"
#include "bench_profile.hpp"
#include "options.hpp"
#include "output.hpp"
#include "progress.hpp"
#include "verbs.hpp"

namespace bantam::cli {

namespace {

struct BenchOptions {
  CommonOptions common;
  LoadingOptions loading;
  std::string model;
  std::vector<std::int64_t> prompt_tokens = {512}, gen_tokens = {128}, depths = {0};
  std::int64_t repetitions = 5;
  std::int64_t batch = 1;
  std::string kv = "f16";
  bool profile = false;
};

/// A prompt of some length, or so many tokens that are decoded behind others.
struct Test {
  bool decodes = false;
  std::int64_t tokens = 0, depth = 0;
  std::vector<double> tok_s = {};  ///< one a repetition
  Json profile = {};               ///< null: not asked for
};

/// Everything measured; one element a repetition.
struct Samples {
  double load_ms = 0;
  std::size_t peak_rss_bytes = 0;  ///< of the model's work, without the measuring of the machine
  std::vector<Test> tests;         ///< prompts first
  std::vector<double> read_gb_s, int8_gop_s;

  /// The first that is a prompt, or decodes; null: none does.
  [[nodiscard]] const Test* first(bool decodes) const noexcept {
    const auto found = std::ranges::find(tests, decodes, &Test::decodes);
    return found == tests.end() ? nullptr : &*found;
  }
};

std::vector<Test> tests_of(const BenchOptions& o) {
  std::vector<Test> tests;
  for (const std::int64_t tokens : o.prompt_tokens) {
    if (tokens > 0) tests.push_back({.tokens = tokens});
  }
  for (const std::int64_t tokens : o.gen_tokens) {
    for (const std::int64_t depth : o.depths) {
      if (tokens > 0) tests.push_back({.decodes = true, .tokens = tokens, .depth = depth});
    }
  }
  return tests;
}

std::vector<TokenId> random_tokens(Random& random, std::int64_t count, std::int64_t vocab) {
  std::vector<TokenId> tokens(static_cast<std::size_t>(count));
  for (TokenId& token : tokens) token = static_cast<TokenId>(random.next() % static_cast<std::uint64_t>(vocab));
  return tokens;
}

/// Seconds since it was made; what passes do meanwhile is counted, too.
class Timing {
 public:
  Timing(const Session& session, Profile* profile) : engine_(session.engine()) { engine_.set_profile(profile); }
  ~Timing() { engine_.set_profile(nullptr); }
  Timing(const Timing&) = delete;
  Timing& operator=(const Timing&) = delete;
  [[nodiscard]] double seconds() const noexcept { return watch_.seconds(); }

 private:
  Engine engine_;
  Stopwatch watch_;
};

double prefill_rate(Session& session, Random& random, std::int64_t count, Profile* profile = nullptr) {
  const auto tokens = random_tokens(random, count, session.model().config().vocab);
  session.clear();
  const Timing watch(session, profile);
  session.prefill(tokens);
  return static_cast<double>(count) / watch.seconds();
}

/// Tokens of `batch` sequences side by side, most probable first, each sequence after `depth` tokens of its own past.
double batch_rate(Session& session, Random& random, std::int64_t count, std::int64_t depth, std::int64_t batch, Profile* profile = nullptr) {
  const auto vocab = session.model().config().vocab;
  std::vector<Session> sessions;
  std::vector<TextRange> generations;
  sessions.reserve(static_cast<std::size_t>(batch));
  for (std::int64_t i = 0; i < batch; ++i) {
    session.clear();
    session.prefill(random_tokens(random, std::max<std::int64_t>(depth, 1), vocab));
    sessions.push_back(session.fork());
    generations.push_back(sessions.back().stream(std::span<const TokenId>{}, {.max_tokens = -1, .sampling = {.temperature = 0}, .ignore_end = true}));
  }
  (void)advance(generations);  // the first token's logits were known
  const Timing watch(sessions.front(), profile);  // whose engine the passes run on
  for (std::int64_t i = 0; i < count; ++i) (void)advance(generations);
  return static_cast<double>(count * batch) / watch.seconds();
}

/// Tokens one by one, each with its logits, after `depth` others.
double decode_rate(Session& session, Random& random, std::int64_t count, std::int64_t depth, Profile* profile = nullptr) {
  const auto vocab = session.model().config().vocab;
  const auto tokens = random_tokens(random, count, vocab);
  session.clear();
  session.prefill(random_tokens(random, depth, vocab));
  const Timing watch(session, profile);
  for (const TokenId& token : tokens) session.prefill(std::span(&token, 1));
  return static_cast<double>(count) / watch.seconds();
}

double rate_of(const BenchOptions& o, Session& session, Random& random, const Test& test, Profile* profile = nullptr) {
  if (!test.decodes) return prefill_rate(session, random, test.tokens, profile);
  return o.batch == 1 ? decode_rate(session, random, test.tokens, test.depth, profile) : batch_rate(session, random, test.tokens, test.depth, o.batch, profile);
}

/// The same once more, phase by phase.
Json profile_of(const BenchOptions& o, Session& session, Random& random, const Test& test, const MachineLimits& limits) {
  Profile profile;
  const double rate = rate_of(o, session, random, test, &profile);
  if (!test.decodes) return profile_json(session, profile, {.seconds = static_cast<double>(test.tokens) / rate, .passes = 1, .tokens = test.tokens}, limits);
  const ModelConfig& config = session.model().config();
  const std::int64_t text_bytes = config.window > 0 ? 0 : config.new_state(o.kv).bytes_per_token() * test.depth * o.batch;
  return profile_json(session, profile,
                      {.seconds = static_cast<double>(test.tokens * o.batch) / rate, .passes = test.tokens, .tokens = o.batch, .text_bytes = text_bytes, .decodes = true}, limits);
}

/// The machine's limits are measured between the repetitions: other work on it slows all of them alike.
Samples measure(const BenchOptions& o, Session& session) {
  Samples samples{.tests = tests_of(o), .read_gb_s = {}, .int8_gop_s = {}};
  Random random(1);
  const int threads = static_cast<int>(o.common.threads);
  ProgressBar bar(!o.common.json);
  // Not counted: pages are touched and clocks rise.
  if (const Test* prompt = samples.first(false)) (void)prefill_rate(session, random, prompt->tokens);
  if (const Test* decode = samples.first(true)) (void)decode_rate(session, random, std::min<std::int64_t>(decode->tokens, 8), 0);
  for (std::int64_t i = 0; i < o.repetitions; ++i) {
    bar.show(i, o.repetitions, "repetitions");
    for (Test& test : samples.tests) test.tok_s.push_back(rate_of(o, session, random, test));
    if (i == 0) samples.peak_rss_bytes = peak_rss_bytes();
    samples.int8_gop_s.push_back(measure_int8_gop_s(threads));
    samples.read_gb_s.push_back(measure_read_gb_s(threads));
  }
  if (!o.profile) return samples;
  const MachineLimits limits{median(samples.read_gb_s), median(samples.int8_gop_s)};
  for (Test& test : samples.tests) test.profile = profile_of(o, session, random, test, limits);
  return samples;
}

Json fraction(double part, double whole) { return part > 0 && whole > 0 ? Json(part / whole) : Json(nullptr); }

/// Rates of a test, what it comes to in the unit of its limit, and what share of that it is.
Json as_json(const BenchOptions& o, const Session& session, const Samples& samples, const Test& test) {
  const auto [least, most] = std::ranges::minmax_element(test.tok_s);
  const double tok_s = median(test.tok_s);
  Json json = {{"kind", test.decodes ? "generate" : "prompt"}, {"tokens", test.tokens}, {"tok_s", {{"min", *least}, {"median", tok_s}, {"max", *most}}}};
  if (!test.decodes) {
    const double operations = 1e-9 * footprint_of(session.model().checkpoint()).layer_operations * tok_s;
    json["prefill_gop_s"] = operations;
    json["of_limit"] = fraction(operations, median(samples.int8_gop_s));
  } else {
    const double read = 1e-9 * static_cast<double>(session.model().weights().streamed_bytes) * tok_s / static_cast<double>(o.batch);
    json["depth"] = test.depth;
    json["read_gb_s"] = read;
    json["of_limit"] = fraction(read, median(samples.read_gb_s));
  }
  json["profile"] = test.profile;
  return json;
}

Json as_json(const BenchOptions& o, const Session& session, const Samples& samples) {
  const ModelWeights& weights = session.model().weights();
  const double read_limit = median(samples.read_gb_s);
  Json tests = Json::array();
  for (const Test& test : samples.tests) tests.push_back(as_json(o, session, samples, test));
  // The first of each kind, alone, as it is where one length is asked for.
  const auto first = [&](bool decodes) -> Json { return samples.first(decodes) == nullptr ? Json(nullptr) : as_json(o, session, samples, *samples.first(decodes)); };
  const Json prompt = first(false), generate = first(true);
  const auto of = [](const Json& test, const char* key) { return test.is_null() ? Json(nullptr) : test[key]; };
  const auto rates = [&](const Json& test) { return test.is_null() ? Json(nullptr) : Json{{"tokens", test["tokens"]}, {"tok_s", test["tok_s"]}}; };
  const Json read = of(generate, "read_gb_s");
  return {
      {"prompt", rates(prompt)},
      {"generate", rates(generate)},
      {"tests", tests},
      {"weight_bytes", session.model().bytes()},
      {"active_bytes", weights.streamed_bytes},
      {"streamed_bytes", weights.streamed_bytes},  // its older name
      {"read_gb_s", read},
      {"prefill_gop_s", of(prompt, "prefill_gop_s")},
      {"machine",
       {{"cpu", cpu_name()},
        {"isa", kernels_in_use().name},
        {"threads", session.threads()},
        {"read_gb_s_measured", read_limit},
        {"int8_gop_s_measured", median(samples.int8_gop_s)},
        {"last_level_cache_bytes", last_level_cache_bytes()}}},
      // What a cache holds is not read from memory, and no share of its bandwidth.
      {"weights_in_cache", weights.streamed_bytes <= last_level_cache_bytes() || (!read.is_null() && read.get<double>() > read_limit)},
      {"fractions", {{"decode_of_bandwidth", of(generate, "of_limit")}, {"prefill_of_int8", of(prompt, "of_limit")}}},
      {"depth", o.depths.front()},
      {"batch", o.batch},
      {"kv", o.kv},
      {"peak_rss_bytes", samples.peak_rss_bytes},
      {"load_ms", samples.load_ms},
      {"profile", o.profile ? Json{{"prompt", of(prompt, "profile")}, {"generate", of(generate, "profile")}} : Json(nullptr)}};
}

std::string as_table(const Json& json, bool has_experts) {
  const Json& machine = json["machine"];
  const auto number = [](const Json& value, int digits) { return fixed(value.get<double>(), digits); };
  std::string out =
      message("machine   ", printable(machine["cpu"].string()), ", ", machine["isa"].string(), ", ",
              machine["threads"].get<int>(), " threads: reads ", number(machine["read_gb_s_measured"], 2),
              " GB/s, int8 ", number(machine["int8_gop_s_measured"], 1), " Gop/s\nmodel     ",
              in_bytes(json["weight_bytes"].get<std::int64_t>()), " of weights", has_experts ? message(", ", in_bytes(json["active_bytes"].get<std::int64_t>()), " of them read for a token") : "", ", loaded in ", number(json["load_ms"], 1), " ms; peak memory ",
              in_bytes(json["peak_rss_bytes"].get<std::int64_t>()), "\n\n");
  Table table("lrrrrl");
  table.add({"", "tokens", "min tok/s", "median", "max", "reached"});
  const bool cached = json["weights_in_cache"].get<bool>();
  for (const Json& test : json["tests"]) {
    const bool decodes = test["kind"] == Json("generate");
    const Json &tok_s = test["tok_s"], &share = test["of_limit"];
    const std::int64_t depth = decodes ? test["depth"].get<std::int64_t>() : 0;
    const std::string name = !decodes ? "prefill" : depth == 0 ? "decode" : message("decode behind ", depth);
    const std::string limit = !decodes ? "the int8 rate" : cached ? "the memory's bandwidth, read from the cache" : "the read bandwidth";
    const auto reached = test[decodes ? "read_gb_s" : "prefill_gop_s"].get<double>();
    table.add({name, message(test["tokens"].get<std::int64_t>()), number(tok_s["min"], 1), number(tok_s["median"], 1), number(tok_s["max"], 1),
               share.is_null() ? std::string() : message(fixed(reached, reached < 10 ? 3 : 1), decodes ? " GB/s, " : " Gop/s, ", fixed(100 * share.get<double>(), 1), " % of ", limit)});
  }
  out += table.text();
  const Json& profile = json["profile"];
  return profile.is_null() ? out : out + profile_table(profile["prompt"], profile["generate"]);
}

int bench(const BenchOptions& o) {
  const std::vector<Test> tests = tests_of(o);
  if (tests.empty()) throw UsageError("-p and -n: expected one of them above 0, found both 0");
  apply(o.common);
  const Stopwatch loading;
  std::int64_t context = 2;
  for (const Test& test : tests) context = std::max(context, test.depth + test.tokens + 2);
  auto [model, adapters, text] = load_adapted(o.model, o.loading, {.context = context, .kv = o.kv, .sequences = o.batch, .may_spill = true}, !o.common.json);
  const double load_ms = 1000 * loading.seconds();
  Session session(std::move(model), {.context = context, .threads = static_cast<int>(o.common.threads), .kv = o.kv, .adapters = std::move(adapters), .memory = text});
  Samples samples = measure(o, session);
  samples.load_ms = load_ms;
  const Json json = as_json(o, session, samples);
  o.common.json ? print_json(json) : print(as_table(json, session.model().config().has_experts()));
  return 0;
}

}  // namespace

void add_bench(CLI::App& app, Action& action) {
  // More than any machine's memory holds of keys and values; sums of two stay far from overflow.
  constexpr Bounds tokens{0, std::int64_t{1} << 30};
  CLI::App& verb = add_verb(app, "bench", "measure prefill and decode speed beside the machine's limits");
  const auto o = std::make_shared<BenchOptions>();
  add_argument(verb, "MODEL", o->model, "Hugging Face folder, .gguf or .bantam file");
  add_integers(verb, "-p,--prompt-tokens", o->prompt_tokens, tokens, "tokens of the prompt, or of several; 0: no prefill");
  add_integers(verb, "-n,--gen-tokens", o->gen_tokens, tokens, "tokens to decode, one by one; 0: no decode");
  add_integer(verb, "-r,--repetitions", o->repetitions, {1, 10000}, "how often each is measured");
  add_integers(verb, "-d,--depth", o->depths, tokens, "tokens held before the decode begins");
  add_integer(verb, "--batch", o->batch, {1, 65536}, "sequences decoded at once, in one pass over the weights");
  add_flag(verb, "--profile", o->profile, "also where the time of a prompt and of decoding goes, phase by phase");
  add_kv(verb, o->kv);
  add_loading(verb, o->loading);
  add_common(verb, o->common);
  finish_verb(
      verb,
      "Tokens are random, the model's end tokens are passed over. The machine's limits are measured in\n"
      "the same run, between the repetitions: memory read by all threads (GB/s), and int8 dot products\n"
      "(10^9 operations a second, a multiply and an add are two). Decode reads every weight once a token,\n"
      "of experts those that it is routed to (active_bytes);\n"
      "prefill does 2 operations a token and weight of the layers' matrices, attention and head left out.\n"
      "With --batch, tok/s counts the tokens of all sequences, the most probable ones, chosen included.\n"
      "Of several lengths each is measured in every repetition, and decoding behind each depth; --json has\n"
      "all of them as tests, and their profiles. --profile runs them once more, and shows the first prompt's\n"
      "and the first decoding's. Phases are dealt out to the threads and end in a barrier: waiting is\n"
      "the share of the threads' time in them that none of their parts took; between phases one thread\n"
      "works alone. Limits are those of arithmetic or of reading; other phases have none that is measured.\n\n"
      "Examples:\n"
      "  bantam bench q4.bantam\n"
      "  bantam bench q4.bantam -p 16,512,4096 -n 64 -d 0,4096\n"
      "  bantam bench q4.bantam -p 0 -n 256 --depth 4096 --kv q8 --json",
      [o, &action] { action = [o] { return bench(*o); }; });
}

}  // namespace bantam::cli
