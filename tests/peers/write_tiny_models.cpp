// Writes a random model of every architecture as a Hugging Face folder: write_tiny_models FOLDER SEED ...
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdlib>
#include <iostream>

#include "tiny_model.hpp"

/// Two with and without experts may share a name.
std::string name_of(const bantam::ArchSpec& arch) {
  const auto shares = std::ranges::count(bantam::architectures, arch.name, &bantam::ArchSpec::name) > 1;
  return std::string(arch.name) + (shares && arch.has_experts() ? "_moe" : "");
}

int main(int argc, char** argv) {
  doctest::Context context;
  context.setAsDefaultForAssertsOutOfTestCases();
  for (int i = 2; i < argc; ++i) {
    for (const bantam::ArchSpec* arch : bantam::architectures) {
      bantam::test::TinyModel tiny{.arch = arch, .dim = 128, .layers = 3, .heads = 4, .kv_heads = 2, .head_dim = 32, .ffn = 96, .vocab = 30, .context = 256};
      if (arch->head_norm == bantam::nn::HeadNorm::all) tiny.kv_heads = tiny.heads;  // llama.cpp knows no others
      tiny.experts = 8;
      tiny.experts_used = 3;
      tiny.expert_ffn = 64;
      if (arch == &bantam::archs::deepseek_v2) tiny.q_rank = 0, tiny.layers = 27;  // llama.cpp knows Lite by its layers
      if (arch->single_group) tiny.state_value_dim = 2 * tiny.dim / tiny.value_heads;  // llama.cpp knows no other width
      tiny.expert_latent = i % 2 == 1 ? 48 : 0;
      tiny.turned = i % 2 == 1;
      // Llama's bias of o is none of GGUF's.
      tiny.biases = i % 2 == 1 && arch->more_tensors.data() != bantam::archs::llama_biases;
      // llama.cpp knows no other heads of these.
      tiny.tied = arch == &bantam::archs::cohere || arch == &bantam::archs::cohere2 || arch == &bantam::archs::gemma || arch == &bantam::archs::gemma2;
      tiny.seed = static_cast<std::uint64_t>(std::atoll(argv[i]));
      tiny.make();
      const std::filesystem::path folder = std::filesystem::path(argv[1]) / (name_of(*arch) + "-" + argv[i]);
      tiny.write_folder(folder);
      std::cout << folder.filename().string() << "\n";
    }
  }
}
