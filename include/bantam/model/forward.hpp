// The forward pass: layers as branches on the residual stream, each norm in -> blocks -> norm out -> scale -> add, on the persistent team.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "bantam/core/team.hpp"
#include "bantam/model/block_source.hpp"
#include "bantam/model/roles.hpp"
#include "bantam/model/sequence_input.hpp"
#include "bantam/model/table_rows.hpp"
#include "bantam/nn/blocks/altup.hpp"
#include "bantam/nn/blocks/cross_attention.hpp"
#include "bantam/nn/blocks/experts.hpp"
#include "bantam/nn/blocks/latent_expert.hpp"
#include "bantam/nn/blocks/laurel.hpp"
#include "bantam/nn/blocks/mixer.hpp"
#include "bantam/nn/blocks/mlp.hpp"
#include "bantam/nn/blocks/ngram_embedding.hpp"
#include "bantam/nn/blocks/per_layer_embedding.hpp"
#include "bantam/nn/fetch_choice.hpp"

namespace bantam::inline v0 {

/// The architecture's norm of a row, (dim), with a bias if there is one; the row itself where there are no weights. In place allowed.
void normalize_row(const KernelTable& kernels, const ModelConfig& config, const float* x, const std::vector<float>& weight,
                   const std::vector<float>& bias, float* out) noexcept;

/// Makes of a token's embedding, scaled, what the first layer reads, in place: adds that of its position and that of its type, then norms it, where
/// the model does so. `tables` has these, those of an encoder before a decoder apart; position: below ModelConfig::context where it is learned; type: below token_types; row, scratch: (dim).
void place_embedding(const KernelTable& kernels, const ModelConfig& config, const ModelWeights& tables, Stack stack, std::int64_t position, std::uint8_t type, std::span<float> row,
                     std::span<float> scratch, RowCodes& codes) noexcept;

/// What a layer that is run alone reads beside the hidden states of a sequence, in models that have such.
struct BesideStates {
  /// Of ModelConfig::new_layer_state(): a layer that others read leaves its keys and values there, and those find them. Null: nobody will.
  nn::SequenceState* keys = nullptr;
  /// What the indexer of a layer chose, in the same way, for layers that see the same. Null: nobody will, or they see everything.
  nn::KeptChoice* choice = nullptr;
  std::span<const float> embeddings = {};  ///< (tokens, width): its per-layer embeddings, or those of n-grams where the first half reads such
  std::span<const float> layer_inputs = {};  ///< (tokens, dim): of a second half, what the first reads, where the router reads that
  /// (tokens): what its MLP's inputs are multiplied by, behind the norm, where it is an expert whose router does so. Empty: 1.
  std::span<const float> input_scales = {};
  std::span<const float> source = {};  ///< (tokens of it, dim): what an encoder made, behind its norm, of the text that this layer reads beside its own
};

/// Buffers and threads to run a model with. The weights, their source and the config outlive it. For one thread at a time.
class Forward {
 public:
  /// Tokens that go through the layers together: enough to amortize a pass over the weights many times, while the
  /// activations of a wide FFN stay in the last-level cache.
  static constexpr std::int64_t largest_chunk = 512;

  /// The layers of `weights`, which are in memory.
  Forward(const ModelConfig& config, const ModelWeights& weights, std::int64_t context_tokens, int threads);
  /// The layers of `blocks`; `weights` has the embedding, the head and the final norm alone, and what all of it reads for a token.
  Forward(const ModelConfig& config, const ModelWeights& weights, const BlockSource& blocks, std::int64_t context_tokens, int threads)
      : Forward(config, weights, &blocks, context_tokens, threads) {}

  /// Appends to the state of every sequence (of any length, each with a state of its own) and hands out the outputs asked
  /// for. Tokens go through the layers together, whatever sequence they belong to: one pass over the weights serves up to
  /// `largest_chunk` of them. The caller has checked ids and room; keep_going must not throw. Results depend neither on how
  /// tokens were divided into calls, nor on what else is in the pass, nor on the number of threads. Throws cancelled when
  /// keep_going says so, out_of_memory, and what the sink, the source of blocks and stores of keys and values throw; states are then as truncate() to
  /// their tokens leaves them.
  void run(std::span<const SequenceInput> sequences, PassSink sink, KeepGoing keep_going, PassOutput output = PassOutput::logits, SinkCalls calls = SinkCalls::in_order);

  /// Runs half of layer `index` alone, with weights `w`, over the hidden states (tokens, ModelConfig::state_dim()) of a sequence from its beginning,
  /// and adds what it makes to `hidden`. Halves side by side are run together, as the second.
  void run_half(const LayerWeights& w, std::int64_t index, Half half, std::span<float> hidden, const BesideStates& beside = {}) {
    run_part(w, index, half, nn::to_the_end, hidden, beside);
  }
  /// The same as far as what a group of the layer reads; `hidden` stays as it is.
  void run_to(const LayerWeights& w, std::int64_t index, const InputGroup& group, std::span<float> hidden, const BesideStates& beside = {}) {
    run_part(w, index, group.half, group.number, hidden, beside);
  }
  /// (tokens, inputs) of the group that run_to() came to. Until the next call.
  [[nodiscard]] TensorView<const float, 2> inputs() const noexcept;
  /// The experts of each token, where run_to() came to the first group of the second half: (tokens, used) of the router in `w`. Until the
  /// next call.
  [[nodiscard]] std::span<const nn::RoutedExpert> route(const LayerWeights& w) noexcept;
  /// What run_half() makes of `hidden` where its last linear layer, `last`, reads `inputs`, which run_to() came to before: bit for bit, for
  /// the cost of that layer alone.
  void end_half(const LayerWeights& w, std::int64_t index, const InputGroup& last, TensorView<const float, 2> inputs, std::span<float> hidden);
  /// Calls sink(token, its logits) for hidden states (tokens, ModelConfig::state_dim()) that have left the last block, in order. The logits live
  /// for the call.
  void run_head(std::span<const float> hidden, FunctionRef<void(std::int64_t token, std::span<const float> logits)> sink);

  [[nodiscard]] const ModelConfig& config() const noexcept { return config_; }
  [[nodiscard]] int threads() const noexcept { return team_.size(); }
  [[nodiscard]] Team& team() noexcept { return team_; }
  /// As Team::set_profile().
  void set_profile(Profile* profile) noexcept {
    team_.set_profile(profile);
    alone_.set_profile(profile);
  }
  /// As Team::is_forked().
  [[nodiscard]] bool is_forked() const noexcept { return team_.is_forked(); }

 private:
  /// Without `blocks`, of those in `weights`.
  Forward(const ModelConfig& config, const ModelWeights& weights, const BlockSource* blocks, std::int64_t context_tokens, int threads);

  /// Bytes of weights, times tokens, below which threads would wait for each other longer than they work: a layer has eight
  /// phases that end in about a microsecond, and one thread reads 25 to 60 bytes a nanosecond from its caches.
  static constexpr std::int64_t worth_sharing = 512 << 10;

  /// Logits computed at once: a panel of the head is read once for this many tokens.
  static constexpr std::int64_t outputs_at_once = 16;

  void serve(const LayerWeights& w, std::int64_t index);
  [[nodiscard]] std::shared_ptr<const LayerWeights> acquire(std::int64_t layer);
  /// The block of a layer's first half; null: it has none.
  [[nodiscard]] nn::Mixer* mixer_of(std::int64_t layer) const noexcept {
    const int number = mixer_numbers_[static_cast<std::size_t>(layer)];
    return number < 0 ? nullptr : mixers_[static_cast<std::size_t>(number)].get();
  }
  void make_mixers(std::int64_t context_tokens);
  /// What a group of a layer reads.
  [[nodiscard]] nn::Activations& inputs_of(std::int64_t layer, Half half, int group) noexcept;
  void run_part(const LayerWeights& w, std::int64_t index, Half half, int until, std::span<float> hidden, const BesideStates& beside);
  void resize(std::int64_t tokens);
  void plan();
  /// What part of its input a sequence has in the pass under way.
  struct Segment {
    std::int64_t input = 0;
    std::int64_t first = 0;  ///< index of its first token in the input
  };
  /// What a branch made and the residual stream does not have yet.
  struct Pending {
    OutputRows rows;
    float scale = 1;  ///< after the norm
    std::vector<float> norm, bias;  ///< before the sum, or of it; empty: none. Copies: by then the layer's weights may be released
  };
  /// Neighboring rows whose sequences have the same adapters.
  struct AdaptedRows {
    Range rows;
    std::span<const ScaledAdapter> adapters;
  };

  void clear() noexcept;
  void prepare(std::span<const SequenceInput> inputs);
  void take(const SequenceInput& input, Segment segment, std::int64_t count);
  void find_keys();
  bool acquire_keys(std::int64_t layer, std::int64_t stretch);
  [[nodiscard]] Team& team_for(std::int64_t bytes) noexcept { return bytes < worth_sharing ? alone_ : team_; }
  [[nodiscard]] nn::Pass pass_on(Team& team) noexcept { return {kernels_, team, rows_, fetch_.level(), adapted_.empty() ? nullptr : &terms_}; }
  void find_adapted(std::span<const SequenceInput> sequences);
  void adapt_layer(std::int64_t layer, const LayerWeights& w);
  void adapt_model(std::span<const std::int64_t> outputs);
  void look_up();
  void look_up_ngrams();
  void embed(Team& team) noexcept;
  void layers(Range which, KeepGoing keep_going);
  void encode(const SequenceInput& input, KeepGoing keep_going);
  void remember(const nn::Pass& pass, const LayerWeights& w, std::int64_t place, FunctionRef<void(std::int64_t, float*)> state_of, nn::KvCache& cache);
  void find_angles(Range rows) noexcept;
  /// Whether experts and the MLP beside them have norms of their own.
  [[nodiscard]] static bool are_apart(const LayerWeights& w) noexcept { return !w.expert_norm.empty(); }
  /// What the router reads, where it is the residual stream, or was; null: what experts read.
  const nn::Activations* routed_of(const nn::Pass& pass, const LayerWeights& w) noexcept;
  void keep_inputs(const nn::Pass& pass) noexcept;
  void add_apart(const nn::Pass& pass, const LayerWeights& w, std::int64_t index, bool has_mlp);
  void end_layer(const nn::Pass& pass, const LayerWeights& w, const FloatRows& embeddings, int until) noexcept;
  void settle_streams(std::int64_t row) noexcept;
  void merge_streams(const nn::Pass& pass) noexcept;
  void add_ngrams(const nn::Pass& pass, const LayerWeights& w) noexcept;
  void read_streams(const nn::Pass& pass, const nn::HyperConnectionWeights& w, const nn::Readers& readers, std::span<const float> scales = {}) noexcept;
  const float* correct_streams(const LayerWeights& w, std::int64_t row) noexcept;
  void add_later(OutputRows rows, const std::vector<float>& norm, const std::vector<float>& bias = {}, double scale = 1) noexcept;
  void add_later(OutputRows rows, const LayerWeights& w, Half half) noexcept;
  void settle(std::int64_t row) noexcept;
  void settled() noexcept {
    pending_count_ = 0;
    pending_scale_ = 1;
    pending_streams_.adds = false;
    pending_streams_.predicts = nullptr;
  }
  void take_in(std::span<const float> hidden) noexcept;
  void settle_in(std::span<float> hidden) noexcept;
  void normalize(const nn::Pass& pass, const std::vector<float>& weight, const std::vector<float>& bias, bool beside, const nn::Readers& readers,
                 std::span<const float> scales = {}) noexcept;
  void mix(const nn::Pass& pass, const LayerWeights& w, std::int64_t index, std::int64_t place, int until);
  void read_source(const LayerWeights& w, std::span<const float> states);
  void cross(const nn::Pass& pass, const LayerWeights& w, std::int64_t place, int until) noexcept;
  /// Whether a layer's MLP is an expert of a mixture in a latent space, alone.
  [[nodiscard]] bool is_latent_expert(const LayerWeights& w) const noexcept { return w.experts.experts.empty() && !w.experts.latent_down.empty(); }
  void feed_forward(const nn::Pass& pass, const LayerWeights& w, std::int64_t index, bool beside, int until, std::span<const float> scales = {});
  void run_experts(const nn::Pass& pass, const LayerWeights& w, std::int64_t index, bool shared, OutputRows out);
  void head(std::span<const std::int64_t> rows);
  void final_norm(std::int64_t row, float* out) const noexcept;
  void hand_out_states(std::span<const SequenceInput> sequences) const noexcept;

  const ModelConfig& config_;
  const ModelWeights& weights_;
  const ResidentBlocks resident_;
  const BlockSource& blocks_;
  std::vector<bool> served_;  ///< of each layer: whether buffers have the forms that it reads
  const KernelTable& kernels_;
  Team team_;
  Team alone_{1};
  nn::FetchChoice fetch_;

  /// Where a row of the residual stream comes from.
  struct RowInput {
    TokenId id = 0;
    std::uint8_t type = 0;
    const float* embedding = nullptr;  ///< (dim), in the place of the token's
  };

  std::vector<Segment> segments_;   ///< of the pass under way
  std::vector<nn::PassSequence> sequences_;  ///< of each segment
  std::vector<nn::PassRow> rows_;
  std::vector<RowInput> inputs_;    ///< of each row
  std::vector<std::int64_t> key_places_;   ///< in the states of sequences, of the layers that attend
  std::vector<std::int64_t> key_numbers_;  ///< of each layer, among those; -1: it does not attend
  /// A sequence of the pass that has keys and values in a file.
  struct StoredKeys {
    nn::KvCache* cache = nullptr;
    std::int64_t position = 0;  ///< of its first token in the pass
  };
  std::vector<StoredKeys> stored_keys_;
  TableRows embedding_, per_layer_embedding_, ngram_embedding_;
  std::vector<std::int64_t> ngram_ids_;  ///< (rows of the pass, heads): rows of the table
  std::vector<AdaptedRows> adapted_;
  std::int64_t adapted_ranks_ = 0;  ///< the most of a row, as nn::LowRankTerms has them
  nn::LowRankTerms terms_;          ///< of the layer at work
  bool stopped_ = false;            ///< by keep_going
  std::optional<nn::SequenceState> part_state_;  ///< of a layer that is run alone
  const nn::Activations* part_inputs_ = nullptr;  ///< that run_to() came to
  AlignedBuffer<float> residual_;   ///< (tokens, dim)
  nn::RowBuffer branch_, beside_;   ///< (tokens, dim): what branches add to the residual stream; the second where two read the same state, or follow each other
  std::array<Pending, 3> pending_;  ///< in the order in which they are added
  std::size_t pending_count_ = 0;
  float pending_scale_ = 1;  ///< of the residual stream, after they are added
  /// What waits for several residual streams.
  struct PendingStreams {
    bool adds = false;        ///< what a per-layer embedding made is in branch_, for all but the first
    std::vector<float> norm;  ///< of that; a copy, as Pending has it
    const nn::AltUpWeights* predicts = nullptr;  ///< of the layer that begins
  };
  PendingStreams pending_streams_;
  AlignedBuffer<float> logits_;     ///< (outputs at a time, vocab)
  nn::Activations normed_;  ///< (tokens, dim): what a branch reads
  nn::Activations headed_;  ///< what the head reads; it may ask for other forms than layers do
  std::vector<std::unique_ptr<nn::Mixer>> mixers_;  ///< one for all layers that it fits
  std::vector<int> mixer_numbers_;                  ///< of each layer; -1: it has none
  std::optional<nn::CrossAttention> cross_;  ///< of a decoder behind an encoder
  nn::Activations source_;  ///< (tokens, dim): what the encoder made
  Stack stack_ = Stack::decoder;  ///< of the pass under way
  nn::Mlp mlp_;
  nn::Activations routed_;  ///< (tokens, dim): what routers read, where it is the residual stream
  std::optional<nn::PerLayerEmbedding> per_layer_;  ///< of models that have some
  std::optional<nn::AltUp> streams_;  ///< of models that have several; residual_ is what blocks read and add to then, too
  std::optional<nn::HyperConnections> connections_;  ///< the same, of another kind; residual_ is what the head reads then, and nothing before
  std::optional<nn::NgramEmbedding> ngrams_;  ///< beside them
  std::optional<nn::Laurel> laurel_;  ///< beside attention, of models that have it
  std::optional<nn::Experts> experts_;  ///< of models that have some
  std::optional<nn::LatentExpert> latent_expert_;  ///< one of them alone, where they have a space of their own
  std::vector<RowCodes> codes_;         ///< one a worker
  std::vector<AlignedBuffer<float>> position_rows_;  ///< one a worker: (dim), where positions are learned
};

}  // namespace bantam::inline v0
