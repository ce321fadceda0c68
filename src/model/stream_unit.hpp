// Matrices that come into memory and go together.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "bantam/model/checkpoint.hpp"
#include "bantam/model/residency.hpp"
#include "bantam/model/roles.hpp"
#include "bantam/nn/page_store.hpp"
#include "reader_pool.hpp"

namespace bantam::inline v0 {

/// Of a layer, or of an expert.
class StreamUnit {
 public:
  void add(const CheckpointTensor& tensor) {
    ids_.emplace_back(tensor);
    parts_.push_back({tensor.source.get(), bytes_});
    sources_.push_back(tensor.source.get());
    bytes_ += static_cast<std::size_t>(detail::room_in_slot(tensor));
    for (const TensorPart& part : tensor.source->parts()) {
      const MappedFile* file = part.entry->file.get();
      if (std::ranges::find(files_, file) == files_.end()) files_.push_back(file);
    }
  }
  [[nodiscard]] bool empty() const noexcept { return parts_.empty(); }
  [[nodiscard]] std::span<const SlotPart> parts() const noexcept { return parts_; }
  /// Memory that it takes.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

  /// Waits until it is in memory, and makes sure that it is of the file that was opened. Throws what reading threw.
  void finish(ReaderPool& readers, ReaderPool::Batch& batch) const {
    try {
      readers.wait(batch);
      for (const MappedFile* file : files_) file->check_unchanged();
    } catch (...) {
      drop();
      throw;
    }
    drop();
  }
  /// The matrices that are in `memory`, into their places; without memory, none.
  void place(LayerWeights& layer, const std::shared_ptr<const std::byte>& memory) const {
    for (std::size_t i = 0; i < ids_.size(); ++i) {
      const MatrixSource& source = *sources_[i];
      *matrix_of(layer, ids_[i]) = memory != nullptr ? source.in_room({memory, memory.get() + parts_[i].offset})
                                                     : WeightMatrix(source.format(), source.rows(), source.columns(), nullptr, source.order());
    }
  }

 private:
  /// What conversion has left behind is given back.
  void drop() const noexcept {
    for (const MatrixSource* source : sources_) source->drop();
  }

  std::vector<TensorId> ids_;
  std::vector<SlotPart> parts_;
  std::vector<const MatrixSource*> sources_;  ///< of each part
  std::vector<const MappedFile*> files_;
  std::size_t bytes_ = 0;
};

}  // namespace bantam::inline v0
