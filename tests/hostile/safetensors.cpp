// Safetensors files and folders that must be refused.
#include "bantam/io/safetensors.hpp"

#include "hostile/allocation_meter.hpp"
#include "hostile/hostile_file.hpp"
#include "hostile/safetensors_builder.hpp"

namespace {

using namespace bantam::test;
using bantam::SafetensorsFile;

auto hostile_safetensors() {
  return HostileFile("bad.safetensors", [](const std::filesystem::path& path) { return SafetensorsFile::open(path); });
}

// A file of one tensor with 8 bytes of data.
std::string one(const std::string& members) { return safetensors("{\"x\":{" + members + "}}", "12345678"); }
std::string shaped(const std::string& shape) { return one(R"("dtype":"F32","data_offsets":[0,8],"shape":)" + shape); }
std::string placed(const std::string& offsets) { return one(R"("dtype":"F32","shape":[2],"data_offsets":)" + offsets); }
std::string named(const std::string& name) {
  return safetensors("{\"" + name + R"(":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "12345678");
}
std::string two(const std::string& first, const std::string& second, std::size_t bytes) {
  return safetensors(R"({"x":{"dtype":"U8","shape":[4],"data_offsets":)" + first +
                         R"(},"y":{"dtype":"U8","shape":[4],"data_offsets":)" + second + "}}",
                     std::string(bytes, '.'));
}
std::string typed(const std::string& type) { return one("\"dtype\":\"" + type + R"(","shape":[2],"data_offsets":[0,8])"); }

std::vector<HostileCase> safetensors_header_cases() {
  using namespace std::string_literals;
  return {
      {"empty file", "", "8 bytes of the header length"},
      {"seven bytes", std::string(7, '\0'), "8 bytes of the header length"},
      {"no header", safetensors(""), "expected '{'"},
      {"header longer than the file", little<std::uint64_t>(60) + "{}", "60 bytes of header"},
      {"header of 2^64-1 bytes", little(~std::uint64_t{0}) + "{}", "at most 100000000 bytes, found 18446744073709551615"},
      {"header above 100 MB", little<std::uint64_t>(100'000'001) + "{}", "found 100000001"},
      {"header of other bytes", safetensors("\x01\x02\xfe\xff"), "expected '{'"},
      {"name of other bytes", named("a\xff"), "expected json"},
      {"open object", safetensors("{"), "expected json"},
      {"array", safetensors("[]"), "expected '{'"},
      {"leading space", safetensors(" {}"), "expected '{'"},
      {"byte order mark", safetensors("\xef\xbb\xbf{}"), "expected '{'"},
      {"two documents", safetensors("{}{}"), "expected json"},
      {"text behind the document", safetensors("{} x"), "expected json"},
      {"bytes behind a zero", safetensors("{}\0PK\3\4"s), "a zero byte"},
      {"comment", safetensors("{/**/}"), "expected json"},
      {"trailing comma", one(R"("dtype":"F32","shape":[2],"data_offsets":[0,8],)"), "expected json"},
      {"number for a tensor", safetensors(R"({"x":1})"), "expected an object for tensor 'x', found the number 1"},
      {"array for a tensor", safetensors(R"({"x":[]})"), "found an array"},
      {"null for a tensor", safetensors(R"({"x":null})"), "found null"},
      {"tensor within a tensor", safetensors(R"({"x":{"dtype":{}}})"), "found an object"},
      {"deep arrays", safetensors(R"({"x":{"shape":)" + std::string(1'000'000, '[')), "found an array"},
      {"deep objects", safetensors([] {
         std::string deep;
         for (int i = 0; i < 10'000; ++i) deep += "{\"x\":";
         return deep;
       }()), "found "},
      {"metadata as text", safetensors(R"({"__metadata__":"x"})"), "an object of metadata, found the text 'x'"},
      {"metadata number", safetensors(R"({"__metadata__":{"a":1}})"), "a text as metadata 'a', found the number 1"},
      {"metadata null", safetensors(R"({"__metadata__":{"a":null}})"), "found null"},
      {"nested metadata", safetensors(R"({"__metadata__":{"a":{"b":"c"}}})"), "found an object"},
      {"metadata list", safetensors(R"({"__metadata__":{"a":["b"]}})"), "found an array"},
      {"metadata twice", safetensors(R"({"__metadata__":{},"__metadata__":{}})"), "found two"},
      {"metadata key twice", safetensors(R"({"__metadata__":{"a":"1","a":"2"}})"), "expected once, found twice"},
      {"no name", named(""), "an empty one"},
      {"name with a zero", named("a\\u0000b"), "a zero byte"},
      {"name that climbs", named("../x"), "a path that climbs"},
      {"name that climbs within", named("a/../x"), "a path that climbs"},
      {"name with half a surrogate pair", named("\\ud800"), "expected json"},
      {"name twice", safetensors(R"({"x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})"),
       "expected once, found twice"},
  };
}

std::vector<HostileCase> safetensors_tensor_cases() {
  std::string ranks = "[";
  for (int i = 0; i < 65; ++i) ranks += i == 0 ? "1" : ",1";
  return {
      {"no dtype", one(R"("shape":[2],"data_offsets":[0,8])"), "found no dtype"},
      {"no shape", one(R"("dtype":"F32","data_offsets":[0,8])"), "found no shape"},
      {"no offsets", one(R"("dtype":"F32","shape":[2])"), "found no data_offsets"},
      {"nothing", one(""), "found no dtype"},
      {"dtype twice", one(R"("dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8])"), "found it twice"},
      {"shape twice", one(R"("dtype":"F32","shape":[2],"shape":[2],"data_offsets":[0,8])"), "found it twice"},
      {"another member", one(R"("dtype":"F32","shape":[2],"data_offsets":[0,8],"order":"C")"), "found 'order'"},
      {"dtype as number", one(R"("dtype":7)"), "expected a text as dtype of tensor 'x', found the number 7"},
      {"no such dtype", typed("Q4"), "a known dtype, found 'Q4'"},
      {"dtype in lower case", typed("f32"), "found 'f32'"},
      {"4-bit dtype", typed("F4"), "found 'F4'"},
      {"6-bit dtype", typed("F6_E2M3"), "found 'F6_E2M3'"},
      {"exponent dtype", typed("F8_E8M0"), "found 'F8_E8M0'"},
      {"complex dtype", typed("C64"), "found 'C64'"},
      {"shape as text", shaped("\"2\""), "expected an array as shape"},
      {"negative dimension", shaped("[-2]"), "found the number -2"},
      {"negative zero", shaped("[-0]"), "found the number"},
      {"fractional dimension", shaped("[2.0]"), "found the number 2.0"},
      {"dimension of 1e400", shaped("[1e400]"), "expected"},
      {"text as dimension", shaped("[\"2\"]"), "found the text '2'"},
      {"null as dimension", shaped("[null]"), "found null"},
      {"list as dimension", shaped("[[2]]"), "found an array"},
      {"dimension of 2^64-2", shaped("[2,18446744073709551614]"), "below 2^63"},
      {"dimension of 2^64", shaped("[18446744073709551616]"), "below 2^63"},
      {"product overflows", shaped("[2,9223372036854775807]"), "product is more"},
      {"bytes overflow", shaped("[4611686018427387904]"), "product is more"},
      {"product wraps to 0", shaped("[4294967296,4294967296]"), "product is more"},
      {"overflow next to a zero", shaped("[0,4294967296,4294967296]"), "product is more"},
      {"65 dimensions", shaped(ranks + "]"), "at most 64 dimensions"},
      {"offsets reversed", placed("[8,0]"), "8 apart as dtype and shape say, found 8 and 0"},
      {"one offset", placed("[0]"), "expected 2 data_offsets, found 1"},
      {"three offsets", placed("[0,8,8]"), "found more"},
      {"no offset", placed("[]"), "found 0"},
      {"negative offset", placed("[-8,0]"), "found the number -8"},
      {"fractional offset", placed("[0,8.5]"), "found the number 8.5"},
      {"offsets beyond the file", placed("[8,16]"), "expected its data at offset 0, found 8"},
      {"offsets at the end of numbers", placed("[18446744073709551608,18446744073709551615]"), "8 apart"},
      {"size of another shape", placed("[0,4]"), "8 apart as dtype and shape say, found 0 and 4"},
      {"overlapping", two("[0,4]", "[2,6]", 6), "overlaps"},
      {"same place", two("[0,4]", "[0,4]", 4), "overlaps"},
      {"hole", two("[0,4]", "[6,10]", 10), "leaves a hole"},
      {"late start", two("[2,6]", "[6,10]", 10), "expected its data at offset 0, found 2"},
      {"missing last byte", two("[0,4]", "[4,8]", 7), "expected data up to offset 8, the file has 7"},
      {"trailing byte", two("[0,4]", "[4,8]", 9), "expected 8 bytes of data, found 9"},
      {"data without tensors", safetensors("{}", "PK\3\4"), "expected 0 bytes of data, found 4"},
  };
}

struct Folder {
  TemporaryFolder folder;

  void shard(const std::string& name, const std::string& tensor) {
    write_file(folder / name, safetensors("{\"" + tensor + R"(":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "1234"));
  }
  std::string refuse(const std::string& index) {
    write_file(folder / "model.safetensors.index.json", index);
    return error_of([&] { static_cast<void>(SafetensorsFile::open_folder(folder.path())); });
  }
};

}  // namespace

TEST_CASE("the small safetensors file that the broken ones resemble is good") {
  auto file = hostile_safetensors();
  CHECK(file.open(small_safetensors())->tensors().size() == 5);
}

TEST_CASE("broken safetensors headers are refused") {
  auto file = hostile_safetensors();
  for (const HostileCase& wanted : safetensors_header_cases()) file.refuse(wanted);
}

TEST_CASE("broken safetensors tensors are refused") {
  auto file = hostile_safetensors();
  for (const HostileCase& wanted : safetensors_tensor_cases()) file.refuse(wanted);
}

TEST_CASE("every prefix of a safetensors file is refused, and every longer file") {
  auto file = hostile_safetensors();
  const std::string whole = small_safetensors();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CAPTURE(size);
    CHECK(file.error(whole.substr(0, size)).find("bad.safetensors") != std::string::npos);
  }
  CHECK(file.error(whole + '\0').find("bytes of data") != std::string::npos);
}

TEST_CASE("a header of many tensors stays linear and in bounded memory") {
  auto file = hostile_safetensors();
  std::string header = "{";
  for (int i = 0; i < 300'000; ++i) {
    header += (i == 0 ? "\"t" : ",\"t") + std::to_string(i) + R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  }
  const std::string bytes = safetensors(header + "}");
  const double start = cpu_seconds();
  const std::size_t peak = peak_of([&] { CHECK(file.open(bytes)->tensors().size() == 300'000); });
  // 0.3 s at rest; quadratic work would take an hour.
  CHECK(cpu_seconds() - start < 20);
  // An entry of 57 bytes, the shortest there is, was measured at 10 times its size, three growing tables included.
  CHECK(peak < 12 * bytes.size());
  file.refuse({"the first name again at the end",
               safetensors(header + R"(,"t0":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})"), "expected once, found twice"});
}

TEST_CASE("broken indexes of shards are refused") {
  Folder folder;
  folder.shard("one.safetensors", "x");
  folder.shard("two.safetensors", "x");
  folder.shard("three.safetensors", "y");
  const auto map = [](const std::string& members) { return "{\"weight_map\":{" + members + "}}"; };
  has(folder.refuse(""), "expected json");
  has(folder.refuse("[]"), "expected a json object");
  has(folder.refuse("3"), "expected a json object");
  has(folder.refuse("{}"), "expected a weight_map");
  has(folder.refuse(map("")), "expected a weight_map");
  has(folder.refuse("{\"weight_map\":[]}"), "expected an object as weight_map");
  has(folder.refuse("{\"weight_map\":null}"), "expected an object as weight_map");
  has(folder.refuse(R"({"weight_map":{},"weight_map":{}})"), "found two");
  has(folder.refuse(map(R"("x":7)")), "expected the name of a shard for tensor 'x', found the number 7");
  has(folder.refuse(map(R"("x":{})")), "found an object");
  has(folder.refuse(map(R"("x":"one.safetensors","x":"one.safetensors")")), "found twice");
  has(folder.refuse(map(R"("x":"../one.safetensors")")), "found a path");
  has(folder.refuse(map(R"("x":"/etc/one.safetensors")")), "found a path");
  has(folder.refuse(map(R"("x":"..\\one.safetensors")")), "found a path");
  has(folder.refuse(map(R"("x":"..")")), "found a path");
  has(folder.refuse(map(R"("x":"")")), "an empty one");
  has(folder.refuse(map(R"("x":"one\u0000.safetensors")")), "a zero byte");
  has(folder.refuse(map(R"("x":"pytorch_model.bin")")), "expected a .safetensors file");
  has(folder.refuse(map(R"("x":"absent.safetensors")")), "no such file");
  has(folder.refuse(map(R"("z":"one.safetensors")")), "tensor 'z': expected in one.safetensors");
  has(folder.refuse(map(R"("y":"one.safetensors","x":"three.safetensors")")), "found no such tensor there");
  has(folder.refuse(map(R"("x":"one.safetensors","q":"two.safetensors")")), "expected in one file, found in two");
  has(folder.refuse("{\"other\":" + std::string(10'000, '[')), "at most 128 nested values");
  has(folder.refuse(map(R"("x":"one.safetensors")") + std::string(1, '\0') + "x"), "a zero byte");
}

TEST_CASE("a shard that links out of its folder is refused, unless it is a cache of snapshots") {
  TemporaryFolder elsewhere;
  const std::string bytes = safetensors(R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "1234");
  write_file(elsewhere / "secret.safetensors", bytes);
  Folder folder;
  folder.shard("real.safetensors", "x");
  const std::string index = R"({"weight_map":{"x":"one.safetensors"}})";

  std::filesystem::create_symlink(elsewhere / "secret.safetensors", folder.folder / "one.safetensors");
  has(folder.refuse(index), "found a link to");
  std::filesystem::remove(folder.folder / "one.safetensors");
  std::filesystem::create_symlink("one.safetensors", folder.folder / "one.safetensors");
  has(folder.refuse(index), "cannot open");
  std::filesystem::remove(folder.folder / "one.safetensors");
  std::filesystem::create_symlink("real.safetensors", folder.folder / "one.safetensors");
  CHECK(SafetensorsFile::open_folder(folder.folder.path())->find("x") != nullptr);

  const std::filesystem::path snapshot = elsewhere / "snapshots/abc";
  std::filesystem::create_directories(snapshot);
  std::filesystem::create_directories(elsewhere / "blobs");
  write_file(elsewhere / "blobs/0123", bytes);
  write_file(snapshot / "model.safetensors.index.json", index);
  std::filesystem::create_symlink("../../blobs/0123", snapshot / "one.safetensors");
  CHECK(SafetensorsFile::open_folder(snapshot)->find("x") != nullptr);
}

TEST_CASE("a lone file of weights that links out of its folder is refused, unless it is a cache of snapshots") {
  TemporaryFolder elsewhere;
  const std::string bytes = safetensors(R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "1234");
  write_file(elsewhere / "secret.safetensors", bytes);
  TemporaryFolder folder;
  const std::filesystem::path lone = folder / "model.safetensors";
  const auto error = [&] { return error_of([&] { static_cast<void>(SafetensorsFile::open_folder(folder.path())); }); };
  std::filesystem::create_symlink(elsewhere / "secret.safetensors", lone);
  has(error(), "found a link to");
  std::filesystem::remove(lone);
  std::filesystem::create_symlink("model.safetensors", lone);
  has(error(), "too many levels of symbolic links");
  std::filesystem::remove(lone);
  write_file(folder / "real", bytes);
  std::filesystem::create_symlink("real", lone);
  CHECK(SafetensorsFile::open_folder(folder.path())->find("x") != nullptr);

  const std::filesystem::path snapshot = elsewhere / "snapshots/abc";
  std::filesystem::create_directories(snapshot);
  std::filesystem::create_directories(elsewhere / "blobs");
  write_file(elsewhere / "blobs/0123", bytes);
  std::filesystem::create_symlink("../../blobs/0123", snapshot / "model.safetensors");
  CHECK(SafetensorsFile::open_folder(snapshot)->find("x") != nullptr);
  // A folder that is itself reached by a link is still the folder.
  std::filesystem::create_directory_symlink(snapshot, folder / "linked");
  CHECK(SafetensorsFile::open_folder(folder / "linked")->find("x") != nullptr);
}

TEST_CASE("a folder of pickled weights gets the advice to convert") {
  TemporaryFolder folder;
  const auto error = [&] { return error_of([&] { static_cast<void>(SafetensorsFile::open_folder(folder.path())); }); };
  has(error(), "found neither");
  write_file(folder / "pytorch_model.bin", "PK");
  has(error(), "pickled weights can run code and are never read; convert");
}
