// safetensors files.
#include "bantam/io/safetensors.hpp"

#include "fuzz/fuzz.hpp"
#include "fuzz/readers.hpp"
#include "fuzz/structures.hpp"

namespace bantam::fuzz {

namespace {

void run_safetensors(Bytes bytes) {
  static const Scratch folder;
  Choices choices(bytes);
  std::string file = safetensors_file(choices);
  damage(file, choices);
  const auto path = folder.put("model.safetensors", file);
  survives([&] { touch(*SafetensorsFile::open(path)); });
}

const Target safetensors_target("safetensors", run_safetensors);

// Shards and their index ---------------------------------------------------------------------------------------------

void run_index(Bytes bytes) {
  static const Scratch folder;
  static constexpr const char* shards[] = {"a.safetensors", "b.safetensors", "../a.safetensors", "/dev/zero", "c.bin", ".", "missing.safetensors"};
  Choices choices(bytes);
  std::string map;
  for (std::size_t tensors = choices.below(6); tensors > 0; --tensors) {
    const std::string name = choices.once_in(6) ? choices.text(12) : "w" + std::to_string(1 + choices.below(6));
    map += (map.empty() ? "" : ",") + ('"' + name + R"(":")") + choices.of(std::span(shards).first(choices.once_in(4) ? std::size(shards) : 2)) + '"';
  }
  std::string index = R"({"metadata":{"total_size":)" + std::to_string(choices.number()) + R"(},"weight_map":{)" + map + "}}";
  damage(index, choices);
  folder.put("model.safetensors.index.json", index);
  folder.put("a.safetensors", safetensors_file(choices));
  folder.put("b.safetensors", safetensors_file(choices));
  survives([&] { touch(*SafetensorsFile::open_folder(folder.path())); });
}

const Target index_target("safetensors_index", run_index);

}  // namespace
}  // namespace bantam::fuzz
