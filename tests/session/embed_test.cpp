// Hidden states and the embeddings made of them.
#include "bantam/bantam.hpp"
#include "session/demo.hpp"
#include "support.hpp"

#include <cmath>

using namespace bantam;
using namespace bantam::test;

namespace {

std::vector<std::vector<float>> states_of(Session& session, std::span<const TokenId> ids) {
  std::vector<std::vector<float>> states;
  session.states(ids, [&](std::int64_t index, std::span<const float> state) {
    CHECK(index == static_cast<std::int64_t>(states.size()));
    states.emplace_back(state.begin(), state.end());
  });
  return states;
}

std::vector<TokenId> long_text() {
  std::string text;
  while (text.size() < 700) text += "The old captain looked at the sea, and said to the boy that there would be wind. ";
  return demo().tokenizer().encode(text);
}

}  // namespace

TEST_CASE("the head makes of a hidden state the logits that score() gives") {
  const auto ids = demo().tokenizer().encode("The old captain looked at the sea");
  Session session(demo());
  const auto states = states_of(session, ids);
  REQUIRE(states.size() == ids.size());
  CHECK(session.tokens() == ids);
  const std::vector<float> next(session.logits().begin(), session.logits().end());
  Session other(demo());
  const WeightMatrix& head = demo().weights().head;
  std::vector<float> row(static_cast<std::size_t>(head.columns()));
  RowCodes scratch;
  other.score(ids, [&](std::int64_t index, std::span<const float> logits) {
    const std::vector<float>& state = states[static_cast<std::size_t>(index)];
    for (std::size_t id = 0; id < logits.size(); id += 37) {
      head.read_row(static_cast<std::int64_t>(id), row, scratch);
      double sum = 0;
      for (std::size_t i = 0; i < row.size(); ++i) sum += static_cast<double>(row[i]) * static_cast<double>(state[i]);
      CHECK(std::abs(sum - static_cast<double>(logits[id])) < 2e-3);
    }
    if (index + 1 == static_cast<std::int64_t>(ids.size())) CHECK(std::ranges::equal(logits, next));
  });
}

TEST_CASE("hidden states do not depend on how tokens come") {
  const auto ids = long_text();
  Session whole(demo());
  const auto expected = states_of(whole, ids);
  Session pieces(demo());
  auto states = states_of(pieces, std::span(ids).first(5));
  for (auto& state : states_of(pieces, std::span(ids).subspan(5))) states.push_back(std::move(state));
  CHECK(states == expected);
}

TEST_CASE("an embedding is the mean, the first or the last state, whatever the session held") {
  const auto ids = long_text();
  Session session(demo());
  const auto states = states_of(session, ids);
  for (const Pooling pooling : poolings) {
    CAPTURE(name_of(pooling));
    CHECK(find_pooling(name_of(pooling)) == pooling);
    const std::vector<float> raw = embed(session, ids, {.pooling = pooling, .normalize = false});
    CHECK(session.tokens() == ids);
    const std::vector<float> unit = embed(session, ids, {.pooling = pooling});
    REQUIRE(raw.size() == static_cast<std::size_t>(demo().config().dim));
    double length = 0;
    for (const float x : raw) length += static_cast<double>(x) * static_cast<double>(x);
    length = std::sqrt(length);
    for (std::size_t i = 0; i < raw.size(); ++i) {
      double expected = 0;
      for (const auto& state : states) expected += static_cast<double>(state[i]) / static_cast<double>(states.size());
      if (pooling == Pooling::cls) expected = static_cast<double>(states.front()[i]);
      if (pooling == Pooling::last) expected = static_cast<double>(states.back()[i]);
      CHECK(static_cast<double>(raw[i]) == doctest::Approx(expected).epsilon(1e-5));
      CHECK(static_cast<double>(unit[i]) == doctest::Approx(static_cast<double>(raw[i]) / length).epsilon(1e-5));
    }
  }
  CHECK(embed(session, "The sea") == embed(session, demo().tokenizer().encode("The sea")));
}

TEST_CASE("an embedding of fewer dimensions is the beginning of the whole one, of its own length") {
  const auto ids = demo().tokenizer().encode("The old captain looked at the sea");
  const std::int64_t dim = demo().config().embedding_dim();
  Session session(demo());
  Engine engine(demo());
  const std::vector<float> raw = embed(session, ids, {.normalize = false});
  for (const std::int64_t dimensions : {std::int64_t{1}, dim / 3, dim - 1, dim}) {
    CAPTURE(dimensions);
    const std::vector<float> cut = embed(session, ids, {.normalize = false, .dimensions = dimensions});
    CHECK(cut == std::vector<float>(raw.begin(), raw.begin() + dimensions));
    double length = 0;
    for (const float x : cut) length += static_cast<double>(x) * static_cast<double>(x);
    const std::vector<float> unit = embed(session, ids, {.dimensions = dimensions});
    REQUIRE(unit.size() == cut.size());
    for (std::size_t i = 0; i < cut.size(); ++i) CHECK(static_cast<double>(unit[i]) == doctest::Approx(static_cast<double>(cut[i]) / std::sqrt(length)).epsilon(1e-5));
    const Tensor<float, 2> rows = embed(engine, std::vector<std::vector<TokenId>>{ids, {1, 2}}, {.dimensions = dimensions});
    CHECK(rows.extent(1) == dimensions);
    for (std::size_t i = 0; i < cut.size(); ++i) CHECK(static_cast<double>(rows(0, static_cast<std::int64_t>(i))) == doctest::Approx(static_cast<double>(unit[i])).epsilon(1e-3));
  }
  for (const std::int64_t wrong : {std::int64_t{-1}, dim + 1}) {
    CHECK(test::error_of([&] { (void)embed(session, ids, {.dimensions = wrong}); }).find("dimensions: expected 1 to") != std::string::npos);
    CHECK(test::error_of([&] { (void)embed(engine, std::vector<std::vector<TokenId>>{ids}, {.dimensions = wrong}); }).find("dimensions: expected 1 to") != std::string::npos);
  }
}

TEST_CASE("what cannot be embedded is refused with one line") {
  Session session(demo(), {.context = 8});
  CHECK(test::error_of([&] { (void)embed(session, std::vector<TokenId>{}); }).find("expected at least one token") != std::string::npos);
  CHECK(test::error_of([&] { (void)embed(session, std::vector<TokenId>(9, 1)); }).find("expected at most 8 tokens") != std::string::npos);
  CHECK(test::error_of([] { (void)find_pooling("max"); }).find("mean, cls, last") != std::string::npos);
}
