// Regular expressions: the first line compiles, the rest is cut by it.
#include "text/regex.hpp"

#include "fuzz/fuzz.hpp"
#include "text/utf8.hpp"
#include "io/names.hpp"

namespace bantam::fuzz {

namespace {

void run_regex(Bytes bytes) {
  const std::string_view input = text_of(bytes);
  const std::size_t line = std::min(input.find('\n'), input.size());
  const std::string_view text = input.substr(std::min(line + 1, input.size()));
  // Texts that are no UTF-8 are cut apart before expressions see them.
  if (!detail::is_utf8(text)) return;
  survives([&] {
    const Regex regex = Regex::compile(input.substr(0, line), "fuzz");
    const Deadline deadline = deadline_for(text.size());
    Regex::Matcher matcher(regex, deadline);
    matcher.start(text);
    std::size_t at = 0;
    for (Span match; matcher.next(match);) {
      require(match.begin >= at && match.end > match.begin && match.end <= text.size(), "matches are in order and not empty");
      require(detail::is_utf8(text.substr(match.begin, match.size())), "matches are whole characters");
      at = match.end;
    }
  });
}

const Target regex_target("regex", run_regex);

}  // namespace
}  // namespace bantam::fuzz
