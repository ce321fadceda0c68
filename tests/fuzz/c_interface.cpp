// The C interface run by programs of bytes: any call, in any order that its contract allows, with any numbers.
#include <array>
#include <cstring>

#include "bantam.h"
#include "fuzz/fuzz.hpp"
#include "fuzz/structures.hpp"

namespace bantam::fuzz {

namespace {

constexpr std::size_t slots = 3;
constexpr float infinity = __builtin_inff();

template <class T>
using Slots = std::array<T*, slots>;

/// Objects, and the bytes that say what to do with them.
class Program {
 public:
  Program(const Scratch& folder, Choices& choices) : folder_(folder), choices_(choices) {}
  ~Program() {
    for (auto* g : generations_) bantam_generation_free(g);
    for (auto* s : sessions_) bantam_session_free(s);
    for (auto* s : samplers_) bantam_sampler_free(s);
    for (auto* w : weights_) bantam_weights_free(w);
    for (auto* m : models_) bantam_model_free(m);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  void run() {
    load("base.gguf");
    for (int steps = 0; steps < 24 && !choices_.done(); ++steps) step();
  }

 private:
  template <class T>
  T*& pick(Slots<T>& from) { return from[choices_.below(slots)]; }

  void check(bantam_status status) {
    require(status <= 0 && status > BANTAM_INTERNAL, "a call ends with a status that is not the library's own mistake");
    if (status == BANTAM_OK) return;
    const char* line = bantam_last_error();
    require(line[0] != '\0' && std::strchr(line, '\n') == nullptr, "a call that failed says so in one line");
  }

  /// Sessions that a generation borrows are used through it alone.
  [[nodiscard]] bool is_borrowed(const bantam_session* session) const {
    for (std::size_t i = 0; i < slots; ++i) {
      if (generations_[i] != nullptr && borrowed_[i] == session) return true;
    }
    return false;
  }
  bantam_session* free_session() {
    bantam_session* session = pick(sessions_);
    return is_borrowed(session) ? nullptr : session;
  }
  float real() {
    static constexpr float edges[] = {0, -1, 1, 0.5F, 1e-30F, 1e30F, infinity, -infinity, __builtin_nanf("")};
    return choices_.of(edges);
  }
  std::int64_t small() { return choices_.once_in(8) ? static_cast<std::int64_t>(choices_.number()) : choices_.between(-1, 20); }
  const char* name() {
    static constexpr const char* names[] = {"f16", "q8", "q4", "q3", "f32", "i4.g32", "i8.row", "nf4", "rtn", "", "nothing", "mapped", "lm_head",
                                            "model.layers.0.mlp.up_proj", "model.norm", "mean", "cls", "last"};
    return choices_.once_in(16) ? nullptr : choices_.of(names);
  }
  std::vector<std::int32_t> ids() {
    std::vector<std::int32_t> list(choices_.below(20));
    for (auto& id : list) id = choices_.once_in(16) ? static_cast<std::int32_t>(choices_.number()) : static_cast<std::int32_t>(choices_.below(30));
    return list;
  }

  void load(const char* file) {
    bantam_model*& to = pick(models_);
    bantam_model* model = nullptr;
    const std::string path = (folder_ / file).string();
    check(bantam_model_load(&model, path.c_str()));
    if (model == nullptr) return;
    bantam_model_free(to);
    to = model;
  }

  bantam_generate_options generate_options() {
    bantam_generate_options options = BANTAM_GENERATE_OPTIONS_INIT;
    options.max_tokens = choices_.between(-1, 8);
    if (choices_.once_in(2)) options.temperature = real();
    if (choices_.once_in(4)) options.top_k = static_cast<std::int32_t>(choices_.number());
    if (choices_.once_in(4)) options.top_p = real();
    if (choices_.once_in(4)) options.min_p = real();
    if (choices_.once_in(4)) options.typical_p = real();
    if (choices_.once_in(4)) options.repeat_penalty = real();
    if (choices_.once_in(4)) options.frequency_penalty = real();
    if (choices_.once_in(4)) options.repeat_last_n = static_cast<std::int32_t>(choices_.number());
    if (choices_.once_in(4)) options.flags = choices_.raw();
    if (choices_.once_in(4)) options.lookup = static_cast<std::int32_t>(choices_.between(-1, 20));
    options.seed = choices_.raw();
    options.ignore_end = choices_.once_in(2);
    if (choices_.once_in(4)) options.stop = stops_, options.stop_count = 2;
    if (choices_.once_in(4)) {
      bias_id_ = static_cast<std::int32_t>(small());
      bias_ = real();
      options.bias_ids = &bias_id_, options.bias = &bias_, options.bias_count = 1;
    }
    if (choices_.once_in(4)) {
      setting_ = {"order", choices_.once_in(2) ? "temperature,top_k" : "top_k,top_k"};
      options.settings = &setting_, options.setting_count = 1;
    }
    return options;
  }

  void step() {
    switch (choices_.below(26)) {
      case 0: load(choices_.once_in(2) ? "base.gguf" : choices_.once_in(2) ? "saved" : "missing"); break;
      case 1: {
        bantam_model*& model = pick(models_);
        bantam_model_free(model);
        model = nullptr;
        break;
      }
      case 2: check(bantam_model_save(pick(models_), (folder_ / "saved").c_str())); break;
      case 3: {
        const std::string bytes = choices_.text(64);
        bantam_model* model = nullptr;
        check(bantam_model_load_memory(&model, bytes.data(), bytes.size(), nullptr));
        bantam_model_free(model);
        break;
      }
      case 4: {
        bantam_model_info info = BANTAM_MODEL_INFO_INIT;
        check(bantam_model_get_info(pick(models_), &info));
        bantam_tensor_info tensor = BANTAM_TENSOR_INFO_INIT;
        const auto index = static_cast<std::size_t>(small());
        check(bantam_model_get_tensor(pick(models_), index, &tensor));
        break;
      }
      case 5: {
        std::vector<float> out(static_cast<std::size_t>(choices_.between(1, 300)));
        const char* tensor = name();
        check(bantam_model_read_tensor(pick(models_), tensor, out.data(), out.size()));
        break;
      }
      case 6: {
        const std::string text = choices_.text(40);
        std::vector<std::int32_t> out(choices_.below(8));
        std::size_t count = 0;
        const std::uint32_t flags = choices_.raw();
        check(bantam_tokenize(pick(models_), text.data(), text.size(), flags, out.data(), out.size(), &count));
        break;
      }
      case 7: {
        const auto list = ids();
        std::string out(choices_.below(16), '\0');
        std::size_t bytes = 0;
        const std::uint32_t flags = choices_.raw();
        const auto id = static_cast<std::int32_t>(small());
        check(bantam_detokenize(pick(models_), list.data(), list.size(), flags, out.data(), out.size(), &bytes));
        check(bantam_token_bytes(pick(models_), id, out.data(), out.size(), &bytes));
        (void)bantam_token_ends(models_[0], id);
        break;
      }
      case 8: {
        bantam_session_options options = BANTAM_SESSION_OPTIONS_INIT;
        options.context_tokens = choices_.once_in(4) ? small() : 0;
        options.threads = choices_.once_in(8) ? static_cast<std::int32_t>(choices_.between(-1, 3)) : 1;
        if (choices_.once_in(2)) options.kv = name();
        bantam_session* session = nullptr;
        check(bantam_session_new(&session, pick(models_), &options));
        put(session);
        break;
      }
      case 9: {
        bantam_session* session = nullptr;
        if (bantam_session* from = free_session()) check(bantam_session_fork(&session, from));
        put(session);
        break;
      }
      case 10:
        if (bantam_session* session = free_session()) check(bantam_session_save(session, (folder_ / "session").c_str()));
        break;
      case 11: {
        bantam_session* session = nullptr;
        check(bantam_session_restore(&session, pick(models_), (folder_ / "session").c_str(), nullptr));
        put(session);
        break;
      }
      case 12:
      case 13: {
        const std::string text = choices_.text(30);
        if (bantam_session* session = free_session()) check(bantam_session_prefill(session, text.data(), text.size()));
        break;
      }
      case 14: {
        const auto list = ids();
        if (bantam_session* session = free_session()) check(bantam_session_prefill_tokens(session, list.data(), list.size()));
        break;
      }
      case 15: {
        const float* logits = nullptr;
        std::size_t count = 0;
        bantam_session* session = free_session();
        if (session == nullptr) break;
        const bantam_status status = bantam_session_logits(session, &logits, &count);
        check(status);
        bantam_sampler* sampler = pick(samplers_);
        std::int32_t id = 0;
        if (status != BANTAM_OK || sampler == nullptr) break;
        check(bantam_sampler_sample(sampler, logits, count, &id));
        check(bantam_sampler_accept(sampler, choices_.once_in(4) ? static_cast<std::int32_t>(small()) : id));
        break;
      }
      case 16: {
        const auto list = ids();
        const float* out = nullptr;
        std::size_t size = 0;
        const char* pooling = name();
        const bool normalize = choices_.once_in(2);
        if (bantam_session* session = free_session()) check(bantam_session_embed(session, list.data(), list.size(), pooling, normalize, &out, &size));
        break;
      }
      case 17:
        if (bantam_session* session = free_session()) check(bantam_session_truncate(session, static_cast<std::size_t>(small())));
        break;
      case 18:
        if (bantam_session* session = pick(sessions_)) bantam_session_cancel(session);
        break;
      case 19: {
        bantam_session*& session = pick(sessions_);
        if (is_borrowed(session)) break;
        bantam_session_free(session);
        session = nullptr;
        break;
      }
      case 20:
      case 21: {
        const std::size_t slot = choices_.below(slots);
        bantam_session* session = free_session();
        if (session == nullptr || generations_[slot] != nullptr) break;
        const bantam_generate_options options = generate_options();
        const std::string prompt = choices_.text(20);
        check(bantam_generation_new(&generations_[slot], session, prompt.data(), prompt.size(), choices_.once_in(8) ? nullptr : &options));
        borrowed_[slot] = session;
        break;
      }
      case 22: {
        bantam_generation* generation = pick(generations_);
        if (generation == nullptr) break;
        const char* text = nullptr;
        std::size_t bytes = 0;
        check(bantam_generation_next(generation, &text, &bytes));
        bantam_stats stats = BANTAM_STATS_INIT;
        check(bantam_generation_get_stats(generation, &stats));
        break;
      }
      case 23: {
        std::vector<bantam_generation*> running;
        for (auto* g : generations_) {
          if (g != nullptr) running.push_back(g);
        }
        std::size_t left = 0;
        check(bantam_generations_step(running.data(), running.size(), &left));
        break;
      }
      case 24: {
        bantam_generation*& generation = pick(generations_);
        bantam_generation_free(generation);
        generation = nullptr;
        break;
      }
      default: more(); break;
    }
  }

  void more() {
    switch (choices_.below(4)) {
      case 0: {
        const bantam_generate_options options = generate_options();
        bantam_sampler* sampler = nullptr;
        check(bantam_sampler_new(&sampler, pick(models_), &options));
        if (sampler == nullptr) break;
        bantam_sampler*& to = pick(samplers_);
        bantam_sampler_free(to);
        to = sampler;
        break;
      }
      case 1: {
        bantam_weights* weights = nullptr;
        const std::int64_t rows = choices_.between(-1, 40), columns = choices_.between(-1, 70);
        std::vector<float> values(static_cast<std::size_t>(std::max<std::int64_t>(1, rows * columns)), choices_.once_in(4) ? real() : 0.25F);
        const char* what = name();
        check(choices_.once_in(2) ? bantam_weights_quantize(&weights, values.data(), rows, columns, what) : bantam_weights_of_model(&weights, pick(models_), what));
        if (weights == nullptr) break;
        bantam_weights*& to = pick(weights_);
        bantam_weights_free(to);
        to = weights;
        break;
      }
      case 2: {
        bantam_weights* weights = pick(weights_);
        bantam_tensor_info info = BANTAM_TENSOR_INFO_INIT;
        if (weights == nullptr || bantam_weights_get_info(weights, &info) != BANTAM_OK) break;
        const std::int64_t tokens = choices_.between(1, 5);
        std::vector<float> x(static_cast<std::size_t>(tokens * info.columns), choices_.once_in(4) ? real() : 1.0F), out(static_cast<std::size_t>(tokens * info.rows));
        check(bantam_weights_multiply(weights, x.data(), tokens, out.data(), choices_.once_in(2)));
        out.resize(static_cast<std::size_t>(info.rows * info.columns));
        check(bantam_weights_dequantize(weights, out.data(), out.size()));
        break;
      }
      default: {
        bantam_compress_options options = BANTAM_COMPRESS_OPTIONS_INIT;
        if (choices_.once_in(2)) options.format = name();
        if (choices_.once_in(8)) options.method = name();
        if (choices_.once_in(4)) options.group = static_cast<std::int32_t>(small());
        bantam_model* small_model = nullptr;
        check(bantam_model_compress(&small_model, pick(models_), &options));
        if (small_model == nullptr) break;
        bantam_model*& to = pick(models_);
        bantam_model_free(to);
        to = small_model;
        break;
      }
    }
  }

  void put(bantam_session* session) {
    if (session == nullptr) return;
    bantam_session*& to = pick(sessions_);
    if (is_borrowed(to)) return bantam_session_free(session);
    bantam_session_free(to);
    to = session;
  }

  const Scratch& folder_;
  Choices& choices_;
  Slots<bantam_model> models_{};
  Slots<bantam_session> sessions_{};
  Slots<bantam_generation> generations_{};
  Slots<bantam_sampler> samplers_{};
  Slots<bantam_weights> weights_{};
  std::array<const bantam_session*, slots> borrowed_{};
  const char* stops_[2] = {"ab", "c"};
  std::int32_t bias_id_ = 0;
  float bias_ = 0;
  bantam_setting setting_{};
};

void run_c_interface(Bytes bytes) {
  static const Scratch folder;
  static const bool ready = [&] {
    test::TinyModel tiny{.dim = 8, .layers = 1, .heads = 2, .kv_heads = 1, .head_dim = 4, .ffn = 9, .vocab = 30, .context = 64};
    folder.put("base.gguf", tiny.make().gguf().bytes());
    return true;
  }();
  require(ready, "there is a model");
  for (const char* file : {"saved", "session"}) std::filesystem::remove(folder / file);
  Choices choices(bytes);
  Program(folder, choices).run();
}

const Target c_interface_target("c_interface", run_c_interface);

}  // namespace
}  // namespace bantam::fuzz
