// Hostile templates and contexts: one error each, in bounded time and memory.
#include <doctest/doctest.h>

#include <ctime>
#include <initializer_list>

#include "bantam/text/chat_template.hpp"
#include "limits.hpp"
#include "support.hpp"

using bantam::ChatTemplate;

namespace {

std::string repeated(std::string_view piece, std::size_t count) {
  std::string out;
  for (; count > 0; --count) out += piece;
  return out;
}

std::string error_of(const std::string& source, std::string_view context = "{}") {
  return bantam::test::error_of([&] { (void)ChatTemplate(source).render_json(context); });
}

/// Renders or throws Error; anything else ends the test program.
bool survives(std::string_view source, std::string_view context) {
  try {
    (void)ChatTemplate(source).render_json(context);
    return true;
  } catch (const bantam::Error&) {
    return false;
  }
}

}  // namespace

TEST_CASE("nesting of any kind is bounded, not the stack's business") {
  constexpr std::size_t deep = 10'000;
  for (const auto& source : {
           "{{ " + repeated("(", deep) + "1" + repeated(")", deep) + " }}",
           "{{ " + repeated("[", deep) + repeated("]", deep) + " }}",
           "{{ " + repeated("{1:", deep) + "1" + repeated("}", deep) + " }}",
           "{{ " + repeated("not ", deep) + "1 }}",
           "{{ " + repeated("-", deep) + "1 }}",
           "{{ " + repeated("+ ", deep) + "1 }}",
           "{{ x" + repeated(".a", deep) + " }}",
           "{{ x" + repeated("[0]", deep) + " }}",
           "{{ x" + repeated("()", deep) + " }}",
           "{{ x" + repeated("[x", deep) + repeated("]", deep) + " }}",
           "{{ x" + repeated("(x", deep) + repeated(")", deep) + " }}",
           "{{ 1" + repeated("|string", deep) + " }}",
           "{{ 1" + repeated(" if 1 else 1", deep) + " }}",
           "{{ 1" + repeated(" if 1", deep) + " }}",
           repeated("{% if 1 %}", deep) + repeated("{% endif %}", deep),
           repeated("{% for x in [1] %}", deep) + repeated("{% endfor %}", deep),
           repeated("{% set x %}", deep) + repeated("{% endset %}", deep),
           repeated("{% macro m() %}", deep) + repeated("{% endmacro %}", deep),
           repeated("{% filter upper %}", deep) + repeated("{% endfilter %}", deep),
           "{% set " + repeated("(", deep) + "x" + repeated(")", deep) + " = 1 %}",
       }) {
    CAPTURE(source.substr(0, 40));
    CHECK(error_of(source).find("expected at most 128 levels of nesting") != std::string::npos);
  }
}

TEST_CASE("long chains are not deep") {
  constexpr std::size_t many = 20'000;
  CHECK(ChatTemplate("{{ 0" + repeated(" + 1", many) + " }}").render({}) == "20000");
  CHECK(ChatTemplate("{{ 1" + repeated(" and 1", many) + " }}").render({}) == "1");
  CHECK(ChatTemplate("{{ 0" + repeated(" ~ 1", many) + " }}").render({}).size() == many + 1);
  CHECK(ChatTemplate("{% if 0 %}" + repeated("{% elif 0 %}", many) + "{% else %}x{% endif %}").render({}) == "x");
  CHECK(ChatTemplate("{{ '' " + repeated("'a'", many) + " }}").render({}).size() == many);
}

TEST_CASE("real nesting fits") {
  const auto nested = [](std::size_t n) { return "{{ " + repeated("(", n) + "1" + repeated(")", n) + " }}"; };
  CHECK(ChatTemplate(nested(100)).render({}) == "1");
  const std::string blocks = repeated("{% if 1 %}{% for x in [1] %}", 60) + "x" + repeated("{% endfor %}{% endif %}", 60);
  CHECK(ChatTemplate(blocks).render({}) == "x");
}

TEST_CASE("values that nest without end are refused") {
  CHECK(error_of("{% set ns = namespace(l=[]) %}{% for i in range(100000) %}{% set ns.l = [ns.l] %}{% endfor %}").find("nested") != std::string::npos);
  CHECK(error_of("{% set ns = namespace(l={}) %}{% for i in range(100000) %}{% set ns.l = {1: ns.l} %}{% endfor %}").find("nested") != std::string::npos);
  CHECK(error_of("x", "{\"a\":" + repeated("[", 100'000) + repeated("]", 100'000) + "}").find("nested") != std::string::npos);
  CHECK(error_of("x", repeated("{\"a\":", 100'000)).find("nested") != std::string::npos);
  CHECK(error_of("{% set ns = namespace() %}{% set ns.me = ns %}{{ ns }}").find("nested evaluations") != std::string::npos);
}

TEST_CASE("endless recursion ends") {
  CHECK(error_of("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}").find("nested evaluations") != std::string::npos);
  CHECK(error_of("{% macro f() %}{% for x in [1] %}{% if 1 %}{{ [f()] | map('string') | join }}{% endif %}{% endfor %}{% endmacro %}{{ f() }}")
            .find("nested evaluations") != std::string::npos);
  CHECK(error_of("{% macro f() %}{% call f() %}{{ caller }}{% endcall %}{% endmacro %}{{ f() }}").size() > 0);
  CHECK(error_of("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}").find("nested evaluations") != std::string::npos);
}

TEST_CASE("work, memory and output are bounded") {
  const std::clock_t start = std::clock();
  CHECK(error_of("{{ range(10 ** 9) | list }}").find("at most 100000 elements") != std::string::npos);
  CHECK(error_of("{{ 'a' * 10 ** 9 }}").find("texts of at most") != std::string::npos);
  CHECK(error_of("{{ 'ab' * 9223372036854775807 }}").find("texts of at most") != std::string::npos);
  CHECK(error_of("{{ [1] * 10 ** 9 }}").find("at most") != std::string::npos);
  CHECK(error_of("{{ [1, 2] * 9223372036854775807 }}").find("at most") != std::string::npos);
  CHECK(error_of("{% for i in range(100) %}{{ 'x' * 1000000 }}{% endfor %}").find("texts of at most") != std::string::npos);
  CHECK(error_of("{% set ns = namespace(s='x') %}{% for i in range(100) %}{% set ns.s = ns.s + ns.s %}{% endfor %}").find("texts of at most") != std::string::npos);
  CHECK(error_of("{% set ns = namespace(s=[1]) %}{% for i in range(100) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s }}").find("at most") != std::string::npos);
  CHECK(error_of("{% set ns = namespace(a=[1], b=[1]) %}{% for i in range(60) %}{% set ns.a = [ns.a, ns.a] %}{% set ns.b = [ns.b, ns.b] %}{% endfor %}{{ ns.a == ns.b }}").find("steps") != std::string::npos);
  CHECK(error_of("{% set ns = namespace(l=[]) %}{% for i in range(100000) %}{% set ns.l = ns.l + ['a' * 10000000] %}{% endfor %}").find("bytes in all") != std::string::npos);
  CHECK(error_of("{{ ('a' * 8000000 + 'b') in ('a' * 16000000) }}{{ 1 / 0 }}").find("divisor") != std::string::npos);
  CHECK(error_of("{{ ('a' * 100000).replace('', 'b' * 1000) }}").find("texts of at most") != std::string::npos);
  CHECK(error_of("{{ 'a' | center(10 ** 12) }}").find("texts of at most") != std::string::npos);
  CHECK(error_of("{{ 'a' | indent(10 ** 12, true) }}").find("texts of at most") != std::string::npos);
  CHECK(error_of("{{ '%99999999999d' % 1 }}").find("texts of at most") != std::string::npos);
  CHECK(error_of("{{ '%.99999999999f' % 1.5 }}").find("at most") != std::string::npos);
  CHECK(error_of("{{ '{:99999999999}'.format(1) }}").find("texts of at most") != std::string::npos);
  CHECK(error_of("{{ [1] | tojson(indent=10 ** 12) }}").find("texts of at most") != std::string::npos);
  CHECK(error_of("{{ [1] | batch(10 ** 12, 0) | list }}").find("at most") != std::string::npos);
  CHECK(error_of("{{ [1] | slice(10 ** 12) | list }}").find("at most 100000 slices") != std::string::npos);
  CHECK(error_of("{{ 'a'.ljust(10 ** 18) }}{{ 'a'.zfill(-10 ** 18) }}").find("texts of at most") != std::string::npos);
  CHECK(error_of(std::string(10'000'000, 'x')).find("expected at most 1048576 bytes of template") != std::string::npos);
  CHECK(error_of("{{ (('a ' * 4000000).split() | join(' ')).split() }}").find("at most") != std::string::npos);
  // Loops up to the bound of steps, or of bytes: six of the nine seconds.
  if (!bantam::test::quick()) {
    CHECK(error_of("{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}").find("steps") != std::string::npos);
    CHECK(error_of("{% set ns = namespace(s=[1]) %}{% for i in range(100) %}{% set ns.s = ns.s + ns.s %}{% endfor %}").find("at most") != std::string::npos);
    CHECK(error_of("{% for i in range(100000) %}{% for j in range(1000) %}{% macro m() %}{% endmacro %}{% endfor %}{% endfor %}").find("at most") != std::string::npos);
  }
  // Processor time, so that a busy machine does not fail: 20 s measured; unbounded, the first of these loops alone takes hours.
  CHECK((std::clock() - start) / CLOCKS_PER_SEC < 120);
}

TEST_CASE("integers at the edge of 64 bits give Python's result or an error, never an overflow") {
  struct Edge {
    std::string source;
    const char* python;  ///< what Jinja2 renders; nullptr where it fails or needs more than 64 bits
  };
  std::size_t equal = 0;
  for (const Edge& edge : std::initializer_list<Edge>{
           {"{{ (-9223372036854775807 - 1) // -1 }}", "9223372036854775808"},
           {"{{ (-9223372036854775807 - 1) % -1 }}", "0"},
           {"{{ -(-9223372036854775807 - 1) }}", "9223372036854775808"},
           {"{{ (-9223372036854775807 - 1) | abs }}", "9223372036854775808"},
           {"{{ 2 ** 63 }}", "9223372036854775808"},
           {"{{ (-9223372036854775807 - 1) * -1 }}", "9223372036854775808"},
           {"{{ 'abc'[-9223372036854775807 - 1:9223372036854775807:9223372036854775807] }}", "a"},
           {"{{ [1, 2, 3][9223372036854775807:-9223372036854775807 - 1:-9223372036854775807 - 1] }}", "[3]"},
           {"{{ 'abc'[-9223372036854775807 - 1] }}", ""},
           {"{{ range(-9223372036854775807 - 1, 9223372036854775807, 9223372036854775807) | list }}", "[-9223372036854775808, -1, 9223372036854775806]"},
           {"{{ range(9223372036854775807, -9223372036854775807 - 1, -9223372036854775807 - 1) | list }}", "[9223372036854775807, -1]"},
           {"{{ range(0, 10, 4611686018427387904)[::2] }}", "range(0, 4611686018427387904, 9223372036854775808)"},
           {"{{ range(0, 10, 9223372036854775807)[::9223372036854775807] }}", nullptr},
           {"{{ (9223372036854775807) | round(-18) }}", "9000000000000000000"},
           {"{{ 9223372036854775807 | round(-19) }}", "10000000000000000000"},
           {"{{ 1e300 | int }}", nullptr},
           {"{{ 'inf' | float | int }}", nullptr},
           {"{{ '99999999999999999999' | int }}", "99999999999999999999"},
           {"{{ '%d' % 1e300 }}", nullptr},
           {"{{ '%*d' % (-9223372036854775807 - 1, 1) }}", "1"},
           {"{{ '%c' % 9223372036854775807 }}", nullptr},
           {"{{ 'abc'.find('b', -9223372036854775807 - 1, 9223372036854775807) }}", "1"},
           {"{{ 'a'.split('a', -9223372036854775807 - 1) }}", "['', '']"},
           {"{{ 'a a'.rsplit(none, -9223372036854775807 - 1) }}", "['a', 'a']"},
           {"{{ 'abab'.replace('a', 'b', -9223372036854775807 - 1) }}", "bbbb"},
           {"{{ 'abab'.replace('', 'b', 9223372036854775807) }}", "babbbabbb"},
           {"{{ [1].index(1, -9223372036854775807 - 1, 9223372036854775807) }}", "0"},
           {"{{ 'a\\tb'.expandtabs(-2147483648) }}", "ab"},
           {"{{ 'a'.zfill(-9223372036854775807 - 1) }}", "a"},
           {"{{ 'abcd' | truncate(9223372036854775807, leeway=9223372036854775807) }}", "abcd"},
           {"{{ 'a\tb'.expandtabs(9223372036854775807) }}", nullptr},
           {"{{ 1.5 | round(9223372036854775807) }}", "1.5"},
           {"{{ 1.5 | round(-9223372036854775807 - 1) }}", "0.0"},
           {"{{ 12 | filesizeformat }}{{ 1e308 | filesizeformat }}", "12 Bytesinf YB"},
           {"{{ 99999999999999999999 }}", "99999999999999999999"},
       }) {
    CAPTURE(edge.source);
    try {
      const std::string text = ChatTemplate(edge.source).render({});
      CHECK(edge.python);
      if (edge.python) CHECK(text == edge.python);
      ++equal;
    } catch (const bantam::Error& error) {
      CHECK(std::string_view(error.what()).find('\n') == std::string_view::npos);
    }
  }
  // Refusing everything would be safe, and useless.
  CHECK(equal >= 10);
}

TEST_CASE("every prefix of a real template renders or throws an Error") {
  BANTAM_NEED_SHARED(folder, "chat-templates");
  const std::string context = R"({"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"},
    {"role": "assistant", "content": "", "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": {"x": 1}}}]},
    {"role": "tool", "content": "t"}], "tools": [{"type": "function", "function": {"name": "f", "parameters": {"properties": {}}}}],
    "add_generation_prompt": true, "bos_token": "<s>", "eos_token": "</s>"})";
  std::size_t rendered = 0, files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string source = bantam::test::read_file(entry.path());
    // One short template at every byte, the others at a step that is prime to any line's length.
    const std::size_t step = source.size() < 2'000 ? 1 : 61;
    for (std::size_t size = 0; size <= source.size(); size += step) {
      rendered += survives(std::string_view(source).substr(0, size), context) ? 1 : 0;
    }
    ++files;
  }
  CHECK(rendered > files);
}

TEST_CASE("templates with one byte changed render or throw an Error") {
  BANTAM_NEED_SHARED(folder, "chat-templates");
  const std::string context = R"({"messages": [{"role": "user", "content": "u"}], "add_generation_prompt": true})";
  // A fixed seed: failures repeat.
  std::uint32_t state = 1;
  const auto random = [&](std::size_t below) {
    state = state * 1664525u + 1013904223u;
    return static_cast<std::size_t>(state >> 8) % below;
  };
  const std::string_view bytes = "{}%#-+|()[]'\"\\ \n.,:=~*/<>!0x_\xc3\xff\x80";
  std::size_t runs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string source = bantam::test::read_file(entry.path());
    for (int i = 0; i < 40; ++i, ++runs) {
      std::string changed = source;
      changed[random(changed.size())] = bytes[random(bytes.size())];
      (void)survives(changed, context);
    }
  }
  CHECK(runs > 0);
}
