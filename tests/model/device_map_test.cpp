// Which weights are where, by name.
#include "bantam/model/device_map.hpp"

#include "limits.hpp"
#include "tiny_model.hpp"

using namespace bantam;
using namespace bantam::test;

TEST_CASE("the longest name that begins a tensor's, up to a dot, says where it is") {
  const DeviceMap map = DeviceMap::parse(R"({"": "cpu", "model.layers.1": "disk", "model.layers.1.mlp": "cpu", "model.layers.1.mlp.down_proj": "disk"})");
  CHECK(map.has_disk());
  for (const auto& [name, on_disk] : {std::pair("model.layers.1.self_attn.q_proj", true), {"model.layers.1", true}, {"model.layers.1.mlp.up_proj", false}, {"model.layers.1.mlp.down_proj", true},
                                      {"model.layers.1.mlp_norm", true}, {"model.layers.10.mlp.down_proj", false}, {"lm_head", false}}) {
    CAPTURE(std::string(name));
    CHECK(map.on_disk(name) == on_disk);
  }
  // What `bantam plan --json` wrote has more in it.
  CHECK(DeviceMap::parse(R"({"path": "m", "device_map": {"": "disk"}})").on_disk("lm_head"));
  CHECK(DeviceMap::parse(map.to_json()).to_json() == map.to_json());
}

TEST_CASE("a map that is none is refused with a line") {
  const auto error = [](std::string_view json) { return error_of([&] { (void)DeviceMap::parse(json, "m.json"); }); };
  CHECK(error("[]") == "m.json: expected an object of names and devices, found array");
  CHECK(error("{}") == "m.json: expected names and devices, found none");
  CHECK(error(R"({"model.layers.0": 0})") == R"(m.json: model.layers.0: expected "cpu" or "disk", found 0)");
  CHECK(error(R"({"device_map": null})") == R"(m.json: expected an object of names and devices, found null)");
  CHECK(error(R"({"": "cuda:0"})") == R"(device_map: : expected "cpu" or "disk", found "cuda:0")");
  CHECK(error("{").starts_with("m.json: "));
  CHECK(error_of([] { (void)DeviceMap::parse(R"({"model.layers": "cpu"})").on_disk("lm_head"); }) == "device_map: expected a device for lm_head, found none; \"\" stands for all that have no other");
}

TEST_CASE("a map of what is where under a bound says the same when it is read") {
  for (const ArchSpec* arch : few_architectures()) {
    CAPTURE(std::string(arch->name));
    TinyModel tiny{.arch = arch, .layers = 4, .experts = 8};
    tiny.make();
    const TemporaryFolder folder;
    tiny.write_gguf(folder / "m.gguf");
    const Checkpoint checkpoint = Checkpoint::open(folder / "m.gguf");
    const std::int64_t least = residency_of(checkpoint, 0).least;
    for (const std::int64_t limit : {least, least + (bytes_in_memory(checkpoint) - least) / 2}) {
      CAPTURE(limit);
      const Residency decided = residency_of(checkpoint, limit);
      const DeviceMap map = DeviceMap::parse(DeviceMap::of(checkpoint, decided).to_json());
      const Residency read = residency_of(checkpoint, limit, &map);
      CHECK(read.fits());
      CHECK(read.resident_bytes() == decided.resident_bytes());
      CHECK(read.streamed_layer_bytes == decided.streamed_layer_bytes);
      CHECK(read.looked_up == decided.looked_up);
      for (const CheckpointTensor& tensor : checkpoint.tensors()) CHECK(read.keeps(tensor) == decided.keeps(tensor));
    }
  }
}
