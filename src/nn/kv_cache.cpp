// Pages of a cache that are not in memory, and taking tokens out of the middle.
#include "bantam/nn/kv_cache.hpp"

#include <cstring>

#include "bantam/kernels/kv_page.hpp"

namespace bantam::inline v0::nn {

namespace {

/// Copies the value of one token to a place in another page, bit for bit.
template <class Kv>
void copy_value(const std::byte* from, std::int64_t from_token, std::byte* to, std::int64_t to_token, std::int64_t head_dim) noexcept {
  const std::int64_t numbers = head_dim * Kv::bits / 8, scales = div_up<std::int64_t>(head_dim, 32) * Kv::scale_bytes, behind = kernels::kv_number_bytes<Kv>(head_dim);
  std::memcpy(to + to_token * numbers, from + from_token * numbers, static_cast<std::size_t>(numbers));
  std::memcpy(to + behind + to_token * scales, from + behind + from_token * scales, static_cast<std::size_t>(scales));
}

template <class... Kv>
constexpr std::array<decltype(&copy_value<KvF32>), sizeof...(Kv)> copies_of(KvList<Kv...>) {
  return {copy_value<Kv>...};
}
/// In the order of KernelTable::kv.
constexpr auto copies = copies_of(KvKinds{});

}  // namespace

void KvCache::keep_within(std::int64_t bytes, std::shared_ptr<PageStore> store) {
  if (bytes < 1) fail(Errc::invalid_argument, "keys and values: expected a bound above 0 bytes, found ", bytes);
  store_ = std::move(store);
  bound_ = bytes;
}

std::vector<PagePart> KvCache::parts() const {
  std::vector<PagePart> parts;
  for (const Place& p : places_) parts.push_back({p.offset, p.bytes()});
  return parts;
}

std::int64_t KvCache::stored_bytes(std::int64_t tokens, std::int64_t bound) const noexcept {
  const std::int64_t pages = div_up<std::int64_t>(tokens, page_tokens);
  return std::max<std::int64_t>(0, division_of(pages, pages, bound).stored) * page_bytes_;
}

/// The first page that rows from `position` on see of a layer.
std::int64_t KvCache::first_seen(std::int64_t layer, std::int64_t position) const noexcept {
  const Place& p = of(layer);
  if (p.heads == 0) return page_count();
  return p.window > 0 ? std::max<std::int64_t>(0, position - p.window + 1) / page_tokens : 0;
}

/// What rows from `position` on see of a layer, or as much of it as comes in one stretch.
std::optional<KvCache::Stretch> KvCache::stretch_of(std::int64_t layer, std::int64_t position, std::int64_t number) const noexcept {
  const std::int64_t first = first_seen(layer, position);
  if (at_once_ == 0 || first >= stored_pages()) return number == 0 ? std::optional(Stretch{.first = first}) : std::nullopt;
  const std::int64_t begin = first / stretch_pages * stretch_pages + number * at_once_, end = begin + at_once_;
  if (number > 0 && begin >= stored_pages()) return std::nullopt;
  return Stretch{number, std::max(first, begin), end < stored_pages() ? end : Stretch::no_end};
}

std::span<const PageStore::Page> KvCache::stored_in(const Stretch& stretch) const noexcept {
  const auto first = static_cast<std::size_t>(std::min(stretch.first, stored_pages())), end = static_cast<std::size_t>(std::min(stretch.end, stored_pages()));
  return std::span(stored_).subspan(first, end - first);
}

/// The slot that has the store's pages of a stretch, or will have them.
KvCache::Slot* KvCache::holder_of(std::int64_t layer, const Stretch& stretch) noexcept {
  for (Slot* slot : {&slots_.at_work(), &slots_.other()}) {
    if (slot->read != nullptr && slot->layer == layer && slot->first == stretch.first && std::ranges::equal(slot->pages, stored_in(stretch))) return slot;
  }
  return nullptr;
}

void KvCache::begin(Slot& slot, std::int64_t layer, const Stretch& stretch) {
  slot.read = nullptr;
  slot.layer = layer;
  slot.first = stretch.first;
  const std::span<const PageStore::Page> pages = stored_in(stretch);
  slot.pages.assign(pages.begin(), pages.end());
  slot.used = std::ssize(slot.pages) * PageStore::step_of(of(layer).bytes());
  if (slot.used > slot.room) {
    slot.memory = nullptr;
    slot.room = 0;
    // Texts grow. Memory that nobody touches costs nothing.
    const std::int64_t room = slot.used < mapped_slot ? slot.used : std::max(slot.used + slot.used / 8, 2 * huge_page_bytes);
    slot.memory = allocate_blocks(static_cast<std::size_t>(room));
    slot.room = room;
  }
  slot.read = store_->read(static_cast<std::size_t>(layer), slot.pages, slot.memory.get());
}

bool KvCache::acquire(std::span<const std::int64_t> layers, std::size_t at, std::int64_t position, std::int64_t number) {
  if (stored_.empty()) {
    slots_.reset();
    return number == 0;
  }
  const std::int64_t layer = layers[at];
  const std::optional<Stretch> wanted = stretch_of(layer, position, number);
  if (!wanted) return false;
  (void)slots_.make();
  if (wanted->first < stored_pages()) {
    Slot* slot = holder_of(layer, *wanted);
    if (slot != nullptr) {
      try {
        slot->read->wait();
      } catch (const Error&) {  // what went wrong while it was read ahead may be over by now
        slot->read = nullptr;
        slot = nullptr;
      }
    }
    if (slot == nullptr) {
      slot = &slots_.at_work();
      begin(*slot, layer, *wanted);
      try {
        slot->read->wait();
      } catch (...) {
        slot->read = nullptr;
        throw;
      }
    }
    slots_.work_on(*slot);
  }
  stretch_ = *wanted;
  read_ahead(layers, at, position);
  return true;
}

/// Begins to read what comes behind the stretch at work.
void KvCache::read_ahead(std::span<const std::int64_t> layers, std::size_t at, std::int64_t position) {
  if (const std::optional<Stretch> next = stretch_of(layers[at], position, stretch_.number + 1)) {
    if (holder_of(layers[at], *next) == nullptr) begin(slots_.other(), layers[at], *next);
    return;
  }
  for (std::size_t i = 1; i <= layers.size(); ++i) {
    const std::int64_t layer = layers[(at + i) % layers.size()];
    const Stretch next = *stretch_of(layer, position, 0);
    if (next.first >= stored_pages()) continue;
    const Slot* const holder = holder_of(layer, next);
    if (holder == &slots_.at_work() && layer == layers[at]) continue;  // and will be
    if (holder == nullptr) begin(slots_.other(), layer, next);
    return;
  }
}

void KvCache::remove(const KernelTable& kernels, Team& team, std::int64_t first, std::int64_t last, FunctionRef<void(std::int64_t layer, float* key)> turn) {
  BANTAM_ASSERT(first >= 0 && first <= last && last <= tokens_);
  if (last == tokens_) return truncate(first);
  // While there are two of it, this one may be in the way.
  if (store_ != nullptr && 2 * bytes() > bound_) {
    slots_.reset();
    (void)spill(page_count());
  }
  // Pages in front of `first` are shared with what this was; what is written goes to pages of its own.
  KvCache moved = *this;
  moved.truncate(first);
  // Of each worker: a page of keys, and one key.
  const std::int64_t room = (page_tokens + 1) * padded_dim_;
  std::vector<float> scratch(static_cast<std::size_t>(team.size() * room));
  std::shared_ptr<std::byte> page_room;
  for (std::int64_t token = last; token < tokens_;) {
    const std::int64_t page = token / page_tokens, end = std::min(tokens_, (page + 1) * page_tokens);
    const std::byte* const from = read_page(page, page_room).data();
    moved.extend(end - token);
    team.deal(shape_.layers, 1, [&](Range layers, int worker) {
      float* const room_of_keys = scratch.data() + worker * room;
      float* const key = room_of_keys + page_tokens * padded_dim_;
      for (std::int64_t layer = layers.begin; layer < layers.end; ++layer) {
        const Place& p = of(layer);
        for (std::int64_t head = 0; head < p.heads; ++head) {
          const float* const keys = expand_from(kernels, p, false, from + p.offset + p.inside(false, head), static_cast<int>(end - page * page_tokens), room_of_keys);
          for (std::int64_t t = token; t < end; ++t) {
            const std::int64_t inside = t % page_tokens, to = t - (last - first);
            for (std::int64_t i = 0; i < p.key_dim; ++i) key[i] = keys[i * page_tokens + inside];
            kernels.rotate_blocks(key, p.key_dim, p.key_block);
            std::fill(key + p.key_numbers, key + p.key_dim, 0.0F);  // which levels are not
            turn(layer, key);
            moved.store(kernels, layer, false, head, to, key);
            if (is_latent(layer)) continue;
            copies[kind_](from + p.offset + p.inside(true, head), inside, moved.place(layer, true, head, to / page_tokens), to % page_tokens, p.value_dim);
          }
        }
      }
    });
    token = end;
  }
  *this = std::move(moved);
}

}  // namespace bantam::inline v0::nn
