// How fast a file can be read, and how best to.
#pragma once

#include "bantam/io/file.hpp"

namespace bantam::inline v0 {

/// The way that read a file fastest.
struct DiskReading {
  int readers = 4;           ///< threads, each with a megabyte at a time
  bool around_cache = true;  ///< by MappedFile::read_blocks(), not read()
  double gb_s = 0;           ///< bytes a second, in GB/s; 0: not measured
};

/// Reads pieces spread through the file by two, four and eight threads around the page cache, and by four through it, for a quarter of a
/// second in all. More threads, or the cache, are chosen where they are a tenth faster. Asked once a device: drives are what differs. A file of
/// less than 16 MiB is not measured. From any thread.
[[nodiscard]] DiskReading measure_disk(const MappedFile& file);

}  // namespace bantam::inline v0
