// JSON: what is read and written again is the same tree.
#include "io/json.hpp"

#include "fuzz/fuzz.hpp"

namespace bantam::fuzz {

namespace {

void run_json(Bytes bytes) {
  Json tree;
  Json parted;
  const bool reads = survives([&] { tree = Json::parse(text_of(bytes), "fuzz.json"); });
  const bool reads_parted = survives([&] { parted = Json::parse(text_of(bytes), "fuzz.json", "a"); });
  require(reads == reads_parted && tree == parted, "an array that is read on another thread is read as in its place");
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
