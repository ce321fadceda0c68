// GGUF files that must be refused, and limits that hold while they are read.
#include "bantam/io/gguf.hpp"

#include <bit>
#include <limits>

#include "hostile/allocation_meter.hpp"
#include "hostile/gguf_builder.hpp"
#include "hostile/hostile_file.hpp"

namespace {

using namespace bantam::test;
using bantam::GgufFile;

auto hostile_gguf() {
  return HostileFile("bad.gguf", [](const std::filesystem::path& path) { return GgufFile::open(path); });
}

GgufBuilder with_magic(std::string magic) {
  GgufBuilder builder = small_gguf();
  builder.magic = std::move(magic);
  return builder;
}
GgufBuilder with_version(std::uint32_t version) {
  GgufBuilder builder = small_gguf();
  builder.version = version;
  return builder;
}
GgufBuilder with_counts(std::optional<std::uint64_t> tensors, std::optional<std::uint64_t> keys) {
  GgufBuilder builder = small_gguf();
  builder.tensor_count = tensors;
  builder.key_count = keys;
  return builder;
}

std::string pair_with_key(std::string_view key) { return small_gguf().key(key, true).bytes(); }
std::string value(std::uint32_t kind, std::string_view payload) { return small_gguf().raw_key("bad", kind, payload).bytes(); }
std::string array(std::uint32_t kind, std::uint64_t count, std::string_view payload = {}) {
  return value(gguf_array, little(kind) + little(count) + std::string(payload));
}
std::string tensor(std::string_view name, const std::vector<std::int64_t>& dimensions, std::uint32_t type = 0,
                   std::string_view data = std::string_view("\0\0\0\0", 4)) {
  return small_gguf().tensor(name, dimensions, type, data).bytes();
}
// One tensor of 8 floats at `first`, one at `second`, 64 bytes of data.
std::string placed(std::uint64_t first, std::uint64_t second) {
  const auto entry = [](std::string_view name, std::uint64_t offset) {
    return GgufBuilder::text(name) + little<std::uint32_t>(1) + little<std::int64_t>(8) + little<std::uint32_t>(0) + little(offset);
  };
  return GgufBuilder().raw_tensor(entry("a", first)).raw_tensor(entry("b", second)).raw_data(std::string(64, 'x')).bytes();
}

std::vector<HostileCase> gguf_header_cases() {
  const std::uint64_t two60 = std::uint64_t{1} << 60;
  const std::uint64_t largest = std::numeric_limits<std::uint64_t>::max();
  const std::string pair_start = small_gguf().bytes().substr(0, 8) + little<std::uint64_t>(0) + little<std::uint64_t>(1);
  std::vector<HostileCase> cases = {
      {"empty file", "", "4 bytes of the magic"},
      {"other magic", with_magic("GGML").bytes(), "expected 'GGUF', found 'GGML'"},
      {"reversed magic", with_magic("FUGG").bytes(), "expected 'GGUF'"},
      {"version 0", with_version(0).bytes(), "found 0"},
      {"version 1", with_version(1).bytes(), "expected version 2 or 3, found 1"},
      {"future version", with_version(4).bytes(), "found 4"},
      {"big-endian version 3", with_version(0x03000000).bytes(), "big-endian"},
      {"big-endian version 2", with_version(0x02000000).bytes(), "big-endian"},
      {"key length 0", pair_with_key(""), "an empty one"},
      {"key length 2^64-1", pair_start + little(largest) + "abcdefgh", "expected 18446744073709551615 bytes of a key"},
      {"key longer than the file", pair_start + little<std::uint64_t>(100) + "abcdefgh", "100 bytes of a key"},
      {"key with a zero", pair_with_key(std::string_view("a\0b", 3)), "a zero byte"},
      {"key of other bytes", pair_with_key("a\xff"), "no utf-8"},
      {"key of an overlong form", pair_with_key("a\xc0\x80"), "no utf-8"},
      {"key of a surrogate", pair_with_key("a\xed\xa0\x80"), "no utf-8"},
      {"key beyond unicode", pair_with_key("a\xf4\x90\x80\x80"), "no utf-8"},
      {"key cut within a letter", pair_with_key("a\xe2\x96"), "no utf-8"},
      {"key of 65536 bytes", pair_with_key(std::string(65536, 'k')), "at most 65535 bytes"},
      {"key with a line break and wrong type", small_gguf().raw_key("a\nb", 99, "").bytes(), "a\\x0ab"},
      {"key twice", small_gguf().key("general.name", "again").bytes(), "expected once, found twice"},
      {"key twice of other kind", small_gguf().key("general.name", true).bytes(), "expected once, found twice"},
  };
  for (const std::uint64_t count : {largest, largest >> 1, two60, std::uint64_t{1} << 63, std::uint64_t{1000}}) {
    cases.push_back({"n_tensors " + std::to_string(count), with_counts(count, {}).bytes(), std::to_string(count) + " tensors"});
    cases.push_back({"n_kv " + std::to_string(count), with_counts({}, count).bytes(), std::to_string(count) + " keys"});
  }
  return cases;
}

std::vector<HostileCase> value_cases() {
  const std::uint64_t largest = std::numeric_limits<std::uint64_t>::max();
  return {
      {"value type 13", value(13, little<std::uint64_t>(0)), "value type of 0 to 12, found 13"},
      {"value type -1", value(0xffffffff, ""), "found 4294967295"},
      {"array of arrays", array(gguf_array, 1, little<std::uint32_t>(0) + little<std::uint64_t>(0)), "array of arrays"},
      {"array of type 13", array(13, 1), "element type of 0 to 12, found 13"},
      {"empty array of type 13", array(13, 0), "element type of 0 to 12"},
      {"array of 2^63 bytes", array(gguf_u8, std::uint64_t{1} << 63), "9223372036854775808 elements"},
      {"array of 2^61 numbers, whose bytes wrap", array(gguf_u64, std::uint64_t{1} << 61), "elements of at least 8 bytes"},
      {"array of 2^64-1 texts", array(gguf_text, largest), "elements of at least 8 bytes"},
      {"array of 2^60 truth values", array(gguf_bool, std::uint64_t{1} << 60), "elements of at least 1 bytes"},
      {"text longer than the file", value(gguf_text, little<std::uint64_t>(1 << 20) + "abc"), "1048576 bytes of"},
      {"text of 2^64-1 bytes", value(gguf_text, little(largest) + "abc"), "18446744073709551615 bytes of"},
      {"text of 2^63 bytes in an array", array(gguf_text, 1, little(std::uint64_t{1} << 63)), "9223372036854775808 bytes of"},
      {"truth value 2", value(gguf_bool, "\2"), "0 or 1, found 2"},
      {"truth value 255 in an array", array(gguf_bool, 2, "\1\xff"), "0 or 1, found 255"},
      {"number of 2^63 in an array", array(gguf_u64, 1, little(std::uint64_t{1} << 63)), "below 2^63"},
      {"alignment 0", small_gguf().key("general.alignment", std::uint32_t{0}).bytes(), "power of two up to 1048576, found 0"},
      {"alignment 3", small_gguf().key("general.alignment", std::uint32_t{3}).bytes(), "found 3"},
      {"alignment 7", small_gguf().key("general.alignment", std::uint32_t{7}).bytes(), "found 7"},
      {"alignment 2^31", small_gguf().key("general.alignment", std::uint32_t{1} << 31).bytes(), "found 2147483648"},
      {"alignment of 64 bits", small_gguf().key("general.alignment", std::uint64_t{32}).bytes(), "expected a 32-bit number"},
      {"alignment as text", small_gguf().key("general.alignment", "32").bytes(), "found a text"},
      {"another alignment than the data has", small_gguf().key("general.alignment", std::uint32_t{1024}).bytes(), "bytes at offset 2048 + 0, the file has"},
  };
}

std::vector<HostileCase> gguf_tensor_cases() {
  const std::int64_t two31 = std::int64_t{1} << 31;
  const std::int64_t two32 = std::int64_t{1} << 32;
  const std::int64_t largest = std::numeric_limits<std::int64_t>::max();
  const auto dimensions = [](std::uint32_t count) {
    return small_gguf().raw_tensor(GgufBuilder::text("bad") + little(count) + std::string(64, '\0')).bytes();
  };
  std::vector<HostileCase> cases = {
      {"no tensor name", tensor("", {1}), "an empty one"},
      {"tensor name of 64 bytes", tensor(std::string(64, 'n'), {1}), "at most 63 bytes, found 64"},
      {"tensor name with a zero", tensor(std::string_view("a\0b", 3), {1}), "a zero byte"},
      {"tensor name of other bytes", tensor("a\xfe", {1}), "no utf-8"},
      {"tensor name that climbs", tensor("a/../../b", {1}), "a path that climbs"},
      {"tensor name twice", tensor("output_norm.weight", {1}), "expected once, found twice"},
      {"5 dimensions", dimensions(5), "at most 4 dimensions, found 5"},
      {"2^32-1 dimensions", dimensions(0xffffffff), "found 4294967295"},
      {"negative dimension", tensor("bad", {-1}), "found -1"},
      {"least dimension", tensor("bad", {1, std::numeric_limits<std::int64_t>::min()}), "dimension 1"},
      {"2^32 x 2^32", tensor("bad", {two32, two32}), "product is more"},
      {"2^31 x 2^31 x 4", tensor("bad", {two31, two31, 4}), "product is more"},
      {"bytes that wrap to -16", tensor("bad", {4, (1 << 30) - 1, (1 << 30) + 1}), "product is more"},
      {"bytes that wrap to 0", tensor("bad", {std::int64_t{1} << 62}), "product is more"},
      {"exactly 2^63-1 elements", tensor("bad", {largest}), "product is more"},
      {"2^63-1 bytes", tensor("bad", {largest}, 24), "9223372036854775807 bytes at offset"},
      {"overflow next to a zero", tensor("bad", {0, two32, two32}), "product is more"},
      {"an exabyte in blocks", tensor("bad", {std::int64_t{1} << 62}, 2), "bytes at offset"},
      {"31 elements in blocks of 32", tensor("bad", {31}, 8, std::string(34, 'x')), "multiple of 32 elements for Q8_0, found 31"},
      {"32 elements in blocks of 256", tensor("bad", {32, 8}, 14, std::string(210, 'x')), "multiple of 256 elements for Q6_K"},
      {"no dimension in blocks", tensor("bad", {}, 8, std::string(34, 'x')), "multiple of 32"},
      {"offset that is not aligned", placed(0, 33), "expected its data at offset 32, found 33"},
      {"tensors that overlap", placed(0, 0), "expected its data at offset 32, found 0"},
      {"a gap between tensors", placed(0, 64), "expected its data at offset 32, found 64"},
      {"a gap before tensors", placed(32, 64), "expected its data at offset 0, found 32"},
      {"offset at the end of numbers", placed(0, std::numeric_limits<std::uint64_t>::max() - 31), "found 18446744073709551584"},
      {"tensors in another order", placed(32, 0), "found 32"},
      {"data short by one byte", placed(0, 32).substr(0, placed(0, 32).size() - 1), "expected 32 bytes at offset"},
      {"no data at all", small_gguf().tensor("bad", {1 << 20}, 0, "").bytes(), "4194304 bytes at offset"},
  };
  for (const std::uint32_t type : {4u, 5u, 31u, 32u, 33u, 36u, 37u, 38u, 43u, 1000u, 0x80000000u, 0xffffffffu}) {
    cases.push_back({"tensor type " + std::to_string(type), tensor("bad", {1}, type), "found number " + std::to_string(type)});
  }
  // Each fits into 2^63 bytes, all together do not.
  GgufBuilder sum = small_gguf();
  for (int i = 0; i < 4; ++i) {
    sum.raw_tensor(GgufBuilder::text("huge" + std::to_string(i)) + little<std::uint32_t>(1) + little(largest / 32 * 32) +
                   little<std::uint32_t>(24) + little<std::uint64_t>(640 + static_cast<std::uint64_t>(i) * (largest / 32 * 32)));
  }
  cases.push_back({"sum of sizes overflows", sum.bytes(), "tensor 'huge0'"});
  return cases;
}

}  // namespace

TEST_CASE("the small gguf that the broken ones start from is good") {
  auto file = hostile_gguf();
  CHECK(file.open(small_gguf().bytes())->tensors().size() == 4);
}

TEST_CASE("broken gguf headers and keys are refused") {
  auto file = hostile_gguf();
  for (const HostileCase& wanted : gguf_header_cases()) file.refuse(wanted);
}

TEST_CASE("broken gguf values are refused") {
  auto file = hostile_gguf();
  for (const HostileCase& wanted : value_cases()) file.refuse(wanted);
}

TEST_CASE("broken gguf tensors are refused") {
  auto file = hostile_gguf();
  for (const HostileCase& wanted : gguf_tensor_cases()) file.refuse(wanted);
}

TEST_CASE("every prefix of a gguf file is refused") {
  auto file = hostile_gguf();
  const std::string whole = small_gguf().bytes();
  REQUIRE(whole.size() > 1500);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CAPTURE(size);
    CHECK(file.error(whole.substr(0, size)).find("bad.gguf") != std::string::npos);
  }
}

TEST_CASE("a tensor of no bytes points nowhere, not behind the end of its file") {
  HostileFile file("empty.gguf", [](const std::filesystem::path& path) { return bantam::GgufFile::open(path); });
  const auto opened = file.open(GgufBuilder().tensor("none", {0}, 0, "").bytes());
  REQUIRE(opened->tensors().size() == 1);
  CHECK(opened->tensors()[0].bytes.empty());
  CHECK(opened->tensors()[0].bytes.data() == nullptr);
}

TEST_CASE("counts that no file can hold cost neither memory nor time") {
  auto file = hostile_gguf();
  const std::uint64_t two60 = std::uint64_t{1} << 60;
  std::vector<std::string> files = {with_counts(two60, {}).bytes(), with_counts({}, two60).bytes()};
  for (std::uint32_t kind = gguf_u8; kind <= gguf_f64; ++kind) files.push_back(array(kind, two60));
  for (const std::string& bytes : files) {
    const double start = cpu_seconds();
    const std::size_t peak = peak_of([&] { static_cast<void>(file.error(bytes)); });
    CHECK(peak < std::size_t{1} << 20);
    // Below a millisecond; sanitizers get the rest.
    CHECK(cpu_seconds() - start < 0.1);
  }
}

TEST_CASE("a million gguf keys stay linear, one more than the limit is refused") {
  auto file = hostile_gguf();
  GgufBuilder builder;
  for (int i = 0; i < 1'000'000; ++i) builder.key(bantam::message("key", i), true);
  const double start = cpu_seconds();
  CHECK(file.open(builder.bytes())->metadata().size() == 1'000'000);
  // 0.6 s at rest; quadratic work would take hours.
  CHECK(cpu_seconds() - start < 20);
  for (int i = 1'000'000; i <= 1 << 20; ++i) builder.key(bantam::message("key", i), true);
  file.refuse({"too many keys", builder.bytes(), "at most 1048576 keys, found 1048577"});
}

TEST_CASE("gguf arrays cost at most eight times their bytes, and their sum has a limit") {
  auto file = hostile_gguf();
  const std::uint64_t half = std::uint64_t{1} << 23;
  GgufBuilder builder;
  const std::string payload = little<std::uint32_t>(gguf_u8) + little(half) + std::string(half, '\1');
  builder.raw_key("a", gguf_array, payload).raw_key("b", gguf_array, payload);
  const std::string good = builder.bytes();
  const std::size_t peak = peak_of([&] { static_cast<void>(file.open(good)); });
  CHECK(peak < good.size() * 9);
  builder.key("c", std::vector<std::uint8_t>{1});
  file.refuse({"one element too many", builder.bytes(), "array elements in all"});
}

TEST_CASE("a pickle under the name of a gguf is refused") {
  hostile_gguf().refuse({"zip archive", std::string("PK\3\4", 4) + std::string(100, 'x'), "expected 'GGUF'"});
}
