// The tree of JSON, compared with nlohmann's.
#include "io/json.hpp"

#include <nlohmann/json.hpp>

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

TEST_CASE("an array that is read on another thread makes the same tree, and the same errors") {
  const std::string deep(62, '[');
  const std::string deeper(63, '[');
  for (const std::string& text : {
           std::string(R"({"a": 1, "list": ["x", {"list": [2]}, -3, null], "b": [null, 4]})"),
           std::string(R"({"list":[],"b":null})"),
           std::string(R"({"x": null, "list"  :\n   [[1,\n  2],\n   []\n ]\n})"),
           std::string(R"({"list": {"list": [1, 2]}, "b": [3]})"),
           std::string(R"({"list": 7, "inner": [{"list": [1]}, {"list": [2]}]})"),
           std::string(R"({"a\"list": [1, 2], "b": 0})"),
           std::string(R"({"v": "say \"list\": [", "b": 1})"),
           std::string(R"({"v": "list", "list": [1]})"),
           std::string(R"({"list": [1], "list": [2]})"),
           // Broken inside, before, at and behind the array.
           std::string(R"({"list": [1, 2, "b": 3})"),
           std::string(R"({"list": [1, 2)"),
           std::string(R"({"x" 1, "list": [1, 2]})"),
           std::string(R"({"x"list": [1, 2]})"),
           std::string(R"({"list": [1, 2] 5})"),
           std::string("{\n   \"list\": [1,\n    2],\n  \"b\": nul}"),
           // As deep as may be, and one deeper.
           R"({"list": )" + deep + "0" + std::string(deep.size(), ']') + "}",
           R"({"b": {"list": )" + deep + "0" + std::string(deep.size(), ']') + "}}",
           R"({"b": {"list": )" + deeper + "0" + std::string(deeper.size(), ']') + "}}",
       }) {
    CAPTURE(text);
    const auto outcome = [&](std::string_view aside) {
      try {
        return Json::parse(text, "text", aside).dump();
      } catch (const Error& error) {
        return std::string(error.what());
      }
    };
    CHECK(outcome("list") == outcome(""));
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
