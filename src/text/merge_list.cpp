// The merges of a file, which spells their parts, as ids.
#include <algorithm>
#include <string>

#include "bantam/core/error.hpp"
#include "bantam/core/parallel.hpp"
#include "text/loaders.hpp"
#include "text/piece_index.hpp"

namespace bantam::inline v0 {

void read_merge_list(TokenizerSpec& spec, std::size_t count, MergeParts parts_of, FunctionRef<std::string(std::size_t)> spelled, std::string_view place) {
  const PieceTexts texts{spec.pieces};
  PieceIndex index(spec.pieces.size());
  bool repeats = false;
  for (std::size_t i = 0; i < spec.pieces.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    if (spec.pieces[i].empty() || index.add(id, texts) == id) continue;
    index.set(id, texts);  // of pieces that spell the same the last counts
    repeats = true;
  }
  const auto merged = [&](const std::pair<std::string_view, std::string_view>& parts, std::string& whole) -> const std::string& {
    std::string_view right = parts.second;
    if (right.starts_with(spec.continuing)) right.remove_prefix(spec.continuing.size());
    return whole.assign(parts.first).append(right);
  };
  spec.merges.resize(count);
  // What is looked up lies all over a table larger than a core's caches: the waits of several threads overlap.
  constexpr std::int64_t grain = 4096;
  parallel_for(static_cast<std::int64_t>(count), grain, [&](Range range) {
    std::string whole;
    // Most vocabularies number what merges make in the order of the merges: the next piece is compared before any is looked up.
    TokenId next = 0;
    const auto find_whole = [&](const std::string& text) {
      const bool is_next = !repeats && static_cast<std::size_t>(next) < spec.pieces.size() && texts(next) == text;
      return is_next ? next : index.find(text, texts);
    };
    for (auto i = static_cast<std::size_t>(range.begin); i < static_cast<std::size_t>(range.end); ++i) {
      spec.merges[i].fill(PieceIndex::none);
      if (const auto parts = parts_of(i)) spec.merges[i] = {index.find(parts->first, texts), index.find(parts->second, texts), find_whole(merged(*parts, whole))};
      next = spec.merges[i][2] + 1;
    }
  });
  const auto is_broken = [](const std::array<TokenId, 3>& merge) { return std::ranges::count(merge, PieceIndex::none) > 0; };
  const auto broken = std::ranges::find_if(spec.merges, is_broken);
  if (broken == spec.merges.end()) return;
  const auto i = static_cast<std::size_t>(broken - spec.merges.begin());
  const auto parts = parts_of(i);
  if (!parts) fail(Errc::corrupt, place, "[", i, "]: expected two pieces, found ", printable(spelled(i)));
  std::string whole;
  const std::string_view spellings[] = {parts->first, parts->second, merged(*parts, whole)};
  const auto missing = std::ranges::find(*broken, PieceIndex::none) - broken->begin();
  fail(Errc::corrupt, place, "[", i, "]: ", printable(spellings[missing]), " is not in the vocabulary");
}

}  // namespace bantam::inline v0
