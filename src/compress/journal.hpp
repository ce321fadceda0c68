// Finished blocks of a compression beside its output, for a run that goes on where another was killed.
#pragma once

#include <optional>

#include "bantam/compress/compress.hpp"
#include "bantam/io/file.hpp"
#include "io/posix.hpp"
#include "rounding.hpp"

namespace bantam::inline v0 {

/// An append-only file: a line with the key of the run, then for each block a line that describes it and the bytes of its
/// matrices and vectors. Every line and every tensor has its hash, so what a kill or a power cut left half done is seen and
/// taken away. Blocks reach the disk before the next one is begun.
class Journal {
 public:
  /// Nothing of a file that another run wrote is used: another checkpoint, recipe, calibration, version or instruction set.
  Journal(std::filesystem::path path, const Checkpoint& checkpoint, const Recipe& recipe, const Calibration& calibration);

  /// Block `layer`, asked for in order; nothing once one is missing or broken.
  [[nodiscard]] std::optional<RoundedBlock> read(std::int64_t layer);
  /// Adds the block after the last one read or added.
  void append(std::int64_t layer, const RoundedBlock& block);
  /// The file is of no more use.
  void remove() noexcept;

 private:
  void open();
  [[nodiscard]] std::string_view line();
  [[nodiscard]] std::span<const std::byte> take(std::size_t bytes);

  std::filesystem::path path_;
  const Checkpoint& checkpoint_;
  const Recipe& recipe_;
  std::string first_line_;
  std::shared_ptr<const MappedFile> file_;  ///< null: nothing to read, or no more
  std::size_t at_ = 0;                      ///< of what is being read
  std::size_t end_ = 0;                     ///< of the last whole block
  std::optional<detail::Descriptor> output_;
};

}  // namespace bantam::inline v0
