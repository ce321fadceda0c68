/*
 * bantam: compresses large language models and runs them on a CPU. This is the C interface: C99, no dependency.
 *
 *   bantam_model *model = NULL;
 *   bantam_session *session = NULL;
 *   bantam_status status = bantam_model_load(&model, "model.gguf");
 *   if (!status) status = bantam_session_new(&session, model, NULL);
 *   if (!status) status = bantam_session_generate(session, "Hello", 64, print_text, stdout);
 *   if (status) fprintf(stderr, "%s: %s\n", bantam_status_name(status), bantam_last_error());
 *   bantam_session_free(session);
 *   bantam_model_free(model);
 *
 * Contents: search for "---- 8." to get to section 8.
 *    1. Conventions    what holds for every call: status, ownership, text, arrays, options, threads
 *    2. Library        version, status, log, memory, cores, formats
 *    3. Models         loading, saving, what a file says of its model, tensors
 *    4. Tokens         from text to tokens and back, the vocabulary
 *    5. Conversations  the prompt that a chat template makes
 *    6. Replies        reasoning, text and calls of tools told apart
 *    7. Adapters       LoRA
 *    8. Sessions       what a model has read, with its keys and values: reading, logits, forks, files
 *    9. Embedders      texts as rows of numbers, documents by how well they answer a query
 *   10. Grammars       what alone may come
 *   11. Generations    text from a prompt: all at once, by pieces, several in step
 *   12. Texts          several behind one prompt, beam search
 *   13. Schedulers     requests of many, run together
 *   14. Samplers       for loops of one's own
 *   15. Weights        one matrix in a format
 *   16. Compression    methods, options, reports
 *   17. Quality        perplexity, divergence
 *
 * ---- 1. Conventions ----
 *
 * Status. Functions that can fail return a bantam_status: 0, or a negative value whose meaning never changes. What went
 * wrong is one line of text, bantam_last_error(), kept for each thread until its next failure. A failed call leaves its
 * out-parameters as they were and its objects as they were. No exception leaves the library; it never prints or exits.
 *
 * Ownership. Out-parameters come first; what they receive is the caller's, to be freed by the function named *_free, which
 * takes NULL. Pointers returned otherwise, or inside structs, are borrowed: valid until the object they came from changes
 * or is freed. Objects keep what they need: a model may be freed while sessions of it live.
 *
 * Text is UTF-8 with its length in bytes, and may hold zeros; names and paths end with a zero. Text that the library hands
 * out is valid UTF-8 and has a zero behind its end besides.
 *
 * Functions that fill an array take its capacity, fill what fits and say how much there is: when that is more than the
 * capacity, call again with more room. Capacity 0 (with NULL) asks for the size.
 *
 * Options are structs that begin with their own size. Start from the matching _INIT and change fields; NULL means _INIT.
 * Later versions add fields at the end: programs compiled with this header go on working. Options that have no field are
 * `settings`, by name. A struct_size that is no struct's, and values out of their range, are BANTAM_INVALID_ARGUMENT.
 *
 * Threads. "[any thread]": may be called from any thread at any time, at once with any other call on the same object.
 * "[one thread]": the object belongs to one thread at a time; different objects are independent. What stands without a
 * mark is [any thread].
 */
#ifndef BANTAM_H
#define BANTAM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define BANTAM_API __attribute__((visibility("default")))
#else
#define BANTAM_API
#endif

/* ---- 2. Library ---- */

#define BANTAM_VERSION_MAJOR 0
#define BANTAM_VERSION_MINOR 1
#define BANTAM_VERSION_PATCH 0
/** 1000000 major + 1000 minor + patch, of this header. */
#define BANTAM_VERSION_NUMBER (BANTAM_VERSION_MAJOR * 1000000 + BANTAM_VERSION_MINOR * 1000 + BANTAM_VERSION_PATCH)

/** The library's version, as BANTAM_VERSION_NUMBER is the header's. A program may check that they agree up to the patch:
 *  assert(bantam_version_number() / 1000 == BANTAM_VERSION_NUMBER / 1000). */
BANTAM_API int32_t bantam_version_number(void);
/** "0.1.0" */
BANTAM_API const char *bantam_version(void);
/** Whether this build can do something: "format:i4.g64", "isa:avx2", "architecture:llama", "method:gptq" or
 *  "target:gguf". 1 or 0. */
BANTAM_API int bantam_has(const char *feature);

typedef int32_t bantam_status;
enum {
  BANTAM_OK = 0,
  BANTAM_INVALID_ARGUMENT = -1, /* the caller asked for something that makes no sense */
  BANTAM_NOT_FOUND = -2,        /* a file, tensor, key or name does not exist */
  BANTAM_IO = -3,               /* the operating system refused a read or a write */
  BANTAM_CORRUPT = -4,          /* bytes from outside break their format */
  BANTAM_UNSUPPORTED = -5,      /* well-formed, but nothing here can handle it (yet) */
  BANTAM_OUT_OF_MEMORY = -6,
  BANTAM_CANCELLED = -7,        /* a callback or bantam_session_cancel() asked to stop */
  BANTAM_INTERNAL = -8,         /* a mistake in the library: please report it */
  BANTAM_GRAMMAR = -9           /* a text cannot go on under its grammar: the vocabulary has no token for what is next, or there are too many ways to read it */
};

/** "corrupt", ...; "unknown" for other values. */
BANTAM_API const char *bantam_status_name(bantam_status status);
/** What the calling thread's last failed call said: one line that names the place, what was expected and what was found.
 *  Empty before the first failure. Cut after 2047 bytes. */
BANTAM_API const char *bantam_last_error(void);

typedef enum { BANTAM_LOG_WARNING = 2 } bantam_log_level;
typedef void (*bantam_log_callback)(bantam_log_level level, const char *line, void *user);
/** Receives what is worth a word though nothing failed: doubts about files, matrices that were rounded otherwise than
 *  asked. Called on the thread that works. NULL (the start): nothing is said. */
BANTAM_API void bantam_set_log_callback(bantam_log_callback callback, void *user);

/** Memory of the host for weights, keys and values, activations and raw arrays: all that is large. `allocate` returns
 *  `bytes` at a multiple of `alignment` (a power of two), or NULL, which becomes BANTAM_OUT_OF_MEMORY. Both are called from
 *  any thread. Small bookkeeping stays with malloc; files that are mapped take none of it. */
typedef struct bantam_allocator {
  size_t struct_size;
  void *(*allocate)(size_t bytes, size_t alignment, void *user);
  void (*release)(void *memory, size_t bytes, void *user);
  void *user;
} bantam_allocator;
#define BANTAM_ALLOCATOR_INIT {sizeof(bantam_allocator), NULL, NULL, NULL}
/** For memory taken from now on; every block goes back to where it came from. NULL: the system's again. */
BANTAM_API bantam_status bantam_set_allocator(const bantam_allocator *allocator);

/** Physical cores that the process may use: what 0 threads stands for. */
BANTAM_API int32_t bantam_core_count(void);
/** The instruction set in use: "avx2", "avx512vnni", "dotprod", ... */
BANTAM_API const char *bantam_isa(void);
/** Uses another one, of those that the machine has, for what is loaded and made from now on. */
BANTAM_API bantam_status bantam_set_isa(const char *name);

/** Weight formats of this build: 0 .. count - 1. */
BANTAM_API size_t bantam_format_count(void);
/** NULL outside the list. */
BANTAM_API const char *bantam_format_name(size_t index);

/** A knob by name, for those that have no field. */
typedef struct bantam_setting {
  const char *name;
  const char *value;
} bantam_setting;

/* ---- 3. Models: constant, shared by any number of sessions and threads ---- */

typedef struct bantam_model bantam_model;

/** How far work is. Nonzero stops it, which ends with BANTAM_CANCELLED. */
typedef int (*bantam_read_progress)(int64_t done, int64_t total, void *user);

/** Returns the bytes read into `to`, at most `bytes`; 0 at the end; negative for failure. */
typedef int64_t (*bantam_read_callback)(void *to, size_t bytes, void *user);

typedef struct bantam_load_options {
  size_t struct_size;
  /** Where weights of native files lie: "automatic", "mapped", "huge_pages", "direct". */
  const char *memory;
  /** Zero points of old GPTQ folders: "automatic", "wrapped", "legacy". */
  const char *gptq_zero;
  /** "memory_limit": bytes for weights, 0: seven eighths of what is free; what does not fit is read from the file as it is wanted, by each engine for itself.
   *  "device_map": JSON of parts of the model, each on "cpu" or "disk", {"": "cpu", "model.layers.0.mlp": "disk"}: says in the limit's place what stays in memory. */
  const bantam_setting *settings;
  size_t setting_count;
  bantam_read_progress progress; /* bytes of weights; called often, on the calling thread; NULL: none */
  void *progress_user;
} bantam_load_options;
#define BANTAM_LOAD_OPTIONS_INIT {sizeof(bantam_load_options), "automatic", "automatic", NULL, 0, NULL, NULL}

/** Loads a Hugging Face folder, a .gguf or a .bantam file, told apart by content. */
BANTAM_API bantam_status bantam_model_load(bantam_model **model, const char *path);
BANTAM_API bantam_status bantam_model_load_with(bantam_model **model, const char *path, const bantam_load_options *options);
/** The bytes of a .gguf or .bantam file; they are copied. */
BANTAM_API bantam_status bantam_model_load_memory(bantam_model **model, const void *bytes, size_t size,
                                                  const bantam_load_options *options);
/** The same from wherever `read` gets them, front to back (an archive, a network, an encrypted file). */
BANTAM_API bantam_status bantam_model_load_reader(bantam_model **model, bantam_read_callback read, void *user,
                                                  const bantam_load_options *options);
/** The tokenizer of a folder or file alone, which need hold no weights: for the functions of sections 4 to 6, and what there is of
 *  bantam_model_get_info(). All else gives BANTAM_INVALID_ARGUMENT. */
BANTAM_API bantam_status bantam_model_load_tokenizer(bantam_model **model, const char *path);
/** Writes a .bantam file; complete under that name, or not there. */
BANTAM_API bantam_status bantam_model_save(const bantam_model *model, const char *path);
BANTAM_API void bantam_model_free(bantam_model *model);

typedef struct bantam_model_info {
  size_t struct_size;
  const char *architecture; /* "llama", "qwen3", ... */
  const char *tokenizer;    /* its kind, for people */
  const char *chat_template; /* Jinja; empty when there is none */
  int64_t vocabulary;       /* tokens, rows of the embedding */
  int64_t context;          /* tokens that the model was made for */
  int64_t layers;
  int64_t width;            /* of the hidden state */
  int64_t heads;
  int64_t kv_heads;
  int64_t head_width;
  int64_t ffn_width;
  int64_t weights;          /* numbers in all matrices */
  int64_t bytes;            /* that they take */
  int32_t bos_token;        /* -1: none */
  int32_t eos_token;        /* -1: none */
} bantam_model_info;
#define BANTAM_MODEL_INFO_INIT {sizeof(bantam_model_info), NULL, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -1, -1}
/** Fills the fields that `info`'s struct_size has room for. Texts belong to the model. */
BANTAM_API bantam_status bantam_model_get_info(const bantam_model *model, bantam_model_info *info);

typedef struct bantam_tensor_info {
  size_t struct_size;
  const char *name;   /* "model.layers.0.mlp.down_proj" */
  const char *format; /* of matrices: "i4.g64"; vectors are "f32" */
  int64_t layer;      /* -1: of no layer */
  int64_t rows;       /* outputs; 1 for vectors */
  int64_t columns;    /* inputs */
  int64_t bytes;
  int32_t is_matrix;
} bantam_tensor_info;
#define BANTAM_TENSOR_INFO_INIT {sizeof(bantam_tensor_info), NULL, NULL, -1, 0, 0, 0, 0}
BANTAM_API size_t bantam_model_tensor_count(const bantam_model *model);
BANTAM_API bantam_status bantam_model_get_tensor(const bantam_model *model, size_t index, bantam_tensor_info *info);
/** The numbers of a matrix or vector, row after row, as the formats define them: `count` is rows * columns. */
BANTAM_API bantam_status bantam_model_read_tensor(const bantam_model *model, const char *name, float *out, size_t count);

/** What the file says of its model, by key: numbers, truth values and texts of GGUF's metadata or of config.json, members of
 *  members after a dot; lists are left out. Ordered by key: 0 .. count - 1. */
BANTAM_API size_t bantam_model_metadata_count(const bantam_model *model);
/** Either out-parameter may be NULL. */
BANTAM_API bantam_status bantam_model_get_metadata(const bantam_model *model, size_t index, const char **key, const char **value);

/** Labels of a model with a classifier; 0: it has none. */
BANTAM_API size_t bantam_model_label_count(const bantam_model *model);
/** The name of one, 0 .. count - 1, as the model's files say, else "LABEL_0" and so on; NULL for others. It belongs to the model. */
BANTAM_API const char *bantam_model_label(const bantam_model *model, size_t index);

/* ---- 4. Tokens ---- */

#define BANTAM_ADD_SPECIAL 1u   /* add BOS and EOS as the tokenizer's files say */
#define BANTAM_PARSE_SPECIAL 2u /* text that spells a special token becomes it */
#define BANTAM_KEEP_SPECIAL 4u  /* special tokens are spelled out in text */

/** Fills `ids` and sets *count to the number of tokens. flags: BANTAM_ADD_SPECIAL | BANTAM_PARSE_SPECIAL or 0. */
BANTAM_API bantam_status bantam_tokenize(const bantam_model *model, const char *text, size_t bytes, uint32_t flags, int32_t *ids,
                                         size_t capacity, size_t *count);
/** Fills `text`, with a zero behind its end where it fits, and sets *bytes to its length. flags: BANTAM_KEEP_SPECIAL or 0. */
BANTAM_API bantam_status bantam_detokenize(const bantam_model *model, const int32_t *ids, size_t count, uint32_t flags, char *text,
                                           size_t capacity, size_t *bytes);
/** The bytes of one token inside a text: perhaps a part of a character, so not always UTF-8. */
BANTAM_API bantam_status bantam_token_bytes(const bantam_model *model, int32_t id, char *out, size_t capacity, size_t *bytes);
/** Whether a model that writes this token has ended its turn. 1 or 0. */
BANTAM_API int bantam_token_ends(const bantam_model *model, int32_t id);

typedef enum {
  BANTAM_TOKEN_NORMAL = 1,
  BANTAM_TOKEN_UNKNOWN = 2,
  BANTAM_TOKEN_CONTROL = 3,
  BANTAM_TOKEN_USER_DEFINED = 4,
  BANTAM_TOKEN_UNUSED = 5,
  BANTAM_TOKEN_BYTE = 6
} bantam_token_type;
typedef struct bantam_token_info {
  size_t struct_size;
  const char *piece;  /* as the vocabulary spells it: "\xe2\x96\x81the", "<0x0A>"; of bytes it stands for: bantam_token_bytes() */
  size_t piece_bytes;
  float score;        /* by which SentencePiece merges; 0 where the vocabulary has none */
  bantam_token_type type;
  int32_t is_special; /* spelled out in text only when asked to */
  int32_t ends;       /* bantam_token_ends() */
} bantam_token_info;
#define BANTAM_TOKEN_INFO_INIT {sizeof(bantam_token_info), NULL, 0, 0.0f, BANTAM_TOKEN_NORMAL, 0, 0}
/** Tokens of the vocabulary: 0 .. count - 1. A model's embedding may have some rows more. */
BANTAM_API size_t bantam_token_count(const bantam_model *model);
BANTAM_API bantam_status bantam_model_get_token(const bantam_model *model, int32_t id, bantam_token_info *info);

/* ---- 5. Conversations ---- */

/** One turn of a conversation that is text alone. This struct stays as it is: conversations with more (tools, tool calls, parts,
 *  reasoning) are JSON, in the functions named *_json. */
typedef struct bantam_message {
  const char *role;    /* "system", "user", "assistant" */
  const char *content;
  size_t content_bytes;
} bantam_message;
/** The prompt that the model's chat template makes of a conversation. Tokenize it with BANTAM_PARSE_SPECIAL alone. */
BANTAM_API bantam_status bantam_apply_chat_template(const bantam_model *model, const bantam_message *messages, size_t count,
                                                    int add_generation_prompt, char *text, size_t capacity, size_t *bytes);
/**
 * The same of a conversation as JSON in the shape of OpenAI's API: an array of messages, or an object with "messages" and whatever
 * else the template reads: "tools", "enable_thinking", "add_generation_prompt" (true unless given). Parts of type text are joined;
 * arguments of tool calls may be JSON in a string.
 */
BANTAM_API bantam_status bantam_apply_chat_template_json(const bantam_model *model, const char *json, size_t json_bytes, char *text,
                                                         size_t capacity, size_t *bytes);
/** What a template (Jinja) of the caller's makes of a conversation; its bos_token and eos_token are empty. */
BANTAM_API bantam_status bantam_render_chat_template(const char *jinja, size_t jinja_bytes, const bantam_message *messages, size_t count,
                                                     int add_generation_prompt, char *text, size_t capacity, size_t *bytes);

/* ---- 6. Replies ---- */

/** How replies are marked: "hermes", "harmony", ... by the model's chat template; "text" without any marks. Never freed. */
BANTAM_API const char *bantam_model_reply_form(const bantam_model *model);

typedef enum {
  BANTAM_REPLY_TEXT = 0,
  BANTAM_REPLY_REASONING = 1,
  BANTAM_REPLY_CALL = 2,        /* a call of the tool `text` begins */
  BANTAM_REPLY_ARGUMENTS = 3,   /* the next piece of its arguments, a JSON object */
  BANTAM_REPLY_CALL_END = 4,    /* the call is whole */
  BANTAM_REPLY_CALL_BROKEN = 5, /* it is none: `text` is all that was taken for it */
  BANTAM_REPLY_MARKUP = 6       /* what stands between these */
} bantam_reply_kind;
typedef struct bantam_reply_event {
  size_t struct_size;
  size_t call;      /* which call of the reply */
  const char *text; /* texts are valid until the next piece */
  size_t text_bytes;
  const char *id;   /* of a call and its end, where the model wrote one */
  size_t id_bytes;
  const char *raw;  /* all of them together are the reply */
  size_t raw_bytes;
  bantam_reply_kind kind;
  int32_t reserved;
} bantam_reply_event;
#define BANTAM_REPLY_EVENT_INIT {sizeof(bantam_reply_event), 0, NULL, 0, NULL, 0, NULL, 0, BANTAM_REPLY_TEXT, 0}

typedef struct bantam_reply bantam_reply; /* [one thread] */

/** Tells reasoning, text and calls of tools apart while a reply streams. `form` as bantam_model_reply_form(). `prompt`: what is replied
 *  to, or its end: templates may open the reasoning; may be NULL. `tools`: JSON as it was given to the template, which says the types
 *  of arguments; NULL: none were offered, and calls are text. Generate with BANTAM_KEEP_SPECIAL. */
BANTAM_API bantam_status bantam_reply_new(bantam_reply **reply, const char *form, const char *prompt, size_t prompt_bytes, const char *tools,
                                          size_t tools_bytes);
/** Reads a piece; *events: how many it brings. */
BANTAM_API bantam_status bantam_reply_feed(bantam_reply *reply, const char *piece, size_t bytes, size_t *events);
/** The reply is over: what was held back. */
BANTAM_API bantam_status bantam_reply_finish(bantam_reply *reply, size_t *events);
BANTAM_API bantam_status bantam_reply_get_event(const bantam_reply *reply, size_t index, bantam_reply_event *event);
BANTAM_API void bantam_reply_free(bantam_reply *reply);

/* ---- 7. Adapters ---- */

/** A LoRA adapter: small changes of a model's matrices, made while it runs; its weights stay as they are. */
typedef struct bantam_adapter bantam_adapter; /* constant: [any thread]; sessions that have it keep what they need */

/** A folder as PEFT writes it, or a GGUF file as llama.cpp's convert_lora_to_gguf.py does, for models of these sizes in any format.
 *  BANTAM_CORRUPT for what is broken or does not fit, BANTAM_UNSUPPORTED for what is no plain LoRA of matrices. */
BANTAM_API bantam_status bantam_adapter_load(bantam_adapter **adapter, const bantam_model *model, const char *path);
typedef struct bantam_adapter_info {
  size_t struct_size;
  size_t matrices; /* that it changes */
  int64_t rank;    /* the largest */
  int64_t bytes;   /* in memory */
} bantam_adapter_info;
#define BANTAM_ADAPTER_INFO_INIT {sizeof(bantam_adapter_info), 0, 0, 0}
BANTAM_API bantam_status bantam_adapter_get_info(const bantam_adapter *adapter, bantam_adapter_info *info);
BANTAM_API void bantam_adapter_free(bantam_adapter *adapter);

/* ---- 8. Sessions: what a model has read, with its keys and values ---- */

typedef struct bantam_session bantam_session; /* [one thread], but for bantam_session_cancel() */

typedef struct bantam_session_options {
  size_t struct_size;
  int64_t context_tokens; /* most tokens that it may hold; 0: what the model was made for */
  int32_t threads;        /* 0: bantam_core_count() */
  int32_t reserved;       /* 0 */
  const char *kv;         /* keys and values: "f16", "q8", "q4", "q3" or "f32" */
  bantam_read_progress progress; /* while prompts are read; NULL: none */
  void *progress_user;
  /** "memory_limit": bytes for keys, values and recurrent states, 0: all are in memory; older ones are in a file, which nobody else sees, in the folder
   *  "memory_folder", or $TMPDIR, or /var/tmp; the text is the same. */
  const bantam_setting *settings;
  size_t setting_count;
  const bantam_adapter *const *adapters; /* as bantam_session_set_adapters() takes them; NULL: none */
  const float *adapter_scales;
  size_t adapter_count;
} bantam_session_options;
#define BANTAM_SESSION_OPTIONS_INIT {sizeof(bantam_session_options), 0, 0, 0, "f16", NULL, NULL, NULL, 0, NULL, NULL, 0}

BANTAM_API bantam_status bantam_session_new(bantam_session **session, const bantam_model *model, const bantam_session_options *options);
/** A session of its own with the same past. Keys and values are shared until one of the two writes. */
BANTAM_API bantam_status bantam_session_fork(bantam_session **copy, const bantam_session *session);
/** From here on `count` adapters, each as many times as much of it as scales[i] says (NULL: once), are added to the model for this session
 *  alone; sessions that share passes may differ in them. Count 0: none. What the session holds is read again with them when it goes on. A
 *  saved session is restored with the adapters that it had, in the options. */
BANTAM_API bantam_status bantam_session_set_adapters(bantam_session *session, const bantam_adapter *const *adapters, const float *scales,
                                                     size_t count);
/** Writes tokens, keys and values, and the last generation's state. */
BANTAM_API bantam_status bantam_session_save(const bantam_session *session, const char *path);
BANTAM_API bantam_status bantam_session_restore(bantam_session **session, const bantam_model *model, const char *path,
                                                const bantam_session_options *options);
/** The same to and from memory: fills `out` and sets *bytes to the size, which grows with the tokens held. */
BANTAM_API bantam_status bantam_session_save_memory(const bantam_session *session, void *out, size_t capacity, size_t *bytes);
BANTAM_API bantam_status bantam_session_restore_memory(bantam_session **session, const bantam_model *model, const void *bytes, size_t size,
                                                       const bantam_session_options *options);
BANTAM_API void bantam_session_free(bantam_session *session);

/** Reads text without generating. The first text of a session gets BOS as the tokenizer says. */
BANTAM_API bantam_status bantam_session_prefill(bantam_session *session, const char *text, size_t bytes);
BANTAM_API bantam_status bantam_session_prefill_tokens(bantam_session *session, const int32_t *ids, size_t count);
/** Reads the tokens of several sessions, ids[i] and counts[i] of sessions[i], in passes over the weights that they share: a batch of
 *  prompts. They are different ones of one model and of equal context, and belong to the calling thread. When it fails all of them
 *  are as they were. */
BANTAM_API bantam_status bantam_sessions_prefill(bantam_session *const *sessions, const int32_t *const *ids, const size_t *counts,
                                                 size_t count);
/** `values` after token `index` of those that are read, for the time of the call, which must not use the session. Nonzero stops:
 *  BANTAM_CANCELLED. */
typedef int (*bantam_row_callback)(int64_t index, const float *values, size_t count, void *user);
/** Reads tokens and hands out the logits after each of them. When it fails the session is as it was. */
BANTAM_API bantam_status bantam_session_score(bantam_session *session, const int32_t *ids, size_t count, bantam_row_callback callback,
                                              void *user);
/** The same with the hidden state after each of them, which the head would read: as many numbers as the model is wide. */
BANTAM_API bantam_status bantam_session_states(bantam_session *session, const int32_t *ids, size_t count, bantam_row_callback callback,
                                               void *user);
/** Logits of the next token, one for each of the vocabulary; valid until the session is used again. */
BANTAM_API bantam_status bantam_session_logits(bantam_session *session, const float **logits, size_t *count);
/**
 * The embedding of a text: the mean of the hidden states that the head would read ("mean"), the first ("cls") or the last
 * ("last"), NULL: what the model's files say, of length 1 when `normalize` is above 0, below 0: as the files say. The session then
 * holds these tokens and nothing else. Valid until the session is used again.
 */
BANTAM_API bantam_status bantam_session_embed(bantam_session *session, const int32_t *ids, size_t count, const char *pooling, int normalize,
                                              const float **embedding, size_t *size);
/** Every token read or generated; valid until the session is used again. */
BANTAM_API bantam_status bantam_session_tokens(const bantam_session *session, const int32_t **ids, size_t *count);
/** Forgets all tokens but the first `count`. */
BANTAM_API bantam_status bantam_session_truncate(bantam_session *session, size_t count);
/**
 * Forgets tokens first .. last - 1; those behind take their places, their keys turned to their new positions: what lets a text go on
 * when its context is full. Values, and all in front of `first`, stay bit for bit; keys are rounded once more, as "kv" says. What is
 * left has seen what went: only removing from the end gives what a session has that never read it.
 */
BANTAM_API bantam_status bantam_session_remove(bantam_session *session, size_t first, size_t last);
/** Most tokens that it may hold. */
BANTAM_API int64_t bantam_session_context(const bantam_session *session);
/** [any thread] Stops what the session is doing, within a step, with BANTAM_CANCELLED; if it does nothing, the next thing
 *  that it is asked to do. The session stays usable. */
BANTAM_API void bantam_session_cancel(bantam_session *session);

/* ---- 9. Embedders: texts as rows of numbers, documents by how well they answer a query ---- */

typedef struct bantam_embedder bantam_embedder; /* [one thread] */

typedef struct bantam_embedder_options {
  size_t struct_size;
  int64_t context_tokens; /* most tokens of a text; 0: what the model was made for */
  int32_t threads;        /* 0: bantam_core_count() */
  int32_t normalize;      /* above 0: rows of length 1; 0: as they are; below 0: as the model's files say, else of length 1 */
  const char *pooling;    /* "mean", "cls" or "last"; NULL: as the model's files say, else "mean" */
  int32_t truncate;       /* not 0: leaves out the end of texts that are too long, which are refused otherwise */
  int32_t reserved;       /* 0 */
  bantam_read_progress progress; /* with the tokens read and those to read in all; NULL: none */
  void *progress_user;
} bantam_embedder_options;
#define BANTAM_EMBEDDER_OPTIONS_INIT {sizeof(bantam_embedder_options), 0, 0, -1, NULL, 0, 0, NULL, NULL}

/** Threads and buffers to read texts with; any model will do. */
BANTAM_API bantam_status bantam_embedder_new(bantam_embedder **embedder, const bantam_model *model, const bantam_embedder_options *options);
BANTAM_API void bantam_embedder_free(bantam_embedder *embedder);
/** The embeddings of `count` texts, ended by zeros, read together: rows of bantam_model_info.width numbers one behind the other, or
 *  of as many as a layer behind pooling makes (sentence-transformers' Dense); `numbers` is what there is room for, `count` rows. */
BANTAM_API bantam_status bantam_embedder_embed(bantam_embedder *embedder, const char *const *texts, size_t count, float *embeddings, size_t numbers);
/** A score of each of `count` documents, higher for better ones: of a model with a classifier of one label its number, of one that answers
 *  yes or no the probability of yes; others give BANTAM_UNSUPPORTED. */
BANTAM_API bantam_status bantam_embedder_rerank(bantam_embedder *embedder, const char *query, const char *const *documents, size_t count, float *scores);
/** What each label comes to of `count` texts, ended by zeros: rows of bantam_model_label_count() numbers one behind the other, probabilities, or of a
 *  regression its numbers; `numbers` is what there is room for. `second`: a text that each is read together with, as a pair (natural language
 *  inference); NULL: none. Models without a classifier give BANTAM_UNSUPPORTED. */
BANTAM_API bantam_status bantam_embedder_classify(bantam_embedder *embedder, const char *const *texts, size_t count, const char *second, float *labels,
                                                  size_t numbers);

/* ---- 10. Grammars ---- */

typedef struct bantam_grammar bantam_grammar; /* constant */

/** A grammar (GBNF) over the tokens of a model; its first rule that is asked for is "root". What is found out about tokens while it is
 *  used serves all generations that it is given to. */
BANTAM_API bantam_status bantam_grammar_new(bantam_grammar **grammar, const bantam_model *model, const char *gbnf, size_t bytes);
/** The JSON texts that a JSON schema allows. */
BANTAM_API bantam_status bantam_grammar_new_json_schema(bantam_grammar **grammar, const bantam_model *model, const char *schema, size_t bytes);
BANTAM_API void bantam_grammar_free(bantam_grammar *grammar);

/* ---- 11. Generations ---- */

typedef enum {
  BANTAM_FINISH_RUNNING = 0,
  BANTAM_FINISH_STOP = 1,     /* the model ended, or a stop text came */
  BANTAM_FINISH_LENGTH = 2,   /* max_tokens, or the context is full */
  BANTAM_FINISH_CANCELLED = 3 /* a callback stopped it */
} bantam_finish;

/**
 * Looks at a token that is to be drawn: every token of the session so far, and the logits of the vocabulary, which it may
 * change. Nonzero ends the generation as a stop text does.
 */
typedef int (*bantam_logits_callback)(const int32_t *ids, size_t count, float *logits, size_t vocabulary, void *user);

typedef struct bantam_generate_options {
  size_t struct_size;
  int64_t max_tokens;      /* -1: until the model ends or the context is full */
  float temperature;       /* 0 or more: divides the logits; 0: the most probable token */
  int32_t top_k;           /* 0: off */
  float top_p;             /* 1: off */
  float min_p;             /* 0: off */
  float typical_p;         /* 1: off */
  float repeat_penalty;    /* 1: off */
  float frequency_penalty; /* 0: off */
  float presence_penalty;  /* 0: off */
  int32_t repeat_last_n;   /* tokens that penalties see; 0: none, -1: all */
  uint32_t flags;          /* BANTAM_ADD_SPECIAL | BANTAM_PARSE_SPECIAL, of the prompt; BANTAM_KEEP_SPECIAL: marks of replies stand in the text */
  uint64_t seed;
  int32_t ignore_end;      /* 1: go on after the model's end token */
  int32_t lookup;          /* lossless speculation: guess up to this many tokens from the text so far; 0: off */
  bantam_session *draft;   /* the same by a smaller model's session; NULL: none. Borrowed by the generation */
  const char *const *stop; /* texts that end the generation and are no part of it */
  size_t stop_count;
  const int32_t *bias_ids; /* logits of these tokens ... */
  const float *bias;       /* ... get this added; -INFINITY forbids one */
  size_t bias_count;
  /* "order": stages as "penalties,dry,top_n_sigma,top_k,typical,top_p,min_p,xtc,temperature"; by their names in the library's Sampling:
     dry_multiplier, dry_base, dry_allowed_length, dry_penalty_last_n, top_n_sigma, xtc_probability, xtc_threshold, dynatemp_range,
     dynatemp_exponent, mirostat, mirostat_tau, mirostat_eta */
  const bantam_setting *settings;
  size_t setting_count;
  bantam_logits_callback process; /* NULL: none */
  void *process_user;
  const bantam_grammar *grammar; /* what alone may come; NULL: anything. The generation keeps what it needs of it */
  int32_t mtp;             /* lossless speculation by the layer that the model has for it (multi-token prediction): up to this many; 0: off */
  int32_t reserved;
} bantam_generate_options;
#define BANTAM_GENERATE_OPTIONS_INIT \
  {sizeof(bantam_generate_options), 256, 0.8f, 40, 0.95f, 0.05f, 1.0f, 1.0f, 0.0f, 0.0f, 64, BANTAM_ADD_SPECIAL, 0, 0, 0, NULL, \
   NULL, 0, NULL, NULL, 0, NULL, 0, NULL, NULL, NULL, 0, 0}

/** A piece of text: whole characters, never empty, a zero behind it. Nonzero stops the generation; that is no error. */
typedef int (*bantam_text_callback)(const char *utf8, size_t bytes, void *user);

/** Reads `prompt` and streams what follows. An empty prompt goes on where the session stands. */
BANTAM_API bantam_status bantam_session_generate(bantam_session *session, const char *prompt, int64_t max_tokens,
                                                 bantam_text_callback callback, void *user);

typedef struct bantam_stats {
  size_t struct_size;
  int64_t prompt_tokens;
  int64_t generated_tokens;
  double prompt_ms;
  double generate_ms;
  double tokens_per_second;
  int64_t guessed_tokens; /* by speculation */
  int64_t right_guesses;
  bantam_finish finish;
  int32_t reserved;
} bantam_stats;
#define BANTAM_STATS_INIT {sizeof(bantam_stats), 0, 0, 0.0, 0.0, 0.0, 0, 0, BANTAM_FINISH_RUNNING, 0}

typedef struct bantam_generation bantam_generation; /* [one thread], its session's */

/** Reads a prompt; nothing is generated yet. The generation borrows the session, which must not be used otherwise, nor
 *  freed, before the generation is freed. */
BANTAM_API bantam_status bantam_generation_new(bantam_generation **generation, bantam_session *session, const char *prompt,
                                               size_t bytes, const bantam_generate_options *options);
BANTAM_API bantam_status bantam_generation_new_tokens(bantam_generation **generation, bantam_session *session, const int32_t *prompt,
                                                      size_t count, const bantam_generate_options *options);
/** Messages since the last call; the session remembers the others and the replies. */
BANTAM_API bantam_status bantam_generation_new_chat(bantam_generation **generation, bantam_session *session,
                                                    const bantam_message *messages, size_t count,
                                                    const bantam_generate_options *options);
/** The whole conversation so far, as JSON (bantam_apply_chat_template_json()); what the session holds of it already is not read again. */
BANTAM_API bantam_status bantam_generation_new_chat_json(bantam_generation **generation, bantam_session *session, const char *json,
                                                         size_t bytes, const bantam_generate_options *options);
/** The next piece of text, valid until the next call; *text is NULL at the end. */
BANTAM_API bantam_status bantam_generation_next(bantam_generation *generation, const char **text, size_t *bytes);
/** One token more for each of several generations that still run, in one pass over the weights: a batch costs little more
 *  than one of them. Their sessions are different ones of one model and of equal context, and belong to the calling thread.
 *  What the step added to each is its bantam_generation_piece(). *running: how many go on. */
BANTAM_API bantam_status bantam_generations_step(bantam_generation *const *generations, size_t count, size_t *running);
/** What the last step added; may be empty while a character or a stop text is incomplete. */
BANTAM_API const char *bantam_generation_piece(const bantam_generation *generation, size_t *bytes);
/** Tokens generated so far, the end token left out. */
BANTAM_API bantam_status bantam_generation_tokens(const bantam_generation *generation, const int32_t **ids, size_t *count);
BANTAM_API bantam_status bantam_generation_get_stats(const bantam_generation *generation, bantam_stats *stats);
BANTAM_API void bantam_generation_free(bantam_generation *generation);

/* ---- 12. Texts: several behind one prompt ---- */

typedef struct bantam_texts bantam_texts; /* constant */

/**
 * `texts` texts drawn behind what the session holds and the prompt, in one pass over the weights for all of them; the prompt is read
 * once. Text i has the seed options->seed + i, and is what a generation with that seed gives. Speculation plays no part. The session then
 * holds the prompt. The callback, unless NULL, gets pieces as they come with the text that each belongs to; nonzero stops all of them.
 */
typedef int (*bantam_texts_callback)(size_t index, const char *utf8, size_t bytes, void *user);
BANTAM_API bantam_status bantam_continuations_new(bantam_texts **result, bantam_session *session, const int32_t *prompt, size_t count,
                                                  int32_t texts, const bantam_generate_options *options, bantam_texts_callback callback,
                                                  void *user);

typedef struct bantam_beam_options {
  size_t struct_size;
  int32_t beams;         /* beginnings that are followed at once, in one pass over the weights */
  int32_t results;       /* texts to give back, `beams` at most */
  int64_t max_tokens;
  float length_penalty;  /* a score is the log probability over the tokens to this power */
  int32_t reserved;
  const bantam_grammar *grammar; /* what alone may come; NULL: anything */
} bantam_beam_options;
#define BANTAM_BEAM_OPTIONS_INIT {sizeof(bantam_beam_options), 4, 1, 64, 1.0f, 0, NULL}

/** Beam search, as Hugging Face's generate() with num_beams: the most probable texts behind what the session holds and the prompt, the
 *  best first. The session then holds the prompt. */
BANTAM_API bantam_status bantam_beam_search(bantam_texts **result, bantam_session *session, const int32_t *prompt, size_t count,
                                            const bantam_beam_options *options);

typedef struct bantam_text_info {
  size_t struct_size;
  const char *text; /* a zero behind it; this and the ids are valid as long as the texts are */
  size_t text_bytes;
  const int32_t *ids; /* the end token left out */
  size_t id_count;
  double log_probability; /* of all its tokens, the end included; NAN where texts were drawn, and so is the score */
  double score;
  bantam_finish finish;
  int32_t reserved;
} bantam_text_info;
#define BANTAM_TEXT_INFO_INIT {sizeof(bantam_text_info), NULL, 0, NULL, 0, 0.0, 0.0, BANTAM_FINISH_RUNNING, 0}
BANTAM_API size_t bantam_texts_count(const bantam_texts *texts);
BANTAM_API bantam_status bantam_texts_get(const bantam_texts *texts, size_t index, bantam_text_info *info);
BANTAM_API void bantam_texts_free(bantam_texts *texts);

/* ---- 13. Schedulers: requests of many, run together, each with the text that it has alone ---- */

typedef struct bantam_scheduler bantam_scheduler; /* [any thread], but for bantam_scheduler_free() */

typedef struct bantam_scheduler_options {
  size_t struct_size;
  int64_t context_tokens; /* most tokens of a text; 0: what the model was made for */
  int32_t threads;        /* 0: bantam_core_count() */
  int32_t parallel;       /* texts that are generated at once, in the same passes over the weights */
  int32_t queue;          /* requests that may be at hand beyond these; -1: four for each */
  int32_t kept;           /* ended texts that are kept for prompts that begin like them; -1: as many as `parallel` */
  int32_t step_ms;        /* long prompts are read in pieces that take about so long, beside texts that are generated */
  int32_t reserved;       /* 0 */
  const char *kv;         /* keys and values: "f16", "q8", "q4", "q3" or "f32" */
  const bantam_setting *settings; /* as those of bantam_session_options, for each text */
  size_t setting_count;
  const bantam_adapter *const *adapters; /* of requests that name none; NULL: none */
  const float *adapter_scales;
  size_t adapter_count;
  int32_t lookup;         /* lossless speculation in the batch: guess up to this many tokens of each text from what stands in it; 0: off */
  int32_t mtp;            /* the same by the layer that the model has for it */
  const bantam_model *draft; /* the same by a smaller model of the same vocabulary; NULL: none */
} bantam_scheduler_options;
#define BANTAM_SCHEDULER_OPTIONS_INIT {sizeof(bantam_scheduler_options), 0, 0, 4, -1, -1, 200, 0, "f16", NULL, 0, NULL, NULL, 0, 0, 0, NULL}

BANTAM_API bantam_status bantam_scheduler_new(bantam_scheduler **scheduler, const bantam_model *model, const bantam_scheduler_options *options);
/** What still runs ends as BANTAM_TEXT_CANCELLED, and the callbacks are told so, before this returns. */
BANTAM_API void bantam_scheduler_free(bantam_scheduler *scheduler);

typedef struct bantam_request_options {
  size_t struct_size;
  const bantam_generate_options *generate; /* NULL: its _INIT. Read before submit returns; its draft plays no part, its lookup and mtp where
                                              they are more than the scheduler's. `process` is called on the scheduler's thread */
  int32_t texts;           /* of the prompt, which is read once; text i has the seed generate->seed + i */
  int32_t top_logprobs;    /* log probabilities of tokens, and of so many of the most probable ones beside each; -1: none */
  int32_t priority;        /* the higher, the earlier; among equals clients take turns, and nobody waits for ever */
  int32_t no_reuse;        /* not 0: reads the prompt itself, whatever other texts read; the text is the same */
  int32_t prompt_logprobs; /* as top_logprobs, of the prompt's tokens, which are then read from the first on; they come with the first text */
  int32_t reserved;        /* 0 */
  const char *client;      /* who asks: places go to those who have the fewest; NULL: all that name none are one */
  int64_t most_waiting_ms; /* for a place, then it ends as BANTAM_TEXT_LATE; 0: without bound */
  int64_t most_time_ms;    /* until all texts ended, in the same way */
  const bantam_adapter *const *adapters; /* in the place of the scheduler's, none where adapter_count is 0; NULL: the scheduler's */
  const float *adapter_scales;
  size_t adapter_count;
} bantam_request_options;
#define BANTAM_REQUEST_OPTIONS_INIT {sizeof(bantam_request_options), NULL, 1, -1, 0, 0, -1, 0, NULL, 0, 0, NULL, NULL, 0}

typedef enum {
  BANTAM_TEXT_RUNNING = 0,
  BANTAM_TEXT_STOP = 1,      /* the model ended it, a stop text or the grammar */
  BANTAM_TEXT_LENGTH = 2,    /* max_tokens, or the context is full */
  BANTAM_TEXT_CANCELLED = 3, /* by a callback, bantam_scheduler_cancel() or the end of the scheduler */
  BANTAM_TEXT_LATE = 4,      /* the request took longer than it wanted to */
  BANTAM_TEXT_FAILED = 5     /* `error` says why */
} bantam_text_end;

/** A token that was drawn, or one of the prompt. This struct stays as it is, as it stands in arrays. */
typedef struct bantam_drawn_token {
  int32_t id;
  float log_probability;       /* before anything of sampling; 0 unless top_logprobs asked for it */
  const int32_t *top_ids;      /* the most probable ones first */
  const float *top_log_probabilities;
  size_t top_count;
} bantam_drawn_token;

/** What a step brought for one text. All pointers are valid for the time of the call. */
typedef struct bantam_text_update {
  size_t struct_size;
  size_t text;       /* which of the request's */
  const char *piece; /* whole characters, a zero behind it; may be empty */
  size_t piece_bytes;
  const bantam_drawn_token *tokens;
  size_t token_count;
  const bantam_drawn_token *prompt; /* the next tokens of the prompt, from its second on, where prompt_logprobs asked for them */
  size_t prompt_count;
  bantam_text_end end;  /* once, in the last update of the text */
  bantam_status status; /* of BANTAM_TEXT_FAILED */
  const char *error;    /* of it; else empty */
  const char *stop_text; /* of BANTAM_TEXT_STOP, where one of them ended it; else empty */
  int64_t prompt_tokens;
  int64_t reused_tokens;    /* of the prompt, read for other texts before */
  int64_t generated_tokens;
  double waited_ms;         /* until there was a place */
  double prompt_ms;         /* from there to the first token */
  double generate_ms;       /* from there on; known in the last update */
  int64_t guessed_tokens;   /* by speculation */
  int64_t right_guesses;
} bantam_text_update;
#define BANTAM_TEXT_UPDATE_INIT \
  {sizeof(bantam_text_update), 0, NULL, 0, NULL, 0, NULL, 0, BANTAM_TEXT_RUNNING, BANTAM_OK, NULL, NULL, 0, 0, 0, 0.0, 0.0, 0.0, 0, 0}
/** Called on the scheduler's thread, one call at a time, while every text waits for it: hand the work on. Nonzero cancels the request; its
 *  texts still get their last update. Of this scheduler's functions it may call bantam_scheduler_cancel() and get_stats(). */
typedef int (*bantam_update_callback)(const bantam_text_update *update, void *user);

/**
 * Takes a request: the callback is called until each of its texts ended, perhaps before this returns. *request is its number, 1 or more; 0
 * where the queue is full, or after bantam_scheduler_close(): then nothing is called. May be NULL. BANTAM_INVALID_ARGUMENT for what
 * bantam_generation_new() refuses. Models with an encoder before their decoder are BANTAM_UNSUPPORTED.
 */
BANTAM_API bantam_status bantam_scheduler_submit(bantam_scheduler *scheduler, uint64_t *request, const char *prompt, size_t bytes,
                                                 const bantam_request_options *options, bantam_update_callback callback, void *user);
BANTAM_API bantam_status bantam_scheduler_submit_tokens(bantam_scheduler *scheduler, uint64_t *request, const int32_t *prompt, size_t count,
                                                        const bantam_request_options *options, bantam_update_callback callback, void *user);
/** Ends a request's texts at the next step; nothing where it ended already. */
BANTAM_API void bantam_scheduler_cancel(bantam_scheduler *scheduler, uint64_t request);
BANTAM_API void bantam_scheduler_cancel_all(bantam_scheduler *scheduler);
/** Takes no more requests; what is at hand goes on. */
BANTAM_API void bantam_scheduler_close(bantam_scheduler *scheduler);
/** Waits until nothing is at hand: 1; 0 after that long. */
BANTAM_API int bantam_scheduler_wait(bantam_scheduler *scheduler, int64_t most_ms);

typedef struct bantam_scheduler_stats {
  size_t struct_size;
  int32_t parallel;
  int32_t running;  /* texts that have a place */
  int32_t waiting;  /* texts that have none yet */
  int32_t requests; /* at hand */
  int32_t kept;     /* ended texts that are kept */
  int32_t reserved;
  int64_t kv_bytes; /* keys, values and states; what texts share counts in full */
  int64_t context_tokens;
  int64_t prompt_tokens; /* read since the scheduler began */
  int64_t reused_tokens; /* not read, because they were there */
  int64_t generated_tokens;
  int64_t steps;
  int64_t stepped_texts;   /* texts in all steps */
  int64_t refused;         /* requests, for a full queue */
  double prompt_seconds;   /* of steps that read prompts alone or beside others */
  double generate_seconds; /* of the others */
  int64_t guessed_tokens;  /* by speculation */
  int64_t right_guesses;
} bantam_scheduler_stats;
#define BANTAM_SCHEDULER_STATS_INIT {sizeof(bantam_scheduler_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.0, 0.0, 0, 0}
BANTAM_API bantam_status bantam_scheduler_get_stats(const bantam_scheduler *scheduler, bantam_scheduler_stats *stats);

/* ---- 14. Samplers, for loops of one's own: logits -> sample -> accept -> prefill_tokens ---- */

typedef struct bantam_sampler bantam_sampler; /* [one thread] */

/** Reads temperature to repeat_last_n, seed, biases and settings of the options. */
BANTAM_API bantam_status bantam_sampler_new(bantam_sampler **sampler, const bantam_model *model, const bantam_generate_options *options);
/** Chooses a token. Does not accept it. `count` is the model's vocabulary. */
BANTAM_API bantam_status bantam_sampler_sample(bantam_sampler *sampler, const float *logits, size_t count, int32_t *id);
/** Remembers a token for the penalties. */
BANTAM_API bantam_status bantam_sampler_accept(bantam_sampler *sampler, int32_t id);
BANTAM_API void bantam_sampler_free(bantam_sampler *sampler);

/* ---- 15. Weights: one matrix in a format ---- */

typedef struct bantam_weights bantam_weights; /* constant */

/** Rounds a matrix (rows, columns), row after row, to nearest. */
BANTAM_API bantam_status bantam_weights_quantize(bantam_weights **weights, const float *values, int64_t rows, int64_t columns,
                                                 const char *format);
/** A matrix of a model; its bytes are shared. */
BANTAM_API bantam_status bantam_weights_of_model(bantam_weights **weights, const bantam_model *model, const char *name);
BANTAM_API bantam_status bantam_weights_dequantize(const bantam_weights *weights, float *out, size_t count);
/** out (tokens, rows) = x (tokens, columns) times the matrix transposed. fast: activations are rounded to 8 bits first, as
 *  inference does; 0: floats. On the calling thread. */
BANTAM_API bantam_status bantam_weights_multiply(const bantam_weights *weights, const float *x, int64_t tokens, float *out, int fast);
BANTAM_API bantam_status bantam_weights_get_info(const bantam_weights *weights, bantam_tensor_info *info);
BANTAM_API void bantam_weights_free(bantam_weights *weights);

/* ---- 16. Compression ---- */

typedef struct bantam_progress {
  size_t struct_size;
  int64_t done; /* matrices; before that blocks, where parts are removed */
  int64_t total;
  const char *layer; /* the matrix or block just done */
  double relative_error;
  double seconds_left;
} bantam_progress;
/** Nonzero stops the work, which ends with BANTAM_CANCELLED. */
typedef int (*bantam_compress_progress)(const bantam_progress *progress, void *user);
/** Asked often while work goes on, inside matrices too, on the thread that began it: nonzero stops. Has to be quick. */
typedef int (*bantam_compress_cancelled)(void *user);
/** The format of one matrix; NULL: the options' format. The text is read before the next call. */
typedef const char *(*bantam_choose_format)(const bantam_tensor_info *matrix, void *user);

typedef struct bantam_report bantam_report; /* constant */

typedef struct bantam_compress_options {
  size_t struct_size;
  const char *method;           /* "rtn", "gptq", "awq", "awq+gptq", "hqq" */
  const char *format;           /* "q4", "i4.g64", "nf4", ...: bantam_format_name() */
  int32_t group;                /* weights per scale; -1: the format's usual group, 0: the row */
  int32_t desc_act;             /* GPTQ: columns by falling activation */
  const char *calibration_path; /* text like what the model will read, for gptq and awq ... */
  const char *calibration_text; /* ... or this; without either a bundled text serves, and the log says so */
  size_t calibration_text_bytes;
  int64_t samples;
  int64_t tokens;               /* a sample */
  const char *const *keep;      /* exceptions as "PATTERN=FORMAT", * and ? in patterns; the last that matches counts */
  size_t keep_count;
  bantam_choose_format choose;  /* NULL: none. Goes before `keep`. Asked about the matrices that will be left */
  void *choose_user;
  bantam_compress_progress progress;
  void *progress_user;
  bantam_report **report;       /* receives a report, to be freed, or NULL where only the file's memory sufficed; NULL: none */
  const bantam_setting *settings; /* any option of compression by its name, before the fields above: bantam_compress_setting() */
  size_t setting_count;
  bantam_compress_cancelled cancelled; /* NULL: none */
  void *cancelled_user;
} bantam_compress_options;
#define BANTAM_COMPRESS_OPTIONS_INIT \
  {sizeof(bantam_compress_options), "rtn", "q4", -1, 0, NULL, NULL, 0, 128, 2048, NULL, 0, NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL, NULL}

/** An option of compression by its place in the list, with what it means unless that is NULL; NULL outside the list. As settings, flags
 *  are "on" or "off", "rotate" is a seed: "7", and "keep" ("*.down_proj=q8") and "prune" ("wanda:0.5", "layers:2") may be given
 *  several times. `bantam compress --help` lists the same. */
BANTAM_API const char *bantam_compress_setting(size_t index, const char **meaning);

/** A smaller model, in memory. `model` is left as it is. */
BANTAM_API bantam_status bantam_model_compress(bantam_model **small, const bantam_model *model, const bantam_compress_options *options);
/** From file to file, in memory bounded by a block, whatever the model's size. Settings of this alone are "to": "native" (the start),
 *  "gguf", "safetensors", "gptq", "gptq_v2", "awq", "bnb"; and "journal": a file that lets an interrupted run go on. */
BANTAM_API bantam_status bantam_compress_file(const char *from, const char *to, const bantam_compress_options *options);
/** An importance matrix: how large the inputs of a model's matrices are on the options' calibration text, in a GGUF file that llama-quantize
 *  and the setting "imatrix" read. Of the options only what is said of that text, "merge_lora" and `cancelled` count. */
BANTAM_API bantam_status bantam_save_imatrix(const char *from, const char *to, const bantam_compress_options *options);

typedef struct bantam_report_info {
  size_t struct_size;
  int64_t bytes_before;
  int64_t bytes_after;
  double bits_per_weight;
  double seconds;
  size_t matrices;
  const char *summary; /* one line */
  const char *json;
} bantam_report_info;
#define BANTAM_REPORT_INFO_INIT {sizeof(bantam_report_info), 0, 0, 0.0, 0.0, 0, NULL, NULL}
BANTAM_API bantam_status bantam_report_get_info(const bantam_report *report, bantam_report_info *info);
/** Name, format and ||W - W'|| / ||W|| of a matrix; any out-parameter may be NULL. */
BANTAM_API bantam_status bantam_report_get_matrix(const bantam_report *report, size_t index, const char **name, const char **format,
                                                  double *relative_error);
/** What the whole model costs in these formats, and what is left of it where parts were removed: "parameters", "flops" of a
 *  token, "bytes" written, or, where "prune_to" asked for it, "latency" in seconds a token. BANTAM_NOT_FOUND where it is not
 *  known. What went is told in the JSON, under "prune". Either out-parameter may be NULL. */
BANTAM_API bantam_status bantam_report_get_cost(const bantam_report *report, const char *cost, double *before, double *after);
BANTAM_API void bantam_report_free(bantam_report *report);

/* ---- 17. Quality ---- */

typedef struct bantam_perplexity_options {
  size_t struct_size;
  int64_t context; /* tokens a window */
  int64_t limit;   /* tokens of the text to use; 0: all */
  int32_t threads;
  int32_t reserved;
  const char *kv;
  bantam_read_progress progress; /* windows */
  void *progress_user;
} bantam_perplexity_options;
#define BANTAM_PERPLEXITY_OPTIONS_INIT {sizeof(bantam_perplexity_options), 512, 0, 0, 0, "f16", NULL, NULL}

typedef struct bantam_perplexity_result {
  size_t struct_size;
  double perplexity;
  double nll; /* nats a token */
  int64_t tokens;
  int64_t windows;
  double base_perplexity; /* with a base; else 0 */
  double kl_mean;         /* KL(base || model), nats a token */
  double kl_p99;
  double top1_agreement;
} bantam_perplexity_result;
#define BANTAM_PERPLEXITY_RESULT_INIT {sizeof(bantam_perplexity_result), 0.0, 0.0, 0, 0, 0.0, 0.0, 0.0, 0.0}

/** Perplexity on a text, and divergence from `base` (same vocabulary) unless that is NULL. */
BANTAM_API bantam_status bantam_model_perplexity(const bantam_model *model, const bantam_model *base, const char *text, size_t bytes,
                                                 const bantam_perplexity_options *options, bantam_perplexity_result *result);

#ifdef __cplusplus
}
#endif

#endif
