// Random adapters of tiny models, as PEFT writes them and as llama.cpp's converter does.
#pragma once

#include <list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "bantam/model/adapter.hpp"
#include "bantam/io/safetensors.hpp"
#include "model/arrangement.hpp"
#include "tiny_model.hpp"

namespace bantam::test {

struct TinyAdapter {
  /// What is added to one tensor of the model.
  struct Change {
    const TinyTensor* tensor;
    std::vector<float> a;  ///< (rank, columns)
    std::vector<float> b;  ///< (rows, rank), in Hugging Face's order
  };

  const TinyModel& model;
  std::int64_t rank = 3;
  double alpha = 6;
  std::vector<Role> left_out = {};
  std::vector<Change> changes = {};
  std::list<TinyTensor> latent = {};  ///< keys' and values' up-projections in one, as they are changed

  /// Every matrix that tokens are multiplied by; matrices whose rows are in a tensor together have one A, as they read the same.
  TinyAdapter& make(std::uint64_t seed) {
    Random random(seed);
    std::map<std::pair<std::int64_t, std::string>, std::vector<float>> shared;
    changes.clear();
    latent.clear();
    for (const TinyTensor& t : model.tensors) {
      const RoleInfo& info = info_of(t.own.role);
      if (std::ranges::count(left_out, t.own.role) > 0) continue;
      if (!info.is_adaptable() || info.is_looked_up() || (info.by_heads && !t.fused.transposed) || t.own.layer >= model.sizes.layers) continue;
      const auto normal = [&](std::int64_t count, double spread) {
        std::vector<float> values;
        for (std::int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>(spread * random.normal()));
        return values;
      };
      if (info.by_heads) latent.push_back(model.latent_tensor(t)), latent.back().own = t.own;
      const TinyTensor& changed = info.by_heads ? latent.back() : t;
      Change change{&changed, normal(rank * changed.shape[1], 1 / std::sqrt(static_cast<double>(changed.shape[1]))), normal(changed.shape[0] * rank, 0.15)};
      for (const std::string& name : {t.fused_name, t.gguf_name}) {
        if (name.empty() || info.is_of_expert() || info.by_heads) continue;
        const auto [at, is_new] = shared.try_emplace({t.own.layer, name}, change.a);
        if (!is_new) change.a = at->second;
      }
      for (const std::string& name : {t.fused_name, t.gguf_name}) {
        if (!name.empty() && !info.is_of_expert() && !info.by_heads) shared[{t.own.layer, name}] = change.a;
      }
      changes.push_back(std::move(change));
    }
    return *this;
  }

  /// scale * alpha / rank * B A, added to a model in double precision; weights are rounded to floats once.
  void add_to(reference::Transformer& to, double scale = 1) const {
    for (const Change& change : changes) {
      const std::int64_t columns = change.tensor->shape[1];
      const std::string& name = change.tensor->reference_name.empty() ? change.tensor->name : change.tensor->reference_name;
      std::vector<float>& weights = to.weights.at(name);
      for (std::int64_t i = 0; i < std::ssize(weights); ++i) {
        double sum = 0;
        for (std::int64_t r = 0; r < rank; ++r) {
          sum += static_cast<double>(change.b[static_cast<std::size_t>(i / columns * rank + r)]) * static_cast<double>(change.a[static_cast<std::size_t>(r * columns + i % columns)]);
        }
        float& weight = weights[static_cast<std::size_t>(i)];
        weight = static_cast<float>(static_cast<double>(weight) + scale * alpha / static_cast<double>(rank) * sum);
      }
    }
  }

  /// The B of all changes as tensors of a model, with the model's own rules of what lies where.
  [[nodiscard]] TinyModel lifts() const {
    TinyModel of_b = model;
    of_b.tensors.clear();
    for (const Change& change : changes) {
      TinyTensor& t = of_b.tensors.emplace_back(*change.tensor);
      t.values = change.b;
      t.shape = {t.shape[0], rank};
      if (info_of(t.own.role).is_of_expert()) t.fused_name.clear();
      // PEFT's lie as those of any layer do, where the weights are transposed, too.
      if (!info_of(t.own.role).by_heads) t.fused.transposed = false;
    }
    return of_b;
  }

  [[nodiscard]] Json config() const {
    return {{"peft_type", "LORA"}, {"task_type", "CAUSAL_LM"}, {"r", rank}, {"lora_alpha", alpha}, {"use_rslora", false}, {"use_dora", false}, {"bias", "none"},
            {"modules_to_save", nullptr}, {"rank_pattern", Json::object()}, {"alpha_pattern", Json::object()}, {"fan_in_fan_out", false}, {"init_lora_weights", true},
            {"target_modules", {"all-linear"}}};
  }

  /// (name, shape, values) of a folder's tensors.
  [[nodiscard]] std::vector<TinyTensor> folder_tensors() const {
    std::vector<TinyTensor> all;
    for (TinyTensor& b : lifts().folder_tensors()) {
      const auto made = std::ranges::find_if(changes, [&](const Change& c) { return c.tensor->name == b.name || (!c.tensor->fused_name.empty() && c.tensor->fused_name == b.name); });
      std::string name = b.name.substr(0, b.name.rfind(".weight"));
      all.push_back({"base_model.model." + name + ".lora_A.weight", "", {rank, made->tensor->shape[1]}, made->a});
      all.push_back({"base_model.model." + name + ".lora_B.weight", "", b.shape, b.values});
    }
    return all;
  }
  static void write_tensors(const std::filesystem::path& folder, const std::vector<TinyTensor>& all, const std::string& type = "F32") {
    std::vector<SafetensorsWriter::Announced> announced;
    for (const TinyTensor& t : all) announced.push_back({t.name, type, t.shape});
    SafetensorsWriter writer(folder / "adapter_model.safetensors", announced, {{"format", "pt"}});
    for (const TinyTensor& t : all) {
      const std::string bytes = TinyModel::bytes_of(t.values, type);
      writer.write(std::as_bytes(std::span(bytes)));
    }
    writer.commit();
  }
  /// A folder of PEFT's. `type`: F32, F16 or BF16.
  void write_folder(const std::filesystem::path& folder, const std::string& type = "F32") const {
    std::filesystem::create_directories(folder);
    write_file(folder / "adapter_config.json", config().dump(1));
    write_tensors(folder, folder_tensors(), type);
  }

  /// The metadata of a GGUF adapter.
  [[nodiscard]] GgufBuilder gguf_keys() const {
    GgufBuilder b;
    b.key("general.architecture", std::string(model.arch->gguf_name())).key("general.type", "adapter").key("adapter.type", "lora");
    return b.key("adapter.lora.alpha", static_cast<float>(alpha));
  }
  /// As convert_lora_to_gguf.py writes it.
  [[nodiscard]] GgufBuilder gguf() const {
    GgufBuilder b = gguf_keys();
    const TinyModel of_b = lifts();
    for (std::size_t i = 0; i < changes.size();) {
      const std::string name = changes[i].tensor->gguf_name;
      const std::size_t first = i;
      std::vector<float> a, lifted;
      const bool stacked = info_of(changes[i].tensor->own.role).is_of_expert();
      for (; i < changes.size() && changes[i].tensor->gguf_name == name; ++i) {
        const Arrangement folder = arrangement_of(changes[i].tensor->own, model.sizes, Container::folder), gguf = arrangement_of(changes[i].tensor->own, model.sizes, Container::gguf);
        const std::vector<float> own_a = arranged(changes[i].a, rank, folder.columns, gguf.columns, false), own_b = arranged(changes[i].b, std::ssize(changes[i].b) / rank, folder.rows, gguf.rows, true);
        if (stacked || a.empty()) a.insert(a.end(), own_a.begin(), own_a.end());
        lifted.insert(lifted.end(), own_b.begin(), own_b.end());
      }
      const auto count = static_cast<std::int64_t>(i - first), experts = stacked ? count : 1;
      if (!stacked && count == 2 && changes[first].tensor->fused.by_key_heads) {
        const bool in_order = changes[first].tensor->fused.part == 0;
        lifted = of_b.by_key_heads({&of_b.tensors[in_order ? first : first + 1], &of_b.tensors[in_order ? first + 1 : first]});
      }
      const auto shape = [&](std::int64_t columns, std::int64_t rows) {
        std::vector<std::int64_t> dimensions{columns, rows};
        if (experts > 1) dimensions.push_back(experts);
        return dimensions;
      };
      b.tensor(name + ".lora_a", shape(changes[first].tensor->shape[1], rank), 0, TinyModel::bytes_of(a, "F32"));
      b.tensor(name + ".lora_b", shape(rank, std::ssize(lifted) / rank / experts), 0, TinyModel::bytes_of(lifted, "F32"));
    }
    return b;
  }
  void write_gguf(const std::filesystem::path& path) const { write_file(path, gguf().bytes()); }
  /// Whether GGUF has a name for all of it.
  [[nodiscard]] bool has_gguf() const {
    return std::ranges::none_of(changes, [](const Change& c) { return c.tensor->gguf_name.empty(); });
  }

 private:
  /// Rows, or columns, in GGUF's order of what is in that of folders; both say which of theirs each of ours is.
  static std::vector<float> arranged(const std::vector<float>& values, std::int64_t rows, const std::vector<std::int64_t>& from, const std::vector<std::int64_t>& to, bool by_rows) {
    const std::int64_t columns = std::ssize(values) / rows;
    const auto at = [](const std::vector<std::int64_t>& order, std::int64_t i) { return order.empty() ? i : order[static_cast<std::size_t>(i)]; };
    std::vector<float> out(values.size());
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < columns; ++c) {
        const std::int64_t there = by_rows ? at(to, r) * columns + c : r * columns + at(to, c);
        out[static_cast<std::size_t>(there)] = values[static_cast<std::size_t>(by_rows ? at(from, r) * columns + c : r * columns + at(from, c))];
      }
    }
    return out;
  }
};

}  // namespace bantam::test
