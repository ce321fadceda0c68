// config.json: what it says is written back and read again the same.
#include "bantam/model/config.hpp"

#include "fuzz/fuzz.hpp"

namespace bantam::fuzz {

namespace {

void run_config(Bytes bytes) {
  survives([&] {
    const ModelConfig config = parse_hf_config(text_of(bytes), "config.json");
    require(config.dim > 0 && config.layers > 0 && config.kv_heads > 0 && config.heads % config.kv_heads == 0, "sizes are checked");
    const std::string written = write_hf_config(config, "float32");
    const ModelConfig again = parse_hf_config(written, "written");
    require(write_hf_config(again, "float32") == written, "a config that was written says the same");
  });
}

const Target config_target("config", run_config, mutate_json);

}  // namespace
}  // namespace bantam::fuzz
