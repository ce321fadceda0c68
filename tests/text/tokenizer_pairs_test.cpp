// Two texts as one sequence, as each kind of file says it.
#include "io/json.hpp"
#include "tokenizer_support.hpp"

namespace bantam::test {
namespace {

/// A vocabulary of words with the special tokens of BERT or RoBERTa.
Json words(const char* begin, const char* end) {
  Json vocabulary = Json::object();
  std::int64_t id = 0;
  for (const char* piece : {begin, "<pad>", end, "<unk>", "a", "b", "c", "d"}) vocabulary[piece] = id++;
  Json added = Json::array();
  for (const auto& [content, number] : {std::pair<const char*, int>{begin, 0}, {end, 2}, {"<unk>", 3}}) added.push_back({{"id", number}, {"content", content}, {"special", true}});
  return {{"version", "1.0"}, {"added_tokens", added}, {"pre_tokenizer", {{"type", "WhitespaceSplit"}}}, {"model", {{"type", "WordLevel"}, {"unk_token", "<unk>"}, {"vocab", vocabulary}}}};
}

Tokenizer with(Json json, const Json& post_processor, const TemporaryFolder& folder) {
  json["post_processor"] = post_processor;
  write_file(folder / "tokenizer.json", json.dump());
  return Tokenizer::from_folder(folder.path());
}

using Ids = std::vector<TokenId>;
using Types = std::vector<std::uint8_t>;

TEST_CASE("pairs are read as post-processors say, and native files and folders keep that") {
  struct Case {
    const char* name;
    Json json, post_processor;
    Ids ids;
    Types types;
  };
  const Json bert = words("[CLS]", "[SEP]"), roberta = words("<s>", "</s>");
  const auto token = [](const char* id, int type) { return Json{{"SpecialToken", {{"id", id}, {"type_id", type}}}}; };
  const auto text = [](const char* id, int type) { return Json{{"Sequence", {{"id", id}, {"type_id", type}}}}; };
  const auto list = [](std::vector<Json> items) {
    Json all = Json::array();
    for (Json& item : items) all.push_back(std::move(item));
    return all;
  };
  const Case cases[] = {
      {"BertProcessing", bert, {{"type", "BertProcessing"}, {"sep", Json::array({"[SEP]", 2})}, {"cls", Json::array({"[CLS]", 0})}}, {0, 4, 5, 2, 6, 2}, {0, 0, 0, 0, 1, 1}},
      {"RobertaProcessing", roberta, {{"type", "RobertaProcessing"}, {"sep", Json::array({"</s>", 2})}, {"cls", Json::array({"<s>", 0})}}, {0, 4, 5, 2, 2, 6, 2}, {0, 0, 0, 0, 0, 0, 0}},
      {"a template with types", bert,
       {{"type", "TemplateProcessing"}, {"single", list({token("[CLS]", 0), text("A", 0), token("[SEP]", 0)})},
        {"pair", list({token("[CLS]", 0), text("A", 0), token("[SEP]", 0), text("B", 1), token("[SEP]", 1)})}, {"special_tokens", Json::object()}},
       {0, 4, 5, 2, 6, 2}, {0, 0, 0, 0, 1, 1}},
      {"a template without", roberta,
       {{"type", "TemplateProcessing"}, {"single", list({token("<s>", 0), text("A", 0), token("</s>", 0)})},
        {"pair", list({token("<s>", 0), text("A", 0), token("</s>", 0), token("</s>", 0), text("B", 0), token("</s>", 0)})}, {"special_tokens", Json::object()}},
       {0, 4, 5, 2, 2, 6, 2}, {0, 0, 0, 0, 0, 0, 0}},
      {"a template of a text alone", roberta, {{"type", "TemplateProcessing"}, {"single", list({token("<s>", 0), text("A", 0), token("</s>", 0)})}, {"special_tokens", Json::object()}},
       {0, 4, 5, 2, 6, 2}, {0, 0, 0, 0, 0, 0}},
      {"nothing", roberta, nullptr, {4, 5, 6}, {0, 0, 0}},
  };
  for (const Case& c : cases) {
    CAPTURE(std::string(c.name));
    const TemporaryFolder folder;
    const Tokenizer tokenizer = with(c.json, c.post_processor, folder);
    const TokenPair pair = tokenizer.encode_pair("a b", "c");
    CHECK(pair.ids == c.ids);
    CHECK(pair.types == c.types);
    const Tokenizer native = Tokenizer::from_json(tokenizer.to_json(), "test");
    CHECK(native.encode_pair("a b", "c").ids == c.ids);
    CHECK(native.encode_pair("a b", "c").types == c.types);
    const TemporaryFolder written;
    tokenizer.write_folder(written.path());
    const Tokenizer again = Tokenizer::from_folder(written.path());
    CHECK(again.encode("a b") == tokenizer.encode("a b"));
    if (std::string(c.name) != "a template of a text alone") CHECK(again.encode_pair("a b", "c").ids == c.ids);
    CHECK(tokenizer.encode_pair("a b", "c", {.add_special = false}).ids == Ids{4, 5, 6});
  }
}

TEST_CASE("what is too long loses its end, and keeps what is around it") {
  const TemporaryFolder folder;
  const Tokenizer tokenizer = with(words("[CLS]", "[SEP]"), {{"type", "BertProcessing"}, {"sep", Json::array({"[SEP]", 2})}, {"cls", Json::array({"[CLS]", 0})}}, folder);
  CHECK(tokenizer.encode("a b c d", {.longest = 4}) == Ids{0, 4, 5, 2});
  CHECK(tokenizer.encode("a b c d", {.longest = 6}) == Ids{0, 4, 5, 6, 7, 2});
  CHECK(tokenizer.encode("a b c d", {.longest = 1}) == Ids{0, 2});  // what is added stays
  CHECK(tokenizer.encode("a b c d", {.add_special = false, .longest = 3}) == Ids{4, 5, 6});
  CHECK(tokenizer.encode_pair("a b", "c d", {.longest = 6}).ids == Ids{0, 4, 5, 2, 6, 2});
  CHECK(tokenizer.encode_pair("a b", "c d", {.longest = 4}).ids == Ids{0, 4, 2, 2});
  CHECK(tokenizer.encode_pair("a b", "c d", {.longest = 4}).types == Types{0, 0, 0, 1});
}

TEST_CASE("a template's pair that is no pair is let be, and ids of one are checked") {
  const TemporaryFolder folder;
  const auto pair_of = [&](const char* pair) {
    Json template_json = Json::parse(message(R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>"}},{"Sequence":{"id":"A"}},{"SpecialToken":{"id":"</s>"}}],"pair":)", pair, "}"), "test");
    return with(words("<s>", "</s>"), template_json, folder).encode_pair("a", "b").ids;
  };
  const Ids plain{0, 4, 2, 5, 2};
  for (const char* pair : {"7", "[]", R"([{"Sequence":{"id":"A"}}])", R"([{"Odd":1}])", R"([{"Sequence":{"id":"A"}},{"Sequence":{"id":"B"}}])",
                           R"([{"SpecialToken":{"id":"<s>"}},{"Sequence":{"id":"A"}},{"Sequence":{"id":"B"}},{"Sequence":{"id":"B"}}])"}) {
    CAPTURE(std::string(pair));
    CHECK(pair_of(pair) == plain);
  }
  CHECK(error_of([&] { (void)pair_of(R"([{"SpecialToken":{"id":"<none>"}},{"Sequence":{"id":"A"}},{"Sequence":{"id":"B"}}])"); }).find("<none> is not in the vocabulary") != std::string::npos);
  const Tokenizer tokenizer = with(words("[CLS]", "[SEP]"), {{"type", "BertProcessing"}, {"sep", Json::array({"[SEP]", 2})}, {"cls", Json::array({"[CLS]", 0})}}, folder);
  std::string native = tokenizer.to_json();
  native.replace(native.find("\"between\":[2]"), 13, "\"between\":[99]");
  CHECK(error_of([&] { (void)Tokenizer::from_json(native, "test"); }).find("a token put between two texts") != std::string::npos);
}

}  // namespace
}  // namespace bantam::test
