/*
 * The calls of llama.h that simple programs are made of, on top of bantam.h: replace #include "llama.h" by this header, link
 * libbantam, and compile. Any model that bantam loads will do: a GGUF file, a native file, a Hugging Face folder.
 *
 * What differs: one sequence (number 0) a context; fields of parameter structs that mean nothing here (layers on a GPU,
 * batch sizes) are read by nobody; logits are kept for the tokens that the last llama_decode() was asked for. Functions
 * that are not here do not compile, rather than do nothing. docs/coming-from.md has a table.
 */
#ifndef BANTAM_LLAMA_H
#define BANTAM_LLAMA_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bantam.h"

#define LLAMA_DEFAULT_SEED 0xFFFFFFFFu
#define LLAMA_TOKEN_NULL (-1)

typedef int32_t llama_token;
typedef int32_t llama_pos;
typedef int32_t llama_seq_id;

#define llama_model bantam_model
#define llama_vocab bantam_model

enum ggml_log_level { GGML_LOG_LEVEL_NONE = 0, GGML_LOG_LEVEL_DEBUG = 1, GGML_LOG_LEVEL_INFO = 2, GGML_LOG_LEVEL_WARN = 3, GGML_LOG_LEVEL_ERROR = 4 };
typedef void (*ggml_log_callback)(enum ggml_log_level level, const char *text, void *user_data);

struct llama_model_params {
  int32_t n_gpu_layers;
  bool vocab_only;
  bool use_mmap;
  bool use_mlock;
};

struct llama_context_params {
  uint32_t n_ctx; /* 0: the model's */
  uint32_t n_batch;
  uint32_t n_ubatch;
  uint32_t n_seq_max;
  int32_t n_threads;
  int32_t n_threads_batch;
  bool no_perf;
};

struct llama_sampler_chain_params {
  bool no_perf;
};

typedef struct llama_batch {
  int32_t n_tokens;
  llama_token *token;
  float *embd;
  llama_pos *pos;
  int32_t *n_seq_id;
  llama_seq_id **seq_id;
  int8_t *logits; /* NULL: of the last token */
} llama_batch;

typedef struct llama_chat_message {
  const char *role;
  const char *content;
} llama_chat_message;

struct llama_context {
  const bantam_model *model;
  bantam_session *session;
  float *logits;      /* (rows, vocabulary) */
  int32_t *row_of;    /* of the last batch's tokens; -1: none */
  int32_t batch_size; /* tokens of the last batch */
  int32_t rows;
  size_t vocabulary;
};
typedef struct llama_context *llama_memory_t;

struct llama_sampler {
  bantam_generate_options options;
  char order[96];
  bool is_chain;
  bantam_sampler *made; /* with the first context that it samples from */
};

/* ---- the library ---- */

static ggml_log_callback bantam_llama_log_;
static void *bantam_llama_log_user_;

static inline void bantam_llama_say_(enum ggml_log_level level, const char *line) {
  if (bantam_llama_log_) {
    bantam_llama_log_(level, line, bantam_llama_log_user_);
    bantam_llama_log_(level, "\n", bantam_llama_log_user_);
  } else if (level >= GGML_LOG_LEVEL_WARN) {
    fprintf(stderr, "%s\n", line);
  }
}
static inline void bantam_llama_warn_(bantam_log_level level, const char *line, void *user) {
  (void)level;
  (void)user;
  bantam_llama_say_(GGML_LOG_LEVEL_WARN, line);
}
/* Says why a call failed, as llama.cpp does, and passes the status on. */
static inline bantam_status bantam_llama_check_(bantam_status status) {
  if (status) bantam_llama_say_(GGML_LOG_LEVEL_ERROR, bantam_last_error());
  return status;
}

static inline void llama_backend_init(void) { bantam_set_log_callback(bantam_llama_warn_, NULL); }
static inline void llama_backend_free(void) {}
static inline void ggml_backend_load_all(void) {}
static inline void llama_log_set(ggml_log_callback callback, void *user_data) {
  bantam_llama_log_ = callback;
  bantam_llama_log_user_ = user_data;
}

/* ---- models ---- */

static inline struct llama_model_params llama_model_default_params(void) {
  struct llama_model_params params = {0, false, true, false};
  return params;
}
static inline struct llama_model *llama_model_load_from_file(const char *path, struct llama_model_params params) {
  bantam_model *model = NULL;
  bantam_load_options options = BANTAM_LOAD_OPTIONS_INIT;
  if (!params.use_mmap) options.memory = "huge_pages";
  bantam_llama_check_(bantam_model_load_with(&model, path, &options));
  return model;
}
static inline void llama_model_free(struct llama_model *model) { bantam_model_free(model); }

static inline bantam_model_info bantam_llama_info_(const bantam_model *model) {
  bantam_model_info info = BANTAM_MODEL_INFO_INIT;
  bantam_llama_check_(bantam_model_get_info(model, &info));
  return info;
}
static inline const struct llama_vocab *llama_model_get_vocab(const struct llama_model *model) { return model; }
static inline int32_t llama_model_n_ctx_train(const struct llama_model *model) { return (int32_t)bantam_llama_info_(model).context; }
static inline int32_t llama_model_n_embd(const struct llama_model *model) { return (int32_t)bantam_llama_info_(model).width; }
static inline int32_t llama_model_n_layer(const struct llama_model *model) { return (int32_t)bantam_llama_info_(model).layers; }
static inline int32_t llama_model_n_head(const struct llama_model *model) { return (int32_t)bantam_llama_info_(model).heads; }
static inline uint64_t llama_model_size(const struct llama_model *model) { return (uint64_t)bantam_llama_info_(model).bytes; }
static inline uint64_t llama_model_n_params(const struct llama_model *model) { return (uint64_t)bantam_llama_info_(model).weights; }
static inline const char *llama_model_chat_template(const struct llama_model *model, const char *name) {
  const char *text = bantam_llama_info_(model).chat_template;
  return name || !text || !*text ? NULL : text;
}
static inline int32_t llama_vocab_n_tokens(const struct llama_vocab *vocab) { return (int32_t)bantam_llama_info_(vocab).vocabulary; }
static inline llama_token llama_vocab_bos(const struct llama_vocab *vocab) { return bantam_llama_info_(vocab).bos_token; }
static inline llama_token llama_vocab_eos(const struct llama_vocab *vocab) { return bantam_llama_info_(vocab).eos_token; }
static inline bool llama_vocab_is_eog(const struct llama_vocab *vocab, llama_token token) { return bantam_token_ends(vocab, token) != 0; }

/* ---- text: lengths, or less what is needed where the buffer is too small ---- */

static inline int32_t llama_tokenize(const struct llama_vocab *vocab, const char *text, int32_t text_len, llama_token *tokens,
                                     int32_t n_tokens_max, bool add_special, bool parse_special) {
  size_t count = 0;
  const size_t room = n_tokens_max > 0 ? (size_t)n_tokens_max : 0;
  const uint32_t flags = (add_special ? BANTAM_ADD_SPECIAL : 0u) | (parse_special ? BANTAM_PARSE_SPECIAL : 0u);
  if (text_len < 0 || bantam_llama_check_(bantam_tokenize(vocab, text, (size_t)text_len, flags, tokens, room, &count))) return INT32_MIN;
  return count > room ? -(int32_t)count : (int32_t)count;
}
static inline int32_t llama_token_to_piece(const struct llama_vocab *vocab, llama_token token, char *buf, int32_t length, int32_t lstrip,
                                           bool special) {
  size_t bytes = 0;
  const size_t room = length > 0 ? (size_t)length : 0;
  if (!special && (bantam_token_ends(vocab, token) || token == llama_vocab_bos(vocab))) return 0;
  if (bantam_llama_check_(bantam_token_bytes(vocab, token, buf, room, &bytes))) return 0;
  if (bytes > room) return -(int32_t)bytes;
  for (; lstrip > 0 && bytes > 0 && buf[0] == ' '; --lstrip) memmove(buf, buf + 1, --bytes);
  return (int32_t)bytes;
}
static inline int32_t llama_detokenize(const struct llama_vocab *vocab, const llama_token *tokens, int32_t n_tokens, char *text,
                                       int32_t text_len_max, bool remove_special, bool unparse_special) {
  size_t bytes = 0;
  const size_t room = text_len_max > 0 ? (size_t)text_len_max : 0;
  const uint32_t flags = unparse_special && !remove_special ? BANTAM_KEEP_SPECIAL : 0u;
  if (n_tokens < 0 || bantam_llama_check_(bantam_detokenize(vocab, tokens, (size_t)n_tokens, flags, text, room, &bytes))) return INT32_MIN;
  return bytes > room ? -(int32_t)bytes : (int32_t)bytes;
}

/* ---- contexts ---- */

static inline struct llama_context_params llama_context_default_params(void) {
  struct llama_context_params params = {512, 2048, 512, 1, 0, 0, true};
  return params;
}
static inline void llama_free(struct llama_context *ctx) {
  if (!ctx) return;
  bantam_session_free(ctx->session);
  free(ctx->logits);
  free(ctx->row_of);
  free(ctx);
}
static inline struct llama_context *llama_init_from_model(struct llama_model *model, struct llama_context_params params) {
  bantam_session_options options = BANTAM_SESSION_OPTIONS_INIT;
  struct llama_context *ctx = (struct llama_context *)calloc(1, sizeof *ctx);
  if (!ctx) return NULL;
  options.context_tokens = params.n_ctx;
  options.threads = params.n_threads;
  ctx->model = model;
  if (bantam_llama_check_(bantam_session_new(&ctx->session, model, &options))) {
    llama_free(ctx);
    return NULL;
  }
  ctx->vocabulary = (size_t)bantam_llama_info_(model).vocabulary;
  return ctx;
}
static inline uint32_t llama_n_ctx(const struct llama_context *ctx) { return (uint32_t)bantam_session_context(ctx->session); }
static inline const struct llama_model *llama_get_model(const struct llama_context *ctx) { return ctx->model; }

static inline size_t bantam_llama_held_(const struct llama_context *ctx) {
  const int32_t *ids = NULL;
  size_t count = 0;
  bantam_llama_check_(bantam_session_tokens(ctx->session, &ids, &count));
  return count;
}
static inline llama_memory_t llama_get_memory(const struct llama_context *ctx) { return (llama_memory_t)ctx; }
static inline void llama_memory_clear(llama_memory_t mem, bool data) {
  (void)data;
  bantam_llama_check_(bantam_session_truncate(mem->session, 0));
}
/* Only the end of the sequence can be removed. */
static inline bool llama_memory_seq_rm(llama_memory_t mem, llama_seq_id seq_id, llama_pos p0, llama_pos p1) {
  const size_t held = bantam_llama_held_(mem);
  if (seq_id > 0 || (p1 >= 0 && (size_t)p1 < held)) return false;
  return p0 >= (llama_pos)held || !bantam_llama_check_(bantam_session_truncate(mem->session, p0 > 0 ? (size_t)p0 : 0));
}
static inline llama_pos llama_memory_seq_pos_max(llama_memory_t mem, llama_seq_id seq_id) {
  return seq_id == 0 ? (llama_pos)bantam_llama_held_(mem) - 1 : -1;
}

/* ---- batches ---- */

static inline llama_batch llama_batch_get_one(llama_token *tokens, int32_t n_tokens) {
  llama_batch batch = {0, NULL, NULL, NULL, NULL, NULL, NULL};
  batch.n_tokens = n_tokens;
  batch.token = tokens;
  return batch;
}
static inline void llama_batch_free(llama_batch batch) {
  if (batch.seq_id) {
    for (int32_t i = 0; batch.seq_id[i]; ++i) free(batch.seq_id[i]);
  }
  free(batch.token);
  free(batch.pos);
  free(batch.n_seq_id);
  free(batch.seq_id);
  free(batch.logits);
}
/* Arrays for n_tokens tokens; embd is not supported and must be 0. A batch without room has token NULL. */
static inline llama_batch llama_batch_init(int32_t n_tokens, int32_t embd, int32_t n_seq_max) {
  llama_batch batch = {0, NULL, NULL, NULL, NULL, NULL, NULL};
  const size_t n = n_tokens > 0 ? (size_t)n_tokens : 1;
  const size_t sequences = n_seq_max > 0 ? (size_t)n_seq_max : 1;
  bool whole;
  if (embd) return batch;
  batch.token = (llama_token *)calloc(n, sizeof(llama_token));
  batch.pos = (llama_pos *)calloc(n, sizeof(llama_pos));
  batch.n_seq_id = (int32_t *)calloc(n, sizeof(int32_t));
  batch.seq_id = (llama_seq_id **)calloc(n + 1, sizeof(llama_seq_id *));
  batch.logits = (int8_t *)calloc(n, 1);
  whole = batch.token && batch.pos && batch.n_seq_id && batch.seq_id && batch.logits;
  for (size_t i = 0; whole && i < n; ++i) {
    batch.seq_id[i] = (llama_seq_id *)calloc(sequences, sizeof(llama_seq_id));
    whole = batch.seq_id[i] != NULL;
  }
  if (!whole) {
    llama_batch_free(batch);
    batch = llama_batch_get_one(NULL, 0);
  }
  return batch;
}

static inline bool bantam_llama_wants_(const llama_batch *batch, int32_t i) {
  return batch->logits ? batch->logits[i] != 0 : i + 1 == batch->n_tokens;
}
/* 0; 1 where the context is full; negative for errors. */
static inline int32_t llama_decode(struct llama_context *ctx, llama_batch batch) {
  const size_t held = bantam_llama_held_(ctx);
  int32_t rows = 0, first = 0;
  float *logits;
  int32_t *row_of;
  if (batch.n_tokens <= 0 || !batch.token) return -1;
  if (held + (size_t)batch.n_tokens > (size_t)bantam_session_context(ctx->session)) return 1;
  for (int32_t i = 0; i < batch.n_tokens; ++i) {
    if (batch.pos && (size_t)batch.pos[i] != held + (size_t)i) return -1;
    if (batch.n_seq_id && (batch.n_seq_id[i] != 1 || batch.seq_id[i][0] != 0)) return -1;
    rows += bantam_llama_wants_(&batch, i);
  }
  logits = (float *)realloc(ctx->logits, (size_t)(rows ? rows : 1) * ctx->vocabulary * sizeof(float));
  if (logits) ctx->logits = logits;
  row_of = (int32_t *)realloc(ctx->row_of, (size_t)batch.n_tokens * sizeof(int32_t));
  if (row_of) ctx->row_of = row_of;
  ctx->rows = 0;
  ctx->batch_size = 0;
  if (!logits || !row_of) return -2;
  for (int32_t i = 0; i < batch.n_tokens; ++i) {
    const bool wanted = bantam_llama_wants_(&batch, i);
    const float *row = NULL;
    size_t count = 0;
    row_of[i] = -1;
    if (!wanted && i + 1 < batch.n_tokens) continue;
    if (bantam_llama_check_(bantam_session_prefill_tokens(ctx->session, batch.token + first, (size_t)(i + 1 - first)))) return -3;
    first = i + 1;
    if (!wanted) continue;
    if (bantam_llama_check_(bantam_session_logits(ctx->session, &row, &count))) return -3;
    memcpy(logits + (size_t)ctx->rows * ctx->vocabulary, row, ctx->vocabulary * sizeof(float));
    row_of[i] = ctx->rows++;
  }
  ctx->batch_size = batch.n_tokens;
  return 0;
}
static inline float *llama_get_logits(struct llama_context *ctx) { return ctx->rows ? ctx->logits : NULL; }
/* Of token i of the last batch; negative i count rows from the last. NULL where none were asked for. */
static inline float *llama_get_logits_ith(struct llama_context *ctx, int32_t i) {
  const int32_t row = i < 0 ? ctx->rows + i : i < ctx->batch_size ? ctx->row_of[i] : -1;
  return row < 0 ? NULL : ctx->logits + (size_t)row * ctx->vocabulary;
}

/* ---- samplers: a chain in the order in which it was built ---- */

static inline struct llama_sampler_chain_params llama_sampler_chain_default_params(void) {
  struct llama_sampler_chain_params params = {true};
  return params;
}
static inline struct llama_sampler *bantam_llama_stage_(const char *stage) {
  bantam_generate_options off = BANTAM_GENERATE_OPTIONS_INIT;
  struct llama_sampler *sampler = (struct llama_sampler *)calloc(1, sizeof *sampler);
  if (!sampler) return NULL;
  off.temperature = off.top_p = off.typical_p = off.repeat_penalty = 1.0f;
  off.min_p = off.frequency_penalty = off.presence_penalty = 0.0f;
  off.top_k = off.repeat_last_n = 0;
  off.max_tokens = 0;
  off.flags = 0;
  sampler->options = off;
  strcpy(sampler->order, stage);
  return sampler;
}
static inline void llama_sampler_free(struct llama_sampler *smpl) {
  if (!smpl) return;
  bantam_sampler_free(smpl->made);
  free(smpl);
}
static inline struct llama_sampler *llama_sampler_chain_init(struct llama_sampler_chain_params params) {
  struct llama_sampler *chain = bantam_llama_stage_("");
  (void)params;
  if (chain) chain->is_chain = true;
  return chain;
}
static inline struct llama_sampler *llama_sampler_init_greedy(void) {
  struct llama_sampler *s = bantam_llama_stage_("");
  if (s) s->options.temperature = 0;
  return s;
}
static inline struct llama_sampler *llama_sampler_init_dist(uint32_t seed) {
  struct llama_sampler *s = bantam_llama_stage_("");
  if (s) s->options.seed = seed == LLAMA_DEFAULT_SEED ? (uint64_t)time(NULL) ^ (uint64_t)(uintptr_t)s : seed;
  return s;
}
static inline struct llama_sampler *llama_sampler_init_top_k(int32_t k) {
  struct llama_sampler *s = bantam_llama_stage_("top_k");
  if (s) s->options.top_k = k;
  return s;
}
static inline struct llama_sampler *llama_sampler_init_top_p(float p, size_t min_keep) {
  struct llama_sampler *s = bantam_llama_stage_("top_p");
  (void)min_keep; /* one token is always kept */
  if (s) s->options.top_p = p;
  return s;
}
static inline struct llama_sampler *llama_sampler_init_min_p(float p, size_t min_keep) {
  struct llama_sampler *s = bantam_llama_stage_("min_p");
  (void)min_keep;
  if (s) s->options.min_p = p;
  return s;
}
static inline struct llama_sampler *llama_sampler_init_typical(float p, size_t min_keep) {
  struct llama_sampler *s = bantam_llama_stage_("typical");
  (void)min_keep;
  if (s) s->options.typical_p = p;
  return s;
}
static inline struct llama_sampler *llama_sampler_init_temp(float t) {
  struct llama_sampler *s = bantam_llama_stage_("temperature");
  if (s) s->options.temperature = t;
  return s;
}
static inline struct llama_sampler *llama_sampler_init_penalties(int32_t penalty_last_n, float penalty_repeat, float penalty_freq,
                                                                 float penalty_present) {
  struct llama_sampler *s = bantam_llama_stage_("penalties");
  if (!s) return NULL;
  s->options.repeat_last_n = penalty_last_n;
  s->options.repeat_penalty = penalty_repeat;
  s->options.frequency_penalty = penalty_freq;
  s->options.presence_penalty = penalty_present;
  return s;
}
/* Takes the sampler over. Each stage once a chain: a second one is refused with a word. */
static inline void llama_sampler_chain_add(struct llama_sampler *chain, struct llama_sampler *smpl) {
  const char *stage;
  if (!chain || !smpl) return;
  stage = smpl->order;
  if (*stage && strstr(chain->order, stage)) {
    bantam_llama_say_(GGML_LOG_LEVEL_ERROR, "sampler chain: expected each kind of sampler once");
  } else if (*stage) {
    if (*chain->order) strcat(chain->order, ",");
    strcat(chain->order, stage);
  }
  if (!strcmp(stage, "top_k")) chain->options.top_k = smpl->options.top_k;
  if (!strcmp(stage, "top_p")) chain->options.top_p = smpl->options.top_p;
  if (!strcmp(stage, "min_p")) chain->options.min_p = smpl->options.min_p;
  if (!strcmp(stage, "typical")) chain->options.typical_p = smpl->options.typical_p;
  if (!strcmp(stage, "temperature") || smpl->options.temperature <= 0) chain->options.temperature = smpl->options.temperature;
  if (!strcmp(stage, "penalties")) {
    chain->options.repeat_last_n = smpl->options.repeat_last_n;
    chain->options.repeat_penalty = smpl->options.repeat_penalty;
    chain->options.frequency_penalty = smpl->options.frequency_penalty;
    chain->options.presence_penalty = smpl->options.presence_penalty;
  }
  if (smpl->options.seed) chain->options.seed = smpl->options.seed;
  llama_sampler_free(smpl);
}
static inline bool bantam_llama_ready_(struct llama_sampler *smpl, const bantam_model *model) {
  bantam_setting order;
  if (smpl->made) return true;
  order.name = "order";
  order.value = smpl->order;
  smpl->options.settings = &order;
  smpl->options.setting_count = 1;
  bantam_llama_check_(bantam_sampler_new(&smpl->made, model, &smpl->options));
  smpl->options.settings = NULL;
  smpl->options.setting_count = 0;
  return smpl->made != NULL;
}
static inline void llama_sampler_accept(struct llama_sampler *smpl, llama_token token) {
  if (smpl->made) bantam_llama_check_(bantam_sampler_accept(smpl->made, token));
}
static inline void llama_sampler_reset(struct llama_sampler *smpl) {
  bantam_sampler_free(smpl->made);
  smpl->made = NULL;
}
/* Chooses from the logits of token idx of the last batch, and accepts. LLAMA_TOKEN_NULL on failure. */
static inline llama_token llama_sampler_sample(struct llama_sampler *smpl, struct llama_context *ctx, int32_t idx) {
  const float *logits = llama_get_logits_ith(ctx, idx);
  int32_t token = LLAMA_TOKEN_NULL;
  if (!logits || !bantam_llama_ready_(smpl, ctx->model)) return LLAMA_TOKEN_NULL;
  if (bantam_llama_check_(bantam_sampler_sample(smpl->made, logits, ctx->vocabulary, &token))) return LLAMA_TOKEN_NULL;
  llama_sampler_accept(smpl, token);
  return token;
}

/* ---- conversations ---- */

/* In place of llama_chat_apply_template(), which is given a template's text: this is given the model that has it. Returns the
 * length, perhaps above `length`; negative on failure. */
static inline int32_t llama_model_apply_chat_template(const struct llama_model *model, const llama_chat_message *chat, size_t n_msg,
                                                  bool add_ass, char *buf, int32_t length) {
  size_t bytes = 0;
  bantam_status status;
  bantam_message *messages = (bantam_message *)calloc(n_msg ? n_msg : 1, sizeof *messages);
  if (!messages) return -1;
  for (size_t i = 0; i < n_msg; ++i) {
    messages[i].role = chat[i].role;
    messages[i].content = chat[i].content;
    messages[i].content_bytes = strlen(chat[i].content);
  }
  status = bantam_apply_chat_template(model, messages, n_msg, add_ass, buf, length > 0 ? (size_t)length : 0, &bytes);
  free(messages);
  return bantam_llama_check_(status) ? -1 : (int32_t)bytes;
}

#endif
