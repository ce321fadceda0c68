// LoRA adapters: small changes of a model's matrices, made at run time or merged (Hu et al., arXiv:2106.09685).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bantam/model/config.hpp"
#include "bantam/nn/low_rank.hpp"

namespace bantam::inline v0 {

/// What an adapter is loaded for. Some kinds are merged alone.
enum class AdapterUse : std::uint8_t { run, merge };

/// What an adapter adds to one matrix, or to that of one head where a matrix has one of each (RoleInfo::by_heads).
struct AdapterMatrix {
  TensorId id;  ///< in the place of an expert's number that of the head
  nn::LowRank update;
  std::vector<float> magnitudes = {};  ///< the length that each row of the changed matrix gets (DoRA: arXiv:2402.09353); empty: its own. Merged alone
};

/// Rows in the place of a matrix's, or the numbers of a vector. Merged alone.
struct AdapterRows {
  TensorId id;
  WeightMatrix values;
  std::vector<std::int64_t> places = {};  ///< of each row in the matrix; empty: it is all of it
};

/// Low-rank changes of some of a model's matrices, and rows of others where it is to be merged: y = W x + scale * alpha / rank * B (A x). Constant; copies share everything.
class Adapter {
 public:
  /// A folder as PEFT writes it (adapter_config.json, adapter_model.safetensors) or a GGUF file as llama.cpp's convert_lora_to_gguf.py
  /// does, for models of this config, whatever container and formats their weights came in. Throws not_found, corrupt for what is
  /// broken or has other shapes than the model's matrices, unsupported for what is no plain LoRA of matrices.
  /// To be merged: DoRA, changes of embeddings, modules_to_save and trained tokens, too.
  [[nodiscard]] static Adapter load(const std::filesystem::path& path, const ModelConfig& config, AdapterUse use = AdapterUse::run);

  [[nodiscard]] const std::filesystem::path& path() const noexcept;
  /// In the order of their ids.
  [[nodiscard]] std::span<const AdapterMatrix> matrices() const noexcept;
  /// Of the model's tables and head alone.
  [[nodiscard]] std::span<const AdapterRows> rows() const noexcept;
  /// Of one layer; -1: of none.
  [[nodiscard]] std::span<const AdapterMatrix> of_layer(std::int64_t layer) const noexcept;
  /// The largest of its matrices.
  [[nodiscard]] std::int64_t rank() const noexcept;
  /// In memory.
  [[nodiscard]] std::int64_t bytes() const noexcept;
  /// A number that differs between adapters: saved sessions are restored with those that they were saved with.
  [[nodiscard]] std::uint64_t fingerprint() const noexcept;
  /// Throws invalid_argument unless models of this config have all of its matrices, in the same shapes; unsupported for what is merged alone,
  /// where it is to run.
  void check_fits(const ModelConfig& config, AdapterUse use = AdapterUse::run) const;

 private:
  [[nodiscard]] const std::string& name_of(const AdapterMatrix& matrix) const noexcept;
  struct Data;
  explicit Adapter(std::shared_ptr<const Data> data) : data_(std::move(data)) {}
  std::shared_ptr<const Data> data_;
};

/// An adapter, and how much of it.
struct ScaledAdapter {
  Adapter adapter;
  float scale = 1;
};

/// Where one is, and how much of it.
struct AdapterChoice {
  std::string path;
  float scale = 1;
};
/// Of "PATH" or "PATH:SCALE": a scale is a finite number behind the last colon. What is none belongs to the path, and a path that exists as
/// it is written is one.
[[nodiscard]] AdapterChoice parse_adapter(std::string_view text);
/// Throws what Adapter::load() throws.
[[nodiscard]] std::vector<ScaledAdapter> load_adapters(std::span<const AdapterChoice> choices, const ModelConfig& config, AdapterUse use = AdapterUse::run);

/// Differs between sets of adapters and scales; 0 for none.
[[nodiscard]] std::uint64_t fingerprint_of(std::span<const ScaledAdapter> adapters) noexcept;

}  // namespace bantam::inline v0
