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
  return std::max<std::int64_t>(0, stored_of(pages, pages, bound)) * page_bytes_;
}

/// The first page that rows from `position` on see of a layer.
std::int64_t KvCache::first_seen(std::int64_t layer, std::int64_t position) const noexcept {
  const Place& p = of(layer);
  if (p.heads == 0) return page_count();
  return p.window > 0 ? std::max<std::int64_t>(0, position - p.window + 1) / page_tokens : 0;
}

/// Whether a slot has what these rows see of the store's pages, or will have it.
bool KvCache::holds(const Slot& slot, std::int64_t layer, std::int64_t position) const noexcept {
  const std::int64_t first = first_seen(layer, position);
  return slot.read != nullptr && slot.layer == layer && slot.first == first && std::ranges::equal(slot.pages, std::span(stored_).subspan(static_cast<std::size_t>(first)));
}

void KvCache::begin(Slot& slot, std::int64_t layer, std::int64_t position) {
  slot.read = nullptr;
  slot.layer = layer;
  slot.first = first_seen(layer, position);
  slot.pages.assign(stored_.begin() + static_cast<std::ptrdiff_t>(slot.first), stored_.end());
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

void KvCache::acquire(std::span<const std::int64_t> layers, std::size_t at, std::int64_t position) {
  if (stored_.empty()) return slots_.reset();
  std::array<Slot, 2>& slots = slots_.make();
  const auto holder_of = [&](std::int64_t layer) {
    const auto found = std::ranges::find_if(slots, [&](const Slot& slot) { return holds(slot, layer, position); });
    return found == slots.end() ? nullptr : &*found;
  };
  // One that has other pages of the layer, before it is found in the place of the right one.
  const auto slot_for = [&](std::int64_t layer, const Slot* taken) -> Slot& {
    const auto same = std::ranges::find(slots, layer, &Slot::layer);
    return same != slots.end() ? *same : &slots[0] == taken ? slots[1] : slots[0];
  };
  const auto sees = [&](std::int64_t layer) { return first_seen(layer, position) < stored_pages(); };
  const std::int64_t layer = layers[at];
  Slot* current = sees(layer) ? holder_of(layer) : nullptr;
  if (current != nullptr) {
    try {
      current->read->wait();
    } catch (const Error&) {  // what went wrong while it was read ahead may be over by now
      current->read = nullptr;
      current = nullptr;
    }
  }
  if (current == nullptr && sees(layer)) {
    current = &slot_for(layer, nullptr);
    begin(*current, layer, position);
    try {
      current->read->wait();
    } catch (...) {
      current->read = nullptr;
      throw;
    }
  }
  for (std::size_t i = 1; i < layers.size(); ++i) {
    const std::int64_t next = layers[(at + i) % layers.size()];
    if (next == layer || !sees(next)) continue;
    if (holder_of(next) == nullptr) begin(slot_for(next, current), next, position);
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
