// Rounds a model to three bits with GPTQ, calibrated on a text, and compares with rounding to nearest.
#include <bantam/bantam.hpp>
#include <fstream>
#include <iostream>
#include <iterator>

int main(int argc, char** argv) try {
  if (argc < 2 || argc > 3) {
    std::cerr << "usage: 06_gptq MODEL [TEXT]\n";
    return 2;
  }
  std::string text =
      "The rain had stopped when they came to the village, and the people stood in their doors to see who it was. "
      "An old woman asked them in, gave them bread and milk, and wanted to hear what was said of the war in the "
      "town. They told her what they knew, which was little, and she sighed and put more wood on the fire.";
  if (argc == 3) {
    std::ifstream file(argv[2]);
    text.assign(std::istreambuf_iterator<char>(file), {});
  }

  const auto checkpoint = bantam::Checkpoint::open(argv[1]);
  const auto calibration = bantam::Calibration::from_text(checkpoint.tokenizer(), text, 128, 256);
  const auto plan = bantam::recipe::gptq("i3.g64");
  bantam::compress_file(checkpoint, "06_gptq.bantam", plan, bantam::Target::native, {}, calibration);

  bantam::compress_file(checkpoint, "06_rtn.bantam", bantam::recipe::rtn("i3.g64"));
  const bantam::Model before = bantam::Model::load(argv[1]);
  for (const char* name : {"06_rtn.bantam", "06_gptq.bantam"}) {
    const auto result = bantam::perplexity(bantam::Model::load(name), text, {.context = 128}, &before);
    std::cout << name << ": perplexity " << result.perplexity << ", divergence " << result.kl_mean.value_or(0) << " nats a token\n";
  }
} catch (const bantam::Error& error) {
  std::cerr << "06_gptq: " << error.what() << '\n';
  return 1;
}
