// Embeddings of n-grams in config.json, in GGUF metadata, and as tensors of whole numbers.
#include "model/ngram_config.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "bantam/core/error.hpp"
#include "bantam/io/gguf.hpp"
#include "bantam/io/gguf_writer.hpp"
#include "bantam/kernels/arguments.hpp"
#include "model/config_json.hpp"
#include "text/json.hpp"

namespace bantam::inline v0::detail {

namespace {

constexpr std::int64_t most_rows = (std::int64_t{1} << 31) - 1;  // of a table, as llama.cpp has it

bool has_ngrams(const ModelConfig& c) noexcept { return c.arch->find(Role::ngram_embedding) != nullptr; }

// What config.json calls them where it has them itself: native files, which have no tensors of whole numbers, and folders written here.
constexpr std::string_view multipliers_key = "ngram_multipliers", offsets_key = "ngram_offsets", sizes_key = "ngram_sizes", rows_key = "ngram_rows";

bool is_prime(std::int64_t n) noexcept {
  if (n < 4) return n > 1;
  if (n % 2 == 0) return false;
  for (std::int64_t d = 3; d * d <= n; d += 2) {
    if (n % d == 0) return false;
  }
  return true;
}

/// Vigna's SplitMix64: the number after state z.
std::uint64_t split_mix(std::uint64_t z) noexcept {
  z += 0x9E3779B97F4A7C15U;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31);
}

/// Head k has as many rows as the k-th prime from `base` on; multipliers are odd, and products with tokens stay below 2^63.
void make_constants(std::int64_t base, std::int64_t multiple, std::uint64_t seed, std::int64_t vocab, nn::NgramOptions& o) {
  std::int64_t prime = base - 1, all = 0;
  for (std::int64_t head = 0; head < o.all_heads(); ++head) {
    do {
      ++prime;
    } while (!is_prime(prime));
    o.offsets.push_back(all);
    o.sizes.push_back(prime);
    all += prime;
  }
  o.rows = round_up(all, multiple);
  const std::uint64_t bound = std::max<std::uint64_t>(1, (~std::uint64_t{0} >> 1) / static_cast<std::uint64_t>(vocab) / 2);
  for (std::int64_t i = 0; i < o.tokens; ++i) {
    o.multipliers.push_back(2 * (split_mix(seed + 0x9E3779B97F4A7C15U * static_cast<std::uint64_t>(i + 1)) % bound) + 1);
  }
}

/// Sizes of what reads the table, and the rows that heads say they have, which lie in it.
void check(const nn::NgramOptions& o, const std::string& place) {
  const auto expect = [&](bool holds, auto&&... words) {
    if (!holds) fail(Errc::corrupt, place, ": ", words...);
  };
  expect(std::ssize(o.multipliers) == o.tokens, "expected ", o.tokens, " multipliers of n-grams, found ", o.multipliers.size());
  expect(std::ssize(o.offsets) == o.all_heads() && std::ssize(o.sizes) == o.all_heads(), "expected offsets and sizes of ", o.all_heads(), " heads of n-grams, found ", o.offsets.size(), " and ", o.sizes.size());
  expect(o.rows >= 1 && o.rows <= most_rows, "expected a table of 1 to ", most_rows, " rows of n-grams, found ", o.rows);
  for (std::size_t i = 0; i < o.sizes.size(); ++i) {
    expect(o.sizes[i] >= 1 && o.offsets[i] >= 0 && o.sizes[i] <= o.rows && o.offsets[i] <= o.rows - o.sizes[i], "expected rows of n-grams among the ", o.rows, " of the table, found ", o.sizes[i],
           " from ", o.offsets[i], " on");
  }
}

/// A whole number from `least` on.
std::int64_t whole_at(const Json& json, std::string_view key, const std::string& place, std::int64_t otherwise, std::int64_t least, std::int64_t most) {
  const Json* it = member(json, key);
  if (it == nullptr) return otherwise;
  const bool fits = it->is_number_unsigned() && it->get<std::uint64_t>() >= static_cast<std::uint64_t>(least) && it->get<std::uint64_t>() <= static_cast<std::uint64_t>(most);
  if (!fits) fail(Errc::corrupt, place, ": ", key, ": expected a whole number from ", least, " to ", most, ", found ", printable(it->dump()));
  return static_cast<std::int64_t>(it->get<std::uint64_t>());
}

/// Whole numbers below 2^63.
template <class Whole>
std::vector<Whole> wholes_at(const Json& json, std::string_view key, const std::string& place) {
  std::vector<Whole> numbers;
  const Json* list = member(json, key);
  if (list == nullptr) return numbers;
  if (!list->is_array()) fail(Errc::corrupt, place, ": ", key, ": expected a list, found ", list->type_name());
  for (const Json& number : *list) {
    if (!number.is_number_unsigned() || number.get<std::uint64_t>() >> 63 != 0) fail(Errc::corrupt, place, ": ", key, ": expected whole numbers below 2^63, found ", printable(number.dump()));
    numbers.push_back(static_cast<Whole>(number.get<std::uint64_t>()));
  }
  return numbers;
}

/// The layer that reads them.
void set_layer(std::int64_t layer, std::size_t layers, const std::string& place, ModelConfig& c) {
  if (layers != 1) fail(Errc::unsupported, place, ": expected one layer that reads n-grams, found ", layers);
  if (layer < 0 || layer >= c.layers) fail(Errc::corrupt, place, ": expected a layer of ", c.layers, ", found number ", layer, " from 0 on");
  c.specs[static_cast<std::size_t>(layer)].reads_ngrams = true;
}

}  // namespace

void read_ngrams(const Json& json, const Json& whole, const std::string& place, ModelConfig& c) {
  if (!has_ngrams(c)) return;
  const std::vector<std::int64_t> layers = wholes_at<std::int64_t>(json, "ple_layer_ids", place);
  if (layers.empty()) return;
  set_layer(layers[0] - 1, layers.size(), place + ": ple_layer_ids", c);
  nn::NgramOptions& o = c.ngrams;
  o.tokens = whole_at(json, "ngram_size", place, 3, 2, nn::NgramOptions::most_tokens);
  o.heads = whole_at(json, "heads_per_ngram", place, 8, 1, nn::NgramOptions::most_heads / (o.tokens - 1));
  o.taps = whole_at(json, "ple_conv_kernel_size", place, 4, 1, Convolution::most_taps);
  const std::int64_t width = whole_at(json, "ple_embed_dim", place, c.dim, 1, 1 << 24);
  if (width % o.all_heads() != 0) fail(Errc::corrupt, place, ": ple_embed_dim: expected a multiple of the ", o.all_heads(), " heads of n-grams, found ", width);
  o.width = width / o.all_heads();
  o.parts = whole_at(json, "split_ngram_parts", place, 512, 1, 1 << 20);
  // Of several the first.
  const Json* end = member(json, "eos_token_id");
  if (end != nullptr && end->is_array() && !end->empty()) end = &(*end)[0];
  if (end == nullptr || !is_token_id(*end)) fail(Errc::corrupt, place, ": eos_token_id: expected the token that n-grams do not reach over, found ", end == nullptr ? std::string("nothing") : printable(end->dump()));
  o.end = token_id(*end, place + ": eos_token_id");
  if (const Json* image = member(whole, "image_token_id"); image != nullptr && is_token_id(*image)) o.image = token_id(*image, place + ": image_token_id");
  o.multipliers = wholes_at<std::uint64_t>(json, multipliers_key, place);
  o.offsets = wholes_at<std::int64_t>(json, offsets_key, place);
  o.sizes = wholes_at<std::int64_t>(json, sizes_key, place);
  o.rows = whole_at(json, rows_key, place, 0, 0, most_rows);
  if (o.multipliers.empty() && o.sizes.empty()) {
    const std::int64_t base = whole_at(json, "ngram_vocab_size_base", place, 20'000'000, 2, most_rows / nn::NgramOptions::most_heads);
    make_constants(base, whole_at(json, "make_ngram_vocab_size_divisible_by", place, 128, 1, 1 << 20), static_cast<std::uint64_t>(whole_at(json, "seed", place, 1234, 0, most_rows)), c.vocab, o);
  }
  check(o, place);
}

void read_ngrams(const GgufFile& file, const std::string& prefix, ModelConfig& c) {
  if (!has_ngrams(c)) return;
  const std::string place = file.path().string();
  const std::vector<std::int64_t>* const layers = file.integers(prefix + "ple.layers");
  if (layers == nullptr || layers->empty()) return;
  set_layer((*layers)[0], layers->size(), message(place, ": ", prefix, "ple.layers"), c);
  const auto number = [&](std::string_view key, std::int64_t least, std::int64_t most) {
    const std::string name = message(prefix, key);
    const std::int64_t value = file.integer(name).value_or(-1);
    if (value < least || value > most) fail(Errc::corrupt, place, ": ", name, ": expected a whole number from ", least, " to ", most, ", found ", value);
    return value;
  };
  nn::NgramOptions& o = c.ngrams;
  o.tokens = number("ple.ngram_size", 2, nn::NgramOptions::most_tokens);
  o.heads = number("ple.heads_per_ngram", 1, nn::NgramOptions::most_heads / (o.tokens - 1));
  o.taps = number("ple.conv_kernel", 1, Convolution::most_taps);
  o.width = number("embedding_length_per_layer_input", 1, 1 << 24);
  o.end = number("ple.eos_token_id", 0, most_rows);
  o.image = file.integer(prefix + "ple.image_token_id").value_or(0);
  const auto list = [&](std::string_view key) {
    const auto* numbers = file.integers(message(prefix, key));
    return numbers != nullptr ? *numbers : std::vector<std::int64_t>();
  };
  const std::vector<std::int64_t> multipliers = list("ple.layer_multipliers");
  o.multipliers.assign(multipliers.begin(), multipliers.end());
  o.offsets = list("ple.head_offsets");
  o.sizes = list("ple.head_vocab_sizes");
  const std::string_view name = c.arch->find(Role::ngram_embedding)->gguf;
  const TensorEntry* const table = file.find(name);
  if (table == nullptr) fail(Errc::corrupt, place, ": expected tensor ", name, ", found none of that name");
  if (table->shape.size() != 2) fail(Errc::corrupt, place, ": ", name, ": expected a table of n-grams, found ", to_string(table->shape));
  o.rows = table->shape[0];
  check(o, place);
}

void write_ngrams(const ModelConfig& c, Json& json) {
  if (!has_ngrams(c)) return;
  json["ple_layer_ids"] = Json::array();
  const nn::NgramOptions& o = c.ngrams;
  if (!o.exist()) return;
  json["ple_layer_ids"].push_back(c.ngram_layer() + 1);
  json["ngram_size"] = o.tokens;
  json["heads_per_ngram"] = o.heads;
  json["ple_conv_kernel_size"] = o.taps;
  json["ple_embed_dim"] = o.all_width();
  json["split_ngram_parts"] = o.parts;
  json["eos_token_id"] = o.end;
  if (o.image > 0) json["image_token_id"] = o.image;
  // What its sizes begin with, and a number that leaves the table as it is.
  json["ngram_vocab_size_base"] = o.sizes.front();
  json["make_ngram_vocab_size_divisible_by"] = std::gcd(o.rows, std::int64_t{128});
  json[multipliers_key] = o.multipliers;
  json[offsets_key] = o.offsets;
  json[sizes_key] = o.sizes;
  json[rows_key] = o.rows;
}

void write_ngrams(const ModelConfig& c, const std::string& prefix, GgufWriter& file) {
  const nn::NgramOptions& o = c.ngrams;
  if (!o.exist()) return;
  const auto of_32 = [](std::int64_t number) { return static_cast<std::uint32_t>(number); };
  const std::int32_t layer[] = {static_cast<std::int32_t>(c.ngram_layer())};
  file.key(prefix + "ple.layers", std::span<const std::int32_t>(layer));
  file.key(prefix + "ple.ngram_size", of_32(o.tokens));
  file.key(prefix + "ple.heads_per_ngram", of_32(o.heads));
  file.key(prefix + "ple.conv_kernel", of_32(o.taps));
  file.key(prefix + "ple.eos_token_id", of_32(o.end));
  if (o.image > 0) file.key(prefix + "ple.image_token_id", of_32(o.image));
  file.key(prefix + "embedding_length_per_layer_input", of_32(o.width));
  const std::vector<std::uint64_t> offsets(o.offsets.begin(), o.offsets.end()), sizes(o.sizes.begin(), o.sizes.end());
  file.key(prefix + "ple.layer_multipliers", std::span<const std::uint64_t>(o.multipliers));
  file.key(prefix + "ple.head_offsets", std::span<const std::uint64_t>(offsets));
  file.key(prefix + "ple.head_vocab_sizes", std::span<const std::uint64_t>(sizes));
}

std::vector<std::pair<std::string, std::vector<std::int64_t>>> ngram_tensors(const ModelConfig& c) {
  const nn::NgramOptions& o = c.ngrams;
  if (!o.exist()) return {};
  const std::string begin = message("model.layers.", c.ngram_layer(), ".ple.ple_embedding.");
  return {{begin + "layer_multipliers", {o.multipliers.begin(), o.multipliers.end()}}, {begin + "ngram_heads_offsets", o.offsets}, {begin + "ngram_heads_vocab_sizes", o.sizes}};
}

void read_ngram_tensors(const TensorSource& folder, const std::string& place, ModelConfig& c) {
  if (!c.ngrams.exist()) return;
  auto constants = ngram_tensors(c);
  for (auto& [name, numbers] : constants) {
    const TensorEntry* const entry = folder.find(name);
    if (entry == nullptr) continue;
    const std::vector<std::int64_t> shape{std::ssize(numbers)};
    if (entry->type != "I64" || entry->shape != shape) fail(Errc::corrupt, place, ": ", name, ": expected I64 ", to_string(shape), ", found ", printable(entry->type), " ", to_string(entry->shape));
    std::memcpy(numbers.data(), entry->bytes.data(), numbers.size() * sizeof(std::int64_t));
  }
  nn::NgramOptions& o = c.ngrams;
  o.multipliers.assign(constants[0].second.begin(), constants[0].second.end());
  o.offsets = std::move(constants[1].second);
  o.sizes = std::move(constants[2].second);
  check(o, place);
}

}  // namespace bantam::inline v0::detail
