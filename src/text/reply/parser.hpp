// The parser of replies: text and reasoning with marks in them, and programs that read calls.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "bantam/text/reply.hpp"
#include "text/reply/blocks.hpp"
#include "text/reply/forms.hpp"
#include "text/reply/json_scanner.hpp"
#include "text/reply/values.hpp"

namespace bantam::inline v0::reply {

class Parser {
 public:
  Parser(const ReplyForm& form, const ReplyOptions& options);
  std::span<const ReplyEvent> feed(std::string_view piece);
  std::span<const ReplyEvent> finish();

 private:
  using Kind = ReplyEvent::Kind;
  enum class Mode : std::uint8_t { text, reasoning, header, call };
  enum class Match : std::uint8_t { yes, no, wait };
  enum class Action : std::uint8_t { think_begin, think_end, drop, closer, begin, header };
  struct Mark {
    std::string_view text;
    Action action;
    std::uint8_t step = 0;
  };
  /// What a member of a call's object says.
  enum class Role : std::uint8_t { other, name, id, arguments };

  // parser.cpp: events and the input
  void run();
  void emit(ReplyEvent event);
  void emit_markup(std::string raw) { emit({.kind = Kind::markup, .raw = std::move(raw)}); }
  /// What is there and not read yet.
  [[nodiscard]] std::string_view rest() const { return std::string_view(input_).substr(at_, end_ - at_); }
  [[nodiscard]] Match match(std::string_view in, std::string_view literal) const;

  // scan.cpp: text and reasoning
  bool scan();
  void add_marks();
  [[nodiscard]] bool is_active(const Mark& mark) const;
  [[nodiscard]] Match find_mark(const Mark*& found) const;
  void act(const Mark& mark);
  void say(std::string_view text);
  void hold_space(char c);
  /// White space that was held back is text after all.
  void release_spaces();
  bool read_header();
  void apply_header(std::string_view header);

  // call.cpp: one call, or a list of them
  void begin_call(std::string_view mark, std::uint8_t step);
  /// One step of the program; false where more has to come.
  bool run_call();
  bool run_step(const Step& step, std::string_view in);
  void consume(std::size_t bytes);
  bool skip_space();
  bool read_word(const Step& step, std::string_view in);
  bool read_key(const Step& step, std::string_view in);
  bool read_value(const Step& step, std::string_view in);
  bool read_block(const Step& step, std::string_view in);
  bool read_arguments();
  void announce();
  void flush_arguments();
  void commit();
  bool broken();
  void leave();

  // call_object.cpp: {"name": "f", "arguments": {...}}
  bool read_calls();
  /// One more byte of an object; false where it is no call's.
  bool push_member(char c);
  bool begin_member(char c);
  bool end_member();
  bool finish_object();
  bool take_text_arguments(std::string_view json);

  const ReplyForm& form_;
  Tools tools_;
  std::size_t call_bytes_;
  bool calls_, reasoning_;
  std::vector<Mark> marks_;
  std::array<bool, 256> begins_mark_{};

  std::string input_;
  std::size_t at_ = 0, end_ = 0;
  bool last_ = false;
  std::vector<ReplyEvent> events_;

  Mode mode_ = Mode::text;
  bool at_start_ = true;
  bool strip_ = false;       ///< white space at the beginning of a part is none of it
  bool said_ = false;        ///< text came since the start, the reasoning or a call
  bool after_call_ = false;  ///< nothing but white space came since a call
  std::string spaces_;       ///< white space that may be the end of a part

  Mode resume_ = Mode::text;  ///< where a broken call belongs
  std::size_t step_ = 0;
  std::string raw_;             ///< of a call, from its mark on
  std::size_t attributed_ = 0;  ///< bytes of it that are in events
  bool announced_ = false;
  std::size_t next_call_ = 0;
  ToolCall call_;
  std::string arguments_;  ///< not yet in an event
  bool first_argument_ = true;
  bool value_begun_ = false, value_streams_ = false;
  std::string key_, value_;
  const Json* schema_ = nullptr;

  JsonScanner scanner_;
  bool reading_ = false;  ///< inside of a JSON object
  bool bare_ = false, list_ = false, in_member_ = false, has_arguments_ = false;
  std::size_t calls_made_ = 0;
  Role role_ = Role::other;
};

[[nodiscard]] inline bool is_white(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

/// How many bytes at the end of a text begin `literal`, all of which is not there.
[[nodiscard]] std::size_t begun_at_end(std::string_view text, std::string_view literal);

}  // namespace bantam::inline v0::reply
