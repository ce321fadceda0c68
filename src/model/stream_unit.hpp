// Matrices that come into memory and go together.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "bantam/model/checkpoint.hpp"
#include "bantam/model/residency.hpp"
#include "bantam/model/roles.hpp"
#include "reader_pool.hpp"

namespace bantam::inline v0 {

/// Memory that begins at a multiple of a file's block: what reads around the page cache ask for.
[[nodiscard]] inline std::shared_ptr<std::byte> allocate_blocks(std::size_t bytes) {
  constexpr std::size_t block = MappedFile::block_bytes;
  // Large ones begin at a huge page; an allocator that was given may do otherwise.
  const std::shared_ptr<std::byte> all = allocate_storage(bytes);
  if (reinterpret_cast<std::uintptr_t>(all.get()) % block == 0) return all;
  const std::shared_ptr<std::byte> more = allocate_storage(bytes + block);
  return {more, more.get() + (block - reinterpret_cast<std::uintptr_t>(more.get()) % block) % block};
}

/// Of a layer, or of an expert.
class StreamUnit {
 public:
  void add(const CheckpointTensor& tensor) {
    ids_.emplace_back(tensor);
    places_.push_back({tensor.source.get(), bytes_, tensor.stored_bytes()});
    if (parts_.empty() || !follows(parts_.back(), places_.back())) {
      parts_.push_back(places_.back());
    } else {
      SlotPart& run = parts_.back();
      const std::byte* const begin = run.source->stored_as_loaded().data();
      const std::span<const std::byte> more = tensor.source->stored_as_loaded();
      run.run = {begin, more.data() + more.size()};
      run.stored_bytes += tensor.stored_bytes();
    }
    bytes_ += static_cast<std::size_t>(detail::room_in_slot(tensor));
    for (const TensorPart& part : tensor.source->parts()) {
      const MappedFile* file = part.entry->file.get();
      if (std::ranges::find(files_, file) == files_.end()) files_.push_back(file);
    }
  }
  [[nodiscard]] bool empty() const noexcept { return parts_.empty(); }
  /// What is read.
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
      const MatrixSource& source = *places_[i].source;
      *matrix_of(layer, ids_[i]) = memory != nullptr ? source.in_room({memory, memory.get() + places_[i].offset})
                                                     : WeightMatrix(source.format(), source.rows(), source.columns(), nullptr, source.order());
    }
  }

 private:
  /// Whether a matrix lies as far behind the beginning of a run in the file as in the slot, both of whole blocks.
  [[nodiscard]] static bool follows(const SlotPart& run, const SlotPart& next) noexcept {
    const std::span<const std::byte> first = run.source->stored_as_loaded(), bytes = next.source->stored_as_loaded();
    if (first.empty() || bytes.empty()) return false;
    const MappedFile& file = *run.source->parts()[0].entry->file;
    return &file == next.source->parts()[0].entry->file.get() && static_cast<std::size_t>(first.data() - file.bytes().data()) % MappedFile::block_bytes == 0 &&
           bytes.data() > first.data() && static_cast<std::size_t>(bytes.data() - first.data()) == next.offset - run.offset;
  }
  /// What conversion has left behind is given back.
  void drop() const noexcept {
    for (const SlotPart& part : places_) part.source->drop();
  }

  std::vector<TensorId> ids_;
  std::vector<SlotPart> places_;  ///< of each matrix
  std::vector<SlotPart> parts_;   ///< the same, runs of them as one
  std::vector<const MappedFile*> files_;
  std::size_t bytes_ = 0;
};

}  // namespace bantam::inline v0
