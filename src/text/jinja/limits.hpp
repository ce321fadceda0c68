// What a template may use: the bounds that make hostile templates end with one error.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bantam::inline v0::jinja {

/// Real chat templates have 0.5 to 20 KB: fifty times the longest.
inline constexpr std::size_t max_template_bytes = std::size_t{1} << 20;
/// Brackets in brackets, blocks in blocks, filters after filters. Real templates stay under 20; the parser and the
/// evaluator recurse once a level.
inline constexpr int max_nesting = 128;
/// Nested evaluations (a macro that calls itself counts about six a call). A level takes under 1.5 KiB of stack, 8 KiB
/// under sanitizers: far from the 8 MiB that threads have.
inline constexpr int max_depth = 600;
/// Lists in lists in lists: what printing, comparing and freeing a value recurse over.
inline constexpr int max_value_depth = 128;
/// Evaluations of a node, plus elements touched, plus 64-byte pieces of text scanned: a conversation of 10,000 turns
/// takes about a million; this many take some two seconds.
inline constexpr std::uint64_t max_steps = 20'000'000;
/// Bytes that values may take over a whole run, freed ones included, which bounds memory and copying time together.
/// Text gathered in a variable turn by turn is copied each time: 500 turns that reach 1 MiB add up to half of it.
inline constexpr std::uint64_t max_allocated_bytes = std::uint64_t{512} << 20;
/// One text, the output included: four million tokens, longer than any model's context.
inline constexpr std::size_t max_text_bytes = std::size_t{16} << 20;
/// Elements of a `range`, the bound of Jinja's own sandbox, and lists that `slice` makes, empty ones included.
inline constexpr std::int64_t max_range = 100'000;

}  // namespace bantam::inline v0::jinja
