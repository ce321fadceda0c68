// "{} {name!r:>8}".format(...), with the fields and specifications that str.format takes.
#include <algorithm>

#include "text/jinja/format.hpp"
#include "text/jinja/functions.hpp"
#include "text/jinja/represent.hpp"
#include "text/jinja/unicode.hpp"

namespace bantam::inline v0::jinja {

namespace {

class BraceFormatter {
 public:
  BraceFormatter(Run& run, Arguments& arguments) : run_(run), arguments_(arguments) {}

  /// Specifications may hold fields themselves, one level deep.
  std::string format(std::string_view text, int level) {
    Builder out(run_);
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t brace = std::min(text.find_first_of("{}", at), text.size());
      out.add(text.substr(at, brace - at));
      at = brace;
      if (at == text.size()) break;
      const char c = text[at];
      if (at + 1 < text.size() && text[at + 1] == c) {
        out.add(c);
        at += 2;
        continue;
      }
      if (c == '}') run_.error("found '}' without its '{' in a format");
      const std::size_t end = closing(text, at);
      out.add(field(text.substr(at + 1, end - at - 1), level));
      at = end + 1;
    }
    return out.take();
  }

 private:
  std::size_t closing(std::string_view text, std::size_t open) const {
    int depth = 0;
    for (std::size_t at = open; at < text.size(); ++at) {
      if (text[at] == '{') ++depth;
      if (text[at] == '}' && --depth == 0) return at;
    }
    run_.error("expected '}' in a format, found its end");
  }

  std::string field(std::string_view text, int level) {
    run_.step();
    if (level > 1) run_.error("expected fields in fields one level deep, found more");
    const std::size_t name_end = std::min(text.find_first_of("!:"), text.size());
    Value value = lookup(text.substr(0, name_end));
    std::string_view rest = text.substr(name_end);
    if (rest.starts_with('!')) {
      const char conversion = rest.size() > 1 ? rest[1] : '\0';
      if (conversion != 'r' && conversion != 's' && conversion != 'a') run_.error("expected !r, !s or !a in a format");
      value = run_.text(conversion == 's' ? to_text(run_, value) : represent(run_, value));
      rest.remove_prefix(2);
      if (!rest.empty() && rest[0] != ':') run_.error("expected ':' behind a conversion in a format");
    }
    if (rest.empty()) return apply({}, value);
    return apply(format(rest.substr(1), level + 1), value);
  }

  Value lookup(std::string_view path) {
    const std::size_t end = std::min(path.find_first_of(".["), path.size());
    Value value = first(path.substr(0, end));
    for (std::size_t at = end; at < path.size();) {
      const bool item = path[at] == '[';
      const std::size_t stop = std::min(item ? path.find(']', at) : path.find_first_of(".[", at + 1), path.size());
      const std::string name(path.substr(at + 1, stop - at - 1));
      if (name.empty() || (item && stop == path.size())) run_.error("expected a name in a format's field, found '", printable(path), "'");
      value = item ? get_item(run_, value, digits(name) ? Value(std::int64_t{std::stoi(name)}) : run_.text(name)) : get_attribute(run_, value, name);
      at = stop + (item ? 1 : 0);
    }
    return value;
  }

  /// Six digits name any argument or element that fits a run.
  static bool digits(std::string_view name) {
    return !name.empty() && name.size() <= 6 && name.find_first_not_of("0123456789") == std::string_view::npos;
  }

  Value first(std::string_view name) {
    if (name.empty() || digits(name)) {
      const std::size_t i = name.empty() ? automatic_++ : static_cast<std::size_t>(std::stoi(std::string(name)));
      if (i >= arguments_.positional.size()) run_.error("expected argument ", i, " for a format, found ", arguments_.positional.size(), " of them");
      return arguments_.positional[i];
    }
    for (const auto& [other, value] : arguments_.named) {
      if (other == name) return value;
    }
    run_.error("expected an argument '", printable(name), "' for a format, found none");
  }

  FormatSpec parse(std::string_view text) const {
    FormatSpec spec;
    const auto is_align = [&](std::size_t at) { return at < text.size() && std::string_view("<>^=").find(text[at]) != std::string_view::npos; };
    std::size_t at = 0;
    const std::size_t first_size = text.empty() ? 0 : character_at(text, 0).size;
    if (is_align(first_size)) {
      spec.fill = text.substr(0, first_size);
      spec.align = text[first_size];
      at = first_size + 1;
    } else if (is_align(0)) {
      spec.align = text[at++];
    }
    const auto take = [&](std::string_view set) { return at < text.size() && set.find(text[at]) != std::string_view::npos ? text[at++] : '\0'; };
    if (const char sign = take("+- ")) spec.sign = sign;
    spec.alternate = take("#") != '\0';
    spec.zero = take("0") != '\0';
    const auto number = [&] {
      std::int64_t value = 0;
      while (const char digit = take("0123456789")) {
        value = value * 10 + (digit - '0');
        run_.check_text_size(static_cast<std::uint64_t>(value));
      }
      return value;
    };
    spec.width = number();
    if (const char grouping = take(",_")) spec.grouping = grouping;
    if (take(".")) spec.precision = number();
    if (const char type = take("bcdeEfFgGnosxX%")) spec.type = type;
    if (at != text.size()) run_.error("expected a format specification, found '", printable(text), "'");
    return spec;
  }

  std::string apply(const std::string& specification, const Value& value) {
    if (specification.empty()) return to_text(run_, value);
    const FormatSpec spec = parse(specification);
    const bool real_type = spec.type && std::string_view("eEfFgG%").find(spec.type) != std::string_view::npos;
    if (value.is_text() && (!spec.type || spec.type == 's') && spec.align != '=') return format_string(run_, value.text(), spec);
    if (value.is<double>() && (!spec.type || real_type)) return format_real(run_, value.as<double>(), spec);
    if (const auto whole = value.integer()) {
      if (real_type) return format_real(run_, static_cast<double>(*whole), spec);
      if (spec.precision < 0 && spec.type != 's' && spec.type != 'c') return format_integer(run_, *whole, spec);
    }
    run_.error("expected a format that fits a ", value.type(), ", found '", printable(specification), "'");
  }

  Run& run_;
  Arguments& arguments_;
  std::size_t automatic_ = 0;
};

}  // namespace

Value format_braces(Run& run, const Value& format, Arguments& arguments) {
  run.scan(format.text().size());
  return run.text(BraceFormatter(run, arguments).format(format.text(), 0), format.is_markup());
}

}  // namespace bantam::inline v0::jinja
