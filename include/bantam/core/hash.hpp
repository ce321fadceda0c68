// Keyed hashing: nobody can build a file whose names or ids share a bucket, for the key is drawn anew in each process.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace bantam::inline v0 {

/// 128 random bits.
struct HashKey {
  std::uint64_t low;
  std::uint64_t high;
};

/// The key of this process, drawn from the system when it is first asked for.
[[nodiscard]] HashKey process_hash_key() noexcept;

/// SipHash with `compressions` rounds a word and `finalizations` at the end (Aumasson and Bernstein 2012).
template <int compressions, int finalizations>
[[nodiscard]] std::uint64_t sip_hash(std::string_view text, const HashKey& key) noexcept {
  std::uint64_t a = key.low ^ 0x736f6d6570736575, b = key.high ^ 0x646f72616e646f6d;
  std::uint64_t c = key.low ^ 0x6c7967656e657261, d = key.high ^ 0x7465646279746573;
  const auto rounds = [&](int count) {
    const auto turn = [](std::uint64_t x, int by) { return x << by | x >> (64 - by); };
    for (int i = 0; i < count; ++i) {
      a += b, b = turn(b, 13) ^ a, a = turn(a, 32);
      c += d, d = turn(d, 16) ^ c;
      a += d, d = turn(d, 21) ^ a;
      c += b, b = turn(b, 17) ^ c, c = turn(c, 32);
    }
  };
  const auto add = [&](std::uint64_t word) {
    d ^= word;
    rounds(compressions);
    a ^= word;
  };
  std::size_t at = 0;
  for (; at + 8 <= text.size(); at += 8) {
    std::uint64_t word;
    std::memcpy(&word, text.data() + at, 8);
    add(word);
  }
  // The bytes that are left: in two loads, which may overlap, rather than one by one.
  const std::size_t left = text.size() - at;
  const auto load = [&](auto part, std::size_t from) {
    std::memcpy(&part, text.data() + at + from, sizeof part);
    return std::uint64_t{part};
  };
  std::uint64_t last = static_cast<std::uint64_t>(text.size()) << 56;
  if (left >= 4) {
    last |= load(std::uint32_t{}, 0) | load(std::uint32_t{}, left - 4) << 8 * (left - 4);
  } else if (left >= 2) {
    last |= load(std::uint16_t{}, 0) | load(std::uint16_t{}, left - 2) << 8 * (left - 2);
  } else if (left == 1) {
    last |= load(std::uint8_t{}, 0);
  }
  add(last);
  c ^= 0xff;
  rounds(finalizations);
  return a ^ b ^ c ^ d;
}

/// What maps hash keys from files with. Texts: SipHash-1-3, as Python and Rust do. Numbers: both halves of a product of 128 bits
/// with two secrets, five cycles, which nobody can invert who does not see the hashes.
class KeyedHash {
 public:
  using is_transparent = void;

  KeyedHash() noexcept : key_(process_hash_key()) {}
  // Not noexcept: libstdc++ then keeps the hash beside the entry instead of computing it again.
  [[nodiscard]] std::size_t operator()(std::string_view text) const { return sip_hash<1, 3>(text, key_); }
  template <std::integral T>
  [[nodiscard]] std::size_t operator()(T number) const noexcept {
    __extension__ using Wide = unsigned __int128;
    const Wide product = static_cast<Wide>(static_cast<std::uint64_t>(number) ^ key_.low) * (key_.high | 1);
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  }

 private:
  HashKey key_;
};

/// Fills a table that lies beyond the caches: visit(i, hash) for i = 0 to count - 1, each some steps after the slot of its hash, an
/// address, has been asked for.
template <class HashOf, class SlotOf, class Visit>
void visit_hashed(std::size_t count, const HashOf& hash_of, const SlotOf& slot_of, const Visit& visit) {
  constexpr std::size_t ahead = 16;
  std::array<std::uint64_t, ahead> hashes{};
  for (std::size_t i = 0; i < count + ahead; ++i) {
    std::uint64_t& hash = hashes[i % ahead];
    if (i >= ahead) visit(i - ahead, hash);
    if (i >= count) continue;
    hash = hash_of(i);
    __builtin_prefetch(slot_of(hash));
  }
}

/// The library's only hash maps and sets (tests/layers/check_layers.py). The order of their entries differs from run to run.
template <class Key, class T>
using HashMap = std::unordered_map<Key, T, KeyedHash, std::equal_to<>>;
template <class Key>
using HashSet = std::unordered_set<Key, KeyedHash, std::equal_to<>>;

}  // namespace bantam::inline v0
