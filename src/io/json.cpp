// The tree, its reader on top of the library's events, and its writer.
#include "io/json.hpp"

#include <nlohmann/json.hpp>

#include <bit>
#include <deque>
#include <memory>
#include <new>

#include "bantam/core/hash.hpp"
#include "io/json_scanner.hpp"

namespace bantam::inline v0 {

// What values that are longer than 16 bytes point to. Values are moved by copying their bytes: none points into itself.
struct Json::Text {
  std::size_t size;

  [[nodiscard]] char* bytes() noexcept { return reinterpret_cast<char*>(this + 1); }
  static std::size_t bytes_of(std::size_t size) noexcept { return sizeof(Text) + size; }
};

struct Json::Array {
  std::uint32_t size = 0;
  std::uint32_t capacity;

  explicit Array(std::size_t room) noexcept : capacity(static_cast<std::uint32_t>(room)) {}
  [[nodiscard]] Json* items() noexcept { return reinterpret_cast<Json*>(this + 1); }
  static std::size_t bytes_of(std::size_t room) noexcept { return sizeof(Array) + room * sizeof(Json); }
};

/// Keys and values by turns, then, where there are many, a table by hash: the numbers of members from 1 on, with bits of the hash in
/// what a number leaves free, so that few keys are read in vain; 0 is an empty slot.
struct Json::Object {
  std::uint32_t size = 0;
  std::uint32_t capacity;
  static constexpr std::size_t few = 8;  ///< so many keys are compared one by one

  explicit Object(std::size_t room) noexcept : capacity(static_cast<std::uint32_t>(room)) { std::fill_n(table(), slots_of(room), 0U); }
  [[nodiscard]] Json* items() noexcept { return reinterpret_cast<Json*>(this + 1); }
  [[nodiscard]] std::uint32_t* table() noexcept { return reinterpret_cast<std::uint32_t*>(items() + 2 * capacity); }
  /// At most two thirds of the places are taken.
  static std::size_t slots_of(std::size_t room) noexcept { return room <= few ? 0 : std::bit_ceil(room + room / 2); }
  static std::size_t bytes_of(std::size_t room) noexcept { return sizeof(Object) + 2 * room * sizeof(Json) + slots_of(room) * sizeof(std::uint32_t); }

  /// The value of a key, or null.
  [[nodiscard]] Json* find(std::string_view key) noexcept {
    if (capacity > few) return find_slot(key, hash_of(key)).second;
    for (std::size_t i = 0; i < size; ++i) {
      if (items()[2 * i].string() == key) return &items()[2 * i + 1];
    }
    return nullptr;
  }
  /// Takes the bytes of a member, in the place of one with the same key; else there must be room.
  Json& set(Json&& key, Json&& value) noexcept {
    return capacity > few ? set(std::move(key), std::move(value), hash_of(key.string())) : put(find(key.string()), std::move(key), std::move(value));
  }
  /// Takes members: keys and values by turns, from where `waiting` begins.
  template <class Iterator>
  void set_all(Iterator waiting, std::size_t count) noexcept {
    if (capacity <= few) {
      for (std::size_t i = 0; i < count; ++i) set(std::move(waiting[2 * i]), std::move(waiting[2 * i + 1]));
      return;
    }
    const auto slot_of = [&](std::uint64_t hash) { return &table()[hash & (slots_of(capacity) - 1)]; };
    visit_hashed(count, [&](std::size_t i) { return hash_of(waiting[2 * i].string()); }, slot_of, [&](std::size_t i, std::uint64_t hash) {
      set(std::move(waiting[2 * i]), std::move(waiting[2 * i + 1]), hash);
    });
  }

 private:
  static std::uint64_t hash_of(std::string_view key) noexcept { return KeyedHash()(key); }
  Json& set(Json&& key, Json&& value, std::uint64_t hash) noexcept {
    const auto [slot, known] = find_slot(key.string(), hash);
    if (known == nullptr) *slot = tag_of(hash) | (size + 1);
    return put(known, std::move(key), std::move(value));
  }
  Json& put(Json* known, Json&& key, Json&& value) noexcept {
    if (known != nullptr) return *known = std::move(value);
    Json* at = items() + 2 * size++;
    new (at) Json(std::move(key));
    return *new (at + 1) Json(std::move(value));
  }
  /// The bits that number a member.
  [[nodiscard]] std::uint32_t number_mask() const noexcept { return std::bit_ceil(capacity + 1) - 1; }
  [[nodiscard]] std::uint32_t tag_of(std::uint64_t hash) const noexcept { return static_cast<std::uint32_t>(hash >> 32) & ~number_mask(); }
  std::pair<std::uint32_t*, Json*> find_slot(std::string_view key, std::uint64_t hash) noexcept {
    const std::size_t mask = slots_of(capacity) - 1;
    for (std::size_t at = hash & mask;; at = (at + 1) & mask) {
      std::uint32_t& slot = table()[at];
      if (slot == 0) return {&slot, nullptr};
      if ((slot & ~number_mask()) != tag_of(hash)) continue;
      Json* member = items() + 2 * ((slot & number_mask()) - 1);
      if (member->string() == key) return {&slot, member + 1};
    }
  }
};

namespace {

constexpr std::size_t most_items = 0xffffffff / 2;

}  // namespace

Json::Json(std::string_view text) : kind_(Kind::text) {
  if (text.size() <= sizeof content_) {
    text.copy(content_, text.size());  // memcpy() takes no null, which an empty view may hold
    text_size_ = static_cast<std::uint8_t>(text.size());
    return;
  }
  auto* block = static_cast<Text*>(::operator new(Text::bytes_of(text.size())));
  block->size = text.size();
  std::memcpy(block->bytes(), text.data(), text.size());
  text_size_ = long_text;
  store(block);
}

Json::Json(const Json& other) {
  if (other.is_string()) {
    *this = Json(other.string());
  } else if (other.is_array()) {
    Json copy = array();
    copy.reserve(other.size());
    for (const Json& item : other) copy.push_back(item);
    *this = std::move(copy);
  } else if (other.is_object()) {
    Json copy = object();
    copy.reserve(other.size());
    for (const auto& [key, value] : other.items()) copy[key] = value;
    *this = std::move(copy);
  } else {
    std::memcpy(static_cast<void*>(this), &other, sizeof other);
  }
}

Json::Json(Json&& other) noexcept {
  std::memcpy(static_cast<void*>(this), &other, sizeof other);
  other.kind_ = Kind::null;
}

Json& Json::operator=(Json other) noexcept {
  char bytes[sizeof other];
  std::memcpy(bytes, &other, sizeof other);
  std::memcpy(static_cast<void*>(&other), this, sizeof other);
  std::memcpy(static_cast<void*>(this), bytes, sizeof other);
  return *this;
}

void Json::release() noexcept {
  if (kind_ == Kind::text) {
    if (text_size_ == long_text) ::operator delete(load<Text*>());
  } else if (kind_ == Kind::array) {
    if (auto* block = load<Array*>()) {
      std::destroy_n(block->items(), block->size);
      ::operator delete(block);
    }
  } else if (auto* block = load<Object*>()) {
    std::destroy_n(block->items(), std::size_t{2} * block->size);
    ::operator delete(block);
  }
  kind_ = Kind::null;
}

/// Makes room for `count` items or members in all.
void Json::reserve(std::size_t count) {
  if (count > most_items) fail(Errc::out_of_memory, "json: expected at most ", most_items, " items, found ", count);
  if (is_array()) {
    auto* old = load<Array*>();
    if (count <= (old ? old->capacity : 0)) return;
    auto* block = new (::operator new(Array::bytes_of(count))) Array(count);
    if (old) {
      std::memcpy(static_cast<void*>(block->items()), old->items(), old->size * sizeof(Json));
      block->size = old->size;
      ::operator delete(old);
    }
    store(block);
  } else if (is_object()) {
    auto* old = load<Object*>();
    if (count <= (old ? old->capacity : 0)) return;
    auto* block = new (::operator new(Object::bytes_of(count))) Object(count);
    if (old) block->set_all(old->items(), old->size);
    ::operator delete(old);
    store(block);
  }
}

Json::Json(std::initializer_list<Json> list) {
  const auto is_member = [](const Json& item) { return item.is_array() && item.size() == 2 && item[0].is_string(); };
  bool members = true;
  for (const Json& item : list) members = members && is_member(item);
  if (!members || list.size() == 0) {
    *this = array(list);
    return;
  }
  Json made = object();
  made.reserve(list.size());
  for (const Json& item : list) made[item[0].string()] = item[1];
  *this = std::move(made);
}

Json Json::array(std::initializer_list<Json> items) {
  Json json(Kind::array, static_cast<Array*>(nullptr));
  json.reserve(items.size());
  for (const Json& item : items) json.push_back(item);
  return json;
}

Json Json::object() { return Json(Kind::object, static_cast<Object*>(nullptr)); }

std::string_view Json::type_name() const noexcept {
  constexpr std::string_view names[] = {"null", "value read elsewhere", "boolean", "number", "number", "number", "string", "array", "object"};
  return names[static_cast<std::size_t>(kind_)];
}

void Json::refuse(std::string_view expected) const { fail(Errc::corrupt, "json: expected ", expected, ", found ", type_name()); }

std::string_view Json::string() const {
  if (!is_string()) refuse("a string");
  if (text_size_ != long_text) return {content_, text_size_};
  auto* block = load<Text*>();
  return {block->bytes(), block->size};
}

double Json::number() const {
  if (kind_ == Kind::whole) return static_cast<double>(load<std::uint64_t>());
  if (kind_ == Kind::negative) return static_cast<double>(load<std::int64_t>());
  if (kind_ != Kind::real) refuse("a number");
  return load<double>();
}

std::size_t Json::size() const noexcept {
  if (is_array()) return load<Array*>() ? load<Array*>()->size : 0;
  return items().size();
}

const Json* Json::begin() const noexcept { return is_array() && load<Array*>() ? load<Array*>()->items() : nullptr; }

const Json& Json::item(std::size_t index) const {
  if (!is_array()) refuse("an array");
  if (index >= size()) fail(Errc::corrupt, "json: expected more than ", index, " items, found ", size());
  return begin()[index];
}

void Json::push_back(Json item) {
  if (is_null()) *this = array();
  if (!is_array()) refuse("an array");
  auto* block = load<Array*>();
  if (!block || block->size == block->capacity) {
    reserve(block ? std::size_t{2} * block->capacity : 4);
    block = load<Array*>();
  }
  new (block->items() + block->size++) Json(std::move(item));
}

Json::Members Json::items() const noexcept {
  auto* block = is_object() ? load<Object*>() : nullptr;
  return {block ? block->items() : nullptr, block ? block->size : 0};
}

const Json* Json::find(std::string_view key) const noexcept {
  auto* block = is_object() ? load<Object*>() : nullptr;
  return block ? block->find(key) : nullptr;
}

const Json& Json::at(std::string_view key) const {
  if (const Json* found = find(key)) return *found;
  fail(Errc::corrupt, "json: expected ", printable(key), ", found none");
}

Json& Json::operator[](std::string_view key) {
  if (is_null()) *this = object();
  if (!is_object()) refuse("an object");
  if (const Json* found = find(key)) return const_cast<Json&>(*found);
  Json name(key);
  auto* block = load<Object*>();
  if (!block || block->size == block->capacity) {
    reserve(block ? std::size_t{2} * block->capacity : 4);
    block = load<Object*>();
  }
  return block->set(std::move(name), Json());
}

bool operator==(const Json& a, const Json& b) noexcept {
  if (a.is_number() && b.is_number()) {
    if (a.kind_ != b.kind_) return a.number() == b.number();
    return a.kind_ == Json::Kind::real ? a.load<double>() == b.load<double>() : a.load<std::uint64_t>() == b.load<std::uint64_t>();
  }
  if (a.kind_ != b.kind_) return false;
  if (a.is_boolean()) return a.load<bool>() == b.load<bool>();
  if (a.is_string()) return a.string() == b.string();
  if (a.is_array()) return std::equal(a.begin(), a.end(), b.begin(), b.end());
  if (a.size() != b.size()) return false;
  for (const auto& [key, value] : a.items()) {
    const Json* other = b.find(key);
    if (other == nullptr || !(*other == value)) return false;
  }
  return true;
}

/// Builds a tree. Values wait in a queue until their container ends and gets its one block.
class Json::Reader : public nlohmann::json_sax<nlohmann::json> {
 public:
  /// What `read_elsewhere` points to may be null.
  Reader(std::string_view text, const ReadElsewhere* read_elsewhere)
      : text_(text), read_elsewhere_(read_elsewhere), most_bytes_(std::max(memory_floor, memory_factor * text.size())) {}

  void read() {
    detail::JsonScanner scanner(text_, *this);
    bool good = scanner.value() && scanner.at_end();
    if (!good && problem.empty()) {
      // Again by the library, which reads what is odd and knows where a text breaks.
      waiting_.clear();
      opened_.clear();
      bytes_ = 0;
      good = nlohmann::json::sax_parse(text_.data(), text_.data() + text_.size(), this);
    }
    if (good) root = std::move(waiting_.front());
  }

  bool null() override { return add(Json()); }
  bool boolean(bool value) override { return add(Json(value)); }
  bool number_integer(std::int64_t value) override { return add(Json(value)); }
  bool number_unsigned(std::uint64_t value) override { return add(Json(value)); }
  bool number_float(double value, const std::string&) override { return add_real(value); }
  bool string(std::string& text) override { return add_text(text); }
  bool binary(nlohmann::json::binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(); }
  bool start_array(std::size_t) override { return open(); }
  bool end_object() override { return close(Kind::object); }
  bool end_array() override { return close(Kind::array); }
  bool key(std::string& text) override { return add_text(text); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception& error) override {
    // 406: a number beyond what a double holds.
    problem = error.id == 406 ? "json with a number that does not fit" : message("not json, broken at byte ", position);
    return false;
  }

  // What the scanner has besides.
  bool add_real(double value) { return add(Json(value)); }
  bool add_text(std::string_view text) {
    if (text.size() > sizeof content_ && !take(allocated(Text::bytes_of(text.size())))) return false;
    return add(Json(text));
  }
  bool open() {
    if (opened_.size() == deepest) return refuse_depth();
    opened_.push_back(waiting_.size());
    return true;
  }
  bool add_key(std::string_view text) { return add_text(text); }
  const char* read_elsewhere(std::string_view key, std::string_view text) {
    if (read_elsewhere_ == nullptr || opened_.size() != 2 || opened_[1] == 0) return nullptr;
    const Json& outer = waiting_[opened_[1] - 1];
    const char* end = outer.is_string() ? (*read_elsewhere_)(outer.string(), key, text) : nullptr;
    if (end == nullptr) return nullptr;
    bytes_ += sizeof(Json);
    waiting_.push_back(Json(Kind::elsewhere, 0));
    return end;
  }

  Json root;
  std::string problem;  ///< empty: none
  bool too_large = false;

 private:
  /// A block with the allocator's own bytes.
  static std::size_t allocated(std::size_t bytes) noexcept { return std::max<std::size_t>(32, (bytes + 8 + 15) / 16 * 16); }

  bool take(std::size_t bytes) {
    bytes_ += bytes;
    if (bytes_ <= most_bytes_) return true;
    problem = message("json whose values would take more than ", most_bytes_, " bytes");
    too_large = true;
    return false;
  }
  bool add(Json value) {
    if (!take(sizeof value)) return false;
    waiting_.push_back(std::move(value));
    return true;
  }
  bool refuse_depth() {
    problem = message("json nests deeper than ", deepest);
    return false;
  }
  bool close(Kind kind) {
    const std::size_t first = opened_.back();
    opened_.pop_back();
    const std::size_t values = waiting_.size() - first;
    Json whole = kind == Kind::array ? array() : object();
    if (values > 0) {
      const std::size_t room = kind == Kind::array ? values : values / 2;
      if (!take(allocated(kind == Kind::array ? Array::bytes_of(room) : Object::bytes_of(room)))) return false;
      whole.reserve(room);
      const auto begin = waiting_.begin() + static_cast<std::ptrdiff_t>(first);
      if (kind == Kind::array) {
        for (auto value = begin; value != waiting_.end(); ++value) whole.push_back(std::move(*value));
      } else {
        whole.load<Object*>()->set_all(begin, room);  // of keys that come twice the last value counts
      }
      waiting_.resize(first);
      bytes_ -= values * sizeof(Json);
    }
    return add(std::move(whole));
  }

  std::string_view text_;
  const ReadElsewhere* read_elsewhere_;
  std::size_t most_bytes_;
  std::size_t bytes_ = 0;
  std::deque<Json> waiting_;
  std::vector<std::size_t> opened_;  ///< how many waited when each open container began
};

Json Json::parse_with(std::string_view text, std::string_view place, const ReadElsewhere* read_elsewhere) {
  Reader reader(text, read_elsewhere);
  reader.read();
  if (!reader.problem.empty()) {
    fail(reader.too_large ? Errc::unsupported : Errc::corrupt, place, ": ", reader.problem, " of ", text.size(), " bytes");
  }
  return std::move(reader.root);
}

Json Json::parse(std::string_view text, std::string_view place) { return parse_with(text, place, nullptr); }

Json Json::parse(std::string_view text, std::string_view place, ReadElsewhere read_elsewhere) { return parse_with(text, place, &read_elsewhere); }

Json Json::parse_or_null(std::string_view text) {
  Reader reader(text, nullptr);
  reader.read();
  return reader.problem.empty() ? std::move(reader.root) : Json();
}

class Json::Writer {
 public:
  explicit Writer(const Style& style) : style_(style) {}

  void write(const Json& json) {
    switch (json.kind_) {
      case Kind::null:
      case Kind::elsewhere: text += "null"; break;
      case Kind::boolean: text += json.load<bool>() ? "true" : "false"; break;
      case Kind::negative: text += std::to_string(json.load<std::int64_t>()); break;
      case Kind::whole: text += std::to_string(json.load<std::uint64_t>()); break;
      // Values of the library's that hold nothing else are safe to destroy.
      case Kind::real: text += nlohmann::json(json.load<double>()).dump(); break;
      case Kind::text: put(json.string()); break;
      case Kind::array: list(json, '[', ']', [this](const Json& item) { write(item); }); break;
      case Kind::object:
        list(json.items(), '{', '}', [this](const Member& member) {
          put(member.key);
          text += style_.indent < 0 ? ":" : ": ";
          write(member.value);
        });
    }
  }

  std::string text;

 private:
  void put(std::string_view value) {
    using Invalid = nlohmann::json::error_handler_t;
    try {
      text += nlohmann::json(value).dump(-1, ' ', style_.ascii, style_.replace_invalid ? Invalid::replace : Invalid::strict);
    } catch (const nlohmann::json::exception&) {
      fail(Errc::corrupt, "json: expected UTF-8, found '", printable(value, 80), "'");
    }
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
