// The pre-tokenizers of well-known model families, as their own tokenizer.json files define them.
#include <algorithm>
#include <array>

#include "text/spec.hpp"

namespace bantam::inline v0 {

namespace {

using Step = PreTokenizerStep;

// GPT-2. The last alternative, \s+, is what remains between matches anyway.
#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
// The contractions of GPT-4's and later expressions.
#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
// What follows the numbers in them.
#define GPT4_TAIL " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
// Words of GPT-4o's expression, that part upper and lower case: with its contractions, or without (Tekken).
#define CASED_WORDS(end)                                                                          \
  "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+" end \
  "|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*" end
#define GPT4O_TAIL " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
// Blocks are given by number: several of their characters look like others or have canonical twins.
// Ideographs and all blocks below them from U+0800 on, and Hangul.
#define DEEPSEEK_CJK "[\\x{4e00}-\\x{9fa5}\\x{800}-\\x{4e00}\\x{ac00}-\\x{d7ff}]+"
// ASCII and full-width punctuation, quotation marks, ideographic space and stops.
#define DEEPSEEK_PUNCTUATION \
  "[!-/:-~\\x{ff01}-\\x{ff0f}\\x{ff1a}-\\x{ff5e}\\x{2018}-\\x{201f}\\x{3000}-\\x{3002}]+"
// Ideographs, Hiragana, Katakana.
#define DEEPSEEK_V3_CJK "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}]+"
// Cased letters, as a list.
#define DEEPSEEK_LETTERS "[" \
  "\\x{41}-\\x{5A}\\x{61}-\\x{7A}\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}" \
  "\\x{1C4}-\\x{293}\\x{295}-\\x{2AF}\\x{370}-\\x{373}\\x{376}-\\x{377}\\x{37B}-\\x{37D}\\x{37F}\\x{386}" \
  "\\x{388}-\\x{38A}\\x{38C}\\x{38E}-\\x{3A1}\\x{3A3}-\\x{3F5}\\x{3F7}-\\x{481}\\x{48A}-\\x{52F}\\x{531}-\\x{556}" \
  "\\x{10A0}-\\x{10C5}\\x{13A0}-\\x{13F5}\\x{13F8}-\\x{13FD}\\x{1C90}-\\x{1CBA}\\x{1CBD}-\\x{1CBF}" \
  "\\x{1D00}-\\x{1D2B}\\x{1D6B}-\\x{1D77}\\x{1D79}-\\x{1D9A}\\x{1E00}-\\x{1F15}\\x{1F18}-\\x{1F1D}" \
  "\\x{1F20}-\\x{1F45}\\x{1F48}-\\x{1F4D}\\x{1F50}-\\x{1F57}\\x{1F59}\\x{1F5B}\\x{1F5D}\\x{1F5F}-\\x{1F7D}" \
  "\\x{1F80}-\\x{1FB4}\\x{1FB6}-\\x{1FBC}\\x{1FBE}\\x{1FC2}-\\x{1FC4}\\x{1FC6}-\\x{1FCC}\\x{1FD0}-\\x{1FD3}" \
  "\\x{1FD6}-\\x{1FDB}\\x{1FE0}-\\x{1FEC}\\x{1FF2}-\\x{1FF4}\\x{1FF6}-\\x{1FFC}\\x{2102}\\x{2107}" \
  "\\x{210A}-\\x{2113}\\x{2115}\\x{2119}-\\x{211D}\\x{2124}\\x{2126}\\x{2128}\\x{212A}-\\x{212D}" \
  "\\x{212F}-\\x{2134}\\x{2139}\\x{213C}-\\x{213F}\\x{2145}-\\x{2149}\\x{214E}\\x{2183}-\\x{2184}" \
  "\\x{2C00}-\\x{2C7B}\\x{2C7E}-\\x{2CE4}\\x{2CEB}-\\x{2CEE}\\x{2CF2}-\\x{2CF3}\\x{A640}-\\x{A66D}" \
  "\\x{A680}-\\x{A69B}\\x{A722}-\\x{A76F}\\x{A771}-\\x{A787}\\x{A78B}-\\x{A78E}\\x{AB70}-\\x{ABBF}" \
  "\\x{FB00}-\\x{FB06}\\x{FB13}-\\x{FB17}\\x{FF21}-\\x{FF3A}\\x{FF41}-\\x{FF5A}\\x{10400}-\\x{1044F}" \
  "\\x{104B0}-\\x{104D3}\\x{104D8}-\\x{104FB}\\x{10C80}-\\x{10CB2}\\x{10CC0}-\\x{10CF2}\\x{118A0}-\\x{118DF}" \
  "\\x{1E900}-\\x{1E943}" "]+"
// ASCII punctuation with the word behind it, words with their marks, punctuation and symbols.
#define DEEPSEEK_V3_WORDS \
  "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+"
// Ideographs with their extensions and radicals, Hiragana, Katakana, Thai, Lao, Khmer, Burmese, Hangul.
#define AFMOE_ASIAN                                                                                                       \
  "[\\x{4e00}-\\x{9fff}\\x{3400}-\\x{4dbf}\\x{f900}-\\x{faff}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}\\x{ff65}-\\x{ff9f}"      \
  "\\x{2f00}-\\x{2fdf}\\x{e40}-\\x{e7f}\\x{e80}-\\x{eff}\\x{1780}-\\x{17ff}\\x{1000}-\\x{109f}\\x{aa60}-\\x{aa7f}"            \
  "\\x{a9e0}-\\x{a9ff}\\x{ac00}-\\x{d7af}\\x{1100}-\\x{11ff}]+"
// Hangul; punctuation that Chinese texts use; Bopomofo; ideographs and kana.
#define YOUTU_ASIAN                                                                                                       \
  "[\\x{ac00}-\\x{d7a3}\\x{3131}-\\x{318e}]+|[\\x{ff01}\\x{2026}\\x{201c}\\x{201d}\\x{2018}\\x{2019}\\x{2014}\\x{ff1a}"          \
  "\\x{ff1b}\\x{ff0c}\\x{3001}-\\x{303f}\\x{fe30}-\\x{fe4f}]+|[\\x{3105}-\\x{312f}]+|" DEEPSEEK_V3_CJK
// What ends a sentence in Latin, Chinese, Indic and Arabic scripts.
#define BLOOM " ?[^(\\s|.,!?\\x{2026}\\x{3002}\\x{ff0c}\\x{3001}\\x{964}\\x{6d4}\\x{60c})]+"

Step isolated(std::string pattern) { return {.kind = Step::Kind::split, .pattern = std::move(pattern)}; }

std::vector<Step> steps(std::initializer_list<const char*> patterns) {
  std::vector<Step> out;
  for (const char* pattern : patterns) out.push_back(isolated(pattern));
  return out;
}

struct Family {
  std::string_view name;
  bool ignore_merges = false;
  bool adds_bos = false;
  std::vector<std::string_view> gguf_names;
  std::vector<Step> steps;
};

const std::vector<Family>& families() {
  static const std::vector<Family> list = {
      {"gpt-2", false, false,
       {"gpt-2", "gpt2", "phi-2", "mpt", "olmo", "jais", "trillion", "gigachat", "mellum", "modern-bert", "jina-es", "jina-de",
        "jina-v2-es", "jina-v2-de", "a.x-4.0", "granite-docling", "exaone4", "jina-v1-en", "jina-v2-code", "roberta-bpe"},
       steps({GPT2})},
      {"llama-3", true, true,
       {"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "lfm2", "midm-2.0", "jina-v5-nano"},
       steps({CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|" GPT4_TAIL})},
      // Llama 3's expression, without its other habits.
      {"gpt-4", false, false, {"dbrx", "smaug-bpe", "chatglm-bpe", "glm4"},
       steps({CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|" GPT4_TAIL})},
      {"qwen2", false, false,
       {"qwen2", "stablelm2", "hunyuan", "deepseek-r1-qwen", "megrez", "grok-2", "kormo", "f2llmv2", "solar-open"},
       steps({CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|" GPT4_TAIL})},
      {"qwen3.5", false, false, {"qwen35"},
       steps({CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*"
                           "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"})},
      {"jais-2", false, false, {"jais-2"},
       steps({CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+"
                           "|\\s{512}(?!\\S)|\\s{256}(?!\\S)|\\s{128}(?!\\S)|\\s{64}(?!\\S)|\\s{32}(?!\\S)|\\s{16}(?!\\S)"
                           "|\\s{8}(?!\\S)|\\s{4}(?!\\S)|\\s{1,2}(?!\\S)|\\s{1}"})},
      {"minicpm5", true, false, {"minicpm5"},
       steps({"\\p{N}{1,3}", CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}+|" GPT4_TAIL})},
      {"ufakzeka", false, false, {"ufakzeka"}, steps({"[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|" GPT4_TAIL})},
      {"laguna", false, false, {"laguna"},
       steps({"[^\\n]+|[\\n]+", CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|" GPT4_TAIL})},
      {"seed-coder", false, false, {"seed-coder"},
       steps({CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"})},
      {"bailingmoe", false, false, {"bailingmoe", "bailingmoe2", "llada-moe"},
       steps({"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"})},
      {"exaone-moe", false, false, {"exaone-moe"},
       steps({CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?"
                           "|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"})},
      {"starcoder", false, false,
       {"starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b", "mellum2"}, steps({"\\p{N}", GPT2})},
      {"falcon", false, false, {"falcon"}, steps({"[\\p{P}\\$\\+<=>\\^~\\|`]+", GPT2, "[0-9][0-9][0-9]"})},
      {"deepseek-llm", false, false, {"deepseek-llm"},
       steps({"[\r\n]", "\\s?" DEEPSEEK_LETTERS, "\\s?" DEEPSEEK_PUNCTUATION, "\\s+$", DEEPSEEK_CJK, "\\p{N}+"})},
      {"deepseek-coder", false, false, {"deepseek-coder"},
       steps({"[\r\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", DEEPSEEK_CJK, "\\p{N}"})},
      {"deepseek-v3", false, false, {"deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"},
       steps({"\\p{N}{1,3}", DEEPSEEK_V3_CJK, DEEPSEEK_V3_WORDS "[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"})},
      {"spark2.5", false, false, {"spark2_5"},
       steps({"\\p{N}{1,3}", DEEPSEEK_V3_CJK, DEEPSEEK_V3_WORDS "|[\r\n]|\\s+(?!\\S)|\\s+", "\\p{N}"})},
      {"afmoe", false, false, {"afmoe"},
       steps({"\\p{Nd}{1,3}(?=(?:\\p{Nd}{3})*(?!\\p{Nd}))", AFMOE_ASIAN,
              DEEPSEEK_V3_WORDS "[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"})},
      {"gpt-4o", false, false, {"gpt-4o", "llama4", "minimax-m2", "kanana2", "talkie"},
       steps({CASED_WORDS(CONTRACTIONS "?") "|\\p{N}{1,3}|" GPT4O_TAIL})},
      {"gpt-4o whole", true, false, {"granite-embed-multi-97m"}, steps({CASED_WORDS(CONTRACTIONS "?") "|\\p{N}{1,3}|" GPT4O_TAIL})},
      {"tiny-aya", false, false, {"tiny_aya", "cohere2moe"},
       steps({"\\d{1,3}(?=(?:\\d{3})*\\b)", CASED_WORDS(CONTRACTIONS "?") "|\\p{N}{1,3}|" GPT4O_TAIL})},
      {"youtu", true, false, {"youtu"}, steps({YOUTU_ASIAN, CASED_WORDS(CONTRACTIONS "?") "|\\p{N}|" GPT4O_TAIL})},
      {"tekken", true, true, {"tekken"}, steps({CASED_WORDS("") "|\\p{N}|" GPT4O_TAIL})},
      // Han is cut apart, so the other letters of the expression leave it out.
      {"kimi-k2", false, false, {"kimi-k2"},
       steps({"[\\p{Han}]+|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]*"
              "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]+" CONTRACTIONS "?|[^\\r\\n\\p{L}\\p{N}]?"
              "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]*" CONTRACTIONS
              "?|\\p{N}{1,3}|" GPT4_TAIL})},
      {"superbpe", false, false, {"superbpe"}, steps({"\\p{N}+", "\\d{1,3}(?=(?:\\d{3})*(?!\\d))"})},
      {"chameleon", false, true, {"chameleon"},
       steps({"<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", "([\\t\\n]|    |  )", "\\p{N}", "[\\p{P}!-/:-@\\[-`{-~]", GPT2})},
      {"bloom", false, false, {"bloom", "poro-chat", "gpt3-finnish"}, steps({BLOOM})},
      {"viking", false, false, {"viking"}, steps({BLOOM, "\\p{N}"})},
      // What files made before the key tokenizer.ggml.pre existed are read with.
      {"default", false, false, {"default", ""}, steps({"[\\p{P}\\$\\+<=>\\^~\\|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"})},
  };
  return list;
}

}  // namespace

const KnownPreTokenizer* find_pre_tokenizer(std::string_view gguf_name) {
  static const std::vector<std::pair<std::string_view, KnownPreTokenizer>> list = [] {
    std::vector<std::pair<std::string_view, KnownPreTokenizer>> out;
    for (const Family& f : families()) {
      for (const std::string_view name : f.gguf_names) out.push_back({name, {f.name, f.ignore_merges, f.adds_bos, f.steps}});
    }
    return out;
  }();
  const auto found = std::ranges::find(list, gguf_name, &std::pair<std::string_view, KnownPreTokenizer>::first);
  return found == list.end() ? nullptr : &found->second;
}

namespace {

bool same_steps(const std::vector<Step>& a, const std::vector<Step>& b) {
  return std::ranges::equal(a, b, [](const Step& x, const Step& y) {
    return x.kind == y.kind && x.pattern == y.pattern && x.behavior == y.behavior && x.invert == y.invert;
  });
}

}  // namespace

std::string_view name_of_pre_tokenizer(const std::vector<PreTokenizerStep>& steps) {
  for (const Family& f : families()) {
    if (same_steps(f.steps, steps)) return f.name;
  }
  return {};
}

std::string_view gguf_name_of_pre_tokenizer(const std::vector<PreTokenizerStep>& steps, bool ignore_merges) {
  for (const Family& f : families()) {
    if (f.ignore_merges == ignore_merges && same_steps(f.steps, steps)) return f.gguf_names.front();
  }
  return {};
}

}  // namespace bantam::inline v0
