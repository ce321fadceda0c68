// The parts that a tokenizer is made of: merging, splitting, normalizing, finding strings, UTF-8.
#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "core/utf8_eight.hpp"
#include "support.hpp"
#include "text/literals.hpp"
#include "text/merges.hpp"
#include "text/normalizer.hpp"
#include "text/piece_index.hpp"
#include "text/pre_tokenizer.hpp"
#include "text/regex_dialect.hpp"
#include "text/text_order.hpp"
#include "text/tokenizer_data.hpp"
#include "text/unicode.hpp"
#include "text/utf8.hpp"

using namespace bantam;
using namespace bantam::test;

namespace {

const auto later = [] { return deadline_for(1000); };

/// The definition of byte-pair merging: look for the lowest rank, leftmost first, merge, begin anew.
std::vector<Symbol> merged_plainly(std::vector<Symbol> symbols, const std::vector<Merge>& merges) {
  for (;;) {
    const Merge* best = nullptr;
    std::size_t where = 0;
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
      for (const Merge& m : merges) {
        if (m.left == symbols[i] && m.right == symbols[i + 1] && (!best || m.rank < best->rank)) {
          best = &m;
          where = i;
        }
      }
    }
    if (!best) return symbols;
    symbols[where] = best->merged;
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(where) + 1);
  }
}

std::vector<std::string> cut(PreTokenizerStep step, const std::string& text) {
  const PreTokens tokens = PreTokenizer({std::move(step)}, "test").cut(text, true, later());
  std::vector<std::string> parts;
  for (const Span& span : tokens.spans) parts.push_back(tokens.text.substr(span.begin, span.size()));
  return parts;
}

using Behavior = PreTokenizerStep::Behavior;
using Kind = PreTokenizerStep::Kind;

std::vector<std::string> cut_by(Behavior behavior, const std::string& text, bool invert = false) {
  return cut({.kind = Kind::split, .pattern = "-", .behavior = behavior, .invert = invert}, text);
}

using Parts = std::vector<std::string>;

std::string normal(NormalizerStep step, std::string_view text) { return Normalizer({std::move(step)}, "test").apply(text, later()); }

}  // namespace

TEST_CASE("merging by queue gives what merging by definition gives, on random merges and texts") {
  std::mt19937 random(7);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int round = 0; round < 300; ++round) {
    // 4 letters and 12 merged symbols; ranks may repeat, as scores of SentencePiece do.
    std::vector<Merge> merges;
    for (Symbol made = 4; made < 16; ++made) {
      const Merge m{below(made), below(made), made, static_cast<std::uint32_t>(below(8))};
      const bool known = std::ranges::any_of(merges, [&](const Merge& o) { return o.left == m.left && o.right == m.right; });
      if (!known) merges.push_back(m);
    }
    const MergeTable table(merges, "test");
    Merger merger(table);
    for (const std::size_t length : {0, 1, 2, 5, 48, 49, 200}) {
      std::vector<Symbol> symbols(length);
      for (Symbol& s : symbols) s = below(20) == 0 ? -1 : below(4);
      const std::vector<Symbol> expected = merged_plainly(symbols, merges);
      merger.run(symbols);
      REQUIRE(symbols == expected);
    }
  }
}

TEST_CASE("scores give every way to make a piece of two, the higher score first") {
  const std::vector<std::string_view> symbols = {"a", "ab", "b", "abab", "aba", "x"};
  const std::vector<double> scores = {0, -1, 0, -3, -2};  // x is a character without a piece
  auto merges = merges_from_scores(symbols, scores, std::vector<bool>(5, true), "test");
  std::ranges::sort(merges, {}, [](const Merge& m) { return std::pair(m.merged, m.left); });
  std::string made;
  for (const Merge& m : merges) made += message(symbols[static_cast<std::size_t>(m.left)], "+", symbols[static_cast<std::size_t>(m.right)], " ", m.rank, "; ");
  CHECK(made == "a+b 1; ab+ab 3; aba+b 3; ab+a 2; ");
}

TEST_CASE("texts are sorted as comparing them sorts, equal ones by their indices") {
  std::mt19937 random(14);
  for (const std::size_t count : {0, 1, 2, 100, 5000}) {
    std::vector<std::string> texts(count);
    for (std::string& text : texts) {
      text = std::string(random() % 3 * 7, 'x');
      for (auto i = random() % 12; i > 0; --i) text += "\0ab\xff"[random() % 4];
    }
    std::vector<std::int32_t> order(count);
    std::iota(order.begin(), order.end(), 0);
    std::vector<std::int32_t> expected = order;
    const auto text_of = [&](std::int32_t i) { return std::string_view(texts[static_cast<std::size_t>(i)]); };
    std::ranges::stable_sort(expected, {}, text_of);
    std::ranges::reverse(order);
    sort_by_text(order, text_of);
    CHECK(order == expected);
  }
}

TEST_CASE("scores give the merges of a large vocabulary that cutting each piece everywhere gives") {
  std::mt19937 random(15);
  std::set<std::string> made;
  while (made.size() < 20000) {
    std::string text;
    for (auto i = 1 + random() % 10; i > 0; --i) text += "abcd"[random() % 4];
    made.insert(text);
  }
  std::vector<std::string> pieces(made.begin(), made.end());
  std::ranges::shuffle(pieces, random);
  std::vector<double> scores(pieces.size());
  // In order, with equal ones, and not.
  for (std::size_t i = 0; i < scores.size(); ++i) scores[i] = i < 9000 ? -static_cast<double>(i / 2) : -static_cast<double>(random() % 12000);
  std::vector<bool> mergeable(pieces.size());
  for (std::size_t i = 0; i < pieces.size(); ++i) mergeable[i] = random() % 10 > 0;
  std::map<std::string_view, std::size_t> ids;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (mergeable[i]) ids[pieces[i]] = i;
  }
  const std::set<double, std::greater<>> distinct(scores.begin(), scores.end());
  std::map<double, std::uint32_t> ranks;
  for (const double score : distinct) ranks.emplace(score, static_cast<std::uint32_t>(ranks.size()));
  using Row = std::array<std::int64_t, 4>;
  std::vector<Row> expected, found;
  for (const auto& [text, id] : ids) {
    for (std::size_t cut = 1; cut < text.size(); ++cut) {
      const auto left = ids.find(text.substr(0, cut)), right = ids.find(text.substr(cut));
      if (left == ids.end() || right == ids.end()) continue;
      expected.push_back({static_cast<std::int64_t>(left->second), static_cast<std::int64_t>(right->second), static_cast<std::int64_t>(id), ranks.at(scores[id])});
    }
  }
  const std::vector<std::string_view> symbols(pieces.begin(), pieces.end());
  for (const Merge& m : merges_from_scores(symbols, scores, mergeable, "test")) found.push_back({m.left, m.right, m.merged, m.rank});
  std::ranges::sort(expected);
  std::ranges::sort(found);
  CHECK(expected.size() > 9000);
  CHECK(found == expected);
}

TEST_CASE("characters without a piece make pieces with others, wherever in a large vocabulary those stand") {
  TokenizerSpec spec;
  spec.kind = "spm";
  spec.pieces = {"<unk>"};
  std::mt19937 random(17);
  std::map<std::string, TokenId> ids;
  // Each place in a word has letters of its own, so that a word can only grow from its beginning on.
  while (spec.pieces.size() < 20000) {
    std::string word;
    for (std::uint32_t place = 0; place < 6; ++place) {
      utf8::append(word, static_cast<std::uint32_t>(0x3b0 + 0x1f00 * place + random() % 50));
      if (place == 0 || !ids.emplace(word, static_cast<TokenId>(spec.pieces.size())).second) continue;
      spec.pieces.push_back(word);
      spec.scores.push_back(-static_cast<double>(place));
    }
  }
  spec.scores.insert(spec.scores.begin(), 0);
  spec.types.assign(spec.pieces.size(), TokenType::normal);
  spec.types[0] = TokenType::unknown;
  spec.unknown = 0;
  const auto data = build_tokenizer(spec, "test");
  CHECK(data->extra.size() == 300);
  for (const auto& [word, id] : ids) REQUIRE(encode_text(*data, word, false) == std::vector<TokenId>{id});
}

TEST_CASE("a pair that comes twice is refused") {
  const std::vector<Merge> merges = {{0, 1, 2, 0}, {0, 1, 3, 1}};
  CHECK(error_of([&] { (void)MergeTable(merges, "file"); }) == "file: merge 1 comes twice");
}

TEST_CASE("splits keep, drop or join their matches") {
  CHECK(cut_by(Behavior::isolated, "a--b-") == Parts{"a", "-", "-", "b", "-"});
  CHECK(cut_by(Behavior::removed, "a--b-") == Parts{"a", "b"});
  CHECK(cut_by(Behavior::merged_with_previous, "a--b-") == Parts{"a-", "-", "b-"});
  CHECK(cut_by(Behavior::merged_with_next, "a--b-") == Parts{"a", "-", "-b", "-"});
  CHECK(cut_by(Behavior::contiguous, "a--b-") == Parts{"a", "--", "b", "-"});
  CHECK(cut_by(Behavior::removed, "a--b-", true) == Parts{"-", "-", "-"});
}

TEST_CASE("marks belong to the word before them at its edges") {
  const auto edges = [](const char* pattern, const std::string& text) { return cut({.kind = Kind::split, .pattern = pattern}, text); };
  CHECK(edges("\\bthe\\b", "a the,") == Parts{"a ", "the", ","});
  CHECK(edges("\\bthe\\b", "a the\xcc\x80,") == Parts{"a the\xcc\x80,"});
  CHECK(edges("e\\B", "e e\xcc\x80") == Parts{"e ", "e", "\xcc\x80"});
}

TEST_CASE("characters without a script stay with the script before them") {
  const PreTokenizerStep step{.kind = Kind::split, .pattern = unicode_scripts_regex(), .behavior = Behavior::removed, .invert = true};
  CHECK(cut(step, "\xd7\x90\xd7\x8b\xd7\x91 abc") == Parts{"\xd7\x90\xd7\x8b\xd7\x91 ", "abc"});
}

TEST_CASE("a literal splits as a literal, special characters included") {
  CHECK(cut({.kind = Kind::split_literal, .pattern = ".*"}, "a.*b..*") == Parts{"a", ".*", "b.", ".*"});
}

TEST_CASE("metaspace marks spaces and cuts before them") {
  const std::string mark = "\xe2\x96\x81";
  CHECK(cut({.kind = Kind::metaspace, .pattern = mark}, "a b  c") == Parts{mark + "a", mark + "b", mark, mark + "c"});
  CHECK(cut({.kind = Kind::metaspace, .pattern = mark}, " a") == Parts{mark + "a"});
  CHECK(cut({.kind = Kind::metaspace, .pattern = mark, .prepend = PreTokenizerStep::Prepend::never, .cut = false}, "a b") ==
        Parts{"a" + mark + "b"});
}

TEST_CASE("the steps of a pre-tokenizer lose and invent no byte, invalid ones included") {
  std::mt19937 random(11);
  const std::vector<std::string> alphabet = {"a", "Z", "7", " ", "\n", "\r", "'s", "\xc3\xa9", "\xe4\xb8\x80", "\xcc\x81", "\xff",
                                             "\xe4\xb8", ".", "^", "\xc2\xa0", std::string(1, '\0')};
  for (const std::string_view name : {"gpt-2", "llama-bpe", "qwen2", "starcoder", "falcon", "deepseek-llm", "deepseek-coder",
                                      "deepseek-v3", "gpt-4o", "tekken", "bloom", "viking", "qwen35", "default"}) {
    const KnownPreTokenizer* known = find_pre_tokenizer(name);
    REQUIRE(known);
    const PreTokenizer cutter(known->steps, name);
    for (int round = 0; round < 50; ++round) {
      std::string text;
      for (auto i = random() % 40; i > 0; --i) text += alphabet[random() % alphabet.size()];
      const PreTokens tokens = cutter.cut(text, true, later());
      std::string joined;
      for (const Span& span : tokens.spans) joined += tokens.text.substr(span.begin, span.size());
      REQUIRE(joined == text);
    }
  }
}

TEST_CASE("digits are cut in ones, threes or not at all, as each family does") {
  const auto count = [](std::string_view family) {
    return PreTokenizer(find_pre_tokenizer(family)->steps, family).cut("1234567", true, later()).spans.size();
  };
  CHECK(count("gpt-2") == 1);
  CHECK(count("llama-bpe") == 3);
  CHECK(count("gpt-4o") == 3);
  CHECK(count("deepseek-v3") == 3);
  CHECK(count("qwen2") == 7);
  CHECK(count("starcoder") == 7);
  CHECK(count("falcon") == 3);
  CHECK(find_pre_tokenizer("no such name") == nullptr);
}

TEST_CASE("normalizers do what their names say") {
  using K = NormalizerStep::Kind;
  CHECK(normal({.kind = K::nfc, .pattern = {}, .content = {}}, "e\xcc\x81") == "\xc3\xa9");
  CHECK(normal({.kind = K::nfd, .pattern = {}, .content = {}}, "\xc3\xa9") == "e\xcc\x81");
  CHECK(normal({.kind = K::nfkc, .pattern = {}, .content = {}}, "\xef\xac\x81") == "fi");
  CHECK(normal({.kind = K::nfc, .pattern = {}, .content = {}}, "e\xff\xcc\x81") == "e\xff\xcc\x81");
  CHECK(normal({.kind = K::prepend, .pattern = {}, .content = "_"}, "a") == "_a");
  CHECK(normal({.kind = K::prepend, .pattern = {}, .content = "_"}, "") == "");
  CHECK(normal({.kind = K::replace, .pattern = " ", .content = "__"}, " a ") == "__a__");
  CHECK(normal({.kind = K::replace_regex, .pattern = " {2,}", .content = " "}, "a   b \xff  c") == "a b \xff c");
  CHECK(normal({.kind = K::strip, .pattern = {}, .content = {}}, " \xe3\x80\x80" "a b\t\xc2\xa0") == "a b");
  CHECK(normal({.kind = K::lowercase, .pattern = {}, .content = {}}, "\xc3\x89" "A") == "\xc3\xa9" "a");
  CHECK(normal({.kind = K::collapse_spaces, .pattern = {}, .content = {}}, "  a   b ") == "a b");
}

TEST_CASE("marks are put in canonical order across a long run") {
  // U+0301 has class 230, U+0323 class 220: all dots below come first.
  std::string mixed = "x";
  std::string ordered = "x";
  for (int i = 0; i < 1000; ++i) mixed += "\xcc\x81\xcc\xa3";
  for (int i = 0; i < 1000; ++i) ordered += "\xcc\xa3";
  for (int i = 0; i < 1000; ++i) ordered += "\xcc\x81";
  CHECK(unicode::normalized(mixed, unicode::Form::nfd) == ordered);
}

TEST_CASE("the leftmost, longest string is found") {
  Literals literals;
  for (const auto& [text, id] : {std::pair("ab", 1), std::pair("abcd", 2), std::pair("bc", 3), std::pair("x", 4)}) literals.add(text, id);
  Literals::Hit hit;
  REQUIRE(literals.find("zabcx", 0, hit));
  CHECK(hit.id == 1);
  REQUIRE(literals.find("zabcdx", 0, hit));
  CHECK(hit.id == 2);
  CHECK(hit.begin == 1);
  CHECK(hit.end == 5);
  REQUIRE(literals.find("zabcdx", 5, hit));
  CHECK(hit.id == 4);
  CHECK_FALSE(literals.find("zzz", 0, hit));
}

TEST_CASE("utf-8 is repaired by maximal subparts and tails are known") {
  CHECK(utf8::repaired("a\xe4\xb8" "b") == "a\xef\xbf\xbd" "b");
  CHECK(utf8::repaired("\xed\xa0\x80") == "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");  // a surrogate
  CHECK(utf8::repaired("\xc0\xaf") == "\xef\xbf\xbd\xef\xbf\xbd");                    // an overlong slash
  CHECK(utf8::repaired("\xf0\x9f\xa6\x99") == "\xf0\x9f\xa6\x99");
  CHECK(utf8::unfinished_tail("a\xf0\x9f\xa6") == 3);
  CHECK(utf8::unfinished_tail("a\xf0\x9f\xa6\x99") == 0);
  CHECK(utf8::unfinished_tail("\xe4") == 1);
  CHECK(utf8::unfinished_tail("\x80") == 0);
  CHECK(utf8::unfinished_tail("\xed\xa0") == 0);
}

TEST_CASE("the byte alphabet spells every byte and reads it back") {
  std::string all;
  for (int b = 0; b < 256; ++b) all += static_cast<char>(static_cast<unsigned char>(b));
  std::string back = "kept";
  utf8::append_bytes_of_spelling(back, utf8::spelled(all));
  CHECK(back == "kept" + all);
  // Cut off, beyond the alphabet, no part of it, no UTF-8.
  for (const std::string piece : {"", "a\xc4", "a\xe4\xb8\x80", "\xc5\x84", "\xc6\x80", "a b", "\xc2\xad", "\xc4" "a", "\x80\x80", "\xff\xbf"}) {
    std::string same = "kept";
    utf8::append_bytes_of_spelling(same, piece);
    CHECK(same == "kept" + piece);
  }
  CHECK(utf8::spelled(" \n") == "\xc4\xa0\xc4\x8a");
}

TEST_CASE("a list of pieces gives what was set last, with a zero byte behind it") {
  PieceList list = {"a", "", "long enough to be no small string", "a"};
  list.resize(6);
  list.set(5, "b");
  list.set(0, "longer than before");
  list.set(3, "");
  const std::string_view expected[] = {"longer than before", "", "long enough to be no small string", "", "", "b"};
  REQUIRE(list.size() == std::size(expected));
  CHECK(std::ranges::equal(std::vector<std::string_view>(list.begin(), list.end()), expected));
  for (std::size_t i = 0; i < list.size(); ++i) {
    CHECK(list(static_cast<TokenId>(i)) == expected[i]);
    CHECK(list[i].data()[list[i].size()] == '\0');
  }
  CHECK(list.find("b") == 5);
  CHECK(list.find("") == 1);
  CHECK(list.find("a") == -1);
  const PieceList copy = list;
  list.set(5, "c");
  CHECK(copy[5] == "b");
}

TEST_CASE("a piece index finds what was put in, one by one and together") {
  std::mt19937 random(3);
  std::vector<std::string> pieces;
  for (int i = 0; i < 3000; ++i) pieces.push_back(i % 50 == 0 ? "" : std::to_string(random() % 4000) + (i % 3 == 0 ? " and what makes it long" : ""));
  std::map<std::string, TokenId> first, last;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].empty()) continue;
    first.emplace(pieces[i], static_cast<TokenId>(i));
    last[pieces[i]] = static_cast<TokenId>(i);
  }
  REQUIRE(first.size() < 2940);
  const PieceList texts(pieces);
  PieceIndex firsts(pieces.size());
  firsts.add_all(pieces.size(), PieceIndex::Repeated::first, texts);
  const PieceIndex lasts = index_of(texts);
  CHECK(firsts.size() == first.size());
  CHECK(lasts.size() == first.size());
  std::vector<std::string> asked = pieces;
  for (int i = 4000; i < 4100; ++i) asked.push_back(std::to_string(i));
  const std::vector<std::string_view> views(asked.begin(), asked.end());
  std::vector<TokenId> together(asked.size());
  lasts.find_all(views, together, texts);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const auto expected = [&](const std::map<std::string, TokenId>& ids) { return ids.contains(asked[i]) ? ids.at(asked[i]) : PieceIndex::none; };
    CHECK(firsts.find(asked[i], texts) == expected(first));
    CHECK(lasts.find(asked[i], texts) == expected(last));
    CHECK(together[i] == expected(last));
  }
  CHECK(PieceIndex().find("a", texts) == PieceIndex::none);
}

TEST_CASE("neighbors are the pairs that were added, in their order") {
  std::mt19937 random(4);
  Neighbors neighbors;
  std::set<std::pair<std::uint32_t, std::uint32_t>> added;
  const auto draw = [&] { return static_cast<std::uint32_t>(random() % 3 == 0 ? random() % 128 : random() % 700); };
  for (int i = 0; i < 20000; ++i) {
    const std::uint32_t left = draw(), right = draw();
    neighbors.add(left, right);
    added.emplace(left, right);
  }
  for (std::uint32_t left = 0; left < 700; ++left) {
    for (std::uint32_t right = 0; right < 700; ++right) REQUIRE(neighbors.has(left, right) == added.contains({left, right}));
  }
}

TEST_CASE("eight bytes are whole characters where decoding one after the other finds them whole") {
  std::mt19937_64 random(16);
  const std::vector<std::string> alphabet = {"a", "\xc3\xa9", "\xe2\x96\x81", "\xef\xbf\xbf", "\xc2\x80", "\xe0\xa4\x85", "\xe0\x80\x80", "\xed\x95\x9c", "\xed\xa0\x80",
                                             "\xf0\x9f\x98\x80", "\xc1\xbf", "\x80", "\xff"};
  int usual = 0;
  for (int round = 0; round < 200000; ++round) {
    std::string text;
    while (text.size() < 12) text += alphabet[random() % (round % 2 == 0 ? 5 : alphabet.size())];
    text = text.substr(random() % 3, 8);
    std::size_t end = 0;
    bool odd = false;  // what the function leaves to others, valid or not
    while (end < 8 && utf8::decode(text, end).valid) {
      const utf8::Char c = utf8::decode(text, end);
      odd = odd || c.length == 4 || (c.code >= 0x800 && c.code < 0x1000) || (c.code >= 0xd000 && c.code < 0xe000);
      end += c.length;
    }
    const std::size_t tail = utf8::unfinished_tail(text);
    if (end + tail < 8) odd = true;
    if (tail > 0) odd = odd || text[end] == '\xe0' || text[end] == '\xed' || text[end] == '\xf0';
    REQUIRE(bantam::detail::whole_characters(bantam::detail::eight_bytes(text.data())) == (odd ? 0 : end));
    usual += odd ? 0 : 1;
  }
  CHECK(usual > 50000);
}

TEST_CASE("every character decodes to its code, and its last byte leads back to it") {
  for (std::uint32_t code = 0; code <= 0x10ffff; ++code) {
    if (code >= 0xd800 && code < 0xe000) continue;
    std::string text = "\xe2\x96\x81";
    utf8::append(text, code);
    const utf8::Char c = utf8::decode(text, 3);
    REQUIRE(c.valid);
    REQUIRE(c.code == code);
    REQUIRE(c.length == text.size() - 3);
    REQUIRE(utf8::last(text).code == code);
    REQUIRE(utf8::is_valid(text));
    if (c.length > 1) REQUIRE(!utf8::is_valid(text.substr(0, text.size() - 1)));
  }
}
