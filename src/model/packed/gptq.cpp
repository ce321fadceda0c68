// GPTQ as AutoGPTQ and GPTQModel store it: words of input columns, zeros packed along the outputs.
//
// For `in` columns, `out` rows, b bits and G groups of a module:
//   qweight I32 (in b / 32, out)   code (row, column) is number `column` of the words below each other in column `row`
//   qzeros  I32 (G, out b / 32)    zero (row, group) is number `row` of the words of line `group`
//   scales  F16 (G, out)
//   g_idx   I32 (in)               the group of each column; column / group size if absent
// w = scale (code - zero). The first version stores zeros less one, in their bits: zero = (stored + 1) mod 2^b, or, by the
// kernels of old tools, 2^b where that is 0.
#include <algorithm>

#include "family.hpp"
#include "words.hpp"

namespace bantam::inline v0 {

namespace {

/// What holds for a module.
struct Settings {
  std::int64_t bits = 0;
  std::int64_t group = -1;  ///< -1: one group a row
  bool symmetric = true;
};

/// From what is stored as a zero to the zero.
enum class Stored { as_it_is, less_one, less_one_legacy };

class GptqMatrix final : public GridMatrix {
 public:
  GptqMatrix(ModuleTensors tensors, std::int64_t rows, std::int64_t columns, const Settings& s, Stored stored, bool sure)
      : GridMatrix(message("gptq ", s.bits, " bits, ", s.group < 0 ? "a group a row" : message("groups of ", s.group)), rows, columns,
                   {.bits = static_cast<int>(s.bits), .group = s.group < 0 ? columns : s.group}),
        stored_(stored) {
    const int bits = grid_.bits;
    const std::string place = tensors.place("qweight");
    // 32 codes of 3 bits fill 3 words; others fill one.
    const std::int64_t unit = bits == 3 ? 32 : 32 / bits;
    if (columns % unit != 0 || rows % unit != 0) {
      fail(Errc::corrupt, place, ": expected rows and columns in multiples of ", unit, " at ", bits, " bits, found ", rows, " and ", columns);
    }
    words_ = tensors.take("qweight", "I32", {columns * bits / 32, rows}).bytes.data();
    scales_ = tensors.floats("scales", {groups(), rows});
    if (tensors.peek("qzeros") != nullptr) {
      zeros_ = tensors.take("qzeros", "I32", {groups(), rows * bits / 32}).bytes.data();
    } else if (!s.symmetric) {
      fail(Errc::corrupt, tensors.place("qzeros"), ": expected zeros of a module that is not symmetric, found none");
    }
    if (const TensorEntry* index = tensors.peek("g_idx"); index != nullptr && index->shape != std::vector<std::int64_t>{0}) {
      take_groups(tensors.take("g_idx", "I32", {columns}), tensors.place("g_idx"));
    }
    parts_ = tensors.taken();
    settle(tensors.place("scales"));
    if (!sure && !s.symmetric && stored == Stored::less_one) look_for_carries();
  }

 protected:
  void read_codes(std::int64_t first_row, int rows, std::uint8_t* codes) const noexcept override {
    switch (grid_.bits) {
      case 2: return read_words<2>(first_row, rows, codes);
      case 4: return read_words<4>(first_row, rows, codes);
      case 8: return read_words<8>(first_row, rows, codes);
      default:
        for (std::int64_t c = 0; c < columns_; ++c) {
          for (int row = 0; row < rows; ++row) {
            codes[row * columns_ + c] = static_cast<std::uint8_t>(bits_at(words_ + (first_row + row) * 4, rows_, c, grid_.bits));
          }
        }
    }
  }

  [[nodiscard]] Side side(std::int64_t row, std::int64_t group) const noexcept override {
    const int count = 1 << grid_.bits;
    int zero = count / 2;
    if (zeros_ != nullptr) {
      zero = stored_zero(row, group);
      if (stored_ != Stored::as_it_is) ++zero;
      if (stored_ == Stored::less_one) zero %= count;
    }
    return {scales_[group * rows_ + row], zero};
  }

 private:
  [[nodiscard]] int stored_zero(std::int64_t row, std::int64_t group) const noexcept {
    return static_cast<int>(bits_at(zeros_ + group * (rows_ * grid_.bits / 32) * 4, 1, row, grid_.bits));
  }

  /// Where all bits are set, readers differ.
  void look_for_carries() {
    const int largest = (1 << grid_.bits) - 1;
    std::int64_t count = 0;
    for (std::int64_t g = 0; g < groups(); ++g) {
      for (std::int64_t row = 0; row < rows_; ++row) count += stored_zero(row, g) == largest;
    }
    if (count == 0) return;
    doubt_ = message(count, " of ", groups() * rows_, " zero points are stored as ", largest, ", which old tools mean as ", largest + 1,
                     ": read as 0, as the format is defined");
  }

  /// Word by word: the rows of a panel lie side by side in each line of words.
  template <int Bits>
  void read_words(std::int64_t first_row, int rows, std::uint8_t* codes) const noexcept {
    constexpr int each = 32 / Bits;
    for (std::int64_t line = 0; line < columns_ / each; ++line) {
      const std::byte* words = words_ + (line * rows_ + first_row) * 4;
      for (int row = 0; row < rows; ++row) {
        const auto word = bantam::detail::load_as<std::uint32_t>(words + row * 4);
        std::uint8_t* to = codes + row * columns_ + line * each;
        for (int i = 0; i < each; ++i) to[i] = static_cast<std::uint8_t>(word >> i * Bits & ((1u << Bits) - 1));
      }
    }
  }

  Stored stored_;
  const std::byte* words_ = nullptr;
  const std::byte* zeros_ = nullptr;
  FloatsView scales_;
};

class Gptq final : public PackedFamily {
 public:
  Gptq(const Json& config, const std::string& place, const OpenOptions& options) {
    std::string format = "gptq";
    for (const char* key : {"version", "format", "checkpoint_format"}) format = text_or(config, key, format, place);
    if (format != "gptq" && format != "gptq_v2" && format != "gemm") {
      fail(Errc::unsupported, place, ": checkpoint_format ", printable(format), ": not yet; what works: gptq, gptq_v2");
    }
    if (format != "gptq_v2") stored_ = options.gptq_zero == GptqZero::legacy ? Stored::less_one_legacy : Stored::less_one;
    sure_ = options.gptq_zero != GptqZero::automatic || is_gptqmodels(config);
    if (const std::string pack = text_or(config, "pack_dtype", "int32", place); pack != "int32") {
      fail(Errc::unsupported, place, ": pack_dtype ", printable(pack), ": not yet; what works: int32");
    }
    settings_ = read({}, config, place);
    const Json* dynamic = member(config, "dynamic");
    if (dynamic == nullptr) return;
    const std::string key = place + ": dynamic";
    expect(dynamic->is_object(), key, "an object", *dynamic);
    for (const auto& [pattern, changes] : dynamic->items()) {  // the first that matches counts
      const bool excluded = pattern.starts_with("-:");
      const std::string_view expression = excluded || pattern.starts_with("+:") ? std::string_view(pattern).substr(2) : pattern;
      if (!excluded) expect(changes.is_object(), key, "an object", changes);
      exceptions_.push_back({NamePattern(expression, key), excluded, excluded ? Settings{} : read(settings_, changes, key)});
    }
  }

  [[nodiscard]] std::shared_ptr<MatrixSource> open(ModuleTensors tensors, std::int64_t rows, std::int64_t columns) const override {
    if (tensors.peek("qweight") == nullptr) return nullptr;
    Settings s = settings_;
    for (const Exception& exception : exceptions_) {
      if (!exception.pattern.matches(tensors.module())) continue;
      if (exception.excluded) fail(Errc::corrupt, tensors.place("qweight"), ": expected none, as quantization_config leaves this module out");
      s = exception.settings;
      break;
    }
    if (s.bits != 2 && s.bits != 3 && s.bits != 4 && s.bits != 8) {
      fail(Errc::unsupported, tensors.place("qweight"), ": ", s.bits, " bits: not yet; what works: 2, 3, 4, 8");
    }
    return std::make_shared<GptqMatrix>(std::move(tensors), rows, columns, s, stored_, sure_);
  }

 private:
  struct Exception {
    NamePattern pattern;
    bool excluded;
    Settings settings;
  };

  /// GPTQModel adds one within the bits; other tools say nothing in "meta".
  static bool is_gptqmodels(const Json& config) {
    const Json* meta = member(config, "meta");
    const Json* quantizer = meta != nullptr && meta->is_object() ? member(*meta, "quantizer") : nullptr;
    const auto names_it = [](const Json& text) { return text.is_string() && text.string().starts_with("gptqmodel:"); };
    if (quantizer == nullptr) return false;
    return quantizer->is_array() ? std::ranges::any_of(*quantizer, names_it) : names_it(*quantizer);
  }

  static Settings read(Settings s, const Json& config, const std::string& place) {
    for (const char* key : {"wbits", "w_bit", "bits"}) s.bits = whole_or(config, key, 1, 32, s.bits, place);
    for (const char* key : {"q_group_size", "group_size"}) s.group = whole_or(config, key, -1, 1 << 30, s.group, place);
    if (s.bits == 0) fail(Errc::corrupt, place, ": bits: expected a number, found none");
    if (s.group == 0) fail(Errc::corrupt, place, ": group_size: expected -1 or a number above 0, found 0");
    s.symmetric = !flag(config, "zero_point", !s.symmetric, place);
    s.symmetric = flag(config, "sym", s.symmetric, place);
    return s;
  }

  Settings settings_;
  std::vector<Exception> exceptions_;  ///< the first that matches holds
  Stored stored_ = Stored::as_it_is;
  bool sure_ = false;  ///< what carries mean
};

}  // namespace

std::unique_ptr<const PackedFamily> open_gptq(const Json& config, const std::string& place, const OpenOptions& options) {
  return std::make_unique<Gptq>(config, place, options);
}

}  // namespace bantam::inline v0
