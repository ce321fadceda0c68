// Values to JSON as Python's json.dumps writes them, and JSON to values.
#include "text/jinja/json.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "text/jinja/operate.hpp"
#include "text/jinja/represent.hpp"
#include "text/jinja/unicode.hpp"

namespace bantam::inline v0::jinja {

namespace {

class JsonWriter {
 public:
  JsonWriter(Run& run, const JsonStyle& style) : run_(run), style_(style), out_(run) {}

  void value(const Value& v) {
    run_.step();
    if (v.is_text()) return quoted(v.text());
    if (v.is_none()) return out_.add("null");
    if (v.is<bool>()) return out_.add(v.as<bool>() ? "true" : "false");
    if (v.is<std::int64_t>()) return out_.add(message(v.as<std::int64_t>()));
    if (v.is<double>()) return out_.add(real(v.as<double>()));
    if (v.is_dict()) return dict(v.dict());
    if (v.is_list()) {
      const ListKind kind = v.list().kind;
      if (kind == ListKind::list || kind == ListKind::tuple || kind == ListKind::group) return list(v.list());
    }
    run_.error("expected a value that JSON can hold, found a ", v.type());
  }
  [[nodiscard]] std::string take() { return out_.take(); }

 private:
  static std::string real(double v) {
    if (std::isnan(v)) return "NaN";
    if (std::isinf(v)) return v < 0 ? "-Infinity" : "Infinity";
    return represent_real(v);
  }

  void unicode_escape(std::int32_t unit) {
    static constexpr char hex[] = "0123456789abcdef";
    out_.add("\\u");
    for (int shift = 12; shift >= 0; shift -= 4) out_.add(hex[(unit >> shift) & 15]);
  }

  /// A byte that is written as it is.
  [[nodiscard]] bool is_plain(char c) const {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x20 && c != '"' && c != '\\' && (byte < 0x7f || !style_.ensure_ascii);
  }

  void quoted(const std::string& text) {
    run_.scan(text.size());
    out_.add('"');
    for (std::size_t at = 0; at < text.size();) {
      std::size_t plain = at;
      while (plain < text.size() && is_plain(text[plain])) ++plain;
      out_.add(std::string_view(text).substr(at, plain - at));
      at = plain;
      if (at == text.size()) break;
      const Character c = character_at(text, at);
      static constexpr std::string_view special = "\"\\\n\r\t\b\f", letter = "\"\\nrtbf";
      const std::size_t known = c.size == 1 ? special.find(text[at]) : std::string_view::npos;
      if (known != std::string_view::npos) {
        out_.add('\\');
        out_.add(letter[known]);
      } else if (c.value >= 0 && (c.value < 0x20 || (style_.ensure_ascii && c.value > 0x7e))) {
        if (c.value < 0x10000) {
          unicode_escape(c.value);
        } else {
          unicode_escape(0xd800 + ((c.value - 0x10000) >> 10));
          unicode_escape(0xdc00 + ((c.value - 0x10000) & 0x3ff));
        }
      } else {
        out_.add(std::string_view(text).substr(at, c.size));
      }
      at += c.size;
    }
    out_.add('"');
  }

  void line_break() {
    if (!style_.indent) return;
    out_.add('\n');
    out_.fill(static_cast<std::uint64_t>(level_), *style_.indent);
  }

  void list(const List& l) {
    if (l.items.empty()) return out_.add("[]");
    out_.add('[');
    ++level_;
    for (std::size_t i = 0; i < l.items.size(); ++i) {
      if (i > 0) out_.add(style_.item_separator);
      line_break();
      value(l.items[i]);
    }
    --level_;
    line_break();
    out_.add(']');
  }

  void key(const Value& k) {
    if (k.is_text()) return quoted(k.text());
    if (k.is_none() || k.number()) {
      out_.add('"');
      value(k);
      return out_.add('"');
    }
    run_.error("expected a key that JSON can hold, found a ", k.type());
  }

  void dict(const Dict& d) {
    if (d.items.empty()) return out_.add("{}");
    std::vector<const std::pair<Value, Value>*> order;
    order.reserve(d.items.size());
    for (const auto& item : d.items) order.push_back(&item);
    if (style_.sort_keys) {
      std::stable_sort(order.begin(), order.end(), [&](auto* a, auto* b) { return less(run_, a->first, b->first); });
    }
    out_.add('{');
    ++level_;
    bool first = true;
    for (const auto* item : order) {
      if (!first) out_.add(style_.item_separator);
      first = false;
      line_break();
      key(item->first);
      out_.add(style_.key_separator);
      value(item->second);
    }
    --level_;
    line_break();
    out_.add('}');
  }

  Run& run_;
  const JsonStyle& style_;
  Builder out_;
  int level_ = 0;
};

/// Builds values from the parser's events. A run of its own counts what they take, so hostile JSON is bounded too.
class ValueReader : public nlohmann::json_sax<nlohmann::ordered_json> {
 public:
  ValueReader(Run& run, const std::string& place) : run_(run), place_(place) {}

  bool null() override { return add(None{}); }
  bool boolean(bool v) override { return add(v); }
  bool number_integer(number_integer_t v) override { return add(static_cast<std::int64_t>(v)); }
  bool number_unsigned(number_unsigned_t v) override {
    // The largest integer of 64 bits with a sign.
    if (v > static_cast<number_unsigned_t>(INT64_MAX)) too_large();
    return add(static_cast<std::int64_t>(v));
  }
  bool number_float(number_float_t v, const string_t& text) override {
    if (text.find_first_of(".eE") == string_t::npos) too_large();
    return add(v);
  }
  bool string(string_t& v) override { return add(run_.text(std::move(v))); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(true); }
  bool start_array(std::size_t) override { return open(false); }
  bool end_object() override {
    Value made = levels_.back().dict->take();
    levels_.pop_back();
    return add(std::move(made));
  }
  bool end_array() override {
    std::vector<Value> items = std::move(levels_.back().items);
    levels_.pop_back();
    return add(run_.list(std::move(items)));
  }
  bool key(string_t& v) override {
    levels_.back().key = run_.text(std::move(v));
    return true;
  }
  bool parse_error(std::size_t at, const std::string&, const nlohmann::json::exception& e) override {
    std::string_view what = e.what();
    what = what.substr(std::min(what.size(), what.find("] ") + 2));
    fail(Errc::invalid_argument, place_, ": byte ", at, ": expected JSON, found: ", printable(what, 160));
  }

  [[nodiscard]] Value take() { return std::move(result_); }

 private:
  struct Level {
    std::optional<DictBuilder> dict;
    Value key;
    std::vector<Value> items;
  };

  [[noreturn]] void too_large() const {
    fail(Errc::unsupported, place_, ": expected integers of at most 64 bits, found a larger one");
  }

  bool open(bool object) {
    if (levels_.size() >= static_cast<std::size_t>(max_value_depth)) {
      fail(Errc::unsupported, place_, ": expected JSON nested at most ", max_value_depth, " deep, found more");
    }
    levels_.emplace_back();
    if (object) levels_.back().dict.emplace(run_);
    return true;
  }

  bool add(Value v) {
    if (levels_.empty()) {
      result_ = std::move(v);
    } else if (levels_.back().dict) {
      levels_.back().dict->set(levels_.back().key, std::move(v));
    } else {
      levels_.back().items.push_back(std::move(v));
    }
    return true;
  }

  Run& run_;
  const std::string& place_;
  std::vector<Level> levels_;
  Value result_;
};

}  // namespace

std::string to_json(Run& run, const Value& value, const JsonStyle& style) {
  JsonWriter writer(run, style);
  writer.value(value);
  return writer.take();
}

Value parse_json(std::string_view json, const std::string& place) {
  Run run(place, std::make_shared<const Dict>(), {});
  ValueReader reader(run, place);
  nlohmann::ordered_json::sax_parse(json.begin(), json.end(), &reader);
  return reader.take();
}

}  // namespace bantam::inline v0::jinja
