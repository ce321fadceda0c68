// Text to tokens, tokens to text, conversations to prompts.
#include <vector>

#include "objects.hpp"

using namespace bantam;
using namespace bantam::capi;

namespace bantam::capi {

EncodeOptions encode_options(std::uint32_t flags) {
  return {.add_special = (flags & BANTAM_ADD_SPECIAL) != 0, .parse_special = (flags & BANTAM_PARSE_SPECIAL) != 0};
}

std::vector<ChatMessage> messages_of(const bantam_message* messages, std::size_t count) {
  if (count != 0) (void)need(messages, "messages");
  std::vector<ChatMessage> out;
  for (std::size_t i = 0; i < count; ++i) {
    const bantam_message& m = messages[i];
    out.push_back({&need(m.role, "role"), std::string(text_of(m.content, m.content_bytes, "content"))});
  }
  return out;
}

std::span<const TokenId> ids_of(const std::int32_t* ids, std::size_t count) {
  if (count != 0) (void)need(ids, "ids");
  return {ids, count};
}

}  // namespace bantam::capi

extern "C" {

bantam_status bantam_tokenize(const bantam_model* model, const char* text, size_t bytes, uint32_t flags, int32_t* ids, size_t capacity,
                              size_t* count) {
  return guarded([&] {
    const Tokenizer& tokenizer = need(model, "model").tokenizer;
    fill_array(tokenizer.encode(text_of(text, bytes, "text"), encode_options(flags)), ids, capacity, count);
  });
}

bantam_status bantam_detokenize(const bantam_model* model, const int32_t* ids, size_t count, uint32_t flags, char* text,
                                size_t capacity, size_t* bytes) {
  return guarded([&] {
    const Tokenizer& tokenizer = need(model, "model").tokenizer;
    fill_text(tokenizer.decode(ids_of(ids, count), (flags & BANTAM_KEEP_SPECIAL) != 0), text, capacity, bytes);
  });
}

bantam_status bantam_token_bytes(const bantam_model* model, int32_t id, char* out, size_t capacity, size_t* bytes) {
  return guarded([&] { fill_text(need(model, "model").tokenizer.piece_bytes(id), out, capacity, bytes); });
}

int bantam_token_ends(const bantam_model* model, int32_t id) {
  return model != nullptr && model->tokenizer.ends_generation(id) ? 1 : 0;
}

size_t bantam_token_count(const bantam_model* model) { return model == nullptr ? 0 : static_cast<std::size_t>(model->tokenizer.vocab_size()); }

bantam_status bantam_model_get_token(const bantam_model* model, int32_t id, bantam_token_info* info) {
  return guarded([&] {
    const Tokenizer& tokenizer = need(model, "model").tokenizer;
    bantam_token_info values = BANTAM_TOKEN_INFO_INIT;
    const std::string_view piece = tokenizer.piece(id);
    values.piece = piece.data();
    values.piece_bytes = piece.size();
    values.score = tokenizer.score(id);
    values.type = static_cast<bantam_token_type>(tokenizer.type(id));
    values.is_special = tokenizer.is_special(id) ? 1 : 0;
    values.ends = tokenizer.ends_generation(id) ? 1 : 0;
    fill_struct(info, values, "info");
  });
}

bantam_status bantam_apply_chat_template(const bantam_model* model, const bantam_message* messages, size_t count,
                                         int add_generation_prompt, char* text, size_t capacity, size_t* bytes) {
  return guarded([&] {
    const Tokenizer& tokenizer = need(model, "model").tokenizer;
    const std::string prompt = chat_prompt(tokenizer, messages_of(messages, count), add_generation_prompt != 0);
    fill_text(prompt, text, capacity, bytes);
  });
}

bantam_status bantam_apply_chat_template_json(const bantam_model* model, const char* json, size_t json_bytes, char* text, size_t capacity,
                                              size_t* bytes) {
  return guarded([&] { fill_text(chat_prompt_json(need(model, "model").tokenizer, text_of(json, json_bytes, "json")), text, capacity, bytes); });
}

bantam_status bantam_render_chat_template(const char* jinja, size_t jinja_bytes, const bantam_message* messages, size_t count,
                                          int add_generation_prompt, char* text, size_t capacity, size_t* bytes) {
  return guarded([&] {
    const ChatTemplate chat(text_of(jinja, jinja_bytes, "jinja"));
    fill_text(chat.render(messages_of(messages, count), {.add_generation_prompt = add_generation_prompt != 0}), text, capacity, bytes);
  });
}

}  // extern "C"
