// What the tests of the C interface share. They include bantam.h alone, as its users do.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "bantam.h"

#define CHECK_OK(call) CHECK_MESSAGE((call) == BANTAM_OK, bantam_last_error())
#define REQUIRE_OK(call) REQUIRE_MESSAGE((call) == BANTAM_OK, bantam_last_error())

namespace capi_test {

struct Free {
  void operator()(bantam_model* p) const { bantam_model_free(p); }
  void operator()(bantam_session* p) const { bantam_session_free(p); }
  void operator()(bantam_generation* p) const { bantam_generation_free(p); }
  void operator()(bantam_sampler* p) const { bantam_sampler_free(p); }
  void operator()(bantam_weights* p) const { bantam_weights_free(p); }
  void operator()(bantam_report* p) const { bantam_report_free(p); }
  void operator()(bantam_texts* p) const { bantam_texts_free(p); }
  void operator()(bantam_adapter* p) const { bantam_adapter_free(p); }
  void operator()(bantam_scheduler* p) const { bantam_scheduler_free(p); }
  void operator()(bantam_embedder* p) const { bantam_embedder_free(p); }
};
template <class T>
using Owned = std::unique_ptr<T, Free>;

inline std::string model_path() { return BANTAM_SOURCE_DIR "/models/books4m"; }

inline Owned<bantam_model> load(const std::string& path = model_path()) {
  bantam_model* model = nullptr;
  REQUIRE_OK(bantam_model_load(&model, path.c_str()));
  return Owned<bantam_model>(model);
}

struct Compressed {
  Owned<bantam_model> model;
  Owned<bantam_report> report;
};

inline Compressed compressed(const bantam_model* model, bantam_compress_options options) {
  bantam_report* report = nullptr;
  bantam_model* small = nullptr;
  options.report = &report;
  REQUIRE_OK(bantam_model_compress(&small, model, &options));
  return {Owned<bantam_model>(small), Owned<bantam_report>(report)};
}

inline bantam_session_options two_threads() {
  bantam_session_options options = BANTAM_SESSION_OPTIONS_INIT;
  options.context_tokens = 256;
  options.threads = 2;
  return options;
}

inline Owned<bantam_session> open(const bantam_model* model, bantam_session_options options = two_threads()) {
  bantam_session* session = nullptr;
  REQUIRE_OK(bantam_session_new(&session, model, &options));
  return Owned<bantam_session>(session);
}

inline bantam_generate_options greedy(std::int64_t tokens) {
  bantam_generate_options options = BANTAM_GENERATE_OPTIONS_INIT;
  options.max_tokens = tokens;
  options.temperature = 0;
  return options;
}

inline Owned<bantam_generation> start(bantam_session* session, const std::string& prompt, const bantam_generate_options& options) {
  bantam_generation* generation = nullptr;
  REQUIRE_OK(bantam_generation_new(&generation, session, prompt.data(), prompt.size(), &options));
  return Owned<bantam_generation>(generation);
}

/// What is left of a generation.
inline std::string rest_of(bantam_generation* generation) {
  std::string all;
  const char* text = "";
  while (text != nullptr) {
    std::size_t bytes = 0;
    REQUIRE_OK(bantam_generation_next(generation, &text, &bytes));
    if (text != nullptr) all.append(text, bytes);
  }
  return all;
}

inline std::string greedy_text(const bantam_model* model, const std::string& prompt, std::int64_t tokens = 24) {
  const auto session = open(model);
  return rest_of(start(session.get(), prompt, greedy(tokens)).get());
}

inline std::vector<std::int32_t> tokenize(const bantam_model* model, const std::string& text, std::uint32_t flags = BANTAM_ADD_SPECIAL) {
  std::size_t count = 0;
  REQUIRE_OK(bantam_tokenize(model, text.data(), text.size(), flags, nullptr, 0, &count));
  std::vector<std::int32_t> ids(count);
  REQUIRE_OK(bantam_tokenize(model, text.data(), text.size(), flags, ids.data(), ids.size(), &count));
  return ids;
}

/// A folder for a test's files, gone with it.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "bantam-capi-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

inline std::string file_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Writes an adapter of books4m as PEFT does: of two matrices, with numbers that `seed` tells apart.
inline std::string write_adapter(const std::string& folder, float seed = 1) {
  std::filesystem::create_directories(folder);
  std::string header = "{", data;
  const auto add = [&](const std::string& name, int rows, int columns, float size) {
    const std::size_t begin = data.size();
    for (int i = 0; i < rows * columns; ++i) {
      const float value = size * std::sin(seed * static_cast<float>(i + 1) * 1.7F);
      data.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
    header += (header.size() > 1 ? "," : "") + ("\"base_model.model.model.layers." + name) + ".weight\":{\"dtype\":\"F32\",\"shape\":[" + std::to_string(rows) + "," +
              std::to_string(columns) + "],\"data_offsets\":[" + std::to_string(begin) + "," + std::to_string(data.size()) + "]}";
  };
  for (const std::string module : {"0.self_attn.q_proj", "3.self_attn.o_proj"}) {
    add(module + ".lora_A", 4, 256, 0.1F);
    add(module + ".lora_B", 256, 4, 0.1F);
  }
  header += "}";
  std::uint64_t size = header.size();
  std::ofstream(folder + "/adapter_model.safetensors", std::ios::binary) << std::string(reinterpret_cast<const char*>(&size), sizeof size) << header << data;
  std::ofstream(folder + "/adapter_config.json") << R"({"peft_type": "LORA", "r": 4, "lora_alpha": 8})";
  return folder;
}

}  // namespace capi_test
