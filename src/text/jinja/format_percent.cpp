// "text %s" % values, as Python's str does it.
#include <algorithm>
#include <cmath>

#include "text/jinja/format.hpp"
#include "text/jinja/functions.hpp"
#include "text/jinja/represent.hpp"
#include "text/jinja/unicode.hpp"

namespace bantam::inline v0::jinja {

namespace {

class PercentFormatter {
 public:
  PercentFormatter(Run& run, const Value& format, const Value& values)
      : run_(run), format_(format.text()), markup_(format.is_markup()), values_(values), out_(run) {}

  Value format() {
    const bool tuple = values_.is_list() && (values_.list().kind == ListKind::tuple || values_.list().kind == ListKind::group);
    for (at_ = 0; at_ < format_.size();) {
      const std::size_t percent = std::min(format_.find('%', at_), format_.size());
      out_.add(std::string_view(format_).substr(at_, percent - at_));
      at_ = percent;
      if (at_ < format_.size()) conversion(tuple);
    }
    const bool mapping = !values_.is_text() && !tuple && (values_.is_dict() || values_.is_list() || values_.is_undefined());
    if (tuple ? used_ < values_.list().items.size() : !mapping && used_ == 0) run_.error("found more values than the format takes");
    return run_.text(out_.take(), markup_);
  }

 private:
  [[nodiscard]] char peek() const {
    if (at_ >= format_.size()) run_.error("expected a conversion behind '%', found the end of the format");
    return format_[at_];
  }

  Value next_value(bool tuple) {
    if (tuple) {
      if (used_ >= values_.list().items.size()) run_.error("expected more values for the format, found ", used_);
      return values_.list().items[used_++];
    }
    if (used_++ > 0) run_.error("expected more values for the format, found one");
    return values_;
  }

  std::int64_t number(bool tuple) {
    if (peek() == '*') {
      ++at_;
      const auto value = next_value(tuple).integer();
      if (!value) run_.error("expected an int for '*' in the format");
      return *value;
    }
    std::int64_t value = 0;
    while (peek() >= '0' && peek() <= '9') {
      value = value * 10 + (format_[at_++] - '0');
      run_.check_text_size(static_cast<std::uint64_t>(value));
    }
    return value;
  }

  void conversion(bool tuple) {
    run_.step();
    ++at_;
    FormatSpec spec;
    std::optional<Value> named;
    if (peek() == '(') {
      const std::size_t end = format_.find(')', at_);
      if (end == std::string::npos || !values_.is_dict()) run_.error("expected a dict for a named conversion, found a ", values_.type());
      const std::string name = format_.substr(at_ + 1, end - at_ - 1);
      const Value* found = values_.dict().find(name);
      if (!found) run_.error("expected a value named '", printable(name), "' for the format");
      named = *found;
      ++used_;
      at_ = end + 1;
    }
    for (bool flag = true; flag;) {
      switch (peek()) {
        case '-': spec.align = '<'; break;
        case '+': spec.sign = '+'; break;
        case ' ': if (spec.sign != '+') spec.sign = ' '; break;
        case '#': spec.alternate = true; break;
        case '0': spec.zero = true; break;
        default: flag = false; continue;
      }
      ++at_;
    }
    spec.width = number(tuple);
    if (spec.width < 0) {
      spec.align = '<';
      spec.width = spec.width == INT64_MIN ? INT64_MAX : -spec.width;
    }
    if (peek() == '.') {
      ++at_;
      spec.precision = std::max<std::int64_t>(number(tuple), 0);
    }
    while (peek() == 'l' || peek() == 'h' || peek() == 'L') ++at_;
    spec.type = peek();
    ++at_;
    if (spec.type == '%') return out_.add('%');
    out_.add(one(spec, named ? *named : next_value(tuple)));
  }

  std::string one(FormatSpec& spec, const Value& value) {
    const auto escaped = [&](std::string text) { return markup_ && !value.is_markup() ? escape_html(run_, run_.text(std::move(text))).text() : text; };
    switch (spec.type) {
      case 's':
      case 'r':
      case 'a':
        if (!spec.align) spec.align = '>';
        spec.zero = false;
        return format_string(run_, escaped(spec.type == 's' ? to_text(run_, value) : represent(run_, value)), spec);
      case 'd':
      case 'i':
      case 'u': return format_integer(run_, whole(value, true), spec);
      case 'x':
      case 'X':
      case 'o': return format_integer(run_, whole(value, false), spec);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G': {
        if (value.is_undefined()) run_.undefined_error(value);
        const auto real = value.number();
        if (!real) run_.error("expected a number for '%", spec.type, "', found a ", value.type());
        return format_real(run_, *real, spec);
      }
      case 'c': return character(spec, value);
      default: run_.error("expected a conversion that str knows, found '%", printable(std::string_view(&spec.type, 1)), "'");
    }
  }

  std::int64_t whole(const Value& value, bool cut) {
    if (value.is_undefined()) run_.undefined_error(value);
    if (const auto i = value.integer()) return *i;
    // 2^63: what the conversion can hold.
    if (cut && value.is<double>() && std::fabs(value.as<double>()) < 9223372036854775808.0) return static_cast<std::int64_t>(value.as<double>());
    run_.error("expected an int for a conversion, found a ", value.type());
  }

  std::string character(FormatSpec& spec, const Value& value) {
    if (!spec.align) spec.align = '>';
    spec.zero = false;
    if (value.is_text() && count_characters(value.text()) == 1) return format_string(run_, value.text(), spec);
    const auto code = value.integer();
    if (!code || *code < 0 || *code > 0x10ffff) run_.error("expected one character for '%c', found a ", value.type());
    std::string text;
    append_utf8(text, static_cast<std::int32_t>(*code));
    return format_string(run_, text, spec);
  }

  Run& run_;
  const std::string& format_;
  bool markup_;
  const Value& values_;
  Builder out_;
  std::size_t at_ = 0, used_ = 0;
};

}  // namespace

Value format_percent(Run& run, const Value& format, const Value& values) {
  run.scan(format.text().size());
  return PercentFormatter(run, format, values).format();
}

}  // namespace bantam::inline v0::jinja
