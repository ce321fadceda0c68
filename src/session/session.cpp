// Sessions: reading, forking, chatting.
#include "bantam/session/session.hpp"

#include <algorithm>

#include "state.hpp"

namespace bantam::inline v0 {

namespace {

std::int64_t context_of(const Model& model, const SessionOptions& options) {
  if (options.context < 0 || options.context > (std::int64_t{1} << 31)) {
    fail(Errc::invalid_argument, "context: expected 0 (the model's) to 2^31 tokens, found ", options.context);
  }
  return options.context == 0 ? model.config().context : options.context;
}

}  // namespace

Session::State::State(Model m, SessionOptions o)
    : model(std::move(m)), options(std::move(o)), context(context_of(model, options)),
      cache(model.config().kv_shape(), options.kv) {
  if (options.threads < 0 || options.threads > 1024) {
    fail(Errc::invalid_argument, "threads: expected 0 (all cores) to 1024, found ", options.threads);
  }
}

Forward& Session::State::engine() {
  if (!forward) forward = std::make_unique<Forward>(model.config(), model.weights(), context, options.threads);
  return *forward;
}

void Session::State::check_room(std::int64_t count) const {
  const auto held = static_cast<std::int64_t>(tokens.size());
  if (held + count > context) {
    fail(Errc::invalid_argument, "context: expected at most ", context, " tokens, ", held, " are held and ", count, " more were given");
  }
}

void Session::State::catch_up() {
  if (tokens.empty()) fail(Errc::invalid_argument, "session: expected at least one token (a prompt), found none");
  if (!logits.empty()) return;
  const Forward::Sequence waiting = unread();
  read(waiting.tokens, waiting.first_output, [&](std::int64_t, std::span<const float> row) { logits.assign(row.begin(), row.end()); });
}

Forward::Sequence Session::State::unread() {
  // Logits are known only right after a token was read: read the last one again if nothing waits.
  if (static_cast<std::size_t>(cache.tokens()) == tokens.size()) cache.truncate(cache.tokens() - 1);
  const auto waiting = std::span<const TokenId>(tokens).subspan(static_cast<std::size_t>(cache.tokens()));
  return {waiting, &cache, static_cast<std::int64_t>(waiting.size()) - 1};
}

void Session::State::read(std::span<const TokenId> waiting, std::int64_t first_output,
                          FunctionRef<void(std::int64_t, std::span<const float>)> sink, Forward::Output output) {
  const auto total = static_cast<std::int64_t>(waiting.size());
  std::exception_ptr thrown;
  const auto keep_going = [&](std::int64_t count) noexcept {
    try {
      return !options.progress || options.progress(count, total);
    } catch (...) {
      thrown = std::current_exception();
      return false;
    }
  };
  try {
    const Forward::Sequence sequence{waiting, &cache, first_output};
    engine().run({&sequence, 1}, [&](std::int64_t, std::int64_t index, std::span<const float> row) { sink(index, row); }, keep_going,
                 output);
  } catch (...) {
    if (thrown) std::rethrow_exception(thrown);
    throw;
  }
  if (total > 1 && options.progress) (void)options.progress(total, total);
}

void Session::State::append(std::span<const TokenId> more, FunctionRef<void()> work) {
  check_room(static_cast<std::int64_t>(more.size()));
  for (const TokenId id : more) {
    if (id < 0 || id >= model.config().vocab) {
      fail(Errc::invalid_argument, "token id: expected 0 to ", model.config().vocab - 1, ", found ", id);
    }
  }
  if (more.empty()) return;
  const std::size_t before = tokens.size();
  tokens.insert(tokens.end(), more.begin(), more.end());
  logits.clear();
  try {
    work();
  } catch (...) {
    tokens.resize(before);
    logits.clear();
    throw;
  }
}

Session::Session(Model model, SessionOptions options) : state_(std::make_unique<State>(std::move(model), std::move(options))) {}
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

void Session::prefill(std::string_view text, EncodeOptions encode) {
  if (!state_->tokens.empty()) encode.add_special = false;
  prefill(state_->model.tokenizer().encode(text, encode));
}

TextRange Session::stream(std::span<const TokenId> prompt, GenerateOptions options) {
  state_->prompt_ms = 0;
  state_->prompt_tokens = 0;
  // Options are checked before the prompt is paid for.
  const auto vocab = std::min<std::int64_t>(state_->model.tokenizer().vocab_size(), state_->model.config().vocab);
  Sampler sampler(options.sampling, static_cast<std::int32_t>(vocab));
  prefill(prompt);
  if (state_->tokens.empty()) fail(Errc::invalid_argument, "prompt: expected at least one token, found none");
  for (const TokenId id : state_->tokens) {
    if (id < vocab) sampler.accept(id);
  }
  state_->sampler = std::move(sampler);
  return {*this, std::move(options)};
}

TextRange Session::stream(std::string_view prompt, GenerateOptions options, EncodeOptions encode) {
  if (!state_->tokens.empty()) encode.add_special = false;
  const std::vector<TokenId> tokens = state_->model.tokenizer().encode(prompt, encode);
  return stream(tokens, std::move(options));
}

TextRange Session::resume(GenerateOptions options) {
  State& s = *state_;
  if (!s.sampler) return stream(std::span<const TokenId>{}, std::move(options));
  const auto vocab = std::min<std::int64_t>(s.model.tokenizer().vocab_size(), s.model.config().vocab);
  s.sampler = Sampler::restore(s.sampler->save(), options.sampling, static_cast<std::int32_t>(vocab));
  s.prompt_ms = 0;
  s.prompt_tokens = 0;
  return {*this, std::move(options)};
}

TextRange Session::chat(std::vector<ChatMessage> messages, GenerateOptions options) {
  State& s = *state_;
  const Tokenizer& tokenizer = s.model.tokenizer();
  std::vector<ChatMessage> all = s.messages;
  // What was generated since the last messages is the assistant's turn.
  if (!all.empty() && s.tokens.size() > s.reply_start) {
    all.push_back({"assistant", tokenizer.decode(std::span<const TokenId>(s.tokens).subspan(s.reply_start))});
  }
  all.insert(all.end(), messages.begin(), messages.end());
  const std::string text = chat_prompt(tokenizer, all);
  // Templates write special tokens, BOS among them, so they are parsed and none is added.
  const std::vector<TokenId> tokens = tokenizer.encode(text, {.add_special = false, .parse_special = true});
  // What is held already need not be read again: keep the longest common beginning.
  std::size_t common = 0;
  while (common < tokens.size() && common < s.tokens.size() && tokens[common] == s.tokens[common]) ++common;
  if (common == tokens.size() && common > 0) --common;
  std::vector<TokenId> held = s.tokens;
  s.tokens.resize(common);
  s.cache.truncate(static_cast<std::int64_t>(common));
  s.logits.clear();
  const auto generate = [&] {
    try {
      return stream(std::span(tokens).subspan(common), std::move(options));
    } catch (...) {
      s.tokens = std::move(held);  // what the cache lost waits to be read again
      throw;
    }
  };
  TextRange range = generate();
  s.messages = std::move(all);
  s.reply_start = s.tokens.size();
  return range;
}

std::span<const float> Session::logits() {
  state_->catch_up();
  return state_->logits;
}

void Session::score(std::span<const TokenId> tokens, FunctionRef<void(std::int64_t, std::span<const float>)> sink) {
  State& s = *state_;
  if (!s.tokens.empty()) s.catch_up();
  s.append(tokens, [&] {
    s.read(tokens, 0, [&](std::int64_t index, std::span<const float> row) {
      if (index + 1 == static_cast<std::int64_t>(tokens.size())) s.logits.assign(row.begin(), row.end());
      sink(index, row);
    });
  });
}

void Session::states(std::span<const TokenId> tokens, FunctionRef<void(std::int64_t, std::span<const float>)> sink) {
  State& s = *state_;
  if (!s.tokens.empty()) s.catch_up();
  s.append(tokens, [&] { s.read(tokens, 0, sink, Forward::Output::state); });
}

Session Session::fork() const {
  const State& s = *state_;
  auto copy = std::make_unique<State>(s.model, s.options);
  copy->cache = s.cache;
  copy->tokens = s.tokens;
  copy->logits = s.logits;
  copy->messages = s.messages;
  copy->reply_start = s.reply_start;
  copy->sampler = s.sampler;
  return Session(std::move(copy));
}

void Session::clear() {
  State& s = *state_;
  s.tokens.clear();
  s.logits.clear();
  s.messages.clear();
  s.sampler.reset();
  s.cache.truncate(0);
}

void Session::truncate(std::int64_t count) {
  State& s = *state_;
  const auto held = static_cast<std::int64_t>(s.tokens.size());
  if (count < 0 || count > held) fail(Errc::invalid_argument, "truncate: expected 0 to ", held, " tokens, found ", count);
  if (count == 0) return clear();
  if (count == held) return;
  s.tokens.resize(static_cast<std::size_t>(count));
  s.cache.truncate(count);
  s.logits.clear();
  // What was said can no longer be told apart from what was cut off.
  s.messages.clear();
  s.reply_start = 0;
}

void Session::set_progress(ReadProgress progress) { state_->options.progress = std::move(progress); }

const Model& Session::model() const noexcept { return state_->model; }
const std::vector<TokenId>& Session::tokens() const noexcept { return state_->tokens; }
std::int64_t Session::context() const noexcept { return state_->context; }
std::int64_t Session::kv_bytes() const noexcept { return state_->cache.bytes(); }
int Session::threads() const noexcept { return state_->forward ? state_->forward->threads() : state_->options.threads; }

}  // namespace bantam::inline v0
