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

/// Matrices that lie side by side in a file as they do in a slot, for long reads.
class FileRun final : public PieceSource {
 public:
  explicit FileRun(const MatrixSource& first) : first_(first), bytes_(first.stored_as_loaded()), stored_bytes_(first.stored_bytes()) {}

  /// Adds a matrix that lies so far behind the first in the slot. False: in the file it does not, or one of both is not of whole blocks.
  [[nodiscard]] bool add(const MatrixSource& next, std::size_t distance) noexcept {
    const std::span<const std::byte> more = next.stored_as_loaded();
    if (bytes_.empty() || more.empty() || &file() != next.parts()[0].entry->file.get()) return false;
    if (static_cast<std::size_t>(bytes_.data() - file().bytes().data()) % MappedFile::block_bytes != 0) return false;
    if (more.data() <= bytes_.data() || static_cast<std::size_t>(more.data() - bytes_.data()) != distance) return false;
    bytes_ = {bytes_.data(), more.data() + more.size()};
    stored_bytes_ += next.stored_bytes();
    return true;
  }
  [[nodiscard]] std::int64_t stored_bytes() const noexcept override { return stored_bytes_; }
  [[nodiscard]] std::int64_t pieces() const noexcept override { return static_cast<std::int64_t>(div_up(bytes_.size(), piece)); }
  void load_piece(std::int64_t number, std::byte* room, Reading reading) const override {
    const std::size_t begin = static_cast<std::size_t>(number) * piece;
    const auto part = bytes_.subspan(begin, std::min(piece, bytes_.size() - begin));
    reading == Reading::direct ? file().read_blocks(part, room + begin) : file().read(part, room + begin);
  }

 private:
  /// What a drive does best with, and no more than most experts have.
  static constexpr std::size_t piece = std::size_t{4} << 20;
  [[nodiscard]] const MappedFile& file() const noexcept { return *first_.parts()[0].entry->file; }

  const MatrixSource& first_;
  std::span<const std::byte> bytes_;
  std::int64_t stored_bytes_;  ///< without what lies between
};

/// Of a layer, or of an expert.
class StreamUnit {
 public:
  void add(const CheckpointTensor& tensor) {
    const MatrixSource& source = *tensor.source;
    ids_.emplace_back(tensor);
    places_.push_back({&source, bytes_});
    if (!runs_.empty() && runs_.back()->add(source, bytes_ - parts_.back().offset)) {
      parts_.back().source = runs_.back().get();
    } else {
      parts_.push_back({&source, bytes_});
      runs_.push_back(std::make_shared<FileRun>(source));
    }
    bytes_ += static_cast<std::size_t>(detail::room_of(tensor));
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
  /// What conversion has left behind is given back.
  void drop() const noexcept {
    for (const Place& place : places_) place.source->drop();
  }

  struct Place {
    const MatrixSource* source = nullptr;
    std::size_t offset = 0;
  };
  std::vector<TensorId> ids_;
  std::vector<Place> places_;    ///< of each matrix
  std::vector<SlotPart> parts_;  ///< the same, runs of them as one
  std::vector<std::shared_ptr<FileRun>> runs_;  ///< of each part, of one matrix too
  std::vector<const MappedFile*> files_;
  std::size_t bytes_ = 0;
};

}  // namespace bantam::inline v0
