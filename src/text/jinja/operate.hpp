// Python's operators on values: truth, equality, order, arithmetic, iteration.
#pragma once

#include <string>
#include <string_view>

#include "text/jinja/run.hpp"

namespace bantam::inline v0::jinja {

[[nodiscard]] bool truth(Run& run, const Value& value);
[[nodiscard]] bool equals(Run& run, const Value& a, const Value& b);
/// a < b; fails for types that have no order between them.
[[nodiscard]] bool less(Run& run, const Value& a, const Value& b);
/// needle in haystack.
[[nodiscard]] bool contains(Run& run, const Value& haystack, const Value& needle);
/// One of == != < <= > >= in, and "notin".
[[nodiscard]] bool compare(Run& run, std::string_view op, const Value& a, const Value& b);

/// One of + - * / // % **.
[[nodiscard]] Value arithmetic(Run& run, std::string_view op, const Value& a, const Value& b);
[[nodiscard]] Value negate(Run& run, const Value& value);

/// What a for loop goes over: elements, characters, keys. Fails for what cannot be iterated.
[[nodiscard]] ListPtr elements(Run& run, const Value& value);
[[nodiscard]] bool iterable(const Value& value);
/// len(); -1 where there is none.
[[nodiscard]] std::int64_t length(Run& run, const Value& value);

/// value[index] and value.name as Jinja looks them up: item first, attribute first; undefined where neither is.
[[nodiscard]] Value get_item(Run& run, const Value& value, const Value& index);
[[nodiscard]] Value get_attribute(Run& run, const Value& value, std::string_view name);
/// value[start:stop:step]; none stands for an absent bound.
[[nodiscard]] Value slice(Run& run, const Value& value, const Value& start, const Value& stop, const Value& step);

/// The offset of `needle` in `haystack` from `from` on, npos if it is not there; linear in both (Knuth, Morris, Pratt).
class Finder {
 public:
  explicit Finder(std::string_view needle);
  [[nodiscard]] std::size_t find(std::string_view haystack, std::size_t from = 0) const;

 private:
  std::string_view needle_;
  std::vector<std::uint32_t> border_;
};

/// The text with & < > " ' as HTML entities, as markup; markup stays as it is.
[[nodiscard]] Value escape_html(Run& run, const Value& value);

}  // namespace bantam::inline v0::jinja
