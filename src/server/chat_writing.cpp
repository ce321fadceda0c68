// Replies of chats: events of the parser as parts that begin, grow and end.
#include <algorithm>

#include "server/chat.hpp"

namespace bantam::server {

bool ChatReply::calls() const {
  return std::ranges::any_of(parts, [](const ReplyPart& part) { return part.kind == ReplyPart::Kind::call && !part.broken; });
}

ParsedReply ChatReply::parsed() const {
  ParsedReply all;
  for (const ReplyPart& part : parts) {
    if (part.kind == ReplyPart::Kind::text) all.text += part.text;
    if (part.kind == ReplyPart::Kind::reasoning) all.reasoning += part.text;
    if (part.kind == ReplyPart::Kind::call && !part.broken) all.calls.push_back({.id = part.id, .name = part.name, .arguments = part.text});
  }
  return all;
}

Json function_call(const std::string& id, const std::string& name, const std::string& arguments) {
  Json function = {{"name", name}, {"arguments", arguments}};
  return {{"id", id}, {"type", "function"}, {"function", std::move(function)}};
}

Json ChatReply::message() const {
  const ParsedReply all = parsed();
  Json calls = Json::array();
  for (const ToolCall& call : all.calls) calls.push_back(function_call(call.id, call.name, call.arguments));
  Json said = Json::object();
  said["role"] = "assistant";
  said["content"] = all.text.empty() && !calls.empty() ? Json() : Json(all.text);
  if (!all.reasoning.empty()) said["reasoning_content"] = all.reasoning;
  if (!calls.empty()) said["tool_calls"] = std::move(calls);
  return said;
}

ChatWriting::ChatWriting(App& app, std::shared_ptr<Exchange> exchange, ChatAsked chat)
    : Writing(app, std::move(exchange), std::move(chat.asked)), tools_(std::move(chat.tools)), prompt_(std::move(chat.prompt)) {
  const std::string tools = tools_text(tools_);
  const bool forced = tools_.use == ToolUse::must;
  const std::string_view form = forced ? "llama-3" : chat.is_plain ? "text" : this->app().reply_form;
  const ReplyOptions options{.prompt = chat.is_plain ? std::string_view() : std::string_view(prompt_),
                             .tools = tools,
                             .calls = forced || (tools_.use == ToolUse::free && !chat.is_plain),
                             .reasoning = chat.reasoning_apart};
  for (int i = 0; i < asked().texts.count; ++i) open_.push_back({.parser = ReplyParser(form, options)});
  replies_.resize(open_.size());
}

void ChatWriting::take(const Update& update) {
  const std::size_t text = update.text;
  ChatReply& reply = replies_[text];
  Open& open = open_[text];
  const bool ends = update.end != TextEnd::running;
  reply.stats = update.stats;
  scored_.insert(scored_.end(), update.prompt.begin(), update.prompt.end());
  if (asked().logprobs) {
    for (const DrawnToken& token : update.tokens) reply.logprobs.push_back(logprob_entry(token));
  }
  if (asked().stream && !open.begun) begin_reply(text);
  const bool first = !std::exchange(open.begun, true);
  for (const DrawnToken& token : update.tokens) {
    open.tokens.push_back(token.id);
    if (asked().token_ids) reply.tokens.push_back(token.id);
  }
  if (tools_.use == ToolUse::named) {
    if (first) open_part(text, {.kind = ReplyPart::Kind::call, .id = random_id("call_", 24), .name = tools_.name});
    grow(text, 0, update.piece);
  } else {
    for (const ReplyEvent& event : open.parser.feed(update.piece)) take_event(text, event);
    if (!reply.parts.empty() && reply.parts.back().kind == ReplyPart::Kind::reasoning) reply.reasoning_tokens += std::ssize(update.tokens);
    if (ends) {
      for (const ReplyEvent& event : open.parser.finish()) take_event(text, event);
    }
  }
  if (!ends) return;
  reply.end = update.end;
  reply.stop_text = update.stop_text;
  close_part(text);
  remember(text);
  if (asked().stream) end_reply(text);
}

/// For when the client sends the reply back.
void ChatWriting::remember(std::size_t text) {
  // Of a stop text there are tokens that nobody was told of; and a prompt that was cut is not what its text says.
  if (!asked().texts.reuse || asked().is_cut || !replies_[text].stop_text.empty()) return;
  std::vector<TokenId> tokens = asked().texts.prompts.front();
  tokens.insert(tokens.end(), open_[text].tokens.begin(), open_[text].tokens.end());
  app().replays.add(prompt_, std::move(tokens), replies_[text].parsed());
}

void ChatWriting::take_event(std::size_t text, const ReplyEvent& event) {
  using Kind = ReplyEvent::Kind;
  ChatReply& reply = replies_[text];
  Open& open = open_[text];
  switch (event.kind) {
    case Kind::text: return grow_kind(text, ReplyPart::Kind::text, event.text);
    case Kind::reasoning: return grow_kind(text, ReplyPart::Kind::reasoning, event.text);
    case Kind::call:
      open_part(text, {.kind = ReplyPart::Kind::call, .id = event.id.empty() ? random_id("call_", 24) : event.id, .name = event.text});
      open.calls.resize(std::max(open.calls.size(), event.call + 1));
      open.calls[event.call] = *open.part;
      return;
    case Kind::arguments: return grow(text, open.calls[event.call], event.text);
    case Kind::call_end:
      // A stream said another one already.
      if (!event.id.empty() && !asked().stream) reply.parts[open.calls[event.call]].id = event.id;
      return close_part(text);
    case Kind::call_broken:
      reply.parts[open.calls[event.call]].broken = true;
      close_part(text);
      return grow_kind(text, ReplyPart::Kind::text, event.text);
    case Kind::markup: return;
  }
}

void ChatWriting::open_part(std::size_t text, ReplyPart part) {
  close_part(text);
  replies_[text].parts.push_back(std::move(part));
  open_[text].part = replies_[text].parts.size() - 1;
  if (asked().stream) begin_part(text, *open_[text].part);
}

void ChatWriting::close_part(std::size_t text) {
  const std::optional<std::size_t> part = std::exchange(open_[text].part, std::nullopt);
  if (part && asked().stream) end_part(text, *part);
}

void ChatWriting::grow(std::size_t text, std::size_t part, std::string_view piece) {
  if (piece.empty()) return;
  replies_[text].parts[part].text += piece;
  if (asked().stream) say_piece(text, part, piece);
}

void ChatWriting::grow_kind(std::size_t text, ReplyPart::Kind kind, std::string_view piece) {
  if (piece.empty()) return;
  const std::optional<std::size_t>& part = open_[text].part;
  if (!part || replies_[text].parts[*part].kind != kind) open_part(text, {.kind = kind});
  grow(text, *open_[text].part, piece);
}

}  // namespace bantam::server
