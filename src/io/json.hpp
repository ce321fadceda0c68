// JSON as a tree that survives memory running out.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "bantam/core/error.hpp"

namespace bantam::inline v0 {

/// A JSON value; objects keep the order in which members came. nlohmann's library reads texts and writes strings and numbers;
/// its own tree allocates while it is destroyed, which ends the process where memory has run out (docs/lab/runtime.md).
/// Names are that library's, and so is what braces mean: {{"a", 1}, {"b", 2}} is an object, other lists are arrays.
class Json {
 public:
  using Array = std::vector<Json>;
  using Member = std::pair<const std::string, Json>;
  using Members = std::list<Member>;
  /// What nests deeper is refused: real files have up to 8 levels.
  static constexpr std::size_t deepest = 64;

  Json() noexcept = default;
  Json(std::nullptr_t) noexcept {}
  Json(const char* text) : value_(std::string(text)) {}
  Json(std::string_view text) : value_(std::string(text)) {}
  Json(std::string text) noexcept : value_(std::move(text)) {}
  template <std::same_as<bool> T>
  Json(T truth) noexcept : value_(std::in_place_type<bool>, truth) {}
  template <std::floating_point T>
  Json(T number) noexcept : value_(std::in_place_type<double>, number) {}
  template <std::signed_integral T>
  Json(T number) noexcept : value_(stored(number)) {}
  template <std::unsigned_integral T>
    requires(!std::same_as<T, bool>)
  Json(T number) noexcept : value_(std::in_place_type<std::uint64_t>, number) {}
  template <class T>
  Json(const std::vector<T>& items) : value_(Array(items.begin(), items.end())) {}
  Json(std::initializer_list<Json> list);
  Json(const Json& other);
  Json(Json&& other) noexcept;
  Json& operator=(Json other) noexcept;
  ~Json();

  [[nodiscard]] static Json array(std::initializer_list<Json> items = {});
  [[nodiscard]] static Json object();
  /// Throws corrupt, `place` first, naming the byte where the text breaks, and for what nests too deeply. Linear in the text.
  [[nodiscard]] static Json parse(std::string_view text, std::string_view place);
  /// Null for what parse() refuses.
  [[nodiscard]] static Json parse_or_null(std::string_view text);

  [[nodiscard]] bool is_null() const noexcept { return holds<std::nullptr_t>(); }
  [[nodiscard]] bool is_boolean() const noexcept { return holds<bool>(); }
  [[nodiscard]] bool is_string() const noexcept { return holds<std::string>(); }
  [[nodiscard]] bool is_array() const noexcept { return holds<Array>(); }
  [[nodiscard]] bool is_object() const noexcept { return holds<ObjectPointer>(); }
  [[nodiscard]] bool is_number() const noexcept { return is_number_integer() || holds<double>(); }
  [[nodiscard]] bool is_number_integer() const noexcept { return holds<std::int64_t>() || is_number_unsigned(); }
  /// A whole number that is not negative, in 64 bits.
  [[nodiscard]] bool is_number_unsigned() const noexcept { return holds<std::uint64_t>(); }
  /// "null", "boolean", "number", "string", "array" or "object".
  [[nodiscard]] std::string_view type_name() const noexcept;

  /// A bool, a number that fits T (whole ones give floating ones, not the reverse), a std::string, or a std::vector of these.
  /// Throws corrupt for another type.
  template <class T>
  [[nodiscard]] T get() const {
    if constexpr (std::is_same_v<T, bool>) {
      return as<bool>("a truth value");
    } else if constexpr (std::is_same_v<T, std::string>) {
      return string();
    } else if constexpr (std::is_floating_point_v<T>) {
      return static_cast<T>(number());
    } else if constexpr (std::is_integral_v<T>) {
      return whole<T>();
    } else {
      T items;
      for (const Json& item : as<Array>("an array")) items.push_back(item.get<typename T::value_type>());
      return items;
    }
  }
  [[nodiscard]] const std::string& string() const { return as<std::string>("a string"); }

  /// Of an array or an object; 0 for anything else.
  [[nodiscard]] std::size_t size() const noexcept;
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }

  /// Arrays; what is none has no items. Throws corrupt for an index or a back() that is not there.
  [[nodiscard]] const Json* begin() const noexcept { return is_array() ? std::get<Array>(value_).data() : nullptr; }
  [[nodiscard]] const Json* end() const noexcept { return begin() + (is_array() ? size() : 0); }
  [[nodiscard]] Json* begin() noexcept { return is_array() ? std::get<Array>(value_).data() : nullptr; }
  [[nodiscard]] Json* end() noexcept { return begin() + (is_array() ? size() : 0); }
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
  [[nodiscard]] const Members& items() const noexcept;
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
  struct Object {
    Members members;
    std::map<std::string_view, Json*> index;
  };
  // Apart from this class, which is not complete where its list needs it.
  struct DeleteObject {
    void operator()(Object* object) const noexcept;
  };
  using ObjectPointer = std::unique_ptr<Object, DeleteObject>;
  class Reader;
  class Writer;

  using Value = std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, double, std::string, Array, ObjectPointer>;

  /// Only negative numbers are kept with a sign.
  [[nodiscard]] static Value stored(std::int64_t number) noexcept;
  template <class T>
  [[nodiscard]] bool holds() const noexcept {
    return std::holds_alternative<T>(value_);
  }
  template <class T>
  [[nodiscard]] const T& as(std::string_view expected) const {
    if (const T* found = std::get_if<T>(&value_)) return *found;
    refuse(expected);
  }
  template <class T>
  [[nodiscard]] T whole() const {
    if (const auto* positive = std::get_if<std::uint64_t>(&value_); positive && std::in_range<T>(*positive)) return static_cast<T>(*positive);
    if (const auto* negative = std::get_if<std::int64_t>(&value_); negative && std::in_range<T>(*negative)) return static_cast<T>(*negative);
    refuse("a whole number that fits");
  }
  [[nodiscard]] double number() const;
  [[nodiscard]] const Json& item(std::size_t index) const;
  [[noreturn]] void refuse(std::string_view expected) const;

  Value value_;
};

}  // namespace bantam::inline v0
