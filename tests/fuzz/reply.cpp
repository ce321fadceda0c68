// Replies: a byte that says the form and the cuts, tools behind a line of JSON, then what a model wrote.
#include "bantam/text/reply.hpp"

#include "fuzz/fuzz.hpp"
#include "io/json.hpp"

namespace bantam::fuzz {

namespace {

using Kind = ReplyEvent::Kind;

/// Neighbors of one kind and call are joined: cuts change nothing else.
void join(std::vector<ReplyEvent>& events, std::span<const ReplyEvent> more) {
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

std::vector<ReplyEvent> events_of(std::string_view form, const ReplyOptions& options, std::string_view reply, std::size_t step) {
  ReplyParser parser(form, options);
  std::vector<ReplyEvent> events;
  for (std::size_t at = 0; at < reply.size(); at += step) join(events, parser.feed(reply.substr(at, step)));
  join(events, parser.finish());
  return events;
}

/// Numbers that no double holds are JSON, but not this library's.
bool has_huge_number(std::string_view json) {
  std::size_t digits = 0;
  for (const char c : json) {
    if (c == 'e' || c == 'E') return true;
    digits = c >= '0' && c <= '9' ? digits + 1 : 0;
    if (digits > 300) return true;
  }
  return false;
}

void run_reply(Bytes bytes) {
  if (bytes.empty()) return;
  const auto choice = static_cast<std::size_t>(bytes[0]);
  std::string_view reply = text_of(bytes.subspan(1));
  const std::string_view form = reply_forms()[choice % reply_forms().size()];
  ReplyOptions options{.prompt = choice % 3 == 0 ? "<think>" : "", .call_bytes = 1 << 12};
  if (const std::size_t line = reply.find('\n'); reply.starts_with("[{") && line != reply.npos) {
    options.tools = reply.substr(0, line);
    reply.remove_prefix(line + 1);
  }
  survives([&] {
    const std::vector<ReplyEvent> whole = events_of(form, options, reply, reply.size() + 1);
    std::string raw;
    for (const ReplyEvent& event : whole) raw += event.raw;
    require(raw == reply, "no byte of a reply is lost");
    require(events_of(form, options, reply, 1) == whole, "a reply byte by byte gives the same events");
    require(events_of(form, options, reply, 2 + choice % 7) == whole, "a reply in pieces gives the same events");
    for (const ToolCall& call : parse_reply(reply, form, options).calls) {
      require(has_huge_number(call.arguments) || Json::parse_or_null(call.arguments).is_object(), "arguments are a JSON object");
    }
  });
}

const Target reply_target("reply", run_reply);

}  // namespace
}  // namespace bantam::fuzz
