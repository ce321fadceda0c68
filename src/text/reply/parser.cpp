// Input in, events out; the public classes.
#include "text/reply/parser.hpp"

#include <algorithm>

#include "text/utf8.hpp"

namespace bantam::inline v0 {

namespace reply {

Parser::Parser(const ReplyForm& form, const ReplyOptions& options) : form_(form), tools_(options.tools), call_bytes_(options.call_bytes), calls_(options.calls), reasoning_(options.reasoning) {
  add_marks();
  const std::string_view prompt = options.prompt.substr(0, options.prompt.find_last_not_of(" \t\r\n") + 1);
  if (reasoning_ && !form.think_begin.empty() && prompt.ends_with(form.think_begin)) {
    mode_ = Mode::reasoning;
    strip_ = true;
  }
  if (form.harmony && prompt.ends_with("<|message|>")) {
    const std::size_t start = prompt.rfind("<|start|>");
    const bool thinks = start != prompt.npos && prompt.find("analysis", start) != prompt.npos;
    mode_ = reasoning_ && thinks ? Mode::reasoning : Mode::text;
    at_start_ = false;
  }
}

void Parser::emit(ReplyEvent event) {
  const bool grows = event.kind == Kind::text || event.kind == Kind::reasoning || event.kind == Kind::arguments || event.kind == Kind::markup;
  if (grows && event.text.empty() && event.raw.empty()) return;
  if (grows && !events_.empty() && events_.back().kind == event.kind && events_.back().call == event.call) {
    events_.back().text += event.text;
    events_.back().raw += event.raw;
  } else {
    events_.push_back(std::move(event));
  }
}

Parser::Match Parser::match(std::string_view in, std::string_view literal) const {
  if (in.starts_with(literal)) return Match::yes;
  return !last_ && literal.starts_with(in) ? Match::wait : Match::no;
}

void Parser::run() {
  for (bool more = true; more;) {
    switch (mode_) {
      case Mode::text:
      case Mode::reasoning: more = scan(); break;
      case Mode::header: more = read_header(); break;
      case Mode::call: more = run_call(); break;
    }
  }
}

std::span<const ReplyEvent> Parser::feed(std::string_view piece) {
  events_.clear();
  input_.erase(0, std::exchange(at_, 0));
  input_ += piece;
  // Characters are not cut, so that texts of events are texts.
  end_ = input_.size() - utf8::unfinished_tail(input_);
  run();
  if (announced_) flush_arguments();
  return events_;
}

std::span<const ReplyEvent> Parser::finish() {
  events_.clear();
  end_ = input_.size();
  last_ = true;
  run();
  while (mode_ == Mode::header || mode_ == Mode::call) {
    (void)broken();
    run();
  }
  if (strip_) {
    emit_markup(std::exchange(spaces_, {}));
  } else {
    release_spaces();
  }
  input_.clear();
  at_ = end_ = 0;
  return events_;
}

std::size_t begun_at_end(std::string_view text, std::string_view literal) {
  for (std::size_t size = std::min(text.size(), literal.size() - 1); size > 0; --size) {
    if (literal.starts_with(text.substr(text.size() - size))) return size;
  }
  return 0;
}

}  // namespace reply

class ReplyParser::Impl : public reply::Parser {
 public:
  using reply::Parser::Parser;
};

namespace {

const reply::ReplyForm& form_named(std::string_view name) {
  for (const reply::ReplyForm& form : reply::forms()) {
    if (form.name == name) return form;
  }
  fail(Errc::invalid_argument, "reply form: expected one of ", with_commas(reply::forms(), &reply::ReplyForm::name), ", found ", printable(name));
}

}  // namespace

ReplyParser::ReplyParser(std::string_view form, const ReplyOptions& options) : impl_(std::make_unique<Impl>(form_named(form), options)) {}
ReplyParser::~ReplyParser() = default;
ReplyParser::ReplyParser(ReplyParser&&) noexcept = default;
ReplyParser& ReplyParser::operator=(ReplyParser&&) noexcept = default;

std::span<const ReplyEvent> ReplyParser::feed(std::string_view piece) { return impl_->feed(piece); }
std::span<const ReplyEvent> ReplyParser::finish() { return impl_->finish(); }

std::span<const std::string_view> reply_forms() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> made;
    for (const reply::ReplyForm& form : reply::forms()) made.push_back(form.name);
    return made;
  }();
  return names;
}

std::string_view reply_form_of(std::string_view chat_template) {
  for (const reply::ReplyForm& form : reply::forms()) {
    for (const reply::Sign& sign : form.signs) {
      if (std::all_of(sign.begin(), sign.end(), [&](std::string_view text) { return chat_template.find(text) != chat_template.npos; })) return form.name;
    }
  }
  return "text";
}

std::vector<TokenId> reply_tokens(const Tokenizer& tokenizer, std::string_view form_name) {
  const reply::ReplyForm& form = form_named(form_name);
  std::vector<std::string_view> texts = {form.think_begin, form.think_end};
  for (const reply::Begin& begin : form.begins) texts.push_back(begin.mark);
  for (const reply::Step& step : form.program) texts.push_back(step.text);
  texts.insert(texts.end(), form.closers.begin(), form.closers.end());
  texts.insert(texts.end(), form.dropped.begin(), form.dropped.end());
  if (form.harmony) texts.insert(texts.end(), {"<|channel|>", "<|start|>", "<|message|>"});
  if (form.name == "gemma4") texts.push_back("<|\"|>");
  std::vector<TokenId> ids;
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    if (tokenizer.type(id) != TokenType::control) continue;
    const std::string_view piece = tokenizer.piece(id);
    const auto holds = [&](std::string_view text) { return !piece.empty() && text.find(piece) != text.npos; };
    if (std::any_of(texts.begin(), texts.end(), holds)) ids.push_back(id);
  }
  return ids;
}

void add_event(ParsedReply& reply, std::vector<std::size_t>& calls, const ReplyEvent& event) {
  using Kind = ReplyEvent::Kind;
  const auto place = [&] { return static_cast<std::size_t>(std::find(calls.begin(), calls.end(), event.call) - calls.begin()); };
  switch (event.kind) {
    case Kind::text: reply.text += event.text; break;
    case Kind::reasoning: reply.reasoning += event.text; break;
    case Kind::call:
      calls.push_back(event.call);
      reply.calls.push_back({event.id, event.text, {}});
      break;
    case Kind::arguments:
      // The newest call is the one that grows.
      if (!reply.calls.empty()) reply.calls.back().arguments += event.text;
      break;
    case Kind::call_broken:
      if (const std::size_t at = place(); at < calls.size()) {
        calls.erase(calls.begin() + static_cast<std::ptrdiff_t>(at));
        reply.calls.erase(reply.calls.begin() + static_cast<std::ptrdiff_t>(at));
      }
      reply.text += event.text;
      break;
    case Kind::call_end:
      if (!reply.calls.empty()) reply.calls.back().id = event.id;
      break;
    case Kind::markup: break;
  }
}

ParsedReply parse_reply(std::string_view text, std::string_view form, const ReplyOptions& options) {
  ReplyParser parser(form, options);
  ParsedReply reply;
  std::vector<std::size_t> calls;
  for (const ReplyEvent& event : parser.feed(text)) add_event(reply, calls, event);
  for (const ReplyEvent& event : parser.finish()) add_event(reply, calls, event);
  return reply;
}

}  // namespace bantam::inline v0
