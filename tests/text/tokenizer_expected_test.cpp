// The ids that the authors of the vocabularies expect.
#include <nlohmann/json.hpp>

#include "tokenizer_support.hpp"

using namespace bantam;
using namespace bantam::test;

TEST_CASE("every expected id of the reference vocabularies comes out") {
  for (const std::string name : {"gpt-2", "llama-spm", "falcon", "starcoder", "deepseek-llm"}) {
    BANTAM_NEED_SHARED(path, "tokenizers/ggml-vocab-" + name + ".gguf");
    const Tokenizer tokenizer = gguf_tokenizer(path);
    // The line feeds around a separator belong to it.
    const auto texts = split_text(read_file(path.string() + ".inp"), "\n__ggml_vocab_test__\n");
    const auto lines = split_text(read_file(path.string() + ".out"), "\n");
    CAPTURE(name);
    REQUIRE(texts.size() > 40);
    REQUIRE(lines.size() >= texts.size());
    for (std::size_t i = 0; i < texts.size(); ++i) {
      CAPTURE(texts[i]);
      CHECK(line_of_ids(plain_ids(tokenizer, texts[i])) == line_of_ids(ids_of_line(lines[i])));
    }
  }
}

TEST_CASE("decoding gives back what the reference texts were") {
  for (const std::string name : {"gpt-2", "llama-spm", "falcon", "starcoder", "deepseek-llm"}) {
    BANTAM_NEED_SHARED(path, "tokenizers/ggml-vocab-" + name + ".gguf");
    const Tokenizer tokenizer = gguf_tokenizer(path);
    for (const std::string& text : split_text(read_file(path.string() + ".inp"), "\n__ggml_vocab_test__\n")) {
      CHECK(tokenizer.decode(tokenizer.encode(text)) == text);
    }
  }
}

TEST_CASE("prompts of the golden file get the ids recorded there, bos first") {
  BANTAM_NEED_SHARED(golden_path, "models/golden.json");
  const auto golden = nlohmann::json::parse(read_file(golden_path));
  int compared = 0;
  for (const auto& [model, records] : golden.items()) {
    BANTAM_NEED_SHARED(folder, "models/" + model);
    const Tokenizer tokenizer = Tokenizer::from_folder(folder);
    CHECK(tokenizer.adds_bos());
    for (const auto& record : records.at("greedy")) {
      CHECK(tokenizer.encode(record.at("prompt").get<std::string>()) == record.at("prompt_ids").get<std::vector<TokenId>>());
      ++compared;
    }
  }
  CHECK(compared > 5);
}

TEST_CASE("tokenizer.json, tokenizer.model and gguf of a model agree on whole texts") {
  const std::pair<std::string, std::string> models[] = {
      {"stories260k", "stories260k-f32.gguf"}, {"babyllama105", "babyllama105-f32.gguf"}, {"books4m", "books4m-f16.gguf"}};
  for (const auto& [name, gguf] : models) {
    BANTAM_NEED_SHARED(folder, "models/" + name);
    const Tokenizer json = Tokenizer::from_file(folder / "tokenizer.json");
    const Tokenizer model = Tokenizer::from_file(folder / "tokenizer.model");
    const Tokenizer container = gguf_tokenizer(folder / gguf);
    for (const std::string corpus : {"wikitext2-test.raw.txt", "tinystories-700.txt", "tinyshakespeare.txt", "books-valid.txt"}) {
      BANTAM_NEED_SHARED(path, "corpora/" + corpus);
      const std::string text = read_file(path).substr(0, 300'000);  // may end inside a character
      CAPTURE(name);
      CAPTURE(corpus);
      const auto expected = json.encode(text);
      CHECK(expected.size() > 50'000);
      CHECK((model.encode(text) == expected));
      CHECK((container.encode(text) == expected));
      // A vocabulary without byte tokens loses the characters that it lacks.
      if (name != "babyllama105") CHECK((json.decode(expected).substr(0, 299'990) == text.substr(0, 299'990)));
    }
  }
}
