// Keys and values of the tokens so far, in pages that sessions share until one of them writes.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "bantam/core/error.hpp"
#include "bantam/core/memory.hpp"
#include "bantam/core/team.hpp"
#include "bantam/kernels/table.hpp"
#include "bantam/tensor/shape.hpp"

namespace bantam::inline v0::nn {

/// What a layer keeps of a token.
struct KvLayer {
  std::int64_t heads = 0;  ///< 0: it keeps none
  std::int64_t key_dim = 0;
  std::int64_t value_dim = 0;  ///< 0: values are read from the keys (latent attention)
  bool operator==(const KvLayer&) const = default;
};

/// Shape of a cache: layers alike, or each with its own.
struct KvShape {
  std::int64_t layers = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::vector<KvLayer> of_layers = {};  ///< empty: all have kv_heads of head_dim

  [[nodiscard]] KvLayer layer(std::int64_t i) const noexcept {
    return of_layers.empty() ? KvLayer{kv_heads, head_dim, head_dim} : of_layers[static_cast<std::size_t>(i)];
  }
};

/// A page holds 64 tokens of every layer: (layer, key or value, head), each as kernels/kv_page.hpp lays it out.
/// Copying a cache shares its pages; appending to a shared page copies that page first.
class KvCache {
 public:
  /// `kind` is "f32", "f16", "q8" or "q4". Throws invalid_argument naming it otherwise, and for extents below 1 or a
  /// page that no memory holds.
  KvCache(const KvShape& shape, std::string_view kind);

  [[nodiscard]] const KvShape& shape() const noexcept { return shape_; }
  /// Room for a key or value of any layer.
  [[nodiscard]] std::int64_t padded_head_dim() const noexcept { return padded_dim_; }
  /// Whether a layer's values are read from its keys.
  [[nodiscard]] bool is_latent(std::int64_t layer) const noexcept { return of(layer).value_dim == 0; }
  [[nodiscard]] std::int64_t tokens() const noexcept { return tokens_; }
  [[nodiscard]] const char* kind() const noexcept { return kv().name; }
  [[nodiscard]] std::int64_t bytes() const noexcept { return static_cast<std::int64_t>(pages_.size()) * page_bytes_; }
  [[nodiscard]] std::int64_t bytes_per_token() const noexcept { return page_bytes_ / page_tokens; }

  /// Makes room for tokens() .. tokens() + count and counts them as there; store() fills them. Throws out_of_memory,
  /// leaving the cache as it was.
  void extend(std::int64_t count);
  /// Forgets everything from `tokens` on.
  void truncate(std::int64_t tokens) noexcept;
  /// Forgets tokens first .. last; those behind take their places. Values move as they are; `turn` brings a layer's key to its
  /// new place, where it is rounded again as store() does. The team's threads call it at once; it must not throw. Throws
  /// out_of_memory, leaving the cache as it was.
  void remove(const KernelTable& kernels, Team& team, std::int64_t first, std::int64_t last, FunctionRef<void(std::int64_t layer, float* key)> turn);

  /// One head's key or value. x: as many numbers as the layer has, zeros up to the next multiple of 16. Different places may be
  /// written at once.
  void store(const KernelTable& kernels, std::int64_t layer, bool value, std::int64_t head, std::int64_t position,
             const float* x) noexcept {
    kernels.kv[kind_].store(x, place(layer, value, head, position / page_tokens), value,
                            static_cast<int>(position % page_tokens), of(layer).dim(value));
  }
  /// Brings query rows up to date with the tokens of one page, scores times `scale`. Not of latent layers.
  void attend(const KernelTable& kernels, std::int64_t layer, std::int64_t head, std::int64_t page, float scale, float softcap,
              const AttentionRows& rows) const noexcept {
    const bool more = page + 1 < page_count();
    const Place& p = of(layer);
    kernels.kv[kind_].attend({place(layer, false, head, page), place(layer, true, head, page), page * page_tokens, p.key_dim, scale,
                              more ? place(layer, false, head, page + 1) : nullptr, more ? place(layer, true, head, page + 1) : nullptr,
                              p.value_dim, softcap},
                             rows);
  }
  /// Keys, or values, of one head's page as floats, in the layout of pages of floats: the page itself when it holds
  /// floats, else written to `scratch` (64 * padded_head_dim). The first `tokens` are valid.
  [[nodiscard]] const float* expand(const KernelTable& kernels, std::int64_t layer, bool value, std::int64_t head,
                                    std::int64_t page, int tokens, float* scratch) const noexcept {
    const std::byte* from = place(layer, value, head, page);
    if (kind_ == 0) return reinterpret_cast<const float*>(from);
    kernels.kv[kind_].expand(from, value, tokens, of(layer).dim(value), scratch);
    return scratch;
  }

  /// The bytes of one page, for saving and restoring a session.
  [[nodiscard]] std::int64_t page_count() const noexcept { return static_cast<std::int64_t>(pages_.size()); }
  [[nodiscard]] std::span<std::byte> page(std::int64_t index) noexcept {
    return {pages_[static_cast<std::size_t>(index)].get(), static_cast<std::size_t>(page_bytes_)};
  }

 private:
  /// A layer's part of a page: the keys of all heads, then their values.
  struct Place {
    std::int64_t offset = 0, heads = 0;
    std::int64_t key_dim = 0, value_dim = 0;      ///< padded to a multiple of 16
    std::int64_t key_bytes = 0, value_bytes = 0;  ///< of one head
    [[nodiscard]] std::int64_t dim(bool value) const noexcept { return value ? value_dim : key_dim; }
  };
  [[nodiscard]] const KvKernels& kv() const noexcept { return kernel_tables().back()->kv[kind_]; }
  [[nodiscard]] const Place& of(std::int64_t layer) const noexcept { return places_[static_cast<std::size_t>(layer)]; }
  [[nodiscard]] std::byte* place(std::int64_t layer, bool value, std::int64_t head, std::int64_t page) const noexcept {
    const Place& p = of(layer);
    const std::int64_t in_layer = value ? p.heads * p.key_bytes + head * p.value_bytes : head * p.key_bytes;
    return pages_[static_cast<std::size_t>(page)].get() + p.offset + in_layer;
  }

  KvShape shape_;
  std::vector<Place> places_;  ///< of each layer
  std::size_t kind_ = 0;  ///< index into KernelTable::kv
  std::int64_t padded_dim_ = 0;
  std::int64_t page_bytes_ = 0;
  std::int64_t tokens_ = 0;
  std::vector<std::shared_ptr<std::byte>> pages_;
};

inline KvCache::KvCache(const KvShape& shape, std::string_view kind) : shape_(shape) {
  const auto& kinds = kernel_tables().back()->kv;
  while (kind_ < kinds.size() && kinds[kind_].name != kind) ++kind_;
  if (kind_ == kinds.size()) {
    fail(Errc::invalid_argument, "kv cache: expected f32, f16, q8 or q4, found ", printable(kind));
  }
  // Far above any model; keeps the bytes of a row from overflowing.
  constexpr std::int64_t largest_head = 1 << 20;
  if (shape.layers < 1 || shape.kv_heads < 1 || shape.head_dim < 1 || shape.head_dim > largest_head) {
    fail(Errc::invalid_argument, "kv cache: expected layers, heads and head dimension above 0, found ", shape.layers, ", ",
         shape.kv_heads, " and ", shape.head_dim);
  }
  if (!shape.of_layers.empty() && static_cast<std::int64_t>(shape.of_layers.size()) != shape.layers) {
    fail(Errc::invalid_argument, "kv cache: expected the shapes of ", shape.layers, " layers, found those of ", shape.of_layers.size());
  }
  const std::int64_t largest_bytes = kv().page_bytes(round_up<std::int64_t>(shape.head_dim, 16));
  // Throws where the largest page there could be, that of layers which all have as many heads, overflows.
  (void)checked_element_count(std::array<std::int64_t, 4>{shape.layers, 2, shape.kv_heads, largest_bytes});
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    const KvLayer l = shape.layer(layer);
    if (l.heads < 0 || l.heads > shape.kv_heads) {
      fail(Errc::invalid_argument, "kv cache: layer ", layer, ": expected 0 to ", shape.kv_heads, " heads, found ", l.heads);
    }
    if (l.heads == 0) {  // another kind of state is in its place
      places_.push_back({.offset = page_bytes_});
      continue;
    }
    if (l.key_dim < 1 || l.key_dim > shape.head_dim || l.value_dim < 0 || l.value_dim > shape.head_dim) {
      fail(Errc::invalid_argument, "kv cache: layer ", layer, ": expected keys of 1 to ", shape.head_dim, " numbers and values of no more, found ", l.key_dim, " and ", l.value_dim);
    }
    Place& p = places_.emplace_back(Place{.offset = page_bytes_, .heads = l.heads});
    p.key_dim = round_up<std::int64_t>(l.key_dim, 16);
    p.value_dim = round_up<std::int64_t>(l.value_dim, 16);
    p.key_bytes = kv().page_bytes(p.key_dim);
    p.value_bytes = p.value_dim > 0 ? kv().page_bytes(p.value_dim) : 0;
    padded_dim_ = std::max({padded_dim_, p.key_dim, p.value_dim});
    page_bytes_ += p.heads * (p.key_bytes + p.value_bytes);
  }
}

inline void KvCache::extend(std::int64_t count) {
  BANTAM_ASSERT(count >= 0);
  const std::int64_t needed = div_up<std::int64_t>(tokens_ + count, page_tokens);
  std::vector<std::shared_ptr<std::byte>> pages = pages_;
  const auto last = static_cast<std::size_t>(tokens_ / page_tokens);
  // Two owners are this list and its copy; a third is another session.
  if (tokens_ % page_tokens != 0 && pages[last].use_count() > 2) {
    auto copy = allocate_storage(static_cast<std::size_t>(page_bytes_));
    std::copy_n(pages[last].get(), page_bytes_, copy.get());
    pages[last] = std::move(copy);
  }
  while (static_cast<std::int64_t>(pages.size()) < needed) pages.push_back(allocate_storage(static_cast<std::size_t>(page_bytes_)));
  pages_ = std::move(pages);
  tokens_ += count;
}

inline void KvCache::truncate(std::int64_t tokens) noexcept {
  if (tokens >= tokens_) return;
  tokens_ = tokens;
  pages_.resize(static_cast<std::size_t>(div_up<std::int64_t>(tokens, page_tokens)));
}

}  // namespace bantam::inline v0::nn
