// Messages and errors.
#include "bantam/core/message.hpp"

#include "bantam/core/error.hpp"
#include "support.hpp"

using bantam::message;
using bantam::printable;

TEST_CASE("a message joins texts, numbers and truth values") {
  CHECK(message("a", std::string("b"), 'c', 1, -2L, 18446744073709551615u) == "abc1-218446744073709551615");
  CHECK(message(true, ' ', false) == "true false");
  CHECK(message(0.1f, " ", 1e-5, " ", 1e300) == "0.1 1e-05 1e+300");
  CHECK(message(std::int8_t{-5}, std::uint8_t{200}) == "-5200");
  CHECK(message().empty());
}

TEST_CASE("hostile text prints on one line") {
  CHECK(printable("plain text") == "plain text");
  CHECK(printable("a\nb\t\x7f") == "a\\x0ab\\x09\\x7f");
  CHECK(printable("\xc3\xa4\xff") == "\\xc3\\xa4\\xff");
  CHECK(printable(std::string_view("\0x", 2)) == "\\x00x");
  CHECK(printable(std::string(81, 'x')) == std::string(80, 'x') + "...");
  CHECK(printable("abc", 3) == "abc");
}

TEST_CASE("fail throws the category with the message") {
  try {
    bantam::fail(bantam::Errc::corrupt, "file.gguf: expected ", 3, " bytes, found ", 2);
  } catch (const bantam::Error& error) {
    CHECK(error.code() == bantam::Errc::corrupt);
    CHECK(std::string(error.what()) == "file.gguf: expected 3 bytes, found 2");
  }
}
