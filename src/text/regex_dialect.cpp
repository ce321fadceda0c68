// Regular expressions as Hugging Face's files write them (Oniguruma), respelled for PCRE2.
#include "text/regex_dialect.hpp"

#include <algorithm>
#include <array>
#include <cctype>

namespace bantam::inline v0 {

namespace {

/// The scripts of Unicode 14, by their names in PCRE2.
constexpr std::string_view script_names[] = {
    "Adlam", "Ahom", "Anatolian_Hieroglyphs", "Arabic", "Armenian", "Avestan", "Balinese", "Bamum", "Bassa_Vah", "Batak", "Bengali",
    "Bhaiksuki", "Bopomofo", "Brahmi", "Braille", "Buginese", "Buhid", "Canadian_Aboriginal", "Carian", "Caucasian_Albanian", "Chakma",
    "Cham", "Cherokee", "Chorasmian", "Common", "Coptic", "Cuneiform", "Cypriot", "Cypro_Minoan", "Cyrillic", "Deseret", "Devanagari",
    "Dives_Akuru", "Dogra", "Duployan", "Egyptian_Hieroglyphs", "Elbasan", "Elymaic", "Ethiopic", "Georgian", "Glagolitic", "Gothic",
    "Grantha", "Greek", "Gujarati", "Gunjala_Gondi", "Gurmukhi", "Han", "Hangul", "Hanifi_Rohingya", "Hanunoo", "Hatran", "Hebrew",
    "Hiragana", "Imperial_Aramaic", "Inherited", "Inscriptional_Pahlavi", "Inscriptional_Parthian", "Javanese", "Kaithi", "Kannada",
    "Katakana", "Kayah_Li", "Kharoshthi", "Khitan_Small_Script", "Khmer", "Khojki", "Khudawadi", "Lao", "Latin", "Lepcha", "Limbu",
    "Linear_A", "Linear_B", "Lisu", "Lycian", "Lydian", "Mahajani", "Makasar", "Malayalam", "Mandaic", "Manichaean", "Marchen",
    "Masaram_Gondi", "Medefaidrin", "Meetei_Mayek", "Mende_Kikakui", "Meroitic_Cursive", "Meroitic_Hieroglyphs", "Miao", "Modi",
    "Mongolian", "Mro", "Multani", "Myanmar", "Nabataean", "Nandinagari", "New_Tai_Lue", "Newa", "Nko", "Nushu",
    "Nyiakeng_Puachue_Hmong", "Ogham", "Ol_Chiki", "Old_Hungarian", "Old_Italic", "Old_North_Arabian", "Old_Permic", "Old_Persian",
    "Old_Sogdian", "Old_South_Arabian", "Old_Turkic", "Old_Uyghur", "Oriya", "Osage", "Osmanya", "Pahawh_Hmong", "Palmyrene",
    "Pau_Cin_Hau", "Phags_Pa", "Phoenician", "Psalter_Pahlavi", "Rejang", "Runic", "Samaritan", "Saurashtra", "Sharada", "Shavian",
    "Siddham", "SignWriting", "Sinhala", "Sogdian", "Sora_Sompeng", "Soyombo", "Sundanese", "Syloti_Nagri", "Syriac", "Tagalog",
    "Tagbanwa", "Tai_Le", "Tai_Tham", "Tai_Viet", "Takri", "Tamil", "Tangsa", "Tangut", "Telugu", "Thaana", "Thai", "Tibetan",
    "Tifinagh", "Tirhuta", "Toto", "Ugaritic", "Vai", "Vithkuqi", "Wancho", "Warang_Citi", "Yezidi", "Yi", "Zanabazar_Square"};

bool is_script(std::string_view name) noexcept {
  const auto loose = [](std::string_view text) {
    std::string out;
    for (const char c : text) {
      if (std::isalnum(static_cast<unsigned char>(c))) out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    return out;
  };
  const std::string wanted = loose(name);
  return std::ranges::any_of(script_names, [&](std::string_view script) { return loose(script) == wanted; });
}

// Oniguruma takes superscripts and fractions of Latin-1 for words where \w stands alone, not within a class.
constexpr std::string_view word_items = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}";
constexpr std::string_view word_items_in_class = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";
constexpr std::string_view space_items = "\\p{White_Space}";
constexpr std::string_view hex_items = "0-9A-Fa-f";
/// Classes within classes; more is left to PCRE2, which reads them otherwise.
constexpr int deepest_class = 16;

/// Reads a pattern once from left to right.
class Respeller {
 public:
  explicit Respeller(std::string_view pattern) : in_(pattern) {}

  std::string run() {
    std::string out;
    while (at_ < in_.size()) {
      if (in_[at_] == '\\') {
        out += escape(false);
      } else if (in_[at_] == '[') {
        out += one_class(0);
      } else {
        out += in_[at_++];
      }
    }
    return out;
  }

 private:
  [[nodiscard]] bool follows(std::string_view text) const { return in_.substr(at_).starts_with(text); }

  /// An escape, inside a class or outside.
  std::string escape(bool in_class) {
    const auto set = [&](bool negated, std::string_view items) {
      at_ += 2;
      if (!in_class) return std::string(negated ? "[^" : "[").append(items) + "]";
      // Not every set can be negated within a class: only \s is a single property.
      return negated ? "\\P" + std::string(items.substr(2)) : std::string(items);
    };
    const char c = at_ + 1 < in_.size() ? in_[at_ + 1] : '\0';
    switch (c) {
      case 'w': return set(false, in_class ? word_items_in_class : word_items);
      case 'W':
        if (!in_class) return set(true, word_items);
        break;
      case 's': return set(false, space_items);
      case 'S': return set(true, space_items);
      case 'h': return set(false, hex_items);
      case 'H':
        if (!in_class) return set(true, hex_items);
        break;
      case 'b':
      case 'B':
        if (!in_class) return word_edge(c == 'B');
        break;
      case 'u': return code_point();
      case 'p':
      case 'P': return property();
      default: break;
    }
    std::string out(in_.substr(at_, 2));
    at_ += out.size();
    return out;
  }

  /// \b and \B: PCRE2's take no marks for parts of words.
  std::string word_edge(bool negated) {
    at_ += 2;
    const std::string word = "[" + std::string(word_items) + "]";
    const std::string behind = "(?<=" + word + ")", not_behind = "(?<!" + word + ")", ahead = "(?=" + word + ")", not_ahead = "(?!" + word + ")";
    return negated ? "(?:" + behind + ahead + "|" + not_behind + not_ahead + ")" : "(?:" + behind + not_ahead + "|" + not_behind + ahead + ")";
  }

  /// \uHHHH
  std::string code_point() {
    const std::string_view digits = in_.substr(at_ + 2, 4);
    const bool whole = digits.size() == 4 && std::ranges::all_of(digits, [](unsigned char c) { return std::isxdigit(c) != 0; });
    at_ += whole ? 6 : 2;
    return whole ? "\\x{" + std::string(digits) + "}" : "\\u";
  }

  /// \p{Han}
  std::string property() {
    const std::size_t end = follows("\\p{") || follows("\\P{") ? in_.find('}', at_) : std::string_view::npos;
    std::string out(in_.substr(at_, 2));
    if (end == std::string_view::npos || end - at_ > 64) {
      at_ += 2;
      return out;
    }
    std::string_view name = in_.substr(at_ + 3, end - at_ - 3);
    const bool negated = name.starts_with('^');
    name.remove_prefix(negated ? 1 : 0);
    out += negated ? "{^" : "{";
    out += is_script(name) ? "sc:" : "";
    out += name;
    at_ = end + 1;
    return out + "}";
  }

  /// A class from its bracket on, as an expression for one character.
  std::string one_class(int depth) {
    ++at_;
    const bool negated = follows("^");
    at_ += negated ? 1 : 0;
    std::string items;   // of a plain class
    std::string others;  // classes within, |X|Y
    std::string before;  // what && stood behind, (?=X)(?=Y)
    // Any of both; of neither nothing.
    const auto either = [&] { return items.empty() ? others.empty() ? std::string("(?!)") : "(?:" + others.substr(1) + ")" : "(?:[" + items + "]" + others + ")"; };
    for (bool first = true; at_ < in_.size(); first = false) {
      if (in_[at_] == ']' && !first) {
        ++at_;
        const bool plain = others.empty() && before.empty();
        if (plain) return (negated ? "[^" : "[") + items + "]";
        const std::string matched = before + either();
        return negated ? "(?:(?!" + matched + ")[\\s\\S])" : "(?:" + matched + ")";
      }
      if (follows("[:")) {
        const std::size_t end = in_.find(":]", at_);
        if (end == std::string_view::npos) break;
        items += in_.substr(at_, end + 2 - at_);
        at_ = end + 2;
      } else if (in_[at_] == '[' && depth < deepest_class) {
        others += "|" + one_class(depth + 1);
      } else if (follows("&&")) {
        at_ += 2;
        before += "(?=" + either() + ")";
        items.clear();
        others.clear();
      } else if (in_[at_] == '\\') {
        items += escape(true);
      } else {
        items += in_[at_++];
      }
    }
    // Never closed: PCRE2 says so.
    at_ = in_.size();
    return "[";
  }

  std::string_view in_;
  std::size_t at_ = 0;
};

}  // namespace

std::string respelled_regex(std::string_view pattern) { return Respeller(pattern).run(); }

std::string unicode_scripts_regex() {
  // Spaces and characters without a script begin no part and end none.
  const std::string any = "[ \\p{sc:Unknown}]";
  std::string out = "[\\p{sc:Han}\\p{sc:Hiragana}\\p{sc:Katakana}\\x{30fc}][\\p{sc:Han}\\p{sc:Hiragana}\\p{sc:Katakana}\\x{30fc} \\p{sc:Unknown}]*";
  for (const std::string_view name : script_names) {
    if (name == "Han" || name == "Hiragana" || name == "Katakana") continue;
    const std::string set = "\\p{sc:" + std::string(name) + "}";
    const std::string_view except = name == "Common" ? "(?![ \\x{30fc}])" : "";
    out += "|(?:" + std::string(except) + set + ")(?:" + std::string(except) + set + "|" + any + ")*";
  }
  return out;
}

}  // namespace bantam::inline v0
