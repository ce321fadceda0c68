/* A program of version 0.1: compiled with the header as it was then, run with the library as it is now. */
#include <stdio.h>
#include <string.h>

#include "bantam_0_1.h"

static int count(const char *utf8, size_t bytes, void *user) {
  (void)utf8;
  *(size_t *)user += bytes;
  return 0;
}

int main(int argc, char **argv) {
  bantam_model *model = NULL, *small = NULL;
  bantam_session *session = NULL;
  bantam_generation *generation = NULL;
  bantam_session_options options = BANTAM_SESSION_OPTIONS_INIT;
  bantam_generate_options generate = BANTAM_GENERATE_OPTIONS_INIT;
  bantam_compress_options compress = BANTAM_COMPRESS_OPTIONS_INIT;
  bantam_model_info info = BANTAM_MODEL_INFO_INIT;
  bantam_stats stats = BANTAM_STATS_INIT;
  size_t bytes = 0;
  bantam_status status;
  if (argc != 2) return 2;
  options.context_tokens = 64;
  generate.max_tokens = 8;
  status = bantam_model_load(&model, argv[1]);
  if (!status) status = bantam_model_get_info(model, &info);
  if (!status) status = bantam_model_compress(&small, model, &compress);
  if (!status) status = bantam_session_new(&session, small, &options);
  if (!status) status = bantam_session_generate(session, "Hello", 8, count, &bytes);
  if (!status) status = bantam_generation_new(&generation, session, "", 0, &generate);
  while (!status) {
    const char *text = NULL;
    size_t piece = 0;
    status = bantam_generation_next(generation, &text, &piece);
    if (text == NULL) break;
    bytes += piece;
  }
  if (!status) status = bantam_generation_get_stats(generation, &stats);
  if (status) fprintf(stderr, "%s: %s\n", bantam_status_name(status), bantam_last_error());
  printf("%s, %ld layers, %zu bytes of text, %ld tokens\n", info.architecture, (long)info.layers, bytes, (long)stats.generated_tokens);
  bantam_generation_free(generation);
  bantam_session_free(session);
  bantam_model_free(small);
  bantam_model_free(model);
  return status != 0 || bytes == 0 || stats.generated_tokens == 0;
}
