// Cuts a normalized text into pre-tokens, which merges never cross.
#include "text/pre_tokenizer.hpp"

#include <utility>

#include "bantam/core/error.hpp"
#include "text/utf8.hpp"

namespace bantam::inline v0 {

namespace {

using Behavior = PreTokenizerStep::Behavior;
using Prepend = PreTokenizerStep::Prepend;

/// Collects the parts of one pre-token, matches and what lies between them, as a behavior wants them.
class Cutter {
 public:
  Cutter(std::vector<Span>& out, Behavior behavior, bool invert) : out_(out), behavior_(behavior), invert_(invert) {}

  void part(Span span, bool match) {
    if (span.size() == 0) return;
    match = match != invert_;
    switch (behavior_) {
      case Behavior::isolated: out_.push_back(span); break;
      case Behavior::removed:
        if (!match) out_.push_back(span);
        break;
      case Behavior::merged_with_previous:
        // A match joins what stands before it, unless that is a match itself.
        if (match && open_ && !last_match_) {
          out_.back().end = span.end;
        } else {
          out_.push_back(span);
        }
        break;
      case Behavior::merged_with_next:
        // A match waits for what comes after it; of two in a row the first stands alone.
        if (match) {
          if (pending_.size() > 0) out_.push_back(pending_);
          pending_ = span;
        } else {
          out_.push_back({pending_.size() > 0 ? pending_.begin : span.begin, span.end});
          pending_ = {};
        }
        break;
      case Behavior::contiguous:
        if (open_ && last_match_ == match) {
          out_.back().end = span.end;
        } else {
          out_.push_back(span);
        }
        break;
    }
    open_ = true;
    last_match_ = match;
  }
  void end() {
    if (pending_.size() > 0) out_.push_back(pending_);
  }

 private:
  std::vector<Span>& out_;
  Behavior behavior_;
  bool invert_;
  bool open_ = false;        // there was a part already
  bool last_match_ = false;  // which was a match
  Span pending_;             // a match that waits for its successor
};

/// Cuts around the matches of an expression.
void split_by_regex(std::string_view text, Regex::Matcher& matcher, Cutter& cutter) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t valid = utf8::valid_prefix(text, at);
    matcher.start(text.substr(at, valid));
    std::size_t done = 0;
    for (Span match; matcher.next(match); done = match.end) {
      cutter.part({at + done, at + match.begin}, false);
      cutter.part({at + match.begin, at + match.end}, true);
    }
    cutter.part({at + done, at + valid}, false);
    at += valid;
    if (at < text.size()) {
      cutter.part({at, at + 1}, false);
      ++at;
    }
  }
}

void split_by_literal(std::string_view text, std::string_view literal, Cutter& cutter) {
  std::size_t at = 0;
  for (std::size_t hit; (hit = text.find(literal, at)) != std::string_view::npos; at = hit + literal.size()) {
    cutter.part({at, hit}, false);
    cutter.part({hit, hit + literal.size()}, true);
  }
  cutter.part({at, text.size()}, false);
}

/// Rewrites every pre-token: change(text, index) returns its new text.
template <class Change>
void rewrite(PreTokens& tokens, Change change) {
  PreTokens out;
  out.spans.reserve(tokens.spans.size());
  out.text.reserve(tokens.text.size() + tokens.spans.size());
  for (const Span& span : tokens.spans) {
    const std::size_t begin = out.text.size();
    change(std::string_view(tokens.text).substr(span.begin, span.size()), span.begin, out.text);
    if (out.text.size() > 0x7fffffff) fail(Errc::invalid_argument, "the pre-tokenized text has more than 2147483647 bytes");
    out.spans.push_back({begin, out.text.size()});
  }
  tokens = std::move(out);
}

void metaspace(PreTokens& tokens, const PreTokenizerStep& step, bool first) {
  const std::string& mark = step.pattern;
  rewrite(tokens, [&](std::string_view text, std::size_t at, std::string& out) {
    const bool marked = text.starts_with(mark) || text.starts_with(' ');
    const bool prepends = step.prepend == Prepend::always || (step.prepend == Prepend::first && first && at == 0);
    if (prepends && !marked) out += mark;
    for (const char c : text) {
      if (c == ' ') {
        out += mark;
      } else {
        out += c;
      }
    }
  });
}

void prefix_space(PreTokens& tokens) {
  rewrite(tokens, [](std::string_view text, std::size_t, std::string& out) {
    if (!text.starts_with(' ')) out += ' ';
    out += text;
  });
}

}  // namespace

PreTokenizer::PreTokenizer(const std::vector<PreTokenizerStep>& steps, std::string_view place) {
  using Kind = PreTokenizerStep::Kind;
  for (const PreTokenizerStep& step : steps) {
    if (step.kind != Kind::prefix_space && step.pattern.empty()) {
      fail(Errc::corrupt, place, ": a pre-tokenizer step with an empty pattern");
    }
    Step ready{step, {}};
    if (step.kind == Kind::split) ready.regex = Regex::compile(step.pattern, message(place, ": pre_tokenizer"));
    steps_.push_back(std::move(ready));
    if (step.kind == Kind::metaspace || step.kind == Kind::prefix_space) first_split_ = steps_.size();
  }
}

PreTokens PreTokenizer::cut(std::string text, bool first, const Deadline& deadline) const {
  Cutting cutting(*this, deadline);
  PreTokens tokens = cutting.begun(std::move(text), first);
  for (std::size_t step = cutting.first(); step < cutting.end(); ++step) cutting.split_all(step, tokens);
  return tokens;
}

PreTokenizer::Cutting::Cutting(const PreTokenizer& steps, const Deadline& deadline)
    : steps_(steps), deadline_(deadline), matchers_(steps.steps_.size()), spans_(steps.steps_.size()) {}

PreTokens PreTokenizer::Cutting::begun(std::string text, bool first) {
  using Kind = PreTokenizerStep::Kind;
  PreTokens tokens{std::move(text), {}};
  if (tokens.text.empty()) return tokens;
  tokens.spans.push_back({0, tokens.text.size()});
  for (std::size_t step = 0; step < steps_.first_split_; ++step) {
    const PreTokenizerStep& what = steps_.steps_[step].what;
    if (what.kind == Kind::metaspace) metaspace(tokens, what, first);
    if (what.kind == Kind::prefix_space) prefix_space(tokens);
    if (what.kind != Kind::prefix_space && (what.kind != Kind::metaspace || what.cut)) split_all(step, tokens);
  }
  return tokens;
}

const std::vector<Span>& PreTokenizer::Cutting::split(std::size_t step, std::string_view text) {
  using Kind = PreTokenizerStep::Kind;
  const auto& [what, regex] = steps_.steps_[step];
  std::vector<Span>& out = spans_[step];
  out.clear();
  Cutter cutter(out, what.kind == Kind::metaspace ? Behavior::merged_with_next : what.behavior, what.invert);
  if (what.kind == Kind::split) {
    if (!matchers_[step]) matchers_[step].emplace(*regex, deadline_);
    split_by_regex(text, *matchers_[step], cutter);
  } else {
    split_by_literal(text, what.pattern, cutter);
  }
  cutter.end();
  return out;
}

void PreTokenizer::Cutting::split_all(std::size_t step, PreTokens& tokens) {
  std::vector<Span> spans;
  spans.reserve(tokens.spans.size());
  for (const Span& span : tokens.spans) {
    for (const Span& part : split(step, std::string_view(tokens.text).substr(span.begin, span.size()))) {
      spans.push_back({span.begin + part.begin, span.begin + part.end});
    }
  }
  tokens.spans = std::move(spans);
}

}  // namespace bantam::inline v0
