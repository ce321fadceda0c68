/*
 * The calls of llama.h that simple programs are made of, on top of bantam.h: replace #include "llama.h" by this header, link
 * libbantam, and compile. Any model that bantam loads will do: a GGUF file, a native file, a Hugging Face folder.
 *
 * What differs: each sequence has n_ctx tokens for itself; a token belongs to one; fields of parameter structs that mean nothing
 * here (layers on a GPU, batch sizes) are read by nobody; logits, or embeddings, are kept for the tokens that the last
 * llama_decode() was asked for. Functions that are not here do not compile, rather than do nothing. docs/coming-from.md has a table.
 *
 * Contents: search for "---- 5." to get to section 5. Names that end in an underscore are the header's own.
 *    1. Types          what llama.h declares, and what stands behind a context
 *    2. Library        log, time, what is supported
 *    3. Models         loading, sizes, metadata
 *    4. Vocabularies   tokens and what they are
 *    5. Tokens         from text to tokens and back
 *    6. Contexts       made, freed, asked
 *    7. Adapters       LoRA
 *    8. Sequences      what they hold: llama_memory_*, llama_state_*
 *    9. Batches        made, freed
 *   10. Decoding       batches sorted by sequences, and read
 *   11. Outputs        logits, embeddings
 *   12. Samplers       a chain in the order in which it was built
 *   13. Conversations  chat templates
 */
#ifndef BANTAM_LLAMA_H
#define BANTAM_LLAMA_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bantam.h"

/* ---- 1. Types ---- */

#define LLAMA_DEFAULT_SEED 0xFFFFFFFFu
#define LLAMA_TOKEN_NULL (-1)

typedef int32_t llama_token;
typedef int32_t llama_pos;
typedef int32_t llama_seq_id;

#define llama_model bantam_model
#define llama_vocab bantam_model
#define llama_adapter_lora bantam_adapter

enum ggml_log_level { GGML_LOG_LEVEL_NONE = 0, GGML_LOG_LEVEL_DEBUG = 1, GGML_LOG_LEVEL_INFO = 2, GGML_LOG_LEVEL_WARN = 3, GGML_LOG_LEVEL_ERROR = 4 };
typedef void (*ggml_log_callback)(enum ggml_log_level level, const char *text, void *user_data);

#define GGML_ABORT(...) (fprintf(stderr, __VA_ARGS__), fputc('\n', stderr), abort())
#define GGML_ASSERT(x) ((x) ? (void)0 : GGML_ABORT("%s:%d: GGML_ASSERT(%s) failed", __FILE__, __LINE__, #x))

/* Of keys and values: these four. */
enum ggml_type { GGML_TYPE_F32 = 0, GGML_TYPE_F16 = 1, GGML_TYPE_Q4_0 = 2, GGML_TYPE_Q8_0 = 8 };
enum ggml_numa_strategy { GGML_NUMA_STRATEGY_DISABLED = 0 };
enum llama_pooling_type {
  LLAMA_POOLING_TYPE_UNSPECIFIED = -1, /* none */
  LLAMA_POOLING_TYPE_NONE = 0,
  LLAMA_POOLING_TYPE_MEAN = 1,
  LLAMA_POOLING_TYPE_CLS = 2,
  LLAMA_POOLING_TYPE_LAST = 3,
  LLAMA_POOLING_TYPE_RANK = 4 /* of no model that is loaded here */
};
enum llama_attention_type { LLAMA_ATTENTION_TYPE_UNSPECIFIED = -1, LLAMA_ATTENTION_TYPE_CAUSAL = 0, LLAMA_ATTENTION_TYPE_NON_CAUSAL = 1 };
enum llama_token_attr {
  LLAMA_TOKEN_ATTR_UNDEFINED = 0,
  LLAMA_TOKEN_ATTR_UNKNOWN = 1,
  LLAMA_TOKEN_ATTR_UNUSED = 2,
  LLAMA_TOKEN_ATTR_NORMAL = 4,
  LLAMA_TOKEN_ATTR_CONTROL = 8,
  LLAMA_TOKEN_ATTR_USER_DEFINED = 16,
  LLAMA_TOKEN_ATTR_BYTE = 32
};

/* True goes on. */
typedef bool (*llama_progress_callback)(float progress, void *user_data);

struct llama_model_params {
  int32_t n_gpu_layers;
  llama_progress_callback progress_callback;
  void *progress_callback_user_data;
  bool vocab_only;
  bool use_mmap;
  bool use_mlock;
};

struct llama_context_params {
  uint32_t n_ctx; /* of each sequence; 0: the model's */
  uint32_t n_batch;
  uint32_t n_ubatch;
  uint32_t n_seq_max; /* 0: 1 */
  int32_t n_threads;
  int32_t n_threads_batch;
  enum llama_pooling_type pooling_type;
  enum llama_attention_type attention_type;
  enum ggml_type type_k; /* one type for both */
  enum ggml_type type_v;
  bool embeddings; /* hidden states in the place of logits */
  bool offload_kqv;
  bool kv_unified;
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

/* A sequence; one without a session holds nothing. */
struct bantam_llama_sequence_ {
  bantam_session *session;
  size_t hole_at, hole; /* tokens that llama_memory_seq_rm() took from the middle, until llama_memory_seq_add() closes the gap */
  float *pooled;        /* (width): the embedding of what the last batch held of it; NULL: none */
};
struct llama_context {
  const bantam_model *model;
  const bantam_adapter **adapters; /* and their scales, of the options */
  float *adapter_scales;
  bantam_session_options options;
  struct bantam_llama_sequence_ *sequences;
  uint32_t sequence_count;
  enum llama_pooling_type pooling;
  bool embeddings;
  float *values;      /* (rows, vocabulary or width): logits or hidden states */
  int32_t *row_of;    /* of the last batch's tokens; -1: none */
  int32_t batch_size; /* tokens of the last batch */
  int32_t rows;
  size_t vocabulary, width;
  int64_t prompt_us, step_us, prompt_tokens, steps;
};
typedef struct llama_context *llama_memory_t;

struct llama_sampler {
  bantam_generate_options options;
  char order[96];
  bool is_chain;
  bantam_sampler *made; /* with the first context that it samples from */
};

/* ---- 2. Library ---- */

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
static inline void llama_numa_init(enum ggml_numa_strategy numa) { (void)numa; }
static inline size_t llama_max_parallel_sequences(void) { return 256; }
static inline bool llama_supports_mmap(void) { return true; }
static inline bool llama_supports_gpu_offload(void) { return false; }
static inline int64_t ggml_time_us(void) {
#if defined(CLOCK_MONOTONIC)
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
#else
  return (int64_t)time(NULL) * 1000000; /* strict C has no finer wall clock */
#endif
}
static inline int64_t llama_time_us(void) { return ggml_time_us(); }
static inline void llama_log_set(ggml_log_callback callback, void *user_data) {
  bantam_llama_log_ = callback;
  bantam_llama_log_user_ = user_data;
}

/* ---- 3. Models ---- */

static inline struct llama_model_params llama_model_default_params(void) {
  struct llama_model_params params = {0, NULL, NULL, false, true, false};
  return params;
}
static inline int bantam_llama_progress_(int64_t done, int64_t total, void *user) {
  const struct llama_model_params *params = (const struct llama_model_params *)user;
  return !params->progress_callback(total > 0 ? (float)done / (float)total : 1.0f, params->progress_callback_user_data);
}
static inline struct llama_model *llama_model_load_from_file(const char *path, struct llama_model_params params) {
  bantam_model *model = NULL;
  bantam_load_options options = BANTAM_LOAD_OPTIONS_INIT;
  if (!params.use_mmap) options.memory = "huge_pages";
  if (params.progress_callback) options.progress = bantam_llama_progress_;
  options.progress_user = &params;
  bantam_llama_check_(params.vocab_only ? bantam_model_load_tokenizer(&model, path) : bantam_model_load_with(&model, path, &options));
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
static inline int32_t llama_model_n_embd_out(const struct llama_model *model) { return llama_model_n_embd(model); }
static inline int32_t llama_model_n_head_kv(const struct llama_model *model) { return (int32_t)bantam_llama_info_(model).kv_heads; }
static inline int32_t llama_model_n_layer(const struct llama_model *model) { return (int32_t)bantam_llama_info_(model).layers; }
static inline int32_t llama_model_n_head(const struct llama_model *model) { return (int32_t)bantam_llama_info_(model).heads; }
static inline uint64_t llama_model_size(const struct llama_model *model) { return (uint64_t)bantam_llama_info_(model).bytes; }
static inline uint64_t llama_model_n_params(const struct llama_model *model) { return (uint64_t)bantam_llama_info_(model).weights; }
/* Every model here is a causal decoder and nothing else. */
static inline bool llama_model_has_encoder(const struct llama_model *model) { return (void)model, false; }
static inline bool llama_model_has_decoder(const struct llama_model *model) { return (void)model, true; }
static inline llama_token llama_model_decoder_start_token(const struct llama_model *model) { return (void)model, LLAMA_TOKEN_NULL; }
static inline bool llama_model_is_recurrent(const struct llama_model *model) { return (void)model, false; }
static inline uint32_t llama_model_n_cls_out(const struct llama_model *model) { return (void)model, 0; }
static inline const char *llama_model_cls_label(const struct llama_model *model, uint32_t i) { return (void)model, (void)i, (const char *)NULL; }
static inline int32_t bantam_llama_copy_(const char *text, char *buf, size_t buf_size) { return snprintf(buf, buf_size, "%s", text); }
static inline int32_t llama_model_desc(const struct llama_model *model, char *buf, size_t buf_size) {
  const bantam_model_info info = bantam_llama_info_(model);
  return snprintf(buf, buf_size, "%s %.2f B", info.architecture, (double)info.weights / 1e9);
}
/* Metadata: the length of a text, or -1 where there is none. */
static inline int32_t llama_model_meta_count(const struct llama_model *model) { return (int32_t)bantam_model_metadata_count(model); }
static inline int32_t llama_model_meta_key_by_index(const struct llama_model *model, int32_t i, char *buf, size_t buf_size) {
  const char *key = NULL;
  return i < 0 || bantam_model_get_metadata(model, (size_t)i, &key, NULL) ? -1 : bantam_llama_copy_(key, buf, buf_size);
}
static inline int32_t llama_model_meta_val_str_by_index(const struct llama_model *model, int32_t i, char *buf, size_t buf_size) {
  const char *value = NULL;
  return i < 0 || bantam_model_get_metadata(model, (size_t)i, NULL, &value) ? -1 : bantam_llama_copy_(value, buf, buf_size);
}
static inline int32_t llama_model_meta_val_str(const struct llama_model *model, const char *key, char *buf, size_t buf_size) {
  const char *name = NULL, *value = NULL;
  for (size_t i = 0; !bantam_model_get_metadata(model, i, &name, &value); ++i) {
    if (!strcmp(name, key)) return bantam_llama_copy_(value, buf, buf_size);
  }
  return -1;
}
static inline const char *llama_model_chat_template(const struct llama_model *model, const char *name) {
  const char *text = bantam_llama_info_(model).chat_template;
  return name || !text || !*text ? NULL : text;
}
/* ---- 4. Vocabularies ---- */

static inline int32_t llama_vocab_n_tokens(const struct llama_vocab *vocab) { return (int32_t)bantam_llama_info_(vocab).vocabulary; }
static inline llama_token llama_vocab_bos(const struct llama_vocab *vocab) { return bantam_llama_info_(vocab).bos_token; }
static inline llama_token llama_vocab_eos(const struct llama_vocab *vocab) { return bantam_llama_info_(vocab).eos_token; }
static inline llama_token llama_vocab_sep(const struct llama_vocab *vocab) { return (void)vocab, LLAMA_TOKEN_NULL; }
static inline bool llama_vocab_get_add_sep(const struct llama_vocab *vocab) { return (void)vocab, false; }
/* What an empty text gets at its beginning, or at its end. */
static inline llama_token bantam_llama_added_(const struct llama_vocab *vocab, bool at_end) {
  int32_t ids[16];
  size_t count = 0;
  if (bantam_tokenize(vocab, "", 0, BANTAM_ADD_SPECIAL, ids, 16, &count) || !count || count > 16) return LLAMA_TOKEN_NULL;
  return ids[at_end ? count - 1 : 0];
}
static inline bool llama_vocab_get_add_bos(const struct llama_vocab *vocab) {
  const llama_token bos = llama_vocab_bos(vocab);
  return bos >= 0 && bantam_llama_added_(vocab, false) == bos;
}
static inline bool llama_vocab_get_add_eos(const struct llama_vocab *vocab) {
  const llama_token eos = llama_vocab_eos(vocab);
  return eos >= 0 && bantam_llama_added_(vocab, true) == eos;
}
static inline bantam_token_info bantam_llama_token_(const struct llama_vocab *vocab, llama_token token) {
  bantam_token_info info = BANTAM_TOKEN_INFO_INIT;
  bantam_llama_check_(bantam_model_get_token(vocab, token, &info));
  return info;
}
static inline const char *llama_vocab_get_text(const struct llama_vocab *vocab, llama_token token) { return bantam_llama_token_(vocab, token).piece; }
static inline float llama_vocab_get_score(const struct llama_vocab *vocab, llama_token token) { return bantam_llama_token_(vocab, token).score; }
static inline enum llama_token_attr llama_vocab_get_attr(const struct llama_vocab *vocab, llama_token token) {
  switch (bantam_llama_token_(vocab, token).type) {
    case BANTAM_TOKEN_UNKNOWN: return LLAMA_TOKEN_ATTR_UNKNOWN;
    case BANTAM_TOKEN_CONTROL: return LLAMA_TOKEN_ATTR_CONTROL;
    case BANTAM_TOKEN_USER_DEFINED: return LLAMA_TOKEN_ATTR_USER_DEFINED;
    case BANTAM_TOKEN_UNUSED: return LLAMA_TOKEN_ATTR_UNUSED;
    case BANTAM_TOKEN_BYTE: return LLAMA_TOKEN_ATTR_BYTE;
    default: return LLAMA_TOKEN_ATTR_NORMAL;
  }
}
static inline bool llama_vocab_is_control(const struct llama_vocab *vocab, llama_token token) {
  return bantam_llama_token_(vocab, token).type == BANTAM_TOKEN_CONTROL;
}
static inline bool llama_vocab_is_eog(const struct llama_vocab *vocab, llama_token token) { return bantam_token_ends(vocab, token) != 0; }

/* ---- 5. Tokens: lengths, or less what is needed where the buffer is too small ---- */

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
  const bantam_token_info info = bantam_llama_token_(vocab, token);
  if (info.is_special && (!special || info.piece_bytes > room)) return special ? -(int32_t)info.piece_bytes : 0;
  if (info.is_special) {
    memcpy(buf, info.piece, info.piece_bytes);
    return (int32_t)info.piece_bytes;
  }
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

/* ---- 6. Contexts ---- */

static inline struct llama_context_params llama_context_default_params(void) {
  struct llama_context_params params = {512, 2048, 512, 1, 0, 0, LLAMA_POOLING_TYPE_UNSPECIFIED, LLAMA_ATTENTION_TYPE_UNSPECIFIED,
                                        GGML_TYPE_F16, GGML_TYPE_F16, false, true, false, true};
  return params;
}
static inline void llama_free(struct llama_context *ctx) {
  if (!ctx) return;
  for (uint32_t i = 0; i < ctx->sequence_count; ++i) {
    bantam_session_free(ctx->sequences[i].session);
    free(ctx->sequences[i].pooled);
  }
  free(ctx->sequences);
  free(ctx->values);
  free(ctx->row_of);
  free(ctx->adapters);
  free(ctx->adapter_scales);
  free(ctx);
}
/* The sequence, with a session; NULL for a number that is none. */
static inline struct bantam_llama_sequence_ *bantam_llama_sequence_of_(struct llama_context *ctx, llama_seq_id seq_id) {
  struct bantam_llama_sequence_ *sequence;
  if (seq_id < 0 || (uint32_t)seq_id >= ctx->sequence_count) return NULL;
  sequence = &ctx->sequences[seq_id];
  if (!sequence->session && bantam_llama_check_(bantam_session_new(&sequence->session, ctx->model, &ctx->options))) return NULL;
  return sequence;
}
static inline struct llama_context *llama_init_from_model(struct llama_model *model, struct llama_context_params params) {
  const bantam_session_options initial = BANTAM_SESSION_OPTIONS_INIT;
  const char *kv = params.type_k == GGML_TYPE_F32    ? "f32"
                   : params.type_k == GGML_TYPE_Q8_0 ? "q8"
                   : params.type_k == GGML_TYPE_Q4_0 ? "q4"
                                                     : "f16";
  struct llama_context *ctx;
  if (params.type_k != params.type_v || params.attention_type == LLAMA_ATTENTION_TYPE_NON_CAUSAL || params.pooling_type == LLAMA_POOLING_TYPE_RANK) {
    bantam_llama_say_(GGML_LOG_LEVEL_ERROR, "context: expected causal attention, no ranking, and keys and values of one type");
    return NULL;
  }
  ctx = (struct llama_context *)calloc(1, sizeof *ctx);
  if (!ctx) return NULL;
  ctx->options = initial;
  ctx->options.context_tokens = params.n_ctx;
  ctx->options.threads = params.n_threads;
  ctx->options.kv = kv;
  ctx->model = model;
  ctx->embeddings = params.embeddings;
  ctx->pooling = params.pooling_type == LLAMA_POOLING_TYPE_UNSPECIFIED ? LLAMA_POOLING_TYPE_NONE : params.pooling_type;
  ctx->sequence_count = params.n_seq_max ? params.n_seq_max : 1;
  ctx->sequences = (struct bantam_llama_sequence_ *)calloc(ctx->sequence_count, sizeof *ctx->sequences);
  ctx->vocabulary = (size_t)bantam_llama_info_(model).vocabulary;
  ctx->width = (size_t)bantam_llama_info_(model).width;
  if (!ctx->sequences) ctx->sequence_count = 0;
  if (!bantam_llama_sequence_of_(ctx, 0)) {
    llama_free(ctx);
    return NULL;
  }
  return ctx;
}
static inline uint32_t llama_n_ctx(const struct llama_context *ctx) { return (uint32_t)bantam_session_context(ctx->sequences[0].session); }
static inline uint32_t llama_n_seq_max(const struct llama_context *ctx) { return ctx->sequence_count; }
static inline const struct llama_model *llama_get_model(const struct llama_context *ctx) { return ctx->model; }
static inline enum llama_pooling_type llama_pooling_type(const struct llama_context *ctx) { return ctx->pooling; }
static inline void llama_set_embeddings(struct llama_context *ctx, bool embeddings) { ctx->embeddings = embeddings; }
static inline void llama_perf_context_print(const struct llama_context *ctx) {
  fprintf(stderr, "llama_perf_context_print: %lld tokens of prompts in %.2f ms, %lld tokens one by one in %.2f ms\n", (long long)ctx->prompt_tokens,
          (double)ctx->prompt_us / 1000, (long long)ctx->steps, (double)ctx->step_us / 1000);
}
static inline void llama_perf_context_reset(struct llama_context *ctx) { ctx->prompt_us = ctx->step_us = ctx->prompt_tokens = ctx->steps = 0; }

/* ---- 7. Adapters ---- */

static inline struct llama_adapter_lora *llama_adapter_lora_init(struct llama_model *model, const char *path_lora) {
  bantam_adapter *adapter = NULL;
  bantam_llama_check_(bantam_adapter_load(&adapter, model, path_lora));
  return adapter;
}
static inline void llama_adapter_lora_free(struct llama_adapter_lora *adapter) { bantam_adapter_free(adapter); }
/* Of all sequences, in the place of those before; what they hold is read again with them. 0, or -1. */
static inline int32_t llama_set_adapters_lora(struct llama_context *ctx, struct llama_adapter_lora **adapters, size_t n_adapters, float *scales) {
  const bantam_adapter **own = (const bantam_adapter **)calloc(n_adapters ? n_adapters : 1, sizeof *own);
  float *own_scales = (float *)calloc(n_adapters ? n_adapters : 1, sizeof *own_scales);
  int32_t status = own && own_scales ? 0 : -1;
  for (size_t i = 0; !status && i < n_adapters; ++i) {
    own[i] = adapters[i];
    own_scales[i] = scales[i];
  }
  for (uint32_t i = 0; !status && i < ctx->sequence_count; ++i) {
    if (ctx->sequences[i].session && bantam_llama_check_(bantam_session_set_adapters(ctx->sequences[i].session, own, own_scales, n_adapters))) status = -1;
  }
  if (status) { /* sequences are alike: the first refuses what any would */
    free(own);
    free(own_scales);
    return status;
  }
  free(ctx->adapters);
  free(ctx->adapter_scales);
  ctx->adapters = own;
  ctx->adapter_scales = own_scales;
  ctx->options.adapters = own;
  ctx->options.adapter_scales = own_scales;
  ctx->options.adapter_count = n_adapters;
  return 0;
}

/* ---- 8. Sequences: what they hold ---- */

static inline size_t bantam_llama_held_(const struct bantam_llama_sequence_ *sequence) {
  const int32_t *ids = NULL;
  size_t count = 0;
  if (sequence->session) bantam_llama_check_(bantam_session_tokens(sequence->session, &ids, &count));
  return count;
}
static inline llama_memory_t llama_get_memory(const struct llama_context *ctx) { return (llama_memory_t)ctx; }
static inline bool llama_memory_can_shift(llama_memory_t mem) { return (void)mem, true; }
static inline bool bantam_llama_forget_(struct bantam_llama_sequence_ *sequence) {
  sequence->hole = 0;
  return !sequence->session || !bantam_llama_check_(bantam_session_truncate(sequence->session, 0));
}
static inline void llama_memory_clear(llama_memory_t mem, bool data) {
  (void)data;
  for (uint32_t i = 0; i < mem->sequence_count; ++i) bantam_llama_forget_(&mem->sequences[i]);
}
/* Removes positions p0 .. p1 - 1 (negative: from the beginning, to the end). What is removed from the middle leaves a gap, which
 * llama_memory_seq_add() has to close before the sequence goes on. */
static inline bool llama_memory_seq_rm(llama_memory_t mem, llama_seq_id seq_id, llama_pos p0, llama_pos p1) {
  struct bantam_llama_sequence_ *sequence;
  const size_t first = p0 > 0 ? (size_t)p0 : 0;
  size_t held, last;
  if (seq_id < 0) {
    bool all = true;
    for (uint32_t i = 0; i < mem->sequence_count; ++i) all = llama_memory_seq_rm(mem, (llama_seq_id)i, p0, p1) && all;
    return all;
  }
  sequence = bantam_llama_sequence_of_(mem, seq_id);
  if (!sequence || sequence->hole) return false;
  held = bantam_llama_held_(sequence);
  last = p1 < 0 || (size_t)p1 > held ? held : (size_t)p1;
  if (first >= last) return true;
  if (bantam_llama_check_(bantam_session_remove(sequence->session, first, last))) return false;
  if (last < held) {
    sequence->hole_at = first;
    sequence->hole = last - first;
  }
  return true;
}
/* Closes the gap that llama_memory_seq_rm() left: p0 its end, p1 the end of the sequence, delta minus its size. */
static inline void llama_memory_seq_add(llama_memory_t mem, llama_seq_id seq_id, llama_pos p0, llama_pos p1, llama_pos delta) {
  struct bantam_llama_sequence_ *sequence = bantam_llama_sequence_of_(mem, seq_id);
  if (!sequence || !delta) return;
  if (sequence->hole && p0 >= (llama_pos)sequence->hole_at && p0 <= (llama_pos)(sequence->hole_at + sequence->hole) && delta == -(llama_pos)sequence->hole &&
      (p1 < 0 || (size_t)p1 >= bantam_llama_held_(sequence) + sequence->hole)) {
    sequence->hole = 0;
  } else {
    bantam_llama_say_(GGML_LOG_LEVEL_ERROR, "llama_memory_seq_add: expected the gap that llama_memory_seq_rm left to be closed, found another shift");
  }
}
/* From the beginning to p1 (negative: the end), into a sequence that is lost. */
static inline void llama_memory_seq_cp(llama_memory_t mem, llama_seq_id src, llama_seq_id dst, llama_pos p0, llama_pos p1) {
  struct bantam_llama_sequence_ *from = bantam_llama_sequence_of_(mem, src), *to = bantam_llama_sequence_of_(mem, dst);
  bantam_session *copy = NULL;
  if (!from || !to || from == to) return;
  if (p0 > 0 || from->hole) {
    bantam_llama_say_(GGML_LOG_LEVEL_ERROR, "llama_memory_seq_cp: expected a sequence from its beginning");
    return;
  }
  if (bantam_llama_check_(bantam_session_fork(&copy, from->session))) return;
  if (p1 >= 0 && (size_t)p1 < bantam_llama_held_(from)) bantam_llama_check_(bantam_session_truncate(copy, (size_t)p1));
  bantam_session_free(to->session);
  to->session = copy;
  to->hole = 0;
}
static inline void llama_memory_seq_keep(llama_memory_t mem, llama_seq_id seq_id) {
  for (uint32_t i = 0; i < mem->sequence_count; ++i) {
    if ((llama_seq_id)i != seq_id) bantam_llama_forget_(&mem->sequences[i]);
  }
}
/* The last position; -1 for an empty sequence. */
static inline llama_pos llama_memory_seq_pos_max(llama_memory_t mem, llama_seq_id seq_id) {
  const struct bantam_llama_sequence_ *sequence = bantam_llama_sequence_of_(mem, seq_id);
  return sequence ? (llama_pos)(bantam_llama_held_(sequence) + sequence->hole) - 1 : -1;
}
static inline llama_pos llama_memory_seq_pos_min(llama_memory_t mem, llama_seq_id seq_id) {
  return llama_memory_seq_pos_max(mem, seq_id) < 0 ? -1 : 0;
}
/* State: bytes written or read, 0 for failure. The whole state is that of sequence 0. Logits are not part of it. */
static inline size_t llama_state_seq_get_data(struct llama_context *ctx, uint8_t *dst, size_t size, llama_seq_id seq_id) {
  struct bantam_llama_sequence_ *sequence = bantam_llama_sequence_of_(ctx, seq_id);
  size_t bytes = 0;
  if (!sequence || sequence->hole || bantam_llama_check_(bantam_session_save_memory(sequence->session, dst, size, &bytes))) return 0;
  return size && bytes > size ? 0 : bytes;
}
static inline size_t llama_state_seq_get_size(struct llama_context *ctx, llama_seq_id seq_id) { return llama_state_seq_get_data(ctx, NULL, 0, seq_id); }
static inline size_t llama_state_seq_set_data(struct llama_context *ctx, const uint8_t *src, size_t size, llama_seq_id seq_id) {
  struct bantam_llama_sequence_ *sequence = bantam_llama_sequence_of_(ctx, seq_id);
  bantam_session *restored = NULL;
  if (!sequence || bantam_llama_check_(bantam_session_restore_memory(&restored, ctx->model, src, size, &ctx->options))) return 0;
  bantam_session_free(sequence->session);
  sequence->session = restored;
  sequence->hole = 0;
  ctx->rows = ctx->batch_size = 0;
  return size;
}
static inline size_t llama_state_get_size(struct llama_context *ctx) { return llama_state_seq_get_size(ctx, 0); }
static inline size_t llama_state_get_data(struct llama_context *ctx, uint8_t *dst, size_t size) { return llama_state_seq_get_data(ctx, dst, size, 0); }
static inline size_t llama_state_set_data(struct llama_context *ctx, const uint8_t *src, size_t size) { return llama_state_seq_set_data(ctx, src, size, 0); }

/* ---- 9. Batches ---- */

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

/* ---- 10. Decoding ---- */

static inline bool bantam_llama_wants_(const llama_batch *batch, int32_t i) {
  return batch->logits ? batch->logits[i] != 0 : i + 1 == batch->n_tokens;
}
static inline llama_seq_id bantam_llama_owner_(const llama_batch *batch, int32_t i) { return batch->n_seq_id ? batch->seq_id[i][0] : 0; }

/* A batch by sequences: tokens of sequence s are ids[starts[s]] .. ids[starts[s + 1]], and places[] says where in the batch. */
struct bantam_llama_sorted_ {
  struct llama_context *ctx;
  int32_t *ids, *places;
  size_t *starts;
  uint32_t at; /* the sequence that is read */
};
static inline int bantam_llama_take_(int64_t index, const float *values, size_t count, void *user) {
  const struct bantam_llama_sorted_ *sorted = (const struct bantam_llama_sorted_ *)user;
  struct llama_context *ctx = sorted->ctx;
  const size_t first = sorted->starts[sorted->at], tokens = sorted->starts[sorted->at + 1] - first;
  const int32_t row = ctx->row_of[sorted->places[first + (size_t)index]];
  float *pooled = ctx->embeddings ? ctx->sequences[sorted->at].pooled : NULL;
  if (row >= 0) memcpy(ctx->values + (size_t)row * count, values, count * sizeof(float));
  if (pooled && ctx->pooling == LLAMA_POOLING_TYPE_MEAN) {
    for (size_t i = 0; i < count; ++i) pooled[i] += values[i] / (float)tokens;
  } else if (pooled && index == (ctx->pooling == LLAMA_POOLING_TYPE_CLS ? 0 : (int64_t)tokens - 1)) {
    memcpy(pooled, values, count * sizeof(float));
  }
  return 0;
}
/* Sorts a batch and finds rows for what it wants. 0, 1 where a context is full, or negative. */
static inline int32_t bantam_llama_sort_(struct bantam_llama_sorted_ *sorted, const llama_batch *batch) {
  struct llama_context *ctx = sorted->ctx;
  size_t *starts = sorted->starts;
  const size_t wide = ctx->embeddings ? ctx->width : ctx->vocabulary;
  int32_t rows = 0;
  float *values;
  for (int32_t i = 0; i < batch->n_tokens; ++i) {
    struct bantam_llama_sequence_ *sequence = NULL;
    if (!batch->n_seq_id || batch->n_seq_id[i] == 1) sequence = bantam_llama_sequence_of_(ctx, bantam_llama_owner_(batch, i));
    if (!sequence || sequence->hole) {
      bantam_llama_say_(GGML_LOG_LEVEL_ERROR, "llama_decode: expected each token in one sequence of the context, without a gap");
      return -1;
    }
    ++starts[bantam_llama_owner_(batch, i) + 1];
  }
  for (uint32_t s = 0; s < ctx->sequence_count; ++s) {
    if (starts[s + 1] && bantam_llama_held_(&ctx->sequences[s]) + starts[s + 1] > llama_n_ctx(ctx)) return 1;
    starts[s + 1] += starts[s];
  }
  for (int32_t i = 0; i < batch->n_tokens; ++i) {
    const llama_seq_id s = bantam_llama_owner_(batch, i);
    size_t place = starts[s];
    while (sorted->places[place] >= 0) ++place;
    if (batch->pos && (size_t)batch->pos[i] != bantam_llama_held_(&ctx->sequences[s]) + place - starts[s]) {
      bantam_llama_say_(GGML_LOG_LEVEL_ERROR, "llama_decode: expected positions that go on where the sequence ends");
      return -1;
    }
    sorted->ids[place] = batch->token[i];
    sorted->places[place] = i;
    ctx->row_of[i] = bantam_llama_wants_(batch, i) ? rows++ : -1;
  }
  values = (float *)realloc(ctx->values, (size_t)(rows ? rows : 1) * wide * sizeof(float));
  if (!values) return -2;
  ctx->values = values;
  ctx->rows = rows;
  return 0;
}
/* Whether logits are wanted of the last tokens of sequences alone, so that one pass over the weights serves all of them. */
static inline bool bantam_llama_ends_alone_(const struct bantam_llama_sorted_ *sorted) {
  for (uint32_t s = 0; s < sorted->ctx->sequence_count; ++s) {
    for (size_t i = sorted->starts[s]; i + 1 < sorted->starts[s + 1]; ++i) {
      if (sorted->ctx->row_of[sorted->places[i]] >= 0) return false;
    }
  }
  return true;
}
static inline bantam_status bantam_llama_read_together_(const struct bantam_llama_sorted_ *sorted) {
  struct llama_context *ctx = sorted->ctx;
  const size_t n = ctx->sequence_count;
  bantam_session **sessions = (bantam_session **)calloc(n, sizeof *sessions);
  const int32_t **ids = (const int32_t **)calloc(n, sizeof *ids);
  size_t *counts = (size_t *)calloc(n, sizeof *counts), some = 0;
  bantam_status status = sessions && ids && counts ? BANTAM_OK : BANTAM_OUT_OF_MEMORY;
  for (uint32_t s = 0; !status && s < n; ++s) {
    if (sorted->starts[s] == sorted->starts[s + 1]) continue;
    sessions[some] = ctx->sequences[s].session;
    ids[some] = sorted->ids + sorted->starts[s];
    counts[some++] = sorted->starts[s + 1] - sorted->starts[s];
  }
  if (!status) status = bantam_llama_check_(bantam_sessions_prefill(sessions, ids, counts, some));
  for (uint32_t s = 0; !status && s < n; ++s) {
    const float *row = NULL;
    size_t count = 0;
    int32_t at;
    if (sorted->starts[s] == sorted->starts[s + 1]) continue;
    at = ctx->row_of[sorted->places[sorted->starts[s + 1] - 1]];
    if (at < 0) continue;
    status = bantam_llama_check_(bantam_session_logits(ctx->sequences[s].session, &row, &count));
    if (!status) memcpy(ctx->values + (size_t)at * count, row, count * sizeof(float));
  }
  free(counts);
  free((void *)ids);
  free(sessions);
  return status;
}
static inline bantam_status bantam_llama_read_rows_(struct bantam_llama_sorted_ *sorted) {
  struct llama_context *ctx = sorted->ctx;
  bantam_status status = BANTAM_OK;
  for (uint32_t s = 0; !status && s < ctx->sequence_count; ++s) {
    const size_t first = sorted->starts[s], count = sorted->starts[s + 1] - first;
    struct bantam_llama_sequence_ *sequence = &ctx->sequences[s];
    free(sequence->pooled);
    sequence->pooled = NULL;
    if (!count) continue;
    if (ctx->embeddings && ctx->pooling != LLAMA_POOLING_TYPE_NONE) {
      sequence->pooled = (float *)calloc(ctx->width, sizeof(float));
      if (!sequence->pooled) return BANTAM_OUT_OF_MEMORY;
    }
    sorted->at = s;
    status = ctx->embeddings ? bantam_session_states(sequence->session, sorted->ids + first, count, bantam_llama_take_, sorted)
                             : bantam_session_score(sequence->session, sorted->ids + first, count, bantam_llama_take_, sorted);
    bantam_llama_check_(status);
  }
  return status;
}
/* 0; 1 where the context is full; negative for errors, and sequences are then as they were. */
static inline int32_t llama_decode(struct llama_context *ctx, llama_batch batch) {
  const int64_t begin = ggml_time_us();
  const size_t n = batch.n_tokens > 0 ? (size_t)batch.n_tokens : 0;
  struct bantam_llama_sorted_ sorted;
  size_t *held;
  int32_t *row_of;
  int32_t result = -2;
  if (!n || !batch.token) return -1;
  sorted.ctx = ctx;
  sorted.at = 0;
  sorted.ids = (int32_t *)malloc(n * sizeof(int32_t));
  sorted.places = (int32_t *)malloc(n * sizeof(int32_t));
  sorted.starts = (size_t *)calloc(ctx->sequence_count + 1u, sizeof(size_t));
  held = (size_t *)calloc(ctx->sequence_count, sizeof(size_t));
  row_of = (int32_t *)realloc(ctx->row_of, n * sizeof(int32_t));
  if (row_of) ctx->row_of = row_of;
  ctx->rows = ctx->batch_size = 0;
  if (sorted.ids && sorted.places && sorted.starts && held && row_of) {
    for (size_t i = 0; i < n; ++i) sorted.places[i] = -1;
    for (uint32_t s = 0; s < ctx->sequence_count; ++s) held[s] = bantam_llama_held_(&ctx->sequences[s]);
    result = bantam_llama_sort_(&sorted, &batch);
    if (!result && (ctx->embeddings || !bantam_llama_ends_alone_(&sorted) ? bantam_llama_read_rows_(&sorted) : bantam_llama_read_together_(&sorted))) {
      for (uint32_t s = 0; s < ctx->sequence_count; ++s) {
        if (ctx->sequences[s].session) bantam_session_truncate(ctx->sequences[s].session, held[s]);
      }
      result = -3;
    }
  }
  free(held);
  free(sorted.starts);
  free(sorted.places);
  free(sorted.ids);
  if (result) {
    ctx->rows = 0;
    return result;
  }
  ctx->batch_size = batch.n_tokens;
  *(n > 1 ? &ctx->prompt_us : &ctx->step_us) += ggml_time_us() - begin;
  *(n > 1 ? &ctx->prompt_tokens : &ctx->steps) += (int64_t)n;
  return 0;
}
/* Embeddings without a past: what the sequences held is forgotten. */
static inline int32_t llama_encode(struct llama_context *ctx, llama_batch batch) {
  llama_memory_clear(ctx, true);
  return llama_decode(ctx, batch);
}

/* ---- 11. Outputs ---- */

static inline float *bantam_llama_row_(struct llama_context *ctx, int32_t i, size_t wide) {
  const int32_t row = i < 0 ? ctx->rows + i : i < ctx->batch_size ? ctx->row_of[i] : -1;
  return row < 0 ? NULL : ctx->values + (size_t)row * wide;
}
static inline float *llama_get_logits(struct llama_context *ctx) { return ctx->rows && !ctx->embeddings ? ctx->values : NULL; }
/* Of token i of the last batch; negative i count rows from the last. NULL where none were asked for. */
static inline float *llama_get_logits_ith(struct llama_context *ctx, int32_t i) {
  return ctx->embeddings ? NULL : bantam_llama_row_(ctx, i, ctx->vocabulary);
}
/* The same of hidden states, in a context with embeddings and without pooling. */
static inline float *llama_get_embeddings(struct llama_context *ctx) {
  return ctx->rows && ctx->embeddings && ctx->pooling == LLAMA_POOLING_TYPE_NONE ? ctx->values : NULL;
}
static inline float *llama_get_embeddings_ith(struct llama_context *ctx, int32_t i) { return ctx->embeddings ? bantam_llama_row_(ctx, i, ctx->width) : NULL; }
/* With pooling: of what the last batch held of a sequence; NULL where that is nothing. */
static inline float *llama_get_embeddings_seq(struct llama_context *ctx, llama_seq_id seq_id) {
  return seq_id >= 0 && (uint32_t)seq_id < ctx->sequence_count ? ctx->sequences[seq_id].pooled : NULL;
}

/* ---- 12. Samplers: a chain in the order in which it was built ---- */

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
  if (s) s->options.top_k = k > 0 ? k : 0;
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
  if (s) s->options.temperature = t > 0 ? t : 0;
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

static inline void llama_perf_sampler_print(const struct llama_sampler *chain) { (void)chain; /* too little to measure */ }
static inline void llama_perf_sampler_reset(struct llama_sampler *chain) { (void)chain; }

/* ---- 13. Conversations ---- */

static inline bantam_message *bantam_llama_messages_(const llama_chat_message *chat, size_t n_msg) {
  bantam_message *messages = (bantam_message *)calloc(n_msg ? n_msg : 1, sizeof *messages);
  for (size_t i = 0; messages && i < n_msg; ++i) {
    messages[i].role = chat[i].role;
    messages[i].content = chat[i].content;
    messages[i].content_bytes = strlen(chat[i].content);
  }
  return messages;
}
/* Renders Jinja itself; NULL is ChatML, as in llama.cpp, whose names of templates are not known here. bos_token and eos_token are
 * empty in it, so that llama_tokenize() may add BOS. Returns the length, perhaps above `length`; negative on failure. */
static inline int32_t llama_chat_apply_template(const char *tmpl, const llama_chat_message *chat, size_t n_msg, bool add_ass, char *buf,
                                                int32_t length) {
  static const char chatml[] =
      "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
      "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
  size_t bytes = 0;
  bantam_status status;
  bantam_message *messages = bantam_llama_messages_(chat, n_msg);
  if (!messages) return -1;
  if (!tmpl) tmpl = chatml;
  status = bantam_render_chat_template(tmpl, strlen(tmpl), messages, n_msg, add_ass, buf, length > 0 ? (size_t)length : 0, &bytes);
  free(messages);
  return bantam_llama_check_(status) ? -1 : (int32_t)bytes;
}
/* The same by the model's own template, with its bos_token and eos_token. */
static inline int32_t llama_model_apply_chat_template(const struct llama_model *model, const llama_chat_message *chat, size_t n_msg,
                                                      bool add_ass, char *buf, int32_t length) {
  size_t bytes = 0;
  bantam_status status;
  bantam_message *messages = bantam_llama_messages_(chat, n_msg);
  if (!messages) return -1;
  status = bantam_apply_chat_template(model, messages, n_msg, add_ass, buf, length > 0 ? (size_t)length : 0, &bytes);
  free(messages);
  return bantam_llama_check_(status) ? -1 : (int32_t)bytes;
}

#endif
