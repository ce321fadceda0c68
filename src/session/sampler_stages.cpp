// The stages of sampling: none of them sorts, each finds where its order is cut and keeps what lies before the cut.
#include "sampler_stages.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

namespace bantam::inline v0::detail {

namespace {

using Candidate = SamplerCandidate;
using Rank = SamplerRank;

// Rising ids make the first maximum the one of the lowest id. A loop, for std::max_element takes four times as long: it
// goes through memory for the best so far.
const Candidate& most_probable(const std::vector<Candidate>& candidates) noexcept {
  std::size_t best = 0;
  double highest = candidates.front().logit;
  for (std::size_t i = 1; i < candidates.size(); ++i) {
    if (candidates[i].logit > highest) {
      highest = candidates[i].logit;
      best = i;
    }
  }
  return candidates[best];
}

// One pass of a search for the rank at which the weights reach the target: spreads the ranks over buckets of equal
// width, keeps those of the bucket where that happens (the last one, should rounding keep the sum below the target), and
// adds the weights of the buckets before to `before`. Returns no ranks when the keys cannot be spread.
std::span<Rank> crossing_bucket(std::span<Rank> ranks, double target, double& before) {
  // 256 sums stay in the first-level cache, and two passes reach single ranks of any vocabulary.
  constexpr int buckets = 256;
  double lowest = ranks.front().key;
  double highest = lowest;
  for (const Rank& rank : ranks) {
    lowest = rank.key < lowest ? rank.key : lowest;
    highest = rank.key > highest ? rank.key : highest;
  }
  const double scale = (buckets - 1) / (highest - lowest);
  if (!std::isfinite(scale)) return {};
  const auto bucket_of = [&](const Rank& rank) { return static_cast<int>((rank.key - lowest) * scale); };
  std::array<double, buckets> sums{};
  for (const Rank& rank : ranks) sums[static_cast<std::size_t>(bucket_of(rank))] += rank.weight;
  const int last = bucket_of({highest, 0.0, 0});
  int crossing = 0;
  for (; crossing < last; ++crossing) {
    const double sum = sums[static_cast<std::size_t>(crossing)];
    if (before + sum >= target) break;
    before += sum;
  }
  std::size_t kept = 0;
  for (const Rank& rank : ranks) {
    if (bucket_of(rank) == crossing) ranks[kept++] = rank;
  }
  return ranks.first(kept);
}

// The last of the shortest prefix, in the ranks' order, whose weights reach the target; the last rank of all where
// rounding keeps the sum below it. Expected linear time. Reorders and overwrites the ranks.
Rank last_of_prefix(std::span<Rank> ranks, double target) {
  double before = 0.0;
  // Buckets do most of the work three times as fast as quickselect, which does the rest, and the keys that would not
  // spread: equal ones, and outliers.
  while (ranks.size() > 256) {
    const std::span<Rank> fewer = crossing_bucket(ranks, target, before);
    if (fewer.empty()) break;
    const bool spread = fewer.size() < ranks.size() / 2;
    ranks = fewer;
    if (!spread) break;
  }
  while (ranks.size() > 1) {
    const std::size_t half = ranks.size() / 2;
    std::nth_element(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(half), ranks.end());
    double sum = 0.0;
    for (const Rank& rank : ranks.first(half)) sum += rank.weight;
    if (before + sum >= target) {
      ranks = ranks.first(half);
    } else {
      before += sum;
      ranks = ranks.subspan(half);
    }
  }
  return ranks.front();
}

// One rank for each candidate, to be written. Never shrinks, for growing again would clear what is written anyway.
std::span<Rank> room_for_ranks(SamplerScratch& scratch) {
  const std::size_t count = scratch.candidates.size();
  if (scratch.ranks.size() < count) scratch.ranks.resize(count);
  return std::span(scratch.ranks).first(count);
}

// Keeps the candidates down to the cut, itself included, in the order of falling logits.
void drop_after(const Rank& cut, std::vector<Candidate>& candidates) {
  std::erase_if(candidates, [&](const Candidate& c) { return cut < Rank{-c.logit, 0.0, c.id}; });
}

}  // namespace

void gather(std::span<const float> logits, std::span<const std::pair<TokenId, float>> bias,
            std::vector<Candidate>& candidates) {
  candidates.resize(logits.size());
  bool forbids = false;
  // Inclusive of minus infinity, which masks write; NaN fails every comparison.
  bool sound = true;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    sound &= logits[i] <= std::numeric_limits<float>::max();
    forbids |= logits[i] < std::numeric_limits<float>::lowest();
    candidates[i] = {logits[i], static_cast<TokenId>(i)};
  }
  if (!sound) {
    const auto bad = std::find_if(logits.begin(), logits.end(),
                                  [](float x) { return !(x <= std::numeric_limits<float>::max()); });
    fail(Errc::corrupt, "logits hold ", std::isnan(*bad) ? "NaN" : "+infinity", " at token ", bad - logits.begin());
  }
  for (const auto& [id, value] : bias) {
    candidates[static_cast<std::size_t>(id)].logit += value;
    forbids |= std::isinf(value);
  }
  if (forbids) std::erase_if(candidates, [](const Candidate& c) { return std::isinf(c.logit); });
  if (candidates.empty()) fail(Errc::corrupt, "logits leave no token: all ", logits.size(), " are minus infinity");
}

void penalize(std::vector<Candidate>& candidates, const std::map<TokenId, std::int64_t>& counts,
              const Sampling& options) {
  const double repeat = options.repeat_penalty;
  auto at = candidates.begin();
  for (const auto& [id, count] : counts) {
    at = std::lower_bound(at, candidates.end(), id, [](const Candidate& c, TokenId wanted) { return c.id < wanted; });
    if (at == candidates.end()) return;
    if (at->id != id) continue;
    at->logit = at->logit <= 0.0 ? at->logit * repeat : at->logit / repeat;
    at->logit -= static_cast<double>(count) * static_cast<double>(options.frequency_penalty) +
                 static_cast<double>(options.presence_penalty);
  }
}

TokenId most_probable(std::span<const float> logits) noexcept {
  // The best of each lane of a block, which compilers make vectors of; then its place, in the one block that has it.
  constexpr std::size_t lanes = 16, block = 64 * lanes;
  constexpr float none = -std::numeric_limits<float>::infinity();
  float highest = none;
  std::size_t found = 0;
  for (std::size_t begin = 0; begin < logits.size(); begin += block) {
    const std::span<const float> part = logits.subspan(begin, std::min(block, logits.size() - begin));
    std::array<float, lanes> most;
    most.fill(none);
    std::array<std::int32_t, lanes> odd{};
    const auto take = [&](std::size_t lane, float logit) {
      most[lane] = logit > most[lane] ? logit : most[lane];
      odd[lane] |= static_cast<std::int32_t>(logit != logit);
    };
    std::size_t i = 0;
    for (; i + lanes <= part.size(); i += lanes) {
      for (std::size_t lane = 0; lane < lanes; ++lane) take(lane, part[i + lane]);
    }
    for (; i < part.size(); ++i) take(i % lanes, part[i]);
    if (std::ranges::any_of(odd, [](std::int32_t is) { return is != 0; })) return -1;
    const float best = *std::ranges::max_element(most);
    if (best > highest) {
      highest = best;
      found = begin;
    }
  }
  if (!std::isfinite(highest)) return -1;
  while (logits[found] != highest) ++found;
  return static_cast<TokenId>(found);
}

void apply_temperature(std::vector<Candidate>& candidates, double temperature) {
  if (temperature <= 0.0) return keep_most_probable(candidates);
  for (Candidate& candidate : candidates) candidate.logit /= temperature;
}

void keep_most_probable(std::vector<Candidate>& candidates) {
  const Candidate best = most_probable(candidates);
  candidates.assign(1, best);
}

void keep_top_k(SamplerScratch& scratch, std::size_t k) {
  std::vector<Candidate>& candidates = scratch.candidates;
  if (k >= candidates.size()) return;
  // The best so far, cut back to k of them whenever the room is full: most candidates then fail one comparison with
  // the worst of those. Twice k amortizes the cuts; 256 keeps them rare for a small k.
  const std::size_t room = std::min(std::max<std::size_t>(2 * k, 256), candidates.size());
  const std::span<Rank> best = room_for_ranks(scratch).first(room);
  std::size_t count = 0;
  Rank cut{std::numeric_limits<double>::infinity(), 0.0, 0};
  const auto cut_back = [&] {
    const auto last = best.begin() + static_cast<std::ptrdiff_t>(k) - 1;
    std::nth_element(best.begin(), last, best.begin() + static_cast<std::ptrdiff_t>(count));
    cut = *last;
    count = k;
  };
  for (const Candidate& candidate : candidates) {
    // An equal key has a higher id than all before: it loses.
    if (-candidate.logit >= cut.key) continue;
    best[count++] = {-candidate.logit, 0.0, candidate.id};
    if (count == room) cut_back();
  }
  cut_back();
  drop_after(cut, candidates);
}

void keep_top_p(SamplerScratch& scratch, double p) {
  std::vector<Candidate>& candidates = scratch.candidates;
  if (candidates.size() < 2) return;
  const double total = softmax_weights(scratch);
  // All candidates below this weight together hold at most half of the probability that may be dropped, so the cut
  // lies above them: real logits leave few to look at.
  const double negligible = 0.5 * (1.0 - p) * total / static_cast<double>(candidates.size());
  const std::span<Rank> ranks = room_for_ranks(scratch);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (scratch.weights[i] >= negligible) ranks[kept++] = {-candidates[i].logit, scratch.weights[i], candidates[i].id};
  }
  const Rank cut = last_of_prefix(ranks.first(kept), p * total);
  drop_after(cut, candidates);
}

void keep_min_p(std::vector<Candidate>& candidates, double p) {
  const double floor = most_probable(candidates).logit + std::log(p);
  std::erase_if(candidates, [&](const Candidate& c) { return c.logit < floor; });
}

void keep_typical(SamplerScratch& scratch, double p) {
  std::vector<Candidate>& candidates = scratch.candidates;
  if (candidates.size() < 2) return;
  const double total = softmax_weights(scratch);
  const double log_total = most_probable(candidates).logit + std::log(total);
  double entropy = 0.0;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    entropy += scratch.weights[i] / total * (log_total - candidates[i].logit);
  }
  const auto rank = [&](std::size_t i) -> Rank {
    return {std::abs(log_total - candidates[i].logit - entropy), scratch.weights[i], candidates[i].id};
  };
  const std::span<Rank> ranks = room_for_ranks(scratch);
  for (std::size_t i = 0; i < candidates.size(); ++i) ranks[i] = rank(i);
  // The rule asks for more than p, top-p for at least p: hence the next number.
  const double more_than_p = std::nextafter(p * total, std::numeric_limits<double>::infinity());
  const Rank cut = last_of_prefix(ranks, more_than_p);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (!(cut < rank(i))) candidates[kept++] = candidates[i];
  }
  candidates.resize(kept);
}

void penalize_repetitions(std::vector<Candidate>& candidates, std::span<const TokenId> tokens, const Sampling& options) {
  const std::size_t size = tokens.size();
  const auto allowed = static_cast<std::size_t>(options.dry_allowed_length);
  const auto back = [&](std::size_t i) { return tokens[size - 1 - i]; };
  std::size_t limit = 0;
  while (limit < size && !std::ranges::binary_search(options.dry_breakers, back(limit))) ++limit;
  if (size < 2 || limit < allowed) return;
  // The Z algorithm from the back: common[i] tokens in front of the last i agree with the last ones.
  std::vector<std::size_t> common(size, 0);
  for (std::size_t i = 1, left = 0, right = 0; i < size; ++i) {
    if (i < right) common[i] = std::min(right - i, common[i - left]);
    while (i + common[i] < size && back(common[i]) == back(i + common[i])) ++common[i];
    if (i + common[i] > right) {
      left = i;
      right = i + common[i];
    }
  }
  std::map<TokenId, std::size_t> longest;
  for (std::size_t i = 1; i < size; ++i) {
    const std::size_t length = std::min(common[i], limit);
    // What came behind it then would repeat it now.
    if (length >= allowed) longest[back(i - 1)] = std::max(longest[back(i - 1)], length);
  }
  const double base = options.dry_base;
  // The greatest power that a float holds, as in llama.cpp.
  const double most = base > 1.000001 ? std::floor(88.7228391 / std::log(base)) : std::numeric_limits<double>::infinity();
  auto at = candidates.begin();
  for (const auto& [id, length] : longest) {
    at = std::lower_bound(at, candidates.end(), id, [](const Candidate& c, TokenId wanted) { return c.id < wanted; });
    if (at == candidates.end()) return;
    if (at->id == id) at->logit -= options.dry_multiplier * std::pow(base, std::min(static_cast<double>(length - allowed), most));
  }
}

void keep_top_n_sigma(std::vector<Candidate>& candidates, double n) {
  double mean = 0.0, squares = 0.0;
  for (const Candidate& c : candidates) mean += c.logit;
  mean /= static_cast<double>(candidates.size());
  for (const Candidate& c : candidates) squares += (c.logit - mean) * (c.logit - mean);
  const double floor = most_probable(candidates).logit - n * std::sqrt(squares / static_cast<double>(candidates.size()));
  std::erase_if(candidates, [&](const Candidate& c) { return c.logit < floor; });
}

void exclude_top_choices(SamplerScratch& scratch, double threshold) {
  std::vector<Candidate>& candidates = scratch.candidates;
  if (threshold > 0.5 || candidates.size() < 2) return;
  const double least = threshold * softmax_weights(scratch);
  std::size_t above = 0;
  Rank last{-std::numeric_limits<double>::infinity(), 0.0, 0};
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (scratch.weights[i] < least) continue;
    ++above;
    last = std::max(last, Rank{-candidates[i].logit, 0.0, candidates[i].id});
  }
  if (above < 2) return;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (scratch.weights[i] < least || candidates[i].id == last.id) candidates[kept++] = candidates[i];
  }
  candidates.resize(kept);
}

double dynamic_temperature(SamplerScratch& scratch, const Sampling& options) {
  const double middle = options.temperature;
  if (scratch.candidates.size() < 2) return middle;
  const double total = softmax_weights(scratch);
  double entropy = 0.0;
  for (const double weight : scratch.weights) {
    if (weight > 0.0) entropy -= weight / total * std::log(weight / total);
  }
  const double low = std::max(0.0, middle - static_cast<double>(options.dynatemp_range));
  const double high = middle + static_cast<double>(options.dynatemp_range);
  const double share = entropy / std::log(static_cast<double>(scratch.candidates.size()));
  return low + (high - low) * std::pow(std::max(share, 0.0), static_cast<double>(options.dynatemp_exponent));
}

void keep_mirostat_v1(SamplerScratch& scratch, double mu) {
  std::vector<Candidate>& candidates = scratch.candidates;
  if (candidates.size() < 2) return;
  // The paper's m: Zipf's law holds best among the most probable.
  constexpr std::size_t fitted = 100;
  const std::span<Rank> ranks = room_for_ranks(scratch);
  for (std::size_t i = 0; i < candidates.size(); ++i) ranks[i] = {-candidates[i].logit, 0.0, candidates[i].id};
  const std::size_t count = std::min(fitted, ranks.size());
  std::partial_sort(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(count), ranks.end());
  double products = 0.0, squares = 0.0;
  for (std::size_t i = 0; i + 1 < count; ++i) {
    const double t = std::log(static_cast<double>(i + 2) / static_cast<double>(i + 1));
    const double b = ranks[i + 1].key - ranks[i].key;  // the logarithm of the ratio of their probabilities
    products += t * b;
    squares += t * t;
  }
  const double s = products / squares;
  const double epsilon = s - 1.0;
  const double log_n = std::log(static_cast<double>(candidates.size()));
  // The sum of i^-s up to N as an integral, (1 - N^-epsilon) / epsilon; its limit at s = 1.
  const double sum = std::abs(epsilon * log_n) < 1e-9 ? log_n : -std::expm1(-epsilon * log_n) / epsilon;
  const double k = std::pow(std::exp2(mu) / sum, 1.0 / s);
  if (!(k < static_cast<double>(candidates.size()))) return;
  keep_top_k(scratch, std::max<std::size_t>(static_cast<std::size_t>(k), 1));
}

void keep_mirostat_v2(SamplerScratch& scratch, double mu) {
  std::vector<Candidate>& candidates = scratch.candidates;
  const double highest = most_probable(candidates).logit;
  const double floor = std::min(scratch.log_total - mu * std::numbers::ln2, highest);
  std::erase_if(candidates, [&](const Candidate& c) { return c.logit < floor; });
}

double softmax_weights(SamplerScratch& scratch) {
  const double highest = most_probable(scratch.candidates).logit;
  scratch.weights.resize(scratch.candidates.size());
  double total = 0.0;
  for (std::size_t i = 0; i < scratch.weights.size(); ++i) {
    scratch.weights[i] = std::exp(scratch.candidates[i].logit - highest);
    total += scratch.weights[i];
  }
  return total;
}

}  // namespace bantam::inline v0::detail
