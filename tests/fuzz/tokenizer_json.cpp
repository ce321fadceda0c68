// tokenizer.json, and the JSON that native files carry: read, used, written as native JSON and read again.
#include "fuzz/fuzz.hpp"
#include "fuzz/readers.hpp"
#include "text/loaders.hpp"

namespace bantam::fuzz {

namespace {

constexpr std::string_view text = "ab  abba\n1234 \xc3\xa9\xe2\x96\x81<s></s> it's\t\xf0\x9f\x99\x82 \xff x";

void run_tokenizer_json(Bytes bytes) {
  static const Scratch folder;
  const std::string_view json = text_of(bytes);
  if (json.find("bantam-tokenizer") != json.npos) {
    survives([&] { use(Tokenizer::from_json(json, "native"), text); });
    return;
  }
  const auto outcome = [&](std::size_t long_from) {
    std::string said;
    try {
      said = native_json(read_tokenizer_json(json, "fuzz.json", long_from).spec);
    } catch (const Error& error) {
      said = error.what();
    }
    return said;
  };
  require(outcome(0) == outcome(json.size() + 1), "a long file means what a short one does");
  const auto path = folder.put("tokenizer.json", json);
  survives([&] {
    const Tokenizer tokenizer = Tokenizer::from_file(path);
    use(tokenizer, text);
    const Tokenizer again = Tokenizer::from_json(tokenizer.to_json(), "written");
    require(again.to_json() == tokenizer.to_json(), "a tokenizer that was written is the same");
    std::vector<TokenId> ids;
    if (survives([&] { ids = tokenizer.encode(text); })) require(again.encode(text) == ids, "a tokenizer that was written encodes the same");
    survives([&] { tokenizer.write_folder(folder.path()); });
  });
}

const Target tokenizer_json_target("tokenizer_json", run_tokenizer_json, mutate_json);

}  // namespace
}  // namespace bantam::fuzz
