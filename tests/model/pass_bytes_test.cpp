// What pass_bytes() says beside what a pass takes.
#include "bantam/model/pass_bytes.hpp"

#include <atomic>
#include <cstdlib>

#include "bantam/core/memory.hpp"
#include "bantam/model/forward.hpp"
#include "bantam/nn/attention.hpp"
#include "model/sources/file_part.hpp"
#include "tiny_model.hpp"

using namespace bantam;
using namespace bantam::test;

namespace {

/// Counts what the library's storage has, of blocks that are made while it is there.
class CountedStorage {
 public:
  CountedStorage() { set_storage_allocator({allocate, release, this}); }
  ~CountedStorage() { set_storage_allocator({}); }
  CountedStorage(const CountedStorage&) = delete;
  CountedStorage& operator=(const CountedStorage&) = delete;
  [[nodiscard]] std::int64_t bytes() const noexcept { return bytes_; }

 private:
  static void* allocate(std::size_t bytes, std::size_t alignment, void* user) {
    static_cast<CountedStorage*>(user)->bytes_ += static_cast<std::int64_t>(bytes);
    return std::aligned_alloc(alignment, bytes);
  }
  static void release(void* memory, std::size_t bytes, void* user) {
    static_cast<CountedStorage*>(user)->bytes_ -= static_cast<std::int64_t>(bytes);
    std::free(memory);
  }

  std::atomic<std::int64_t> bytes_ = 0;
};

/// What Forward holds behind a pass of as many tokens as the context has; an encoder before a decoder reads as many, too.
std::int64_t held_by(const Model& model, const std::vector<TokenId>& tokens, int threads) {
  const ModelConfig& config = model.config();
  CountedStorage storage;
  nn::SequenceState state = config.new_state("f32");
  std::int64_t held = 0;
  {
    Forward forward(config, model.weights(), std::ssize(tokens), threads);
    SequenceInput input{tokens, &state, 0};
    if (config.has_source()) input.source = tokens;
    forward.run({&input, 1}, [](std::int64_t, std::int64_t, std::span<const float>) {}, [](std::int64_t) { return true; }, config.has_head ? PassOutput::logits : PassOutput::state);
    held = storage.bytes();
  }
  return held - storage.bytes();  // the state stays
}

}  // namespace

TEST_CASE("what files are read to, which the process keeps, is not an allocator's that may be gone by then") {
  const TemporaryFolder folder;
  const std::vector<std::byte> bytes(5000, std::byte{7});
  AtomicFile written(folder / "some");
  written.write(bytes);
  written.commit();
  const auto file = MappedFile::open(folder / "some");
  const CountedStorage storage;
  std::vector<std::unique_ptr<FilePart>> parts;  // more than are kept
  for (int i = 0; i < 9; ++i) {
    parts.push_back(std::make_unique<FilePart>(*file, file->bytes().subspan(3), i % 2 == 0 ? Reading::direct : Reading::buffered));
    CHECK(std::ranges::equal(parts.back()->bytes(), std::span(bytes).subspan(3)));
  }
  CHECK(storage.bytes() == 0);
}

TEST_CASE("a pass takes no more than is said before, and not much less") {
  for (const ArchSpec* arch : architectures_by_parts()) {
    CAPTURE(std::string(arch->name));
    TinyModel tiny{.arch = arch, .layers = 4};
    tiny.make();
    const TemporaryFolder folder;
    tiny.write_folder(folder / "hf");
    compress_file(Checkpoint::open(folder / "hf"), folder / "m.bantam", recipe::rtn("i4.g32"));
    const Model model = Model::load(folder / "m.bantam", {.memory = WeightMemory::huge_pages});
    const std::vector<TokenId> tokens = some_tokens(static_cast<int>(tiny.context));
    const auto count = std::ssize(tokens);
    for (const int threads : {1, 2}) {
      CAPTURE(threads);
      const PassBytes said = pass_bytes(model.config(), {.context = count, .workers = threads});
      const std::int64_t held = held_by(model, tokens, threads);
      CHECK(held <= said.of(count));
      CHECK(said.row * count <= 2 * held);
    }
  }
}

TEST_CASE("attention of few tokens behind a long text holds what is said, and no sums of all of its spans") {
  constexpr std::int64_t context = std::int64_t{1} << 17;
  const nn::AttentionShape latent{.heads = 128, .kv_heads = 1, .head_dim = 576, .value_dim = 512}, grouped{.heads = 32, .kv_heads = 8, .head_dim = 128};
  for (const nn::AttentionShape& shape : {latent, grouped}) {
    CAPTURE(shape.heads);
    for (const int workers : {2, 16}) {
      CAPTURE(workers);
      const std::int64_t tokens = workers == 2 ? 14 : 100;
      const CountedStorage storage;
      nn::Attention attention(shape, workers);
      const nn::AttentionSequence sequence{nullptr, 0, tokens, context - tokens};
      attention.plan({&sequence, 1});
      CHECK(storage.bytes() <= nn::Attention::bytes(shape, context, workers));
      CHECK(nn::Attention::bytes(shape, context, workers) < 160'000'000);  // all spans of the first would take 0.94 GB by two workers, and 6.7 by sixteen
    }
  }
}
