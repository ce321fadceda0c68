#include <algorithm>

#include "support.hpp"

using namespace capi_test;

TEST_CASE("a matrix is rounded, read back and multiplied") {
  const std::int64_t rows = 32, columns = 96, tokens = 3;
  std::vector<float> values(rows * columns), x(tokens * columns);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i) * 0.37f);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::cos(static_cast<float>(i) * 0.11f);
  for (std::size_t f = 0; f < bantam_format_count(); ++f) {
    const char* format = bantam_format_name(f);
    CAPTURE(format);
    bantam_weights* made = nullptr;
    REQUIRE_OK(bantam_weights_quantize(&made, values.data(), rows, columns, format));
    const Owned<bantam_weights> weights(made);
    bantam_tensor_info info = BANTAM_TENSOR_INFO_INIT;
    REQUIRE_OK(bantam_weights_get_info(weights.get(), &info));
    CHECK(std::string(info.format) == format);
    CHECK(info.rows == rows);
    std::vector<float> back(values.size()), out(tokens * rows);
    REQUIRE_OK(bantam_weights_dequantize(weights.get(), back.data(), back.size()));
    REQUIRE_OK(bantam_weights_multiply(weights.get(), x.data(), tokens, out.data(), 0));
    double worst = 0;
    for (std::int64_t t = 0; t < tokens; ++t) {
      for (std::int64_t r = 0; r < rows; ++r) {
        double sum = 0;
        for (std::int64_t c = 0; c < columns; ++c) sum += double(back[r * columns + c]) * x[t * columns + c];
        worst = std::max(worst, std::fabs(sum - out[t * rows + r]));
      }
    }
    CHECK(worst < 1e-4);
  }
  CHECK(bantam_format_name(bantam_format_count()) == nullptr);
  bantam_weights* weights = nullptr;
  CHECK(bantam_weights_quantize(&weights, values.data(), rows, columns, "i99") == BANTAM_INVALID_ARGUMENT);
  CHECK(bantam_weights_quantize(&weights, values.data(), INT64_MAX, INT64_MAX, "q4") == BANTAM_INVALID_ARGUMENT);
  CHECK(bantam_weights_quantize(&weights, values.data(), -1, 4, "q4") == BANTAM_INVALID_ARGUMENT);
}

TEST_CASE("a model is made smaller in memory and from file to file, with progress, a report and a choice of formats") {
  const Folder folder;
  const auto model = load();
  bantam_compress_options options = BANTAM_COMPRESS_OPTIONS_INIT;
  options.format = "i4.g64";
  options.choose = [](const bantam_tensor_info* matrix, void*) -> const char* {
    return std::string(matrix->name).ends_with("down_proj") ? "i8.g32" : nullptr;
  };
  int calls = 0;
  options.progress_user = &calls;
  options.progress = [](const bantam_progress* p, void* user) {
    CHECK(p->done <= p->total);
    ++*static_cast<int*>(user);
    return 0;
  };
  const auto [small, report] = compressed(model.get(), options);
  CHECK(calls > 0);
  bantam_report_info info = BANTAM_REPORT_INFO_INIT;
  REQUIRE_OK(bantam_report_get_info(report.get(), &info));
  CHECK(info.bytes_after < info.bytes_before);
  CHECK(info.matrices == static_cast<std::size_t>(calls));
  int eights = 0;
  for (std::size_t i = 0; i < info.matrices; ++i) {
    const char *name = nullptr, *format = nullptr;
    double error = 1;
    REQUIRE_OK(bantam_report_get_matrix(report.get(), i, &name, &format, &error));
    CHECK(error < 0.2);
    if (std::string(name).ends_with("down_proj")) eights += std::string(format) == "i8.g32" ? 1 : 0;
  }
  bantam_model_info shape = BANTAM_MODEL_INFO_INIT;
  REQUIRE_OK(bantam_model_get_info(model.get(), &shape));
  CHECK(eights == shape.layers);

  const std::string in_memory = folder / "memory.bantam", by_file = folder / "file.bantam";
  REQUIRE_OK(bantam_model_save(small.get(), in_memory.c_str()));
  REQUIRE_OK(bantam_compress_file(model_path().c_str(), by_file.c_str(), &options));
  CHECK(greedy_text(load(in_memory).get(), "The") == greedy_text(load(by_file).get(), "The"));

  options.progress = [](const bantam_progress*, void*) { return 1; };
  const std::string never = folder / "never.bantam";
  CHECK(bantam_compress_file(model_path().c_str(), never.c_str(), &options) == BANTAM_CANCELLED);
  bantam_model* none = nullptr;
  CHECK(bantam_model_compress(&none, model.get(), &options) == BANTAM_CANCELLED);
  CHECK(none == nullptr);
  CHECK_FALSE(std::filesystem::exists(never));
}

namespace {

std::string read_all(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

TEST_CASE("an importance matrix is written, and weighs errors of rounding") {
  const Folder folder;
  const std::string matrix = folder / "i.gguf", text = read_all(BANTAM_SOURCE_DIR "/models/paragraph.txt");
  bantam_compress_options options = BANTAM_COMPRESS_OPTIONS_INIT;
  options.samples = 2;
  options.tokens = 32;
  options.calibration_text = text.c_str();
  options.calibration_text_bytes = text.size();
  REQUIRE_OK(bantam_save_imatrix(model_path().c_str(), matrix.c_str(), &options));
  const auto written = [&](const char* name, const bantam_setting* setting) {
    bantam_compress_options of = BANTAM_COMPRESS_OPTIONS_INIT;
    of.format = "q3k";
    of.settings = setting;
    of.setting_count = setting != nullptr ? 1 : 0;
    CHECK_OK(bantam_compress_file(model_path().c_str(), (folder / name).c_str(), &of));
    return read_all(folder / name);
  };
  const bantam_setting setting{"imatrix", matrix.c_str()}, absent{"imatrix", "absent"};
  CHECK(written("plain.bantam", nullptr) != written("weighed.bantam", &setting));
  options.settings = &absent;
  options.setting_count = 1;
  CHECK(bantam_compress_file(model_path().c_str(), (folder / "never").c_str(), &options) == BANTAM_NOT_FOUND);
  CHECK(std::string(bantam_last_error()).starts_with("imatrix: "));
  options.setting_count = 0;
  CHECK(bantam_save_imatrix(nullptr, matrix.c_str(), &options) == BANTAM_INVALID_ARGUMENT);
  CHECK(bantam_save_imatrix(model_path().c_str(), nullptr, &options) == BANTAM_INVALID_ARGUMENT);
  options.cancelled = [](void*) { return 1; };
  CHECK(bantam_save_imatrix(model_path().c_str(), (folder / "never").c_str(), &options) == BANTAM_CANCELLED);
  CHECK_FALSE(std::filesystem::exists(folder / "never"));
}

TEST_CASE("work stops where it is asked to, inside a matrix too, and leaves nothing") {
  const Folder folder;
  const auto model = load();
  const std::string file = folder / "cancelled.bantam";
  struct Asked {
    int times = 0, stop_at = 0, written = 0;
  } asked;
  bantam_compress_options options = BANTAM_COMPRESS_OPTIONS_INIT;
  options.progress_user = options.cancelled_user = &asked;
  options.progress = [](const bantam_progress*, void* user) {
    ++static_cast<Asked*>(user)->written;
    return 0;
  };
  options.cancelled = [](void* user) {
    auto& a = *static_cast<Asked*>(user);
    return ++a.times == a.stop_at ? 1 : 0;
  };
  REQUIRE_OK(bantam_compress_file(model_path().c_str(), file.c_str(), &options));
  std::filesystem::remove(file);
  CHECK(asked.times > asked.written);
  for (const int at : {1, asked.times / 2}) {
    asked = {0, at, 0};
    CHECK(bantam_compress_file(model_path().c_str(), file.c_str(), &options) == BANTAM_CANCELLED);
    CHECK(asked.times == at);
    CHECK_FALSE(std::filesystem::exists(file));
    asked = {0, at, 0};
    bantam_model* small = nullptr;
    CHECK(bantam_model_compress(&small, model.get(), &options) == BANTAM_CANCELLED);
    CHECK(asked.times == at);
    CHECK(small == nullptr);
  }
}

TEST_CASE("a setting prunes") {
  const auto model = load();
  const bantam_setting prune{"prune", "magnitude:0.5"};
  bantam_compress_options options = BANTAM_COMPRESS_OPTIONS_INIT;
  options.format = "f16";
  options.settings = &prune;
  options.setting_count = 1;
  const Compressed small = compressed(model.get(), options);
  bantam_weights* made = nullptr;
  REQUIRE_OK(bantam_weights_of_model(&made, small.model.get(), "model.layers.0.mlp.down_proj"));
  const Owned<bantam_weights> weights(made);
  bantam_tensor_info info = BANTAM_TENSOR_INFO_INIT;
  REQUIRE_OK(bantam_weights_get_info(weights.get(), &info));
  std::vector<float> values(static_cast<std::size_t>(info.rows * info.columns));
  REQUIRE_OK(bantam_weights_dequantize(weights.get(), values.data(), values.size()));
  CHECK(static_cast<std::size_t>(std::ranges::count(values, 0.0f)) == values.size() / 2);
}

TEST_CASE("settings say how far grids go") {
  const auto model = load();
  const auto error_with = [&](const char* how) {
    const bantam_setting clip{"clip", how};
    bantam_compress_options options = BANTAM_COMPRESS_OPTIONS_INIT;
    options.format = "i3z.g64";
    options.settings = &clip;
    options.setting_count = 1;
    const auto [small, report] = compressed(model.get(), options);
    double error = 0;
    REQUIRE_OK(bantam_report_get_matrix(report.get(), 1, nullptr, nullptr, &error));
    return error;
  };
  CHECK(error_with("mse") < error_with("minmax"));
  CHECK(error_with("percentile:99") != error_with("minmax"));
}

TEST_CASE("without a text of the user's the bundled one calibrates, and the log says so") {
  const auto model = load();
  std::string said;
  bantam_set_log_callback([](bantam_log_level, const char* line, void* user) { *static_cast<std::string*>(user) += line; }, &said);
  bantam_compress_options options = BANTAM_COMPRESS_OPTIONS_INIT;
  options.method = "gptq";
  options.samples = 2;
  options.tokens = 32;
  bantam_model* small = nullptr;
  REQUIRE_OK(bantam_model_compress(&small, model.get(), &options));
  bantam_set_log_callback(nullptr, nullptr);
  bantam_model_free(small);
  CHECK(said.find("bundled") != std::string::npos);
}

TEST_CASE("what a recipe cannot be is said") {
  const auto model = load();
  bantam_model* small = nullptr;
  bantam_compress_options options = BANTAM_COMPRESS_OPTIONS_INIT;
  options.method = "magic";
  CHECK(bantam_model_compress(&small, model.get(), &options) == BANTAM_INVALID_ARGUMENT);
  CHECK(std::string(bantam_last_error()).find("gptq") != std::string::npos);
  const auto refused = [&](auto change) {
    bantam_compress_options wrong = BANTAM_COMPRESS_OPTIONS_INIT;
    change(wrong);
    CHECK(bantam_model_compress(&small, model.get(), &wrong) == BANTAM_INVALID_ARGUMENT);
  };
  refused([](auto& o) { o.group = -7; });
  refused([](auto& o) { o.group = 33; });
  refused([](auto& o) { o.samples = 0; });
  refused([](auto& o) { o.tokens = -1; });
  refused([](auto& o) { o.method = nullptr; });
  refused([](auto& o) { o.keep_count = 1; });
  options = BANTAM_COMPRESS_OPTIONS_INIT;
  const char* keep = "lm_head";
  options.keep = &keep;
  options.keep_count = 1;
  CHECK(bantam_model_compress(&small, model.get(), &options) == BANTAM_INVALID_ARGUMENT);
  CHECK(small == nullptr);
}

TEST_CASE("perplexity and divergence") {
  const auto model = load();
  bantam_compress_options to = BANTAM_COMPRESS_OPTIONS_INIT;
  to.format = "i8.g32";
  bantam_model* small = nullptr;
  REQUIRE_OK(bantam_model_compress(&small, model.get(), &to));
  const Owned<bantam_model> owned(small);
  const std::string text =
      "It was a bright cold day in April, and the captain of the ship walked along the deck with his hands behind his back. "
      "Nobody spoke to him, and he spoke to nobody; the wind had fallen in the night, and the sails hung still.";
  bantam_perplexity_result result = BANTAM_PERPLEXITY_RESULT_INIT;
  REQUIRE_OK(bantam_model_perplexity(small, model.get(), text.data(), text.size(), nullptr, &result));
  CHECK(result.perplexity > 1);
  CHECK(result.kl_mean > 0);
  CHECK(result.kl_mean < 0.01);
  CHECK(std::fabs(result.perplexity / result.base_perplexity - 1) < 0.05);
}
