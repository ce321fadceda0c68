// Digits between two numbers, compared from the front.
#include "grammar/json_numbers.hpp"

#include <string>

namespace bantam::inline v0::grammar {

namespace {

// llama.cpp's: what a double holds exactly, so that digits do not go on for ever.
constexpr std::int32_t most_digits = 16;

class NumberWriter {
 public:
  explicit NumberWriter(Rules& rules) : rules_(rules) {}

  Expr digits(std::int32_t least, std::int32_t most) { return rules_.repeat(rules_.chars({{'0', '9'}}), least, most); }
  Expr digit(char first, char last) { return rules_.chars({{static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(last)}}); }

  /// Texts of as many digits as both have, from a to b.
  Expr between(std::string_view a, std::string_view b) {
    if (a.empty()) return rules_.nothing();
    if (a == b) return rules_.text(a);
    if (a[0] == b[0]) return rules_.sequence({rules_.text(a.substr(0, 1)), between(a.substr(1), b.substr(1))});
    const auto rest = static_cast<std::int32_t>(a.size() - 1);
    std::vector<Expr> ways{rules_.sequence({rules_.text(a.substr(0, 1)), from(a.substr(1))})};
    if (a[0] + 1 < b[0]) ways.push_back(rules_.sequence({digit(static_cast<char>(a[0] + 1), static_cast<char>(b[0] - 1)), digits(rest, rest)}));
    ways.push_back(rules_.sequence({rules_.text(b.substr(0, 1)), up_to(b.substr(1))}));
    return rules_.choice(std::move(ways));
  }
  Expr from(std::string_view a) { return between(a, std::string(a.size(), '9')); }
  Expr up_to(std::string_view b) { return between(std::string(b.size(), '0'), b); }

  /// Whole numbers a to b without a sign; b unbounded: of up to most_digits, or as many as `a` has.
  Expr whole(std::uint64_t a, std::optional<std::uint64_t> b) {
    std::vector<Expr> ways;
    std::string low = std::to_string(a);
    if (!b) {
      ways.push_back(from(low));
      const auto size = static_cast<std::int32_t>(low.size());
      if (size < most_digits) ways.push_back(rules_.sequence({digit('1', '9'), digits(size, most_digits - 1)}));
      return rules_.choice(std::move(ways));
    }
    const std::string high = std::to_string(*b);
    for (; low.size() < high.size(); low = "1" + std::string(low.size(), '0')) ways.push_back(from(low));
    ways.push_back(between(low, high));
    return rules_.choice(std::move(ways));
  }

  Expr decimals() { return rules_.optional(rules_.sequence({rules_.text("."), digits(1, most_digits)})); }
  Expr zero_decimals() { return rules_.optional(rules_.sequence({rules_.text("."), rules_.repeat(rules_.text("0"), 1, most_digits)})); }
  Expr some_decimals() {
    std::vector<Expr> ways;
    for (std::int32_t zeros = 0; zeros < most_digits; ++zeros) {
      ways.push_back(rules_.sequence({rules_.repeat(rules_.text("0"), zeros, zeros), digit('1', '9'), digits(0, most_digits - 1 - zeros)}));
    }
    return rules_.sequence({rules_.text("."), rules_.choice(std::move(ways))});
  }

  /// Numbers without a sign from a to b.
  Expr magnitudes(std::uint64_t a, bool above, std::optional<std::uint64_t> b, bool below) {
    std::vector<Expr> ways;
    if (b && *b == a) {
      if (!above && !below) ways.push_back(rules_.sequence({rules_.text(std::to_string(a)), zero_decimals()}));
      return rules_.choice(std::move(ways));
    }
    ways.push_back(rules_.sequence({rules_.text(std::to_string(a)), above ? some_decimals() : decimals()}));
    if (!b) {
      ways.push_back(rules_.sequence({whole(a + 1, std::nullopt), decimals()}));
    } else {
      if (a + 1 < *b) ways.push_back(rules_.sequence({whole(a + 1, *b - 1), decimals()}));
      if (!below) ways.push_back(rules_.sequence({rules_.text(std::to_string(*b)), zero_decimals()}));
    }
    return rules_.choice(std::move(ways));
  }

 private:
  Rules& rules_;
};

std::uint64_t magnitude(std::int64_t value) { return value < 0 ? ~static_cast<std::uint64_t>(value) + 1 : static_cast<std::uint64_t>(value); }

}  // namespace

Expr integers(Rules& rules, const Bounds& bounds) {
  NumberWriter w(rules);
  std::vector<Expr> ways;
  // -0 is 0.
  if (!bounds.most || *bounds.most >= 0) {
    ways.push_back(w.whole(magnitude(std::max<std::int64_t>(bounds.least.value_or(0), 0)),
                           bounds.most ? std::optional(magnitude(*bounds.most)) : std::nullopt));
  }
  if (!bounds.least || *bounds.least < 0) {
    const std::uint64_t nearest = bounds.most && *bounds.most < 0 ? magnitude(*bounds.most) : 1;
    ways.push_back(rules.sequence({rules.text("-"), w.whole(nearest, bounds.least ? std::optional(magnitude(*bounds.least)) : std::nullopt)}));
  }
  return rules.choice(std::move(ways));
}

Expr numbers(Rules& rules, const Bounds& bounds) {
  NumberWriter w(rules);
  if (bounds.any()) {
    const Expr exponent = rules.optional(rules.sequence({rules.chars({{'e', 'e'}, {'E', 'E'}}), rules.optional(rules.chars({{'+', '+'}, {'-', '-'}})), w.digits(1, 3)}));
    return rules.sequence({rules.optional(rules.text("-")), w.whole(0, std::nullopt), w.decimals(), exponent});
  }
  std::vector<Expr> ways;
  if (!bounds.most || *bounds.most > 0 || (*bounds.most == 0 && !bounds.below_most)) {
    const bool low = bounds.least && *bounds.least >= 0;
    ways.push_back(w.magnitudes(low ? magnitude(*bounds.least) : 0, low && bounds.above_least,
                                bounds.most ? std::optional(magnitude(*bounds.most)) : std::nullopt, bounds.below_most));
  }
  if (!bounds.least || *bounds.least < 0) {
    const bool high = bounds.most && *bounds.most <= 0;
    // Below zero alone, -0.0 is out; above it is in without a sign.
    ways.push_back(rules.sequence({rules.text("-"), w.magnitudes(high ? magnitude(*bounds.most) : 0, !high || *bounds.most == 0 || bounds.below_most,
                                                                 bounds.least ? std::optional(magnitude(*bounds.least)) : std::nullopt, bounds.above_least)}));
  }
  return rules.choice(std::move(ways));
}

}  // namespace bantam::inline v0::grammar
