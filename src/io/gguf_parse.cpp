// The header and the tensor list of a GGUF file.
#include "io/gguf_parse.hpp"

#include <algorithm>

#include "io/ggml_types.hpp"
#include "io/names.hpp"
#include "io/posix.hpp"
#include "io/shapes.hpp"

namespace bantam::inline v0::detail {

namespace {

constexpr std::uint32_t most_dimensions = 4;
// ggml keeps names in 64 bytes with a zero at the end; other programs refuse longer ones too.
constexpr std::size_t longest_tensor_name = 63;
// A name length, one character, the number of dimensions, none, a type, an offset.
constexpr std::uint64_t least_tensor_bytes = 8 + 1 + 4 + 4 + 8;
// Where tensor data starts and how it is spaced when general.alignment is absent.
constexpr std::uint32_t default_alignment = 32;

void check_header(ByteReader& reader) {
  const auto magic = reader.take(4, "the magic 'GGUF'");
  const std::string_view found(reinterpret_cast<const char*>(magic.data()), magic.size());
  if (found != "GGUF") fail(Errc::corrupt, reader.name(), ": offset 0: expected 'GGUF', found '", printable(found), '\'');
  const auto version = reader.read<std::uint32_t>("the version");
  // The low half is empty only in a file of the other byte order, until version 65536 comes.
  if (version != 0 && (version & 0xffff) == 0) {
    fail(Errc::unsupported, reader.name(), ": offset 4: expected a little-endian file, found a big-endian one");
  }
  if (version != 2 && version != 3) {
    fail(Errc::unsupported, reader.name(), ": offset 4: expected version 2 or 3, found ", version);
  }
}

struct Declared {
  TensorEntry entry;
  std::uint64_t offset = 0;  // from the start of the tensor data
  std::uint64_t bytes = 0;
};

std::uint64_t checked_bytes(const std::string& place, const GgmlType& type, std::span<const std::int64_t> innermost_first) {
  const auto innermost = static_cast<std::uint64_t>(innermost_first.empty() ? 1 : innermost_first[0]);
  if (innermost % type.block_elements != 0) {
    fail(Errc::corrupt, place, ": expected rows of a multiple of ", type.block_elements, " elements for ", type.name,
         ", found ", innermost);
  }
  const auto elements = count_elements(innermost_first);
  std::int64_t bytes = 0;
  if (!elements || __builtin_mul_overflow(elements->whole / type.block_elements, std::int64_t{type.block_bytes}, &bytes)) {
    fail(Errc::corrupt, place, ": expected fewer than 2^63 bytes, found a shape whose product is more");
  }
  return elements->empty ? 0 : static_cast<std::uint64_t>(bytes);
}

Declared read_tensor(ByteReader& reader) {
  const std::string at = message(reader.name(), ": offset ", reader.position(), ": tensor");
  const std::string name = reader.text("a tensor name", longest_tensor_name, at + " name");
  check_tensor_name(name, at);

  const std::string place = message(reader.name(), ": tensor '", printable(name), '\'');
  const auto dimensions = reader.read<std::uint32_t>(place);
  if (dimensions > most_dimensions) {
    fail(Errc::corrupt, place, ": expected at most ", most_dimensions, " dimensions, found ", dimensions);
  }
  Declared tensor;
  tensor.entry.name = name;
  for (std::uint32_t i = 0; i < dimensions; ++i) {
    const auto dimension = reader.read<std::int64_t>(place);
    if (dimension < 0) fail(Errc::corrupt, place, ": dimension ", i, ": expected 0 to 2^63-1, found ", dimension);
    tensor.entry.shape.push_back(dimension);
  }
  const auto id = reader.read<std::uint32_t>(place);
  const GgmlType* type = find_ggml_type(id);
  if (type == nullptr) fail(Errc::unsupported, place, ": expected a known tensor type, found number ", id);
  tensor.entry.type = type->name;
  tensor.offset = reader.read<std::uint64_t>(place);
  tensor.bytes = checked_bytes(place, *type, tensor.entry.shape);
  std::reverse(tensor.entry.shape.begin(), tensor.entry.shape.end());
  return tensor;
}

std::vector<Declared> read_tensors(ByteReader& reader, std::uint64_t count) {
  if (count > reader.remaining() / least_tensor_bytes) {
    fail(Errc::corrupt, reader.name(), ": offset 8: expected ", count, " tensors, the ", reader.remaining(),
         " bytes that follow the keys describe at most ", reader.remaining() / least_tensor_bytes);
  }
  if (count > gguf_entries_limit) {
    fail(Errc::unsupported, reader.name(), ": offset 8: expected at most ", gguf_entries_limit, " tensors, found ", count);
  }
  std::vector<Declared> tensors;
  for (std::uint64_t i = 0; i < count; ++i) tensors.push_back(read_tensor(reader));
  return tensors;
}

// Tensors follow one another in the order of the list, each at the next aligned place: anything else overlaps or hides
// bytes, and every other reader refuses it.
void place_tensors(const ByteReader& reader, std::span<const std::byte> bytes, std::uint32_t alignment,
                   std::vector<Declared>& tensors) {
  const std::uint64_t start = (reader.position() + std::uint64_t{alignment} - 1) / alignment * alignment;
  const std::uint64_t room = bytes.size() > start ? bytes.size() - start : 0;
  std::uint64_t expected = 0;
  for (Declared& tensor : tensors) {
    const std::string place = message(reader.name(), ": tensor '", printable(tensor.entry.name), '\'');
    if (tensor.offset != expected) {
      fail(Errc::corrupt, place, ": expected its data at offset ", expected, ", found ", tensor.offset);
    }
    if (tensor.bytes == 0) continue;  // lies nowhere: the file may end before the place where data would begin
    // `expected` exceeds `room` by less than one alignment, so neither side can wrap.
    if (tensor.bytes > room || expected > room - tensor.bytes) {
      fail(Errc::corrupt, place, ": expected ", tensor.bytes, " bytes at offset ", start, " + ", expected, ", the file has ",
           bytes.size(), " bytes");
    }
    tensor.entry.bytes = bytes.subspan(static_cast<std::size_t>(start + expected), static_cast<std::size_t>(tensor.bytes));
    expected = (expected + tensor.bytes + alignment - 1) / alignment * alignment;
  }
}

}  // namespace

GgufPart parse_gguf(const std::shared_ptr<const MappedFile>& file) {
  ByteReader reader(*file, shown(file->path()));
  check_header(reader);
  const auto tensor_count = reader.read<std::uint64_t>("the number of tensors");
  const auto key_count = reader.read<std::uint64_t>("the number of keys");

  GgufPart part;
  std::uint32_t alignment = default_alignment;
  part.metadata = parse_gguf_metadata(reader, key_count, alignment);
  std::vector<Declared> tensors = read_tensors(reader, tensor_count);
  place_tensors(reader, file->bytes(), alignment, tensors);
  for (Declared& tensor : tensors) {
    tensor.entry.file = file;
    part.tensors.push_back(std::move(tensor.entry));
  }
  return part;
}

}  // namespace bantam::inline v0::detail
