// Reads untrusted JSON event by event: no tree is built, so nesting and repetition cost nothing before they are refused.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

#include "bantam/core/error.hpp"

namespace bantam::inline v0::detail {

/// A receiver that refuses everything; formats override what they expect. `place` opens every message.
class JsonEvents : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit JsonEvents(std::string place) : place_(std::move(place)) {}

  bool null() override { refuse("null"); }
  bool boolean(bool) override { refuse("a truth value"); }
  bool number_integer(std::int64_t value) override { refuse(message("the number ", value)); }
  bool number_unsigned(std::uint64_t value) override { refuse(message("the number ", value)); }
  bool number_float(double, const std::string& digits) override { refuse(message("the number ", printable(digits))); }
  bool string(std::string& text) override { refuse(message("the text '", printable(text), '\'')); }
  bool binary(nlohmann::json::binary_t&) override { refuse("binary data"); }
  bool start_object(std::size_t) override { refuse("an object"); }
  bool start_array(std::size_t) override { refuse("an array"); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) override {
    fail(Errc::corrupt, place_, ": expected json, found an error at byte ", position);
  }

 protected:
  /// What should stand at this point of the document: "a text as dtype of tensor 'x'".
  [[nodiscard]] virtual std::string expected() const = 0;
  [[noreturn]] void refuse(std::string_view found) const {
    fail(Errc::corrupt, place_, ": expected ", expected(), ", found ", found);
  }

  std::string place_;
};

/// Feeds `text` to `events`, which throws where it does not like what it sees. Linear.
inline void read_json(std::string_view text, JsonEvents& events) {
  nlohmann::json::sax_parse(text.data(), text.data() + text.size(), &events);
}

}  // namespace bantam::inline v0::detail
