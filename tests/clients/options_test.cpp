// Every option of compression, by the table: the program and the C interface take its value, and refuse wrong ones by its name.
#include <cstdlib>

#include "bantam/compress/options.hpp"
#include "bantam/io/file.hpp"
#include "support.hpp"

using namespace bantam;
using namespace capi_test;

namespace {

const std::string text_path = BANTAM_SOURCE_DIR "/models/paragraph.txt";

/// An importance matrix of the paragraph, by C.
std::string importance_file(const std::string& path) {
  bantam_compress_options options = BANTAM_COMPRESS_OPTIONS_INIT;
  options.calibration_path = text_path.c_str();
  options.samples = 1;
  options.tokens = 16;
  CHECK_OK(bantam_save_imatrix(model_path().c_str(), path.c_str(), &options));
  return path;
}

std::string value_for(const CompressOption& option) {
  static const Folder folder;
  if (option.kind == OptionKind::flag) return option.initial == "on" ? "off" : "on";
  if (option.kind == OptionKind::adapters) return write_adapter(folder / "lora") + ":0.5";
  if (option.kind == OptionKind::importance) return importance_file(folder / "i.gguf");
  return option.kind == OptionKind::corpus ? text_path : std::string(option.example);
}

/// What names a file says so of another; everything else is refused by the option's name.
bool refuses_some(const CompressOption& option) {
  return option.kind != OptionKind::file && option.kind != OptionKind::corpus && option.kind != OptionKind::adapters && option.kind != OptionKind::importance;
}

/// Names and values: what an option needs, little text to calibrate with, the option.
std::vector<std::pair<std::string, std::string>> settings_with(const CompressOption& option, const std::string& value) {
  std::vector<std::pair<std::string, std::string>> settings{{"samples", "1"}, {"tokens", "16"}};
  if (!option.needs.first.empty()) settings.emplace_back(option.needs);
  settings.emplace_back(option.name, value);
  return settings;
}

bantam_status compress_by_c(const CompressOption& option, const std::string& value, const bantam_model* model, const std::string& out) {
  const auto settings = settings_with(option, value);
  std::vector<bantam_setting> raw;
  for (const auto& [name, text] : settings) raw.push_back({name.c_str(), text.c_str()});
  bantam_compress_options options = BANTAM_COMPRESS_OPTIONS_INIT;
  options.settings = raw.data();
  options.setting_count = raw.size();
  const bantam_status status = bantam_compress_file(model_path().c_str(), out.c_str(), &options);
  if (option.of_files) return status;
  bantam_model* small = nullptr;
  const bantam_status in_memory = bantam_model_compress(&small, model, &options);
  bantam_model_free(small);
  CHECK(in_memory == status);
  return status;
}

/// The exit status; what it says lies in `said`.
int compress_by_program(const CompressOption& option, const std::string& value, const Folder& folder, std::string& said) {
  std::string command = message("'" BANTAM_PROGRAM "' compress '", model_path(), "' -o '", folder / "program.bantam", "'");
  for (const auto& [name, text] : settings_with(option, value)) {
    for (const CompressOption& row : compress_options()) {
      if (row.name != name) continue;
      command += " --" + program_name(row);
      if (row.kind == OptionKind::seed) command += " --seed";
      if (row.kind != OptionKind::flag) command += " '" + text + "'";
    }
  }
  const int status = std::system(message(command, " >'", folder / "out", "' 2>'", folder / "said", "'").c_str());
  said = read_text_file(folder / "said");
  return WEXITSTATUS(status);
}

}  // namespace

TEST_CASE("C lists every option, and takes its value") {
  const Folder folder;
  const auto model = load();
  for (std::size_t i = 0; i < compress_options().size(); ++i) {
    const CompressOption& option = compress_options()[i];
    CAPTURE(std::string(option.name));
    const char* meaning = nullptr;
    CHECK(bantam_compress_setting(i, nullptr) == option.name);
    CHECK(bantam_compress_setting(i, &meaning) == option.name);
    CHECK(std::string(meaning) == option.meaning);
    const std::string value = option.kind == OptionKind::file ? folder / "a file" : value_for(option);
    CHECK_OK(compress_by_c(option, value, model.get(), folder / "c.bantam"));
    if (!refuses_some(option)) continue;
    CHECK(compress_by_c(option, "?!", model.get(), folder / "c.bantam") == BANTAM_INVALID_ARGUMENT);
    CHECK(std::string(bantam_last_error()).starts_with(message(option.name, ": ")));
  }
  CHECK(bantam_compress_setting(compress_options().size(), nullptr) == nullptr);
}

TEST_CASE("the program takes every option's value") {
  const Folder folder;
  std::string said;
  for (const CompressOption& option : compress_options()) {
    if (program_name(option).empty()) continue;
    CAPTURE(std::string(option.name));
    const int status = compress_by_program(option, value_for(option), folder, said);
    CHECK_MESSAGE(status == 0, said);
    if (!refuses_some(option) || option.kind == OptionKind::flag) continue;
    CHECK(compress_by_program(option, "?!", folder, said) == 2);
    const std::string name = option.kind == OptionKind::seed ? "seed" : program_name(option);
    CHECK_MESSAGE(said.starts_with(message("bantam: compress: --", name, ": ")), said);
  }
}
