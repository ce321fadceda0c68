// The `loop` variable of a for loop.
#pragma once

#include <deque>

#include "text/jinja/nodes.hpp"

namespace bantam::inline v0::jinja {

/// A loop under way. Elements pass the loop's condition one at a time, as late as possible: the body may change what
/// the condition looks at.
struct Loop final : Object {
  Loop(const For& s, ListPtr l, Scope* a, int d) : statement(s), source(std::move(l)), around(a), depth0(d) {}

  /// The next element, which becomes the current one; nullopt at the end.
  std::optional<Value> advance(Run& run);
  /// Frees what a loop that is over no longer needs.
  void finish();

  [[nodiscard]] std::string_view type() const override { return "LoopContext"; }
  [[nodiscard]] bool callable() const override { return true; }
  std::optional<Value> attribute(Run& run, std::string_view name) override;
  /// loop(children): the body again, for a recursive loop.
  Value call(Run& run, Arguments& arguments) override;
  std::int64_t length(Run& run) override;
  std::string represent(Run& run) override;

  const For& statement;
  ListPtr source;
  Scope* around;
  int depth0;
  std::int64_t index = 0;  ///< turns begun so far

 private:
  [[nodiscard]] std::optional<Value> fetch(Run& run);
  [[nodiscard]] const Value* peek(Run& run);
  static Value cycle(Run& run, const Value& self, Arguments& arguments);
  static Value changed(Run& run, const Value& self, Arguments& arguments);

  std::size_t at_ = 0;
  std::deque<Value> ahead_;
  Value current_, previous_;
  std::optional<std::vector<Value>> last_changed_;
};

}  // namespace bantam::inline v0::jinja
