// Takes a safetensors file apart: header length, JSON, offsets.
#include "io/safetensors_header.hpp"

#include <algorithm>
#include <limits>
#include <optional>

#include "io/byte_reader.hpp"
#include "io/json_events.hpp"
#include "io/names.hpp"
#include "io/posix.hpp"
#include "io/safetensors_types.hpp"
#include "io/shapes.hpp"

namespace bantam::inline v0::detail {

namespace {

// A tensor as the header describes it; offsets count from the end of the header.
struct Described {
  TensorEntry entry;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

// {"__metadata__": {text: text}, name: {"dtype": text, "shape": [n...], "data_offsets": [n, n]}, ...}: a machine of five
// states, so that anything nested deeper is refused where it opens.
class HeaderEvents final : public JsonEvents {
 public:
  using JsonEvents::JsonEvents;

  std::vector<Described> tensors;
  HashMap<std::string, std::string> metadata;

  bool key(std::string& name) override {
    if (state_ == State::metadata) {
      metadata_key_ = name;
    } else if (state_ == State::tensor) {
      open_field(name);
    } else if (name == safetensors_metadata_key) {
      if (std::exchange(seen_metadata_, true)) fail(Errc::corrupt, place_, ": expected one ", name, ", found two");
      next_ = State::metadata;
    } else {
      open_tensor(name);
    }
    return true;
  }

  bool start_object(std::size_t) override {
    if (state_ == State::outside) {
      state_ = State::top;
    } else if (state_ == State::top) {
      state_ = next_;
    } else {
      refuse("an object");
    }
    return true;
  }

  bool end_object() override {
    if (state_ == State::tensor) close_tensor();
    state_ = state_ == State::top ? State::outside : State::top;
    return true;
  }

  bool start_array(std::size_t) override {
    if (state_ != State::tensor || (field_ != "shape" && field_ != "data_offsets")) refuse("an array");
    state_ = State::list;
    return true;
  }

  bool end_array() override {
    state_ = State::tensor;
    return true;
  }

  bool string(std::string& text) override {
    if (state_ == State::metadata) {
      if (!metadata.try_emplace(metadata_key_, std::move(text)).second) {
        fail(Errc::corrupt, place_, ": metadata '", printable(metadata_key_), "': expected once, found twice");
      }
      return true;
    }
    if (state_ != State::tensor || field_ != "dtype") return JsonEvents::string(text);
    type_ = find_safetensors_type(text);
    if (type_ == nullptr) fail(Errc::unsupported, here(), ": expected a known dtype, found '", printable(text), '\'');
    tensors.back().entry.type = std::move(text);
    return true;
  }

  bool number_unsigned(std::uint64_t value) override {
    if (state_ != State::list) return JsonEvents::number_unsigned(value);
    if (field_ == "shape") {
      add_dimension(value);
    } else {
      add_offset(value);
    }
    return true;
  }

 private:
  enum class State { outside, top, metadata, tensor, list };

  std::string expected() const override {
    switch (state_) {
      case State::outside: return "a json object";
      case State::top: return next_ == State::metadata ? "an object of metadata" : message("an object for ", tensor());
      case State::metadata: return message("a text as metadata '", printable(metadata_key_), '\'');
      case State::list: return message("a number below 2^63 in ", field_, " of ", tensor());
      case State::tensor: break;
    }
    return message(field_ == "dtype" ? "a text" : "an array", " as ", field_, " of ", tensor());
  }

  std::string tensor() const { return message("tensor '", printable(tensors.back().entry.name), '\''); }
  std::string here() const { return place_ + ": " + tensor(); }

  void open_tensor(const std::string& name) {
    check_tensor_name(name, message(place_, ": tensor"));
    tensors.emplace_back().entry.name = name;
    type_ = nullptr;
    seen_dtype_ = seen_shape_ = seen_offsets_ = false;
    offsets_ = 0;
    next_ = State::tensor;
  }

  void open_field(const std::string& name) {
    bool* seen = name == "dtype" ? &seen_dtype_ : name == "shape" ? &seen_shape_ : name == "data_offsets" ? &seen_offsets_ : nullptr;
    if (seen == nullptr) {
      fail(Errc::corrupt, here(), ": expected dtype, shape or data_offsets, found '", printable(name), '\'');
    }
    if (std::exchange(*seen, true)) fail(Errc::corrupt, here(), ": expected ", name, " once, found it twice");
    field_ = name;
  }

  void add_dimension(std::uint64_t value) {
    auto& shape = tensors.back().entry.shape;
    if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) refuse(message(value));
    if (shape.size() == safetensors_rank_limit) {
      fail(Errc::unsupported, here(), ": expected at most ", safetensors_rank_limit, " dimensions, found more");
    }
    shape.push_back(static_cast<std::int64_t>(value));
  }

  void add_offset(std::uint64_t value) {
    if (offsets_ == 2) fail(Errc::corrupt, here(), ": expected 2 data_offsets, found more");
    (offsets_++ == 0 ? tensors.back().begin : tensors.back().end) = value;
  }

  void close_tensor() {
    const Described& described = tensors.back();
    if (!seen_dtype_ || !seen_shape_ || !seen_offsets_) {
      fail(Errc::corrupt, here(), ": expected dtype, shape and data_offsets, found no ",
           !seen_dtype_ ? "dtype" : !seen_shape_ ? "shape" : "data_offsets");
    }
    if (offsets_ != 2) fail(Errc::corrupt, here(), ": expected 2 data_offsets, found ", offsets_);
    const auto elements = count_elements(described.entry.shape);
    std::int64_t bytes = 0;
    if (!elements || __builtin_mul_overflow(elements->whole, type_->bytes, &bytes)) {
      fail(Errc::corrupt, here(), ": expected fewer than 2^63 bytes, found a shape whose product is more");
    }
    bytes = elements->empty ? 0 : bytes;
    if (described.end < described.begin || described.end - described.begin != static_cast<std::uint64_t>(bytes)) {
      fail(Errc::corrupt, here(), ": expected data_offsets ", bytes, " apart as dtype and shape say, found ", described.begin,
           " and ", described.end);
    }
  }

  State state_ = State::outside;
  State next_ = State::top;  // what an object in the outermost one would be
  std::string metadata_key_;
  std::string field_;
  const SafetensorsType* type_ = nullptr;
  bool seen_metadata_ = false;
  bool seen_dtype_ = false;
  bool seen_shape_ = false;
  bool seen_offsets_ = false;
  int offsets_ = 0;
};

/// The header's JSON, until the reader goes on.
std::string_view header_text(ByteReader& reader) {
  const auto length = reader.read<std::uint64_t>("the header length");
  if (length > safetensors_header_limit) {
    fail(Errc::corrupt, reader.name(), ": offset 0: expected a header of at most ", safetensors_header_limit, " bytes, found ",
         length);
  }
  const auto bytes = reader.take(length, "header");
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!text.starts_with('{')) fail(Errc::corrupt, reader.name(), ": offset 8: expected '{', found '", printable(text, 1), '\'');
  // The JSON reader takes a zero byte for the end and would not look at what follows it.
  const std::size_t zero = text.find('\0');
  if (zero != text.npos) fail(Errc::corrupt, reader.name(), ": offset ", 8 + zero, ": expected json, found a zero byte");
  return text;
}

void refuse_repeated_names(const std::vector<Described>& tensors, const std::string& file) {
  HashSet<std::string_view> names;
  for (const Described& tensor : tensors) {
    const std::string_view name = tensor.entry.name;
    if (!names.insert(name).second) fail(Errc::corrupt, file, ": tensor '", printable(name), "': expected once, found twice");
  }
}

// Every byte after the header belongs to exactly one tensor: no overlap, no hole, nothing behind the last.
void place_tensors(const ByteReader& reader, std::span<const std::byte> data, std::vector<Described>& tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const Described& a, const Described& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  std::uint64_t expected = 0;
  for (Described& tensor : tensors) {
    const std::string place = message(reader.name(), ": tensor '", printable(tensor.entry.name), '\'');
    if (tensor.begin != expected) {
      fail(Errc::corrupt, place, ": expected its data at offset ", expected, ", found ", tensor.begin,
           tensor.begin < expected ? ", which overlaps" : ", which leaves a hole");
    }
    if (tensor.end > data.size()) {
      fail(Errc::corrupt, place, ": expected data up to offset ", tensor.end, ", the file has ", data.size());
    }
    tensor.entry.bytes = data.subspan(static_cast<std::size_t>(tensor.begin), static_cast<std::size_t>(tensor.end - tensor.begin));
    expected = tensor.end;
  }
  if (expected != data.size()) {
    fail(Errc::corrupt, reader.name(), ": expected ", expected, " bytes of data, found ", data.size());
  }
}

}  // namespace

SafetensorsHeader parse_safetensors(const std::shared_ptr<const MappedFile>& file) {
  ByteReader reader(*file, shown(file->path()));
  HeaderEvents events(reader.name() + ": header");
  read_json(header_text(reader), events);
  refuse_repeated_names(events.tensors, reader.name());
  place_tensors(reader, file->bytes().subspan(reader.position()), events.tensors);

  SafetensorsHeader header;
  header.metadata = std::move(events.metadata);
  for (Described& tensor : events.tensors) {
    tensor.entry.file = file;
    header.tensors.push_back(std::move(tensor.entry));
  }
  return header;
}

}  // namespace bantam::inline v0::detail
