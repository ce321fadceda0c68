// Slicing against the same model in other coordinates, against projections in double precision, and on models that fill less than
// their residual stream.
#include "prune/slicing.hpp"

#include <cmath>
#include <numeric>

#include "limits.hpp"
#include "model/cut_model.hpp"
#include "prune/principal_axes.hpp"
#include "prune/small.hpp"
#include "prune/stream_moments.hpp"

namespace bantam::test {
namespace {

using Square = std::vector<std::vector<double>>;

Square square(std::int64_t n) { return Square(static_cast<std::size_t>(n), std::vector<double>(static_cast<std::size_t>(n), 0.0)); }

Square product(const Square& a, const Square& b) {
  Square c(a.size(), std::vector<double>(b[0].size(), 0.0));
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t k = 0; k < b.size(); ++k) {
      for (std::size_t j = 0; j < b[0].size(); ++j) c[i][j] += a[i][k] * b[k][j];
    }
  }
  return c;
}

/// xT x of random x, and so of full rank.
Square random_moments(std::int64_t n, std::uint64_t seed) {
  Random random(seed);
  Square x = square(n), sums = square(n);
  for (auto& row : x) {
    for (double& value : row) value = random.normal();
  }
  for (const auto& row : x) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      for (std::size_t j = 0; j < row.size(); ++j) sums[i][j] += row[i] * row[j];
    }
  }
  return sums;
}

Tensor<double, 2> tensor_of(const Square& m) {
  Tensor<double, 2> out({static_cast<std::int64_t>(m.size()), static_cast<std::int64_t>(m.size())});
  for (std::size_t i = 0; i < m.size(); ++i) std::ranges::copy(m[i], &out(static_cast<std::int64_t>(i), 0));
  return out;
}

Square matrix_of(const Tensor<float, 2>& m) {
  Square out = square(m.extent(0));
  for (std::size_t i = 0; i < out.size(); ++i) std::copy_n(&m(static_cast<std::int64_t>(i), 0), out.size(), out[i].begin());
  return out;
}

/// Q' Q'T of the first axes.
Square projection(const Square& axes, std::size_t kept) {
  Square p = square(static_cast<std::int64_t>(axes.size()));
  for (std::size_t a = 0; a < kept; ++a) {
    for (std::size_t i = 0; i < p.size(); ++i) {
      for (std::size_t j = 0; j < p.size(); ++j) p[i][j] += axes[a][i] * axes[a][j];
    }
  }
  return p;
}

/// w becomes W M, or for what writes MT W.
void multiply(TinyTensor& w, const Square& m, bool writes) {
  const std::vector<float> from = w.values;
  const auto columns = static_cast<std::size_t>(w.shape.size() > 1 ? w.shape[1] : 1), n = m.size();
  for (std::size_t i = 0; i < from.size(); ++i) {
    const std::size_t row = i / columns, column = i % columns;
    double sum = 0;
    for (std::size_t k = 0; k < n; ++k) {
      const std::size_t at = writes ? k * columns + column : row * columns + k;
      sum += static_cast<double>(from[at]) * (writes ? m[k][row] : m[k][column]);
    }
    w.values[i] = static_cast<float>(sum);
  }
}

bool ends_with(const std::string& name, std::initializer_list<const char*> ends) {
  return std::ranges::any_of(ends, [&](const char* end) { return name.ends_with(end); });
}
bool writes_stream(const TinyTensor& t) { return ends_with(t.name, {"o_proj.weight", "o_proj.bias", "down_proj.weight", "down_proj.bias"}); }
bool is_stream_norm(const TinyTensor& t) { return ends_with(t.name, {"layernorm.weight", "model.norm.weight"}); }
bool reads_stream(const TinyTensor& t) {
  return ends_with(t.name, {"q_proj.weight", "k_proj.weight", "v_proj.weight", "gate_proj.weight", "up_proj.weight", "lm_head.weight"});
}

std::vector<float> logits_of_checkpoint(const Checkpoint& checkpoint) { return logits_of(Model::from_checkpoint(checkpoint), some_tokens(30)); }

struct Slices : Small {
  Checkpoint sliced(const Checkpoint& checkpoint, std::int64_t dim, bool compensate) const {
    std::vector<std::int64_t> layers(static_cast<std::size_t>(checkpoint.config().layers));
    std::iota(layers.begin(), layers.end(), 0);
    const ProgressFn none;
    Steps steps(6, none);
    return slice(checkpoint, layers, dim, calibration, {.compensate = compensate}, steps);
  }
};

TEST_CASE("principal axes are orthogonal and diagonalize, the largest first") {
  const Square root = random_moments(12, 1), responses = random_moments(12, 2);
  const Square axes = matrix_of(principal_axes(tensor_of(product(root, root)), tensor_of(responses)));
  const Square matrix = product(product(root, responses), root);
  double last = std::numeric_limits<double>::infinity(), largest = 0;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    for (std::size_t j = 0; j < axes.size(); ++j) {
      double dot = 0, value = 0;
      for (std::size_t k = 0; k < axes.size(); ++k) {
        dot += axes[i][k] * axes[j][k];
        for (std::size_t l = 0; l < axes.size(); ++l) value += axes[i][k] * matrix[k][l] * axes[j][l];
      }
      CHECK(dot == doctest::Approx(i == j ? 1 : 0).scale(1).epsilon(1e-6));
      largest = std::max(largest, value);
      if (i != j) CHECK(std::fabs(value) < 1e-6 * largest);
      if (i != j) continue;
      CHECK(value <= last);
      last = value;
    }
  }
}

TEST_CASE_FIXTURE(Slices, "over all of its axes a model is the same function") {
  for (const ArchSpec* arch : plain_architectures()) {
    for (const bool compensate : {false, true}) {
      CAPTURE(std::string(arch->name));
      CAPTURE(compensate);
      TinyModel tiny = small_model(arch);
      // The weights of a tied head's norm have to stay with it: over other axes only those that are all the same can.
      if (tiny.tied) std::ranges::fill(tiny.tensor("model.norm.weight").values, 1.5F);
      const Checkpoint original = written(tiny), whole = sliced(original, 36, compensate);
      // As after a rotation: some roundings of 6e-8 more for each weight.
      CHECK(distance(logits_of_checkpoint(whole), logits_of_checkpoint(original)) < 1e-4);
      CHECK(whole.config().tied == tiny.tied);
      CHECK(relative_error(load_block(whole, 1).attention.q.dequantize(), load_block(original, 1).attention.q.dequantize()) > 0.5);
    }
  }
}

TEST_CASE_FIXTURE(Slices, "a model that fills part of its residual stream loses nothing with the rest") {
  const Square q = matrix_of(principal_axes(tensor_of(random_moments(36, 3)), tensor_of(random_moments(36, 4))));
  for (const ArchSpec* arch : plain_architectures()) {
    TinyModel tiny = small_model(arch);
    constexpr std::size_t live = 24;
    for (TinyTensor& t : tiny.tensors) {
      if (is_stream_norm(t)) std::ranges::fill(t.values, 1.0F);
      const bool writes = writes_stream(t), embeds = t.name == "model.embed_tokens.weight";
      const auto columns = static_cast<std::size_t>(t.shape.size() > 1 ? t.shape[1] : 1);
      for (std::size_t i = 0; i < t.values.size(); ++i) {
        if ((writes && i / columns >= live) || (embeds && i % columns >= live)) t.values[i] = 0;
      }
      if (writes || embeds || reads_stream(t)) multiply(t, q, writes);
    }
    const Checkpoint original = written(tiny);
    const std::vector<float> expected = logits_of_checkpoint(original);
    for (const bool compensate : {false, true}) {
      CAPTURE(std::string(arch->name));
      CAPTURE(compensate);
      CHECK(distance(logits_of_checkpoint(sliced(original, live, compensate)), expected) < 1e-3);
      CHECK(distance(logits_of_checkpoint(sliced(original, live - 1, compensate)), expected) > 1e-2);
    }
  }
}

/// What slicing without compensation computes, in the original's coordinates: each time something is added to the stream, its
/// part outside of the axes kept goes; and what norms put out is scaled.
reference::Transformer projected(TinyModel tiny, const Square& axes, std::size_t kept, double share) {
  const Square p = projection(axes, kept);
  const std::vector<float> table = tiny.tensor("model.embed_tokens.weight").values, gains = tiny.tensor("model.norm.weight").values;
  for (TinyTensor& t : tiny.tensors) {
    if (t.name == "model.embed_tokens.weight" || writes_stream(t)) multiply(t, p, writes_stream(t));
    if (is_stream_norm(t)) {
      for (float& value : t.values) value = static_cast<float>(static_cast<double>(value) * share);
    }
  }
  if (tiny.tied) {
    // Of the last norm's weights what is diagonal over the axes.
    Square diagonal = square(static_cast<std::int64_t>(axes.size()));
    for (std::size_t a = 0; a < kept; ++a) {
      double along = 0;
      for (std::size_t i = 0; i < axes.size(); ++i) along += axes[a][i] * axes[a][i] * static_cast<double>(gains[i]);
      for (std::size_t i = 0; i < axes.size(); ++i) {
        for (std::size_t j = 0; j < axes.size(); ++j) diagonal[i][j] += axes[a][i] * along * axes[a][j];
      }
    }
    TinyTensor head{"lm_head.weight", "", {tiny.vocab, tiny.dim}, table, 0};
    multiply(head, diagonal, false);
    tiny.tensors.push_back(head);
    std::ranges::fill(tiny.tensor("model.norm.weight").values, static_cast<float>(share));
  }
  return tiny.reference();
}

TEST_CASE_FIXTURE(Slices, "without compensation a sliced model computes what projections in double precision do") {
  for (const ArchSpec* arch : plain_architectures()) {
    CAPTURE(std::string(arch->name));
    TinyModel tiny = small_model(arch);
    // Attention adds nothing, so that both norms of a layer read what the reference has before it.
    for (TinyTensor& t : tiny.tensors) {
      if (ends_with(t.name, {"o_proj.weight", "o_proj.bias"})) std::ranges::fill(t.values, 0.0F);
    }
    const Checkpoint original = written(tiny);
    Square outputs = square(36), responses = square(36);
    const auto add_share = [](Square& sums, const std::vector<std::vector<double>>& rows) {
      double trace = 0;
      for (const auto& row : rows) trace = std::inner_product(row.begin(), row.end(), row.begin(), trace);
      for (const auto& row : rows) {
        for (std::size_t i = 0; i < row.size(); ++i) {
          for (std::size_t j = 0; j < row.size(); ++j) sums[i][j] += row[i] * row[j] / trace;
        }
      }
    };
    const reference::Transformer reference = tiny.reference();
    for (std::size_t at = 0; at < 4; ++at) {
      std::vector<std::vector<double>> normed;
      for (const std::vector<TokenId>& sample : calibration.samples) {
        const auto states = reference.states({sample.begin(), sample.end()});
        for (std::vector<double> x : states[at]) {
          const double rms = std::sqrt(std::inner_product(x.begin(), x.end(), x.begin(), 0.0) / 36 + 0.00001);
          for (double& value : x) value /= rms;
          normed.push_back(std::move(x));
        }
      }
      const std::string layer = "model.layers." + std::to_string(at);
      const auto readers = [&](const std::string& norm, const std::vector<std::string>& names) {
        std::vector<std::vector<double>> rows;
        for (const std::string& name : names) {
          const TinyTensor& t = tiny.tensor(name);
          for (std::size_t i = 0; i < t.values.size(); i += 36) {
            rows.emplace_back();
            for (std::size_t c = 0; c < 36; ++c) {
              rows.back().push_back(static_cast<double>(t.values[i + c]) * static_cast<double>(tiny.tensor(norm).values[c]));
            }
          }
        }
        add_share(responses, rows);
        add_share(outputs, normed);
      };
      if (at == 3) {
        readers("model.norm.weight", {tiny.tied ? "model.embed_tokens.weight" : "lm_head.weight"});
      } else {
        const std::string attention = layer + ".self_attn.";
        readers(layer + ".input_layernorm.weight", {attention + "q_proj.weight", attention + "k_proj.weight", attention + "v_proj.weight"});
        std::vector<std::string> of_mlp{layer + ".mlp.up_proj.weight"};
        if (arch->find(Role::gate) != nullptr) of_mlp.insert(of_mlp.begin(), layer + ".mlp.gate_proj.weight");
        readers(layer + ".post_attention_layernorm.weight", of_mlp);
      }
    }
    const Square axes = matrix_of(principal_axes(tensor_of(outputs), tensor_of(responses)));
    const Square p = projection(axes, 27);
    double along = 0, all = 0;
    for (std::size_t i = 0; i < 36; ++i) {
      all += outputs[i][i];
      for (std::size_t j = 0; j < 36; ++j) along += outputs[i][j] * p[i][j];
    }
    const auto tokens = some_tokens(30);
    const std::vector<double> expected = projected(tiny, axes, 27, std::sqrt(along / all)).logits({tokens.begin(), tokens.end()});
    // Axes come from moments summed in floats, and neighbors among them differ little.
    CHECK(distance(logits_of_checkpoint(sliced(original, 27, false)), expected) < 2e-3);
  }
}

TEST_CASE_FIXTURE(Slices, "refitted matrices bring a sliced model nearer to the original") {
  for (const ArchSpec* arch : plain_architectures()) {
    CAPTURE(std::string(arch->name));
    const Checkpoint original = written(small_model(arch));
    double squares[2] = {};
    for (const bool compensate : {false, true}) {
      const Model small = Model::from_checkpoint(sliced(original, 27, compensate)), base = Model::from_checkpoint(original);
      for (const std::vector<TokenId>& sample : calibration.samples) {
        const std::vector<float> found = logits_of(small, sample), expected = logits_of(base, sample);
        for (std::size_t i = 0; i < found.size(); ++i) {
          squares[compensate] += std::pow(static_cast<double>(found[i]) - static_cast<double>(expected[i]), 2);
        }
      }
    }
    CHECK(squares[1] < 0.9 * squares[0]);
  }
}

TEST_CASE_FIXTURE(Small, "a narrower model lies in every container, with other parts gone besides") {
  for (const ArchSpec* arch : plain_architectures()) {
    CAPTURE(std::string(arch->name));
    TinyModel tiny = small_model(arch);
    const Removal hidden{Part::hidden, 0.25};
    const std::vector<Removal> removals{{Part::channels, 0.3}, hidden, {Part::layers, 1}, {Part::heads, 0.34}};
    const PrunedStructure pruned = prune_structure(written(tiny), removals, calibration);
    const ModelConfig& config = pruned.checkpoint.config();
    CHECK(config.dim == 27);
    CHECK(config.head_dim == 10);
    CHECK(config.layers == 2);
    CHECK(config.ffn == 35);
    CHECK(config.kv_heads == 2);
    CHECK(config.tied == tiny.tied);
    const auto has_any = [&](Role role) { return std::ranges::any_of(tiny.tensors, [&](const TinyTensor& t) { return t.own.role == role; }); };
    const std::int64_t norms = has_any(Role::q_norm) ? 2 * 10 : 0, bias = (has_any(Role::q_bias) ? 40 + 2 * 20 : 0) + (has_any(Role::o_bias) ? 27 : 0) + (has_any(Role::down_bias) ? 27 + 2 * 35 : 0) + (has_any(Role::o_norm) ? 40 + 35 : 0);
    const std::int64_t mlp = has_any(Role::gate) ? 3 * 35 : 2 * 35;
    const std::int64_t block = 27 * (2 * 40 + 2 * 20 + mlp + 2) + norms + bias;
    CHECK(pruned.after.parameters == 37 * 27 * (tiny.tied ? 1 : 2) + 27 + 2 * block);
    const std::vector<float> expected = logits_of_checkpoint(pruned.checkpoint);
    for (const auto& [target, name] : {std::pair{Target::native, "m.bantam"}, {Target::safetensors, "folder"}, {Target::gguf, "m.gguf"}}) {
      compress_file(pruned.checkpoint, folder / name, recipe::rtn("f32"), target);
      const Model model = Model::load(folder / name);
      CHECK(model.config().dim == 27);
      CHECK(model.config().head_dim == 10);
      CHECK(distance(logits_of(model, some_tokens(30)), expected) < 1e-5);
    }
    compress_file(pruned.checkpoint, folder / "q.bantam", recipe::gptq("i8.g32"), Target::native, {}, calibration);
    CHECK(distance(logits_of(Model::load(folder / "q.bantam"), some_tokens(30)), expected) < 0.5);
  }
}

TEST_CASE("shares of the hidden dimension are rounded to groups and checked") {
  const auto config = [](std::int64_t dim) { return parse_hf_config(TinyModel{.dim = dim}.make().config.dump(), "config"); };
  for (const auto& [dim, share, left] :
       {std::tuple{36, 0.25, 27}, {256, 0.1, 224}, {256, 0.125, 224}, {512, 0.1, 448}, {2048, 0.3, 1536}, {896, 0.25, 704}}) {
    const Removal removal{Part::hidden, share};
    CHECK(plan_structure(config(dim), {&removal, 1}).dim == left);
  }
  CHECK(plan_structure(config(36), {}).dim == 36);
  for (const auto& [share, rest] : {std::pair{0.0, "expected a share above 0 and below 1, found 0"}, {1.0, "found 1"}, {NAN, "found nan"},
                                    {0.01, "some of the 256 hidden dimensions, 32 at once, this takes none"}, {0.97, "this leaves none"}}) {
    const Removal removal{Part::hidden, share};
    const std::string error = error_of([&] { (void)plan_structure(config(256), {&removal, 1}); });
    CHECK_MESSAGE(error.find(rest) != std::string::npos, error);
  }
  CHECK(parse_removal("hidden:0.25").text() == "hidden:0.25");
}

TEST_CASE("models whose residual stream cannot be rotated are refused before any work") {
  ArchSpec arch = archs::llama;
  arch.norm = Norm::layer;
  ModelConfig config = parse_hf_config(TinyModel().make().config.dump(), "config");
  config.arch = &arch;
  const Removal removal{Part::hidden, 0.25};
  const std::string error = error_of([&] { (void)plan_structure(config, {&removal, 1}); });
  CHECK(error == "rotation: llama: expected RMS norms, which a rotation of their inputs leaves as they are");
}

TEST_CASE_FIXTURE(Slices, "weights that are not finite are named, and a stop ends the work") {
  TinyModel tiny = small_model(&archs::llama);
  const Checkpoint sound = written(tiny);
  const Removal removal{Part::hidden, 0.25};
  int steps = 0;
  const auto stop = [&](const Progress& p) {
    CHECK(p.total == 6);
    return ++steps < 5;
  };
  CHECK(error_of([&] { (void)prune_structure(sound, {&removal, 1}, calibration, {}, stop); }) == "prune: cancelled after layer 1");
  for (const char* name : {"model.layers.1.mlp.up_proj", "lm_head"}) {
    TinyModel broken = tiny;
    broken.tensor(std::string(name) + ".weight").values[7] = NAN;
    CHECK(error_of([&] { (void)prune_structure(written(broken, "broken"), {&removal, 1}, calibration); }).find(name) == 0);
  }
}

TEST_CASE("slicing loses less of a real model than its channels do at the same size") {
  if (skips_figures()) return;
  BANTAM_NEED_SHARED(text_file, "corpora/books-valid.txt");
  const RealModel real(text_file);
  const auto divergence = [&](const Removal& removal) {
    const PrunedStructure pruned = prune_structure(real.original, {&removal, 1}, real.calibration);
    const double left = static_cast<double>(pruned.after.parameters) / static_cast<double>(pruned.before.parameters);
    CHECK(left == doctest::Approx(0.75).epsilon(0.02));
    return real.divergence(pruned);
  };
  CHECK(divergence({Part::hidden, 0.25}) < 0.7 * divergence({Part::channels, 0.45}));
}

}  // namespace
}  // namespace bantam::test
