// Costs of shapes, and removals that meet them.
#include "bantam/compress/cost_target.hpp"

#include "bantam/compress/prepare.hpp"

#include <cmath>

#include "compress/decode_timer.hpp"
#include "compress/inputs.hpp"
#include "support.hpp"
#include "tiny_model.hpp"

namespace bantam::test {
namespace {

struct Shapes {
  explicit Shapes(bool tied = false) {
    TinyModel tiny{.dim = 64, .layers = 4, .heads = 8, .kv_heads = 4, .head_dim = 8, .ffn = 512, .tied = tied};
    tiny.make();
    tiny.write_folder(folder / "hf");
    checkpoint.emplace(Checkpoint::open(folder / "hf"));
  }
  [[nodiscard]] Checkpoint outline(std::span<const Removal> removals) const { return outline_of(*checkpoint, plan_structure(checkpoint->config(), removals)); }

  TemporaryFolder folder;
  std::optional<Checkpoint> checkpoint;
};

TEST_CASE("outlines have the sizes of what is pruned, and of the files written then") {
  const Shapes f;
  const std::vector<Removal> removals{{Part::heads, 0.25}, {Part::channels, 0.5}, {Part::layers, 1}, {Part::hidden, 0.5}};
  const PrunedStructure pruned = prune_structure(*f.checkpoint, removals, some_calibration());
  for (const Target target : {Target::native, Target::gguf, Target::safetensors}) {
    const Recipe recipe = recipe::rtn(target == Target::native ? "i4.g32" : target == Target::gguf ? "q8_0" : "f16");
    const auto out = f.folder / ("out-" + std::string(name_of(target)));
    const Report report = compress_file(pruned.checkpoint, out, recipe, target);
    CHECK(measure_cost(Cost::bytes, f.outline(removals), recipe, target) == static_cast<double>(report.bytes_after));
    CHECK(measure_cost(Cost::parameters, f.outline(removals), recipe, target) == static_cast<double>(pruned.after.parameters));
    CHECK(measure_cost(Cost::flops, f.outline(removals), recipe, target) == static_cast<double>(pruned.after.flops_per_token));
  }
  const ModelSize whole = size_of(f.outline({}));
  CHECK(whole.parameters == size_of(*f.checkpoint).parameters);
  CHECK(whole.flops_per_token == size_of(*f.checkpoint).flops_per_token);
}

TEST_CASE("a rotated model's head is counted") {
  const Shapes f(true);
  const Recipe recipe = recipe::with(Method::rtn, "i4.g32", {}, {.rotation = 3});
  const Report report = compress_file(*f.checkpoint, f.folder / "out", recipe);
  CHECK(measure_cost(Cost::bytes, f.outline({}), recipe) == static_cast<double>(report.bytes_after));
}

TEST_CASE("removals take just enough, and the same share of every part") {
  const Shapes f;
  const Recipe recipe = recipe::rtn("i4.g32");
  const Part parts[] = {Part::channels, Part::heads, Part::layers};
  const std::vector<Removal> fixed{{Part::layers, 1}};
  int compared = 0;
  for (const Cost cost : {Cost::parameters, Cost::flops, Cost::bytes}) {
    for (const double share : {0.95, 0.8, 0.6}) {
      for (const bool with_fixed : {false, true}) {
        CAPTURE(std::string(name_of(cost)));
        CAPTURE(share);
        const std::span<const Removal> first = with_fixed ? std::span<const Removal>(fixed) : std::span<const Removal>();
        const auto found = removals_to_reach({cost, share, true}, *f.checkpoint, std::span(parts).first(with_fixed ? 2 : 3), first, recipe);
        const double whole = measure_cost(cost, f.outline({}), recipe), limit = share * whole;
        CHECK(measure_cost(cost, f.outline(found), recipe) <= limit);
        CHECK(removals_to_reach({cost, limit, false}, *f.checkpoint, std::span(parts).first(with_fixed ? 2 : 3), first, recipe).size() == found.size());
        // With less of the shares it would not be enough.
        double amount = 0;
        std::vector<Removal> less(first.begin(), first.end());
        for (const Removal& removal : found) {
          if (removal.part == Part::layers) continue;
          if (amount != 0) CHECK(removal.amount == amount);
          amount = removal.amount;
        }
        if (with_fixed) CHECK(found.front().part == Part::layers);
        if (amount <= 0.001) continue;  // what is fixed is enough
        bool takes = true;
        for (const Removal& removal : found) {
          if (removal.part == Part::layers && with_fixed) continue;
          const double smaller = removal.part == Part::layers ? std::round((amount - 0.001) * 4) : removal.amount - 0.001;
          takes = takes && smaller > 0;
          less.push_back({removal.part, smaller});
        }
        if (!takes) continue;
        try {
          const double more = measure_cost(cost, f.outline(less), recipe);
          CHECK(more > limit);
          ++compared;
        } catch (const Error& error) {
          CHECK(std::string(error.what()).find("takes none") != std::string::npos);
        }
      }
    }
  }
  CHECK(compared > 5);
}

TEST_CASE("targets that cannot be met name what can, and parts are named once") {
  const Shapes f;
  const Recipe recipe = recipe::rtn("i4.g32");
  const Part channels[] = {Part::channels};
  const auto refused = [&](const CostTarget& goal, std::span<const Part> parts, std::span<const Removal> fixed) {
    return error_of([&] { (void)removals_to_reach(goal, *f.checkpoint, parts, fixed, recipe); });
  };
  const auto whole = static_cast<double>(size_of(*f.checkpoint).parameters);
  const std::string impossible = refused({Cost::parameters, 0.1, true}, channels, {});
  CHECK(impossible.find("prune to parameters:0.1x: expected at least ") == 0);
  const double least = std::stod(impossible.substr(impossible.find("least ") + 6));
  CHECK(least > 0.1 * whole);
  CHECK_NOTHROW((void)removals_to_reach({Cost::parameters, least, false}, *f.checkpoint, channels, {}, recipe));
  const Removal fixed[] = {{Part::channels, 0.5}};
  CHECK(refused({Cost::parameters, 0.5, true}, channels, fixed) == "prune to parameters:0.5x: expected channels once");
}

TEST_CASE("what is pruned is asked for in words") {
  const std::vector<std::string> texts{"channels", "layers:1", "heads", "wanda:0.5,*.down_proj=0.3"};
  const PruneRequest request = parse_prune(texts, "bytes:0.8x");
  CHECK(request.parts == std::vector{Part::channels, Part::heads});
  CHECK(request.removals.size() == 1);
  CHECK(request.weights.value().text() == texts.back());
  CHECK(request.goal.value().text() == "bytes:0.8x");
  CHECK(request.removes_parts());
  CHECK_FALSE(parse_prune(std::vector<std::string>{"magnitude:2:4"}).removes_parts());
  for (const Part part : prune_parts) {
    const std::string amount = Removal{part, part == Part::layers ? 1.0 : 0.5}.text(), name(name_of(part));
    CHECK(parse_prune(std::vector{amount}).removals.at(0).text() == amount);
    CHECK(parse_prune(std::vector{name}, "flops:0.5x").parts == std::vector{part});
    CHECK(error_of([&] { (void)parse_prune(std::vector{name}); }).find("prune: " + name + ": expected " + name + ":NUMBER") == 0);
    CHECK(error_of([&] { (void)parse_prune(std::vector{amount}, "flops:0.5x"); }).find("prune_to: expected parts") == 0);
  }
}

TEST_CASE("parts are planned, removed and reported in one go") {
  const Shapes f;
  const Recipe recipe = recipe::rtn("i4.g32");
  for (const Part part : prune_parts) {
    if (part == Part::experts) continue;  // this model has none: experts_prune_test.cpp
    CAPTURE(std::string(name_of(part)));
    const std::string text = Removal{part, part == Part::layers ? 1.0 : 0.5}.text();
    const PruneReport planned = plan_parts(parse_prune(std::vector{text}), *f.checkpoint, recipe);
    CHECK(planned.layers.empty());
    const PrunedModel left = remove_parts(planned, *f.checkpoint, some_calibration());
    Report report = compress_file(left.checkpoint, f.folder / "out", recipe);
    const auto bytes = static_cast<double>(report.bytes_after);
    report.follow(left.report);
    CHECK(report.pruned.value().after[Cost::bytes] == bytes);
    CHECK(report.pruned->after[Cost::parameters] == static_cast<double>(size_of(left.checkpoint).parameters));
    CHECK(report.pruned->before[Cost::parameters] == static_cast<double>(size_of(*f.checkpoint).parameters));
    CHECK(report.pruned->before[Cost::latency] == 0);
    CHECK(report.bytes_before == static_cast<std::int64_t>(std::filesystem::file_size(f.folder / "hf" / "model.safetensors")));
    CHECK(static_cast<std::int64_t>(report.pruned->layers.size()) == left.checkpoint.config().layers);
    CHECK(report.pruned->influence.empty() == (part != Part::layers));
    CHECK(report.to_json().find('"' + text + '"') != std::string::npos);
    CHECK(Checkpoint::open(f.folder / "out").recipe().find("\"removed\":[\"" + text + "\"]") != std::string::npos);
    CHECK(compress(Model::from_checkpoint(left.checkpoint), recipe).first.checkpoint().recipe() == Checkpoint::open(f.folder / "out").recipe());
    // A file made of that one still names what went.
    compress_file(Checkpoint::open(f.folder / "out"), f.folder / "again", recipe::rtn("i8"));
    CHECK(Checkpoint::open(f.folder / "again").removed() == std::vector{text});
  }
}

TEST_CASE("cost targets are spelled with units") {
  for (const auto& [text, cost, amount, share] : {std::tuple{"parameters:1.1B", Cost::parameters, 1.1e9, false}, {"flops:0.7x", Cost::flops, 0.7, true},
                                                  {"bytes:600MB", Cost::bytes, 6e8, false}, {"bytes:2gib", Cost::bytes, 0x1p31, false},
                                                  {"bytes:5", Cost::bytes, 5.0, false}, {"latency:12ms", Cost::latency, 0.012, false},
                                                  {"latency:1s", Cost::latency, 1.0, false}, {"parameters:300M", Cost::parameters, 3e8, false}}) {
    CAPTURE(text);
    const CostTarget goal = parse_cost_target(text);
    CHECK(goal.cost == cost);
    CHECK(goal.amount == doctest::Approx(amount));
    CHECK(goal.of_original == share);
    CHECK(parse_cost_target(goal.text()).amount == doctest::Approx(amount));
  }
  for (const char* wrong : {"", "bytes", "bytes:", "bytes:x", "bytes:-5", "bytes:0", "bytes:1e", "latency:5", "latency:5MB", "flops:1x", "flops:0x", "size:5", "flops:nan",
                            "flops:inf", "bytes:5 MB"}) {
    CAPTURE(wrong);
    CHECK(error_of([&] { (void)parse_cost_target(wrong); }).find("expected parameters:N, flops:N, bytes:SIZE") == 0);
  }
}

TEST_CASE("times are measured of every format and of models whose layers differ, or are too many for the room there is") {
  const Shapes f;
  // What a token takes is not for a test to say: only that there is something, by the clock.
  for (const char* format : {"i4.g32", "f16", "q4_k"}) {
    const Recipe recipe(find_format(format));
    const Removal removals[] = {{Part::channels, 0.5}};
    const auto [before, after] = measure_latencies(*f.checkpoint, f.outline(removals), recipe);
    CHECK((before > 0 && after > 0));
  }
  const Recipe recipe = recipe::rtn("i4.g32");
  DecodeTimer some(*f.checkpoint, plan_file(*f.checkpoint, recipe), 1);
  CHECK(std::isfinite(some.seconds()));
  const Part parts[] = {Part::channels};
  const std::string idle = error_of([&] { (void)removals_to_reach({Cost::latency, 3600.0, false}, *f.checkpoint, parts, {}, recipe); });
  CHECK(idle.find("prune to latency:3600s: expected less than ") == 0);
}

}  // namespace
}  // namespace bantam::test
