// Recipes: which matrix gets which format.
#include <cmath>
#include <nlohmann/json.hpp>

#include "bantam/compress/recipe.hpp"
#include "support.hpp"

namespace bantam::test {
namespace {

TEST_CASE("patterns match with stars and question marks") {
  struct Case {
    const char* name;
    const char* pattern;
    bool expected;
  };
  for (const Case& c : {Case{"lm_head", "lm_head", true}, Case{"lm_head", "lm_hea", false}, Case{"lm_head", "lm_head?", false},
                        Case{"lm_head", "*", true}, Case{"", "*", true}, Case{"", "", true}, Case{"", "?", false}, Case{"a", "", false},
                        Case{"model.layers.0.mlp.down_proj", "*.down_proj", true}, Case{"model.layers.0.mlp.down_proj", "*down", false},
                        Case{"model.layers.0.mlp.up_proj", "model.layers.?.mlp.*", true}, Case{"model.layers.10.mlp.up_proj", "model.layers.?.mlp.*", false},
                        Case{"aaab", "*a?b", true}, Case{"abcabc", "a*c", true}, Case{"abcab", "a*c", false}, Case{"a*b", "a*b", true},
                        Case{"ab", "a**b", true}, Case{"A", "a", false}}) {
    CAPTURE(std::string(c.name));
    CAPTURE(std::string(c.pattern));
    CHECK(matches(c.name, c.pattern) == c.expected);
  }
}

TEST_CASE("a pattern of many stars is matched in time") {
  std::string pattern;
  for (int i = 0; i < 1000; ++i) pattern += "*a";
  CHECK_FALSE(matches(std::string(20'000, 'a') + "b", pattern));
}

TEST_CASE("the last exception that matches wins") {
  Recipe plan = recipe::rtn("q4");
  plan.keep("*.down_proj", "q8").keep("model.layers.0.*", "f16").keep("*.layers.0.mlp.up_proj", "nf4");
  CHECK(plan.format_of("model.layers.1.mlp.down_proj", false).name == find_format("q8").name);
  CHECK(plan.format_of("model.layers.0.mlp.down_proj", false).name == "f16");
  CHECK(plan.format_of("model.layers.0.mlp.up_proj", false).name == find_format("nf4").name);
  CHECK(plan.format_of("model.layers.1.mlp.up_proj", false).name == find_format("q4").name);
}

TEST_CASE("embedding and head get 8 bits where the body gets 4, unless told otherwise") {
  const Recipe plan = recipe::rtn("q4");
  CHECK(plan.format_of("model.embed_tokens", true).name == find_format("int8", 32).name);
  CHECK(plan.format_of("lm_head", true).name == find_format("int8", 32).name);
  CHECK(recipe::rtn("nf4").format_of("lm_head", true).name == find_format("int8", 32).name);
  CHECK(recipe::rtn("q8").format_of("lm_head", true).name == find_format("q8").name);
  CHECK(recipe::rtn("f16").format_of("lm_head", true).name == "f16");
  CHECK(recipe::rtn("q4").keep("lm_head", "q4").format_of("lm_head", true).name == find_format("q4").name);
}

TEST_CASE("recipes name what they do not know") {
  CHECK(error_of([] { (void)recipe::rtn("q9"); }).find("q9") != std::string::npos);
  CHECK(error_of([] { (void)recipe::rtn("q4", {.group = 48}); }).find("48") != std::string::npos);
  CHECK(error_of([] { recipe::rtn("q4").keep("*", "int9"); }).find("int9") != std::string::npos);
  CHECK(error_of([] { recipe::rtn("q4").keep("", "q8"); }).find("empty") != std::string::npos);
  for (const double share : {-0.1, 1.5, std::nan("")}) {
    CHECK(error_of([&] { (void)recipe::gptq("q4", {}, {.follow_original = share}); }) ==
          message("gptq: expected a share from 0 to 1 to follow the original by, found ", share));
  }
}

TEST_CASE("ways to clip have names, and belong to rtn") {
  for (const char* name : {"minmax", "mse", "percentile:99.9", "percentile:75"}) {
    CHECK(name_of(find_clip(name)) == name);
    const auto json = nlohmann::json::parse(recipe::with(Method::rtn, "i4z", {}, {.clip = find_clip(name)}).to_json());
    CHECK(json["clip"] == name);
  }
  CHECK(name_of(find_clip("percentile:100")) == "minmax");
  for (const char* name : {"", "max", "percentile", "percentile:", "percentile:9 ", "percentile:1e999"}) {
    CHECK(error_of([&] { (void)find_clip(name); }) == message("clip: expected one of minmax, mse, percentile:P, found ", name));
  }
  CHECK(error_of([] { (void)find_clip("percentile:50"); }) == "nearest: expected a percentile above 50 and at most 100, found 50");
  CHECK(error_of([] { (void)recipe::gptq("i4z", {}, {.clip = Clip{}}); }) == "clip: expected method rtn, found gptq");
  CHECK(error_of([] { (void)recipe::with(Method::rtn, "f16", {}, {.clip = Clip{}}); }) ==
        "clip: expected a format of integers or levels, found f16");
  CHECK(error_of([] { (void)recipe::with(Method::rtn, "i4z", {}, {.clip = Clip{.percentile = 0}}); }).find("found 0") != std::string::npos);
}

TEST_CASE("a recipe is JSON whatever its patterns") {
  const auto json = nlohmann::json::parse(recipe::rtn("i4", {.group = 128}).keep("a\"\\\n\xff*", "f16").to_json());
  CHECK(json["method"] == "rtn");
  CHECK(json["format"] == find_format("i4", 128).name);
  CHECK(json["keep"].size() == 1);
  CHECK(json["keep"][0]["format"] == "f16");
}

}  // namespace
}  // namespace bantam::test
