// Reads long lists of JSON.
#include "io/json_rows.hpp"

#include "io/json_scanner.hpp"

namespace bantam::inline v0 {

/// Refuses what makes no rows as soon as it comes.
class JsonRows::Receiver {
 public:
  explicit Receiver(JsonRows& rows) : rows_(rows) {}

  bool null() { return false; }
  bool boolean(bool) { return false; }
  bool number_integer(std::int64_t value) { return add_real(static_cast<double>(value)); }
  bool number_unsigned(std::uint64_t value) { return put(static_cast<double>(value)); }
  bool add_real(double value) {
    rows_.counts_ = false;
    return put(value);
  }
  bool add_key(std::string_view text) { return put(text); }
  bool add_text(std::string_view text) {
    ++cells_;
    return put(text) && (depth_ > 1 || end_row(Shape::texts));
  }
  bool open() {
    cells_ = 0;
    return ++depth_ <= 2;
  }
  bool end_array() {
    if (--depth_ == 0) return true;
    return cells_ == 2 && end_row(is_numbered_ ? Shape::numbered : Shape::pairs);
  }
  bool end_object() { return --depth_ == 0; }
  const char* read_elsewhere(std::string_view, std::string_view) { return nullptr; }

 private:
  bool end_row(Shape shape) {
    if (rows_.rows_++ == 0) rows_.shape_ = shape;
    return shape == rows_.shape_;
  }
  bool put(std::string_view text) {
    is_numbered_ = false;
    const bool as_spelled = text.data() >= rows_.source_.data() && text.data() < rows_.source_.data() + rows_.source_.size();
    const std::size_t begin = as_spelled ? static_cast<std::size_t>(text.data() - rows_.source_.data()) : rows_.source_.size() + rows_.unescaped_.size();
    if (!as_spelled) rows_.unescaped_ += text;
    rows_.texts_.push_back({static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(text.size())});
    return true;
  }
  bool put(double number) {
    rows_.numbers_.push_back(number);
    is_numbered_ = true;
    return depth_ > 1 ? ++cells_ == 2 : end_row(Shape::members);
  }

  JsonRows& rows_;
  std::size_t depth_ = 0;
  std::size_t cells_ = 0;
  bool is_numbered_ = false;  ///< what came last is a number
};

const char* JsonRows::read(std::string_view text) {
  if (!text.starts_with('[') && !text.starts_with('{')) return nullptr;
  if (text.size() > 0x7fffffff) return nullptr;  // the places of what is unescaped come behind it
  source_ = text;
  // Of the shortest pieces that vocabularies have; what is reserved and not used costs nothing.
  texts_.reserve(text.size() / 8);
  numbers_.reserve(text.size() / 8);
  Receiver receiver(*this);
  detail::JsonScanner scanner(text, receiver);
  if (!scanner.value() || rows_ == 0) return nullptr;
  // A member's value may have been a text, and an array's items numbers.
  const bool has_numbers = shape_ == Shape::numbered || shape_ == Shape::members;
  if (texts_.size() != rows_ * (shape_ == Shape::pairs ? 2 : 1) || numbers_.size() != (has_numbers ? rows_ : 0)) return nullptr;
  return scanner.at();
}

}  // namespace bantam::inline v0
