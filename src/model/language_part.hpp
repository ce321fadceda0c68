// The language model's tensors of a folder that holds a model of several parts.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bantam/io/tensor_source.hpp"
#include "bantam/model/arch_spec.hpp"

namespace bantam::inline v0 {

struct LanguagePart {
  std::shared_ptr<const TensorSource> tensors;  ///< by the names that they have in a model of text alone
  std::vector<std::string> left_out;            ///< names of the others, in the file's order
};

/// These tensors of `whole`, by the names that `entries` have.
[[nodiscard]] std::shared_ptr<const TensorSource> renamed(std::shared_ptr<const TensorSource> whole, std::vector<TensorEntry> entries);

/// All tensors of `whole` but those of a tower for images (visual.NAME). Where some are called language_model.model.NAME,
/// model.language_model.NAME or the like, those are model.NAME, a head beside them is lm_head, and whatever else there is is left out. Names of a
/// model that was saved without its head lack what those of `arch` begin with ("transformer."): they get it.
[[nodiscard]] LanguagePart language_part(std::shared_ptr<const TensorSource> whole, const ArchSpec& arch);

/// The same tensors by the names that the architecture has for them: without what classes around the model begin them with ("bert."), with "model."
/// where the model was saved alone, and without old names of layer norms (gamma, beta).
[[nodiscard]] std::shared_ptr<const TensorSource> by_own_names(std::shared_ptr<const TensorSource> tensors, const ArchSpec& arch);

}  // namespace bantam::inline v0
