// The names of all weights that blocks have, and of the axes of their shapes.
#pragma once

#include <cstdint>

namespace bantam::inline v0 {

/// What a weight is for. One entry a tensor that the forward pass reads.
enum class Role : std::uint8_t {
  embedding,
  position_embedding,   ///< learned, of each position (Vaswani et al., arXiv:1706.03762, 3.5; GPT-2, OPT)
  embedding_norm,       ///< of what the first layer reads (BLOOM)
  embedding_norm_bias,
  final_norm,
  final_norm_bias,
  encoder_norm,  ///< of an encoder before a decoder: of what its last layer makes (T5)
  encoder_norm_bias,
  encoder_position_embedding,  ///< and what it has of its own before its first (BART)
  encoder_embedding_norm,
  encoder_embedding_norm_bias,
  head,
  head_bias,
  rope_divisors,
  per_layer_embedding,         ///< per-layer embeddings (Gemma 3n, 4): of each token a row for every layer
  per_layer_model_projection,  ///< and what they get of its embedding
  per_layer_model_norm,
  stream_projection,   ///< several residual streams (AltUp, arXiv:2301.13310): what makes the others of the first
  stream_unembedding,  ///< and what makes of each of them what the head reads
  head_streams_norm,   ///< hyper-connections (arXiv:2409.19606): how the head reads several streams
  head_streams_down,
  head_streams_up,
  ngram_embedding,     ///< rows of n-grams, by hash (Qwen4)
  token_type_embedding,  ///< of the first and the second text of a pair (BERT)
  class_dense,  ///< of a classifier: what the state that stands for a text goes through first
  class_dense_bias,
  class_norm,
  class_head,   ///< and what makes a number for each label of it
  class_head_bias,
  pooled_dense,  ///< layers behind pooling (sentence-transformers' Dense), of embeddings
  pooled_dense_bias,
  pooled_dense_2,
  pooled_dense_2_bias,
  // One a layer from here on.
  attention_norm,  ///< before attention
  attention_norm_bias,
  attention_out_norm,  ///< of what attention adds, or of the residual stream with it (ArchSpec::norms_sums)
  attention_out_norm_bias,
  q,
  k,
  v,
  o,
  q_bias,
  k_bias,
  v_bias,
  o_bias,
  q_norm,
  k_norm,
  q_norm_bias,
  k_norm_bias,
  o_norm,  ///< of what `o` reads, over all heads (BitNet, arXiv:2504.12285)
  sinks,  ///< of attention, one a head
  relative_bias,  ///< of scores, by buckets of distances (T5, arXiv:1910.10683)
  q_a,    ///< latent attention (arXiv:2405.04434): down to the queries' rank
  q_a_norm,
  q_b,    ///< and up from there
  kv_a,   ///< down to the latent vector and the rotated key
  kv_a_norm,
  k_b,  ///< a head's query into the latent space
  v_b,  ///< and its mean out of there
  attention_gate,  ///< of heads' outputs (OutputGate::own)
  index_q,         ///< of the indexer of sparse attention (DeepSeek V3.2, arXiv:2512.02556)
  index_k,
  index_weights,
  index_k_norm,
  index_k_norm_bias,
  index_q_stream,  ///< the same where queries are made of the residual stream (Qwen4)
  index_q_norm,
  delta_qkv,  ///< gated delta net (arXiv:2412.06464)
  delta_z,
  delta_a,
  delta_b,
  delta_out,
  delta_convolution,
  delta_decay,
  delta_decay_bias,
  delta_norm,
  channel_q,  ///< delta net with a decay of each key channel (Kimi Delta Attention, arXiv:2510.26692)
  channel_k,
  channel_v,
  channel_f_a,  ///< decays: down to a rank; whole where there is no f_b
  channel_f_b,  ///< and up from there
  channel_g_a,  ///< the output gate, in the same way
  channel_g_b,
  channel_b,
  channel_out,
  channel_q_convolution,
  channel_k_convolution,
  channel_v_convolution,
  channel_decay,
  channel_decay_bias,
  channel_norm,
  state_in,  ///< state space (Mamba-2, arXiv:2405.21060)
  state_out,
  state_convolution,
  state_convolution_bias,
  state_decay,
  state_decay_bias,
  state_skip,
  state_norm,
  short_in,  ///< gated short convolution (LFM2)
  short_out,
  short_convolution,
  cross_norm,  ///< of a decoder's attention to what an encoder made (Vaswani et al., arXiv:1706.03762, 3.2.3)
  cross_norm_bias,
  cross_out_norm,
  cross_out_norm_bias,
  cross_q,
  cross_k,
  cross_v,
  cross_o,
  cross_q_bias,
  cross_k_bias,
  cross_v_bias,
  cross_o_bias,
  ffn_norm,
  ffn_norm_bias,
  ffn_out_norm,
  ffn_out_norm_bias,
  mlp_out_norm,     ///< of an MLP and experts side by side, each has norms of its own
  expert_norm,
  expert_out_norm,
  per_layer_gate,
  per_layer_projection,
  per_layer_norm,   ///< of what they add
  stream_router,       ///< of several residual streams: what says how they go together
  stream_router_norm,
  stream_prediction,   ///< how a layer's streams follow from those before it
  stream_correction,   ///< and from what it made of the active one
  stream_scale,        ///< of that one, where a per-layer embedding reads it
  mixer_streams_norm,  ///< hyper-connections: how the first half reads several streams
  mixer_streams_down,
  mixer_streams_up,
  mixer_streams_inject,  ///< and writes to them
  ffn_streams_norm,    ///< and the second
  ffn_streams_down,
  ffn_streams_up,
  ffn_streams_inject,
  ngram_key,       ///< of what a layer adds of n-grams
  ngram_value,
  ngram_key_norm,
  ngram_query_norm,
  ngram_value_norm,
  ngram_convolution,
  laurel_left,   ///< a low-rank residual branch beside attention (LAuReL, arXiv:2411.07501): down to its rank
  laurel_right,  ///< and up from there
  laurel_norm,   ///< of what that makes
  layer_scale,      ///< what a layer's outputs, the residual stream with them, are multiplied by
  gate,  ///< of the MLP: of a dense layer, or the expert of a sparse one that all tokens share
  up,
  down,
  gate_bias,
  up_bias,
  down_bias,
  down_norm,  ///< of what `down` reads (BitNet)
  xielu_positive,  ///< xIELU's numbers of a layer (arXiv:2411.13010): its two curves, before softplus
  xielu_negative,
  xielu_slope,     ///< of both at 0
  xielu_limit,     ///< what the second is taken of at most
  router,
  router_bias,
  router_scale,    ///< of a router that reads the residual stream itself
  expert_scale,    ///< what each expert's weight is multiplied by
  selection_bias,  ///< added to scores when experts are chosen, not when they are weighed
  shared_gate,     ///< what the shared expert counts for a token: the sigmoid of the product with it
  draft_projection,  ///< of a layer that drafts: what makes its input of an embedding and a state
  draft_embedding_norm,
  draft_state_norm,
  draft_final_norm,  ///< before the head
  latent_down,     ///< into the space that experts work in, where that is not the residual stream
  latent_up,       ///< and what they add up to out of it
  // One an expert from here on.
  expert_gate,
  expert_up,
  expert_down,
  expert_gate_bias,
  expert_up_bias,
  expert_down_bias,
};

/// What an axis of a weight counts.
enum class WeightAxis : std::uint8_t {
  one,         ///< the rows of a vector
  vocab,
  per_layer_vocab,  ///< tokens that have a per-layer embedding
  positions,   ///< that the model learned
  dim,         ///< the residual stream
  twice_dim,   ///< two of them, one behind the other
  encoder_positions,  ///< the same of an encoder before a decoder
  heads,
  queries,     ///< heads * head_dim
  keys,        ///< kv_heads * head_dim
  values,      ///< kv_heads * value_dim
  outputs,     ///< heads * value_dim
  q_norm,      ///< what an RMS norm of queries is taken over: a head or all of them
  k_norm,
  rope_pairs,  ///< rope.dim / 2
  bias_table,  ///< buckets of distances * heads
  cross_heads,  ///< heads * head_dim, in layers of a decoder behind an encoder
  q_rank,
  kv_rank,
  latent,           ///< kv_rank + rope.dim
  latent_queries,   ///< heads * kv_rank
  nope,             ///< head_dim - rope.dim
  gates,            ///< heads * value_dim or heads, where outputs have gates of a matrix of their own
  index_queries,    ///< of the indexer: its heads * its head_dim
  index_dim,
  index_heads,
  delta_channels,  ///< of a gated delta net: 2 key_heads * key_dim + delta_values
  delta_values,    ///< value_heads * value_dim
  delta_heads,
  delta_taps,      ///< taps * channels of its convolution
  delta_value,     ///< value_dim
  channel_keys,    ///< of a delta net with a decay of each channel: heads * head_dim; of values, too
  channel_heads,
  channel_taps,    ///< taps * channel_keys
  channel_rank,    ///< of its decays and its gate, where they have a low one, and of its norm: head_dim
  channel_gates,   ///< what f_a and g_a make: channel_rank, or channel_keys
  state_in,        ///< of a state space: state_inner + state_channels + state_heads
  state_inner,     ///< heads * head_dim
  state_channels,
  state_taps,
  state_heads,
  short_in,        ///< 3 dim, where a layer is a short convolution
  short_dim,
  short_taps,
  ffn,
  experts,
  expert_ffn,
  expert_dim,     ///< what experts read and make: dim, or expert_latent
  expert_latent,  ///< of the space that they work in, if it is one of their own
  per_layer,       ///< of a per-layer embedding
  all_per_layer,   ///< of those of all layers
  other_streams,   ///< residual streams but the first * dim
  stream_router,   ///< residual streams * dim
  stream_pairs,    ///< residual streams ^ 2
  stream_triples,  ///< residual streams ^ 3
  all_streams,     ///< of hyper-connections: residual streams * dim
  stream_rank,     ///< of their gates
  stream_inject,   ///< residual streams ^ 2 * dim
  ngram_rows,      ///< of the table of n-grams
  ngram_row,       ///< one of them
  ngram_width,     ///< all of a token's, in the layer that reads them
  ngram_streams,   ///< residual streams * dim, there
  ngram_taps,      ///< taps * residual streams * dim, there
  laurel,          ///< rank of a low-rank residual branch
  token_type_rows,  ///< token types * dim
  class_square,    ///< dim * dim
  class_rows,      ///< labels * dim
  labels,
  pooled_square,    ///< of the first layer behind pooling: its outputs * dim
  pooled_rows,      ///< its outputs, where it has a bias
  pooled_square_2,  ///< of the second: its outputs * those of the first
  pooled_rows_2,
};

}  // namespace bantam::inline v0
