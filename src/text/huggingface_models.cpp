// Reads the models of tokenizer.json: BPE, Unigram, WordPiece, WordLevel.
#include <algorithm>
#include <optional>
#include <utility>

#include "bantam/core/error.hpp"
#include "text/loaders.hpp"
#include "text/tokenizer_data.hpp"

namespace bantam::inline v0 {

namespace {

/// Returns an index of the pieces, as all readers do.
PieceIndex read_vocab(const Json& vocab, TokenizerSpec& spec, std::string_view place) {
  expect(vocab.is_object(), place, "an object", vocab);
  const std::size_t limit = most_vocabulary_ids(vocab.size());
  std::size_t size = 0;
  for (const auto& [piece, value] : vocab.items()) {
    // A message a token would take longer than reading it.
    if (!is_token_id(value)) (void)token_id(value, message(place, " ", printable(piece)));
    const auto id = value.get<std::size_t>();
    if (id >= limit) fail(Errc::corrupt, place, ": id ", id, " in a vocabulary of ", vocab.size(), " entries");
    size = std::max(size, id + 1);
  }
  spec.pieces.resize(size);
  spec.types.resize(size, TokenType::unused);
  for (const auto& [piece, value] : vocab.items()) {
    const auto id = value.get<std::size_t>();
    if (spec.types[id] != TokenType::unused) {
      fail(Errc::corrupt, place, ": id ", id, " belongs to ", printable(spec.pieces[id]), " and to ", printable(piece));
    }
    spec.pieces.set(id, piece);
    spec.types[id] = TokenType::normal;
  }
  return index_of(spec.pieces);
}

PieceIndex read_vocab(const Json& vocab, LongLists& lists, TokenizerSpec& spec, std::string_view place) {
  if (!vocab.is_elsewhere()) return read_vocab(vocab, spec, place);
  spec.pieces = std::move(lists.pieces);
  spec.types = std::move(lists.types);
  return std::move(lists.index);
}

using Parts = std::optional<std::pair<std::string_view, std::string_view>>;

Parts parts_of_merge(std::string_view text) {
  const std::size_t space = text.find(' ');
  if (space == std::string_view::npos || space == 0 || space + 1 == text.size() || text.find(' ', space + 1) != std::string_view::npos) return std::nullopt;
  return std::pair(text.substr(0, space), text.substr(space + 1));
}

Parts parts_of_merge(const Json& merge) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) return std::pair(merge[0].string(), merge[1].string());
  return merge.is_string() ? parts_of_merge(merge.string()) : std::nullopt;
}

void read_merges(const Json& merges, const LongLists& lists, TokenizerSpec& spec, const PieceIndex& index, std::string_view place) {
  if (merges.is_elsewhere()) {
    const JsonRows& rows = lists.merges;
    const auto parts_of = [&](std::size_t i) -> Parts {
      if (rows.shape() == JsonRows::Shape::pairs) return std::pair(rows.text(2 * i), rows.text(2 * i + 1));
      return parts_of_merge(rows.text(i));
    };
    return read_merge_list(spec, index, rows.size(), parts_of, [&](std::size_t i) { return Json::quoted(rows.text(i)); }, place);
  }
  expect(merges.is_array(), place, "an array", merges);
  read_merge_list(spec, index, merges.size(), [&](std::size_t i) { return parts_of_merge(merges[i]); }, [&](std::size_t i) { return merges[i].dump(); }, place);
}

/// A piece by its text; -1 for none wanted.
TokenId piece_named(const std::string& name, const TokenizerSpec& spec, const PieceIndex& index, std::string_view place) {
  if (name.empty()) return -1;
  const TokenId found = index.find(name, spec.pieces);
  if (found == PieceIndex::none) fail(Errc::corrupt, place, ": ", printable(name), " is not in the vocabulary");
  return found;
}

void find_byte_pieces(TokenizerSpec& spec) {
  if (!spec.byte_fallback) return;
  for (std::size_t i = 0; i < spec.pieces.size(); ++i) {
    if (byte_of_piece(spec.pieces[i]) >= 0) spec.types[i] = TokenType::byte;
  }
}

PieceIndex read_bpe(const Json& model, LongLists& lists, TokenizerSpec& spec, std::string_view place) {
  spec.kind = "bpe";
  spec.continuing = text_or(model, "continuing_subword_prefix", "", place);
  spec.word_end = text_or(model, "end_of_word_suffix", "", place);
  // "dropout" is for training: merges left out at random.
  spec.byte_fallback = flag(model, "byte_fallback", false, place);
  spec.fuse_unknown = flag(model, "fuse_unk", false, place);
  spec.ignore_merges = flag(model, "ignore_merges", false, place);
  PieceIndex index = read_vocab(need(model, "vocab", place), lists, spec, message(place, ".vocab"));
  read_merges(need(model, "merges", place), lists, spec, index, message(place, ".merges"));
  spec.unknown = piece_named(text_or(model, "unk_token", "", place), spec, index, message(place, ".unk_token"));
  find_byte_pieces(spec);
  return index;
}

/// [["<unk>", 0.0], ["the", -3.2], ...]
PieceIndex read_unigram(const Json& model, LongLists& lists, TokenizerSpec& spec, std::string_view place) {
  spec.kind = "unigram";
  spec.byte_fallback = flag(model, "byte_fallback", false, place);
  spec.fuse_unknown = true;
  const Json& vocab = need(model, "vocab", place);
  if (vocab.is_elsewhere()) {
    spec.pieces.reserve(lists.vocab.size(), lists.vocab.text_bytes());
    spec.scores.reserve(lists.vocab.size());
    for (std::size_t i = 0; i < lists.vocab.size(); ++i) {
      spec.pieces.push_back(lists.vocab.text(i));
      spec.scores.push_back(lists.vocab.number(i));
    }
  } else {
    expect(vocab.is_array(), message(place, ".vocab"), "an array", vocab);
  }
  for (const Json& entry : vocab) {
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number()) {
      fail(Errc::corrupt, place, ".vocab[", spec.pieces.size(), "]: expected a piece and its score, found ", printable(entry.dump()));
    }
    spec.pieces.push_back(entry[0].string());
    spec.scores.push_back(entry[1].get<double>());
  }
  const double lowest = spec.scores.empty() ? 0 : *std::ranges::min_element(spec.scores);
  spec.types.assign(spec.pieces.size(), TokenType::normal);
  spec.unknown_score = lowest - Unigram::unknown_penalty;
  if (const Json* unknown = member(model, "unk_id")) {
    spec.unknown = token_id(*unknown, message(place, ".unk_id"));
    if (static_cast<std::size_t>(spec.unknown) >= spec.pieces.size()) {
      fail(Errc::corrupt, place, ".unk_id: token ", spec.unknown, " in a vocabulary of ", spec.pieces.size());
    }
  }
  find_byte_pieces(spec);
  return index_of(spec.pieces);
}

PieceIndex read_wordpiece(const Json& model, LongLists& lists, TokenizerSpec& spec, std::string_view place) {
  spec.kind = "wordpiece";
  spec.continuing = text_or(model, "continuing_subword_prefix", "##", place);
  // As in BERT, where a file does not say.
  constexpr std::int32_t usual_longest = 100;
  const Json* longest = member(model, "max_input_chars_per_word");
  spec.longest_word = static_cast<std::uint32_t>(longest ? token_id(*longest, message(place, ".max_input_chars_per_word")) : usual_longest);
  PieceIndex index = read_vocab(need(model, "vocab", place), lists, spec, message(place, ".vocab"));
  spec.unknown = piece_named(text_or(model, "unk_token", "[UNK]", place), spec, index, message(place, ".unk_token"));
  return index;
}

PieceIndex read_wordlevel(const Json& model, LongLists& lists, TokenizerSpec& spec, std::string_view place) {
  spec.kind = "wordlevel";
  PieceIndex index = read_vocab(need(model, "vocab", place), lists, spec, message(place, ".vocab"));
  spec.unknown = piece_named(text_or(model, "unk_token", "<unk>", place), spec, index, message(place, ".unk_token"));
  return index;
}

/// Files older than the key "type" are told by what their model has.
std::string type_of(const Json& model, std::string_view place) {
  const std::string type = text_or(model, "type", "", place);
  if (!type.empty()) return type;
  if (member(model, "merges")) return "BPE";
  if (member(model, "max_input_chars_per_word")) return "WordPiece";
  const Json* vocab = member(model, "vocab");
  if (vocab && vocab->is_array()) return "Unigram";
  fail(Errc::corrupt, place, ": expected \"type\" or \"merges\", found neither");
}

}  // namespace

std::size_t most_vocabulary_ids(std::size_t entries) { return 2 * entries + 65536; }

PieceIndex read_model(const Json& model, LongLists& lists, TokenizerSpec& spec, std::string_view place) {
  expect(model.is_object(), place, "an object", model);
  constexpr std::pair<std::string_view, PieceIndex (*)(const Json&, LongLists&, TokenizerSpec&, std::string_view)> readers[] = {
      {"BPE", read_bpe}, {"Unigram", read_unigram}, {"WordPiece", read_wordpiece}, {"WordLevel", read_wordlevel}};
  const std::string type = type_of(model, place);
  for (const auto& [name, read] : readers) {
    if (name == type) return read(model, lists, spec, place);
  }
  fail(Errc::unsupported, place, ": expected a BPE, Unigram, WordPiece or WordLevel model, found ", printable(type));
}

}  // namespace bantam::inline v0
