// A session's state as a file, and back.
//
// Layout, little-endian: magic, then fields of 8 bytes: model fingerprint, tokens, tokens whose keys and values are in
// the cache, bytes a page, bytes of the sampler's state; the kind of cache (8 bytes, zero padded); the token ids (4 bytes
// each), the pages, the sampler's state; at last the XXH3-64 of everything before it.
#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "bantam/io/file.hpp"
#include "state.hpp"

namespace bantam::inline v0 {

namespace {

constexpr std::string_view magic = "BANTAMS3";

using ByteSink = FunctionRef<void(std::span<const std::byte>)>;

/// Writes and hashes at once.
class HashedWriter {
 public:
  explicit HashedWriter(ByteSink sink) : sink_(sink) { XXH3_64bits_reset(&hash_); }
  void write(std::span<const std::byte> bytes) {
    XXH3_64bits_update(&hash_, bytes.data(), bytes.size());
    sink_(bytes);
  }
  void write(std::uint64_t value) { write(std::as_bytes(std::span(&value, 1))); }
  void write_text(std::string_view text) { write(std::as_bytes(std::span(text))); }
  void finish() {
    const std::uint64_t digest = XXH3_64bits_digest(&hash_);
    sink_(std::as_bytes(std::span(&digest, 1)));
  }

 private:
  ByteSink sink_;
  XXH3_state_t hash_{};
};

/// Reads a mapped file from front to back; every read is checked against what is left.
class Reader {
 public:
  Reader(std::span<const std::byte> bytes, std::string place) : left_(bytes), place_(std::move(place)) {}
  std::span<const std::byte> take(std::uint64_t bytes, std::string_view what) {
    if (bytes > left_.size()) fail(Errc::corrupt, place_, ": ", what, ": expected ", bytes, " bytes, found ", left_.size());
    const auto part = left_.first(bytes);
    left_ = left_.subspan(bytes);
    return part;
  }
  std::uint64_t number(std::string_view what) { return detail::load_as<std::uint64_t>(take(8, what).data()); }
  [[nodiscard]] std::size_t left() const noexcept { return left_.size(); }

 private:
  std::span<const std::byte> left_;
  std::string place_;
};

}  // namespace

void Session::save(const std::filesystem::path& path) const {
  AtomicFile file(path);
  save_to([&](std::span<const std::byte> bytes) { file.write(bytes); });
  file.commit();
}

void Session::save_to(ByteSink sink) const {
  State& s = *state_;
  HashedWriter out(sink);
  const std::string sampler = s.sampler ? s.sampler->save() : std::string();
  std::string kind(8, '\0');
  std::strncpy(kind.data(), s.cache.kind(), 8);
  out.write_text(magic);
  out.write(s.model.fingerprint());
  out.write(s.tokens.size());
  out.write(static_cast<std::uint64_t>(s.cache.tokens()));
  out.write(static_cast<std::uint64_t>(s.cache.bytes_per_token() * page_tokens));
  out.write(sampler.size());
  out.write_text(kind);
  out.write(std::as_bytes(std::span(s.tokens)));
  for (std::int64_t page = 0; page < s.cache.page_count(); ++page) out.write(s.cache.page(page));
  out.write_text(sampler);
  out.finish();
}

Session Session::restore(Model model, const std::filesystem::path& path, SessionOptions options) {
  // Read, not mapped: whoever cuts a mapped file short ends the process.
  const auto file = MappedFile::open(path);
  const std::span<const std::byte> bytes = file->bytes();
  const auto copy = allocate_storage(bytes.size());
  file->read(bytes, copy.get());
  return restore_from(std::move(model), {copy.get(), bytes.size()}, path.string(), std::move(options));
}

Session Session::restore(Model model, std::span<const std::byte> bytes, SessionOptions options) {
  return restore_from(std::move(model), bytes, "session in memory", std::move(options));
}

Session Session::restore_from(Model model, std::span<const std::byte> bytes, const std::string& place, SessionOptions options) {
  if (bytes.size() < magic.size() + 56 || std::memcmp(bytes.data(), magic.data(), magic.size()) != 0) {
    fail(Errc::corrupt, place, ": expected a saved session of this version, found something else");
  }
  const auto body = bytes.first(bytes.size() - 8);
  if (XXH3_64bits(body.data(), body.size()) != detail::load_as<std::uint64_t>(body.data() + body.size())) {
    fail(Errc::corrupt, place, ": expected the hash that the file ends with, found other content");
  }
  Reader in(body.subspan(magic.size()), place);
  if (in.number("model") != model.fingerprint()) {
    fail(Errc::invalid_argument, place, ": expected a session of this model, found one of another model or format");
  }
  const std::uint64_t tokens = in.number("tokens");
  const std::uint64_t cached = in.number("cached tokens");
  const std::uint64_t page_bytes = in.number("page size");
  const std::uint64_t sampler_bytes = in.number("sampler state");
  const auto kind = in.take(8, "kind of cache");
  options.kv = std::string(reinterpret_cast<const char*>(kind.data()), strnlen(reinterpret_cast<const char*>(kind.data()), 8));
  auto state = std::make_unique<State>(std::move(model), std::move(options));
  if (cached > tokens || tokens > static_cast<std::uint64_t>(state->context)) {
    fail(Errc::invalid_argument, place, ": expected at most ", state->context, " tokens (the context), found ", tokens);
  }
  if (page_bytes != static_cast<std::uint64_t>(state->cache.bytes_per_token() * page_tokens)) {
    fail(Errc::corrupt, place, ": expected pages of ", state->cache.bytes_per_token() * page_tokens, " bytes, found ", page_bytes);
  }
  const auto ids = in.take(tokens * sizeof(TokenId), "token ids");
  state->tokens.resize(tokens);
  std::memcpy(state->tokens.data(), ids.data(), ids.size());
  for (const TokenId id : state->tokens) {
    if (id < 0 || id >= state->model.config().vocab) fail(Errc::corrupt, place, ": expected token ids below ", state->model.config().vocab, ", found ", id);
  }
  // Sized by what the file holds, not by what it says.
  const std::uint64_t pages = div_up<std::uint64_t>(cached, page_tokens);
  const auto content = in.take(pages * page_bytes, "pages");
  state->cache.extend(static_cast<std::int64_t>(cached));
  for (std::uint64_t page = 0; page < pages; ++page) {
    std::memcpy(state->cache.page(static_cast<std::int64_t>(page)).data(), content.data() + page * page_bytes, page_bytes);
  }
  const auto sampler = in.take(sampler_bytes, "sampler state");
  if (in.left() != 0) fail(Errc::corrupt, place, ": expected the end of the file, found ", in.left(), " more bytes");
  if (!sampler.empty()) {
    // Its options come with resume(); these only carry the state there.
    const auto vocab = std::min<std::int64_t>(state->model.tokenizer().vocab_size(), state->model.config().vocab);
    state->sampler = Sampler::restore({reinterpret_cast<const char*>(sampler.data()), sampler.size()}, {.repeat_last_n = -1},
                                      static_cast<std::int32_t>(vocab));
  }
  return Session(std::move(state));
}

}  // namespace bantam::inline v0
