// What the several spellings of a tokenizer's files mean, on a vocabulary small enough to follow by hand.
#include <nlohmann/json.hpp>

#include "bantam/core/parallel.hpp"
#include "tokenizer_support.hpp"

using namespace bantam;
using namespace bantam::test;
using nlohmann::json;

namespace {

/// a b c d, "ab" made of a and b, "abc" of ab and c; <s> and </s> are special.
json small() {
  return json::parse(R"({"version":"1.0","added_tokens":[
    {"id":7,"content":"<s>","special":true,"normalized":false},{"id":8,"content":"</s>","special":true,"normalized":false}],
    "normalizer":null,"pre_tokenizer":null,"post_processor":null,"decoder":null,
    "model":{"type":"BPE","unk_token":"?","vocab":{"?":0,"a":1,"b":2,"c":3,"d":4,"ab":5,"abc":6},
             "merges":["a b","ab c"]}})");
}

struct Opened {
  TemporaryFolder folder;
  Tokenizer open(const json& tokenizer) const {
    write_file(folder / "tokenizer.json", tokenizer.dump());
    return Tokenizer::from_folder(folder.path());
  }
};

std::string ids(const Tokenizer& tokenizer, std::string_view text, EncodeOptions options = {}) {
  return line_of_ids(tokenizer.encode(text, options));
}

}  // namespace

TEST_CASE("merges as strings and as pairs mean the same") {
  const Opened files;
  json pairs = small();
  pairs["model"]["merges"] = json::parse(R"([["a","b"],["ab","c"]])");
  CHECK(ids(files.open(small()), "abcdab") == "6 4 5 ");
  CHECK(ids(files.open(pairs), "abcdab") == "6 4 5 ");
}

TEST_CASE("a long file means what a short one does") {
  const std::string start = R"({"version":"1.0","added_tokens":[{"id":3,"content":"<s>","special":true}],)";
  const std::string vocab = R"("vocab":{"a":0,"b":1,"ab":2})", merges = R"("merges":[["a","b"]])";
  const Opened files;
  const auto outcome = [&](const std::string& text) {
    write_file(files.folder / "tokenizer.json", text);
    try {
      return Tokenizer::from_folder(files.folder.path()).to_json();
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  const std::string usual = start + R"("model":{"type":"BPE",)" + vocab + "," + merges + "}}";
  REQUIRE(outcome(usual).find("\"ab\"") != std::string::npos);
  for (const std::string& text : std::initializer_list<std::string>{
           usual,
           start + R"("model":{"type":"BPE",)" + merges + "," + vocab + "}}",
           start + R"("model":{"type":"BPE",)" + vocab + R"(,"merges":["a b"]}})",
           start + R"("model":{"type":"BPE",)" + vocab + R"(,"merges" :)" + "\n [ \n[\"\\u0061\",\n\"b\"]\n] }}",
           start + R"("model":{"type":"BPE",)" + vocab + R"(,"merges":[]}})",
           start + R"("model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2,"merges":4,"\"merges\":[":5},)" + merges + "}}",
           start + R"("model":{)" + vocab + "," + merges + "}}",
           start + R"("model":{"type":"WordLevel","unk_token":"a",)" + vocab + "}}",
           start + R"("model":{"type":"WordPiece","unk_token":"a",)" + vocab + R"(,"merges":[["a","b"]]}})",
           start + R"("model":{"type":"Unigram","unk_id":0,"vocab":[["a",0],["b",-1.5],["ab",-2]]}})",
           R"({"version":"1.0","model":{"type":"Unigram","unk_id":0,"vocab":[["a",0],["b",-1],["ab",-2]]}})",
           // Lists in other places, and lists that come twice.
           R"({"x":{"merges":[["b","a"]],"vocab":{"z":0}},)" + usual.substr(1),
           R"({"merges":[["b","a"]],)" + usual.substr(1),
           R"({"model":{"vocab":{"z":0},"merges":[["z","z"]]},)" + usual.substr(1),
           start + R"("model":{"type":"BPE","vocab":{"z":0},)" + vocab + R"(,"merges":[["z","z"]],)" + merges + "}}",
           usual.substr(0, usual.size() - 1) + R"(,"model":{"type":"BPE","vocab":null,"merges":null}})",
           // Pieces and ids that come twice, and what is none.
           start + R"("model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2,"a":0},)" + merges + "}}",
           start + R"("model":{"type":"BPE","vocab":{"a":5,"b":1,"ab":2,"a":0},)" + merges + "}}",
           start + R"("model":{"type":"BPE","vocab":{"a":0,"b":0,"ab":2},)" + merges + "}}",
           start + R"("model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2,"":4},)" + merges + "}}",
           start + R"("model":{"type":"BPE","vocab":{"a":0,"b":1.0,"ab":2},)" + merges + "}}",
           start + R"("model":{"type":"BPE","vocab":{"a":0,"b":18446744073709551615,"ab":2},)" + merges + "}}",
           start + R"("model":{"type":"BPE","vocab":[["a",0],["b",1],["ab",2]],)" + merges + "}}",
           start + R"("model":{"type":"Unigram",)" + vocab + "}}",
           start + R"("model":{"type":"BPE",)" + vocab + R"(,"merges":[["a","b"],["b","c"]]}})",
           start + R"("model":{"type":"BPE",)" + vocab + R"(,"merges":["a b","ab"]}})",
           start + R"("model":{"type":"BPE",)" + vocab + R"(,"merges":[["a",1]]}})",
           start + R"("model":{"type":"BPE",)" + vocab + R"(,"merges":{"a":1}}})",
       }) {
    CAPTURE(text);
    const std::string said = outcome(text);
    for (const int threads : {0, 1}) {
      set_parallel_threads(threads);
      CHECK(outcome(text + std::string(1 << 20, ' ')) == said);
    }
    set_parallel_threads(0);
  }
}

TEST_CASE("unknown characters are one token each, or one a run, or bytes") {
  const Opened files;
  json file = small();
  CHECK(ids(files.open(file), "axyb") == "1 0 0 2 ");
  file["model"]["fuse_unk"] = true;
  CHECK(ids(files.open(file), "axyb") == "1 0 2 ");
  file["model"]["unk_token"] = nullptr;
  CHECK(ids(files.open(file), "axyb") == "5 ");  // what vanishes keeps nothing apart
  file = small();
  for (int b = 0; b < 256; ++b) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", static_cast<unsigned>(b));
    file["model"]["vocab"][name] = 9 + b;
  }
  file["model"]["byte_fallback"] = true;
  const Tokenizer bytes = files.open(file);
  CHECK(ids(bytes, "ax") == message("1 ", 9 + 'x', " "));
  CHECK(bytes.piece_bytes(9 + 'x') == "x");
}

TEST_CASE("templates say what stands around a text, and the config overrules them") {
  const Opened files;
  json file = small();
  file["post_processor"] = json::parse(R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>","type_id":0}},
    {"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"</s>","type_id":0}}],"pair":[],
    "special_tokens":{"<s>":{"id":"<s>","ids":[7],"tokens":["<s>"]},"</s>":{"id":"</s>","ids":[8],"tokens":["</s>"]}}})");
  CHECK(ids(files.open(file), "a") == "7 1 8 ");
  CHECK(files.open(file).adds_bos());
  file["post_processor"] = json::parse(R"({"type":"RobertaProcessing","sep":["</s>",8],"cls":["<s>",7]})");
  CHECK(ids(files.open(file), "a") == "7 1 8 ");
  write_file(files.folder / "tokenizer_config.json",
             R"({"bos_token":{"content":"<s>"},"eos_token":"</s>","add_bos_token":false,"add_eos_token":false})");
  const Tokenizer overruled = files.open(file);
  CHECK(ids(overruled, "a") == "1 ");
  CHECK_FALSE(overruled.adds_bos());
  CHECK(overruled.bos() == 7);
  CHECK(overruled.eos() == 8);
  write_file(files.folder / "tokenizer_config.json", R"({"bos_token":"<s>","add_bos_token":true})");
  file["post_processor"] = nullptr;
  CHECK(ids(files.open(file), "a") == "7 1 ");
}

TEST_CASE("tokens that end a reply come from generation_config.json, else from config.json, where they are control tokens") {
  const Opened files;
  json file = small();
  for (const int id : {9, 10}) file["added_tokens"].push_back({{"id", id}, {"content", "<|turn" + std::to_string(id) + "|>"}, {"special", true}, {"normalized", false}});
  write_file(files.folder / "config.json", R"({"eos_token_id": 10})");
  CHECK(files.open(file).ends_generation(10));
  CHECK_FALSE(files.open(file).ends_generation(9));
  write_file(files.folder / "generation_config.json", R"({"eos_token_id": [9, 9, 1, 99, -1, "x", null]})");
  const Tokenizer tokenizer = files.open(file);
  CHECK(tokenizer.ends_generation(9));
  CHECK_FALSE(tokenizer.ends_generation(10));
  CHECK_FALSE(tokenizer.ends_generation(1));  // a letter: the defaults of another model
}

TEST_CASE("chat templates come from the config, by name, or from a file beside it") {
  const Opened files;
  write_file(files.folder / "tokenizer_config.json", R"({"chat_template":"one"})");
  CHECK(files.open(small()).chat_template() == "one");
  write_file(files.folder / "tokenizer_config.json",
             R"({"chat_template":[{"name":"tool_use","template":"t"},{"name":"default","template":"d"}]})");
  CHECK(files.open(small()).chat_template() == "d");
  write_file(files.folder / "chat_template.jinja", "beside");
  CHECK(files.open(small()).chat_template() == "beside");
}

TEST_CASE("added tokens take the spaces that they ask for and mind words") {
  const Opened files;
  const auto with = [&](const char* token) {
    json file = small();
    file["added_tokens"].push_back(json::parse(token));
    return files.open(file);
  };
  CHECK(ids(with(R"({"id":9,"content":"X","special":false,"normalized":false})"), "a X b") == "1 0 9 0 2 ");
  CHECK(ids(with(R"({"id":9,"content":"X","special":false,"normalized":false,"lstrip":true})"), "a X b") == "1 9 0 2 ");
  CHECK(ids(with(R"({"id":9,"content":"X","special":false,"normalized":false,"rstrip":true})"), "a X b") == "1 0 9 2 ");
  CHECK(ids(with(R"({"id":9,"content":"ac","special":false,"normalized":false,"single_word":true})"), "dac ac") == "4 1 3 0 9 ");
}

TEST_CASE("an added token that the model has stays a piece of it where it is not found, one that it has not is no piece") {
  const Opened files;
  json file = small();
  file["added_tokens"].push_back(json::parse(R"({"id":5,"content":"ab","special":false,"normalized":false,"single_word":true})"));
  file["added_tokens"].push_back(json::parse(R"({"id":9,"content":"x","special":false,"normalized":false,"single_word":true})"));
  CHECK(ids(files.open(file), "ab abd dabc x") == "5 0 5 4 0 4 6 0 9 ");
  file["model"] = json::parse(R"({"type":"WordLevel","unk_token":"?","vocab":{"?":0,"ab":5,"c":1}})");
  file["pre_tokenizer"] = json::parse(R"({"type":"Split","pattern":{"String":"c"},"behavior":"Isolated","invert":false})");
  CHECK(ids(files.open(file), "abcx") == "5 1 0 ");
}

TEST_CASE("a special token of one letter is that letter in texts that may not name special tokens") {
  const Opened files;
  json file = small();
  file["added_tokens"].push_back(json::parse(R"({"id":4,"content":"d","special":true,"normalized":false})"));
  file["pre_tokenizer"] = json::parse(R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":false})");
  const Tokenizer tokenizer = files.open(file);
  CHECK(ids(tokenizer, "abd") == "5 4 ");
  CHECK(tokenizer.decode(std::vector<TokenId>{5, 4}, true) == "abd");
}

TEST_CASE("bytes stay bytes among the special tokens, and spell the marks of words as well") {
  const Opened files;
  json file = small();
  file["model"]["byte_fallback"] = true;
  file["model"]["continuing_subword_prefix"] = "#";
  file["model"]["vocab"]["#b"] = 9;
  file["model"]["merges"] = json::array();
  for (const auto& [name, id] : {std::pair("<0x23>", 10), {"<0xC3>", 11}, {"<0xA9>", 12}}) {
    file["model"]["vocab"][name] = id;
    file["added_tokens"].push_back({{"id", id}, {"content", name}, {"special", true}, {"normalized", false}});
  }
  CHECK(ids(files.open(file), "ab\xc3\xa9") == "1 9 10 11 12 ");
  CHECK(files.open(file).decode(std::vector<TokenId>{11, 12}) == "\xc3\xa9");
}

TEST_CASE("white space that one added token takes holds others, which take none that is gone") {
  const Opened files;
  const auto with = [&](const char* token) {
    json file = small();
    file["added_tokens"].push_back(json::parse(token));
    return files.open(file);
  };
  CHECK(ids(with(R"({"id":9,"content":"\n","special":false,"normalized":false,"rstrip":true})"), "a\n\n b") == "1 9 9 2 ");
  CHECK(ids(with(R"({"id":9,"content":"\n","special":false,"normalized":false,"lstrip":true,"rstrip":true})"), "a\n\n b") == "1 9 2 ");
}

TEST_CASE("a token that begins and ends a text may lose more than it has, streamed too") {
  const Opened files;
  json file = small();
  file["model"] = json::parse(R"({"type":"WordLevel","unk_token":"?","vocab":{"?":0,"</w>":1,"a</w>":2}})");
  file["decoder"] = json::parse(R"({"type":"Sequence","decoders":[{"type":"BPEDecoder","suffix":"</w>"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]})");
  const Tokenizer tokenizer = files.open(file);
  for (const auto& [ids, text] : {std::pair(std::vector<TokenId>{1}, ""), {{1, 2}, "a"}, {{2, 2}, "a a"}, {{2, 1}, "a "}}) {
    CHECK(tokenizer.decode(ids) == text);
    TextStream stream(tokenizer, true);
    std::string streamed;
    for (const TokenId id : ids) streamed += stream.push(id);
    CHECK(streamed + stream.finish() == text);
  }
}

TEST_CASE("a normalized added token is found in the normalized text") {
  const Opened files;
  json file = small();
  file["normalizer"] = json::parse(R"({"type":"Sequence","normalizers":[{"type":"Lowercase"}]})");
  file["added_tokens"].push_back(json::parse(R"({"id":9,"content":"DAD","special":false,"normalized":true})"));
  file["added_tokens"].push_back(json::parse(R"({"id":10,"content":"CAB","special":false,"normalized":false})"));
  const Tokenizer tokenizer = files.open(file);
  CHECK(ids(tokenizer, "dadDADCABcab") == "9 9 10 3 5 ");
}

TEST_CASE("ignore_merges looks whole pre-tokens up first") {
  const Opened files;
  json file = small();
  file["model"]["merges"] = json::array({"a b"});
  file["model"]["ignore_merges"] = true;
  file["pre_tokenizer"] = json::parse(R"({"type":"Split","pattern":{"String":" "},"behavior":"Removed","invert":false})");
  CHECK(ids(files.open(file), "abc abcd </s>") == "6 5 3 4 0 0 0 0 ");
}

TEST_CASE("digits, punctuation and sequences cut what they say") {
  const Opened files;
  json file = small();
  file["pre_tokenizer"] = json::parse(R"({"type":"Sequence","pretokenizers":[{"type":"Digits","individual_digits":true},
    {"type":"Punctuation","behavior":"Isolated"},{"type":"Split","pattern":{"Regex":"c"},"behavior":"MergedWithPrevious","invert":false}]})");
  CHECK(ids(files.open(file), "abc.ab1ab") == "6 0 5 0 5 ");
}

TEST_CASE("a tokenizer of one's own adds its byte-level prefix space") {
  const Opened files;
  json file = json::parse(R"({"version":"1.0","added_tokens":[],"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":true},
    "decoder":{"type":"ByteLevel"},"model":{"type":"BPE","vocab":{"a":0,"b":1},"merges":[]}})");
  file["model"]["vocab"]["\xc4\xa0"] = 2;
  file["model"]["vocab"]["\xc4\xa0" "a"] = 3;
  file["model"]["merges"] = json::array({json::array({"\xc4\xa0", "a"})});
  const Tokenizer tokenizer = files.open(file);
  CHECK(ids(tokenizer, "ab") == "3 1 ");
  CHECK(ids(tokenizer, " ab") == "3 1 ");
  CHECK(tokenizer.kind() == "bpe gpt-2");
}

TEST_CASE("tokens added beside a sentencepiece model are found in the text") {
  BANTAM_NEED_SHARED(model, "models/stories260k/tokenizer.model");
  const TemporaryFolder folder;
  std::filesystem::copy_file(model, folder / "tokenizer.model");
  write_file(folder / "added_tokens.json", R"({"<|im_end|>":512})");
  write_file(folder / "tokenizer_config.json", R"({"bos_token":"<s>","added_tokens_decoder":{"513":{"content":"<|eot_id|>","special":true}}})");
  const Tokenizer tokenizer = Tokenizer::from_folder(folder.path());
  CHECK(tokenizer.vocab_size() == 514);
  CHECK(tokenizer.encode("<|im_end|>", {.add_special = false}) == std::vector<TokenId>{512});
  CHECK(tokenizer.encode("<|eot_id|>", {.add_special = false, .parse_special = true}) == std::vector<TokenId>{513});
  CHECK(tokenizer.ends_generation(513));
}
