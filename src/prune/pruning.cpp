// Methods of pruning by name.
#include "bantam/prune/pruning.hpp"

#include <algorithm>
#include <vector>

#include "bantam/core/error.hpp"
#include "bantam/core/names.hpp"

namespace bantam::inline v0 {

namespace {

constexpr std::string_view method_names[] = {"magnitude", "magnitude_row", "magnitude_model", "wanda", "sparsegpt"};

}  // namespace

std::string_view name_of(PruneMethod method) noexcept { return method_names[static_cast<std::size_t>(method)]; }
PruneMethod find_prune_method(std::string_view name) { return prune_methods[find_name("pruning", name, method_names)]; }

std::string names_of_prune_methods() {
  std::string names;
  for (const std::string_view name : method_names) names += message(names.empty() ? "" : name == std::end(method_names)[-1] ? " or " : ", ", name);
  return names;
}

Sparsity Pruning::sparsity_of(std::string_view name) const noexcept {
  for (auto exception = exceptions.rbegin(); exception != exceptions.rend(); ++exception) {
    if (matches(name, exception->pattern)) return exception->sparsity;
  }
  return sparsity;
}

std::string Pruning::text() const {
  std::string out = message(name_of(method), ':', to_string(sparsity));
  for (const Exception& exception : exceptions) out += message(',', exception.pattern, '=', exception.sparsity.any() ? to_string(exception.sparsity) : "0");
  return out;
}

Pruning find_pruning(std::string_view text) {
  const std::string_view all = text.substr(0, text.find(','));
  const std::size_t colon = all.find(':');
  if (std::ranges::find(method_names, all.substr(0, colon)) == std::end(method_names) || colon == std::string_view::npos) {
    fail(Errc::invalid_argument, "pruning: expected ", names_of_prune_methods(), " and :SHARE, :N:M or :16x4, found ", printable(all));
  }
  Pruning pruning{find_prune_method(all.substr(0, colon)), parse_sparsity(all.substr(colon + 1))};
  for (std::size_t end = all.size(); end < text.size();) {
    const std::size_t first = end + 1;
    end = std::min(text.find(',', first), text.size());
    const std::string_view exception = text.substr(first, end - first);
    const std::size_t equals = exception.rfind('=');
    if (equals == std::string_view::npos || equals == 0) {
      fail(Errc::invalid_argument, "pruning: expected PATTERN=AMOUNT after a comma, found ", printable(exception));
    }
    const std::string_view amount = exception.substr(equals + 1);
    pruning.except(std::string(exception.substr(0, equals)), amount == "0" ? Sparsity() : parse_sparsity(amount));
  }
  return pruning;
}

void check(const Pruning& pruning) {
  check(pruning.sparsity);
  for (const Pruning::Exception& exception : pruning.exceptions) {
    if (exception.sparsity.any()) check(exception.sparsity);
  }
}

}  // namespace bantam::inline v0
