// The key-value part of a GGUF file.
#include <bit>
#include <limits>

#include "io/gguf_parse.hpp"
#include "io/names.hpp"

namespace bantam::inline v0::detail {

namespace {

// The numbers of the GGUF specification.
enum class Kind : std::uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, text, array, u64, i64, f64 };

constexpr std::size_t longest_key = 65535;
// The shortest pair: a key length, one character, a type, one byte.
constexpr std::uint64_t least_pair_bytes = 8 + 1 + 4 + 1;
// More than a huge page would only waste room between tensors.
constexpr std::uint32_t largest_alignment = 1u << 20;

struct Reading {
  ByteReader& reader;
  std::string place;  // "model.gguf: key 'general.name'"
  std::uint64_t elements_left;
};

bool read_bool(Reading& in) {
  const auto byte = in.reader.read<std::uint8_t>(in.place);
  if (byte > 1) fail(Errc::corrupt, in.place, ": expected a truth value of 0 or 1, found ", byte);
  return byte == 1;
}

template <class T>
std::vector<std::int64_t> read_integers(Reading& in, std::uint64_t count) {
  const auto bytes = in.reader.take(count * sizeof(T), in.place);
  std::vector<std::int64_t> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    if constexpr (std::is_same_v<T, std::uint64_t>) {
      if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
        fail(Errc::corrupt, in.place, ": element ", i, ": expected a number below 2^63, found ", value);
      }
    }
    values[i] = static_cast<std::int64_t>(value);
  }
  return values;
}

template <class T>
std::vector<double> read_numbers(Reading& in, std::uint64_t count) {
  const auto bytes = in.reader.take(count * sizeof(T), in.place);
  std::vector<double> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    values[i] = static_cast<double>(value);
  }
  return values;
}

// The bytes an element takes at least, 0 for what is no element of an array.
std::uint64_t least_element_bytes(Kind kind) {
  switch (kind) {
    case Kind::u8:
    case Kind::i8:
    case Kind::boolean: return 1;
    case Kind::u16:
    case Kind::i16: return 2;
    case Kind::u32:
    case Kind::i32:
    case Kind::f32: return 4;
    case Kind::text:
    case Kind::u64:
    case Kind::i64:
    case Kind::f64: return 8;
    case Kind::array: break;
  }
  return 0;
}

GgufValue read_array(Reading& in) {
  const auto kind = static_cast<Kind>(in.reader.read<std::uint32_t>(in.place));
  const auto count = in.reader.read<std::uint64_t>(in.place);
  if (kind == Kind::array) fail(Errc::unsupported, in.place, ": expected an array of plain values, found an array of arrays");
  const std::uint64_t element_bytes = least_element_bytes(kind);
  if (element_bytes == 0) {
    fail(Errc::corrupt, in.place, ": expected an element type of 0 to 12, found ", static_cast<std::uint32_t>(kind));
  }
  if (count > in.reader.remaining() / element_bytes) {
    fail(Errc::corrupt, in.place, ": expected ", count, " elements of at least ", element_bytes, " bytes, the file has ",
         in.reader.remaining(), " bytes left");
  }
  if (count > in.elements_left) {
    fail(Errc::unsupported, in.place, ": expected at most ", gguf_elements_limit, " array elements in all, found more");
  }
  in.elements_left -= count;

  switch (kind) {
    case Kind::u8: return read_integers<std::uint8_t>(in, count);
    case Kind::i8: return read_integers<std::int8_t>(in, count);
    case Kind::u16: return read_integers<std::uint16_t>(in, count);
    case Kind::i16: return read_integers<std::int16_t>(in, count);
    case Kind::u32: return read_integers<std::uint32_t>(in, count);
    case Kind::i32: return read_integers<std::int32_t>(in, count);
    case Kind::u64: return read_integers<std::uint64_t>(in, count);
    case Kind::i64: return read_integers<std::int64_t>(in, count);
    case Kind::f32: return read_numbers<float>(in, count);
    case Kind::f64: return read_numbers<double>(in, count);
    case Kind::boolean: {
      std::vector<bool> values(static_cast<std::size_t>(count));
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = read_bool(in);
      return values;
    }
    default: break;
  }
  std::vector<std::string> values;
  values.reserve(static_cast<std::size_t>(count));
  for (std::uint64_t i = 0; i < count; ++i) values.emplace_back(in.reader.text(in.place));
  return values;
}

GgufValue read_value(Reading& in, Kind kind) {
  switch (kind) {
    case Kind::u8: return std::uint64_t{in.reader.read<std::uint8_t>(in.place)};
    case Kind::i8: return std::int64_t{in.reader.read<std::int8_t>(in.place)};
    case Kind::u16: return std::uint64_t{in.reader.read<std::uint16_t>(in.place)};
    case Kind::i16: return std::int64_t{in.reader.read<std::int16_t>(in.place)};
    case Kind::u32: return std::uint64_t{in.reader.read<std::uint32_t>(in.place)};
    case Kind::i32: return std::int64_t{in.reader.read<std::int32_t>(in.place)};
    case Kind::u64: return in.reader.read<std::uint64_t>(in.place);
    case Kind::i64: return in.reader.read<std::int64_t>(in.place);
    case Kind::f32: return double{in.reader.read<float>(in.place)};
    case Kind::f64: return in.reader.read<double>(in.place);
    case Kind::boolean: return read_bool(in);
    case Kind::text: return in.reader.text(in.place);
    case Kind::array: return read_array(in);
  }
  fail(Errc::corrupt, in.place, ": expected a value type of 0 to 12, found ", static_cast<std::uint32_t>(kind));
}

std::string read_key(ByteReader& reader) {
  const std::string place = message(reader.name(), ": offset ", reader.position(), ": key");
  std::string key = reader.text("a key", longest_key, place);
  check_name(key, place);
  return key;
}

std::uint32_t checked_alignment(const Reading& in, Kind kind, const GgufValue& value) {
  if (kind != Kind::u32) fail(Errc::corrupt, in.place, ": expected a 32-bit number, found ", kind_of(value));
  const std::uint64_t alignment = std::get<std::uint64_t>(value);
  if (!std::has_single_bit(alignment) || alignment > largest_alignment) {
    fail(Errc::corrupt, in.place, ": expected a power of two up to ", largest_alignment, ", found ", alignment);
  }
  return static_cast<std::uint32_t>(alignment);
}

}  // namespace

std::string_view kind_of(const GgufValue& value) noexcept {
  constexpr std::string_view kinds[] = {
      "an integer",         "an integer",        "a number",       "a truth value", "a text",
      "a list of integers", "a list of numbers", "a list of truth values", "a list of texts"};
  static_assert(std::size(kinds) == std::variant_size_v<GgufValue>);
  return value.valueless_by_exception() ? "nothing" : kinds[value.index()];
}

GgufMetadata parse_gguf_metadata(ByteReader& reader, std::uint64_t count, std::uint32_t& alignment) {
  if (count > reader.remaining() / least_pair_bytes) {
    fail(Errc::corrupt, reader.name(), ": offset 16: expected ", count, " keys, the ", reader.remaining(),
         " bytes that follow hold at most ", reader.remaining() / least_pair_bytes);
  }
  if (count > gguf_entries_limit) {
    fail(Errc::unsupported, reader.name(), ": offset 16: expected at most ", gguf_entries_limit, " keys, found ", count);
  }
  GgufMetadata metadata;
  std::uint64_t elements_left = gguf_elements_limit;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::string key = read_key(reader);
    Reading in{reader, message(reader.name(), ": key '", printable(key), '\''), elements_left};
    const auto kind = static_cast<Kind>(reader.read<std::uint32_t>(in.place));
    const auto [entry, fresh] = metadata.try_emplace(key);
    if (!fresh) fail(Errc::corrupt, in.place, ": expected once, found twice");
    entry->second = read_value(in, kind);
    elements_left = in.elements_left;
    if (key == "general.alignment") alignment = checked_alignment(in, kind, entry->second);
  }
  return metadata;
}

}  // namespace bantam::inline v0::detail
