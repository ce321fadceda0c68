// Filters that take sequences apart, order them and put them together.
#include <algorithm>
#include <set>

#include "text/jinja/objects.hpp"
#include "text/jinja/represent.hpp"
#include "text/jinja/unicode.hpp"

namespace bantam::inline v0::jinja {

namespace {

Value list_filter(Run& run, const Value& subject, Arguments& arguments) {
  const Parameters none(run, "list", arguments, {});
  const ListPtr all = elements(run, subject);
  run.step(all->items.size());
  return run.list(all->items);
}

Value join_filter(Run& run, const Value& subject, Arguments& arguments) {
  const Parameters given(run, "join", arguments, {"d", "attribute"});
  const std::string separator = given[0] ? to_text(run, *given[0]) : "";
  const ListPtr all = elements(run, subject);
  Builder out(run);
  for (std::size_t i = 0; i < all->items.size(); ++i) {
    run.step();
    if (i > 0) out.add(separator);
    out.add(to_text(run, given.given(1) ? get_path(run, all->items[i], *given[1]) : all->items[i]));
  }
  return run.text(out.take());
}

Value first_filter(Run& run, const Value& subject, Arguments& arguments) {
  const Parameters none(run, "first", arguments, {});
  const ListPtr all = elements(run, subject);
  return all->items.empty() ? run.undefined("no first item, the sequence is empty") : all->items.front();
}

Value last_filter(Run& run, const Value& subject, Arguments& arguments) {
  const Parameters none(run, "last", arguments, {});
  if (subject.is_object()) run.error("expected something to go backward through, found a ", subject.type());
  const ListPtr all = elements(run, subject);
  return all->items.empty() ? run.undefined("no last item, the sequence is empty") : all->items.back();
}

Value reverse_filter(Run& run, const Value& subject, Arguments& arguments) {
  const Parameters none(run, "reverse", arguments, {});
  const ListPtr all = elements(run, subject);
  run.step(all->items.size());
  if (subject.is_text()) {
    std::string out;
    for (auto item = all->items.rbegin(); item != all->items.rend(); ++item) out += item->text();
    return run.text(std::move(out), subject.is_markup());
  }
  std::vector<Value> items(all->items.rbegin(), all->items.rend());
  if (subject.is_object()) return run.list(std::move(items));
  return generator(run, [items = std::move(items)](Run&) { return items; });
}

Value items_filter(Run& run, const Value& subject, Arguments& arguments) {
  const Parameters none(run, "items", arguments, {});
  return generator(run, [subject](Run& r) {
    if (subject.is_undefined()) return std::vector<Value>{};
    if (!subject.is_dict()) r.error("expected a mapping to take items of, found a ", subject.type());
    Arguments nothing;
    return find_method(subject, "items")(r, subject, nothing).list().items;
  });
}

/// Elements with what they are ordered by; stable, also backward.
std::vector<Value> sort_by(Run& run, std::vector<std::pair<Value, Value>> keyed, bool reverse) {
  run.allocate(keyed.size() * 2 * sizeof(Value));
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    return reverse ? less(run, b.first, a.first) : less(run, a.first, b.first);
  });
  std::vector<Value> out;
  out.reserve(keyed.size());
  for (auto& [key, item] : keyed) out.push_back(std::move(item));
  return out;
}

Value dictsort_filter(Run& run, const Value& subject, Arguments& arguments) {
  const Parameters given(run, "dictsort", arguments, {"case_sensitive", "by", "reverse"});
  const std::string by = given.text(1, "key");
  if (by != "key" && by != "value") run.error("expected key or value to sort by, found '", printable(by), "'");
  if (subject.is_undefined()) run.undefined_error(subject);
  if (!subject.is_dict()) run.error("expected a dict to sort, found a ", subject.type());
  std::vector<std::pair<Value, Value>> keyed;
  for (const auto& [key, value] : subject.dict().items) {
    const Value& chosen = by == "key" ? key : value;
    keyed.emplace_back(given.flag(0) ? chosen : ignore_case(run, chosen), run.list({key, value}, ListKind::tuple));
  }
  return run.list(sort_by(run, std::move(keyed), given.flag(2)));
}

/// The keys that "a,b.c" names, as one tuple.
Value sort_key(Run& run, const Value& item, const Value& attribute, bool case_sensitive) {
  std::vector<Value> parts;
  const auto add = [&](const Value& path) {
    Value key = get_path(run, item, path);
    parts.push_back(case_sensitive ? std::move(key) : ignore_case(run, key));
  };
  if (attribute.is_text()) {
    const std::string& all = attribute.text();
    for (std::size_t from = 0; from <= all.size();) {
      const std::size_t comma = std::min(all.find(',', from), all.size());
      add(run.text(all.substr(from, comma - from)));
      from = comma + 1;
    }
  } else {
    add(attribute);
  }
  return run.list(std::move(parts), ListKind::tuple);
}

Value sort_filter(Run& run, const Value& subject, Arguments& arguments) {
  const Parameters given(run, "sort", arguments, {"reverse", "case_sensitive", "attribute"});
  const Value attribute = given[2] ? *given[2] : Value(None{});
  const ListPtr all = elements(run, subject);
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& item : all->items) keyed.emplace_back(sort_key(run, item, attribute, given.flag(1)), item);
  return run.list(sort_by(run, std::move(keyed), given.flag(0)));
}

Value unique_filter(Run& run, const Value& subject, Arguments& arguments) {
  const Parameters given(run, "unique", arguments, {"case_sensitive", "attribute"});
  return generator(run, [subject, exact = given.flag(0), path = given[1] ? *given[1] : Value(None{})](Run& r) {
    std::set<std::string> seen;
    std::vector<Value> out;
    for (const ListPtr all = elements(r, subject); const Value& item : all->items) {
      const Value key = get_path(r, item, path);
      std::string spelled = spell_key(r, exact ? key : ignore_case(r, key));
      r.allocate(spelled.size() + 64);
      if (seen.insert(std::move(spelled)).second) out.push_back(item);
    }
    return out;
  });
}

template <bool largest>
Value extreme_filter(Run& run, const Value& subject, Arguments& arguments) {
  const Parameters given(run, largest ? "max" : "min", arguments, {"case_sensitive", "attribute"});
  const ListPtr all = elements(run, subject);
  if (all->items.empty()) return run.undefined("no item to choose, the sequence is empty");
  const auto key_of = [&](const Value& item) {
    const Value key = given.given(1) ? get_path(run, item, *given[1]) : item;
    return given.flag(0) ? key : ignore_case(run, key);
  };
  const Value* best = nullptr;
  Value best_key;
  for (const Value& item : all->items) {
    Value key = key_of(item);
    if (best && !(largest ? less(run, best_key, key) : less(run, key, best_key))) continue;
    best = &item;
    best_key = std::move(key);
  }
  return *best;
}

Value sum_filter(Run& run, const Value& subject, Arguments& arguments) {
  const Parameters given(run, "sum", arguments, {"attribute", "start"});
  Value total = given[1] ? *given[1] : Value(std::int64_t{0});
  if (total.is_text()) run.error("expected a start that can be summed, found a str");
  const ListPtr all = elements(run, subject);
  for (const Value& item : all->items) total = arithmetic(run, "+", total, given.given(0) ? get_path(run, item, *given[0]) : item);
  return total;
}

Value batch_filter(Run& run, const Value& subject, Arguments& arguments) {
  const Parameters given(run, "batch", arguments, {"linecount", "fill_with"}, 1);
  const std::int64_t size = given.integer(0, 1);
  const Value fill = given[1] ? *given[1] : Value(None{});
  return generator(run, [subject, size, fill](Run& r) {
    std::vector<Value> out, line;
    for (const ListPtr all = elements(r, subject); const Value& item : all->items) {
      if (static_cast<std::int64_t>(line.size()) == size) {
        out.push_back(r.list(std::move(line)));
        line = {};
      }
      line.push_back(item);
    }
    if (line.empty()) return out;
    if (!fill.is_none() && static_cast<std::int64_t>(line.size()) < size) {
      const auto missing = static_cast<std::uint64_t>(size) - line.size();
      r.allocate(missing > max_allocated_bytes / sizeof(Value) ? max_allocated_bytes + 1 : missing * sizeof(Value));
      line.insert(line.end(), missing, fill);
    }
    out.push_back(r.list(std::move(line)));
    return out;
  });
}

Value slice_filter(Run& run, const Value& subject, Arguments& arguments) {
  const Parameters given(run, "slice", arguments, {"slices", "fill_with"}, 1);
  const std::int64_t slices = given.integer(0, 1);
  const Value fill = given[1] ? *given[1] : Value(None{});
  return generator(run, [subject, slices, fill](Run& r) {
    const ListPtr all = elements(r, subject);
    if (slices == 0) r.error("expected at least one slice, found 0");
    std::vector<Value> out;
    if (slices < 0) return out;
    if (slices > max_range) r.over_limit("expected at most ", max_range, " slices, found ", slices);
    const auto count = static_cast<std::uint64_t>(slices);
    const std::size_t each = all->items.size() / count, extra = all->items.size() % count;
    std::size_t at = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::size_t size = each + (i < extra ? 1 : 0);
      r.step();
      std::vector<Value> part(all->items.begin() + static_cast<std::ptrdiff_t>(at), all->items.begin() + static_cast<std::ptrdiff_t>(at + size));
      if (!fill.is_none() && i >= extra) part.push_back(fill);
      out.push_back(r.list(std::move(part)));
      at += size;
    }
    return out;
  });
}

Value groupby_filter(Run& run, const Value& subject, Arguments& arguments) {
  const Parameters given(run, "groupby", arguments, {"attribute", "default", "case_sensitive"}, 1);
  const Value* otherwise = given.given(1) ? given[1] : nullptr;
  const bool exact = given.flag(2);
  const ListPtr all = elements(run, subject);
  const auto key_of = [&](const Value& item) {
    const Value key = get_path(run, item, *given[0], otherwise);
    return exact ? key : ignore_case(run, key);
  };
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& item : all->items) keyed.emplace_back(key_of(item), item);
  const std::vector<Value> sorted = sort_by(run, std::move(keyed), false);
  std::vector<Value> groups, group;
  const auto close = [&] {
    if (group.empty()) return;
    const Value key = get_path(run, group.front(), *given[0], otherwise);
    const Value members = run.list(std::move(group));
    groups.push_back(run.list({key, members}, ListKind::group));
    group = {};
  };
  for (const Value& item : sorted) {
    if (!group.empty() && !equals(run, key_of(group.front()), key_of(item))) close();
    group.push_back(item);
  }
  close();
  return run.list(std::move(groups));
}

constexpr Entry<Filter> sequence_filters[] = {
    {"list", list_filter},         {"join", join_filter},     {"first", first_filter},
    {"last", last_filter},         {"reverse", reverse_filter}, {"items", items_filter},
    {"dictsort", dictsort_filter}, {"sort", sort_filter},     {"unique", unique_filter},
    {"min", extreme_filter<false>}, {"max", extreme_filter<true>}, {"sum", sum_filter},
    {"batch", batch_filter},       {"slice", slice_filter},   {"groupby", groupby_filter},
};

}  // namespace

Filter find_sequence_filter(std::string_view name) { return find_entry(sequence_filters, name); }

}  // namespace bantam::inline v0::jinja
