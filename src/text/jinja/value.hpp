// What a template computes with: Python's values, immutable and shared, with bounded nesting.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace bantam::inline v0::jinja {

class Run;
class Value;
struct Arguments;

/// A name or element that does not exist; `reason` says which, for the error that most uses of it raise.
struct Undefined {
  std::shared_ptr<const std::string> reason;
};
struct None {};

/// A string. `markup` marks text that is HTML already (the `safe` and `escape` filters): adding to it escapes.
struct Text {
  std::string bytes;
  bool markup = false;
};
using TextPtr = std::shared_ptr<const Text>;

/// Everything with elements in an order.
enum class ListKind : std::uint8_t { list, tuple, range, keys, values, items, group };
struct List {
  ListKind kind = ListKind::list;
  int depth = 1;
  std::vector<Value> items;
  std::int64_t start = 0, stop = 0, step = 1;  ///< of a range
};
using ListPtr = std::shared_ptr<const List>;

struct Dict;
using DictPtr = std::shared_ptr<const Dict>;

/// Things with identity and state: namespaces, loops, macros, functions, generators. Owned by the Run, so cycles of
/// them are freed, and values hold plain pointers.
struct Object {
  Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object() = default;

  /// Python's name of the type, for messages.
  [[nodiscard]] virtual std::string_view type() const = 0;
  [[nodiscard]] virtual bool callable() const { return false; }
  /// nullopt where there is no such attribute.
  virtual std::optional<Value> attribute(Run& run, std::string_view name);
  virtual Value call(Run& run, Arguments& arguments);
  [[nodiscard]] virtual bool iterable() const { return false; }
  /// nullptr where it cannot be iterated.
  virtual ListPtr iterate(Run& run);
  /// -1 where it has no length.
  virtual std::int64_t length(Run& run);
  virtual std::string represent(Run& run);
};

class Value {
 public:
  using Variant = std::variant<Undefined, None, bool, std::int64_t, double, TextPtr, ListPtr, DictPtr, Object*>;

  Value() = default;
  Value(Undefined v) : v_(std::move(v)) {}
  Value(None v) : v_(v) {}
  Value(bool v) : v_(v) {}
  Value(std::int64_t v) : v_(v) {}
  Value(double v) : v_(v) {}
  Value(TextPtr v) : v_(std::move(v)) {}
  Value(ListPtr v) : v_(std::move(v)) {}
  Value(DictPtr v) : v_(std::move(v)) {}
  Value(Object* v) : v_(v) {}
  // Anything else that would convert to bool is a mistake.
  template <class T>
  Value(T*) = delete;

  [[nodiscard]] const Variant& variant() const { return v_; }
  template <class T>
  [[nodiscard]] bool is() const {
    return std::holds_alternative<T>(v_);
  }
  template <class T>
  [[nodiscard]] const T& as() const {
    return std::get<T>(v_);
  }
  [[nodiscard]] bool is_undefined() const { return is<Undefined>(); }
  [[nodiscard]] bool is_none() const { return is<None>(); }
  [[nodiscard]] bool is_text() const { return is<TextPtr>(); }
  [[nodiscard]] bool is_list() const { return is<ListPtr>(); }
  [[nodiscard]] bool is_dict() const { return is<DictPtr>(); }
  [[nodiscard]] bool is_object() const { return is<Object*>(); }
  [[nodiscard]] const std::string& text() const { return as<TextPtr>()->bytes; }
  [[nodiscard]] bool is_markup() const { return is_text() && as<TextPtr>()->markup; }
  [[nodiscard]] const List& list() const { return *as<ListPtr>(); }
  [[nodiscard]] const Dict& dict() const { return *as<DictPtr>(); }
  /// int or bool: what Python's arithmetic takes as an integer.
  [[nodiscard]] std::optional<std::int64_t> integer() const;
  /// Any number.
  [[nodiscard]] std::optional<double> number() const;
  /// The object of a type, or nullptr.
  template <class T>
  [[nodiscard]] T* object() const {
    return is_object() ? dynamic_cast<T*>(as<Object*>()) : nullptr;
  }
  /// How deep lists and dicts nest in it; 0 for anything else.
  [[nodiscard]] int depth() const;
  /// Python's name of the type, for messages.
  [[nodiscard]] std::string_view type() const;

 private:
  Variant v_;
};

/// Keys in the order of insertion. The index maps a key's canonical spelling (equal keys, equal spelling: 1, 1.0 and
/// True are one key) to its place; an ordered map, because hashes can be forced to collide.
struct Dict {
  int depth = 1;
  std::vector<std::pair<Value, Value>> items;
  std::map<std::string, std::size_t, std::less<>> index;

  [[nodiscard]] const Value* find(std::string_view text_key) const;
  [[nodiscard]] const Value* find_spelled(std::string_view spelled) const;
};

/// Arguments of a call, and the block of a {% call %}.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;

  /// Takes a named argument out.
  [[nodiscard]] std::optional<Value> take(std::string_view name);
};

}  // namespace bantam::inline v0::jinja
