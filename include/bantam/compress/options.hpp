// Compression as it is asked for in words. One table of options serves the command line, C and Python.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bantam/compress/prepare.hpp"
#include "bantam/model/adapter.hpp"

namespace bantam::inline v0 {

/// What the options say.
struct CompressRequest {
  CompressRequest();  ///< everything as the table has it

  Method method = Method::rtn;
  std::string format;
  int group = -1;
  MethodOptions details = {};                            ///< but for pruning
  std::vector<std::pair<std::string, std::string>> keep;  ///< pattern and format
  std::vector<AdapterChoice> adapters;
  std::vector<std::string> prune;
  std::string prune_to;
  StructureOptions parts = {};
  CalibrationText calibration = {};
  std::string calibration_path;
  Target target = Target::native;
  std::string journal;
};
/// Throw invalid_argument, naming the option, for what makes no sense.
[[nodiscard]] PruneRequest prune_of(const CompressRequest& request);
[[nodiscard]] Recipe recipe_of(const CompressRequest& request);
/// The model with the adapters that are asked for, before anything else is done to it; itself without any. Throws what Adapter::load() and
/// Checkpoint::merged() throw, naming the option.
[[nodiscard]] Checkpoint merged(const CompressRequest& request, const Checkpoint& checkpoint);
/// The same of a model in memory.
[[nodiscard]] Model with_adapters(const CompressRequest& request, const Model& model);

/// How the text of an option is read.
enum class OptionKind : std::uint8_t {
  flag,        ///< "on" or "off"; what the program's option turns round
  integer,     ///< from `least` to `most`
  seed,        ///< of random numbers, which also says that they are wanted; the program has a flag for that, and --seed
  number,
  choice,      ///< one of `words`
  format,      ///< of weights, or a mix
  text,
  texts,       ///< may be given several times
  exceptions,  ///< "PATTERN=FORMAT", several times
  file,
  corpus,      ///< a text to calibrate with: a file
  adapters,    ///< "PATH" or "PATH:SCALE", several times
  importance,  ///< an importance matrix: a file
};

/// A text as its kind reads it.
struct OptionValue {
  std::string_view text;
  bool on = false;
  std::int64_t integer = 0;
  std::uint64_t seed = 0;
  double number = 0;
};

/// A row of the table.
struct CompressOption {
  std::string_view name;        ///< in C and Python
  std::string_view older = {};  ///< another name in C
  /// The program's, without dashes at its front; none: the name, with "no-" where a flag is on from the start. Empty: it has none.
  std::optional<std::string_view> program = {};
  OptionKind kind;
  std::int64_t least = 0, most = 0x7fffffff;                ///< of integers
  std::vector<std::string_view> (*words)() = nullptr;       ///< of choices
  std::string_view placeholder = {};                        ///< of the value, in the program's help
  std::string_view initial = {};                            ///< empty: nothing
  std::string_view example = {};                            ///< a value that it takes; a flag's is the other one
  std::pair<std::string_view, std::string_view> needs = {};  ///< an option that it is no use without, and a value to go with the example
  bool calibrates = false;                                  ///< of no use where nothing is calibrated
  bool of_files = false;                                    ///< not of compression in memory
  std::string_view meaning;
  void (*set)(CompressRequest& request, const OptionValue& value);
};

/// In the order in which help lists them.
[[nodiscard]] std::span<const CompressOption> compress_options() noexcept;
/// "no-compensation"; empty where the program has no such option.
[[nodiscard]] std::string program_name(const CompressOption& option);
/// Sets what a text says; those that may be given several times gather. Throws invalid_argument, naming the option, where it makes no
/// sense, and listing the names there are.
void set_option(CompressRequest& request, std::string_view name, std::string_view text);

}  // namespace bantam::inline v0
