// Small models to take parts from.
#pragma once

#include "bantam/core/parallel.hpp"
#include "compress/inputs.hpp"
#include "model/tiny_model.hpp"

namespace bantam::test {

struct Small {
  Small() { set_parallel_threads(1); }  // more would cost these small models more than they save
  ~Small() { set_parallel_threads(0); }
  Small(const Small&) = delete;
  Small& operator=(const Small&) = delete;

  /// A folder with the model, opened.
  Checkpoint written(const TinyModel& tiny, const std::string& name = "hf") const {
    tiny.write_folder(folder / name);
    return Checkpoint::open(folder / name);
  }
  TemporaryFolder folder;
  Calibration calibration = some_calibration();
};

inline TinyModel small_model(const ArchSpec* arch) {
  TinyModel tiny{.arch = arch, .layers = 3, .heads = 6, .kv_heads = 3, .tied = arch == &archs::qwen3, .biases = arch == &archs::llama};
  return tiny.make();
}

}  // namespace bantam::test
