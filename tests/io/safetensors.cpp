// Reading well-formed safetensors files and folders, and writing them.
#include "bantam/io/safetensors.hpp"

#include <cstring>
#include <nlohmann/json.hpp>

#include "hostile/safetensors_builder.hpp"
#include "support.hpp"

namespace {

using namespace bantam;
using namespace bantam::test;
using Shape = std::vector<std::int64_t>;

std::string data_of(const TensorEntry& tensor) {
  return {reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()};
}

std::span<const std::byte> as_span(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

// A file taken apart by the letter of the format, without any of the code under test.
struct Plain {
  nlohmann::json header;
  std::string header_text;
  std::string data;
};
Plain taken_apart(const std::filesystem::path& path) {
  const std::string bytes = read_file(path);
  std::uint64_t length = 0;
  REQUIRE(bytes.size() >= 8);
  std::memcpy(&length, bytes.data(), 8);
  REQUIRE(length <= bytes.size() - 8);
  const std::string text = bytes.substr(8, length);
  return {nlohmann::json::parse(text), text, bytes.substr(8 + length)};
}

}  // namespace

TEST_CASE("safetensors come in the order of the data, with type, shape and bytes") {
  TemporaryFolder folder(Place::drive);
  write_file(folder / "a.safetensors", small_safetensors());
  const auto file = SafetensorsFile::open(folder / "a.safetensors");
  REQUIRE(file->tensors().size() == 5);
  CHECK(file->tensors()[0].name == "a.weight");
  CHECK(file->tensors()[0].type == "F32");
  CHECK(file->tensors()[0].shape == Shape{2, 3});
  CHECK(data_of(file->tensors()[0]) == float_bytes(6));
  CHECK(file->find("scalar")->shape.empty());
  CHECK(file->find("scalar")->bytes.size() == 1);
  CHECK(file->find("none")->shape == Shape{0, 7});
  CHECK(file->find("none")->bytes.empty());
  CHECK(file->find("last")->bytes.data() + 4 == file->find("last")->file->bytes().data() + file->find("last")->file->bytes().size());
  CHECK(file->find("absent") == nullptr);
  CHECK(file->metadata().at("note") == "\xc3\xa9 \"quoted\"");
}

TEST_CASE("every element type of safetensors has its size") {
  TemporaryFolder folder(Place::drive);
  const std::pair<const char*, std::size_t> types[] = {
      {"F64", 8}, {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"I64", 8}, {"I32", 4}, {"I16", 2}, {"I8", 1},
      {"U64", 8}, {"U32", 4}, {"U16", 2}, {"U8", 1}, {"BOOL", 1}, {"F8_E4M3", 1}, {"F8_E5M2", 1}};
  for (const auto& [type, size] : types) {
    write_file(folder / "a", safetensors(message(R"({"t":{"dtype":")", type, R"(","shape":[3],"data_offsets":[0,)", 3 * size, "]}}"),
                                         std::string(3 * size, 'x')));
    CHECK(SafetensorsFile::open(folder / "a")->find("t")->type == type);
  }
}

TEST_CASE("a file without tensors is a file") {
  TemporaryFolder folder(Place::drive);
  write_file(folder / "a", safetensors("{}  "));
  CHECK(SafetensorsFile::open(folder / "a")->tensors().empty());
}

TEST_CASE("a folder is its one file, or the shards of its index") {
  TemporaryFolder folder(Place::drive);
  const auto shard = [](const std::string& tensor, const std::string& note) {
    return safetensors(R"({"__metadata__":{"format":"pt",")" + note + R"(":"x"},")" + tensor +
                           R"(":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"__pad_0":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
                       "abc");
  };
  write_file(folder / "model-00001-of-00002.safetensors", shard("x", "first"));
  write_file(folder / "model-00002-of-00002.safetensors", shard("y", "second"));
  write_file(folder / "model.safetensors.index.json",
             R"({"metadata":{"total_size":999,"more":[{"deep":[1,-1,1.5,true,null,"t"]}]},"weight_map":)"
             R"({"y":"model-00002-of-00002.safetensors","x":"model-00001-of-00002.safetensors"}})");
  const auto sharded = SafetensorsFile::open_folder(folder.path());
  REQUIRE(sharded->tensors().size() == 2);
  CHECK(sharded->tensors()[0].name == "x");
  CHECK(data_of(*sharded->find("y")) == "ab");
  CHECK(sharded->metadata().size() == 3);

  write_file(folder / "model.safetensors", small_safetensors());
  CHECK(SafetensorsFile::open_folder(folder.path())->tensors().size() == 5);
}

TEST_CASE("the shared checkpoints open and cover their files") {
  for (const char* name : {"babyllama105", "books4m", "stories260k"}) {
    BANTAM_NEED_SHARED(path, std::string("models/") + name);
    const auto file = SafetensorsFile::open_folder(path);
    std::size_t bytes = 0;
    for (const TensorEntry& tensor : file->tensors()) bytes += tensor.bytes.size();
    CHECK(bytes + taken_apart(path / "model.safetensors").header_text.size() + 8 ==
          std::filesystem::file_size(path / "model.safetensors"));
    CHECK(file->metadata().at("format") == "pt");
    CHECK(file->find("model.embed_tokens.weight")->shape.size() == 2);
  }
}

TEST_CASE("what is written is read back, piece by piece or at once") {
  TemporaryFolder folder(Place::drive);
  const std::string floats = float_bytes(12);
  SafetensorsWriter writer(folder / "out", {{"w", "F32", {3, 4}}, {"none", "BF16", {0}}, {"s", "I8", {}}, {"\xc3\xa9 \"q\"\\", "U8", {2}}},
                           {{"format", "pt"}, {"line\nbreak", "\"quoted\" \xe2\x82\xac"}});
  writer.write(as_span(floats).first(7));
  writer.write({});
  writer.write(as_span(floats).subspan(7));
  writer.write(as_span("!"));
  writer.write(as_span("zz"));
  CHECK_FALSE(std::filesystem::exists(folder / "out"));
  writer.commit();

  const auto file = SafetensorsFile::open(folder / "out");
  REQUIRE(file->tensors().size() == 4);
  CHECK(data_of(*file->find("w")) == floats);
  CHECK(file->find("w")->shape == Shape{3, 4});
  CHECK(file->find("none")->shape == Shape{0});
  CHECK(data_of(*file->find("s")) == "!");
  CHECK(data_of(*file->find("\xc3\xa9 \"q\"\\")) == "zz");
  CHECK(file->metadata().at("line\nbreak") == "\"quoted\" \xe2\x82\xac");
}

TEST_CASE("tensors lie in the order that is asked for, however they are written") {
  TemporaryFolder folder(Place::drive);
  for (const std::size_t alignment : {1, 64}) {
    CAPTURE(alignment);
    {
      SafetensorsWriter writer(folder / "out", {{"a", "U8", {5}}, {"none", "U8", {0}}, {"b", "U8", {70}}, {"c", "U8", {1}}}, {}, {.alignment = alignment, .order = {3, 2, 1, 0}});
      for (const auto& [letter, count] : {std::pair{'a', 5}, {'b', 70}, {'c', 1}}) writer.write(as_span(std::string(static_cast<std::size_t>(count), letter)));
      writer.commit();
    }
    const auto file = SafetensorsFile::open(folder / "out");
    std::string names, letters;
    for (const TensorEntry& tensor : file->tensors()) {
      names += tensor.name;
      for (const std::byte byte : tensor.bytes) letters += static_cast<char>(byte);
    }
    CHECK(names == "cbnonea");
    CHECK(letters == "c" + std::string(70, 'b') + "aaaaa");
  }
}

TEST_CASE("alignment is kept by named padding, and the file follows the letter of the format") {
  TemporaryFolder folder(Place::drive);
  for (const std::size_t alignment : {std::size_t{1}, std::size_t{8}, std::size_t{64}, std::size_t{4096}}) {
    CAPTURE(alignment);
    SafetensorsWriter writer(folder / "out", {{"a", "U8", {5}}, {"none", "F32", {0}}, {"b", "F32", {16}}, {"c", "I8", {64}}, {"d", "U8", {1}}},
                             {{"k", "v"}}, {.alignment = alignment, .metadata_room = 50});
    writer.write(as_span("aaaaa"));
    writer.write(as_span(float_bytes(16)));
    writer.write(as_span(std::string(64, 'c')));
    writer.write(as_span("d"));
    writer.set_metadata("late", "hash");
    writer.commit();

    const Plain plain = taken_apart(folder / "out");
    CHECK(plain.header_text.front() == '{');
    CHECK(plain.header_text.size() % 8 == 0);
    CHECK(plain.header_text.find_last_not_of(' ') == plain.header_text.rfind('}'));
    CHECK(plain.header["__metadata__"] == nlohmann::json{{"k", "v"}, {"late", "hash"}});
    // Offsets cover the data without hole or overlap, and each entry is as large as its shape says.
    std::map<std::uint64_t, std::uint64_t> ends;
    std::size_t paddings = 0;
    for (const auto& [name, tensor] : plain.header.items()) {
      if (name == "__metadata__") continue;
      const std::uint64_t begin = tensor["data_offsets"][0];
      const std::uint64_t end = tensor["data_offsets"][1];
      if (name.starts_with("__pad_")) {
        ++paddings;
        CHECK(tensor["dtype"] == "U8");
        CHECK(tensor["shape"] == nlohmann::json{end - begin});
        CHECK(plain.data.substr(begin, end - begin) == std::string(end - begin, '\0'));
      } else if (alignment > 8 && begin != end) {
        CHECK((8 + plain.header_text.size() + begin) % alignment == 0);
      }
      if (begin != end) ends[begin] = end;
    }
    std::uint64_t covered = 0;
    for (const auto& [begin, end] : ends) {
      CHECK(begin == covered);
      covered = end;
    }
    CHECK(covered == plain.data.size());
    CHECK(paddings == (alignment <= 8 ? 0 : alignment == 64 ? 1 : 3));

    const auto file = SafetensorsFile::open(folder / "out");
    CHECK(file->tensors().size() == 5);
    CHECK(data_of(*file->find("b")) == float_bytes(16));
    CHECK(data_of(*file->find("d")) == "d");
  }
}

TEST_CASE("metadata after the fact fits exactly into its room") {
  TemporaryFolder folder(Place::drive);
  // 2 + 4 characters and the 6 of quotes, colon and comma; the header is already padded to a multiple of 8.
  const auto write = [&](std::size_t room) {
    SafetensorsWriter writer(folder / "out", {}, {{"k", "v"}}, {.alignment = 8, .metadata_room = room});
    for (int i = 0; i < 10; ++i) writer.set_metadata(message("k", i), "hash");
    writer.commit();
  };
  write(120);
  CHECK(SafetensorsFile::open(folder / "out")->metadata().at("k9") == "hash");
  const std::string text = error_of([&] { write(100); });
  CHECK(text.find("within metadata_room") != text.npos);
}

TEST_CASE("the writer refuses what would not make a file") {
  TemporaryFolder folder(Place::drive);
  using Tensors = std::vector<SafetensorsWriter::Announced>;
  const auto refuse = [&](const Tensors& tensors, std::string_view words, SafetensorsWriter::Options options = {},
                          const std::vector<std::pair<std::string, std::string>>& metadata = {}) {
    const std::string text = error_of([&] { SafetensorsWriter(folder / "out", tensors, metadata, options); });
    CHECK_MESSAGE(text.find(words) != text.npos, text);
  };
  const std::int64_t huge = std::int64_t{1} << 60;
  refuse({{"", "U8", {1}}}, "an empty one");
  refuse({{"a\xff", "U8", {1}}}, "no utf-8");
  refuse({{"../a", "U8", {1}}}, "climbs");
  refuse({{"__metadata__", "U8", {1}}}, "keep for itself");
  refuse({{"__pad_3", "U8", {1}}}, "keep for itself");
  refuse({{"a", "U8", {1}}, {"a", "U8", {1}}}, "announced twice");
  refuse({{"a", "Q4_0", {32}}}, "a known dtype, found 'Q4_0'");
  refuse({{"a", "U8", {-1}}}, "found -1");
  refuse({{"a", "F64", {huge, huge}}}, "product is more");
  refuse({{"a", "U8", {huge, 3}}, {"b", "U8", {huge, 3}}}, "below 2^62 bytes");
  refuse({{"a", "U8", Shape(65, 1)}}, "at most 64 dimensions");
  refuse({}, "power of two", {.alignment = 0});
  refuse({}, "power of two", {.alignment = 48});
  refuse({}, "a header of at most 100000000 bytes", {.metadata_room = ~std::size_t{0}});
  refuse({}, "set twice", {}, {{"k", "1"}, {"k", "2"}});
  refuse({}, "expected utf-8", {}, {{"k", "\xff"}});
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("the writer counts its bytes") {
  TemporaryFolder folder(Place::drive);
  const auto refuse = [&](std::string_view words, auto&& f) {
    SafetensorsWriter writer(folder / "out", {{"a", "U8", {4}}, {"b", "U8", {2}}}, {});
    const std::string text = error_of([&] { f(writer); });
    CHECK_MESSAGE(text.find(words) != text.npos, text);
  };
  refuse("tensor 'a': expected 4 bytes, found at least 5", [](SafetensorsWriter& w) { w.write(as_span("12345")); });
  refuse("tensor 'a': expected 4 bytes, found at least 6", [](SafetensorsWriter& w) { w.write(as_span("123")); w.write(as_span("456")); });
  refuse("tensor 'a': expected 4 bytes, found 0", [](SafetensorsWriter& w) { w.commit(); });
  refuse("tensor 'b': expected 2 bytes, found 1", [](SafetensorsWriter& w) { w.write(as_span("1234")); w.write(as_span("5")); w.commit(); });
  refuse("expected no more data, found 1 bytes", [](SafetensorsWriter& w) { w.write(as_span("1234")); w.write(as_span("56")); w.write(as_span("7")); });
  CHECK(std::filesystem::is_empty(folder.path()));
}
