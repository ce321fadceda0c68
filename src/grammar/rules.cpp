// Sets of code points, and the building of expressions.
#include "grammar/rules.hpp"

#include <algorithm>

namespace bantam::inline v0::grammar {

CharSet::CharSet(std::vector<CharRange> ranges) {
  std::ranges::sort(ranges, {}, &CharRange::first);
  for (const CharRange& range : ranges) {
    if (!ranges_.empty() && range.first <= ranges_.back().last + 1) {
      ranges_.back().last = std::max(ranges_.back().last, range.last);
    } else {
      ranges_.push_back(range);
    }
  }
}

CharSet CharSet::negated() const {
  std::vector<CharRange> others;
  std::uint32_t next = 0;
  for (const CharRange& range : ranges_) {
    if (range.first > next) others.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= last_code_point) others.push_back({next, last_code_point});
  return CharSet(std::move(others));
}

CharSet CharSet::joined(const CharSet& other) const {
  std::vector<CharRange> both = ranges_;
  both.insert(both.end(), other.ranges_.begin(), other.ranges_.end());
  return CharSet(std::move(both));
}

bool CharSet::holds(std::uint32_t code) const noexcept {
  return std::ranges::any_of(ranges_, [&](const CharRange& range) { return code >= range.first && code <= range.last; });
}

std::uint64_t CharSet::count() const noexcept {
  std::uint64_t sum = 0;
  for (const CharRange& range : ranges_) sum += std::uint64_t{range.last} - range.first + 1;
  return sum;
}

void put_utf8(std::string& out, std::uint32_t code) {
  const auto tail = [&](int shift) { out += static_cast<char>(0x80 | (code >> shift & 0x3f)); };
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xc0 | code >> 6);
    tail(0);
  } else if (code < 0x10000) {
    out += static_cast<char>(0xe0 | code >> 12);
    tail(6), tail(0);
  } else {
    out += static_cast<char>(0xf0 | code >> 18);
    tail(12), tail(6), tail(0);
  }
}

bool take_utf8(std::string_view& text, std::uint32_t& code) {
  if (text.empty()) return false;
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i])); };
  const std::uint32_t lead = byte(0);
  const std::size_t size = lead < 0x80 ? 1 : lead >= 0xc2 && lead < 0xe0 ? 2 : lead >= 0xe0 && lead < 0xf0 ? 3 : lead >= 0xf0 && lead < 0xf5 ? 4 : 0;
  if (size == 0 || text.size() < size) return false;
  code = size == 1 ? lead : lead & (0x7fU >> size);
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return false;
    code = code << 6 | (byte(i) & 0x3f);
  }
  constexpr std::uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  if (code < least[size] || code > CharSet::last_code_point || (code >= 0xd800 && code < 0xe000)) return false;
  text.remove_prefix(size);
  return true;
}

Expr Rules::add(Node node) {
  if (nodes_.size() >= most_nodes || links_.size() >= 4 * most_nodes) {
    fail(Errc::unsupported, "grammar: expected at most ", most_nodes, " expressions, found more");
  }
  nodes_.push_back(node);
  return static_cast<Expr>(nodes_.size() - 1);
}

Expr Rules::add_list(Kind kind, const std::vector<Expr>& parts) {
  const auto first = static_cast<std::uint32_t>(links_.size());
  links_.insert(links_.end(), parts.begin(), parts.end());
  return add({kind, first, static_cast<std::uint32_t>(parts.size()), 0, 0});
}

Expr Rules::text(std::string_view bytes) {
  texts_.emplace_back(bytes);
  return add({Kind::text, static_cast<std::uint32_t>(texts_.size() - 1), 0, 0, 0});
}

Expr Rules::chars(CharSet set) {
  sets_.push_back(std::move(set));
  return add({Kind::chars, static_cast<std::uint32_t>(sets_.size() - 1), 0, 0, 0});
}

Expr Rules::sequence(std::vector<Expr> parts) {
  if (parts.size() == 1) return parts.front();
  return add_list(Kind::sequence, parts);
}

Expr Rules::choice(std::vector<Expr> parts) {
  if (parts.size() == 1) return parts.front();
  return add_list(Kind::choice, parts);
}

Expr Rules::repeat(Expr part, std::int32_t least, std::int32_t most) {
  links_.push_back(part);
  return add({Kind::repeat, static_cast<std::uint32_t>(links_.size() - 1), 1, least, most});
}

Expr Rules::token(TokenName name) {
  tokens_.push_back(std::move(name));
  return add({Kind::token, static_cast<std::uint32_t>(tokens_.size() - 1), 0, 0, 0});
}

Expr Rules::call(Rule rule) { return add({Kind::rule, rule, 0, 0, 0}); }

Rule Rules::declare(std::string name) {
  rules_.push_back({std::move(name), undefined});
  return static_cast<Rule>(rules_.size() - 1);
}

Expr Rules::named(std::string name, Expr body) {
  const Rule rule = declare(std::move(name));
  define(rule, body);
  return call(rule);
}

}  // namespace bantam::inline v0::grammar
