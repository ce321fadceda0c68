// str() and repr(): quotes, escapes and float digits as Python prints them.
#include "text/jinja/represent.hpp"

#include <charconv>
#include <cmath>

#include "text/jinja/functions.hpp"
#include "text/jinja/unicode.hpp"

namespace bantam::inline v0::jinja {

std::string represent_real(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  // The shortest digits that read back as the same number; 17 of them, a sign, a point and an exponent at most.
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
  std::string text(buffer, end);
  const std::size_t e = text.find('e');
  const int exponent = std::stoi(text.substr(e + 1));
  const std::string_view sign = text[0] == '-' ? "-" : "";
  std::string digits = text.substr(sign.size(), e - sign.size());
  if (digits.size() > 1) digits.erase(1, 1);
  const auto first = [&](std::size_t count) { return std::string_view(digits).substr(0, count); };
  const auto rest = [&](std::size_t from) { return std::string_view(digits).substr(from); };
  // Python writes an exponent outside of these powers of ten.
  if (exponent < -4 || exponent >= 16) {
    const std::string_view zero = std::abs(exponent) < 10 ? "0" : "";
    return message(sign, first(1), digits.size() > 1 ? "." : "", rest(1), exponent < 0 ? "e-" : "e+", zero, std::abs(exponent));
  }
  if (exponent < 0) return message(sign, "0.", std::string(static_cast<std::size_t>(-exponent - 1), '0'), digits);
  const auto whole = static_cast<std::size_t>(exponent) + 1;
  if (digits.size() <= whole) return message(sign, digits, std::string(whole - digits.size(), '0'), ".0");
  return message(sign, first(whole), ".", rest(whole));
}

namespace {

class Representer {
 public:
  explicit Representer(Run& run) : run_(run), out_(run) {}

  void value(const Value& v) {
    run_.step();
    if (v.is_text()) return v.is_markup() ? markup(v.text()) : quoted(v.text());
    if (v.is_list()) return list(v.list());
    if (v.is_dict()) return dict(v.dict());
    if (v.is_undefined()) return out_.add("Undefined");
    if (v.is_object()) {
      // A namespace may contain itself.
      const Depth depth(run_);
      return out_.add(v.as<Object*>()->represent(run_));
    }
    out_.add(to_text(run_, v));
  }
  [[nodiscard]] std::string take() { return out_.take(); }

 private:
  void markup(const std::string& text) {
    out_.add("Markup(");
    quoted(text);
    out_.add(")");
  }

  void quoted(const std::string& text) {
    run_.scan(text.size());
    const bool use_double = text.find('\'') != std::string::npos && text.find('"') == std::string::npos;
    const char quote = use_double ? '"' : '\'';
    out_.add(quote);
    for (std::size_t at = 0; at < text.size();) {
      const Character c = character_at(text, at);
      character(c, std::string_view(text).substr(at, c.size), quote);
      at += c.size;
    }
    out_.add(quote);
  }

  void character(Character c, std::string_view bytes, char quote) {
    if (c.value == quote || c.value == '\\') {
      out_.add('\\');
      out_.add(bytes);
    } else if (c.value == '\n') {
      out_.add("\\n");
    } else if (c.value == '\r') {
      out_.add("\\r");
    } else if (c.value == '\t') {
      out_.add("\\t");
    } else if (c.value < 0 || is_printable(c.value)) {
      out_.add(bytes);
    } else {
      static constexpr char hex[] = "0123456789abcdef";
      const int width = c.value < 0x100 ? 2 : c.value < 0x10000 ? 4 : 8;
      out_.add('\\');
      out_.add(width == 2 ? 'x' : width == 4 ? 'u' : 'U');
      for (int shift = 4 * (width - 1); shift >= 0; shift -= 4) out_.add(hex[(c.value >> shift) & 15]);
    }
  }

  void list(const List& l) {
    if (l.kind == ListKind::range) {
      out_.add(message("range(", l.start, ", ", l.stop));
      return out_.add(l.step == 1 ? ")" : message(", ", l.step, ")"));
    }
    const bool tuple = l.kind == ListKind::tuple || l.kind == ListKind::group;
    const bool view = !tuple && l.kind != ListKind::list;
    if (l.kind == ListKind::keys) out_.add("dict_keys(");
    if (l.kind == ListKind::values) out_.add("dict_values(");
    if (l.kind == ListKind::items) out_.add("dict_items(");
    out_.add(tuple ? '(' : '[');
    for (std::size_t i = 0; i < l.items.size(); ++i) {
      if (i > 0) out_.add(", ");
      value(l.items[i]);
    }
    if (tuple && l.items.size() == 1) out_.add(',');
    out_.add(tuple ? ')' : ']');
    if (view) out_.add(')');
  }

  void dict(const Dict& d) {
    out_.add('{');
    bool first = true;
    for (const auto& [key, mapped] : d.items) {
      if (!first) out_.add(", ");
      first = false;
      value(key);
      out_.add(": ");
      value(mapped);
    }
    out_.add('}');
  }

  Run& run_;
  Builder out_;
};

}  // namespace

std::string represent(Run& run, const Value& value) {
  Representer representer(run);
  representer.value(value);
  std::string out = representer.take();
  run.allocate(out.size());
  return out;
}

std::string to_text(Run& run, const Value& value) {
  if (value.is_text()) return value.text();
  if (value.is_undefined()) return {};
  if (value.is_none()) return "None";
  if (value.is<bool>()) return value.as<bool>() ? "True" : "False";
  if (value.is<std::int64_t>()) return message(value.as<std::int64_t>());
  if (value.is<double>()) return represent_real(value.as<double>());
  return represent(run, value);
}

}  // namespace bantam::inline v0::jinja
