#include <algorithm>
#include <cstddef>
#include <cstring>

#include "limits.hpp"
#include "support.hpp"

using namespace capi_test;

TEST_CASE("structs of an older and of a newer header are accepted") {
  const auto model = load();
  // Older: only the first fields exist; what lies behind is not read.
  struct {
    std::size_t struct_size;
    std::int64_t max_tokens;
    float temperature;
    std::int32_t top_k;
    float not_ours = 1e30f;
  } old{offsetof(bantam_generate_options, top_p), 5, 0, 40};
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

namespace {

/// Calls with every struct_size there may be, on a struct that fills its memory to the last byte: what is no size of a struct is
/// refused with a word, and no pointer is ever half of the caller's.
template <class T, class Call>
void check_sizes(const char* name, const T& initial, const Call& call) {
  CAPTURE(name);
  for (std::size_t size = 0; size <= sizeof(T) + 64; ++size) {
    // A whole struct is a call that does what it is asked to: half of them.
    if (bantam::test::quick() && size % 16 == 8) continue;
    CAPTURE(size);
    // Bytes behind a shorter struct are another's.
    std::vector<std::byte> memory(std::max(size, sizeof(std::size_t)) + sizeof(T), std::byte{0x5a});
    std::memcpy(memory.data(), &initial, std::min(size, sizeof(T)));
    std::memcpy(memory.data(), &size, sizeof size);
    const bantam_status status = call(reinterpret_cast<T*>(memory.data()));
    const bool whole = size > sizeof(std::size_t) && size % 8 == 0;
    CHECK_MESSAGE(status == (whole ? BANTAM_OK : BANTAM_INVALID_ARGUMENT), bantam_last_error());
    if (!whole) CHECK(std::string(bantam_last_error()).find("struct_size") != std::string::npos);
  }
  T huge = initial;
  huge.struct_size = SIZE_MAX;
  CHECK(call(&huge) == BANTAM_INVALID_ARGUMENT);
}

}  // namespace

TEST_CASE("a struct_size that no struct has is refused") {
  const auto model = load();
  const auto session = open(model.get());
  check_sizes("load", bantam_load_options BANTAM_LOAD_OPTIONS_INIT, [](const bantam_load_options* o) {
    bantam_model* made = nullptr;
    const bantam_status status = bantam_model_load_with(&made, model_path().c_str(), o);
    bantam_model_free(made);
    return status;
  });
  check_sizes("session", bantam_session_options BANTAM_SESSION_OPTIONS_INIT, [&](const bantam_session_options* o) {
    bantam_session* made = nullptr;
    const bantam_status status = bantam_session_new(&made, model.get(), o);
    bantam_session_free(made);
    return status;
  });
  check_sizes("generate", bantam_generate_options BANTAM_GENERATE_OPTIONS_INIT, [&](const bantam_generate_options* o) {
    bantam_sampler* made = nullptr;
    const bantam_status status = bantam_sampler_new(&made, model.get(), o);
    bantam_sampler_free(made);
    return status;
  });
  check_sizes("compress", bantam_compress_options BANTAM_COMPRESS_OPTIONS_INIT, [&](const bantam_compress_options* o) {
    bantam_model* made = nullptr;
    const bantam_status status = bantam_model_compress(&made, model.get(), o);
    bantam_model_free(made);
    return status;
  });
  bantam_perplexity_result result = BANTAM_PERPLEXITY_RESULT_INIT;
  check_sizes("perplexity", bantam_perplexity_options BANTAM_PERPLEXITY_OPTIONS_INIT, [&](const bantam_perplexity_options* o) {
    return bantam_model_perplexity(model.get(), nullptr, "a b", 3, o, &result);
  });
  check_sizes("allocator", bantam_allocator BANTAM_ALLOCATOR_INIT, [](const bantam_allocator* a) { return bantam_set_allocator(a); });
  check_sizes("model info", bantam_model_info BANTAM_MODEL_INFO_INIT, [&](bantam_model_info* i) { return bantam_model_get_info(model.get(), i); });
  check_sizes("tensor info", bantam_tensor_info BANTAM_TENSOR_INFO_INIT, [&](bantam_tensor_info* i) { return bantam_model_get_tensor(model.get(), 0, i); });
  check_sizes("token info", bantam_token_info BANTAM_TOKEN_INFO_INIT, [&](bantam_token_info* i) { return bantam_model_get_token(model.get(), 0, i); });
  const auto generation = start(session.get(), "The captain", greedy(2));
  check_sizes("stats", bantam_stats BANTAM_STATS_INIT, [&](bantam_stats* i) { return bantam_generation_get_stats(generation.get(), i); });
  check_sizes("beams", bantam_beam_options BANTAM_BEAM_OPTIONS_INIT, [&](const bantam_beam_options* o) {
    const std::int32_t id = 5;
    bantam_texts* made = nullptr;
    const bantam_status status = bantam_beam_search(&made, session.get(), &id, 1, o);
    bantam_texts_free(made);
    return status;
  });
  const Compressed small = compressed(model.get(), BANTAM_COMPRESS_OPTIONS_INIT);
  check_sizes("report info", bantam_report_info BANTAM_REPORT_INFO_INIT,
              [&](bantam_report_info* i) { return bantam_report_get_info(small.report.get(), i); });
  check_sizes("result", result, [&](bantam_perplexity_result* r) { return bantam_model_perplexity(model.get(), nullptr, "a b", 3, nullptr, r); });
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
  for (bantam_status status = 0; status >= BANTAM_GRAMMAR; --status) CHECK(std::string(bantam_status_name(status)) != "unknown");
  CHECK(std::string(bantam_status_name(1)) == "unknown");
}

TEST_CASE("everything takes NULL") {
  bantam_model_free(nullptr);
  bantam_session_free(nullptr);
  bantam_generation_free(nullptr);
  bantam_sampler_free(nullptr);
  bantam_weights_free(nullptr);
  bantam_report_free(nullptr);
  bantam_reply_free(nullptr);
  CHECK(std::string(bantam_model_reply_form(nullptr)) == "text");
  CHECK(bantam_reply_new(nullptr, nullptr, nullptr, 0, nullptr, 0) == BANTAM_INVALID_ARGUMENT);
  CHECK(bantam_reply_feed(nullptr, nullptr, 0, nullptr) == BANTAM_INVALID_ARGUMENT);
  CHECK(bantam_reply_finish(nullptr, nullptr) == BANTAM_INVALID_ARGUMENT);
  CHECK(bantam_reply_get_event(nullptr, 0, nullptr) == BANTAM_INVALID_ARGUMENT);
  bantam_session_cancel(nullptr);
  CHECK(bantam_model_tensor_count(nullptr) == 0);
  CHECK(bantam_model_metadata_count(nullptr) == 0);
  CHECK(bantam_token_count(nullptr) == 0);
  CHECK(bantam_model_get_token(nullptr, 0, nullptr) == BANTAM_INVALID_ARGUMENT);
  CHECK(bantam_model_get_metadata(nullptr, 0, nullptr, nullptr) == BANTAM_INVALID_ARGUMENT);
  CHECK(bantam_model_load_tokenizer(nullptr, nullptr) == BANTAM_INVALID_ARGUMENT);
  CHECK(bantam_session_save_memory(nullptr, nullptr, 0, nullptr) == BANTAM_INVALID_ARGUMENT);
  CHECK(bantam_session_restore_memory(nullptr, nullptr, nullptr, 0, nullptr) == BANTAM_INVALID_ARGUMENT);
  CHECK(bantam_session_score(nullptr, nullptr, 0, nullptr, nullptr) == BANTAM_INVALID_ARGUMENT);
  CHECK(bantam_apply_chat_template_json(nullptr, nullptr, 0, nullptr, 0, nullptr) == BANTAM_INVALID_ARGUMENT);
  CHECK(bantam_render_chat_template(nullptr, 0, nullptr, 0, 0, nullptr, 0, nullptr) == BANTAM_INVALID_ARGUMENT);
  CHECK(bantam_generation_new_chat_json(nullptr, nullptr, nullptr, 0, nullptr) == BANTAM_INVALID_ARGUMENT);
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
