// Sessions: reading, forking, chatting.
#include "bantam/session/session.hpp"

#include <algorithm>
#include <cmath>

#include "bantam/core/parallel.hpp"
#include "bantam/model/forward.hpp"
#include "bantam/nn/kv_state.hpp"
#include "bantam/nn/source_state.hpp"
#include "state.hpp"

namespace bantam::inline v0 {

Session::State::State(Model model, SessionOptions o)
    : engine(std::move(model), {.context = o.context, .threads = o.threads}), shares_engine(false), options(std::move(o)),
      context(engine.context()), sequence(engine.new_state(options.kv, options.memory)) {
  check(options.adapters);
}

Session::State::State(Engine e, SessionOptions o)
    : engine(std::move(e)), shares_engine(true), options(std::move(o)), context(options.context == 0 ? engine.context() : options.context),
      sequence(engine.new_state(options.kv, options.memory)) {
  if (context < 0 || context > engine.context()) {
    fail(Errc::invalid_argument, "context: expected 0 to ", engine.context(), " tokens (the engine's), found ", context);
  }
  if (options.threads != 0) fail(Errc::invalid_argument, "threads: expected 0 (the engine has some), found ", options.threads);
  check(options.adapters);
}

void Session::State::check(std::span<const ScaledAdapter> adapters) const {
  for (const ScaledAdapter& one : adapters) {
    if (!std::isfinite(one.scale)) fail(Errc::invalid_argument, "adapters: expected finite scales, found ", one.scale);
    one.adapter.check_fits(model().config());
  }
}

void Session::State::check(const GenerateOptions& generate) const {
  if (generate.max_tokens < -1) {
    fail(Errc::invalid_argument, "max_tokens: expected -1 (until the model ends) or more, found ", generate.max_tokens);
  }
  for (const std::string& stop : generate.stop) {
    if (stop.empty()) fail(Errc::invalid_argument, "stop: expected a text of at least one character, found an empty one");
  }
  check(generate.speculation);
}

std::int32_t Session::State::vocab() const noexcept {
  return static_cast<std::int32_t>(std::min<std::int64_t>(model().tokenizer().vocab_size(), model().config().vocab));
}

std::optional<GrammarMatcher> Session::State::matcher_of(const GenerateOptions& generate) const {
  if (!generate.grammar) return std::nullopt;
  if (const std::int32_t found = generate.grammar->vocab_size(); found != model().tokenizer().vocab_size()) {
    fail(Errc::invalid_argument, "grammar: expected one of this model's vocabulary of ", model().tokenizer().vocab_size(), " tokens, found one of ", found);
  }
  return GrammarMatcher(*generate.grammar);
}

Sampling Session::State::with_breakers(Sampling sampling) const {
  if (sampling.dry_multiplier == 0.0f || sampling.dry_sequence_breakers.empty()) return sampling;
  const Tokenizer& tokenizer = model().tokenizer();
  for (TokenId id = 0; id < vocab(); ++id) {
    const std::string piece = tokenizer.piece_bytes(id);
    const auto holds = [&](const std::string& text) { return !text.empty() && piece.find(text) != std::string::npos; };
    if (std::ranges::any_of(sampling.dry_sequence_breakers, holds)) sampling.dry_breakers.push_back(id);
  }
  return sampling;
}

Sampler Session::State::sampler_of(const Sampling& sampling) const { return Sampler(with_breakers(sampling), vocab()); }

void Session::State::forget_reply() noexcept {
  logits.clear();
  matcher.reset();
  messages.clear();
  reply_start = 0;
}

void Session::State::check_room(std::int64_t count) const {
  detail::check_room(context, static_cast<std::int64_t>(tokens.size()), count);
}

void Session::State::catch_up() {
  if (tokens.empty()) fail(Errc::invalid_argument, "session: expected at least one token (a prompt), found none");
  if (!logits.empty()) return;
  const Engine::Sequence waiting = unread();
  read(waiting.tokens, waiting.first_output, [&](std::int64_t, std::span<const float> row) { logits.assign(row.begin(), row.end()); });
}

Engine::Sequence Session::State::unread() {
  // Logits are known only right after a token was read: read the last one again if nothing waits.
  if (static_cast<std::size_t>(sequence.tokens()) == tokens.size()) rewind(sequence.tokens() - 1);
  const auto waiting = std::span<const TokenId>(tokens).subspan(static_cast<std::size_t>(sequence.tokens()));
  logits.reserve(static_cast<std::size_t>(model().config().vocab));
  return {.tokens = waiting, .state = &sequence, .first_output = std::ssize(waiting) - 1, .source = unread_source(), .adapters = options.adapters};
}

std::span<const TokenId> Session::State::unread_source() {
  const auto* state = sequence.find<nn::SourceState>();
  return state == nullptr || state->source_tokens() > 0 ? std::span<const TokenId>() : source;
}

void Session::State::check_source() const {
  if (!model().config().has_source() || !source.empty()) return;
  fail(Errc::invalid_argument, "session: expected a prompt, which the encoder of a model of type ", model().config().arch->name, " reads before the decoder's tokens, found none");
}

void Session::State::take(std::span<const TokenId> more) {
  check_more(more);
  if (more.empty()) return;
  const ModelConfig& config = model().config();
  if (!config.has_source() || !source.empty()) {
    tokens.insert(tokens.end(), more.begin(), more.end());
  } else {
    source.assign(more.begin(), more.end());
    for (const std::int64_t first : {config.decoder_start, config.forced_start}) {
      if (first >= 0) tokens.push_back(static_cast<TokenId>(first));
    }
  }
  logits.clear();
}

void Session::State::read(std::span<const TokenId> waiting, std::int64_t first_output,
                          FunctionRef<void(std::int64_t, std::span<const float>)> sink, Engine::Output output) {
  State* const self = this;
  const std::int64_t total = std::ssize(waiting), dim = model().config().dim;
  // The layer that drafts reads what is known between pieces, so that no more than one waits.
  const std::int64_t most = own ? Forward::largest_chunk : total;
  std::vector<float> states;
  for (std::int64_t first = 0; first < total; first += most) {
    const std::int64_t count = std::min(most, total - first), begun = sequence.tokens();
    if (own) states.resize(static_cast<std::size_t>(count * dim));
    const Engine::Sequence part{.tokens = waiting.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)), .state = &sequence,
                                .first_output = std::clamp<std::int64_t>(first_output - first, 0, count), .source = unread_source(), .states = states, .adapters = options.adapters};
    const auto pass_on = [&](std::int64_t, std::int64_t index, std::span<const float> row) { sink(first + index, row); };
    read({&self, 1}, {&part, 1}, pass_on, output, {.before = first, .behind = total - first - count});
    if (!own) continue;
    own->add(begun, states);
    if (first + count < total) own->catch_up(tokens);
  }
}

void Session::State::read(std::span<State* const> states, std::span<const Engine::Sequence> sequences, Engine::Sink sink,
                          Engine::Output output, Piece piece) {
  std::int64_t total = piece.before + piece.behind;
  for (const Engine::Sequence& part : sequences) total += std::ssize(part.tokens) + std::ssize(part.source);
  // Each session is asked, of all that is read: whoever wants to stop stops all of them.
  const auto goes_on = [&](std::int64_t count) {
    return std::ranges::all_of(states, [&](State* s) { return !s->options.progress || s->options.progress(count, total); });
  };
  const auto keep_going = [&](std::int64_t count) {
    check_cancelled();
    return goes_on(piece.before + count);
  };
  states.front()->engine.run(sequences, sink, keep_going, output);
  if (total > 1 && piece.behind == 0) (void)goes_on(total);
}

void Session::State::read_more(std::span<const TokenId> more, FunctionRef<void(std::int64_t, std::span<const float>)> sink,
                               Engine::Output output) {
  check_source();
  append(more, [&] {
    const auto waiting = std::span<const TokenId>(tokens).subspan(static_cast<std::size_t>(sequence.tokens()));
    const auto first = static_cast<std::int64_t>(waiting.size() - more.size());
    read(waiting, first, [&](std::int64_t index, std::span<const float> row) { sink(index - first, row); }, output);
  });
}

void Session::State::check_more(std::span<const TokenId> more) const {
  check_room(static_cast<std::int64_t>(more.size()));
  engine.check(more);
}

void Session::State::check_together(const State& other) const {
  if (this == &other) fail(Errc::invalid_argument, "batch: expected different sessions, found one twice");
  if (!engine.runs_like(other.engine)) {
    fail(Errc::invalid_argument, "batch: expected sessions on one engine, or on engines of one model and of equal context");
  }
}

void Session::State::append(std::span<const TokenId> more, FunctionRef<void()> work) {
  const std::size_t before = tokens.size();
  take(more);
  if (more.empty()) return;
  try {
    work();
  } catch (...) {
    drop_from(before);
    throw;
  }
}

void Session::State::drop_from(std::size_t count) noexcept {
  tokens.resize(count);
  rewind(static_cast<std::int64_t>(count));  // it may have them: a callback can throw when all is read
  logits.clear();
  if (count > 0 || source.empty()) return;
  source.clear();
  sequence.find<nn::SourceState>()->forget();
}

Session::Session(Model model, SessionOptions options) : state_(std::make_unique<State>(std::move(model), std::move(options))) {}
Session::Session(Engine engine, SessionOptions options) : state_(std::make_unique<State>(std::move(engine), std::move(options))) {}
Session::Session(std::unique_ptr<State> state) : state_(std::move(state)) {}
Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

void Session::prefill(std::span<const TokenId> tokens) {
  const Stopwatch watch;
  state_->append(tokens, [this] { state_->catch_up(); });
  if (tokens.empty()) return;
  state_->prompt_ms = 1000 * watch.seconds();
  state_->prompt_tokens = static_cast<std::int64_t>(tokens.size());
}

std::vector<TokenId> Session::encode(std::string_view text, EncodeOptions options) const {
  if (!tokens().empty()) options.add_special = false;
  return model().tokenizer().encode(text, options);
}

void Session::prefill(std::string_view text, EncodeOptions encode) { prefill(this->encode(text, encode)); }

void prefill(std::span<const Prompt> prompts) {
  const Stopwatch watch;
  std::vector<Session::State*> states;
  std::vector<Engine::Sequence> sequences;
  for (const Prompt& prompt : prompts) {
    if (prompt.session == nullptr) fail(Errc::invalid_argument, "batch: expected a session for each prompt, found none");
    Session::State& s = *prompt.session->state_;
    for (const Session::State* other : states) s.check_together(*other);
    s.check_more(prompt.tokens);
    states.push_back(&s);
  }
  // Those with nothing to read have been checked, too.
  std::vector<std::pair<Session::State*, std::size_t>> before;
  std::vector<std::int64_t> counts;  // of their prompts
  try {
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      if (prompts[i].tokens.empty()) continue;
      Session::State& s = *states[i];
      before.emplace_back(&s, s.tokens.size());
      counts.push_back(std::ssize(prompts[i].tokens));
      s.take(prompts[i].tokens);
    }
    if (before.empty()) return;
    states.clear();
    for (const auto& [state, size] : before) {
      states.push_back(state);
      sequences.push_back(state->unread());
    }
    Session::State::read(states, sequences, [&](std::int64_t sequence, std::int64_t, std::span<const float> row) {
      states[static_cast<std::size_t>(sequence)]->logits.assign(row.begin(), row.end());
    });
  } catch (...) {
    for (const auto& [state, size] : before) state->drop_from(size);
    throw;
  }
  for (std::size_t i = 0; i < before.size(); ++i) {
    states[i]->prompt_ms = 1000 * watch.seconds();
    states[i]->prompt_tokens = counts[i];
  }
}

TextRange Session::stream(std::span<const TokenId> prompt, GenerateOptions options) {
  // Options are checked before the prompt is paid for, and before it is part of the session.
  state_->check(options);
  Sampler sampler = state_->sampler_of(options.sampling);
  std::optional<GrammarMatcher> matcher = state_->matcher_of(options);
  state_->prompt_ms = 0;
  state_->prompt_tokens = 0;
  state_->prepare(options.speculation);
  prefill(prompt);
  if (state_->tokens.empty()) fail(Errc::invalid_argument, "prompt: expected at least one token, found none");
  const std::int64_t vocab = state_->model().tokenizer().vocab_size();
  for (const TokenId id : state_->tokens) {
    if (id < vocab) sampler.accept(id);
  }
  state_->sampler = std::move(sampler);
  state_->matcher = std::move(matcher);
  return {*this, std::move(options)};
}

TextRange Session::stream(std::string_view prompt, GenerateOptions options, EncodeOptions encode) {
  return stream(this->encode(prompt, encode), std::move(options));
}

TextRange Session::stream_whole(std::span<const TokenId> tokens, GenerateOptions options) {
  State& s = *state_;
  if (s.model().config().has_source()) return stream_source(tokens, std::move(options));
  std::size_t common = 0;
  while (common < tokens.size() && common < s.tokens.size() && tokens[common] == s.tokens[common]) ++common;
  if (common == tokens.size() && common > 0) --common;
  std::vector<TokenId> held = s.tokens;
  const std::vector<TokenId> rest(tokens.begin() + static_cast<std::ptrdiff_t>(common), tokens.end());  // which may be the session's own
  s.drop_from(common);
  try {
    return stream(rest, std::move(options));
  } catch (...) {
    s.drop_from(common);
    s.tokens = std::move(held);  // what the cache lost waits to be read again
    throw;
  }
}

/// The same in a model with an encoder: these tokens are the source.
TextRange Session::stream_source(std::span<const TokenId> tokens, GenerateOptions options) {
  State& s = *state_;
  const std::vector<TokenId> prompt(tokens.begin(), tokens.end());  // which may be the session's own
  std::vector<TokenId> held = s.tokens, source = s.source;
  s.drop_from(0);
  try {
    return stream(prompt, std::move(options));
  } catch (...) {
    s.drop_from(0);
    s.tokens = std::move(held);  // waits to be read again
    s.source = std::move(source);
    throw;
  }
}

TextRange Session::resume(GenerateOptions options) {
  State& s = *state_;
  if (!s.sampler) return stream(std::span<const TokenId>{}, std::move(options));
  s.check(options);
  if (options.grammar && !s.matcher) {
    fail(Errc::invalid_argument, "resume: expected a generation with a grammar to go on with, found one without: saved sessions keep none");
  }
  if (!options.grammar) s.matcher.reset();
  s.sampler = Sampler::restore(s.sampler->save(), s.with_breakers(options.sampling), s.vocab());
  s.prepare(options.speculation);
  s.prompt_ms = 0;
  s.prompt_tokens = 0;
  return {*this, std::move(options)};
}

TextRange Session::chat(std::vector<ChatMessage> messages, GenerateOptions options) {
  State& s = *state_;
  const Tokenizer& tokenizer = s.model().tokenizer();
  std::vector<ChatMessage> all = s.messages;
  // What was generated since the last messages is the assistant's turn.
  if (!all.empty() && s.tokens.size() > s.reply_start) {
    all.push_back({"assistant", tokenizer.decode(std::span<const TokenId>(s.tokens).subspan(s.reply_start))});
  }
  all.insert(all.end(), messages.begin(), messages.end());
  TextRange range = answer(chat_prompt(tokenizer, all), std::move(options));
  s.messages = std::move(all);
  s.reply_start = s.tokens.size();
  return range;
}

TextRange Session::chat_json(std::string_view conversation, GenerateOptions options) {
  TextRange range = answer(chat_prompt_json(state_->model().tokenizer(), conversation), std::move(options));
  // It comes whole each time: nothing is to be remembered.
  state_->messages.clear();
  state_->reply_start = 0;
  return range;
}

/// Generates what follows a conversation.
TextRange Session::answer(const std::string& conversation, GenerateOptions options) {
  State& s = *state_;
  // Templates write special tokens, BOS among them, so they are parsed and none is added.
  return stream_whole(s.model().tokenizer().encode(conversation, {.add_special = false, .parse_special = true}), std::move(options));
}

std::span<const float> Session::logits() {
  state_->catch_up();
  return state_->logits;
}

void Session::score(std::span<const TokenId> tokens, FunctionRef<void(std::int64_t, std::span<const float>)> sink) {
  State& s = *state_;
  const auto keep_last = [&](std::int64_t index, std::span<const float> row) {
    if (index + 1 == static_cast<std::int64_t>(tokens.size())) s.logits.assign(row.begin(), row.end());
    sink(index, row);
  };
  s.read_more(tokens, keep_last, Engine::Output::logits);
}

void Session::states(std::span<const TokenId> tokens, FunctionRef<void(std::int64_t, std::span<const float>)> sink) {
  state_->read_more(tokens, sink, Engine::Output::state);
}

Session Session::fork() const {
  const State& s = *state_;
  auto copy = s.shares_engine ? std::make_unique<State>(s.engine, s.options) : std::make_unique<State>(s.model(), s.options);
  copy->sequence = s.sequence.fork();
  copy->tokens = s.tokens;
  copy->source = s.source;
  copy->logits = s.logits;
  copy->messages = s.messages;
  copy->reply_start = s.reply_start;
  copy->sampler = s.sampler;
  copy->matcher = s.matcher;
  if (s.own) copy->own = s.own->fork(copy->engine);
  return Session(std::move(copy));
}

void Session::clear() {
  State& s = *state_;
  s.drop_from(0);
  s.messages.clear();
  s.sampler.reset();
  s.matcher.reset();
}

void Session::truncate(std::int64_t count) {
  State& s = *state_;
  const auto held = static_cast<std::int64_t>(s.tokens.size());
  if (count < 0 || count > held) fail(Errc::invalid_argument, "truncate: expected 0 to ", held, " tokens, found ", count);
  if (count == 0) return clear();
  if (count == held) return;
  s.tokens.resize(static_cast<std::size_t>(count));
  s.rewind(count);
  s.forget_reply();
}

void Session::remove(std::int64_t first, std::int64_t last) {
  State& s = *state_;
  const auto held = static_cast<std::int64_t>(s.tokens.size());
  if (first < 0 || first > last || last > held) {
    fail(Errc::invalid_argument, "remove: expected a range of the ", held, " tokens held, found ", first, " to ", last);
  }
  if (last == held) return truncate(first);
  if (first == last) return;
  if (s.model().config().arch->causal && !s.engine.kept_whole(s.sequence).empty()) {
    s.rewind(first);  // those behind wait to be read again
  } else {
    // Tokens that wait to be read have no keys yet.
    const std::int64_t read = s.sequence.tokens();
    s.engine.remove(s.sequence, std::min(first, read), std::min(last, read));
    if (s.own) s.own->truncate(0);  // its pairs are not turned
  }
  s.tokens.erase(s.tokens.begin() + first, s.tokens.begin() + last);
  s.forget_reply();
}

void Session::set_adapters(std::vector<ScaledAdapter> adapters) {
  State& s = *state_;
  s.check(adapters);
  const bool same = fingerprint_of(adapters) == fingerprint_of(s.options.adapters);
  s.options.adapters = std::move(adapters);
  if (same) return;
  s.rewind(0);
  if (auto* made = s.sequence.find<nn::SourceState>()) made->forget();
  s.logits.clear();
}

void Session::set_progress(ReadProgress progress) { state_->options.progress = std::move(progress); }

const Engine& Session::engine() const noexcept { return state_->engine; }
const Model& Session::model() const noexcept { return state_->model(); }
std::span<const ScaledAdapter> Session::adapters() const noexcept { return state_->options.adapters; }
const std::vector<TokenId>& Session::tokens() const noexcept { return state_->tokens; }
std::span<const TokenId> Session::source() const noexcept { return state_->source; }
std::int64_t Session::context() const noexcept { return state_->context; }
std::int64_t Session::kv_bytes() const noexcept { return state_->sequence.bytes() + (state_->own ? state_->own->state().bytes() : 0); }
StateStats Session::state_stats() const {
  StateStats stats{.memory_bytes = kv_bytes()};
  const auto add = [&](nn::SequenceState& state) {
    const auto* const keys = state.find<nn::KvState>();
    if (keys == nullptr || keys->cache().store() == nullptr) return;
    const nn::PageStore::Counts counts = keys->cache().store()->counts();
    stats.file_bytes += keys->cache().stored_pages() * keys->cache().page_bytes();
    stats.read_bytes += counts.read_bytes;
    stats.read_seconds += counts.read_seconds;
    stats.waited_seconds += counts.waited_seconds;
  };
  add(state_->sequence);
  if (state_->own) add(state_->own->state());
  return stats;
}
int Session::threads() const noexcept { return state_->engine.threads(); }

}  // namespace bantam::inline v0
