// Layout, little-endian: magic, the model's fingerprint; for each text 1 and its bytes as Session::save() writes them; for each reply 2, its tokens and what
// was said, as JSON; 0. Numbers have 8 bytes, and stand in front of what they are the size of.
#include "server/cache_file.hpp"

#include <cstring>

#include "bantam/io/file.hpp"

namespace bantam::server {

namespace {

constexpr std::string_view cache_magic = "BANTAMK1";
enum class CacheRecord : std::uint64_t { end = 0, text = 1, reply = 2 };

void write_number(AtomicFile& file, std::uint64_t value) { file.write(std::as_bytes(std::span(&value, 1))); }
void write_sized(AtomicFile& file, std::span<const std::byte> bytes) {
  write_number(file, bytes.size());
  file.write(bytes);
}

/// Reads from front to back, into memory: a mapped file that somebody cuts short would end the process.
class CacheReader {
 public:
  explicit CacheReader(const std::string& path) : file_(MappedFile::open(path)) {}

  [[nodiscard]] std::string take(std::uint64_t size) {
    const std::span<const std::byte> all = file_->bytes();
    if (size > all.size() - at_) fail(Errc::corrupt, "cache file: expected ", size, " more bytes, found ", all.size() - at_);
    std::string bytes(size, '\0');
    file_->read(all.subspan(at_, size), reinterpret_cast<std::byte*>(bytes.data()));
    at_ += size;
    return bytes;
  }
  [[nodiscard]] std::uint64_t number() {
    const std::string bytes = take(8);
    std::uint64_t value = 0;
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
  [[nodiscard]] std::string sized() { return take(number()); }

 private:
  std::shared_ptr<const MappedFile> file_;
  std::size_t at_ = 0;
};

Json json_of_reply(const Replays::Entry& entry) {
  Json calls = Json::array();
  for (const ToolCall& call : entry.said.calls) calls.push_back({{"id", call.id}, {"name", call.name}, {"arguments", call.arguments}});
  return {{"prompt", entry.prompt}, {"reasoning", entry.said.reasoning}, {"text", entry.said.text}, {"calls", std::move(calls)}};
}

void restore_text(App& app, const std::string& bytes) {
  try {
    const SessionOptions options{.context = app.options.scheduler.context, .adapters = app.adapters.now(), .memory = app.options.scheduler.memory};
    app.scheduler.keep_text(-1, Session::restore(app.engine, std::as_bytes(std::span(bytes)), options));
  } catch (const Error& error) {
    // Of other adapters, or longer than texts may be now: nobody can go on from it.
    if (error.code() != Errc::invalid_argument) throw;
  }
}

void add_reply(App& app, const std::string& token_bytes, const std::string& text) {
  std::vector<TokenId> tokens(token_bytes.size() / sizeof(TokenId));
  std::memcpy(tokens.data(), token_bytes.data(), tokens.size() * sizeof(TokenId));
  for (const TokenId id : tokens) {
    if (id < 0 || id >= app.vocab()) fail(Errc::corrupt, "cache file: expected tokens below ", app.vocab(), ", found ", id);
  }
  const Json json = Json::parse(text, "cache file");
  ParsedReply said{.reasoning = json.at("reasoning").get<std::string>(), .text = json.at("text").get<std::string>(), .calls = {}};
  for (const Json& call : json.at("calls"))
    said.calls.push_back({call.at("id").get<std::string>(), call.at("name").get<std::string>(), call.at("arguments").get<std::string>()});
  app.replays.add(json.at("prompt").get<std::string>(), std::move(tokens), std::move(said));
}

}  // namespace

CacheFile::CacheFile(App& app) : app_(app) {
  const std::string& path = app.options.cache_file;
  if (path.empty() || !std::filesystem::exists(path)) return;
  CacheReader in(path);
  exists_ = true;
  std::string begin;
  try {
    begin = in.take(cache_magic.size());
  } catch (const Error&) {
    // Shorter than that.
  }
  if (begin != cache_magic) fail(Errc::invalid_argument, printable(path, 4096), ": expected a cache file of `bantam serve`, found something else");
}

void CacheFile::restore(const std::function<void(std::string_view)>& note) const {
  if (!exists_) return;
  try {
    CacheReader in(app_.options.cache_file);
    (void)in.take(cache_magic.size());
    if (in.number() != app_.engine.model().fingerprint()) return note("the cache file is another model's: nothing is gone on from");
    for (;;) {
      const auto record = static_cast<CacheRecord>(in.number());
      if (record == CacheRecord::end) return;
      if (record == CacheRecord::text) {
        restore_text(app_, in.sized());
      } else if (record == CacheRecord::reply) {
        const std::string tokens = in.sized();
        add_reply(app_, tokens, in.sized());
      } else {
        fail(Errc::corrupt, "cache file: expected a text, a reply or the end, found ", static_cast<std::uint64_t>(record));
      }
    }
  } catch (const Error& error) {
    note(message("the cache file is of no use: ", error.what()));
  }
}

void CacheFile::save(const std::function<void(std::string_view)>& note) const {
  if (app_.options.cache_file.empty()) return;
  try {
    AtomicFile file(app_.options.cache_file);
    file.write(cache_magic);
    write_number(file, app_.engine.model().fingerprint());
    // What was wanted last comes last: it is kept in front of the others again.
    for (auto i = static_cast<std::size_t>(app_.scheduler.stats().kept); i-- > 0;) {
      // In pieces, behind a size that is known when they are written.
      std::uint64_t begin = 0;
      app_.scheduler.save_kept(i, [&](std::span<const std::byte> piece) {
        if (begin == 0) {
          write_number(file, static_cast<std::uint64_t>(CacheRecord::text));
          write_number(file, 0);
          begin = file.size();
        }
        file.write(piece);
      });
      if (begin == 0) continue;
      const std::uint64_t size = file.size() - begin;
      file.write_at(begin - sizeof size, std::as_bytes(std::span(&size, 1)));
    }
    for (const auto& entry : app_.replays.entries()) {
      write_number(file, static_cast<std::uint64_t>(CacheRecord::reply));
      write_sized(file, std::as_bytes(std::span(entry->tokens)));
      const std::string said = json_of_reply(*entry).dump(Json::Style{.replace_invalid = true});
      write_sized(file, std::as_bytes(std::span(said)));
    }
    write_number(file, static_cast<std::uint64_t>(CacheRecord::end));
    file.commit();
  } catch (const Error& error) {
    note(message("the cache file was not written: ", error.what()));
  }
}

}  // namespace bantam::server
