// What comes into memory piece by piece.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bantam::inline v0 {

/// How the weights of native files come into memory. Those of other files are converted in any case.
enum class Reading : std::uint8_t {
  mapped,    ///< the file's own pages
  buffered,  ///< read into huge pages
  direct,    ///< the same, around the system's page cache
};

/// Pieces of a megabyte or a few, which any threads may read in any order: long reads, and enough of them for every core.
class PieceSource {
 public:
  PieceSource() = default;
  virtual ~PieceSource() = default;
  PieceSource(const PieceSource&) = delete;
  PieceSource& operator=(const PieceSource&) = delete;

  /// Its bytes of files.
  [[nodiscard]] virtual std::int64_t stored_bytes() const noexcept = 0;
  [[nodiscard]] virtual std::int64_t pieces() const noexcept = 0;
  /// Into memory for all of them.
  virtual void load_piece(std::int64_t piece, std::byte* room, Reading reading) const = 0;

 protected:
  static constexpr std::int64_t piece_bytes = 1 << 20;
};

}  // namespace bantam::inline v0
