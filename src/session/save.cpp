// A session's state as a file, and back.
//
// Layout, little-endian: magic, then fields of 8 bytes: model fingerprint, tokens, tokens that were read, bytes a page, bytes of
// the sampler's state; the layout of keys and values (8 bytes, zero padded); the token ids (4 bytes each); in models with an encoder
// before a decoder how many tokens that reads (8 bytes), and these; what the state of the
// sequence saves (pages of keys and values), the sampler's state; at last the XXH3-64 of everything before it. Of sessions with adapters
// the magic is another, and the fingerprint of these and their scales follows the model's.
#include <algorithm>
#include <cstring>

#include "bantam/io/file.hpp"
#include "bantam/nn/source_state.hpp"
#include "io/stream_hash.hpp"
#include "state.hpp"

namespace bantam::inline v0 {

namespace {

constexpr std::string_view magic = "BANTAMS3", adapted_magic = "BANTAMA3";
static_assert(magic.size() == adapted_magic.size());

using ByteSink = FunctionRef<void(std::span<const std::byte>)>;

/// Writes and hashes at once.
class HashedWriter {
 public:
  explicit HashedWriter(ByteSink sink) : sink_(sink) {}
  void write(std::span<const std::byte> bytes) {
    hash_.add(bytes);
    sink_(bytes);
  }
  void write(std::uint64_t value) { write(std::as_bytes(std::span(&value, 1))); }
  void write_text(std::string_view text) { write(std::as_bytes(std::span(text))); }
  void finish() {
    const std::uint64_t digest = hash_.value();
    sink_(std::as_bytes(std::span(&digest, 1)));
  }

 private:
  ByteSink sink_;
  StreamHash hash_;
};

/// What tells states of other shapes apart.
std::uint64_t page_bytes_of(const nn::SequenceState& state) noexcept { return static_cast<std::uint64_t>(state.bytes_per_token() * page_tokens); }

/// The kind of keys and values that `name` calls so; null: none of this version.
const KvKernels* find_kind(const char* KvKernels::*name, std::string_view wanted) {
  const auto& kinds = kernel_tables().back()->kv;
  const auto found = std::ranges::find_if(kinds, [&](const KvKernels& kind) { return kind.*name == wanted; });
  return found == kinds.end() ? nullptr : &*found;
}
/// What the file calls the layout of keys and values of a kind; of states without them, the kind.
std::string layout_of(std::string_view kind) {
  const KvKernels* const kernels = find_kind(&KvKernels::name, kind);
  std::string layout(kernels != nullptr ? kernels->saved_as : kind);
  layout.resize(8);
  return layout;
}
/// The kind whose layout a file has.
std::string kind_of(std::string_view layout, const std::string& place) {
  layout = layout.substr(0, layout.find('\0'));
  if (const KvKernels* const kernels = find_kind(&KvKernels::saved_as, layout)) return kernels->name;
  fail(Errc::invalid_argument, place, ": keys and values: expected a layout of this version (", nn::kv_kind_list(&KvKernels::saved_as), "), found ", printable(layout));
}

/// What is restored says itself how it keeps keys and values.
SessionOptions without_kind(SessionOptions options) {
  options.kv = SessionOptions{}.kv;
  return options;
}

}  // namespace

/// What was saved: in memory, or in a file, of which memory has no more than what is asked for at a time.
class Session::Saved {
 public:
  Saved(std::span<const std::byte> bytes, std::string place) : bytes_(bytes), place_(std::move(place)) {}
  explicit Saved(std::shared_ptr<const MappedFile> file) : bytes_(file->bytes()), place_(file->path().string()), file_(std::move(file)) {}

  [[nodiscard]] std::size_t size() const noexcept { return bytes_.size(); }
  [[nodiscard]] const std::string& place() const noexcept { return place_; }
  /// Some of it, until the next call with the same room. Of a file it is read, not mapped: whoever cuts a mapped file short ends the process.
  [[nodiscard]] std::span<const std::byte> part(std::size_t offset, std::size_t size, std::vector<std::byte>& room) const {
    const auto wanted = bytes_.subspan(offset, size);
    if (file_ == nullptr) return wanted;
    room.resize(size);
    file_->read(wanted, room.data());
    return room;
  }
  [[nodiscard]] std::uint64_t hash(std::size_t size) const {
    constexpr std::size_t most = std::size_t{1} << 20;
    StreamHash hash;
    std::vector<std::byte> room;
    for (std::size_t at = 0; at < size; at += most) hash.add(part(at, std::min(most, size - at), room));
    return hash.value();
  }
  void check_unchanged() const {
    if (file_ != nullptr) file_->check_unchanged();
  }

 private:
  std::span<const std::byte> bytes_;  ///< of a file, as places in it alone
  std::string place_;
  std::shared_ptr<const MappedFile> file_;
};

void Session::save(const std::filesystem::path& path) const {
  AtomicFile file(path);
  save_to([&](std::span<const std::byte> bytes) { file.write(bytes); });
  file.commit();
}

void Session::save_to(ByteSink sink) const {
  const State& s = *state_;
  HashedWriter out(sink);
  const std::string sampler = s.sampler ? s.sampler->save() : std::string();
  const std::uint64_t adapters = fingerprint_of(s.options.adapters);
  out.write_text(adapters == 0 ? magic : adapted_magic);
  out.write(s.model().fingerprint());
  if (adapters != 0) out.write(adapters);
  out.write(s.tokens.size());
  out.write(static_cast<std::uint64_t>(s.sequence.tokens()));
  out.write(page_bytes_of(s.sequence));
  out.write(sampler.size());
  out.write_text(layout_of(s.options.kv));
  out.write(std::as_bytes(std::span(s.tokens)));
  if (s.model().config().has_source()) {
    out.write(s.source.size());
    out.write(std::as_bytes(std::span(s.source)));
  }
  s.sequence.save([&](std::span<const std::byte> part) { out.write(part); });
  out.write_text(sampler);
  out.finish();
}

Session Session::restore(Model model, const std::filesystem::path& path, SessionOptions options) {
  return restore_file(std::make_unique<State>(std::move(model), without_kind(std::move(options))), path);
}

Session Session::restore(Engine engine, const std::filesystem::path& path, SessionOptions options) {
  return restore_file(std::make_unique<State>(std::move(engine), without_kind(std::move(options))), path);
}

Session Session::restore(Model model, std::span<const std::byte> bytes, SessionOptions options) {
  return restore_bytes(std::make_unique<State>(std::move(model), without_kind(std::move(options))), bytes);
}

Session Session::restore(Engine engine, std::span<const std::byte> bytes, SessionOptions options) {
  return restore_bytes(std::make_unique<State>(std::move(engine), without_kind(std::move(options))), bytes);
}

Session Session::restore_file(std::unique_ptr<State> state, const std::filesystem::path& path) {
  return restore_from(std::move(state), Saved(MappedFile::open(path)));
}

Session Session::restore_bytes(std::unique_ptr<State> state, std::span<const std::byte> bytes) {
  return restore_from(std::move(state), Saved(bytes, "session in memory"));
}

Session Session::restore_from(std::unique_ptr<State> state, const Saved& saved) {
  /// Reads from front to back; every read is checked against what is left.
  class Reader {
   public:
    Reader(const Saved& from, std::size_t end) : from_(from), end_(end) {}
    /// Until the next call.
    std::span<const std::byte> take(std::uint64_t bytes, std::string_view what) {
      if (bytes > left()) fail(Errc::corrupt, from_.place(), ": ", what, ": expected ", bytes, " bytes, found ", left());
      const auto part = from_.part(at_, bytes, room_);
      at_ += bytes;
      return part;
    }
    std::uint64_t number(std::string_view what) { return detail::load_as<std::uint64_t>(take(8, what).data()); }
    [[nodiscard]] std::size_t left() const noexcept { return end_ - at_; }

   private:
    const Saved& from_;
    std::size_t at_ = 0, end_;
    std::vector<std::byte> room_;
  };
  State& s = *state;
  const std::string& place = saved.place();
  const std::size_t body = saved.size() < 8 ? 0 : saved.size() - 8;
  Reader in(saved, body);
  std::string found_magic(magic.size(), '\0');
  if (in.left() >= magic.size() + 48) std::memcpy(found_magic.data(), in.take(magic.size(), "magic").data(), magic.size());
  if (found_magic != magic && found_magic != adapted_magic) {
    fail(Errc::corrupt, place, ": expected a saved session of this version, found something else");
  }
  std::vector<std::byte> room;
  if (saved.hash(body) != detail::load_as<std::uint64_t>(saved.part(body, 8, room).data())) {
    fail(Errc::corrupt, place, ": expected the hash that the file ends with, found other content");
  }
  if (in.number("model") != s.model().fingerprint()) {
    fail(Errc::invalid_argument, place, ": expected a session of this model, found one of another model or format");
  }
  const std::uint64_t adapters = found_magic == adapted_magic ? in.number("adapters") : 0;
  if (adapters != fingerprint_of(s.options.adapters)) {
    const char* const expected = s.options.adapters.empty() ? "without adapters" : "with these adapters and scales";
    fail(Errc::invalid_argument, place, ": expected a session ", expected, ", found one ", adapters == 0 ? "without any" : "with others");
  }
  const std::uint64_t tokens = in.number("tokens");
  const std::uint64_t read = in.number("tokens read");
  const std::uint64_t page_bytes = in.number("page size");
  const std::uint64_t sampler_bytes = in.number("sampler state");
  const auto layout = in.take(8, "layout of keys and values");
  s.options.kv = kind_of({reinterpret_cast<const char*>(layout.data()), layout.size()}, place);
  s.sequence = s.engine.new_state(s.options.kv, s.options.memory);
  if (read > tokens || tokens > static_cast<std::uint64_t>(s.context)) {
    fail(Errc::invalid_argument, place, ": expected at most ", s.context, " tokens (the context), found ", tokens);
  }
  if (page_bytes != page_bytes_of(s.sequence)) {
    fail(Errc::corrupt, place, ": expected pages of ", page_bytes_of(s.sequence), " bytes, found ", page_bytes);
  }
  const auto take_ids = [&](std::uint64_t count, std::string_view what) {
    const auto bytes = in.take(count * sizeof(TokenId), what);
    std::vector<TokenId> ids(count);
    if (count > 0) std::memcpy(ids.data(), bytes.data(), bytes.size());
    return ids;
  };
  s.tokens = take_ids(tokens, "token ids");
  for (const TokenId id : s.tokens) {
    if (id < 0 || id >= s.model().config().vocab) fail(Errc::corrupt, place, ": expected token ids below ", s.model().config().vocab, ", found ", id);
  }
  if (s.model().config().has_source()) {
    const std::uint64_t count = in.number("tokens of the source");
    if (count > static_cast<std::uint64_t>(s.engine.context())) fail(Errc::invalid_argument, place, ": expected a source of at most ", s.engine.context(), " tokens, found ", count);
    s.source = take_ids(count, "ids of the source");
    s.engine.check(s.source);
    if (s.source.empty() && !s.tokens.empty()) fail(Errc::corrupt, place, ": expected a source before the decoder's tokens, found none");
  }
  s.sequence.restore(static_cast<std::int64_t>(read), [&](std::uint64_t size_bytes, std::string_view what) { return in.take(size_bytes, what); });
  if (const auto* made = s.sequence.find<nn::SourceState>(); made != nullptr && made->source_tokens() != 0 && made->source_tokens() != std::ssize(s.source)) {
    fail(Errc::corrupt, place, ": expected keys and values of ", s.source.size(), " tokens of the source, found ", made->source_tokens());
  }
  saved.check_unchanged();  // since it was hashed
  const auto sampler = in.take(sampler_bytes, "sampler state");
  if (in.left() != 0) fail(Errc::corrupt, place, ": expected the end of the file, found ", in.left(), " more bytes");
  if (!sampler.empty()) {
    // Its options come with resume(); these only carry the state there.
    s.sampler = Sampler::restore({reinterpret_cast<const char*>(sampler.data()), sampler.size()}, {.repeat_last_n = -1}, s.vocab());
  }
  return Session(std::move(state));
}

}  // namespace bantam::inline v0
