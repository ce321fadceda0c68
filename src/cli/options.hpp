// Options: how numbers and names on the command line are read, and the options that several verbs share.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "bantam/session/session.hpp"

// The parser's header costs half a minute of compilation under sanitizers, so that three files alone include it.
namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace bantam::cli {

/// The command line makes no sense: exit status 2. The message is one line.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Bounds of a whole number, both allowed. `wanted` says the same in words.
struct Bounds {
  std::int64_t least = 0;
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
};

/// A whole number in decimal; nothing else is accepted. The last of several counts. The value that `target` has now is
/// shown as the default.
CLI::Option* add_integer(CLI::App& app, const std::string& names, std::int64_t& target, Bounds bounds,
                         const std::string& help);
/// One or several of them, between commas.
CLI::Option* add_integers(CLI::App& app, const std::string& names, std::vector<std::int64_t>& target, Bounds bounds, const std::string& help);
/// A finite number in decimal.
CLI::Option* add_number(CLI::App& app, const std::string& names, float& target, const std::string& help);
/// Any text, the empty one included. `type` is what help shows for it.
CLI::Option* add_text(CLI::App& app, const std::string& names, std::string& target, const std::string& type,
                      const std::string& help);
/// An option that may be given several times.
CLI::Option* add_texts(CLI::App& app, const std::string& names, std::vector<std::string>& target,
                       const std::string& type, const std::string& help);
/// One of a list of words. The first of them is the default unless `target` says otherwise.
CLI::Option* add_choice(CLI::App& app, const std::string& names, std::string& target,
                        const std::vector<std::string>& words, const std::string& help);
/// The same where leaving it out means something else: `target` stays empty.
CLI::Option* add_open_choice(CLI::App& app, const std::string& names, std::string& target, const std::vector<std::string>& words,
                             const std::string& help);
CLI::Option* add_flag(CLI::App& app, const std::string& names, bool& target, const std::string& help);
/// A positional argument.
CLI::Option* add_argument(CLI::App& app, const std::string& name, std::string& target, const std::string& help,
                          bool required = true);
/// As many as there are, behind those before.
CLI::Option* add_arguments(CLI::App& app, const std::string& name, std::vector<std::string>& target, const std::string& help);
/// The texts of an option's values, in each of which several may stand between commas. Throws UsageError, naming the option, where one is empty.
[[nodiscard]] std::vector<std::string> between_commas(std::string_view option, std::span<const std::string> values);
/// Whether the command line has it, its name there as messages say it, and what it is no use without.
[[nodiscard]] bool given(const CLI::Option* option);
[[nodiscard]] std::string name_of(const CLI::Option* option);
void needs(CLI::Option* option, CLI::Option* other);

/// A verb, to which options are added; `chosen` runs when the whole command line was parsed and it was this verb's.
[[nodiscard]] CLI::App& add_verb(CLI::App& app, const std::string& name, const std::string& help);
void finish_verb(CLI::App& verb, const std::string& examples, std::function<void()> chosen);

/// A whole number as add_integer reads it, a number as add_number does; UsageError names `option` otherwise.
[[nodiscard]] std::int64_t parse_integer(std::string_view option, std::string_view text, Bounds bounds);
[[nodiscard]] double parse_number(std::string_view option, std::string_view text);
/// A JSON array of token ids, as `--ids` and `tokenize --decode` take it. Throws invalid_argument naming `place`.
[[nodiscard]] std::vector<TokenId> parse_ids(std::string_view json, const std::string& place);

/// What every verb understands.
struct CommonOptions {
  std::int64_t threads = 0;
  std::string isa;
  bool json = false;
};
void add_common(CLI::App& app, CommonOptions& options);
/// Makes --isa and --threads count for this process. Throws UsageError for an instruction set that is not there.
void apply(const CommonOptions& options);

/// What verbs that hold weights understand.
struct LoadingOptions {
  bool map = false;
  bool no_map = false;
  bool direct = false;
  bool verify = false;
  std::string gptq_zero;
  std::string memory;  ///< of the process; empty: what is free
  DeviceMap devices = {};
  std::int64_t experts = 0;  ///< a token; 0: the model's
  nn::ColdExperts cold;
  std::vector<std::string> lora;  ///< adapters, as parse_adapter() reads them
};
/// Tokens to hold within a bound of memory, at most, where nobody says: what they may take has to be known.
inline constexpr std::int64_t bounded_context = 8192;
/// Texts that a process holds.
struct TextRoom {
  std::int64_t context = 0;  ///< tokens of each; 0: what the model was made for, or bounded_context
  std::string kv = "f16";
  std::int64_t sequences = 1;
  bool may_spill = false;  ///< sessions take StateMemory, so that older keys and values may go to a file
  bool drafts = false;     ///< the model's own layer makes guesses (Speculation::mtp)
};
void add_loading(CLI::App& app, LoadingOptions& options);
/// Throws Error unless writing `out` leaves the model as it is, by whatever name or link.
void refuse_overwriting(const std::string& model, const std::string& out);
/// --gptq-zero, for verbs that read checkpoints.
void add_gptq_zero(CLI::App& app, std::string& target);
void add_device_map(CLI::App& app, DeviceMap& target);
/// Opens, and passes on what Checkpoint::warnings() says.
[[nodiscard]] Checkpoint open_checkpoint(const std::string& path, const std::string& gptq_zero);
/// Tokens that a text may have: `context`, or where that is 0 what the model was made for, within a bound of memory, told or found, at most
/// bounded_context.
[[nodiscard]] std::int64_t context_of(const Model& model, const LoadingOptions& options, std::int64_t context);
/// A model, what --lora adds to it, and what a text may take of memory.
struct AdaptedModel {
  Model model;
  std::vector<ScaledAdapter> adapters;
  StateMemory text = {};
};
/// Within --memory, which adapters and `texts` share. drawn: a terminal sees how far it is.
[[nodiscard]] AdaptedModel load_adapted(const std::string& path, const LoadingOptions& options, const TextRoom& texts, bool drawn);
/// And with models beside the first, which have neither adapters nor --experts; each holds such texts.
[[nodiscard]] std::vector<AdaptedModel> load_together(std::span<const std::string> paths, const LoadingOptions& options, const TextRoom& texts, bool drawn);
/// The same beside other models, with what it and its texts may come to take.
struct ModelBeside {
  AdaptedModel adapted;
  std::int64_t bytes;
};
/// A model beside others that may come to take so many bytes, in a process that takes `base` without any: nothing unless it has room in memory whole. Beside
/// none as load_adapted() does. Ends early where `progress` says so.
[[nodiscard]] std::optional<ModelBeside> load_beside(const std::string& path, const LoadingOptions& options, const TextRoom& texts, std::int64_t others, std::int64_t base, LoadProgress progress);

/// --kv with every kind that this build has.
CLI::Option* add_kv(CLI::App& app, std::string& target);
[[nodiscard]] std::vector<std::string> kv_kinds();

/// Throws UsageError unless `count` of the choices that `names` lists is at most one.
void at_most_one(int count, std::string_view names);
/// Answers what is planned and not there: exit status 1.
[[noreturn]] void not_yet(std::string_view what);

}  // namespace bantam::cli
