// The texts nearest to a question, by their embeddings: for any model, best with one made for it.
#include <algorithm>
#include <bantam/bantam.hpp>
#include <iostream>
#include <numeric>

int main(int argc, char** argv) try {
  if (argc < 2 || argc > 3) {
    std::cerr << "usage: 16_search MODEL [QUESTION]\n";
    return 2;
  }
  const bantam::Model model = bantam::Model::load(argv[1]);
  const std::string question = argc == 3 ? argv[2] : "Was there any wind that day?";

  bantam::Engine engine(model, {.context = 128, .threads = 2});
  const std::vector<std::string> texts{"The sea was calm.", "The captain paid for the rum.", "She looked at him."};
  const bantam::Tensor<float, 2> rows = bantam::embed(engine, texts);  // (texts, dim), of length 1

  const bantam::Tensor<float, 2> asked = bantam::embed(engine, std::vector{question});
  const auto likeness = [&](std::size_t text) {
    const float* row = rows.data() + static_cast<std::int64_t>(text) * rows.extent(1);
    return std::inner_product(row, row + rows.extent(1), asked.data(), 0.0f);
  };
  std::vector<std::size_t> order(texts.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, std::greater<>(), likeness);
  for (const std::size_t text : order) std::cout << likeness(text) << "  " << texts[text] << '\n';
} catch (const bantam::Error& error) {
  std::cerr << "16_search: " << error.what() << '\n';
  return 1;
}
