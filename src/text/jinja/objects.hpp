// Values with identity: namespaces, generators, functions, joiners, cyclers.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/functions.hpp"

namespace bantam::inline v0::jinja {

/// namespace(): the one thing that a template may change.
struct Namespace final : Object {
  std::map<std::string, std::size_t, std::less<>> index;
  std::vector<std::pair<std::string, Value>> items;

  void set(Run& run, std::string_view name, Value value);
  [[nodiscard]] std::string_view type() const override { return "Namespace"; }
  std::optional<Value> attribute(Run& run, std::string_view name) override;
  std::string represent(Run& run) override;
};

/// What map, select and others return: elements that are computed when first asked for, and then gone.
struct Generator final : Object {
  explicit Generator(std::function<std::vector<Value>(Run&)> f) : produce(std::move(f)) {}
  std::function<std::vector<Value>(Run&)> produce;

  [[nodiscard]] std::string_view type() const override { return "generator"; }
  [[nodiscard]] bool iterable() const override { return true; }
  ListPtr iterate(Run& run) override;
};

/// A Generator as a value.
inline Value generator(Run& run, std::function<std::vector<Value>(Run&)> produce) {
  return Value(static_cast<Object*>(run.make<Generator>(std::move(produce))));
}

/// A global function.
struct Function final : Object {
  using Body = Value (*)(Run&, Arguments&);
  Function(std::string_view n, Body b) : name(n), body(b) {}
  std::string_view name;
  Body body;

  [[nodiscard]] std::string_view type() const override { return "function"; }
  [[nodiscard]] bool callable() const override { return true; }
  Value call(Run& run, Arguments& arguments) override { return body(run, arguments); }
};

/// A method taken without being called yet.
struct BoundMethod final : Object {
  BoundMethod(Value s, Method m) : self(std::move(s)), method(m) {}
  Value self;
  Method method;

  [[nodiscard]] std::string_view type() const override { return "builtin_function_or_method"; }
  [[nodiscard]] bool callable() const override { return true; }
  Value call(Run& run, Arguments& arguments) override { return method(run, self, arguments); }
};

/// joiner(): nothing the first time, its separator ever after.
struct Joiner final : Object {
  explicit Joiner(Value s) : separator(std::move(s)) {}
  Value separator;
  bool used = false;

  [[nodiscard]] std::string_view type() const override { return "Joiner"; }
  [[nodiscard]] bool callable() const override { return true; }
  Value call(Run& run, Arguments& arguments) override;
};

/// cycler(): its items in turn.
struct Cycler final : Object {
  explicit Cycler(std::vector<Value> i) : items(std::move(i)) {}
  std::vector<Value> items;
  std::size_t at = 0;

  [[nodiscard]] std::string_view type() const override { return "Cycler"; }
  std::optional<Value> attribute(Run& run, std::string_view name) override;
};

}  // namespace bantam::inline v0::jinja
