// Tokenizers alone, vocabularies, metadata, conversations as JSON, progress of loads.
#include <cstring>

#include "support.hpp"

using namespace capi_test;

namespace {

/// The bundled model with a chat template.
class ChattyFolder {
 public:
  ChattyFolder() {
    for (const char* name : {"config.json", "model.safetensors", "tokenizer.json"}) {
      std::filesystem::copy_file(model_path() + "/" + name, folder_ / name);
    }
    std::ofstream(folder_ / "tokenizer_config.json")
        << R"({"bos_token":"<s>","chat_template":"{% if tools %}{{ tools | length }} tools\n{% endif %}{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}"})";
  }
  [[nodiscard]] std::string path() const { return folder_ / ""; }

 private:
  Folder folder_;
};

template <class Call>
std::string text_from(Call&& call) {
  std::size_t size = 0;
  REQUIRE_OK(call(nullptr, 0, &size));
  std::string text(size, '?');
  REQUIRE_OK(call(text.data(), size, &size));
  return text;
}

}  // namespace

TEST_CASE("a tokenizer alone does what a model's does, and refuses the rest with a word") {
  const auto model = load();
  const Folder folder;
  std::filesystem::copy(model_path() + "/tokenizer.json", folder / "tokenizer.json");
  bantam_model* made = nullptr;
  REQUIRE_OK(bantam_model_load_tokenizer(&made, (folder / "").c_str()));
  const Owned<bantam_model> alone(made);
  CHECK(tokenize(alone.get(), "Grüße, said the old man") == tokenize(model.get(), "Grüße, said the old man"));
  CHECK(bantam_token_count(alone.get()) == bantam_token_count(model.get()));
  bantam_model_info info = BANTAM_MODEL_INFO_INIT;
  REQUIRE_OK(bantam_model_get_info(alone.get(), &info));
  CHECK(info.vocabulary == 4096);
  CHECK(info.layers == 0);
  CHECK(std::string(info.architecture).empty());
  CHECK(bantam_model_tensor_count(alone.get()) == 0);
  CHECK(bantam_model_metadata_count(alone.get()) == 0);
  bantam_session* session = nullptr;
  CHECK(bantam_session_new(&session, alone.get(), nullptr) == BANTAM_INVALID_ARGUMENT);
  CHECK(std::string(bantam_last_error()).find("tokenizer alone") != std::string::npos);
  bantam_sampler* sampler = nullptr;
  CHECK(bantam_sampler_new(&sampler, alone.get(), nullptr) == BANTAM_INVALID_ARGUMENT);
  CHECK(bantam_model_save(alone.get(), (folder / "x").c_str()) == BANTAM_INVALID_ARGUMENT);
  bantam_model* small = nullptr;
  CHECK(bantam_model_compress(&small, alone.get(), nullptr) == BANTAM_INVALID_ARGUMENT);
  bantam_tensor_info tensor = BANTAM_TENSOR_INFO_INIT;
  CHECK(bantam_model_get_tensor(alone.get(), 0, &tensor) == BANTAM_INVALID_ARGUMENT);
  bantam_weights* weights = nullptr;
  CHECK(bantam_weights_of_model(&weights, alone.get(), "lm_head") == BANTAM_INVALID_ARGUMENT);
  bantam_perplexity_result result = BANTAM_PERPLEXITY_RESULT_INIT;
  CHECK(bantam_model_perplexity(alone.get(), nullptr, "a", 1, nullptr, &result) == BANTAM_INVALID_ARGUMENT);
  CHECK(bantam_model_perplexity(model.get(), alone.get(), "a", 1, nullptr, &result) == BANTAM_INVALID_ARGUMENT);
  CHECK(bantam_model_load_tokenizer(&made, "/no/such") == BANTAM_NOT_FOUND);
}

TEST_CASE("the vocabulary can be listed") {
  const auto model = load();
  int special = 0, ends = 0;
  for (std::int32_t id = 0; id < static_cast<std::int32_t>(bantam_token_count(model.get())); ++id) {
    bantam_token_info info = BANTAM_TOKEN_INFO_INIT;
    REQUIRE_OK(bantam_model_get_token(model.get(), id, &info));
    CHECK(std::strlen(info.piece) == info.piece_bytes);
    CHECK(info.type >= BANTAM_TOKEN_NORMAL);
    CHECK(info.type <= BANTAM_TOKEN_BYTE);
    special += info.is_special;
    ends += info.ends;
    CHECK(info.ends == bantam_token_ends(model.get(), id));
  }
  CHECK(special >= 2);
  CHECK(ends >= 1);
  bantam_token_info info = BANTAM_TOKEN_INFO_INIT;
  for (const std::int32_t id : {-1, 4096, INT32_MAX, INT32_MIN}) CHECK(bantam_model_get_token(model.get(), id, &info) == BANTAM_INVALID_ARGUMENT);
}

TEST_CASE("metadata are pairs of texts in the order of their keys") {
  const auto model = load();
  const std::size_t count = bantam_model_metadata_count(model.get());
  REQUIRE(count > 10);
  std::string before;
  bool found = false;
  for (std::size_t i = 0; i < count; ++i) {
    const char *key = nullptr, *value = nullptr;
    REQUIRE_OK(bantam_model_get_metadata(model.get(), i, &key, &value));
    CHECK(before < key);
    before = key;
    found = found || (before == "model_type" && std::string(value) == "llama");
  }
  CHECK(found);
  CHECK(bantam_model_get_metadata(model.get(), count, nullptr, nullptr) == BANTAM_INVALID_ARGUMENT);
  CHECK_OK(bantam_model_get_metadata(model.get(), 0, nullptr, nullptr));
}

TEST_CASE("a conversation is messages, JSON of OpenAI's shape, or has a template of its own") {
  const ChattyFolder chatty;
  const auto model = load(chatty.path());
  const bantam_message messages[] = {{"user", "hello", 5}};
  const auto plain = text_from([&](char* text, std::size_t room, std::size_t* size) { return bantam_apply_chat_template(model.get(), messages, 1, 1, text, room, size); });
  CHECK(plain == "[user] hello\n[assistant]");
  const auto of_json = [&](const std::string& json) {
    return text_from([&](char* text, std::size_t room, std::size_t* size) { return bantam_apply_chat_template_json(model.get(), json.data(), json.size(), text, room, size); });
  };
  CHECK(of_json(R"([{"role":"user","content":"hello"}])") == plain);
  CHECK(of_json(R"({"messages":[{"role":"user","content":[{"type":"text","text":"hello"}]}],"tools":[{"type":"function"}]})") == "1 tools\n" + plain);
  const std::string own = "{% for m in messages %}<{{ m.content }}>{% endfor %}{{ add_generation_prompt }}{{ bos_token }}";
  CHECK(text_from([&](char* text, std::size_t room, std::size_t* size) {
          return bantam_render_chat_template(own.data(), own.size(), messages, 1, 0, text, room, size);
        }) == "<hello>False");
  std::size_t size = 0;
  CHECK(bantam_apply_chat_template_json(model.get(), "[", 1, nullptr, 0, &size) == BANTAM_INVALID_ARGUMENT);
  CHECK(bantam_render_chat_template("{% for", 6, messages, 1, 0, nullptr, 0, &size) == BANTAM_CORRUPT);
  CHECK(bantam_render_chat_template(nullptr, 3, messages, 1, 0, nullptr, 0, &size) == BANTAM_INVALID_ARGUMENT);

  const auto session = open(model.get()), other = open(model.get());
  const auto options = greedy(8);
  bantam_generation* made = nullptr;
  REQUIRE_OK(bantam_generation_new_chat(&made, session.get(), messages, 1, &options));
  const Owned<bantam_generation> a(made);
  const std::string json = R"([{"role":"user","content":"hello"}])";
  REQUIRE_OK(bantam_generation_new_chat_json(&made, other.get(), json.data(), json.size(), &options));
  const Owned<bantam_generation> b(made);
  CHECK(rest_of(a.get()) == rest_of(b.get()));
}

TEST_CASE("a load tells how far it is, and is cancelled by its callback") {
  bantam_load_options options = BANTAM_LOAD_OPTIONS_INIT;
  struct Seen {
    std::int64_t calls = 0, done = 0, total = 0, stop_at = -1;
  } seen;
  options.progress = [](std::int64_t done, std::int64_t total, void* user) {
    auto& s = *static_cast<Seen*>(user);
    s.done = done;
    s.total = total;
    return s.calls++ == s.stop_at ? 1 : 0;
  };
  options.progress_user = &seen;
  bantam_model* model = nullptr;
  REQUIRE_OK(bantam_model_load_with(&model, model_path().c_str(), &options));
  bantam_model_free(model);
  CHECK(seen.done == seen.total);
  CHECK(seen.calls > 20);
  for (const std::int64_t stop : {0, 7}) {
    seen = {.stop_at = stop};
    model = nullptr;
    CHECK(bantam_model_load_with(&model, model_path().c_str(), &options) == BANTAM_CANCELLED);
    CHECK(model == nullptr);
    CHECK(seen.calls == stop + 1);
  }
}

TEST_CASE("a reply comes apart into text, reasoning and calls") {
  bantam_reply* reply = nullptr;
  const std::string tools = R"([{"type":"function","function":{"name":"f"}}])", prompt = "<think>\n";
  REQUIRE_OK(bantam_reply_new(&reply, "hermes", prompt.data(), prompt.size(), tools.data(), tools.size()));
  const std::string written = "Hm.</think>Yes. <tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}</tool_call>";
  std::string texts[7], raw;
  const auto take = [&](std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      bantam_reply_event event = BANTAM_REPLY_EVENT_INIT;
      REQUIRE_OK(bantam_reply_get_event(reply, i, &event));
      texts[event.kind].append(event.text, event.text_bytes);
      raw.append(event.raw, event.raw_bytes);
    }
    bantam_reply_event none = BANTAM_REPLY_EVENT_INIT;
    CHECK(bantam_reply_get_event(reply, count, &none) == BANTAM_INVALID_ARGUMENT);
  };
  for (const char c : written) {
    std::size_t count = 0;
    REQUIRE_OK(bantam_reply_feed(reply, &c, 1, &count));
    take(count);
  }
  std::size_t count = 0;
  REQUIRE_OK(bantam_reply_finish(reply, &count));
  take(count);
  bantam_reply_free(reply);
  CHECK(raw == written);
  CHECK(texts[BANTAM_REPLY_REASONING] == "Hm.");
  CHECK(texts[BANTAM_REPLY_TEXT] == "Yes.");
  CHECK(texts[BANTAM_REPLY_CALL] == "f");
  CHECK(texts[BANTAM_REPLY_ARGUMENTS] == "{\"a\": 1}");
  reply = nullptr;
  CHECK(bantam_reply_new(&reply, "nothing", nullptr, 0, nullptr, 0) == BANTAM_INVALID_ARGUMENT);
  CHECK(reply == nullptr);
}
