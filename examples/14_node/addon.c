/* bantam for Node.js: load(path) gives a model, stream(model, prompt, tokens, callback) calls back with pieces of text. */
#include <bantam.h>
#include <node_api.h>
#include <stdlib.h>

static napi_value fail(napi_env env, const char *message) { return napi_throw_error(env, NULL, message), NULL; }

static char *text_of(napi_env env, napi_value value) { /* to be freed; NULL for what is no string */
  size_t bytes;
  if (napi_get_value_string_utf8(env, value, NULL, 0, &bytes)) return NULL;
  char *text = malloc(bytes + 1);
  if (text) napi_get_value_string_utf8(env, value, text, bytes + 1, &bytes);
  return text;
}

static void release(napi_env env, void *model, void *hint) { (void)env, (void)hint, bantam_model_free(model); }

static napi_value load(napi_env env, napi_callback_info info) {
  napi_value value; /* the path, then the model */
  size_t count = 1;
  napi_get_cb_info(env, info, &count, &value, NULL, NULL);
  char *text = text_of(env, value);
  bantam_model *model = NULL;
  const bantam_status status = bantam_model_load(&model, text);
  free(text);
  if (status || napi_create_external(env, model, release, NULL, &value)) return fail(env, bantam_last_error());
  return value;
}

struct listener { napi_env env; napi_value function, nobody; };
static int hand_on(const char *utf8, size_t bytes, void *user) {
  const struct listener *to = user;
  napi_value piece;
  napi_create_string_utf8(to->env, utf8, bytes, &piece);
  return napi_call_function(to->env, to->nobody, to->function, 1, &piece, NULL) != napi_ok; /* it threw: stop */
}

static napi_value stream(napi_env env, napi_callback_info info) {
  napi_value given[4]; /* undefined where less is given */
  size_t count = 4;
  int64_t tokens;
  void *model;
  bantam_session *session = NULL;
  napi_get_cb_info(env, info, &count, given, NULL, NULL);
  struct listener to = {env, given[3], NULL};
  if (napi_get_value_external(env, given[0], &model) || napi_get_value_int64(env, given[2], &tokens) || napi_get_undefined(env, &to.nobody))
    return fail(env, "stream: expected a model, a text, a number of tokens and a function");
  char *prompt = text_of(env, given[1]);
  bantam_status status = bantam_session_new(&session, model, NULL);
  if (!status) status = bantam_session_generate(session, prompt, tokens, hand_on, &to);
  bantam_session_free(session);
  free(prompt);
  return status ? fail(env, bantam_last_error()) : NULL;
}

NAPI_MODULE_INIT() {
  const napi_property_descriptor functions[] = {{"load", NULL, load, NULL, NULL, NULL, napi_default, NULL}, {"stream", NULL, stream, NULL, NULL, NULL, napi_default, NULL}};
  return napi_define_properties(env, exports, 2, functions) ? NULL : exports;
}
