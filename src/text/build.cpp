// Checks a tokenizer's specification and builds what encoding and decoding look things up in.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <utility>

#include "bantam/core/error.hpp"
#include "bantam/core/memory.hpp"
#include "bantam/core/parallel.hpp"
#include "text/tokenizer_data.hpp"
#include "text/utf8.hpp"

namespace bantam::inline v0 {

namespace {

/// A thread costs more than fewer.
constexpr std::int64_t pieces_at_once = 8192;

bool is_special_type(TokenType type) noexcept { return type == TokenType::control || type == TokenType::unknown; }

void check_id(TokenId id, const TokenizerSpec& spec, std::string_view place, std::string_view what) {
  if (id < 0 || static_cast<std::size_t>(id) >= spec.pieces.size()) {
    fail(Errc::corrupt, place, ": ", what, " is token ", id, ", the vocabulary has ", spec.pieces.size());
  }
}

TokenModel model_of(const TokenizerSpec& spec, std::string_view place) {
  if (spec.kind == "spm" || spec.kind == "bpe") return TokenModel::merges;
  if (spec.kind == "unigram") return TokenModel::unigram;
  if (spec.kind == "wordpiece") return TokenModel::wordpiece;
  if (spec.kind == "wordlevel") return TokenModel::wordlevel;
  fail(Errc::unsupported, place, ": a tokenizer of kind ", printable(spec.kind), ", expected spm, bpe, unigram, wordpiece or wordlevel");
}

void check_pieces(const TokenizerSpec& spec, std::string_view place) {
  const std::size_t n = spec.pieces.size();
  if (n == 0) fail(Errc::corrupt, place, ": the vocabulary is empty");
  if (n > limits::pieces) fail(Errc::corrupt, place, ": a vocabulary of ", n, " tokens, at most ", limits::pieces, " are read");
  if (spec.types.size() != n) fail(Errc::corrupt, place, ": expected ", n, " token types, found ", spec.types.size());
  if (!spec.scores.empty() && spec.scores.size() != n) {
    fail(Errc::corrupt, place, ": expected ", n, " scores, found ", spec.scores.size());
  }
  // What is wrong with a token; empty: nothing.
  const auto fault_of = [&](std::size_t i) -> std::string {
    const std::string_view piece = spec.pieces[i];
    if (piece.size() > limits::piece_bytes) return message(" has ", piece.size(), " bytes, at most ", limits::piece_bytes, " are read");
    if (!utf8::is_valid(piece)) return message(" is not UTF-8: ", printable(piece));
    if (!spec.scores.empty() && std::isnan(spec.scores[i])) return " has no number as score";
    return {};
  };
  std::atomic<std::size_t> first = n;
  parallel_for(static_cast<std::int64_t>(n), pieces_at_once, [&](Range range) {
    auto i = static_cast<std::size_t>(range.begin);
    const auto end = static_cast<std::size_t>(range.end);
    while (i < end && fault_of(i).empty()) ++i;
    if (i == end) return;
    std::size_t least = first;
    while (i < least && !first.compare_exchange_weak(least, i)) {
    }
  });
  if (first < n) fail(Errc::corrupt, place, ": token ", first.load(), fault_of(first));
}

/// Before anything is made of them: an expression costs a thousand times its bytes.
void check_steps(const TokenizerSpec& spec, std::string_view place) {
  const auto at_most = [&](std::size_t count, std::size_t most, std::string_view what) {
    if (count > most) fail(Errc::unsupported, place, ": expected at most ", most, ' ', what, ", found ", count);
  };
  at_most(spec.normalizer.size(), limits::tokenizer_steps, "normalizer steps");
  at_most(spec.pre_tokenizer.size(), limits::tokenizer_steps, "pre-tokenizer steps");
  at_most(spec.prefix.size() + spec.suffix.size(), limits::tokenizer_steps, "tokens around a text");
  at_most(spec.between.size() + spec.pair_suffix.size(), limits::tokenizer_steps, "tokens around a pair of texts");
  at_most(spec.decode.replace.size(), limits::decode_replacements, "replacements in decoded pieces");
}

void check_ids(const TokenizerSpec& spec, std::string_view place) {
  const auto optional = [&](TokenId id, std::string_view what) {
    if (id != -1) check_id(id, spec, place, what);
  };
  optional(spec.bos, "bos");
  optional(spec.eos, "eos");
  optional(spec.unknown, "unk");
  for (const TokenId id : spec.prefix) check_id(id, spec, place, "a token put before the text");
  for (const TokenId id : spec.suffix) check_id(id, spec, place, "a token put after the text");
  for (const TokenId id : spec.between) check_id(id, spec, place, "a token put between two texts");
  for (const TokenId id : spec.pair_suffix) check_id(id, spec, place, "a token put after two texts");
  for (const TokenId id : spec.ends) check_id(id, spec, place, "a token that ends a turn");
  for (const AddedToken& added : spec.added) {
    check_id(added.id, spec, place, "an added token");
    const std::string_view content = spec.pieces(added.id);
    if (content.empty()) fail(Errc::corrupt, place, ": added token ", added.id, " is empty");
    if (content.size() > Literals::longest) {
      fail(Errc::unsupported, place, ": added token ", added.id, " has ", content.size(), " bytes, at most ", Literals::longest,
           " are supported");
    }
  }
}

/// How many pieces spell anything: as many as an index has where no two spell the same.
std::size_t count_spelled(const TokenizerSpec& spec) {
  return static_cast<std::size_t>(std::ranges::count_if(spec.pieces, [](std::string_view piece) { return !piece.empty(); }));
}

void index_pieces(Tokenizer::Data& data, PieceIndex known) {
  const TokenizerSpec& spec = data.spec;
  // Tokens may have been added to the pieces since: an index of all has as many as spell anything, or, where some spell the same, is made anew.
  data.index = known.size() == count_spelled(spec) ? std::move(known) : index_of(spec.pieces);
  data.special.resize(spec.pieces.size());
  for (std::size_t i = 0; i < spec.pieces.size(); ++i) data.special[i] = is_special_type(spec.types[i]);
  data.outside = data.special;
  for (const AddedToken& added : spec.added) {
    const auto i = static_cast<std::size_t>(added.id);
    if (spec.types[i] == TokenType::user_defined) data.outside[i] = true;
  }
  data.ends.resize(spec.pieces.size());
  if (spec.eos >= 0) data.ends[static_cast<std::size_t>(spec.eos)] = true;
  for (const TokenId id : spec.ends) data.ends[static_cast<std::size_t>(id)] = true;
}

/// What each added token looks like where it is looked for: normalized ones as the normalizer leaves them. Empty for what grew too long to be found.
std::vector<std::string> contents_of_added(const Tokenizer::Data& data) {
  const TokenizerSpec& spec = data.spec;
  const auto deadline = deadline_for(spec.added.size() * Literals::longest);
  std::vector<std::string> contents;
  contents.reserve(spec.added.size());
  for (const AddedToken& added : spec.added) {
    std::string content(spec.pieces(added.id));
    if (added.normalized && !added.verbatim && !data.normalizer.empty()) content = data.normalizer.apply(content, deadline);
    if (content.size() > Literals::longest) content.clear();
    contents.push_back(std::move(content));
  }
  return contents;
}

/// What all tokens give within a text.
DecodedTokens decode_all(const TokenizerSpec& spec, const TokenDecoder& decoder, std::string_view place) {
  DecodedTokens all;
  LargeVector<std::uint32_t>& begins = all.begins;
  const auto check = [&](std::size_t bytes) {
    if (bytes > 0xffffffff) fail(Errc::corrupt, place, ": the vocabulary has more than 4 GiB of text");
  };
  const std::size_t count = spec.pieces.size();
  const Deadline deadline = deadline_for(count);
  // The deadline of expressions is one thread's.
  const std::size_t at_once = std::ranges::any_of(spec.decode.replace, &DecodeReplace::regex) ? count : std::size_t{pieces_at_once};
  std::vector<std::string> parts(div_up(count, at_once));
  begins.resize(count + 1);
  parallel_for(static_cast<std::int64_t>(parts.size()), 1, [&](Range range) {
    for (auto p = static_cast<std::size_t>(range.begin); p < static_cast<std::size_t>(range.end); ++p) {
      std::string part;
      part.reserve(12 * std::min(at_once, count));  // so many bytes a piece, on average: most parts grow once or never
      for (std::size_t i = p * at_once; i < std::min(count, (p + 1) * at_once); ++i) {
        decoder.append(part, spec, static_cast<TokenId>(i), {}, deadline);
        check(part.size());
        begins[i + 1] = static_cast<std::uint32_t>(part.size());
      }
      parts[p] = std::move(part);
    }
  });
  LargeVector<char>& bytes = all.bytes;
  std::size_t size = 0;
  for (const std::string& part : parts) check(size += part.size());
  bytes.reserve(size);
  for (std::size_t p = 0; p < parts.size(); ++p) {
    for (std::size_t i = p * at_once; i < std::min(count, (p + 1) * at_once); ++i) begins[i + 1] += static_cast<std::uint32_t>(bytes.size());
    bytes.insert(bytes.end(), parts[p].begin(), parts[p].end());
  }
  return all;
}

void build_bytes(Tokenizer::Data& data, const std::vector<std::string>& added, std::string_view place) {
  data.decoder = TokenDecoder(data.spec, added, place);
  data.decoded = decode_all(data.spec, data.decoder, place);
}

void build_symbols(Tokenizer::Data& data) {
  const TokenizerSpec& spec = data.spec;
  data.byte_tokens.fill(no_symbol);
  if (spec.byte_level) {
    for (int b = 0; b < 256; ++b) {
      const TokenId found = data.id_of(utf8::byte_spelling(static_cast<std::uint8_t>(b)));
      if (found == PieceIndex::none) continue;
      // Some vocabularies have added tokens of one letter that read like a byte and stand for that letter. In ASCII the two are one:
      // where CLIP's "!" is special, texts that may not name special tokens have it still.
      const TokenType type = spec.types[static_cast<std::size_t>(found)];
      if (type == TokenType::normal || (type == TokenType::control && b < 0x80)) data.byte_tokens[static_cast<std::size_t>(b)] = found;
    }
    return;
  }
  for (std::size_t i = 0; i < spec.pieces.size(); ++i) {
    if (spec.types[i] != TokenType::byte) continue;
    const int byte = byte_of_piece(spec.pieces[i]);
    if (byte >= 0) data.byte_tokens[static_cast<std::size_t>(byte)] = static_cast<Symbol>(i);
  }
  for (std::size_t i = 0; i < spec.pieces.size(); ++i) {
    const std::string_view piece = spec.pieces[i];
    if (piece.empty() || piece.size() > 4 || data.special[i] || spec.types[i] == TokenType::byte) continue;
    const utf8::Char c = utf8::decode(piece, 0);
    if (c.length == piece.size() && data.id_of(piece) == static_cast<TokenId>(i)) {
      data.characters.set(c.code, static_cast<Symbol>(i));
    }
  }
}

/// SentencePiece merges texts, not ids: characters that are no piece themselves still make pieces with others.
void add_extra_characters(Tokenizer::Data& data, const std::vector<bool>& mergeable) {
  const PieceList& pieces = data.spec.pieces;
  std::vector<std::vector<std::uint32_t>> missing(div_up(pieces.size(), std::size_t{pieces_at_once}));
  parallel_for(static_cast<std::int64_t>(missing.size()), 1, [&](Range range) {
    std::vector<bool> seen(utf8::codes);
    for (auto i = static_cast<std::size_t>(range.begin * pieces_at_once); i < std::min(pieces.size(), static_cast<std::size_t>(range.end * pieces_at_once)); ++i) {
      for (std::size_t at = 0; mergeable[i] && at < pieces[i].size();) {
        const utf8::Char c = utf8::decode(pieces[i], at);
        if (!seen[c.code] && data.characters.get(c.code) == no_symbol) missing[static_cast<std::size_t>(range.begin)].push_back(c.code);
        seen[c.code] = true;
        at += c.length;
      }
    }
  });
  for (const std::vector<std::uint32_t>& some : missing) {
    for (const std::uint32_t code : some) {
      if (data.characters.get(code) != no_symbol) continue;
      data.characters.set(code, static_cast<Symbol>(pieces.size() + data.extra.size()));
      utf8::append(data.extra.emplace_back(), code);
    }
  }
}

LargeVector<Merge> list_merges(Tokenizer::Data& data, std::string_view place) {
  const TokenizerSpec& spec = data.spec;
  if (!spec.scores.empty()) {
    // The merges of a byte-level vocabulary join bytes, each of which is a piece.
    std::vector<bool> mergeable(spec.pieces.size());
    const bool all_differ = data.index.size() == count_spelled(spec);
    for (std::size_t i = 0; i < spec.pieces.size(); ++i) {
      const bool merges = spec.types[i] == TokenType::normal || spec.types[i] == TokenType::unused;
      mergeable[i] = merges && !spec.pieces[i].empty() && (all_differ || data.id_of(spec.pieces[i]) == static_cast<TokenId>(i));
    }
    if (!spec.byte_level) add_extra_characters(data, mergeable);
    LargeVector<std::string_view> symbols;
    symbols.reserve(spec.pieces.size() + data.extra.size());
    symbols.insert(symbols.end(), spec.pieces.begin(), spec.pieces.end());
    symbols.insert(symbols.end(), data.extra.begin(), data.extra.end());
    return merges_from_scores(symbols, spec.scores, mergeable, place);
  }
  LargeVector<Merge> merges;
  merges.reserve(spec.merges.size());
  for (std::size_t i = 0; i < spec.merges.size(); ++i) {
    const auto& [left, right, merged] = spec.merges[i];
    for (const TokenId id : {left, right, merged}) check_id(id, spec, place, "a part of a merge");
    merges.push_back({left, right, merged, static_cast<std::uint32_t>(i)});
  }
  return merges;
}

void build_merges(Tokenizer::Data& data, std::string_view place) {
  const LargeVector<Merge> merges = list_merges(data, place);
  if (data.spec.byte_level || data.marks_words()) {
    data.merges = MergeTable(merges, place);
    return;
  }
  // What stands next to each other in a piece was brought together by a merge.
  const auto spelled = [&](Symbol symbol) -> std::string_view {
    const auto i = static_cast<std::size_t>(symbol);
    const PieceList& pieces = data.spec.pieces;
    return i < pieces.size() ? pieces[i] : data.extra[i - pieces.size()];
  };
  const auto add_neighbors = [&] {
    // Of each symbol, in order, rather than of each merge, whose parts lie all over the heap.
    const std::size_t symbols = data.spec.pieces.size() + data.extra.size();
    std::vector<std::uint32_t> first(symbols, utf8::codes), last(symbols, utf8::codes);
    for (std::size_t i = 0; i < symbols; ++i) {
      const std::string_view text = spelled(static_cast<Symbol>(i));
      if (text.empty()) continue;
      first[i] = utf8::decode(text, 0).code;
      last[i] = utf8::last(text).code;
    }
    for (const Merge& merge : merges) {
      const std::uint32_t left = last[static_cast<std::size_t>(merge.left)], right = first[static_cast<std::size_t>(merge.right)];
      if (left != utf8::codes && right != utf8::codes) data.neighbors.add(left, right);
    }
  };
  // Each alone takes as long as the other.
  parallel_for(2, 1, [&](Range range) {
    if (range.begin == 0) data.merges = MergeTable(merges, place);
    if (range.end == 2) add_neighbors();
  });
}

/// The pieces that a text may be cut into: of a spelling that comes twice the one that looking it up gives.
LargeVector<PieceTrie::Piece> usable_pieces(const Tokenizer::Data& data, std::string_view place) {
  const TokenizerSpec& spec = data.spec;
  std::vector<bool> usable(spec.pieces.size());
  for (std::size_t i = 0; i < usable.size(); ++i) {
    usable[i] = !data.outside[i] && (spec.types[i] == TokenType::normal || spec.types[i] == TokenType::user_defined);
  }
  const bool all_differ = data.index.size() == count_spelled(spec);
  LargeVector<PieceTrie::Piece> pieces;
  pieces.reserve(spec.pieces.size());
  for (std::size_t i = 0; i < spec.pieces.size(); ++i) {
    const std::string_view piece = spec.pieces[i];
    const auto id = static_cast<TokenId>(i);
    if (piece.empty() || !usable[i] || (!all_differ && data.id_of(piece) != id)) continue;
    if (piece.size() > limits::trie_piece_bytes) {
      fail(Errc::unsupported, place, ": token ", i, " has ", piece.size(), " bytes, at most ", limits::trie_piece_bytes, " are supported");
    }
    pieces.push_back({piece, id});
  }
  return pieces;
}

void build_model(Tokenizer::Data& data, std::string_view place) {
  const TokenizerSpec& spec = data.spec;
  switch (data.model) {
    case TokenModel::merges: build_merges(data, place); break;
    case TokenModel::unigram: {
      if (spec.scores.empty()) fail(Errc::corrupt, place, ": a unigram model without scores");
      for (const double score : spec.scores) {
        // Log probabilities; what a float cannot hold would make sums that are no numbers.
        if (!(std::abs(score) <= 1e38)) fail(Errc::corrupt, place, ": a unigram model with a score of ", score);
      }
      const LargeVector<PieceTrie::Piece> pieces = usable_pieces(data, place);
      parallel_for(2, 1, [&](Range range) {
        if (range.begin == 0) data.unigram = Unigram(PieceTrie(pieces), spec.scores, spec.unknown_score);
        if (range.end < 2) return;
        for (const PieceTrie::Piece& piece : pieces) data.neighbors.add(piece.text);
      });
      break;
    }
    case TokenModel::wordpiece:
      data.wordpiece = WordPiece(PieceTrie(usable_pieces(data, place)), spec.continuing, spec.longest_word);
      break;
    case TokenModel::wordlevel: break;
  }
}

void build_added(Tokenizer::Data& data, const std::vector<std::string>& contents) {
  for (std::size_t i = 0; i < contents.size(); ++i) {
    const AddedToken& added = data.spec.added[i];
    const auto id = static_cast<std::int32_t>(i);
    (added.normalized ? data.normalized_all : data.raw_all).add(contents[i], id);
    if (!added.special) (added.normalized ? data.normalized_plain : data.raw_plain).add(contents[i], id);
  }
}

/// SentencePiece's own symbols, which its character map leaves alone.
Literals verbatim_spellings(const TokenizerSpec& spec) {
  Literals found;
  std::vector<bool> listed(spec.pieces.size());
  for (const AddedToken& added : spec.added) {
    if (added.verbatim) found.add(spec.pieces[static_cast<std::size_t>(added.id)], added.id);
    listed[static_cast<std::size_t>(added.id)] = true;
  }
  for (std::size_t i = 0; i < spec.pieces.size(); ++i) {
    if (spec.types[i] == TokenType::user_defined && !listed[i]) found.add(spec.pieces[i], static_cast<TokenId>(i));
  }
  return found;
}

void build_whole(Tokenizer::Data& data) {
  const TokenizerSpec& spec = data.spec;
  if (!spec.ignore_merges) return;
  data.whole = PieceIndex(spec.pieces.size());
  data.whole.add_all(spec.pieces.size(), PieceIndex::Repeated::first, [&](TokenId id) -> std::string_view {
    const auto i = static_cast<std::size_t>(id);
    if (spec.types[i] != TokenType::normal) return {};
    return spec.byte_level && !spec.pieces[i].empty() ? data.bytes_of(id) : spec.pieces[i];
  });
}

}  // namespace

std::shared_ptr<const Tokenizer::Data> build_tokenizer(TokenizerSpec spec, std::string_view place, PieceIndex index) {
  const TokenModel model = model_of(spec, place);
  check_pieces(spec, place);
  check_steps(spec, place);
  check_ids(spec, place);
  auto data = std::make_shared<Tokenizer::Data>();
  data->spec = std::move(spec);
  data->model = model;
  data->spec.chat_template = utf8::repaired(data->spec.chat_template);
  data->normalizer = Normalizer(data->spec.normalizer, place, verbatim_spellings(data->spec));
  data->pre_tokenizer = PreTokenizer(data->spec.pre_tokenizer, place);
  const std::vector<std::string> added = contents_of_added(*data);
  parallel_for(2, 1, [&](Range range) {
    if (range.begin == 0) index_pieces(*data, std::move(index));
    if (range.end == 2) build_bytes(*data, added, place);
  });
  build_symbols(*data);
  build_model(*data, place);
  build_added(*data, added);
  build_whole(*data);
  return data;
}

}  // namespace bantam::inline v0
