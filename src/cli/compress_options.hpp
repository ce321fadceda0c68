// The options of compression, as the library's table has them, on the command line.
#pragma once

#include <list>
#include <string>
#include <string_view>
#include <vector>

#include "bantam/compress/options.hpp"
#include "options.hpp"

namespace bantam::cli {

/// What a row of the table has become.
struct TableOption {
  const CompressOption* row;
  CLI::Option* option = nullptr;
  bool flag = false;
  std::int64_t seed = 0;
  std::vector<std::string> texts = {};
  std::string text = {};
};

class TableOptions {
 public:
  /// Adds them to a verb, which has to outlive this.
  explicit TableOptions(CLI::App& verb);
  TableOptions(const TableOptions&) = delete;
  TableOptions& operator=(const TableOptions&) = delete;

  [[nodiscard]] bool given(std::string_view name) const;
  /// "--desc-act" and the like: those that were given of which a condition holds.
  [[nodiscard]] std::vector<std::string> given_where(bool (*holds)(const CompressOption&)) const;
  /// What they say. Throws UsageError, naming the option.
  [[nodiscard]] CompressRequest request() const;

 private:
  std::list<TableOption> options_;
};

/// Calls f; options that the library does not understand are wrong usage, under their names here.
template <class F>
auto checked_options(F&& f) {
  try {
    return f();
  } catch (const Error& error) {
    const std::string_view text = error.what();
    for (const CompressOption& option : compress_options()) {
      if (text.starts_with(message(option.name, ':')) && !program_name(option).empty()) {
        throw UsageError(message("--", program_name(option), text.substr(option.name.size())));
      }
    }
    throw UsageError(std::string(text));
  }
}

}  // namespace bantam::cli
