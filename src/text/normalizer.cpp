// Changes a text before it is cut into pre-tokens.
#include "text/normalizer.hpp"

#include <algorithm>
#include <utility>

#include "bantam/core/error.hpp"
#include "text/base64.hpp"
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

/// SentencePiece's remove_extra_whitespaces: no spaces at the ends, one where several stand. At the end what spaces become counts
/// as one, too.
std::string collapsed(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c != ' ' || (!out.empty() && out.back() != ' ')) out += c;
  }
  for (;;) {
    const std::size_t end = out.ends_with(' ') ? 1 : out.ends_with(low_line) ? low_line.size() : 0;
    if (end == 0) return out;
    out.resize(out.size() - end);
  }
}

std::shared_ptr<const Charsmap> read_charsmap(std::string_view text, std::string_view place) {
  if (text.size() > limits::charsmap_bytes) {
    fail(Errc::unsupported, place, ": a character map of ", text.size(), " bytes, at most ", limits::charsmap_bytes, " are read");
  }
  const auto bytes = bytes_of_base64(text);
  if (!bytes) fail(Errc::corrupt, place, ": a character map that is not base64");
  return std::make_shared<const Charsmap>(*bytes, place);
}

}  // namespace

Normalizer::Normalizer(const std::vector<NormalizerStep>& steps, std::string_view place, Literals untouched)
    : untouched_(std::move(untouched)) {
  using Kind = NormalizerStep::Kind;
  for (const NormalizerStep& step : steps) {
    const bool replaces = step.kind == Kind::replace || step.kind == Kind::replace_regex;
    if (replaces && step.pattern.empty()) fail(Errc::corrupt, place, ": a replace normalizer with an empty pattern");
    Step ready{step, {}, {}};
    if (step.kind == Kind::charsmap || step.kind == Kind::grapheme_charsmap) {
      ready.charsmap = read_charsmap(step.content, place);
      ready.what.content.clear();
    }
    if (step.kind == Kind::replace_regex) ready.regex = Regex::compile(step.pattern, message(place, ": normalizer"));
    steps_.push_back(std::move(ready));
  }
}

std::string Normalizer::mapped(std::string_view text, const Step& step) const {
  const auto map = [&](std::string_view part) {
    return step.what.kind == NormalizerStep::Kind::charsmap ? step.charsmap->apply(part) : step.charsmap->apply_to_graphemes(part);
  };
  std::string out;
  std::size_t done = 0;
  for (Literals::Hit hit; untouched_.find(text, done, hit); done = hit.end) {
    out += map(text.substr(done, hit.begin - done));
    out += text.substr(hit.begin, hit.end - hit.begin);
  }
  return done == 0 ? map(text) : out + map(text.substr(done));
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
      case Kind::append: now += step.what.content; break;
      case Kind::replace: now = replaced(now, step.what.pattern, step.what.content, limit); break;
      case Kind::replace_regex: now = replaced(now, *step.regex, step.what.content, deadline, limit); break;
      case Kind::nfc: now = unicode::normalized(now, unicode::Form::nfc); break;
      case Kind::nfd: now = unicode::normalized(now, unicode::Form::nfd); break;
      case Kind::nfkc: now = unicode::normalized(now, unicode::Form::nfkc); break;
      case Kind::nfkd: now = unicode::normalized(now, unicode::Form::nfkd); break;
      case Kind::strip: now = std::string(stripped(now, step.what)); break;
      case Kind::lowercase: now = unicode::lowered(now); break;
      case Kind::collapse_spaces: now = collapsed(now); break;
      case Kind::clean: now = unicode::cleaned(now); break;
      case Kind::space_ideographs: now = unicode::with_spaced_ideographs(now); break;
      case Kind::drop_marks: now = unicode::without_marks(now, unicode::Marks::all); break;
      case Kind::drop_nonspacing: now = unicode::without_marks(now, unicode::Marks::nonspacing); break;
      case Kind::nmt: now = unicode::nmt_cleaned(now); break;
      case Kind::charsmap:
      case Kind::grapheme_charsmap: now = mapped(now, step); break;
      case Kind::spell_bytes: now = utf8::spelled(now); break;
    }
  }
  if (now.size() > limit) swollen(limit);
  return now;
}

}  // namespace bantam::inline v0
