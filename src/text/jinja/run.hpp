// One rendering under way: its budget, its variables, its output, and the makers of values that the budget counts.
#pragma once

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bantam/core/error.hpp"
#include "text/jinja/limits.hpp"
#include "text/jinja/value.hpp"

namespace bantam::inline v0::jinja {

/// The names of one scope. A macro keeps the scopes around its definition: those live until the run ends.
struct Scope {
  Scope* parent = nullptr;
  bool captured = false;
  std::size_t counted_bytes = 0;  ///< what the budget gets back when the scope goes
  std::map<std::string_view, Value> names;
  std::unique_ptr<Scope> kept_before;  ///< the list of kept scopes: keeping one must not allocate, hence not fail
};

class Run {
 public:
  Run(const std::string& place, DictPtr context, std::optional<std::chrono::sys_seconds> now)
      : place_(place), context_(std::move(context)), now_(now) {}
  ~Run() {
    while (kept_) kept_ = std::move(kept_->kept_before);
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  /// Throws invalid_argument: the place, the line being evaluated, and what went wrong there.
  template <class... Args>
  [[noreturn]] void error(const Args&... args) const {
    fail(Errc::invalid_argument, place_, ": line ", line, ": ", args...);
  }
  template <class... Args>
  [[noreturn]] void over_limit(const Args&... args) const {
    fail(Errc::unsupported, place_, ": line ", line, ": ", args...);
  }
  /// Fails for a value that is undefined, saying what it should have been.
  [[noreturn]] void undefined_error(const Value& value) const;

  // ---- budget
  void step(std::uint64_t count = 1) {
    if (count > steps_left_) over_limit("expected at most ", max_steps, " steps, found a template that takes more");
    steps_left_ -= count;
  }
  /// Counts text that is looked at but not copied.
  void scan(std::size_t bytes) { step(bytes / 64 + 1); }
  void allocate(std::uint64_t bytes) {
    if (bytes > bytes_left_) over_limit("expected values of at most ", max_allocated_bytes, " bytes in all, found more");
    bytes_left_ -= bytes;
  }
  /// Fails if a text of this size is too long: to be asked before it is made.
  void check_text_size(std::uint64_t bytes) const {
    if (bytes > max_text_bytes) over_limit("expected texts of at most ", max_text_bytes, " bytes, found ", bytes);
  }

  // ---- makers
  [[nodiscard]] Value text(std::string bytes, bool markup = false);
  [[nodiscard]] Value list(std::vector<Value> items, ListKind kind = ListKind::list);
  [[nodiscard]] Value undefined(std::string reason);
  template <class T, class... Args>
  [[nodiscard]] T* make(Args&&... args) {
    // An object and its place in the table, roughly.
    allocate(sizeof(T) + 64);
    auto object = std::make_unique<T>(std::forward<Args>(args)...);
    T* plain = object.get();
    objects_.push_back(std::move(object));
    return plain;
  }

  // ---- variables
  [[nodiscard]] Value lookup(std::string_view name);
  void assign(std::string_view name, Value value);
  [[nodiscard]] Scope* scope() const { return scope_; }
  /// Keeps this scope and those around it until the run ends.
  void capture_scope() {
    for (Scope* s = scope_; s && !s->captured; s = s->parent) s->captured = true;
  }

  // ---- output
  void write(std::string_view text) {
    check_text_size(out_->size() + text.size());
    allocate(text.size());
    out_->append(text);
  }

  [[nodiscard]] std::optional<std::chrono::sys_seconds> now() const { return now_; }

  int line = 1;  ///< of the node being evaluated

 private:
  friend class Depth;
  friend class NewScope;
  friend class Capture;

  const std::string& place_;
  DictPtr context_;
  std::optional<std::chrono::sys_seconds> now_;
  std::uint64_t steps_left_ = max_steps;
  std::uint64_t bytes_left_ = max_allocated_bytes;
  int depth_ = 0;
  Scope* scope_ = nullptr;
  std::string* out_ = nullptr;
  std::map<std::string, Value, std::less<>> globals_;
  std::unique_ptr<Scope> kept_;
  std::vector<std::unique_ptr<Object>> objects_;
};

/// One level of evaluation.
class Depth {
 public:
  explicit Depth(Run& run) : run_(run) {
    if (run_.depth_ >= max_depth) run_.over_limit("expected at most ", max_depth, " nested evaluations, found more");
    ++run_.depth_;
  }
  ~Depth() { --run_.depth_; }
  Depth(const Depth&) = delete;
  Depth& operator=(const Depth&) = delete;

 private:
  Run& run_;
};

/// A scope inside `parent` (by default the current one) for as long as this object lives.
class NewScope {
 public:
  explicit NewScope(Run& run) : NewScope(run, run.scope_) {}
  NewScope(Run& run, Scope* parent) : run_(run), before_(run.scope_), scope_(std::make_unique<Scope>()) {
    scope_->parent = parent;
    run_.scope_ = scope_.get();
  }
  ~NewScope() {
    run_.scope_ = before_;
    if (!scope_->captured) {
      run_.bytes_left_ += scope_->counted_bytes;
      return;
    }
    scope_->kept_before = std::move(run_.kept_);
    run_.kept_ = std::move(scope_);
  }
  NewScope(const NewScope&) = delete;
  NewScope& operator=(const NewScope&) = delete;

 private:
  Run& run_;
  Scope* before_;
  std::unique_ptr<Scope> scope_;
};

/// Collects the output for as long as this object lives.
class Capture {
 public:
  explicit Capture(Run& run) : run_(run), before_(run.out_) { run_.out_ = &text; }
  ~Capture() { run_.out_ = before_; }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  std::string text;

 private:
  Run& run_;
  std::string* before_;
};

/// Builds a text piece by piece and stops at the limit instead of behind it.
class Builder {
 public:
  explicit Builder(Run& run) : run_(run) {}
  void add(std::string_view text) {
    run_.check_text_size(out_.size() + text.size());
    out_.append(text);
  }
  void add(char c) { add(std::string_view(&c, 1)); }
  void fill(std::uint64_t count, std::string_view text) {
    if (!text.empty() && count > max_text_bytes / text.size()) run_.check_text_size(max_text_bytes + 1);
    run_.check_text_size(out_.size() + count * text.size());
    // Doubles what is there: a letter at a time is far slower than copies.
    const std::size_t begin = out_.size(), all = count * text.size();
    out_.reserve(begin + all);
    if (count > 0) out_.append(text);
    for (std::size_t done = text.size(); done < all; done *= 2) out_.append(out_.data() + begin, std::min(done, all - done));
  }
  [[nodiscard]] std::size_t size() const { return out_.size(); }
  [[nodiscard]] std::string take() { return std::move(out_); }

 private:
  Run& run_;
  std::string out_;
};

/// Builds a dict; a key that comes again keeps its place and takes the new value.
class DictBuilder {
 public:
  explicit DictBuilder(Run& run) : run_(run), dict_(std::make_shared<Dict>()) {}
  void set(const Value& key, Value value);
  [[nodiscard]] Value take() { return Value(DictPtr(std::move(dict_))); }

 private:
  Run& run_;
  std::shared_ptr<Dict> dict_;
};

/// The canonical spelling of a dict key; fails for lists and dicts ("unhashable").
[[nodiscard]] std::string spell_key(Run& run, const Value& key);

}  // namespace bantam::inline v0::jinja
