// Programs written for llama.h, on bantam-llama.h: contexts with one sequence and several, removal, states, embeddings, chats.
#include <bantam-llama.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "support.hpp"

using capi_test::Folder;

namespace {

struct FreeLlama {
  void operator()(llama_context* p) const { llama_free(p); }
  void operator()(llama_sampler* p) const { llama_sampler_free(p); }
  void operator()(llama_model* p) const { llama_model_free(p); }
};
template <class T>
using Owned = std::unique_ptr<T, FreeLlama>;

Owned<llama_model> load(const std::string& path = capi_test::model_path()) {
  return Owned<llama_model>(llama_model_load_from_file(path.c_str(), llama_model_default_params()));
}

Owned<llama_context> open(llama_model* model, uint32_t sequences = 1, enum llama_pooling_type pooling = LLAMA_POOLING_TYPE_UNSPECIFIED, bool embeddings = false) {
  llama_context_params params = llama_context_default_params();
  params.n_ctx = 128;
  params.n_seq_max = sequences;
  params.pooling_type = pooling;
  params.embeddings = embeddings;
  params.type_k = params.type_v = GGML_TYPE_F32;
  return Owned<llama_context>(llama_init_from_model(model, params));
}

std::vector<llama_token> tokens_of(const llama_model* model, const std::string& text, bool special = true) {
  const llama_vocab* vocab = llama_model_get_vocab(model);
  const int count = -llama_tokenize(vocab, text.c_str(), static_cast<int32_t>(text.size()), nullptr, 0, special, true);
  std::vector<llama_token> ids(static_cast<std::size_t>(count));
  REQUIRE(llama_tokenize(vocab, text.c_str(), static_cast<int32_t>(text.size()), ids.data(), count, special, true) == count);
  return ids;
}

std::string piece_of(const llama_model* model, llama_token token) {
  char buffer[256];
  const int n = llama_token_to_piece(llama_model_get_vocab(model), token, buffer, sizeof buffer, 0, true);
  REQUIRE(n >= 0);
  return {buffer, static_cast<std::size_t>(n)};
}

/// The loop of llama.cpp's `simple`: greedy, a batch of the prompt, then a token at a time.
std::string simple(llama_model* model, const std::string& prompt, int predict) {
  auto ids = tokens_of(model, prompt);
  llama_context_params params = llama_context_default_params();
  const int count = static_cast<int>(ids.size());
  params.n_ctx = static_cast<uint32_t>(count + predict - 1);
  params.n_batch = static_cast<uint32_t>(count);
  params.no_perf = false;
  const Owned<llama_context> ctx(llama_init_from_model(model, params));
  REQUIRE(ctx != nullptr);
  llama_sampler_chain_params chain = llama_sampler_chain_default_params();
  chain.no_perf = false;
  const Owned<llama_sampler> sampler(llama_sampler_chain_init(chain));
  llama_sampler_chain_add(sampler.get(), llama_sampler_init_greedy());
  llama_batch batch = llama_batch_get_one(ids.data(), count);
  REQUIRE(!llama_model_has_encoder(model));
  std::string text;
  llama_token next = 0;
  for (int position = 0; position + batch.n_tokens < count + predict;) {
    REQUIRE(llama_decode(ctx.get(), batch) == 0);
    position += batch.n_tokens;
    next = llama_sampler_sample(sampler.get(), ctx.get(), -1);
    if (llama_vocab_is_eog(llama_model_get_vocab(model), next)) break;
    text += piece_of(model, next);
    batch = llama_batch_get_one(&next, 1);
  }
  return text;
}

std::vector<float> row(const float* values, std::size_t count) {
  REQUIRE(values != nullptr);
  return {values, values + count};
}

void add(llama_batch& batch, llama_token token, llama_pos position, llama_seq_id sequence, bool wanted) {
  const int at = batch.n_tokens++;
  batch.token[at] = token;
  batch.pos[at] = position;
  batch.n_seq_id[at] = 1;
  batch.seq_id[at][0] = sequence;
  batch.logits[at] = wanted;
}

struct Batch {
  explicit Batch(int tokens) : value(llama_batch_init(tokens, 0, 1)) {}
  ~Batch() { llama_batch_free(value); }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;
  llama_batch value;
};

}  // namespace

TEST_CASE("llama.h: a simple program writes what the library writes") {
  const auto model = load();
  REQUIRE(model != nullptr);
  const auto same = capi_test::load();
  CHECK(simple(model.get(), "The captain of the ship", 24) == capi_test::greedy_text(same.get(), "The captain of the ship", 24));
}

TEST_CASE("llama.h: a chat by a template's text goes on where it stood") {
  const Folder folder;
  for (const char* name : {"config.json", "model.safetensors", "tokenizer.json"}) std::filesystem::copy_file(capi_test::model_path() + "/" + name, folder / name);
  std::ofstream(folder / "tokenizer_config.json") << R"({"chat_template":"{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}"})";
  const auto model = load(folder / "");
  const auto ctx = open(model.get());
  const Owned<llama_sampler> sampler(llama_sampler_chain_init(llama_sampler_chain_default_params()));
  llama_sampler_chain_add(sampler.get(), llama_sampler_init_min_p(0.05f, 1));
  llama_sampler_chain_add(sampler.get(), llama_sampler_init_temp(0.8f));
  llama_sampler_chain_add(sampler.get(), llama_sampler_init_dist(LLAMA_DEFAULT_SEED));
  const char* tmpl = llama_model_chat_template(model.get(), nullptr);
  REQUIRE(tmpl != nullptr);
  std::vector<std::string> said;
  std::vector<llama_chat_message> messages;
  std::vector<char> formatted(16);
  int previous = 0;
  for (const char* user : {"Who are you?", "And then?"}) {
    said.emplace_back(user);
    messages.push_back({"user", strdup(user)});
    int length = llama_chat_apply_template(tmpl, messages.data(), messages.size(), true, formatted.data(), static_cast<int32_t>(formatted.size()));
    if (length > static_cast<int>(formatted.size())) {
      formatted.resize(static_cast<std::size_t>(length));
      length = llama_chat_apply_template(tmpl, messages.data(), messages.size(), true, formatted.data(), static_cast<int32_t>(formatted.size()));
    }
    REQUIRE(length > 0);
    const bool first = llama_memory_seq_pos_max(llama_get_memory(ctx.get()), 0) == -1;
    CHECK(first == (previous == 0));
    auto ids = tokens_of(model.get(), std::string(formatted.begin() + previous, formatted.begin() + length), first);
    llama_batch batch = llama_batch_get_one(ids.data(), static_cast<int32_t>(ids.size()));
    std::string reply;
    llama_token next = 0;
    for (int step = 0; step < 8; ++step) {
      REQUIRE(llama_memory_seq_pos_max(llama_get_memory(ctx.get()), 0) + batch.n_tokens < static_cast<int>(llama_n_ctx(ctx.get())));
      REQUIRE(llama_decode(ctx.get(), batch) == 0);
      next = llama_sampler_sample(sampler.get(), ctx.get(), -1);
      if (llama_vocab_is_eog(llama_model_get_vocab(model.get()), next)) break;
      reply += piece_of(model.get(), next);
      batch = llama_batch_get_one(&next, 1);
    }
    messages.push_back({"assistant", strdup(reply.c_str())});
    previous = llama_chat_apply_template(tmpl, messages.data(), messages.size(), false, nullptr, 0);
    CHECK(previous > 0);
  }
  for (const llama_chat_message& message : messages) free(const_cast<char*>(message.content));
  // Without a template ChatML, as llama.cpp has it.
  const llama_chat_message hello = {"user", "hello"};
  char text[128];
  const int length = llama_chat_apply_template(nullptr, &hello, 1, true, text, sizeof text);
  CHECK(std::string(text, static_cast<std::size_t>(length)) == "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n");
  CHECK(llama_chat_apply_template("{% for", &hello, 1, true, text, sizeof text) < 0);
}

TEST_CASE("llama.h: several sequences in one batch, interleaved, are each as if alone") {
  const auto model = load();
  const auto vocabulary = static_cast<std::size_t>(llama_vocab_n_tokens(llama_model_get_vocab(model.get())));
  const std::vector<std::vector<llama_token>> texts = {tokens_of(model.get(), "The sea and"), tokens_of(model.get(), "A boy said to the old man"), tokens_of(model.get(), "Once")};
  for (const bool every : {false, true}) {
    const auto ctx = open(model.get(), 3);
    Batch batch(64);
    std::vector<std::vector<int>> places(3);
    for (std::size_t i = 0; i < 20; ++i) {
      for (std::size_t s = 0; s < 3; ++s) {
        if (i >= texts[s].size()) continue;
        places[s].push_back(batch.value.n_tokens);
        add(batch.value, texts[s][i], static_cast<llama_pos>(i), static_cast<llama_seq_id>(s), every || i + 1 == texts[s].size());
      }
    }
    REQUIRE(llama_decode(ctx.get(), batch.value) == 0);
    for (std::size_t s = 0; s < 3; ++s) {
      const auto alone = open(model.get());
      auto ids = texts[s];
      for (std::size_t i = 0; i < ids.size(); ++i) {
        REQUIRE(llama_decode(alone.get(), llama_batch_get_one(&ids[i], 1)) == 0);
        const float* found = llama_get_logits_ith(ctx.get(), places[s][i]);
        if (!every && i + 1 < ids.size()) {
          CHECK(found == nullptr);
        } else {
          CHECK(row(found, vocabulary) == row(llama_get_logits(alone.get()), vocabulary));
        }
      }
      CHECK(llama_memory_seq_pos_max(llama_get_memory(ctx.get()), static_cast<llama_seq_id>(s)) == static_cast<llama_pos>(ids.size()) - 1);
    }
    // A batch that fails leaves all of them as they were.
    batch.value.n_tokens = 0;
    add(batch.value, texts[0][0], static_cast<llama_pos>(texts[0].size()), 0, true);
    add(batch.value, texts[0][0], 99, 1, true);
    CHECK(llama_decode(ctx.get(), batch.value) < 0);
    batch.value.pos[1] = static_cast<llama_pos>(texts[1].size());
    batch.value.token[1] = 1 << 30;
    CHECK(llama_decode(ctx.get(), batch.value) < 0);
    CHECK(llama_get_logits(ctx.get()) == nullptr);
    CHECK(llama_memory_seq_pos_max(llama_get_memory(ctx.get()), 0) == static_cast<llama_pos>(texts[0].size()) - 1);
    batch.value.seq_id[1][0] = 7;
    CHECK(llama_decode(ctx.get(), batch.value) < 0);
  }
}

TEST_CASE("llama.h: ranges are removed and shifted, sequences copied, states kept") {
  const auto model = load();
  const auto vocabulary = static_cast<std::size_t>(llama_vocab_n_tokens(llama_model_get_vocab(model.get())));
  auto ids = tokens_of(model.get(), "The old captain looked at the sea, and said to the boy that");
  const auto count = static_cast<llama_pos>(ids.size());
  const auto ctx = open(model.get(), 2);
  llama_memory_t memory = llama_get_memory(ctx.get());
  REQUIRE(llama_decode(ctx.get(), llama_batch_get_one(ids.data(), count)) == 0);
  const std::vector<float> before = row(llama_get_logits(ctx.get()), vocabulary);
  // State to memory and back.
  std::vector<uint8_t> state(llama_state_get_size(ctx.get()));
  REQUIRE(llama_state_get_data(ctx.get(), state.data(), state.size()) == state.size());
  // A copy of the beginning goes on like the whole.
  llama_memory_seq_cp(memory, 0, 1, 0, count - 1);
  Batch one(1);
  add(one.value, ids.back(), count - 1, 1, true);
  REQUIRE(llama_decode(ctx.get(), one.value) == 0);
  CHECK(row(llama_get_logits(ctx.get()), vocabulary) == before);
  // What the context shift of chat programs does.
  REQUIRE(llama_memory_can_shift(memory));
  REQUIRE(llama_memory_seq_rm(memory, 0, 2, 6));
  CHECK(llama_memory_seq_pos_max(memory, 0) == count - 1);
  llama_token next = ids[3];
  CHECK(llama_decode(ctx.get(), llama_batch_get_one(&next, 1)) < 0);  // the gap is open
  llama_memory_seq_add(memory, 0, 6, count, -4);
  CHECK(llama_memory_seq_pos_max(memory, 0) == count - 5);
  REQUIRE(llama_decode(ctx.get(), llama_batch_get_one(&next, 1)) == 0);
  CHECK(llama_memory_seq_pos_max(memory, 0) == count - 4);
  // The end goes without a gap.
  REQUIRE(llama_memory_seq_rm(memory, 1, count - 1, -1));
  REQUIRE(llama_decode(ctx.get(), one.value) == 0);
  CHECK(row(llama_get_logits(ctx.get()), vocabulary) == before);
  llama_memory_seq_keep(memory, 1);
  CHECK(llama_memory_seq_pos_max(memory, 0) == -1);
  REQUIRE(llama_state_set_data(ctx.get(), state.data(), state.size()) == state.size());
  CHECK(llama_memory_seq_pos_max(memory, 0) == count - 1);
  CHECK(llama_state_set_data(ctx.get(), state.data(), state.size() - 1) == 0);
  llama_memory_clear(memory, true);
  CHECK(llama_memory_seq_pos_max(memory, 0) == -1);
}

TEST_CASE("llama.h: embeddings of a batch of texts, with and without pooling, are the library's") {
  const auto model = load();
  const auto width = static_cast<std::size_t>(llama_model_n_embd(model.get()));
  const auto same = capi_test::load();
  const std::vector<std::vector<llama_token>> texts = {tokens_of(model.get(), "The sea and"), tokens_of(model.get(), "A boy said to the old man")};
  for (const auto& [pooling, name] : {std::pair{LLAMA_POOLING_TYPE_MEAN, "mean"}, {LLAMA_POOLING_TYPE_CLS, "cls"}, {LLAMA_POOLING_TYPE_LAST, "last"}, {LLAMA_POOLING_TYPE_NONE, "last"}}) {
    CAPTURE(name);
    const auto ctx = open(model.get(), 2, pooling, true);
    REQUIRE(ctx != nullptr);
    CHECK(llama_pooling_type(ctx.get()) == pooling);
    Batch batch(64);
    std::vector<int> last;
    for (std::size_t s = 0; s < texts.size(); ++s) {
      for (std::size_t i = 0; i < texts[s].size(); ++i) add(batch.value, texts[s][i], static_cast<llama_pos>(i), static_cast<llama_seq_id>(s), true);
      last.push_back(batch.value.n_tokens - 1);
    }
    REQUIRE(llama_encode(ctx.get(), batch.value) == 0);
    CHECK(llama_get_logits(ctx.get()) == nullptr);
    for (std::size_t s = 0; s < texts.size(); ++s) {
      bantam_session_options options = BANTAM_SESSION_OPTIONS_INIT;
      options.context_tokens = 128;
      options.kv = "f32";
      const auto session = capi_test::open(same.get(), options);
      const float* expected = nullptr;
      std::size_t size = 0;
      REQUIRE_OK(bantam_session_embed(session.get(), texts[s].data(), texts[s].size(), name, 0, &expected, &size));
      const float* found = pooling == LLAMA_POOLING_TYPE_NONE ? llama_get_embeddings_ith(ctx.get(), last[s]) : llama_get_embeddings_seq(ctx.get(), static_cast<llama_seq_id>(s));
      REQUIRE(found != nullptr);
      REQUIRE(size == width);
      for (std::size_t i = 0; i < width; ++i) CHECK(found[i] == doctest::Approx(expected[i]).epsilon(1e-4));
    }
  }
}

TEST_CASE("llama.h: models say what they are, and loading tells how far it is") {
  llama_model_params params = llama_model_default_params();
  params.vocab_only = true;
  const Owned<llama_model> vocabulary(llama_model_load_from_file(capi_test::model_path().c_str(), params));
  REQUIRE(vocabulary != nullptr);
  CHECK(llama_vocab_n_tokens(vocabulary.get()) == 4096);
  CHECK(llama_init_from_model(vocabulary.get(), llama_context_default_params()) == nullptr);
  params.vocab_only = false;
  float reached = 0;
  params.progress_callback = [](float progress, void* user) {
    *static_cast<float*>(user) = progress;
    return true;
  };
  params.progress_callback_user_data = &reached;
  const Owned<llama_model> model(llama_model_load_from_file(capi_test::model_path().c_str(), params));
  REQUIRE(model != nullptr);
  CHECK(reached == 1.0f);
  params.progress_callback = [](float, void*) { return false; };
  CHECK(llama_model_load_from_file(capi_test::model_path().c_str(), params) == nullptr);
  char text[64];
  CHECK(llama_model_meta_val_str(model.get(), "model_type", text, sizeof text) == 5);
  CHECK(std::string(text) == "llama");
  CHECK(llama_model_meta_val_str(model.get(), "no such key", text, sizeof text) == -1);
  CHECK(llama_model_meta_count(model.get()) > 10);
  CHECK(llama_model_meta_key_by_index(model.get(), 0, text, sizeof text) > 0);
  CHECK(llama_model_meta_val_str_by_index(model.get(), -1, text, sizeof text) == -1);
  CHECK(llama_model_desc(model.get(), text, sizeof text) > 5);
  const llama_vocab* vocab = llama_model_get_vocab(model.get());
  CHECK(llama_vocab_get_add_bos(vocab));
  CHECK(!llama_vocab_get_add_eos(vocab));
  CHECK(llama_vocab_is_control(vocab, llama_vocab_eos(vocab)));
  CHECK(std::string(llama_vocab_get_text(vocab, llama_vocab_eos(vocab))) == "</s>");
  CHECK(llama_vocab_get_attr(vocab, llama_vocab_bos(vocab)) == LLAMA_TOKEN_ATTR_CONTROL);
  CHECK(piece_of(model.get(), llama_vocab_eos(vocab)) == "</s>");
  CHECK(ggml_time_us() > 0);
}

TEST_CASE("adapters are those of all sequences of a context, from then on") {
  const Folder folder;
  const Owned<llama_model> model = load();
  llama_adapter_lora* adapter = llama_adapter_lora_init(model.get(), capi_test::write_adapter(folder / "lora").c_str());
  REQUIRE(adapter != nullptr);
  CHECK(llama_adapter_lora_init(model.get(), (folder / "nothing").c_str()) == nullptr);
  auto ids = tokens_of(model.get(), "It was a dark night, and");
  // Behind the prompt and a token, in a sequence that is there and in one that begins later.
  const auto logits_with = [&](std::vector<float> before, std::vector<float> after) {
    const Owned<llama_context> ctx = open(model.get(), 2);
    std::vector<llama_adapter_lora*> list(2, adapter);
    REQUIRE(llama_set_adapters_lora(ctx.get(), list.data(), before.size(), before.data()) == 0);
    REQUIRE(llama_decode(ctx.get(), llama_batch_get_one(ids.data(), static_cast<int32_t>(ids.size()))) == 0);
    REQUIRE(llama_set_adapters_lora(ctx.get(), list.data(), after.size(), after.data()) == 0);
    Batch next(static_cast<int>(ids.size()) + 2);
    add(next.value, 5, static_cast<llama_pos>(ids.size()), 0, true);
    for (std::size_t i = 0; i < ids.size(); ++i) add(next.value, ids[i], static_cast<llama_pos>(i), 1, false);
    add(next.value, 5, static_cast<llama_pos>(ids.size()), 1, true);
    REQUIRE(llama_decode(ctx.get(), next.value) == 0);
    const auto row = [&](int i) {
      const float* logits = llama_get_logits_ith(ctx.get(), i);
      return std::vector<float>(logits, logits + llama_vocab_n_tokens(llama_model_get_vocab(model.get())));
    };
    CHECK(row(0) == row(next.value.n_tokens - 1));
    return row(0);
  };
  const std::vector<float> plain = logits_with({}, {}), once = logits_with({1}, {1});
  CHECK(plain != once);
  CHECK(logits_with({1}, {}) == plain);
  CHECK(logits_with({}, {1}) == once);
  CHECK(logits_with({}, {0.5F, 0.25F}) != once);
  const Owned<llama_context> ctx = open(model.get());
  float wrong = NAN;
  CHECK(llama_set_adapters_lora(ctx.get(), &adapter, 1, &wrong) == -1);
  llama_adapter_lora_free(adapter);
}
