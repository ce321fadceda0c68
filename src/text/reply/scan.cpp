// Text and reasoning: marks found, white space around them taken off; headers of harmony.
#include <algorithm>

#include "text/reply/parser.hpp"

namespace bantam::inline v0::reply {

namespace {

/// White space is held back up to here; no template has more of it in front of a mark.
constexpr std::size_t longest_space = 1024;
/// Headers say a channel, a recipient and a type.
constexpr std::size_t longest_header = 512;
constexpr std::string_view recipient_mark = " to=", channel_mark = "<|channel|>", message_mark = "<|message|>";

}  // namespace

void Parser::add_marks() {
  if (reasoning_ && !form_.think_begin.empty()) marks_.push_back({form_.think_begin, Action::think_begin});
  if (reasoning_ && !form_.think_end.empty()) marks_.push_back({form_.think_end, Action::think_end});
  for (const Begin& begin : form_.begins) {
    if (calls_) marks_.push_back({begin.mark, Action::begin, begin.step});
  }
  for (const std::string_view text : form_.closers) marks_.push_back({text, Action::closer});
  for (const std::string_view text : form_.dropped) marks_.push_back({text, Action::drop});
  if (form_.harmony) marks_.insert(marks_.end(), {{channel_mark, Action::header}, {"<|start|>", Action::header}});
  // The longest one counts where several fit.
  std::stable_sort(marks_.begin(), marks_.end(), [](const Mark& a, const Mark& b) { return a.text.size() > b.text.size(); });
  for (const Mark& mark : marks_) begins_mark_[static_cast<unsigned char>(mark.text[0])] = true;
}

bool Parser::is_active(const Mark& mark) const {
  const bool thinks = mode_ == Mode::reasoning;
  switch (mark.action) {
    case Action::think_begin: return !thinks && !said_;
    case Action::think_end: return thinks || !said_;
    case Action::drop: return !thinks || form_.harmony;
    case Action::closer: return after_call_;
    case Action::begin: return !thinks || form_.calls_end_reasoning;
    case Action::header: return true;
  }
  return false;
}

Parser::Match Parser::find_mark(const Mark*& found) const {
  const std::string_view in = rest();
  for (const Mark& mark : marks_) {
    if (mark.text[0] != in[0] || !is_active(mark)) continue;
    const Match fits = match(in, mark.text);
    found = &mark;
    if (fits != Match::no) return fits;
  }
  return Match::no;
}

void Parser::release_spaces() {
  if (spaces_.empty()) return;
  emit({.kind = mode_ == Mode::reasoning ? Kind::reasoning : Kind::text, .text = spaces_, .raw = spaces_});
  spaces_.clear();
}

void Parser::hold_space(char c) {
  if (strip_) return emit_markup(std::string(1, c));
  spaces_ += c;
  if (spaces_.size() == longest_space) release_spaces();
}

void Parser::say(std::string_view text) {
  release_spaces();
  emit({.kind = mode_ == Mode::reasoning ? Kind::reasoning : Kind::text, .text = std::string(text), .raw = std::string(text)});
  strip_ = false;
  after_call_ = false;
  said_ = said_ || mode_ == Mode::text;
}

bool Parser::scan() {
  if (form_.harmony && at_start_) {
    // The prompt ends inside of the header.
    const Match fits = at_ == end_ && last_ ? Match::no : match(rest(), recipient_mark);
    if (fits == Match::wait) return false;
    at_start_ = false;
    if (fits == Match::yes) {
      raw_.clear();
      resume_ = mode_;
      mode_ = Mode::header;
      return true;
    }
  }
  while (at_ < end_) {
    const char c = input_[at_];
    if (is_white(c)) {
      hold_space(c);
      ++at_;
      continue;
    }
    if (begins_mark_[static_cast<unsigned char>(c)]) {
      const Mark* mark = nullptr;
      const Match fits = find_mark(mark);
      if (fits == Match::wait) return false;
      if (fits == Match::yes) {
        at_ += mark->text.size();
        act(*mark);
        return true;
      }
    }
    if (c == '{' && form_.bare_json && calls_ && !said_ && !after_call_ && next_call_ == 0 && mode_ == Mode::text) {
      begin_call({}, static_cast<std::uint8_t>(0));
      bare_ = true;
      return true;
    }
    std::size_t end = at_ + 1;
    while (end < end_ && !is_white(input_[end]) && !begins_mark_[static_cast<unsigned char>(input_[end])]) ++end;
    say(rest().substr(0, end - at_));
    at_ = end;
  }
  return false;
}

void Parser::act(const Mark& mark) {
  if (mark.action == Action::begin) return begin_call(mark.text, mark.step);
  if (mark.action == Action::header) {
    begin_call(mark.text, 0);
    mode_ = Mode::header;
    return;
  }
  emit_markup(std::exchange(spaces_, {}) + std::string(mark.text));
  strip_ = true;
  if (mark.action == Action::think_begin) mode_ = Mode::reasoning;
  if (mark.action == Action::think_end) said_ = false;
  if (mark.action == Action::think_end || form_.harmony) mode_ = Mode::text;
}

bool Parser::read_header() {
  const std::size_t found = rest().substr(0, longest_header).find(message_mark);
  if (found == std::string_view::npos) return rest().size() < longest_header && !last_ ? false : broken();
  consume(found + message_mark.size());
  apply_header(raw_);
  return true;
}

void Parser::apply_header(std::string_view header) {
  const auto word_behind = [&](std::string_view mark) {
    const std::size_t at = header.find(mark);
    if (at == header.npos) return std::string_view();
    const std::string_view tail = header.substr(at + mark.size());
    return tail.substr(0, tail.find_first_of(" <\n"));
  };
  std::string_view recipient = word_behind(recipient_mark);
  if (recipient.starts_with("functions.")) recipient.remove_prefix(std::string_view("functions.").size());
  if (calls_ && is_name(recipient) && recipient != "assistant" && recipient != "user") {
    call_.name = recipient;
    mode_ = Mode::call;
    return;
  }
  mode_ = reasoning_ && word_behind(channel_mark) == "analysis" ? Mode::reasoning : Mode::text;
  emit_markup(std::exchange(raw_, {}));
  strip_ = true;
}

}  // namespace bantam::inline v0::reply
