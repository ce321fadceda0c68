// Small tokenizers with every component of tokenizer.json, against what Hugging Face's own library made of the same texts
// (tokenizer_zoo.mjs), and the ways they are written.
#include <fstream>
#include <nlohmann/json.hpp>

#include "tokenizer_support.hpp"

using namespace bantam;
using namespace bantam::test;

namespace {

const nlohmann::json& zoo() {
  static const nlohmann::json all = nlohmann::json::parse(read_file(BANTAM_SOURCE_DIR "/tests/text/tokenizer_zoo.json"));
  return all;
}

/// Tokenizers that Hugging Face's library (0.23.2) trained itself: a text, its ids with and without what stands around it, and what these say,
/// special tokens included; null where bantam says more.
const nlohmann::json& trained() {
  static const nlohmann::json all = nlohmann::json::parse(read_file(BANTAM_SOURCE_DIR "/tests/text/trained_tokenizers.json"));
  return all;
}

/// A tokenizer of the files, read as it would stand in a folder. So many spaces stand behind it.
Tokenizer zoo_tokenizer(const nlohmann::json& entry, std::size_t spaces = 0) {
  nlohmann::json json = entry.at("json");
  if (json.at("model").is_number()) json["model"] = zoo().at("models").at(json.at("model").get<std::size_t>());
  const TemporaryFolder folder;
  const auto path = folder.path() / "tokenizer.json";
  std::ofstream(path, std::ios::binary) << json.dump() << std::string(spaces, ' ');
  return Tokenizer::from_file(path);
}

std::string zoo_ids(const Tokenizer& tokenizer, const std::string& text, bool add_special = true) {
  std::string line = line_of_ids(tokenizer.encode(text, {.add_special = add_special, .parse_special = true}));
  if (!line.empty()) line.pop_back();
  return line;
}

std::string zoo_streamed(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  TextStream stream(tokenizer, true);
  std::string text;
  for (const TokenId id : ids) text += stream.push(id);
  return text + stream.finish();
}

}  // namespace

TEST_CASE("every component of tokenizer.json gives the ids and texts of Hugging Face's library") {
  const auto texts = zoo().at("texts").get<std::vector<std::string>>();
  REQUIRE(zoo().at("cases").size() > 70);
  for (const auto& entry : zoo().at("cases")) {
    const std::string name = entry.at("name");
    CAPTURE(name);
    const Tokenizer tokenizer = zoo_tokenizer(entry);
    CHECK(zoo_tokenizer(entry, 1 << 20).to_json() == tokenizer.to_json());  // long files are read in another way
    for (std::size_t i = 0; i < texts.size(); ++i) {
      CAPTURE(printable(texts[i], 200));
      const std::string expected = entry.at("ids")[i];
      CHECK(zoo_ids(tokenizer, texts[i]) == expected);
      const std::vector<TokenId> ids = ids_of_line(expected);
      CHECK(tokenizer.decode(ids) == entry.at("decoded")[i].get<std::string>());
      CHECK(zoo_streamed(tokenizer, ids) == tokenizer.decode(ids));
    }
  }
}

TEST_CASE("tokenizers that Hugging Face's library trained give its ids and texts") {
  for (const auto& entry : trained()) {
    const std::string name = entry.at("name");
    CAPTURE(name);
    const Tokenizer tokenizer = zoo_tokenizer(entry);
    for (const auto& row : entry.at("rows")) {
      const std::string text = row[0], ids = row[2];
      CAPTURE(printable(text, 200));
      CHECK(zoo_ids(tokenizer, text) == row[1].get<std::string>());
      CHECK(zoo_ids(tokenizer, text, false) == ids);
      if (row[3].is_string()) CHECK(tokenizer.decode(ids_of_line(ids), true) == row[3].get<std::string>());
      CHECK(zoo_streamed(tokenizer, ids_of_line(ids)) == tokenizer.decode(ids_of_line(ids)));
    }
  }
}

TEST_CASE("every component survives native files and tokenizer.json") {
  const auto check = [](const nlohmann::json& entry, const std::vector<std::string>& texts) {
    const std::string name = entry.at("name");
    CAPTURE(name);
    const Tokenizer tokenizer = zoo_tokenizer(entry);
    const Tokenizer native = Tokenizer::from_json(tokenizer.to_json(), "native");
    CHECK(native.to_json() == tokenizer.to_json());
    const TemporaryFolder folder;
    tokenizer.write_folder(folder.path());
    const Tokenizer written = Tokenizer::from_folder(folder.path());
    for (const std::string& text : texts) {
      CAPTURE(printable(text, 200));
      const std::string ids = zoo_ids(tokenizer, text);
      CHECK(zoo_ids(native, text) == ids);
      CHECK(zoo_ids(written, text) == ids);
      const std::string decoded = tokenizer.decode(ids_of_line(ids), true);
      CHECK(native.decode(ids_of_line(ids), true) == decoded);
      CHECK(written.decode(ids_of_line(ids), true) == decoded);
    }
  };
  for (const auto& entry : zoo().at("cases")) check(entry, zoo().at("texts").get<std::vector<std::string>>());
  for (const auto& entry : trained()) {
    std::vector<std::string> texts;
    for (const auto& row : entry.at("rows")) texts.push_back(row[0]);
    check(entry, texts);
  }
}

TEST_CASE("the shared vocabularies give the ids of Hugging Face's library") {
  const auto texts = zoo().at("texts").get<std::vector<std::string>>();
  for (const auto& entry : zoo().at("shared")) {
    const std::string name = entry.at("name");
    CAPTURE(name);
    BANTAM_NEED_SHARED(folder, "tokenizers/" + name);
    const Tokenizer tokenizer = Tokenizer::from_file(folder / "tokenizer.json");
    for (std::size_t i = 0; i < texts.size(); ++i) {
      CAPTURE(printable(texts[i], 200));
      CHECK(zoo_ids(tokenizer, texts[i]) == entry.at("ids")[i].get<std::string>());
    }
  }
}
