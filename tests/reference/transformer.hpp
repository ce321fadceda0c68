// A transformer of any of the families here in plain double-precision loops.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "reference/activations.hpp"
#include "reference/altup.hpp"
#include "reference/hyper_connections.hpp"
#include "reference/indexer.hpp"
#include "reference/recurrence.hpp"
#include "reference/router.hpp"

namespace bantam::reference {

/// The numbers of a model. Weights go by Hugging Face's names, matrices (out, in).
struct Transformer {
  std::int64_t dim = 0, layers = 0, heads = 0, kv_heads = 0, head_dim = 0, ffn = 0, vocab = 0;
  double norm_eps = 0;
  std::vector<double> frequencies;  ///< of each rotated pair; twice as many elements of a head turn
  double magnitude = 1;             ///< of cosines and sines
  std::vector<double> local_frequencies{};  ///< of layers in `locals`, whose cosines and sines keep their magnitude
  std::vector<bool> locals{};
  double temperature = 0, temperature_length = 1, temperature_offset = 0;  ///< of queries: 1 + temperature ln(1 + floor((position + offset) / length))
  bool layer_norms = false;         ///< not RMS norms
  bool plain_norms = false;         ///< norms before blocks and the last have no weights (OLMo 1)
  bool parallel = false;            ///< attention and MLP read the same state
  double embedding_scale = 1, residual_scale = 1, attention_scale = 0, logit_scale = 1;  ///< attention_scale 0: 1 / sqrt(head_dim)
  double attention_softcap = 0, final_softcap = 0;  ///< 0: none
  std::function<double(double)> activation = silu;
  std::function<double(double)> class_activation = [](double x) { return std::tanh(x); };  ///< of a classifier of two layers
  std::vector<bool> rotates{};  ///< of each layer; empty: all
  std::int64_t kv_rank = 0, q_rank = 0, nope_dim = 0, value_dim = 0;  ///< of latent attention
  bool norms_all_heads = false;     ///< q and k, where they have norms
  bool norms_own_heads = false;     ///< each head by weights of its own (Command R+)
  std::int64_t position_offset = 0;  ///< rows of learned positions before the first (OPT)
  bool sees_all = false;            ///< tokens see those that follow them, too; with a window those at most half of it away (BERT, ModernBERT)
  std::int64_t encoder_layers = 0;  ///< the first so many: an encoder's, which reads the same tokens as the decoder behind it, but for the first of that
  std::int32_t decoder_start = 0;
  std::vector<std::int32_t> source{};  ///< what the encoder reads in their place; empty: the same
  std::int64_t relative_buckets = 0, relative_distance = 0;  ///< of scores' biases by distance; 0: there are none (arXiv:1910.10683)
  bool norms_sums = false;          ///< norms behind blocks are taken of the residual stream with what was added (BERT)
  bool headless = false;            ///< logits() gives the states that a head would read
  std::vector<int> types{};         ///< of each token; empty: all 0 (BERT)
  bool head_layer_norms = false;    ///< these are layer norms (MPT)
  double alibi = 0;                 ///< arXiv:2108.12409: what its slopes' exponents come to; 0: no such term
  bool scales_alibi = false;        ///< it is scaled as scores are (Falcon)
  double qkv_clip = 0;              ///< 0: none
  bool chunked = false;             ///< windows are chunks (Llama 4)
  bool norms_turned = false;        ///< q and k of layers that rope turns, behind it, without weights
  bool warms_unturned = false;      ///< the temperature is of layers without rope alone
  bool scales_inputs = false;       ///< of experts, not outputs
  bool averages_shared = false;     ///< a sparse layer adds the mean of the shared expert and the others (Cohere2-MoE)
  bool routes_inputs = false;       ///< routers read what the layer reads, before its norm (SmallThinker)
  bool norms_rotated = false;       ///< they come after rope
  bool adjacent_pairs = false;      ///< rope turns elements 2 i and 2 i + 1, not i and i + n
  double decay_bound = 0;           ///< of channel_delta()
  bool softplus_gates = false;      ///< of heads' outputs, in the place of sigmoids
  bool clamps = false;              ///< gates and ups of MLPs, as gpt-oss does
  double attention_in = 1, attention_out = 1, key_scale = 1, space_in = 1, space_out = 1, gate_scale = 1, down_scale = 1;  ///< of Falcon-H1
  std::vector<double> space_scales = {1, 1, 1, 1, 1};  ///< of z, x, B, C and dt
  bool gates_output = false;        ///< rows of q are a head's query, then its gate (Qwen3-Next)
  RecurrentSizes recurrent{};       ///< of layers that have weights of such
  std::int64_t experts = 0, expert_ffn = 0, shared_ffn = 0;  ///< of layers that have a router
  Router router{};
  std::vector<std::int64_t> windows{};  ///< of each layer, 0 for none; empty: none has one
  std::vector<std::int64_t> head_dims{}, groups{};  ///< of each layer, in the place of head_dim and kv_heads; empty: all alike (Gemma 4)
  std::vector<std::int64_t> layer_heads{};          ///< of each layer, in the place of heads, with as many key-value heads; empty: all alike (Laguna)
  std::vector<std::int64_t> kv_layers{};            ///< the layer whose keys and values one reads; -1: its own; empty: all their own
  bool norms_values = false;        ///< head by head, without weights
  double value_scale = 1;           ///< of attention's values (MiMo-V2)
  std::int64_t per_layer_dim = 0;   ///< of per-layer embeddings
  std::int64_t streams = 0, active_stream = 0;  ///< residual streams, where there are several (Gemma 3n)
  bool connects_streams = false;    ///< by hyper-connections (Qwen4)
  Ngrams ngrams{};                  ///< and the table that one of its layers reads
  bool sigmoid_delta = false;       ///< gates of gated_delta()
  Indexer indexer{};                ///< of what attention sees; used 0: there is none
  bool shares_choices = true;       ///< layers without an indexer see what the last one chose; else everything
  std::map<std::string, std::vector<float>> weights;

  using Row = std::vector<double>;

  /// The logits after each token, of a decoder behind an encoder after its start and each token but the last: (tokens, vocab). arXiv:2302.13971 and what it cites.
  [[nodiscard]] std::vector<double> logits(const std::vector<std::int32_t>& tokens) const;

  /// Logits of the token after the next one, after each token but the last: layer `layers` reads pairs of a state and the embedding of the
  /// next token (arXiv:2412.19437, 2.2, eq. 21 to 23).
  [[nodiscard]] std::vector<double> drafted_logits(const std::vector<std::int32_t>& tokens) const;

  /// What a classifier makes of the state that stands for a text: head norm(act(dense x)).
  [[nodiscard]] std::vector<double> labels(const std::vector<double>& state) const;

  /// Layers behind pooling, `tanh` behind each or nothing.
  [[nodiscard]] std::vector<double> behind_pooling(const std::vector<double>& x, bool tanh) const;

  /// The hidden states of each token before each block, and after the last.
  [[nodiscard]] std::vector<std::vector<Row>> states(const std::vector<std::int32_t>& tokens) const;
};

}  // namespace bantam::reference
