// Matrices made of others, against plain loops: of every format, and of every element type of files.
#include <sstream>

#include "bantam/model/matrix_source.hpp"
#include "bantam/model/source_type.hpp"
#include "bantam/tensor/random.hpp"
#include "model/sources/plain_source.hpp"
#include "model/sources/strip16_source.hpp"
#include "model/sources/transforms.hpp"
#include "tiny_model.hpp"

namespace bantam::test {
namespace {

/// More than one panel and one block of columns, and a rest of each.
constexpr std::int64_t rows = 80, columns = 320;

/// What a source says of itself agrees, and both ways of reading it give these values, bit for bit.
void check_source(const MatrixSource& source, const Tensor<float, 2>& expected) {
  REQUIRE(source.rows() == expected.extent(0));
  REQUIRE(source.columns() == expected.extent(1));
  const WeightMatrix loaded = source.load(Reading::buffered, nullptr);
  CHECK(&loaded.format() == &source.format());
  CHECK(std::ranges::equal(loaded.dequantize().span(), expected.span()));
  std::vector<float> row(static_cast<std::size_t>(source.columns()));
  RowCodes scratch;
  int wrong = 0;
  for (std::int64_t r = 0; r < source.rows(); ++r) {
    source.read_row(r, row, scratch);
    wrong += !std::equal(row.begin(), row.end(), &expected(r, 0));
  }
  CHECK(wrong == 0);
  if (source.parts().empty()) return;  // it lies in memory
  for (const auto& [begin, end] : {std::pair<std::int64_t, std::int64_t>{0, loaded.bytes()}, {loaded.bytes() / 3 + 1, loaded.bytes() - 5}}) {
    std::vector<std::byte> bytes;
    source.for_each_part(begin, end, Reading::direct, [&](std::span<const std::byte> part) { bytes.insert(bytes.end(), part.begin(), part.end()); });
    CHECK(std::ranges::equal(bytes, std::span(loaded.view().data + begin, loaded.view().data + end)));
  }
}

Tensor<float, 2> values_of(std::int64_t m, std::int64_t n, const auto& value) {
  Tensor<float, 2> values({m, n});
  for (std::int64_t r = 0; r < m; ++r) {
    for (std::int64_t c = 0; c < n; ++c) values(r, c) = value(r, c);
  }
  return values;
}

void check_transforms(const SharedSource& source, const Tensor<float, 2>& w) {
  check_source(*source, w);
  const std::int64_t m = source->rows(), n = source->columns();
  for (const Selection& some : {Selection::run(0, m), Selection::run(0, 32), Selection::run(32, m - 32), Selection::run(7, 41), Selection::every(1, 2, m / 2), Selection::rope_halves(4, m / 4)}) {
    const SharedSource selected = select_rows(source, some);
    CAPTURE(some.first);
    CAPTURE(some.count());
    check_source(*selected, values_of(some.count(), n, [&](std::int64_t r, std::int64_t c) { return w(some[r], c); }));
    // Of a part its part.
    const Selection more = Selection::every(2, 3, 5);
    check_source(*select_rows(selected, more), values_of(5, n, [&](std::int64_t r, std::int64_t c) { return w(some[more[r]], c); }));
  }
  for (std::int64_t e = 0; e < 5; ++e) check_source(*slice(source, e, 5), values_of(m / 5, n, [&](std::int64_t r, std::int64_t c) { return w(e * (m / 5) + r, c); }));
  for (const Selection& some : {Selection::run(0, n), Selection::run(3, 70), Selection::every(1, 4, n / 4), Selection::rope_halves(2, n / 2)}) {
    check_source(*select_columns(source, some), values_of(m, some.count(), [&](std::int64_t r, std::int64_t c) { return w(r, some[c]); }));
  }
  check_source(*transpose(source), values_of(n, m, [&](std::int64_t r, std::int64_t c) { return w(c, r); }));
  check_source(*select_rows(transpose(source), Selection::every(1, 2, n / 2)), values_of(n / 2, m, [&](std::int64_t r, std::int64_t c) { return w(c, 2 * r + 1); }));
  check_source(*offset(source, 1.0f), values_of(m, n, [&](std::int64_t r, std::int64_t c) { return w(r, c) + 1.0f; }));
  check_source(*in_floats(source), w);
  const SharedSource part = select_rows(source, Selection::every(0, 3, 20));
  const auto stacked = [&](std::int64_t r, std::int64_t c) { return r < m ? w(r, c) : r < m + 20 ? w(3 * (r - m), c) : w(r - m - 20, c); };
  check_source(*stack({source, part, source}), values_of(2 * m + 20, n, stacked));
  check_source(*stack({in_floats(source), part, source}), values_of(2 * m + 20, n, stacked));
  check_source(*slice(stack({source, source}), 1, 2), w);
}

TEST_CASE("parts, transposes and stacks of a matrix in every format are its values in their order") {
  const auto weights = random::normal<float>({rows, columns}, 3);
  for (const FormatInfo& format : formats()) {
    CAPTURE(std::string(format.name));
    const WeightMatrix matrix = WeightMatrix::quantize(weights, format);
    check_transforms(source_of(matrix), matrix.dequantize());
  }
}

TEST_CASE("the same of files, for every element type") {
  const TemporaryFolder folder;
  std::istringstream names(source_type_names());
  for (std::string name; std::getline(names >> std::ws, name, ',');) {
    CAPTURE(name);
    const SourceType* type = find_source_type(name);
    REQUIRE(type != nullptr);
    const std::int64_t n = columns / type->block * type->block;
    std::vector<std::byte> bytes(static_cast<std::size_t>(rows * type->row_bytes(n)));
    // Small exponents, so that all are numbers.
    Random random(5);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next() & 0x3b);
    write_file(folder / "m", std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    const auto file = MappedFile::open(folder / "m");
    const TensorEntry entry{"w", name, {rows, n}, file->bytes(), file};
    Tensor<float, 2> values({rows, n});
    for (std::int64_t r = 0; r < rows; ++r) type->read_row(bytes.data() + r * type->row_bytes(n), {&values(r, 0), static_cast<std::size_t>(n)});
    const SharedSource source = open_plain(entry, "m", {rows, n});
    check_transforms(source, values);
    CHECK(source->stored_bytes() == static_cast<std::int64_t>(bytes.size()));
    const SharedSource one = slice(source, 3, 5);
    CHECK(one->stored_bytes() == source->stored_bytes() / 5);
    CHECK(one->parts()[0].bytes.size() == bytes.size() / 5);  // nothing else is read or dropped
    CHECK(select_rows(source, Selection::every(1, 2, rows / 2))->stored_bytes() == source->stored_bytes() / 2);
  }
}

TEST_CASE("rows of every element type lie in panels as rows that are stored alone, wherever they begin") {
  std::istringstream names(source_type_names());
  for (std::string name; std::getline(names >> std::ws, name, ',');) {
    CAPTURE(name);
    const SourceType& type = *find_source_type(name);
    for (const std::int64_t wanted : {std::int64_t{256}, columns, std::int64_t{517}, std::int64_t{3}}) {
      const std::int64_t n = wanted / type.block * type.block, row_bytes = type.row_bytes(n);
      if (n == 0) continue;
      CAPTURE(n);
      std::vector<std::byte> bytes(static_cast<std::size_t>(panel_rows * row_bytes));
      Random random(6);
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next() & 0x3b);
      const auto size = static_cast<std::size_t>(type.format->panel_bytes(n));
      for (const auto& [place, count] : {std::pair{0, 32}, {0, 3}, {5, 27}, {12, 9}, {31, 1}, {16, 16}}) {
        CAPTURE(place);
        std::vector<std::byte> together(size), alone(size);
        type.fill_rows(together.data(), place, count, n, bytes.data(), row_bytes);
        RowCodes codes;
        for (int row = 0; row < count; ++row) {
          const std::byte* from = bytes.data() + row * row_bytes;
          if (type.read_codes == nullptr) {
            std::vector<float> floats(static_cast<std::size_t>(n));
            type.read_row(from, floats);
            type.format->encode_row(alone.data(), place + row, floats, codes);
          } else {
            codes.codes.resize(static_cast<std::size_t>(n));
            codes.sides.resize(static_cast<std::size_t>(n / type.format->group));
            type.read_codes(from, n, codes.codes.data(), codes.sides.data());
            type.format->store_codes(alone.data(), place + row, n, codes);
          }
        }
        CHECK(together == alone);
      }
    }
  }
}

TEST_CASE("vectors are matrices of one row: part of a vector is selected columns") {
  const auto values = std::make_shared<const std::vector<float>>(std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7});
  const SharedSource vector = source_of(values, 8);
  std::vector<float> found(4);
  RowCodes scratch;
  select_columns(vector, Selection::every(1, 2, 4))->read_row(0, found, scratch);
  CHECK(found == std::vector<float>{1, 3, 5, 7});
  found.resize(8);
  select_columns(vector, Selection::rope_halves(2, 4))->read_row(0, found, scratch);
  CHECK(found == std::vector<float>{0, 2, 1, 3, 4, 6, 5, 7});
  offset(vector, 1)->read_row(0, found, scratch);
  CHECK(found == std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8});
}

}  // namespace
}  // namespace bantam::test
