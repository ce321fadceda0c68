// Plain structs that cross the border between portable code and the tables compiled for one instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "bantam/quant/weight_view.hpp"

namespace bantam::inline v0 {

/// Numbers whose largest is below this round to zeros: the reciprocal of their step would overflow.
inline constexpr float smallest_range = 0x1p-110f;

/// Columns whose rounded activations are summed: the finest group of a format.
inline constexpr int sum_columns = 16;

/// A layer's numbers of xIELU, as kernels::xielu() has them.
struct Xielu {
  float positive = 0, negative = 0, slope = 0, limit = 0;
};

/// Activations rounded to signed bytes, a scale every `block` columns: x = scales(c / block) * values(c).
/// Rows are padded with zeros to a multiple of 256 columns, so that any format's padding reads zeros. What belongs to several columns lies
/// side by side for all tokens, and so that the 15 after the last may be read too: a tile takes that of its tokens in vectors.
struct QuantizedRows {
  std::int8_t* values = nullptr;  ///< (tokens, stride)
  float* scales = nullptr;        ///< (stride / block, width)
  std::int32_t* sums = nullptr;   ///< (stride / sum_columns, width): negative, for zero points, minimums and offsets
  std::int64_t stride = 0;        ///< padded columns
  std::int64_t width = 0;         ///< tokens, or more
  std::int64_t block = 256;       ///< columns a scale: 256 or 32
  /// The values with sixteen tokens side by side, 128 more than they are: (width / 16, stride / 4, 16, 4). Width is a multiple of 16
  /// then. Null: no one reads it.
  std::uint8_t* interleaved = nullptr;

  /// `count` rows from `token` on, which is a multiple of 16 where 16 or more are wanted.
  [[nodiscard]] QuantizedRows from(std::int64_t token, std::int64_t count) const noexcept {
    QuantizedRows rows = *this;
    rows.values += token * stride;
    rows.scales += token;
    rows.sums += token;
    rows.interleaved = interleaved != nullptr && count >= 16 ? interleaved + token * stride : nullptr;
    return rows;
  }
};

/// Float activations (tokens, columns), rows `stride` apart.
struct FloatRows {
  const float* values = nullptr;
  std::int64_t stride = 0;

  [[nodiscard]] FloatRows from(std::int64_t token) const noexcept { return {values + token * stride, stride}; }
};

/// Where a product goes: (tokens, rows of the weights), rows `stride` apart.
struct OutputRows {
  float* values = nullptr;
  std::int64_t stride = 0;
};

/// Where weights are fetched to before their turn comes. Results do not depend on it.
enum class Fetch : int { nowhere, first_level, second_level };

/// Part of a product: panels panel_begin .. panel_end (32 weight rows each) for all tokens.
struct MatmulPart {
  std::int64_t tokens = 0;
  std::int64_t panel_begin = 0;
  std::int64_t panel_end = 0;
  Fetch fetch = Fetch::first_level;
};

/// Tokens of one page of the key-value cache. Fixed: the order of every sum follows page borders, so results do not
/// depend on how a prompt was cut into chunks.
inline constexpr int page_tokens = 64;

/// One page of one key-value head (kernels/kv_page.hpp).
struct AttentionPage {
  const std::byte* keys = nullptr;
  const std::byte* values = nullptr;
  std::int64_t start = 0;     ///< position of its first token
  std::int64_t head_dim = 0;  ///< padded to a multiple of 16 with zeros
  float scale = 1;            ///< of the scores
  /// Of the page that comes next, to be fetched meanwhile; null: none, or it need not be.
  const std::byte* next_keys = nullptr;
  const std::byte* next_values = nullptr;
  std::int64_t value_dim = 0;  ///< padded as head_dim; 0: as many
  float softcap = 0;           ///< scores become softcap tanh(score / softcap) (arXiv:2408.00118, 2.3); 0: stay
};

/// The running state of one query row (Milakov and Gimelshein, arXiv:1805.02867): the largest score, and the sum of the
/// weights in 16 lanes.
struct AttentionState {
  float maximum = -__builtin_inff();
  float sums[16] = {};
};

/// Query rows that read the same head: `group` rows a token, tokens in order from `position` on. Each row sees the
/// tokens up to its own, the last `window` of them if that is not 0.
struct AttentionRows {
  const float* q = nullptr;          ///< (count, head_dim)
  float* out = nullptr;              ///< (count, value_dim): weighted values, not yet divided by the sum
  AttentionState* states = nullptr;  ///< (count)
  int count = 0;
  int group = 1;
  std::int64_t position = 0;
  std::int64_t window = 0;
  /// (group): what a score gets for each token that its key is behind the query, times -1 (ALiBi, arXiv:2108.12409); null: nothing.
  const float* slopes = nullptr;
  bool chunked = false;  ///< each row sees from the last multiple of `window` on, in the place of the last so many
  /// Where each row is another token of one head: what a score gets for the distance of its key from the query, from -reach to reach, beyond
  /// which it stays the same: 2 reach + 1 numbers, with a page of the first before them and one of the last behind them (T5, arXiv:1910.10683,
  /// 2.1); null: nothing.
  const float* biases = nullptr;
  std::int64_t bias_reach = 0;
  std::int64_t bias_position = 0;  ///< of the first row; `position` is another where all see everything
  /// Where an indexer chooses what is seen (nn/blocks/indexer.hpp): of each token a bit for each token of the page, the first of them lowest; null: all.
  const std::uint64_t* chosen = nullptr;
  std::int64_t chosen_stride = 0;  ///< from one token's to the next's
};

/// What an indexer asks of a page of keys in floats, (dim, 64): its queries, and what each of their heads counts (kernels/attention.hpp).
struct IndexQuery {
  const float* q = nullptr;        ///< (heads, dim)
  const float* weights = nullptr;  ///< (heads); null: all 1
  std::int64_t heads = 0;
  std::int64_t dim = 0;  ///< padded to a multiple of 16 with zeros
};

/// Sums of rows of m, (inner, columns), weighed by rows of x, (rows, inner): kernels/recurrence.hpp. Columns are a multiple of 16.
struct RowSums {
  const float* x = nullptr;
  std::int64_t x_stride = 0;
  const float* m = nullptr;
  std::int64_t m_stride = 0;
  std::int64_t rows = 0, inner = 0, columns = 0;
  const float* base = nullptr;  ///< (rows, columns), what sums begin with, times `factor`; null: 0
  std::int64_t base_stride = 0;
  float factor = 1;
  float* out = nullptr;  ///< (rows, columns)
  std::int64_t out_stride = 0;
};

/// A causal convolution of one token, channel by channel: of the last `taps` tokens' rows, its own last.
struct Convolution {
  static constexpr int most_taps = 8;
  const float* rows[most_taps] = {};
  const float* weights = nullptr;  ///< (taps, channels)
  const float* bias = nullptr;     ///< (channels); null: none
  float* out = nullptr;            ///< (channels)
  std::int64_t channels = 0;
  int taps = 0;
  bool activates = false;  ///< by silu
};

}  // namespace bantam::inline v0
