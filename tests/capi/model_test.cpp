#include <algorithm>
#include <cstring>

#include "support.hpp"

using namespace capi_test;

TEST_CASE("a model is loaded from a path, from memory and through a reader, and is the same") {
  const Folder folder;
  const auto model = load();
  const std::string file = folder / "model.bantam";
  REQUIRE_OK(bantam_model_save(model.get(), file.c_str()));
  const std::string expected = greedy_text(model.get(), "It was");
  CHECK(expected.size() > 20);
  CHECK(greedy_text(load(file).get(), "It was") == expected);

  const std::string bytes = file_bytes(file);
  bantam_model* made = nullptr;
  REQUIRE_OK(bantam_model_load_memory(&made, bytes.data(), bytes.size(), nullptr));
  const Owned<bantam_model> from_memory(made);
  CHECK(greedy_text(from_memory.get(), "It was") == expected);

  struct Source {
    const std::string* bytes;
    std::size_t at = 0;
  } source{&bytes};
  const auto read = [](void* to, std::size_t count, void* user) -> std::int64_t {
    auto& s = *static_cast<Source*>(user);
    count = std::min({count, s.bytes->size() - s.at, std::size_t{7777}});
    std::memcpy(to, s.bytes->data() + s.at, count);
    s.at += count;
    return static_cast<std::int64_t>(count);
  };
  REQUIRE_OK(bantam_model_load_reader(&made, read, &source, nullptr));
  const Owned<bantam_model> from_reader(made);
  CHECK(greedy_text(from_reader.get(), "It was") == expected);
}

TEST_CASE("what cannot be loaded is said, and the out-parameter stays") {
  bantam_model* model = nullptr;
  CHECK(bantam_model_load(&model, "/no/such/file") == BANTAM_NOT_FOUND);
  CHECK(std::string(bantam_last_error()).find("/no/such/file") != std::string::npos);
  CHECK(bantam_model_load(&model, nullptr) == BANTAM_INVALID_ARGUMENT);
  CHECK(bantam_model_load(nullptr, "x") == BANTAM_INVALID_ARGUMENT);
  CHECK(bantam_model_load_memory(&model, "GGUF\3\0\0\0rubbish", 15, nullptr) == BANTAM_CORRUPT);
  CHECK(std::string(bantam_last_error()).find("model in memory") == 0);
  CHECK(bantam_model_load_memory(&model, nullptr, 0, nullptr) < 0);
  const auto failing = [](void*, std::size_t, void*) -> std::int64_t { return -5; };
  CHECK(bantam_model_load_reader(&model, failing, nullptr, nullptr) == BANTAM_IO);
  const auto lying = [](void*, std::size_t bytes, void*) { return static_cast<std::int64_t>(bytes) + 1; };
  CHECK(bantam_model_load_reader(&model, lying, nullptr, nullptr) == BANTAM_INVALID_ARGUMENT);
  bantam_load_options options = BANTAM_LOAD_OPTIONS_INIT;
  options.memory = "elsewhere";
  CHECK(bantam_model_load_with(&model, model_path().c_str(), &options) == BANTAM_INVALID_ARGUMENT);
  CHECK(std::string(bantam_last_error()).find("huge_pages") != std::string::npos);
  options.memory = "automatic";
  for (const char* limit : {"1", "-1", "much", ""}) {
    const bantam_setting setting{"memory_limit", limit};
    options.settings = &setting;
    options.setting_count = 1;
    CHECK(bantam_model_load_with(&model, model_path().c_str(), &options) != BANTAM_OK);
    CHECK(std::string(bantam_last_error()).find(std::string(limit) == "1" ? "bytes for weights, found a limit of 1" : "memory_limit: expected") != std::string::npos);
  }
  for (const auto& [map, line] : {std::pair("{\"\": 0}", "expected \"cpu\" or \"disk\", found 0"), {"disk", "device_map"}, {"{\"model.layers.0\": \"disk\"}", "expected a device for model."}}) {
    const bantam_setting setting{"device_map", map};
    options.settings = &setting;
    CHECK(bantam_model_load_with(&model, model_path().c_str(), &options) == (std::string(map) == "disk" ? BANTAM_CORRUPT : BANTAM_INVALID_ARGUMENT));
    CHECK(std::string(bantam_last_error()).find(line) != std::string::npos);
  }
  CHECK(model == nullptr);
  const bantam_setting on_disk{"device_map", "{\"\": \"disk\"}"};
  options.settings = &on_disk;
  REQUIRE_OK(bantam_model_load_with(&model, model_path().c_str(), &options));
  bantam_model_free(model);
}

TEST_CASE("a model says what it is and what it consists of") {
  const auto model = load();
  bantam_model_info info = BANTAM_MODEL_INFO_INIT;
  REQUIRE_OK(bantam_model_get_info(model.get(), &info));
  CHECK(std::string(info.architecture) == "llama");
  CHECK(info.layers > 0);
  CHECK(info.width == info.heads * info.head_width);
  std::int64_t weights = 0, bytes = 0;
  for (std::size_t i = 0; i < bantam_model_tensor_count(model.get()); ++i) {
    bantam_tensor_info tensor = BANTAM_TENSOR_INFO_INIT;
    REQUIRE_OK(bantam_model_get_tensor(model.get(), i, &tensor));
    if (tensor.is_matrix != 0) {
      weights += tensor.rows * tensor.columns;
      bytes += tensor.bytes;
    }
    std::vector<float> numbers(static_cast<std::size_t>(tensor.rows * tensor.columns), NAN);
    REQUIRE_OK(bantam_model_read_tensor(model.get(), tensor.name, numbers.data(), numbers.size()));
    for (const float x : numbers) REQUIRE(std::isfinite(x));
    CHECK(bantam_model_read_tensor(model.get(), tensor.name, numbers.data(), numbers.size() - 1) == BANTAM_INVALID_ARGUMENT);
  }
  CHECK(weights == info.weights);
  CHECK(bytes == info.bytes);
  float x = 0;
  CHECK(bantam_model_read_tensor(model.get(), "model.layers.99.mlp.up_proj", &x, 1) == BANTAM_NOT_FOUND);
}

TEST_CASE("text becomes tokens and text again, through arrays of any room") {
  const auto model = load();
  const std::string text = "Grüße, said the old man.\n";
  const auto ids = tokenize(model.get(), text, 0);
  std::size_t needed = 0;
  std::vector<std::int32_t> few(2, -7);
  REQUIRE_OK(bantam_tokenize(model.get(), text.data(), text.size(), 0, few.data(), 1, &needed));
  CHECK(needed == ids.size());
  CHECK(few == std::vector<std::int32_t>{ids[0], -7});
  std::string back(200, '?');
  REQUIRE_OK(bantam_detokenize(model.get(), ids.data(), ids.size(), 0, back.data(), back.size(), &needed));
  CHECK(std::string(back.c_str()) == text);
  CHECK(needed == text.size());
  const std::int32_t outside = 1 << 30;
  CHECK(bantam_detokenize(model.get(), &outside, 1, 0, back.data(), back.size(), &needed) == BANTAM_INVALID_ARGUMENT);
  std::string pieces;
  for (const std::int32_t id : ids) {
    char piece[64];
    REQUIRE_OK(bantam_token_bytes(model.get(), id, piece, sizeof piece, &needed));
    pieces.append(piece, needed);
  }
  CHECK(pieces.find("said the old man.\n") != std::string::npos);
  CHECK(bantam_token_ends(model.get(), ids[0]) == 0);
}
