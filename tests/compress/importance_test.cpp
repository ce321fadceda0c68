// Importance matrices: llama.cpp's two kinds of file, what a model's own text makes, and what rounding makes of them.
#include "bantam/calibrate/importance.hpp"

#include <cstring>
#include <fstream>
#include <limits>

#include "bantam/compress/compress.hpp"
#include "bantam/io/gguf_writer.hpp"
#include "bantam/kernels/table.hpp"
#include "bantam/model/archs.hpp"
#include "compress/inputs.hpp"
#include "tiny_model.hpp"

namespace bantam::test {
namespace {

struct OlderBytes {
  std::string bytes;
  OlderBytes& number(std::int32_t value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  OlderBytes& text(std::string_view text) {
    number(static_cast<std::int32_t>(text.size()));
    bytes += text;
    return *this;
  }
  OlderBytes& values(const std::vector<float>& values) {
    number(static_cast<std::int32_t>(values.size()));
    bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    return *this;
  }
};

void write_bytes(const std::filesystem::path& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

}  // namespace

TEST_CASE("an importance matrix is the same after it was written and read") {
  ImportanceMatrix importance;
  importance.entries["blk.0.attn_q.weight"] = {{1, 2.5f, 0.25f, 8}, {16}};
  importance.entries["blk.0.ffn_down_exps.weight"] = {{1, 2, 0, 0, 5, 6}, {4, 0, 2}};
  importance.texts = {"a text", "another"};
  importance.pieces = 3;
  importance.piece_tokens = 512;
  const TemporaryFolder folder;
  write_importance(importance, folder / "i.gguf");
  const ImportanceMatrix read = read_importance(folder / "i.gguf");
  CHECK(read.texts == importance.texts);
  CHECK(read.pieces == 3);
  CHECK(read.piece_tokens == 512);
  REQUIRE(read.entries.size() == 2);
  for (const auto& [name, entry] : importance.entries) {
    CHECK(read.entries.at(name).mean_squares == entry.mean_squares);
    CHECK(read.entries.at(name).counts == entry.counts);
  }
  CHECK(read.of("blk.0.attn_q.weight").size() == 4);
  CHECK(read.of("blk.0.ffn_down_exps.weight", 2)[1] == 6);
  CHECK(read.of("blk.0.ffn_down_exps.weight", 1).empty());  // nothing is known of it
  CHECK(read.of("blk.0.ffn_down_exps.weight", 3).empty());
  CHECK(read.of("blk.1.attn_q.weight").empty());
}

TEST_CASE("files of the older kind are read") {
  const TemporaryFolder folder;
  const OlderBytes older = OlderBytes().number(2).text("blk.0.attn_q.weight").number(4).values({4, 8, 12}).text("b").number(0).values({1}).number(9).text("a text");
  write_bytes(folder / "i.dat", older.bytes);
  const ImportanceMatrix read = read_importance(folder / "i.dat");
  CHECK(read.entries.at("blk.0.attn_q.weight").mean_squares == std::vector<float>{1, 2, 3});
  CHECK(read.entries.at("b").mean_squares == std::vector<float>{1});
  CHECK(read.pieces == 9);
  CHECK(read.texts == std::vector<std::string>{"a text"});
  // Cut anywhere it is refused, but where the oldest end.
  const std::size_t end = older.bytes.size() - 4 - 4 - 6;
  for (std::size_t size = 0; size < older.bytes.size(); ++size) {
    write_bytes(folder / "i.dat", older.bytes.substr(0, size));
    if (size == end || size == end + 4) continue;
    CAPTURE(size);
    (void)error_of([&] { (void)read_importance(folder / "i.dat"); });
  }
}

TEST_CASE("importance matrices that are none are refused, naming file, tensor and number") {
  const TemporaryFolder folder;
  const auto refused = [&](const OlderBytes& older) {
    write_bytes(folder / "i.dat", older.bytes);
    const std::string text = error_of([&] { (void)read_importance(folder / "i.dat"); });
    has(text, "i.dat");
    return text;
  };
  has(refused(OlderBytes().number(0)), "found 0 entries");
  has(refused(OlderBytes().number(-5)), "found -5 entries");
  has(refused(OlderBytes().number(1).number(-1)), "found -1");
  has(refused(OlderBytes().number(1).number(0x7fffffff)), "expected the name of entry 0 of 2147483647 bytes");
  has(refused(OlderBytes().number(1).text("a").number(-1).values({1})), "found -1");
  has(refused(OlderBytes().number(1).text("a").number(1).number(0)), "expected values, found 0");
  has(refused(OlderBytes().number(1).text("a").number(1).number(0x7fffffff)), "expected values of 8589934588 bytes");
  has(refused(OlderBytes().number(1).text("a").number(1).values({1, std::numeric_limits<float>::quiet_NaN()})), "found nan at 1");
  has(refused(OlderBytes().number(1).text("a").number(1).values({-1})), "found -1 at 0");
  has(refused(OlderBytes().number(2).text("a").number(1).values({1}).text("a").number(1).values({1})), "found twice");
  const auto gguf = [&](std::vector<GgufWriter::Announced> tensors, float value) {
    GgufWriter file(folder / "i.dat");
    file.key("general.type", "imatrix");
    file.begin(tensors);
    for (const GgufWriter::Announced& tensor : tensors) {
      std::vector<float> values(static_cast<std::size_t>(tensor.shape[0] * tensor.shape[1]), value);
      file.write(std::as_bytes(std::span(values)));
    }
    file.commit();
    return error_of([&] { (void)read_importance(folder / "i.dat"); });
  };
  has(gguf({{"a.in_sum2", "F32", {1, 4}}}, 1), "a: expected counts beside the sums");
  has(gguf({{"a.in_sum2", "F32", {1, 4}}, {"a.counts", "F32", {3, 1}}}, 1), "found 4 of 3");
  has(gguf({{"a.in_sum2", "F32", {1, 4}}, {"a.counts", "F32", {1, 1}}}, -1), "found -1");
  has(gguf({{"a.weight", "F32", {1, 4}}}, 1), "found none");
}

TEST_CASE("what a model reads is the mean square of its inputs, for every matrix of its blocks") {
  for (const ArchSpec* arch : {architectures[0], &archs::mixtral}) {
    CAPTURE(std::string(arch->name));
    TinyModel tiny{.arch = arch, .experts = 4, .experts_used = 2};
    tiny.make();
    const TemporaryFolder folder;
    tiny.write_folder(folder / "hf");
    const Checkpoint checkpoint = Checkpoint::open(folder / "hf");
    const Calibration calibration = some_calibration();
    const ImportanceMatrix importance = measure_importance(checkpoint, calibration);
    CHECK(importance.pieces == 4);
    std::int64_t known = 0;
    for (const CheckpointTensor& tensor : checkpoint.tensors()) {
      if (!tensor.is_matrix || tensor.layer < 0 || info_of(tensor.role).stays_float()) continue;
      CAPTURE(tensor.name);
      const ModelConfig& config = checkpoint.config();
      const std::string name = name_in(config, config.key_of(tensor.role, tensor.layer)->gguf, tensor);
      REQUIRE(importance.entries.contains(name));
      const auto found = importance.of(name, tensor.expert);
      if (found.empty()) continue;  // no token went there
      ++known;
      CHECK(std::ssize(found) == tensor.columns);
      CHECK(std::ranges::all_of(found, [](float x) { return x >= 0; }));
    }
    CHECK(known >= 7);
    // The first matrices read the embedding's rows, normed.
    const Model model = Model::load(folder / "hf");
    const auto first = importance.of("blk.0.attn_q.weight");
    std::vector<double> sums(first.size());
    double tokens = 0;
    std::vector<float> row(first.size()), normed(first.size());
    RowCodes scratch;
    for (const auto& sample : calibration.samples) {
      for (const TokenId id : sample) {
        model.weights().embedding.read_row(id, row, scratch);
        kernels_in_use().rms_norm(row.data(), model.weights().layers[0].attention_norm.data(), static_cast<float>(checkpoint.config().norm_eps), normed.data(), std::ssize(row));
        for (std::size_t c = 0; c < sums.size(); ++c) sums[c] += static_cast<double>(normed[c]) * static_cast<double>(normed[c]);
        ++tokens;
      }
    }
    CHECK(importance.entries.at("blk.0.attn_q.weight").counts[0] == tokens);
    for (std::size_t c = 0; c < sums.size(); ++c) CHECK(static_cast<double>(first[c]) == doctest::Approx(sums[c] / tokens).epsilon(1e-3));
  }
}

TEST_CASE("rounding by an importance matrix is rounding by the text that made it") {
  TinyModel tiny{.dim = 64, .heads = 4, .head_dim = 16, .ffn = 96};
  tiny.make();
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  const Checkpoint checkpoint = Checkpoint::open(folder / "hf");
  const auto importance = std::make_shared<const ImportanceMatrix>(measure_importance(checkpoint, some_calibration()));
  const Recipe weighed(find_format("i3"), Method::rtn, {.importance = importance});
  const auto [plain, plain_report] = compress(Model::load(folder / "hf"), Recipe(find_format("i3")));
  const auto [small, report] = compress(Model::load(folder / "hf"), weighed);
  const auto [by_text, text_report] = compress(Model::load(folder / "hf"), Recipe(find_format("i3")), {}, some_calibration());
  // Of the first layer's first matrices, whose inputs are those of the original in both.
  const auto q_of = [](const Model& model) { return model.weights().layers[0].attention.q.dequantize(); };
  CHECK(std::ranges::equal(q_of(small).span(), q_of(by_text).span()));
  CHECK(!std::ranges::equal(q_of(small).span(), q_of(plain).span()));
  // Of another model.
  TinyModel other{.dim = 32, .heads = 4, .head_dim = 8, .ffn = 64};
  other.make();
  other.write_folder(folder / "other");
  has(error_of([&] { (void)weighed.for_model(Checkpoint::open(folder / "other")); }), "expected 32 columns, found 64");
  ImportanceMatrix strange;
  strange.entries["strange"] = {{1}, {1}};
  const Recipe none(find_format("i3"), Method::rtn, {.importance = std::make_shared<const ImportanceMatrix>(strange)});
  has(error_of([&] { (void)none.for_model(checkpoint); }), "found none");
}

}  // namespace bantam::test
