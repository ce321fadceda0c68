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

  void begin() {
    open_ = false;
    pending_ = {};
  }
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
  bool open_ = false;        // the pre-token at hand has given a part already
  bool last_match_ = false;  // which was a match
  Span pending_;             // a match that waits for its successor
};

/// Finds the matches of a regular expression or a literal in one pre-token after the other.
template <class Next>
std::vector<Span> split(const PreTokens& in, const PreTokenizerStep& step, Next next_match) {
  std::vector<Span> out;
  out.reserve(in.spans.size());
  Cutter cutter(out, step.behavior, step.invert);
  for (const Span& span : in.spans) {
    const std::string_view text = std::string_view(in.text).substr(span.begin, span.size());
    cutter.begin();
    next_match(text, [&](std::size_t begin, std::size_t end, bool match) {
      cutter.part({span.begin + begin, span.begin + end}, match);
    });
    cutter.end();
  }
  return out;
}

void split_by_regex(PreTokens& tokens, const PreTokenizerStep& step, const Regex& regex,
                    const Deadline& deadline) {
  Regex::Matcher matcher(regex, deadline);
  tokens.spans = split(tokens, step, [&](std::string_view text, auto part) {
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t valid = utf8::valid_prefix(text, at);
      matcher.start(text.substr(at, valid));
      std::size_t done = 0;
      for (Span match; matcher.next(match); done = match.end) {
        part(at + done, at + match.begin, false);
        part(at + match.begin, at + match.end, true);
      }
      part(at + done, at + valid, false);
      at += valid;
      if (at < text.size()) {
        part(at, at + 1, false);
        ++at;
      }
    }
  });
}

void split_by_literal(PreTokens& tokens, const PreTokenizerStep& step, std::string_view literal, Behavior behavior) {
  PreTokenizerStep how = step;
  how.behavior = behavior;
  tokens.spans = split(tokens, how, [&](std::string_view text, auto part) {
    std::size_t at = 0;
    for (std::size_t hit; (hit = text.find(literal, at)) != std::string_view::npos; at = hit + literal.size()) {
      part(at, hit, false);
      part(hit, hit + literal.size(), true);
    }
    part(at, text.size(), false);
  });
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
  if (step.cut) split_by_literal(tokens, step, mark, Behavior::merged_with_next);
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
  }
}

PreTokens PreTokenizer::cut(std::string text, bool first, const Deadline& deadline) const {
  using Kind = PreTokenizerStep::Kind;
  PreTokens tokens{std::move(text), {}};
  if (tokens.text.empty()) return tokens;
  tokens.spans.push_back({0, tokens.text.size()});
  for (const Step& step : steps_) {
    switch (step.what.kind) {
      case Kind::split: split_by_regex(tokens, step.what, *step.regex, deadline); break;
      case Kind::split_literal: split_by_literal(tokens, step.what, step.what.pattern, step.what.behavior); break;
      case Kind::metaspace: metaspace(tokens, step.what, first); break;
      case Kind::prefix_space: prefix_space(tokens); break;
    }
  }
  return tokens;
}

}  // namespace bantam::inline v0
