// The 16-bit floating-point types against their definition.
#include "bantam/core/half.hpp"

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "bantam/core/random.hpp"
#include "reference/half.hpp"
#include "support.hpp"

using bantam::bf16;
using bantam::f16;
namespace reference = bantam::reference;

namespace {

/// One 16-bit type: its conversions here, and the exponent bits that define it.
struct Kind {
  const char* name;
  int exponent_bits;
  float (*decode)(std::uint16_t);
  std::uint16_t (*encode)(float);
};

const Kind kinds[] = {
    {"f16", 5, [](std::uint16_t bits) { return float(f16::from_bits(bits)); }, [](float x) { return f16(x).bits; }},
    {"bf16", 8, [](std::uint16_t bits) { return float(bf16::from_bits(bits)); }, [](float x) { return bf16(x).bits; }},
};

}  // namespace

TEST_CASE("every pattern of a half decodes to its value and encodes back to itself") {
  for (const Kind& kind : kinds) {
    CAPTURE(std::string(kind.name));
    int wrong = 0;
    for (int pattern = 0; pattern < 65536; ++pattern) {
      const auto bits = static_cast<std::uint16_t>(pattern);
      const double expected = reference::decode_half(bits, kind.exponent_bits);
      const float found = kind.decode(bits);
      if (std::isnan(expected)) {
        // NaN comes back as a quiet NaN of the same sign.
        const std::uint16_t back = kind.encode(found);
        wrong += !std::isnan(found) || !std::isnan(reference::decode_half(back, kind.exponent_bits)) || ((back ^ bits) & 0x8000) != 0;
      } else {
        wrong += static_cast<double>(found) != expected || std::signbit(found) != std::signbit(expected) || kind.encode(found) != bits;
      }
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("halfway between two halves the even one wins, and next to halfway the nearer one") {
  for (const Kind& kind : kinds) {
    CAPTURE(std::string(kind.name));
    const int infinity = ((1 << kind.exponent_bits) - 1) << (15 - kind.exponent_bits);
    int wrong = 0;
    for (int pattern = 0; pattern + 1 < infinity; ++pattern) {
      const double low = reference::decode_half(static_cast<std::uint16_t>(pattern), kind.exponent_bits);
      const double high = reference::decode_half(static_cast<std::uint16_t>(pattern + 1), kind.exponent_bits);
      const auto middle = static_cast<float>((low + high) / 2);  // one bit more than a half holds: exact in f32
      const int even = pattern % 2 == 0 ? pattern : pattern + 1;
      for (const int sign : {0, 0x8000}) {
        const float direction = sign != 0 ? -1.0f : 1.0f;
        wrong += kind.encode(direction * middle) != (even | sign);
        wrong += kind.encode(direction * std::nextafter(middle, 0.0f)) != (pattern | sign);
        wrong += kind.encode(direction * std::nextafter(middle, std::numeric_limits<float>::infinity())) != ((pattern + 1) | sign);
      }
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("any float becomes the nearest half") {
  bantam::Random random(1);
  for (const Kind& kind : kinds) {
    CAPTURE(std::string(kind.name));
    int wrong = 0;
    for (int i = 0; i < 200000; ++i) {
      const auto x = std::bit_cast<float>(static_cast<std::uint32_t>(random.next()));
      if (std::isnan(x)) continue;
      wrong += kind.encode(x) != reference::encode_half(static_cast<double>(x), kind.exponent_bits);
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("floats beyond the largest half become infinite from half a step on") {
  CHECK(f16(65504.0f).bits == 0x7bff);
  CHECK(f16(std::nextafter(65520.0f, 0.0f)).bits == 0x7bff);
  CHECK(f16(65520.0f).bits == 0x7c00);
  CHECK(f16(-1e30f).bits == 0xfc00);
  CHECK(bf16(std::numeric_limits<float>::max()).bits == 0x7f80);
  CHECK(bf16(-std::numeric_limits<float>::infinity()).bits == 0xff80);
}

TEST_CASE("halves compare by value") {
  CHECK(f16(0.0f) == f16(-0.0f));
  CHECK_FALSE(f16::from_bits(0x7e00) == f16::from_bits(0x7e00));
  CHECK_FALSE(bf16(1.0f) == bf16(1.01f));
}
