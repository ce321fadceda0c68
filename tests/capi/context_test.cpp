// What a program does with tokens and the cache by itself: rows of every position, batches of prompts, removal, state in memory.
#include <algorithm>

#include "support.hpp"

using namespace capi_test;

namespace {

std::vector<std::int32_t> held(const bantam_session* session) {
  const std::int32_t* ids = nullptr;
  std::size_t count = 0;
  REQUIRE_OK(bantam_session_tokens(session, &ids, &count));
  return {ids, ids + count};
}

std::vector<float> logits(bantam_session* session) {
  const float* row = nullptr;
  std::size_t count = 0;
  REQUIRE_OK(bantam_session_logits(session, &row, &count));
  return {row, row + count};
}

struct Rows {
  std::vector<std::vector<float>> rows;
  std::size_t most = 1000;
  static int take(std::int64_t index, const float* values, std::size_t count, void* user) {
    auto& self = *static_cast<Rows*>(user);
    CHECK(index == static_cast<std::int64_t>(self.rows.size()));
    self.rows.emplace_back(values, values + count);
    return self.rows.size() == self.most ? 1 : 0;
  }
};

}  // namespace

TEST_CASE("logits come at every position, states as wide as the model, and the callback stops") {
  const auto model = load();
  const auto ids = tokenize(model.get(), "The old captain looked at the sea");
  const auto session = open(model.get());
  Rows seen;
  REQUIRE_OK(bantam_session_score(session.get(), ids.data(), ids.size(), Rows::take, &seen));
  REQUIRE(seen.rows.size() == ids.size());
  const auto step = open(model.get());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    REQUIRE_OK(bantam_session_prefill_tokens(step.get(), &ids[i], 1));
    CHECK(logits(step.get()) == seen.rows[i]);
  }
  Rows states;
  const auto other = open(model.get());
  REQUIRE_OK(bantam_session_states(other.get(), ids.data(), ids.size(), Rows::take, &states));
  bantam_model_info info = BANTAM_MODEL_INFO_INIT;
  REQUIRE_OK(bantam_model_get_info(model.get(), &info));
  REQUIRE(states.rows.size() == ids.size());
  CHECK(static_cast<std::int64_t>(states.rows[0].size()) == info.width);
  Rows few;
  few.most = 2;
  CHECK(bantam_session_score(session.get(), ids.data(), ids.size(), Rows::take, &few) == BANTAM_CANCELLED);
  CHECK(few.rows.size() == 2);
  CHECK(held(session.get()) == ids);
  CHECK(bantam_session_score(session.get(), ids.data(), ids.size(), nullptr, nullptr) == BANTAM_INVALID_ARGUMENT);
}

TEST_CASE("a batch of prompts leaves each session as if it had read alone") {
  const auto model = load();
  const std::vector<std::vector<std::int32_t>> prompts = {tokenize(model.get(), "The sea"), {}, tokenize(model.get(), "A boy said to the old man")};
  std::vector<Owned<bantam_session>> owned;
  std::vector<bantam_session*> sessions;
  std::vector<const std::int32_t*> ids;
  std::vector<std::size_t> counts;
  for (const auto& prompt : prompts) {
    owned.push_back(open(model.get()));
    sessions.push_back(owned.back().get());
    ids.push_back(prompt.data());
    counts.push_back(prompt.size());
  }
  REQUIRE_OK(bantam_sessions_prefill(sessions.data(), ids.data(), counts.data(), sessions.size()));
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    CHECK(held(sessions[i]) == prompts[i]);
    if (prompts[i].empty()) continue;
    const auto alone = open(model.get());
    REQUIRE_OK(bantam_session_prefill_tokens(alone.get(), prompts[i].data(), prompts[i].size()));
    CHECK(logits(sessions[i]) == logits(alone.get()));
  }
  CHECK_OK(bantam_sessions_prefill(nullptr, nullptr, nullptr, 0));
  CHECK(bantam_sessions_prefill(nullptr, ids.data(), counts.data(), 1) == BANTAM_INVALID_ARGUMENT);
  CHECK(bantam_sessions_prefill(sessions.data(), ids.data(), nullptr, 1) == BANTAM_INVALID_ARGUMENT);
  sessions[1] = sessions[0];
  counts[1] = 1;
  CHECK(bantam_sessions_prefill(sessions.data(), ids.data(), counts.data(), 2) == BANTAM_INVALID_ARGUMENT);
  sessions[1] = owned[1].get();
  ids[1] = ids[0];
  bantam_session_cancel(owned[1].get());
  CHECK(bantam_sessions_prefill(sessions.data(), ids.data(), counts.data(), 2) == BANTAM_CANCELLED);
  CHECK(held(sessions[0]) == prompts[0]);
}

TEST_CASE("a range is removed, its end as if never read, and wrong ranges are refused") {
  const auto model = load();
  const auto ids = tokenize(model.get(), "The old captain looked at the sea, and said to the boy that");
  const auto session = open(model.get()), fresh = open(model.get());
  REQUIRE_OK(bantam_session_prefill_tokens(session.get(), ids.data(), ids.size()));
  for (const auto& [first, last] : {std::pair<std::size_t, std::size_t>{3, 2}, {0, ids.size() + 1}, {0, SIZE_MAX}, {SIZE_MAX, SIZE_MAX}}) {
    CHECK(bantam_session_remove(session.get(), first, last) == BANTAM_INVALID_ARGUMENT);
  }
  CHECK(bantam_session_remove(nullptr, 0, 0) == BANTAM_INVALID_ARGUMENT);
  REQUIRE_OK(bantam_session_remove(session.get(), 5, ids.size()));
  REQUIRE_OK(bantam_session_prefill_tokens(fresh.get(), ids.data(), 5));
  CHECK(logits(session.get()) == logits(fresh.get()));
  REQUIRE_OK(bantam_session_remove(session.get(), 1, 3));
  CHECK(held(session.get()) == std::vector<std::int32_t>{ids[0], ids[3], ids[4]});
  CHECK(logits(session.get()).size() == 4096);
}

TEST_CASE("a session goes to memory and back, through buffers of any size") {
  const auto model = load();
  const auto session = open(model.get());
  REQUIRE_OK(bantam_session_prefill(session.get(), "In the morning the", 18));
  std::size_t size = 0, again = 0;
  REQUIRE_OK(bantam_session_save_memory(session.get(), nullptr, 0, &size));
  CHECK(size > 1000);
  std::vector<unsigned char> bytes(size + 8, 0xee);
  REQUIRE_OK(bantam_session_save_memory(session.get(), bytes.data(), 100, &again));
  CHECK(again == size);
  CHECK(bytes[100] == 0xee);
  REQUIRE_OK(bantam_session_save_memory(session.get(), bytes.data(), bytes.size(), &again));
  CHECK(bytes[size] == 0xee);
  const Folder folder;
  REQUIRE_OK(bantam_session_save(session.get(), (folder / "s").c_str()));
  CHECK(file_bytes(folder / "s") == std::string(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)));
  const auto options = two_threads();
  bantam_session* made = nullptr;
  REQUIRE_OK(bantam_session_restore_memory(&made, model.get(), bytes.data(), size, &options));
  const Owned<bantam_session> restored(made);
  const std::string expected = rest_of(start(session.get(), "", greedy(12)).get());
  CHECK(rest_of(start(restored.get(), "", greedy(12)).get()) == expected);
  for (std::size_t n = 0; n < size; n += n < 100 ? 1 : 4001) {
    CHECK(bantam_session_restore_memory(&made, model.get(), bytes.data(), n, &options) == BANTAM_CORRUPT);
  }
  CHECK(bantam_session_restore_memory(&made, model.get(), nullptr, 5, &options) == BANTAM_INVALID_ARGUMENT);
  CHECK(bantam_session_save_memory(session.get(), nullptr, 5, &size) == BANTAM_INVALID_ARGUMENT);
}
