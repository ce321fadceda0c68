// Calls as JSON objects with a name and arguments, one or a list of them.
#include <utility>

#include "text/reply/parser.hpp"

namespace bantam::inline v0::reply {

namespace {

/// A text in quotes; nothing where it is none.
std::string unquoted(std::string_view json) {
  const Json text = Json::parse_or_null(json);
  return text.is_string() ? std::string(text.string()) : std::string();
}

}  // namespace

bool Parser::read_calls() {
  while (at_ < end_) {
    const char c = input_[at_];
    if (reading_) {
      if (!push_member(c)) return broken();
      continue;
    }
    if (c == '{') {
      reading_ = true;
      scanner_ = {};
      call_ = {};
      value_.clear();
      in_member_ = has_arguments_ = false;
      role_ = Role::other;
      (void)scanner_.push(c);
      consume(1);
      continue;
    }
    const bool opens = c == '[' && !list_ && calls_made_ == 0, between = calls_made_ > 0 && (list_ ? c == ',' || c == ']' : c == ';');
    if (!is_white(c) && !opens && !between) {
      if (calls_made_ == 0) return broken();
      ++step_;
      return true;
    }
    list_ = list_ || opens;
    consume(1);
  }
  if (!last_) return false;
  if (reading_ || calls_made_ == 0) return broken();
  ++step_;
  return true;
}

bool Parser::push_member(char c) {
  const bool was_key = scanner_.in_key(), before_value = scanner_.before_value();
  const std::size_t depth = scanner_.depth();
  const JsonScanner::Result result = scanner_.push(c);
  if (result == JsonScanner::Result::wrong) return false;
  consume(1);
  if (depth == 1 && (was_key || scanner_.in_key())) {
    if (!was_key) key_.clear();
    key_ += c;
    if (was_key && !scanner_.in_key()) {
      const std::string name = unquoted(key_);
      role_ = name == "name" || name == "tool_name" || name == "function" ? Role::name
              : name == "arguments" || name == "parameters"             ? Role::arguments
              : name == "id" || name == "tool_call_id"                  ? Role::id
                                                                        : Role::other;
      // Any object begins like this; a call has nothing else.
      if (bare_ && role_ == Role::other && name != "type") return false;
    }
    return true;
  }
  if (depth == 1 && before_value && !is_white(c) && !begin_member(c)) return false;
  if (in_member_) {
    const bool streams = role_ == Role::arguments && value_streams_;
    append_strict(streams && announced_ ? arguments_ : value_, c, scanner_.in_text());
    if (scanner_.depth() == 1 && scanner_.after_value() && !end_member()) return false;
  }
  return result == JsonScanner::Result::more || finish_object();
}

bool Parser::begin_member(char c) {
  in_member_ = role_ != Role::other && (c == '"' || (role_ == Role::arguments && (c == '{' || c == 'n')));
  if (!in_member_) return role_ != Role::arguments && role_ != Role::name;
  // Arguments that came in front of the name wait for it.
  if (role_ == Role::arguments && has_arguments_) return false;
  if (role_ == Role::name && !call_.name.empty()) return false;
  if (role_ != Role::arguments) {
    key_.clear();
    std::swap(key_, value_);  // keeps arguments that wait
    return true;
  }
  has_arguments_ = true;
  value_.clear();
  value_streams_ = c == '{';
  if (value_streams_ && !call_.name.empty()) announce();
  return true;
}

bool Parser::end_member() {
  in_member_ = false;
  if (role_ == Role::arguments) {
    if (value_streams_) return true;
    const std::string json = std::exchange(value_, {});
    if (json == "null") {
      value_ = "{}";
      return true;
    }
    const std::string inner = unquoted(json);
    if (!trimmed(inner).starts_with('{') || !is_json(inner)) return false;
    value_ = inner;
    return true;
  }
  const std::string word = unquoted(value_);
  std::swap(key_, value_);
  if (role_ == Role::id) {
    call_.id = word;
    return true;
  }
  call_.name = word;
  return is_name(word) && (!bare_ || tools_.empty() || tools_.has(word));
}

bool Parser::finish_object() {
  if (call_.name.empty() || (bare_ && !has_arguments_)) return false;
  announce();
  if (!has_arguments_) value_ = "{}";
  arguments_ += std::exchange(value_, {});
  commit();
  return true;
}

bool Parser::take_text_arguments(std::string_view json) {
  const std::string inner = unquoted(json);
  if (!trimmed(inner).starts_with('{') || !is_json(inner)) return false;
  arguments_ = inner;
  return true;
}

}  // namespace bantam::inline v0::reply
