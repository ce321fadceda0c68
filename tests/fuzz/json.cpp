// JSON: what is read is what the library reads, and written again it is the same tree.
#include "io/json.hpp"

#include <nlohmann/json.hpp>

#include "fuzz/fuzz.hpp"
#include "rows_tree.hpp"

namespace bantam::fuzz {

namespace {

void run_json(Bytes bytes) {
  const std::string_view text = text_of(bytes);
  Json tree;
  const bool reads = survives([&] { tree = Json::parse(text, "fuzz.json"); });
  if (reads) {
    const auto library = nlohmann::ordered_json::parse(text, nullptr, false);
    require(!library.is_discarded() && library.dump() == tree.dump(), "what is read is what the library reads");
  }
  JsonRows rows;
  const char* end = rows.read(text);
  if (end != nullptr) {
    const auto size = static_cast<std::size_t>(end - text.data());
    require(Json::parse(text.substr(0, size), "rows") == test::tree_of(rows), "rows are what a tree has");
  }
  if (!reads) return;
  for (const Json::Style& style : {Json::Style{}, Json::Style{.indent = 2}, Json::Style{.ascii = true}}) {
    const Json again = Json::parse(tree.dump(style), "written");
    require(again == tree, "what was written is read as it was");
  }
  survives([&] { (void)tree.get<std::vector<double>>(); });
  survives([&] { (void)tree.at("config").get<std::int32_t>(); });
}

const Target json_target("json", run_json, mutate_json);

}  // namespace
}  // namespace bantam::fuzz
