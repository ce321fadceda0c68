// Keys and values of the tokens so far, in pages that sessions share until one of them writes, the oldest outside of memory where that is bounded.
#pragma once

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bantam/core/error.hpp"
#include "bantam/core/memory.hpp"
#include "bantam/core/team.hpp"
#include "bantam/kernels/table.hpp"
#include "bantam/nn/page_store.hpp"
#include "bantam/tensor/shape.hpp"

namespace bantam::inline v0::nn {

/// What a layer keeps of a token.
struct KvLayer {
  std::int64_t heads = 0;  ///< 0: it keeps none
  std::int64_t key_dim = 0;
  std::int64_t value_dim = 0;  ///< 0: values are read from the keys (latent attention)
  std::int64_t window = 0;     ///< tokens that see it, from its own on; 0: all
  std::int64_t latent_dim = 0;  ///< where values are read from the keys: their last numbers, so many
  std::int64_t index_dim = 0;   ///< of the key that an indexer chooses the token by (blocks/indexer.hpp); 0: there is none
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
///
/// Within a bound of memory the oldest pages go to a store, where they stay as they are, and the layer that is at work finds what its rows see of
/// them in one of two slots, the next layer's being read into the other meanwhile. Where two layers' do not fit, what a layer has comes in stretches,
/// one being read while the one before is at work. Tokens that are written are always in memory.
class KvCache {
 public:
  /// Neighboring pages of a layer that are in memory together.
  struct Stretch {
    static constexpr std::int64_t no_end = std::numeric_limits<std::int64_t>::max();
    std::int64_t number = 0;  ///< among those of the layer
    std::int64_t first = 0, end = no_end;  ///< pages; those behind the store's are in the last one
  };
  /// All but the first begin at a multiple of so many pages.
  static constexpr std::int64_t stretch_pages = 8;

  /// `kind`: a name of KvKinds ("f32", "f16", "q8", "q4", "q3"). Throws invalid_argument naming it otherwise, and for extents below 1 or a
  /// page that no memory holds.
  KvCache(const KvShape& shape, std::string_view kind);

  [[nodiscard]] const KvShape& shape() const noexcept { return shape_; }
  /// Room for a key or value of any layer.
  [[nodiscard]] std::int64_t padded_head_dim() const noexcept { return padded_dim_; }
  /// Whether a layer's values are read from its keys.
  [[nodiscard]] bool is_latent(std::int64_t layer) const noexcept { return of(layer).value_dim == 0; }
  [[nodiscard]] std::int64_t tokens() const noexcept { return tokens_; }
  [[nodiscard]] const char* kind() const noexcept { return kv().name; }
  /// In memory: pages, and slots for those that are not.
  [[nodiscard]] std::int64_t bytes() const noexcept { return (page_count() - stored_pages()) * page_bytes_ + slots_.bytes(); }
  [[nodiscard]] std::int64_t bytes_per_token() const noexcept { return page_bytes_ / page_tokens; }

  /// From now on takes no more than `bytes` of memory, as extend() is called: older pages go to `store`, which has pages of parts(). Copies do the
  /// same, each for itself. Throws invalid_argument unless `bytes` are above 0.
  void keep_within(std::int64_t bytes, std::shared_ptr<PageStore> store);
  /// The same within another bound, with the store that there is.
  void keep_within(std::int64_t bytes) noexcept { bound_ = bytes; }
  /// What it keeps within.
  [[nodiscard]] std::int64_t bound() const noexcept { return bound_; }
  /// What each layer has of a page.
  [[nodiscard]] std::vector<PagePart> parts() const;
  /// Memory of a text of `tokens`, all of which is in it.
  [[nodiscard]] std::int64_t memory_bytes(std::int64_t tokens) const noexcept { return memory_of(div_up<std::int64_t>(tokens, page_tokens), {}); }
  /// Memory below which keep_within() has no room for `tokens`, appended in passes of at most `at_once`.
  [[nodiscard]] std::int64_t least_bytes(std::int64_t tokens, std::int64_t at_once) const noexcept;
  /// Bytes of a text of `tokens` that are not in memory, within a bound that has room for it.
  [[nodiscard]] std::int64_t stored_bytes(std::int64_t tokens, std::int64_t bound) const noexcept;
  /// Pages in the store: the first of all.
  [[nodiscard]] std::int64_t stored_pages() const noexcept { return std::ssize(stored_); }
  [[nodiscard]] std::int64_t page_bytes() const noexcept { return page_bytes_; }
  /// What the store has of this and others; null: there is none.
  [[nodiscard]] const PageStore* store() const noexcept { return store_.get(); }

  /// Brings what rows from token `position` on see of layer layers[at] into memory, if it is not there, until the next call, and begins to read the
  /// same for what comes next, `layers` being in the order in which a pass asks for them, pass after pass. Where that comes in stretches, the one of
  /// this number; false: there are no so many, and nothing was done. Throws what reading throws.
  bool acquire(std::span<const std::int64_t> layers, std::size_t at, std::int64_t position, std::int64_t number = 0);
  /// What acquire() brought, of all tokens that extend() made room for.
  [[nodiscard]] const Stretch& stretch() const noexcept { return stretch_; }

  /// Makes room for tokens() .. tokens() + count and counts them as there; store() fills them. Throws out_of_memory, and what
  /// the store throws, leaving the cache as it was.
  void extend(std::int64_t count);
  /// Forgets everything from `tokens` on.
  void truncate(std::int64_t tokens) noexcept;
  /// Forgets tokens first .. last; those behind take their places. Values move as they are; `turn` brings a layer's key to its
  /// new place, where it is rounded again as store() does. The team's threads call it at once; it must not throw. Throws
  /// as extend() does, leaving the cache as it was.
  void remove(const KernelTable& kernels, Team& team, std::int64_t first, std::int64_t last, FunctionRef<void(std::int64_t layer, float* key)> turn);

  /// Numbers of a layer's keys, or of its values, that its pages have rotated (KernelTable::rotate_blocks): queries are rotated likewise, and sums of
  /// values back. The largest power of two that divides what a head has; where values are read from the keys, both. 1: none.
  [[nodiscard]] std::int64_t rotation_block(std::int64_t layer, bool value) const noexcept { return value ? of(layer).value_block : of(layer).key_block; }
  /// One head's key or value. x: as many numbers as the layer has, zeros up to the next multiple of 16. Different places may be
  /// written at once.
  void store(const KernelTable& kernels, std::int64_t layer, bool value, std::int64_t head, std::int64_t position,
             const float* x) noexcept {
    kernels.kv[kind_].store(x, place(layer, value, head, position / page_tokens), value,
                            static_cast<int>(position % page_tokens), of(layer).dim(value), rotation_block(layer, value));
  }
  /// Brings query rows up to date with the tokens of one page, scores times `scale`. Not of latent layers.
  void attend(const KernelTable& kernels, std::int64_t layer, std::int64_t head, std::int64_t page, float scale, float softcap,
              const AttentionRows& rows) const noexcept {
    const bool more = page + 1 < page_count() && page + 1 < stretch_.end;
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
    return expand_from(kernels, of(layer), value, place(layer, value, head, page), tokens, scratch);
  }

  // Keys that an indexer chooses tokens by: floats where all keys are, else halves, for less would choose others.
  /// x: as many numbers as the layer has, zeros up to the next multiple of 16. Different tokens may be written at once.
  void store_index(const KernelTable& kernels, std::int64_t layer, std::int64_t position, const float* x) noexcept {
    const Place& p = of(layer);
    kernels.kv[index_kind()].store(x, index_place(layer, position / page_tokens), false, static_cast<int>(position % page_tokens), p.index_dim, 1);
  }
  /// Those of a page, as expand() gives keys. scratch: (64 * padded dim).
  [[nodiscard]] const float* expand_index(const KernelTable& kernels, std::int64_t layer, std::int64_t page, int tokens, float* scratch) const noexcept {
    const std::byte* const from = index_place(layer, page);
    if (index_kind() == 0) return reinterpret_cast<const float*>(from);
    kernels.kv[index_kind()].expand(from, false, tokens, of(layer).index_dim, scratch);
    return scratch;
  }

  /// The bytes of one page, for saving and restoring a session.
  [[nodiscard]] std::int64_t page_count() const noexcept { return static_cast<std::int64_t>(pages_.size()); }
  /// To write; it is in memory.
  [[nodiscard]] std::span<std::byte> page(std::int64_t index) noexcept {
    BANTAM_ASSERT(index >= stored_pages());
    return {pages_[static_cast<std::size_t>(index)].get(), static_cast<std::size_t>(page_bytes_)};
  }
  /// To read, wherever it is: of the store's it is in `scratch`, which is made when it is needed. Throws what the store throws.
  [[nodiscard]] std::span<const std::byte> read_page(std::int64_t index, std::shared_ptr<std::byte>& scratch) const;

 private:
  /// A layer's part of a page: the keys of all heads, then their values, and those of an indexer.
  struct Place {
    std::int64_t offset = 0, heads = 0;
    std::int64_t key_dim = 0, value_dim = 0;      ///< padded to a multiple of 16
    std::int64_t key_bytes = 0, value_bytes = 0;  ///< of one head
    std::int64_t key_numbers = 0;                 ///< before padding
    std::int64_t key_block = 1, value_block = 1;  ///< rotation_block()
    std::int64_t window = 0;
    std::int64_t index_dim = 0, index_bytes = 0;  ///< padded as the others
    [[nodiscard]] std::int64_t dim(bool value) const noexcept { return value ? value_dim : key_dim; }
    [[nodiscard]] std::int64_t bytes() const noexcept { return heads * (key_bytes + value_bytes) + index_bytes; }
    /// Where a head's keys or values begin in it.
    [[nodiscard]] std::int64_t inside(bool value, std::int64_t head) const noexcept { return value ? heads * key_bytes + head * value_bytes : head * key_bytes; }
  };
  /// A layer's part of some neighboring pages of the store.
  struct Slot {
    std::int64_t layer = -1;
    std::int64_t first = 0;              ///< number of the first page
    std::vector<PageStore::Page> pages;  ///< kept as long as they are read
    std::shared_ptr<std::byte> memory;
    std::int64_t room = 0;  ///< bytes of it
    std::int64_t used = 0;  ///< and those that pages are read to
    std::unique_ptr<PageStore::Read> read;  ///< last: its end comes before the memory's. Null: there is nothing
  };
  /// Two of them, made when they are needed. A copy of a cache has its own.
  class Slots {
   public:
    Slots() = default;
    Slots(const Slots&) noexcept {}
    Slots& operator=(const Slots&) noexcept { return reset(), *this; }
    Slots(Slots&&) = default;
    Slots& operator=(Slots&&) = default;
    ~Slots() = default;

    void reset() noexcept { both_.reset(); }
    [[nodiscard]] std::array<Slot, 2>& make() {
      if (both_ == nullptr) both_ = std::make_unique<std::array<Slot, 2>>();
      return *both_;
    }
    /// What acquire() brought is in this one.
    [[nodiscard]] Slot& at_work() const noexcept { return (*both_)[at_work_]; }
    [[nodiscard]] Slot& other() const noexcept { return (*both_)[1 - at_work_]; }
    void work_on(const Slot& slot) noexcept { at_work_ = &slot == &(*both_)[1] ? 1 : 0; }
    [[nodiscard]] std::int64_t bytes() const noexcept { return both_ == nullptr ? 0 : (*both_)[0].used + (*both_)[1].used; }

   private:
    std::unique_ptr<std::array<Slot, 2>> both_;
    std::size_t at_work_ = 0;
  };

  [[nodiscard]] const KvKernels& kv() const noexcept { return kernel_tables().back()->kv[kind_]; }
  [[nodiscard]] std::size_t index_kind() const noexcept { return kind_ == 0 ? 0 : 1; }
  [[nodiscard]] const Place& of(std::int64_t layer) const noexcept { return places_[static_cast<std::size_t>(layer)]; }
  [[nodiscard]] std::byte* place(std::int64_t layer, std::int64_t page) const noexcept {
    std::byte* const memory = pages_[static_cast<std::size_t>(page)].get();
    return memory != nullptr ? memory + of(layer).offset : in_slot(layer, page);
  }
  [[nodiscard]] std::byte* place(std::int64_t layer, bool value, std::int64_t head, std::int64_t page) const noexcept { return place(layer, page) + of(layer).inside(value, head); }
  [[nodiscard]] std::byte* index_place(std::int64_t layer, std::int64_t page) const noexcept { return place(layer, page) + of(layer).bytes() - of(layer).index_bytes; }
  /// A layer's part of a page that acquire() has brought.
  [[nodiscard]] std::byte* in_slot(std::int64_t layer, std::int64_t page) const noexcept {
    const Slot& slot = slots_.at_work();
    BANTAM_ASSERT(slot.layer == layer && page >= slot.first && page - slot.first < std::ssize(slot.pages));
    return slot.memory.get() + (page - slot.first) * PageStore::step_of(of(layer).bytes());
  }
  [[nodiscard]] const float* expand_from(const KernelTable& kernels, const Place& p, bool value, const std::byte* from, int tokens, float* scratch) const noexcept {
    if (kind_ == 0) return reinterpret_cast<const float*>(from);
    kernels.kv[kind_].expand(from, value, tokens, p.dim(value), scratch);
    return scratch;
  }
  [[nodiscard]] std::int64_t first_seen(std::int64_t layer, std::int64_t position) const noexcept;
  [[nodiscard]] std::optional<Stretch> stretch_of(std::int64_t layer, std::int64_t position, std::int64_t number) const noexcept;
  [[nodiscard]] std::span<const PageStore::Page> stored_in(const Stretch& stretch) const noexcept;
  [[nodiscard]] Slot* holder_of(std::int64_t layer, const Stretch& stretch) noexcept;
  void begin(Slot& slot, std::int64_t layer, const Stretch& stretch);
  void read_ahead(std::span<const std::int64_t> layers, std::size_t at, std::int64_t position);
  /// Memory that a slot takes. From some size on it is mapped on its own, in large pages, so that what grows leaves nothing in the heap.
  static constexpr std::int64_t mapped_slot = 1 << 20;
  [[nodiscard]] static constexpr std::int64_t slot_bytes(std::int64_t bytes) noexcept { return bytes < mapped_slot ? bytes : round_up(bytes, huge_page_bytes); }
  /// How a text is divided between memory and the store.
  struct Division {
    std::int64_t stored = 0;   ///< pages; negative: no division fits
    std::int64_t at_once = 0;  ///< pages of a stretch; 0: layers come whole
  };
  [[nodiscard]] std::int64_t memory_of(std::int64_t pages, const Division& division) const noexcept;
  [[nodiscard]] Division division_of(std::int64_t pages, std::int64_t most, std::int64_t bound) const noexcept;
  [[nodiscard]] std::int64_t stored_of(std::int64_t pages, std::int64_t most, std::int64_t at_once, std::int64_t bound) const noexcept;
  [[nodiscard]] std::int64_t pages_at_once(std::int64_t pages, std::int64_t most, std::int64_t bound) const noexcept;
  void fetch(std::int64_t stored);
  std::vector<std::shared_ptr<std::byte>> spill(std::int64_t stored);

  KvShape shape_;
  std::vector<Place> places_;  ///< of each layer
  std::size_t kind_ = 0;  ///< index into KernelTable::kv
  std::int64_t padded_dim_ = 0;
  std::int64_t page_bytes_ = 0;
  std::int64_t tokens_ = 0;
  std::vector<std::shared_ptr<std::byte>> pages_;  ///< null: in the store
  std::shared_ptr<PageStore> store_;     ///< null: all pages are in memory
  std::int64_t bound_ = 0;               ///< of memory
  std::int64_t at_once_ = 0;             ///< Division::at_once
  Stretch stretch_;                      ///< of the layer at work
  std::vector<PageStore::Page> stored_;  ///< the first pages
  Slots slots_;
};

/// The names of all kinds, or what files call their pages, as a message lists them.
[[nodiscard]] inline std::string kv_kind_list(const char* KvKernels::*name) {
  const auto& kinds = kernel_tables().back()->kv;
  std::string list;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    list += i == 0 ? "" : i + 1 == kinds.size() ? " or " : ", ";
    list += kinds[i].*name;
  }
  return list;
}

inline KvCache::KvCache(const KvShape& shape, std::string_view kind) : shape_(shape) {
  const auto& kinds = kernel_tables().back()->kv;
  while (kind_ < kinds.size() && kinds[kind_].name != kind) ++kind_;
  if (kind_ == kinds.size()) fail(Errc::invalid_argument, "kv cache: expected ", kv_kind_list(&KvKernels::name), ", found ", printable(kind));
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
    p.window = l.window;
    p.key_bytes = kv().page_bytes(p.key_dim);
    p.value_bytes = p.value_dim > 0 ? kv().page_bytes(p.value_dim) : 0;
    p.key_numbers = l.key_dim;
    if (kv().rotates) {
      const auto block = [](std::int64_t numbers) { return std::min(largest_rotation, numbers & -numbers); };
      if (l.value_dim > 0 || l.latent_dim > 0) p.key_block = block(l.key_dim | l.latent_dim);
      if (l.value_dim > 0) p.value_block = block(l.value_dim);
      if (l.latent_dim > 0) p.value_block = p.key_block;
    }
    if (l.index_dim > 0) {
      p.index_dim = round_up<std::int64_t>(l.index_dim, 16);
      p.index_bytes = kernel_tables().back()->kv[index_kind()].page_bytes(p.index_dim);
    }
    padded_dim_ = std::max({padded_dim_, p.key_dim, p.value_dim});
    page_bytes_ += p.bytes();
  }
}

inline std::int64_t KvCache::least_bytes(std::int64_t tokens, std::int64_t at_once) const noexcept {
  const std::int64_t pages = div_up<std::int64_t>(tokens, page_tokens);
  // A pass may begin and end within a page. Between none in the store and as many as can be, it rises or falls throughout.
  const std::int64_t most = std::max<std::int64_t>(0, tokens - at_once - page_tokens + 1) / page_tokens;
  return std::min({memory_of(pages, {}), memory_of(pages, {most, 0}), memory_of(pages, {most, stretch_pages})});
}

inline std::int64_t KvCache::memory_of(std::int64_t pages, const Division& division) const noexcept {
  const auto [stored, at_once] = division;
  std::int64_t largest = 0, layers = 0;
  for (const Place& p : places_) {
    std::int64_t seen = p.window > 0 ? std::min(stored, div_up<std::int64_t>(p.window, page_tokens) + 1) : stored;
    if (at_once > 0) seen = std::min(seen, at_once);
    largest = std::max(largest, seen * PageStore::step_of(p.bytes()));
    layers += p.heads > 0;
  }
  // Of a single layer that comes whole there is nothing to read ahead.
  return (pages - stored) * page_bytes_ + (at_once > 0 ? 2 : std::min<std::int64_t>(layers, 2)) * slot_bytes(largest);
}

/// The fewest of the first `most` pages of so many that have to be in the store; negative: none will do.
inline std::int64_t KvCache::stored_of(std::int64_t pages, std::int64_t most, std::int64_t at_once, std::int64_t bound) const noexcept {
  // From where they are: this is asked for each token.
  std::int64_t stored = std::min(stored_pages(), most);
  while (stored < most && memory_of(pages, {stored, at_once}) > bound) ++stored;
  while (stored > 0 && memory_of(pages, {stored - 1, at_once}) <= bound) --stored;
  return memory_of(pages, {stored, at_once}) <= bound ? stored : -1;
}

/// Pages of a stretch, where layers do not come whole: slots get a quarter of the bound, the rest is for pages that need not be read. As stretches end
/// where those of the pass before did, what was read ahead is of use: their length changes in large steps.
inline std::int64_t KvCache::pages_at_once(std::int64_t pages, std::int64_t most, std::int64_t bound) const noexcept {
  std::int64_t at_once = stretch_pages;
  const std::int64_t resident = (pages - most) * page_bytes_;
  const auto fits = [&](std::int64_t more) {
    const std::int64_t slots = memory_of(pages, {most, more}) - resident;
    return slots <= bound / 4 && resident + slots <= bound;
  };
  while (2 * at_once < most && fits(2 * at_once)) at_once *= 2;
  return at_once;
}

/// With the first `most` pages of so many in the store, or fewer. Whole layers, where they fit: then the next is read while all of this one is computed.
inline KvCache::Division KvCache::division_of(std::int64_t pages, std::int64_t most, std::int64_t bound) const noexcept {
  if (const std::int64_t stored = stored_of(pages, most, 0, bound); stored >= 0) return {stored, 0};
  const std::int64_t at_once = pages_at_once(pages, most, bound);
  return {stored_of(pages, most, at_once, bound), at_once};
}

/// Pages beyond the first `stored` come back into memory.
inline void KvCache::fetch(std::int64_t stored) {
  for (; stored_pages() > stored; stored_.pop_back()) {
    std::shared_ptr<std::byte> page = allocate_storage(static_cast<std::size_t>(page_bytes_));
    store_->get(stored_.back(), page.get());
    pages_[stored_.size() - 1] = std::move(page);
  }
}

/// The first pages, so many, go to the store. Returns the memory that nobody else has a use for.
inline std::vector<std::shared_ptr<std::byte>> KvCache::spill(std::int64_t stored) {
  std::vector<std::shared_ptr<std::byte>> left;
  if (stored <= stored_pages()) return left;
  std::vector<const std::byte*> pages;
  for (std::int64_t i = stored_pages(); i < stored; ++i) pages.push_back(pages_[static_cast<std::size_t>(i)].get());
  stored_.reserve(static_cast<std::size_t>(stored));
  left.reserve(pages.size());
  std::vector<PageStore::Page> there = store_->put(pages);
  for (PageStore::Page& page : there) {
    std::shared_ptr<std::byte> memory = std::move(pages_[stored_.size()]);
    if (memory.use_count() == 1) left.push_back(std::move(memory));
    stored_.push_back(std::move(page));
  }
  return left;
}

inline std::span<const std::byte> KvCache::read_page(std::int64_t index, std::shared_ptr<std::byte>& scratch) const {
  const auto i = static_cast<std::size_t>(index), bytes = static_cast<std::size_t>(page_bytes_);
  if (pages_[i] != nullptr) return {pages_[i].get(), bytes};
  if (scratch == nullptr) scratch = allocate_storage(bytes);
  store_->get(stored_[i], scratch.get());
  return {scratch.get(), bytes};
}

inline void KvCache::extend(std::int64_t count) {
  BANTAM_ASSERT(count >= 0);
  if (count == 0) return;
  const std::int64_t needed = div_up<std::int64_t>(tokens_ + count, page_tokens), last = tokens_ / page_tokens;
  std::vector<std::shared_ptr<std::byte>> more;
  if (store_ != nullptr) {
    const auto [stored, at_once] = division_of(needed, last, bound_);
    if (stored < 0) {
      fail(Errc::out_of_memory, "keys and values: expected room for at least ", least_bytes(tokens_ + count, count), " bytes: the pages of a pass of ", count, " tokens, and twice ",
           stretch_pages * page_tokens, " of a layer's others of ", tokens_ + count, ", found ", bound_);
    }
    // A text that was cut, or whose layers do not come whole any more, needs less of them.
    if (stored < stored_pages() || (at_once > 0 && at_once != at_once_)) slots_.reset();
    at_once_ = at_once;
    stretch_ = {};
    fetch(stored);
    // Used again at once: what is given back, the heap may keep.
    more = spill(stored);
    for (auto& page : more) std::fill_n(page.get(), page_bytes_, std::byte{});
  }
  pages_.reserve(static_cast<std::size_t>(needed));
  // Another session has it, too.
  if (tokens_ % page_tokens != 0 && pages_.back().use_count() > 1) {
    auto copy = allocate_storage(static_cast<std::size_t>(page_bytes_));
    std::copy_n(pages_.back().get(), page_bytes_, copy.get());
    pages_.back() = std::move(copy);
  }
  more.resize(static_cast<std::size_t>(needed - page_count()));
  for (auto& page : more) {
    if (page == nullptr) page = allocate_storage(static_cast<std::size_t>(page_bytes_));
  }
  std::ranges::move(more, std::back_inserter(pages_));
  tokens_ += count;
}

inline void KvCache::truncate(std::int64_t tokens) noexcept {
  if (tokens >= tokens_) return;
  tokens_ = tokens;
  pages_.resize(static_cast<std::size_t>(div_up<std::int64_t>(tokens, page_tokens)));
  if (stored_.size() > pages_.size()) stored_.resize(pages_.size());
}

}  // namespace bantam::inline v0::nn
