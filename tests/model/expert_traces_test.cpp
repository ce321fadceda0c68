// Caches of experts under routing that looks like that of texts.
#include <list>
#include <numeric>
#include <random>
#include <set>

#include "bantam/model/divergence.hpp"
#include "bantam/model/engine.hpp"
#include "bantam/model/residency.hpp"
#include "bantam/model/streamed_blocks.hpp"
#include "tiny_model.hpp"

namespace bantam::test {
namespace {

constexpr std::int64_t experts = 128, used = 8;

/// Experts of token after token of a layer, with what was seen of real ones: some are popular (Zipf), texts have subjects of some hundred tokens
/// that keep to a few experts, and neighbors share two fifths of theirs.
class RoutingTrace {
 public:
  explicit RoutingTrace(std::uint64_t seed) : random_(seed) {
    std::vector<std::size_t> places(popular_.size());
    std::iota(places.begin(), places.end(), std::size_t{0});
    std::ranges::shuffle(places, random_);
    for (std::size_t i = 0; i < places.size(); ++i) popular_[places[i]] = std::pow(static_cast<double>(i + 1), -0.8);
  }
  std::vector<std::int64_t> next() {
    if (token_++ % 256 == 0) change_subject();
    std::vector<std::int64_t> chosen;
    const auto is_chosen = [&](std::int64_t expert) { return std::ranges::find(chosen, expert) != chosen.end(); };
    while (std::ssize(chosen) < used) {
      const bool repeats = !last_.empty() && std::bernoulli_distribution(0.1)(random_);
      const std::int64_t expert = repeats ? last_[random_() % last_.size()] : of_subject_(random_);
      if (!is_chosen(expert)) chosen.push_back(expert);
    }
    return last_ = chosen;
  }

 private:
  void change_subject() {
    std::vector<double> weights = popular_;
    for (int i = 0; i < 12; ++i) weights[random_() % weights.size()] *= 40;
    of_subject_ = std::discrete_distribution<std::int64_t>(weights.begin(), weights.end());
  }

  std::mt19937_64 random_;
  std::vector<double> popular_ = std::vector<double>(experts);
  std::discrete_distribution<std::int64_t> of_subject_;
  std::vector<std::int64_t> last_;
  std::int64_t token_ = 0;
};

/// The least recently used goes, by the book.
class PlainLru {
 public:
  explicit PlainLru(std::int64_t slots) : slots_(slots) {}
  bool has(std::int64_t expert) const { return std::ranges::find(order_, expert) != order_.end(); }
  void use(std::int64_t expert) {
    order_.remove(expert);
    order_.push_front(expert);
    if (std::ssize(order_) > slots_) order_.pop_back();
  }

 private:
  std::int64_t slots_;
  std::list<std::int64_t> order_;
};

TEST_CASE("caches of experts hit as often as the least recently used may, and as plan expects of texts") {
  TinyModel tiny{.arch = &archs::qwen3_moe, .layers = 1, .experts = experts, .experts_used = used};
  tiny.make();
  const TemporaryFolder folder;
  tiny.write_gguf(folder / "m.gguf");
  const Checkpoint checkpoint = Checkpoint::open(folder / "m.gguf");
  for (const std::int64_t cached : {8, 16, 32, 64}) {
    CAPTURE(cached);
    Residency residency = residency_of(checkpoint, 0);
    residency.layers[0].cached_experts = cached;
    const ModelWeights weights = load_weights(checkpoint, Reading::buffered, {}, &residency);
    const StreamedBlocks blocks(checkpoint, weights, residency);
    const auto layer = blocks.acquire(0);
    RoutingTrace trace(7);
    PlainLru lru(cached);
    constexpr int tokens = 2000;
    std::int64_t expected = 0;
    for (int t = 0; t < tokens; ++t) {
      std::vector<std::int64_t> wanted = trace.next();
      REQUIRE(std::set(wanted.begin(), wanted.end()).size() == used);
      for (const std::int64_t expert : wanted) expected += lru.has(expert);
      for (const std::int64_t expert : wanted) lru.use(expert);
      for (std::span<std::int64_t> left = wanted; !left.empty();) {
        const std::size_t there = blocks.acquire_experts(0, left);
        for (const std::int64_t expert : left.first(there)) REQUIRE(layer->experts.experts[static_cast<std::size_t>(expert)].up.view().data != nullptr);
        left = left.subspan(there);
      }
    }
    const StreamStats stats = blocks.stats();
    CHECK(stats.expert_hits + stats.expert_misses == tokens * used);
    const double hits = static_cast<double>(stats.expert_hits) / (tokens * used);
    CAPTURE(hits);
    // Which of a token's own goes first depends on the drive.
    CHECK(std::abs(hits - static_cast<double>(expected) / (tokens * used)) < 0.02);
    CHECK(std::abs(hits - expert_hits(cached, experts)) < 0.06);
  }
}

/// Logits behind each token of a text that is read token by token, and what its experts were.
struct TextRead {
  std::vector<std::vector<float>> logits;
  StreamStats stats;
};

TextRead read_text(const Model& model, std::span<const TokenId> text) {
  TextRead reading;
  Engine engine(model, {.threads = 1});
  nn::SequenceState state = engine.new_state("f32");
  for (const TokenId& token : text) {
    const SequenceInput one[] = {{{&token, 1}, &state, 0}};
    engine.run(one, [&](std::int64_t, std::int64_t, std::span<const float> row) { reading.logits.emplace_back(row.begin(), row.end()); }, [](std::int64_t) { return true; });
  }
  reading.stats = engine.stream_stats();
  return reading;
}

double mean_divergence(const TextRead& right, const TextRead& seen) {
  double sum = 0;
  for (std::size_t i = 0; i < right.logits.size(); ++i) sum += divergence(right.logits[i], log_sum_exp(right.logits[i]), seen.logits[i], log_sum_exp(seen.logits[i]));
  return sum / static_cast<double>(right.logits.size());
}

TEST_CASE("a model that has learned to route: what its caches hit, and what passing over cold experts saves and costs") {
  const std::filesystem::path path = std::filesystem::path(BANTAM_SOURCE_DIR) / "models" / "stories-moe";
  const Model whole = Model::load(path);
  std::vector<TokenId> text = whole.tokenizer().encode("Lily found a red ball in the garden. She wanted to play with her friend Tom. \"Can I have the ball?\" said Tom. "
                                                       "Lily was sad, but she gave the ball to him. Tom was happy. They played until the sun went down, and mom called them home.");
  const TextRead right = read_text(whole, text);
  const std::int64_t least = residency_of(Checkpoint::open(path), 0).least;
  const Model streamed = Model::load(path, {.memory_limit = least + (whole.bytes() - least) / 4});
  const TextRead exact = read_text(streamed, text);
  CHECK(exact.logits == right.logits);
  // Neighbors share experts: more is there than by chance.
  std::int64_t cached = 0;
  for (const Residency::Layer& layer : streamed.residency()->layers) cached += layer.cached_experts;
  const double asked = static_cast<double>(exact.stats.expert_hits + exact.stats.expert_misses);
  CHECK(static_cast<double>(exact.stats.expert_hits) / asked > static_cast<double>(cached) / static_cast<double>(whole.config().layers * whole.config().router.experts));
  struct Cost {
    std::int64_t misses;
    double divergence;
  };
  const auto cost_of = [&](const Model& model) {
    const TextRead read = read_text(model, text);
    return Cost{read.stats.expert_misses, mean_divergence(right, read)};
  };
  // The more is asked for, the less is read, and the further it is from the model.
  const auto grows = [&](const std::vector<nn::ColdExperts>& asks) {
    Cost before{exact.stats.expert_misses, 0};
    for (const nn::ColdExperts ask : asks) {
      const Cost cost = cost_of(streamed.with_cold_experts(ask));
      CHECK(cost.misses < before.misses);
      CHECK(cost.divergence > before.divergence);
      before = cost;
    }
  };
  grows({{.prefer_cached = 0.2f}, {.prefer_cached = 0.5f}, {.prefer_cached = 0.8f}, {.prefer_cached = 1}});
  grows({{.drop = 0.05f}, {.drop = 0.1f}, {.drop = 0.2f}, {.drop = 0.3f}});
  // Both are better than fewer experts for every token, which reads more.
  const auto is_better = [&](const nn::ColdExperts& ask, std::int64_t fewer) {
    const Cost cost = cost_of(streamed.with_cold_experts(ask)), other = cost_of(streamed.with_experts(fewer));
    CHECK(cost.misses < other.misses);
    CHECK(cost.divergence < other.divergence);
  };
  is_better({.prefer_cached = 0.5f}, 3);
  is_better({.drop = 0.2f}, 2);
}

}  // namespace
}  // namespace bantam::test
