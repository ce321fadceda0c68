// Taking tokens out of a session.
#include <cmath>

#include "bantam/bantam.hpp"
#include "kv_kinds.hpp"
#include "session/demo.hpp"
#include "tiny_model.hpp"

using namespace bantam;
using namespace bantam::test;

namespace {

std::vector<TokenId> text_tokens(std::size_t count) {
  std::vector<TokenId> ids;
  while (ids.size() < count) {
    const auto more = demo().tokenizer().encode("The old captain looked at the sea, and said to the boy that ");
    ids.insert(ids.end(), more.begin(), more.end());
  }
  ids.resize(count);
  return ids;
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::fabs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  return worst;
}

}  // namespace

TEST_CASE("removing the end gives, bit for bit, a session that never read it") {
  const auto ids = text_tokens(150);
  for (const char* kv : test::kv_kinds()) {
    for (const std::size_t kept : {1u, 63u, 64u, 100u, 149u}) {
      Session session(demo(), {.kv = kv});
      session.prefill(ids);
      session.remove(static_cast<std::int64_t>(kept), 150);
      Session fresh(demo(), {.kv = kv});
      fresh.prefill(std::span(ids).first(kept));
      CHECK(session.tokens() == fresh.tokens());
      CHECK(logits_of(session) == logits_of(fresh));
    }
  }
}

TEST_CASE("in a model of one layer removing a range is not having read it") {
  // There keys and values are of tokens alone, whatever stands before them; deeper ones have seen what went.
  const test::TemporaryFolder folder;
  test::TinyModel tiny;
  tiny.layers = 1;
  tiny.context = 256;
  tiny.make().write_folder(folder / "model");
  const Model model = Model::load(folder / "model");
  const std::vector<TokenId> ids = test::some_tokens(200);
  // f32 and f16 by their roundings; the others store keys twice. Logits are of the order of 1.
  for (const auto& [kv, tolerance] : {std::pair{"f32", 1e-4}, std::pair{"f16", 5e-3}, std::pair{"q8", 5e-2}, std::pair{"q4", 6e-1}, std::pair{"q3", 1.2}}) {
    for (const auto& [first, last] : {std::pair{1, 2}, std::pair{10, 90}, std::pair{64, 128}, std::pair{0, 199}}) {
      CAPTURE(kv);
      CAPTURE(first);
      Session session(model, {.kv = kv});
      session.prefill(ids);
      session.remove(first, last);
      std::vector<TokenId> left = ids;
      left.erase(left.begin() + first, left.begin() + last);
      CHECK(session.tokens() == left);
      Session fresh(model, {.kv = kv});
      fresh.prefill(left);
      CHECK(distance(logits_of(session), logits_of(fresh)) < tolerance);
    }
  }
}

TEST_CASE("a session goes on after its context was made free, and forks keep theirs") {
  const auto ids = text_tokens(128);
  Session session(demo(), {.context = 128});
  session.prefill(ids);
  Session fork = session.fork();
  const std::vector<float> before = logits_of(fork);
  CHECK_FALSE(test::error_of([&] { session.prefill(std::span(ids).first(1)); }).empty());
  session.remove(4, 68);
  CHECK(session.tokens().size() == 64);
  const std::string more = session.stream("", {.max_tokens = 40, .sampling = {.temperature = 0}, .ignore_end = true}).text();
  CHECK(!more.empty());
  CHECK(session.tokens().size() == 104);
  CHECK(fork.tokens() == ids);
  fork.truncate(127);
  fork.prefill(std::span(ids).last(1));
  CHECK(logits_of(fork) == before);
  // Twice, and up to what waits to be read.
  session.remove(0, 30);
  session.remove(60, 73);
  CHECK(session.tokens().size() == 61);
  (void)session.logits();
}

TEST_CASE("ranges that are not held are refused, and empty ones change nothing") {
  Session session(demo());
  session.prefill(text_tokens(10));
  const std::vector<float> before = logits_of(session);
  for (const auto& [first, last] : {std::pair<std::int64_t, std::int64_t>{-1, 3}, {4, 3}, {3, 11}, {11, 11}, {0, INT64_MAX}, {INT64_MIN, 0}}) {
    CHECK(test::error_of([&] { session.remove(first, last); }).find("remove") == 0);
  }
  session.remove(5, 5);
  session.remove(10, 10);
  CHECK(session.tokens().size() == 10);
  CHECK(logits_of(session) == before);
}
