// The list of formats: names, numbers, sizes, and where every byte lies.
#include "bantam/quant/formats.hpp"

#include <map>
#include <set>
#include <string>

#include "bantam/quant/format_info.hpp"
#include "support.hpp"

using bantam::find_format;
using bantam::FormatInfo;
using bantam::formats;
using bantam::Strip16;
using bantam::test::error_of;

TEST_CASE("every format is found by its name in any case, and by its number") {
  std::set<std::string> names;
  std::set<int> ids;
  for (const FormatInfo& info : formats()) {
    CAPTURE(std::string(info.name));
    std::string upper(info.name);
    for (char& c : upper) c = static_cast<char>(std::toupper(c));
    CHECK(&find_format(info.name) == &info);
    CHECK(&find_format(upper) == &info);
    CHECK(find_format(info.id) == &info);
    CHECK(entry_for(formats(), info) == &info);
    CHECK(names.insert(std::string(info.name)).second);
    CHECK(ids.insert(static_cast<int>(info.id)).second);
  }
  CHECK(static_cast<int>(formats().size()) == bantam::Formats::size);
  CHECK(find_format(bantam::FormatId{0xffff}) == nullptr);
}

TEST_CASE("numbers on disk stay what they are") {
  // Written into files: this table only grows.
  const std::map<int, std::string> numbers = {
      {0x01, "f32"},     {0x02, "f16"},     {0x03, "bf16"},     {0x10, "i8.row"},  {0x11, "i8.g128"},   {0x12, "i8.g32"},
      {0x20, "i4.g32"},  {0x21, "i4.g64"},  {0x22, "i4.g128"},  {0x28, "i4z.g32"}, {0x29, "i4z.g64"},   {0x2a, "i4z.g128"},
      {0x2c, "i4m.g32"}, {0x30, "nf4.g64"}, {0x31, "nf4dq.g64"}, {0x32, "fp4.g64"}, {0x33, "fp4dq.g64"}, {0x37, "nf4w.g64"}, {0x38, "fp4w.g64"},
      {0x24, "i4x.g32"}, {0x34, "iq4nl.g32"}, {0x35, "mxfp4.g32"}, {0x3e, "nvfp4.g16"}, {0x36, "iq4xs.g32"}, {0x40, "i3.g32"}, {0x41, "i3.g64"},
      {0x42, "i3.g128"}, {0x48, "i3z.g32"}, {0x49, "i3z.g64"}, {0x4a, "i3z.g128"}, {0x50, "i2z.g32"}, {0x51, "i2z.g64"},
      {0x52, "i2z.g128"}, {0x58, "i5.g32"}, {0x5c, "i5m.g32"}, {0x62, "q2k.g16"}, {0x63, "q3k.g16"}, {0x64, "q4k.g32"},
      {0x65, "q5k.g32"}, {0x66, "q6k.g16"}, {0x3a, "iq2.g16"}, {0x3b, "iq2.g32"}, {0x3c, "iq3xxs.g32"}, {0x3d, "iq3s.g32"},
      {0x70, "i4s.g64"}, {0x71, "i8s.g64"}, {0x72, "i4b.g128"}, {0x83, "t1h.g128"}, {0x84, "t2.g128"}, {0x94, "t2.g64"}, {0x85, "t2h.g128"}, {0x86, "t3.g128"}};
  CHECK(numbers.size() == formats().size());
  for (const auto& [number, name] : numbers) {
    const FormatInfo* info = find_format(static_cast<bantam::FormatId>(number));
    REQUIRE(info != nullptr);
    CHECK(info->name == name);
  }
}

TEST_CASE("families, groups and other projects' names find their format") {
  CHECK(find_format("q4_0").name == "i4.g32");
  CHECK(find_format("Q8_0").name == "i8.g32");
  CHECK(find_format("q4_1").name == "i4m.g32");
  CHECK(find_format("int8").name == "i8.g32");
  CHECK(find_format("int8", 0).name == "i8.row");
  CHECK(find_format("i8", 128).name == "i8.g128");
  CHECK(find_format("q4").name == "i4.g32");
  CHECK(find_format("q4", 64).name == "i4.g64");
  CHECK(find_format("int4.g128").name == "i4.g128");
  CHECK(find_format("int4:128").name == "i4.g128");
  CHECK(find_format("i4z-64").name == "i4z.g64");
  CHECK(find_format("nf4").name == "nf4.g64");
  CHECK(find_format("NF4", 64).name == "nf4.g64");
  CHECK(find_format("nf4dq").name == "nf4dq.g64");
  CHECK(find_format("fp4").name == "fp4.g64");
  CHECK(find_format("fp16").name == "f16");
  CHECK(find_format("bfloat16", 0).name == "bf16");
  CHECK(find_format("q4_0", 32).name == "i4.g32");
  CHECK(find_format("q4_K").name == "q4k.g32");
  CHECK(find_format("Q5_1").name == "i5m.g32");
  CHECK(find_format("int3", 128).name == "i3.g128");
  CHECK(find_format("int2", 64).name == "i2z.g64");
  CHECK(find_format("iq4_xs").name == "iq4xs.g32");
  CHECK(find_format("i4b").name == "i4b.g128");
}

TEST_CASE("unknown formats and groups are refused with a few that may have been meant") {
  for (const auto& [name, group] : std::map<std::string, int>{
           {"q9_k", -1}, {"", -1}, {"i4", 48}, {"nf4", 32}, {"q4_0", 64}, {"i4.g32.g32", -1}, {".", -1}, {"i4.", -1}, {"a\nb", -1}}) {
    CAPTURE(name);
    const std::string text = error_of([&, &name = name, &group = group] { (void)find_format(name, group); });
    CHECK(text.starts_with("format: expected "));
    CHECK(text.size() < 200);
    CHECK(text.find(", found " + bantam::printable(name)) != std::string::npos);
  }
  CHECK(error_of([] { (void)find_format(std::string(100000, 'x')); }).size() < 600);
  CHECK(error_of([] { (void)find_format("i4", 48); }) == "format: expected i4.g32, i4.g64, i4.g128, found i4 with group 48");
  CHECK(error_of([] { (void)find_format("nf5.g64"); }).find("; did you mean nf4.g64") != std::string::npos);
  constexpr std::string_view others[] = {"Q4_K_M"};
  CHECK(error_of([&] { (void)find_format("q4_km", -1, others); }).find("; did you mean Q4_K_M, ") != std::string::npos);
}

TEST_CASE("bits per weight are those of the design") {
  const std::map<std::string, double> expected = {
      {"f32", 32},          {"f16", 16},      {"bf16", 16},      {"i8.row", 8 + 32.0 / 4096}, {"i8.g128", 8.125},
      {"i8.g32", 8.5},      {"i4.g32", 4.5},  {"i4.g64", 4.25},  {"i4.g128", 4.125},          {"i4z.g32", 4.75},
      {"i4z.g64", 4.375},   {"i4z.g128", 4.1875}, {"i4m.g32", 5}, {"nf4.g64", 4.25},          {"fp4.g64", 4.25},
      // GGUF's own sizes.
      {"i5.g32", 5.5}, {"i5m.g32", 6}, {"q2k.g16", 2.625}, {"q3k.g16", 3.4375}, {"q4k.g32", 4.5}, {"q5k.g32", 5.5},
      {"q6k.g16", 6.5625}, {"iq4nl.g32", 4.5}, {"iq4xs.g32", 4.25}, {"mxfp4.g32", 4.25}, {"nvfp4.g16", 4.5 + 32.0 / 4096}, {"i4x.g32", 4.25}, {"i3.g128", 3.125},
      {"i3z.g128", 3.1875}, {"i2z.g64", 2.375}, {"iq2.g16", 4.4375}, {"iq2.g32", 4.25}, {"iq3xxs.g32", 4.25}, {"iq3s.g32", 4.25}, {"nf4w.g64", 4.5}, {"fp4w.g64", 4.5},
      // Half of the codes; a number of 4 bits for every four, or a bit for every block of 64, which fills a line up to 64 bytes.
      {"t1h.g128", 1.625}, {"t2.g128", 2.125}, {"t2.g64", 2.25}, {"t2h.g128", 2.625}, {"t3.g128", 3.125},
      {"i4s.g64", 2 + 1 + 0.25}, {"i8s.g64", 4 + 1 + 0.25}, {"i4b.g128", 2 + 0.125 + 0.0625},
      // A byte every 64 weights and two f32 a row of 4096.
      {"nf4dq.g64", 4.125 + 64.0 / 4096}, {"fp4dq.g64", 4.125 + 64.0 / 4096}};
  for (const auto& [name, bits] : expected) {
    CAPTURE(name);
    CHECK(find_format(name).bits_per_weight == bits);
  }
}

TEST_CASE("every part of a panel begins at a multiple of 64 bytes, and parts do not overlap") {
  bantam::for_each_format([](auto format) {
    using F = typename decltype(format)::type;
    using L = Strip16<F>;
    CAPTURE(std::string(F::name));
    CHECK(L::header % 64 == 0);
    CHECK(L::column_unit % 4 == 0);
    CHECK(bantam::block_columns % L::column_unit == 0);
    for (int k = L::column_unit; k <= bantam::block_columns; k += L::column_unit) {
      CAPTURE(k);
      CHECK(L::plane_at(k, 0) % 64 == 0);
      CHECK(L::plane_at(k, 1) % 64 == 0);
      CHECK(L::block_bytes(k) % 64 == 0);
      CHECK(L::scales_at(k, 2) <= L::zeros_at(k, 0));
      CHECK(L::zeros_at(k, 2) <= L::kept_at(k, 0));
      CHECK(L::kept_at(k, 2) <= L::plane_at(k, 0));
      CHECK(L::plane_at(k, 2) <= L::block_bytes(k));
    }
    for (const std::int64_t columns : {1, 4, 31, 32, 33, 64, 100, 172, 256, 257, 300, 1000}) {
      CAPTURE(columns);
      CHECK(L::panel_bytes(columns) % 64 == 0);
      CHECK(L::padded_columns(columns) >= columns);
      CHECK(L::padded_columns(columns) - columns < L::column_unit);
      CHECK(L::matrix_bytes(33, columns) == 2 * L::panel_bytes(columns));
    }
    CHECK(L::matrix_bytes(0, 100) == 0);
  });
}

TEST_CASE("every bit of a code has a place of its own inside its plane, and none is left over") {
  bantam::for_each_format([](auto format) {
    using F = typename decltype(format)::type;
    using L = Strip16<F>;
    CAPTURE(std::string(F::name));
    if constexpr (L::two_of_four || L::half_of_blocks || L::trellis) return;  // not every code has a place: below, and in trellis_test.cpp
    const int k = L::column_unit;
    std::set<std::int64_t> bits;
    for (int row = 0; row < bantam::strip_rows; ++row) {
      for (int column = 0; column < k; ++column) {
        if constexpr (L::two_of_four) {
          continue;
        } else if constexpr (L::bits == 0) {
          for (int bit = 0; bit < F::Plane::bits; ++bit) bits.insert(L::code_at(row, column) * 8 + bit);
        } else {
          bantam::detail::for_lines_of<L::bits>(row, column, [&](std::int64_t at, int first, std::uint32_t mask, int) {
            for (int bit = 0; bit < std::popcount(mask & 255u); ++bit) bits.insert((at + column % 4) * 8 + first + bit);
          });
        }
      }
    }
    CHECK(static_cast<int>(bits.size()) == bantam::strip_rows * k * F::Plane::bits);
    CHECK(*bits.begin() == 0);
    CHECK(*bits.rbegin() == L::plane_bytes(k) * 8 - 1);
  });
}

TEST_CASE("int4 bytes lie as docs/formats.md draws them") {
  // Row 17 of the panel: strip 1, lane 1. 300 columns: a block of 256 and one of 64.
  using F = bantam::Int<4, 32>;
  std::vector<std::byte> panel(static_cast<std::size_t>(Strip16<F>::panel_bytes(300)));
  bantam::RowCodes codes;
  codes.codes.assign(320, 8);
  codes.sides.assign(10, {.scale = 1.0f});
  codes.codes[5] = 3;    // line 0, high nibble (column 4 + 1)
  codes.codes[263] = 9;  // second block, column 7
  codes.sides[1].scale = 2.0f;
  codes.sides[9].scale = -0.5f;
  bantam::store_codes<F>(panel.data(), 17, 300, codes);
  // First block: 8 groups of 16 halves a strip.
  const std::size_t planes = 2 * 8 * 32;
  const std::size_t second_plane = planes + 256 * 16 / 2;
  CHECK(panel[second_plane + 4 * 1 + 1] == std::byte{0x38});
  CHECK(panel[second_plane + 4 * 1 + 0] == std::byte{0x88});
  const std::size_t scale = 8 * 32 + 1 * 32 + 1 * 2;  // strip 1, group 1, lane 1
  CHECK(panel[scale] == std::byte{0x00});
  CHECK(panel[scale + 1] == std::byte{0x40});  // 2.0 as f16
  // Second block: 2 groups a strip, 128 bytes of scales, then the planes.
  const std::size_t block = planes + 256 * 16;
  CHECK(panel[block + 2 * 32 + 1 * 32 + 2 + 1] == std::byte{0xb8});  // -0.5
  CHECK(panel[block + 128 + 64 * 16 / 2 + 4 * 1 + 3] == std::byte{0x98});
}

TEST_CASE("two of four lie as docs/formats.md draws them") {
  // Row 17 of the panel: strip 1, lane 1. One block of 64 columns: two units, 128 bytes of scales before the planes.
  bantam::RowCodes codes;
  codes.sides = {{.scale = 1.0f}};
  codes.codes.assign(64, 8);
  const auto put = [&](std::size_t column, int code) { codes.codes[column] = static_cast<std::int8_t>(code); };
  put(1, 3), put(3, 9);            // four 0: number 4; low nibbles of bytes 0 and 1 of the first line of codes
  put(12, 15), put(13, 1);         // four 3: number 0; high nibbles of bytes 2 and 3
  put(36, 5), put(37, 6), put(38, 15);  // unit 1, four 1: three; 15 and 5 are furthest from 8, number 1
  using Int4 = bantam::Int4Pairs;
  std::vector<std::byte> panel(static_cast<std::size_t>(Strip16<Int4>::panel_bytes(64)));
  bantam::store_codes<Int4>(panel.data(), 17, 64, codes);
  const std::size_t strip = 2 * 32 + 64 * 16 * 3 / 8, line = 64, lane = 4 * 1;
  CHECK(panel[strip + lane] == std::byte{0x04});
  CHECK(panel[strip + lane + 1] == std::byte{0x00});
  CHECK(panel[strip + line + lane] == std::byte{0x0b});      // 3 xor 8
  CHECK(panel[strip + line + lane + 1] == std::byte{0x01});  // 9 xor 8
  CHECK(panel[strip + line + lane + 2] == std::byte{0x70});
  CHECK(panel[strip + line + lane + 3] == std::byte{0x90});
  const std::size_t unit = strip + 3 * line;
  CHECK(panel[unit + lane] == std::byte{0x10});
  CHECK(panel[unit + line + lane + 2] == std::byte{0x0d});
  CHECK(panel[unit + line + lane + 3] == std::byte{0x07});

  using Int8 = bantam::Int8Pairs;
  codes.codes.assign(64, 0);
  put(22, -128), put(23, 7);  // four 5: number 5; bytes 2 and 3 of the third line of codes
  panel.assign(static_cast<std::size_t>(Strip16<Int8>::panel_bytes(64)), {});
  bantam::store_codes<Int8>(panel.data(), 17, 64, codes);
  const std::size_t wide = 2 * 32 + 64 * 16 * 5 / 8;
  CHECK(panel[wide + lane + 2] == std::byte{0x50});
  CHECK(panel[wide + 3 * line + lane + 2] == std::byte{0x80});
  CHECK(panel[wide + 3 * line + lane + 3] == std::byte{0x07});
}

TEST_CASE("half of blocks lie as docs/formats.md draws them") {
  // Row 17 of 18: strip 1, lane 1. Blocks 2, 3 .. 17 of 32 hold something, by row 16; of them row 17 fills 4 and 17.
  using F = bantam::Int4Blocks;
  std::vector<std::byte> panel(static_cast<std::size_t>(Strip16<F>::panel_bytes(128)));
  std::vector<float> rows(18 * 128, 0.0f);
  for (std::size_t block = 2; block < 18; ++block) rows[16 * 128 + block * 4] = 1;
  bantam::keep_part<F>(panel.data(), 128, rows);
  bantam::RowCodes codes;
  codes.sides = {{.scale = 1.0f}};
  codes.codes.assign(128, 8);
  codes.codes[4 * 4 + 2] = 3;
  codes.codes[17 * 4] = 15;
  codes.codes[0] = 1;  // in a block that is not kept: lost
  bantam::store_codes<F>(panel.data(), 17, 128, codes);
  const std::size_t kept = 2 * 32;
  CHECK(bantam::detail::load_as<std::uint32_t>(panel.data() + kept) == 0xffff0000);  // of nothing the last
  CHECK(bantam::detail::load_as<std::uint32_t>(panel.data() + kept + 4) == 0x0003fffc);
  const std::size_t strip = 128 + 512, lane = 4 * 1;
  CHECK(panel[strip + 64 + lane + 2] == std::byte{0x83});       // third of those kept: line 1, low
  CHECK(panel[strip + 7 * 64 + lane] == std::byte{0xf8});       // last: line 7, high
  CHECK(panel[strip + lane] == std::byte{0x88});
}
