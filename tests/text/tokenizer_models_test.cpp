// Unigram and WordPiece against their definitions, SentencePiece's unigram models, tiktoken's files, GGUF's other models.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "bantam/io/gguf_writer.hpp"
#include "reference/unigram.hpp"
#include "text/base64.hpp"
#include "text/tokenizer_data.hpp"
#include "text/utf8.hpp"
#include "tokenizer_support.hpp"

using namespace bantam;
using namespace bantam::test;

namespace {

const std::vector<std::string> small_alphabet = {"a", "b", "c", "\xc3\xa9", "\xe4\xb8\x80", "\xe2\x96\x81", "z"};

std::vector<std::string> random_characters(std::mt19937& random, std::size_t most) {
  std::vector<std::string> out;
  for (std::size_t n = 1 + random() % most; n > 0; --n) out.push_back(small_alphabet[random() % small_alphabet.size()]);
  return out;
}

std::string joined(const std::vector<std::string>& parts) {
  std::string out;
  for (const std::string& part : parts) out += part;
  return out;
}

/// A vocabulary of random pieces; some letters of the alphabet are none.
std::vector<std::string> random_pieces(std::mt19937& random, const std::string& continuing) {
  std::vector<std::string> pieces = {"<unk>"};
  for (std::size_t i = 0; i + 1 < small_alphabet.size(); ++i) pieces.push_back(small_alphabet[i]);
  for (int i = 0; i < 20; ++i) pieces.push_back((random() % 2 == 0 ? continuing : std::string()) + joined(random_characters(random, 4)));
  std::ranges::sort(pieces.begin() + 1, pieces.end());
  pieces.erase(std::unique(pieces.begin(), pieces.end()), pieces.end());
  return pieces;
}

TokenizerSpec spec_of(std::string kind, std::vector<std::string> pieces) {
  TokenizerSpec spec;
  spec.kind = std::move(kind);
  spec.types.assign(pieces.size(), TokenType::normal);
  spec.types[0] = TokenType::unknown;
  spec.unknown = 0;
  spec.pieces = PieceList(pieces);
  return spec;
}

Tokenizer through_gguf(const Tokenizer& tokenizer) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "vocabulary.gguf";
  GgufWriter file(path);
  file.key("general.architecture", "llama");
  tokenizer.write_gguf(file, tokenizer.vocab_size());
  file.begin(std::span<const GgufWriter::Announced>());
  file.commit();
  return gguf_tokenizer(path);
}

}  // namespace

TEST_CASE("tokens that end a reply without a name for it go to GGUF files as eot and eom") {
  BANTAM_NEED_SHARED(folder, "models/books4m");
  auto json = nlohmann::json::parse(read_file(folder / "tokenizer.json"));
  const auto first = static_cast<TokenId>(Tokenizer::from_folder(folder).vocab_size());
  for (const TokenId id : {first, first + 1, first + 2}) json["added_tokens"].push_back({{"id", id}, {"content", "<|who" + std::to_string(id) + "|>"}, {"special", true}, {"normalized", false}});
  const TemporaryFolder changed;
  write_file(changed / "tokenizer.json", json.dump());
  write_file(changed / "tokenizer_config.json", read_file(folder / "tokenizer_config.json"));
  write_file(changed / "generation_config.json", message(R"({"eos_token_id": [)", first, ", ", first + 1, "]}"));
  const Tokenizer after = through_gguf(Tokenizer::from_folder(changed.path()));
  for (const TokenId id : {first, first + 1}) CHECK(after.ends_generation(id));
  CHECK_FALSE(after.ends_generation(first + 2));
}

TEST_CASE("merges over texts whose spaces are U+2581 go to GGUF files as Gemma 4's, and come back with their ids") {
  BANTAM_NEED_SHARED(folder, "models/books4m");
  auto json = nlohmann::json::parse(read_file(folder / "tokenizer.json"));
  json["normalizer"] = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\xe2\x96\x81"}};
  json["pre_tokenizer"] = {{"type", "Split"}, {"pattern", {{"String", " "}}}, {"behavior", "MergedWithPrevious"}, {"invert", false}};
  json["decoder"] = {{"type", "Sequence"}, {"decoders", {{{"type", "Replace"}, {"pattern", {{"String", "\xe2\x96\x81"}}}, {"content", " "}}, {{"type", "ByteFallback"}}, {{"type", "Fuse"}}}}};
  const TemporaryFolder changed;
  write_file(changed / "tokenizer.json", json.dump());
  write_file(changed / "tokenizer_config.json", R"({"bos_token":"<s>","eos_token":"</s>","unk_token":"<unk>","add_bos_token":true})");
  const Tokenizer tokenizer = Tokenizer::from_folder(changed.path()), back = through_gguf(tokenizer);
  CHECK(back.bos() == tokenizer.bos());
  CHECK(back.adds_bos());
  for (const std::string text : {"", " ", "The old  captain,\n\n and the boy.", " leading and trailing ", "na\xc3\xafve \xe4\xbd\xa0\xe5\xa5\xbd \xf0\x9f\x98\x80", "x\ty\r\n  z"}) {
    CAPTURE(text);
    CHECK(back.encode(text) == tokenizer.encode(text));
    CHECK(back.decode(back.encode(text, {.add_special = false})) == text);
  }
}

TEST_CASE("unigram encoding finds the highest sum of scores") {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    TokenizerSpec spec = spec_of("unigram", random_pieces(random, ""));
    std::vector<reference::ScoredPiece> pieces;
    for (std::size_t i = 0; i < spec.pieces.size(); ++i) {
      spec.scores.push_back(-static_cast<double>(1 + random() % 1000) / 100);
      if (i > 0) pieces.push_back({std::string(spec.pieces[i]), spec.scores.back()});
    }
    spec.unknown_score = -20;
    const auto data = build_tokenizer(spec, "test");
    const std::vector<std::string> text = random_characters(random, 60);
    const std::vector<TokenId> ids = encode_text(*data, joined(text), false);
    double sum = 0;
    std::string spelled;
    for (const TokenId id : ids) {
      sum += id == 0 ? spec.unknown_score : spec.scores[static_cast<std::size_t>(id)];
      // Only z is no piece.
      spelled += id == 0 ? "z" : spec.pieces[static_cast<std::size_t>(id)];
    }
    CHECK(spelled == joined(text));
    // The order of the sum is another one.
    CHECK(std::abs(sum - reference::best_sum(text, pieces, spec.unknown_score)) < 1e-9);
  }
}

TEST_CASE("wordpiece encoding takes the longest piece again and again") {
  std::mt19937 random(6);
  for (int round = 0; round < 300; ++round) {
    TokenizerSpec spec = spec_of("wordpiece", random_pieces(random, "##"));
    spec.continuing = "##";
    const auto data = build_tokenizer(spec, "test");
    for (int i = 0; i < 10; ++i) {
      const std::string word = joined(random_characters(random, 12));
      std::vector<std::string> found;
      for (const TokenId id : encode_text(*data, word, false)) found.emplace_back(spec.pieces(id));
      std::vector<std::string> expected = reference::longest_first(word, {std::next(spec.pieces.begin()), spec.pieces.end()}, "##");
      if (expected.empty()) expected.push_back("<unk>");
      CHECK(found == expected);
    }
  }
}

TEST_CASE("sentencepiece's unigram models give the ids of its own library") {
  // sentencepiece 0.1.97.
  const std::pair<const char*, const char*> expected[] = {{"Hello w\xc3\xb6rld \xef\xac\x81  x", "151 88 21 102 0 30 31 17 74 25 4 297 "}};
  BANTAM_NEED_SHARED(file, "tokenizers/sentencepiece/test_model.model");
  const Tokenizer tokenizer = Tokenizer::from_file(file);
  CHECK(tokenizer.kind() == "unigram");
  for (const auto& [text, ids] : expected) CHECK(line_of_ids(plain_ids(tokenizer, text)) == ids);
  CHECK(plain_ids(tokenizer, "  a   b ") == plain_ids(tokenizer, "a b"));
  CHECK(tokenizer.decode(tokenizer.encode("Hello world")) == "Hello world");
}

TEST_CASE("sentencepiece's models of words, characters and white space behind words give the ids and texts of its own library") {
  // sentencepiece 0.2.2 trained these; their character maps, which change none of the texts, were taken out. Texts with unknown pieces have no
  // expected text: there the library says "unknown" in its own way.
  const TemporaryFolder folder;
  for (const auto& entry : nlohmann::json::parse(read_file(BANTAM_SOURCE_DIR "/tests/text/sentencepiece_models.json"))) {
    const std::string name = entry.at("name");
    CAPTURE(name);
    write_file(folder / "tokenizer.model", bytes_of_base64(entry.at("model").get<std::string>()).value());
    const Tokenizer tokenizer = Tokenizer::from_file(folder / "tokenizer.model");
    const Tokenizer native = Tokenizer::from_json(tokenizer.to_json(), "native");
    for (const auto& row : entry.at("rows")) {
      const std::string text = row[0], ids = row[1].get<std::string>() + " ";
      CAPTURE(printable(text, 200));
      CHECK(line_of_ids(plain_ids(tokenizer, text)) == ids);
      CHECK(line_of_ids(plain_ids(native, text)) == ids);
      if (row[2].is_string()) CHECK(tokenizer.decode(ids_of_line(ids)) == row[2].get<std::string>());
    }
  }
}

TEST_CASE("all marks of spaces that begin a text vanish where sentencepiece removes extra ones, streamed too") {
  const auto models = nlohmann::json::parse(read_file(BANTAM_SOURCE_DIR "/tests/text/sentencepiece_models.json"));
  const auto entry = std::ranges::find_if(models, [](const nlohmann::json& model) { return model.at("name") == "unigram: white space behind words, no extra spaces"; });
  const TemporaryFolder folder;
  write_file(folder / "tokenizer.model", bytes_of_base64(entry->at("model").get<std::string>()).value());
  const Tokenizer tokenizer = Tokenizer::from_file(folder / "tokenizer.model");
  const TokenId space = tokenizer.find("\xe2\x96\x81"), letter = tokenizer.find("a");
  const std::vector<TokenId> ids = {space, space, letter, space};
  CHECK(tokenizer.decode(ids) == "a ");
  TextStream stream(tokenizer, true);
  std::string streamed;
  for (const TokenId id : ids) streamed += stream.push(id);
  CHECK(streamed + stream.finish() == "a ");
}

TEST_CASE("what other formats cannot say of a sentencepiece model is refused") {
  const TemporaryFolder folder, out;
  for (const auto& entry : nlohmann::json::parse(read_file(BANTAM_SOURCE_DIR "/tests/text/sentencepiece_models.json"))) {
    const std::string name = entry.at("name");
    CAPTURE(name);
    write_file(folder / "tokenizer.model", bytes_of_base64(entry.at("model").get<std::string>()).value());
    const Tokenizer tokenizer = Tokenizer::from_file(folder / "tokenizer.model");
    if (name.starts_with("char")) continue;  // it puts no space anywhere
    CHECK(error_of([&] { tokenizer.write_folder(out.path()); }).find("tokenizer.json has no words") != std::string::npos);
  }
}

TEST_CASE("unigram vocabularies keep their ids in gguf") {
  for (const std::string name : {"sentencepiece/test_model.model", "sentencepiece/test_ja_model.model", "hf-t5-small/tokenizer.json"}) {
    BANTAM_NEED_SHARED(file, "tokenizers/" + name);
    CAPTURE(name);
    const Tokenizer before = Tokenizer::from_file(file);
    const Tokenizer after = through_gguf(before);
    for (const std::string text : {"Hello, world!", "  two  spaces ", "na\xc3\xafve \xef\xac\x81 \xe4\xbd\xa0\xe5\xa5\xbd", "1 22 333", ""}) {
      CHECK(line_of_ids(after.encode(text)) == line_of_ids(before.encode(text)));
      CHECK(after.decode(after.encode(text)) == before.decode(before.encode(text)));
    }
  }
}

TEST_CASE("wordpiece vocabularies keep their ids in gguf") {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "tokenizer.json") << R"({"version":"1.0","added_tokens":[{"id":0,"content":"[UNK]","special":true},{"id":1,"content":"[CLS]","special":true},
    {"id":2,"content":"[SEP]","special":true}],"normalizer":{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,"strip_accents":null,"lowercase":true},
    "pre_tokenizer":{"type":"BertPreTokenizer"},"post_processor":{"type":"BertProcessing","sep":["[SEP]",2],"cls":["[CLS]",1]},"decoder":{"type":"WordPiece","prefix":"##","cleanup":true},
    "model":{"type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"##","max_input_chars_per_word":100,
    "vocab":{"[UNK]":0,"[CLS]":1,"[SEP]":2,"un":3,"##aff":4,"##able":5,"a":6,"##b":7,"able":8,"!":9,"cafe":10,"##s":11}}})";
  const Tokenizer before = Tokenizer::from_folder(folder.path());
  const Tokenizer after = through_gguf(before);
  const std::pair<const char*, const char*> expected[] = {
      {"Unaffable", "1 3 4 5 2 "}, {"able ab!", "1 8 6 7 9 2 "}, {"caf\xc3\xa9s x", "1 10 11 0 2 "}, {"", "1 2 "}, {"un\xe4\xb8\x96" "able", "1 3 0 8 2 "}};
  for (const auto& [text, ids] : expected) {
    CHECK(line_of_ids(before.encode(text)) == ids);
    CHECK(line_of_ids(after.encode(text)) == ids);
    CHECK(after.decode(after.encode(text)) == before.decode(before.encode(text)));
  }
  CHECK(before.decode(before.encode("Unaffable, ab !")) == "unaffable ab!");
  // And from there in a folder, and in native files, also in those that spell pieces as GGUF does.
  std::filesystem::create_directory(folder / "again");
  after.write_folder(folder / "again");
  nlohmann::json older = nlohmann::json::parse(after.to_json());
  for (std::size_t i = 3; i < older["pieces"].size(); ++i) {
    const std::string piece = older["pieces"][i];
    older["pieces"][i] = piece.starts_with("##") ? piece.substr(2) : "\xe2\x96\x81" + piece;
  }
  for (const char* key : {"continuing", "decode_join", "decode_continuing"}) older.erase(key);
  older.update({{"word_begin", "\xe2\x96\x81"}, {"decode_strip", 1}, {"decode_cleanup", true}});
  older["decode_replace"] = nlohmann::json::array({nlohmann::json::array({"\xe2\x96\x81", " "})});
  for (const Tokenizer& other : {Tokenizer::from_folder(folder / "again"), Tokenizer::from_json(after.to_json(), "now"), Tokenizer::from_json(older.dump(), "older")}) {
    for (const auto& [text, ids] : expected) {
      CHECK(line_of_ids(other.encode(text)) == ids);
      CHECK(other.decode(other.encode(text)) == before.decode(before.encode(text)));
    }
  }
}

TEST_CASE("tiktoken's ranks encode as the merges that they stand for") {
  BANTAM_NEED_SHARED(file, "tokenizers/ggml-vocab-gpt-2.gguf");
  const Tokenizer merges = gguf_tokenizer(file);
  const TemporaryFolder folder;
  const auto path = folder.path() / "r50k_base.tiktoken";
  {
    // Ranks are ids there: bytes first, then merges in order.
    std::ofstream out(path, std::ios::binary);
    for (TokenId id = 0; id < 50256; ++id) out << base64_of(merges.piece_bytes(id)) << ' ' << id << '\n';
  }
  const Tokenizer ranks = Tokenizer::from_file(path);
  CHECK(ranks.kind() == "bpe gpt-2");
  CHECK(ranks.vocab_size() == merges.vocab_size());
  for (const std::string& text : split_text(read_file(file.string() + ".inp"), "\n__ggml_vocab_test__\n")) {
    CHECK(plain_ids(ranks, text) == plain_ids(merges, text));
    CHECK(ranks.decode(plain_ids(ranks, text)) == text);
  }
  std::ofstream(path, std::ios::binary) << "IQ== 0\nIg== x\n";
  CHECK(error_of([&] { (void)Tokenizer::from_file(path); }).find("line 2: expected a token in base64 and its rank") != std::string::npos);
  std::ofstream(path, std::ios::binary) << "IQ== 0\nIg== 0\n";
  CHECK(error_of([&] { (void)Tokenizer::from_file(path); }).find("line 2: rank 0 comes twice") != std::string::npos);
  std::ofstream(path, std::ios::binary) << "IQ== 0\nIg== 1\n";
  CHECK(error_of([&] { (void)Tokenizer::from_file(path); }).find("2 ranks are no known vocabulary's") != std::string::npos);
}

TEST_CASE("base64 comes back, whatever the bytes") {
  std::mt19937 random(8);
  for (std::size_t n = 0; n < 100; ++n) {
    std::string bytes;
    while (bytes.size() < n) bytes += static_cast<char>(static_cast<unsigned char>(random() & 0xff));
    CHECK(bytes_of_base64(base64_of(bytes)) == bytes);
  }
  CHECK(base64_of("ab") == "YWI=");
  CHECK_FALSE(bytes_of_base64("YWI*").has_value());
  CHECK_FALSE(bytes_of_base64("YWIxx").has_value());
}

TEST_CASE("of unigram pieces that spell the same each may be an added token, and no other token may") {
  const TemporaryFolder folder;
  const auto load = [&](TokenId id) {
    write_file(folder / "tokenizer.json", R"({"added_tokens": [{"id": )" + std::to_string(id) + R"(, "content": "a", "special": true}],
        "model": {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], ["a", -1.0], ["b", -2.0], ["a", -3.0]]}})");
    return Tokenizer::from_file(folder / "tokenizer.json");
  };
  for (const TokenId id : {1, 3}) CHECK(load(id).encode("a", {.parse_special = true}) == std::vector<TokenId>{id});
  for (const TokenId id : {2, 4}) CHECK(error_of([&] { (void)load(id); }).ends_with("a is token 3 already, and token " + std::to_string(id) + " here"));
}
