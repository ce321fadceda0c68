// Methods of str that answer questions: where, how often, of which kind.
#include <algorithm>

#include "text/jinja/functions.hpp"
#include "text/jinja/unicode.hpp"

namespace bantam::inline v0::jinja {

namespace {

/// The part of a text that optional start and end arguments name, and the number of characters before it.
struct Part {
  std::string_view text;
  std::int64_t before;
  bool empty_behind = false;  ///< start lies behind the end: not even an empty text is found
};

Part part_of(Run& run, const Value& self, const Parameters& given) {
  run.scan(self.text().size());
  const std::string_view text = self.text();
  if (!given.given(1) && !given.given(2)) return {text, 0};
  const auto size = static_cast<std::int64_t>(count_characters(text));
  const auto place = [&](std::int64_t i) { return i < 0 ? std::max<std::int64_t>(i < -size ? 0 : i + size, 0) : i; };
  const std::int64_t from = given.given(1) ? place(given.integer(1, 0)) : 0;
  const std::int64_t to = std::min(given.given(2) ? place(given.integer(2, 0)) : size, size);
  if (from > to) return {{}, 0, true};
  const std::size_t begin = offset_of(text, static_cast<std::size_t>(from));
  const std::string_view rest = text.substr(begin);
  return {rest.substr(0, offset_of(rest, static_cast<std::size_t>(to - from))), from};
}

template <bool suffix>
Value affix_method(Run& run, const Value& self, Arguments& arguments) {
  const Parameters given(run, suffix ? "endswith" : "startswith", arguments, {"affix", "start", "end"}, 1);
  const Part part = part_of(run, self, given);
  const auto matches = [&](const Value& affix) {
    if (affix.is_undefined()) run.undefined_error(affix);
    if (!affix.is_text()) run.error("expected a str or a tuple of them to look for, found a ", affix.type());
    run.scan(affix.text().size());
    if (part.empty_behind) return false;
    return suffix ? part.text.ends_with(affix.text()) : part.text.starts_with(affix.text());
  };
  const bool several = given[0]->is_list() && given[0]->list().kind == ListKind::tuple;
  if (!several) return matches(*given[0]);
  const auto& all = given[0]->list().items;
  return std::any_of(all.begin(), all.end(), matches);
}

/// The byte offset of the first or last occurrence.
std::size_t locate(std::string_view text, const std::string& needle, bool last) {
  if (!last) return Finder(needle).find(text);
  const std::string mirror(text.rbegin(), text.rend());
  const std::string wanted(needle.rbegin(), needle.rend());
  const std::size_t found = Finder(wanted).find(mirror);
  return found == std::string_view::npos ? found : text.size() - found - needle.size();
}

template <bool last, bool must>
Value find_method_of(Run& run, const Value& self, Arguments& arguments) {
  const Parameters given(run, "find", arguments, {"sub", "start", "end"}, 1);
  const std::string needle = given.text(0, {});
  const Part part = part_of(run, self, given);
  run.allocate(last ? part.text.size() : 0);
  const std::size_t found = part.empty_behind ? std::string_view::npos : locate(part.text, needle, last);
  if (found != std::string_view::npos) {
    return part.before + static_cast<std::int64_t>(count_characters(part.text.substr(0, found)));
  }
  if (must) run.error("expected '", printable(needle), "' in a str, found it nowhere");
  return std::int64_t{-1};
}

Value count_method(Run& run, const Value& self, Arguments& arguments) {
  const Parameters given(run, "count", arguments, {"sub", "start", "end"}, 1);
  const std::string needle = given.text(0, {});
  const Part part = part_of(run, self, given);
  if (part.empty_behind) return std::int64_t{0};
  if (needle.empty()) return static_cast<std::int64_t>(count_characters(part.text)) + 1;
  const Finder finder(needle);
  std::int64_t count = 0;
  for (std::size_t at = finder.find(part.text); at != std::string_view::npos; at = finder.find(part.text, at + needle.size())) ++count;
  return count;
}

/// True if there are characters and each is `is`.
template <bool (*is)(std::int32_t), bool empty>
Value all_method(Run& run, const Value& self, Arguments& arguments) {
  const Parameters none(run, "the method", arguments, {});
  run.step(self.text().size() / 8);
  const std::string& text = self.text();
  if (text.empty()) return empty;
  for (std::size_t at = 0; at < text.size();) {
    const Character c = character_at(text, at);
    if (!is(c.value)) return false;
    at += c.size;
  }
  return true;
}

bool is_ascii(std::int32_t value) { return value >= 0 && value < 0x80; }
bool is_alphanumeric(std::int32_t value) { return value != '_' && is_word(value); }

/// True if there are letters with case and each has this one.
template <bool (*is)(std::int32_t), bool (*is_other)(std::int32_t)>
Value case_method(Run& run, const Value& self, Arguments& arguments) {
  const Parameters none(run, "the method", arguments, {});
  run.step(self.text().size() / 8);
  const std::string& text = self.text();
  bool any = false;
  for (std::size_t at = 0; at < text.size();) {
    const Character c = character_at(text, at);
    if (is_other(c.value)) return false;
    any = any || is(c.value);
    at += c.size;
  }
  return any;
}

Value istitle_method(Run& run, const Value& self, Arguments& arguments) {
  const Parameters none(run, "istitle", arguments, {});
  run.step(self.text().size() / 8);
  const std::string& text = self.text();
  bool any = false, inside = false;
  for (std::size_t at = 0; at < text.size();) {
    const Character c = character_at(text, at);
    if (is_upper(c.value) ? inside : is_lower(c.value) && !inside) return false;
    inside = is_upper(c.value) || is_lower(c.value);
    any = any || inside;
    at += c.size;
  }
  return any;
}

Value isidentifier_method(Run& run, const Value& self, Arguments& arguments) {
  const Parameters none(run, "isidentifier", arguments, {});
  run.step(self.text().size() / 8);
  const std::string& text = self.text();
  if (text.empty() || is_decimal(character_at(text, 0).value)) return false;
  for (std::size_t at = 0; at < text.size();) {
    const Character c = character_at(text, at);
    if (!is_word(c.value)) return false;
    at += c.size;
  }
  return true;
}

constexpr Entry<Method> queries[] = {
    {"startswith", affix_method<false>},
    {"endswith", affix_method<true>},
    {"find", find_method_of<false, false>},
    {"rfind", find_method_of<true, false>},
    {"index", find_method_of<false, true>},
    {"rindex", find_method_of<true, true>},
    {"count", count_method},
    {"isdigit", all_method<is_decimal, false>},
    {"isdecimal", all_method<is_decimal, false>},
    {"isnumeric", all_method<is_decimal, false>},
    {"isalpha", all_method<is_alpha, false>},
    {"isalnum", all_method<is_alphanumeric, false>},
    {"isspace", all_method<is_space, false>},
    {"isascii", all_method<is_ascii, true>},
    {"isprintable", all_method<is_printable, true>},
    {"isupper", case_method<is_upper, is_lower>},
    {"islower", case_method<is_lower, is_upper>},
    {"istitle", istitle_method},
    {"isidentifier", isidentifier_method},
};

}  // namespace

Method find_text_query(std::string_view name) { return find_entry(queries, name); }

}  // namespace bantam::inline v0::jinja
