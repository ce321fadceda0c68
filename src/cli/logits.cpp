// `bantam logits`: the distribution of the next token.
#include <algorithm>
#include <cmath>

#include "input.hpp"
#include "options.hpp"
#include "output.hpp"
#include "verbs.hpp"

namespace bantam::cli {

namespace {

struct LogitsOptions {
  CommonOptions common;
  LoadingOptions loading;
  std::string model;
  std::string prompt, file, ids, decoder_ids;
  bool has_prompt = false, has_file = false, has_ids = false, has_decoder_ids = false;
  std::int64_t top = 10;
  bool all_positions = false;
  bool parse_special = false;
  std::string kv = "f32";
};

struct Candidate {
  TokenId id;
  float logit;
  double logprob;
};

/// The `count` most probable tokens; of equal ones the lower id first.
std::vector<Candidate> best(std::span<const float> logits, std::size_t count) {
  double largest = -std::numeric_limits<double>::infinity();
  for (const float x : logits) {
    if (!std::isfinite(x)) fail(Errc::corrupt, "logits: expected finite numbers, found ", x);
    largest = std::max(largest, static_cast<double>(x));
  }
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x) - largest);
  const double norm = largest + std::log(sum);
  std::vector<TokenId> order(logits.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<TokenId>(i);
  const auto logit = [&](TokenId id) { return logits[static_cast<std::size_t>(id)]; };
  const auto end = order.begin() + static_cast<std::ptrdiff_t>(std::min(count, order.size()));
  std::partial_sort(order.begin(), end, order.end(),
                    [&](TokenId a, TokenId b) { return logit(a) > logit(b) || (logit(a) == logit(b) && a < b); });
  std::vector<Candidate> result;
  for (auto id = order.begin(); id != end; ++id)
    result.push_back({*id, logit(*id), static_cast<double>(logit(*id)) - norm});
  return result;
}

/// The text of a token: what it adds to a text, or its spelling when it adds nothing.
std::string text_of(const Tokenizer& tokenizer, TokenId id) {
  if (id >= tokenizer.vocab_size()) return "";
  const std::string bytes = tokenizer.piece_bytes(id);
  return bytes.empty() || tokenizer.is_special(id) ? std::string(tokenizer.piece(id)) : bytes;
}

struct Position {
  std::int64_t index;
  std::vector<Candidate> top;
};

std::string as_table(const Tokenizer& tokenizer, const std::vector<Position>& positions) {
  Table table("rrrrl");
  table.add({"position", "id", "logit", "logprob", "token"});
  for (const Position& position : positions) {
    for (const Candidate& c : position.top) {
      table.add({message(position.index), message(c.id), fixed(static_cast<double>(c.logit), 5), fixed(c.logprob, 5),
                 json_string(text_of(tokenizer, c.id))});
    }
  }
  return table.text();
}

Json as_json(const Tokenizer& tokenizer, const std::vector<TokenId>& ids, const std::vector<Position>& positions) {
  Json json = {{"ids", ids}, {"positions", Json::array()}};
  for (const Position& position : positions) {
    Json top = Json::array();
    for (const Candidate& c : position.top) {
      top.push_back({{"id", c.id}, {"token", text_of(tokenizer, c.id)}, {"logit", c.logit}, {"logprob", c.logprob}});
    }
    json["positions"].push_back({{"position", position.index}, {"top", std::move(top)}});
  }
  return json;
}

std::vector<TokenId> ids_of(const std::string& text, const char* option) {
  try {
    return parse_ids(text, option);
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
}

int logits(const LogitsOptions& o) {
  at_most_one(o.has_prompt + o.has_file + o.has_ids, "-p, -f and --ids");
  std::vector<TokenId> ids;
  if (o.has_ids) ids = ids_of(o.ids, "--ids");
  if (o.has_ids && ids.empty()) throw UsageError("--ids: expected at least one token id, found none");
  const std::vector<TokenId> of_decoder = o.has_decoder_ids ? ids_of(o.decoder_ids, "--decoder-ids") : std::vector<TokenId>();
  PromptSource source;
  if (o.has_prompt) source.text = o.prompt;
  if (o.has_file) source.file = o.file;
  const std::string text = o.has_ids ? "" : read_prompt(source);
  apply(o.common);
  // A text has no more tokens than bytes, but for those at its ends.
  const std::size_t most = o.has_ids ? ids.size() : text.size() + 2;
  const auto [model, adapters, room] = load_adapted(o.model, o.loading, {.context = static_cast<std::int64_t>(most), .kv = o.kv, .may_spill = true}, !o.common.json);
  if (!o.has_ids) ids = model.tokenizer().encode(text, {.parse_special = o.parse_special});
  if (ids.empty()) fail(Errc::invalid_argument, "prompt: expected at least one token, found none");
  Session session(model, {.context = std::max(model.config().context, static_cast<std::int64_t>(ids.size())),
                          .threads = static_cast<int>(o.common.threads),
                          .kv = o.kv,
                          .adapters = adapters,
                          .memory = room});
  if (static_cast<std::int64_t>(ids.size()) > model.config().context) {
    warn(message("the prompt has ", ids.size(), " tokens, the model was made for ", model.config().context));
  }
  std::vector<Position> positions;
  const auto count = static_cast<std::size_t>(o.top);
  const bool has_source = model.config().has_source();
  if (o.has_decoder_ids && !has_source) fail(Errc::invalid_argument, "--decoder-ids: expected a model with an encoder before its decoder, found one of type ", model.config().arch->name);
  if (has_source) session.prefill(ids);
  const std::vector<TokenId> start = session.tokens();
  if (has_source && (o.all_positions || of_decoder.empty())) positions.push_back({std::ssize(start) - 1, best(session.logits(), count)});
  if (o.all_positions) {
    session.score(has_source ? of_decoder : ids, [&](std::int64_t index, std::span<const float> row) {
      positions.push_back({std::ssize(start) + index, best(row, count)});
    });
  } else if (has_source && !of_decoder.empty()) {
    session.prefill(of_decoder);
    positions.push_back({std::ssize(session.tokens()) - 1, best(session.logits(), count)});
  } else if (!has_source) {
    session.prefill(ids);
    positions.push_back({static_cast<std::int64_t>(ids.size()) - 1, best(session.logits(), count)});
  }
  Json json = as_json(model.tokenizer(), ids, positions);
  if (has_source) json["decoder_ids"] = session.tokens();
  o.common.json ? print_json(json)
                : print(as_table(model.tokenizer(), positions));
  return 0;
}

}  // namespace

void add_logits(CLI::App& app, Action& action) {
  CLI::App& verb = add_verb(app, "logits", "show the distribution of the next token after a prompt");
  const auto o = std::make_shared<LogitsOptions>();
  add_argument(verb, "MODEL", o->model, "Hugging Face folder, .gguf or .bantam file");
  CLI::Option* prompt =
      add_text(verb, "-p,--prompt", o->prompt, "TEXT", "the prompt; BOS is added as the tokenizer says");
  CLI::Option* file = add_text(verb, "-f,--file", o->file, "FILE", "read the prompt from a file; - is standard input");
  CLI::Option* ids =
      add_text(verb, "--ids", o->ids, "JSON", "exactly these token ids, as in '[1,2,3]'; no BOS is added");
  CLI::Option* decoder_ids = add_text(verb, "--decoder-ids", o->decoder_ids, "JSON",
                                      "of a model with an encoder (T5), which reads the prompt: what its decoder reads behind its start");
  add_integer(verb, "--top", o->top, {1, std::numeric_limits<std::int32_t>::max()}, "most probable tokens to show");
  add_flag(verb, "--all-positions", o->all_positions, "after every token of the prompt, not only the last");
  add_flag(verb, "--parse-special", o->parse_special, "special tokens spelled out in the prompt are tokens");
  add_kv(verb, o->kv);
  add_loading(verb, o->loading);
  add_common(verb, o->common);
  finish_verb(
      verb,
      "This verb measures, so keys and values are kept in f32 unless --kv says otherwise. Logits are\n"
      "natural; logprob is the natural logarithm of the probability.\n\n"
      "Examples:\n"
      "  bantam logits model.gguf -p 'Once upon a' --top 5\n"
      "  bantam logits model.gguf --ids '[1,403,407]' --all-positions --json",
      [=, &action] {
        o->has_prompt = given(prompt);
        o->has_file = given(file);
        o->has_ids = given(ids);
        o->has_decoder_ids = given(decoder_ids);
        action = [o] { return logits(*o); };
      });
}

}  // namespace bantam::cli
