// The merges of a file, which spells their parts, as ids.
#include <algorithm>
#include <array>
#include <span>
#include <string>

#include "bantam/core/error.hpp"
#include "bantam/core/parallel.hpp"
#include "text/loaders.hpp"
#include "text/piece_index.hpp"

namespace bantam::inline v0 {

void read_merge_list(TokenizerSpec& spec, const PieceIndex& index, std::size_t count, MergeParts parts_of, FunctionRef<std::string(std::size_t)> spelled, std::string_view place) {
  // What two parts make goes behind what `wholes` holds.
  const auto join = [&](const std::pair<std::string_view, std::string_view>& parts, std::string& wholes) {
    std::string_view right = parts.second;
    if (right.starts_with(spec.continuing)) right.remove_prefix(spec.continuing.size());
    wholes.append(parts.first).append(right);
  };
  spec.merges.resize(count);
  // What is looked up lies all over a table larger than a core's caches: the waits of a block's lookups overlap, and those of several threads.
  constexpr std::int64_t grain = 4096;
  parallel_for(static_cast<std::int64_t>(count), grain, [&](Range range) {
    constexpr std::int64_t block = 32;
    std::string wholes;
    for (std::int64_t begin = range.begin; begin < range.end; begin += block) {
      const auto merges = std::span(spec.merges).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(std::min(block, range.end - begin)));
      std::array<std::string_view, 3 * block> spellings;
      std::array<std::size_t, block + 1> begins{};
      wholes.clear();
      for (std::size_t i = 0; i < merges.size(); ++i) {
        if (const auto parts = parts_of(static_cast<std::size_t>(begin) + i)) {
          join(*parts, wholes);
          spellings[3 * i] = parts->first;
          spellings[3 * i + 1] = parts->second;
        }
        begins[i + 1] = wholes.size();
      }
      for (std::size_t i = 0; i < merges.size(); ++i) spellings[3 * i + 2] = std::string_view(wholes).substr(begins[i], begins[i + 1] - begins[i]);
      std::array<TokenId, 3 * block> ids;
      index.find_all(std::span(spellings).first(3 * merges.size()), ids, spec.pieces);
      for (std::size_t i = 0; i < merges.size(); ++i) std::copy_n(&ids[3 * i], 3, merges[i].begin());
    }
  });
  const auto is_broken = [](const std::array<TokenId, 3>& merge) { return std::ranges::count(merge, PieceIndex::none) > 0; };
  const auto broken = std::ranges::find_if(spec.merges, is_broken);
  if (broken == spec.merges.end()) return;
  const auto i = static_cast<std::size_t>(broken - spec.merges.begin());
  const auto parts = parts_of(i);
  if (!parts) fail(Errc::corrupt, place, "[", i, "]: expected two pieces, found ", printable(spelled(i)));
  std::string whole;
  join(*parts, whole);
  const std::string_view spellings[] = {parts->first, parts->second, whole};
  const auto missing = std::ranges::find(*broken, PieceIndex::none) - broken->begin();
  fail(Errc::corrupt, place, "[", i, "]: ", printable(spellings[missing]), " is not in the vocabulary");
}

}  // namespace bantam::inline v0
