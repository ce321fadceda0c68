// Random models of any architecture and size, written as a Hugging Face folder or as a GGUF file.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "bantam/bantam.hpp"
#include "bantam/core/random.hpp"
#include "bantam/model/archs.hpp"
#include "bantam/model/roles.hpp"
#include "hostile/gguf_builder.hpp"
#include "io/json.hpp"
#include "reference/transformer.hpp"
#include "support.hpp"

namespace bantam::test {

struct TinyTensor {
  std::string name;       ///< Hugging Face's
  std::string gguf_name;  ///< empty: not in GGUF files
  std::vector<std::int64_t> shape;
  std::vector<float> values;       ///< in Hugging Face's order of rows
  std::int64_t permuted_heads = 0;  ///< GGUF files of Llama pair adjacent rows of q and k, in this many heads
  TensorId id = {};  ///< of recurrent layers, whose heads and convolutions GGUF files have in other orders
  std::vector<std::int64_t> gguf_shape = {};  ///< where it is not the same
  std::string reference_name = {};  ///< in reference::Transformer; empty: its own
  std::string fused_name = {};      ///< Hugging Face's, of the tensor that has those of all experts, or heads; empty: none
  Fused fused = {};
  std::int64_t heads = 0;           ///< that have a matrix each, one behind the other
  std::int64_t groups = 0;          ///< of a layer's own: among which `fused` divides its rows
  float less = 0;                   ///< what folders store it less
  TensorId own = {};                ///< which weight of the model it is
  std::int64_t rows_left_out = 0;   ///< of its first, that GGUF files have none of
  std::int64_t rows_put_in = 0;     ///< copies of its first behind the others, that GGUF files alone have
  std::vector<std::string> pieces = {};  ///< Hugging Face's names of tensors that have equal parts of its rows; empty: it is one
};

/// Everything a test may wish to change before the files are written.
struct TinyModel {
  // Sizes that are no multiples of anything convenient.
  const ArchSpec* arch = &archs::llama;
  std::int64_t decoder_layers = 3;  ///< behind as many of an encoder as `layers` says, of architectures that have one
  std::int64_t dim = 36, layers = 2, heads = 6, kv_heads = 2, head_dim = 10, ffn = 50, vocab = 37, context = 64;
  std::int64_t experts = 6, experts_used = 2, expert_ffn = 20;  ///< of architectures that have some
  std::int64_t expert_latent = 28;  ///< of those whose experts may have a space of their own; 0: they have none
  /// Of architectures whose GGUF files have them in weights: powers of two, so that both containers compute the same bits.
  ModelScales scales = {.embedding = 4, .logits = 0.25, .attention_in = 2, .attention_out = 0.5, .keys = 0.25, .space_in = 2, .space_out = 0.25, .space = {0.5, 0.25, 4, 0.125, 0.5},
                        .gate = 0.5, .down = 2};
  double final_softcap = 3;  ///< of architectures that have one
  bool turned = false;  ///< by rope, where files say whether layers are
  std::int64_t window = 7;  ///< of architectures that have one in some layers
  std::int64_t key_heads = 2, value_heads = 4, key_dim = 12, state_value_dim = 12, taps = 4;  ///< of recurrent layers
  std::int64_t q_rank = 12, kv_rank = 32, value_dim = 32;  ///< of latent attention
  std::int64_t full_head_dim = 0, full_kv_heads = 1;  ///< of layers without a window that differ from the others; 0: twice head_dim
  bool shares_values = false;  ///< keys are values in these, and no layer reads another's (Gemma 4, 31B); else half of the layers do (E2B, E4B)
  std::int64_t per_layer_dim = 12;  ///< of models without experts whose values are not their keys
  std::int64_t streams = 4, active_stream = 1, laurel_rank = 8;  ///< of architectures that have several residual streams
  std::int64_t stream_rank = 10;   ///< of those that have hyper-connections
  bool reads_ngrams = true;        ///< a layer of these, where they may
  std::int64_t first_shared = 5;   ///< of these: the layer from which on each reads the keys of another
  std::int64_t sparse_layers = 0;  ///< and how many, the first, have sparse gates; 0: every other
  float gate_cutoff = 0.5F;        ///< of these
  std::int64_t token_types = 2;  ///< of architectures that have some
  std::int64_t labels = 0;       ///< of a classifier, of architectures that may have one
  std::optional<Pooling> pooling = {};
  std::vector<PooledLayer> pooled_layers = {};  ///< behind it; folders have them in files of their own: write_modules()
  bool tied = false;
  std::int64_t index_used = 12;  ///< tokens that sparse attention lets a query see
  bool biases = false;  ///< what is optional: Llama's attention_bias, GLM-4.5's norms of q and k
  bool sees = false;    ///< folders are as those of models that see: where these have experts in one tensor, so have they
  bool fuses = true;    ///< folders have experts in one tensor where the architecture's own have
  bool drafts = false;  ///< has the layer that guesses tokens, where the architecture's files may
  bool old_gguf = false;  ///< GGUF files have keys' and values' up-projections of latent attention in one tensor
  std::uint64_t seed = 1;

  ModelConfig sizes = {};  ///< of make()
  std::vector<TinyTensor> tensors = {};
  Json config = {};          ///< config.json
  std::function<void(GgufBuilder&)> more_keys = {};
  std::vector<std::string> pieces = {};        ///< of the vocabulary

  [[nodiscard]] TinyTensor& tensor(const std::string& name) {
    const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const TinyTensor& t) { return t.name == name; });
    REQUIRE(found != tensors.end());
    return *found;
  }
  void remove(const std::string& name) {
    std::erase_if(tensors, [&](const TinyTensor& t) { return t.name == name; });
  }

  /// Fills in tensors, config and vocabulary from the sizes.
  TinyModel& make();

  /// What a folder has.
  [[nodiscard]] std::vector<TinyTensor> folder_tensors() const;
  void write_tokenizer(const std::filesystem::path& folder) const;
  /// A Hugging Face folder. `type`: F32, F16 or BF16.
  void write_folder(const std::filesystem::path& folder, const std::string& type = "F32") const;

  /// modules.json, and what comes behind pooling with the files of its layers, where there are some.
  void write_modules(const std::filesystem::path& folder, const std::vector<TinyTensor>& behind) const;

  /// The same model as GGUF, of F32.
  [[nodiscard]] GgufBuilder gguf() const;
  void put_vocabulary(GgufBuilder& b) const;
  void put_tensors(GgufBuilder& b) const;
  void write_gguf(const std::filesystem::path& path) const { write_file(path, gguf().bytes()); }

  /// The rows of several of a layer's own tensors, in turn for each of some groups: of each tensor the next so many.
  [[nodiscard]] static std::vector<float> in_turn(std::int64_t groups, const std::vector<std::pair<const float*, std::int64_t>>& parts);
  /// Those of a delta net's inputs, key head by key head.
  [[nodiscard]] std::vector<float> by_key_heads(const std::vector<const TinyTensor*>& parts) const;
  /// A tensor's values with the scales that GGUF files have in them.
  [[nodiscard]] std::vector<float> folded(const TinyTensor& t) const;
  /// The tensor of a folder that has a role's rows beside others.
  [[nodiscard]] TinyTensor fused_rows_of(const TinyTensor& one) const;
  /// Keys' and values' up-projections of a layer in one, as folders have them: (heads * (nope + value), rank).
  [[nodiscard]] TinyTensor latent_tensor(const TinyTensor& k_b) const;

  [[nodiscard]] reference::Transformer reference() const;

  static std::string bytes_of(const std::vector<float>& values, const std::string& type);

 private:
  void add(Random& random, const RoleInfo& info, const TensorId& id);
  void set_kind(LayerSpec& spec, std::size_t i);
  void set_full_layers(std::vector<LayerSpec>& specs);
  void drop_halves(std::vector<LayerSpec>& specs);
  void set_streams(std::vector<LayerSpec>& specs);
  void set_ngrams(std::vector<LayerSpec>& specs);
  void say_full_layers();
  void say_step_words();
  void say_block_configs();
  /// Calls f(key, number) for what containers say in numbers.
  template <class F>
  void for_each_number(F&& f) const {
    for (const auto& list : {arch->config, arch->more_config}) {
      for (const ConfigKey& key : list) {
        if (arch->find(key.field) != &key) continue;
        if (const FieldValue value = value_of(sizes, key.field)) std::visit([&](auto number) { f(key, number); }, *value);
      }
    }
  }
};

/// As few as have each part among them: for tests that take long, of code that looks at one part at a time.
[[nodiscard]] const std::vector<const ArchSpec*>& few_architectures();

/// All of them; the few where BANTAM_TEST_QUICK is set.
[[nodiscard]] std::vector<const ArchSpec*> architectures_by_parts();

/// Of the few the first for each kind and shape of what a text leaves behind (keys and values, recurrent states, those of a layer that
/// drafts): for tests of what is done with that, whatever computed it.
[[nodiscard]] std::vector<const ArchSpec*> architectures_by_state();

/// Those of them without experts.
[[nodiscard]] std::vector<const ArchSpec*> dense_architectures();

/// Those of them that compute what Llama does by its names: blocks one after the other, RMS norms before them, no scales, rope in all layers.
[[nodiscard]] std::vector<const ArchSpec*> plain_architectures();

/// Logits after each of `tokens`, in one row; of a model without a head what one would read. An encoder before a decoder reads all of them;
/// the decoder its start, and then all but the last.
[[nodiscard]] std::vector<float> logits_of(const Model& model, const std::vector<TokenId>& tokens);

/// What the head reads in the place of these.
[[nodiscard]] std::vector<float> states_of(const Model& model, const std::vector<TokenId>& tokens);

/// Some tokens of a tiny model's vocabulary.
[[nodiscard]] std::vector<TokenId> some_tokens(int count = 12);

/// The largest distance from double precision.
[[nodiscard]] double distance(const std::vector<float>& found, const std::vector<double>& expected);

}  // namespace bantam::test
