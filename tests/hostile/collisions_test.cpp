// Vocabularies that are built to make look-ups collide, lists long and chains deep: they take as long as ordinary ones of their size.
#include <nlohmann/json.hpp>

#include "bantam/core/random.hpp"
#include "bantam/io/gguf.hpp"
#include "bantam/text/tokenizer.hpp"
#include "hostile/allocation_meter.hpp"
#include "hostile/gguf_builder.hpp"
#include "hostile/hostile_file.hpp"
#include "text/merges.hpp"
#include "text/spec.hpp"
#include "text/tokenizer_data.hpp"

using namespace bantam;
using namespace bantam::test;

namespace {

const std::string k = "tokenizer.ggml.";
/// A prime that libstdc++ gives to tables of 42044 to 85229 entries.
constexpr std::uint64_t buckets = 85229;

std::string utf8(std::uint32_t code) {
  const auto byte = [](std::uint32_t bits) { return static_cast<char>(static_cast<unsigned char>(bits)); };
  return {byte(0xf0 | code >> 18), byte(0x80 | (code >> 12 & 63)), byte(0x80 | (code >> 6 & 63)), byte(0x80 | (code & 63))};
}

Tokenizer open(const GgufBuilder& builder) {
  const TemporaryFolder folder;
  write_file(folder / "v.gguf", builder.bytes());
  return Tokenizer::from_gguf(*GgufFile::open(folder / "v.gguf"));
}

GgufBuilder sentencepiece(const std::vector<std::string>& pieces, std::int32_t type = 1) {
  GgufBuilder builder;
  builder.key(k + "model", "llama").key(k + "tokens", pieces).key(k + "scores", std::vector<float>(pieces.size(), -1));
  builder.key(k + "token_type", std::vector<std::int32_t>(pieces.size(), type));
  return builder;
}

template <class F>
double seconds_of(F&& f) {
  const double start = cpu_seconds();
  f();
  return cpu_seconds() - start;
}

/// Chains that grow with the file took 100 to 1000 times as long as the ordinary file of the same size.
void check_alike(double hostile, double ordinary) {
  INFO("hostile ", hostile, " s, ordinary ", ordinary, " s");
  CHECK(hostile < 8 * ordinary + 0.05);
}

}  // namespace

TEST_CASE("pairs of characters that are built to collide cost what other pairs do") {
  const auto pieces = [](bool collide) {
    std::vector<std::string> list;
    Random random(1);
    for (std::uint64_t left = 0x10000; list.size() < 80'000; ++left) {
      // The pairs whose number, left and right, is a multiple of the number of buckets.
      std::uint64_t right = buckets - (left << 32) % buckets;
      while (right < 0x10000) right += buckets;
      for (; right < 0x110000 && list.size() < 80'000; right += buckets) {
        const auto other = static_cast<std::uint32_t>(0x10000 + random.next() % 0x100000);
        list.push_back(utf8(static_cast<std::uint32_t>(left)) + utf8(collide ? static_cast<std::uint32_t>(right) : other));
      }
    }
    return list;
  };
  const GgufBuilder ordinary = sentencepiece(pieces(false)), hostile = sentencepiece(pieces(true));
  const double usual = seconds_of([&] { (void)open(ordinary); });
  check_alike(seconds_of([&] { (void)open(hostile); }), usual);
}

TEST_CASE("merges that are built to collide under a hash without a key cost what other merges do") {
  const auto merges = [](bool collide) {
    std::vector<Merge> list;
    for (Symbol left = 0; list.size() < 60'000; ++left) {
      for (Symbol right = 0; right < 2000 && list.size() < 60'000; ++right) {
        const std::uint64_t pair = static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
        // Fibonacci hashing, which takes the highest bits: all pairs begin their search in one part of 64.
        if (!collide || pair * 0x9e3779b97f4a7c15 >> 58 == 0) list.push_back({left, right, right, static_cast<std::uint32_t>(list.size())});
      }
    }
    return list;
  };
  const std::vector<Merge> ordinary = merges(false), hostile = merges(true);
  const double usual = seconds_of([&] { (void)MergeTable(ordinary, "test"); });
  check_alike(seconds_of([&] { (void)MergeTable(hostile, "test"); }), usual);
}

TEST_CASE("every copy of a token that ends turns is found without looking through the others") {
  const double usual = seconds_of([] { (void)open(sentencepiece(std::vector<std::string>(50'000, "<x>"), 3)); });
  check_alike(seconds_of([] { (void)open(sentencepiece(std::vector<std::string>(50'000, "</s>"), 3)); }), usual);
}

TEST_CASE("lists of steps have a limit in every kind of file") {
  const auto refusal = [](const char* key, const nlohmann::json& item, std::size_t count) {
    nlohmann::json json = nlohmann::json::parse(open(sentencepiece({"a", "b"})).to_json());
    json[key] = nlohmann::json(count, item);
    return error_of([&] { (void)Tokenizer::from_json(json.dump(), "model.bantam"); });
  };
  const nlohmann::json normalizer = {{"kind", 3}, {"pattern", "(a|b)+c"}, {"content", ""}};
  const nlohmann::json pre_tokenizer = {{"kind", 1}, {"pattern", "(a|b)+c"}, {"behavior", 1}, {"prepend", 1}};
  const double start = cpu_seconds();
  CHECK(refusal("normalizer", normalizer, 20'000).find("expected at most 256 normalizer steps, found 20000") != std::string::npos);
  CHECK(refusal("pre_tokenizer", pre_tokenizer, 20'000).find("expected at most 256 pre-tokenizer steps") != std::string::npos);
  CHECK(refusal("decode_replace", {"ab", "b"}, 17).find("expected at most 16 replacements in decoded pieces, found 17") != std::string::npos);
  CHECK(refusal("prefix", 1, 300).find("expected at most 256 tokens around a text") != std::string::npos);
  // 0.1 s; compiling the expressions took 10.
  CHECK(cpu_seconds() - start < 3);
}

TEST_CASE("replacements of a decoder are counted across nested sequences") {
  std::string replace = R"({"type":"Replace","pattern":{"String":"ab"},"content":"b"})";
  std::string ten = replace;
  for (int i = 1; i < 10; ++i) ten += "," + replace;
  const std::string sequence = R"({"type":"Sequence","decoders":[)" + ten + "]}";
  const std::string text = R"({"version":"1.0","decoder":{"type":"Sequence","decoders":[)" + sequence + "," + sequence +
                           R"(]},"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]}})";
  const TemporaryFolder folder;
  write_file(folder / "tokenizer.json", text);
  CHECK(error_of([&] { (void)Tokenizer::from_file(folder / "tokenizer.json"); }).find("at most 16 replacements") != std::string::npos);
}

TEST_CASE("a chain of pieces, each one character longer, is refused before its merges take more memory than the file") {
  // 1500 pieces of up to 6 KB: 4.5 MB in which a million merges lie hidden.
  std::vector<std::string> pieces;
  for (std::size_t i = 1; i <= 1500; ++i) pieces.emplace_back(i, 'a');
  std::vector<std::string_view> symbols(pieces.begin(), pieces.end());
  const std::vector<double> scores(pieces.size(), -1);
  const std::vector<bool> mergeable(pieces.size(), true);
  const std::size_t peak = peak_of([&] {
    CHECK(error_of([&] { (void)merges_from_scores(symbols, scores, mergeable, "file"); }).find("allow more than 262144 merges") != std::string::npos);
  });
  CHECK(peak < 16'000'000);
}
