// The helpers of llama.cpp's examples, as far as its `embedding` needs them, on top of bantam-llama.h (C++17). What is not here
// does not compile, rather than do nothing.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <initializer_list>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "llama.h"
#include "log.h"

enum llama_example { LLAMA_EXAMPLE_COMMON, LLAMA_EXAMPLE_EMBEDDING };

struct common_params {
  std::string model_path;
  std::string prompt;
  int32_t n_ctx = 0;  // the model's
  int32_t n_batch = 2048;
  int32_t n_ubatch = 512;
  int32_t n_parallel = 1;
  int32_t n_threads = 0;
  int32_t embd_normalize = 2;  // -1 as it is, 0 the largest becomes 32760, 1 and above that norm becomes 1
  std::string embd_out;        // "array", "json", "json+", "raw"
  std::string embd_sep = "\n";
  std::string cls_sep = "\t";
  enum llama_pooling_type pooling_type = LLAMA_POOLING_TYPE_UNSPECIFIED;
  enum llama_attention_type attention_type = LLAMA_ATTENTION_TYPE_UNSPECIFIED;
  enum ggml_numa_strategy numa = GGML_NUMA_STRATEGY_DISABLED;
  bool embedding = false;
  bool kv_unified = false;
  bool verbose_prompt = false;
};

inline void common_init() {}

/// Reads -m -p -f -c -b -ub -np -t --pooling --attention --embd-normalize --embd-output-format --embd-separator
/// --cls-separator --verbose-prompt. False, having said why, for anything else, a value that is none, or no model.
inline bool common_params_parse(int argc, char **argv, common_params &params, enum llama_example) {
  const auto is = [](const std::string &word, std::initializer_list<const char *> names) {
    return std::any_of(names.begin(), names.end(), [&](const char *name) { return word == name; });
  };
  try {
    for (int i = 1; i < argc; ++i) {
      const std::string option = argv[i];
      const auto text = [&]() -> std::string {
        if (i + 1 >= argc) throw std::invalid_argument("expected a value, found none");
        return argv[++i];
      };
      const auto number = [&] { return static_cast<int32_t>(std::stoi(text())); };
      const auto one_of = [&](std::initializer_list<const char *> names, int first) {
        const std::string word = text();
        const auto at = std::find(names.begin(), names.end(), word);
        if (at == names.end()) throw std::invalid_argument("no such value: " + word);
        return first + static_cast<int>(at - names.begin());
      };
      if (is(option, {"-m", "--model"})) {
        params.model_path = text();
      } else if (is(option, {"-p", "--prompt"})) {
        params.prompt = text();
      } else if (is(option, {"-f", "--file"})) {
        const std::string path = text();
        std::ifstream file(path, std::ios::binary);
        std::ostringstream all;
        if (!file || !(all << file.rdbuf())) throw std::invalid_argument("cannot read " + path);
        params.prompt = all.str();
        if (!params.prompt.empty() && params.prompt.back() == '\n') params.prompt.pop_back();
      } else if (is(option, {"-c", "--ctx-size"})) {
        params.n_ctx = number();
      } else if (is(option, {"-b", "--batch-size"})) {
        params.n_batch = number();
      } else if (is(option, {"-ub", "--ubatch-size"})) {
        params.n_ubatch = number();
      } else if (is(option, {"-np", "--parallel"})) {
        params.n_parallel = number();
      } else if (is(option, {"-t", "--threads"})) {
        params.n_threads = number();
      } else if (option == "--pooling") {
        params.pooling_type = static_cast<enum llama_pooling_type>(one_of({"none", "mean", "cls", "last", "rank"}, LLAMA_POOLING_TYPE_NONE));
      } else if (option == "--attention") {
        params.attention_type = static_cast<enum llama_attention_type>(one_of({"causal", "non-causal"}, LLAMA_ATTENTION_TYPE_CAUSAL));
      } else if (is(option, {"--embd-normalize", "--embedding-normalize"})) {
        params.embd_normalize = number();
      } else if (option == "--embd-output-format") {
        params.embd_out = text();
      } else if (option == "--embd-separator") {
        params.embd_sep = text();
      } else if (option == "--cls-separator") {
        params.cls_sep = text();
      } else if (option == "--verbose-prompt") {
        params.verbose_prompt = true;
      } else {
        throw std::invalid_argument("no such option here");
      }
    }
  } catch (const std::exception &error) {
    std::string line;
    for (int i = 1; i < argc; ++i) line += std::string(" ") + argv[i];
    LOG_ERR("error:%s: %s\n", line.c_str(), error.what());
    return false;
  }
  if (params.model_path.empty()) LOG_ERR("error: expected a model (-m), found none\n");
  return !params.model_path.empty();
}

inline std::string common_params_get_system_info(const common_params &) {
  return std::string("bantam ") + bantam_version() + ", " + bantam_isa() + ", " + std::to_string(bantam_core_count()) + " cores";
}

/// Owns both; either is null where it could not be made.
class common_init_result {
 public:
  explicit common_init_result(const common_params &params) {
    model_.reset(llama_model_load_from_file(params.model_path.c_str(), llama_model_default_params()));
    if (!model_) return;
    llama_context_params made = llama_context_default_params();
    made.n_ctx = static_cast<uint32_t>(params.n_ctx);
    made.n_batch = static_cast<uint32_t>(params.n_batch);
    made.n_ubatch = static_cast<uint32_t>(params.n_ubatch);
    made.n_seq_max = static_cast<uint32_t>(params.n_parallel);
    made.n_threads = made.n_threads_batch = params.n_threads;
    made.pooling_type = params.pooling_type;
    made.attention_type = params.attention_type;
    made.embeddings = params.embedding;
    made.kv_unified = params.kv_unified;
    context_.reset(llama_init_from_model(model_.get(), made));
    if (!context_) model_.reset();  // programs ask for the model alone
  }
  llama_model *model() const { return model_.get(); }
  llama_context *context() const { return context_.get(); }

 private:
  struct free_model {
    void operator()(llama_model *model) const { llama_model_free(model); }
  };
  struct free_context {
    void operator()(llama_context *context) const { llama_free(context); }
  };
  std::unique_ptr<llama_model, free_model> model_;
  std::unique_ptr<llama_context, free_context> context_;
};
inline std::unique_ptr<common_init_result> common_init_from_params(const common_params &params) {
  return std::make_unique<common_init_result>(params);
}

inline std::vector<llama_token> common_tokenize(const llama_vocab *vocab, const std::string &text, bool add_special, bool parse_special = false) {
  const auto size = static_cast<int32_t>(text.size());
  const int32_t count = llama_tokenize(vocab, text.c_str(), size, nullptr, 0, add_special, parse_special);
  if (count == INT32_MIN) throw std::runtime_error(bantam_last_error());
  std::vector<llama_token> tokens(static_cast<size_t>(-std::min(0, count)));
  llama_tokenize(vocab, text.c_str(), size, tokens.data(), static_cast<int32_t>(tokens.size()), add_special, parse_special);
  return tokens;
}
inline std::vector<llama_token> common_tokenize(const llama_context *ctx, const std::string &text, bool add_special, bool parse_special = false) {
  return common_tokenize(llama_model_get_vocab(llama_get_model(ctx)), text, add_special, parse_special);
}
inline std::string common_token_to_piece(const llama_context *ctx, llama_token token, bool special = true) {
  const llama_vocab *vocab = llama_model_get_vocab(llama_get_model(ctx));
  std::string piece(static_cast<size_t>(-std::min(0, llama_token_to_piece(vocab, token, nullptr, 0, 0, special))), '\0');
  llama_token_to_piece(vocab, token, &piece[0], static_cast<int32_t>(piece.size()), 0, special);
  return piece;
}

inline void common_batch_clear(llama_batch &batch) { batch.n_tokens = 0; }
inline void common_batch_add(llama_batch &batch, llama_token id, llama_pos pos, const std::vector<llama_seq_id> &seq_ids, bool logits) {
  const auto at = static_cast<size_t>(batch.n_tokens++);
  batch.token[at] = id;
  batch.pos[at] = pos;
  batch.n_seq_id[at] = static_cast<int32_t>(seq_ids.size());
  std::copy(seq_ids.begin(), seq_ids.end(), batch.seq_id[at]);
  batch.logits[at] = logits;
}

/// How: common_params::embd_normalize.
inline void common_embd_normalize(const float *in, float *out, int n, int how) {
  double size = how < 0 ? 1 : 0;
  for (int i = 0; i < n && how >= 0; ++i) {
    const double magnitude = std::fabs(static_cast<double>(in[i]));
    size = how == 0 ? std::max(size, magnitude / 32760) : size + std::pow(magnitude, how);
  }
  if (how > 1) size = std::pow(size, 1.0 / how);
  for (int i = 0; i < n; ++i) out[i] = size > 0 ? static_cast<float>(in[i] / size) : 0;
}
/// 1 for two vectors of zeros, 0 for one.
inline float common_embd_similarity_cos(const float *a, const float *b, int n) {
  double product = 0, of_a = 0, of_b = 0;
  for (int i = 0; i < n; ++i) {
    product += static_cast<double>(a[i]) * b[i];
    of_a += static_cast<double>(a[i]) * a[i];
    of_b += static_cast<double>(b[i]) * b[i];
  }
  if (of_a == 0 || of_b == 0) return of_a == of_b ? 1.0f : 0.0f;
  return static_cast<float>(product / (std::sqrt(of_a) * std::sqrt(of_b)));
}

inline void string_replace_all(std::string &text, const std::string &from, const std::string &to) {
  if (from.empty()) return;
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) text.replace(at, from.size(), to);
}
