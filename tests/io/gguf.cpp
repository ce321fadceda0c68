// Reading well-formed GGUF files.
#include "bantam/io/gguf.hpp"

#include "hostile/gguf_builder.hpp"
#include "io/ggml_types.hpp"
#include "support.hpp"

namespace {

using namespace bantam;
using namespace bantam::test;

std::shared_ptr<const GgufFile> opened(const TemporaryFolder& folder, const GgufBuilder& builder,
                                       const std::string& name = "good.gguf") {
  write_file(folder / name, builder.bytes());
  return GgufFile::open(folder / name);
}

using Shape = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("gguf values keep their meaning whatever their width") {
  TemporaryFolder folder(Place::drive);
  const auto file = opened(folder, small_gguf());
  CHECK(*file->text("general.name") == "a small model");
  CHECK(file->integer("a.u8") == 200);
  CHECK(file->integer("a.i8") == -100);
  CHECK(file->integer("a.u16") == 60000);
  CHECK(file->integer("a.i16") == -30000);
  CHECK(file->integer("a.u32") == 4000000000);
  CHECK(file->integer("a.i32") == -2000000000);
  CHECK(file->integer("a.i64") == -(std::int64_t{1} << 62));
  CHECK(file->number("a.u64") == 9223372036854775808.0);
  CHECK(file->number("a.i8") == -100.0);
  CHECK(file->number("a.f32") == 0.5);
  CHECK(file->number("a.f64") == 0.1);
  CHECK(file->boolean("a.yes") == true);
  CHECK(file->boolean("a.no") == false);
}

TEST_CASE("gguf arrays hold one kind") {
  TemporaryFolder folder(Place::drive);
  const auto file = opened(folder, small_gguf());
  CHECK(*file->integers("l.u8") == Shape{1, 255});
  CHECK(*file->integers("l.i8") == Shape{-128, 127});
  CHECK(*file->integers("l.u16") == Shape{65535});
  CHECK(*file->integers("l.i16") == Shape{-32768});
  CHECK(*file->integers("l.u32") == Shape{4294967295});
  CHECK(*file->integers("l.i32") == Shape{-1, 7});
  CHECK(*file->integers("l.u64") == Shape{1});
  CHECK(*file->integers("l.i64") == Shape{-1});
  CHECK(*file->numbers("l.f32") == std::vector<double>{1.5});
  CHECK(*file->numbers("l.f64") == std::vector<double>{2.5});
  CHECK(file->numbers("l.empty")->empty());
  CHECK(std::get<std::vector<bool>>(*file->value("l.bool")) == std::vector<bool>{true, false, true});
  CHECK(*file->texts("tokenizer.ggml.tokens") == std::vector<std::string>{"<s>", "", "\xe2\x96\x81the", "\xff"});
}

TEST_CASE("a gguf key that is absent is empty, one of another kind is an error that names both kinds") {
  TemporaryFolder folder(Place::drive);
  const auto file = opened(folder, small_gguf());
  CHECK(file->value("absent") == nullptr);
  CHECK_FALSE(file->integer("absent"));
  CHECK_FALSE(file->number("absent"));
  CHECK_FALSE(file->boolean("absent"));
  CHECK(file->text("absent") == nullptr);
  CHECK(file->texts("absent") == nullptr);
  CHECK(file->numbers("absent") == nullptr);
  CHECK(file->integers("absent") == nullptr);

  const auto expect = [&](std::string_view words, auto&& f) {
    const std::string text = error_of(f);
    CHECK_MESSAGE(text.find(words) != text.npos, text);
    CHECK(text.find("good.gguf: key '") != text.npos);
  };
  expect("expected an integer, found a text", [&] { static_cast<void>(file->integer("general.name")); });
  expect("expected an integer, found a number", [&] { static_cast<void>(file->integer("a.f32")); });
  expect("expected an integer, found a truth value", [&] { static_cast<void>(file->integer("a.yes")); });
  expect("below 2^63, found 9223372036854775808", [&] { static_cast<void>(file->integer("a.u64")); });
  expect("expected a number, found a list of integers", [&] { static_cast<void>(file->number("l.u8")); });
  expect("expected a truth value, found an integer", [&] { static_cast<void>(file->boolean("a.u8")); });
  expect("expected a text, found a list of texts", [&] { static_cast<void>(file->text("tokenizer.ggml.tokens")); });
  expect("expected a list of texts, found a text", [&] { static_cast<void>(file->texts("general.name")); });
  expect("expected a list of numbers, found a list of integers", [&] { static_cast<void>(file->numbers("l.u8")); });
  expect("expected a list of integers, found a list of truth values", [&] { static_cast<void>(file->integers("l.bool")); });
}

TEST_CASE("gguf tensors come outermost first, in file order, with their bytes") {
  TemporaryFolder folder(Place::drive);
  const auto file = opened(folder, small_gguf());
  REQUIRE(file->tensors().size() == 4);
  const TensorEntry& embedding = file->tensors()[0];
  CHECK(embedding.name == "token_embd.weight");
  CHECK(embedding.type == "F32");
  CHECK(embedding.shape == Shape{2, 32});
  CHECK(std::string_view(reinterpret_cast<const char*>(embedding.bytes.data()), embedding.bytes.size()) == float_bytes(64));
  CHECK(file->tensors()[1].type == "Q4_0");
  CHECK(file->tensors()[1].shape == Shape{3, 64});
  CHECK(file->tensors()[1].bytes.size() == 108);
  CHECK(file->tensors()[2].type == "Q4_K");
  CHECK(file->tensors()[2].shape == Shape{1, 1, 1, 256});
  CHECK(file->find("output_norm.weight")->bytes[9] == std::byte{0x33});
  CHECK(file->find("output") == nullptr);
}

TEST_CASE("a gguf tensor outlives the file object") {
  TemporaryFolder folder(Place::drive);
  const TensorEntry kept = opened(folder, small_gguf())->tensors()[3];
  CHECK(kept.bytes[0] == std::byte{0x33});
}

TEST_CASE("version 2, other alignments, scalars, empty tensors and trailing bytes are read") {
  TemporaryFolder folder(Place::drive);
  GgufBuilder old = small_gguf();
  old.version = 2;
  CHECK(opened(folder, old)->tensors().size() == 4);

  for (const std::uint32_t alignment : {1u, 8u, 64u, 4096u}) {
    GgufBuilder builder;
    builder.alignment(alignment).tensor("a", {3}, 24, "abc").tensor("none", {0, 5}, 0, "").tensor("b", {}, 0, "1234");
    const auto file = opened(folder, builder.raw_data("and more"));
    CHECK(static_cast<char>(file->find("a")->bytes[2]) == 'c');
    CHECK(file->find("none")->bytes.empty());
    CHECK(file->find("none")->shape == Shape{5, 0});
    CHECK(file->find("b")->shape.empty());
    CHECK(static_cast<char>(file->find("b")->bytes[3]) == '4');
  }
}

TEST_CASE("a gguf of a vocabulary alone has no tensors") {
  TemporaryFolder folder(Place::drive);
  const auto file = opened(folder, GgufBuilder().key("general.architecture", "llama"));
  CHECK(file->tensors().empty());
  CHECK(file->find("token_embd.weight") == nullptr);
}

TEST_CASE("every tensor type of the list has its name and size, one block at a time") {
  TemporaryFolder folder(Place::drive);
  for (const detail::GgmlType& type : detail::ggml_types) {
    const GgufBuilder builder = GgufBuilder().tensor("t", {type.block_elements, 3}, type.id, std::string(type.block_bytes * 3, 'x'));
    const auto file = opened(folder, builder);
    CHECK(file->find("t")->type == type.name);
    CHECK(file->find("t")->bytes.size() == type.block_bytes * 3);
  }
}

TEST_CASE("shards of a gguf open as one") {
  TemporaryFolder folder(Place::drive);
  const auto shard = [](std::uint16_t number, std::uint16_t count, const std::string& tensor, std::int32_t total = 3) {
    GgufBuilder builder;
    builder.key("split.no", number).key("split.count", count).key("split.tensors.count", total);
    return builder.key("general.name", "shard " + std::to_string(number)).tensor(tensor, {1}, 24, "x");
  };
  const auto put = [&](const std::string& name, const GgufBuilder& builder) { write_file(folder / name, builder.bytes()); };
  put("m-00001-of-00003.gguf", shard(0, 3, "a"));
  put("m-00002-of-00003.gguf", shard(1, 3, "b"));
  put("m-00003-of-00003.gguf", shard(2, 3, "c"));
  const auto file = GgufFile::open(folder / "m-00001-of-00003.gguf");
  REQUIRE(file->tensors().size() == 3);
  CHECK(file->find("c")->bytes.size() == 1);
  CHECK(*file->text("general.name") == "shard 0");

  const auto refuse = [&](const std::string& name, std::string_view words) {
    const std::string text = error_of([&] { static_cast<void>(GgufFile::open(folder / name)); });
    CHECK_MESSAGE(text.find(words) != text.npos, text);
  };
  refuse("m-00002-of-00003.gguf", "is shard 2 of 3: expected the first, '...-00001-of-00003.gguf'");
  put("renamed.gguf", shard(0, 3, "a"));
  refuse("renamed.gguf", "expected a name that ends in '-00001-of-00003.gguf'");
  put("m-00003-of-00003.gguf", shard(2, 3, "a"));
  refuse("m-00001-of-00003.gguf", "tensor 'a': expected once, found twice");
  put("m-00003-of-00003.gguf", shard(1, 3, "c"));
  refuse("m-00001-of-00003.gguf", "expected shard 3 of 3, found 2 of 3");
  put("m-00003-of-00003.gguf", shard(2, 4, "c"));
  refuse("m-00001-of-00003.gguf", "expected shard 3 of 3, found 3 of 4");
  put("m-00003-of-00003.gguf", shard(7, 3, "c"));
  refuse("m-00001-of-00003.gguf", "expected less than split.count, 3, found 7");
  put("m-00003-of-00003.gguf", shard(2, 3, "c"));
  put("m-00001-of-00003.gguf", shard(0, 3, "a", 4));
  refuse("m-00001-of-00003.gguf", "expected 4 tensors, the shards hold 3");
  put("m-00001-of-00003.gguf", GgufBuilder().key("split.count", "3"));
  refuse("m-00001-of-00003.gguf", "expected a count, found a text");
  put("m-00001-of-00003.gguf", GgufBuilder().key("split.count", std::int32_t{-3}));
  refuse("m-00001-of-00003.gguf", "expected a count");
  put("m-00001-of-00003.gguf", shard(0, 3, "a"));
  std::filesystem::remove(folder / "m-00002-of-00003.gguf");
  refuse("m-00001-of-00003.gguf", "m-00002-of-00003.gguf: cannot open");
}

TEST_CASE("the shared gguf models open, and agree with the safetensors next to them in size") {
  for (const char* name : {"babyllama105/babyllama105-f32.gguf", "books4m/books4m-f16.gguf", "stories260k/stories260k-f32.gguf"}) {
    BANTAM_NEED_SHARED(path, std::string("models/") + name);
    const auto file = GgufFile::open(path);
    CHECK(*file->text("general.architecture") == "llama");
    const std::int64_t width = file->integer("llama.embedding_length").value();
    const auto tokens = static_cast<std::int64_t>(file->texts("tokenizer.ggml.tokens")->size());
    CHECK(file->find("token_embd.weight")->shape == Shape{tokens, width});
    CHECK(file->find("output_norm.weight")->bytes.size() == static_cast<std::size_t>(width) * 4);
  }
}

TEST_CASE("the shared gguf vocabularies open") {
  int found = 0;
  for (const char* name : {"deepseek-llm", "falcon", "gpt-2", "llama-spm", "starcoder"}) {
    BANTAM_NEED_SHARED(path, std::string("tokenizers/ggml-vocab-") + name + ".gguf");
    const auto file = GgufFile::open(path);
    CHECK(file->tensors().empty());
    CHECK(file->texts("tokenizer.ggml.tokens")->size() > 30'000);
    ++found;
  }
  CHECK(found == 5);
}
