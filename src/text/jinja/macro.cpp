// Calling a macro: parameters, defaults, varargs, kwargs, caller.
#include "text/jinja/macro.hpp"

#include <algorithm>

namespace bantam::inline v0::jinja {

std::optional<Value> MacroValue::attribute(Run& run, std::string_view name) {
  if (name == "name") return run.text(code.name);
  if (name == "caller") return code.uses_caller;
  if (name == "catch_kwargs") return code.uses_kwargs;
  if (name == "catch_varargs") return code.uses_varargs;
  if (name != "arguments") return {};
  std::vector<Value> names;
  for (const auto& parameter : code.parameters) names.push_back(run.text(parameter));
  return run.list(std::move(names), ListKind::tuple);
}

void MacroValue::bind(Run& run, Arguments& arguments) const {
  const auto& names = code.parameters;
  const std::size_t given = std::min(arguments.positional.size(), names.size());
  const std::size_t first_default = names.size() - code.defaults.size();
  const bool explicit_caller = std::find(names.begin(), names.end(), "caller") != names.end();
  for (std::size_t i = 0; i < given; ++i) run.assign(names[i], arguments.positional[i]);
  // All names first: a default may not see a parameter of the caller's scope that comes after it.
  std::vector<std::optional<Value>> named(names.size());
  for (std::size_t i = given; i < names.size(); ++i) named[i] = arguments.take(names[i]);
  std::optional<Value> caller;
  if (code.uses_caller && !explicit_caller) caller = arguments.take("caller");
  if (!code.uses_kwargs && !arguments.named.empty()) {
    run.error("macro '", printable(code.name), "' has no argument '", printable(arguments.named.front().first), "'");
  }
  if (!code.uses_varargs && arguments.positional.size() > names.size()) {
    run.error("expected at most ", names.size(), " arguments of macro '", printable(code.name), "', found ",
              arguments.positional.size());
  }
  for (std::size_t i = given; i < names.size(); ++i) {
    if (named[i]) {
      run.assign(names[i], *std::move(named[i]));
    } else if (i >= first_default) {
      run.assign(names[i], evaluate(run, *code.defaults[i - first_default]));
    } else {
      run.assign(names[i], run.undefined(message("parameter '", printable(names[i]), "' was not provided")));
    }
  }
  if (code.uses_caller && !explicit_caller) run.assign("caller", caller && !caller->is_none() ? *caller : run.undefined("no caller defined"));
  if (code.uses_kwargs) {
    DictBuilder dict(run);
    for (auto& [name, value] : arguments.named) dict.set(run.text(name), std::move(value));
    run.assign("kwargs", dict.take());
  }
  if (code.uses_varargs) {
    auto& all = arguments.positional;
    run.assign("varargs", run.list(std::vector<Value>(all.begin() + static_cast<std::ptrdiff_t>(given), all.end()), ListKind::tuple));
  }
}

Value MacroValue::call(Run& run, Arguments& arguments) {
  Capture capture(run);
  const NewScope scope(run, around);
  bind(run, arguments);
  (void)execute(run, code.body);
  return run.text(std::move(capture.text));
}

}  // namespace bantam::inline v0::jinja
