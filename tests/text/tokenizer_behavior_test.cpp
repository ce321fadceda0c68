// What every tokenizer promises, whatever file it came from.
#include <nlohmann/json.hpp>

#include <cmath>
#include <random>

#include "text/utf8.hpp"
#include "tokenizer_support.hpp"

using namespace bantam;
using namespace bantam::test;

namespace {

/// Every tokenizer of the shared data; empty where that is absent.
std::vector<std::pair<std::string, Tokenizer>> all_tokenizers() {
  std::vector<std::pair<std::string, Tokenizer>> out;
  for (const std::string name : {"gpt-2", "llama-spm", "falcon", "starcoder", "deepseek-llm"}) {
    const auto path = shared_data("tokenizers/ggml-vocab-" + name + ".gguf");
    if (!path.empty()) out.emplace_back(name, gguf_tokenizer(path));
  }
  for (const std::string name : {"models/stories260k", "models/babyllama105", "models/books4m", "tokenizers/hf-phi-2", "tokenizers/hf-roberta-base"}) {
    const auto path = shared_data(name);
    if (!path.empty()) out.emplace_back(name, Tokenizer::from_folder(path));
  }
  return out;
}

const std::string varied = "Hello, y'all!  3.14\n\n\tna\xc3\xafve \xe2\x80\x94 \xe6\x97\xa5\xe6\x9c\xac \xf0\x9f\xa6\x99 <s></s><|endoftext|> x";

}  // namespace

TEST_CASE("native json carries a tokenizer exactly") {
  for (const auto& [name, tokenizer] : all_tokenizers()) {
    CAPTURE(name);
    const std::string json = tokenizer.to_json();
    const Tokenizer again = Tokenizer::from_json(json, "test");
    CHECK(again.to_json() == json);
    CHECK(again.encode(varied) == tokenizer.encode(varied));
    CHECK(again.encode(varied, {.parse_special = true}) == tokenizer.encode(varied, {.parse_special = true}));
    CHECK(again.kind() == tokenizer.kind());
    CHECK(again.bos() == tokenizer.bos());
    CHECK(again.eos() == tokenizer.eos());
    CHECK(again.adds_bos() == tokenizer.adds_bos());
    CHECK(again.chat_template() == tokenizer.chat_template());
  }
}

TEST_CASE("streamed text is whole characters and adds up to the decoded text") {
  for (const auto& [name, tokenizer] : all_tokenizers()) {
    CAPTURE(name);
    const auto ids = tokenizer.encode(varied, {.parse_special = true});
    TextStream stream(tokenizer, true);
    std::string text;
    for (const TokenId id : ids) {
      const std::string part = stream.push(id);
      CHECK(utf8::is_valid(part));
      text += part;
    }
    text += stream.finish();
    CHECK(text == tokenizer.decode(ids));
  }
}

TEST_CASE("random ids stream into valid utf-8 that equals the decoded text") {
  std::mt19937 random(3);
  for (const auto& [name, tokenizer] : all_tokenizers()) {
    CAPTURE(name);
    for (int round = 0; round < 20; ++round) {
      std::vector<TokenId> ids;
      for (int i = 0; i < 60; ++i) ids.push_back(static_cast<TokenId>(random() % static_cast<unsigned>(tokenizer.vocab_size())));
      TextStream stream(tokenizer, true);
      std::string text;
      for (const TokenId id : ids) text += stream.push(id);
      text += stream.finish();
      CHECK(utf8::is_valid(text));
      CHECK(text == tokenizer.decode(ids));
    }
  }
}

TEST_CASE("a character split over tokens is held back until it is whole") {
  BANTAM_NEED_SHARED(folder, "models/books4m");
  const Tokenizer tokenizer = Tokenizer::from_folder(folder);
  TextStream stream(tokenizer);
  std::vector<std::string> parts;
  for (const char* byte : {"<0xF0>", "<0x9F>", "<0xA6>", "<0x99>"}) parts.push_back(stream.push(tokenizer.find(byte)));
  CHECK(parts == std::vector<std::string>{"", "", "", "\xf0\x9f\xa6\x99"});
  CHECK(stream.push(tokenizer.find("<0xF0>")).empty());
  CHECK(stream.finish() == "\xef\xbf\xbd");
}

TEST_CASE("special spellings are text unless asked for") {
  BANTAM_NEED_SHARED(folder, "models/books4m");
  const Tokenizer tokenizer = Tokenizer::from_folder(folder);
  const auto plain = plain_ids(tokenizer, "a</s><s>b");
  for (const TokenId id : plain) CHECK_FALSE(tokenizer.is_special(id));
  CHECK(tokenizer.decode(plain) == "a</s><s>b");
  const auto parsed = tokenizer.encode("a</s>b", {.add_special = false, .parse_special = true});
  CHECK(std::ranges::count(parsed, tokenizer.eos()) == 1);
  CHECK(tokenizer.decode(parsed, true) == "a</s> b");  // each text between special tokens begins with a space of its own
}

TEST_CASE("the vocabulary can be listed: spellings, types, scores") {
  for (const auto& [name, tokenizer] : all_tokenizers()) {
    CAPTURE(name);
    int controls = 0;
    for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
      if (tokenizer.type(id) == TokenType::control) {
        ++controls;
        CHECK(tokenizer.is_special(id));
      }
      if (tokenizer.type(id) == TokenType::byte) CHECK(tokenizer.piece_bytes(id).size() == 1);
      CHECK(std::isfinite(tokenizer.score(id)));
    }
    CHECK(controls > 0);
    CHECK_THROWS_AS((void)tokenizer.type(tokenizer.vocab_size()), Error);
    CHECK_THROWS_AS((void)tokenizer.score(-1), Error);
  }
  BANTAM_NEED_SHARED(file, "tokenizers/ggml-vocab-llama-spm.gguf");
  const Tokenizer spm = gguf_tokenizer(file);
  CHECK(spm.type(3) == TokenType::byte);
  CHECK(spm.score(260) == -1);  // by the order of merges
  CHECK(spm.score(261) == -2);
}

TEST_CASE("ids outside the vocabulary are refused") {
  BANTAM_NEED_SHARED(folder, "models/stories260k");
  const Tokenizer tokenizer = Tokenizer::from_folder(folder);
  for (const TokenId id : {-1, 512, 0x7fffffff}) {
    const std::vector<TokenId> ids = {id};
    CHECK(error_of([&] { (void)tokenizer.decode(ids); }).find("outside the vocabulary of 512") != std::string::npos);
    CHECK_THROWS_AS((void)tokenizer.piece(id), Error);
    CHECK_FALSE(tokenizer.is_special(id));
    CHECK_FALSE(tokenizer.ends_generation(id));
  }
  CHECK(tokenizer.find("no such piece") == -1);
  CHECK(tokenizer.find("</s>") == 2);
  CHECK(tokenizer.ends_generation(2));
}

TEST_CASE("bytes that are no text become byte tokens and come back") {
  for (const auto& [name, tokenizer] : all_tokenizers()) {
    CAPTURE(name);
    std::string bytes = "a";
    for (int b = 0; b < 256; ++b) bytes += static_cast<char>(static_cast<unsigned char>(b));
    bytes += "\xed\xa0\x80 z";
    const auto ids = plain_ids(tokenizer, bytes);
    std::string joined;
    for (const TokenId id : ids) joined += tokenizer.piece_bytes(id);
    // babyllama105 has no byte tokens, the other vocabularies lack those that no UTF-8 text needs.
    if (name == "gpt-2" || name == "tokenizers/hf-phi-2") CHECK(joined == bytes);
    if (name == "llama-spm" || name == "models/stories260k" || name == "models/books4m") CHECK(joined == " " + bytes);
    CHECK(utf8::is_valid(tokenizer.decode(ids)));
  }
}

TEST_CASE("empty text gives special tokens alone") {
  BANTAM_NEED_SHARED(folder, "models/books4m");
  const Tokenizer tokenizer = Tokenizer::from_folder(folder);
  CHECK(tokenizer.encode("") == std::vector<TokenId>{1});
  CHECK(plain_ids(tokenizer, "").empty());
  CHECK(tokenizer.decode({}).empty());
}
