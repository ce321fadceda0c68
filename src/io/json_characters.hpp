// The characters of a JSON text as its parser is given them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <string_view>
#include <utility>

namespace bantam::inline v0::detail {

/// Walks a text without the spaces at the beginning of lines, more than half of what pretty-printed tokenizers are. No string of JSON
/// has a line break in it, so none of its spaces goes. One value may be read elsewhere: "null" stands in its place.
class JsonCharacters {
 public:
  explicit JsonCharacters(std::string_view text) noexcept : at_(text.data()), end_(text.data() + text.size()) {}

  /// Where the walk comes to `value`, which points into the text, it asks for the end of the value; null walks through it.
  void put_null_for(const char* value, std::function<const char*()> end_of_value) {
    turn_ = value;
    end_of_value_ = std::move(end_of_value);
  }

  [[nodiscard]] const char* at() const noexcept { return at_; }

  /// What the library reads through. All of a text share its place; the default one is the end.
  class Iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = char;
    using difference_type = std::ptrdiff_t;
    using pointer = const char*;
    using reference = const char&;

    Iterator() = default;
    explicit Iterator(JsonCharacters* characters) noexcept : characters_(characters) {}
    reference operator*() const noexcept { return *characters_->at_; }
    Iterator& operator++() {
      characters_->advance();
      return *this;
    }
    bool operator==(const Iterator&) const noexcept { return characters_->at_ == characters_->end_; }
    bool operator!=(const Iterator&) const noexcept { return characters_->at_ != characters_->end_; }

   private:
    JsonCharacters* characters_ = nullptr;
  };

 private:
  static constexpr std::string_view null = "null";

  void advance() {
    if (*at_++ == '\n') at_ = std::find_if(at_, end_, [](char c) { return c != ' '; });
    if (at_ == turn_) turn();
  }
  void turn() {
    if (after_value_ != nullptr) {
      at_ = after_value_;
      turn_ = nullptr;
      return;
    }
    after_value_ = end_of_value_();
    turn_ = nullptr;
    if (after_value_ == nullptr) return;
    at_ = null.data();
    turn_ = null.data() + null.size();
  }

  const char* at_;
  const char* end_;
  const char* turn_ = nullptr;         ///< where the walk goes on elsewhere
  const char* after_value_ = nullptr;  ///< known from the turn to "null" on
  std::function<const char*()> end_of_value_;
};

}  // namespace bantam::inline v0::detail
