// Gemma 3n: configs as they are published, sparse gates, and residual streams by themselves.
#include <cmath>

#include "bantam/core/team.hpp"
#include "bantam/nn/blocks/altup.hpp"
#include "bantam/nn/gates.hpp"
#include "model/family_parts.hpp"
#include "reference/altup.hpp"

namespace bantam::test {
namespace {

/// What E2B's config.json says, shortened.
Json published() {
  Json text{{"model_type", "gemma3n_text"}, {"num_hidden_layers", 30}, {"num_kv_shared_layers", 10}, {"vocab_size", 262400}, {"vocab_size_per_layer_input", 262144},
            {"hidden_size", 2048}, {"altup_coef_clip", 120.0}, {"altup_correct_scale", true}, {"rope_scaling", nullptr}, {"rope_theta", 1000000.0}, {"rope_local_base_freq", 10000.0},
            {"query_pre_attn_scalar", 256}, {"sliding_window", 512}};
  text["intermediate_size"] = text["activation_sparsity_pattern"] = text["layer_types"] = Json::array();
  for (int i = 0; i < 30; ++i) {
    text["intermediate_size"].push_back(8192);
    text["activation_sparsity_pattern"].push_back(i < 10 ? 0.95 : 0.0);
    text["layer_types"].push_back(i % 5 == 4 ? "full_attention" : "sliding_attention");
  }
  return {{"architectures", {"Gemma3nForConditionalGeneration"}}, {"model_type", "gemma3n"}, {"audio_config", Json::object()}, {"vision_config", Json::object()}, {"text_config", text}};
}

TEST_CASE("Gemma 3n's configs are read as they are published") {
  const ModelConfig c = parse_hf_config(published().dump(), "config.json");
  CHECK(c.arch == &archs::gemma3n);
  CHECK(c.streams == 4);
  CHECK(c.active_stream == 0);
  CHECK(c.laurel_rank == 64);
  CHECK(c.state_dim() == 5 * 2048);
  CHECK(c.ffn_of(29) == 8192);
  CHECK(c.is_uniform());
  CHECK(c.tied);
  CHECK(c.scales.attention == 1);
  CHECK(c.scales.final_softcap == 30);
  CHECK(c.per_layer_tokens() == 262144);
  CHECK(c.per_layer_row(262143) == 262143);
  CHECK(c.per_layer_row(262399) == 0);
  CHECK(c.window_of(18) == 512);
  CHECK(c.window_of(19) == 0);
  CHECK(c.layer(19).kv_layer == -1);
  CHECK(c.layer(20).kv_layer == 18);
  CHECK(c.layer(24).kv_layer == 19);
  REQUIRE(c.local_rope);
  CHECK(c.local_rope->base == 10000);
  for (std::int64_t i = 0; i < c.layers; ++i) CHECK(c.layer(i).gate_cutoff.has_value() == (i < 10));
  // scipy.stats.norm.ppf(0.95)
  CHECK(c.layer(0).gate_cutoff.value_or(0) == doctest::Approx(1.6448536269514722).epsilon(1e-7));
  CHECK(Json::parse(write_hf_config(c, "bfloat16"), "written")["activation_sparsity_pattern"] == published()["text_config"]["activation_sparsity_pattern"]);
}

TEST_CASE("what Gemma 3n's configs leave out is as in its class") {
  const ModelConfig c = parse_hf_config(R"({"model_type":"gemma3n_text"})", "config.json");
  CHECK(c.layers == 35);
  CHECK(c.ffn == 16384);
  CHECK(c.vocab == 262400);
  CHECK(c.layer(34).kv_layer == 19);
  CHECK(c.layer(9).gate_cutoff.has_value());
  CHECK_FALSE(c.layer(10).gate_cutoff.has_value());
}

TEST_CASE("numbers of Gemma 3n that cannot be are refused by name") {
  const auto refused = [](const char* key, const Json& value) {
    Json config = published();
    config["text_config"][key] = value;
    return error_of([&] { (void)parse_hf_config(config.dump(), "config.json"); });
  };
  has(refused("activation_sparsity_pattern", 1.0), "activation_sparsity_pattern: expected a share from 0 to below 1, found 1");
  has(refused("activation_sparsity_pattern", -0.5), "activation_sparsity_pattern: expected a share from 0 to below 1, found -0.5");
  has(refused("activation_sparsity_pattern", {0.5, 0.5}), "activation_sparsity_pattern: expected one number or 30, found 2");
  has(refused("altup_num_inputs", 1), "altup_num_inputs: expected 2 to 16, found 1");
  has(refused("altup_num_inputs", 17), "altup_num_inputs: expected 2 to 16, found 17");
  has(refused("altup_active_idx", 4), "altup_active_idx: expected one of 4, found 4");
  has(refused("altup_correct_scale", false), "altup_correct_scale: expected true");
  has(refused("hidden_size", 2040), "hidden_size: expected a multiple of 32");
  has(refused("hidden_size_per_layer_input", 0), "hidden_size_per_layer_input: expected at least 1");
  has(refused("vocab_size_per_layer_input", 262401), "vocab_size_per_layer_input: expected at most the 262400 of vocab_size, found 262401");
  has(refused("laurel_rank", 0), "laurel_rank: expected a whole number from 1");
}

TEST_CASE("each part of Gemma 3n counts") {
  const FamilyPart parts[] = {
      {&archs::gemma3n, "what streams get of each other", filled("stream_prediction", 0)},
      {&archs::gemma3n, "corrections other than of the active stream", filled("stream_correction", 0)},
      {&archs::gemma3n, "which stream is active", [](reference::Transformer& r) { r.active_stream = 0; }},
      {&archs::gemma3n, "the scale of what the per-layer embedding reads", filled("stream_scale", 1)},
      {&archs::gemma3n, "the low-rank branch", filled("laurel_norm", 0)},
      {&archs::gemma3n, "whose keys are read", [](reference::Transformer& r) { r.kv_layers[5] = 2; }},
      {&archs::gemma3n, "sparse gates", [](reference::Transformer& r) { std::erase_if(r.weights, [](const auto& weight) { return weight.first.ends_with("cutoff"); }); }},
      {&archs::gemma3n, "norms of values", [](reference::Transformer& r) { r.norms_values = false; }},
  };
  check_parts_count(parts, some_tokens());
}

TEST_CASE("gates below the cutoff are 0, the others what is above it") {
  Random random(3);
  for (const std::int64_t n : {1, 7, 32, 33, 1000}) {
    std::vector<float> x(static_cast<std::size_t>(n));
    for (float& v : x) v = static_cast<float>(2 + random.normal());
    const std::vector<double> expected = reference::cut_below({x.begin(), x.end()}, 0.5);
    nn::cut_below(x.data(), n, 0.5F);
    for (std::size_t i = 0; i < x.size(); ++i) CHECK(x[i] == doctest::Approx(expected[i]).epsilon(1e-4));
  }
}

TEST_CASE("streams are predicted and corrected as the paper has it, by every table, whichever is active") {
  constexpr std::int64_t dim = 96, streams = 3;
  Random random(5);
  const auto normal = [&](std::int64_t count, double spread) {
    std::vector<float> values;
    for (std::int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>(spread * random.normal()));
    return values;
  };
  const nn::AltUpWeights w{.router = normal(streams * dim, 5), .router_norm = normal(dim, 1), .prediction = normal(streams * streams * streams, 1), .correction = normal(streams * streams, 1), .scale = {}};
  const std::vector<float> begun = normal(streams * dim, 1), made = normal(dim, 1);
  const auto normed = [&](const reference::Stream& x) {
    double squares = 0;
    for (const double v : x) squares += v * v / dim;
    reference::Stream y = x;
    for (std::size_t c = 0; c < y.size(); ++c) y[c] *= static_cast<double>(w.router_norm[c]) / std::sqrt(squares + 1e-6);
    return y;
  };
  for (std::int64_t active = 0; active < streams; ++active) {
    std::vector<reference::Stream> expected;
    for (std::int64_t i = 0; i < streams; ++i) expected.emplace_back(begun.begin() + i * dim, begun.begin() + (i + 1) * dim);
    const auto at = static_cast<std::size_t>(active);
    const std::vector<reference::Stream> before = reference::predicted(expected, reference::stream_coefficients(normed(expected[at]), w.router, w.prediction));
    const reference::Stream x(made.begin(), made.end());
    const std::vector<reference::Stream> after = reference::corrected(before, at, x, reference::stream_coefficients(normed(x), w.router, w.correction));
    for (const KernelTable* kernels : kernel_tables()) {
      CAPTURE(std::string(kernels->name));
      nn::AltUp altup(*kernels, {.dim = dim, .streams = streams, .active = active});
      altup.resize(2);
      std::ranges::copy(begun, altup.row(1));
      std::vector<float> out(dim), scratch(dim);
      const auto near = [&](const std::vector<reference::Stream>& wanted) {
        for (std::int64_t i = 0; i < streams * dim; ++i) CHECK(altup.row(1)[i] == doctest::Approx(wanted[static_cast<std::size_t>(i / dim)][static_cast<std::size_t>(i % dim)]).epsilon(1e-4));
      };
      altup.predict(w, 1, out.data());
      near(before);
      CHECK(std::equal(out.begin(), out.end(), altup.active(1)));
      altup.correct(w, 1, made.data(), scratch.data());
      near(after);
    }
  }
}

}  // namespace
}  // namespace bantam::test
