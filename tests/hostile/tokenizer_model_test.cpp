// SentencePiece models and GGUF vocabularies that are broken.
#include <cstring>
#include <functional>

#include "bantam/io/gguf.hpp"
#include "bantam/text/tokenizer.hpp"
#include "hostile/hostile_file.hpp"
#include "support.hpp"

using namespace bantam;
using namespace bantam::test;

namespace {

/// Writes protobuf by hand: a length-delimited field, a varint field, a float field.
std::string varint(std::uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(static_cast<unsigned char>(value | 0x80));
  return out + static_cast<char>(static_cast<unsigned char>(value));
}
std::string bytes_field(unsigned number, const std::string& bytes) { return varint(number << 3 | 2) + varint(bytes.size()) + bytes; }
std::string number_field(unsigned number, std::uint64_t value) { return varint(number << 3) + varint(value); }
std::string float_field(unsigned number, float value) {
  char raw[4];
  std::memcpy(raw, &value, 4);
  return varint(number << 3 | 5) + std::string(raw, 4);
}
std::string piece(const std::string& text, float score, unsigned type = 1) {
  return bytes_field(1, bytes_field(1, text) + float_field(2, score) + number_field(3, type));
}
const std::string normalizer = bytes_field(3, bytes_field(1, "identity") + number_field(4, 0));
std::string trainer(unsigned model_type = 2, unsigned vocab = 5) { return bytes_field(2, number_field(3, model_type) + number_field(4, vocab)); }
std::string pieces() {
  return piece("<unk>", 0, 2) + piece("<s>", 0, 3) + piece("</s>", 0, 3) + piece("\xe2\x96\x81", -1) + piece("a", -2);
}

/// A GGUF file of metadata alone.
struct Gguf {
  std::string body;
  std::uint64_t count = 0;
  template <class T>
  static std::string raw(T value) {
    std::string out(sizeof value, '\0');
    std::memcpy(out.data(), &value, sizeof value);
    return out;
  }
  static std::string text(const std::string& value) { return raw<std::uint64_t>(value.size()) + value; }
  void add(const std::string& key, std::uint32_t type, const std::string& value) {
    body += text(key) + raw(type) + value;
    ++count;
  }
  Gguf& str(const std::string& key, const std::string& value) {
    add(key, 8, text(value));
    return *this;
  }
  Gguf& u32(const std::string& key, std::uint32_t value) {
    add(key, 4, raw(value));
    return *this;
  }
  Gguf& texts(const std::string& key, const std::vector<std::string>& values) {
    std::string out = raw<std::uint32_t>(8) + raw<std::uint64_t>(values.size());
    for (const auto& v : values) out += text(v);
    add(key, 9, out);
    return *this;
  }
  Gguf& ints(const std::string& key, const std::vector<std::int32_t>& values) {
    std::string out = raw<std::uint32_t>(5) + raw<std::uint64_t>(values.size());
    for (const auto v : values) out += raw(v);
    add(key, 9, out);
    return *this;
  }
  Gguf& floats(const std::string& key, const std::vector<float>& values) {
    std::string out = raw<std::uint32_t>(6) + raw<std::uint64_t>(values.size());
    for (const auto v : values) out += raw(v);
    add(key, 9, out);
    return *this;
  }
  [[nodiscard]] Tokenizer open() const {
    const TemporaryFolder folder;
    std::string file = "GGUF" + raw<std::uint32_t>(3) + raw<std::uint64_t>(0) + raw(count) + body;
    file.resize((file.size() + 31) / 32 * 32);
    write_file(folder / "v.gguf", file);
    return Tokenizer::from_gguf(*GgufFile::open(folder / "v.gguf"));
  }
  [[nodiscard]] std::string refusal() const {
    return error_of([&] { (void)open(); });
  }
};

const std::string ggml = "tokenizer.ggml.";

Gguf byte_level() { return Gguf{}.str(ggml + "model", "gpt2").str(ggml + "pre", "gpt-2"); }
Gguf spm() { return Gguf{}.str(ggml + "model", "llama"); }

}  // namespace

TEST_CASE("no beginning of a sentencepiece model is taken for one, not even at the end of a field") {
  const std::string whole = pieces() + trainer() + normalizer;
  const TemporaryFolder folder;
  write_file(folder / "tokenizer.model", whole);
  CHECK(Tokenizer::from_file(folder / "tokenizer.model").encode("a a") == std::vector<TokenId>{1, 3, 4, 3, 4});
  for (std::size_t n = 0; n < whole.size(); ++n) {
    CAPTURE(n);
    CHECK_FALSE(refused_tokenizer("tokenizer.model", whole.substr(0, n)).empty());
  }
}

TEST_CASE("no beginning of a real sentencepiece model is taken for one") {
  BANTAM_NEED_SHARED(path, "models/babyllama105/tokenizer.model");
  const std::string whole = read_file(path);
  for (std::size_t n = 0; n < whole.size(); ++n) {
    CAPTURE(n);
    CHECK_FALSE(refused_tokenizer("tokenizer.model", whole.substr(0, n)).empty());
  }
}

TEST_CASE("a sentencepiece model says what it lacks or what is not supported") {
  CHECK(refused_tokenizer("tokenizer.model", pieces()).find("expected a trainer_spec after 5 pieces") != std::string::npos);
  CHECK(refused_tokenizer("tokenizer.model", pieces() + trainer()).find("expected a normalizer_spec") != std::string::npos);
  CHECK(refused_tokenizer("tokenizer.model", trainer() + normalizer).find("without pieces") != std::string::npos);
  CHECK(refused_tokenizer("tokenizer.model", pieces() + trainer(2, 6) + normalizer).find("expected 6 pieces, found 5") != std::string::npos);
  CHECK(refused_tokenizer("tokenizer.model", pieces() + piece("b", std::numeric_limits<float>::infinity()) + trainer(1) + normalizer).find("a unigram model with a score of inf") != std::string::npos);
  CHECK(refused_tokenizer("tokenizer.model", pieces() + piece("", 0) + trainer() + normalizer).find("piece 5 is empty") != std::string::npos);
  CHECK(refused_tokenizer("tokenizer.model", pieces() + piece("\xff", 0) + trainer() + normalizer).find("token 5 is not UTF-8") != std::string::npos);
  CHECK(refused_tokenizer("tokenizer.model", pieces() + piece("b", std::numeric_limits<float>::quiet_NaN()) + trainer() + normalizer).find("no number as score") != std::string::npos);
  const std::string nfkc = bytes_field(3, bytes_field(1, "nmt_nfkc") + bytes_field(2, "xxxx"));
  CHECK(refused_tokenizer("tokenizer.model", pieces() + trainer() + nfkc).find("a character map of 4 bytes whose array has") != std::string::npos);
  CHECK(refused_tokenizer("tokenizer.model", "").find("empty") != std::string::npos);
  CHECK(refused_tokenizer("tokenizer.model", std::string(1000, '\xff')).find("no sentencepiece model") != std::string::npos);
  // A group that nests without end.
  CHECK_FALSE(refused_tokenizer("tokenizer.model", std::string(100'000, '\x0b')).empty());
}

TEST_CASE("one changed byte of a sentencepiece model never does more than fail") {
  const std::string whole = pieces() + piece("\xe2\x96\x81" "a", -3) + trainer() + normalizer;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = whole;
      changed[at] = static_cast<char>(changed[at] ^ (1 << bit));
      const TemporaryFolder folder;
      write_file(folder / "tokenizer.model", changed);
      try {
        (void)Tokenizer::from_file(folder / "tokenizer.model").encode("a aa\xff");
      } catch (const Error& error) {
        CHECK(std::string(error.what()).find('\n') == std::string::npos);
      }
    }
  }
}

TEST_CASE("a gguf vocabulary says what is wrong with it") {
  const auto has = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  CHECK(has(Gguf{}.refusal(), "expected tokenizer.ggml.model, found none"));
  CHECK(has(spm().refusal(), "expected tokenizer.ggml.tokens, found none"));
  CHECK(has(spm().texts(ggml + "tokens", {"a"}).refusal(), "expected tokenizer.ggml.scores"));
  CHECK(has(spm().texts(ggml + "tokens", {"a"}).floats(ggml + "scores", {1, 2}).refusal(), "scores: expected 1 values, found 2"));
  CHECK(has(spm().texts(ggml + "tokens", {"a"}).ints(ggml + "token_type", {1, 1}).refusal(), "token_type: expected 1 values, found 2"));
  CHECK(has(spm().texts(ggml + "tokens", {"a"}).ints(ggml + "token_type", {7}).refusal(), "expected 0 to 6, found 7"));
  CHECK(has(spm().texts(ggml + "tokens", {}).floats(ggml + "scores", {}).refusal(), "the vocabulary is empty"));
  CHECK(has(spm().texts(ggml + "tokens", {"\xff"}).floats(ggml + "scores", {0}).refusal(), "token 0 is not UTF-8"));
  CHECK(has(spm().texts(ggml + "tokens", {"a"}).floats(ggml + "scores", {0}).u32(ggml + "bos_token_id", 1).refusal(), "token 1, the vocabulary has 1"));
  CHECK(has(spm().texts(ggml + "tokens", {"a"}).floats(ggml + "scores", {0}).u32(ggml + "unknown_token_id", 0x80000000).refusal(), "expected a token id"));
  CHECK(has(byte_level().texts(ggml + "tokens", {"a"}).refusal(), "expected tokenizer.ggml.merges"));
  CHECK(has(byte_level().texts(ggml + "tokens", {"a"}).texts(ggml + "merges", {"aa"}).refusal(), "merges[0]: expected two pieces, found aa"));
  CHECK(has(byte_level().texts(ggml + "tokens", {"a"}).texts(ggml + "merges", {""}).refusal(), "merges[0]: expected two pieces"));
  CHECK(has(byte_level().texts(ggml + "tokens", {"a"}).texts(ggml + "merges", {"a b"}).refusal(), "merges[0]: b is not in the vocabulary"));
  CHECK(has(byte_level().texts(ggml + "tokens", {"a", "b", "ab"}).texts(ggml + "merges", {"a b", "a b"}).refusal(), "merge 1 comes twice"));
  CHECK(has(Gguf{}.str(ggml + "model", "gpt2").str(ggml + "pre", "nobody").texts(ggml + "tokens", {"a"}).refusal(), "pre-tokenizer nobody is not supported yet"));
  CHECK(has(Gguf{}.str(ggml + "model", "t5").texts(ggml + "tokens", {"a"}).refusal(), "expected tokenizer.ggml.scores, found none"));
  CHECK(has(Gguf{}.str(ggml + "model", "rwkv").texts(ggml + "tokens", {"a"}).refusal(), "rwkv is not supported yet"));
}

TEST_CASE("empty and repeated pieces of a gguf vocabulary do no harm") {
  const Tokenizer tokenizer = spm().texts(ggml + "tokens", {"<unk>", "", "a", "a", "\xe2\x96\x81", "\xe2\x96\x81" "a"})
                                  .floats(ggml + "scores", {0, 0, -1, -2, -3, -4}).ints(ggml + "token_type", {2, 1, 1, 1, 1, 1}).open();
  CHECK(tokenizer.encode("a", {.add_special = false}) == std::vector<TokenId>{5});
}
