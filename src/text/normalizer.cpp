// Changes a text before it is cut into pre-tokens.
#include "text/normalizer.hpp"

#include <algorithm>
#include <utility>

#include "bantam/core/error.hpp"
#include "text/unicode.hpp"
#include "text/utf8.hpp"

namespace bantam::inline v0 {

namespace {

/// How long a text may become: NFKC makes up to 11 bytes of one, a space that is marked 3.
std::size_t most_bytes(std::size_t text_bytes) { return std::min(64 * text_bytes + 65536, Normalizer::longest); }

[[noreturn]] void swollen(std::size_t limit) {
  fail(Errc::corrupt, "the tokenizer's normalizer makes more than ", limit, " bytes of a text");
}

/// Collects a changed text and refuses one that outgrows its bound.
class Bounded {
 public:
  explicit Bounded(std::size_t limit) : limit_(limit) {}
  void add(std::string_view part) {
    if (part.size() > limit_ - text_.size()) swollen(limit_);
    text_ += part;
  }
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  std::size_t limit_;
  std::string text_;
};

std::string replaced(std::string_view text, std::string_view pattern, std::string_view content, std::size_t limit) {
  Bounded out(limit);
  std::size_t at = 0;
  for (std::size_t hit; (hit = text.find(pattern, at)) != std::string_view::npos; at = hit + pattern.size()) {
    out.add(text.substr(at, hit - at));
    out.add(content);
  }
  out.add(text.substr(at));
  return out.take();
}

std::string replaced(std::string_view text, const Regex& regex, std::string_view content,
                     const Deadline& deadline, std::size_t limit) {
  Regex::Matcher matcher(regex, deadline);
  Bounded out(limit);
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view valid = text.substr(at, utf8::valid_prefix(text, at));
    matcher.start(valid);
    std::size_t done = 0;
    for (Span match; matcher.next(match); done = match.end) {
      out.add(valid.substr(done, match.begin - done));
      out.add(content);
    }
    out.add(valid.substr(done));
    at += valid.size();
    if (at < text.size()) out.add(text.substr(at++, 1));
  }
  return out.take();
}

/// The text without white space at its ends.
std::string_view stripped(std::string_view text, const NormalizerStep& step) {
  const auto space_at = [&](std::size_t at) {
    const utf8::Char c = utf8::decode(text, at);
    return c.valid && unicode::is_space(c.code) ? std::size_t{c.length} : 0;
  };
  while (step.left && !text.empty()) {
    const std::size_t n = space_at(0);
    if (n == 0) break;
    text.remove_prefix(n);
  }
  while (step.right && !text.empty()) {
    std::size_t at = text.size() - 1;
    while (at > 0 && text.size() - at < 3 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) --at;
    if (space_at(at) != text.size() - at) break;
    text.remove_suffix(text.size() - at);
  }
  return text;
}

/// SentencePiece's remove_extra_whitespaces: no spaces at the ends, one where several stand.
std::string collapsed(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c != ' ' || (!out.empty() && out.back() != ' ')) out += c;
  }
  if (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

}  // namespace

Normalizer::Normalizer(const std::vector<NormalizerStep>& steps, std::string_view place) {
  using Kind = NormalizerStep::Kind;
  for (const NormalizerStep& step : steps) {
    const bool replaces = step.kind == Kind::replace || step.kind == Kind::replace_regex;
    if (replaces && step.pattern.empty()) fail(Errc::corrupt, place, ": a replace normalizer with an empty pattern");
    Step ready{step, {}};
    if (step.kind == Kind::replace_regex) ready.regex = Regex::compile(step.pattern, message(place, ": normalizer"));
    steps_.push_back(std::move(ready));
  }
}

std::string Normalizer::apply(std::string_view text, const Deadline& deadline) const {
  using Kind = NormalizerStep::Kind;
  const std::size_t limit = most_bytes(text.size());
  std::string now(text);
  for (const Step& step : steps_) {
    if (now.empty()) break;
    if (now.size() > limit) swollen(limit);
    switch (step.what.kind) {
      case Kind::prepend: now.insert(0, step.what.content); break;
      case Kind::replace: now = replaced(now, step.what.pattern, step.what.content, limit); break;
      case Kind::replace_regex: now = replaced(now, *step.regex, step.what.content, deadline, limit); break;
      case Kind::nfc: now = unicode::normalized(now, unicode::Form::nfc); break;
      case Kind::nfd: now = unicode::normalized(now, unicode::Form::nfd); break;
      case Kind::nfkc: now = unicode::normalized(now, unicode::Form::nfkc); break;
      case Kind::nfkd: now = unicode::normalized(now, unicode::Form::nfkd); break;
      case Kind::strip: now = std::string(stripped(now, step.what)); break;
      case Kind::lowercase: now = unicode::lowered(now); break;
      case Kind::collapse_spaces: now = collapsed(now); break;
    }
  }
  return now;
}

}  // namespace bantam::inline v0
