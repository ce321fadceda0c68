// Streams tensors into a safetensors file whose header is known before its data.
#include <algorithm>
#include <bit>
#include <numeric>

#include "bantam/core/hash.hpp"
#include "bantam/io/safetensors.hpp"
#include "io/json.hpp"
#include "io/names.hpp"
#include "io/posix.hpp"
#include "io/safetensors_types.hpp"
#include "io/shapes.hpp"

namespace bantam::inline v0 {

namespace {

// Announced data, or a gap between two of them.
struct Slot {
  std::string name;
  std::string type;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;  // from the end of the header
  std::uint64_t bytes = 0;
  bool padding = false;
};

std::string describe(const Slot& slot) {
  std::string json = message(Json::quoted(slot.name), ":{\"dtype\":\"", slot.type, "\",\"shape\":[");
  for (std::size_t i = 0; i < slot.shape.size(); ++i) json += message(i == 0 ? "" : ",", slot.shape[i]);
  return json + message("],\"data_offsets\":[", slot.begin, ',', slot.begin + slot.bytes, "]}");
}

std::uint64_t announced_bytes(const SafetensorsWriter::Announced& tensor, const std::string& place) {
  const std::string_view fault = detail::tensor_name_fault(tensor.name);
  if (!fault.empty()) fail(Errc::invalid_argument, place, ": expected a name, found ", fault);
  if (tensor.name == detail::safetensors_metadata_key || detail::is_padding_name(tensor.name)) {
    fail(Errc::invalid_argument, place, ": expected a name that the format does not keep for itself");
  }
  const detail::SafetensorsType* type = detail::find_safetensors_type(tensor.type);
  if (type == nullptr) fail(Errc::invalid_argument, place, ": expected a known dtype, found '", printable(tensor.type), '\'');
  if (tensor.shape.size() > detail::safetensors_rank_limit) {
    fail(Errc::invalid_argument, place, ": expected at most ", detail::safetensors_rank_limit, " dimensions, found ",
         tensor.shape.size());
  }
  for (const std::int64_t dimension : tensor.shape) {
    if (dimension < 0) fail(Errc::invalid_argument, place, ": expected dimensions of 0 and more, found ", dimension);
  }
  const auto elements = detail::count_elements(tensor.shape);
  std::int64_t bytes = 0;
  if (!elements || __builtin_mul_overflow(elements->whole, type->bytes, &bytes)) {
    fail(Errc::invalid_argument, place, ": expected fewer than 2^63 bytes, found a shape whose product is more");
  }
  return elements->empty ? 0 : static_cast<std::uint64_t>(bytes);
}

// Puts the tensors one behind the other, with padding where one would start between two multiples of `alignment`. numbers: the slot of each tensor.
std::vector<Slot> lay_out(std::vector<SafetensorsWriter::Announced>& tensors, const SafetensorsWriter::Options& options, const std::string& file,
                          std::vector<std::size_t>& numbers) {
  const std::size_t alignment = options.alignment;
  std::vector<std::size_t> order = options.order;
  if (order.empty()) {
    order.resize(tensors.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
  }
  BANTAM_ASSERT(order.size() == tensors.size());
  numbers.resize(tensors.size());
  std::vector<Slot> slots;
  HashSet<std::string> names;
  std::uint64_t end = 0;
  std::size_t gaps = 0;
  for (const std::size_t number : order) {
    SafetensorsWriter::Announced& tensor = tensors[number];
    const std::string place = message(file, ": tensor '", printable(tensor.name), '\'');
    const std::uint64_t bytes = announced_bytes(tensor, place);
    if (!names.insert(tensor.name).second) fail(Errc::invalid_argument, place, ": announced twice");
    const std::uint64_t gap = alignment <= 8 || bytes == 0 ? 0 : (alignment - end % alignment) % alignment;
    if (gap != 0) {
      slots.push_back({message("__pad_", gaps++), "U8", {static_cast<std::int64_t>(gap)}, end, gap, true});
      end += gap;
    }
    // The sum stays below 2^63, the largest file, so neither it nor the next gap wraps.
    if (bytes > (std::uint64_t{1} << 62) - end) fail(Errc::invalid_argument, place, ": expected a file below 2^62 bytes, found more");
    numbers[number] = slots.size();
    slots.push_back({std::move(tensor.name), std::move(tensor.type), std::move(tensor.shape), end, bytes, false});
    end += bytes;
  }
  return slots;
}

// Where everything will stand, known before a byte is written.
struct Layout {
  std::string place;
  std::vector<Slot> slots;                // as they lie in the file
  std::vector<std::size_t> numbers;       // of the slot of each tensor, as they were announced
  std::string metadata;        // the members of __metadata__, as JSON
  std::string descriptions;    // the tensors, as JSON
  std::size_t header_bytes = 0;
  HashSet<std::string> keys;

  Layout(const std::filesystem::path& path, std::vector<SafetensorsWriter::Announced> tensors,
         const std::vector<std::pair<std::string, std::string>>& pairs, const SafetensorsWriter::Options& options)
      : place(detail::shown(path)) {
    // The first tensor is aligned by the header, which has its limit; 2 MiB, a huge page, lies far below.
    constexpr std::size_t largest_alignment = std::size_t{1} << 26;
    if (!std::has_single_bit(options.alignment) || options.alignment > largest_alignment) {
      fail(Errc::invalid_argument, place, ": expected an alignment that is a power of two up to ", largest_alignment, ", found ",
           options.alignment);
    }
    slots = lay_out(tensors, options, place, numbers);
    for (const Slot& slot : slots) descriptions += message(',', describe(slot));
    for (const auto& [key, value] : pairs) add_metadata(key, value);

    // Spaces fill the header up to where the first tensor is aligned: the format asks for spaces and for 8 bytes.
    const std::size_t start = std::max<std::size_t>(options.alignment, 8);
    const std::size_t least = header_size() + std::min<std::size_t>(options.metadata_room, detail::safetensors_header_limit);
    header_bytes = (8 + least + start - 1) / start * start - 8;
    if (header_bytes > detail::safetensors_header_limit) {
      fail(Errc::invalid_argument, place, ": expected a header of at most ", detail::safetensors_header_limit, " bytes, found ", header_bytes);
    }
  }

  static constexpr std::string_view opening = "{\"__metadata__\":{";
  std::string header() const { return message(opening, metadata, '}', descriptions, '}'); }
  std::size_t header_size() const { return opening.size() + metadata.size() + descriptions.size() + 2; }
  std::uint64_t file_bytes() const { return 8 + header_bytes + (slots.empty() ? 0 : slots.back().begin + slots.back().bytes); }

  void add_metadata(const std::string& key, const std::string& value) {
    if (!detail::is_utf8(key) || !detail::is_utf8(value)) {
      fail(Errc::invalid_argument, place, ": metadata '", printable(key), "': expected utf-8, found other bytes");
    }
    const std::string member = message(metadata.empty() ? "" : ",", Json::quoted(key), ':', Json::quoted(value));
    // header_bytes is 0 until the header has its place in the file.
    if (header_bytes != 0 && header_size() + member.size() > header_bytes) {
      fail(Errc::invalid_argument, place, ": metadata '", printable(key), "': expected at most ",
           header_bytes - header_size(), " bytes within metadata_room, found ", member.size());
    }
    if (!keys.insert(key).second) fail(Errc::invalid_argument, place, ": metadata '", printable(key), "': set twice");
    metadata += member;
  }
};

}  // namespace

struct SafetensorsWriter::State : Layout {
  AtomicFile file;
  std::size_t current = 0;     // the tensor that the next bytes belong to
  std::uint64_t written = 0;   // of it

  State(const std::filesystem::path& path, std::vector<Announced> tensors,
        const std::vector<std::pair<std::string, std::string>>& pairs, const Options& options)
      : Layout(path, std::move(tensors), pairs, options), file(path) {
    file.extend_to(file_bytes());
    advance();
  }

  [[nodiscard]] bool is_complete() const noexcept { return current == numbers.size(); }
  [[nodiscard]] const Slot& slot() const noexcept { return slots[numbers[current]]; }
  // Moves over what is complete.
  void advance() {
    for (; !is_complete() && written == slot().bytes; ++current) written = 0;
  }
};

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path, std::vector<Announced> tensors,
                                     std::vector<std::pair<std::string, std::string>> metadata)
    : SafetensorsWriter(path, std::move(tensors), std::move(metadata), Options{}) {}

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path, std::vector<Announced> tensors,
                                     std::vector<std::pair<std::string, std::string>> metadata, Options options)
    : state_(std::make_unique<State>(path, std::move(tensors), metadata, options)) {}

std::uint64_t SafetensorsWriter::tensor_bytes(const Announced& tensor) { return announced_bytes(tensor, "safetensors"); }

std::uint64_t SafetensorsWriter::file_bytes(std::vector<Announced> tensors, const std::vector<std::pair<std::string, std::string>>& metadata,
                                            Options options) {
  return Layout({}, std::move(tensors), metadata, options).file_bytes();
}

SafetensorsWriter::~SafetensorsWriter() = default;

void SafetensorsWriter::write(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  State& state = *state_;
  if (state.is_complete()) {
    fail(Errc::invalid_argument, state.place, ": expected no more data, found ", bytes.size(), " bytes");
  }
  const Slot& slot = state.slot();
  if (bytes.size() > slot.bytes - state.written) {
    fail(Errc::invalid_argument, state.place, ": tensor '", printable(slot.name), "': expected ", slot.bytes,
         " bytes, found at least ", state.written + bytes.size());
  }
  state.file.write_at(sizeof(std::uint64_t) + state.header_bytes + slot.begin + state.written, bytes);
  state.written += bytes.size();
  state.advance();
}

void SafetensorsWriter::set_metadata(std::string key, std::string value) { state_->add_metadata(key, value); }

void SafetensorsWriter::commit() {
  commit([](std::span<char>) {});
}

void SafetensorsWriter::commit(FunctionRef<void(std::span<char>)> seal) {
  State& state = *state_;
  if (!state.is_complete()) {
    const Slot& slot = state.slot();
    fail(Errc::invalid_argument, state.place, ": tensor '", printable(slot.name), "': expected ", slot.bytes,
         " bytes, found ", state.written);
  }
  const std::uint64_t length = state.header_bytes;
  std::string header(reinterpret_cast<const char*>(&length), sizeof length);
  header += state.header();
  header.resize(sizeof length + state.header_bytes, ' ');
  seal(header);
  state.file.write_at(0, std::as_bytes(std::span(header.data(), header.size())));
  state.file.commit();
}

}  // namespace bantam::inline v0
