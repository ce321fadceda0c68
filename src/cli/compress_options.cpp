// An option of the program for each row of the table.
#include "compress_options.hpp"

#include <algorithm>

namespace bantam::cli {

namespace {

/// Adds one; its value lies in `o`.
CLI::Option* add_option(CLI::App& verb, TableOption& o) {
  const CompressOption& row = *o.row;
  const std::string name = "--" + program_name(row), meaning(row.meaning), placeholder(row.placeholder);
  switch (row.kind) {
    case OptionKind::flag:
      return add_flag(verb, name, o.flag, row.initial == "on" ? "turn off: " + meaning : meaning);
    case OptionKind::seed: {
      CLI::Option* flag = add_flag(verb, name, o.flag, meaning);
      needs(add_integer(verb, "--seed", o.seed, {}, "of " + name), flag);
      return flag;
    }
    case OptionKind::texts:
    case OptionKind::adapters:
    case OptionKind::exceptions:
      return add_texts(verb, name, o.texts, placeholder, meaning + "; may be repeated");
    case OptionKind::choice: {
      const std::vector<std::string_view> words = row.words();
      const std::vector<std::string> list(words.begin(), words.end());
      // The kind of output goes by its name.
      if (row.of_files) return add_open_choice(verb, name, o.text, list, meaning + " [by the name]");
      o.text = row.initial;
      return add_choice(verb, name, o.text, list, meaning);
    }
    default:
      o.text = row.initial;
      return add_text(verb, name, o.text, placeholder, row.kind == OptionKind::format ? meaning + "; help prints the list" : meaning);
  }
}

}  // namespace

TableOptions::TableOptions(CLI::App& verb) {
  for (const CompressOption& row : compress_options()) {
    if (program_name(row).empty()) continue;
    TableOption& added = options_.emplace_back(TableOption{&row});
    added.option = add_option(verb, added);
    const auto needed = std::ranges::find(options_, row.needs.first, [](const TableOption& o) { return o.row->name; });
    if (needed != options_.end()) needs(added.option, needed->option);
  }
}

bool TableOptions::given(std::string_view name) const {
  return std::ranges::any_of(options_, [&](const TableOption& o) { return o.row->name == name && cli::given(o.option); });
}

std::vector<std::string> TableOptions::given_where(bool (*holds)(const CompressOption&)) const {
  std::vector<std::string> names;
  for (const TableOption& o : options_) {
    if (cli::given(o.option) && holds(*o.row)) names.push_back(name_of(o.option));
  }
  return names;
}

CompressRequest TableOptions::request() const {
  return checked_options([&] {
    CompressRequest request;
    for (const TableOption& o : options_) {
      if (!cli::given(o.option)) continue;
      std::vector<std::string> texts = o.texts;
      if (o.row->kind == OptionKind::flag) texts = {o.row->initial == "on" ? "off" : "on"};
      if (o.row->kind == OptionKind::seed) texts = {message(o.seed)};
      if (texts.empty()) texts = {o.text};
      for (const std::string& text : texts) set_option(request, o.row->name, text);
    }
    return request;
  });
}

}  // namespace bantam::cli
