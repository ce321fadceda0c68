// JSON schemas as rules for the JSON texts that they allow.
#include <algorithm>
#include <map>
#include <set>

#include "grammar/json_numbers.hpp"
#include "grammar/json_strings.hpp"
#include "io/json.hpp"

namespace bantam::inline v0::grammar {

namespace {

constexpr std::size_t most_schema_bytes = std::size_t{4} << 20;
constexpr std::int32_t most_items = 10000;     // of lists, and characters of strings
constexpr std::size_t most_schemas = 100000;     // read, those of references that are merged again each time
constexpr int deepest_schema = 200;

constexpr std::string_view types[] = {"string", "number", "integer", "object", "array", "boolean", "null"};
// They say nothing of what is allowed.
constexpr std::string_view annotations[] = {"title",      "description", "default",  "examples",  "example",  "deprecated", "readOnly", "writeOnly",
                                            "$schema",    "$id",         "$comment", "$anchor",   "$defs",    "definitions", "id",      "contentMediaType",
                                            "contentEncoding", "$vocabulary", "externalDocs", "strict", "name", "propertyOrdering", "discriminator", "xml", "comment"};
constexpr std::string_view keywords[] = {"type",      "properties", "required",  "additionalProperties", "items",   "prefixItems", "minItems",
                                         "maxItems",  "enum",       "const",     "anyOf",                "oneOf",   "allOf",       "$ref",
                                         "minLength", "maxLength",  "pattern",   "format",               "minimum", "maximum",     "exclusiveMinimum",
                                         "exclusiveMaximum", "nullable", "uniqueItems", "minProperties"};
/// Which type a keyword is about.
constexpr std::pair<std::string_view, std::string_view> belongs[] = {
    {"properties", "object"}, {"required", "object"}, {"additionalProperties", "object"}, {"minProperties", "object"}, {"items", "array"}, {"prefixItems", "array"},
    {"minItems", "array"}, {"maxItems", "array"}, {"uniqueItems", "array"}, {"minLength", "string"}, {"maxLength", "string"}, {"pattern", "string"},
    {"format", "string"}, {"minimum", "number"}, {"maximum", "number"}, {"exclusiveMinimum", "number"}, {"exclusiveMaximum", "number"}};

constexpr std::pair<std::string_view, std::string_view> formats[] = {
    {"date", "^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$"},
    {"time", "^([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{3})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$"},
    {"date-time", "^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{3})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$"},
    {"uuid", "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"},
    {"email", "^[A-Za-z0-9_+-]{1,32}(\\.[A-Za-z0-9_+-]{1,32}){0,3}@([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\\.){1,4}[A-Za-z]{2,24}$"},
    {"ipv4", "^((25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])\\.){3}(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])$"}};

class SchemaReader {
 public:
  SchemaReader(const Json& root) : root_(root) {}

  Rules read() {
    const Rule rule = rules_.declare("root");
    space_ = rules_.named("space", rules_.choice({rules_.nothing(), rules_.text(" "),
                                                  rules_.sequence({rules_.repeat(rules_.text("\n"), 1, 2), rules_.repeat(rules_.chars({{' ', ' '}, {'\t', '\t'}}), 0, 20)})}));
    character_ = json_character(rules_);
    string_ = rules_.named("string", quoted(rules_.repeat(character_, 0)));
    // Each of these refers to the others.
    value_rule_ = rules_.declare("value");
    const Expr value = rules_.call(value_rule_);
    any_object_ = rules_.named("object", object_of({}, value, false, {}));
    any_array_ = rules_.named("array", array_of({}, value, 0, Rules::unbounded));
    number_ = rules_.named("number", numbers(rules_, {}));
    rules_.define(value_rule_, rules_.choice({any_object_, any_array_, string_, number_, rules_.text("true"), rules_.text("false"), rules_.text("null")}));
    rules_.define(rule, schema(root_, "#"));
    return std::move(rules_);
  }

 private:
  [[noreturn]] static void refuse(std::string_view place, std::string_view expected, std::string_view found) {
    fail(Errc::unsupported, "schema: ", printable(place, 200), ": expected ", expected, ", found ", found);
  }
  [[noreturn]] static void refuse_value(std::string_view place, std::string_view expected, const Json& found) {
    refuse(place, expected, printable(found.dump(Json::Style{.replace_invalid = true, .ascii = true}), 40));
  }
  /// A member; null where it is absent.
  static const Json* member_of(const Json& schema, std::string_view key) { return schema.find(key); }
  static std::string below(std::string_view place, std::string_view key) { return std::string(place) + "/" + std::string(key); }

  Expr quoted(Expr inside) { return rules_.sequence({rules_.text("\""), inside, rules_.text("\"")}); }

  // ------------------------------------------------------------------ one schema
  Expr schema(const Json& given, const std::string& place) {
    struct Depth {
      int& value;
      explicit Depth(int& v) : value(v) { ++value; }
      ~Depth() { --value; }
    } const depth(depth_);
    if (depth_ > deepest_schema) refuse(place, message("at most ", deepest_schema, " schemas in each other"), "more");
    if (++schemas_ > most_schemas) refuse(place, message("at most ", most_schemas, " schemas, those that references name counted each time"), "more");
    if (given.is_boolean()) {
      if (given.get<bool>()) return rules_.call(value_rule_);
      return rules_.choice({});
    }
    if (!given.is_object()) fail(Errc::invalid_argument, "schema: ", printable(place, 200), ": expected an object or a truth value, found ", given.type_name());
    check_keywords(given, place);
    if (const Json* ref = member_of(given, "$ref"); ref != nullptr && only_annotations_beside(given, "$ref")) return reference(*ref, place);
    if (member_of(given, "$ref") != nullptr || member_of(given, "allOf") != nullptr) return schema(flattened(given, place, 0), place);
    for (const std::string_view key : {"anyOf", "oneOf"}) {
      if (member_of(given, key) != nullptr) return any_of(given, key, place);
    }
    return plain(given, place);
  }

  static void check_keywords(const Json& given, const std::string& place) {
    for (const auto& [key, value] : given.items()) {
      if (std::ranges::find(annotations, key) != std::end(annotations) || std::ranges::find(keywords, key) != std::end(keywords) || key.starts_with("x-")) continue;
      refuse(place, "a keyword that a grammar can keep to", printable(key));
    }
  }
  static bool only_annotations_beside(const Json& given, std::string_view key) {
    for (const auto& [name, value] : given.items()) {
      if (name != key && std::ranges::find(keywords, name) != std::end(keywords)) return false;
    }
    return true;
  }

  // ------------------------------------------------------------------ references
  const Json& target_of(const Json& ref, const std::string& place) const {
    if (!ref.is_string()) refuse_value(below(place, "$ref"), "a text", ref);
    const std::string_view path = ref.string();
    if (!path.starts_with("#")) refuse_value(below(place, "$ref"), "a reference into this schema (#/...)", ref);
    const Json* at = &root_;
    for (std::string_view left = path.substr(1); !left.empty();) {
      if (left.front() != '/') refuse_value(below(place, "$ref"), "a reference into this schema (#/...)", ref);
      left.remove_prefix(1);
      const std::size_t end = std::min(left.find('/'), left.size());
      std::string name;
      for (std::size_t i = 0; i < end; ++i) {
        if (left[i] == '~' && i + 1 < end && (left[i + 1] == '0' || left[i + 1] == '1')) {
          name += left[++i] == '0' ? '~' : '/';
        } else {
          name += left[i];
        }
      }
      left.remove_prefix(end);
      const Json* next = nullptr;
      if (at->is_object()) {
        next = at->find(name);
      } else if (at->is_array() && !name.empty() && name.size() < 8 && name.find_first_not_of("0123456789") == std::string::npos) {
        if (const auto index = static_cast<std::size_t>(std::stoul(name)); index < at->size()) next = &(*at)[index];
      }
      if (next == nullptr) refuse_value(below(place, "$ref"), "a schema that is there", ref);
      at = next;
    }
    return *at;
  }

  Expr reference(const Json& ref, const std::string& place) {
    const Json& target = target_of(ref, place);
    if (const auto known = references_.find(&target); known != references_.end()) return rules_.call(known->second);
    const Rule rule = rules_.declare(std::string(ref.string()));
    references_.emplace(&target, rule);
    rules_.define(rule, schema(target, std::string(ref.string())));
    return rules_.call(rule);
  }

  // ------------------------------------------------------------------ schemas joined
  /// Without $ref and allOf: one schema that says what all of them say.
  Json flattened(const Json& given, const std::string& place, int depth) {
    if (depth > 32) refuse(place, "at most 32 schemas joined in each other", "more, or a circle");
    if (++schemas_ > most_schemas) refuse(place, message("at most ", most_schemas, " schemas, those that references name counted each time"), "more");
    if (!given.is_object()) refuse_value(place, "an object in a list of schemas to join", given);
    check_keywords(given, place);
    Json all = Json::object();
    for (const auto& [key, value] : given.items()) {
      if (key == "$ref") {
        join(all, flattened(target_of(value, place), std::string(value.string()), depth + 1), place);
      } else if (key == "allOf") {
        if (!value.is_array() || value.empty()) refuse_value(below(place, "allOf"), "a list of schemas", value);
        std::size_t i = 0;
        for (const Json& part : value) {
          const std::string at = message(place, "/allOf/", i++);
          join(all, flattened(part, at, depth + 1), at);
        }
      } else {
        Json one = Json::object();
        one[key] = value;
        join(all, one, place);
      }
    }
    return all;
  }

  void join(Json& all, const Json& more, const std::string& place) {
    for (const auto& [key, value] : more.items()) {
      if (std::ranges::find(keywords, key) == std::end(keywords)) continue;
      if (!all.contains(key)) {
        all[key] = value;
        continue;
      }
      Json& known = all[key];
      if (known == value) continue;
      const bool number = known.is_number() && value.is_number();
      if (key == "properties" && known.is_object() && value.is_object()) {
        for (const auto& [name, property] : value.items()) {
          if (!known.contains(name)) {
            known[name] = property;
          } else if (!(known.at(name) == property)) {
            Json both = Json::object();
            both["allOf"] = Json::array({known.at(name), property});
            known[name] = both;
          }
        }
      } else if (key == "required" && known.is_array() && value.is_array()) {
        for (const Json& name : value) known.push_back(name);
      } else if (number && (key == "minimum" || key == "exclusiveMinimum" || key == "minLength" || key == "minItems")) {
        if (value.get<double>() > known.get<double>()) known = value;
      } else if (number && (key == "maximum" || key == "exclusiveMaximum" || key == "maxLength" || key == "maxItems")) {
        if (value.get<double>() < known.get<double>()) known = value;
      } else if (key == "enum" && known.is_array() && value.is_array()) {
        Json both = Json::array();
        for (const Json& one : known) {
          if (std::any_of(value.begin(), value.end(), [&](const Json& other) { return other == one; })) both.push_back(one);
        }
        known = both;
      } else if ((key == "items" || key == "additionalProperties") && known.is_object() && value.is_object()) {
        Json both = Json::object();
        both["allOf"] = Json::array({known, value});
        known = both;
      } else {
        refuse_value(below(place, key), message("what another part says of ", key, " too"), value);
      }
    }
  }

  Expr any_of(const Json& given, std::string_view key, const std::string& place) {
    const Json& ways = given.at(key);
    if (!ways.is_array() || ways.empty()) refuse_value(below(place, key), "a list of schemas", ways);
    // What stands beside it holds for each.
    Json rest = Json::object();
    bool alone = true;
    for (const auto& [name, value] : given.items()) {
      if (name == key || std::ranges::find(keywords, name) == std::end(keywords)) continue;
      rest[name] = value;
      alone = false;
    }
    std::vector<Expr> found;
    std::size_t i = 0;
    for (const Json& way : ways) {
      const std::string at = message(place, "/", key, "/", i++);
      if (alone) {
        found.push_back(schema(way, at));
        continue;
      }
      Json both = Json::object();
      both["allOf"] = Json::array({rest, way});
      found.push_back(schema(both, at));
    }
    return rules_.choice(std::move(found));
  }

  // ------------------------------------------------------------------ types
  static bool fits(const Json& value, std::string_view type) {
    if (type == "string") return value.is_string();
    if (type == "integer") return value.is_number_integer();
    if (type == "number") return value.is_number();
    if (type == "object") return value.is_object();
    if (type == "array") return value.is_array();
    if (type == "boolean") return value.is_boolean();
    return value.is_null();
  }

  Expr plain(const Json& given, const std::string& place) {
    std::vector<std::string> allowed;
    if (const Json* type = member_of(given, "type")) {
      const auto take = [&](const Json& name) {
        if (!name.is_string() || std::ranges::find(types, name.string()) == std::end(types)) refuse_value(below(place, "type"), "string, number, integer, object, array, boolean or null", name);
        allowed.emplace_back(name.string());
      };
      if (type->is_array()) {
        for (const Json& name : *type) take(name);
      } else {
        take(*type);
      }
    }
    const Json* nullable = member_of(given, "nullable");
    if (nullable != nullptr && !nullable->is_boolean()) refuse_value(below(place, "nullable"), "a truth value", *nullable);
    const bool null_too = nullable != nullptr && nullable->get<bool>() && !allowed.empty();
    if (null_too && std::ranges::find(allowed, "null") == allowed.end()) allowed.emplace_back("null");
    if (const Json* constant = member_of(given, "const")) return values(Json::array({*constant}), allowed, given, place);
    if (const Json* list = member_of(given, "enum")) {
      if (!list->is_array()) refuse_value(below(place, "enum"), "a list of values", *list);
      return values(*list, allowed, given, place);
    }
    if (allowed.empty()) {
      // What keywords are about says which type is meant; llama.cpp reads schemas so, and people write them so.
      for (const auto& [key, type] : belongs) {
        if (!given.contains(key)) continue;
        if (std::ranges::find(allowed, type) == allowed.end()) allowed.emplace_back(type);
      }
      if (allowed.size() > 1) refuse(place, "a type", "keywords of several");
      if (allowed.empty()) return rules_.call(value_rule_);
    }
    for (const auto& [key, type] : belongs) {
      const bool wanted = std::ranges::any_of(allowed, [&, wanted_type = type](const std::string& one) { return one == wanted_type || (wanted_type == "number" && one == "integer"); });
      if (given.contains(key) && !wanted) refuse(below(place, key), message("a schema of type ", type), "one of type " + allowed.front());
    }
    std::vector<Expr> ways;
    for (const std::string& type : allowed) ways.push_back(of_type(given, type, place));
    return rules_.choice(std::move(ways));
  }

  Expr values(const Json& list, const std::vector<std::string>& allowed, const Json& given, const std::string& place) {
    for (const auto& [key, type] : belongs) {
      if (given.contains(key)) refuse(below(place, key), "no bound beside a list of values", "one");
    }
    if (given.contains("const") && given.contains("enum")) refuse(below(place, "const"), "no enum beside it", "one");
    std::vector<Expr> ways;
    for (const Json& value : list) {
      if (!allowed.empty() && std::ranges::none_of(allowed, [&](const std::string& type) { return fits(value, type); })) continue;
      ways.push_back(rules_.text(value.dump()));
    }
    return rules_.choice(std::move(ways));
  }

  Expr of_type(const Json& given, std::string_view type, const std::string& place) {
    if (type == "string") return string(given, place);
    if (type == "integer") return integers(rules_, bounds(given, place, true));
    if (type == "number") return numbers(rules_, bounds(given, place, false));
    if (type == "object") return object(given, place);
    if (type == "array") return array(given, place);
    if (type == "boolean") return rules_.choice({rules_.text("true"), rules_.text("false")});
    return rules_.text("null");
  }

  // ------------------------------------------------------------------ numbers
  Bounds bounds(const Json& given, const std::string& place, bool whole) {
    Bounds b;
    const auto read = [&](std::string_view key, std::optional<std::int64_t>& bound, bool& open, bool upper, bool exclusive) {
      const Json* value = member_of(given, key);
      if (value == nullptr) return;
      if (!value->is_number()) refuse_value(below(place, key), "a number", *value);
      const double exact = value->get<double>();
      constexpr double most = 9007199254740992.0;  // what doubles count exactly
      if (!(exact >= -most && exact <= most)) refuse_value(below(place, key), "a number of at most 2^53", *value);
      auto floor = static_cast<std::int64_t>(exact);
      if (static_cast<double>(floor) > exact) --floor;
      const bool is_whole = static_cast<double>(floor) == exact;
      if (!whole && !is_whole) refuse_value(below(place, key), "a whole number as the bound of numbers", *value);
      std::int64_t found = upper || is_whole ? floor : floor + 1;
      if (whole && exclusive && is_whole) found += upper ? -1 : 1;
      const bool out = exclusive && !whole;
      const bool tighter = !bound || (upper ? found < *bound : found > *bound) || (found == *bound && out);
      if (!tighter) return;
      bound = found;
      open = out;
    };
    read("minimum", b.least, b.above_least, false, false);
    read("exclusiveMinimum", b.least, b.above_least, false, true);
    read("maximum", b.most, b.below_most, true, false);
    read("exclusiveMaximum", b.most, b.below_most, true, true);
    if (b.least && b.most && (*b.least > *b.most || (*b.least == *b.most && (b.above_least || b.below_most)))) refuse(place, "bounds with a number between them", "none");
    return b;
  }

  std::int32_t count(const Json& given, std::string_view key, std::int32_t otherwise, const std::string& place) {
    const Json* value = member_of(given, key);
    if (value == nullptr) return otherwise;
    if (!value->is_number_unsigned() || value->get<std::uint64_t>() > static_cast<std::uint64_t>(most_items)) refuse_value(below(place, key), message("a whole number from 0 to ", most_items), *value);
    return value->get<std::int32_t>();
  }

  // ------------------------------------------------------------------ strings
  Expr string(const Json& given, const std::string& place) {
    const Json* pattern = member_of(given, "pattern");
    const Json* format = member_of(given, "format");
    const bool counted = given.contains("minLength") || given.contains("maxLength");
    if (static_cast<int>(pattern != nullptr) + static_cast<int>(format != nullptr) + static_cast<int>(counted) > 1) {
      refuse(place, "one of pattern, format and lengths", "several");
    }
    if (pattern != nullptr) {
      if (!pattern->is_string()) refuse_value(below(place, "pattern"), "a text", *pattern);
      return quoted(json_pattern(rules_, pattern->string(), printable(below(place, "pattern"), 200)));
    }
    if (format != nullptr) {
      if (format->is_string()) {
        for (const auto& [name, meant] : formats) {
          if (format->string() == name) return rules_.named(std::string(name), quoted(json_pattern(rules_, meant, name)));
        }
      }
      refuse_value(below(place, "format"), "date, time, date-time, uuid, email or ipv4", *format);
    }
    if (!counted) return string_;
    const std::int32_t least = count(given, "minLength", 0, place);
    const std::int32_t most = count(given, "maxLength", Rules::unbounded, place);
    if (most != Rules::unbounded && most < least) refuse(place, "minLength of at most maxLength", "more");
    return quoted(rules_.repeat(character_, least, most));
  }

  // ------------------------------------------------------------------ arrays
  Expr array(const Json& given, const std::string& place) {
    if (const Json* unique = member_of(given, "uniqueItems"); unique != nullptr && !(unique->is_boolean() && !unique->get<bool>())) {
      refuse_value(below(place, "uniqueItems"), "false: a grammar cannot compare items", *unique);
    }
    const std::int32_t least = count(given, "minItems", 0, place);
    const std::int32_t most = count(given, "maxItems", Rules::unbounded, place);
    if (most != Rules::unbounded && most < least) refuse(place, "minItems of at most maxItems", "more");
    std::vector<Expr> first;
    const Json* prefix = member_of(given, "prefixItems");
    const Json* items = member_of(given, "items");
    std::string prefix_name = "prefixItems";
    if (prefix == nullptr && items != nullptr && items->is_array()) {  // as drafts before 2020-12 write it
      prefix = std::exchange(items, nullptr);
      prefix_name = "items";
    }
    if (prefix != nullptr) {
      if (!prefix->is_array()) refuse_value(below(place, prefix_name), "a list of schemas", *prefix);
      std::size_t i = 0;
      for (const Json& one : *prefix) {
        const std::string at = message(place, "/", prefix_name, "/", i++);
        first.push_back(rules_.named(at, schema(one, at)));
      }
    }
    // Behind a list of first items others come only where the schema speaks of them, as in llama.cpp.
    std::optional<Expr> rest;
    if (items != nullptr) {
      if (!(items->is_boolean() && !items->get<bool>())) rest = rules_.named(below(place, "items"), schema(*items, below(place, "items")));
    } else if (prefix == nullptr) {
      rest = rules_.call(value_rule_);
    }
    const bool reachable = rest || static_cast<std::size_t>(least) <= first.size();
    if (!reachable) refuse(below(place, "minItems"), message("at most ", first.size(), " items, which is what there is"), message(least));
    return array_of(first, rest, least, most);
  }

  Expr array_of(const std::vector<Expr>& first, std::optional<Expr> rest, std::int32_t least, std::int32_t most) {
    const auto size = static_cast<std::int32_t>(first.size());
    const Expr comma = rules_.sequence({space_, rules_.text(","), space_});
    // From the end: what may follow item i. Rules, so that what follows is not written twice.
    std::optional<Expr> list;
    bool may_be_empty = true;
    if (rest && (most == Rules::unbounded || most > size)) {
      const std::int32_t more = most == Rules::unbounded ? most : most - size;
      const std::int32_t needed = std::max(least - size, 0);
      if (size == 0) {
        // The first of them has no comma.
        list = rules_.sequence({*rest, rules_.repeat(rules_.sequence({comma, *rest}), std::max(needed - 1, 0), more == Rules::unbounded ? more : more - 1)});
        may_be_empty = needed == 0;
      } else {
        list = rules_.repeat(rules_.sequence({comma, *rest}), needed, more);
      }
    }
    for (std::int32_t i = most == Rules::unbounded ? size : std::min(size, most); i-- > 0;) {
      std::vector<Expr> parts;
      if (i > 0) parts.push_back(comma);
      parts.push_back(first[static_cast<std::size_t>(i)]);
      if (list) parts.push_back(*list);
      list = rules_.sequence(std::move(parts));
      may_be_empty = i >= least;
      // What need not be there may be left out with all behind it.
      if (i > 0) list = rules_.named("items", may_be_empty ? rules_.optional(*list) : *list);
    }
    return enclosed("[", list, may_be_empty, "]");
  }

  /// Brackets, with white space at each at most once.
  Expr enclosed(std::string_view open, std::optional<Expr> inside, bool may_be_empty, std::string_view close) {
    std::vector<Expr> parts{rules_.text(open), space_};
    if (inside) {
      const Expr with_space = rules_.sequence({*inside, space_});
      parts.push_back(may_be_empty ? rules_.optional(with_space) : with_space);
    }
    parts.push_back(rules_.text(close));
    return rules_.sequence(std::move(parts));
  }

  // ------------------------------------------------------------------ objects
  struct Property {
    Expr pair;  ///< "name": value
    bool required;
  };

  Expr pair_of(Expr name, Expr value) { return rules_.sequence({name, space_, rules_.text(":"), space_, value}); }

  Expr object(const Json& given, const std::string& place) {
    std::vector<Property> properties;
    std::vector<std::string> names;
    std::set<std::string, std::less<>> required;
    if (const Json* list = member_of(given, "required")) {
      if (!list->is_array()) refuse_value(below(place, "required"), "a list of names", *list);
      for (const Json& name : *list) {
        if (!name.is_string()) refuse_value(below(place, "required"), "a list of names", *list);
        required.emplace(name.string());
      }
    }
    const Json* listed = member_of(given, "properties");
    if (listed != nullptr && !listed->is_object()) refuse_value(below(place, "properties"), "an object", *listed);
    const Json* more = member_of(given, "additionalProperties");
    // llama.cpp's reading, which keeps models from making up names: what has a list of properties has no others unless it says so.
    const bool closed = more == nullptr ? listed != nullptr : more->is_boolean() && !more->get<bool>();
    std::optional<Expr> others;
    if (!closed) others = more == nullptr || more->is_boolean() ? rules_.call(value_rule_) : rules_.named(below(place, "additionalProperties"), schema(*more, below(place, "additionalProperties")));
    if (listed != nullptr) {
      for (const auto& [name, property] : listed->items()) {
        const std::string at = below(below(place, "properties"), name);
        const bool needed = required.erase(std::string(name)) > 0;
        names.emplace_back(name);
        if (property.is_boolean() && !property.get<bool>() && !needed) continue;  // it may not be there
        properties.push_back({rules_.named(at, pair_of(quoted(json_text(rules_, name)), schema(property, at))), needed});
      }
    }
    for (const std::string& name : required) {
      if (!others) refuse(below(place, "required"), "names of properties", printable(name));
      names.push_back(name);
      properties.push_back({rules_.named(below(place, name), pair_of(quoted(json_text(rules_, name)), *others)), true});
    }
    const std::int32_t least = count(given, "minProperties", 0, place);
    if (least > 1) refuse(below(place, "minProperties"), "0 or 1", message(least));
    return object_of(properties, others, least > 0, names);
  }

  Expr object_of(const std::vector<Property>& properties, std::optional<Expr> others, bool not_empty, const std::vector<std::string>& names) {
    const Expr comma = rules_.sequence({space_, rules_.text(","), space_});
    std::optional<Expr> other;
    if (others) {
      const Expr name = names.empty() ? string_ : rules_.named("other", quoted(json_text_but(rules_, names, character_)));
      other = rules_.named("pair", pair_of(name, *others));
    }
    // From the end: what follows property i, of which some are there already, and what may be where none is.
    Expr behind = other ? rules_.repeat(rules_.sequence({comma, *other}), 0) : rules_.nothing();
    std::vector<Expr> first_ways;
    if (other) first_ways.push_back(rules_.sequence({*other, behind}));
    bool may_be_empty = !not_empty;
    for (std::size_t i = properties.size(); i-- > 0;) {
      const Property& property = properties[i];
      const Expr first = rules_.sequence({property.pair, behind});
      if (property.required) {
        first_ways.clear();
        may_be_empty = false;
      }
      first_ways.push_back(first);
      const Expr with_comma = rules_.sequence({comma, property.pair});
      behind = rules_.named("rest", rules_.sequence({property.required ? with_comma : rules_.optional(with_comma), behind}));
    }
    const bool none = first_ways.empty() && may_be_empty;
    return enclosed("{", none ? std::nullopt : std::optional(rules_.choice(std::move(first_ways))), may_be_empty, "}");
  }

  const Json& root_;
  Rules rules_;
  std::map<const Json*, Rule> references_;
  std::size_t schemas_ = 0;
  int depth_ = 0;
  Expr space_ = 0, character_ = 0, string_ = 0, number_ = 0, any_object_ = 0, any_array_ = 0;
  Rule value_rule_ = 0;
};

}  // namespace

Rules read_json_schema(std::string_view schema) {
  if (schema.size() > most_schema_bytes) fail(Errc::unsupported, "schema: expected at most ", most_schema_bytes, " bytes, found ", schema.size());
  Json root;
  try {
    root = Json::parse(schema, "schema");
  } catch (const Error& error) {
    fail(error.code() == Errc::corrupt ? Errc::invalid_argument : error.code(), error.what());
  }
  return SchemaReader(root).read();
}

}  // namespace bantam::inline v0::grammar
