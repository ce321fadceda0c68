// Compresses a model to four bits, keeping what matters in eight, and measures what that costs.
#include <bantam/bantam.hpp>
#include <iostream>

int main(int argc, char** argv) try {
  if (argc < 2 || argc > 3) {
    std::cerr << "usage: 02_compress MODEL [OUT.bantam]\n";
    return 2;
  }
  const std::filesystem::path out = argc == 3 ? argv[2] : "02_compress.bantam";
  const bantam::Model model = bantam::Model::load(argv[1]);

  // Names are Hugging Face's without ".weight"; the last pattern that matches wins.
  bantam::Recipe plan = bantam::recipe::rtn("i4", {.group = 64});
  plan.keep("*.down_proj", "i8").keep("model.layers.0.*", "i8");

  const auto [small, report] = bantam::compress(model, plan, [](const bantam::Progress& p) {
    std::clog << p.done << '/' << p.total << ' ' << p.layer << ": error " << p.relative_error << '\n';
    return true;  // false would cancel
  });
  std::cout << report << '\n';
  small.save(out);

  const bantam::Model loaded = bantam::Model::load(out);
  const std::string_view text =
      "It was a fine evening in the beginning of summer, and the old man sat before the door of his house, looking "
      "down the road by which his son had gone away. He had said nothing of it to his wife, but he had not been able "
      "to sleep, and now he heard the sound of a horse upon the bridge.";
  const bantam::PerplexityResult result = bantam::perplexity(loaded, text, {.context = 128}, &model);
  std::cout << "perplexity " << result.perplexity << ", before "
            << bantam::perplexity(model, text, {.context = 128}).perplexity << "; divergence "
            << result.kl_mean.value_or(0) << " nats a token\n";
  return loaded.bytes() < model.bytes() ? 0 : 1;
} catch (const bantam::Error& error) {
  std::cerr << "02_compress: " << error.what() << '\n';
  return 1;
}
