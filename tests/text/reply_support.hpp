// What tests of replies share: the laws of the parser.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "bantam/text/reply.hpp"

namespace bantam::test {

/// Adds events, neighbors of one kind and call joined.
inline void join_events(std::vector<ReplyEvent>& events, std::span<const ReplyEvent> more) {
  using Kind = ReplyEvent::Kind;
  for (const ReplyEvent& event : more) {
    const bool grows = event.kind == Kind::text || event.kind == Kind::reasoning || event.kind == Kind::arguments || event.kind == Kind::markup;
    if (grows && !events.empty() && events.back().kind == event.kind && events.back().call == event.call) {
      events.back().text += event.text;
      events.back().raw += event.raw;
    } else {
      events.push_back(event);
    }
  }
}

/// The events of a reply in pieces that `next_size` says.
template <class F>
std::vector<ReplyEvent> events_of(std::string_view form, std::string_view reply, const ReplyOptions& options, F&& next_size) {
  ReplyParser parser(form, options);
  std::vector<ReplyEvent> events;
  while (!reply.empty()) {
    const std::size_t size = std::min<std::size_t>(reply.size(), next_size());
    join_events(events, parser.feed(reply.substr(0, size)));
    reply.remove_prefix(size);
  }
  join_events(events, parser.finish());
  return events;
}

inline std::string printed(const std::vector<ReplyEvent>& events) {
  std::string out;
  for (const ReplyEvent& event : events) {
    out += std::to_string(static_cast<int>(event.kind)) + ":" + std::to_string(event.call) + " [" + event.text + "] id=" + event.id + " raw=[" + event.raw + "]\n";
  }
  return out;
}

inline std::vector<ReplyEvent> check_cuts(std::string_view form, std::string_view reply, const ReplyOptions& options, std::mt19937& random) {
  CAPTURE(form);
  CAPTURE(reply);
  const std::vector<ReplyEvent> whole = events_of(form, reply, options, [&] { return reply.size(); });
  std::string raw;
  for (const ReplyEvent& event : whole) raw += event.raw;
  CHECK(raw == reply);
  CHECK(printed(events_of(form, reply, options, [] { return 1; })) == printed(whole));
  CHECK(printed(events_of(form, reply, options, [&] { return 1 + random() % 9; })) == printed(whole));
  return whole;
}

/// Whatever breaks off: what became no call is there as text.
inline void check_prefixes(std::string_view form, std::string_view reply, const ReplyOptions& options) {
  using Kind = ReplyEvent::Kind;
  CAPTURE(form);
  for (std::size_t size = 0; size <= reply.size(); ++size) {
    const std::string_view prefix = reply.substr(0, size);
    CAPTURE(prefix);
    const std::vector<ReplyEvent> events = events_of(form, prefix, options, [&] { return prefix.size(); });
    // Of each call that began: it is whole, or all of it is text.
    std::size_t shown = 0, calls = 0, call_raw = 0, ended = 0;
    for (const ReplyEvent& event : events) {
      if (event.kind == Kind::call || event.kind == Kind::arguments) call_raw += event.raw.size();
      if (event.kind == Kind::call) ++calls;
      if (event.kind == Kind::call_end) shown += std::exchange(call_raw, 0);
      if (event.kind == Kind::call_end) ++ended;
      if (event.kind == Kind::call_broken) {
        CHECK(event.text.size() == call_raw);
        shown += event.text.size();
        call_raw = 0;
        --calls;
      }
      if (event.kind == Kind::text || event.kind == Kind::reasoning) CHECK(event.text == event.raw);
      if (event.kind == Kind::text || event.kind == Kind::reasoning || event.kind == Kind::markup) shown += event.raw.size();
    }
    CHECK(shown == size);
    CHECK(calls == ended);
  }
}

/// What replies are made of, to be put together at random.
inline std::vector<std::string> reply_pieces() {
  return {"<think>", "</think>", "<tool_call>", "</tool_call>", "<function=f>", "</function>", "<parameter=a>", "</parameter>", "<arg_key>a</arg_key>",
          "<arg_value>", "</arg_value>", "f", "{\"name\": \"f\", \"arguments\": {\"a\": 1}}", "{\"name\": \"f\", \"arg", "uments\": {\"b\": [1, \"\\u00e9\\", "{", "}", "[", "]",
          ",", ";", "\"", ":", " ", "\n", "\n\n", "é", "\xe2\x82", "\xff", "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "[THINK]", "[/THINK]", "<|python_tag|>",
          "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "function<｜tool▁sep｜>f", "\n```json\n", "```", "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>",
          "<|tool_calls_section_begin|>", "<|tool_call_begin|>", "functions.f:0", "<|tool_call_argument_begin|>", "<|tool_call_end|>", "<tool_calls>",
          "</tool_calls>", "<｜DSML｜tool_calls>", "<｜DSML｜invoke name=\"f\">", "<｜DSML｜parameter name=\"a\"", " string=\"true\">", " string=\"false\">",
          "</｜DSML｜parameter>", "</｜DSML｜invoke>", "</｜DSML｜tool_calls>", "]<]minimax[>[", "<tool_call>\n", "<invoke name=\"f\">", "<a>", "</a>", "<item>",
          "</item>", "</invoke>", "<|tool_call>", "call:f{", "a:<|\"|>x<|\"|>", "<tool_call|>", "<|tool_call_start|>", "f(a=1)", "<|tool_call_end|>",
          "<|channel|>", "analysis", "final", "commentary to=functions.f ", " to=functions.f", "<|message|>", "<|end|>", "<|start|>assistant", "<|call|>",
          "<|channel>thought", "<channel|>", "<mm:think>", "</mm:think>", "1", "true", "None", "'x'", "word", "Action:\n```json\n", "<|tool_call:begin|>",
          "<|tool_call:name|>", "<|tool_call:args|>", "<seed:tool_call>", "</seed:tool_call>", "<minimax:tool_call>", "<parameter name=\"a\">"};
}

}  // namespace bantam::test
