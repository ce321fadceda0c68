// The contract of a sequence's state, kept by pages and by a state that cannot be cut.
#include "bantam/nn/sequence_state.hpp"

#include <cstring>
#include <map>
#include <string>

#include "bantam/nn/kv_state.hpp"
#include "support.hpp"

using namespace bantam::nn;

namespace {

/// Counts tokens as recurrent blocks do: of the past only every `distance`-th token is kept.
class Recurrent final : public BlockState {
 public:
  explicit Recurrent(std::int64_t distance) : distance_(distance) {}
  [[nodiscard]] std::int64_t tokens() const noexcept override { return tokens_; }
  void extend(std::int64_t count) override {
    if (fails) bantam::fail(bantam::Errc::out_of_memory, "recurrent: none");
    tokens_ += count;
  }
  void truncate(std::int64_t tokens) noexcept override {
    if (tokens < tokens_) tokens_ = tokens / distance_ * distance_;
  }
  [[nodiscard]] std::unique_ptr<BlockState> fork() const override { return std::make_unique<Recurrent>(*this); }
  void save(StateSink sink) const override { sink(std::as_bytes(std::span(&tokens_, 1))); }
  void restore(std::int64_t tokens, StateSource in) override {
    std::int64_t saved = 0;
    std::memcpy(&saved, in(8, "recurrent").data(), 8);
    if (saved != tokens) bantam::fail(bantam::Errc::corrupt, "recurrent: expected ", tokens, ", found ", saved);
    tokens_ = saved;
  }
  [[nodiscard]] std::int64_t bytes() const noexcept override { return 8; }
  [[nodiscard]] std::int64_t bytes_per_token() const noexcept override { return 0; }

  bool fails = false;

 private:
  std::int64_t distance_;
  std::int64_t tokens_ = 0;
};

KvCache cache() { return KvCache({.layers = 2, .kv_heads = 1, .head_dim = 16}, "f32"); }

/// Pages, and recurrent states with checkpoints at these distances.
SequenceState state_of(std::initializer_list<std::int64_t> distances) {
  std::vector<std::unique_ptr<BlockState>> blocks;
  blocks.push_back(std::make_unique<KvState>(cache()));
  for (const std::int64_t distance : distances) blocks.push_back(std::make_unique<Recurrent>(distance));
  return SequenceState(std::move(blocks));
}

/// Fills every byte of the pages with what tells them apart.
void fill(SequenceState& state, int seed) {
  KvCache& pages = state.find<KvState>()->cache();
  for (std::int64_t i = 0; i < pages.page_count(); ++i) std::memset(pages.page(i).data(), seed + static_cast<int>(i), pages.page(i).size());
}

std::string saved(const SequenceState& state) {
  std::string bytes;
  state.save([&](std::span<const std::byte> part) { bytes.append(reinterpret_cast<const char*>(part.data()), part.size()); });
  return bytes;
}

/// Hands out `bytes` from the front; `left` becomes what was not asked for.
void restore(SequenceState& state, std::int64_t tokens, std::string_view bytes, std::size_t& left) {
  const auto take = [&](std::uint64_t size, std::string_view what) {
    if (size > bytes.size()) bantam::fail(bantam::Errc::corrupt, "saved: ", what, ": expected ", size, " bytes, found ", bytes.size());
    const auto part = std::as_bytes(std::span(bytes.substr(0, size)));
    bytes.remove_prefix(size);
    return part;
  };
  state.restore(tokens, take);
  left = bytes.size();
}

}  // namespace

TEST_CASE("pages are cut where they are asked to, and all states where the last of them can be") {
  SequenceState pages = state_of({});
  pages.extend(130);
  CHECK(pages.tokens() == 130);
  pages.truncate(130);
  CHECK(pages.tokens() == 130);
  pages.truncate(77);
  CHECK(pages.tokens() == 77);
  CHECK(pages.bytes() == 2 * 64 * pages.bytes_per_token());

  // 77 -> 70 by the first, -> 64 by the second, -> 60 by the first again: 60 is of both.
  for (const auto& [to, expected] : std::map<std::int64_t, std::int64_t>{{77, 60}, {60, 60}, {59, 40}, {3, 0}, {0, 0}, {130, 130}, {500, 130}}) {
    CAPTURE(to);
    SequenceState mixed = state_of({10, 4});
    mixed.extend(130);
    mixed.truncate(to);
    CHECK(mixed.tokens() == expected);
    CHECK(mixed.find<Recurrent>()->tokens() == expected);
    CHECK(mixed.find<KvState>()->tokens() == expected);
  }
}

TEST_CASE("a fork shares pages until one of the two writes") {
  SequenceState base = state_of({10});
  base.extend(100);
  fill(base, 1);
  const std::string before = saved(base);
  SequenceState fork = base.fork();
  const auto page = [](SequenceState& state, std::int64_t i) { return state.find<KvState>()->cache().page(i).data(); };
  CHECK(page(fork, 0) == page(base, 0));
  CHECK(page(fork, 1) == page(base, 1));
  fork.extend(1);
  CHECK(page(fork, 0) == page(base, 0));
  CHECK(page(fork, 1) != page(base, 1));
  fork.truncate(0);
  CHECK(saved(base) == before);
}

TEST_CASE("what is restored saves the same bytes, and takes no others") {
  for (const std::int64_t tokens : {0, 1, 64, 100}) {
    CAPTURE(tokens);
    SequenceState state = state_of({10});
    state.extend(tokens);
    fill(state, 1);
    const std::string bytes = saved(state);
    SequenceState restored = state_of({10});
    restored.extend(7);
    std::size_t left = 0;
    restore(restored, tokens, bytes + "and more", left);
    CHECK(left == 8);
    CHECK(restored.tokens() == tokens);
    CHECK(saved(restored) == bytes);
  }
}

TEST_CASE("what fails leaves all states as they were") {
  SequenceState state = state_of({10});
  state.extend(70);
  fill(state, 1);
  const std::string before = saved(state);
  std::size_t left = 0;
  // Pages are read before the other says no.
  const std::string other(2 * 64 * static_cast<std::size_t>(state.bytes_per_token()) + 8, 'x');
  CHECK(bantam::test::error_of([&] { restore(state, 70, other, left); }).starts_with("recurrent: expected 70"));
  CHECK(bantam::test::error_of([&] { restore(state, 70, "short", left); }).starts_with("saved: pages: expected"));
  CHECK(saved(state) == before);

  state.find<Recurrent>()->fails = true;
  CHECK_FALSE(bantam::test::error_of([&] { state.extend(70); }).empty());
  CHECK(state.tokens() == 70);
  CHECK(saved(state) == before);
}
