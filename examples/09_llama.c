/* A program for llama.cpp, on bantam: the one changed line is the header. */
#include <bantam-llama.h>

int main(int argc, char **argv) {
  const char *prompt = "The captain of the ship";
  llama_token tokens[64];
  char piece[128];
  if (argc != 2) return 2;
  llama_backend_init();
  struct llama_model *model = llama_model_load_from_file(argv[1], llama_model_default_params());
  if (!model) return 1;
  const struct llama_vocab *vocab = llama_model_get_vocab(model);

  struct llama_context_params params = llama_context_default_params();
  params.n_ctx = 256;
  struct llama_context *ctx = llama_init_from_model(model, params);
  struct llama_sampler *sampler = llama_sampler_chain_init(llama_sampler_chain_default_params());
  llama_sampler_chain_add(sampler, llama_sampler_init_top_k(40));
  llama_sampler_chain_add(sampler, llama_sampler_init_temp(0.7f));
  llama_sampler_chain_add(sampler, llama_sampler_init_dist(42));

  int32_t count = llama_tokenize(vocab, prompt, (int32_t)strlen(prompt), tokens, 64, true, false);
  if (!ctx || count <= 0) return 1;
  llama_batch batch = llama_batch_get_one(tokens, count);
  for (int step = 0; step < 32; ++step) {
    if (llama_decode(ctx, batch)) return 1;
    llama_token token = llama_sampler_sample(sampler, ctx, -1);
    if (llama_vocab_is_eog(vocab, token)) break;
    printf("%.*s", (int)llama_token_to_piece(vocab, token, piece, sizeof piece, 0, false), piece);
    tokens[0] = token;
    batch = llama_batch_get_one(tokens, 1);
  }
  printf("\n");
  llama_sampler_free(sampler);
  llama_free(ctx);
  llama_model_free(model);
  llama_backend_free();
  return 0;
}
