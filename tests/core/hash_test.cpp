// Keyed hashing.
#include "bantam/core/hash.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

using namespace bantam;

namespace {

template <class Set>
std::size_t fullest_bucket(const Set& set) {
  std::size_t most = 0;
  for (std::size_t i = 0; i < set.bucket_count(); ++i) most = std::max(most, set.bucket_size(i));
  return most;
}

/// Of random keys the fullest of 20753 buckets has about 8; the chance of 32 is below 10^-20.
constexpr std::size_t full = 32;
/// A prime that libstdc++ gives to tables of 10274 to 20753 entries.
constexpr std::size_t buckets = 20753;

}  // namespace

TEST_CASE("sip hash gives the values of its authors' test vectors") {
  // Appendix A of the paper: the key 00 .. 0f, the message 00 .. 0e.
  std::string message;
  for (int i = 0; i < 15; ++i) message += static_cast<char>(i);
  constexpr HashKey key{0x0706050403020100, 0x0f0e0d0c0b0a0908};
  CHECK(sip_hash<2, 4>(message, key) == 0xa129ca6149be45e5);
  // The first of the reference implementation's list: nothing at all.
  CHECK(sip_hash<2, 4>("", key) == 0x726fdb47dd0e0e31);
}

TEST_CASE("numbers that share a bucket of the standard library's set do not share one of ours") {
  std::unordered_set<std::uint64_t> plain;
  HashSet<std::uint64_t> keyed;
  for (std::uint64_t i = 0; i < 20'000; ++i) {
    plain.insert(i * buckets);
    keyed.insert(i * buckets);
  }
  REQUIRE(plain.bucket_count() == buckets);
  CHECK(fullest_bucket(plain) == 20'000);
  CHECK(fullest_bucket(keyed) < full);
}

TEST_CASE("texts that share a bucket of the standard library's set do not share one of ours") {
  // The standard library's hash of 8 bytes, run backwards from multiples of the number of buckets.
  constexpr std::uint64_t mul = 0xc6a4a7935bd1e995, inverse = 0x5f7a0ea7e59b19bd;
  static_assert(mul * inverse == 1);
  const auto fold = [](std::uint64_t v) { return v ^ (v >> 47); };
  std::vector<std::string> texts;
  for (std::uint64_t hash = 0; texts.size() < 20'000; hash += buckets) {
    const std::uint64_t mixed = fold(fold(hash) * inverse) * inverse ^ (0xc70f6907 ^ (8 * mul));
    const std::uint64_t word = fold(mixed * inverse) * inverse;
    std::string text(8, '\0');
    std::memcpy(text.data(), &word, 8);
    if (std::ranges::all_of(text, [](char c) { return c >= ' '; })) texts.push_back(std::move(text));
  }
  const std::unordered_set<std::string> plain(texts.begin(), texts.end(), buckets);
  HashSet<std::string> keyed(buckets);
  for (const std::string& text : texts) keyed.insert(text);
  CHECK(fullest_bucket(plain) == plain.size());
  CHECK(fullest_bucket(keyed) < full);
  CHECK(keyed.contains(std::string_view(texts.front())));
}

TEST_CASE("the key is one for the process and not one that is known") {
  CHECK(process_hash_key().low == process_hash_key().low);
  CHECK(process_hash_key().low != process_hash_key().high);
  CHECK((process_hash_key().low | process_hash_key().high) != 0);
  CHECK(KeyedHash()("text") == KeyedHash()("text"));
  CHECK(KeyedHash()(7) != KeyedHash()(8));
}
