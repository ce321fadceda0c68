// Values of arguments that are written without JSON's types, and the tools' schemas, which know them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "io/json.hpp"

namespace bantam::inline v0::reply {

/// The tools that a conversation offers.
class Tools {
 public:
  Tools() = default;
  /// Throws invalid_argument for what is no JSON array or object with "tools".
  explicit Tools(std::string_view json);

  [[nodiscard]] bool empty() const noexcept { return tools_.empty(); }
  [[nodiscard]] bool has(std::string_view name) const { return find(name) != nullptr; }
  /// The schema of all arguments, and of one of them: null where nothing is known of it.
  [[nodiscard]] const Json* parameters(std::string_view tool) const;
  [[nodiscard]] const Json* argument(std::string_view tool, std::string_view name) const;

 private:
  [[nodiscard]] const Json* find(std::string_view name) const;
  Json tools_;
};

/// Whether a schema lets through texts, and whether other things too; both where there is none.
struct Allowed {
  bool text = true, other = true;
};
[[nodiscard]] Allowed allowed_by(const Json* schema);

/// Whether a schema may be one of this type; true where it says nothing.
[[nodiscard]] bool may_be(const Json* schema, std::string_view type);

/// A text in JSON's quotes; bytes that are no character become U+FFFD.
[[nodiscard]] std::string in_quotes(std::string_view text);
/// The inside of quotes of a piece of a text.
void append_quoted(std::string& out, std::string_view piece);

/// The JSON of a value that is written as it is: JSON or Python where the schema, or without one the value, says so, else a text.
[[nodiscard]] std::string typed(std::string_view value, const Json* schema);

/// Python's literals as JSON: numbers, True, None, 'texts', [lists], (tuples), {dicts}. None for what is none of these.
[[nodiscard]] std::optional<std::string> python_literal(std::string_view text);
/// The same from `at` on, which then stands behind it.
[[nodiscard]] bool read_python(std::string_view text, std::size_t& at, std::string& out, int depth = 0);

[[nodiscard]] std::string_view trimmed(std::string_view text);

}  // namespace bantam::inline v0::reply
