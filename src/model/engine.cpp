// Passes of an engine, one after another.
#include "bantam/model/engine.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>

#include "bantam/io/scratch_file.hpp"
#include "bantam/model/drafter.hpp"
#include "bantam/model/forward.hpp"
#include "bantam/model/page_file.hpp"
#include "bantam/model/streamed_blocks.hpp"
#include "bantam/nn/kv_state.hpp"
#include "bantam/nn/recurrent_state.hpp"
#include "bantam/nn/source_state.hpp"

namespace bantam::inline v0 {

namespace {

/// Threads that want the same come one after another. In a child of fork() nobody holds it, whoever did in the parent: that thread
/// is not there to give it back, which is why this is no mutex.
class Turns {
 public:
  void take() {
    const std::uint64_t me = mine();
    for (std::uint64_t holder = nobody; !holder_.compare_exchange_weak(holder, me, std::memory_order_acquire);) {
      if (holder == me) fail(Errc::invalid_argument, "engine: expected no pass within another, found one begun by its callback");
      if (holder == nobody || process_of(holder) != process_of(me)) continue;
      holder_.wait(holder, std::memory_order_relaxed);
      holder = nobody;
    }
  }
  void give() noexcept {
    holder_.store(nobody, std::memory_order_release);
    holder_.notify_one();
  }

 private:
  static constexpr std::uint64_t nobody = 0;
  /// This process and thread: a number of the one, an address of the other.
  static std::uint64_t mine() noexcept {
    static thread_local char here;
    return (detail::process_number() + std::uint64_t{1}) << 48 | (reinterpret_cast<std::uintptr_t>(&here) & 0xffffffffffff);
  }
  static std::uint16_t process_of(std::uint64_t holder) noexcept { return static_cast<std::uint16_t>(holder >> 48); }

  std::atomic<std::uint64_t> holder_{nobody};
};

}  // namespace

struct Engine::Shared {
  Shared(Model m, std::int64_t context_tokens, int team) : model(std::move(m)), context(context_tokens), threads(team) {}

  const Model model;
  const std::int64_t context;
  std::atomic<int> threads, most_threads{0};
  int limited = 0;  ///< to which `forward` keeps
  Turns turns;
  std::unique_ptr<StreamedBlocks> blocks;  ///< of a model that is not in memory whole
  std::atomic<const StreamedBlocks*> streaming{nullptr};  ///< the same, for those without the turn
  std::unique_ptr<Forward> forward;
  std::unique_ptr<Drafter> drafter;
  std::vector<Adapter> checked;  ///< the last ones that were found to fit: each pass asks

  /// A file for pages of these parts, which sequences share as long as there are any.
  struct Pages {
    std::filesystem::path folder;
    std::weak_ptr<PageFile> file;
  };
  std::mutex pages_mutex;
  std::vector<Pages> pages;
  std::shared_ptr<PageFile> pages_in(const std::filesystem::path& folder, std::vector<nn::PagePart> parts) {
    const std::lock_guard lock(pages_mutex);
    std::erase_if(pages, [](const Pages& one) { return one.file.expired(); });
    for (const Pages& one : pages) {
      std::shared_ptr<PageFile> file = one.file.lock();
      if (file != nullptr && one.folder == folder && file->parts() == parts && !file->is_forked()) return file;
    }
    std::shared_ptr<PageFile> file = PageFile::make(folder, std::move(parts));
    pages.push_back({folder, file});
    return file;
  }

  /// Whoever has the turn. Throws as Adapter::check_fits() does.
  void check(const Adapter& adapter) {
    constexpr std::size_t most = 64;
    const auto is_it = [&](const Adapter& one) { return one.matrices().data() == adapter.matrices().data(); };
    if (std::ranges::any_of(checked, is_it)) return;
    adapter.check_fits(model.config());
    if (checked.size() == most) checked.erase(checked.begin());
    checked.push_back(adapter);
  }

  /// Whoever has the turn.
  Forward& running() {
    // In a child of fork() its threads are not there, and another thread may have been in the middle of changing it.
    if (forward && forward->is_forked()) {
      (void)forward.release();
      (void)blocks.release();
      limited = 0;
    }
    if (!forward && model.residency() != nullptr) {
      blocks = std::make_unique<StreamedBlocks>(model.checkpoint(), model.weights(), *model.residency());
      streaming = blocks.get();
      forward = std::make_unique<Forward>(model.config(), model.weights(), *blocks, context, threads);
      threads = forward->threads();
    }
    if (!forward) {
      forward = std::make_unique<Forward>(model.config(), model.weights(), context, threads);
      threads = forward->threads();
    }
    if (const int most = most_threads; limited != most) forward->team().set_active(limited = most);
    return *forward;
  }
  /// The same.
  Drafter& drafting() {
    if (drafter && drafter->is_forked()) (void)drafter.release();
    if (!drafter) {
      (void)running();
      drafter = std::make_unique<Drafter>(model.config(), model.weights(), blocks != nullptr ? blocks->table(Role::embedding) : nullptr, context, threads);
    }
    return *drafter;
  }
};

namespace {

/// Held from here to the end of the scope.
class Turn {
 public:
  explicit Turn(Turns& turns) : turns_(turns) { turns_.take(); }
  ~Turn() { turns_.give(); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  Turns& turns_;
};

}  // namespace

void detail::check_room(std::int64_t context, std::int64_t held, std::int64_t more) {
  if (held + more > context) {
    fail(Errc::invalid_argument, "context: expected at most ", context, " tokens, ", held, " are held and ", more, " more were given");
  }
}

Engine::Engine(Model model, EngineOptions options) {
  if (options.context < 0 || options.context > (std::int64_t{1} << 31)) {
    fail(Errc::invalid_argument, "context: expected 0 (the model's) to 2^31 tokens, found ", options.context);
  }
  if (options.threads < 0 || options.threads > 1024) {
    fail(Errc::invalid_argument, "threads: expected 0 (all cores) to 1024, found ", options.threads);
  }
  const std::int64_t context = options.context == 0 ? model.config().context : options.context;
  check_positions(model.config(), context, "context");
  shared_ = std::make_shared<Shared>(std::move(model), context, options.threads);
}

const Model& Engine::model() const noexcept { return shared_->model; }
std::int64_t Engine::context() const noexcept { return shared_->context; }
int Engine::threads() const noexcept { return shared_->threads; }
void Engine::limit_threads(int most) noexcept { shared_->most_threads = std::max(0, most); }
void Engine::set_profile(Profile* profile) {
  const Turn turn(shared_->turns);
  shared_->running().set_profile(profile);
}
StreamStats Engine::stream_stats() const {
  const StreamedBlocks* blocks = shared_->streaming;
  if (blocks != nullptr) return blocks->stats();
  const Residency* residency = model().residency();
  return {.resident_bytes = residency != nullptr ? residency->resident_bytes() : model().bytes()};
}

nn::SequenceState Engine::new_state(std::string_view kv, const StateMemory& memory) const {
  const ModelConfig& config = model().config();
  nn::SequenceState state = config.new_state(kv);
  if (memory.limit < 0) fail(Errc::invalid_argument, "memory: expected 0 (no limit) or bytes, found ", memory.limit);
  if (memory.limit == 0 || !config.arch->causal) return state;
  if (config.has_source()) fail(Errc::unsupported, "memory: expected a model of one text, found one of type ", config.arch->name, ", whose keys and values of what its encoder reads stay in memory");
  const std::filesystem::path folder = memory.folder.empty() ? ScratchFile::usual_folder() : memory.folder;
  std::int64_t left = memory.limit;
  auto* const keys = state.find<nn::KvState>();
  if (auto* const recurrent = state.find<nn::RecurrentState>(); recurrent != nullptr && recurrent->boundary_bytes() > 0) {
    // What keys and values of a whole context leave is for checkpoints.
    const std::int64_t of_token = (keys == nullptr ? 0 : keys->bytes_per_token()) + (drafts() ? config.drafter().new_state(kv).bytes_per_token() : 0);
    const std::int64_t of_keys = round_up<std::int64_t>(context(), page_tokens) * of_token;
    constexpr std::int64_t most = nn::RecurrentState::most_checkpoints;
    const std::int64_t room = left - of_keys - recurrent->bytes_with(0), checkpoints = std::clamp<std::int64_t>(room / recurrent->boundary_bytes(), 1, most);
    left -= recurrent->bytes_with(checkpoints);
    if (left < (keys == nullptr ? 0 : 1)) {
      fail(Errc::out_of_memory, "memory: expected more than ", recurrent->bytes_with(1), " bytes, which recurrent states take, found ", memory.limit);
    }
    if (checkpoints < most) recurrent->keep_within(checkpoints, shared_->pages_in(folder, recurrent->parts()));
  }
  if (keys != nullptr) keys->cache().keep_within(left, shared_->pages_in(folder, keys->cache().parts()));
  return state;
}

void Engine::check(std::span<const TokenId> tokens) const {
  const std::int64_t vocab = model().config().vocab;
  for (const TokenId id : tokens) {
    if (id < 0 || id >= vocab) fail(Errc::invalid_argument, "token id: expected 0 to ", vocab - 1, ", found ", id);
  }
}

bool Engine::runs_like(const Engine& other) const noexcept {
  return &model().weights() == &other.model().weights() && context() == other.context();
}

void Engine::run(std::span<const Sequence> sequences, Sink sink, KeepGoing keep_going, Output output, SinkCalls calls) {
  std::vector<const nn::SequenceState*> states;
  for (const Sequence& s : sequences) states.push_back(s.state);
  std::ranges::sort(states);
  if (std::ranges::adjacent_find(states) != states.end() || std::ranges::count(states, nullptr) > 0) {
    fail(Errc::invalid_argument, "engine: expected a state of its own for each sequence");
  }
  const ModelConfig& config = model().config();
  if (output == Output::logits && !config.has_head) {
    fail(Errc::unsupported, "logits: expected a model that makes some, found one of type ", config.arch->name, ", which makes ", config.labels > 0 ? "scores: see rerank()" : "embeddings: see embed()");
  }
  for (const Sequence& s : sequences) {
    check(s.tokens);
    const std::int64_t dim = config.dim;
    if (!config.arch->causal && s.state->tokens() > 0) {
      fail(Errc::invalid_argument, "engine: expected a sequence at once, for all of its tokens see each other, found ", s.state->tokens(), " tokens read before");
    }
    check(s.source);
    if (!s.source.empty() && !config.has_source()) fail(Errc::invalid_argument, "engine: expected a source in models with an encoder before a decoder alone, found one of type ", config.arch->name);
    if (!s.source.empty() && s.state->tokens() > 0) fail(Errc::invalid_argument, "engine: expected the source before the decoder's first token, found ", s.state->tokens(), " tokens read before");
    if (config.has_source() && s.source.empty() && s.state->find<nn::SourceState>()->source_tokens() == 0) {
      fail(Errc::invalid_argument, "engine: expected a source, which the encoder reads before the decoder's first token, found none");
    }
    if (std::ssize(s.source) > context()) fail(Errc::invalid_argument, "context: expected a source of at most ", context(), " tokens, found ", s.source.size());
    if (!s.types.empty() && (s.types.size() != s.tokens.size() || std::ranges::max(s.types) >= std::max<std::int64_t>(1, config.token_types))) {
      fail(Errc::invalid_argument, "token types: expected one below ", std::max<std::int64_t>(1, config.token_types), " for each of ", s.tokens.size(), " tokens, found ", s.types.size(), " up to ",
           static_cast<int>(std::ranges::max(s.types)));
    }
    if (!s.states.empty() && std::ssize(s.states) != s.length(dim) * dim) {
      fail(Errc::invalid_argument, "states: expected room for ", s.length(dim) * dim, " numbers, found ", s.states.size());
    }
    if (!s.embeddings.empty() && (!s.tokens.empty() || std::ssize(s.embeddings) % dim != 0)) {
      fail(Errc::invalid_argument, "embeddings: expected rows of ", dim, " numbers and no tokens, found ", s.embeddings.size(), " numbers and ", s.tokens.size(), " tokens");
    }
    detail::check_room(context(), s.state->tokens(), s.length(dim));
  }
  std::exception_ptr thrown;
  const auto asked = [&](std::int64_t tokens_read) noexcept {
    try {
      return keep_going(tokens_read);
    } catch (...) {
      thrown = std::current_exception();
      return false;
    }
  };
  const Turn turn(shared_->turns);
  for (const Sequence& s : sequences) {
    for (const ScaledAdapter& one : s.adapters) shared_->check(one.adapter);
  }
  try {
    shared_->running().run(sequences, sink, asked, output, calls);
  } catch (...) {
    if (thrown) std::rethrow_exception(thrown);
    throw;
  }
}

void Engine::for_each(std::int64_t count, FunctionRef<void(std::int64_t)> f) {
  const Turn turn(shared_->turns);
  shared_->running().team().deal(count, 1, [&](Range part, int) {
    for (std::int64_t i = part.begin; i < part.end; ++i) f(i);
  });
}

nn::SequenceState Engine::new_draft_state(std::string_view kv) const {
  if (!drafts()) fail(Errc::invalid_argument, "mtp: expected a model with a layer that drafts, found one without");
  return model().config().drafter().new_state(kv);
}

nn::SequenceState Engine::new_draft_state(std::string_view kv, nn::SequenceState& beside, const StateMemory& memory) const {
  nn::SequenceState state = new_draft_state(kv);
  auto* const own = state.find<nn::KvState>();
  auto* const keys = beside.find<nn::KvState>();
  if (memory.limit == 0 || own == nullptr || keys == nullptr || keys->cache().store() == nullptr) return state;
  // As much of the bound as of the bytes, but neither gets less than it needs as long as there is enough for both.
  const std::int64_t tokens = context(), bound = keys->cache().bound(), own_bytes = own->cache().memory_bytes(tokens), others = keys->cache().memory_bytes(tokens);
  const auto share = static_cast<std::int64_t>(static_cast<double>(bound) * static_cast<double>(own_bytes) / static_cast<double>(own_bytes + others));
  const std::int64_t left = bound - keys->cache().least_bytes(tokens, Forward::largest_chunk), least = own->cache().least_bytes(tokens, Forward::largest_chunk);
  const std::int64_t given = own_bytes + others <= bound ? own_bytes : std::max(least, std::min(share, left));
  own->cache().keep_within(given, shared_->pages_in(memory.folder.empty() ? ScratchFile::usual_folder() : memory.folder, own->cache().parts()));
  keys->cache().keep_within(std::max<std::int64_t>(1, bound - given));
  return state;
}

void Engine::draft(nn::SequenceState& draft_state, std::span<const TokenId> tokens, std::span<const float> states, std::span<float> logits, std::span<float> state) {
  const ModelConfig& config = model().config();
  if (!drafts()) fail(Errc::invalid_argument, "mtp: expected a model with a layer that drafts, found one without");
  check(tokens);
  if (tokens.empty() || std::ssize(states) != std::ssize(tokens) * config.dim) {
    fail(Errc::invalid_argument, "mtp: expected states of ", config.dim, " numbers for each of the tokens, found ", states.size(), " numbers for ", tokens.size());
  }
  if (std::ssize(logits) != config.vocab || std::ssize(state) != config.dim) {
    fail(Errc::invalid_argument, "mtp: expected room for ", config.vocab, " logits and a state of ", config.dim, ", found ", logits.size(), " and ", state.size());
  }
  detail::check_room(context(), draft_state.tokens(), std::ssize(tokens));
  const Turn turn(shared_->turns);
  shared_->drafting().run(draft_state, tokens, states, logits, state);
}

std::string Engine::kept_whole(nn::SequenceState& state) const {
  const ModelConfig& config = model().config();
  if (state.find<nn::RecurrentState>() != nullptr) return "expected a model that keeps keys and values alone, found one with recurrent states";
  if (config.index.used > 0) return "expected a model whose tokens see all before them, found one with an indexer";
  if (config.has_source()) return "expected a model of one text, found a decoder behind an encoder";
  if (!config.arch->causal) return message("expected a model whose tokens see those before them alone, found one of type ", config.arch->name);
  if (config.arch->learns_positions()) return "expected a model whose keys can be turned to other positions, found one that learned positions";
  return "";
}

void Engine::remove(nn::SequenceState& state, std::int64_t first, std::int64_t last) {
  if (first < 0 || first > last || last > state.tokens()) {
    fail(Errc::invalid_argument, "remove: expected a range of the ", state.tokens(), " tokens read, found ", first, " to ", last);
  }
  const ModelConfig& config = model().config();
  if (const std::string why = kept_whole(state); !why.empty()) fail(Errc::unsupported, "remove: ", why);
  const nn::Rope rope(config.rope, context()), local(config.local_rope.value_or(config.rope), context());
  const auto turned = [&](const nn::Rope& by) {
    std::vector<float> angles(static_cast<std::size_t>(by.dim()));
    by.shift_angles(first - last, angles.data(), angles.data() + by.dim() / 2);
    return angles;
  };
  const std::vector<float> angles = turned(rope), local_angles = turned(local);
  const KernelTable& kernels = kernels_in_use();
  const Turn turn(shared_->turns);
  nn::kv_cache_of(state).remove(kernels, shared_->running().team(), first, last, [&](std::int64_t layer, float* key) {
    const nn::LayerRope kind = config.layer(layer).rope;
    if (kind == nn::LayerRope::none) return;
    const nn::Rope& by = kind == nn::LayerRope::local ? local : rope;
    const float* cosines = (kind == nn::LayerRope::local ? local_angles : angles).data();
    by.apply(kernels, key, cosines, cosines + by.dim() / 2);
  });
}

}  // namespace bantam::inline v0
