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
  std::int64_t prompt_tokens = 512;
  std::int64_t gen_tokens = 128;
  std::int64_t repetitions = 5;
  std::int64_t depth = 0;
  std::int64_t batch = 1;
  std::string kv = "f16";
  bool profile = false;
};

/// Everything measured; one element a repetition.
struct Samples {
  double load_ms = 0;
  std::size_t peak_rss_bytes = 0;  ///< of the model's work, without the measuring of the machine
  std::vector<double> prompt_tok_s, generate_tok_s, read_gb_s, int8_gop_s;
  Json prompt_profile, generate_profile;  ///< null: not asked for
};

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

/// The same once more, phase by phase.
void add_profiles(const BenchOptions& o, Session& session, Random& random, Samples& samples) {
  const MachineLimits limits{median(samples.read_gb_s), median(samples.int8_gop_s)};
  if (o.prompt_tokens > 0) {
    Profile profile;
    const double rate = prefill_rate(session, random, o.prompt_tokens, &profile);
    samples.prompt_profile = profile_json(session, profile, {.seconds = static_cast<double>(o.prompt_tokens) / rate, .passes = 1, .tokens = o.prompt_tokens}, limits);
  }
  if (o.gen_tokens > 0) {
    Profile profile;
    const double rate = o.batch == 1 ? decode_rate(session, random, o.gen_tokens, o.depth, &profile) : batch_rate(session, random, o.gen_tokens, o.depth, o.batch, &profile);
    const ModelConfig& config = session.model().config();
    const std::int64_t text_bytes = config.window > 0 ? 0 : config.new_state(o.kv).bytes_per_token() * o.depth * o.batch;
    const ProfiledPasses passes{.seconds = static_cast<double>(o.gen_tokens * o.batch) / rate, .passes = o.gen_tokens, .tokens = o.batch, .text_bytes = text_bytes, .decodes = true};
    samples.generate_profile = profile_json(session, profile, passes, limits);
  }
}

/// The machine's limits are measured between the repetitions: other work on it slows all of them alike.
Samples measure(const BenchOptions& o, Session& session) {
  Samples samples;
  Random random(1);
  const int threads = static_cast<int>(o.common.threads);
  ProgressBar bar(!o.common.json);
  // Not counted: pages are touched and clocks rise.
  if (o.prompt_tokens > 0) (void)prefill_rate(session, random, o.prompt_tokens);
  if (o.gen_tokens > 0) (void)decode_rate(session, random, std::min<std::int64_t>(o.gen_tokens, 8), 0);
  for (std::int64_t i = 0; i < o.repetitions; ++i) {
    bar.show(i, o.repetitions, "repetitions");
    if (o.prompt_tokens > 0) samples.prompt_tok_s.push_back(prefill_rate(session, random, o.prompt_tokens));
    if (o.gen_tokens > 0) {
      samples.generate_tok_s.push_back(o.batch == 1 ? decode_rate(session, random, o.gen_tokens, o.depth)
                                                    : batch_rate(session, random, o.gen_tokens, o.depth, o.batch));
    }
    if (i == 0) samples.peak_rss_bytes = peak_rss_bytes();
    samples.int8_gop_s.push_back(measure_int8_gop_s(threads));
    samples.read_gb_s.push_back(measure_read_gb_s(threads));
  }
  if (o.profile) add_profiles(o, session, random, samples);
  return samples;
}

Json rates(std::int64_t tokens, const std::vector<double>& tok_s) {
  if (tok_s.empty()) return nullptr;
  const auto [least, most] = std::minmax_element(tok_s.begin(), tok_s.end());
  return {{"tokens", tokens}, {"tok_s", {{"min", *least}, {"median", median(tok_s)}, {"max", *most}}}};
}

Json fraction(double part, double whole) { return part > 0 && whole > 0 ? Json(part / whole) : Json(nullptr); }

Json as_json(const BenchOptions& o, const Session& session, const Samples& samples) {
  const ModelWeights& weights = session.model().weights();
  const double passes = median(samples.generate_tok_s) / static_cast<double>(o.batch);
  const double read = 1e-9 * static_cast<double>(weights.streamed_bytes) * passes;
  const double operations = 1e-9 * footprint_of(session.model().checkpoint()).layer_operations * median(samples.prompt_tok_s);
  const double read_limit = median(samples.read_gb_s);
  const double int8_limit = median(samples.int8_gop_s);
  // What a cache holds is not read from memory, and no share of its bandwidth.
  const bool cached = weights.streamed_bytes <= last_level_cache_bytes() || read > read_limit;
  Json json = {
      {"prompt", rates(o.prompt_tokens, samples.prompt_tok_s)},
      {"generate", rates(o.gen_tokens, samples.generate_tok_s)},
      {"weight_bytes", session.model().bytes()},
      {"active_bytes", weights.streamed_bytes},
      {"streamed_bytes", weights.streamed_bytes},  // its older name
      {"read_gb_s", read > 0 ? Json(read) : Json(nullptr)},
      {"prefill_gop_s", operations > 0 ? Json(operations) : Json(nullptr)},
      {"machine",
       {{"cpu", cpu_name()},
        {"isa", kernels_in_use().name},
        {"threads", session.threads()},
        {"read_gb_s_measured", read_limit},
        {"int8_gop_s_measured", int8_limit},
        {"last_level_cache_bytes", last_level_cache_bytes()}}},
      {"weights_in_cache", cached},
      {"fractions",
       {{"decode_of_bandwidth", fraction(read, read_limit)}, {"prefill_of_int8", fraction(operations, int8_limit)}}},
      {"depth", o.depth},
      {"batch", o.batch},
      {"kv", o.kv},
      {"peak_rss_bytes", samples.peak_rss_bytes},
      {"load_ms", samples.load_ms},
      {"profile", o.profile ? Json{{"prompt", samples.prompt_profile}, {"generate", samples.generate_profile}} : Json(nullptr)}};
  return json;
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
  const auto add = [&](const char* name, const Json& rate, const std::string& reached) {
    if (rate.is_null()) return;
    const Json& tok_s = rate["tok_s"];
    table.add({name, message(rate["tokens"].get<std::int64_t>()), number(tok_s["min"], 1), number(tok_s["median"], 1),
               number(tok_s["max"], 1), reached});
  };
  const auto share_of = [&](const char* rate, const char* unit, const char* share, const char* of) {
    const Json& part = json["fractions"][share];
    if (part.is_null()) return std::string();
    const auto reached = json[rate].get<double>();
    return message(fixed(reached, reached < 10 ? 3 : 1), " ", unit, ", ", fixed(100 * part.get<double>(), 1),
                   " % of ", of);
  };
  add("prefill", json["prompt"], share_of("prefill_gop_s", "Gop/s", "prefill_of_int8", "the int8 rate"));
  const bool cached = json["weights_in_cache"].get<bool>();
  add("decode", json["generate"],
      share_of("read_gb_s", "GB/s", "decode_of_bandwidth", cached ? "the memory's bandwidth, read from the cache" : "the read bandwidth"));
  out += table.text();
  const Json& profile = json["profile"];
  return profile.is_null() ? out : out + profile_table(profile["prompt"], profile["generate"]);
}

int bench(const BenchOptions& o) {
  if (o.prompt_tokens == 0 && o.gen_tokens == 0)
    throw UsageError("-p and -n: expected one of them above 0, found both 0");
  apply(o.common);
  const Stopwatch loading;
  const std::int64_t context = std::max(o.prompt_tokens, o.depth + o.gen_tokens) + 2;
  auto [model, adapters, text] = load_adapted(o.model, o.loading, {.context = context, .kv = o.kv, .sequences = o.batch, .may_spill = true});
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
  add_integer(verb, "-p,--prompt-tokens", o->prompt_tokens, tokens, "tokens of the prompt; 0: no prefill");
  add_integer(verb, "-n,--gen-tokens", o->gen_tokens, tokens, "tokens to decode, one by one; 0: no decode");
  add_integer(verb, "-r,--repetitions", o->repetitions, {1, 10000}, "how often each is measured");
  add_integer(verb, "--depth", o->depth, tokens, "tokens held before the decode begins");
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
      "--profile runs both once more. Phases are dealt out to the threads and end in a barrier: waiting is\n"
      "the share of the threads' time in them that none of their parts took; between phases one thread\n"
      "works alone. Limits are those of arithmetic or of reading; other phases have none that is measured.\n\n"
      "Examples:\n"
      "  bantam bench q4.bantam\n"
      "  bantam bench q4.bantam -p 0 -n 256 --depth 4096 --kv q8 --json",
      [o, &action] { action = [o] { return bench(*o); }; });
}

}  // namespace bantam::cli
