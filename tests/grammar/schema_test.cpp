// JSON schemas: what each keyword lets through, and what is refused.
#include "bantam/grammar/grammar.hpp"

#include <array>

#include "limits.hpp"
#include "reference/grammar.hpp"
#include "support.hpp"

using namespace bantam;
using namespace bantam::test;

namespace {

void check_schema(const std::string& schema, std::initializer_list<const char*> allowed, std::initializer_list<const char*> not_allowed) {
  CAPTURE(schema);
  const Grammar grammar = Grammar::from_json_schema(schema);
  for (const char* text : allowed) CHECK_MESSAGE(grammar.matches(text), text);
  for (const char* text : not_allowed) CHECK_FALSE_MESSAGE(grammar.matches(text), text);
}

int pick(Random& random, int n) { return static_cast<int>(random.uniform() * n); }

/// A schema, and with it a value that it allows, written by somebody who knows nothing of grammars.
std::string random_schema(Random& random, int depth, std::string& value) {
  const auto number = [&](int low, int high) { return std::to_string(low + pick(random, high - low + 1)); };
  switch (pick(random, depth > 2 ? 6 : 9)) {
    case 0: value = pick(random, 2) != 0 ? "true" : "false"; return R"({"type": "boolean"})";
    case 1: {
      const int low = pick(random, 4000) - 2000, high = low + pick(random, 3000);
      value = number(low, high);
      return R"({"type": "integer", "minimum": )" + std::to_string(low) + R"(, "maximum": )" + std::to_string(high) + "}";
    }
    case 2: {
      const int least = pick(random, 4), most = least + pick(random, 4);
      value = "\"";
      for (int i = least + pick(random, most - least + 1); i-- > 0;) value += std::array{"a", "\\n", "\xc3\xa9", "\\u00e9", "\\ud83d\\ude00", "\xf0\x9f\x98\x80"}[static_cast<std::size_t>(pick(random, 6))];
      value += "\"";
      return R"({"type": "string", "minLength": )" + std::to_string(least) + R"(, "maxLength": )" + std::to_string(most) + "}";
    }
    case 3: value = std::array{"\"a\"", "1", "null", "[1,{\"x\":2}]"}[static_cast<std::size_t>(pick(random, 4))]; return R"({"enum": ["a", 1, null, [1, {"x": 2}]]})";
    case 4: value = number(0, 99) + "." + number(0, 99) + (pick(random, 2) != 0 ? "e-" + number(1, 9) : ""); return R"({"type": "number"})";
    case 5: value = "\"" + std::string(static_cast<std::size_t>(1 + pick(random, 3)), 'b') + "7\""; return R"({"type": "string", "pattern": "^b{1,3}\\d$"})";
    case 6: {
      std::string schema = R"({"type": "object", "properties": {)", required;
      value = "{";
      for (int i = 0; i < 4; ++i) {
        std::string inner;
        const std::string name = std::string("\"p") + static_cast<char>('0' + i) + "\"";
        schema += (i != 0 ? ", " : "") + name + ": " + random_schema(random, depth + 1, inner);
        const bool needed = pick(random, 2) != 0;
        if (needed) required += (required.empty() ? "" : ", ") + name;
        if (needed || pick(random, 2) != 0) value += (value.size() > 1 ? ", " : "") + name + ": " + inner;
      }
      const bool open = pick(random, 2) != 0;
      if (open && pick(random, 2) != 0) value += std::string(value.size() > 1 ? "," : "") + "\"p\": [null]";
      value += "}";
      return schema + "}, \"required\": [" + required + "], \"additionalProperties\": " + (open ? "true}" : "false}");
    }
    case 7: {
      const int least = pick(random, 3), most = least + pick(random, 3);
      std::string inner;
      const std::string items = random_schema(random, depth + 1, inner);
      value = "[";
      for (int i = least + pick(random, most - least + 1), n = 0; n < i; ++n) value += (n != 0 ? "," : "") + inner;
      value += "]";
      return R"({"type": "array", "items": )" + items + R"(, "minItems": )" + std::to_string(least) + R"(, "maxItems": )" + std::to_string(most) + "}";
    }
    default: {
      std::string a, b;
      const std::string one = random_schema(random, depth + 1, a), two = random_schema(random, depth + 1, b);
      value = pick(random, 2) != 0 ? a : b;
      return "{\"anyOf\": [" + one + ", " + two + "]}";
    }
  }
}

}  // namespace

TEST_CASE("types") {
  check_schema("{}", {"{}", "[]", "null", "-1.5e3", "\"x\"", R"({"a": [1, {"b": null}]})"}, {"", "nul", "[1,]", "{a:1}", "01", " 1", "1 "});
  check_schema(R"({"type": "object"})", {"{}", "{\"a\":1}", "{ \"a\" : 1 , \"b\" : {} }"}, {"[]", "{\"a\"}", "1", "{   }"});
  check_schema(R"({"type": ["integer", "null"]})", {"12", "-3", "null", "0"}, {"1.0", "-0", "007", "12345678901234567"});
  check_schema(R"({"type": "string", "nullable": true})", {"\"a\"", "null"}, {"1"});
  check_schema(R"({"type": "string"})", {R"("a\n\"\\\/é")", R"("\u00e9")", R"("\ud83d\ude00")", "\"\xf0\x9f\x98\x80\""}, {"\"a", "\"\n\"", R"("\ud83d")", R"("\x")", "\"\xff\""});
  check_schema(R"({"const": {"a": [1, "é"]}})", {"{\"a\":[1,\"é\"]}"}, {"{\"a\": [1,\"é\"]}"});
  check_schema(R"({"type": "string", "enum": ["a", 1, "b"]})", {"\"a\"", "\"b\""}, {"1"});
}

TEST_CASE("numbers between bounds, each checked") {
  for (const auto& [low, high] : {std::pair{-105, 23}, std::pair{7, 7}, std::pair{99, 1001}, std::pair{-1000, -7}, std::pair{0, 9}, std::pair{-1, 0}}) {
    const std::string bounds = R"("minimum": )" + std::to_string(low) + R"(, "maximum": )" + std::to_string(high) + "}";
    const Grammar whole = Grammar::from_json_schema(R"({"type": "integer", )" + bounds);
    const Grammar any = Grammar::from_json_schema(R"({"type": "number", )" + bounds);
    const Grammar inside = Grammar::from_json_schema(R"({"type": "number", "exclusiveMinimum": )" + std::to_string(low) + R"(, "exclusiveMaximum": )" + std::to_string(high + 1) + "}");
    for (int i = -1200; i <= 1200; ++i) {
      const bool in = i >= low && i <= high;
      const std::string text = std::to_string(i);
      CHECK_MESSAGE(whole.matches(text) == in, text);
      CHECK_MESSAGE(any.matches(text) == in, text);
      CHECK_MESSAGE(any.matches(text + ".0") == in, text);
      const double quarter = i + (i < 0 ? -0.25 : 0.25);
      CHECK_MESSAGE(any.matches(text + ".25") == (quarter >= low && quarter <= high), text);
      CHECK_MESSAGE(inside.matches(text) == (i > low && i < high + 1), text);
      CHECK_MESSAGE(inside.matches(text + ".25") == (quarter > low && quarter < high + 1), text);
    }
  }
  check_schema(R"({"type": "integer", "minimum": 10})", {"10", "99", "100", "1234567890123456"}, {"9", "-10", "010", "12345678901234567"});
  check_schema(R"({"type": "integer", "exclusiveMinimum": 2.5, "exclusiveMaximum": 5})", {"3", "4"}, {"2", "5"});
}

TEST_CASE("objects and arrays") {
  const std::string listed = R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "null"}, "ab": {}}, "required": ["b"])";
  check_schema(listed + "}", {R"({"a":1,"b":null})", R"({"b":null})", R"({"b":null,"ab":[]})"}, {R"({"a":1})", "{}", R"({"b":null,"a":1})", R"({"b":null,"c":1})", R"({"b":null,})"});
  check_schema(listed + R"(, "additionalProperties": {"type": "integer"}})", {R"({"b":null,"c":1,"abc":2,"":3,"B":1})"}, {R"({"b":null,"c":null})", R"({"b":null,"b":1})", R"({"b":null,"ab":1,"a":1})", R"({"c":1,"b":null})", R"({"b":null,"\u0061":1})"});
  check_schema(R"({"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 3})", {"[1,2]", "[ 1 , 2 , 3 ]"}, {"[1]", "[]", "[1,2,3,4]", "[1,]"});
  check_schema(R"({"prefixItems": [{"const": 1}, {"const": 2}], "items": {"const": 3}, "minItems": 1})", {"[1]", "[1,2]", "[1,2,3,3]"}, {"[]", "[2]", "[1,3]"});
  check_schema(R"({"prefixItems": [{"const": 1}, {"const": 2}]})", {"[]", "[1]", "[1,2]"}, {"[1,2,3]"});
  check_schema(R"({"$ref": "#/$defs/tree", "$defs": {"tree": {"type": "object", "properties": {"left": {"$ref": "#/$defs/tree"}}}}})", {"{}", R"({"left":{"left":{}}})"}, {R"({"left":1})"});
  check_schema(R"({"allOf": [{"$ref": "#/$defs/a"}, {"properties": {"y": {"type": "null"}}, "required": ["y"]}], "$defs": {"a": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}}})",
               {R"({"x":1,"y":null})"}, {R"({"x":1})", R"({"y":null})"});
  check_schema(R"({"type": "object", "properties": {"a": {}}, "anyOf": [{"required": ["a"]}, {"properties": {"b": {"const": 1}}}]})", {R"({"a":1})", R"({"a":1,"b":1})", "{}"}, {R"({"b":2})"});
}

TEST_CASE("patterns and formats") {
  check_schema(R"({"type": "string", "pattern": "^(a|b)+\\d{2}$"})", {"\"ab07\""}, {"\"ab7\"", "\"xab07\"", "\"ab07x\""});
  check_schema(R"({"type": "string", "pattern": "[\"\\\\]"})", {R"("x\"y")", R"("\\")"}, {"\"x\"", R"("\n")"});
  check_schema(R"({"type": "string", "pattern": "^[^\\s]$"})", {"\"\xc3\xa9\""}, {"\" \"", R"("\t")"});
  check_schema(R"({"format": "date"})", {"\"2026-11-25\""}, {"\"2026-13-25\"", "\"26-1-1\""});
  check_schema(R"({"format": "date-time"})", {"\"2026-11-25T01:02:03Z\"", "\"2026-11-25T01:02:03.123+02:00\""}, {"\"2026-11-25\"", "\"2026-11-25T25:02:03Z\""});
  check_schema(R"({"format": "uuid"})", {"\"123e4567-e89b-12d3-a456-426614174000\""}, {"\"123e4567\""});
  check_schema(R"({"format": "email"})", {"\"a.b@example.org\""}, {"\"a.b\"", "\"@example.org\""});
  check_schema(R"({"format": "ipv4"})", {"\"127.0.0.1\"", "\"255.255.255.255\""}, {"\"256.0.0.1\"", "\"1.2.3\""});
}

TEST_CASE("what a grammar cannot keep to is refused with its place") {
  const auto refused = [](const char* schema) { return error_of([&] { (void)Grammar::from_json_schema(schema); }); };
  CHECK(refused(R"({"properties": {"a": {"not": {}}}})") == "schema: #/properties/a: expected a keyword that a grammar can keep to, found not");
  CHECK(refused(R"({"type": "array", "uniqueItems": true})") == "schema: #/uniqueItems: expected false: a grammar cannot compare items, found true");
  CHECK(refused(R"({"type": "text"})").starts_with("schema: #/type: expected string, number,"));
  CHECK(refused(R"({"$ref": "#/$defs/x"})") == "schema: #/$ref: expected a schema that is there, found \"#/$defs/x\"");
  CHECK(refused(R"({"$ref": "http://a/b"})").starts_with("schema: #/$ref: expected a reference into this schema"));
  CHECK(refused(R"({"$ref": "#"})").find("that matches a text, found one that cannot end") != std::string::npos);
  CHECK(refused(R"({"$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"})").find("32 schemas joined") != std::string::npos);
  CHECK(refused(R"({"type": "number", "minimum": 0.5})").starts_with("schema: #/minimum: expected a whole number"));
  CHECK(refused(R"({"format": "uri"})").starts_with("schema: #/format: expected date, time"));
  CHECK(refused(R"({"type": "string", "pattern": "(?=a)b"})").starts_with("schema: #/pattern: byte 2: expected a group"));
  CHECK(refused(R"({"type": "string", "minimum": 1})").starts_with("schema: #/minimum: expected a schema of type number"));
  CHECK(refused("[1").starts_with("schema"));
  CHECK(refused("3") == "schema: #: expected an object or a truth value, found number");
  CHECK(refused(R"({"anyOf": [{"$ref": "#"}, {"$ref": "#"}], "type": "object"})").find("schema") == 0);
  CHECK(refused(R"({"type": "string", "pattern": "^((a{9000}){9000}){9000}$"})").find("repetitions multiply") != std::string::npos);
}

TEST_CASE("ten thousand random schemas: values made for them match, and texts near those as the rules say") {
  Random random(21);
  int same = 0, others = 0;
  for (int i = 0; i < (quick() ? 200 : 10000); ++i) {
    std::string value;
    const std::string schema = random_schema(random, 0, value);
    CAPTURE(schema);
    const Grammar grammar = Grammar::from_json_schema(schema);
    CHECK_MESSAGE(grammar.matches(value), value);
    const grammar::Rules rules = grammar::read_json_schema(schema);
    std::string text;
    if (i % 8 == 0 && reference::GrammarWriter(rules, random).write(text)) CHECK_MESSAGE(grammar.matches(text), text);
    if (value.size() > 120) continue;
    std::string near = value;
    near[static_cast<std::size_t>(pick(random, static_cast<int>(near.size())))] = "0,}]\"a"[pick(random, 6)];
    const bool expected = reference::GrammarReader(rules, near).matches();
    CHECK_MESSAGE(grammar.matches(near) == expected, near);
    (expected ? same : others) += 1;
  }
  CHECK(same > 20);
  CHECK(others > 100);
}
