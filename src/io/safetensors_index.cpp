// Reads the index of a sharded checkpoint and finds its shards.
#include "io/safetensors_index.hpp"

#include <system_error>

#include "bantam/core/hash.hpp"
#include "bantam/io/file.hpp"
#include "io/json_events.hpp"
#include "io/names.hpp"
#include "io/posix.hpp"

namespace bantam::inline v0::detail {

namespace {

constexpr int deepest_nesting = 128;
// The largest published indexes have some 100 thousand tensors and 10 MB.
constexpr std::size_t largest_index = 100'000'000;

void check_shard_name(const std::string& shard, const std::string& place) {
  check_name(shard, place);
  if (shard.find_first_of("/\\") != std::string::npos || shard == "." || shard == "..") {
    fail(Errc::corrupt, place, " '", printable(shard), "': expected the name of a file in the same folder, found a path");
  }
  if (!shard.ends_with(".safetensors")) {
    fail(Errc::unsupported, place, " '", printable(shard), "': expected a .safetensors file, found another kind");
  }
}

// {"weight_map": {tensor: shard}, anything else: anything}
class IndexEvents final : public JsonEvents {
 public:
  using JsonEvents::JsonEvents;

  SafetensorsIndex index;
  bool found_map = false;

  bool null() override { return inside_other() || JsonEvents::null(); }
  bool boolean(bool value) override { return inside_other() || JsonEvents::boolean(value); }
  bool number_integer(std::int64_t value) override { return inside_other() || JsonEvents::number_integer(value); }
  bool number_unsigned(std::uint64_t value) override { return inside_other() || JsonEvents::number_unsigned(value); }
  bool number_float(double value, const std::string& digits) override {
    return inside_other() || JsonEvents::number_float(value, digits);
  }

  bool string(std::string& text) override {
    if (!in_map_) return inside_other() || JsonEvents::string(text);
    check_shard_name(text, message(place_, ": shard of tensor '", printable(tensor_), '\''));
    if (!seen_.insert(tensor_).second) {
      fail(Errc::corrupt, place_, ": tensor '", printable(tensor_), "': expected once, found twice");
    }
    index[text].push_back(tensor_);
    return true;
  }

  bool key(std::string& name) override {
    if (in_map_) {
      tensor_ = name;
    } else if (depth_ == 1) {
      map_is_next_ = name == "weight_map";
      if (map_is_next_ && std::exchange(found_map, true)) fail(Errc::corrupt, place_, ": expected one weight_map, found two");
    }
    return true;
  }

  bool start_object(std::size_t) override {
    if (in_map_) refuse("an object");
    in_map_ = depth_ == 1 && map_is_next_;
    enter();
    return true;
  }
  bool end_object() override {
    in_map_ = false;
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override {
    if (in_map_ || depth_ == 0 || (depth_ == 1 && map_is_next_)) refuse("an array");
    enter();
    return true;
  }
  bool end_array() override {
    --depth_;
    return true;
  }

 private:
  std::string expected() const override {
    if (in_map_) return message("the name of a shard for tensor '", printable(tensor_), '\'');
    return depth_ == 0 ? "a json object" : "an object as weight_map";
  }
  // Whether the value belongs to a part of the document that is of no interest.
  bool inside_other() const { return !in_map_ && depth_ > 0 && !(depth_ == 1 && map_is_next_); }
  void enter() {
    if (++depth_ > deepest_nesting) fail(Errc::corrupt, place_, ": expected at most ", deepest_nesting, " nested values, found more");
  }

  int depth_ = 0;
  bool in_map_ = false;
  bool map_is_next_ = false;
  std::string tensor_;
  HashSet<std::string> seen_;
};

std::filesystem::path real_path(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::path real = std::filesystem::canonical(path, error);
  if (error) fail_system(path, "open", error.value());
  return real;
}

}  // namespace

SafetensorsIndex read_safetensors_index(const std::filesystem::path& file) {
  const std::string text = read_text_file(file, largest_index);
  const std::string place = shown(file);
  const std::size_t zero = text.find('\0');
  if (zero != text.npos) fail(Errc::corrupt, place, ": offset ", zero, ": expected json, found a zero byte");
  IndexEvents events(place);
  read_json(text, events);
  if (!events.found_map || events.index.empty()) fail(Errc::corrupt, place, ": expected a weight_map with tensors, found none");
  return std::move(events.index);
}

std::filesystem::path resolve_weights(const std::filesystem::path& folder, const std::string& name) {
  const std::filesystem::path home = real_path(folder);
  const std::filesystem::path real = real_path(folder / name);
  const std::filesystem::path parent = real.parent_path();
  if (parent == home) return real;
  const bool snapshot = home.parent_path().filename() == "snapshots";
  if (snapshot && parent == home.parent_path().parent_path() / "blobs") return real;
  fail(Errc::corrupt, shown(folder / name), ": expected a file of this folder, found a link to ", shown(real), ": give the folder that holds the file, or a copy");
}

}  // namespace bantam::inline v0::detail
