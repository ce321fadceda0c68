// The tree, its reader on top of the library's events, and its writer.
#include "io/json.hpp"

#include <nlohmann/json.hpp>

namespace bantam::inline v0 {

Json::Value Json::stored(std::int64_t number) noexcept {
  return number < 0 ? Value(number) : Value(static_cast<std::uint64_t>(number));
}

Json::Json(const Json& other) {
  if (other.is_object()) {
    *this = object();
    for (const auto& [key, value] : other.items()) (*this)[key] = value;
  } else {
    std::visit(
        [this](const auto& value) {
          if constexpr (std::is_copy_assignable_v<std::decay_t<decltype(value)>>) value_ = value;
        },
        other.value_);
  }
}
Json::Json(Json&& other) noexcept = default;
Json& Json::operator=(Json other) noexcept {
  value_.swap(other.value_);
  return *this;
}
Json::~Json() = default;
void Json::DeleteObject::operator()(Object* object) const noexcept { delete object; }

Json::Json(std::initializer_list<Json> list) {
  const auto is_member = [](const Json& item) { return item.is_array() && item.size() == 2 && item[0].is_string(); };
  bool members = true;
  for (const Json& item : list) members = members && is_member(item);
  if (!members || list.size() == 0) {
    value_ = Array(list);
    return;
  }
  *this = object();
  for (const Json& item : list) (*this)[item[0].string()] = item[1];
}

Json Json::array(std::initializer_list<Json> items) {
  Json json;
  json.value_ = Array(items);
  return json;
}

Json Json::object() {
  Json json;
  json.value_ = ObjectPointer(new Object());
  return json;
}

std::string_view Json::type_name() const noexcept {
  constexpr std::string_view names[] = {"null", "boolean", "number", "number", "number", "string", "array", "object"};
  return names[value_.index()];
}

void Json::refuse(std::string_view expected) const { fail(Errc::corrupt, "json: expected ", expected, ", found ", type_name()); }

double Json::number() const {
  if (const auto* positive = std::get_if<std::uint64_t>(&value_)) return static_cast<double>(*positive);
  if (const auto* negative = std::get_if<std::int64_t>(&value_)) return static_cast<double>(*negative);
  return as<double>("a number");
}

std::size_t Json::size() const noexcept { return is_array() ? std::get<Array>(value_).size() : items().size(); }

const Json& Json::item(std::size_t index) const {
  const Array& items = as<Array>("an array");
  if (index >= items.size()) fail(Errc::corrupt, "json: expected more than ", index, " items, found ", items.size());
  return items[index];
}

void Json::push_back(Json item) {
  if (is_null()) value_ = Array();
  if (!is_array()) refuse("an array");
  std::get<Array>(value_).push_back(std::move(item));
}

const Json::Members& Json::items() const noexcept {
  static const Members none;
  return is_object() ? std::get<ObjectPointer>(value_)->members : none;
}

const Json* Json::find(std::string_view key) const noexcept {
  if (!is_object()) return nullptr;
  const auto& index = std::get<ObjectPointer>(value_)->index;
  const auto found = index.find(key);
  return found == index.end() ? nullptr : found->second;
}

const Json& Json::at(std::string_view key) const {
  if (const Json* found = find(key)) return *found;
  fail(Errc::corrupt, "json: expected ", printable(key), ", found none");
}

Json& Json::operator[](std::string_view key) {
  if (is_null()) *this = object();
  if (!is_object()) refuse("an object");
  auto& [members, index] = *std::get<ObjectPointer>(value_);
  if (const auto found = index.find(key); found != index.end()) return *found->second;
  members.emplace_back(std::string(key), Json());
  auto& [name, value] = members.back();
  try {
    index.emplace(name, &value);
  } catch (...) {
    members.pop_back();
    throw;
  }
  return value;
}

bool operator==(const Json& a, const Json& b) noexcept {
  if (a.is_number() && b.is_number()) return a.value_.index() == b.value_.index() ? a.value_ == b.value_ : a.number() == b.number();
  if (!a.is_object() || !b.is_object()) return a.value_ == b.value_;
  if (a.size() != b.size()) return false;
  for (const auto& [key, value] : a.items()) {
    const Json* other = b.find(key);
    if (other == nullptr || !(*other == value)) return false;
  }
  return true;
}

/// Builds a tree from the parser's events.
class Json::Reader : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Reader(std::string_view text) { nlohmann::json::sax_parse(text.data(), text.data() + text.size(), this); }

  bool null() override { return add(Json()); }
  bool boolean(bool value) override { return add(Json(value)); }
  bool number_integer(std::int64_t value) override { return add(Json(value)); }
  bool number_unsigned(std::uint64_t value) override { return add(Json(value)); }
  bool number_float(double value, const std::string&) override { return add(Json(value)); }
  bool string(std::string& text) override { return add(Json(std::move(text))); }
  bool binary(nlohmann::json::binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(std::string& text) override {
    open_.back().key = std::move(text);
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception& error) override {
    // 406: a number beyond what a double holds.
    problem = error.id == 406 ? "json with a number that does not fit" : message("not json, broken at byte ", position);
    return false;
  }

  Json root;
  std::string problem;  ///< empty: none

 private:
  struct Level {
    Json container;
    std::string key;  ///< of the member that comes next
  };

  bool add(Json value) {
    if (open_.empty()) {
      root = std::move(value);
    } else if (Level& level = open_.back(); level.container.is_array()) {
      level.container.push_back(std::move(value));
    } else {
      level.container[level.key] = std::move(value);
    }
    return true;
  }
  bool open(Json container) {
    if (open_.size() == deepest) {
      problem = message("json nests deeper than ", deepest);
      return false;
    }
    open_.push_back({std::move(container), {}});
    return true;
  }
  bool close() {
    Json whole = std::move(open_.back().container);
    open_.pop_back();
    return add(std::move(whole));
  }

  std::vector<Level> open_;
};

Json Json::parse(std::string_view text, std::string_view place) {
  Reader reader(text);
  if (!reader.problem.empty()) fail(Errc::corrupt, place, ": ", reader.problem, " of ", text.size(), " bytes");
  return std::move(reader.root);
}

Json Json::parse_or_null(std::string_view text) {
  Reader reader(text);
  return reader.problem.empty() ? std::move(reader.root) : Json();
}

class Json::Writer {
 public:
  explicit Writer(const Style& style) : style_(style) {}

  void write(const Json& json) {
    std::visit([this](const auto& value) { put(value); }, json.value_);
  }

  std::string text;

 private:
  void put(std::nullptr_t) { text += "null"; }
  void put(bool value) { text += value ? "true" : "false"; }
  void put(std::int64_t value) { text += std::to_string(value); }
  void put(std::uint64_t value) { text += std::to_string(value); }
  // Values of the library's that hold nothing else are safe to destroy.
  void put(double value) { text += nlohmann::json(value).dump(); }
  void put(const std::string& value) {
    using Invalid = nlohmann::json::error_handler_t;
    try {
      text += nlohmann::json(value).dump(-1, ' ', style_.ascii, style_.replace_invalid ? Invalid::replace : Invalid::strict);
    } catch (const nlohmann::json::exception&) {
      fail(Errc::corrupt, "json: expected UTF-8, found '", printable(value, 80), "'");
    }
  }
  void put(const Array& items) {
    list(items, '[', ']', [this](const Json& item) { write(item); });
  }
  void put(const ObjectPointer& object) {
    list(object->members, '{', '}', [this](const Member& member) {
      put(member.first);
      text += style_.indent < 0 ? ":" : ": ";
      write(member.second);
    });
  }

  template <class Items, class WriteItem>
  void list(const Items& items, char open, char close, const WriteItem& write_item) {
    text += open;
    ++level_;
    bool first = true;
    for (const auto& item : items) {
      if (!first) text += ',';
      first = false;
      line_break();
      write_item(item);
    }
    --level_;
    if (!first) line_break();
    text += close;
  }
  void line_break() {
    if (style_.indent >= 0) text.append(1, '\n').append(level_ * static_cast<std::size_t>(style_.indent), ' ');
  }

  const Style& style_;
  std::size_t level_ = 0;
};

std::string Json::dump(const Style& style) const {
  Writer writer(style);
  writer.write(*this);
  return std::move(writer.text);
}

}  // namespace bantam::inline v0
