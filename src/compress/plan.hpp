// Which tensors a recipe writes, in which formats: what comes before any weight is read.
#pragma once

#include "bantam/compress/compress.hpp"
#include "bantam/model/native_file.hpp"

namespace bantam::inline v0 {

/// The tensors of the output, in the checkpoint's order; frequency divisors are left out. Throws invalid_argument where a
/// format does not fit the target.
[[nodiscard]] std::vector<NativeWriter::Entry> entries_of(const Checkpoint& checkpoint, const Recipe& recipe,
                                                          Target target);

/// Throws invalid_argument, in the name of `what`, where a recipe leaves more weights than a format holds and its method cannot
/// choose among them: rounding to nearest can.
void check_holds(const Recipe& recipe, const FormatInfo& format, std::string_view what);

}  // namespace bantam::inline v0
