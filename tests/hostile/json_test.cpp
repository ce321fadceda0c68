// JSON whose tree would take many times its bytes.
#include "io/json.hpp"

#include <functional>

#include "hostile/allocation_meter.hpp"
#include "hostile/hostile_file.hpp"

using namespace bantam;
using namespace bantam::test;

namespace {

std::string array_of(std::string_view item, std::size_t bytes) {
  std::string text = "[";
  while (text.size() < bytes) text.append(item).append(",");
  text.back() = ']';
  return text;
}

std::string members(std::size_t bytes) {
  std::string text = "{";
  for (std::size_t i = 0; text.size() < bytes; ++i) text += '"' + std::to_string(i) + "\":0,";
  text.back() = '}';
  return text;
}

}  // namespace

TEST_CASE("a tree takes at most four times the bytes of its text, or is refused before it does") {
  // 20 MB: above what the floor of 64 MiB covers.
  constexpr std::size_t bytes = 20'000'000;
  for (const std::string& text : {array_of("{}", bytes), array_of("[]", bytes), array_of("0", bytes), array_of("\"\"", bytes), array_of("\"fifteen letters\"", bytes),
                                  array_of("[0]", bytes), array_of("{\"a\":0}", bytes), members(bytes), array_of("[[[[[[]]]]]]", bytes)}) {
    INFO(text.substr(0, 40));
    std::string error;
    const std::size_t peak = peak_of([&] {
      try {
        (void)bantam::Json::parse(text, "file");
      } catch (const Error& e) {
        error = e.what();
      }
    });
    CHECK((error.empty() || error.find("file: json whose values would take more than 67108864 bytes") != std::string::npos));
    // The tree's 64 MiB, the reader's buffer, and what the allocator adds to a queue.
    CHECK(peak < 4 * text.size() + (std::size_t{16} << 20));
  }
}

TEST_CASE("a vocabulary of the largest kind, written without a space, is no such text") {
  // 262144 pieces and twice as many merges as pairs, as in the largest tokenizer.json known.
  std::string text = "{\"vocab\":{";
  for (int i = 0; i < 262'144; ++i) text += "\"p" + std::to_string(i) + "\":" + std::to_string(i) + ',';
  text.back() = '}';
  text += ",\"merges\":[";
  for (int i = 0; i < 524'288; ++i) text += "[\"p" + std::to_string(i) + "\",\"q\"],";
  text.back() = ']';
  text += '}';
  CHECK(bantam::Json::parse(text, "file")["merges"].size() == 524'288);
}
