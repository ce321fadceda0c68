// One call: the steps of its form's program, and what is told of it.
#include <algorithm>
#include <utility>

#include "text/reply/parser.hpp"

namespace bantam::inline v0::reply {

namespace {

/// Names, ids and names of arguments end within this.
constexpr std::size_t longest_word = 1024;

}  // namespace

void Parser::begin_call(std::string_view mark, std::uint8_t step) {
  // White space in front of a mark belongs to it: where that is none, both are text.
  raw_ = std::exchange(spaces_, {}) + std::string(mark);
  attributed_ = 0;
  announced_ = reading_ = bare_ = list_ = false;
  calls_made_ = 0;
  call_ = {};
  value_.clear();
  resume_ = mode_;
  mode_ = Mode::call;
  step_ = step;
}

void Parser::consume(std::size_t bytes) {
  raw_.append(input_, at_, bytes);
  at_ += bytes;
}

void Parser::announce() {
  if (std::exchange(announced_, true)) return;
  emit({.kind = Kind::call, .call = next_call_++, .text = call_.name, .id = call_.id, .raw = raw_.substr(attributed_)});
  attributed_ = raw_.size();
}

void Parser::flush_arguments() {
  emit({.kind = Kind::arguments, .call = next_call_ - 1, .text = std::exchange(arguments_, {}), .raw = raw_.substr(attributed_)});
  attributed_ = raw_.size();
}

void Parser::commit() {
  announce();
  flush_arguments();
  emit({.kind = Kind::call_end, .call = next_call_ - 1, .id = call_.id});
  raw_.clear();
  attributed_ = 0;
  announced_ = reading_ = false;
  call_ = {};
  value_.clear();
  ++calls_made_;
}

bool Parser::broken() {
  if (announced_) {
    flush_arguments();
    emit({.kind = Kind::call_broken, .call = next_call_ - 1, .text = raw_});
  } else {
    emit({.kind = resume_ == Mode::reasoning ? Kind::reasoning : Kind::text, .text = raw_, .raw = raw_});
  }
  raw_.clear();
  arguments_.clear();
  announced_ = reading_ = false;
  mode_ = resume_;
  said_ = said_ || mode_ == Mode::text;
  strip_ = after_call_ = false;
  return true;
}

void Parser::leave() {
  emit_markup(std::exchange(raw_, {}));
  mode_ = Mode::text;
  strip_ = after_call_ = true;
  said_ = false;
}

bool Parser::run_call() {
  const std::size_t room = call_bytes_ - std::min(call_bytes_, raw_.size());
  const std::string_view in = rest().substr(0, room);
  const bool cut = in.size() < rest().size();
  const std::size_t end = std::exchange(end_, at_ + in.size());
  const bool more = run_step(form_.program[step_], in);
  end_ = end;
  if (!more && mode_ == Mode::call && cut) return broken();
  return more;
}

bool Parser::skip_space() {
  std::size_t count = 0;
  const std::string_view in = rest();
  while (count < in.size() && is_white(in[count])) ++count;
  consume(count);
  return at_ < end_ || last_;
}

bool Parser::run_step(const Step& step, std::string_view in) {
  const auto go = [&](std::size_t to) {
    step_ = to;
    return true;
  };
  switch (step.op) {
    case Op::literal:
    case Op::optional:
    case Op::when: {
      const Match fits = match(in, step.text);
      if (fits == Match::wait) return false;
      if (fits == Match::yes) consume(step.text.size());
      if (step.op == Op::literal && fits == Match::no) return broken();
      return go(step.op == Op::when && fits == Match::yes ? step.to : step_ + 1);
    }
    case Op::space: return skip_space() ? go(step_ + 1) : false;
    case Op::peek:
      if (in.empty()) return last_ ? broken() : false;
      return go(step.text.find(in[0]) != std::string_view::npos ? step.to : step_ + 1);
    case Op::jump: return go(step.to);
    case Op::name:
    case Op::id: return read_word(step, in);
    case Op::open:
      announce();
      arguments_ += '{';
      first_argument_ = true;
      return go(step_ + 1);
    case Op::key: return read_key(step, in);
    case Op::value:
    case Op::value_text:
    case Op::value_json: return read_value(step, in);
    case Op::close:
      arguments_ += '}';
      commit();
      return go(step_ + 1);
    case Op::arguments: return read_arguments();
    case Op::calls: return read_calls();
    case Op::block: return read_block(step, in);
    case Op::leave: leave(); return true;
  }
  return broken();
}

bool Parser::read_word(const Step& step, std::string_view in) {
  const std::size_t end = in.substr(0, longest_word).find_first_of(step.text);
  if (end == in.npos) return in.size() < longest_word && !last_ ? false : broken();
  std::string_view word = trimmed(in.substr(0, end));
  if (!is_name(word)) return broken();
  std::string& into = step.op == Op::id ? call_.id : call_.name;
  into = word;
  if (form_.numbered_names) {
    call_.id = word;
    const std::size_t colon = word.find_last_not_of("0123456789");
    if (colon != word.npos && word[colon] == ':' && colon + 1 < word.size()) word = word.substr(0, colon);
    if (word.starts_with("functions.")) word.remove_prefix(std::string_view("functions.").size());
    if (word.empty()) return broken();
    call_.name = word;
  }
  consume(end);
  ++step_;
  return true;
}

bool Parser::read_key(const Step& step, std::string_view in) {
  const std::size_t end = in.substr(0, longest_word).find(step.text);
  if (end == in.npos) return in.size() < longest_word && !last_ ? false : broken();
  key_ = in.substr(0, end);
  if (key_.empty() || key_.find('\n') != key_.npos) return broken();
  consume(end + step.text.size());
  schema_ = tools_.argument(call_.name, key_);
  if (!std::exchange(first_argument_, false)) arguments_ += ", ";
  arguments_ += in_quotes(key_) + ": ";
  value_begun_ = false;
  ++step_;
  return true;
}

bool Parser::read_value(const Step& step, std::string_view in) {
  if (!value_begun_) {
    if (in.empty()) return last_ ? broken() : false;
    value_begun_ = true;
    value_.clear();
    value_streams_ = step.op == Op::value_text || (step.op == Op::value && !allowed_by(schema_).other);
    if (value_streams_) arguments_ += '"';
    if (form_.newline_around_values && in[0] == '\n') {
      consume(1);
      return true;
    }
  }
  const std::size_t found = in.find(step.text);
  std::size_t size = found != in.npos ? found : in.size() - begun_at_end(in, step.text);
  // The line end in front of the mark.
  if (form_.newline_around_values && size > 0 && in[size - 1] == '\n') --size;
  if (value_streams_) {
    append_quoted(arguments_, in.substr(0, size));
  } else {
    value_ += in.substr(0, size);
  }
  if (found == in.npos) {
    consume(size);
    return last_ ? broken() : false;
  }
  consume(found + step.text.size());
  if (value_streams_) {
    arguments_ += '"';
  } else {
    const std::string_view inner = trimmed(value_);
    arguments_ += step.op == Op::value_json && is_json(inner) ? std::string(inner) : typed(value_, schema_);
  }
  value_.clear();
  ++step_;
  return true;
}

bool Parser::read_block(const Step& step, std::string_view in) {
  const std::size_t found = in.find(step.text);
  const std::size_t size = found != in.npos ? found : in.size() - begun_at_end(in, step.text);
  value_ += in.substr(0, size);
  if (found == in.npos) {
    consume(size);
    return last_ ? broken() : false;
  }
  consume(found + step.text.size());
  CallSink sink;
  if (!form_.read(value_, tools_, sink)) return broken();
  // Values in values may nest deeper than each of them.
  for (const ToolCall& call : sink.calls) {
    if (!is_json(call.arguments)) return broken();
  }
  for (ToolCall& call : sink.calls) {
    call_ = std::move(call);
    announce();
    arguments_ = call_.arguments;
    commit();
  }
  ++step_;
  return true;
}

bool Parser::read_arguments() {
  if (!reading_) {
    if (!skip_space()) return false;
    if (at_ == end_ || (input_[at_] != '{' && input_[at_] != '"')) return broken();
    reading_ = true;
    scanner_ = {};
    value_.clear();
    // JSON in a text is looked at once it is whole.
    value_streams_ = input_[at_] == '{';
    if (value_streams_) announce();
  }
  while (at_ < end_) {
    const char c = input_[at_];
    const JsonScanner::Result result = scanner_.push(c);
    if (result == JsonScanner::Result::wrong) return broken();
    consume(1);
    append_strict(value_streams_ ? arguments_ : value_, c, scanner_.in_text());
    if (result == JsonScanner::Result::more) continue;
    if (!value_streams_ && !take_text_arguments(value_)) return broken();
    commit();
    ++step_;
    return true;
  }
  return last_ ? broken() : false;
}

}  // namespace bantam::inline v0::reply
