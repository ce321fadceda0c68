// The table of kernels of one instruction set: how portable code reaches them.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "bantam/kernels/arguments.hpp"
#include "bantam/kernels/kv_kinds.hpp"
#include "bantam/quant/formats.hpp"
#include "bantam/simd/path_step.hpp"
#include "bantam/simd/point_search.hpp"

namespace bantam::inline v0 {

/// The kernels of one format.
struct FormatKernels {
  /// Null for float formats.
  void (*matmul_q8)(const WeightView&, const QuantizedRows&, const OutputRows&, const MatmulPart&) noexcept;
  void (*matmul_f32)(const WeightView&, const FloatRows&, const OutputRows&, const MatmulPart&) noexcept;
  /// Whether matmul_q8 gains by QuantizedRows::interleaved.
  bool reads_interleaved;
};

/// The kernels of one way to keep keys and values.
struct KvKernels {
  const char* name;
  /// What files call the layout of its pages.
  const char* saved_as;
  /// Whether store() rotates the numbers of a head, in blocks, so that queries and sums have to be rotated too (KernelTable::rotate_blocks).
  bool rotates;
  /// Of the keys, or of the values, of one head in a page.
  std::int64_t (*page_bytes)(std::int64_t head_dim) noexcept;
  void (*store)(const float* x, std::byte* page, bool value, int token, std::int64_t head_dim, std::int64_t block) noexcept;
  void (*expand)(const std::byte* page, bool value, int tokens, std::int64_t head_dim, float* out) noexcept;
  void (*attend)(const AttentionPage& page, const AttentionRows& rows) noexcept;
};

/// Every kernel of one instruction set. Docstrings stand with the templates that the entries instantiate.
struct KernelTable {
  const char* name;
  std::array<FormatKernels, Formats::size> formats;  ///< in the order of the list
  std::array<KvKernels, KvKinds::size> kv;           ///< in the order of the list
  void (*rotate_blocks)(float* x, std::int64_t count, std::int64_t block) noexcept;
  void (*quantize_row)(const float* x, std::int64_t columns, const QuantizedRows& out, std::int64_t token, std::int64_t begin,
                       std::int64_t end) noexcept;
  void (*rms_norm)(const float* x, const float* weight, float eps, float* out, std::int64_t n) noexcept;
  void (*layer_norm)(const float* x, const float* weight, const float* bias, float eps, float* out, std::int64_t n) noexcept;
  void (*add)(float* x, const float* y, std::int64_t n) noexcept;
  void (*silu_mul)(const float* gate, const float* up, float* out, std::int64_t n) noexcept;
  void (*gelu_tanh_mul)(const float* gate, const float* up, float* out, std::int64_t n) noexcept;
  void (*gelu_erf_mul)(const float* gate, const float* up, float* out, std::int64_t n) noexcept;
  void (*clamped_silu_mul)(const float* gate, const float* up, float* out, std::int64_t n) noexcept;
  void (*relu_mul)(const float* gate, const float* up, float* out, std::int64_t n) noexcept;
  void (*relu2_mul)(const float* gate, const float* up, float* out, std::int64_t n) noexcept;
  void (*sigmoid_mul)(const float* gate, const float* up, float* out, std::int64_t n) noexcept;
  void (*softcap)(float* x, float cap, std::int64_t n) noexcept;
  void (*xielu)(float* x, const Xielu& curve, std::int64_t n) noexcept;
  void (*rope_half)(float* x, const float* cosines, const float* sines, std::int64_t half) noexcept;
  void (*rope_pairs)(float* x, const float* cosines, const float* sines, std::int64_t half) noexcept;
  void (*sum_rows)(const RowSums& sums) noexcept;
  void (*decay_row)(const float* x, const float* decays, float at, float* out, std::int64_t n) noexcept;
  void (*convolve)(const Convolution& convolution, std::int64_t begin, std::int64_t end) noexcept;
  simd::NearestPoint nearest_point;  ///< simd/nearest_point.hpp
  simd::PathKernels paths;  ///< simd/paths.hpp
  void (*attend_merge)(AttentionState& state, float* out, const AttentionState& next, const float* next_out,
                       std::int64_t head_dim) noexcept;
  void (*attend_finish)(const AttentionState& state, float* out, std::int64_t head_dim) noexcept;
  void (*index_scores)(const float* keys, const IndexQuery& query, float* scores) noexcept;
  /// Integer products a second that this instruction set can do, as a loop that does nothing else: runs it once over
  /// `rounds` and returns the operations done (a multiply and an add are two).
  std::int64_t (*int8_rate)(std::int64_t rounds) noexcept;
};

/// Tables that this build has and this machine can run, best first.
[[nodiscard]] std::span<const KernelTable* const> kernel_tables();
/// The best one, or the one that BANTAM_ISA names. Throws invalid_argument when BANTAM_ISA names none of them.
[[nodiscard]] const KernelTable& kernels_in_use();
/// Makes kernels_in_use() return this table from now on. Throws invalid_argument listing the names there are.
void use_kernels(std::string_view name);

namespace kernels {

/// Defined by the translation unit of each instruction set.
template <class A>
[[nodiscard]] const KernelTable& table() noexcept;

}  // namespace kernels
}  // namespace bantam::inline v0
