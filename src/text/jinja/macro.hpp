// Macros, and the blocks that {% call %} hands to them.
#pragma once

#include "text/jinja/nodes.hpp"

namespace bantam::inline v0::jinja {

struct MacroValue final : Object {
  MacroValue(const MacroCode& c, Scope* a) : code(c), around(a) {}
  const MacroCode& code;
  Scope* around;  ///< kept by the run

  [[nodiscard]] std::string_view type() const override { return "Macro"; }
  [[nodiscard]] bool callable() const override { return true; }
  std::optional<Value> attribute(Run& run, std::string_view name) override;
  Value call(Run& run, Arguments& arguments) override;
  std::string represent(Run&) override { return message("<Macro '", code.name, "'>"); }

 private:
  void bind(Run& run, Arguments& arguments) const;
};

}  // namespace bantam::inline v0::jinja
