// Calibration text: the bundled one, and what becomes of a text.
#include "bantam/calibrate/calibration.hpp"

#include "support.hpp"

namespace bantam::test {

TEST_CASE("the bundled calibration text is the file of the repository, and long enough for several samples of 2048 tokens") {
  const std::string_view text = default_calibration_text();
  CHECK(text == read_file(std::filesystem::path(BANTAM_SOURCE_DIR) / "models/calibration.txt"));
  const Tokenizer tokenizer = Tokenizer::from_folder(std::filesystem::path(BANTAM_SOURCE_DIR) / "models/books4m");
  const Calibration calibration = Calibration::from_text(tokenizer, text);
  CHECK(calibration.samples.size() >= 16);
  for (const std::vector<TokenId>& sample : calibration.samples) CHECK(sample.size() == 2048);
}

}  // namespace bantam::test
