// Generations, alone and in batches, and samplers for loops of the caller's own.
#include "bantam/text/reply.hpp"
#include "objects.hpp"

using namespace bantam;
using namespace bantam::capi;

namespace bantam::capi {

namespace {

std::vector<SamplerStage> stages_of(std::string_view names) {
  std::vector<SamplerStage> stages;
  while (!names.empty()) {
    const std::string_view name = names.substr(0, names.find(','));
    names.remove_prefix(std::min(names.size(), name.size() + 1));
    stages.push_back(find_stage(name));
  }
  return stages;
}

constexpr std::string_view sampling_settings =
    "order, dry_multiplier, dry_base, dry_allowed_length, dry_penalty_last_n, top_n_sigma, xtc_probability, xtc_threshold, dynatemp_range, "
    "dynatemp_exponent, mirostat, mirostat_tau or mirostat_eta";
constexpr std::pair<std::string_view, float Sampling::*> float_settings[] = {{"dry_multiplier", &Sampling::dry_multiplier},
                                                                            {"dry_base", &Sampling::dry_base},
                                                                            {"top_n_sigma", &Sampling::top_n_sigma},
                                                                            {"xtc_probability", &Sampling::xtc_probability},
                                                                            {"xtc_threshold", &Sampling::xtc_threshold},
                                                                            {"dynatemp_range", &Sampling::dynatemp_range},
                                                                            {"dynatemp_exponent", &Sampling::dynatemp_exponent},
                                                                            {"mirostat_tau", &Sampling::mirostat_tau},
                                                                            {"mirostat_eta", &Sampling::mirostat_eta}};
constexpr std::pair<std::string_view, int Sampling::*> int_settings[] = {{"dry_allowed_length", &Sampling::dry_allowed_length},
                                                                        {"dry_penalty_last_n", &Sampling::dry_penalty_last_n}};

/// Makes a generation by what `start` does with the session and the options.
template <class Start>
bantam_status begin(bantam_generation** generation, bantam_session* session, const bantam_generate_options* options, Start&& start) {
  return guarded([&] {
    bantam_generation*& out = need(generation, "generation");
    bantam_session& s = need(session, "session");
    s.check_cancelled();
    const bantam_generate_options o = read_options(options);
    out = new bantam_generation{&s, start(s.session, o)};
  });
}

}  // namespace

bantam_generate_options read_options(const bantam_generate_options* given) {
  const bantam_generate_options initial = BANTAM_GENERATE_OPTIONS_INIT;
  return options_of(given, initial, "generate options");
}

GenerateOptions generate_options_of(const bantam_generate_options& o, const Tokenizer& tokenizer) {
  GenerateOptions out{.max_tokens = o.max_tokens, .sampling = sampling_of(o), .ignore_end = o.ignore_end != 0};
  out.speculation.lookup = o.lookup;
  out.speculation.mtp = o.mtp;
  if ((o.flags & BANTAM_KEEP_SPECIAL) != 0) out.spell = reply_tokens(tokenizer, reply_form_of(tokenizer.chat_template()));
  if (o.process != nullptr) {
    out.process = [process = o.process, user = o.process_user](std::span<const TokenId> ids, std::span<float> logits) {
      return process(ids.data(), ids.size(), logits.data(), logits.size(), user) == 0;
    };
  }
  if (o.grammar != nullptr) out.grammar = o.grammar->grammar;
  out.speculation.draft = o.draft == nullptr ? nullptr : &o.draft->session;
  for (std::size_t i = 0; i < o.stop_count; ++i) out.stop.emplace_back(&need((&need(o.stop, "stop"))[i], "stop text"));
  return out;
}

Sampling sampling_of(const bantam_generate_options& o) {
  Sampling s{.temperature = o.temperature,
             .top_k = o.top_k,
             .top_p = o.top_p,
             .min_p = o.min_p,
             .typical_p = o.typical_p,
             .repeat_penalty = o.repeat_penalty,
             .frequency_penalty = o.frequency_penalty,
             .presence_penalty = o.presence_penalty,
             .repeat_last_n = o.repeat_last_n,
             .seed = o.seed};
  if (o.bias_count != 0) {
    (void)need(o.bias_ids, "bias_ids");
    (void)need(o.bias, "bias");
  }
  for (std::size_t i = 0; i < o.bias_count; ++i) s.logit_bias.emplace_back(o.bias_ids[i], o.bias[i]);
  read_settings(o.settings, o.setting_count, sampling_settings, [&](std::string_view name, std::string_view value) {
    if (name == "order") {
      s.order = stages_of(value);
      return true;
    }
    for (const auto& [known, number] : float_settings) {
      if (name == known) return s.*number = number_of<float>(name, value), true;
    }
    for (const auto& [known, number] : int_settings) {
      if (name == known) return s.*number = number_of<int>(name, value), true;
    }
    if (name != "mirostat") return false;
    const int version = number_of<int>(name, value);
    if (version < 0 || version > 2) fail(Errc::invalid_argument, "mirostat: expected 0 to 2, found ", version);
    s.mirostat = static_cast<Mirostat>(version);
    return true;
  });
  return s;
}

}  // namespace bantam::capi

extern "C" {

bantam_status bantam_grammar_new(bantam_grammar** grammar, const bantam_model* model, const char* gbnf, size_t bytes) {
  return guarded([&] {
    bantam_grammar*& out = need(grammar, "grammar");
    out = new bantam_grammar{TokenGrammar(Grammar::from_gbnf(text_of(gbnf, bytes, "gbnf")), need(model, "model").tokenizer)};
  });
}

bantam_status bantam_grammar_new_json_schema(bantam_grammar** grammar, const bantam_model* model, const char* schema, size_t bytes) {
  return guarded([&] {
    bantam_grammar*& out = need(grammar, "grammar");
    out = new bantam_grammar{TokenGrammar(Grammar::from_json_schema(text_of(schema, bytes, "schema")), need(model, "model").tokenizer)};
  });
}

void bantam_grammar_free(bantam_grammar* grammar) { delete grammar; }

bantam_status bantam_generation_new(bantam_generation** generation, bantam_session* session, const char* prompt, size_t bytes,
                                    const bantam_generate_options* options) {
  return begin(generation, session, options, [&](Session& s, const bantam_generate_options& o) {
    return s.stream(text_of(prompt, bytes, "prompt"), generate_options_of(o, s), encode_options(o.flags));
  });
}

bantam_status bantam_generation_new_tokens(bantam_generation** generation, bantam_session* session, const int32_t* prompt, size_t count,
                                           const bantam_generate_options* options) {
  return begin(generation, session, options,
               [&](Session& s, const bantam_generate_options& o) { return s.stream(ids_of(prompt, count), generate_options_of(o, s)); });
}

bantam_status bantam_generation_new_chat(bantam_generation** generation, bantam_session* session, const bantam_message* messages,
                                         size_t count, const bantam_generate_options* options) {
  return begin(generation, session, options,
               [&](Session& s, const bantam_generate_options& o) { return s.chat(messages_of(messages, count), generate_options_of(o, s)); });
}

bantam_status bantam_generation_new_chat_json(bantam_generation** generation, bantam_session* session, const char* json, size_t bytes,
                                              const bantam_generate_options* options) {
  return begin(generation, session, options,
               [&](Session& s, const bantam_generate_options& o) { return s.chat_json(text_of(json, bytes, "json"), generate_options_of(o, s)); });
}

bantam_status bantam_generation_next(bantam_generation* generation, const char** text, size_t* bytes) {
  return guarded([&] {
    bantam_generation& g = need(generation, "generation");
    (void)need(text, "text");
    g.session->check_cancelled();
    const std::optional<std::string_view> piece = g.range.next();
    *text = piece ? piece->data() : nullptr;
    if (bytes != nullptr) *bytes = piece ? piece->size() : 0;
  });
}

bantam_status bantam_generations_step(bantam_generation* const* generations, size_t count, size_t* running) {
  return guarded([&] {
    if (count != 0) (void)need(generations, "generations");
    std::vector<TextRange*> ranges;
    for (std::size_t i = 0; i < count; ++i) {
      bantam_generation& g = need(generations[i], "generation");
      g.session->check_cancelled();
      ranges.push_back(&g.range);
    }
    const std::size_t left = advance(ranges);
    if (running != nullptr) *running = left;
  });
}

const char* bantam_generation_piece(const bantam_generation* generation, size_t* bytes) {
  const std::string_view piece = generation == nullptr ? std::string_view("") : generation->range.piece();
  if (bytes != nullptr) *bytes = piece.size();
  return piece.data();
}

bantam_status bantam_generation_tokens(const bantam_generation* generation, const int32_t** ids, size_t* count) {
  return guarded([&] {
    const std::vector<TokenId>& tokens = need(generation, "generation").range.tokens();
    (void)need(count, "count");
    need(ids, "ids") = tokens.data();
    *count = tokens.size();
  });
}

bantam_status bantam_generation_get_stats(const bantam_generation* generation, bantam_stats* stats) {
  return guarded([&] {
    const bantam_generation& g = need(generation, "generation");
    const SessionStats& from = g.range.stats();
    bantam_stats values = BANTAM_STATS_INIT;
    values.prompt_tokens = from.prompt_tokens;
    values.generated_tokens = from.generated_tokens;
    values.prompt_ms = from.prompt_ms;
    values.generate_ms = from.generate_ms;
    values.tokens_per_second = from.tokens_per_second;
    values.guessed_tokens = from.guessed_tokens;
    values.right_guesses = from.right_guesses;
    values.finish = static_cast<bantam_finish>(g.range.finish());
    fill_struct(stats, values, "stats");
  });
}

void bantam_generation_free(bantam_generation* generation) { delete generation; }

bantam_status bantam_session_generate(bantam_session* session, const char* prompt, int64_t max_tokens, bantam_text_callback callback,
                                      void* user) {
  return guarded([&] {
    bantam_session& s = need(session, "session");
    const std::string_view text = &need(prompt, "prompt");
    if (callback == nullptr) fail(Errc::invalid_argument, "callback: expected a function, found NULL");
    s.check_cancelled();
    bantam_generate_options o = read_options(nullptr);
    o.max_tokens = max_tokens;
    TextRange range = s.session.stream(text, generate_options_of(o, s.session));
    for (const std::string_view piece : range) {
      if (callback(piece.data(), piece.size(), user) != 0) break;
      s.check_cancelled();
    }
  });
}

bantam_status bantam_sampler_new(bantam_sampler** sampler, const bantam_model* model, const bantam_generate_options* options) {
  return guarded([&] {
    bantam_sampler*& out = need(sampler, "sampler");
    const auto vocab = static_cast<std::int32_t>(model_of(model).config().vocab);
    out = new bantam_sampler{Sampler(sampling_of(read_options(options)), vocab)};
  });
}

bantam_status bantam_sampler_sample(bantam_sampler* sampler, const float* logits, size_t count, int32_t* id) {
  return guarded([&] {
    std::int32_t& out = need(id, "id");
    out = need(sampler, "sampler").sampler.sample({&need(logits, "logits"), count});
  });
}

bantam_status bantam_sampler_accept(bantam_sampler* sampler, int32_t id) {
  return guarded([&] { need(sampler, "sampler").sampler.accept(id); });
}

void bantam_sampler_free(bantam_sampler* sampler) { delete sampler; }

}  // extern "C"
