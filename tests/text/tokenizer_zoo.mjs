// Writes tokenizer_zoo.json: small tokenizers with every component of tokenizer.json, and what Hugging Face's own library (npm
// "tokenizers", the Rust one) makes of odd texts with them; of the shared vocabularies the ids alone.
//   npm install --ignore-scripts tokenizers && node tokenizer_zoo.mjs SHARED/tokenizers > tokenizer_zoo.json
import { createRequire } from "node:module";
import { writeFileSync } from "node:fs";
const { Tokenizer } = createRequire(process.cwd() + "/")("tokenizers");

// A generator of our own: the same texts everywhere.
let state = 1;
const random = (n) => { state = Math.imul(state, 1103515245) + 12345 >>> 0; return (state >>> 8) % n; };
const pick = (list) => list[random(list.length)];

const texts = [
  "", " ", "Hello, world!", "don't we'll I'M they'RE you've", "1 22 333 4444 3.14e-10 \u00bd \u0661\u0662", "x = [i for i in range(10)]  # code\n\treturn\r\n",
  "na\u00efve caf\u00e9 \u0130stanbul \u00df \u01c5 \u03a3\u03c3\u03c2", "\u4f60\u597d\uff0c\u4e16\u754c\u3002\u30ab\u30bf\u30fc \ud55c\uad6d\uc5b4",
  "\u041f\u0440\u0438\u0432\u0435\u0442 \u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627 \u0928\u092e\u0938\u094d\u0924\u0947 \u0e44\u0e17\u0e22",
  "\u{1f468}\u200d\u{1f469}\u200d\u{1f467} \u{1f3f3}\ufe0f\u200d\u{1f308} \u{1f44d}\u{1f3fd} \u{1f1e9}\u{1f1ea}", "\ufb01 \u3300 \u212b \ufdfa \u2460 \uff46\uff55\uff21 \u00bd",
  "e\u0301 a\u0323\u0302 \ufb01\u0301 \u05d0\u05bc", "  two  lead", "trail  ", "\n\n\n a\r\n", "\u00a0\u2003\u3000\u200b\u2028\ufeff\u0085", "\u0001\u001f\u007f\u0085",
  "<s> </s> <unk>x<pad> [CLS] [MASK]word [UNK]", "##ing \u2581x \u2581\u2581 <0xA>", "foo_bar FOO-BAR f(b); //", "=== --- ... !!! ?? ,; \u201cq\u201d \u2026",
  "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa b", "a.b ,c !d 'e' it 's n't", "\u{10ffff}\ue000\ufffd"];
const letters = [..."abcdehilnorstwxyz  ABH\u00e9\u4e16\u0301 \u2581.,!'0123\n\u{1f44d}_-"];
while (texts.length < 64) texts.push(Array.from({ length: 1 + random(30) }, () => pick(letters)).join(""));

const bytes = Object.fromEntries(Array.from({ length: 256 }, (_, b) => [`<0x${b.toString(16).toUpperCase().padStart(2, "0")}>`, b]));
const byteAlphabet = (() => {
  let next = 256;
  return Array.from({ length: 256 }, (_, b) => String.fromCharCode((b > 32 && b < 127) || (b > 160 && b !== 173) ? b : next++));
})();
const special = (id, content, more = {}) => ({ id, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special: true, ...more });
const vocabOf = (pieces) => Object.fromEntries([...new Set(pieces)].map((piece, id) => [piece, id]));
const words = ["he", "hell", "hello", "hel", "lo", "wor", "world", "the", "th", "is", "it", "an", "in", "ing", "er", "re", "st", "on", "do", "ab", "ba", "aa", "aaaa", "\u4e16\u754c"];
const chars = [..."abcdefghijklmnopqrstuvwxyzABHT0123456789.,!?'_-\u00e9\u4e16\u754c \u2581"];

function bpe(options = {}, extra = {}) {
  const { mark = "", begin = "", continuing = "", end = "", alphabet = chars, unk = "<unk>", fallback = false } = options;
  const pieces = unk ? [unk] : [];
  if (fallback) pieces.push(...Object.keys(bytes));
  const forms = (c) => [c, ...(continuing ? [continuing + c] : []), ...(end ? [c + end, ...(continuing ? [continuing + c + end] : [])] : [])];
  for (const c of alphabet) pieces.push(...forms(c));
  const merges = [];
  const learn = (symbols) => {
    let list = symbols;
    while (list.length > 1) {
      const right = continuing && list[1].startsWith(continuing) ? list[1].slice(continuing.length) : list[1];
      const pair = [list[0], list[1]];
      if (!merges.some((m) => m[0] === pair[0] && m[1] === pair[1])) merges.push(pair);
      pieces.push(list[0] + right);
      list = [list[0] + right, ...list.slice(2)];
    }
  };
  for (const word of words) {
    for (const form of mark ? [word, mark + word] : [word]) {
      const spelled = [...form].filter((c) => alphabet.includes(c));
      if (spelled.length !== [...form].length) continue;
      learn(spelled.map((c, i) => (i > 0 ? continuing : "") + c + (i + 1 === spelled.length ? end : "")));
    }
  }
  return { type: "BPE", dropout: null, unk_token: unk || null, continuing_subword_prefix: continuing || null, end_of_word_suffix: end || null,
    fuse_unk: false, byte_fallback: fallback, ignore_merges: false, vocab: vocabOf(pieces), merges, ...extra };
}
function unigram(extra = {}, fallback = false) {
  const pieces = ["<unk>", "</s>", ...(fallback ? Object.keys(bytes) : []), ...new Set([...chars, ...words, ...words.map((w) => "\u2581" + w), "s", "\u2581s", "\u2581\u2581"])];
  return { type: "Unigram", unk_id: 0, byte_fallback: fallback, vocab: pieces.map((p, i) => [p, i < 2 ? 0 : -(2 + ((i * 7919) % 997) / 100.3)]), ...extra };
}
const wordpiece = (extra = {}) => ({ type: "WordPiece", unk_token: "[UNK]", continuing_subword_prefix: "##", max_input_chars_per_word: 100,
  vocab: vocabOf(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ...chars, ...chars.map((c) => "##" + c), ...words, ...words.map((w) => "##" + w)]), ...extra });
const wordlevel = { type: "WordLevel", unk_token: "<unk>", vocab: vocabOf(["<unk>", ...words, ...chars, "Hello", ","]) };
const byteLevel = (use_regex, add_prefix_space) => ({ type: "ByteLevel", add_prefix_space, trim_offsets: true, use_regex });
const bytesBpe = (extra) => bpe({ alphabet: byteAlphabet, unk: "", mark: "\u0120" }, extra);
const unk = special(0, "<unk>");
const bertTokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"].map((t, i) => special(i, t, t === "[MASK]" ? { lstrip: true } : {}));
const regex = (Regex) => ({ Regex });
const text = (String) => ({ String });
const metaspace = (prepend_scheme, split = true) => ({ type: "Metaspace", replacement: "\u2581", prepend_scheme, split });
const seq = (key, ...list) => ({ type: "Sequence", [key]: list });
const fuse = { type: "Fuse" };
const wpDecoder = { type: "WordPiece", prefix: "##", cleanup: true };

const cases = [];
const add = (name, model, parts = {}) => cases.push({ name, json: { version: "1.0", truncation: null, padding: null, added_tokens: model.type === "WordPiece" ? bertTokens : model.unk_token === null ? [] : [unk],
  normalizer: null, pre_tokenizer: null, post_processor: null, decoder: fuse, model, ...parts } });

for (const normalizer of [{ type: "NFC" }, { type: "NFD" }, { type: "NFKC" }, { type: "NFKD" }, { type: "Lowercase" }, { type: "Strip", strip_left: true, strip_right: false },
  { type: "Strip", strip_left: false, strip_right: true }, { type: "StripAccents" }, seq("normalizers", { type: "NFD" }, { type: "StripAccents" }), { type: "Nmt" },
  { type: "Prepend", prepend: "\u2581" }, { type: "Replace", pattern: text(" "), content: "\u2581" }, { type: "Replace", pattern: regex("\\s+|\\d"), content: "_" },
  { type: "BertNormalizer", clean_text: true, handle_chinese_chars: true, strip_accents: null, lowercase: true },
  { type: "BertNormalizer", clean_text: false, handle_chinese_chars: true, strip_accents: true, lowercase: false },
  { type: "BertNormalizer", clean_text: true, handle_chinese_chars: false, strip_accents: false, lowercase: true },
  ]) add("normalizer " + JSON.stringify(normalizer), bpe({ mark: "\u2581", fallback: true }), { normalizer, decoder: seq("decoders", { type: "ByteFallback" }, fuse) });
add("normalizer ByteLevel", bytesBpe(), { normalizer: { type: "ByteLevel" }, decoder: { type: "ByteLevel", add_prefix_space: true, trim_offsets: true, use_regex: true } });

const behaviors = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"];
for (const pre_tokenizer of [metaspace("always"), metaspace("first"), metaspace("never"), metaspace("always", false), { type: "Metaspace", replacement: "\u2581", add_prefix_space: true },
  { type: "Whitespace" }, { type: "WhitespaceSplit" }, { type: "BertPreTokenizer" }, { type: "UnicodeScripts" }, { type: "CharDelimiterSplit", delimiter: "a" },
  { type: "FixedLength", length: 3 }, { type: "Digits", individual_digits: true }, { type: "Digits", individual_digits: false },
  ...behaviors.map((behavior) => ({ type: "Punctuation", behavior })), ...behaviors.map((behavior) => ({ type: "Split", pattern: text("a"), behavior, invert: false })),
  ...behaviors.map((behavior) => ({ type: "Split", pattern: regex("[^\\s\\w]+|\\d"), behavior, invert: false })),
  { type: "Split", pattern: regex("\\w+"), behavior: "Removed", invert: true }, { type: "Split", pattern: regex("[\\p{L}&&[^a-m]]+|\\p{Han}|\\h"), behavior: "Isolated", invert: false },
  seq("pretokenizers", { type: "WhitespaceSplit" }, metaspace("always")), seq("pretokenizers", { type: "Digits", individual_digits: true }, { type: "UnicodeScripts" })])
  add("pre-tokenizer " + JSON.stringify(pre_tokenizer), unigram(), { pre_tokenizer, decoder: metaspace("never") });
for (const options of [[true, true], [true, false], [false, true], [false, false]])
  add("pre-tokenizer ByteLevel " + options, bytesBpe(), { pre_tokenizer: byteLevel(...options), decoder: byteLevel(true, true), post_processor: byteLevel(true, true) });

add("bpe unknown", bpe());
add("bpe unknown fused", bpe({}, { fuse_unk: true }));
add("bpe without unknown", bpe({ unk: "" }));
add("bpe bytes for unknown", bpe({ fallback: true }), { decoder: seq("decoders", { type: "Replace", pattern: text("\u2581"), content: " " }, { type: "ByteFallback" }, fuse, { type: "Strip", content: " ", start: 1, stop: 0 }) });
add("bpe word end", bpe({ end: "</w>" }), { normalizer: { type: "Lowercase" }, pre_tokenizer: { type: "BertPreTokenizer" }, decoder: { type: "BPEDecoder", suffix: "</w>" } });
add("bpe continuing", bpe({ continuing: "##" }), { pre_tokenizer: { type: "Whitespace" }, decoder: wpDecoder });
add("bpe continuing and word end", bpe({ continuing: "@@", end: "</w>" }), { pre_tokenizer: { type: "WhitespaceSplit" }, decoder: { type: "BPEDecoder", suffix: "</w>" } });
add("bpe bytes and word end", bpe({ alphabet: byteAlphabet, unk: "", end: "</w>" }), { pre_tokenizer: byteLevel(true, false), decoder: byteLevel(true, true) });
add("bpe whole words", bytesBpe({ ignore_merges: true }), { pre_tokenizer: byteLevel(true, false), decoder: byteLevel(true, true) });
add("unigram", unigram(), { pre_tokenizer: metaspace("always"), decoder: metaspace("always") });
add("unigram whole texts", unigram(), { normalizer: { type: "Replace", pattern: text(" "), content: "\u2581" }, decoder: metaspace("never") });
add("unigram bytes for unknown", unigram({}, true), { pre_tokenizer: metaspace("first"), decoder: seq("decoders", { type: "Replace", pattern: text("\u2581"), content: " " }, { type: "ByteFallback" }, fuse) });
add("wordpiece", wordpiece(), { normalizer: { type: "BertNormalizer", clean_text: true, handle_chinese_chars: true, strip_accents: null, lowercase: true },
  pre_tokenizer: { type: "BertPreTokenizer" }, post_processor: { type: "BertProcessing", sep: ["[SEP]", 3], cls: ["[CLS]", 2] }, decoder: wpDecoder });
add("wordpiece without cleanup", wordpiece({ max_input_chars_per_word: 6 }), { pre_tokenizer: { type: "WhitespaceSplit" }, decoder: { type: "WordPiece", prefix: "##", cleanup: false } });
add("wordlevel without decoder", wordlevel, { pre_tokenizer: { type: "Whitespace" }, decoder: null });
add("decoder of repeats", wordlevel, { pre_tokenizer: { type: "FixedLength", length: 1 }, decoder: { type: "CTC", pad_token: "x", word_delimiter_token: "_", cleanup: true } });
add("decoder that strips each token", bpe(), { decoder: seq("decoders", { type: "Strip", content: "l", start: 1, stop: 0 }, { type: "Replace", pattern: regex("[aeiou]"), content: "" }, fuse) });
const small = bpe(), next = Object.keys(small.vocab).length;
for (const more of [{}, { single_word: true }, { lstrip: true }, { rstrip: true }, { normalized: true }, { single_word: true, normalized: true, special: false }, { lstrip: true, rstrip: true, special: false }])
  add("added token " + JSON.stringify(more), small, { added_tokens: [unk, special(next, "ab1", { ...more }), special(next + 1, more.normalized ? "[mask]" : "[MASK]", more)], normalizer: { type: "Lowercase" } });
const around = bytesBpe(), first = Object.keys(around.vocab).length;
add("processors in sequence", around, { added_tokens: [special(first, "<s>"), special(first + 1, "</s>")], pre_tokenizer: byteLevel(true, false), decoder: byteLevel(true, true),
  post_processor: seq("processors", byteLevel(true, true), { type: "TemplateProcessing", single: [{ SpecialToken: { id: "<s>", type_id: 0 } }, { Sequence: { id: "A", type_id: 0 } }, { SpecialToken: { id: "</s>", type_id: 0 } }],
    pair: [{ Sequence: { id: "A", type_id: 0 } }, { Sequence: { id: "B", type_id: 0 } }], special_tokens: { "<s>": { id: "<s>", ids: [first], tokens: ["<s>"] }, "</s>": { id: "</s>", ids: [first + 1], tokens: ["</s>"] } } }) });

async function run(tokenizer, decodes) {
  const ids = [], decoded = [];
  for (const text of texts) {
    const encoding = await tokenizer.encode(text, null, { addSpecialTokens: true });
    ids.push(encoding.getIds().join(" "));
    if (decodes) decoded.push(encoding.getIds().length ? await tokenizer.decode(encoding.getIds(), true) : "");
  }
  return decodes ? { ids, decoded } : { ids };
}
// A model that several tokenizers have stands in the file once.
const models = [];
const numberOf = (model) => {
  const line = JSON.stringify(model);
  if (!models.includes(line)) models.push(line);
  return models.indexOf(line);
};
const lines = [], shared = [];
for (const { name, json } of cases) {
  try {
    writeFileSync("/tmp/zoo.json", JSON.stringify(json));
    const found = await run(Tokenizer.fromFile("/tmp/zoo.json"), true);
    lines.push(JSON.stringify({ name, json: { ...json, model: numberOf(json.model) }, ...found }));
  } catch (error) {
    console.error(name, error.message);
  }
}
for (const name of ["hf-phi-2", "hf-roberta-base", "hf-t5-small"]) {
  shared.push(JSON.stringify({ name, ...(await run(Tokenizer.fromFile(`${process.argv[2]}/${name}/tokenizer.json`), false)) }));
}
console.log(`{"texts":${JSON.stringify(texts)},\n"models":[\n${models.join(",\n")}],\n"cases":[\n${lines.join(",\n")}],\n"shared":[\n${shared.join(",\n")}]}`);
