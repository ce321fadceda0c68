// Methods of str that make texts: case, stripping, splitting, replacing, filling.
#include "text/jinja/text_methods.hpp"

#include <algorithm>

#include "text/jinja/functions.hpp"
#include "text/jinja/represent.hpp"
#include "text/jinja/unicode.hpp"

namespace bantam::inline v0::jinja {

std::string_view strip(Run& run, std::string_view text, const std::string* set, Side side) {
  run.scan(text.size());
  // Checking each character against the set is quadratic: the budget pays for it.
  const auto drops = [&](std::size_t at, const Character& c) {
    if (!set) return is_space(c.value);
    run.scan(set->size());
    return set->find(text.substr(at, c.size)) != std::string::npos;
  };
  std::size_t begin = 0;
  if (side != Side::right) {
    while (begin < text.size()) {
      const Character c = character_at(text, begin);
      if (!drops(begin, c)) break;
      begin += c.size;
    }
  }
  std::size_t end = text.size();
  if (side != Side::left) {
    while (end > begin) {
      // Back to the first byte of the last character.
      std::size_t at = end - 1;
      while (at > begin && end - at < 4 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) --at;
      if (character_at(text, at).size != end - at) at = end - 1;
      if (!drops(at, character_at(text.substr(0, end), at))) break;
      end = at;
    }
  }
  return text.substr(begin, end - begin);
}

std::vector<std::string_view> split_lines(std::string_view text, bool keep) {
  std::vector<std::string_view> lines;
  std::size_t from = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Character c = character_at(text, at);
    const bool ends = (c.value >= 10 && c.value <= 13) || (c.value >= 0x1c && c.value <= 0x1e) || c.value == 0x85 ||
                      c.value == 0x2028 || c.value == 0x2029;
    std::size_t next = at + c.size;
    if (ends) {
      if (c.value == '\r' && next < text.size() && text[next] == '\n') ++next;
      lines.push_back(text.substr(from, (keep ? next : at) - from));
      from = next;
    }
    at = next;
  }
  if (from < text.size()) lines.push_back(text.substr(from));
  return lines;
}

std::string replace(Run& run, std::string_view text, std::string_view from, std::string_view to, std::int64_t count) {
  count = std::max<std::int64_t>(count, -1);
  run.scan(text.size() + from.size());
  Builder out(run);
  if (from.empty()) {
    std::size_t at = 0;
    for (; count != 0 && at < text.size(); --count) {
      const std::size_t size = character_at(text, at).size;
      out.add(to);
      out.add(text.substr(at, size));
      at += size;
    }
    if (count != 0) out.add(to);
    out.add(text.substr(at));
    return out.take();
  }
  const Finder finder(from);
  std::size_t at = 0;
  for (; count != 0; --count) {
    const std::size_t found = finder.find(text, at);
    if (found == std::string_view::npos) break;
    out.add(text.substr(at, found - at));
    out.add(to);
    at = found + from.size();
  }
  out.add(text.substr(at));
  return out.take();
}

std::string justify(Run& run, std::string_view text, std::int64_t width, std::string_view fill, Side side) {
  const auto size = static_cast<std::int64_t>(count_characters(text));
  run.scan(text.size());
  const std::uint64_t pad = width > size ? static_cast<std::uint64_t>(width - size) : 0;
  // str.center puts the odd one left when the width is odd, right when it is even.
  const std::uint64_t left = side == Side::left ? 0 : side == Side::right ? pad : pad / 2 + (pad & static_cast<std::uint64_t>(width) & 1);
  Builder out(run);
  out.fill(left, fill);
  out.add(text);
  out.fill(pad - left, fill);
  return out.take();
}

namespace {

template <std::string (*f)(std::string_view)>
Value convert(Run& run, const Value& self, Arguments& arguments) {
  const Parameters none(run, "the method", arguments, {});
  // A step a few characters: tables are looked up for each.
  run.step(self.text().size() / 8);
  return run.text(f(self.text()), self.is_markup());
}

template <Side side>
Value strip_method(Run& run, const Value& self, Arguments& arguments) {
  const Parameters given(run, "strip", arguments, {"chars"});
  const std::string set = given.text(0, {});
  return run.text(std::string(strip(run, self.text(), given.given(0) ? &set : nullptr, side)), self.is_markup());
}

template <Side side>
Value justify_method(Run& run, const Value& self, Arguments& arguments) {
  const Parameters given(run, "justify", arguments, {"width", "fillchar"}, 1);
  const std::string fill = given.text(1, " ");
  if (count_characters(fill) != 1) run.error("expected one character to fill with, found '", printable(fill), "'");
  return run.text(justify(run, self.text(), given.integer(0, 0), fill, side), self.is_markup());
}

Value replace_method(Run& run, const Value& self, Arguments& arguments) {
  const Parameters given(run, "replace", arguments, {"old", "new", "count"}, 2);
  const auto text = [&](std::size_t i) {
    const std::string plain = given.text(i, {});
    return self.is_markup() ? escape_html(run, *given[i]).text() : plain;
  };
  return run.text(replace(run, self.text(), text(0), text(1), given.integer(2, -1)), self.is_markup());
}

std::vector<std::string_view> split_spaces(std::string_view text, std::int64_t count) {
  std::vector<std::string_view> parts;
  std::size_t at = 0;
  const auto skip = [&](bool space) {
    while (at < text.size()) {
      const Character c = character_at(text, at);
      if (is_space(c.value) != space) break;
      at += c.size;
    }
  };
  while (skip(true), at < text.size()) {
    const std::size_t from = at;
    if (count-- == 0) {
      at = text.size();
    } else {
      skip(false);
    }
    parts.push_back(text.substr(from, at - from));
  }
  return parts;
}

std::vector<std::string_view> split_spaces_right(Run& run, std::string_view text, std::int64_t count) {
  std::vector<std::string_view> words = split_spaces(text, -1);
  if (count < 0 || static_cast<std::size_t>(count) >= words.size()) return words;
  const std::size_t merged = words.size() - static_cast<std::size_t>(count);
  // What is not split keeps its own spaces, the leading ones too.
  const std::string_view rest = text.substr(0, static_cast<std::size_t>(words[merged - 1].data() - text.data()) + words[merged - 1].size());
  words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(merged));
  words.insert(words.begin(), strip(run, rest, nullptr, Side::right));
  return words;
}

std::vector<std::string_view> split_at(std::string_view text, std::string_view separator, std::int64_t count, bool right) {
  const Finder finder(separator);
  std::vector<std::size_t> found;
  if (!right) {
    for (std::size_t at = finder.find(text); at != std::string_view::npos && count-- != 0; at = finder.find(text, at + separator.size())) {
      found.push_back(at);
    }
  } else {
    // From the right the matches may overlap others: search the mirrored text.
    const std::string mirror(text.rbegin(), text.rend()), needle(separator.rbegin(), separator.rend());
    const Finder backward(needle);
    for (std::size_t at = backward.find(mirror); at != std::string_view::npos && count-- != 0; at = backward.find(mirror, at + needle.size())) {
      found.push_back(text.size() - at - separator.size());
    }
    std::reverse(found.begin(), found.end());
  }
  std::vector<std::string_view> parts;
  std::size_t from = 0;
  for (const std::size_t at : found) {
    parts.push_back(text.substr(from, at - from));
    from = at + separator.size();
  }
  parts.push_back(text.substr(from));
  return parts;
}

Value texts(Run& run, const std::vector<std::string_view>& parts, bool markup) {
  run.step(parts.size());
  std::vector<Value> items;
  items.reserve(parts.size());
  for (const std::string_view part : parts) items.push_back(run.text(std::string(part), markup));
  return run.list(std::move(items));
}

template <bool right>
Value split_method(Run& run, const Value& self, Arguments& arguments) {
  const Parameters given(run, "split", arguments, {"sep", "maxsplit"});
  const std::string separator = given.text(0, {});
  // Any negative count means all; this one can be counted down from.
  const std::int64_t count = std::max<std::int64_t>(given.integer(1, -1), -1);
  run.step(self.text().size() / 16);
  run.allocate(self.text().size());
  if (given.given(0)) {
    if (separator.empty()) run.error("expected a separator, found an empty str");
    return texts(run, split_at(self.text(), separator, count, right), self.is_markup());
  }
  if (right) return texts(run, split_spaces_right(run, self.text(), count), self.is_markup());
  return texts(run, split_spaces(self.text(), count), self.is_markup());
}

template <bool right>
Value partition_method(Run& run, const Value& self, Arguments& arguments) {
  const Parameters given(run, "partition", arguments, {"sep"}, 1);
  const std::string separator = given.text(0, {});
  if (separator.empty()) run.error("expected a separator, found an empty str");
  run.scan(self.text().size());
  const auto parts = split_at(self.text(), separator, 1, right);
  const bool found = parts.size() == 2;
  const auto text = [&](std::string_view part) { return run.text(std::string(part), self.is_markup()); };
  std::vector<Value> items;
  items.push_back(text(found || !right ? parts[0] : ""));
  items.push_back(text(found ? separator : ""));
  items.push_back(text(found ? parts[1] : right ? parts[0] : ""));
  return run.list(std::move(items), ListKind::tuple);
}

Value splitlines_method(Run& run, const Value& self, Arguments& arguments) {
  const Parameters given(run, "splitlines", arguments, {"keepends"});
  run.step(self.text().size() / 16);
  return texts(run, split_lines(self.text(), given.flag(0)), self.is_markup());
}

Value join_method(Run& run, const Value& self, Arguments& arguments) {
  const Parameters given(run, "join", arguments, {"iterable"}, 1);
  const ListPtr list = elements(run, *given[0]);
  Builder out(run);
  for (std::size_t i = 0; i < list->items.size(); ++i) {
    run.step();
    const Value& item = list->items[i];
    if (i > 0) out.add(self.text());
    if (self.is_markup()) {
      out.add(escape_html(run, item).text());
      continue;
    }
    if (!item.is_text()) run.error("expected texts to join, found a ", item.type());
    out.add(item.text());
  }
  return run.text(out.take(), self.is_markup());
}

template <bool suffix>
Value remove_method(Run& run, const Value& self, Arguments& arguments) {
  const Parameters given(run, "removeprefix", arguments, {"affix"}, 1);
  const std::string affix = given.text(0, {});
  std::string_view text = self.text();
  if (suffix && text.ends_with(affix)) text.remove_suffix(affix.size());
  if (!suffix && text.starts_with(affix)) text.remove_prefix(affix.size());
  return run.text(std::string(text), self.is_markup());
}

Value zfill_method(Run& run, const Value& self, Arguments& arguments) {
  const Parameters given(run, "zfill", arguments, {"width"}, 1);
  const std::string& text = self.text();
  const bool sign = !text.empty() && (text[0] == '+' || text[0] == '-');
  const std::string filled = justify(run, std::string_view(text).substr(sign ? 1 : 0), std::max<std::int64_t>(given.integer(0, 0), 1) - (sign ? 1 : 0), "0", Side::right);
  return run.text((sign ? text.substr(0, 1) : "") + filled, self.is_markup());
}

Value expandtabs_method(Run& run, const Value& self, Arguments& arguments) {
  const Parameters given(run, "expandtabs", arguments, {"tabsize"});
  const std::int64_t size = given.integer(0, 8);
  run.step(self.text().size() / 16);
  Builder out(run);
  std::int64_t column = 0;
  for (const char c : self.text()) {
    if (c == '\t') {
      const std::int64_t pad = size > 0 ? size - column % size : 0;
      out.fill(static_cast<std::uint64_t>(pad), " ");
      column += pad;
      continue;
    }
    out.add(c);
    if (c == '\n' || c == '\r') {
      column = 0;
    } else if ((static_cast<unsigned char>(c) & 0xc0) != 0x80) {
      ++column;
    }
  }
  return run.text(out.take(), self.is_markup());
}

constexpr Entry<Method> methods[] = {
    {"strip", strip_method<Side::both>},
    {"split", split_method<false>},
    {"lstrip", strip_method<Side::left>},
    {"rstrip", strip_method<Side::right>},
    {"replace", replace_method},
    {"upper", convert<to_upper>},
    {"lower", convert<to_lower>},
    {"casefold", convert<to_lower>},
    {"capitalize", convert<capitalize>},
    {"title", convert<title>},
    {"swapcase", convert<swap_case>},
    {"rsplit", split_method<true>},
    {"splitlines", splitlines_method},
    {"partition", partition_method<false>},
    {"rpartition", partition_method<true>},
    {"join", join_method},
    {"format", format_braces},
    {"removeprefix", remove_method<false>},
    {"removesuffix", remove_method<true>},
    {"center", justify_method<Side::both>},
    {"ljust", justify_method<Side::left>},
    {"rjust", justify_method<Side::right>},
    {"zfill", zfill_method},
    {"expandtabs", expandtabs_method},
};

}  // namespace

Method find_text_method(std::string_view name) { return find_entry(methods, name); }

}  // namespace bantam::inline v0::jinja
