// Options of texts, by name.
#include "options.hpp"

namespace bantam::python {

std::vector<ScaledAdapter> as_library(const Adapters& adapters) {
  std::vector<ScaledAdapter> all;
  for (const auto& [adapter, scale] : adapters) all.push_back({adapter, scale});
  return all;
}

void read_sampling(Keywords& k, Sampling& s) {
  k.read("temperature", s.temperature);
  k.read("top_k", s.top_k);
  k.read("top_p", s.top_p);
  k.read("min_p", s.min_p);
  k.read("typical_p", s.typical_p);
  k.read("repeat_penalty", s.repeat_penalty);
  k.read("frequency_penalty", s.frequency_penalty);
  k.read("presence_penalty", s.presence_penalty);
  k.read("repeat_last_n", s.repeat_last_n);
  k.read("seed", s.seed);
  int mirostat = static_cast<int>(s.mirostat);
  k.read("mirostat", mirostat);
  s.mirostat = static_cast<Mirostat>(mirostat);
  k.read("mirostat_tau", s.mirostat_tau);
  k.read("mirostat_eta", s.mirostat_eta);
  k.read("dry_multiplier", s.dry_multiplier);
  k.read("dry_base", s.dry_base);
  k.read("dry_allowed_length", s.dry_allowed_length);
  k.read("dry_penalty_last_n", s.dry_penalty_last_n);
  k.read("dry_sequence_breakers", s.dry_sequence_breakers);
  k.read("top_n_sigma", s.top_n_sigma);
  k.read("xtc_probability", s.xtc_probability);
  k.read("xtc_threshold", s.xtc_threshold);
  k.read("dynatemp_range", s.dynatemp_range);
  k.read("dynatemp_exponent", s.dynatemp_exponent);
  std::map<TokenId, float> bias;
  k.read("logit_bias", bias);
  s.logit_bias.assign(bias.begin(), bias.end());
  std::vector<std::string> order;
  k.read("order", order);
  if (!order.empty()) s.order.clear();
  for (const std::string& stage : order) s.order.push_back(find_stage(stage));
}

namespace {

/// Calls Python with copies of tokens and logits, which it may keep; what it did to the logits is taken over.
LogitsProcessor processor(py::function process) {
  // The last copy may go on a thread without the GIL.
  const std::shared_ptr<py::function> shared(new py::function(std::move(process)), [](py::function* f) {
    const py::gil_scoped_acquire gil;
    delete f;
  });
  return [shared](std::span<const TokenId> tokens, std::span<float> logits) {
    const py::gil_scoped_acquire gil;
    const py::array_t<TokenId> ids(static_cast<py::ssize_t>(tokens.size()), tokens.data());
    py::array_t<float> values(static_cast<py::ssize_t>(logits.size()), logits.data());
    const py::object answer = (*shared)(ids, values);
    std::copy_n(values.data(), logits.size(), logits.begin());
    return answer.is_none() || answer.cast<bool>();
  };
}

}  // namespace

GenerateOptions generate_options(Keywords& k, EncodeOptions& encode, std::shared_ptr<Grammar>& grammar) {
  GenerateOptions o;
  k.read("grammar", grammar);
  k.read("max_tokens", o.max_tokens);
  k.read("stop", o.stop);
  k.read("ignore_end", o.ignore_end);
  k.read("spell", o.spell);
  k.read("lookup", o.speculation.lookup);
  k.read("mtp", o.speculation.mtp);
  std::optional<py::function> process;
  k.read("process", process);
  if (process) o.process = processor(std::move(*process));
  k.read("add_special", encode.add_special);
  k.read("parse_special", encode.parse_special);
  read_sampling(k, o.sampling);
  return o;
}

GenerateOptions generate_options(const py::kwargs& kwargs, EncodeOptions& encode, std::shared_ptr<Grammar>& grammar) {
  Keywords k(kwargs);
  GenerateOptions o = generate_options(k, encode, grammar);
  k.finish("stream");
  return o;
}

/// What options are where nobody sets them.
py::dict default_options() {
  const GenerateOptions o;
  const Sampling& s = o.sampling;
  const EncodeOptions encode;
  py::dict d;
  d["max_tokens"] = o.max_tokens;
  d["stop"] = o.stop;
  d["ignore_end"] = o.ignore_end;
  d["spell"] = o.spell;
  d["lookup"] = o.speculation.lookup;
  d["mtp"] = o.speculation.mtp;
  d["process"] = py::none();
  d["grammar"] = py::none();
  d["json_schema"] = py::none();
  d["add_special"] = encode.add_special;
  d["parse_special"] = encode.parse_special;
  d["temperature"] = s.temperature;
  d["top_k"] = s.top_k;
  d["top_p"] = s.top_p;
  d["min_p"] = s.min_p;
  d["typical_p"] = s.typical_p;
  d["repeat_penalty"] = s.repeat_penalty;
  d["frequency_penalty"] = s.frequency_penalty;
  d["presence_penalty"] = s.presence_penalty;
  d["repeat_last_n"] = s.repeat_last_n;
  d["seed"] = s.seed;
  d["mirostat"] = static_cast<int>(s.mirostat);
  d["mirostat_tau"] = s.mirostat_tau;
  d["mirostat_eta"] = s.mirostat_eta;
  d["dry_multiplier"] = s.dry_multiplier;
  d["dry_base"] = s.dry_base;
  d["dry_allowed_length"] = s.dry_allowed_length;
  d["dry_penalty_last_n"] = s.dry_penalty_last_n;
  d["dry_sequence_breakers"] = s.dry_sequence_breakers;
  d["top_n_sigma"] = s.top_n_sigma;
  d["xtc_probability"] = s.xtc_probability;
  d["xtc_threshold"] = s.xtc_threshold;
  d["dynatemp_range"] = s.dynatemp_range;
  d["dynatemp_exponent"] = s.dynatemp_exponent;
  return d;
}

}  // namespace bantam::python
