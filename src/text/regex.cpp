// Regular expressions from files and of our own, run by PCRE2 under limits: an exploding one is an error, never a hang.
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/regex.hpp"

#include <pcre2.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "bantam/core/error.hpp"
#include "bantam/core/parallel.hpp"
#include "text/regex_dialect.hpp"

namespace bantam::inline v0 {

namespace {

/// Real pre-tokenizers have below 2,000 bytes (DeepSeek's letter class is the longest known).
constexpr std::size_t longest_pattern = 64 * 1024;

/// Expressions of well-known files that cost quadratic time as written, and what finds the same matches in linear
/// time: the leftmost match of \s+$ always starts where a run of spaces starts.
constexpr std::array<std::pair<std::string_view, std::string_view>, 1> linear_forms = {{{"\\s+$", "(?<!\\s)\\s+$"}}};

std::string reason(int code) {
  std::array<PCRE2_UCHAR, 256> buffer{};
  pcre2_get_error_message(code, buffer.data(), buffer.size());
  return reinterpret_cast<const char*>(buffer.data());
}

struct Deleter {
  void operator()(pcre2_code* p) const noexcept { pcre2_code_free(p); }
  void operator()(pcre2_compile_context* p) const noexcept { pcre2_compile_context_free(p); }
  void operator()(pcre2_match_context* p) const noexcept { pcre2_match_context_free(p); }
  void operator()(pcre2_match_data* p) const noexcept { pcre2_match_data_free(p); }
  void operator()(pcre2_jit_stack* p) const noexcept { pcre2_jit_stack_free(p); }
};
template <class T>
using Owned = std::unique_ptr<T, Deleter>;

template <class T>
Owned<T> owned(T* p) {
  if (!p) fail(Errc::out_of_memory, "no memory for a regular expression");
  return Owned<T>(p);
}

}  // namespace

struct Regex::Code {
  Owned<pcre2_code> code;
  bool jit = false;
  std::string place;
};

Regex Regex::compile(std::string_view pattern, std::string_view place) {
  if (pattern.size() > longest_pattern) {
    fail(Errc::unsupported, place, ": a regular expression of ", pattern.size(), " bytes, at most ", longest_pattern, " are read");
  }
  for (const auto& [written, linear] : linear_forms) {
    if (pattern == written) pattern = linear;
  }
  const std::string spelled = respelled_regex(pattern);
  const auto context = owned(pcre2_compile_context_create(nullptr));
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE offset = 0;
  // Files are written for Oniguruma, whose ^ and $ always work on lines. \C could split a character.
  const std::uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C | PCRE2_USE_OFFSET_LIMIT;
  auto compiled = std::make_shared<Code>();
  compiled->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(spelled.data()), spelled.size(), options, &error, &offset, context.get()));
  if (!compiled->code) {
    fail(Errc::corrupt, place, ": bad regular expression at byte ", offset, " (", reason(error), "): ", printable(pattern));
  }
  compiled->jit = pcre2_jit_compile(compiled->code.get(), PCRE2_JIT_COMPLETE) == 0;
  compiled->place = place;
  Regex regex;
  regex.code_ = std::move(compiled);
  return regex;
}

struct Regex::Matcher::State {
  State(std::shared_ptr<const Code> of, const Deadline& until) : code(std::move(of)), deadline(until) {}

  std::shared_ptr<const Code> code;
  std::string_view text;
  std::size_t at = 0;
  unsigned calls = 0;
  Owned<pcre2_match_data> data = owned(pcre2_match_data_create(1, nullptr));
  Owned<pcre2_match_context> context = owned(pcre2_match_context_create(nullptr));
  Owned<pcre2_jit_stack> stack;
  Deadline deadline;

  /// Start positions tried by one call into PCRE2. Its own limits hold per start position only, so that the clock must
  /// be looked at in between; 32 positions cost 3 ns a byte where nothing matches.
  static constexpr std::size_t window = 32;

  [[noreturn]] void too_much(std::string_view what) const {
    fail(Errc::corrupt, code->place, ": the regular expression takes too ", what, " on a text of ", text.size(), " bytes");
  }

  int match(std::size_t last_start) {
    pcre2_set_offset_limit(context.get(), last_start);
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    if (!code->jit) return pcre2_match(code->code.get(), subject, text.size(), at, PCRE2_NO_UTF_CHECK, data.get(), context.get());
    int result = pcre2_jit_match(code->code.get(), subject, text.size(), at, 0, data.get(), context.get());
    if (result == PCRE2_ERROR_JIT_STACKLIMIT && !stack) {
      // The 32 KiB that JIT code has by itself suffice for all known pre-tokenizers.
      stack = owned(pcre2_jit_stack_create(64 * 1024, 64 * 1024 * 1024, nullptr));
      pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
      result = pcre2_jit_match(code->code.get(), subject, text.size(), at, 0, data.get(), context.get());
    }
    return result;
  }
};

namespace {

std::chrono::nanoseconds thread_time() noexcept {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace

Deadline::Deadline(std::chrono::nanoseconds budget) noexcept
    : earliest_(std::chrono::steady_clock::now() + budget), thread_time_(thread_time() + budget) {}

bool Deadline::passed() const noexcept { return std::chrono::steady_clock::now() > earliest_ && thread_time() > thread_time_; }

Deadline deadline_for(std::size_t text_bytes) {
  // The worst text for the worst known model (six expressions, line feeds alone) takes 0.4 us a byte on two idle cores.
  return Deadline(std::chrono::seconds(2) + std::chrono::microseconds(text_bytes * 5));
}

Regex::Matcher::Matcher(const Regex& regex, const Deadline& deadline)
    : state_(std::make_unique<State>(regex.code_, deadline)) {
  pcre2_set_heap_limit(state_->context.get(), 256 * 1024);  // KiB
}

void Regex::Matcher::start(std::string_view text) {
  State& s = *state_;
  s.text = text;
  s.at = 0;
  // One pass over the text from one position may cost several steps a byte; more is backtracking gone wild.
  const std::size_t steps = std::min<std::size_t>(10'000 + 4 * text.size(), 0xffffffff);
  pcre2_set_match_limit(s.context.get(), static_cast<std::uint32_t>(steps));
  pcre2_set_depth_limit(s.context.get(), static_cast<std::uint32_t>(steps));
}

Regex::Matcher::~Matcher() = default;

bool Regex::Matcher::next(Span& match) {
  State& s = *state_;
  while (s.at < s.text.size()) {
    if (++s.calls % 16 == 0) {
      check_cancelled();
      if (s.deadline.passed()) s.too_much("long");
    }
    const std::size_t last_start = std::min(s.text.size(), s.at + State::window);
    const int result = s.match(last_start);
    if (result == PCRE2_ERROR_NOMATCH) {
      s.at = last_start + 1;
      while (s.at < s.text.size() && (static_cast<unsigned char>(s.text[s.at]) & 0xc0) == 0x80) ++s.at;
      continue;
    }
    if (result == PCRE2_ERROR_MATCHLIMIT || result == PCRE2_ERROR_DEPTHLIMIT) s.too_much("many steps");
    if (result == PCRE2_ERROR_HEAPLIMIT || result == PCRE2_ERROR_JIT_STACKLIMIT || result == PCRE2_ERROR_NOMEMORY) {
      s.too_much("much memory");
    }
    if (result < 0) fail(Errc::corrupt, s.code->place, ": the regular expression failed (", reason(result), ")");
    const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(s.data.get());
    if (ends[1] > ends[0] && ends[0] >= s.at) {
      match = {ends[0], ends[1]};
      s.at = ends[1];
      return true;
    }
    // An empty match splits nothing: step over one character.
    s.at = std::max(s.at, ends[0]) + 1;
    while (s.at < s.text.size() && (static_cast<unsigned char>(s.text[s.at]) & 0xc0) == 0x80) ++s.at;
  }
  return false;
}

}  // namespace bantam::inline v0
