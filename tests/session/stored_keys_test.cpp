// Sessions whose keys, values and states are not all in memory: the bits of those whose are, whatever they do and whatever the file does.
#include <dlfcn.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "bantam/bantam.hpp"
#include "bantam/io/scratch_file.hpp"
#include "bantam/model/page_file.hpp"
#include "bantam/nn/kv_state.hpp"
#include "bantam/nn/recurrent_state.hpp"
#include "kv_kinds.hpp"
#include "limits.hpp"
#include "tiny_model.hpp"

namespace {

/// What reading and writing do while a test says so: an error each time, the end of the file, or a few bytes at a time, every second call interrupted.
std::atomic<int> read_error{0}, write_error{0};
std::atomic<bool> ends{false}, moves_little{false};
std::atomic<int> calls{0};

bool interrupted() {
  if (!moves_little || calls++ % 2 == 0) return false;
  errno = EINTR;
  return true;
}
bool failed(int error) {
  errno = error;
  return error != 0;
}

template <class F>
F* system_call(const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

// These take the place of the system's in this test program.
extern "C" ssize_t pread(int descriptor, void* bytes, size_t count, off_t offset) {
  static const auto real = system_call<ssize_t(int, void*, size_t, off_t)>("pread");
  if (failed(read_error) || interrupted()) return -1;
  return ends ? 0 : real(descriptor, bytes, moves_little ? std::min<size_t>(count, 5000) : count, offset);
}
extern "C" ssize_t pwrite(int descriptor, const void* bytes, size_t count, off_t offset) {
  static const auto real = system_call<ssize_t(int, const void*, size_t, off_t)>("pwrite");
  if (failed(write_error) || interrupted()) return -1;
  return real(descriptor, bytes, moves_little ? std::min<size_t>(count, 5000) : count, offset);
}

namespace bantam::test {
namespace {

constexpr std::int64_t at_once = 130;  // tokens of a pass: no multiple of a page

Model deep_model(const ArchSpec* arch) {
  TinyModel tiny{.arch = arch, .layers = 8, .context = 900};
  tiny.make();
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  return Model::load(folder / "hf");
}

/// Shares of the least that a text takes: layers come in stretches within the first, and whole, in most models, within the second.
constexpr double tight = 1.05, roomy = 1.8;

/// Room for a text of so many tokens.
StateMemory memory_for(const Model& model, const std::string& kv, std::int64_t tokens, double share = tight) {
  nn::SequenceState state = model.config().new_state(kv);
  std::int64_t least = 0;
  if (const auto* keys = state.find<nn::KvState>()) least += static_cast<std::int64_t>(share * static_cast<double>(keys->cache().least_bytes(tokens, at_once)));
  if (const auto* recurrent = state.find<nn::RecurrentState>()) least += recurrent->bytes_with(1);
  return {.limit = least};
}

/// Layers that see all of a text.
std::int64_t seeing_all(const ModelConfig& config) {
  std::int64_t count = 0;
  for (const nn::KvLayer& layer : config.kv_shape().of_layers) count += layer.heads > 0 && layer.window == 0;
  return count;
}

void prefill(Session& session, std::span<const TokenId> tokens) {
  for (std::size_t at = 0; at < tokens.size(); at += at_once) session.prefill(tokens.subspan(at, std::min<std::size_t>(at_once, tokens.size() - at)));
}

std::string saved(const Session& session) {
  std::string bytes;
  session.save_to([&](std::span<const std::byte> part) { bytes.append(reinterpret_cast<const char*>(part.data()), part.size()); });
  return bytes;
}

/// Does the same to both and compares what comes out, to the bit.
struct Both {
  Session plain, stored;
  bool operator()(FunctionRef<void(Session&)> work) {
    work(plain);
    work(stored);
    return plain.tokens() == stored.tokens() && std::ranges::equal(plain.logits(), stored.logits());
  }
};

Both both_of(const Model& model, const std::string& kv, const StateMemory& memory) {
  return {Session(model, {.threads = 2, .kv = kv}), Session(model, {.threads = 2, .kv = kv, .memory = memory})};
}

void check(const Model& model, const std::string& kv, double share) {
  CAPTURE(share);
  const std::vector<TokenId> tokens = some_tokens(900);
  const std::span all(tokens);
  const StateMemory memory = memory_for(model, kv, 800, share);
  Both both = both_of(model, kv, memory);
  CHECK(both([&](Session& s) { prefill(s, all.first(700)); }));
  const GenerateOptions greedy{.max_tokens = 70, .sampling = {.temperature = 0}, .ignore_end = true};
  CHECK(both([&](Session& s) { (void)s.stream(all.first(2), greedy).text(); }));
  if (seeing_all(model.config()) > 3 && share == tight) {
    CHECK(both.stored.state_stats().file_bytes > 0);
    CHECK(both.stored.state_stats().read_bytes > 0);
  }
  CHECK(both.stored.kv_bytes() <= memory.limit);
  CHECK(saved(both.stored) == saved(both.plain));

  Both forks{both.plain.fork(), both.stored.fork()};
  CHECK(both([&](Session& s) { s.prefill(all.first(20)); }));
  CHECK(forks([&](Session& s) { s.truncate(333); }));
  CHECK(forks([&](Session& s) { s.prefill(all.first(90)); }));
  CHECK(forks([&](Session& s) { s.remove(50, 120); }));
  CHECK(forks([&](Session& s) { prefill(s, all.first(260)); }));
  CHECK(both([&](Session& s) { (void)s.stream(all.first(1), {.max_tokens = 3, .sampling = {.temperature = 0}, .ignore_end = true}).text(); }));

  const TemporaryFolder folder;
  both.stored.save(folder / "session");
  Both restored{Session::restore(model, folder / "session"), Session::restore(model, folder / "session", {.threads = 1, .memory = memory})};
  CHECK(restored([&](Session& s) { s.prefill(all.first(3)); }));
  CHECK(restored.stored.kv_bytes() <= memory.limit);
  CHECK(restored([&](Session& s) {
    s.clear();
    s.prefill(all.first(40));
  }));
}

/// Of one that has something in its file.
Both with_stored(const Model& model, const StateMemory& memory) {
  Both both = both_of(model, "f16", memory);
  const std::vector<TokenId> tokens = some_tokens(700);
  REQUIRE(both([&](Session& s) { prefill(s, tokens); }));
  REQUIRE(both.stored.state_stats().file_bytes > 0);
  return both;
}

/// Nothing goes wrong any more.
struct Repair {
  ~Repair() {
    read_error = write_error = 0;
    ends = moves_little = false;
  }
};

}  // namespace

TEST_CASE("sessions of every architecture go on from a file as they do from memory") {
  std::size_t turn = 0;
  for (const ArchSpec* arch : architectures_by_state()) {
    if (!arch->causal) continue;
    CAPTURE(std::string(arch->name));
    const Model model = deep_model(arch);
    if (model.config().has_source()) {
      CHECK(error_of([&] { Session(model, {.memory = {.limit = 1 << 30}}); }) ==
            message("memory: expected a model of one text, found one of type ", arch->name, ", whose keys and values of what its encoder reads stay in memory"));
      continue;
    }
    check(model, "f16", tight);
    if (!quick() && turn++ % 3 == 0) check(model, "f16", roomy);
  }
}

TEST_CASE("so do those with every kind of keys and values") {
  const Model model = deep_model(&archs::llama);
  for (const char* kind : test::kv_kinds()) {
    CAPTURE(kind);
    for (const double share : {tight, roomy}) check(model, kind, share);
  }
}

TEST_CASE("a text of which not even one layer fits goes on as one in memory, whatever goes wrong in the middle of a layer") {
  TinyModel tiny{.layers = 1, .context = 5000};
  tiny.make();
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  const Model model = Model::load(folder / "hf");
  const std::vector<TokenId> tokens = some_tokens(4000);
  Session plain(model, {.threads = 3});
  plain.prefill(tokens);
  const StateMemory memory{.limit = plain.kv_bytes() / 2};
  for (const int threads : {1, 3}) {
    CAPTURE(threads);
    Session stored(model, {.threads = threads, .memory = memory});
    stored.prefill(tokens);
    CHECK(std::ranges::equal(stored.logits(), plain.logits()));
    CHECK(stored.kv_bytes() <= memory.limit);
    CHECK(stored.state_stats().file_bytes > plain.kv_bytes() / 2);
    {
      const Repair repair;
      read_error = EIO;
      CHECK(error_of([&] { stored.prefill(some_tokens(600)); }).find("cannot read: input/output error") != std::string::npos);
    }
    CHECK(stored.tokens() == tokens);
    Session on = stored.fork(), beside = plain.fork();
    for (Session* s : {&on, &beside}) (void)s->stream(some_tokens(600), {.max_tokens = 70, .sampling = {.temperature = 0}, .ignore_end = true}).text();
    CHECK(on.tokens() == beside.tokens());
    CHECK(std::ranges::equal(on.logits(), beside.logits()));
    CHECK(on.kv_bytes() <= memory.limit);
  }
}

TEST_CASE("sessions of one engine share a file, and passes") {
  const Model model = deep_model(&archs::llama);
  const StateMemory memory = memory_for(model, "f16", 800);
  const Engine engine(model, {.threads = 2}), other(model, {.threads = 2});
  std::vector<Session> stored, plain;
  for (int i = 0; i < 3; ++i) {
    stored.emplace_back(engine, SessionOptions{.memory = memory});
    plain.emplace_back(other);
    const std::vector<TokenId> tokens = some_tokens(500 + 60 * i);
    prefill(stored.back(), tokens);
    prefill(plain.back(), tokens);
  }
  const auto texts = [](std::vector<Session>& sessions) {
    std::vector<TextRange> ranges;
    const GenerateOptions options{.max_tokens = 80, .sampling = {.temperature = 0.7f, .seed = 3}, .ignore_end = true};
    for (Session& session : sessions) ranges.push_back(session.stream(std::span<const TokenId>{}, options));
    while (advance(std::span(ranges)) > 0) {
    }
    std::vector<std::vector<TokenId>> all;
    for (const TextRange& range : ranges) all.push_back(range.tokens());
    return all;
  };
  CHECK(texts(stored) == texts(plain));
  std::int64_t bytes = 0;
  for (const Session& session : stored) bytes += session.state_stats().file_bytes;
  CHECK(bytes > 0);
}

TEST_CASE("the file has no name, and where there can be none one line says so") {
  const Model model = deep_model(&archs::llama);
  const StateMemory memory = memory_for(model, "f16", 800);
  const std::filesystem::path folder = std::filesystem::path(ScratchFile::usual_folder()) / ("bantam-test-" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  {
    const Both both = with_stored(model, {.limit = memory.limit, .folder = folder});
    CHECK(entries(folder) == 0);
  }
  std::filesystem::remove(folder);
  CHECK(error_of([&] { Session(model, {.memory = {.limit = memory.limit, .folder = folder}}); }) == "keys and values in " + folder.string() + ": cannot create a file: no such file or directory");
  struct statfs shared {};
  if (::statfs("/dev/shm", &shared) == 0 && shared.f_type == 0x01021994) {
    CHECK(error_of([&] { Session(model, {.memory = {.limit = memory.limit, .folder = "/dev/shm"}}); }) ==
          "keys and values in /dev/shm: expected a folder on a drive, found one whose files are in memory");
  }
  CHECK(error_of([&] { Session(model, {.memory = {.limit = -1}}); }) == "memory: expected 0 (no limit) or bytes, found -1");
  Session small(model, {.memory = {.limit = memory.limit / 2}});
  CHECK(error_of([&] { prefill(small, some_tokens(700)); }).starts_with("keys and values: expected room for at least "));
  // What fits goes on.
  const std::size_t held = small.tokens().size();
  CHECK(held > 0);
  Session plain(model);
  plain.prefill(some_tokens(static_cast<int>(held)));
  CHECK(std::ranges::equal(small.logits(), plain.logits()));
}

TEST_CASE("a full disk, errors, and a file that ends are one line, and the session goes on when that is over") {
  const Model model = deep_model(&archs::llama);
  const StateMemory memory = memory_for(model, "f16", 800);
  const std::string place = "keys and values in " + ScratchFile::usual_folder().string() + ": ";
  Both both = with_stored(model, memory);
  const std::vector<TokenId> more = some_tokens(64);
  const std::vector<TokenId> before = both.stored.tokens();
  const auto fails = [&](const std::string& says) {
    const std::string line = error_of([&] { both.stored.prefill(more); });
    CHECK_MESSAGE(line.starts_with(place + says), line);
    CHECK(line.find('\n') == line.npos);
    CHECK(both.stored.tokens() == before);
  };
  {
    const Repair repair;
    write_error = ENOSPC;
    fails("cannot write: no space left on device");
  }
  {
    const Repair repair;
    read_error = EIO;
    fails("cannot read: input/output error");
  }
  {
    const Repair repair;
    ends = true;
    fails("expected ");
  }
  CHECK(both([&](Session& s) { s.prefill(more); }));
  {
    const Repair repair;
    read_error = EIO;
    CHECK(error_of([&] { (void)saved(both.stored); }).starts_with(place));
    CHECK(error_of([&] { both.stored.remove(3, 10); }).starts_with(place));
    both.stored.truncate(100);
    CHECK(error_of([&] { both.stored.prefill(more); }).starts_with(place));
  }
  both.plain.truncate(100);
  CHECK(both([&](Session& s) { s.prefill(more); }));
}

TEST_CASE("short reads and writes, and interruptions, change nothing") {
  const Model model = deep_model(&archs::llama);
  const Repair repair;
  moves_little = true;
  Both both = with_stored(model, memory_for(model, "f16", 800));
  CHECK(both([&](Session& s) { (void)s.stream(some_tokens(2), {.max_tokens = 66, .sampling = {.temperature = 0}, .ignore_end = true}).text(); }));
}

TEST_CASE("a child of fork() leaves its parent's file alone") {
  const Model model = deep_model(&archs::llama);
  const StateMemory memory = memory_for(model, "f16", 800);
  Both both = with_stored(model, memory);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    int wrong = 0;
    const auto refused = [&](FunctionRef<void()> work) {
      wrong += error_of(work) != "keys and values: expected the process that keeps them in a file, found a child of its fork()";
    };
    refused([&] { both.stored.prefill(some_tokens(3)); });
    refused([&] { (void)saved(both.stored); });
    both.stored.truncate(0);
    Session own(model, {.threads = 1, .memory = memory});
    prefill(own, some_tokens(700));
    wrong += !std::ranges::equal(own.logits(), both.plain.logits());
    wrong += own.state_stats().file_bytes == 0;
    ::_exit(wrong);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(both([&](Session& s) { s.prefill(some_tokens(64)); }));
}

TEST_CASE("parts of pages that are larger than what is moved at once come back whole") {
  constexpr std::int64_t bytes = (std::int64_t{5} << 19) + 77;
  const auto file = PageFile::make(ScratchFile::usual_folder(), {{3, bytes}});
  std::vector<std::byte> page(3 + bytes), found(page.size());
  for (std::size_t i = 3; i < page.size(); ++i) page[i] = static_cast<std::byte>(i * 7 + i / 4096);
  const std::byte* const pages[] = {page.data(), page.data()};
  const std::vector<nn::PageStore::Page> there = file->put(pages);
  file->get(there[1], found.data());
  CHECK(found == page);
  const std::int64_t step = nn::PageStore::step_of(bytes);
  const auto room = nn::allocate_blocks(static_cast<std::size_t>(2 * step));
  file->read(0, there, room.get())->wait();
  for (const std::int64_t at : {std::int64_t{0}, step}) CHECK(std::equal(page.begin() + 3, page.end(), room.get() + at));
}

TEST_CASE("places of pages that went are used again") {
  const auto file = PageFile::make(ScratchFile::usual_folder(), {{0, 100}, {128, 5000}, {5128, 0}});
  std::vector<std::vector<std::byte>> pages;
  for (int i = 0; i < 40; ++i) pages.emplace_back(5128, static_cast<std::byte>(i + 1));
  std::vector<const std::byte*> first;
  for (const auto& page : pages) first.push_back(page.data());
  std::vector<nn::PageStore::Page> there = file->put(first);
  CHECK(file->counts().stored_bytes == 40 * 5100);
  const auto is = [&](std::size_t at, int value) {
    std::vector<std::byte> page(5128);
    file->get(there[at], page.data());
    for (std::size_t i = 0; i < page.size(); ++i) {
      const bool in_part = i < 100 || i >= 128;
      if (page[i] != static_cast<std::byte>(in_part ? value : 0)) return false;
    }
    return true;
  };
  for (int i = 0; i < 40; ++i) CHECK(is(static_cast<std::size_t>(i), i + 1));
  // A hole of five, and others after it.
  there.erase(there.begin() + 10, there.begin() + 15);
  CHECK(file->counts().stored_bytes == 35 * 5100);
  std::vector<nn::PageStore::Page> more = file->put(std::span(first).first(7));
  CHECK(file->counts().stored_bytes == 42 * 5100);
  there.insert(there.begin() + 10, more.begin(), more.end());
  more.clear();
  for (std::size_t i = 0; i < 7; ++i) CHECK(is(10 + i, static_cast<int>(i) + 1));
  CHECK(is(9, 10));
  CHECK(is(17, 16));
  const std::int64_t step = nn::PageStore::step_of(5000);
  const auto room = nn::allocate_blocks(there.size() * static_cast<std::size_t>(step));
  const auto read = file->read(1, there, room.get());
  read->wait();
  for (std::size_t i = 0; i < there.size(); ++i) {
    const int value = i < 10 ? static_cast<int>(i) + 1 : i < 17 ? static_cast<int>(i) - 9 : static_cast<int>(i) - 1;
    for (const std::int64_t at : {std::int64_t{0}, std::int64_t{4999}}) CHECK(room.get()[static_cast<std::int64_t>(i) * step + at] == static_cast<std::byte>(value));
  }
  there.clear();
  CHECK(file->counts().stored_bytes == 0);
}

}  // namespace bantam::test
