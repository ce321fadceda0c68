// Replies told apart while they stream.
#include "bantam/text/reply.hpp"

#include "objects.hpp"

using namespace bantam;
using namespace bantam::capi;

struct bantam_reply {
  ReplyParser parser;
  std::span<const ReplyEvent> events;
};

extern "C" {

const char* bantam_model_reply_form(const bantam_model* model) {
  // The names are literals.
  return model == nullptr ? "text" : reply_form_of(model->tokenizer.chat_template()).data();
}

bantam_status bantam_reply_new(bantam_reply** reply, const char* form, const char* prompt, size_t prompt_bytes, const char* tools, size_t tools_bytes) {
  return guarded([&] {
    bantam_reply*& out = need(reply, "reply");
    const ReplyOptions options{.prompt = prompt == nullptr ? std::string_view() : text_of(prompt, prompt_bytes, "prompt"),
                               .tools = tools == nullptr ? std::string_view() : text_of(tools, tools_bytes, "tools"),
                               .calls = tools != nullptr};
    out = new bantam_reply{ReplyParser(&need(form, "form"), options), {}};
  });
}

bantam_status bantam_reply_feed(bantam_reply* reply, const char* piece, size_t bytes, size_t* events) {
  return guarded([&] {
    bantam_reply& r = need(reply, "reply");
    size_t& count = need(events, "events");
    r.events = {};
    r.events = r.parser.feed(text_of(piece, bytes, "piece"));
    count = r.events.size();
  });
}

bantam_status bantam_reply_finish(bantam_reply* reply, size_t* events) {
  return guarded([&] {
    bantam_reply& r = need(reply, "reply");
    size_t& count = need(events, "events");
    r.events = {};
    r.events = r.parser.finish();
    count = r.events.size();
  });
}

bantam_status bantam_reply_get_event(const bantam_reply* reply, size_t index, bantam_reply_event* event) {
  return guarded([&] {
    const bantam_reply& r = need(reply, "reply");
    if (index >= r.events.size()) fail(Errc::invalid_argument, "event ", index, ": expected one below ", r.events.size());
    const ReplyEvent& from = r.events[index];
    bantam_reply_event values = BANTAM_REPLY_EVENT_INIT;
    values.kind = static_cast<bantam_reply_kind>(from.kind);
    values.call = from.call;
    values.text = from.text.c_str();
    values.text_bytes = from.text.size();
    values.id = from.id.c_str();
    values.id_bytes = from.id.size();
    values.raw = from.raw.c_str();
    values.raw_bytes = from.raw.size();
    fill_struct(event, values, "event");
  });
}

void bantam_reply_free(bantam_reply* reply) { delete reply; }

}  // extern "C"
