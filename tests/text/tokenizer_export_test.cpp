// Tokenizers written as Hugging Face files: read back, they are the same.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "hostile/gguf_builder.hpp"
#include "text/tokenizer_support.hpp"

namespace bantam::test {
namespace {

/// Writes the files and reads them.
Tokenizer exported(const Tokenizer& tokenizer) {
  const TemporaryFolder folder;
  tokenizer.write_folder(folder.path());
  return Tokenizer::from_folder(folder.path());
}

const char* const varied[] = {
    "", " ", "  ", "a", "Hello, world!", " leading", "trailing ", "two  spaces, three   spaces,    four", "\n", "a\n\n\nb\t\tc\r\n",
    "don't we'll I'M they'RE", "1 22 333 4444 55555 3.14159e-10", "x = [i for i in range(10)]  # code\n    return\n",
    "\xc3\x9c" "ber na\xc3\xafve caf\xc3\xa9 \xe2\x80\x9cquotes\xe2\x80\x9d \xe2\x80\x94 dash",
    "\xe4\xbd\xa0\xe5\xa5\xbd\xef\xbc\x8c\xe4\xb8\x96\xe7\x95\x8c\xe3\x80\x82 \xe3\x81\x93\xe3\x82\x93 \xed\x95\x9c\xea\xb5\xad\xec\x96\xb4",
    "\xd0\x9f\xd1\x80\xd0\xb8\xd0\xb2\xd0\xb5\xd1\x82 \xd7\xa9\xd7\x9c\xd7\x95\xd7\x9d \xd9\x85\xd8\xb1\xd8\xad\xd8\xa8\xd8\xa7",
    "\xf0\x9f\x98\x80\xf0\x9f\x91\xa8\xe2\x80\x8d\xf0\x9f\x91\xa9 e\xcc\x81 \xe2\x96\x81 \xc2\xa0|", "<s> </s> <unk> <|endoftext|>",
    "aaaaaaaaaaaaaaaaaaaaaaaaa", "=========================== ----------- ......", "\x01\x7f\xff\xfe invalid \xc3"};

void check_same(const Tokenizer& before, const std::string& corpus) {
  const Tokenizer after = exported(before);
  CHECK(after.bos() == before.bos());
  CHECK(after.eos() == before.eos());
  CHECK(after.unknown() == before.unknown());
  CHECK(after.adds_bos() == before.adds_bos());
  CHECK(after.chat_template() == before.chat_template());
  REQUIRE(after.vocab_size() == before.vocab_size());
  for (TokenId id = 0; id < before.vocab_size(); ++id) {
    INFO("token ", id, " ", printable(before.piece(id)));
    REQUIRE(after.is_special(id) == before.is_special(id));
    REQUIRE(after.ends_generation(id) == before.ends_generation(id));
    // Of two tokens with one spelling only the one that encoding gives can be written.
    if (before.find(before.piece(id)) != id) continue;
    REQUIRE(after.piece(id) == before.piece(id));
    REQUIRE(after.piece_bytes(id) == before.piece_bytes(id));
    REQUIRE(after.first_piece_bytes(id) == before.first_piece_bytes(id));
  }
  for (const bool parse_special : {false, true}) {
    for (const std::string text : varied) {
      INFO(printable(text), " special: ", parse_special);
      const EncodeOptions options{.add_special = true, .parse_special = parse_special};
      const std::vector<TokenId> ids = before.encode(text, options);
      CHECK(line_of_ids(after.encode(text, options)) == line_of_ids(ids));
      CHECK(after.decode(ids) == before.decode(ids));
    }
  }
  const std::vector<TokenId> ids = before.encode(corpus);
  const std::vector<TokenId> ids_after = after.encode(corpus);
  CHECK(ids.size() == ids_after.size());
  const auto [a, b] = std::mismatch(ids.begin(), ids.end(), ids_after.begin(), ids_after.end());
  const auto at = static_cast<std::size_t>(a - ids.begin());
  INFO("first difference at token ", at, " of ", ids.size());
  CHECK((a == ids.end() && b == ids_after.end()));
}

std::string corpus() {
  std::string text;
  for (const char* name : {"corpora/tinyshakespeare.txt", "corpora/wikitext2-train-1000.txt"}) {
    if (const auto path = shared_data(name); !path.empty()) text += read_file(path).substr(0, 300'000);
  }
  return text;
}

TEST_CASE("vocabularies of GGUF files keep their ids as tokenizer.json") {
  BANTAM_NEED_SHARED(folder, "tokenizers");
  for (const char* name : {"gpt-2", "llama-spm", "falcon", "starcoder", "deepseek-llm"}) {
    CAPTURE(name);
    check_same(gguf_tokenizer(folder / (std::string("ggml-vocab-") + name + ".gguf")), corpus());
  }
}

TEST_CASE("the vocabularies of the shared models keep their ids as tokenizer.json") {
  BANTAM_NEED_SHARED(folder, "models");
  for (const char* name : {"books4m/books4m-f16.gguf", "babyllama105/babyllama105-f32.gguf", "stories260k/stories260k-f32.gguf"}) {
    CAPTURE(name);
    check_same(gguf_tokenizer(folder / name), corpus());
  }
}

TEST_CASE("tokenizer.model and tokenizer.json keep their ids as tokenizer.json") {
  BANTAM_NEED_SHARED(models, "models");
  BANTAM_NEED_SHARED(tokenizers, "tokenizers");
  check_same(Tokenizer::from_file(models / "books4m/tokenizer.model"), corpus());
  check_same(Tokenizer::from_folder(models / "books4m"), corpus());
  check_same(Tokenizer::from_folder(tokenizers / "hf-phi-2"), corpus());
  check_same(Tokenizer::from_folder(tokenizers / "hf-roberta-base"), corpus());
}

TEST_CASE("merges derived from scores are those of the model's own tokenizer.json") {
  BANTAM_NEED_SHARED(models, "models");
  for (const char* name : {"books4m", "stories260k"}) {
    CAPTURE(name);
    const TemporaryFolder folder;
    Tokenizer::from_file(models / name / "tokenizer.model").write_folder(folder.path());
    const auto merges = [](const std::filesystem::path& file) {
      std::vector<std::string> list;
      const auto json = nlohmann::json::parse(read_file(file));
      for (const auto& merge : json["model"]["merges"]) {
        list.push_back(merge.is_string() ? merge.get<std::string>() : merge[0].get<std::string>() + " " + merge[1].get<std::string>());
      }
      return list;
    };
    auto ours = merges(folder / "tokenizer.json");
    auto theirs = merges(models / name / "tokenizer.json");
    CHECK(ours.size() > 100);
    // Of several ways to make one piece theirs has others first; the pieces come in one order.
    const auto results = [](const std::vector<std::string>& list) {
      std::vector<std::string> texts = list;
      for (std::string& text : texts) text.erase(text.find(' '), 1);
      return texts;
    };
    CHECK((results(ours) == results(theirs)));
    std::sort(ours.begin(), ours.end());
    std::sort(theirs.begin(), theirs.end());
    CHECK((ours == theirs));
  }
}

TEST_CASE("symbols of SentencePiece's own keep their ids as tokenizer.json") {
  // 5 and 6 are user-defined with the score that converters give to SentencePiece's own.
  GgufBuilder builder;
  builder.key("tokenizer.ggml.model", "llama")
      .key("tokenizer.ggml.tokens", std::vector<std::string>{"<unk>", "<s>", "</s>", "a", "b", "\n", "<tag>", "ab", "\xe2\x96\x81", "\xe2\x96\x81" "a"})
      .key("tokenizer.ggml.scores", std::vector<float>{0, 0, 0, -3, -4, 0, 0, -1, -5, -2})
      .key("tokenizer.ggml.token_type", std::vector<std::int32_t>{2, 3, 3, 1, 1, 4, 4, 1, 1, 1});
  const TemporaryFolder folder;
  write_file(folder / "v.gguf", builder.bytes());
  const Tokenizer before = gguf_tokenizer(folder / "v.gguf");
  const Tokenizer after = exported(before);
  for (const char* text : {"ab", "a<tag>b", "b\nab a", "ab<tag><tag>\n\nab ab", "a b<tag> a"}) {
    CAPTURE(text);
    CHECK(line_of_ids(after.encode(text)) == line_of_ids(before.encode(text)));
  }
}

TEST_CASE("a folder that does not exist is named") {
  BANTAM_NEED_SHARED(model, "models/stories260k");
  const Tokenizer tokenizer = Tokenizer::from_folder(model);
  CHECK(error_of([&] { tokenizer.write_folder("/no/such/folder"); }).find("/no/such/folder/tokenizer.json") != std::string::npos);
}

}  // namespace
}  // namespace bantam::test
