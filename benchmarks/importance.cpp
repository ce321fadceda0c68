// Mean square of what each matrix of a model's blocks reads over a text, as JSON by GGUF's names: the importance that
// llama.cpp's quantizers ask for, so that they can be compared with ours on the same text.
#include <bantam/bantam.hpp>
#include <bantam/calibrate/hessian.hpp>
#include <bantam/model/forward.hpp>
#include <fstream>
#include <iostream>
#include <iterator>

int main(int argc, char** argv) try {
  using namespace bantam;
  if (argc != 6) {
    std::cerr << "usage: importance MODEL TEXT SAMPLES TOKENS OUT.json\n";
    return 2;
  }
  std::ifstream file(argv[2]);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto checkpoint = Checkpoint::open(argv[1]);
  const ModelConfig& config = checkpoint.config();
  const auto calibration = Calibration::from_text(checkpoint.tokenizer(), text, std::stoll(argv[3]), std::stoll(argv[4]));
  const Model model = Model::load(argv[1]);
  std::vector<std::vector<float>> hidden;
  RowCodes scratch;
  for (const std::vector<TokenId>& sample : calibration.samples) {
    std::vector<float>& states = hidden.emplace_back(sample.size() * static_cast<std::size_t>(config.dim));
    for (std::size_t t = 0; t < sample.size(); ++t) {
      model.weights().embedding.read_row(sample[t], std::span(states).subspan(t * static_cast<std::size_t>(config.dim), static_cast<std::size_t>(config.dim)), scratch);
    }
  }
  // llama.cpp's names of the matrices that read the same, in the order in which a layer runs them.
  const std::pair<Role, std::vector<const char*>> readings[] = {
      {Role::q, {"attn_q", "attn_k", "attn_v"}}, {Role::o, {"attn_output"}}, {Role::gate, {"ffn_gate", "ffn_up"}}, {Role::down, {"ffn_down"}}};
  Forward forward(config, model.weights(), std::stoll(argv[4]), 0);
  std::ofstream out(argv[5]);
  const char* separator = "{";
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const LayerWeights& weights = model.weights().layers[static_cast<std::size_t>(layer)];
    for (const auto& [role, names] : readings) {
      const InputGroup& group = group_of(role);
      std::optional<Hessian> moments;
      for (std::vector<float>& states : hidden) {
        forward.run_to(weights, layer, group, states);
        if (!moments) moments.emplace(forward.inputs().extent(1));
        moments->add(forward.inputs());
        if (group.adds) forward.run_half(weights, layer, group.half, states);
      }
      for (const char* name : names) {
        out << separator << "\n\"blk." << layer << '.' << name << ".weight\": [";
        separator = ",";
        const char* comma = "";
        for (const float x : moments->mean_squares()) out << std::exchange(comma, ",") << x;
        out << ']';
      }
    }
  }
  out << "\n}\n";
  out.close();
  if (!out) fail(Errc::io, argv[5], ": expected to be written, the system refused");
} catch (const bantam::Error& error) {
  std::cerr << "importance: " << error.what() << '\n';
  return 1;
}
