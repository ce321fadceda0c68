// Models that do not fit a bound of memory: the bits of models in memory, whatever the bound.
#include "bantam/model/streamed_blocks.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <future>
#include <limits>
#include <map>
#include <thread>

#include "bantam/model/forward.hpp"
#include "limits.hpp"
#include "model/reader_pool.hpp"
#include "tiny_model.hpp"

namespace {

/// What reading does while a test says so: an error from the so-manieth call on, or a few bytes at a time, every second one interrupted.
std::atomic<bool> fails{false};
std::atomic<int> calls_before_fault{0};
std::atomic<bool> reads_little{false};
std::atomic<int> little_reads{0};
std::atomic<int> reads{0};
std::atomic<bool> stalls{false};
std::atomic<std::int64_t> bytes_around{0}, bytes_through{0};  ///< the system's page cache
std::atomic<int> reads_beside_huge_pages{0};                  ///< around it, to what is not the beginning of a huge page

}  // namespace

// Takes the place of the system's in this test program.
extern "C" ssize_t pread(int descriptor, void* bytes, size_t count, off_t offset) {
  static const auto real = reinterpret_cast<ssize_t (*)(int, void*, size_t, off_t)>(dlsym(RTLD_NEXT, "pread"));
  // Nothing is written after the decision: a reader that is late must not turn the fault on again.
  if (fails && calls_before_fault-- <= 0) {
    errno = EIO;
    return -1;
  }
  if (reads_little && little_reads++ % 2 == 0) {
    errno = EINTR;
    return -1;
  }
  while (stalls) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ++reads;
  const bool around = (::fcntl(descriptor, F_GETFL) & O_DIRECT) != 0;
  (around ? bytes_around : bytes_through) += static_cast<std::int64_t>(count);
  if (around && reinterpret_cast<std::uintptr_t>(bytes) % (2 << 20) != 0) ++reads_beside_huge_pages;
  return real(descriptor, bytes, reads_little ? std::min<size_t>(count, 1000) : count, offset);
}

using namespace bantam;
using namespace bantam::test;

namespace {

constexpr auto yes = [](std::int64_t) { return true; };

Model load_within(const std::filesystem::path& path, std::int64_t limit) { return Model::load(path, {.memory_limit = limit}); }

/// Logits of all tokens of two sequences that are read together, as prompts and then token by token; of encoders the states, read at once.
std::vector<float> logits_by(Engine& engine, std::span<const TokenId> tokens, std::size_t prompt) {
  nn::SequenceState first = engine.new_state("f32"), second = engine.new_state("f32");
  const ModelConfig& config = engine.model().config();
  std::vector<float> of_first, of_second;
  const auto read = [&](std::size_t begin, std::size_t end) {
    const auto part = tokens.subspan(begin, end - begin);
    // The second is a token behind.
    SequenceInput both[] = {{part, &first, 0}, {tokens.subspan(begin + 1, end - begin), &second, 0}};
    if (config.has_source() && begin == 0) both[0].source = tokens, both[1].source = tokens.first(3);
    engine.run(both, [&](std::int64_t sequence, std::int64_t, std::span<const float> row) {
      std::vector<float>& to = sequence == 0 ? of_first : of_second;
      to.insert(to.end(), row.begin(), row.end());
    }, yes, config.has_head ? PassOutput::logits : PassOutput::state);
  };
  if (!config.arch->causal) prompt = tokens.size() - 1;
  read(0, prompt);
  for (std::size_t at = prompt; at + 1 < tokens.size(); ++at) read(at, at + 1);
  of_first.insert(of_first.end(), of_second.begin(), of_second.end());
  return of_first;
}

std::vector<float> logits_of(const Model& model, int threads, StreamStats* stats = nullptr) {
  Engine engine(model, {.context = 64, .threads = threads});
  std::vector<float> logits = logits_by(engine, some_tokens(14), 9);
  if (stats != nullptr) *stats = engine.stream_stats();
  return logits;
}

/// The least limit that a model runs within.
std::int64_t least_of(const std::filesystem::path& path) { return residency_of(Checkpoint::open(path), 0).least; }

TinyModel deep(const ArchSpec* arch) {
  TinyModel tiny{.arch = arch, .layers = 8, .experts = 16};
  tiny.make();
  return tiny;
}

/// The three containers of a model.
std::vector<std::filesystem::path> write_all(const TinyModel& tiny, const std::filesystem::path& folder) {
  tiny.write_folder(folder / "hf");
  tiny.write_gguf(folder / "m.gguf");
  compress_file(Checkpoint::open(folder / "hf"), folder / "m.bantam", recipe::rtn("i4.g32"));
  return {folder / "hf", folder / "m.gguf", folder / "m.bantam"};
}

}  // namespace

TEST_CASE("a table of per-layer embeddings stays in the file, unless all is to be in memory") {
  const TinyModel tiny = deep(&archs::gemma3n);
  const TemporaryFolder folder;
  tiny.write_gguf(folder / "m.gguf");
  const auto load = [&](WeightMemory memory) { return Model::load(folder / "m.gguf", {.memory = memory}); };
  const std::vector<float> expected = logits_of(load(WeightMemory::huge_pages), 2);
  for (const WeightMemory memory : {WeightMemory::automatic, WeightMemory::mapped, WeightMemory::huge_pages, WeightMemory::direct}) {
    CAPTURE(static_cast<int>(memory));
    const Model model = load(memory);
    CHECK((model.residency() != nullptr) == (memory == WeightMemory::automatic || memory == WeightMemory::mapped));
    CHECK(model.weights().per_layer_embedding.empty() == (model.residency() != nullptr));
    CHECK(model.fingerprint() == load(WeightMemory::huge_pages).fingerprint());
    CHECK(logits_of(model, 2) == expected);
  }
  // The bytes of a model that has no file are there in any case, until all of it is read.
  const std::string bytes = read_text_file(folder / "m.gguf");
  const Model from_memory = Model::load_from(bytes_of(std::as_bytes(std::span(bytes))));
  CHECK(from_memory.residency() == nullptr);
  CHECK(logits_of(from_memory, 2) == expected);
  const Model usual = load(WeightMemory::automatic);
  // A native file's has no more to be there to be compared with its hash.
  compress_file(Checkpoint::open(folder / "m.gguf"), folder / "m.bantam", recipe::rtn("i4.g32"));
  const Model verified = Model::load(folder / "m.bantam", {.verify = true});
  CHECK(verified.weights().per_layer_embedding.empty());
  CHECK(verified.fingerprint() == Model::load(folder / "m.bantam", {.memory = WeightMemory::huge_pages}).fingerprint());
  CHECK(error_of([&] { Forward(usual.config(), usual.weights(), 64, 1); }) == "weights: expected the table of per-layer embeddings in memory (WeightMemory::huge_pages), found it in the model's file");
  // What is there now may be another model.
  std::filesystem::resize_file(folder / "m.gguf", bytes.size() - 1);
  CHECK(error_of([&] { (void)logits_of(usual, 2); }) == message((folder / "m.gguf").string(), ": expected ", bytes.size(), " bytes as when it was opened, found ", bytes.size() - 1));
}

TEST_CASE("models within any bound give the bits of models in memory") {
  std::size_t turn = 0;
  for (const ArchSpec* arch : few_architectures()) {
    CAPTURE(std::string(arch->name));
    const TinyModel tiny = deep(arch);
    const TemporaryFolder folder(Place::drive);
    std::vector<std::filesystem::path> paths = write_all(tiny, folder.path());
    if (quick()) paths = {paths[turn++ % paths.size()]};
    for (const std::filesystem::path& path : paths) {
      CAPTURE(path.string());
      const Model whole = Model::load(path, {.memory = WeightMemory::huge_pages});
      CHECK(whole.residency() == nullptr);
      const std::vector<float> expected = logits_of(whole, 2);
      const std::int64_t least = least_of(path), all = whole.bytes();
      CHECK(least < all);
      for (const std::int64_t limit : {all - 1, (least + all) / 2, least}) {
        if (quick() && limit != least && (turn % 2 == 0) != (limit == all - 1)) continue;
        CAPTURE(limit);
        const Model model = load_within(path, limit);
        REQUIRE(model.residency() != nullptr);
        CHECK(model.residency()->resident_bytes() <= limit);
        StreamStats stats;
        CHECK(logits_of(model, 2, &stats) == expected);
        CHECK(stats.resident_bytes <= limit);
        if (limit == least) {
          CHECK(stats.streamed_bytes > 0);
          CHECK(logits_of(model, 1) == expected);
        }
      }
      CHECK(error_of([&] { (void)load_within(path, least - 1); }) == message("memory: ", path.string(), ": expected at least ", least, " bytes for weights, found a limit of ", least - 1));
      const Model usual = load_within(path, all);
      const bool of_layers = whole.config().per_layer_dim > 0, has_table = of_layers || whole.config().ngrams.exist();
      CHECK((usual.residency() == nullptr) == !has_table);
      if (!has_table) continue;
      StreamStats stats;
      CHECK(logits_of(usual, 2, &stats) == expected);
      CHECK(stats.resident_bytes < all);
      CHECK(stats.streamed_bytes == 0);
      CHECK(usual.residency()->looked_up == std::vector{of_layers ? Role::per_layer_embedding : Role::ngram_embedding});
    }
  }
}

TEST_CASE("a device map says what is in memory, and changes no bit") {
  for (const ArchSpec* arch : few_architectures()) {
    CAPTURE(std::string(arch->name));
    const TinyModel tiny = deep(arch);
    const TemporaryFolder folder(Place::drive);
    tiny.write_gguf(folder / "m.gguf");
    const Checkpoint checkpoint = Checkpoint::open(folder / "m.gguf");
    const Model whole = Model::from_checkpoint(checkpoint, {.memory = WeightMemory::huge_pages});
    const std::vector<float> expected = logits_of(whole, 2);
    const auto load = [&](std::string_view map, std::int64_t limit) { return Model::from_checkpoint(checkpoint, {.memory_limit = limit, .device_map = DeviceMap::parse(map)}); };
    CHECK(load(R"({"": "cpu"})", 0).residency() == nullptr);
    CHECK(error_of([&] { (void)Model::from_checkpoint(checkpoint, {.memory = WeightMemory::mapped, .device_map = DeviceMap::parse(R"({"": "disk"})")}); }) ==
          "device_map: expected weights that are read, found mapped ones");
    CHECK(error_of([&] { (void)load(R"({"": "cpu"})", whole.bytes() - 1); }).starts_with("memory: "));
    std::string layer;
    for (const CheckpointTensor& tensor : checkpoint.tensors()) {
      if (tensor.layer == 1) layer = tensor.name.substr(0, tensor.name.find(".1.") + 2);
    }
    for (const std::string& map : {std::string(R"({"": "disk"})"), R"({"": "cpu", ")" + layer + R"(": "disk"})", R"({"": "disk", ")" + layer + R"(": "cpu"})"}) {
      CAPTURE(map);
      const Model model = load(map, 0);
      REQUIRE(model.residency() != nullptr);
      const DeviceMap devices = DeviceMap::parse(map);
      for (const CheckpointTensor& tensor : checkpoint.tensors()) {
        if (detail::can_stream(tensor)) CHECK(model.residency()->keeps(tensor) == !devices.on_disk(tensor.name));
      }
      StreamStats stats;
      CHECK(logits_of(model, 2, &stats) == expected);
      CHECK(stats.streamed_bytes > 0);
      CHECK(error_of([&] { (void)load(map, model.residency()->least - 1); }).starts_with("memory: "));
      CHECK(logits_of(load(map, model.residency()->least), 2) == expected);
    }
  }
}

TEST_CASE("what is loaded within a bound is read around the system's page cache") {
  TinyModel tiny{.layers = 8, .ffn = 500};
  tiny.make();
  const TemporaryFolder folder(Place::drive);
  tiny.write_gguf(folder / "m.gguf");
  if (!MappedFile::open(folder / "m.gguf")->has_direct_reads()) {
    MESSAGE("skipped: the file system of ", folder.path().string(), " has no reads around the page cache");
    return;
  }
  const std::int64_t all = bytes_in_memory(Checkpoint::open(folder / "m.gguf"));
  struct Read {
    std::int64_t around, through;
  };
  const auto read_by = [&](const LoadOptions& options) {
    bytes_around = bytes_through = 0;
    reads_beside_huge_pages = 0;
    (void)Model::load(folder / "m.gguf", options);
    return Read{bytes_around, bytes_through};
  };
  const Read whole = read_by({.memory = WeightMemory::huge_pages}), within = read_by({.memory_limit = all / 2});
  CHECK(whole.around == 0);
  CHECK(whole.through > all / 2);
  CHECK(within.around > all / 8);
  CHECK(reads_beside_huge_pages == 0);
  CHECK(within.through < whole.through / 4);  // the header, and norms
}

TEST_CASE("rows that a file has in another order are not read one by one") {
  TinyModel tiny{.layers = 4};
  tiny.make();
  const TemporaryFolder folder(Place::drive);
  tiny.write_gguf(folder / "m.gguf");
  const Checkpoint checkpoint = Checkpoint::open(folder / "m.gguf");
  for (const Reading reading : {Reading::buffered, Reading::direct}) {
    CAPTURE(static_cast<int>(reading));
    reads = 0;
    (void)load_weights(checkpoint, reading);
    // Rows of queries and keys, a head's in two halves, are more than all tensors.
    CHECK(reads <= std::ssize(checkpoint.tensors()));
  }
}

/// A piece of eight bytes, which takes its time.
struct SlowPiece final : PieceSource {
  [[nodiscard]] std::int64_t stored_bytes() const noexcept override { return 8; }
  [[nodiscard]] std::int64_t pieces() const noexcept override { return 1; }
  void load_piece(std::int64_t, std::byte* room, Reading) const override {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::fill_n(room, 8, std::byte{7});
  }
};

TEST_CASE("who waits for what nobody else reads reads it, and that counts as waiting; what is there already does not") {
  const SlowPiece piece;
  const SlotPart part{&piece, 0};
  std::array<std::byte, 8> memory{};
  ReaderPool pool(0, Reading::buffered);
  const auto batch = pool.read({&part, 1}, memory.data(), ReaderPool::Haste::ahead);
  CHECK_FALSE(pool.is_done(*batch));
  pool.wait(*batch);
  CHECK(memory[7] == std::byte{7});
  const ReaderPool::Counts counts = pool.counts();
  CHECK(counts.bytes == 8);
  CHECK(counts.busy_seconds >= 0.002);
  CHECK(counts.waited_seconds >= counts.busy_seconds);
  pool.wait(*batch);
  CHECK(pool.counts().waited_seconds == counts.waited_seconds);
}

TEST_CASE("experts are evicted and read again, each touched one once a wave, and layers once a pass") {
  TinyModel tiny{.arch = &archs::qwen3_moe, .layers = 3, .experts = 16, .experts_used = 2};
  tiny.make();
  const TemporaryFolder folder(Place::drive);
  for (const std::filesystem::path& path : write_all(tiny, folder.path())) {
    CAPTURE(path.string());
    const Model whole = Model::load(path);
    const auto tokens = some_tokens(30);
    // Room for three of sixteen experts a layer: a prompt of 20 tokens touches more.
    Residency wanted = residency_of(Checkpoint::open(path), whole.bytes() - 1);
    std::int64_t limit = wanted.pinned_bytes;
    for (const Residency::Layer& layer : wanted.layers) limit += 3 * layer.expert_slot_bytes;
    const Model model = load_within(path, limit);
    REQUIRE(model.residency() != nullptr);
    for (const Residency::Layer& layer : model.residency()->layers) CHECK(layer.cached_experts == 3);
    Engine engine(model, {.context = 64, .threads = 2}), expected(whole, {.context = 64, .threads = 2});
    CHECK(logits_by(engine, tokens, 20) == logits_by(expected, tokens, 20));
    const StreamStats stats = engine.stream_stats();
    // Sixteen at most in the prompt, four at most in each of nine steps of two sequences, of each layer.
    CHECK(stats.expert_hits > 0);
    CHECK(stats.expert_misses > 3 * 8);
    CHECK(stats.expert_hits + stats.expert_misses <= 3 * (16 + 9 * 4));
    CHECK(stats.read_seconds > 0);
    // Nothing else was read.
    std::int64_t largest = 0;
    const Checkpoint checkpoint = Checkpoint::open(path);
    for (const CheckpointTensor& tensor : checkpoint.tensors()) largest = std::max(largest, tensor.expert >= 0 ? tensor.stored_bytes() : 0);
    CHECK(stats.streamed_bytes <= 3 * largest * stats.expert_misses);
  }
}

TEST_CASE("a model with another number of experts a token is the one that its config would describe, streamed too") {
  for (const ArchSpec* arch : architectures_by_parts()) {
    TinyModel tiny{.arch = arch, .layers = 4, .experts = 8, .experts_used = 2};
    tiny.make();
    const TemporaryFolder folder(Place::drive);
    tiny.write_gguf(folder / "two.gguf");
    const Model two = Model::load(folder / "two.gguf");
    CAPTURE(std::string(arch->name));
    if (!two.config().has_experts()) {
      CHECK(error_of([&] { (void)two.with_experts(1); }).starts_with("experts: expected a mixture of experts, found "));
      continue;
    }
    TinyModel other{.arch = arch, .layers = 4, .experts = 8, .experts_used = 3};
    other.make().write_gguf(folder / "three.gguf");
    const Model three = Model::load(folder / "three.gguf");
    const std::vector<float> expected = logits_of(three, 2);
    CHECK(logits_of(two, 2) != expected);
    CHECK(logits_of(two.with_experts(3), 2) == expected);
    CHECK(two.with_experts(3).fingerprint() == three.fingerprint());
    CHECK(logits_of(load_within(folder / "two.gguf", least_of(folder / "two.gguf")).with_experts(3), 2) == expected);
    CHECK(error_of([&] { (void)two.with_experts(0); }).starts_with("experts: expected 1 to "));
    CHECK(error_of([&] { (void)two.with_experts(9); }).ends_with(" a token, found 9"));
  }
}

TEST_CASE("an expert of a native file is one read, of other files one of each matrix") {
  const TinyModel tiny = deep(&archs::qwen3_moe);
  const TemporaryFolder folder(Place::drive);
  for (const std::filesystem::path& path : write_all(tiny, folder.path())) {
    CAPTURE(path.string());
    const Checkpoint checkpoint = Checkpoint::open(path);
    const Residency residency = residency_of(checkpoint, 0);
    const ModelWeights weights = load_weights(checkpoint, Reading::buffered, {}, &residency);
    const StreamedBlocks blocks(checkpoint, weights, residency);
    // Both slots are taken, so that no layer is read ahead while reads are counted.
    const auto layer = blocks.acquire(0), next = blocks.acquire(1);
    std::int64_t wanted[] = {1, 3};
    const int before = reads;
    for (std::span<std::int64_t> left = wanted; !left.empty();) left = left.subspan(blocks.acquire_experts(0, left));
    // One that ends with the file is asked for once more.
    if (checkpoint.container() == "bantam") CHECK(reads - before == 2);
    else CHECK(reads - before >= 6);
    CHECK(blocks.stats().expert_misses == 2);
  }
}

TEST_CASE("as much is read of each layer, what is read of some alone is spread through the depth, and all of it once a pass") {
  TinyModel tiny{.layers = 12};
  tiny.make();
  const TemporaryFolder folder(Place::drive);
  tiny.write_gguf(folder / "m.gguf");
  const std::int64_t least = least_of(folder / "m.gguf"), whole = Model::load(folder / "m.gguf").bytes();
  const Checkpoint checkpoint = Checkpoint::open(folder / "m.gguf");
  std::int64_t before = std::numeric_limits<std::int64_t>::max(), some_layers_alone = 0;
  for (std::int64_t eighths = 0; eighths < 8; ++eighths) {
    CAPTURE(eighths);
    const Residency residency = residency_of(checkpoint, least + (whole - least) * eighths / 8);
    CHECK(residency.resident_bytes() <= residency.limit);
    // More memory, less to read.
    CHECK(residency.streamed_layer_bytes < before);
    before = residency.streamed_layer_bytes;
    std::map<Role, std::vector<std::int64_t>> read_in;
    std::int64_t slot = 0;
    for (std::int64_t i = 0; i < 12; ++i) {
      const Residency::Layer& layer = residency.layers[static_cast<std::size_t>(i)];
      for (const Role role : layer.streamed) read_in[role].push_back(i);
      slot = std::max(slot, layer.slot_bytes);
    }
    CHECK(residency.slot_bytes >= slot);
    for (const auto& [role, in] : read_in) {
      if (in.size() < 2) continue;
      std::int64_t nearest = 12, farthest = 0;
      for (std::size_t i = 0; i < in.size(); ++i) {
        const std::int64_t gap = i + 1 < in.size() ? in[i + 1] - in[i] : in[0] + 12 - in[i];
        nearest = std::min(nearest, gap), farthest = std::max(farthest, gap);
      }
      // Those that stay are spread, and leave others between them.
      CHECK(farthest - nearest <= 1);
      some_layers_alone += std::ssize(in) < 12;
    }
  }
  CHECK(some_layers_alone > 0);
  const Model model = load_within(folder / "m.gguf", (least + whole) / 2);
  std::int64_t largest = 0;
  for (const Residency::Layer& layer : model.residency()->layers) largest = std::max(largest, layer.slot_bytes);
  Engine engine(model, {.context = 64, .threads = 2});
  (void)logits_by(engine, some_tokens(14), 9);
  const std::int64_t passes = 5;
  // Two layers may be there for a pass that did not come.
  CHECK(engine.stream_stats().streamed_bytes >= passes * model.residency()->streamed_layer_bytes);
  CHECK(engine.stream_stats().streamed_bytes <= passes * model.residency()->streamed_layer_bytes + 2 * largest);
}

TEST_CASE("what takes a whole model takes one that is in its file for the most part") {
  for (const ArchSpec* arch : {&archs::llama, &archs::qwen3_moe, &archs::gemma3}) {
    CAPTURE(std::string(arch->name));
    const TinyModel tiny = deep(arch);
    const TemporaryFolder folder(Place::drive);
    for (const std::filesystem::path& path : write_all(tiny, folder.path())) {
      CAPTURE(path.string());
      const Model whole = Model::load(path), model = load_within(path, least_of(path));
      CHECK(model.bytes() == whole.bytes());
      CHECK(model.fingerprint() == whole.fingerprint());
      whole.save(folder / "whole.bantam");
      model.save(folder / "streamed.bantam");
      CHECK(read_file(folder / "streamed.bantam") == read_file(folder / "whole.bantam"));
      compress_file(whole.checkpoint(), folder / "whole.bantam", recipe::rtn("i8.g32"));
      compress_file(model.checkpoint(), folder / "streamed.bantam", recipe::rtn("i8.g32"));
      CHECK(read_file(folder / "streamed.bantam") == read_file(folder / "whole.bantam"));
    }
    CHECK_NOTHROW((void)Model::load(folder / "m.bantam", {.verify = true, .memory_limit = least_of(folder / "m.bantam")}));
  }
}

TEST_CASE("a session that is saved of a model in its file goes on with one in memory") {
  const TinyModel tiny = deep(&archs::qwen3_moe);
  const TemporaryFolder folder(Place::drive);
  tiny.write_gguf(folder / "m.gguf");
  const Model whole = Model::load(folder / "m.gguf"), model = load_within(folder / "m.gguf", least_of(folder / "m.gguf"));
  Session session(model, {.context = 64, .threads = 2, .kv = "f32"});
  session.prefill(some_tokens(9));
  session.save(folder / "s.session");
  // Their fingerprints are the same.
  const Session restored = Session::restore(whole, folder / "s.session", {.context = 64, .threads = 2, .kv = "f32"});
  CHECK(restored.tokens() == session.tokens());
}

TEST_CASE("cold experts are passed over where they are asked to be, token by token, and nowhere else") {
  for (const ArchSpec* arch : few_architectures()) {
    if (!arch->has_experts()) continue;
    CAPTURE(std::string(arch->name));
    TinyModel tiny{.arch = arch, .layers = 4, .experts = 8, .experts_used = 2};
    tiny.make();
    const TemporaryFolder folder(Place::drive);
    tiny.write_gguf(folder / "m.gguf");
    const Model whole = Model::load(folder / "m.gguf"), streamed = load_within(folder / "m.gguf", least_of(folder / "m.gguf"));
    if (!whole.config().has_experts()) continue;
    const auto misses_of = [](const Model& model, std::vector<float>& logits) {
      Engine engine(model, {.context = 64, .threads = 2});
      nn::SequenceState state = engine.new_state("f32");
      logits.clear();
      const std::vector<TokenId> tokens = some_tokens(40);
      for (const TokenId& token : tokens) {
        const SequenceInput one[] = {{{&token, 1}, &state, 0}};
        engine.run(one, [&](std::int64_t, std::int64_t, std::span<const float> row) { logits.insert(logits.end(), row.begin(), row.end()); }, yes);
      }
      return engine.stream_stats().expert_misses;
    };
    std::vector<float> exact, same, other;
    (void)misses_of(whole, exact);
    const std::int64_t misses = misses_of(streamed, same);
    CHECK(same == exact);
    for (const nn::ColdExperts cold : {nn::ColdExperts{.prefer_cached = 1}, nn::ColdExperts{.drop = 1}}) {
      CHECK(misses_of(streamed.with_cold_experts(cold), other) < misses);
      CHECK(other != exact);
      CHECK(streamed.with_cold_experts(cold).fingerprint() == whole.fingerprint());
      // Where nothing is cold, nothing is passed over.
      (void)misses_of(whole.with_cold_experts(cold), same);
      CHECK(same == exact);
    }
    has(error_of([&] { (void)whole.with_cold_experts({.drop = 1.5f}); }), "expected shares of 0 to 1 for cold experts, found 0 and 1.5");
  }
  const TinyModel dense = deep(&archs::llama);
  const TemporaryFolder folder(Place::drive);
  dense.write_gguf(folder / "m.gguf");
  CHECK(error_of([&] { (void)Model::load(folder / "m.gguf").with_cold_experts({.drop = 0.5f}); }) == "cold experts: expected a mixture of experts, found llama, which is none");
}

/// Calls f(path, model, engine, logits) for models at their least memory, each in a file of its own.
template <class F>
void for_each_file(F&& f) {
  for (const ArchSpec* arch : {&archs::llama, &archs::qwen3_moe}) {
    CAPTURE(std::string(arch->name));
    const TinyModel tiny = deep(arch);
    for (const char* name : {"m.gguf", "m.bantam"}) {
      CAPTURE(std::string(name));
      const TemporaryFolder folder(Place::drive);
      (void)write_all(tiny, folder.path());
      Engine engine(load_within(folder / name, least_of(folder / name)), {.context = 64, .threads = 2});
      f(folder / name, engine);
    }
  }
}

TEST_CASE("a file that is cut short under the run is one clear line, again and again, and never a wrong token") {
  for_each_file([](const std::filesystem::path& path, Engine& engine) {
    std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
    for (int i = 0; i < 3; ++i) {
      const std::string line = error_of([&] { (void)logits_by(engine, some_tokens(14), 9); });
      has(line, path.string());
      CHECK(std::ranges::count(line, '\n') == 0);
    }
  });
}

TEST_CASE("a file that is changed under the run is said to be") {
  for_each_file([](const std::filesystem::path& path, Engine& engine) {
    CHECK(logits_by(engine, some_tokens(14), 9) == logits_of(Model::load(path), 2));
    const auto written = std::filesystem::last_write_time(path);
    std::filesystem::last_write_time(path, written + std::chrono::seconds(1));
    has(error_of([&] { (void)logits_by(engine, some_tokens(14), 9); }), "expected the file as it was when it was opened, found it changed since");
    // As it was before, it is read again.
    std::filesystem::last_write_time(path, written);
    CHECK(logits_by(engine, some_tokens(14), 9) == logits_of(Model::load(path), 2));
  });
}

TEST_CASE("a disk that fails at any read is one clear line, and the session goes on when it is back") {
  for_each_file([](const std::filesystem::path& path, Engine& engine) {
    const std::vector<float> expected = logits_of(Model::load(path), 2);
    for (const int calls : {0, 1, 2, 3, 5, 8, 13, 21, 34, 55}) {
      CAPTURE(calls);
      calls_before_fault = calls;
      fails = true;
      const std::string line = error_of([&] { (void)logits_by(engine, some_tokens(14), 9); });
      fails = false;
      has(line, "cannot read: input/output error");
      has(line, path.string());
      CHECK(logits_by(engine, some_tokens(14), 9) == expected);
    }
    reads_little = true;
    const std::vector<float> found = logits_by(engine, some_tokens(14), 9);
    reads_little = false;
    CHECK(found == expected);
    CHECK(little_reads > 0);
  });
}

TEST_CASE("a disk that does not answer is told of while it does not, and costs nothing but time") {
  for_each_file([](const std::filesystem::path& path, Engine& engine) {
    const std::vector<float> expected = logits_of(Model::load(path), 2);
    CHECK(logits_by(engine, some_tokens(14), 9) == expected);
    stalls = true;
    auto found = std::async(std::launch::async, [&] { return logits_by(engine, some_tokens(14), 9); });
    double stalled = 0;
    for (int i = 0; i < 20000 && stalled < 0.05; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      stalled = stalled_read_seconds();
    }
    stalls = false;
    CHECK(stalled >= 0.05);
    CHECK(found.get() == expected);
  });
}

TEST_CASE("a disk that fails while several threads load is one clear line, and so is who stops them") {
  TinyModel tiny{.layers = 4, .ffn = 20000};  // 34 MB, so that there are some
  tiny.make();
  const TemporaryFolder folder(Place::drive);
  tiny.write_gguf(folder / "m.gguf");
  const Checkpoint checkpoint = Checkpoint::open(folder / "m.gguf");
  for (const Reading reading : {Reading::buffered, Reading::direct}) {
    for (const int calls : {0, 1, 5, 17}) {
      CAPTURE(calls);
      calls_before_fault = calls;
      fails = true;
      const std::string line = error_of([&] { (void)load_weights(checkpoint, reading); });
      fails = false;
      has(line, "cannot read: input/output error");
      has(line, (folder / "m.gguf").string());
    }
    std::int64_t asked = 0, last = 0, all = 0;
    const auto goes_on = [&](std::int64_t done, std::int64_t total) {
      CHECK(done >= last);
      last = done;
      all = total;
      return ++asked < 9;
    };
    has(error_of([&] { (void)load_weights(checkpoint, reading, goes_on); }), "cancelled");
    CHECK(last < all);
    asked = -1000;
    last = 0;
    (void)load_weights(checkpoint, reading, goes_on);
    CHECK(last == all);
  }
}

TEST_CASE("limits that are none are refused") {
  const TinyModel tiny = deep(&archs::llama);
  const TemporaryFolder folder(Place::drive);
  tiny.write_gguf(folder / "m.gguf");
  CHECK(error_of([&] { (void)load_within(folder / "m.gguf", -1); }) == "memory_limit: expected 0 (what is free) or bytes, found -1");
}

TEST_CASE("in a child process an engine reads for itself, and ends where it has not") {
  const TinyModel tiny = deep(&archs::qwen3_moe);
  const TemporaryFolder folder(Place::drive);
  tiny.write_gguf(folder / "m.gguf");
  const std::vector<float> expected = logits_of(Model::load(folder / "m.gguf"), 2);
  auto engine = std::make_unique<Engine>(load_within(folder / "m.gguf", least_of(folder / "m.gguf")), EngineOptions{.context = 64, .threads = 2});
  CHECK(logits_by(*engine, some_tokens(14), 9) == expected);
  for (const bool runs : {true, false}) {
    CAPTURE(runs);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      const bool right = !runs || logits_by(*engine, some_tokens(14), 9) == expected;
      engine.reset();
      _exit(right ? 0 : 1);
    }
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
  CHECK(logits_by(*engine, some_tokens(14), 9) == expected);
}
