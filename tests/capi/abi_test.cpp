#include <cstddef>

#include "support.hpp"

using namespace capi_test;

TEST_CASE("structs of an older and of a newer header are accepted") {
  const auto model = load();
  // Older: only the first fields exist; what lies behind is not read.
  struct {
    std::size_t struct_size;
    std::int64_t max_tokens;
    float temperature;
    float not_ours = 1e30f;
  } old{offsetof(bantam_generate_options, top_k), 5, 0};
  bantam_generation* made = nullptr;
  const auto session = open(model.get());
  REQUIRE_OK(bantam_generation_new(&made, session.get(), "It", 2, reinterpret_cast<const bantam_generate_options*>(&old)));
  const Owned<bantam_generation> generation(made);
  CHECK(rest_of(generation.get()) == greedy_text(model.get(), "It", 5));
  // Newer: longer, with fields that this library does not know.
  struct {
    bantam_generate_options known = greedy(5);
    double news[4] = {1, 2, 3, 4};
  } newer;
  newer.known.struct_size = sizeof newer;
  const auto other = open(model.get());
  REQUIRE_OK(bantam_generation_new(&made, other.get(), "It", 2, &newer.known));
  const Owned<bantam_generation> same(made);
  CHECK(rest_of(same.get()) == greedy_text(model.get(), "It", 5));
  // An info struct is filled as far as it goes.
  bantam_model_info info = BANTAM_MODEL_INFO_INIT;
  info.struct_size = offsetof(bantam_model_info, layers);
  info.layers = -77;
  REQUIRE_OK(bantam_model_get_info(model.get(), &info));
  CHECK(info.layers == -77);
  CHECK(info.vocabulary > 0);
  CHECK(info.struct_size == offsetof(bantam_model_info, layers));
  // A struct that nobody initialized.
  bantam_generate_options none{};
  CHECK(bantam_generation_new(&made, session.get(), "It", 2, &none) == BANTAM_INVALID_ARGUMENT);
}

TEST_CASE("the library says what it is") {
  CHECK(bantam_version_number() / 1000 == BANTAM_VERSION_NUMBER / 1000);
  CHECK(std::string(bantam_version()) == std::to_string(BANTAM_VERSION_MAJOR) + "." + std::to_string(BANTAM_VERSION_MINOR) + "." +
                                             std::to_string(BANTAM_VERSION_PATCH));
  CHECK(bantam_has("format:i4.g64") == 1);
  CHECK(bantam_has("architecture:llama") == 1);
  CHECK(bantam_has("method:gptq") == 1);
  CHECK(bantam_has("target:gguf") == 1);
  CHECK(bantam_has((std::string("isa:") + bantam_isa()).c_str()) == 1);
  CHECK(bantam_has("format:") == 0);
  CHECK(bantam_has("nonsense") == 0);
  CHECK(bantam_has(nullptr) == 0);
  CHECK(bantam_core_count() >= 1);
  CHECK(bantam_set_isa("z80") == BANTAM_INVALID_ARGUMENT);
  CHECK_OK(bantam_set_isa(bantam_isa()));
  for (bantam_status status = 0; status >= BANTAM_INTERNAL; --status) CHECK(std::string(bantam_status_name(status)) != "unknown");
  CHECK(std::string(bantam_status_name(1)) == "unknown");
}

TEST_CASE("everything takes NULL") {
  bantam_model_free(nullptr);
  bantam_session_free(nullptr);
  bantam_generation_free(nullptr);
  bantam_sampler_free(nullptr);
  bantam_weights_free(nullptr);
  bantam_report_free(nullptr);
  bantam_session_cancel(nullptr);
  CHECK(bantam_model_tensor_count(nullptr) == 0);
  CHECK(bantam_token_ends(nullptr, 0) == 0);
  CHECK(bantam_session_context(nullptr) == 0);
  std::size_t bytes = 9;
  CHECK(std::string(bantam_generation_piece(nullptr, &bytes)).empty());
  CHECK(bytes == 0);
  CHECK(bantam_model_get_info(nullptr, nullptr) == BANTAM_INVALID_ARGUMENT);
  CHECK(bantam_session_prefill(nullptr, "", 0) == BANTAM_INVALID_ARGUMENT);
  CHECK(bantam_generation_next(nullptr, nullptr, nullptr) == BANTAM_INVALID_ARGUMENT);
  CHECK(bantam_weights_get_info(nullptr, nullptr) == BANTAM_INVALID_ARGUMENT);
  CHECK(bantam_report_get_info(nullptr, nullptr) == BANTAM_INVALID_ARGUMENT);
  CHECK(bantam_generations_step(nullptr, 0, nullptr) == BANTAM_OK);
}
