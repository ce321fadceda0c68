// Adapters through the C interface: loading, sessions, restoring, merging, errors.
#include <cstddef>
#include <limits>

#include "support.hpp"

using namespace capi_test;

namespace {

const std::string adapter_prompt = "It was a dark night, and";

Owned<bantam_adapter> load_adapter(const bantam_model* model, const std::string& path) {
  bantam_adapter* adapter = nullptr;
  REQUIRE_OK(bantam_adapter_load(&adapter, model, path.c_str()));
  return Owned<bantam_adapter>(adapter);
}

std::vector<float> adapted(bantam_session* session) {
  const float* logits = nullptr;
  std::size_t count = 0;
  REQUIRE_OK(bantam_session_logits(session, &logits, &count));
  return {logits, logits + count};
}

/// Logits behind the prompt, in a session that had its adapters from the start.
std::vector<float> adapted_from_start(const bantam_model* model, const std::vector<const bantam_adapter*>& adapters, const std::vector<float>& scales) {
  bantam_session_options options = two_threads();
  options.adapters = adapters.data();
  options.adapter_scales = scales.data();
  options.adapter_count = adapters.size();
  const auto session = open(model, options);
  REQUIRE_OK(bantam_session_prefill(session.get(), adapter_prompt.data(), adapter_prompt.size()));
  return adapted(session.get());
}

}  // namespace

TEST_CASE("a session has adapters from the start or later, and none again") {
  const Folder folder;
  const auto model = load();
  const auto one = load_adapter(model.get(), write_adapter(folder / "one")), two = load_adapter(model.get(), write_adapter(folder / "two", 2));
  bantam_adapter_info info = BANTAM_ADAPTER_INFO_INIT;
  CHECK_OK(bantam_adapter_get_info(one.get(), &info));
  CHECK(info.matrices == 2);
  CHECK(info.rank == 4);
  CHECK(info.bytes > 4 * 4 * 4 * 256);
  const std::vector<float> plain = adapted_from_start(model.get(), {}, {}), with_one = adapted_from_start(model.get(), {one.get()}, {1}),
                           with_both = adapted_from_start(model.get(), {one.get(), two.get()}, {0.5F, -1});
  CHECK(plain != with_one);
  CHECK(with_one != with_both);
  const auto session = open(model.get());
  CHECK_OK(bantam_session_prefill(session.get(), adapter_prompt.data(), adapter_prompt.size()));
  const bantam_adapter* both[] = {one.get(), two.get()};
  const float scales[] = {0.5F, -1};
  CHECK(adapted(session.get()) == plain);
  CHECK_OK(bantam_session_set_adapters(session.get(), both, nullptr, 1));
  CHECK(adapted(session.get()) == with_one);
  CHECK_OK(bantam_session_set_adapters(session.get(), both, scales, 2));
  CHECK(adapted(session.get()) == with_both);
  CHECK_OK(bantam_session_set_adapters(session.get(), nullptr, nullptr, 0));
  CHECK(adapted(session.get()) == plain);
}

TEST_CASE("sessions keep what they need of an adapter that is freed, and saved ones want it again") {
  const Folder folder;
  const auto model = load();
  auto adapter = load_adapter(model.get(), write_adapter(folder / "one"));
  const bantam_adapter* list[] = {adapter.get()};
  const std::vector<float> expected = adapted_from_start(model.get(), {adapter.get()}, {1});
  const auto session = open(model.get());
  CHECK_OK(bantam_session_set_adapters(session.get(), list, nullptr, 1));
  adapter.reset();
  CHECK_OK(bantam_session_prefill(session.get(), adapter_prompt.data(), adapter_prompt.size()));
  CHECK(adapted(session.get()) == expected);
  CHECK_OK(bantam_session_save(session.get(), (folder / "saved").c_str()));
  bantam_session* restored = nullptr;
  CHECK(bantam_session_restore(&restored, model.get(), (folder / "saved").c_str(), nullptr) == BANTAM_INVALID_ARGUMENT);
  CHECK(std::string(bantam_last_error()).find("expected a session without adapters") != std::string::npos);
  adapter = load_adapter(model.get(), folder / "one");
  list[0] = adapter.get();
  bantam_session_options options = two_threads();
  options.adapters = list;
  options.adapter_count = 1;
  REQUIRE_OK(bantam_session_restore(&restored, model.get(), (folder / "saved").c_str(), &options));
  const Owned<bantam_session> again(restored);
  CHECK(adapted(again.get()) == expected);
}

TEST_CASE("wrong adapters are refused, and leave the session as it was") {
  const Folder folder;
  const auto model = load();
  const auto adapter = load_adapter(model.get(), write_adapter(folder / "one"));
  bantam_adapter* none = nullptr;
  CHECK(bantam_adapter_load(&none, model.get(), (folder / "nothing").c_str()) == BANTAM_NOT_FOUND);
  std::ofstream(folder / "one" + "/adapter_config.json") << R"({"peft_type": "LORA", "r": 8, "lora_alpha": 8})";
  CHECK(bantam_adapter_load(&none, model.get(), (folder / "one").c_str()) == BANTAM_CORRUPT);
  CHECK(std::string(bantam_last_error()).find("expected tensors of rank 8, found 4") != std::string::npos);
  CHECK(bantam_adapter_load(&none, nullptr, (folder / "one").c_str()) == BANTAM_INVALID_ARGUMENT);
  CHECK(bantam_adapter_load(nullptr, model.get(), (folder / "one").c_str()) == BANTAM_INVALID_ARGUMENT);
  CHECK(bantam_adapter_load(&none, model.get(), nullptr) == BANTAM_INVALID_ARGUMENT);
  CHECK(none == nullptr);
  bantam_adapter_free(nullptr);
  const auto session = open(model.get());
  CHECK_OK(bantam_session_prefill(session.get(), adapter_prompt.data(), adapter_prompt.size()));
  const std::vector<float> before = adapted(session.get());
  const bantam_adapter* list[] = {adapter.get(), nullptr};
  const float scales[] = {std::numeric_limits<float>::quiet_NaN()};
  CHECK(bantam_session_set_adapters(session.get(), list, nullptr, 2) == BANTAM_INVALID_ARGUMENT);
  CHECK(bantam_session_set_adapters(session.get(), list, scales, 1) == BANTAM_INVALID_ARGUMENT);
  CHECK(bantam_session_set_adapters(session.get(), nullptr, nullptr, 1) == BANTAM_INVALID_ARGUMENT);
  CHECK(bantam_session_set_adapters(nullptr, list, nullptr, 1) == BANTAM_INVALID_ARGUMENT);
  CHECK(adapted(session.get()) == before);
}

TEST_CASE("adapters are merged by a setting of compression") {
  const Folder folder;
  const auto model = load();
  const std::string path = write_adapter(folder / "one"), choice = path + ":0.5";
  const auto adapter = load_adapter(model.get(), path);
  const bantam_setting settings[] = {{"merge_lora", choice.c_str()}};
  bantam_compress_options options = BANTAM_COMPRESS_OPTIONS_INIT;
  options.format = "f32";
  options.settings = settings;
  options.setting_count = 1;
  const Compressed merged = compressed(model.get(), options);
  const std::vector<float> expected = adapted_from_start(model.get(), {adapter.get()}, {0.5F}), found = adapted_from_start(merged.model.get(), {}, {});
  float largest = 0;
  for (std::size_t i = 0; i < found.size(); ++i) largest = std::max(largest, std::fabs(found[i] - expected[i]));
  // Keys and values are halves.
  CHECK(largest < 2e-2F);
  CHECK_OK(bantam_compress_file(model_path().c_str(), (folder / "m.bantam").c_str(), &options));
  CHECK(adapted_from_start(load(folder / "m.bantam").get(), {}, {}) == found);
}
