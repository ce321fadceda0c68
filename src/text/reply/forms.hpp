// The forms in which models write reasoning and calls: data that the parser runs.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace bantam::inline v0::reply {

/// What a step of a call's program does. Steps behind a whole call are closing marks, none of which is required.
enum class Op : std::uint8_t {
  literal,       ///< `text` must stand here
  optional,      ///< `text` may
  space,         ///< skips white space
  when,          ///< where `text` stands, it is taken and the program goes on at `to`
  peek,          ///< where one of the bytes of `text` stands, the program goes on at `to`
  jump,          ///< goes on at `to`
  name,          ///< the name of the tool, until one of the bytes of `text`
  id,            ///< the id of the call, until one of the bytes of `text`
  open,          ///< the call begins, its arguments follow as parameters
  key,           ///< the name of an argument, until `text`, which is taken
  value,         ///< its value until `text`, which is taken; its type is the schema's
  value_text,    ///< the same of a text
  value_json,    ///< the same of JSON
  close,         ///< the call is whole
  arguments,     ///< a JSON object: the arguments; the call is whole behind it
  calls,         ///< JSON objects with name and arguments, one or a list of them
  block,         ///< all until `text`, which is taken: ReplyForm::read makes calls of it
  leave,         ///< text again
};

struct Step {
  Op op;
  std::string_view text = {};
  std::uint8_t to = 0;
};

/// A mark that begins a call, and where its program is entered.
struct Begin {
  std::string_view mark;
  std::uint8_t step = 0;
};

/// What turns the inside of a block into calls: sink(name, arguments). False for what is none.
class CallSink;
class Tools;
using ReadBlock = bool (*)(std::string_view block, const Tools& tools, CallSink& sink);

/// Texts that all occur in a template of the form.
using Sign = std::array<std::string_view, 2>;

template <class T>
using List = std::span<const T>;

struct ReplyForm {
  std::string_view name;
  List<Sign> signs = {};  ///< one of them says that a template is of this form
  std::string_view think_begin = {}, think_end = {};
  List<Begin> begins = {};
  List<Step> program = {};
  List<std::string_view> closers = {};  ///< end a list of calls; text elsewhere
  List<std::string_view> dropped = {};  ///< frame replies and their parts; never text
  ReadBlock read = nullptr;
  bool newline_around_values = false;  ///< one in front of a value and one behind it are not part of it
  bool numbered_names = false;         ///< functions.NAME:3 calls NAME
  bool bare_json = false;              ///< a reply that is a JSON object with name and parameters is a call
  bool harmony = false;                ///< messages with headers that say channel and recipient
  bool calls_end_reasoning = false;    ///< marks of calls are tokens of their own, which no thought spells
};

[[nodiscard]] List<ReplyForm> forms();

}  // namespace bantam::inline v0::reply
