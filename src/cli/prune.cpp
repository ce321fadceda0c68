// METHOD:AMOUNT.
#include "prune.hpp"

#include "options.hpp"

namespace bantam::cli {

std::optional<Pruning> parse_prune(const std::string& text) {
  if (text.empty()) return {};
  const std::size_t colon = text.find(':');
  try {
    const PruneMethod method = find_prune_method(text.substr(0, colon));
    if (colon == std::string::npos) fail(Errc::invalid_argument, "pruning: expected METHOD:AMOUNT like wanda:0.5, found ", printable(text));
    return Pruning{method, parse_sparsity(std::string_view(text).substr(colon + 1))};
  } catch (const Error& error) {
    throw UsageError(message("--prune: ", error.what()));
  }
}

}  // namespace bantam::cli
