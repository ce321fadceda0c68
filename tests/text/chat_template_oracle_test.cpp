// Our Jinja against Jinja2 itself: real templates on many conversations, and the language line by line.
#include <doctest/doctest.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bantam/text/chat_template.hpp"
#include "support.hpp"

using bantam::ChatTemplate;
using nlohmann::ordered_json;

namespace {

const std::filesystem::path here = std::filesystem::path(BANTAM_SOURCE_DIR) / "tests/text";
/// 2025-03-04 15:06:07, the oracle's moment too.
constexpr std::chrono::sys_seconds now{std::chrono::seconds{1741100767}};

/// True where Python with Jinja2 is installed; says so otherwise.
bool oracle_available() {
  if (std::system("/usr/bin/python3 -c 'import jinja2' 2>/dev/null") == 0) return true;
  MESSAGE("skipped: /usr/bin/python3 has no jinja2");
  return false;
}

std::string output_of(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe);
  std::string out;
  char buffer[65536];
  while (const std::size_t size = fread(buffer, 1, sizeof buffer, pipe)) out.append(buffer, size);
  CHECK(pclose(pipe) == 0);
  return out;
}

/// What Jinja2 makes of the cases: one {"text"} or {"error"} each.
ordered_json ask_oracle(const ordered_json& cases) {
  const bantam::test::TemporaryFolder folder;
  bantam::test::write_file(folder / "cases.json", cases.dump());
  return ordered_json::parse(output_of("/usr/bin/python3 '" + (here / "chat_template_oracle.py").string() + "' '" +
                               (folder / "cases.json").string() + "'"));
}

/// Renders every case and compares; returns how many were errors on both sides.
std::size_t compare(const ordered_json& cases) {
  const ordered_json expected = ask_oracle(cases);
  REQUIRE(expected.size() == cases.size());
  std::size_t errors = 0;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const auto name = cases[i]["name"].get<std::string>();
    CAPTURE(name);
    std::string text, error;
    try {
      text = ChatTemplate(cases[i]["source"].get<std::string>()).render_json(cases[i]["context"].dump(), now);
    } catch (const bantam::Error& e) {
      error = e.what();
      CHECK(error.find('\n') == std::string::npos);
    }
    if (expected[i].contains("error")) {
      const auto reason = expected[i]["error"].get<std::string>();
      CHECK_MESSAGE(!error.empty(), "Jinja2 fails with ", reason, ", we render: ", text);
      ++errors;
    } else {
      CHECK_MESSAGE(error.empty(), error);
      CHECK(text == expected[i]["text"].get<std::string>());
    }
  }
  return errors;
}

}  // namespace

TEST_CASE("real chat templates render as in Jinja2, byte for byte") {
  BANTAM_NEED_SHARED(folder, "chat-templates");
  if (!oracle_available()) return;
  const ordered_json contexts = ordered_json::parse(bantam::test::read_file(here / "chat_contexts.json"));
  ordered_json cases = ordered_json::array();
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".jinja") continue;
    const std::string source = bantam::test::read_file(entry.path());
    for (const auto& [name, context] : contexts.items()) {
      cases.push_back({{"name", entry.path().filename().string() + ": " + name}, {"source", source}, {"context", context}});
    }
  }
  REQUIRE(cases.size() > 0);
  const std::size_t errors = compare(cases);
  // Most conversations must render: a comparison of errors alone would prove little.
  CHECK(errors * 3 < cases.size());
}

TEST_CASE("the language agrees with Jinja2 line by line") {
  if (!oracle_available()) return;
  const ordered_json context = ordered_json::parse(bantam::test::read_file(here / "jinja_context.json"));
  std::istringstream lines(bantam::test::read_file(here / "jinja_cases.txt"));
  ordered_json cases = ordered_json::array();
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    // The mark of a line end, which a file of lines cannot hold itself.
    constexpr std::string_view mark = "⏎";
    std::string source;
    std::string_view rest = line;
    for (std::size_t at = rest.find(mark); at != std::string_view::npos; at = rest.find(mark)) {
      source.append(rest.substr(0, at)).push_back('\n');
      rest.remove_prefix(at + mark.size());
    }
    source.append(rest);
    cases.push_back({{"name", line}, {"source", source}, {"context", context}});
  }
  REQUIRE(cases.size() > 300);
  compare(cases);
}

TEST_CASE("line ends of every kind and missing last lines agree with Jinja2") {
  if (!oracle_available()) return;
  ordered_json cases = ordered_json::array();
  const std::string pieces[] = {"a", "\r\n", "\n", "\r", "  ", "{{ 1 }}", "{% if 1 -%}", "{% endif %}", "{# c +#}", "{#- c #}", "{%- set x = 1 +%}"};
  constexpr std::size_t count = std::size(pieces);
  // Every sequence of three pieces, inside one `if` where it needs to be closed.
  for (std::size_t i = 0; i < count * count * count; ++i) {
    const std::string source = pieces[i % count] + pieces[i / count % count] + pieces[i / count / count];
    cases.push_back({{"name", source}, {"source", source}, {"context", ordered_json::object()}});
  }
  compare(cases);
}
