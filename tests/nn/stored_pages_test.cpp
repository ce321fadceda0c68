// Pages of keys and values, and recurrent states, that are not in memory: the bits of those that are.
#include <cstring>
#include <map>

#include "bantam/nn/kv_state.hpp"
#include "bantam/nn/recurrent_state.hpp"
#include "bantam/tensor/random.hpp"
#include "kv_kinds.hpp"
#include "limits.hpp"
#include "support.hpp"

using namespace bantam;
using namespace bantam::nn;
using bantam::test::error_of;

namespace {

/// Keeps pages in a map, checks what it is asked for, and fails when a test says so.
class MapStore final : public PageStore {
 public:
  explicit MapStore(std::vector<PagePart> parts) : parts_(std::move(parts)) {
    for (const PagePart& part : parts_) bytes_ += part.bytes;
  }

  bool fails = false;
  int reads = 0;
  [[nodiscard]] std::size_t pages() const { return pages_->size(); }

  [[nodiscard]] std::vector<Page> put(std::span<const std::byte* const> pages) override {
    if (fails) fail(Errc::io, "store: none");
    std::vector<Page> placed;
    for (const std::byte* page : pages) {
      (*pages_)[next_].assign(page, page + bytes_);
      placed.emplace_back(new std::int64_t(next_++), [all = pages_](const std::int64_t* number) {
        all->erase(*number);
        delete number;
      });
    }
    return placed;
  }
  void get(const Page& page, std::byte* to) override {
    if (fails) fail(Errc::io, "store: none");
    ++reads;
    std::ranges::copy(pages_->at(*page), to);
  }
  [[nodiscard]] std::unique_ptr<Read> read(std::size_t part, std::span<const Page> pages, std::byte* to) override {
    CHECK(reinterpret_cast<std::uintptr_t>(to) % block_bytes == 0);
    ++reads;
    for (const Page& page : pages) {
      const auto [offset, bytes] = parts_[part];
      std::copy_n(pages_->at(*page).begin() + offset, bytes, to);
      to += step_of(bytes);
    }
    return std::make_unique<Done>(*this);
  }
  [[nodiscard]] Counts counts() const override { return {}; }

 private:
  class Done final : public Read {
   public:
    explicit Done(MapStore& store) : store_(store) {}
    void wait() override {
      if (store_.fails) fail(Errc::io, "store: none");
    }

   private:
    MapStore& store_;
  };

  std::vector<PagePart> parts_;
  std::int64_t bytes_ = 0, next_ = 0;
  std::shared_ptr<std::map<std::int64_t, std::vector<std::byte>>> pages_ = std::make_shared<std::map<std::int64_t, std::vector<std::byte>>>();
};


/// Eight layers: with a window and without, with heads of their own, with none, latent; enough of them that a page of any kind is larger than two slots.
KvShape shape() {
  return {.layers = 8, .kv_heads = 2, .head_dim = 40, .of_layers = {{2, 40, 40}, {1, 40, 24, 100}, {}, {2, 24, 24}, {1, 40, 0}, {2, 40, 40, 7}, {2, 40, 40}, {2, 40, 40}}};
}
constexpr std::int64_t layers[] = {0, 1, 3, 4, 5, 6, 7};

void store_tokens(KvCache& cache, std::int64_t first, std::uint64_t seed) {
  for (std::int64_t t = first; t < cache.tokens(); ++t) {
    const auto numbers = random::normal<float>({96}, seed * 10000 + static_cast<std::uint64_t>(t));
    for (const std::int64_t layer : layers) {
      const KvLayer l = shape().layer(layer);
      for (std::int64_t head = 0; head < l.heads; ++head) {
        for (const bool value : {false, true}) {
          // Others for each.
          if (!value || l.value_dim > 0) cache.store(kernels_in_use(), layer, value, head, t, numbers.data() + layer * 5 + head * 2 + value);
        }
      }
    }
  }
}

/// A cache within a bound, and one without that does the same; both are compared after each step.
struct Both {
  explicit Both(const char* kind, double share = 1.05) : plain(shape(), kind), bounded(shape(), kind), store(std::make_shared<MapStore>(bounded.parts())) {
    bound = static_cast<std::int64_t>(share * static_cast<double>(bounded.least_bytes(most_tokens, 130)));
    bounded.keep_within(bound, store);
  }
  static constexpr std::int64_t most_tokens = 1200;

  void extend(std::int64_t count, std::uint64_t seed = 1) {
    const std::int64_t first = plain.tokens();
    for (KvCache* cache : {&plain, &bounded}) {
      cache->extend(count);
      store_tokens(*cache, first, seed);
    }
  }
  /// Every layer as a pass of the last `rows` tokens finds it, stretch by stretch.
  [[nodiscard]] bool same(std::int64_t rows = 1) {
    stretches = 0;
    if (plain.tokens() != bounded.tokens() || plain.page_count() != bounded.page_count()) return false;
    const std::int64_t position = std::max<std::int64_t>(0, plain.tokens() - rows);
    std::vector<float> scratch(static_cast<std::size_t>(2 * page_tokens * plain.padded_head_dim()));
    for (std::size_t at = 0; at < std::size(layers); ++at) {
      const KvLayer l = shape().layer(layers[at]);
      const std::int64_t seen = l.window > 0 ? std::max<std::int64_t>(0, position - l.window + 1) : 0;
      std::int64_t number = 0;
      for (std::int64_t page = seen / page_tokens; page < plain.page_count(); ++page) {
        if (page == seen / page_tokens || page == bounded.stretch().end) {
          if (!bounded.acquire(layers, at, position, number) || bounded.stretch().first > page || bounded.stretch().number != number) return false;
          if (number > 0 && page % KvCache::stretch_pages != 0) return false;
          stretches = std::max(stretches, ++number);
          CHECK(bounded.bytes() <= bound);
        }
        const int held = static_cast<int>(std::min<std::int64_t>(page_tokens, plain.tokens() - page * page_tokens));
        for (std::int64_t head = 0; head < l.heads; ++head) {
          const float* a = plain.expand(kernels_in_use(), layers[at], false, head, page, held, scratch.data());
          const float* b = bounded.expand(kernels_in_use(), layers[at], false, head, page, held, scratch.data() + page_tokens * plain.padded_head_dim());
          for (std::int64_t i = 0; i < l.key_dim; ++i) {
            if (!std::equal(a + i * page_tokens, a + i * page_tokens + held, b + i * page_tokens)) return false;
          }
          if (l.value_dim == 0) continue;
          const std::int64_t width = round_up<std::int64_t>(l.value_dim, 16);
          a = plain.expand(kernels_in_use(), layers[at], true, head, page, held, scratch.data());
          b = bounded.expand(kernels_in_use(), layers[at], true, head, page, held, scratch.data() + page_tokens * plain.padded_head_dim());
          if (!std::equal(a, a + held * width, b)) return false;
        }
      }
      if (bounded.acquire(layers, at, position, std::max<std::int64_t>(1, number))) return false;
    }
    CHECK(bounded.bytes() <= bound);
    return true;
  }

  KvCache plain, bounded;
  std::shared_ptr<MapStore> store;
  std::int64_t bound = 0;
  std::int64_t stretches = 0;  ///< of the layer that came in most of them, when last compared
};

/// Shares of the least bound: with layers that come in stretches, and whole.
constexpr double tight = 1.05, roomy = 1.8;

/// Every kind of keys and values, within both bounds; where BANTAM_TEST_QUICK is set within one or the other.
std::vector<std::pair<const char*, double>> cases() {
  std::vector<std::pair<const char*, double>> all;
  for (const char* kind : test::kv_kinds()) {
    const bool first = all.size() % 2 == 0;
    if (first || !test::quick()) all.emplace_back(kind, tight);
    if (!first || !test::quick()) all.emplace_back(kind, roomy);
  }
  return all;
}

}  // namespace

TEST_CASE("caches within a bound hold what those without hold, through growing, cutting, copying and saving") {
  for (const auto& [kind, share] : cases()) {
    CAPTURE(kind);
    CAPTURE(share);
    Both both(kind, share);
    for (const std::int64_t count : {1, 63, 64, 130, 130, 1, 130, 130, 20}) both.extend(count);
    CHECK(both.same());
    for (int i = 0; i < 3; ++i) both.extend(130);
    CHECK(both.same(130));
    CHECK(both.bounded.stored_pages() > 4);
    CHECK((both.stretches > 1) == (share == tight));
    CHECK(both.store->pages() == static_cast<std::size_t>(both.bounded.stored_pages()));

    // Within a page of the store, and at its end; what is written then is another's.
    for (const std::int64_t left : {100, 64}) {
      for (KvCache* cache : {&both.plain, &both.bounded}) cache->truncate(left);
      both.extend(130, 77);
      CHECK(both.same());
      for (int i = 0; i < 6; ++i) both.extend(130, 78);
      CHECK(both.same(3));
    }

    // Copies share what is stored, and go on each for itself.
    Both copy = both;
    both.extend(100, 5);
    copy.extend(90, 6);
    CHECK(copy.same());
    CHECK(both.same());
    for (KvCache* cache : {&copy.plain, &copy.bounded}) cache->truncate(70);
    copy.extend(120, 7);
    CHECK(copy.same());
    CHECK(both.same());

    const auto saved = [](const KvCache& cache) {
      std::string bytes;
      KvState(cache).save([&](std::span<const std::byte> part) { bytes.append(reinterpret_cast<const char*>(part.data()), part.size()); });
      return bytes;
    };
    const std::string bytes = saved(both.bounded);
    CHECK(bytes == saved(both.plain));
    KvState restored{both.bounded};
    restored.cache().truncate(0);
    std::size_t at = 0;
    restored.restore(both.plain.tokens(), [&](std::uint64_t size, std::string_view) {
      const auto part = std::as_bytes(std::span(bytes)).subspan(at, size);
      at += size;
      return part;
    });
    CHECK(saved(restored.cache()) == bytes);
    CHECK(restored.bytes() <= both.bound);

    both.bounded.truncate(0);
    copy.bounded.truncate(0);
    restored.truncate(0);
    both.bounded.acquire(layers, 0, 0);
    copy.bounded.acquire(layers, 0, 0);
    CHECK(both.store->pages() == 0);
  }
}

TEST_CASE("tokens are taken out of the middle of what is stored, to the same bits") {
  Team team(2);
  int turn = 0;
  for (const char* kind : test::kv_kinds()) {
    for (const auto& [first, last] : {std::pair{3, 70}, std::pair{64, 640}, std::pair{1000, 1010}, std::pair{0, 1}}) {
      if (test::quick() && turn++ % 5 != 0) continue;
      CAPTURE(kind);
      CAPTURE(first);
      Both both(kind, 1.3);
      for (int i = 0; i < 8; ++i) both.extend(130);
      for (KvCache* cache : {&both.plain, &both.bounded}) {
        cache->remove(kernels_in_use(), team, first, last, [](std::int64_t layer, float* key) { key[0] += static_cast<float>(layer); });
      }
      CHECK(both.same());
      both.extend(130);
      CHECK(both.same());
    }
  }
}

TEST_CASE("what fits is not stored, and comes back where a text was cut") {
  Both both("f16");
  for (int i = 0; i < 8; ++i) both.extend(130);
  CHECK(both.bounded.stored_pages() > 0);
  for (KvCache* cache : {&both.plain, &both.bounded}) cache->truncate(200);
  both.extend(1);
  CHECK(both.bounded.stored_pages() == 0);
  CHECK(both.same());
  const int before = both.store->reads;
  both.extend(1);
  CHECK(both.store->reads == before);
}

TEST_CASE("a store that fails leaves the cache as it was, and it goes on when that is over") {
  Both both("q8");
  for (int i = 0; i < 8; ++i) both.extend(130);
  REQUIRE(both.same());
  both.store->fails = true;
  CHECK(error_of([&] { both.bounded.extend(130); }) == "store: none");
  CHECK(both.bounded.tokens() == both.plain.tokens());
  CHECK(error_of([&] { both.bounded.acquire(layers, 0, both.bounded.tokens() - 1); }) == "store: none");
  Team team(1);
  CHECK(error_of([&] { both.bounded.remove(kernels_in_use(), team, 3, 90, [](std::int64_t, float*) {}); }) == "store: none");
  std::string bytes;
  CHECK(error_of([&] { KvState(both.bounded).save([](std::span<const std::byte>) {}); }) == "store: none");
  both.store->fails = false;
  CHECK(both.same());
  both.extend(130);
  CHECK(both.same(130));
}

TEST_CASE("a text of one layer is held within less than the layer") {
  const std::int64_t only[] = {0};
  KvCache one({1, 2, 32}, "f16"), plain({1, 2, 32}, "f16");
  constexpr std::int64_t most = 5000;
  const std::int64_t bound = plain.memory_bytes(most) / 2;
  one.keep_within(bound, std::make_shared<MapStore>(one.parts()));
  while (one.tokens() < most) {
    const std::int64_t first = one.tokens();
    for (KvCache* cache : {&one, &plain}) {
      cache->extend(100);
      for (std::int64_t t = first; t < cache->tokens(); ++t) {
        const auto numbers = random::normal<float>({64}, static_cast<std::uint64_t>(t));
        for (std::int64_t head = 0; head < 2; ++head) {
          for (const bool value : {false, true}) cache->store(kernels_in_use(), 0, value, head, t, numbers.data() + 16 * head + 8 * value);
        }
      }
    }
  }
  // Half of what there is stays, but for two stretches.
  CHECK(one.stored_pages() < one.page_count() * 3 / 4);
  std::int64_t page = 0;
  for (std::int64_t number = 0; one.acquire(only, 0, one.tokens() - 1, number); ++number) {
    CHECK(one.bytes() <= bound);
    CHECK(one.stretch().first == page);
    for (; page < std::min(one.stretch().end, one.page_count()); ++page) {
      std::vector<float> a(64 * 32), b(a.size());
      const int held = static_cast<int>(std::min<std::int64_t>(page_tokens, most - page * page_tokens));
      for (const bool value : {false, true}) {
        (void)one.expand(kernels_in_use(), 0, value, 1, page, held, a.data());
        (void)plain.expand(kernels_in_use(), 0, value, 1, page, held, b.data());
        CHECK(a == b);
      }
    }
  }
  CHECK(page == one.page_count());
}

TEST_CASE("a bound without room for a pass and two stretches is refused, and says what it takes") {
  KvCache cache(shape(), "f16");
  const std::int64_t least = cache.least_bytes(640, 640);
  cache.keep_within(least - 1, std::make_shared<MapStore>(cache.parts()));
  CHECK(error_of([&] { cache.extend(640); }) ==
        "keys and values: expected room for at least " + std::to_string(least) + " bytes: the pages of a pass of 640 tokens, and twice 512 of a layer's others of 640, found " + std::to_string(least - 1));
  CHECK(cache.tokens() == 0);
  CHECK(error_of([&] { cache.keep_within(0, nullptr); }) == "keys and values: expected a bound above 0 bytes, found 0");
  // One layer has no others to make room for.
  KvCache one({1, 1, 16}, "f16");
  one.keep_within(one.least_bytes(640, 64) - 1, std::make_shared<MapStore>(one.parts()));
  CHECK(error_of([&] { one.extend(640); }).starts_with("keys and values: expected room"));
}

TEST_CASE("checkpoints of recurrent states go to a store and come back") {
  const auto make = [] { return RecurrentState({{.key_heads = 1, .value_heads = 2, .key_dim = 8, .value_dim = 16, .channels = 20, .taps = 4}}); };
  const auto write = [](RecurrentState& state, std::int64_t count) {
    const std::int64_t before = state.boundary();
    state.extend(count);
    if (state.boundary() == before) return;
    // What a pass would make of it: the numbers of its place.
    const RecurrentState::Part part = state.last_part(0);
    std::fill_n(part.states, 2 * 8 * 16, static_cast<float>(state.boundary()));
    std::fill_n(part.history, 3 * 32, static_cast<float>(-state.boundary()));
  };
  RecurrentState state = make();
  const auto store = std::make_shared<MapStore>(state.parts());
  state.keep_within(1, store);
  for (int i = 0; i < 100; ++i) write(state, 32);
  CHECK(state.bytes() <= state.bytes_with(1));
  CHECK(store->pages() > 2);
  CHECK(store->pages() <= RecurrentState::most_checkpoints);
  const RecurrentState copy = state;
  for (const std::int64_t wanted : {3100, 2500, 1500}) {
    CAPTURE(wanted);
    state.truncate(wanted);
    CHECK(state.tokens() <= wanted);
    CHECK(state.tokens() > 0);
    const auto boundary = static_cast<float>(state.boundary());
    std::string bytes;
    state.save([&](std::span<const std::byte> part) { bytes.append(reinterpret_cast<const char*>(part.data()), part.size()); });
    float saved = 0;
    std::memcpy(&saved, bytes.data(), sizeof saved);
    CHECK(saved == boundary);
    const std::int64_t position = state.tokens();
    write(state, 1);
    CHECK(state.first_part(0, position).states[0] == boundary);
    CHECK(state.first_part(0, position).history[0] == -boundary);
  }
  CHECK(copy.tokens() == 3200);
  state.truncate(0);
  CHECK(store->pages() > 2);  // the copy's

  // What was asked for stays to the token, however close others are.
  RecurrentState kept = make();
  kept.keep_within(1, store);
  for (int i = 0; i < 20; ++i) write(kept, 32);
  write(kept, 5);
  kept.keep_checkpoint();
  for (int i = 0; i < 60; ++i) write(kept, 32);
  CHECK(kept.bytes() <= kept.bytes_with(1));
  kept.truncate(645);
  CHECK(kept.tokens() == 645);
  write(kept, 1);
  CHECK(kept.first_part(0, 645).states[0] == 640);

  // Whoever cannot store one goes on without it; whoever cannot read one says so.
  RecurrentState other = copy;
  other.truncate(1500);
  store->fails = true;
  const std::int64_t before = other.tokens();
  CHECK(error_of([&] { other.extend(1); }) == "store: none");
  CHECK(other.tokens() == before);
  RecurrentState unlucky = make();
  unlucky.keep_within(1, store);
  for (int i = 0; i < 50; ++i) write(unlucky, 32);
  CHECK(unlucky.tokens() == 1600);
  unlucky.truncate(700);
  CHECK(unlucky.tokens() == 0);
}
