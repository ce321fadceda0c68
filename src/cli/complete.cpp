// What may come next on a command line, by what the verbs say of their options.
#include "complete.hpp"

#include <CLI/CLI.hpp>

#include "bantam/compress/mix.hpp"
#include "bantam/core/names.hpp"
#include "bantam/kernels/table.hpp"

namespace bantam::cli {

namespace {

/// Lines for what begins like the word that is being typed.
class Offers {
 public:
  explicit Offers(std::string begin) : begin_(std::move(begin)) {}

  void add(std::string_view word, std::string_view meaning = "") {
    // Lists of shells have a line for each.
    constexpr std::size_t longest_meaning = 90;
    if (!word.starts_with(begin_)) return;
    text_ += word;
    if (!meaning.empty()) text_ += message('\t', printable(meaning, longest_meaning));
    text_ += '\n';
  }
  [[nodiscard]] std::string text() && { return std::move(text_); }

 private:
  std::string begin_, text_;
};

void add_options(Offers& offers, const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;  // hidden: another spelling of one that is shown
    for (const std::string& name : option->get_lnames()) offers.add("--" + name, option->get_description());
  }
}

/// The words that help shows for a choice; lists that it leaves to other verbs.
void add_values(Offers& offers, const CLI::Option& option) {
  const std::string name = option.get_name(), type = option.get_type_name();
  if (name == "--isa") {
    for (const KernelTable* table : kernel_tables()) offers.add(table->name);
  } else if (name == "--format") {
    for (const FormatInfo& format : formats()) offers.add(format.name);
    for (const Mix& mix : mixes()) offers.add(mix.name);
  } else if (type.find('|') != std::string::npos) {
    for (const std::string& word : CLI::detail::split(type, '|')) offers.add(word);
  }
}

}  // namespace

std::string completions(const CLI::App& app, const std::vector<std::string>& words) {
  if (words.empty()) return "";
  Offers offers(words.back());
  if (words.size() == 1) {
    for (const CLI::App* verb : app.get_subcommands({})) offers.add(verb->get_name(), verb->get_description());
    add_options(offers, app);
    return std::move(offers).text();
  }
  const std::vector<const CLI::App*> verbs = app.get_subcommands([&](const CLI::App* verb) { return verb->get_name() == words[0]; });
  if (verbs.empty()) return "";
  const CLI::Option* before = verbs[0]->get_option_no_throw(words[words.size() - 2]);
  if (before != nullptr && before->get_items_expected_max() > 0) {
    add_values(offers, *before);
  } else if (words.back().starts_with('-')) {
    add_options(offers, *verbs[0]);
  }
  return std::move(offers).text();
}

}  // namespace bantam::cli
