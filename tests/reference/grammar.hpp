// What rules match, read off them: all ends of an expression in a text. Exponential at worst, right by inspection.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>

#include "bantam/core/random.hpp"
#include "grammar/rules.hpp"

namespace bantam::test::reference {

class GrammarReader {
 public:
  GrammarReader(const grammar::Rules& rules, std::string_view text) : rules_(rules), text_(text) {}
  [[nodiscard]] bool matches() { return ends(rules_.rules()[0].body, 0).contains(text_.size()); }

 private:
  using Ends = std::set<std::size_t>;
  Ends ends(grammar::Expr expr, std::size_t at) {
    const auto key = std::pair(expr, at);
    if (const auto known = known_.find(key); known != known_.end()) return known->second;
    Ends found = find_ends(expr, at);
    known_[key] = found;
    return found;
  }
  Ends find_ends(grammar::Expr expr, std::size_t at) {
    using Kind = grammar::Rules::Kind;
    const auto& node = rules_.node(expr);
    switch (node.kind) {
      case Kind::text: return text_.substr(at).starts_with(rules_.text_of(node)) ? Ends{at + rules_.text_of(node).size()} : Ends{};
      case Kind::chars: {
        std::string_view left = text_.substr(at);
        std::uint32_t code = 0;
        return grammar::take_utf8(left, code) && rules_.set_of(node).holds(code) ? Ends{text_.size() - left.size()} : Ends{};
      }
      case Kind::sequence: {
        Ends here{at};
        for (std::uint32_t i = 0; i < node.count; ++i) {
          Ends next;
          for (const std::size_t end : here) next.merge(Ends(ends(rules_.link(node, i), end)));
          here = next;
        }
        return here;
      }
      case Kind::choice: {
        Ends all;
        for (std::uint32_t i = 0; i < node.count; ++i) all.merge(Ends(ends(rules_.link(node, i), at)));
        return all;
      }
      case Kind::repeat: {
        Ends here{at}, all = node.least == 0 ? here : Ends{};
        for (std::int32_t i = 1; !here.empty() && (node.most < 0 || i <= node.most); ++i) {
          Ends next;
          for (const std::size_t end : here) next.merge(Ends(ends(rules_.link(node, 0), end)));
          const std::size_t before = all.size();
          if (i >= node.least) all.insert(next.begin(), next.end());
          if (i > node.least && all.size() == before && node.most < 0 && i > static_cast<std::int32_t>(text_.size()) + node.least) break;
          here = next;
        }
        return all;
      }
      case Kind::rule: return ends(rules_.rules()[node.first].body, at);
      case Kind::token: return {};
    }
    return {};
  }

  const grammar::Rules& rules_;
  std::string_view text_;
  std::map<std::pair<grammar::Expr, std::size_t>, Ends> known_;
};

/// A text of the rules, drawn at random; false where it would get too long.
class GrammarWriter {
 public:
  GrammarWriter(const grammar::Rules& rules, Random& random) : rules_(rules), random_(random) {}
  [[nodiscard]] bool write(std::string& out) {
    left_ = 2000;
    return write(rules_.rules()[0].body, out, 0);
  }

 private:
  std::uint64_t below(std::uint64_t n) { return static_cast<std::uint64_t>(random_.uniform() * static_cast<double>(n)); }
  bool write(grammar::Expr expr, std::string& out, int depth) {
    using Kind = grammar::Rules::Kind;
    if (--left_ < 0 || depth > 60 || out.size() > 300) return false;
    const auto& node = rules_.node(expr);
    switch (node.kind) {
      case Kind::text: return out += rules_.text_of(node), true;
      case Kind::chars: {
        const auto& ranges = rules_.set_of(node).ranges();
        if (ranges.empty()) return false;
        const auto& range = ranges[below(ranges.size())];
        std::uint32_t code = range.first + static_cast<std::uint32_t>(below(std::min<std::uint64_t>(range.last - range.first + 1, below(4) == 0 ? 0x110000 : 40)));
        if (code >= 0xd800 && code < 0xe000) code = range.first < 0xd800 ? range.first : range.last;
        return grammar::put_utf8(out, code), true;
      }
      case Kind::sequence:
        for (std::uint32_t i = 0; i < node.count; ++i) {
          if (!write(rules_.link(node, i), out, depth + 1)) return false;
        }
        return true;
      case Kind::choice: return node.count > 0 && write(rules_.link(node, static_cast<std::uint32_t>(below(node.count))), out, depth + 1);
      case Kind::repeat: {
        const std::int32_t room = node.most < 0 ? 3 : std::min(node.most - node.least, 5);
        const auto count = node.least + static_cast<std::int32_t>(below(static_cast<std::uint64_t>(room) + 1));
        for (std::int32_t i = 0; i < count; ++i) {
          if (!write(rules_.link(node, 0), out, depth + 1)) return false;
        }
        return true;
      }
      case Kind::rule: return write(rules_.rules()[node.first].body, out, depth + 1);
      case Kind::token: return false;
    }
    return false;
  }

  const grammar::Rules& rules_;
  Random& random_;
  int left_ = 0;
};

}  // namespace bantam::test::reference
