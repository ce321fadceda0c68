// Reading layers ahead.
#include "bantam/model/block_source.hpp"

#include <utility>

namespace bantam::inline v0 {

std::shared_ptr<const LayerWeights> FileBlocks::acquire(std::int64_t layer) const {
  Ahead ahead = std::exchange(ahead_, {});
  if (ahead.layer == layer) return std::make_shared<const LayerWeights>(ahead.weights.get());
  return std::make_shared<const LayerWeights>(load_block(checkpoint_, layer));
}

void FileBlocks::prefetch(std::int64_t layer) const {
  if (ahead_.layer == layer) return;
  ahead_ = {};  // waits for what nobody wants any more: two layers in memory, never three
  ahead_ = {layer, std::async(std::launch::async, [this, layer] { return load_block(checkpoint_, layer); })};
}

}  // namespace bantam::inline v0
