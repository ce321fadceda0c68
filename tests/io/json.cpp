// The tree of JSON, compared with nlohmann's.
#include "io/json.hpp"

#include <nlohmann/json.hpp>

#include <iterator>

#include "rows_tree.hpp"
#include "support.hpp"

namespace {

using namespace bantam;
using bantam::test::error_of;
using Library = nlohmann::ordered_json;

constexpr const char* documents[] = {
    "null",
    "true",
    "0",
    "-1",
    "9223372036854775808",
    "18446744073709551615",
    "-9223372036854775808",
    "18446744073709551616",
    "1e-05",
    "0.1",
    "-0.0",
    "1e308",
    "12345678901234567890123",
    R"("")",
    R"("\u0000\u001f\"\\\/\b\f\n\r\t é \ud83d\ude00 \u2581")",
    "[]",
    "{}",
    "[[], {}, [{}], {\"a\": []}]",
    R"({"b": 1, "a": {"d": [1, 2.5, "x", null, false]}, "": 3, "é": {}})",
    R"({"same": 1, "other": 2, "same": [3]})",
};

TEST_CASE("texts are read and written as nlohmann's library reads and writes them") {
  for (const char* text : documents) {
    CAPTURE(text);
    const Json json = Json::parse(text, "text");
    const Library library = Library::parse(text);
    CHECK(json.dump() == library.dump());
    CHECK(json.dump(2) == library.dump(2));
    CHECK(json.dump({.indent = 1, .ascii = true}) == library.dump(1, ' ', true));
    CHECK(json.type_name() == std::string_view(library.type_name()));
    CHECK(json.is_number_integer() == library.is_number_integer());
    CHECK(json.is_number_unsigned() == library.is_number_unsigned());
    CHECK(Json::parse(json.dump(), "written") == json);
    const Json copy(json);
    CHECK(copy == json);
    CHECK(copy.dump() == json.dump());
  }
}

/// What the library makes of a text, or nothing where it refuses it.
std::string read_by_library(const std::string& text) {
  const Library library = Library::parse(text, nullptr, false);
  return library.is_discarded() ? "" : library.dump();
}

std::string read_by_us(const std::string& text) {
  try {
    return Json::parse(text, "text").dump();
  } catch (const Error&) {
    return "";
  }
}

TEST_CASE("every change of a byte is read, or refused, as the library does") {
  constexpr char odd[] = "\"\\{}[],:0eE-+. \n\tu\x00\x1f\x7f\x80\xbf\xc1\xc3\xe0\xed\xef\xf0\xf4\xf5\xff";
  std::vector<std::string> texts(std::begin(documents), std::end(documents));
  texts.push_back("{\n        \"a\":  [ 1 ,\t-2e-7,\r\n  true, false ,null ],\n             \"b\" : { } }   \n");
  texts.push_back(R"(["\ud83d\ude00 \uD83D\uDE00","\/\\","a long text, \" with escapes \n far from its beginning", "\u00e9\u0800\u007f"])");
  texts.push_back("[\"\u00e9\u20ac\U0001f600\", \"\ud7ff\ue000\U0010ffff\", 0.25E+2, 1E-400, 00, -, 18446744073709551615, -9223372036854775809]");
  texts.push_back("[-0, -0.0, 0e0, 1.5e300, 123456789012345678901234567890, 2.2250738585072011e-308]");
  for (const std::string& text : texts) {
    CAPTURE(text);
    CHECK(read_by_us(text) == read_by_library(text));
    for (std::size_t at = 0; at < text.size(); ++at) {
      CAPTURE(at);
      std::string changed = text;
      for (const char c : std::string_view(odd, sizeof odd - 1)) {
        changed[at] = c;
        REQUIRE(read_by_us(changed) == read_by_library(changed));
      }
      changed = text;
      changed.erase(at, 1);
      REQUIRE(read_by_us(changed) == read_by_library(changed));
      changed.resize(at);
      REQUIRE(read_by_us(changed) == read_by_library(changed));
    }
  }
}

TEST_CASE("what ends a text, or breaks it, is found at every place of eight bytes") {
  for (std::size_t before = 0; before < 20; ++before) {
    for (std::size_t behind = 0; behind < 20; ++behind) {
      for (const char* odd : {"\"", "\\", "\\n", "\\u20ac", "\\ud800", "\\ud83d\\ude00", "\x1f", "\x20", "\x7f", "\x80", "\xc3\xa9", "\xe2\x82\xac", "\xe2\x82", "\xf0\x9f\x98\x80", "\xf0\x9f\x98", "\xed\xa0\x80", "\xed\x95\x9c", "\xe0\xa4\x85", "\xe0\x9f\xbf", "\xc1\xbf", "\xf5"}) {
        for (const char* filling : {"x", "\xc3\xa9", "\xe2\x96\x81"}) {
          std::string text = "[\"";
          for (std::size_t i = 0; i < before; ++i) text += filling;
          text += odd;
          for (std::size_t i = 0; i < behind; ++i) text += filling;
          text += "\"]";
          CAPTURE(text);
          REQUIRE(read_by_us(text) == read_by_library(text));
        }
      }
    }
  }
}

TEST_CASE("values of members may be read elsewhere") {
  const std::string text = R"({"a": {"list": [1, {"list": [2]}], "b": 3}, "c": {"list": [4]}, "list": [5], "d": [{"list": [6]}]})";
  std::vector<std::string> asked;
  const auto read = [&](bool takes) {
    return Json::parse(text, "text", [&](std::string_view outer, std::string_view key, std::string_view value) -> const char* {
      asked.push_back(std::string(outer) + "." + std::string(key));
      return takes && outer == "a" && key == "list" ? value.data() + value.find("]}]") + 3 : nullptr;
    });
  };
  CHECK(read(false) == Json::parse(text, "text"));
  CHECK(asked == std::vector<std::string>{"a.list", "a.b", "c.list"});
  const Json json = read(true);
  CHECK(json.at("a").at("list").is_elsewhere());
  CHECK(!json.at("a").at("list").is_null());
  CHECK(!json.at("c").at("list").is_elsewhere());
  CHECK(json.dump() == R"({"a":{"list":null,"b":3},"c":{"list":[4]},"list":[5],"d":[{"list":[6]}]})");
}

TEST_CASE("rows are read as in a tree, and nothing else is") {
  const auto read = [](const std::string& text) {
    JsonRows rows;
    const char* end = rows.read(text);
    if (end == nullptr) return std::string("none");
    REQUIRE(text.substr(static_cast<std::size_t>(end - text.data())) == " rest");
    return bantam::test::tree_of(rows).dump() + (rows.counts() ? "" : " real");
  };
  CHECK(read(R"(["a", "", "\n", "long enough to be kept apart", "é\t"] rest)") == R"(["a","","\n","long enough to be kept apart","é\t"])");
  CHECK(read(R"([ ["a", "b\\"],["","\u00e9"] ] rest)") == R"([["a","b\\"],["","é"]])");
  CHECK(read(R"([["a", -1.5], ["b", 2]] rest)") == R"([["a",-1.5],["b",2.0]] real)");
  CHECK(read(R"([["a", 1]] rest)") == R"([["a",1.0]])");
  CHECK(read(R"({"a": 1, "\"": 0} rest)") == R"({"a":1.0,"\"":0.0})");
  CHECK(read(R"({"a": -1} rest)") == R"({"a":-1.0} real)");
  for (const char* text : {"[] rest", "{} rest", "\"a\" rest", "1 rest", "[1, 2] rest", "[\"a\", 1] rest", "[\"a\", [\"b\", \"c\"]] rest",
                           "[[\"a\", \"b\"], \"c\"] rest", "[[\"a\", \"b\"], [\"c\"]] rest", "[[\"a\", \"b\", \"c\"]] rest", "[[\"a\", 1, \"b\"]] rest", "[[\"a\", 1, 2]] rest",
                           "[[\"a\", 1], [\"b\", \"c\"]] rest", "[[1, \"a\"]] rest", "[[1, 2]] rest", "[[]] rest", "[{\"a\": 1}] rest", "[[[\"a\", \"b\"]]] rest", "{\"a\": \"b\"} rest",
                           "{\"a\": [\"b\", 1]} rest", "{\"a\": [\"b\", \"c\"]} rest", "{\"a\": {\"b\": 1}} rest", "{\"a\": 1, \"b\": \"c\"} rest", "{\"a\": true} rest", "[null] rest",
                           "[\"a\", ] rest", "[\"a\" rest", "[\"\xff\"] rest", "[\"a\\ud800\"] rest", "[[\"a\", 1e999]] rest", ""}) {
    CAPTURE(text);
    CHECK(read(text) == "none");
  }
}

TEST_CASE("objects find their members however many they have, and the last of equal keys counts") {
  for (const int members : {1, 7, 8, 9, 100, 5000}) {
    CAPTURE(members);
    Json built;
    std::string text = "{";
    for (int i = 0; i < members; ++i) {
      const std::string key = (i % 3 == 0 ? "a long key, beyond what fits in place, " : "k") + std::to_string(i);
      built[key] = i;
      text += (i > 0 ? "," : "") + Json::quoted(key) + ":-1";
    }
    for (int i = 0; i < members; ++i) {
      const std::string key = (i % 3 == 0 ? "a long key, beyond what fits in place, " : "k") + std::to_string(i);
      text += "," + Json::quoted(key) + ":" + std::to_string(i);
      REQUIRE(built.find(key) != nullptr);
      CHECK(built.find(key)->get<int>() == i);
      CHECK(built.find(key + "x") == nullptr);
    }
    const Json parsed = Json::parse(text + "}", "text");
    CHECK(parsed == built);
    CHECK(parsed.dump() == built.dump());
    CHECK(Json(parsed).dump() == parsed.dump());
  }
}

TEST_CASE("texts of every length are kept, copied and moved") {
  for (std::size_t size = 0; size < 40; ++size) {
    std::string text(size, 'x');
    if (size > 3) text[3] = '\0';
    Json json(text);
    CHECK(json.string() == text);
    Json copy = json;
    Json moved = std::move(json);
    CHECK(copy == moved);
    moved = copy;
    copy = Json::array({moved, text});
    CHECK(copy[0] == copy[1]);
  }
  CHECK(Json(std::string_view()).string().empty());
  CHECK(sizeof(Json) == 16);
}

TEST_CASE("indentation is passed over, and counts where something breaks") {
  const Json json = {{"a", {1, 2}}, {"  b  ", "  x\n  "}};
  for (const int indent : {0, 1, 7}) CHECK(Json::parse(json.dump({.indent = indent}), "file.json") == json);
  CHECK(Json::parse("\n   1   \n   ", "file.json") == Json(1));
  const auto place_of = [](std::string_view text) { return error_of([&] { static_cast<void>(Json::parse(text, "file.json")); }); };
  CHECK(place_of("{\n      \"a\": x}") == "file.json: not json, broken at byte 14 of 15 bytes");
  // A line break in a string, and its end.
  CHECK(place_of("[\n  \"a\n   b\"]") == "file.json: not json, broken at byte 7 of 13 bytes");
  CHECK(place_of("[\n    ") == "file.json: not json, broken at byte 7 of 6 bytes");
}

TEST_CASE("what breaks is refused with its place") {
  for (const char* text : {"", "{", "[1,]", "{\"a\" 1}", "tru", "\"\x80\"", "1 2", "{1: 2}"}) {
    CAPTURE(text);
    CHECK(error_of([&] { static_cast<void>(Json::parse(text, "file.json")); }).find("file.json: not json, broken at byte ") != std::string::npos);
    CHECK(Json::parse_or_null(text).is_null());
  }
  CHECK(error_of([&] { static_cast<void>(Json::parse("[1e999]", "file.json")); }).find("a number that does not fit") != std::string::npos);
  const std::string deep(Json::deepest, '[');
  CHECK(Json::parse(deep + std::string(Json::deepest, ']'), "file.json").size() == 1);
  CHECK(error_of([&] { static_cast<void>(Json::parse(deep + '[', "file.json")); }).find("nests deeper than 64") != std::string::npos);
  CHECK(error_of([&] { static_cast<void>(Json::parse(std::string(1 << 20, '['), "file.json")); }).find("nests deeper than 64") != std::string::npos);
}

TEST_CASE("braces make objects of named members and arrays of everything else") {
  CHECK(Json{{"a", 1}, {"b", {{"c", true}}}}.dump() == R"({"a":1,"b":{"c":true}})");
  CHECK(Json{{"a", 1}, {2, 3}}.dump() == R"([["a",1],[2,3]])");
  CHECK(Json{1, "two", nullptr}.dump() == R"([1,"two",null])");
  CHECK(Json::array({"a", 1}).dump() == R"(["a",1])");
  CHECK(Json(std::vector<float>{0.5f, 2}).dump() == "[0.5,2.0]");
}

TEST_CASE("members keep their order and are made when they are asked for") {
  Json json;
  CHECK(std::as_const(json).find("x") == nullptr);
  json["z"] = 1;
  json["a"]["deep"].push_back("item");
  json["z"] = 2;
  CHECK(json.dump() == R"({"z":2,"a":{"deep":["item"]}})");
  CHECK(json == Json{{"a", {{"deep", Json::array({"item"})}}}, {"z", 2.0}});
  CHECK(json != Json{{"z", 2}});
  CHECK(json.at("z").get<int>() == 2);
  CHECK(error_of([&] { static_cast<void>(json.at("y")); }).find("expected y, found none") != std::string::npos);
  CHECK(error_of([&] { static_cast<void>(json["z"]["under a number"]); }).find("expected an object, found number") != std::string::npos);
  CHECK(error_of([&] { json["z"].push_back(1); }).find("expected an array, found number") != std::string::npos);
  CHECK(error_of([&] { static_cast<void>(json["a"]["deep"][1]); }).find("expected more than 1 items, found 1") != std::string::npos);
}

TEST_CASE("values come as the type that is asked for, or not at all") {
  CHECK(Json(255).get<std::uint8_t>() == 255);
  CHECK(error_of([&] { static_cast<void>(Json(256).get<std::uint8_t>()); }).find("a whole number that fits") != std::string::npos);
  CHECK(error_of([&] { static_cast<void>(Json(-1).get<std::uint64_t>()); }).find("a whole number that fits") != std::string::npos);
  CHECK(Json(-1).get<double>() == -1);
  CHECK(error_of([&] { static_cast<void>(Json(1.0).get<int>()); }).find("expected a whole number that fits, found number") != std::string::npos);
  CHECK(error_of([&] { static_cast<void>(Json("1").get<double>()); }).find("expected a number, found string") != std::string::npos);
  CHECK(error_of([&] { static_cast<void>(Json(1).get<bool>()); }).find("expected a truth value, found number") != std::string::npos);
  CHECK(Json::parse("[1, 2]", "").get<std::vector<int>>() == std::vector{1, 2});
}

TEST_CASE("text that is not UTF-8 is refused, or replaced where that is wanted") {
  CHECK(error_of([&] { static_cast<void>(Json("a\xff").dump()); }).find("expected UTF-8") != std::string::npos);
  CHECK(Json("a\xff").dump({.replace_invalid = true}) == "\"a\xef\xbf\xbd\"");
}

}  // namespace
