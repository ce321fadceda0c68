// Softmax attention as the papers write it, with the whole matrix of scores, in double precision.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "reference/softmax.hpp"

namespace bantam::reference {

struct AttentionShape {
  std::int64_t tokens = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t window = 0;  ///< token i sees j with i - window < j <= i; 0: all j <= i
  std::vector<float> slopes = {};  ///< of each head: scores lose slope * (i - j) (Press et al., arXiv:2108.12409); empty: they do not
};

/// softmax(q kT / sqrt(d) + mask) v, head by head (Vaswani et al., arXiv:1706.03762, eq. 1); query head h reads
/// key-value head h / (heads / kv_heads) (Ainslie et al., arXiv:2305.13245).
/// q: (tokens, heads, head_dim); k, v: (tokens, kv_heads, head_dim).
inline std::vector<double> attention(const std::vector<float>& q, const std::vector<float>& k, const std::vector<float>& v,
                                     const AttentionShape& s) {
  const auto at = [&](const std::vector<float>& x, std::int64_t heads, std::int64_t t, std::int64_t h, std::int64_t i) {
    return static_cast<double>(x[static_cast<std::size_t>((t * heads + h) * s.head_dim + i)]);
  };
  std::vector<double> out(q.size());
  for (std::int64_t h = 0; h < s.heads; ++h) {
    const std::int64_t g = h / (s.heads / s.kv_heads);
    for (std::int64_t i = 0; i < s.tokens; ++i) {
      std::vector<double> scores(static_cast<std::size_t>(s.tokens), -INFINITY);
      for (std::int64_t j = 0; j <= i; ++j) {
        if (s.window > 0 && j <= i - s.window) continue;
        double dot = 0;
        for (std::int64_t d = 0; d < s.head_dim; ++d) dot += at(q, s.heads, i, h, d) * at(k, s.kv_heads, j, g, d);
        const double slope = s.slopes.empty() ? 0 : static_cast<double>(s.slopes[static_cast<std::size_t>(h)]);
        scores[static_cast<std::size_t>(j)] = dot / std::sqrt(static_cast<double>(s.head_dim)) - slope * static_cast<double>(i - j);
      }
      const std::vector<double> p = softmax(scores);
      for (std::int64_t d = 0; d < s.head_dim; ++d) {
        double sum = 0;
        for (std::int64_t j = 0; j <= i; ++j) sum += p[static_cast<std::size_t>(j)] * at(v, s.kv_heads, j, g, d);
        out[static_cast<std::size_t>((i * s.heads + h) * s.head_dim + d)] = sum;
      }
    }
  }
  return out;
}

}  // namespace bantam::reference
