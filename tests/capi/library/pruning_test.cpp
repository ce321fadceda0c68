// Removing parts through the C interface, against the library itself.
#include <algorithm>

#include "bantam/compress/prepare.hpp"
#include "bantam/io/file.hpp"
#include "support.hpp"

using namespace bantam;
using namespace capi_test;

namespace {

/// Names and numbers.
std::vector<std::pair<std::string, std::vector<float>>> tensors_of(const bantam_model* model) {
  std::vector<std::pair<std::string, std::vector<float>>> all;
  for (std::size_t i = 0; i < bantam_model_tensor_count(model); ++i) {
    bantam_tensor_info info = BANTAM_TENSOR_INFO_INIT;
    REQUIRE_OK(bantam_model_get_tensor(model, i, &info));
    auto& [name, values] = all.emplace_back(info.name, std::vector<float>(static_cast<std::size_t>(info.rows * info.columns)));
    REQUIRE_OK(bantam_model_read_tensor(model, name.c_str(), values.data(), values.size()));
  }
  return all;
}

/// A removal of each kind.
std::string some(Part part) { return Removal{part, part == Part::layers ? 1.0 : 0.5}.text(); }

}  // namespace

TEST_CASE("settings remove parts, as the library does, in memory and from file to file") {
  const Folder folder;
  const auto model = load();
  const Checkpoint checkpoint = Checkpoint::open(model_path());
  const std::string text = read_text_file(BANTAM_SOURCE_DIR "/models/paragraph.txt");
  for (const Part part : prune_parts) {
    if (part == Part::experts) continue;  // of mixtures alone
    const std::string removal = some(part);
    CAPTURE(removal);
    const bantam_setting settings[] = {{"prune", removal.c_str()}, {"prune", "magnitude:0.5"}, {"compensate", "off"}};
    bantam_compress_options options = BANTAM_COMPRESS_OPTIONS_INIT;
    options.format = "f32";
    options.calibration_text = text.data();
    options.calibration_text_bytes = text.size();
    options.samples = 2;
    options.tokens = 32;
    options.settings = settings;
    options.setting_count = 3;
    const Compressed small = compressed(model.get(), options);
    const std::string by_file = folder / "file.bantam", in_memory = folder / "memory.bantam", expected = folder / "expected.bantam";
    REQUIRE_OK(bantam_model_save(small.model.get(), in_memory.c_str()));
    bantam_report* told = nullptr;
    options.report = &told;
    REQUIRE_OK(bantam_compress_file(model_path().c_str(), by_file.c_str(), &options));
    const Owned<bantam_report> report(told);

    const std::vector<Removal> removals{parse_removal(removal)};
    const auto calibration = Calibration::from_text(checkpoint.tokenizer(), text, 2, 32);
    const PrunedStructure pruned = prune_structure(checkpoint, removals, calibration, {.compensate = false});
    const auto recipe = recipe::rtn("f32").pruned(recipe::magnitude(0.5f));
    compress_file(pruned.checkpoint, expected, recipe, Target::native, {}, calibration);
    CHECK(tensors_of(load(by_file).get()) == tensors_of(load(expected).get()));
    CHECK(tensors_of(load(in_memory).get()) == tensors_of(load(expected).get()));

    double before = 0, after = 0;
    REQUIRE_OK(bantam_report_get_cost(report.get(), "parameters", &before, &after));
    CHECK(before == static_cast<double>(pruned.before.parameters));
    CHECK(after == static_cast<double>(pruned.after.parameters));
    REQUIRE_OK(bantam_report_get_cost(report.get(), "flops", nullptr, &after));
    CHECK(after == static_cast<double>(pruned.after.flops_per_token));
    REQUIRE_OK(bantam_report_get_cost(report.get(), "bytes", nullptr, &after));
    CHECK(after == static_cast<double>(file_bytes(by_file).size()));
    CHECK(bantam_report_get_cost(report.get(), "latency", nullptr, nullptr) == BANTAM_NOT_FOUND);
    CHECK(bantam_report_get_cost(report.get(), "beauty", nullptr, nullptr) == BANTAM_INVALID_ARGUMENT);
    bantam_report_info info = BANTAM_REPORT_INFO_INIT;
    REQUIRE_OK(bantam_report_get_info(report.get(), &info));
    CHECK(std::string(info.json).find('"' + removal + '"') != std::string::npos);
    CHECK(info.bytes_before == static_cast<std::int64_t>(std::filesystem::file_size(model_path() + "/model.safetensors")));
  }
}

TEST_CASE("what cannot be removed is said before any work, and removing stops where it is asked to") {
  const Folder folder;
  const auto model = load();
  const std::string never = folder / "never.bantam";
  bantam_compress_options options = BANTAM_COMPRESS_OPTIONS_INIT;
  options.samples = 2;
  options.tokens = 32;
  int calls = 0;
  options.progress_user = options.cancelled_user = &calls;
  options.progress = [](const bantam_progress*, void* user) { return ++*static_cast<int*>(user); };
  const auto asked = [&](std::vector<bantam_setting> settings, const std::string& says) {
    options.settings = settings.data();
    options.setting_count = settings.size();
    bantam_model* small = nullptr;
    CHECK(bantam_model_compress(&small, model.get(), &options) == bantam_compress_file(model_path().c_str(), never.c_str(), &options));
    CHECK(small == nullptr);
    CHECK_MESSAGE(std::string(bantam_last_error()).find(says) != std::string::npos, bantam_last_error());
    CHECK_FALSE(std::filesystem::exists(never));
  };
  asked({{"prune", "channels:1"}}, "prune channels:1: expected a share above 0 and below 1");
  asked({{"prune", "layers:99"}}, "expected a whole number from 1 to");
  asked({{"prune", "heads"}}, "prune: heads: expected heads:NUMBER");
  asked({{"prune", "wanda:0.5"}, {"prune", "magnitude:0.5"}}, "expected one way to choose weights");
  asked({{"prune", "channels"}, {"prune_to", "size:5"}}, "prune_to: expected parameters:N");
  asked({{"prune_to", "bytes:0.5x"}}, "prune_to: expected parts");
  asked({{"prune", "channels"}, {"prune_to", "bytes:1kB"}}, "expected at least");
  asked({{"prune", "channels:0.5"}, {"compensate", "maybe"}}, "compensate: expected one of off, on");
  CHECK(calls == 0);
  for (const Part part : prune_parts) {
    if (part == Part::experts) continue;  // of mixtures alone
    const std::string removal = some(part);
    CAPTURE(removal);
    calls = 0;
    asked({{"prune", removal.c_str()}}, "prune: cancelled after layer");
    CHECK(calls == 2);  // one of each call
    options.cancelled = [](void*) { return 1; };
    asked({{"prune", removal.c_str()}}, "cancelled");
    CHECK(calls == 2);
    options.cancelled = nullptr;
  }
  const bantam_setting heads{"prune", "heads:0.5"};
  options.settings = &heads;
  options.setting_count = 1;
  const std::string copy = folder / "copy.bantam";
  REQUIRE_OK(bantam_model_save(model.get(), copy.c_str()));
  CHECK(bantam_compress_file(copy.c_str(), copy.c_str(), &options) == BANTAM_INVALID_ARGUMENT);
  CHECK(std::string(bantam_last_error()).find("found the same file") != std::string::npos);
}

TEST_CASE("as much is removed as a cost allows, and formats are chosen for what is left") {
  const Folder folder;
  const auto model = load();
  for (const Cost cost : prune_costs) {
    const std::string goal = std::string(name_of(cost)) + ":0.8x";
    CAPTURE(goal);
    const bantam_setting settings[] = {{"prune", "channels"}, {"prune", "heads"}, {"prune_to", goal.c_str()}};
    bantam_compress_options options = BANTAM_COMPRESS_OPTIONS_INIT;
    options.samples = 2;
    options.tokens = 32;
    options.settings = settings;
    options.setting_count = 3;
    bantam_model* made = nullptr;
    bantam_report* told = nullptr;
    options.report = &told;
    const bantam_status status = bantam_model_compress(&made, model.get(), &options);
    const Owned<bantam_model> small(made);
    const Owned<bantam_report> report(told);
    // What so small a model gains in time is for the clock to say.
    if (cost == Cost::latency && status == BANTAM_INVALID_ARGUMENT) {
      CHECK(std::string(bantam_last_error()).find("prune to latency:0.8x: expected at least") == 0);
      continue;
    }
    REQUIRE_OK(status);
    double before = 0, after = 0;
    REQUIRE_OK(bantam_report_get_cost(report.get(), name_of(cost).data(), &before, &after));
    CHECK(before > 0);
    if (cost != Cost::latency) CHECK(after <= 0.8 * before);
  }
  const bantam_setting shorter{"prune", "layers:1"};
  bantam_compress_options options = BANTAM_COMPRESS_OPTIONS_INIT;
  options.samples = 2;
  options.tokens = 32;
  options.settings = &shorter;
  options.setting_count = 1;
  std::vector<std::int64_t> layers;
  options.choose_user = &layers;
  options.choose = [](const bantam_tensor_info* matrix, void* user) -> const char* {
    static_cast<std::vector<std::int64_t>*>(user)->push_back(matrix->layer);
    return matrix->layer == 2 ? "i8.g32" : "i4.g64";
  };
  const Compressed small = compressed(model.get(), options);
  CHECK(std::ranges::max(layers) == 2);
  bantam_weights* made = nullptr;
  REQUIRE_OK(bantam_weights_of_model(&made, small.model.get(), "model.layers.2.mlp.down_proj"));
  const Owned<bantam_weights> last(made);
  bantam_tensor_info info = BANTAM_TENSOR_INFO_INIT;
  REQUIRE_OK(bantam_weights_get_info(last.get(), &info));
  CHECK(std::string(info.format) == "i8.g32");
  const bantam_setting to_cost[] = {{"prune", "channels"}, {"prune_to", "bytes:0.8x"}};
  options.settings = to_cost;
  options.setting_count = 2;
  bantam_model* none = nullptr;
  CHECK(bantam_model_compress(&none, model.get(), &options) == BANTAM_INVALID_ARGUMENT);
}
