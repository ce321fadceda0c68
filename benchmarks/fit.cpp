// Mixed precision at several sizes from one measurement: what `compress --fit` would write at each.
#include <bantam/bantam.hpp>
#include <bantam/compress/fit.hpp>
#include <bantam/core/stopwatch.hpp>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>

int main(int argc, char** argv) try {
  using namespace bantam;
  if (argc < 8) {
    std::cerr << "usage: fit MODEL TEXT SAMPLES TOKENS native|gguf FOLDER BITS...\n"
                 "Writes FOLDER/fit-BITS.bantam or .gguf by gptq, and prints a line of JSON for each.\n";
    return 2;
  }
  std::ifstream file(argv[2]);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto checkpoint = Checkpoint::open(argv[1]);
  const auto calibration = Calibration::from_text(checkpoint.tokenizer(), text, std::stoll(argv[3]), std::stoll(argv[4]));
  const Target target = find_target(argv[5]);
  const Recipe base = recipe::with(Method::gptq, "i4m");
  Stopwatch watch;
  const auto sensitivities = measure_sensitivity(checkpoint, base, calibration, target);
  const double measuring = watch.seconds();
  for (int i = 7; i < argc; ++i) {
    watch = {};
    const double bits = std::stod(argv[i]);
    const Fit found = fit(checkpoint, base, sensitivities, {.bits_per_weight = bits}, target);
    const auto path = std::filesystem::path(argv[6]) / message("fit-", argv[i], target == Target::gguf ? ".gguf" : ".bantam");
    const Report report = compress_file(checkpoint, path, found.recipe, target, {}, calibration);
    std::map<std::string_view, int> formats;
    for (const Plan::Matrix& matrix : found.plan.matrices) ++formats[matrix.format->name];
    std::cout << message("{\"asked\": ", bits, ", \"bits\": ", found.plan.bits_per_weight, ", \"bytes\": ", report.bytes_after, ", \"expected_kl\": ", found.expected_kl,
                         ", \"measuring_seconds\": ", measuring, ", \"seconds\": ", watch.seconds(), ", \"path\": \"", path.string(), "\", \"formats\": {");
    for (const auto& [name, count] : formats) std::cout << (name == formats.begin()->first ? "\"" : ", \"") << name << "\": " << count;
    std::cout << "}}" << std::endl;
  }
} catch (const std::exception& error) {
  std::cerr << "fit: " << error.what() << '\n';
  return 1;
}
