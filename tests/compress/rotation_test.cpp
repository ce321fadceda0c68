// Rotations: that they are orthogonal and even, and that a rotated model is the same function.
#include "bantam/calibrate/rotation.hpp"

#include <bit>
#include <cmath>
#include <numbers>

#include "bantam/compress/compress.hpp"
#include "bantam/tensor/random.hpp"
#include "compress/inputs.hpp"
#include "tiny_model.hpp"

namespace bantam::test {
namespace {

/// All of Q, row by row.
std::vector<std::vector<double>> matrix_of(const Rotation& rotation) {
  std::vector<std::vector<double>> q;
  for (std::int64_t i = 0; i < rotation.size(); ++i) {
    q.emplace_back(static_cast<std::size_t>(rotation.size()), 0.0);
    q.back()[static_cast<std::size_t>(i)] = 1;
    rotation.apply(q.back());
  }
  return q;
}

TEST_CASE("a rotation is orthogonal and even, whatever its size") {
  for (const std::int64_t n : {1, 2, 3, 7, 12, 36, 64, 100, 192, 256, 288, 320}) {
    CAPTURE(n);
    const auto q = matrix_of(Rotation(n, 5));
    double off = 0, largest = 0;
    for (std::size_t i = 0; i < q.size(); ++i) {
      for (std::size_t j = 0; j <= i; ++j) {
        double product = 0;
        for (std::size_t c = 0; c < q.size(); ++c) product += q[i][c] * q[j][c];
        off = std::max(off, std::fabs(product - (i == j ? 1.0 : 0.0)));
        largest = std::max(largest, std::fabs(q[i][j]));
      }
    }
    CHECK(off < 1e-13);
    const bool is_power = std::has_single_bit(static_cast<std::uint64_t>(n));
    CHECK(largest <= std::sqrt((is_power ? 1.0 : 2.0) / static_cast<double>(n)) * (1 + 1e-14));
  }
}

TEST_CASE("a rotation is random signs times a Hartley and a Hadamard matrix") {
  for (const std::int64_t m : {1, 3, 5, 9}) {
    for (const std::int64_t power : {1, 4, 16}) {
      const std::int64_t n = m * power;
      const auto q = matrix_of(Rotation(n, 77));
      std::int64_t positive = 0;
      double off = 0;
      for (std::int64_t i = 0; i < n; ++i) {
        const double sign = q[static_cast<std::size_t>(i)][0] > 0 ? 1 : -1;  // the first column of T is positive
        positive += sign > 0;
        for (std::int64_t j = 0; j < n; ++j) {
          const double angle = 2 * std::numbers::pi * static_cast<double>((i / power) * (j / power)) / static_cast<double>(m);
          const double hadamard = std::popcount(static_cast<std::uint64_t>((i % power) & (j % power))) % 2 == 0 ? 1 : -1;
          const double expected = sign * (std::cos(angle) + std::sin(angle)) * hadamard / std::sqrt(static_cast<double>(n));
          off = std::max(off, std::fabs(q[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)] - expected));
        }
      }
      CAPTURE(n);
      CHECK(off < 1e-14);
      if (n >= 16) CHECK((positive > 0 && positive < n));
    }
  }
}

TEST_CASE("large sizes of real models keep lengths and spread what is large") {
  for (const std::int64_t n : {576, 768, 896, 1536, 2048, 3584, 4096, 5120, 6144}) {
    CAPTURE(n);
    const Rotation rotation(n, 9);
    std::vector<double> x(static_cast<std::size_t>(n), 0.0);
    x[static_cast<std::size_t>(n / 3)] = 100;
    x[1] = 1;
    rotation.apply(x);
    double sum = 0, largest = 0;
    for (const double v : x) {
      sum += v * v;
      largest = std::max(largest, std::fabs(v));
    }
    CHECK(sum == doctest::Approx(10001).epsilon(1e-13));
    CHECK(largest < 1.02 * 100 * std::sqrt(2.0 / static_cast<double>(n)));
  }
}

/// Of other axes than a random rotation has: the transposed of one.
Rotation given_rotation(std::int64_t size) {
  const auto q = matrix_of(Rotation(size, 8));
  Tensor<float, 2> axes({size, size});
  for (std::size_t i = 0; i < q.size(); ++i) std::ranges::copy(q[i], &axes(static_cast<std::int64_t>(i), 0));
  return Rotation(std::move(axes));
}

TEST_CASE("a rotation that is given takes numbers along its axes") {
  Tensor<float, 2> axes({2, 2});
  axes(0, 1) = 1;
  axes(1, 0) = -1;
  std::vector<double> x{3, 5};
  Rotation(std::move(axes)).apply(x);
  CHECK(x == std::vector<double>{5, -3});
  CHECK(error_of([] { (void)Rotation(Tensor<float, 2>({2, 3})); }) == "rotation: expected as many axes as numbers, found (2, 3)");
}

void check_rotates(const Rotation& rotation) {
  const auto q = matrix_of(rotation);
  const auto original = random::normal<float>({24, 36}, 4);
  auto by_columns = random::normal<float>({24, 36}, 4);
  auto by_rows = random::normal<float>({24, 36}, 4);
  rotation.rotate_columns(by_columns);
  rotation.rotate_rows(by_rows);
  for (std::int64_t r = 0; r < 24; ++r) {
    for (std::int64_t c = 0; c < 36; ++c) {
      double wq = 0, qw = 0;
      for (std::int64_t k = 0; k < 12; ++k) {
        wq += static_cast<double>(original(r, c / 12 * 12 + k)) * q[static_cast<std::size_t>(k)][static_cast<std::size_t>(c % 12)];
        qw += static_cast<double>(original(r / 12 * 12 + k, c)) * q[static_cast<std::size_t>(k)][static_cast<std::size_t>(r % 12)];
      }
      CHECK(static_cast<double>(by_columns(r, c)) == doctest::Approx(wq).epsilon(1e-6).scale(1));
      CHECK(static_cast<double>(by_rows(r, c)) == doctest::Approx(qw).epsilon(1e-6).scale(1));
    }
  }
}

TEST_CASE("rotations of rows and columns are products with Q, or with a diagonal of it") {
  const Rotation rotation(12, 3);
  check_rotates(rotation);
  check_rotates(given_rotation(12));
  auto odd = random::normal<float>({13, 25}, 4);
  CHECK(error_of([&] { rotation.rotate_columns(odd); }) == "rotation: expected a multiple of 12 columns, found 25");
  CHECK(error_of([&] { rotation.rotate_rows(odd); }) == "rotation: expected a multiple of 12 rows, found 13");
  CHECK(error_of([&] { (void)Rotation(0, 1); }) == "rotation: expected a size of at least 1, found 0");
}

Recipe rotated(const char* format, Method method = Method::rtn, std::uint64_t seed = 3) {
  return recipe::with(method, format, {}, {.rotation = seed, .awq = {.ratios = 3}});
}

/// The largest distance, as a share of the largest value.
float difference(const std::vector<float>& found, const std::vector<float>& expected) {
  REQUIRE(found.size() == expected.size());
  float largest = 0, off = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    largest = std::max(largest, std::fabs(expected[i]));
    off = std::max(off, std::fabs(found[i] - expected[i]));
  }
  return off / largest;
}

struct Calibrated {
  explicit Calibrated(TinyModel model) : tiny(std::move(model)) {
    tiny.make();
    tiny.write_folder(folder / "hf");
  }
  TinyModel tiny;
  TemporaryFolder folder;
  Calibration calibration = some_calibration();
};

TEST_CASE("a rotated model of any architecture gives the logits of the one it came from, in every container") {
  for (const ArchSpec* arch : architectures_by_parts()) {
    if (!arch->norms_before_blocks() || arch->norm != Norm::rms || arch->recurrent != MixerKind::none || arch->find(Role::head) == nullptr) continue;  // refused, as a test below shows

    for (const bool tied : {false, true}) {
      CAPTURE(std::string(arch->name));
      CAPTURE(tied);
      const Calibrated run({.arch = arch, .tied = tied, .biases = arch == &archs::llama});
      const Checkpoint source = Checkpoint::open(run.folder / "hf");
      const auto tokens = some_tokens();
      const std::vector<float> expected = logits_of(Model::load(run.folder / "hf"), tokens);
      for (const Target target : {Target::native, Target::safetensors, Target::gguf}) {
        for (const bool calibrated : {false, true}) {
          if (quick() && calibrated != (tied == (target == Target::native))) continue;
          if (target == Target::gguf && arch == &archs::llama) continue;  // GGUF has no bias of o
          const std::string out = target == Target::native ? "m.bantam" : target == Target::gguf ? "m.gguf" : "folder";
          const Report report = compress_file(source, run.folder / out, rotated("f32"), target, {}, calibrated ? run.calibration : Calibration{});
          CHECK(std::ssize(report.layers) == 2 + std::ranges::count_if(source.tensors(), [](const auto& tensor) { return tensor.layer >= 0 && tensor.is_matrix; }));
          const Model model = Model::load(run.folder / out);
          CHECK_FALSE(model.config().tied);
          // Four roundings of 6e-8 more for each weight.
          CHECK(difference(logits_of(model, tokens), expected) < 1e-5f);
          const LayerWeights& block = model.weights().layers[1];
          for (const std::vector<float>* norm : {&block.attention_norm, &block.ffn_norm, &model.weights().final_norm}) {
            CHECK(std::ranges::all_of(*norm, [](float gain) { return gain == 1.0f; }));
          }
          // Nothing is left as it was: neither what reads the stream, nor what writes it, nor the values between.
          const LayerWeights original = load_block(source, 1);
          for (const CheckpointTensor& tensor : source.tensors()) {
            const bool in_latent_space = tensor.role == Role::q_b || tensor.role == Role::index_q || info_of(tensor.role).by_heads;
            if (tensor.layer != 1 || !tensor.is_matrix || in_latent_space) continue;
            CAPTURE(tensor.name);
            CHECK(relative_error(matrix_of(block, tensor)->dequantize(), matrix_of(original, tensor)->dequantize()) > 0.5);
          }
        }
      }
    }
  }
}

TEST_CASE("a tied head stays one where the final norm's weights are all the same") {
  TinyModel tiny{.tied = true};
  tiny.make();
  std::ranges::fill(tiny.tensor("model.norm.weight").values, 1.5f);
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  const Report report = compress_file(Checkpoint::open(folder / "hf"), folder / "m.bantam", rotated("f32"));
  CHECK(report.layers.size() == 1 + 2 * 7);
  const Model model = Model::load(folder / "m.bantam");
  CHECK(model.config().tied);
  CHECK(model.weights().final_norm[0] == 1.5f);
  CHECK(difference(logits_of(model, some_tokens()), logits_of(Model::load(folder / "hf"), some_tokens())) < 1e-5f);
}

TEST_CASE("every method rounds rotated weights to a model near the one they came from") {
  const Calibrated run({.kv_heads = 6, .tied = true, .biases = true});
  const Checkpoint source = Checkpoint::open(run.folder / "hf");
  const auto tokens = some_tokens();
  const std::vector<float> expected = logits_of(Model::load(run.folder / "hf"), tokens);
  for (const Method method : {Method::rtn, Method::gptq, Method::awq, Method::awq_gptq, Method::hqq}) {
    CAPTURE(std::string(name_of(method)));
    const char* format = method == Method::hqq ? "i5m.g32" : "q8";
    const Recipe plan = rotated(format, method).keep("*.0.*.v_proj", "f16").keep("*.1.mlp.up_proj", "f32");
    compress_file(source, run.folder / "m.bantam", plan, Target::native, {}, run.calibration);
    CHECK(difference(logits_of(Model::load(run.folder / "m.bantam"), tokens), expected) < (method == Method::hqq ? 0.2f : 0.03f));
  }
}

TEST_CASE("the seed decides the bytes, also of a run that was stopped") {
  const Calibrated run({});
  const Checkpoint source = Checkpoint::open(run.folder / "hf");
  const auto make = [&](std::uint64_t seed, const char* out, int stop_after = 100) {
    int matrices = 0;
    const auto progress = [&](const Progress&) { return ++matrices < stop_after; };
    const Report report = compress_file(source, run.folder / out, rotated("i4.g32", Method::gptq, seed), Target::native, progress,
                                        run.calibration, run.folder / "m.journal");
    return report.resumed_blocks;
  };
  make(3, "a.bantam");
  CHECK_THROWS_AS(make(3, "b.bantam", 10), Error);
  CHECK(make(3, "b.bantam") == 2);
  CHECK((read_file(run.folder / "a.bantam") == read_file(run.folder / "b.bantam")));
  CHECK_THROWS_AS(make(3, "b.bantam", 10), Error);
  CHECK(make(4, "b.bantam") == 0);
  CHECK((read_file(run.folder / "a.bantam") != read_file(run.folder / "b.bantam")));
  CHECK(Json::parse(Checkpoint::open(run.folder / "b.bantam").recipe(), "test")["rotation_seed"] == 4);
}

TEST_CASE("rotation names the weight that is not finite") {
  for (const char* name : {"model.layers.1.mlp.down_proj.weight", "model.layers.0.input_layernorm.weight", "model.norm.weight", "lm_head.weight"}) {
    Calibrated run({});
    run.tiny.tensor(name).values[5] = NAN;
    run.tiny.write_folder(run.folder / "bad");
    const std::string text = error_of([&] { compress_file(Checkpoint::open(run.folder / "bad"), run.folder / "m.bantam", rotated("q8")); });
    CHECK(text.find(std::string(name).substr(0, std::string(name).rfind(".weight"))) == 0);
    CHECK(text.find("expected finite weights, found nan at (0, 5)") != std::string::npos);
  }
}

TEST_CASE("a model whose norms a rotation would change is not rotated") {
  for (const ArchSpec* arch : architectures_by_parts()) {
    if (arch->norms_before_blocks() && arch->norm == Norm::rms && arch->find(Role::head) != nullptr) continue;
    CAPTURE(std::string(arch->name));
    const Calibrated run({.arch = arch});
    has(error_of([&] { compress_file(Checkpoint::open(run.folder / "hf"), run.folder / "m.bantam", rotated("f32"), Target::native); }), "rotation: " + std::string(arch->name));
  }
}

}  // namespace
}  // namespace bantam::test
