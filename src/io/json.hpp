// JSON as a tree that survives memory running out.
#pragma once

#include <concepts>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "bantam/core/error.hpp"
#include "bantam/core/team.hpp"

namespace bantam::inline v0 {

/// A JSON value; objects keep the order in which members came. nlohmann's library writes strings and numbers, and reads what is broken or
/// odd; its own tree allocates while it is destroyed, which ends the process where memory has run out (docs/lab/runtime.md).
/// Names are that library's, and so is what braces mean: {{"a", 1}, {"b", 2}} is an object, other lists are arrays.
/// A value has 16 bytes, short texts included; a container is one block of values. References into it hold until it grows.
class Json {
 public:
  /// A member as it is looked at.
  struct Member {
    std::string_view key;
    const Json& value;
  };
  class Members;
  /// What nests deeper is refused: real files have up to 8 levels.
  static constexpr std::size_t deepest = 64;
  /// What a tree may take: so many times the bytes of its text, or the floor where that is more. The reader's own buffer comes to
  /// the text's length at most. Published files stay below half of it; lists of nothing, such as [{},{},...], do not.
  static constexpr std::size_t memory_factor = 3;
  static constexpr std::size_t memory_floor = std::size_t{64} << 20;

  Json() noexcept = default;
  Json(std::nullptr_t) noexcept {}
  Json(const char* text) : Json(std::string_view(text)) {}
  Json(std::string_view text);
  Json(const std::string& text) : Json(std::string_view(text)) {}
  template <std::same_as<bool> T>
  Json(T truth) noexcept : Json(Kind::boolean, truth) {}
  template <std::floating_point T>
  Json(T number) noexcept : Json(Kind::real, static_cast<double>(number)) {}
  // Only negative numbers are kept with a sign.
  template <std::signed_integral T>
  Json(T number) noexcept : Json(number < 0 ? Kind::negative : Kind::whole, static_cast<std::int64_t>(number)) {}
  template <std::unsigned_integral T>
    requires(!std::same_as<T, bool>)
  Json(T number) noexcept : Json(Kind::whole, static_cast<std::uint64_t>(number)) {}
  template <class T>
  Json(const std::vector<T>& items) : Json(array()) {
    reserve(items.size());
    for (std::size_t i = 0; i < items.size(); ++i) push_back(items[i]);
  }
  Json(std::initializer_list<Json> list);
  Json(const Json& other);
  Json(Json&& other) noexcept;
  Json& operator=(Json other) noexcept;
  ~Json() {
    if (kind_ >= Kind::text) release();
  }

  [[nodiscard]] static Json array(std::initializer_list<Json> items = {});
  [[nodiscard]] static Json object();
  /// Throws corrupt, `place` first, naming the byte where the text breaks, and for what nests too deeply; unsupported for a tree
  /// that would take too much memory. Linear in the text.
  [[nodiscard]] static Json parse(std::string_view text, std::string_view place);
  /// Reads the value of a member of a member, given both keys (of an array's: what stands before) and the text from the value on. Returns
  /// what follows the value; null where it is to be read as others are.
  using ReadElsewhere = FunctionRef<const char*(std::string_view outer, std::string_view key, std::string_view text)>;
  /// The same, without the values that are read elsewhere.
  [[nodiscard]] static Json parse(std::string_view text, std::string_view place, ReadElsewhere read_elsewhere);
  /// Null for what parse() refuses.
  [[nodiscard]] static Json parse_or_null(std::string_view text);

  /// What stands where a value was read elsewhere. It is written as null.
  [[nodiscard]] bool is_elsewhere() const noexcept { return kind_ == Kind::elsewhere; }
  [[nodiscard]] bool is_null() const noexcept { return kind_ == Kind::null; }
  [[nodiscard]] bool is_boolean() const noexcept { return kind_ == Kind::boolean; }
  [[nodiscard]] bool is_string() const noexcept { return kind_ == Kind::text; }
  [[nodiscard]] bool is_array() const noexcept { return kind_ == Kind::array; }
  [[nodiscard]] bool is_object() const noexcept { return kind_ == Kind::object; }
  [[nodiscard]] bool is_number() const noexcept { return is_number_integer() || kind_ == Kind::real; }
  [[nodiscard]] bool is_number_integer() const noexcept { return kind_ == Kind::negative || is_number_unsigned(); }
  /// A whole number that is not negative, in 64 bits.
  [[nodiscard]] bool is_number_unsigned() const noexcept { return kind_ == Kind::whole; }
  /// "null", "boolean", "number", "string", "array" or "object".
  [[nodiscard]] std::string_view type_name() const noexcept;

  /// A bool, a number that fits T (whole ones give floating ones, not the reverse), a std::string, or a std::vector of these.
  /// Throws corrupt for another type.
  template <class T>
  [[nodiscard]] T get() const {
    if constexpr (std::is_same_v<T, bool>) {
      if (!is_boolean()) refuse("a truth value");
      return load<bool>();
    } else if constexpr (std::is_same_v<T, std::string>) {
      return std::string(string());
    } else if constexpr (std::is_floating_point_v<T>) {
      return static_cast<T>(number());
    } else if constexpr (std::is_integral_v<T>) {
      return whole<T>();
    } else {
      T items;
      if (!is_array()) refuse("an array");
      for (const Json& item : *this) items.push_back(item.get<typename T::value_type>());
      return items;
    }
  }
  /// Of a text: into this value. Throws corrupt for another type.
  [[nodiscard]] std::string_view string() const;

  /// Of an array or an object; 0 for anything else.
  [[nodiscard]] std::size_t size() const noexcept;
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }

  /// Arrays; what is none has no items. Throws corrupt for an index or a back() that is not there.
  [[nodiscard]] const Json* begin() const noexcept;
  [[nodiscard]] const Json* end() const noexcept { return begin() + (is_array() ? size() : 0); }
  [[nodiscard]] Json* begin() noexcept { return const_cast<Json*>(std::as_const(*this).begin()); }
  [[nodiscard]] Json* end() noexcept { return const_cast<Json*>(std::as_const(*this).end()); }
  template <std::integral Index>
  [[nodiscard]] const Json& operator[](Index index) const {
    return item(static_cast<std::size_t>(index));
  }
  template <std::integral Index>
  [[nodiscard]] Json& operator[](Index index) {
    return const_cast<Json&>(item(static_cast<std::size_t>(index)));
  }
  [[nodiscard]] Json& back() { return (*this)[size() - 1]; }
  /// Null becomes an array.
  void push_back(Json item);

  /// Objects; what is none has no members.
  [[nodiscard]] Members items() const noexcept;
  /// Null when the member is absent.
  [[nodiscard]] const Json* find(std::string_view key) const noexcept;
  [[nodiscard]] bool contains(std::string_view key) const noexcept { return find(key) != nullptr; }
  /// Throws corrupt when the member is absent.
  [[nodiscard]] const Json& at(std::string_view key) const;
  [[nodiscard]] const Json& operator[](std::string_view key) const { return at(key); }
  /// Makes the member, null, when it is absent. Null becomes an object.
  [[nodiscard]] Json& operator[](std::string_view key);

  struct Style {
    int indent = -1;               ///< spaces for each level; -1: all on one line
    bool replace_invalid = false;  ///< writes U+FFFD for bytes that are no UTF-8, for which others throw corrupt
    bool ascii = false;            ///< escapes every character beyond ASCII
  };
  [[nodiscard]] std::string dump(int indent = -1) const { return dump(Style{.indent = indent}); }
  [[nodiscard]] std::string dump(const Style& style) const;
  /// A text in quotes.
  [[nodiscard]] static std::string quoted(std::string_view text) { return Json(text).dump(); }

  /// Numbers by value, objects in whatever order.
  friend bool operator==(const Json& a, const Json& b) noexcept;

 private:
  // From `text` on a value may own memory.
  enum class Kind : std::uint8_t { null, elsewhere, boolean, negative, whole, real, text, array, object };
  struct Text;
  struct Array;
  struct Object;
  class Reader;
  class Writer;

  template <class T>
  Json(Kind kind, T content) noexcept : kind_(kind) {
    store(content);
  }
  template <class T>
  void store(T content) noexcept {
    static_assert(sizeof content <= 8);
    std::memcpy(content_, &content, sizeof content);
  }
  template <class T>
  [[nodiscard]] T load() const noexcept {
    T content;
    std::memcpy(&content, content_, sizeof content);
    return content;
  }
  static Json parse_with(std::string_view text, std::string_view place, const ReadElsewhere* read_elsewhere);
  void release() noexcept;
  void reserve(std::size_t count);
  template <class T>
  [[nodiscard]] T whole() const {
    if (kind_ == Kind::whole && std::in_range<T>(load<std::uint64_t>())) return static_cast<T>(load<std::uint64_t>());
    if (kind_ == Kind::negative && std::in_range<T>(load<std::int64_t>())) return static_cast<T>(load<std::int64_t>());
    refuse("a whole number that fits");
  }
  [[nodiscard]] double number() const;
  [[nodiscard]] const Json& item(std::size_t index) const;
  [[noreturn]] void refuse(std::string_view expected) const;

  static constexpr std::uint8_t long_text = 255;
  /// The value, a pointer to it, or a text of up to 14 bytes.
  alignas(8) char content_[14] = {};
  std::uint8_t text_size_ = 0;  ///< of a short text
  Kind kind_ = Kind::null;
};

/// The members of an object in their order.
class Json::Members {
 public:
  class Iterator {
   public:
    explicit Iterator(const Json* at) noexcept : at_(at) {}
    [[nodiscard]] Member operator*() const { return {at_[0].string(), at_[1]}; }
    Iterator& operator++() noexcept {
      at_ += 2;
      return *this;
    }
    bool operator==(const Iterator&) const noexcept = default;

   private:
    const Json* at_;  // the key; the value follows it
  };
  Members(const Json* first, std::size_t count) noexcept : first_(first), count_(count) {}
  [[nodiscard]] Iterator begin() const noexcept { return Iterator(first_); }
  [[nodiscard]] Iterator end() const noexcept { return Iterator(first_ + 2 * count_); }
  [[nodiscard]] std::size_t size() const noexcept { return count_; }

 private:
  const Json* first_;
  std::size_t count_;
};

}  // namespace bantam::inline v0
