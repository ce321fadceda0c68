// compressed-tensors, as llm-compressor writes it. What a module is stored as shows in its tensors; what they mean, in the
// group of the config whose targets match its name. For `in` columns and `out` rows:
//   pack-quantized   weight_packed I32 (out, in / n), n = 32 / bits whole codes a word, lowest first; codes are raised by
//                    2^(bits - 1); weight_zero_point I32 (out / n, groups), packed along the rows, raised likewise;
//                    weight_g_idx I32 (in); weight_shape (2)
//   int-quantized    weight I8 (out, in), weight_zero_point I8
//   float-quantized  weight F8_E4M3 (out, in)
//   weight_scale     (1) of a tensor, (out, 1) of channels, (out, groups), or (blocks, blocks); of mxfp8 exponents
//   mxfp4, nvfp4     weight_packed U8 (e2m1.hpp); of nvfp4 weight_global_scale (1), by which scales are divided
//   sparse           sparse_matrix.hpp
// w = (code - zero) scale.
#include <algorithm>

#include "e2m1.hpp"
#include "family.hpp"
#include "float8.hpp"
#include "sparse_matrix.hpp"

namespace bantam::inline v0 {

namespace {

using bantam::detail::load_as;

/// "Linear", a name, or "re:" and an expression.
class Target {
 public:
  Target(const Json& json, const std::string& place) {
    expect(json.is_string(), place, "a string", json);
    name_ = json.string();
    if (name_.starts_with("re:")) pattern_.emplace(std::string_view(name_).substr(3), place);
  }
  [[nodiscard]] bool matches(std::string_view module) const {
    return pattern_ ? pattern_->matches(module) : name_ == "Linear" || name_ == module;
  }

 private:
  std::string name_;
  std::optional<NamePattern> pattern_;
};

/// How the weights of a group of modules were rounded.
struct Scheme {
  std::int64_t bits = 0;
  std::string strategy;
  std::int64_t group = 0;
  std::int64_t block_rows = 0;
  std::int64_t block_columns = 0;

  [[nodiscard]] Rectangles rectangles(std::int64_t rows, std::int64_t columns) const {
    if (strategy == "tensor") return {rows, columns, rows, columns};
    if (strategy == "channel") return {rows, columns, 1, columns};
    if (strategy == "group") return {rows, columns, 1, std::min(group, columns)};
    return {rows, columns, std::min(block_rows, rows), std::min(block_columns, columns)};
  }
  [[nodiscard]] std::string describe() const {
    return strategy == "group" ? message("groups of ", group) : strategy == "block" ? message("blocks of ", block_rows, " x ", block_columns) : message("a scale a ", strategy);
  }
};

Scheme read_scheme(const Json& weights, const std::string& place) {
  Scheme s;
  s.bits = whole_or(weights, "num_bits", 2, 8, 8, place);
  s.group = whole_or(weights, "group_size", -1, 1 << 30, 0, place);
  s.strategy = text_or(weights, "strategy", s.group > 0 ? "group" : s.group < 0 ? "channel" : "tensor", place);
  if (s.strategy == "tensor_group") s.strategy = "group";  // of nvfp4: under a scale of the tensor
  if (s.strategy == "group" && s.group < 1) fail(Errc::corrupt, place, ": group_size: expected a number above 0, found ", s.group);
  if (s.strategy == "block") {
    const Json& blocks = need(weights, "block_structure", place);
    const auto side = [&](std::size_t i) {
      return blocks.is_array() && blocks.size() == 2 && blocks[i].is_number_unsigned() ? std::min<std::uint64_t>(blocks[i].get<std::uint64_t>(), 1 << 30) : 0;
    };
    s.block_rows = static_cast<std::int64_t>(side(0));
    s.block_columns = static_cast<std::int64_t>(side(1));
    if (s.block_rows < 1 || s.block_columns < 1) {
      fail(Errc::corrupt, place, ": block_structure: expected two numbers above 0, found ", printable(blocks.dump()));
    }
  } else if (s.strategy != "group" && s.strategy != "channel" && s.strategy != "tensor") {
    fail(Errc::unsupported, place, ": strategy ", printable(s.strategy), ": not yet; what works: tensor, channel, group, block");
  }
  return s;
}

constexpr std::string_view about_activations[] = {"input_scale", "input_zero_point", "input_global_scale", "output_scale", "output_zero_point", "k_scale", "v_scale"};

/// The scales, in any shape that has as many.
FloatsView take_scales(ModuleTensors& tensors, const Rectangles& r) {
  const TensorEntry* entry = tensors.peek("weight_scale");
  const std::int64_t count = r.count_down * r.count_across;
  if (entry != nullptr && (entry->type == "U8" || entry->type == "F8_E8M0")) return tensors.exponents("weight_scale", {r.count_down, r.count_across});
  if (entry != nullptr && entry->shape.size() < 2 && (entry->shape.empty() ? 1 : entry->shape[0]) == count) {
    return tensors.floats("weight_scale", entry->shape);
  }
  return tensors.floats("weight_scale", {r.count_down, r.count_across});
}

/// MXFP4 and NVFP4.
std::shared_ptr<MatrixSource> open_packed_floats(ModuleTensors tensors, std::int64_t rows, std::int64_t columns) {
  tensors.pass_over(about_activations);
  const float unit = tensors.peek("weight_global_scale") == nullptr ? 1 : 1 / tensors.number("weight_global_scale");
  return open_e2m1(std::move(tensors), "weight_packed", rows, columns, unit, "compressed-tensors");
}

class IntegerMatrix final : public GridMatrix {
 public:
  IntegerMatrix(ModuleTensors tensors, std::int64_t rows, std::int64_t columns, const Scheme& s)
      : GridMatrix(message("compressed-tensors ", s.bits, " bits, ", s.describe()), rows, columns, {.bits = static_cast<int>(s.bits), .group = 1}),
        rectangles_(s.rectangles(rows, columns)), packed_(tensors.peek("weight_packed") != nullptr), per_word_(32 / s.bits) {
    grid_.group = rectangles_.columns;
    if (packed_) {
      line_ = div_up(columns, per_word_);
      codes_ = tensors.take("weight_packed", "I32", {rows, line_}).bytes.data();
    } else {
      grid_.bits = 8;  // codes of fewer bits are bytes too
      codes_ = tensors.take("weight", "I8", {rows, columns}).bytes.data();
    }
    scales_ = take_scales(tensors, rectangles_);
    take_zeros(tensors);
    if (tensors.peek("weight_shape") != nullptr) check_shape(tensors.take("weight_shape"), tensors.place("weight_shape"));
    if (tensors.peek("weight_g_idx") != nullptr) {
      const TensorEntry& index = tensors.take("weight_g_idx", "I32", {columns});
      // Writers that did not sort leave -1.
      if (load_as<std::int32_t>(index.bytes.data()) != -1) take_groups(index, tensors.place("weight_g_idx"));
    }
    tensors.pass_over(about_activations);
    parts_ = tensors.taken();
    settle(tensors.place("weight_scale"));
  }

 protected:
  void read_codes(std::int64_t first_row, int rows, std::uint8_t* codes) const noexcept override {
    for (std::int64_t row = first_row; row < first_row + rows; ++row) {
      if (!packed_) {
        const std::byte* from = codes_ + row * columns_;
        for (std::int64_t c = 0; c < columns_; ++c) *codes++ = static_cast<std::uint8_t>(load_as<std::uint8_t>(from + c) ^ 0x80u);
        continue;
      }
      const std::byte* words = codes_ + row * line_ * 4;
      for (std::int64_t c = 0; c < columns_;) {
        auto word = load_as<std::uint32_t>(words + c / per_word_ * 4);
        for (const std::int64_t end = std::min(c + per_word_, columns_); c < end; ++c, word >>= grid_.bits) {
          *codes++ = static_cast<std::uint8_t>(word & ((1u << grid_.bits) - 1));
        }
      }
    }
  }

  [[nodiscard]] Side side(std::int64_t row, std::int64_t group) const noexcept override {
    const std::int64_t column = group * grid_.group;
    const std::int64_t index = rectangles_.index(row, column);
    int zero = 1 << (grid_.bits - 1);
    if (zeros_ != nullptr && packed_) {
      const auto word = load_as<std::uint32_t>(zeros_ + (row / per_word_ * rectangles_.count_across + column / rectangles_.columns) * 4);
      zero = static_cast<int>(word >> row % per_word_ * grid_.bits & ((1u << grid_.bits) - 1));
    } else if (zeros_ != nullptr) {
      zero += load_as<std::int8_t>(zeros_ + index);
    }
    return {scales_[index], zero};
  }

 private:
  void take_zeros(ModuleTensors& tensors) {
    if (tensors.peek("weight_zero_point") == nullptr) return;
    const Rectangles& r = rectangles_;
    if (packed_) {
      if (r.rows != 1) fail(Errc::unsupported, tensors.place("weight_zero_point"), ": packed zeros of more than one row: not yet");
      zeros_ = tensors.take("weight_zero_point", "I32", {div_up(rows_, per_word_), r.count_across}).bytes.data();
      return;
    }
    const TensorEntry& entry = tensors.take("weight_zero_point");
    if (entry.type != "I8" || static_cast<std::int64_t>(entry.bytes.size()) != r.count_down * r.count_across) {
      fail(Errc::corrupt, tensors.place("weight_zero_point"), ": expected ", r.count_down * r.count_across, " of I8, found ", printable(entry.type), " ",
           to_string(entry.shape));
    }
    zeros_ = entry.bytes.data();
  }

  void check_shape(const TensorEntry& entry, const std::string& place) const {
    const std::vector<std::int64_t> shape = read_integers(entry, place);
    if (shape != std::vector{rows_, columns_}) fail(Errc::corrupt, place, ": expected (", rows_, ", ", columns_, "), found ", to_string(shape));
  }

  Rectangles rectangles_;
  bool packed_;
  std::int64_t per_word_;
  std::int64_t line_ = 0;  ///< words a row
  const std::byte* codes_ = nullptr;
  const std::byte* zeros_ = nullptr;
  FloatsView scales_;
};

constexpr std::string_view formats_that_work[] = {"dense",           "pack-quantized", "int-quantized",    "float-quantized",
                                                  "naive-quantized", "sparse-bitmask", "sparse-24-bitmask", "mixed-precision",
                                                  "nvfp4-pack-quantized", "mxfp4-pack-quantized", "mxfp8-quantized"};

void check_format(const std::string& format, const std::string& place) {
  if (std::ranges::find(formats_that_work, format) != std::end(formats_that_work)) return;
  fail(Errc::unsupported, place, ": format ", printable(format), ": not yet; what works: ", with_commas(formats_that_work));
}

class CompressedTensors final : public PackedFamily {
 public:
  CompressedTensors(const Json& config, const std::string& place) {
    check_format(text_or(config, "format", "dense", place), place);
    if (const Json* transforms = member(config, "transform_config"); transforms != nullptr && !transforms->empty()) {
      fail(Errc::unsupported, place, ": transform_config: activations rotated while the model runs: not yet");
    }
    if (const Json* sparsity = member(config, "sparsity_config"); sparsity != nullptr && !sparsity->empty()) {
      const std::string key = place + ": sparsity_config";
      check_format(text_or(*sparsity, "format", "dense", key), key);
    }
    if (const Json* ignored = member(config, "ignore")) read_targets(*ignored, place + ": ignore", ignored_);
    const Json* groups = member(config, "config_groups");
    if (groups == nullptr) return;
    expect(groups->is_object(), place + ": config_groups", "an object", *groups);
    for (const auto& [name, group] : groups->items()) {
      const std::string key = message(place, ": ", printable(name));
      check_format(text_or(group, "format", "dense", key), key);
      const Json* weights = member(group, "weights");
      if (weights == nullptr) continue;
      Group& entry = groups_.emplace_back();
      entry.scheme = read_scheme(*weights, key + ": weights");
      read_targets(need(group, "targets", key), key + ": targets", entry.targets);
    }
  }

  [[nodiscard]] std::shared_ptr<MatrixSource> open(ModuleTensors tensors, std::int64_t rows, std::int64_t columns) const override {
    if (tensors.peek("bitmask") != nullptr) return open_sparse(std::move(tensors), rows, columns);
    const bool packed = tensors.peek("weight_packed") != nullptr;
    const TensorEntry* weight = tensors.peek("weight");
    const bool bytes = weight != nullptr && (weight->type == "I8" || weight->type == "F8_E4M3");
    if (!packed && !bytes) return nullptr;
    const Scheme& scheme = scheme_of(tensors, packed ? "weight_packed" : "weight");
    if (packed && tensors.peek("weight_packed")->type == "U8") return open_packed_floats(std::move(tensors), rows, columns);
    if (packed || weight->type == "I8") return std::make_shared<IntegerMatrix>(std::move(tensors), rows, columns, scheme);
    const Rectangles rectangles = scheme.rectangles(rows, columns);
    const FloatsView scales = take_scales(tensors, rectangles);
    const std::string place = tensors.place("weight_scale");
    tensors.pass_over(about_activations);
    return std::make_shared<Float8Matrix>(message("compressed-tensors fp8, ", scheme.describe()), std::move(tensors), rows, columns, scales, rectangles, place);
  }

 private:
  struct Group {
    Scheme scheme;
    std::vector<Target> targets;
  };

  static void read_targets(const Json& list, const std::string& place, std::vector<Target>& targets) {
    expect(list.is_array(), place, "a list", list);
    for (const Json& target : list) targets.emplace_back(target, place);
  }
  static bool any_matches(const std::vector<Target>& targets, std::string_view module) {
    return std::ranges::any_of(targets, [&](const Target& target) { return target.matches(module); });
  }

  [[nodiscard]] const Scheme& scheme_of(const ModuleTensors& tensors, std::string_view what) const {
    if (any_matches(ignored_, tensors.module())) {
      fail(Errc::corrupt, tensors.place(what), ": expected floats, as quantization_config ignores this module");
    }
    for (const Group& group : groups_) {
      if (any_matches(group.targets, tensors.module())) return group.scheme;
    }
    fail(Errc::corrupt, tensors.place(what), ": expected floats, as no group of quantization_config has this module among its targets");
  }

  std::vector<Target> ignored_;
  std::vector<Group> groups_;
};

}  // namespace

std::unique_ptr<const PackedFamily> open_compressed_tensors(const Json& config, const std::string& place, const OpenOptions&) {
  return std::make_unique<CompressedTensors>(config, place);
}

}  // namespace bantam::inline v0
