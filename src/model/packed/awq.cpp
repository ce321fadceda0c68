// AWQ as AutoAWQ stores it, 4 bits, in two versions. For `in` columns, `out` rows and G groups of a module:
//   gemm: qweight I32 (in, out / 8)   a word holds 8 neighboring rows of a column, in an order of their own
//         qzeros  I32 (G, out / 8)    likewise
//         scales  F16 (G, out)
//   gemv: qweight I32 (out, in / 8)   a word holds 8 neighboring columns of a row
//         qzeros  I32 (out, Z)        likewise, of groups; Z at least G / 8
//         scales  F16 (out, 8 Z)
// w = scale (code - zero).
#include <cctype>

#include "family.hpp"
#include "words.hpp"

namespace bantam::inline v0 {

namespace {

[[nodiscard]] std::uint8_t nibble(std::uint32_t word, int i) noexcept { return static_cast<std::uint8_t>(word >> 4 * i & 15u); }

std::string describe(std::string_view version, std::int64_t group) {
  return message("awq ", version, ", ", group < 0 ? "a group a row" : message("groups of ", group));
}

void check_multiple_of_8(std::int64_t count, std::string_view what, const std::string& place) {
  if (count % 8 != 0) fail(Errc::corrupt, place, ": expected ", what, " in multiples of 8, found ", count);
}

class GemmMatrix final : public GridMatrix {
 public:
  GemmMatrix(ModuleTensors tensors, std::int64_t rows, std::int64_t columns, std::int64_t group)
      : GridMatrix(describe("gemm", group), rows, columns, {.bits = 4, .group = group < 0 ? columns : group}) {
    check_multiple_of_8(rows, "rows", tensors.place("qweight"));
    words_ = tensors.take("qweight", "I32", {columns, rows / 8}).bytes.data();
    zeros_ = tensors.take("qzeros", "I32", {groups(), rows / 8}).bytes.data();
    scales_ = tensors.floats("scales", {groups(), rows});
    parts_ = tensors.taken();
    settle(tensors.place("scales"));
  }

 protected:
  void read_codes(std::int64_t first_row, int rows, std::uint8_t* codes) const noexcept override {
    for (std::int64_t c = 0; c < columns_; ++c) {
      for (int row = 0; row < rows; ++row) codes[row * columns_ + c] = at(words_, c, first_row + row);
    }
  }
  [[nodiscard]] Side side(std::int64_t row, std::int64_t group) const noexcept override {
    return {scales_[group * rows_ + row], at(zeros_, group, row)};
  }

 private:
  [[nodiscard]] std::uint8_t at(const std::byte* words, std::int64_t line, std::int64_t row) const noexcept {
    return nibble(bantam::detail::load_as<std::uint32_t>(words + (line * (rows_ / 8) + row / 8) * 4), awq_place[row % 8]);
  }

  const std::byte* words_;
  const std::byte* zeros_;
  FloatsView scales_;
};

class GemvMatrix final : public GridMatrix {
 public:
  GemvMatrix(ModuleTensors tensors, std::int64_t rows, std::int64_t columns, std::int64_t group)
      : GridMatrix(describe("gemv", group), rows, columns, {.bits = 4, .group = group < 0 ? columns : group}) {
    check_multiple_of_8(columns, "columns", tensors.place("qweight"));
    words_ = tensors.take("qweight", "I32", {rows, columns / 8}).bytes.data();
    // Writers round the width up in ways that depend on the group; all that matters is that the groups are there.
    const TensorEntry& zeros = tensors.take("qzeros");
    if (zeros.type != "I32" || zeros.shape.size() != 2 || zeros.shape[0] != rows || zeros.shape[1] < div_up<std::int64_t>(groups(), 8)) {
      fail(Errc::corrupt, tensors.place("qzeros"), ": expected I32 (", rows, ", at least ", div_up<std::int64_t>(groups(), 8), "), found ",
           printable(zeros.type), " ", to_string(zeros.shape));
    }
    zeros_ = zeros.bytes.data();
    width_ = zeros.shape[1];
    scales_ = tensors.floats("scales", {rows, width_ * 8});
    parts_ = tensors.taken();
    settle(tensors.place("scales"));
  }

 protected:
  void read_codes(std::int64_t first_row, int rows, std::uint8_t* codes) const noexcept override {
    for (int row = 0; row < rows; ++row) {
      const std::byte* words = words_ + (first_row + row) * (columns_ / 8) * 4;
      for (std::int64_t c = 0; c < columns_; ++c) *codes++ = static_cast<std::uint8_t>(bits_at(words, 1, c, 4));
    }
  }
  [[nodiscard]] Side side(std::int64_t row, std::int64_t group) const noexcept override {
    return {scales_[row * width_ * 8 + group], static_cast<int>(bits_at(zeros_ + row * width_ * 4, 1, group, 4))};
  }

 private:
  const std::byte* words_;
  const std::byte* zeros_;
  std::int64_t width_;
  FloatsView scales_;
};

class Awq final : public PackedFamily {
 public:
  Awq(const Json& config, const std::string& place) {
    std::string version = text_or(config, "version", "gemm", place);
    for (char& c : version) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (version != "gemm" && version != "gemv") {
      fail(Errc::unsupported, place, ": version ", printable(version), ": not yet; what works: gemm, gemv");
    }
    gemv_ = version == "gemv";
    std::int64_t bits = 4;
    for (const char* key : {"w_bit", "bits"}) bits = whole_or(config, key, 1, 32, bits, place);
    if (bits != 4) fail(Errc::unsupported, place, ": ", bits, " bits: not yet; what works: 4");
    group_ = 128;
    for (const char* key : {"q_group_size", "group_size"}) group_ = whole_or(config, key, -1, 1 << 30, group_, place);
    if (group_ == 0) fail(Errc::corrupt, place, ": group_size: expected -1 or a number above 0, found 0");
  }

  [[nodiscard]] std::shared_ptr<MatrixSource> open(ModuleTensors tensors, std::int64_t rows, std::int64_t columns) const override {
    if (tensors.peek("qweight") == nullptr) return nullptr;
    if (gemv_) return std::make_shared<GemvMatrix>(std::move(tensors), rows, columns, group_);
    return std::make_shared<GemmMatrix>(std::move(tensors), rows, columns, group_);
  }

 private:
  bool gemv_;
  std::int64_t group_;
};

}  // namespace

std::unique_ptr<const PackedFamily> open_awq(const Json& config, const std::string& place, const OpenOptions&) { return std::make_unique<Awq>(config, place); }

}  // namespace bantam::inline v0
