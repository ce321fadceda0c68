// Turns the scores of a SentencePiece vocabulary into merges.
#include <algorithm>
#include <functional>
#include <numeric>
#include <string>

#include "bantam/core/error.hpp"
#include "bantam/core/parallel.hpp"
#include "text/merges.hpp"
#include "text/spec.hpp"
#include "text/text_order.hpp"

namespace bantam::inline v0 {

namespace {

constexpr std::int32_t nothing = -1;

/// For each of `parts` (indices into `texts`) the longest other part that begins it, or nothing.
std::vector<std::int32_t> longest_prefixes(std::span<const std::string_view> texts, std::vector<std::int32_t> parts) {
  sort_by_text(parts, [&](std::int32_t i) { return texts[static_cast<std::size_t>(i)]; });
  std::vector<std::int32_t> result(texts.size(), nothing);
  // In sorted order everything that begins a text stands before it, and what stopped being a prefix stays so.
  std::vector<std::int32_t> open;
  for (const std::int32_t i : parts) {
    const std::string_view text = texts[static_cast<std::size_t>(i)];
    while (!open.empty() && !text.starts_with(texts[static_cast<std::size_t>(open.back())])) open.pop_back();
    if (!open.empty()) result[static_cast<std::size_t>(i)] = open.back();
    open.push_back(i);
  }
  return result;
}

/// The same for the end of each.
std::vector<std::int32_t> longest_suffixes(std::span<const std::string_view> texts, const std::vector<std::int32_t>& parts) {
  std::string bytes;
  std::vector<std::size_t> begins;
  for (const std::string_view text : texts) {
    begins.push_back(bytes.size());
    bytes.append(text.rbegin(), text.rend());
  }
  std::vector<std::string_view> reversed;
  for (std::size_t i = 0; i < texts.size(); ++i) reversed.push_back(std::string_view(bytes).substr(begins[i], texts[i].size()));
  return longest_prefixes(reversed, parts);
}

std::vector<std::uint32_t> ranks_of(std::span<const double> scores) {
  std::vector<double> distinct(scores.begin(), scores.end());
  std::ranges::sort(distinct, std::greater<>());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  std::vector<std::uint32_t> ranks;
  ranks.reserve(scores.size());
  for (const double score : scores) {
    const auto at = std::ranges::lower_bound(distinct, score, std::greater<>());
    ranks.push_back(static_cast<std::uint32_t>(at - distinct.begin()));
  }
  return ranks;
}

}  // namespace

std::vector<Merge> merges_from_scores(std::span<const std::string_view> symbols, std::span<const double> scores,
                                      const std::vector<bool>& mergeable, std::string_view place) {
  std::vector<std::int32_t> parts;
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
  std::vector<Merge> merges;
  std::vector<std::int32_t> beginning;  // by length: the part that begins the piece, for the piece at hand
  for (const std::int32_t piece : parts) {
    const auto p = static_cast<std::size_t>(piece);
    if (p >= scores.size()) continue;
    beginning.assign(symbols[p].size(), nothing);
    for (std::int32_t i = prefix[p]; i != nothing; i = prefix[static_cast<std::size_t>(i)]) {
      beginning[symbols[static_cast<std::size_t>(i)].size()] = i;
    }
    for (std::int32_t i = suffix[p]; i != nothing; i = suffix[static_cast<std::size_t>(i)]) {
      const std::int32_t left = beginning[symbols[p].size() - symbols[static_cast<std::size_t>(i)].size()];
      if (left == nothing) continue;
      if (merges.size() == most_merges) {
        fail(Errc::unsupported, place, ": the pieces allow more than ", most_merges, " merges");
      }
      merges.push_back({left, i, piece, ranks[p]});
    }
  }
  return merges;
}

}  // namespace bantam::inline v0
