// The models of the shared data against golden.json, computed in double precision by other code.
#include <cmath>
#include <nlohmann/json.hpp>

#include "bantam/bantam.hpp"
#include "limits.hpp"
#include "support.hpp"

using namespace bantam;
using nlohmann::json;

namespace {

const char* const models[] = {"stories260k", "babyllama105", "books4m"};

/// Every container that the weights of a model come in, a saved native file and a rotated one among them.
std::vector<std::pair<std::string, Model>> containers(const std::string& name, const test::TemporaryFolder& folder) {
  const std::filesystem::path source = test::shared_data("models/" + name);
  std::vector<std::pair<std::string, Model>> all;
  all.emplace_back("safetensors", Model::load(source));
  for (const auto& entry : std::filesystem::directory_iterator(source)) {
    if (entry.path().extension() == ".gguf") all.emplace_back("gguf", Model::load(entry.path()));
  }
  all[0].second.save(folder / "model.bantam");
  all.emplace_back("native", Model::load(folder / "model.bantam"));
  compress_file(Checkpoint::open(source), folder / "rotated.bantam", recipe::with(Method::rtn, "f32", {}, {.rotation = 1}));
  all.emplace_back("rotated", Model::load(folder / "rotated.bantam"));
  return all;
}

json golden() { return json::parse(test::read_file(test::shared_data("models/golden.json"))); }

}  // namespace

TEST_CASE("logits agree with double precision within 2e-4 from every container") {
  BANTAM_NEED_SHARED(data, "models/golden.json");
  const json expected = golden();
  for (const std::string name : models) {
    const test::TemporaryFolder folder;
    for (const auto& [container, model] : containers(name, folder)) {
      CAPTURE(name);
      CAPTURE(container);
      Session session(model, {.kv = "f32"});
      const auto ids = expected[name]["logits"]["ids"].get<std::vector<TokenId>>();
      double worst = 0;
      session.score(ids, [&](std::int64_t index, std::span<const float> logits) {
        for (const json& top : expected[name]["logits"]["positions"][static_cast<std::size_t>(index)]["top"]) {
          const double found = logits[top["id"].get<std::size_t>()];
          worst = std::max(worst, std::fabs(found - top["logit"].get<double>()));
        }
      });
      CHECK(worst < 2e-4);
    }
  }
}

TEST_CASE("greedy continuations are those of double precision from every container") {
  BANTAM_NEED_SHARED(data, "models/golden.json");
  const json expected = golden();
  for (const std::string name : models) {
    const test::TemporaryFolder folder;
    for (const auto& [container, model] : containers(name, folder)) {
      for (const json& greedy : expected[name]["greedy"]) {
        if (test::quick() && name != "stories260k" && container != "gguf") continue;
        CAPTURE(name);
        CAPTURE(container);
        const auto prompt = greedy["prompt"].get<std::string>();
        CHECK(model.tokenizer().encode(prompt) == greedy["prompt_ids"].get<std::vector<TokenId>>());
        const auto ids = greedy["generated_ids"].get<std::vector<TokenId>>();
        Session session(model, {.kv = "f32"});
        TextRange range = session.stream(prompt, {.max_tokens = static_cast<std::int64_t>(ids.size()), .sampling = {.temperature = 0}});
        const std::string text = range.text();
        CHECK(range.tokens() == ids);
      }
    }
  }
}

TEST_CASE("perplexities agree with double precision within 0.05 % from every container") {
  BANTAM_NEED_SHARED(data, "models/golden.json");
  const json expected = golden();
  for (const std::string name : models) {
    const test::TemporaryFolder folder;
    for (const auto& [container, model] : containers(name, folder)) {
      for (const json& run : expected[name]["perplexity"]) {
        CAPTURE(name);
        CAPTURE(container);
        // Thousands of tokens; one model from one container says how sanitizers like them.
        if (test::quick() && (name != "stories260k" || container != "gguf" || run != expected[name]["perplexity"][0])) continue;
        const std::string text = test::read_file(test::shared_data("corpora/" + run["file"].get<std::string>()));
        const PerplexityResult result =
            perplexity(model, text, {.context = run["context"], .limit = run["limit"], .kv = "f32"});
        CHECK(result.tokens == run["tokens"].get<std::int64_t>());
        CHECK(result.windows == run["windows"].get<std::int64_t>());
        CHECK(std::fabs(result.perplexity / run["perplexity"].get<double>() - 1) < 5e-4);
      }
    }
  }
}

TEST_CASE("a window's numbers are those of its text alone") {
  BANTAM_NEED_SHARED(data, "models/golden.json");
  const Model model = Model::load(test::shared_data("models/stories260k"));
  const Model rounded = compress(model, recipe::rtn("i4.g32")).first;
  const std::string text = test::read_file(test::shared_data("corpora/tinystories-plain.txt"));
  // BOS takes one place in each window.
  const auto measure = [&](std::int64_t limit) {
    return perplexity(rounded, text, {.context = 64, .limit = limit, .kv = "f32"}, &model);
  };
  const PerplexityResult whole = measure(63 * 2 + 20), first = measure(63);
  REQUIRE(whole.window_tokens == std::vector<std::int64_t>{63, 63, 20});
  REQUIRE(whole.window_nll.size() == 3);
  REQUIRE(whole.window_kl.size() == 3);
  CHECK(whole.window_nll[0] == doctest::Approx(first.nll).epsilon(1e-12));
  CHECK(whole.window_kl[0] == doctest::Approx(*first.kl_mean).epsilon(1e-12));
  CHECK(whole.window_kl[1] != whole.window_kl[0]);
  CHECK(perplexity(model, text, {.context = 64, .limit = 100}).window_kl.empty());
}

TEST_CASE("rounding costs little perplexity: int8 0.5 %, int4 8 to 15 %") {
  BANTAM_NEED_SHARED(data, "models/golden.json");
  if (test::skips_figures()) return;
  struct Bound {
    const char* model;
    const char* format;
    double ratio;
  };
  for (const Bound& bound : {Bound{"stories260k", "i8.g32", 1.005}, Bound{"babyllama105", "i8.g32", 1.005},
                             Bound{"books4m", "i8.g32", 1.005}, Bound{"stories260k", "i4.g32", 1.15},
                             Bound{"babyllama105", "i4.g32", 1.08}, Bound{"books4m", "i4.g32", 1.08}}) {
    CAPTURE(bound.model);
    CAPTURE(bound.format);
    const Model model = Model::load(test::shared_data(std::string("models/") + bound.model));
    const auto [small, report] = compress(model, recipe::rtn(bound.format));
    const std::string text = test::read_file(test::shared_data(
        std::string(bound.model) == "books4m" ? "corpora/books-valid.txt" : "corpora/tinystories-plain.txt"));
    const PerplexityOptions options{.context = 256, .limit = 8000, .kv = "f32"};
    const double before = perplexity(model, text, options).perplexity;
    const double after = perplexity(small, text, options).perplexity;
    MESSAGE(std::string(bound.model), " ", std::string(bound.format), ": ", before, " -> ", after);
    CHECK(after / before < bound.ratio);
  }
}

TEST_CASE("rounding activations to 8 bits costs less than 0.3 % of perplexity beside floats of the same weights") {
  BANTAM_NEED_SHARED(data, "models/golden.json");
  if (test::skips_figures()) return;
  const Model model = Model::load(test::shared_data("models/stories260k"));
  const std::string text = test::read_file(test::shared_data("corpora/tinystories-plain.txt"));
  const PerplexityOptions options{.context = 256, .limit = 4000, .kv = "f32"};
  for (const char* format : {"i4.g32", "i4.g128", "i8.row", "i8.g32", "nf4.g64", "q4k", "i3.g64"}) {
    CAPTURE(std::string(format));
    const Model rounded = compress(model, recipe::rtn(format).keep("*", format)).first;
    const Model floats = compress(rounded, recipe::rtn("f32")).first;
    const double with_floats = perplexity(floats, text, options).perplexity;
    CHECK(std::fabs(perplexity(rounded, text, options).perplexity / with_floats - 1) < 0.003);
  }
}
