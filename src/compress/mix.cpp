// llama-quantize's rules as data.
#include "bantam/compress/mix.hpp"

#include <algorithm>
#include <cctype>

namespace bantam::inline v0 {

namespace {

/// Layers, or models, that a rule holds for.
enum class Where : std::uint8_t {
  everywhere,
  first_2,
  first_4,
  first_eighth,
  first_sixteenth,
  more_bits,     ///< the first and the last eighth, and every third between
  more_bits_of_8_experts,
  middle,        ///< all but the first and the last eighth
  shared_heads,  ///< four and more query heads a key-value head: the matrix is small
  shared_heads_or_experts,  ///< or four and more experts beside it
};

struct Rule {
  std::string_view mix;
  Role role;
  Where where;
  std::string_view format;
};

constexpr Mix all[] = {
    {"Q4_0", "i4.g32"},    {"Q4_1", "i4m.g32"},   {"Q5_0", "i5.g32"},    {"Q5_1", "i5m.g32"},   {"Q8_0", "i8.g32"},      {"Q2_K", "q2k.g16"},
    {"Q2_K_S", "q2k.g16"}, {"Q3_K_S", "q3k.g16"}, {"Q3_K_M", "q3k.g16"}, {"Q3_K_L", "q3k.g16"}, {"Q4_K_S", "q4k.g32"},   {"Q4_K_M", "q4k.g32"},
    {"Q5_K_S", "q5k.g32"}, {"Q5_K_M", "q5k.g32"}, {"Q6_K", "q6k.g16"},   {"IQ4_NL", "iq4nl.g32"}, {"IQ4_XS", "iq4xs.g32"},
    {"IQ3_M", "iq3_s.g32"},  {"IQ3_S", "iq3_s.g32"},   {"IQ3_XS", "iq3_s.g32"},  {"IQ3_XXS", "iq3_xxs.g32"}, {"IQ2_M", "iq2_s.g16"}, {"IQ2_S", "iq2_xs.g16"},
    {"IQ2_XS", "iq2_xs.g16"}, {"IQ2_XXS", "iq2_xxs.g32"}, {"IQ1_M", "iq1_m.g16"}, {"IQ1_S", "iq1_s.g32"},
};

/// The first that fits a matrix counts; where none does it is as most are. llama.cpp, src/llama-quant.cpp, release 0.5.0, without an
/// importance matrix where it does without one; tests/peers compares with what it does.
constexpr Rule rules[] = {
    {"Q2_K", Role::v, Where::shared_heads, "q4_k"},
    {"Q2_K", Role::v, Where::everywhere, "q3_k"},
    {"Q2_K", Role::o, Where::everywhere, "q3_k"},
    {"Q2_K", Role::down, Where::everywhere, "q3_k"},
    {"Q2_K_S", Role::v, Where::shared_heads, "q4_k"},
    {"Q2_K_S", Role::down, Where::first_eighth, "q4_k"},
    {"Q3_K_M", Role::v, Where::first_2, "q5_k"},
    {"Q3_K_M", Role::v, Where::everywhere, "q4_k"},
    {"Q3_K_M", Role::o, Where::everywhere, "q4_k"},
    {"Q3_K_M", Role::down, Where::first_sixteenth, "q5_k"},
    {"Q3_K_M", Role::down, Where::everywhere, "q4_k"},
    {"Q3_K_L", Role::v, Where::everywhere, "q5_k"},
    {"Q3_K_L", Role::o, Where::everywhere, "q5_k"},
    {"Q3_K_L", Role::down, Where::everywhere, "q5_k"},
    {"Q4_K_S", Role::v, Where::first_4, "q5_k"},
    {"Q4_K_S", Role::down, Where::first_eighth, "q5_k"},
    {"Q4_K_M", Role::v, Where::more_bits, "q6_k"},
    {"Q4_K_M", Role::down, Where::more_bits, "q6_k"},
    {"Q5_K_M", Role::v, Where::more_bits, "q6_k"},
    {"Q5_K_M", Role::down, Where::more_bits, "q6_k"},
    {"IQ4_NL", Role::v, Where::shared_heads, "q5_k"},
    {"IQ4_NL", Role::down, Where::first_eighth, "q5_k"},
    {"IQ4_XS", Role::v, Where::shared_heads, "q5_k"},
    {"IQ4_XS", Role::down, Where::first_eighth, "q5_k"},
    {"IQ1_S", Role::v, Where::shared_heads_or_experts, "q4_k"},
    {"IQ1_S", Role::v, Where::everywhere, "q2_k"},
    {"IQ1_S", Role::down, Where::first_eighth, "q2_k"},
    {"IQ1_S", Role::embedding, Where::everywhere, "q2_k"},
    {"IQ1_S", Role::o, Where::everywhere, "iq2_xxs"},
    {"IQ1_M", Role::v, Where::shared_heads_or_experts, "q4_k"},
    {"IQ1_M", Role::v, Where::everywhere, "q2_k"},
    {"IQ1_M", Role::down, Where::first_eighth, "q2_k"},
    {"IQ1_M", Role::embedding, Where::everywhere, "q2_k"},
    {"IQ1_M", Role::o, Where::everywhere, "iq2_xxs"},
    {"IQ2_XXS", Role::v, Where::shared_heads_or_experts, "q4_k"},
    {"IQ2_XXS", Role::v, Where::everywhere, "q2_k"},
    {"IQ2_XXS", Role::down, Where::first_eighth, "q2_k"},
    {"IQ2_XXS", Role::embedding, Where::everywhere, "q2_k"},
    {"IQ2_XS", Role::v, Where::shared_heads_or_experts, "q4_k"},
    {"IQ2_XS", Role::v, Where::everywhere, "q2_k"},
    {"IQ2_XS", Role::down, Where::first_eighth, "q2_k"},
    {"IQ2_XS", Role::embedding, Where::everywhere, "q2_k"},
    {"IQ2_S", Role::v, Where::shared_heads_or_experts, "q4_k"},
    {"IQ2_S", Role::v, Where::everywhere, "iq3_s"},
    {"IQ2_S", Role::down, Where::first_eighth, "iq3_s"},
    {"IQ2_S", Role::o, Where::everywhere, "iq3_s"},
    {"IQ2_S", Role::embedding, Where::everywhere, "iq3_s"},
    {"IQ2_M", Role::v, Where::shared_heads_or_experts, "q4_k"},
    {"IQ2_M", Role::v, Where::everywhere, "iq3_s"},
    {"IQ2_M", Role::down, Where::first_eighth, "iq3_s"},
    {"IQ2_M", Role::o, Where::everywhere, "iq3_s"},
    {"IQ2_M", Role::embedding, Where::everywhere, "iq3_s"},
    {"IQ3_XXS", Role::v, Where::shared_heads, "q4_k"},
    {"IQ3_XXS", Role::q, Where::everywhere, "iq2_s"},
    {"IQ3_XXS", Role::k, Where::everywhere, "iq2_s"},
    {"IQ3_XXS", Role::o, Where::everywhere, "iq3_s"},
    {"IQ3_XXS", Role::embedding, Where::everywhere, "iq3_s"},
    {"IQ3_XS", Role::v, Where::shared_heads, "q4_k"},
    {"IQ3_XS", Role::q, Where::everywhere, "iq3_xxs"},
    {"IQ3_XS", Role::k, Where::everywhere, "iq3_xxs"},
    {"IQ3_XS", Role::gate, Where::middle, "iq3_xxs"},
    {"IQ3_XS", Role::up, Where::middle, "iq3_xxs"},
    {"IQ3_S", Role::v, Where::shared_heads, "q4_k"},
    {"IQ3_M", Role::v, Where::everywhere, "q4_k"},
    {"IQ3_M", Role::o, Where::everywhere, "q4_k"},
    {"IQ3_M", Role::down, Where::first_eighth, "q4_k"},
    {"IQ3_M", Role::down, Where::more_bits_of_8_experts, "q4_k"},
};

/// Those that llama-quantize gives no more bits to for 8 experts or 80 layers than its rules for few bits do.
bool has_few_bits(const Mix& mix) noexcept { return mix.name.starts_with("IQ1") || mix.name.starts_with("IQ2"); }

/// Mixtral, 8 experts beside which attention is small: more bits for it, whatever the rules say.
std::string_view format_beside_8_experts(const Mix& mix, Role role) noexcept {
  constexpr std::string_view low[] = {"Q2_K", "Q3_K_S", "Q3_K_M", "IQ4_NL", "Q4_K_S", "Q4_K_M", "IQ4_XS", "IQ3_XXS", "IQ3_XS", "IQ3_S", "IQ3_M"};
  if (has_few_bits(mix)) return role == Role::k ? "q4_k" : role == Role::o ? "q5_k" : "";
  if (role == Role::k || role == Role::v) return "q8_0";
  if (role != Role::o) return "";
  return std::ranges::find(low, mix.name) != std::end(low) ? "q5_k" : mix.format;
}

/// Experts count as the MLP that they stand for.
Role role_in_rules(Role role) noexcept {
  return role == Role::expert_gate ? Role::gate : role == Role::expert_up ? Role::up : role == Role::expert_down ? Role::down : role;
}

bool holds(Where where, std::int64_t layer, const ModelConfig& config) noexcept {
  const std::int64_t layers = config.layers;
  switch (where) {
    case Where::everywhere: return true;
    case Where::first_2: return layer < 2;
    case Where::first_4: return layer < 4;
    case Where::first_eighth: return layer < layers / 8;
    case Where::first_sixteenth: return layer < layers / 16;
    case Where::more_bits: return layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
    case Where::more_bits_of_8_experts: return config.router.experts == 8 && holds(Where::more_bits, layer, config);
    case Where::middle: return layer >= layers / 8 && layer < 7 * layers / 8;
    case Where::shared_heads_or_experts: return config.router.experts >= 4 || holds(Where::shared_heads, layer, config);
    case Where::shared_heads: return config.heads / config.kv_heads >= 4;
  }
  return false;
}

}  // namespace

std::span<const Mix> mixes() noexcept { return all; }

const Mix* find_mix(std::string_view name) noexcept {
  const auto upper = [](char c) { return static_cast<char>(std::toupper(static_cast<unsigned char>(c))); };
  const auto found = std::ranges::find_if(all, [&](const Mix& mix) { return std::ranges::equal(name, mix.name, {}, upper); });
  return found == std::end(all) ? nullptr : found;
}

const FormatInfo& format_in(const Mix& mix, Role role, std::int64_t layer, const ModelConfig& config) {
  // The head, and the embedding where it is the head.
  if (role == Role::head || (role == Role::embedding && config.tied)) {
    const bool whole = config.dim % 256 == 0;
    return find_format(mix.name == "Q8_0" ? "q8_0" : has_few_bits(mix) || mix.name == "IQ3_XXS" ? whole ? "q5_k" : "q8_0" : "q6_k");
  }
  if (role == Role::per_layer_model_projection) return find_format("f16");  // llama-quantize leaves it as it is
  if (const std::string_view format = format_beside_8_experts(mix, role); config.router.experts == 8 && !format.empty()) return find_format(format);
  role = role_in_rules(role);
  const auto fits = [&](const Rule& rule) { return rule.mix == mix.name && rule.role == role && holds(rule.where, layer, config); };
  const auto rule = std::ranges::find_if(rules, fits);
  const std::string_view format = rule == std::end(rules) ? mix.format : rule->format;
  // Llama 2 70B and models of its size: 8 heads share one of v, which makes more bits of it cheap.
  const bool sparing = format == "q3_k" || format == "q4_k" || format == "q3k.g16" || format == "q4k.g32";
  if (role == Role::v && config.layers == 80 && config.heads > config.kv_heads && sparing && !has_few_bits(mix)) return find_format("q5_k");
  return find_format(format);
}

}  // namespace bantam::inline v0
