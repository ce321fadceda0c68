// FP8 with scales of blocks, as DeepSeek's folders have it, in every matrix of a mixture: each expert's, the shared one's, those of attention, latent or not.
#include <cmath>

#include "bantam/compress/compress.hpp"
#include "bantam/io/safetensors.hpp"
#include "tiny_model.hpp"

namespace bantam::test {
namespace {

/// What a byte of E4M3 stands for (OCP 8-bit floating point 1.0, table 1).
float e4m3(unsigned byte) {
  const int exponent = static_cast<int>(byte >> 3 & 15);
  const double fraction = byte & 7;
  const double size = exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(8 + fraction, exponent - 10);
  return static_cast<float>((byte & 128) != 0 ? -size : size);
}

struct StoredTensor {
  std::string name, type;
  std::vector<std::int64_t> shape;
  std::string bytes;
};

/// Random bytes and scales in the place of every matrix but tables and routers. `tiny` gets the numbers that they stand for.
class Fp8Folder {
 public:
  Fp8Folder(TinyModel& tiny, std::int64_t block, bool powers) : tiny_(tiny), block_(block), powers_(powers) {
    for (TinyTensor& t : tiny.tensors) {
      const bool table = t.name.find("layers.") == std::string::npos, router = t.shape.size() == 2 && t.shape[0] == tiny.experts;
      if (t.shape.size() != 2 || table || router) {
        stored.push_back({t.name, "F32", t.shape, TinyModel::bytes_of(t.values, "F32")});
      } else if (t.heads == 0) {
        t.values = store(t.name, t.shape);
      } else if (t.fused.transposed) {
        store_latent(t);
      }
    }
  }

  std::vector<StoredTensor> stored;
  std::int64_t matrices = 0;  ///< in FP8

 private:
  std::vector<float> store(const std::string& name, const std::vector<std::int64_t>& shape) {
    const std::int64_t rows = shape[0], columns = shape[1], down = (rows + block_ - 1) / block_, across = (columns + block_ - 1) / block_;
    std::vector<float> scales, values;
    for (std::int64_t i = 0; i < down * across; ++i) {
      scales.push_back(powers_ ? std::ldexp(1.0f, -static_cast<int>(7 + random_.next() % 4)) : static_cast<float>(0.001 + 0.004 * std::fabs(random_.normal())));
    }
    std::string bytes;
    for (std::int64_t i = 0; i < rows * columns; ++i) {
      auto byte = static_cast<unsigned>(random_.next() % 256);
      if ((byte & 127) == 127) byte ^= 1;  // no number
      bytes += static_cast<char>(byte);
      values.push_back(e4m3(byte) * scales[static_cast<std::size_t>(i / columns / block_ * across + i % columns / block_)]);
    }
    stored.push_back({name, "F8_E4M3", shape, bytes});
    stored.push_back({name.substr(0, name.rfind(".weight")) + ".weight_scale_inv", "F32", {down, across}, TinyModel::bytes_of(scales, "F32")});
    ++matrices;
    return values;
  }

  /// Keys' and values' up-projections of latent attention, which folders have in one matrix, head by head.
  void store_latent(TinyTensor& k_b) {
    const TinyTensor both = tiny_.latent_tensor(k_b);
    const std::vector<float> values = store(both.name, both.shape);
    const std::int64_t rank = tiny_.kv_rank, nope = k_b.shape[1], of_value = tiny_.value_dim;
    TinyTensor& v_b = *std::ranges::find_if(tiny_.tensors, [&](const TinyTensor& t) { return t.fused_name == k_b.fused_name && !t.fused.transposed; });
    for (std::int64_t h = 0; h < tiny_.heads; ++h) {
      const auto head = values.begin() + h * (nope + of_value) * rank;
      for (std::int64_t n = 0; n < nope; ++n) {
        for (std::int64_t r = 0; r < rank; ++r) k_b.values[static_cast<std::size_t>((h * rank + r) * nope + n)] = head[n * rank + r];
      }
      std::copy_n(head + nope * rank, of_value * rank, v_b.values.begin() + h * of_value * rank);
    }
  }

  TinyModel& tiny_;
  std::int64_t block_;
  bool powers_;
  Random random_{7};
};

TEST_CASE("FP8 of every expert, shared expert and attention matrix is read number for number") {
  for (const ArchSpec* arch : architectures) {
    if (!arch->has_experts()) continue;
    if (const Fused& fused = arch->find(Role::expert_up, true)->fused; !fused.name.empty() && !fused.only_read) continue;
    CAPTURE(std::string(arch->name));
    for (const auto& [block, powers] : {std::pair<std::int64_t, bool>{16, false}, {16, true}, {128, false}}) {
      CAPTURE(block);
      CAPTURE(powers);
      // Blocks that end within a matrix, and one that is larger.
      TinyModel tiny{.arch = arch, .expert_ffn = 24};
      tiny.make();
      const Fp8Folder fp8(tiny, block, powers);
      const std::vector<StoredTensor>& stored = fp8.stored;
      tiny.config["quantization_config"] = {{"quant_method", "fp8"}, {"fmt", "e4m3"}, {"activation_scheme", "dynamic"}, {"weight_block_size", {block, block}}};
      const TemporaryFolder folder;
      std::filesystem::create_directories(folder / "hf");
      tiny.write_tokenizer(folder / "hf");
      write_file(folder / "hf" / "config.json", tiny.config.dump());
      std::vector<SafetensorsWriter::Announced> announced;
      for (const StoredTensor& t : stored) announced.push_back({t.name, t.type, t.shape});
      SafetensorsWriter writer(folder / "hf" / "model.safetensors", announced, {});
      for (const StoredTensor& t : stored) writer.write(std::as_bytes(std::span(t.bytes)));
      writer.commit();
      const Checkpoint checkpoint = Checkpoint::open(folder / "hf");
      compress_file(checkpoint, folder / "m.bantam", recipe::rtn("f32"));
      const Checkpoint native = Checkpoint::open(folder / "m.bantam");
      std::int64_t of_experts = 0, packed = 0;
      for (const CheckpointTensor& tensor : checkpoint.tensors()) {
        if (!tensor.is_matrix) continue;
        CAPTURE(tensor.name);
        const std::vector<float>& expected = tiny.tensor(tensor.tensor_name()).values;
        CHECK(std::ranges::equal(checkpoint.load_matrix(tensor, Reading::buffered).dequantize().span(), expected));
        const auto same = std::ranges::find(native.tensors(), tensor.name, &CheckpointTensor::name);
        REQUIRE(same != native.tensors().end());
        CHECK(std::ranges::equal(native.load_matrix(*same, Reading::buffered).dequantize().span(), expected));
        packed += tensor.stored_as().starts_with("fp8");
        of_experts += tensor.expert >= 0 && tensor.stored_as().starts_with("fp8");
      }
      const std::int64_t sparse = std::ranges::count_if(checkpoint.config().specs, &LayerSpec::is_sparse);
      CHECK(of_experts == sparse * 6 * (arch->find(Role::expert_gate, true) != nullptr ? 3 : 2));
      // Of latent attention two matrices lie in one.
      CHECK(packed == fp8.matrices + (arch->latent ? std::ranges::count(checkpoint.config().specs, MixerKind::attention, &LayerSpec::mixer) : 0));
    }
  }
}

}  // namespace
}  // namespace bantam::test
