// Compiled apart from the tests that compare with it, once and optimized.
#include "reference/transformer.hpp"

#include <algorithm>
#include <cmath>

namespace bantam::reference {
namespace {

/// A model, and how it is computed.
struct Pass : Transformer {
  [[nodiscard]] std::vector<double> logits(const std::vector<std::int32_t>& tokens) const {
    std::vector<double> out;
    const bool tied = !weights.contains("lm_head.weight");
    const std::vector<std::vector<Row>> all = states(tokens);
    for (const auto& row : all.back()) {
      if (headless) {
        const Row state = norm(row, "model.norm.weight");
        out.insert(out.end(), state.begin(), state.end());
        continue;
      }
      Row y = product(tied ? "model.embed_tokens.weight" : "lm_head.weight", "lm_head.bias", norm(row, "model.norm.weight"), vocab);
      for (double& v : y) v = capped(v * logit_scale, final_softcap);
      out.insert(out.end(), y.begin(), y.end());
    }
    return out;
  }

  [[nodiscard]] std::vector<double> drafted_logits(const std::vector<std::int32_t>& tokens) const {
    std::vector<std::vector<Row>> only(1);
    std::vector<Row>& pairs = only[0];
    const std::vector<Row> last = states(tokens).back(), embedded = states(tokens).front();
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
      Row pair = norm(embedded[i + 1], "draft.embedding_norm.weight");
      const Row state = norm(norm(last[i], "model.norm.weight"), "draft.state_norm.weight");
      pair.insert(pair.end(), state.begin(), state.end());
      pairs.push_back(product("draft.projection.weight", "", pair, dim));
    }
    block(only, layers);
    std::vector<double> out;
    for (const Row& row : pairs) {
      const Row y = product(weights.contains("lm_head.weight") ? "lm_head.weight" : "model.embed_tokens.weight", "lm_head.bias",
                            norm(row, weights.contains("draft.norm.weight") ? "draft.norm.weight" : "model.norm.weight"), vocab);
      for (const double v : y) out.push_back(capped(v * logit_scale, final_softcap));
    }
    return out;
  }

  [[nodiscard]] std::vector<double> labels(const std::vector<double>& state) const {
    Row x = state;
    if (weights.contains("class_dense")) {
      x = product("class_dense", "class_dense_bias", x, dim);
      for (double& v : x) v = class_activation(v);
      x = norm(x, "class_norm");
    }
    return product("class_head", "class_head_bias", x, static_cast<std::int64_t>(weights.at("class_head").size()) / dim);
  }

  [[nodiscard]] std::vector<double> behind_pooling(std::vector<double> x, bool tanh) const {
    for (const std::string name : {"pooled_dense", "pooled_dense_2"}) {
      if (!weights.contains(name)) break;
      x = product(name, name + "_bias", x, static_cast<std::int64_t>(weights.at(name).size() / x.size()));
      for (double& v : x) v = tanh ? std::tanh(v) : v;
    }
    return x;
  }

  [[nodiscard]] std::vector<std::vector<Row>> states(const std::vector<std::int32_t>& tokens) const {
    if (encoder_layers == 0) return states(tokens, 0, layers, "", {});
    std::vector<Row> made;
    const std::vector<std::vector<Row>> encoded = states(source.empty() ? tokens : source, 0, encoder_layers, "encoder_", {});
    for (const Row& row : encoded.back()) made.push_back(norm(row, "model.encoder_norm.weight"));
    std::vector<std::int32_t> own{decoder_start};
    own.insert(own.end(), tokens.begin(), tokens.end() - 1);
    return states(own, encoder_layers, layers, "", made);
  }

  /// Of some layers, whose tables begin with `stack`; those of a decoder read `source` besides.
  [[nodiscard]] std::vector<std::vector<Row>> states(const std::vector<std::int32_t>& tokens, std::int64_t from, std::int64_t to, const std::string& stack, const std::vector<Row>& made) const {
    std::vector<std::vector<Row>> all(1);
    for (const std::int32_t token : tokens) {
      const float* row = weights.at("model.embed_tokens.weight").data() + token * dim;
      all[0].emplace_back(row, row + dim);
      for (double& v : all[0].back()) v *= embedding_scale;
      if (const auto learned = weights.find(stack + "position_embedding"); learned != weights.end()) {
        const auto at = (std::ssize(all[0]) - 1 + position_offset) * dim;
        for (std::int64_t c = 0; c < dim; ++c) all[0].back()[static_cast<std::size_t>(c)] += static_cast<double>(learned->second[static_cast<std::size_t>(at + c)]);
      }
      if (const auto learned = weights.find("token_type_embedding"); learned != weights.end()) {
        const std::int64_t at = (types.empty() ? 0 : types[all[0].size() - 1]) * dim;
        for (std::int64_t c = 0; c < dim; ++c) all[0].back()[static_cast<std::size_t>(c)] += static_cast<double>(learned->second[static_cast<std::size_t>(at + c)]);
      }
      all[0].back() = norm(all[0].back(), stack + "embedding_norm.weight");
    }
    const std::vector<Row> embedded = all[0];
    if (connects_streams) return {embedded, connected(tokens, embedded)};
    std::vector<std::vector<Stream>> beside = spread(embedded);  // of each token
    for (std::int64_t i = from; i < to; ++i) {
      predict(beside, all.back(), i);
      all.push_back(all.back());
      block(all, i, made);
      correct(beside, all.back(), i);
      end(all.back(), beside, tokens, embedded, i);
    }
    merge(beside, all.back());
    return all;
  }

  /// What leaves the last layer of a model with hyper-connections, before the head.
  [[nodiscard]] std::vector<Row> connected(const std::vector<std::int32_t>& tokens, const std::vector<Row>& embedded) const {
    const auto n = static_cast<std::size_t>(streams);
    std::vector<Row> x(embedded.size());
    for (std::size_t t = 0; t < x.size(); ++t) {
      for (std::size_t i = 0; i < n; ++i) x[t].insert(x[t].end(), embedded[t].begin(), embedded[t].end());
    }
    const auto normed = [&](const std::string& name) {
      std::vector<Row> rows;
      for (const Row& row : x) rows.push_back(norm_parts(row, weights.at(name + "norm"), n, norm_eps));
      return rows;
    };
    const auto means = [&](const std::vector<Row>& rows, const std::string& name) {
      std::vector<Row> read;
      for (const Row& row : rows) read.push_back(gated_mean(row, n, weights.at(name + "down"), weights.at(name + "up")));
      return read;
    };
    for (std::int64_t index = 0; index < layers; ++index) {
      const std::string layer = name_of_layer(index);
      if (weights.contains(layer + "ngram_key")) add_ngrams(x, tokens, layer);
      for (const std::string half : {"mixer_streams_", "ffn_streams_"}) {
        const std::vector<Row> rows = normed(layer + half);
        std::vector<Row> made = means(rows, layer + half);
        if (half == "mixer_streams_") {
          made = mixer(made, layer, index, made, index);
        } else {
          for (Row& row : made) row = mixture(layer + "mlp.", row, row);
        }
        for (std::size_t t = 0; t < x.size(); ++t) {
          const Row shares = stream_weights(rows[t], n, weights.at(layer + half + "inject"));
          for (std::size_t c = 0; c < x[t].size(); ++c) x[t][c] += shares[c / made[t].size()] * made[t][c % made[t].size()];
        }
      }
    }
    return means(normed("head_streams_"), "head_streams_");
  }
  void add_ngrams(std::vector<Row>& x, const std::vector<std::int32_t>& tokens, const std::string& layer) const {
    const auto n = static_cast<std::size_t>(streams);
    const std::size_t width = weights.at(layer + "ngram_value").size() / static_cast<std::size_t>(dim) / ngrams.sizes.size();
    std::vector<Row> gated, read;
    for (std::size_t t = 0; t < x.size(); ++t) {
      const Row e = ngram_rows(ngrams, tokens, t, weights.at("ngram_embedding"), width);
      const Row keys = norm_parts(times(weights.at(layer + "ngram_key"), e), weights.at(layer + "ngram_key_norm"), n, norm_eps);
      gated.push_back(gated_values(keys, norm_parts(x[t], weights.at(layer + "ngram_query_norm"), n, norm_eps), times(weights.at(layer + "ngram_value"), e)));
      read.push_back(norm_parts(gated.back(), weights.at(layer + "ngram_value_norm"), n, norm_eps));
    }
    read = dilated_convolution(read, weights.at(layer + "ngram_convolution"), ngrams.taps, static_cast<std::int64_t>(ngrams.tokens));
    for (std::size_t t = 0; t < x.size(); ++t) add(x[t], gated[t]), add(x[t], read[t]);
  }

  /// A token's streams, of its embedding.
  [[nodiscard]] std::vector<std::vector<Stream>> spread(const std::vector<Row>& embedded) const {
    std::vector<std::vector<Stream>> beside;
    for (std::size_t t = 0; streams > 0 && t < embedded.size(); ++t) {
      beside.push_back({embedded[t]});
      const Row others = product("stream_projection", "", embedded[t], (streams - 1) * dim);
      for (std::int64_t i = 0; i + 1 < streams; ++i) beside.back().push_back(as_long(embedded[t], head(others, i, dim)));
    }
    return beside;
  }
  void predict(std::vector<std::vector<Stream>>& beside, std::vector<Row>& x, std::int64_t index) const {
    const std::string layer = name_of_layer(index);
    for (std::size_t t = 0; t < beside.size(); ++t) {
      const Row normed = rms_norm(beside[t][static_cast<std::size_t>(active_stream)], layer + "stream_router_norm");
      beside[t] = predicted(beside[t], stream_coefficients(normed, weights.at(layer + "stream_router"), weights.at(layer + "stream_prediction")));
      x[t] = beside[t][static_cast<std::size_t>(active_stream)];
    }
  }
  void correct(std::vector<std::vector<Stream>>& beside, std::vector<Row>& x, std::int64_t index) const {
    const std::string layer = name_of_layer(index);
    for (std::size_t t = 0; t < beside.size(); ++t) {
      const Row normed = rms_norm(x[t], layer + "stream_router_norm");
      beside[t] = corrected(std::move(beside[t]), static_cast<std::size_t>(active_stream), x[t], stream_coefficients(normed, weights.at(layer + "stream_router"), weights.at(layer + "stream_correction")));
      x[t] = beside[t][static_cast<std::size_t>(active_stream)];
      for (std::size_t c = 0; c < x[t].size(); ++c) x[t][c] *= static_cast<double>(weights.at(layer + "stream_scale")[c]);
    }
  }
  void merge(const std::vector<std::vector<Stream>>& beside, std::vector<Row>& x) const {
    for (std::size_t t = 0; t < beside.size(); ++t) {
      x[t] = beside[t][0];
      for (std::int64_t i = 0; i + 1 < streams; ++i) {
        // The rows of its own matrix, of all that there are.
        const Row all = product("stream_unembedding", "", beside[t][static_cast<std::size_t>(i + 1)], (streams - 1) * dim);
        add(x[t], as_long(beside[t][0], head(all, i, dim)));
      }
      for (double& v : x[t]) v /= static_cast<double>(streams);
    }
  }

  [[nodiscard]] static double capped(double x, double cap) { return cap > 0 ? cap * std::tanh(x / cap) : x; }

  /// The model's own kind; x itself where there are no weights.
  [[nodiscard]] Row norm(const Row& x, const std::string& name) const {
    const bool before = name.ends_with("input_layernorm.weight") || name.ends_with("post_attention_layernorm.weight") || name == "model.norm.weight";
    if (plain_norms && before) return layer_norm(x, "");
    if (!weights.contains(name)) return x;
    if (layer_norms) return layer_norm(x, name);
    return rms_norm(x, name);
  }
  /// That of queries and keys.
  [[nodiscard]] Row head_norm(const Row& x, const std::string& name, std::size_t first = 0) const { return head_layer_norms ? layer_norm(x, name, first) : rms_norm(x, name, first); }
  [[nodiscard]] Row layer_norm(const Row& x, const std::string& name, std::size_t first = 0) const {
    const std::vector<float> g = name.empty() ? std::vector<float>(x.size(), 1.0F) : weights.at(name);
    const auto bias = weights.find(name.ends_with(".weight") ? name.substr(0, name.rfind('.')) + ".bias" : name + "_bias");
    double mean = 0, variance = 0;
    for (const double v : x) mean += v / static_cast<double>(x.size());
    for (const double v : x) variance += (v - mean) * (v - mean) / static_cast<double>(x.size());
    Row y;
    for (std::size_t i = 0; i < x.size(); ++i) {
      y.push_back((x[i] - mean) / std::sqrt(variance + norm_eps) * static_cast<double>(g[first + i]) + (bias == weights.end() ? 0.0 : static_cast<double>(bias->second[first + i])));
    }
    return y;
  }
  [[nodiscard]] Row rms_norm(const Row& x, const std::string& name, std::size_t first = 0) const {
    const std::vector<float>& g = weights.at(name);
    Row y = unit(x);
    for (std::size_t i = 0; i < x.size(); ++i) y[i] *= static_cast<double>(g[first + i]);
    return y;
  }
  /// An RMS norm without weights.
  [[nodiscard]] Row unit(Row x) const {
    double squares = 0;
    for (const double v : x) squares += v * v;
    const double rms = std::sqrt(squares / static_cast<double>(x.size()) + norm_eps);
    for (double& v : x) v /= rms;
    return x;
  }

  /// W x + b; no b where the model has none of that name.
  [[nodiscard]] Row product(const std::string& name, const std::string& bias, const Row& x, std::int64_t rows) const {
    const std::vector<float>& w = weights.at(name);
    const auto b = weights.find(bias);
    Row y;
    for (std::int64_t r = 0; r < rows; ++r) {
      double sum = b == weights.end() ? 0.0 : static_cast<double>(b->second[static_cast<std::size_t>(r)]);
      for (std::size_t c = 0; c < x.size(); ++c) sum += static_cast<double>(w[static_cast<std::size_t>(r) * x.size() + c]) * x[c];
      y.push_back(sum);
    }
    return y;
  }

  /// The same of a layer of this name.
  [[nodiscard]] Row projected(const std::string& name, const Row& x, std::int64_t rows) const { return product(name + ".weight", name + ".bias", x, rows); }

  [[nodiscard]] static Row head(const Row& x, std::int64_t h, std::int64_t dim) {
    return {x.begin() + h * dim, x.begin() + (h + 1) * dim};
  }

  /// Head h. Normed where the model does so, then turned: elements i and i + n of the first 2 n by position * frequency i.
  [[nodiscard]] Row rotated(Row x, std::int64_t h, const std::string& norm_name, std::size_t position, std::int64_t layer) const {
    const bool norms = !norms_all_heads && weights.contains(norm_name);
    if (norms && !norms_rotated) x = head_norm(x, norm_name, norms_own_heads ? static_cast<std::size_t>(h) * x.size() : 0);
    const auto at = static_cast<std::size_t>(layer);
    if (!locals.empty() && locals[at]) {
      turn(x, position, local_frequencies, 1);
    } else if (rotates.empty() || rotates[at]) {
      turn(x, position, frequencies, magnitude);
    }
    const bool turned = rotates.empty() || rotates[at];
    if (norms_turned && turned) x = unit(std::move(x));
    return norms && norms_rotated ? head_norm(x, norm_name) : x;
  }

  void turn(Row& x, std::size_t position) const { turn(x, position, frequencies, magnitude); }
  void turn(Row& x, std::size_t position, const std::vector<double>& by, double size) const { turn(x, position, by, size, adjacent_pairs); }
  static void turn(Row& x, std::size_t position, const std::vector<double>& by, double size, bool adjacent) {
    const std::size_t n = by.size();
    for (std::size_t i = 0; i < n; ++i) {
      const double angle = static_cast<double>(position) * by[i];
      double &one = x[adjacent ? 2 * i : i], &other = x[adjacent ? 2 * i + 1 : i + n];
      const double a = one, b = other;
      one = size * (a * std::cos(angle) - b * std::sin(angle));
      other = size * (b * std::cos(angle) + a * std::sin(angle));
    }
  }

  [[nodiscard]] static std::string name_of_layer(std::int64_t index) { return "model.layers." + std::to_string(index) + "."; }
  /// What a layer's first half reads.
  [[nodiscard]] std::vector<Row> normed_inputs(const std::vector<Row>& x, std::int64_t index) const {
    std::vector<Row> normed;
    for (const Row& row : x) normed.push_back(norm(row, name_of_layer(index) + "input_layernorm.weight"));
    return normed;
  }

  /// What comes behind the halves: a per-layer embedding (of transformers' Gemma3n), and a scale of everything.
  void end(std::vector<Row>& x, std::vector<std::vector<Stream>>& beside, const std::vector<std::int32_t>& tokens, const std::vector<Row>& embedded, std::int64_t index) const {
    const std::string layer = name_of_layer(index);
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (per_layer_dim > 0) {
        const auto width = static_cast<std::size_t>(per_layer_dim), first = static_cast<std::size_t>(index) * width;
        Row own = product("per_layer_model_projection", "", embedded[i], layers * per_layer_dim);
        own = {own.begin() + static_cast<std::ptrdiff_t>(first), own.begin() + static_cast<std::ptrdiff_t>(first + width)};
        for (double& v : own) v /= std::sqrt(static_cast<double>(dim));
        own = rms_norm(own, "per_layer_model_norm");
        const std::vector<float>& table = weights.at("per_layer_embedding");
        for (std::size_t c = 0; c < width; ++c) {
          // Tokens behind the table's have the first's.
          const auto row = static_cast<std::size_t>(tokens[i]) < table.size() / (static_cast<std::size_t>(layers) * width) ? static_cast<std::size_t>(tokens[i]) : 0;
          const double looked_up = static_cast<double>(table[row * static_cast<std::size_t>(layers) * width + first + c]);
          own[c] = (own[c] + looked_up * std::sqrt(static_cast<double>(per_layer_dim))) / std::sqrt(2.0);
        }
        Row gate = product(layer + "per_layer_gate", "", x[i], per_layer_dim);
        for (std::size_t c = 0; c < width; ++c) gate[c] = activation(gate[c]) * own[c];
        const Row more = norm(product(layer + "per_layer_projection", "", gate, dim), layer + "per_layer_norm");
        if (beside.empty()) add(x[i], more);
        for (std::size_t s = 1; !beside.empty() && s < beside[i].size(); ++s) add(beside[i][s], more);
      }
      if (!weights.contains(layer + "layer_scale")) continue;
      for (double& v : x[i]) v *= static_cast<double>(weights.at(layer + "layer_scale")[0]);
    }
  }

  /// `all`: what every layer so far reads; the last is a copy of this one's, to become the next one's.
  void block(std::vector<std::vector<Row>>& all, std::int64_t index, const std::vector<Row>& made = {}) const {
    std::vector<Row>& x = all.back();
    const std::string layer = name_of_layer(index);
    const std::vector<Row> normed = normed_inputs(x, index);
    const std::int64_t from = kv_layers.empty() || kv_layers[static_cast<std::size_t>(index)] < 0 ? index : kv_layers[static_cast<std::size_t>(index)];
    const std::vector<Row> mixed = mixer(normed, layer, index, from == index ? normed : normed_inputs(all[static_cast<std::size_t>(from)], from), from);
    const Made source_of = made_for(layer, made);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const Row before = x[i];
      if (!mixed.empty()) add_normed(x[i], mixed[i], layer + "attention_out_norm");
      if (const auto left = weights.find(layer + "laurel_left"); left != weights.end()) {
        const Row low = product(layer + "laurel_left", "", normed[i], std::ssize(left->second) / dim);
        add(x[i], normed[i]);
        add(x[i], rms_norm(product(layer + "laurel_right", "", low, dim), layer + "laurel_norm"));
        for (double& v : x[i]) v /= std::sqrt(2.0);
      }
      if (weights.contains(layer + "cross_attn.q_proj.weight")) add_normed(x[i], across(norm(x[i], layer + "cross_norm.weight"), source_of, layer + "cross_attn."), layer + "cross_out_norm");
      if (!weights.contains(layer + "mlp.gate.weight") && !weights.contains(layer + "mlp.up_proj.weight")) continue;
      const std::string own = layer + "post_attention_layernorm.weight";
      const Row y = parallel && !weights.contains(own) ? normed[i] : norm(parallel ? before : x[i], own);
      const bool sparse = weights.contains(layer + "mlp.gate.weight");
      if (weights.contains(layer + "expert_norm")) {
        // Side by side, each with norms of its own; the router reads the stream itself.
        Row both = norm(mlp(layer + "mlp.shared_expert.", y, shared_ffn), layer + "mlp_out_norm");
        add(both, norm(experts_of(layer + "mlp.", norm(x[i], layer + "expert_norm"), routed(x[i], layer)), layer + "expert_out_norm"));
        add(x[i], norm(both, layer + "ffn_out_norm"));
        continue;
      }
      add_normed(x[i], sparse ? mixture(layer + "mlp.", y, routes_inputs ? before : y) : mlp(layer + "mlp.", y, static_cast<std::int64_t>(weights.at(layer + "mlp.up_proj.weight").size()) / dim), layer + "ffn_out_norm");
    }
  }
  /// What a decoder's layer reads of what an encoder made of another text: keys, and values.
  struct Made {
    std::vector<Row> k, v;
  };
  [[nodiscard]] Made made_for(const std::string& layer, const std::vector<Row>& rows) const {
    Made made;
    if (!weights.contains(layer + "cross_attn.q_proj.weight")) return made;
    for (const Row& row : rows) {
      made.k.push_back(projected(layer + "cross_attn.k_proj", row, heads * head_dim));
      made.v.push_back(projected(layer + "cross_attn.v_proj", row, heads * head_dim));
    }
    return made;
  }
  /// Attention of one token to it (arXiv:1706.03762, 3.2.3).
  [[nodiscard]] Row across(const Row& x, const Made& made, const std::string& at) const {
    const Row q = projected(at + "q_proj", x, heads * head_dim);
    Row attended;
    for (std::int64_t h = 0; h < heads; ++h) {
      const Row query = head(q, h, head_dim);
      Row scores;
      for (const Row& key : made.k) scores.push_back(dot(query, &key[static_cast<std::size_t>(h * head_dim)]) * (attention_scale > 0 ? attention_scale : 1 / std::sqrt(static_cast<double>(head_dim))));
      scores = softmax_of(std::move(scores), nullptr, h);
      Row mean(static_cast<std::size_t>(head_dim));
      for (std::size_t j = 0; j < made.v.size(); ++j) {
        for (std::size_t c = 0; c < mean.size(); ++c) mean[c] += scores[j] * made.v[j][static_cast<std::size_t>(h * head_dim) + c];
      }
      attended.insert(attended.end(), mean.begin(), mean.end());
    }
    return projected(at + "o_proj", attended, dim);
  }
  /// x + norm(y), or norm(x + y).
  void add_normed(Row& x, const Row& y, const std::string& norm_name) const {
    add(x, scaled(norms_sums ? y : norm(y, norm_name)));
    if (norms_sums) x = norm(x, norm_name);
  }
  /// What the first half of a layer adds; nothing where it has none.
  [[nodiscard]] std::vector<Row> mixer(const std::vector<Row>& x, const std::string& layer, std::int64_t index, const std::vector<Row>& kv_x, std::int64_t kv_index) const {
    const auto times = [&](const std::string& name, const std::vector<Row>& rows) {
      std::vector<Row> out;
      const auto count = static_cast<std::int64_t>(weights.at(layer + name).size() / rows[0].size());
      for (const Row& row : rows) out.push_back(product(layer + name, layer + name.substr(0, name.rfind('.')) + ".bias", row, count));
      return out;
    };
    const auto vector = [&](const std::string& name) {
      const auto found = weights.find(layer + name);
      return found == weights.end() ? std::vector<float>() : found->second;
    };
    if (weights.contains(layer + "linear_attn.A_log")) {
      return times("linear_attn.out_proj.weight",
                   gated_delta(recurrent, times("linear_attn.in_proj_qkv.weight", x), times("linear_attn.in_proj_z.weight", x), times("linear_attn.in_proj_a.weight", x),
                               times("linear_attn.in_proj_b.weight", x), vector("linear_attn.conv1d.weight"), vector("linear_attn.A_log"), vector("linear_attn.dt_bias"),
                               vector("linear_attn.norm.weight"), norm_eps, sigmoid_delta));
    }
    if (weights.contains(layer + "self_attn.A_log")) {
      const auto convolved = [&](const std::string& name) {
        return causal_convolution(times("self_attn." + name + "_proj.weight", x), vector("self_attn." + name + "_conv1d.weight"), {}, recurrent.taps);
      };
      const auto low_rank = [&](const std::string& name) {
        const std::vector<Row> first = times("self_attn." + name + "_a_proj.weight", x);
        return weights.contains(layer + "self_attn." + name + "_b_proj.weight") ? times("self_attn." + name + "_b_proj.weight", first) : first;
      };
      return times("self_attn.o_proj.weight", channel_delta(recurrent.key_heads, recurrent.key_dim, {convolved("q"), convolved("k"), convolved("v"), low_rank("f"), low_rank("g"), times("self_attn.b_proj.weight", x)},
                                                            vector("self_attn.A_log"), vector("self_attn.dt_bias"), vector("self_attn.o_norm.weight"), norm_eps, decay_bound));
    }
    if (weights.contains(layer + "mamba.A_log")) {
      std::vector<Row> in = times("mamba.in_proj.weight", multiplied(x, space_in));
      const std::size_t inner = recurrent.value_heads * recurrent.value_dim, of_keys = recurrent.key_heads * recurrent.key_dim;
      for (Row& row : in) {
        std::size_t at = 0, part = 0;
        for (const std::size_t count : {inner, inner, of_keys, of_keys, recurrent.value_heads}) {
          for (std::size_t i = 0; i < count; ++i) row[at++] *= space_scales[part];
          ++part;
        }
      }
      std::vector<Row> sum = multiplied(times("mamba.out_proj.weight", state_space(recurrent, in, vector("mamba.conv1d.weight"), vector("mamba.conv1d.bias"), vector("mamba.A_log"),
                                                                                   vector("mamba.dt_bias"), vector("mamba.D"), vector("mamba.norm.weight"), norm_eps)), space_out);
      if (!weights.contains(layer + "self_attn.o_proj.weight")) return sum;
      // Falcon-H1: attention beside it.
      const std::vector<Row> read = multiplied(x, attention_in), beside = multiplied(times("self_attn.o_proj.weight", attention(read, index, read, index)), attention_out);
      for (std::size_t i = 0; i < sum.size(); ++i) add(sum[i], beside[i]);
      return sum;
    }
    if (weights.contains(layer + "conv.conv.weight")) {
      return times("conv.out_proj.weight", short_convolution(recurrent, times("conv.in_proj.weight", x), vector("conv.conv.weight")));
    }
    if (!weights.contains(layer + "self_attn.o_proj.weight")) return {};
    return times("self_attn.o_proj.weight", kv_rank > 0 ? latent_attention(x, layer, rotates.empty() || rotates[static_cast<std::size_t>(index)]) : attention(x, index, kv_x, kv_index));
  }
  [[nodiscard]] static std::vector<Row> multiplied(std::vector<Row> x, double factor) {
    for (Row& row : x) {
      for (double& v : row) v *= factor;
    }
    return x;
  }
  [[nodiscard]] Row scaled(Row x) const {
    for (double& v : x) v *= residual_scale;
    return x;
  }

  /// The weights of keys first, first + 1, ... for a query.
  [[nodiscard]] Row softmax_of(Row scores, const std::vector<float>* sinks, std::int64_t h) const {
    const double largest = *std::max_element(scores.begin(), scores.end());
    double sum = 0;
    for (double& s : scores) sum += s = std::exp(s - largest);
    if (sinks != nullptr) sum += std::exp(static_cast<double>((*sinks)[static_cast<std::size_t>(h)]) - largest);
    for (double& s : scores) s /= sum;
    return scores;
  }

  /// The paper's get_slopes: of heads that are no power of two those of the power below, then every other one of twice as many.
  [[nodiscard]] double slope_of(std::int64_t h) const {
    if (alibi == 0) return 0;
    std::int64_t below = 1;
    while (2 * below <= heads) below *= 2;
    const auto nth = [&](std::int64_t of, std::int64_t i) { return std::pow(std::pow(2.0, -alibi / static_cast<double>(of)), static_cast<double>(i + 1)); };
    return h < below ? nth(below, h) : nth(2 * below, 2 * (h - below));
  }

  /// Whether the tokens of a layer all see each other.
  [[nodiscard]] bool sees_both(std::int64_t index) const { return sees_all || index < encoder_layers; }
  /// What a score gets for a key `distance` tokens behind the query, or before it (arXiv:1910.10683, 2.1, and its code's buckets).
  [[nodiscard]] double relative_bias(std::int64_t distance, std::int64_t h, std::int64_t index) const {
    std::string name = name_of_layer(index) + "self_attn.relative_bias";
    if (!weights.contains(name)) name = name_of_layer(index < encoder_layers || encoder_layers == 0 ? 0 : encoder_layers) + "self_attn.relative_bias";
    const bool both = sees_both(index);
    const std::int64_t buckets = both ? relative_buckets / 2 : relative_buckets, exact = buckets / 2, far = both ? std::abs(distance) : std::max<std::int64_t>(0, -distance);
    std::int64_t bucket = far;
    if (far >= exact) {
      const double octaves = std::log(static_cast<double>(far) / static_cast<double>(exact)) / std::log(static_cast<double>(relative_distance) / static_cast<double>(exact));
      bucket = std::min(buckets - 1, exact + static_cast<std::int64_t>(std::floor(octaves * static_cast<double>(buckets - exact) + 1e-9)));
    }
    if (both && distance > 0) bucket += buckets;
    return static_cast<double>(weights.at(name)[static_cast<std::size_t>(bucket * heads + h)]);
  }

  /// The same of all distances within so many tokens, the key's place less the query's, from 1 - tokens on; zeros where a model has none.
  [[nodiscard]] Row relative_biases(std::int64_t tokens, std::int64_t h, std::int64_t index) const {
    Row biases(static_cast<std::size_t>(2 * tokens - 1));
    for (std::int64_t distance = 1 - tokens; relative_buckets > 0 && distance < tokens; ++distance) biases[static_cast<std::size_t>(distance + tokens - 1)] = relative_bias(distance, h, index);
    return biases;
  }

  mutable std::vector<std::vector<bool>> last_seen_ = {};  ///< by the last indexer

  /// Which tokens up to its own each token of a layer sees, by its indexer, or the last before it; x is what the layer reads, `low` what queries are made of.
  [[nodiscard]] std::vector<std::vector<bool>> seen_by_index(const std::vector<Row>& x, const std::vector<Row>& low, const std::string& at) const {
    const bool has_indexer = weights.contains(at + "indexer.k");
    if (indexer.used == 0 || (!has_indexer && !shares_choices)) {
      std::vector<std::vector<bool>> all;
      for (std::size_t t = 0; t < x.size(); ++t) all.emplace_back(t + 1, true);
      return all;
    }
    if (!has_indexer) return last_seen_;
    const auto vector = [&](const std::string& name) { return weights.contains(at + name) ? weights.at(at + name) : std::vector<float>(); };
    IndexInputs in{.q_norm = vector("indexer.q_norm"), .k_norm = vector("indexer.k_norm"), .k_norm_bias = vector("indexer.k_norm_bias"), .turn = [&](Row& row, std::size_t position) {
                     turn(row, position, frequencies, magnitude, indexer.adjacent);
                   }};
    for (std::size_t t = 0; t < x.size(); ++t) {
      in.queries.push_back(product(at + "indexer.q", "", low[t], static_cast<std::int64_t>(indexer.heads * indexer.dim)));
      in.keys.push_back(product(at + "indexer.k", "", x[t], static_cast<std::int64_t>(indexer.dim)));
      if (weights.contains(at + "indexer.weights")) in.weights.push_back(product(at + "indexer.weights", "", x[t], static_cast<std::int64_t>(indexer.heads)));
    }
    return last_seen_ = chosen(indexer, in);
  }

  /// What the output projection of each token reads. Keys and values are those of layer `kv_index`, which reads kv_x.
  [[nodiscard]] std::vector<Row> attention(const std::vector<Row>& x, std::int64_t index, const std::vector<Row>& kv_x, std::int64_t kv_index) const {
    const std::string at = name_of_layer(index) + "self_attn.", kv_at = name_of_layer(kv_index) + "self_attn.";
    const std::int64_t d = head_dims.empty() ? head_dim : head_dims[static_cast<std::size_t>(index)];
    const std::int64_t count = layer_heads.empty() ? heads : layer_heads[static_cast<std::size_t>(index)];
    const std::int64_t group = groups.empty() ? count / kv_heads : groups[static_cast<std::size_t>(index)], pairs = count / group;
    const bool shares_values = !weights.contains(kv_at + "v_proj.weight");
    // Values may be shorter than keys (MiMo-V2).
    const std::int64_t of_values = shares_values ? d : std::ssize(weights.at(kv_at + "v_proj.weight")) / dim / pairs;
    std::vector<Row> q, k, v, gates(x.size());
    for (std::size_t t = 0; t < x.size(); ++t) {
      q.push_back(projected(at + "q_proj", x[t], count * d * (gates_output ? 2 : 1)));
      if (gates_output) {
        Row own;
        for (std::int64_t h = 0; h < heads; ++h) {
          own.insert(own.end(), q.back().begin() + 2 * h * d, q.back().begin() + (2 * h + 1) * d);
          for (std::int64_t i = 0; i < d; ++i) gates[q.size() - 1].push_back(1 / (1 + std::exp(-q.back()[static_cast<std::size_t>((2 * h + 1) * d + i)])));
        }
        q.back() = std::move(own);
      }
      k.push_back(projected(kv_at + "k_proj", kv_x[t], pairs * d));
      for (double& value : k.back()) value *= key_scale;
      v.push_back(shares_values ? k.back() : projected(kv_at + "v_proj", kv_x[t], pairs * of_values));
      for (Row* row : {&q.back(), &k.back(), &v.back()}) {
        for (double& value : *row) value = qkv_clip > 0 ? std::clamp(value, -qkv_clip, qkv_clip) : value;
      }
      const bool norms = norms_all_heads && weights.contains(at + "q_norm.weight");
      if (norms) q.back() = head_norm(q.back(), at + "q_norm.weight");
      if (norms) k.back() = head_norm(k.back(), kv_at + "k_norm.weight");
    }
    const std::int64_t window = windows.empty() ? 0 : windows[static_cast<std::size_t>(index)];
    const std::int64_t seen = window > 0 ? window : static_cast<std::int64_t>(x.size());
    const auto sinks = weights.find(at + "sinks");
    const double scale = attention_scale > 0 ? attention_scale : 1 / std::sqrt(static_cast<double>(d));
    const std::vector<std::vector<bool>> sees = seen_by_index(x, x, at);
    std::vector<Row> attended(x.size());
    for (std::int64_t h = 0; h < count; ++h) {
      const std::int64_t g = h / group;
      std::vector<Row> keys, values;
      for (std::size_t j = 0; j < x.size(); ++j) {
        keys.push_back(rotated(head(k[j], g, d), g, kv_at + "k_norm.weight", j, index));
        values.push_back(norms_values ? unit(head(v[j], g, of_values)) : head(v[j], g, of_values));
      }
      const Row biases = relative_biases(std::ssize(x), h, index);
      for (std::size_t i = 0; i < x.size(); ++i) {
        Row query = rotated(head(q[i], h, d), h, at + "q_norm.weight", i, index);
        const bool warms = !warms_unturned || !rotates[static_cast<std::size_t>(index)];
        for (double& value : query) value *= warms ? 1 + temperature * std::log(1 + std::floor((static_cast<double>(i) + temperature_offset) / temperature_length)) : 1;
        const bool both = sees_both(index);
        const std::size_t half = both && window > 0 ? static_cast<std::size_t>(window / 2) : x.size();
        std::size_t first = both ? i - std::min(i, half) : static_cast<std::int64_t>(i) + 1 > seen ? i + 1 - static_cast<std::size_t>(seen) : 0;
        if (chunked) first = i / static_cast<std::size_t>(seen) * static_cast<std::size_t>(seen);
        const std::size_t last = both ? std::min(x.size() - 1, i + half) : i;
        Row scores;
        const double slope = slope_of(h) * (scales_alibi ? scale : 1);
        for (std::size_t j = first; j <= last; ++j) scores.push_back(capped(dot(query, keys[j]) * scale, attention_softcap) - slope * static_cast<double>(i - j) + biases[x.size() - 1 + j - i]);
        for (std::size_t j = first; j <= std::min(last, i); ++j) scores[j - first] = sees[i][j] ? scores[j - first] : -HUGE_VAL;
        scores = softmax_of(std::move(scores), sinks == weights.end() ? nullptr : &sinks->second, h);
        Row mean(static_cast<std::size_t>(of_values));
        for (std::size_t j = first; j <= last; ++j) {
          for (std::size_t c = 0; c < mean.size(); ++c) mean[c] += scores[j - first] * values[j][c] * value_scale;
        }
        attended[i].insert(attended[i].end(), mean.begin(), mean.end());
      }
    }
    if (weights.contains(at + "gate_proj.weight")) {
      for (std::size_t i = 0; i < x.size(); ++i) {
        const bool of_heads = std::ssize(weights.at(at + "gate_proj.weight")) == count * dim;
        for (const double gate : projected(at + "gate_proj", x[i], of_heads ? count : count * of_values)) {
          gates[i].insert(gates[i].end(), of_heads ? static_cast<std::size_t>(of_values) : 1, softplus_gates ? std::log1p(std::exp(gate)) : 1 / (1 + std::exp(-gate)));
        }
      }
    }
    for (std::size_t i = 0; i < x.size() && !gates[i].empty(); ++i) {
      for (std::size_t c = 0; c < attended[i].size(); ++c) attended[i][c] *= gates[i][c];
    }
    for (std::size_t i = 0; i < x.size() && weights.contains(at + "attn_sub_norm.weight"); ++i) attended[i] = rms_norm(attended[i], at + "attn_sub_norm.weight");
    return attended;
  }

  /// Latent attention as the paper writes it, keys and values made of the latent vector (arXiv:2405.04434, eq. 9 to 19).
  [[nodiscard]] std::vector<Row> latent_attention(const std::vector<Row>& x, const std::string& layer, bool turns) const {
    const std::string at = layer + "self_attn.";
    const std::int64_t rope = head_dim - nope_dim;
    std::vector<Row> q, up, pe, low;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const Row down = q_rank > 0 ? rms_norm(product(at + "q_a_proj.weight", "", x[i], q_rank), at + "q_a_layernorm.weight") : x[i];
      low.push_back(down);
      q.push_back(product(at + (q_rank > 0 ? "q_b_proj.weight" : "q_proj.weight"), "", down, heads * head_dim));
      const Row both = product(at + "kv_a_proj_with_mqa.weight", "", x[i], kv_rank + rope);
      pe.emplace_back(both.begin() + kv_rank, both.end());
      if (turns) turn(pe.back(), i);
      const Row latent = rms_norm({both.begin(), both.begin() + kv_rank}, at + "kv_a_layernorm.weight");
      up.push_back(product(at + "kv_b_proj.weight", "", latent, heads * (nope_dim + value_dim)));
    }
    const std::vector<std::vector<bool>> sees = seen_by_index(x, low, at);
    std::vector<Row> attended(x.size());
    for (std::int64_t h = 0; h < heads; ++h) {
      const std::int64_t first = h * (nope_dim + value_dim);
      for (std::size_t i = 0; i < x.size(); ++i) {
        const Row nope(q[i].begin() + h * head_dim, q[i].begin() + h * head_dim + nope_dim);
        Row turned(q[i].begin() + h * head_dim + nope_dim, q[i].begin() + (h + 1) * head_dim);
        if (turns) turn(turned, i);
        const double warm = 1 + temperature * std::log(1 + std::floor((static_cast<double>(i) + temperature_offset) / temperature_length));
        Row scores;
        for (std::size_t j = 0; j <= i; ++j) {
          scores.push_back(sees[i][j] ? (dot(nope, &up[j][static_cast<std::size_t>(first)]) + dot(turned, pe[j])) * attention_scale * warm : -HUGE_VAL);
        }
        scores = softmax_of(std::move(scores), nullptr, h);
        Row mean(static_cast<std::size_t>(value_dim));
        for (std::size_t j = 0; j <= i; ++j) {
          for (std::size_t d = 0; d < mean.size(); ++d) mean[d] += scores[j] * up[j][static_cast<std::size_t>(first + nope_dim) + d];
        }
        attended[i].insert(attended[i].end(), mean.begin(), mean.end());
      }
    }
    for (std::size_t i = 0; i < x.size() && weights.contains(at + "gate_proj.weight"); ++i) {
      const Row gates = product(at + "gate_proj.weight", "", x[i], heads);
      for (std::size_t c = 0; c < attended[i].size(); ++c) attended[i][c] /= 1 + std::exp(-gates[c / static_cast<std::size_t>(value_dim)]);
    }
    return attended;
  }
  [[nodiscard]] static double dot(const Row& a, const Row& b) { return dot(a, b.data()); }
  [[nodiscard]] static double dot(const Row& a, const double* b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
    return sum;
  }

  /// As wide as x on both ends.
  [[nodiscard]] Row mlp(const std::string& at, const Row& x, std::int64_t width) const {
    const Row up = product(at + "up_proj.weight", at + "up_proj.bias", x, width);
    const bool gated = weights.contains(at + "gate_proj.weight");
    Row gate = gated ? product(at + "gate_proj.weight", at + "gate_proj.bias", x, width) : up;
    if (const auto cutoff = weights.find(at + "cutoff"); cutoff != weights.end()) gate = cut_below(std::move(gate), static_cast<double>(cutoff->second[0]));
    const auto limited = weights.find(at + "limit");
    const double limit = limited == weights.end() ? INFINITY : static_cast<double>(limited->second[0]);
    for (std::size_t c = 0; c < gate.size(); ++c) {
      if (clamps) {
        const double g = std::min(gate[c], 7.0), u = std::clamp(up[c], -7.0, 7.0);
        gate[c] = g / (1 + std::exp(-1.702 * g)) * (u + 1);
      } else {
        gate[c] = std::min(weights.contains(at + "act_fn.alpha_p") ? curved(at + "act_fn.", gate[c]) : activation(gate[c] * gate_scale), limit) * (gated ? std::clamp(up[c], -limit, limit) : 1) * down_scale;
      }
    }
    if (weights.contains(at + "ffn_sub_norm.weight")) gate = rms_norm(gate, at + "ffn_sub_norm.weight");
    return product(at + "down_proj.weight", at + "down_proj.bias", gate, static_cast<std::int64_t>(x.size()));
  }

  /// With a layer's numbers.
  [[nodiscard]] double curved(const std::string& at, double x) const {
    const auto number = [&](const char* name) { return static_cast<double>(weights.at(at + name)[0]); };
    return xielu(x, number("alpha_p"), number("alpha_n"), number("beta"), number("eps"));
  }

  /// The experts that a token is routed to, and the one that all share. arXiv:1701.06538, arXiv:2401.06066.
  [[nodiscard]] Row mixture(const std::string& at, const Row& x, const Row& router_x) const {
    Row sum = experts_of(at, x, router_x);
    if (!weights.contains(at + "shared_expert.up_proj.weight")) return sum;
    Row shared = mlp(at + "shared_expert.", x, shared_ffn);
    if (weights.contains(at + "shared_expert_gate.weight")) {
      const double share = 1 / (1 + std::exp(-product(at + "shared_expert_gate.weight", "", x, 1)[0]));
      for (double& v : shared) v *= share;
    }
    add(sum, shared);
    for (double& v : sum) v *= averages_shared ? 0.5 : 1;
    return sum;
  }

  /// What experts make of x, chosen by what the router makes of `router_x`.
  [[nodiscard]] Row experts_of(const std::string& at, const Row& x, const Row& router_x) const {
    const Row logits = product(at + "gate.weight", at + "router.bias", router_x, experts);
    const auto bias = weights.find(at + "gate.e_score_correction_bias"), scale = weights.find(at + "expert_scale");
    // Experts of a space of their own (Nemotron 3 Super) read and make its vectors.
    const auto down = weights.find(at + "latent_down.weight");
    const bool latent = down != weights.end();
    const Row inner = latent ? product(at + "latent_down.weight", "", x, static_cast<std::int64_t>(down->second.size() / x.size())) : x;
    Row sum(inner.size());
    for (const auto& [expert, weight] : route(router, {logits.begin(), logits.end()}, bias == weights.end() ? std::vector<float>() : bias->second)) {
      Row read = inner;
      for (double& v : read) v *= scales_inputs ? weight : 1;
      Row y = mlp(at + "experts." + std::to_string(expert) + ".", read, expert_ffn);
      for (double& v : y) v *= (scales_inputs ? 1 : weight) * (scale == weights.end() ? 1.0 : static_cast<double>(scale->second[expert]));
      add(sum, y);
    }
    return latent ? product(at + "latent_up.weight", "", sum, dim) : sum;
  }
  /// What a router that reads the residual stream makes of it first.
  [[nodiscard]] Row routed(const Row& x, const std::string& layer) const {
    if (!weights.contains(layer + "mlp.router_scale")) return x;
    Row y = rms_norm(x, layer + "mlp.router_scale");
    for (double& v : y) v /= std::sqrt(static_cast<double>(dim));
    return y;
  }

  static void add(Row& x, const Row& y) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  }
};

}  // namespace

std::vector<double> Transformer::logits(const std::vector<std::int32_t>& tokens) const { return Pass{*this}.logits(tokens); }
std::vector<double> Transformer::drafted_logits(const std::vector<std::int32_t>& tokens) const { return Pass{*this}.drafted_logits(tokens); }
std::vector<double> Transformer::labels(const std::vector<double>& state) const { return Pass{*this}.labels(state); }
std::vector<double> Transformer::behind_pooling(const std::vector<double>& x, bool tanh) const { return Pass{*this}.behind_pooling(x, tanh); }
std::vector<std::vector<Transformer::Row>> Transformer::states(const std::vector<std::int32_t>& tokens) const { return Pass{*this}.states(tokens); }

}  // namespace bantam::reference
