// tokenizer.json files that are broken: each gets one clear line.
#include <nlohmann/json.hpp>

#include <functional>

#include "bantam/text/tokenizer.hpp"
#include "hostile/hostile_file.hpp"
#include "support.hpp"

using namespace bantam;
using namespace bantam::test;
using nlohmann::json;

namespace {

json small() {
  return json::parse(R"({"version":"1.0","added_tokens":[{"id":3,"content":"<s>","special":true}],"normalizer":null,
    "pre_tokenizer":null,"post_processor":null,"decoder":null,
    "model":{"type":"BPE","unk_token":null,"vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]}})");
}

struct BrokenTokenizer {
  const char* what;
  std::function<void(json&)> breaks;
  const char* says;
};

json vocab(const char* text) { return json::parse(text); }

const std::vector<BrokenTokenizer> broken_tokenizers = {
    {"another version", [](json& j) { j["version"] = "2.0"; }, "expected version 1.0, found 2.0"},
    {"version no text", [](json& j) { j["version"] = 1; }, "version: expected a string, found number"},
    {"no model", [](json& j) { j.erase("model"); }, "expected \"model\""},
    {"model no object", [](json& j) { j["model"] = 5; }, "expected an object, found number"},
    {"unknown model", [](json& j) { j["model"]["type"] = "Markov"; }, "found Markov"},
    {"unigram without scores", [](json& j) { j["model"]["type"] = "Unigram"; }, "vocab: expected an array"},
    {"unigram piece without score", [](json& j) { j["model"] = vocab(R"({"type":"Unigram","unk_id":0,"vocab":[["a",0],["b"]]})"); }, "vocab[1]: expected a piece and its score"},
    {"unigram unknown id", [](json& j) { j["model"] = vocab(R"({"type":"Unigram","unk_id":7,"vocab":[["a",0]]})"); }, "unk_id: token 7 in a vocabulary of 1"},
    {"unigram huge score", [](json& j) { j["model"] = vocab(R"({"type":"Unigram","unk_id":0,"vocab":[["a",-1e300],["b",0],["c",0]]})"); }, "a unigram model with a score of"},
    {"unigram long piece", [](json& j) { j["model"] = json::parse("{\"type\":\"Unigram\",\"vocab\":[[\"a\",0],[\"b\",0],[\"" + std::string(2000, 'x') + "\",0]]}"); }, "at most 1024 are supported"},
    {"word piece without unknown", [](json& j) { j["model"]["type"] = "WordPiece"; }, "unk_token: [UNK] is not in the vocabulary"},
    {"word level without unknown", [](json& j) { j["model"]["type"] = "WordLevel"; }, "unk_token: <unk> is not in the vocabulary"},
    {"no type and no merges", [](json& j) { j["model"].erase("type"); j["model"].erase("merges"); }, "found neither"},
    {"no vocabulary", [](json& j) { j["model"].erase("vocab"); }, "expected \"vocab\""},
    {"vocabulary a list", [](json& j) { j["model"]["vocab"] = json::array(); }, "vocab: expected an object"},
    {"empty vocabulary", [](json& j) { j["model"]["vocab"] = json::object(); j["model"]["merges"] = json::array(); j["added_tokens"] = json::array(); }, "the vocabulary is empty"},
    {"negative id", [](json& j) { j["model"]["vocab"]["a"] = -1; }, "expected a token id"},
    {"fractional id", [](json& j) { j["model"]["vocab"]["a"] = 0.5; }, "expected a token id"},
    {"huge id", [](json& j) { j["model"]["vocab"]["a"] = 4294967296; }, "expected a token id"},
    {"id as text", [](json& j) { j["model"]["vocab"]["a"] = "0"; }, "expected a token id"},
    {"sparse ids", [](json& j) { j["model"]["vocab"]["a"] = 2000000000; }, "in a vocabulary of 3 entries"},
    {"one id twice", [](json& j) { j["model"]["vocab"]["b"] = 0; }, "belongs to a and to b"},
    {"merge of an absent piece", [](json& j) { j["model"]["merges"][0] = "a c"; }, "merges[0]: c is not in the vocabulary"},
    {"merge into an absent piece", [](json& j) { j["model"]["merges"][0] = "b a"; }, "merges[0]: ba is not in the vocabulary"},
    {"merge of one", [](json& j) { j["model"]["merges"][0] = "ab"; }, "expected two pieces"},
    {"merge of three", [](json& j) { j["model"]["merges"][0] = "a b c"; }, "expected two pieces"},
    {"merge of three in a list", [](json& j) { j["model"]["merges"][0] = json::parse(R"(["a","b","c"])"); }, "expected two pieces"},
    {"merge a number", [](json& j) { j["model"]["merges"][0] = 7; }, "expected two pieces"},
    {"merge twice", [](json& j) { j["model"]["merges"] = json::parse(R"(["a b","a b"])"); }, "merge 1 comes twice"},
    {"unknown token absent", [](json& j) { j["model"]["unk_token"] = "nope"; }, "nope is not in the vocabulary"},
    {"word suffix no text", [](json& j) { j["model"]["end_of_word_suffix"] = 1; }, "end_of_word_suffix: expected a string"},
    {"flag no flag", [](json& j) { j["model"]["byte_fallback"] = 1; }, "byte_fallback: expected true or false"},
    {"added twice", [](json& j) { j["added_tokens"].push_back(j["added_tokens"][0]); }, "added twice"},
    {"added without content", [](json& j) { j["added_tokens"][0].erase("content"); }, "expected \"content\""},
    {"added empty", [](json& j) { j["added_tokens"][0]["content"] = ""; }, "the content is empty"},
    {"added under another id", [](json& j) { j["added_tokens"][0]["content"] = "a"; }, "a is token 0 already, and token 3 here"},
    {"added far away", [](json& j) { j["added_tokens"][0]["id"] = 2147483647; }, "in a vocabulary of 3 entries"},
    {"added over another", [](json& j) { j["added_tokens"][0]["id"] = 0; }, "token 0 is a in the vocabulary and <s> here"},
    {"added too long", [](json& j) { j["added_tokens"][0]["content"] = std::string(2000, 'x'); }, "at most 1024"},
    {"piece too long", [](json& j) { j["model"]["vocab"][std::string(70000, 'x')] = 4; }, "at most 65536"},
    {"unknown normalizer", [](json& j) { j["normalizer"] = vocab(R"({"type":"Rot13"})"); }, "normalizer Rot13 is not supported yet"},
    {"charsmap", [](json& j) { j["normalizer"] = vocab(R"({"type":"Precompiled","precompiled_charsmap":"AAAA"})"); }, "a character map of 3 bytes"},
    {"charsmap no base64", [](json& j) { j["normalizer"] = vocab(R"({"type":"Precompiled","precompiled_charsmap":"A*AA"})"); }, "a character map that is not base64"},
    {"charsmap cut", [](json& j) { j["normalizer"] = vocab(R"({"type":"Precompiled","precompiled_charsmap":"/////wAAAAA="})"); }, "a character map of 8 bytes whose array has 4294967295"},
    {"replace nothing", [](json& j) { j["normalizer"] = vocab(R"({"type":"Replace","pattern":{"String":""},"content":"x"})"); }, "empty pattern"},
    {"split without pattern", [](json& j) { j["pre_tokenizer"] = vocab(R"({"type":"Split","behavior":"Isolated"})"); }, "expected \"pattern\""},
    {"split behavior", [](json& j) { j["pre_tokenizer"] = vocab(R"({"type":"Split","pattern":{"Regex":"a"},"behavior":"Shredded"})"); }, "unknown value Shredded"},
    {"bad expression", [](json& j) { j["pre_tokenizer"] = vocab(R"({"type":"Split","pattern":{"Regex":"(a"},"behavior":"Isolated"})"); }, "bad regular expression at byte 2"},
    {"unknown property", [](json& j) { j["pre_tokenizer"] = vocab(R"({"type":"Split","pattern":{"Regex":"\\p{Klingon}"},"behavior":"Isolated"})"); }, "bad regular expression"},
    {"variable lookbehind", [](json& j) { j["pre_tokenizer"] = vocab(R"({"type":"Split","pattern":{"Regex":"(?<=a*)b"},"behavior":"Isolated"})"); }, "bad regular expression"},
    {"class never closed", [](json& j) { j["pre_tokenizer"] = vocab(R"({"type":"Split","pattern":{"Regex":"[\\p{L}&&[^a]"},"behavior":"Isolated"})"); }, "bad regular expression"},
    {"fixed length of nothing", [](json& j) { j["pre_tokenizer"] = vocab(R"({"type":"FixedLength","length":0})"); }, "length: expected 1 to 65535, found 0"},
    {"single code unit", [](json& j) { j["pre_tokenizer"] = vocab(R"({"type":"Split","pattern":{"Regex":"\\C"},"behavior":"Isolated"})"); }, "bad regular expression"},
    {"huge expression", [](json& j) { j["pre_tokenizer"] = vocab(R"({"type":"Split","pattern":{"Regex":"((a{1,500}){1,500}){1,500}"},"behavior":"Isolated"})"); }, "bad regular expression"},
    {"unknown pre-tokenizer", [](json& j) { j["pre_tokenizer"] = vocab(R"({"type":"Dice"})"); }, "pre-tokenizer Dice is not supported yet"},
    {"metaspace scheme", [](json& j) { j["pre_tokenizer"] = vocab(R"({"type":"Metaspace","prepend_scheme":"often"})"); }, "unknown value often"},
    {"unknown decoder", [](json& j) { j["decoder"] = vocab(R"({"type":"Rot13"})"); }, "decoder Rot13 is not supported yet"},
    {"strip two characters", [](json& j) { j["decoder"] = vocab(R"({"type":"Strip","content":"ab","start":1,"stop":0})"); }, "content: expected one character"},
    {"regular expression in a whole text", [](json& j) { j["decoder"] = vocab(R"({"type":"Sequence","decoders":[{"type":"Fuse"},{"type":"Replace","pattern":{"Regex":"a"},"content":""}]})"); }, "in the whole text is not supported yet"},
    {"decoder that swells", [](json& j) { j["decoder"] = vocab(R"({"type":"Replace","pattern":{"String":"a"},"content":"aaaa"})"); }, "longer text"},
    {"template without text", [](json& j) { j["post_processor"] = vocab(R"({"type":"TemplateProcessing","single":[]})"); }, "the sequence is missing"},
    {"template of an absent token", [](json& j) { j["post_processor"] = vocab(R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"[X]"}},{"Sequence":{"id":"A"}}]})"); }, "[X] is not in the vocabulary"},
    {"template of an absent id", [](json& j) { j["post_processor"] = vocab(R"({"type":"RobertaProcessing","cls":["x",99],"sep":["y",98]})"); }, "token 99, the vocabulary has 4"},
    {"steps without end", [](json& j) { j["normalizer"] = {{"type", "Sequence"}, {"normalizers", json(300, json{{"type", "NFC"}})}}; }, "more than 256 steps"},
};

}  // namespace

TEST_CASE("a broken tokenizer.json is refused with what is wrong and where") {
  {
    const TemporaryFolder folder;
    write_file(folder / "tokenizer.json", small().dump());
    CHECK(Tokenizer::from_file(folder / "tokenizer.json").vocab_size() == 4);
  }
  for (const BrokenTokenizer& c : broken_tokenizers) {
    json file = small();
    c.breaks(file);
    const std::string said = refused_tokenizer("tokenizer.json", file.dump());
    CAPTURE(c.what);
    CAPTURE(said);
    CHECK(said.find(c.says) != std::string::npos);
    CHECK(said.find("tokenizer.json") != std::string::npos);
    // Long files are read in another way. Each stands in a folder of its own.
    const auto behind_folder = [](const std::string& line) { return line.substr(line.find("tokenizer.json")); };
    CHECK(behind_folder(refused_tokenizer("tokenizer.json", file.dump() + std::string(1 << 20, ' '))) == behind_folder(said));
  }
}

TEST_CASE("no beginning of a tokenizer.json is taken for one") {
  const std::string whole = small().dump();
  for (std::size_t n = 0; n < whole.size(); ++n) {
    CAPTURE(n);
    CHECK_FALSE(refused_tokenizer("tokenizer.json", whole.substr(0, n)).empty());
  }
}

TEST_CASE("json that nests without end is refused before it is built") {
  CHECK(refused_tokenizer("tokenizer.json", "{\"model\":" + std::string(1'000'000, '[')).find("nests deeper than") != std::string::npos);
  json nested = {{"type", "NFC"}};
  for (int i = 0; i < 60; ++i) nested = {{"type", "Sequence"}, {"normalizers", json::array({nested})}};
  json file = small();
  file["normalizer"] = nested;
  CHECK(refused_tokenizer("tokenizer.json", file.dump()).find("nests deeper than") != std::string::npos);
}

TEST_CASE("one changed byte of a tokenizer.json never does more than fail") {
  const std::string whole = small().dump();
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const char byte : {'\0', '"', '{', ']', '9', '\xff', ','}) {
      std::string changed = whole;
      changed[at] = byte;
      const TemporaryFolder folder;
      write_file(folder / "tokenizer.json", changed);
      try {
        const Tokenizer tokenizer = Tokenizer::from_file(folder / "tokenizer.json");
        (void)tokenizer.encode("abab<s>", {.parse_special = true});
      } catch (const Error& error) {
        CHECK(std::string(error.what()).find('\n') == std::string::npos);
      }
    }
  }
}

TEST_CASE("native json is checked as any file is") {
  const TemporaryFolder folder;
  write_file(folder / "tokenizer.json", small().dump());
  const std::string whole = Tokenizer::from_file(folder / "tokenizer.json").to_json();
  for (std::size_t n = 0; n < whole.size(); ++n) {
    CHECK_FALSE(error_of([&] { (void)Tokenizer::from_json(whole.substr(0, n), "native"); }).empty());
  }
  const auto refused = [&](const char* key, json value) {
    json file = json::parse(whole);
    file[key] = std::move(value);
    return error_of([&] { (void)Tokenizer::from_json(file.dump(), "native"); });
  };
  CHECK(refused("version", 4).find("expected tokenizer version 1 to 3, found 4") != std::string::npos);
  CHECK(refused("types", "11").find("expected 4 token types, found 2") != std::string::npos);
  CHECK(refused("types", "1190").find("digits from 1 to 6") != std::string::npos);
  CHECK(refused("merges", {0, 1}).find("three ids a merge") != std::string::npos);
  CHECK(refused("merges", {0, 1, 9}).find("token 9, the vocabulary has 4") != std::string::npos);
  CHECK(refused("bos", 4).find("bos is token 4") != std::string::npos);
  CHECK(refused("scores", {1.0}).find("expected 4 scores, found 1") != std::string::npos);
  CHECK(refused("kind", "magic").find("kind magic") != std::string::npos);
  CHECK(refused("added", json::parse("[[9,1]]")).find("added token is token 9") != std::string::npos);
  CHECK(refused("pre_tokenizer", json::parse(R"([{"kind":9,"pattern":"","behavior":1,"prepend":1}])")).find("expected 1 to 4") != std::string::npos);
}
