// Filters that give texts.
#include <algorithm>
#include <cmath>

#include "text/jinja/format.hpp"
#include "text/jinja/functions.hpp"
#include "text/jinja/represent.hpp"
#include "text/jinja/text_methods.hpp"
#include "text/jinja/unicode.hpp"

namespace bantam::inline v0::jinja {

namespace {

/// The subject as a text; one that is a text already stays itself.
Value as_text(Run& run, const Value& value) { return value.is_text() ? value : run.text(to_text(run, value)); }

template <std::string (*f)(std::string_view)>
Value convert(Run& run, const Value& subject, Arguments& arguments) {
  const Parameters none(run, "the filter", arguments, {});
  const Value text = as_text(run, subject);
  run.step(text.text().size() / 8);
  return run.text(f(text.text()), text.is_markup());
}

Value trim_filter(Run& run, const Value& subject, Arguments& arguments) {
  const Parameters given(run, "trim", arguments, {"chars"});
  const Value text = as_text(run, subject);
  const std::string set = given.text(0, {});
  return run.text(std::string(strip(run, text.text(), given.given(0) ? &set : nullptr, Side::both)), text.is_markup());
}

Value string_filter(Run& run, const Value& subject, Arguments& arguments) {
  const Parameters none(run, "string", arguments, {});
  return as_text(run, subject);
}

Value safe_filter(Run& run, const Value& subject, Arguments& arguments) {
  const Parameters none(run, "safe", arguments, {});
  return run.text(to_text(run, subject), true);
}

Value escape_filter(Run& run, const Value& subject, Arguments& arguments) {
  const Parameters none(run, "escape", arguments, {});
  return escape_html(run, subject);
}

Value forceescape_filter(Run& run, const Value& subject, Arguments& arguments) {
  const Parameters none(run, "forceescape", arguments, {});
  return escape_html(run, run.text(to_text(run, subject)));
}

Value replace_filter(Run& run, const Value& subject, Arguments& arguments) {
  const Parameters given(run, "replace", arguments, {"old", "new", "count"}, 2);
  const std::string from = to_text(run, *given[0]), to = to_text(run, *given[1]);
  const std::int64_t count = given.given(2) ? given.integer(2, -1) : -1;
  return run.text(replace(run, to_text(run, subject), from, to, count));
}

/// Word by word: what follows white space or an opening bracket is capitalized.
Value title_filter(Run& run, const Value& subject, Arguments& arguments) {
  const Parameters none(run, "title", arguments, {});
  const Value value = as_text(run, subject);
  const std::string& text = value.text();
  run.step(text.size() / 8);
  std::string out;
  std::size_t from = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Character c = character_at(text, at);
    const std::size_t next = at + c.size;
    if (is_space(c.value) || (c.value > 0 && std::string_view("-({[<").find(static_cast<char>(c.value)) != std::string_view::npos && c.value < 0x80)) {
      out += capitalize(std::string_view(text).substr(from, at - from));
      out += std::string_view(text).substr(at, c.size);
      from = next;
    }
    at = next;
  }
  out += capitalize(std::string_view(text).substr(from));
  return run.text(std::move(out), value.is_markup());
}

Value center_filter(Run& run, const Value& subject, Arguments& arguments) {
  const Parameters given(run, "center", arguments, {"width"});
  const Value text = as_text(run, subject);
  return run.text(justify(run, text.text(), given.integer(0, 80), " ", Side::both), text.is_markup());
}

Value indent_filter(Run& run, const Value& subject, Arguments& arguments) {
  const Parameters given(run, "indent", arguments, {"width", "first", "blank"});
  if (subject.is_undefined()) run.undefined_error(subject);
  if (!subject.is_text()) run.error("expected a str to indent, found a ", subject.type());
  run.step(subject.text().size() / 16);
  std::string indentation;
  if (given[0] && given[0]->is_text()) {
    indentation = given[0]->text();
  } else {
    Builder spaces(run);
    spaces.fill(static_cast<std::uint64_t>(std::max<std::int64_t>(given.integer(0, 4), 0)), " ");
    indentation = spaces.take();
  }
  // The last line end makes a line of its own visible, as in Jinja.
  const std::string text = subject.text() + '\n';
  const bool blank = given.flag(2);
  Builder out(run);
  if (given.flag(1)) out.add(indentation);
  bool first = true;
  for (const std::string_view line : split_lines(text, false)) {
    run.step();
    if (!first) {
      out.add('\n');
      if (blank || !line.empty()) out.add(indentation);
    }
    first = false;
    out.add(line);
  }
  return run.text(out.take(), subject.is_markup());
}

Value truncate_filter(Run& run, const Value& subject, Arguments& arguments) {
  const Parameters given(run, "truncate", arguments, {"length", "killwords", "end", "leeway"});
  const Value text = as_text(run, subject);
  const std::string end = given.text(2, "...");
  const std::int64_t limit = given.integer(0, 255);
  // Jinja's own default of characters that may be too many.
  const std::int64_t leeway = given.given(3) ? given.integer(3, 5) : 5;
  const auto end_size = static_cast<std::int64_t>(count_characters(end));
  if (limit < end_size) run.error("expected a length of at least ", end_size, ", found ", limit);
  if (leeway < 0) run.error("expected a leeway of at least 0, found ", leeway);
  const std::int64_t size = length(run, text);
  if (size - leeway <= limit) return text;
  std::string_view kept = std::string_view(text.text()).substr(0, offset_of(text.text(), static_cast<std::size_t>(limit - end_size)));
  if (!given.flag(1)) kept = kept.substr(0, std::min(kept.rfind(' '), kept.size()));
  return run.text(std::string(kept) + end);
}

Value wordcount_filter(Run& run, const Value& subject, Arguments& arguments) {
  const Parameters none(run, "wordcount", arguments, {});
  const std::string text = to_text(run, subject);
  run.step(text.size() / 8);
  std::int64_t words = 0;
  bool inside = false;
  for (std::size_t at = 0; at < text.size();) {
    const Character c = character_at(text, at);
    if (is_word(c.value) && !inside) ++words;
    inside = is_word(c.value);
    at += c.size;
  }
  return words;
}

Value format_filter(Run& run, const Value& subject, Arguments& arguments) {
  if (!arguments.positional.empty() && !arguments.named.empty()) {
    run.error("expected positional or named arguments of 'format', found both");
  }
  const Value text = as_text(run, subject);
  if (arguments.named.empty()) return format_percent(run, text, run.list(std::move(arguments.positional), ListKind::tuple));
  DictBuilder dict(run);
  for (auto& [name, value] : arguments.named) dict.set(run.text(name), std::move(value));
  return format_percent(run, text, dict.take());
}

Value tojson_filter(Run& run, const Value& subject, Arguments& arguments) {
  const Parameters given(run, "tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = given.flag(0);
  style.sort_keys = given.flag(3);
  if (given.given(1)) {
    if (given[1]->is_text()) {
      style.indent = given[1]->text();
    } else {
      Builder spaces(run);
      spaces.fill(static_cast<std::uint64_t>(std::max<std::int64_t>(given.integer(1, 0), 0)), " ");
      style.indent = spaces.take();
    }
    style.item_separator = ",";
  }
  ListPtr pair;
  if (given.given(2)) {
    pair = elements(run, *given[2]);
    if (pair->items.size() != 2 || !pair->items[0].is_text() || !pair->items[1].is_text()) {
      run.error("expected two texts as separators of 'tojson', found ", pair->items.size(), " values");
    }
    style.item_separator = pair->items[0].text();
    style.key_separator = pair->items[1].text();
  }
  return run.text(to_json(run, subject, style));
}

std::string percent_encode(std::string_view text, std::string_view keep) {
  static constexpr char hex[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z' && byte < 0x80);
    if (plain || keep.find(c) != std::string_view::npos) {
      out += c;
    } else {
      out += {'%', hex[byte >> 4], hex[byte & 15]};
    }
  }
  return out;
}

/// In a query a space is '+' and a slash is not kept.
std::string query_encode(Run& run, const Value& value) {
  std::string text = percent_encode(to_text(run, value), "_.-~ ");
  std::replace(text.begin(), text.end(), ' ', '+');
  return text;
}

Value urlencode_filter(Run& run, const Value& subject, Arguments& arguments) {
  const Parameters none(run, "urlencode", arguments, {});
  if (subject.is_text() || !iterable(subject)) {
    const std::string text = to_text(run, subject);
    run.step(text.size() / 8);
    return run.text(percent_encode(text, "_.-~/"));
  }
  Builder out(run);
  const auto pair = [&](const Value& name, const Value& value) {
    run.step();
    if (out.size() > 0) out.add('&');
    out.add(query_encode(run, name));
    out.add('=');
    out.add(query_encode(run, value));
  };
  if (subject.is_dict()) {
    for (const auto& [name, value] : subject.dict().items) pair(name, value);
  } else {
    const ListPtr list = elements(run, subject);
    for (const Value& item : list->items) {
      const ListPtr two = elements(run, item);
      if (two->items.size() != 2) run.error("expected pairs to encode, found ", two->items.size(), " values");
      pair(two->items[0], two->items[1]);
    }
  }
  return run.text(out.take());
}

constexpr Entry<Filter> text_filters[] = {
    {"trim", trim_filter},
    {"tojson", tojson_filter},
    {"string", string_filter},
    {"safe", safe_filter},
    {"upper", convert<to_upper>},
    {"lower", convert<to_lower>},
    {"capitalize", convert<capitalize>},
    {"title", title_filter},
    {"replace", replace_filter},
    {"indent", indent_filter},
    {"center", center_filter},
    {"truncate", truncate_filter},
    {"wordcount", wordcount_filter},
    {"format", format_filter},
    {"e", escape_filter},
    {"escape", escape_filter},
    {"forceescape", forceescape_filter},
    {"urlencode", urlencode_filter},
};

}  // namespace

Filter find_text_filter(std::string_view name) { return find_entry(text_filters, name); }

}  // namespace bantam::inline v0::jinja
