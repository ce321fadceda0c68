// The table of options of compression: every row, by the table.
#include <set>

#include "bantam/compress/options.hpp"
#include "support.hpp"

namespace bantam::test {
namespace {

/// A value that the option takes.
std::string value_for(const CompressOption& option) {
  if (option.kind == OptionKind::flag) return option.initial == "on" ? "off" : "on";
  if (option.kind == OptionKind::importance) {
    static const TemporaryFolder folder;
    ImportanceMatrix importance;
    importance.entries["blk.0.attn_q.weight"] = {{1, 2}, {3}};
    write_importance(importance, folder / "i.gguf");
    return (folder / "i.gguf").string();
  }
  if (option.kind == OptionKind::file || option.kind == OptionKind::corpus || option.kind == OptionKind::adapters) return "a file";
  return std::string(option.example);
}

TEST_CASE("every option has names of its own and says what it means") {
  std::set<std::string> names;
  for (const CompressOption& option : compress_options()) {
    CAPTURE(std::string(option.name));
    CHECK(names.insert(std::string(option.name)).second);
    if (!option.older.empty()) CHECK(names.insert(std::string(option.older)).second);
    CHECK_FALSE(option.meaning.empty());
    CHECK_FALSE(value_for(option).empty());
    CHECK((option.kind == OptionKind::choice) == (option.words != nullptr));
  }
}

TEST_CASE("every option takes its value, by all its names") {
  for (const CompressOption& option : compress_options()) {
    for (const std::string_view name : {option.name, option.older}) {
      if (name.empty()) continue;
      CAPTURE(std::string(name));
      CompressRequest request;
      if (!option.needs.first.empty()) set_option(request, option.needs.first, option.needs.second);
      set_option(request, name, value_for(option));
      CHECK_FALSE(recipe_of(request).to_json().empty());
    }
    if (option.kind != OptionKind::choice) continue;
    CompressRequest request;
    for (const std::string_view word : option.words()) set_option(request, option.name, word);
  }
}

TEST_CASE("wrong values are refused by the option's name") {
  for (const CompressOption& option : compress_options()) {
    if (option.kind == OptionKind::file || option.kind == OptionKind::corpus || option.kind == OptionKind::adapters) continue;
    if (option.kind == OptionKind::importance) continue;
    CAPTURE(std::string(option.name));
    std::vector<std::string> wrong{"?!"};
    if (option.kind == OptionKind::integer) wrong.insert(wrong.end(), {"", "1.5", message(option.least - 1), message(option.most + 1)});
    if (option.kind == OptionKind::seed) wrong.insert(wrong.end(), {"", "-1", "18446744073709551616"});
    if (option.kind == OptionKind::number) wrong.insert(wrong.end(), {"", "nan", "1,5", "1e999"});
    for (const std::string& value : wrong) {
      const std::string said = error_of([&] {
        CompressRequest request;
        if (!option.needs.first.empty()) set_option(request, option.needs.first, option.needs.second);
        set_option(request, option.name, value);
        (void)recipe_of(request);
      });
      CHECK(said.starts_with(message(option.name, ": ")));
      CHECK(said.find(message("found ", value)) != std::string::npos);
    }
  }
}

TEST_CASE("a name that is no option's is told with those that are") {
  CompressRequest request;
  const std::string said = error_of([&] { set_option(request, "clib", "mse"); });
  for (const CompressOption& option : compress_options()) CHECK(said.find(option.name) != std::string::npos);
  CHECK(said.find("did you mean clip?") != std::string::npos);
  CHECK_FALSE(error_of([&] { set_option(request, "", "x"); }).empty());
}

TEST_CASE("options say what a recipe is told in C++") {
  CompressRequest request;
  CHECK(recipe_of(request).to_json() == recipe::rtn("q4").to_json());
  for (const auto& [name, value] : {std::pair{"method", "gptq"}, {"format", "i4"}, {"group", "64"}, {"desc_act", "on"}, {"true_sequential", "off"},
                                    {"rotate", "7"}, {"smooth", "0.25"}, {"prune", "wanda:0.5"}, {"keep", "*.a=b=q8"}, {"keep", "lm_head=f16"}}) {
    set_option(request, name, value);
  }
  Recipe recipe = recipe::gptq("i4", {.group = 64}, {.true_sequential = false, .rotation = 7, .smooth = 0.25, .pruning = recipe::wanda(0.5f),
                                                     .gptq = {.order = ColumnOrder::activation}});
  recipe.keep("*.a=b", "q8").keep("lm_head", "f16");
  CHECK(recipe_of(request).to_json() == recipe.to_json());
}

}  // namespace
}  // namespace bantam::test
