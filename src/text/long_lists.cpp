// Reads the vocabulary and the merges of a tokenizer.json, which are nearly all of it, without a tree.
#include <algorithm>
#include <functional>
#include <future>
#include <system_error>
#include <utility>

#include "bantam/core/parallel.hpp"
#include "text/loaders.hpp"

namespace bantam::inline v0 {

namespace {

/// Reads merges on another thread, from where they seem to be.
class MergesAside {
 public:
  explicit MergesAside(std::string_view text) {
    if (parallel_threads() == 1) return;
    try {
      end_ = std::async(std::launch::async, [this, text] { return find_and_read(text); });
    } catch (const std::system_error&) {
      // The system gives no thread: they are read where they are met.
    }
  }
  /// Waits. What follows the merges, if they are rows and `text` begins with them; else null.
  [[nodiscard]] const char* end_of(std::string_view text) {
    const char* const end = end_.valid() ? end_.get() : nullptr;
    return at_ == text.data() ? end : nullptr;
  }
  [[nodiscard]] JsonRows& rows() noexcept { return rows_; }

 private:
  const char* find_and_read(std::string_view text) {
    constexpr std::string_view key = "\"merges\"", spaces = " \t\r\n";
    const std::boyer_moore_horspool_searcher searcher(key.begin(), key.end());
    for (auto from = text.begin();;) {
      from = std::search(from, text.end(), searcher);
      if (from == text.end()) return nullptr;
      from += static_cast<std::ptrdiff_t>(key.size());
      // A piece may spell the same.
      const std::size_t colon = text.find_first_not_of(spaces, static_cast<std::size_t>(from - text.begin()));
      if (colon == text.npos || text[colon] != ':') continue;
      const std::size_t value = text.find_first_not_of(spaces, colon + 1);
      if (value == text.npos || text[value] != '[') continue;
      at_ = text.data() + value;
      return rows_.read(text.substr(value));
    }
  }

  const char* at_ = nullptr;
  JsonRows rows_;
  std::future<const char*> end_;  // last: its destructor waits for the thread
};

/// Makes pieces of members. False where ids or pieces come twice, or ids are none: the reader of trees says which.
bool take_members(LongLists& lists) {
  const JsonRows& vocab = lists.vocab;
  if (!vocab.counts()) return false;
  double last = 0;
  for (std::size_t i = 0; i < vocab.size(); ++i) last = std::max(last, vocab.number(i));
  if (last >= static_cast<double>(most_vocabulary_ids(vocab.size()))) return false;
  lists.pieces.reserve(static_cast<std::size_t>(last) + 1, vocab.text_bytes());
  lists.pieces.resize(static_cast<std::size_t>(last) + 1);
  lists.types.resize(lists.pieces.size(), TokenType::unused);
  std::size_t spelled = 0;
  for (std::size_t i = 0; i < vocab.size(); ++i) {
    const auto id = static_cast<std::size_t>(vocab.number(i));
    if (std::exchange(lists.types[id], TokenType::normal) != TokenType::unused) return false;
    lists.pieces.set(id, vocab.text(i));
    if (!lists.pieces[id].empty()) ++spelled;
  }
  lists.index = index_of(lists.pieces);
  return lists.index.size() == spelled && vocab.size() - spelled <= 1;
}

}  // namespace

Json read_long_json(std::string_view text, std::string_view place, LongLists& lists) {
  using Shape = JsonRows::Shape;
  MergesAside aside(text);
  bool has_vocab = false, has_merges = false;
  const auto read_list = [&](std::string_view outer, std::string_view key, std::string_view value) -> const char* {
    const char* end = nullptr;
    if (outer == "model" && key == "vocab" && !std::exchange(has_vocab, true)) {
      end = lists.vocab.read(value);
      if (end != nullptr && lists.vocab.shape() != Shape::numbered && !(lists.vocab.shape() == Shape::members && take_members(lists))) return nullptr;
    } else if (outer == "model" && key == "merges" && !std::exchange(has_merges, true)) {
      end = aside.end_of(value);
      if (end != nullptr) {
        lists.merges = std::move(aside.rows());
      } else {
        end = lists.merges.read(value);
      }
      if (end != nullptr && lists.merges.shape() != Shape::texts && lists.merges.shape() != Shape::pairs) return nullptr;
    }
    return end;
  };
  Json json = Json::parse(text, place, read_list);
  // A vocabulary that is none of its model's, or of a model without a name, is the other reader's.
  const Json* model = json.find("model");
  const Json* vocab = model != nullptr ? model->find("vocab") : nullptr;
  if (vocab == nullptr || !vocab->is_elsewhere()) return json;
  const Json* type = model->find("type");
  const bool fits = type != nullptr && type->is_string() && (type->string() == "Unigram") == (lists.vocab.shape() == Shape::numbered);
  return fits ? std::move(json) : Json::parse(text, place);
}

}  // namespace bantam::inline v0
