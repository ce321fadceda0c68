// How a vocabulary spells its pieces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "bantam/core/error.hpp"
#include "bantam/core/memory.hpp"
#include "bantam/text/tokenizer.hpp"

namespace bantam::inline v0 {

/// Texts by id, all in one buffer: half the memory of a string each, and a page fault for 2 MiB of them. A zero byte follows each, for C.
/// What operator[] gives holds until the list changes.
class PieceList {
 public:
  class Iterator {
   public:
    using value_type = std::string_view;
    using reference = std::string_view;
    using pointer = void;
    using difference_type = std::ptrdiff_t;
    using iterator_category = std::input_iterator_tag;

    Iterator() = default;
    Iterator(const PieceList& list, std::size_t at) noexcept : list_(&list), at_(at) {}
    std::string_view operator*() const noexcept { return (*list_)[at_]; }
    Iterator& operator++() noexcept {
      ++at_;
      return *this;
    }
    Iterator operator++(int) noexcept { return {*list_, at_++}; }
    bool operator==(const Iterator& other) const noexcept { return at_ == other.at_; }

   private:
    const PieceList* list_ = nullptr;
    std::size_t at_ = 0;
  };

  PieceList() = default;
  PieceList(std::initializer_list<std::string_view> texts) { assign(texts); }
  explicit PieceList(const std::vector<std::string>& texts) { assign(texts); }

  [[nodiscard]] std::size_t size() const noexcept { return places_.size(); }
  [[nodiscard]] bool empty() const noexcept { return places_.empty(); }
  [[nodiscard]] std::string_view operator[](std::size_t i) const noexcept { return {text_.data() + places_[i].begin, places_[i].size}; }
  /// The same, as PieceIndex asks for it.
  [[nodiscard]] std::string_view operator()(TokenId id) const noexcept { return (*this)[static_cast<std::size_t>(id)]; }
  [[nodiscard]] Iterator begin() const noexcept { return {*this, 0}; }
  [[nodiscard]] Iterator end() const noexcept { return {*this, size()}; }
  /// The first that spells a text; -1: none. Linear.
  [[nodiscard]] TokenId find(std::string_view text) const noexcept {
    for (std::size_t i = 0; i < size(); ++i) {
      if ((*this)[i] == text) return static_cast<TokenId>(i);
    }
    return -1;
  }

  /// Room for pieces and for the bytes of all.
  void reserve(std::size_t pieces, std::size_t bytes) {
    places_.reserve(pieces);
    text_.reserve(1 + bytes + pieces);
  }
  /// New ones are empty.
  void resize(std::size_t size) { places_.resize(size, {0, 0}); }
  /// `text` is none of this list. Throws unsupported above 4 GiB of text. What was there before keeps its bytes.
  void set(std::size_t i, std::string_view text) {
    if (text == (*this)[i]) return;
    if (text.size() >= most_bytes - text_.size()) fail(Errc::unsupported, "a vocabulary of more than ", most_bytes, " bytes of text");
    places_[i] = {static_cast<std::uint32_t>(text_.size()), static_cast<std::uint32_t>(text.size())};
    text_.insert(text_.end(), text.begin(), text.end());
    text_.push_back('\0');
  }
  void push_back(std::string_view text) {
    resize(size() + 1);
    set(size() - 1, text);
  }

 private:
  struct Place {
    std::uint32_t begin, size;
  };
  static constexpr std::size_t most_bytes = 0xffffffff;

  template <class Texts>
  void assign(const Texts& texts) {
    std::size_t bytes = 0;
    for (const std::string_view text : texts) bytes += text.size();
    reserve(texts.size(), bytes);
    for (const std::string_view text : texts) push_back(text);
  }

  LargeVector<char> text_ = {'\0'};  // what no text was set for lies at its beginning
  LargeVector<Place> places_;
};

}  // namespace bantam::inline v0
