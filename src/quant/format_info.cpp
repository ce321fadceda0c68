// The run-time table of formats and the lookup of their names.
#include "bantam/quant/format_info.hpp"

#include <array>
#include <cctype>
#include <vector>

#include "bantam/core/error.hpp"
#include "bantam/core/names.hpp"
#include "bantam/quant/describe_format.hpp"

namespace bantam::inline v0 {

namespace {

template <QuantFormat... F>
constexpr std::array<FormatInfo, sizeof...(F)> describe_all(FormatList<F...>) {
  int index = 0;
  return {detail::describe_format<F>(index++)...};
}

constexpr auto all = describe_all(Formats{});

constexpr bool unique_names_and_ids() {
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t k = i + 1; k < all.size(); ++k) {
      if (all[i].name == all[k].name || all[i].id == all[k].id) return false;
    }
  }
  return true;
}
static_assert(unique_names_and_ids());

/// Other spellings of a family ("q4") or of one format ("q4_0"). What they stand for is looked up as a name again.
struct Alias {
  std::string_view from;
  std::string_view to;
};
constexpr Alias aliases[] = {
    {"float32", "f32"}, {"fp32", "f32"},   {"float16", "f16"},  {"fp16", "f16"},     {"half", "f16"},
    {"bfloat16", "bf16"}, {"q8", "i8"},    {"int8", "i8"},      {"q8_0", "i8.g32"},  {"q4", "i4"},
    {"int4", "i4"},     {"q4_0", "i4.g32"}, {"q4_1", "i4m.g32"}, {"int4z", "i4z"},   {"q4z", "i4z"},
    {"nf4.dq", "nf4dq"}, {"fp4.dq", "fp4dq"}, {"int8.row", "i8.row"}, {"q5", "i5"},    {"int5", "i5"},
    {"q5_0", "i5.g32"}, {"q5_1", "i5m.g32"}, {"q3", "i3"},      {"int3", "i3"},      {"int3z", "i3z"},
    {"q2", "i2z"},      {"int2", "i2z"},    {"i2", "i2z"},      {"int2z", "i2z"},    {"iq4_nl", "iq4nl"},
    {"iq4_xs", "iq4xs"}, {"q2_k", "q2k"},   {"q3_k", "q3k"},    {"q4_k", "q4k"},     {"q5_k", "q5k"},
    {"q6_k", "q6k"},
};

/// The group of a family when none is asked for: the finest for 8 bits, whose scales cost little; 32 at 4 bits, where
/// quality needs it.
constexpr Alias usual[] = {{"i8", "i8.g32"},     {"i5", "i5.g32"},       {"i5m", "i5m.g32"}, {"i4", "i4.g32"},
                           {"i4x", "i4x.g32"},   {"i4z", "i4z.g32"},     {"i4m", "i4m.g32"}, {"nf4", "nf4.g64"},
                           {"nf4dq", "nf4dq.g64"}, {"nf4w", "nf4w.g64"},  {"fp4", "fp4.g64"},   {"fp4dq", "fp4dq.g64"}, {"fp4w", "fp4w.g64"}, {"iq4nl", "iq4nl.g32"},
                           {"iq4xs", "iq4xs.g32"}, {"mxfp4", "mxfp4.g32"}, {"nvfp4", "nvfp4.g16"}, {"i3", "i3.g32"}, {"i3z", "i3z.g32"},
                           {"i2z", "i2z.g32"},   {"q6k", "q6k.g16"},     {"q5k", "q5k.g32"}, {"q4k", "q4k.g32"},
                           {"q3k", "q3k.g16"},   {"q2k", "q2k.g16"},       {"iq3s", "iq3s.g32"}, {"iq3xxs", "iq3xxs.g32"},
                           {"iq2", "iq2.g32"},   {"iq3_s", "iq3_s.g32"}, {"iq3_xxs", "iq3_xxs.g32"}, {"iq2_s", "iq2_s.g16"}, {"iq2_xs", "iq2_xs.g16"}, {"iq2_xxs", "iq2_xxs.g32"},
                           {"iq1_m", "iq1_m.g16"}, {"iq1_s", "iq1_s.g32"}, {"i8s", "i8s.g64"},     {"i4s", "i4s.g64"}, {"i4b", "i4b.g128"},
                           {"t1h", "t1h.g128"},  {"t2", "t2.g128"},      {"t2h", "t2h.g128"}, {"t3", "t3.g128"}};

template <std::size_t N>
std::string_view translate(std::string_view name, const Alias (&table)[N]) {
  for (const Alias& alias : table) {
    if (alias.from == name) return alias.to;
  }
  return name;
}

const FormatInfo* exact(std::string_view name) {
  for (const std::span<const FormatInfo> list : {std::span<const FormatInfo>(all), vector_formats()}) {
    for (const FormatInfo& info : list) {
      if (info.name == name) return &info;
    }
  }
  return nullptr;
}

/// Every spelling that find_format knows without a group.
std::vector<std::string_view> all_names() {
  std::vector<std::string_view> names;
  for (const Alias& alias : usual) names.push_back(alias.from);
  for (const Alias& alias : aliases) names.push_back(alias.from);
  for (const FormatInfo& info : all) names.push_back(info.name);
  for (const FormatInfo& info : vector_formats()) names.push_back(info.name);
  return names;
}

[[noreturn]] void unknown(std::string_view name, int group, std::span<const std::string_view> others) {
  const std::string found = printable(name) + (group < 0 ? "" : message(" with group ", group));
  std::string family_of_name;
  for (const FormatInfo& info : all) {
    const std::string_view family = info.name.substr(0, info.name.find('.'));
    if (group >= 0 && translate(name, aliases) == family) family_of_name += message(family_of_name.empty() ? "" : ", ", info.name);
  }
  std::vector<std::string_view> known = all_names();
  known.insert(known.begin(), others.begin(), others.end());
  // There are too many for a line: what may have been meant, or a handful.
  const bool group_is_wrong = !family_of_name.empty();
  fail(Errc::invalid_argument, "format: expected ", group_is_wrong ? family_of_name : "i4, i8, nf4, q4k, f16 or another that `bantam formats` lists", ", found ", found,
       group_is_wrong ? "" : did_you_mean(name, known));
}

}  // namespace

std::span<const FormatInfo> formats() noexcept { return all; }

const FormatInfo* find_format(FormatId id) noexcept {
  for (const FormatInfo& info : all) {
    if (info.id == id) return &info;
  }
  return nullptr;
}

const FormatInfo& find_format(std::string_view asked, int group, std::span<const std::string_view> others) {
  if (group < -1) fail(Errc::invalid_argument, "group: expected -1 (the format's usual), 0 (the row) or a number of weights, found ", group);
  std::string name;
  for (const char c : asked.substr(0, 64)) {
    name += c == '-' || c == ':' ? '.' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  name = translate(name, aliases);
  // "int4.g32" and "q4.32": the family is translated apart from the group.
  if (const auto dot = name.find('.'); dot != std::string::npos && exact(name) == nullptr) {
    std::string rest = name.substr(dot + 1);
    if (!rest.empty() && std::isdigit(static_cast<unsigned char>(rest[0]))) rest.insert(0, "g");
    name = message(translate(name.substr(0, dot), aliases), ".", rest);
  }
  if (group >= 0) {
    const std::string family = name.substr(0, name.find('.'));
    if (const FormatInfo* plain = exact(name); plain != nullptr && (plain->is_float || plain->group == group)) return *plain;
    if (name != family) unknown(asked, group, others);
    name = family + (group == 0 ? ".row" : message(".g", group));
  } else {
    name = translate(name, usual);
  }
  if (const FormatInfo* info = exact(name)) return *info;
  unknown(asked, group, others);
}

}  // namespace bantam::inline v0
