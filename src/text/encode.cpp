// From text to tokens: added tokens, normalizer, pre-tokenizer, merges.
#include <algorithm>
#include <bit>
#include <functional>

#include "bantam/core/error.hpp"
#include "bantam/core/parallel.hpp"
#include "text/tokenizer_data.hpp"
#include "text/unicode.hpp"
#include "text/utf8.hpp"

namespace bantam::inline v0 {

namespace {

/// Remembers where in the output the tokens of a word stand already, or of what a step of the pre-tokenizer has yet to cut into words.
/// Direct-mapped: a newer word replaces an older one, so that no text makes it grow or slow.
class WordCache {
 public:
  explicit WordCache(std::size_t text_bytes)
      : slots_(std::bit_ceil(std::clamp<std::size_t>(text_bytes / 16, 16, 32768))) {}

  /// Forgets everything: the text that the words point into is gone.
  void forget() { ++generation_; }

  struct Slot {
    std::string_view word;
    std::uint32_t step = 0;  // the first that has not cut it
    std::uint32_t generation = 0;
    std::uint32_t begin = 0, count = 0;  // in the output
  };
  /// The word's slot, whatever stands in it.
  [[nodiscard]] Slot& slot(std::string_view word, std::uint32_t step) {
    return slots_[(std::hash<std::string_view>{}(word) + step) & (slots_.size() - 1)];
  }
  [[nodiscard]] bool holds(const Slot& slot, std::string_view word, std::uint32_t step) const {
    return slot.generation == generation_ && slot.step == step && slot.word == word;
  }
  void store(Slot& slot, std::string_view word, std::uint32_t step, std::size_t begin, std::size_t end) const {
    slot = {word, step, generation_, static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end - begin)};
  }

 private:
  std::vector<Slot> slots_;
  std::uint32_t generation_ = 1;
};

/// Longer words are rare enough to be merged again.
constexpr std::size_t longest_cached = 64;

class Encoder {
 public:
  Encoder(const Tokenizer::Data& data, std::string_view text, bool parse_special)
      : data_(data), parse_special_(parse_special), merger_(data.merges), cache_(text.size()), deadline_(deadline_for(text.size())), cutting_(data.pre_tokenizer, deadline_) {
    // 3 to 4 bytes a token are usual.
    out_.reserve(text.size() / 3 + 16);
  }

  std::vector<TokenId> run(std::string_view text) {
    over_added(parse_special_ ? data_.raw_all : data_.raw_plain, text, [&](std::size_t begin, std::size_t end) {
      part(text.substr(begin, end - begin), begin == 0);
    });
    return std::move(out_);
  }

 private:
  /// Puts out the added tokens of `text` and calls between(begin, end) for what lies between them.
  template <class Between>
  void over_added(const Literals& literals, std::string_view text, Between between) {
    std::size_t done = 0;
    std::size_t from = 0;
    std::size_t space_end = 0;  // of white space that was looked through
    for (Literals::Hit hit; literals.find(text, from, hit);) {
      const AddedToken& added = data_.spec.added[static_cast<std::size_t>(hit.id)];
      from = hit.end;
      if (added.single_word && (word_ends_at(text, hit.begin) || word_begins_at(text, hit.end))) continue;
      std::size_t begin = hit.begin;
      while (added.left_space && begin > done) {
        const std::size_t before = character_before(text, begin);
        if (before < done || !space_at(text, before)) break;
        begin = before;
      }
      std::size_t end = hit.end;
      if (added.right_space) {
        end = std::max(end, space_end);
        while (end < text.size() && space_at(text, end)) end += utf8::decode(text, end).length;
        space_end = end;
      }
      if (begin > done) between(done, begin);
      // White space that a token takes may hold other tokens, which are found all the same unless they would take some that is gone.
      if (added.left_space && end <= done) continue;
      out_.push_back(added.id);
      done = end;
    }
    if (done < text.size()) between(done, text.size());
  }

  static std::size_t character_before(std::string_view text, std::size_t at) {
    std::size_t begin = at - 1;
    while (begin > 0 && at - begin < 4 && (static_cast<unsigned char>(text[begin]) & 0xc0) == 0x80) --begin;
    return begin + utf8::decode(text, begin).length == at ? begin : at - 1;
  }
  static bool space_at(std::string_view text, std::size_t at) {
    const utf8::Char c = utf8::decode(text, at);
    return c.valid && unicode::is_space(c.code);
  }
  static bool word_ends_at(std::string_view text, std::size_t at) {
    return at > 0 && word_begins_at(text, character_before(text, at));
  }
  static bool word_begins_at(std::string_view text, std::size_t at) {
    if (at >= text.size()) return false;
    const utf8::Char c = utf8::decode(text, at);
    return c.valid && unicode::is_word(c.code);
  }

  /// A text without added tokens; `first` says that it begins the caller's.
  void part(std::string_view text, bool first) {
    std::string changed;
    if (!data_.normalizer.empty()) {
      changed = data_.normalizer.apply(text, deadline_);
      text = changed;
    }
    over_added(parse_special_ ? data_.normalized_all : data_.normalized_plain, text, [&](std::size_t begin, std::size_t end) {
      pre_tokens(text.substr(begin, end - begin), first && begin == 0);
    });
  }

  void pre_tokens(std::string_view text, bool first) {
    cache_.forget();
    begin_of_token_ = out_.size();
    if (data_.pre_tokenizer.empty() && !(data_.spec.byte_level && data_.model != TokenModel::merges)) {
      pre_token(text);
      return;
    }
    if (data_.spec.byte_level && data_.model != TokenModel::merges) {
      const PreTokens tokens = spelled(data_.pre_tokenizer.cut(std::string(text), first, deadline_));
      for (const Span& span : tokens.spans) pre_token(std::string_view(tokens.text).substr(span.begin, span.size()));
      return;
    }
    const PreTokens tokens = cutting_.begun(std::string(text), first);
    for (const Span& span : tokens.spans) steps_from(cutting_.first(), std::string_view(tokens.text).substr(span.begin, span.size()));
  }

  /// Puts out the tokens of a part of the text that the pre-tokenizer's steps from `step` on have yet to cut; false if it had unknown
  /// characters. Expressions are most of the work, and most parts are words that came before.
  bool steps_from(std::size_t step, std::string_view text) {
    if (step == cutting_.end()) return pre_token(text);
    return once(text, step, [&] {
      for (std::size_t next = step; next < cutting_.end(); ++next) {
        const std::vector<Span>& parts = cutting_.split(next, text);
        if (parts.size() == 1 && parts[0].size() == text.size()) continue;
        bool known = true;
        for (const Span& part : parts) known &= steps_from(next + 1, text.substr(part.begin, part.size()));
        return known;
      }
      return pre_token(text);
    });
  }

  /// What put() puts out for a text, or what it has put out for the same text before the same step. False where put() says so.
  template <class Put>
  bool once(std::string_view text, std::size_t step, const Put& put) {
    // About every 10 us.
    if (++words_ % 64 == 0) check_cancelled();
    if (text.size() > longest_cached) return put();
    WordCache::Slot& slot = cache_.slot(text, static_cast<std::uint32_t>(step));
    const std::size_t begin = out_.size();
    if (cache_.holds(slot, text, static_cast<std::uint32_t>(step))) {
      out_.resize(begin + slot.count);
      std::copy_n(out_.begin() + slot.begin, slot.count, out_.begin() + static_cast<std::ptrdiff_t>(begin));
      return true;
    }
    // What an unknown character gives depends on what stands before it.
    const bool known = put();
    if (known) cache_.store(slot, text, static_cast<std::uint32_t>(step), begin, out_.size());
    return known;
  }

  /// Other models than merges take the byte alphabet as text.
  static PreTokens spelled(const PreTokens& tokens) {
    PreTokens out;
    for (const Span& span : tokens.spans) {
      const std::size_t begin = out.text.size();
      out.text += utf8::spelled(std::string_view(tokens.text).substr(span.begin, span.size()));
      out.spans.push_back({begin, out.text.size()});
    }
    return out;
  }

  /// False if it had unknown characters, and so below.
  bool pre_token(std::string_view text) {
    // Of words a run is one unknown token, of characters a run within a word.
    if (data_.model != TokenModel::wordlevel) begin_of_token_ = out_.size();
    if (data_.spec.ignore_merges) {
      if (const TokenId whole = data_.id_of_whole(text); whole != PieceIndex::none) {
        out_.push_back(whole);
        return true;
      }
    }
    switch (data_.model) {
      case TokenModel::merges: return data_.spec.byte_level || data_.marks_words() || data_.loses_characters() ? word(text) : characters(text);
      case TokenModel::unigram: return characters(text);
      case TokenModel::wordpiece:
      case TokenModel::wordlevel: break;
    }
    return word(text);
  }

  /// Cuts a pre-token between characters that no piece has side by side.
  bool characters(std::string_view text) {
    bool known = true;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t begin = at;
      utf8::Char left = utf8::decode(text, at);
      at += left.length;
      while (at < text.size()) {
        const utf8::Char right = utf8::decode(text, at);
        if (!left.valid || !right.valid || !data_.neighbors.has(left.code, right.code)) break;
        at += right.length;
        left = right;
      }
      known &= word(text.substr(begin, at - begin));
    }
    return known;
  }

  bool word(std::string_view text) {
    return once(text, cutting_.end(), [&] { return cut(text); });
  }

  /// Puts out the tokens of one word; false if it had unknown characters.
  bool cut(std::string_view text) {
    switch (data_.model) {
      case TokenModel::merges: return merge(text);
      case TokenModel::unigram: return best_path(text);
      case TokenModel::wordpiece: return data_.wordpiece.run(text, out_) || fall_back({});
      case TokenModel::wordlevel: break;
    }
    const TokenId found = data_.id_of(text);
    if (found == PieceIndex::none || data_.outside[static_cast<std::size_t>(found)]) return fall_back(text);
    out_.push_back(found);
    return true;
  }

  bool best_path(std::string_view text) {
    data_.unigram.run(text, path_);
    bool known = true;
    for (const Unigram::Part& part : path_.parts) {
      if (part.id >= 0) {
        out_.push_back(part.id);
      } else {
        known &= fall_back(text.substr(part.begin, part.end - part.begin));
      }
    }
    return known;
  }

  /// The character at `at` as the piece that says where in a word it stands.
  std::string_view marked(std::string_view text, std::size_t at) {
    const std::size_t length = data_.spec.byte_level ? 1 : utf8::decode(text, at).length;
    marked_.clear();
    if (at > 0) marked_ += data_.spec.continuing;
    if (data_.spec.byte_level) {
      marked_ += utf8::byte_spelling(static_cast<std::uint8_t>(text[at]));
    } else {
      marked_ += text.substr(at, length);
    }
    if (at + length == text.size()) marked_ += data_.spec.word_end;
    return marked_;
  }

  void marked_symbols(std::string_view text) {
    for (std::size_t at = 0; at < text.size();) {
      const TokenId found = data_.id_of(marked(text, at));
      const bool known = found != PieceIndex::none && !data_.outside[static_cast<std::size_t>(found)];
      symbols_.push_back(known ? found : -1 - static_cast<Symbol>(at));
      at += data_.spec.byte_level ? 1 : utf8::decode(text, at).length;
    }
  }

  /// Merges one word and puts its tokens out; false if it had unknown characters.
  bool merge(std::string_view text) {
    symbols_.clear();
    if (data_.marks_words()) {
      marked_symbols(text);
    } else if (data_.spec.byte_level) {
      for (const char c : text) symbols_.push_back(data_.byte_tokens[static_cast<unsigned char>(c)]);
    } else {
      for (std::size_t at = 0; at < text.size();) {
        const utf8::Char c = utf8::decode(text, at);
        const Symbol symbol = c.valid ? data_.characters.get(c.code) : no_symbol;
        // Unknown: where in the word it stands, as a negative number. What nothing can stand for does not keep others apart.
        const bool lost = symbol == no_symbol && data_.loses_characters();
        if (!lost) symbols_.push_back(symbol == no_symbol ? -1 - static_cast<Symbol>(at) : symbol);
        at += c.length;
      }
    }
    merger_.run(symbols_);
    bool known = true;
    const auto pieces = static_cast<Symbol>(data_.spec.pieces.size());
    for (const Symbol symbol : symbols_) {
      if (symbol >= 0 && symbol < pieces) {
        out_.push_back(symbol);
      } else if (symbol >= pieces) {
        known &= fall_back(data_.extra[static_cast<std::size_t>(symbol - pieces)]);
      } else if (data_.spec.byte_level) {
        known &= fall_back({});
      } else {
        const auto at = static_cast<std::size_t>(-1 - symbol);
        // Bytes spell the marks as well, as in Hugging Face's tokenizers.
        known &= fall_back(data_.marks_words() ? marked(text, at) : text.substr(at, utf8::decode(text, at).length));
      }
    }
    return known;
  }

  /// Puts out a character, or a word, without a piece: its bytes, else the unknown token, else nothing.
  bool fall_back(std::string_view character) {
    const auto has_token = [&](char c) { return data_.byte_tokens[static_cast<unsigned char>(c)] != no_symbol; };
    if (data_.spec.byte_fallback && !data_.spec.byte_level && !character.empty() && std::ranges::all_of(character, has_token)) {
      for (const char c : character) out_.push_back(data_.byte_tokens[static_cast<unsigned char>(c)]);
      return true;
    }
    const TokenId unknown = data_.spec.unknown;
    const bool follows = out_.size() > begin_of_token_ && out_.back() == unknown;
    if (unknown >= 0 && !(data_.spec.fuse_unknown && follows)) out_.push_back(unknown);
    return false;
  }

  const Tokenizer::Data& data_;
  bool parse_special_;
  Merger merger_;
  WordCache cache_;
  Deadline deadline_;
  PreTokenizer::Cutting cutting_;
  std::vector<TokenId> out_;
  std::vector<Symbol> symbols_;
  Unigram::Work path_;
  std::string marked_;
  std::size_t begin_of_token_ = 0;  // in out_
  std::size_t words_ = 0;
};

}  // namespace

std::vector<TokenId> encode_text(const Tokenizer::Data& data, std::string_view text, bool parse_special) {
  if (text.size() > Normalizer::longest) {
    fail(Errc::invalid_argument, "a text of ", text.size(), " bytes, at most ", Normalizer::longest, " can be encoded at once");
  }
  return Encoder(data, text, parse_special).run(text);
}

}  // namespace bantam::inline v0
