/* A program in C: loads a model, makes it smaller, streams text, says what went wrong. Needs bantam.h and libbantam alone. */
#include <bantam.h>
#include <stdio.h>

static int print_text(const char *utf8, size_t bytes, void *user) {
  return fwrite(utf8, 1, bytes, (FILE *)user) == bytes ? 0 : 1; /* nonzero stops the generation */
}

static int show(const bantam_progress *progress, void *user) {
  (void)user;
  if (progress->done == progress->total) fprintf(stderr, "%ld matrices rounded\n", (long)progress->done);
  return 0; /* nonzero cancels */
}

int main(int argc, char **argv) {
  bantam_model *big = NULL, *small = NULL;
  bantam_session *session = NULL;
  bantam_compress_options compress = BANTAM_COMPRESS_OPTIONS_INIT; /* carries its own size: the struct may grow */
  bantam_session_options options = BANTAM_SESSION_OPTIONS_INIT;
  bantam_status status;
  if (argc != 2) {
    fprintf(stderr, "usage: 08_embed MODEL\n");
    return 2;
  }
  compress.format = "nf4";
  compress.progress = show;
  options.context_tokens = 256;

  status = bantam_model_load(&big, argv[1]);
  if (!status) status = bantam_model_compress(&small, big, &compress);
  bantam_model_free(big); /* NULL is a no-op; sessions keep what they need */
  if (!status) status = bantam_session_new(&session, small, &options);
  if (!status) status = bantam_session_generate(session, "It was a dark night, and", 32, print_text, stdout);
  if (status) fprintf(stderr, "%s: %s\n", bantam_status_name(status), bantam_last_error());
  printf("\n");

  bantam_session_free(session);
  bantam_model_free(small);
  return status ? 1 : 0;
}
