// Reading what a request asks for, whatever its endpoint.
#include <algorithm>
#include <random>

#include "server/writing.hpp"

namespace bantam::server {

namespace {

constexpr std::int64_t most_int = std::numeric_limits<std::int32_t>::max();

/// Tokens and what is added to their logits: {"15043": -100}, [[15043, 1.5], [" Hello", false]].
void read_logit_bias(const App& app, const Fields& fields, Sampling& sampling) {
  const Json* given = fields.find("logit_bias");
  if (given == nullptr) return;
  constexpr std::size_t most = 4096;
  const std::int64_t vocab = app.tokenizer().vocab_size();
  const auto value_of = [](const Json& value) -> float {
    // false forbids the token, as llama.cpp has it.
    if (value.is_boolean() && !value.get<bool>()) return -std::numeric_limits<float>::infinity();
    if (!value.is_number() || !(value.get<double>() >= -1e6 && value.get<double>() <= 1e6)) refuse("logit_bias", "numbers", value);
    return value.get<float>();
  };
  if (given->size() > most)
    throw bad_request(message("logit_bias: expected at most ", most, " tokens, found ", given->size()), "logit_bias");
  if (given->is_object()) {
    for (const auto& [key, value] : given->items()) {
      const Json id = Json::parse_or_null(key);
      sampling.logit_bias.emplace_back(token_of(id.is_null() ? Json(key) : id, vocab, "logit_bias"), value_of(value));
    }
    return;
  }
  if (!given->is_array()) refuse("logit_bias", "an object of tokens and numbers", *given);
  for (const Json& pair : *given) {
    if (!pair.is_array() || pair.size() != 2) refuse("logit_bias", "pairs of a token and a number", pair);
    if (pair[0].is_string()) {
      for (const TokenId id : app.tokenizer().encode(pair[0].string(), {.add_special = false}))
        sampling.logit_bias.emplace_back(id, value_of(pair[1]));
    } else {
      sampling.logit_bias.emplace_back(token_of(pair[0], vocab, "logit_bias"), value_of(pair[1]));
    }
  }
}

/// The steps of sampling in their order, by llama.cpp's names.
void read_stages(const Fields& fields, Sampling& s) {
  if (fields.find("samplers") == nullptr) return;
  s.order.clear();
  for (const std::string& name : fields.texts("samplers")) {
    try {
      const SamplerStage stage = find_stage(name);
      if (std::ranges::find(s.order, stage) != s.order.end()) fail(Errc::invalid_argument, "expected each once, found ", printable(name), " twice");
      s.order.push_back(stage);
    } catch (const Error& error) {
      throw bad_request(message("samplers: ", error.what()), "samplers");
    }
  }
}

void read_sampling(const App& app, const Fields& fields, Sampling& s) {
  const auto set = [&](float& target, std::string_view name, double least, double most) {
    if (const auto value = fields.number(name, least, most)) target = static_cast<float>(*value);
  };
  const auto set_whole = [&](int& target, std::string_view name, std::int64_t least) {
    if (const auto value = fields.integer(name, least, most_int)) target = static_cast<int>(*value);
  };
  set(s.temperature, "temperature", 0, 100);
  set(s.top_p, "top_p", 0, 1);
  set(s.min_p, "min_p", 0, 1);
  set(s.typical_p, "typical_p", 0, 1);
  set(s.frequency_penalty, "frequency_penalty", -2, 2);
  set(s.presence_penalty, "presence_penalty", -2, 2);
  set(s.repeat_penalty, "repetition_penalty", 1e-3, 1e3);
  set(s.repeat_penalty, "repeat_penalty", 1e-3, 1e3);
  set(s.dry_multiplier, "dry_multiplier", 0, 1e3);
  set(s.dry_base, "dry_base", 1, 1e3);
  set(s.xtc_probability, "xtc_probability", 0, 1);
  set(s.xtc_threshold, "xtc_threshold", 0, 1);
  set(s.top_n_sigma, "top_n_sigma", -1, 1e3);
  set(s.dynatemp_range, "dynatemp_range", 0, 100);
  set(s.dynatemp_exponent, "dynatemp_exponent", 0, 100);
  set(s.mirostat_tau, "mirostat_tau", 0, 1e3);
  set(s.mirostat_eta, "mirostat_eta", 0, 1e3);
  // Where none counts vLLM says -1.
  if (const auto k = fields.integer("top_k", -1, most_int)) s.top_k = static_cast<int>(std::max<std::int64_t>(*k, 0));
  set_whole(s.repeat_last_n, "repeat_last_n", -1);
  set_whole(s.dry_allowed_length, "dry_allowed_length", 1);
  set_whole(s.dry_penalty_last_n, "dry_penalty_last_n", -1);
  if (fields.find("dry_sequence_breakers") != nullptr) s.dry_sequence_breakers = fields.texts("dry_sequence_breakers");
  if (const auto version = fields.integer("mirostat", 0, 2)) s.mirostat = static_cast<Mirostat>(*version);
  // Clients that want any seed say -1.
  const auto seed = fields.integer("seed", -1);
  if (seed && *seed >= 0) {
    s.seed = static_cast<std::uint64_t>(*seed);
  } else if (!app.options.has_seed) {
    s.seed = std::random_device()();
  }
  read_stages(fields, s);
  read_logit_bias(app, fields, s);
}

std::vector<std::string> read_stop(const Fields& fields) {
  constexpr std::size_t most = 64, longest = 1024;
  std::vector<std::string> stop = fields.texts("stop");
  if (stop.size() > most) throw bad_request(message("stop: expected at most ", most, " texts, found ", stop.size()), "stop");
  for (const std::string& text : stop) {
    if (text.empty() || text.size() > longest)
      throw bad_request(message("stop: expected texts of 1 to ", longest, " bytes, found one of ", text.size()),
                        "stop");
  }
  return stop;
}

std::vector<TokenId> read_end_tokens(const App& app, const Fields& fields) {
  constexpr std::size_t most = 256;
  std::vector<TokenId> ids;
  const Json* given = fields.array("stop_token_ids");
  if (given == nullptr) return ids;
  if (given->size() > most) throw bad_request(message("stop_token_ids: expected at most ", most, " tokens, found ", given->size()), "stop_token_ids");
  for (const Json& id : *given) ids.push_back(token_of(id, app.tokenizer().vocab_size(), "stop_token_ids"));
  return ids;
}

/// A text as GBNF writes it.
std::string literal_of(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    constexpr std::string_view digits = "0123456789abcdef";
    const auto byte = static_cast<unsigned char>(c);
    if (byte < ' ') {
      out += {'\\', 'x', digits[byte / 16], digits[byte % 16]};
    } else {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
  }
  return out + '"';
}

/// A grammar as it is written.
struct AskedGrammar {
  GrammarKind kind;
  std::string source;
  bool is_answer = true;  ///< it describes the answer; else the whole reply, marks of thoughts and calls included
};

/// One of several texts.
std::string gbnf_of_choice(const Fields& fields, std::string_view name) {
  constexpr std::size_t most = 1024;
  const std::vector<std::string> texts = fields.texts(name);
  if (texts.empty() || texts.size() > most)
    throw bad_request(message(fields.name_of(name), ": expected 1 to ", most, " texts, found ", texts.size()), fields.name_of(name));
  std::string gbnf = "root ::= ";
  for (std::size_t i = 0; i < texts.size(); ++i) gbnf += (i > 0 ? " | " : "") + literal_of(texts[i]);
  return gbnf;
}

/// What response_format, or one of its older names, asks for.
std::optional<AskedGrammar> read_grammar(const Fields& fields) {
  std::vector<AskedGrammar> found;
  const auto add_schema = [&](const Json& schema) {
    found.push_back({GrammarKind::json_schema, schema.is_string() ? schema.get<std::string>() : schema.dump()});
  };
  const auto add_gbnf = [&](std::string text) {
    if (!text.empty()) found.push_back({GrammarKind::gbnf, std::move(text), false});
  };
  if (const Json* format = fields.object("response_format")) {
    const Fields inside(*format, "response_format");
    const std::string type = inside.text("type").value_or("text");
    if (type == "json_schema") {
      const Json* named = inside.object("json_schema");
      const Json* schema = named == nullptr ? nullptr : named->find("schema");
      if (schema == nullptr)
        throw bad_request("response_format.json_schema: expected an object with a schema, found none",
                          "response_format");
      add_schema(*schema);
    } else if (type == "json_object") {
      if (const Json* schema = inside.object("schema"); schema != nullptr && !schema->empty()) {
        add_schema(*schema);
      } else {
        found.push_back({GrammarKind::json_object, {}});
      }
    } else if (type != "text") {
      throw bad_request(
          message("response_format.type: expected text, json_object or json_schema, found ", printable(type)),
          "response_format");
    }
  }
  for (const std::string_view name : {"json_schema", "guided_json"}) {
    if (const Json* schema = fields.find(name)) add_schema(*schema);
  }
  for (const std::string_view name : {"grammar", "guided_grammar"}) add_gbnf(fields.text(name).value_or(""));
  if (const auto regex = fields.text("guided_regex")) found.push_back({GrammarKind::regex, *regex});
  if (fields.find("guided_choice") != nullptr) found.push_back({GrammarKind::gbnf, gbnf_of_choice(fields, "guided_choice")});
  if (const Json* inner = fields.object("structured_outputs")) {
    const Fields inside(*inner, "structured_outputs");
    inside.not_yet({"structural_tag"});
    if (const Json* schema = inside.find("json")) add_schema(*schema);
    add_gbnf(inside.text("grammar").value_or(""));
    if (const auto regex = inside.text("regex")) found.push_back({GrammarKind::regex, *regex});
    if (inside.find("choice") != nullptr) found.push_back({GrammarKind::gbnf, gbnf_of_choice(inside, "choice")});
  }
  if (found.size() > 1) throw bad_request("response_format: expected one grammar or schema, found several", "response_format");
  return found.empty() ? std::nullopt : std::optional(std::move(found.front()));
}

}  // namespace

Asked read_asked(App& app, const Fields& fields, std::int64_t max_tokens) {
  fields.not_yet({"bad_words", "allowed_token_ids", "use_beam_search", "suffix", "image_data", "logits_processors"});
  Asked asked;
  GenerateOptions& g = asked.texts.generate;
  g.sampling = app.options.sampling;
  read_sampling(app, fields, g.sampling);
  g.stop = read_stop(fields);
  g.ignore_end = fields.flag("ignore_eos", app.options.ignore_end);
  g.end_tokens = read_end_tokens(app, fields);
  g.min_tokens = fields.integer("min_tokens", 0, most_int).value_or(0);
  g.max_tokens = app.options.max_tokens >= 0 ? app.options.max_tokens : max_tokens;
  for (const std::string_view name : {"n_predict", "max_tokens", "max_completion_tokens"}) {
    if (const auto count = fields.integer(name, name == "n_predict" ? -1 : 0)) g.max_tokens = *count;
  }
  constexpr std::int64_t most_texts = 128;
  asked.texts.count = static_cast<int>(fields.integer("n", 1, most_texts).value_or(1));
  const auto best_of = fields.integer("best_of", 1, most_texts);
  if (best_of && *best_of != asked.texts.count)
    throw bad_request(message("best_of: expected n (", asked.texts.count, ") or nothing: not yet"), "best_of");
  asked.texts.reuse = fields.flag("cache_prompt", app.options.reuse);
  asked.texts.place = static_cast<int>(fields.integer("id_slot", -1, app.options.scheduler.parallel - 1).value_or(-1));
  const Json* scales = fields.find("lora");
  asked.texts.adapters = scales == nullptr ? app.adapters.now() : app.adapters.with(*scales, "lora");
  // vLLM's lower ones come earlier, the scheduler's higher ones.
  asked.texts.priority = -static_cast<int>(fields.integer("priority", -most_int, most_int).value_or(0));
  asked.texts.most_waiting = app.options.most_waiting;
  asked.texts.most_time = app.options.most_time;
  asked.stream = fields.flag("stream", false);
  asked.timings = fields.flag("timings_per_token", false);
  asked.texts.tells_reading = fields.flag("return_progress", false) && asked.stream;
  asked.token_ids = fields.flag("return_token_ids", false);
  if (const Json* options = fields.object("stream_options")) {
    if (!asked.stream) throw bad_request("stream_options: expected \"stream\": true with it", "stream_options");
    const Fields how(*options, "stream_options");
    asked.include_usage = how.flag("include_usage", false);
    asked.usage_so_far = how.flag("continuous_usage_stats", false);
  }
  asked.keeps_stop = fields.flag("include_stop_str_in_output", false);
  if (const std::optional<AskedGrammar> given = read_grammar(fields)) {
    g.grammar.emplace(app.grammars.get(given->kind, given->source));
    asked.is_answer = given->is_answer;
  }
  return asked;
}

void cut_prompts(const App& app, const Fields& fields, std::string_view name, Asked& asked) {
  const auto count = fields.integer(name, -1);
  if (!count) return;
  if (*count == 0) refuse(name, "1 or more, or -1", 0);
  const std::string side = fields.text("truncation_side").value_or("left");
  if (side != "left" && side != "right") throw bad_request("truncation_side: expected left or right", "truncation_side");
  const std::int64_t written = std::max<std::int64_t>(asked.texts.generate.max_tokens, 1), room = std::max<std::int64_t>(app.scheduler.context() - written, 1);
  const auto most = static_cast<std::size_t>(*count < 0 ? room : *count);
  for (std::vector<TokenId>& prompt : asked.texts.prompts) {
    if (prompt.size() <= most) continue;
    asked.is_cut = true;
    if (side == "left") prompt.erase(prompt.begin(), prompt.end() - static_cast<std::ptrdiff_t>(most));
    prompt.resize(most);
  }
}

void read_prompt_logprobs(const Fields& fields, Asked& asked) {
  constexpr std::int64_t most = 20;  // vLLM's
  const auto count = fields.integer("prompt_logprobs", 0, most);
  if (!count) return;
  asked.prompt_logprobs = static_cast<int>(*count);
  asked.texts.prompt_logprobs = std::max(asked.texts.prompt_logprobs, asked.prompt_logprobs);
}

// Log probabilities beside biases of a client's choice give a model's last matrix away (Carlini et al., arXiv:2403.06634).
void check_logprobs(const App& app, const Asked& asked) {
  const int most = app.common.front.options().most_logprobs;
  // Beside the server's own.
  const bool is_biased = asked.texts.generate.sampling.logit_bias.size() > app.options.sampling.logit_bias.size();
  if (most < 0 && asked.logprobs) throw bad_request("logprobs: expected none, which this server does not give", "logprobs");
  if (most < 0 && asked.prompt_logprobs >= 0) throw bad_request("prompt_logprobs: expected none, which this server does not give", "prompt_logprobs");
  if (most < 0 && is_biased) throw bad_request("logit_bias: expected none, which this server does not take", "logit_bias");
  if (!asked.logprobs && asked.prompt_logprobs < 0) return;
  if (asked.prompt_logprobs > most)
    throw bad_request(message("prompt_logprobs: expected at most ", most, ", which this server gives, found ", asked.prompt_logprobs), "prompt_logprobs");
  if (asked.texts.top_logprobs > most)
    throw bad_request(message("top_logprobs: expected at most ", most, ", which this server gives, found ", asked.texts.top_logprobs), "top_logprobs");
  if (is_biased && most < FrontOptions().most_logprobs)
    throw bad_request("logit_bias: expected none beside log probabilities, which this server does not give together", "logit_bias");
}

void check_room(const App& app, const TextRequest& request) {
  const std::int64_t context = app.scheduler.context();
  for (const std::vector<TokenId>& prompt : request.prompts) {
    if (prompt.empty()) throw bad_request("prompt: expected at least one token, found none", "prompt");
    if (std::ssize(prompt) + (request.generate.max_tokens == 0 ? 0 : 1) <= context) continue;
    ApiError error(
        400, "exceed_context_size_error",
        message("the request has ", prompt.size(), " tokens, which exceeds the available context size: ", context, " tokens with the answer"),
        "prompt", "context_length_exceeded");
    error.more = {{"n_prompt_tokens", prompt.size()}, {"n_ctx", context}};
    throw error;
  }
}

}  // namespace bantam::server
