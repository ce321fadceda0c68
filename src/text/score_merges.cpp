// Turns the scores of a SentencePiece vocabulary into merges.
#include <algorithm>
#include <atomic>
#include <functional>
#include <numeric>
#include <string>

#include "bantam/core/error.hpp"
#include "bantam/core/memory.hpp"
#include "bantam/core/parallel.hpp"
#include "text/merges.hpp"
#include "text/spec.hpp"
#include "text/text_order.hpp"

namespace bantam::inline v0 {

namespace {

constexpr std::int32_t nothing = -1;

/// For each of `parts` (indices into `texts`) the longest other part that begins it, or nothing.
std::vector<std::int32_t> longest_prefixes(std::span<const std::string_view> texts, std::vector<std::int32_t> parts) {
  const auto text_of = [&](std::int32_t i) { return texts[static_cast<std::size_t>(i)]; };
  sort_by_text(parts, text_of);
  std::vector<std::int32_t> result(texts.size(), nothing);
  // In sorted order everything that begins a text stands before it, and what stopped being a prefix stays so.
  std::vector<std::int32_t> open;
  std::string_view before;
  // The texts lie beyond the caches: each is asked for some steps ahead.
  constexpr std::size_t ahead = 16;
  for (std::size_t k = 0; k < parts.size(); ++k) {
    if (k + 2 * ahead < parts.size()) __builtin_prefetch(&texts[static_cast<std::size_t>(parts[k + 2 * ahead])]);
    if (k + ahead < parts.size()) __builtin_prefetch(text_of(parts[k + ahead]).data());
    const std::string_view text = text_of(parts[k]);
    const auto shared = static_cast<std::size_t>(std::mismatch(before.begin(), before.end(), text.begin(), text.end()).first - before.begin());
    while (!open.empty() && text_of(open.back()).size() > shared) open.pop_back();
    if (!open.empty()) result[static_cast<std::size_t>(parts[k])] = open.back();
    open.push_back(parts[k]);
    before = text;
  }
  return result;
}

/// The same for the end of each.
std::vector<std::int32_t> longest_suffixes(std::span<const std::string_view> texts, const std::vector<std::int32_t>& parts) {
  std::size_t size = 0;
  for (const std::string_view text : texts) size += text.size();
  std::string bytes(size, '\0');
  std::vector<std::string_view> reversed;
  reversed.reserve(texts.size());
  char* end = bytes.data();
  for (const std::string_view text : texts) {
    reversed.emplace_back(end, text.size());
    end = std::ranges::reverse_copy(text, end).out;
  }
  return longest_prefixes(reversed, parts);
}

std::vector<std::uint32_t> ranks_of(std::span<const double> scores) {
  std::vector<double> distinct(scores.begin(), scores.end());
  if (!std::ranges::is_sorted(distinct, std::greater<>())) std::ranges::sort(distinct, std::greater<>());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  std::vector<std::uint32_t> ranks;
  ranks.reserve(scores.size());
  std::size_t rank = 0;
  for (const double score : scores) {
    // Most files have their pieces in the order of scores.
    if (rank + 1 < distinct.size() && distinct[rank + 1] == score) {
      ++rank;
    } else {
      rank = static_cast<std::size_t>(std::ranges::lower_bound(distinct, score, std::greater<>()) - distinct.begin());
    }
    ranks.push_back(static_cast<std::uint32_t>(rank));
  }
  return ranks;
}

}  // namespace

LargeVector<Merge> merges_from_scores(std::span<const std::string_view> symbols, std::span<const double> scores,
                                      const std::vector<bool>& mergeable, std::string_view place) {
  std::vector<std::int32_t> parts;
  parts.reserve(symbols.size());
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    if ((i >= scores.size() || mergeable[i]) && !symbols[i].empty()) parts.push_back(static_cast<std::int32_t>(i));
  }
  std::vector<std::int32_t> prefix, suffix;
  std::vector<std::uint32_t> ranks;
  parallel_for(2, 1, [&](Range range) {
    if (range.begin == 0) {
      prefix = longest_prefixes(symbols, parts);
      ranks = ranks_of(scores);
    }
    if (range.end == 2) suffix = longest_suffixes(symbols, parts);
  });
  // A chain of pieces, each the one before and a character more, allows as many merges as it has bytes.
  const std::size_t most_merges = std::max(limits::merges_of_small, limits::merges_a_piece * scores.size());
  std::vector<std::uint32_t> sizes(symbols.size());
  for (std::size_t i = 0; i < symbols.size(); ++i) sizes[i] = static_cast<std::uint32_t>(symbols[i].size());
  constexpr std::size_t at_once = 8192;
  std::vector<std::vector<Merge>> found(div_up(parts.size(), at_once));
  std::atomic<std::size_t> count = 0;
  parallel_for(static_cast<std::int64_t>(found.size()), 1, [&](Range range) {
    std::vector<std::int32_t> beginning;  // by length: the part that begins the piece at hand
    for (auto f = static_cast<std::size_t>(range.begin); f < static_cast<std::size_t>(range.end); ++f) {
      std::vector<Merge>& merges = found[f];
      for (std::size_t k = f * at_once; k < std::min(parts.size(), (f + 1) * at_once); ++k) {
        const auto p = static_cast<std::size_t>(parts[k]);
        if (p >= scores.size() || prefix[p] == nothing || suffix[p] == nothing) continue;
        const std::size_t before = merges.size();
        beginning.assign(sizes[p], nothing);
        for (std::int32_t i = prefix[p]; i != nothing; i = prefix[static_cast<std::size_t>(i)]) beginning[sizes[static_cast<std::size_t>(i)]] = i;
        for (std::int32_t i = suffix[p]; i != nothing; i = suffix[static_cast<std::size_t>(i)]) {
          const std::int32_t left = beginning[sizes[p] - sizes[static_cast<std::size_t>(i)]];
          if (left != nothing) merges.push_back({left, i, parts[k], ranks[p]});
        }
        const std::size_t made = merges.size() - before;
        if (made == 0) continue;
        if (count.fetch_add(made, std::memory_order_relaxed) + made > most_merges) fail(Errc::unsupported, place, ": the pieces allow more than ", most_merges, " merges");
      }
    }
  });
  LargeVector<Merge> merges;
  merges.reserve(count);
  for (const std::vector<Merge>& some : found) merges.insert(merges.end(), some.begin(), some.end());
  return merges;
}

}  // namespace bantam::inline v0
