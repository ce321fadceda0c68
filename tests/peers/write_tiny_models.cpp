// Writes a random model of every architecture as a Hugging Face folder NAME, and an adapter of it as NAME-lora and NAME-lora.gguf:
// write_tiny_models FOLDER SEED,... [PREFIX ...]
// Of the names that begin with one of these alone.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <iostream>
#include <sstream>

#include "tiny_adapter.hpp"

/// Some share a name: with and without experts, or the first, second and third of a class.
std::string name_of(const bantam::ArchSpec& arch) {
  std::vector<const bantam::ArchSpec*> alike;
  std::ranges::copy_if(bantam::architectures, std::back_inserter(alike), [&](const bantam::ArchSpec* other) { return other->name == arch.name; });
  const auto place = std::ranges::find(alike, &arch) - alike.begin();
  const std::string others = arch.has_experts() ? "_moe" : "_" + std::to_string(place + 1);
  return std::string(arch.name) + (alike.size() > 1 && (arch.has_experts() || place > 0) ? others : "");
}

/// What a command line asks for.
struct Wanted {
  std::filesystem::path folder;
  std::vector<std::string> seeds;
  std::vector<std::string> prefixes;  ///< none: all names

  [[nodiscard]] bool has(const std::string& name) const {
    return prefixes.empty() || std::ranges::any_of(prefixes, [&](const std::string& prefix) { return name.starts_with(prefix); });
  }
};

void write(bantam::test::TinyModel tiny, const std::string& name, const Wanted& wanted) {
  if (!wanted.has(name)) return;
  const std::filesystem::path& folder = wanted.folder;
  tiny.make();
  // All that llama.cpp knew until August 2026.
  if (tiny.arch == &bantam::archs::bitnet) tiny.config["hidden_act"] = "silu";
  if (tiny.pooling && tiny.labels == 0) tiny.config["bantam_pooling"] = std::string(bantam::name_of(*tiny.pooling));
  tiny.write_folder(folder / name);
  bantam::test::TinyAdapter adapter{.model = tiny, .rank = 4};
  // llama.cpp multiplies by these without asking for adapters.
  using enum bantam::Role;
  adapter.left_out = {q_a, q_b, kv_a, k_b, per_layer_model_projection, per_layer_gate, per_layer_projection,
                      channel_q, channel_k, channel_v, channel_f_a, channel_f_b, channel_g_a, channel_g_b, channel_b, channel_out};
  // And scales the outputs of such experts before it adds to them.
  if (tiny.arch->find(router_scale) != nullptr) adapter.left_out.insert(adapter.left_out.end(), {router, expert_down});
  if (tiny.arch == &bantam::archs::bailing_moe_v3) adapter.left_out.insert(adapter.left_out.end(), {o, attention_gate});
  if (tiny.arch->latent) adapter.left_out.insert(adapter.left_out.end(), {q, head});
  adapter.make(tiny.seed + 100);
  adapter.write_folder(folder / (name + "-lora"));
  adapter.write_gguf(folder / (name + "-lora.gguf"));
  std::cout << name << "\n";
}

int main(int argc, char** argv) {
  doctest::Context context;
  context.setAsDefaultForAssertsOutOfTestCases();
  if (argc < 3) {
    std::cerr << "usage: write_tiny_models FOLDER SEED,... [PREFIX ...]\n";
    return 2;
  }
  Wanted wanted{argv[1], {}, {argv + 3, argv + argc}};
  std::istringstream seeds(argv[2]);
  for (std::string seed; std::getline(seeds, seed, ',');) wanted.seeds.push_back(seed);
  for (std::size_t i = 0; i < wanted.seeds.size(); ++i) {
    const std::string& seed = wanted.seeds[i];
    for (const bantam::ArchSpec* arch : bantam::architectures) {
      bantam::test::TinyModel tiny{.arch = arch, .dim = 128, .layers = 3, .heads = 4, .kv_heads = 2, .head_dim = 32, .ffn = 96, .vocab = 30, .context = 256};
      if (arch->head_norm == bantam::nn::HeadNorm::all || arch == &bantam::archs::dots1) tiny.kv_heads = tiny.heads;  // llama.cpp knows no others
      tiny.index_used = 4096;  // llama.cpp's Qwen4 may see tokens of one block more
      tiny.experts = 8;
      tiny.experts_used = 3;
      tiny.expert_ffn = 64;
      if (arch == &bantam::archs::deepseek_v2) tiny.q_rank = 0, tiny.layers = 27;  // llama.cpp knows Lite by its layers
      if (arch == &bantam::archs::exaone4) tiny.layers = 64;  // llama.cpp knows windows by its layers
      if (arch == &bantam::archs::kimi_linear) tiny.q_rank = 0, tiny.layers = 5;  // as published
      // llama.cpp knows no others of these.
      if (arch->chunks_windows) tiny.window = 8192;
      if (arch->routes_inputs) tiny.window = 4096, tiny.layers = 5;  // of four it turns all
      if (arch->single_group) tiny.state_value_dim = 2 * tiny.dim / tiny.value_heads;  // llama.cpp knows no other width
      if (arch == &bantam::archs::gemma3n) {
        // What llama.cpp knows of it beside the file. Of deviations it takes those of a sample: of n gates by n - 1.
        tiny.layers = 26, tiny.first_shared = 20, tiny.active_stream = 0, tiny.laurel_rank = 64, tiny.per_layer_dim = 256, tiny.final_softcap = 30, tiny.ffn = 1024;
        tiny.sparse_layers = 10, tiny.gate_cutoff = 1.6448536F * std::sqrt(static_cast<float>(tiny.ffn) / static_cast<float>(tiny.ffn - 1));
      }
      // As many slopes as no power of two has.
      if (arch->alibi > 0 && i % 2 == 1) tiny.dim = 96, tiny.heads = 6, tiny.kv_heads = 6, tiny.head_dim = 16;
      if (arch->folds_scales) {
        tiny.scales = {.embedding = 3, .logits = 0.3, .attention_in = 0.9, .attention_out = 0.7, .keys = 0.6, .space_in = 1.25, .space_out = 0.8, .space = {0.4, 0.5, 0.7, 0.9, 0.6}, .gate = 0.8, .down = 1.5};
      }
      tiny.expert_latent = i % 2 == 1 ? 48 : 0;
      tiny.turned = i % 2 == 1;
      // Llama's bias of o is none of GGUF's.
      tiny.biases = i % 2 == 1 && arch->more_tensors.data() != bantam::archs::llama_biases && arch != &bantam::archs::bitnet;
      if (arch->head_layer_norms) tiny.biases = false;  // with norms of q and k it stops at several tokens at once
      // llama.cpp knows no other heads of these.
      tiny.tied = arch == &bantam::archs::bitnet || arch == &bantam::archs::cohere || arch == &bantam::archs::cohere2 || arch == &bantam::archs::gemma || arch == &bantam::archs::gemma2;
      if (arch->encodes) tiny.kv_heads = tiny.heads, tiny.tied = i % 2 == 1;
      tiny.seed = std::stoull(seed);
      // GELU from a table of halves sends a token of seed 2 to another expert: a reference in double precision with such a table shows it.
      if (arch == &bantam::archs::gemma4_moe) tiny.seed += 3;
      if (!arch->causal) {
        // Rows of llama.cpp's tables of positions, and a way to pool for each seed.
        tiny.pooling = bantam::poolings[i % std::size(bantam::poolings)];
        tiny.kv_heads = tiny.heads;
        tiny.biases = false;  // of ModernBERT's norms llama.cpp knows none
        // It asks for as many numbers in the end as the model is wide.
        if (arch == &bantam::archs::gemma_embedding && i % 2 == 1) tiny.pooled_layers = {{.outputs = 192}, {.outputs = tiny.dim}};
        write(tiny, name_of(*arch) + "-" + seed, wanted);
        if (arch->class_of_classifier().empty()) continue;
        tiny.labels = 1;
        // What llama.cpp takes of classifiers with a norm.
        tiny.pooling = arch->find(bantam::Role::class_norm) != nullptr ? bantam::Pooling::mean : bantam::Pooling::cls;
        write(tiny, name_of(*arch) + "_rank-" + seed, wanted);
        continue;
      }
      write(tiny, name_of(*arch) + "-" + seed, wanted);
      if (arch == &bantam::archs::qwen3) {
        bantam::test::TinyModel whole = tiny;
        whole.tied = true;
        whole.pooling = bantam::poolings[(i + 1) % std::size(bantam::poolings)];
        write(whole, name_of(*arch) + "_embed-" + seed, wanted);
        whole.labels = 2;  // yes and no
        whole.pooling = {};
        write(whole, name_of(*arch) + "_rank-" + seed, wanted);
      }
      if (arch->may_draft()) {
        tiny.drafts = true;  // llama.cpp passes over the layer, or takes it for what it is
        write(tiny, name_of(*arch) + "-drafting-" + seed, wanted);
      }
      if (arch != &bantam::archs::gemma4) continue;
      tiny.shares_values = true;  // 31B beside E2B and E4B
      write(tiny, name_of(*arch) + "_31b-" + seed, wanted);
    }
  }
}
