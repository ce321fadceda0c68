// Time and memory of every parser at n and 32 n of the input that is worst for it: linear, both. A parser is a line.
#include <malloc.h>

#include <algorithm>
#include <functional>
#include <unordered_set>

#include "bantam/bantam.hpp"
#include "bantam/io/gguf.hpp"
#include "bantam/io/safetensors.hpp"
#include "hostile/allocation_meter.hpp"
#include "hostile/hostile_file.hpp"
#include "hostile/safetensors_builder.hpp"
#include "io/json.hpp"
#include "io/safetensors_index.hpp"
#include "limits.hpp"
#include "text/utf8.hpp"
#include "tiny_model.hpp"

using namespace bantam;
using namespace bantam::test;

namespace {

std::string repeated(std::string_view piece, std::size_t count) {
  std::string out;
  out.reserve(piece.size() * count);
  for (; count > 0; --count) out += piece;
  return out;
}

/// "a0,a1,a2": item(i) for each i, commas between.
template <class Item>
std::string listed(std::size_t count, Item&& item) {
  std::string out;
  for (std::size_t i = 0; i < count; ++i) out.append(i == 0 ? "" : ",").append(item(i));
  return out;
}

std::string number(std::size_t i) { return std::to_string(i); }
std::string quoted(const std::string& text) { return '"' + text + '"'; }

// Readers: each takes the bytes of a file, however that ends ------------------------------------------------------------

template <class Open>
auto from_file(const char* name, Open open) {
  return [name, open](const std::string& bytes) {
    const TemporaryFolder folder;
    write_file(folder / name, bytes);
    open(folder / name);
  };
}

const auto gguf = from_file("x.gguf", [](const auto& path) { (void)GgufFile::open(path); });
const auto gguf_vocabulary = from_file("x.gguf", [](const auto& path) { (void)Tokenizer::from_gguf(*GgufFile::open(path)); });
const auto safetensors_file = from_file("x.safetensors", [](const auto& path) { (void)SafetensorsFile::open(path); });
const auto safetensors_index = from_file("model.safetensors.index.json", [](const auto& path) { (void)detail::read_safetensors_index(path); });
const auto tokenizer_file = from_file("tokenizer.json", [](const auto& path) { (void)Tokenizer::from_file(path); });
const auto json_text = [](const std::string& text) { (void)Json::parse(text, "x"); };
const auto config = [](const std::string& text) { (void)parse_hf_config(text, "x"); };
const auto native_tokenizer = [](const std::string& text) { (void)Tokenizer::from_json(text, "x"); };
const auto chat_template = [](const std::string& text) { (void)ChatTemplate(text).render({}); };

// Worst inputs, of size n ----------------------------------------------------------------------------------------------

std::string spm(const std::vector<std::string>& pieces) {
  std::vector<float> scores;
  for (std::size_t i = 0; i < pieces.size(); ++i) scores.push_back(-static_cast<float>(i));
  return GgufBuilder().key("tokenizer.ggml.model", "llama").key("tokenizer.ggml.tokens", pieces).key("tokenizer.ggml.scores", scores).bytes();
}

template <class Piece>
std::vector<std::string> pieces(std::size_t count, Piece&& piece) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < count; ++i) out.push_back(piece(i));
  return out;
}

void append_utf8(std::string& out, std::uint32_t code) {
  if (code < 0x800) {
    out += static_cast<char>(0xc0 | code >> 6);
  } else {
    out += code < 0x10000 ? static_cast<char>(0xe0 | code >> 12) : static_cast<char>(0xf0 | code >> 18);
    if (code >= 0x10000) out += static_cast<char>(0x80 | (code >> 12 & 63));
    out += static_cast<char>(0x80 | (code >> 6 & 63));
  }
  out += static_cast<char>(0x80 | (code & 63));
}

/// Two-letter pieces whose pairs of code points are alike modulo the buckets that a standard table of them would have.
std::vector<std::string> colliding_pairs(std::size_t count) {
  std::unordered_set<std::uint64_t> table;
  for (std::size_t i = 0; i < count; ++i) table.insert(i);
  const std::uint64_t buckets = table.bucket_count();
  std::vector<std::string> out;
  for (std::uint32_t left = 0xa0; out.size() < count && left < 0x10ffff; ++left) {
    if (left >= 0xd800 && left < 0xe000) continue;
    for (std::uint64_t right = (buckets - (std::uint64_t{left} << 32) % buckets) % buckets; right < 0x10ffff && out.size() < count; right += buckets) {
      if (right < 0x80 || (right >= 0xd800 && right < 0xe000)) continue;
      std::string piece;
      append_utf8(piece, left);
      append_utf8(piece, static_cast<std::uint32_t>(right));
      out.push_back(std::move(piece));
    }
  }
  return out;
}

std::string bpe(const std::string& vocabulary, const std::string& merges, const std::string& more = "") {
  return R"({"version":"1.0","model":{"type":"BPE","vocab":{)" + vocabulary + R"(},"merges":[)" + merges + "]}" + more + "}";
}
std::string words(std::size_t n) {
  return listed(n, [](std::size_t i) { return quoted("w" + number(i)) + ':' + number(i); });
}

/// A native tokenizer with `items` in one of its lists.
std::string native(const std::string& list, const std::string& items) {
  std::string text = R"({"format":"bantam-tokenizer","version":1,"kind":"bpe","pieces":["a","b"],"types":"11","scores":[],"merges":[],"added":[],"normalizer":[],)"
                     R"("pre_tokenizer":[],"decode_replace":[],"decode_strip":0,"prefix":[],"suffix":[],"ends":[],"chat_template":""})";
  const std::string key = quoted(list) + ":[";
  return text.insert(text.find(key) + key.size(), items);
}

constexpr const char* small_config =
    R"({"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_size":8,"num_hidden_layers":1,"num_attention_heads":2,)"
    R"("intermediate_size":8,"vocab_size":8,"max_position_embeddings":8,"rms_norm_eps":1e-5,"x":)";

struct Parser {
  const char* name;
  std::size_t n;  ///< that takes about a millisecond
  std::function<std::string(std::size_t)> worst;
  std::function<void(const std::string&)> read;
  std::size_t most = 1u << 31;  ///< the largest n that is read: more is refused by its size, in no time
};

constexpr std::size_t template_bytes = (1u << 20) - 64;

const Parser parsers[] = {
    {"gguf keys", 4000, [](std::size_t n) { GgufBuilder b; for (std::size_t i = 0; i < n; ++i) b.key("k" + number(i), true); return b.bytes(); }, gguf},
    {"gguf tensors", 4000, [](std::size_t n) { GgufBuilder b; for (std::size_t i = 0; i < n; ++i) b.tensor("t" + number(i), {8}, 0, std::string(32, 'x')); return b.bytes(); }, gguf},
    {"gguf texts", 20000, [](std::size_t n) { return GgufBuilder().key("k", std::vector<std::string>(n, "ab")).bytes(); }, gguf},
    {"gguf vocabulary", 4000, [](std::size_t n) { return spm(pieces(n, [](std::size_t i) { return "w" + number(i); })); }, gguf_vocabulary},
    {"gguf pieces of one letter", 60, [](std::size_t n) { return spm(pieces(n, [](std::size_t i) { return std::string(i + 1, 'a'); })); }, gguf_vocabulary},
    {"gguf pieces that are one", 4000, [](std::size_t n) { return spm(std::vector<std::string>(n, "ab")); }, gguf_vocabulary},
    {"gguf ends that are one", 4000, [](std::size_t n) {
       return GgufBuilder().key("tokenizer.ggml.model", "llama").key("tokenizer.ggml.tokens", std::vector<std::string>(n, "</s>"))
           .key("tokenizer.ggml.scores", std::vector<float>(n)).key("tokenizer.ggml.token_type", std::vector<std::int32_t>(n, 3)).bytes();
     }, gguf_vocabulary},
    {"gguf pairs that collide", 4000, [](std::size_t n) { return spm(colliding_pairs(n)); }, gguf_vocabulary},
    {"safetensors tensors", 2000, [](std::size_t n) {
       return safetensors("{" + listed(n, [](std::size_t i) { return quoted("t" + number(i)) + R"(:{"dtype":"U8","shape":[1],"data_offsets":[)" + number(i) + ',' + number(i + 1) + "]}"; }) + "}", std::string(n, 'x'));
     }, safetensors_file},
    {"safetensors metadata", 4000, [](std::size_t n) { return safetensors(R"({"__metadata__":{)" + listed(n, [](std::size_t i) { return quoted("k" + number(i)) + R"(:"v")"; }) + "}}"); }, safetensors_file},
    {"safetensors index", 4000, [](std::size_t n) { return R"({"weight_map":{)" + listed(n, [](std::size_t i) { return quoted("t" + number(i)) + R"(:"s)" + number(i % 7) + R"(.safetensors")"; }) + "}}"; }, safetensors_index},
    {"json of empty objects", 20000, [](std::size_t n) { return "[" + listed(n, [](std::size_t) { return std::string("{}"); }) + "]"; }, json_text},
    {"json members", 10000, [](std::size_t n) { return "{" + listed(n, [](std::size_t i) { return quoted(number(i)) + ":0"; }) + "}"; }, json_text},
    {"json members that are one", 10000, [](std::size_t n) { return "{" + listed(n, [](std::size_t) { return std::string(R"("k":0)"); }) + "}"; }, json_text},
    {"json escapes", 50000, [](std::size_t n) { return quoted(repeated("\\u00e9", n)); }, json_text},
    {"json digits", 50000, [](std::size_t n) { return repeated("1", n) + ".0"; }, json_text},
    {"json nesting", 50000, [](std::size_t n) { return repeated("[", n); }, json_text},
    {"config of a long list", 20000, [](std::size_t n) { return small_config + ("[" + listed(n, [](std::size_t) { return std::string("\"a\""); }) + "]}"); }, config},
    {"tokenizer.json vocabulary", 4000, [](std::size_t n) { return bpe(words(n), ""); }, tokenizer_file},
    {"tokenizer.json merges", 2000, [](std::size_t n) {
       return bpe(quoted("a") + ":0," + listed(n, [&](std::size_t i) { return quoted("b" + number(i)) + ':' + number(2 * i + 1) + ',' + quoted("ab" + number(i)) + ':' + number(2 * i + 2); }),
                  listed(n, [](std::size_t i) { return quoted("a b" + number(i)); }));
     }, tokenizer_file},
    {"tokenizer.json added tokens", 2000, [](std::size_t n) {
       return bpe(words(n), "", R"(,"added_tokens":[)" + listed(n, [](std::size_t i) { return R"({"id":)" + number(i) + R"(,"content":"w)" + number(i) + R"(","special":true})"; }) + "]");
     }, tokenizer_file},
    {"native ends", 20000, [](std::size_t n) { return native("ends", listed(n, [](std::size_t) { return std::string("0"); })); }, native_tokenizer},
    {"native normalizers", 200, [](std::size_t n) { return native("normalizer", listed(n, [](std::size_t i) { return R"({"kind":3,"pattern":"a)" + number(i) + R"(","content":"b"})"; })); }, native_tokenizer, 256},
    {"native replacements and pieces", 40, [](std::size_t n) {
       return R"({"format":"bantam-tokenizer","version":1,"kind":"bpe","pieces":[)" + listed(n, [](std::size_t i) { return quoted("w" + number(i)); }) + R"(],"types":")" + repeated("1", n) +
              R"(","scores":[],"merges":[],"added":[],"normalizer":[],"pre_tokenizer":[],"decode_replace":[)" + listed(n, [](std::size_t i) { return R"(["x)" + number(i) + R"(","y"])"; }) +
              R"(],"decode_strip":0,"prefix":[],"suffix":[],"ends":[],"chat_template":""})";
     }, native_tokenizer},
    {"template of outputs", 2000, [](std::size_t n) { return repeated("{{ a }}", n); }, chat_template, template_bytes / 7},
    {"template of a sum", 2000, [](std::size_t n) { return "{{ 0" + repeated(" + 1", n) + " }}"; }, chat_template, template_bytes / 4},
    {"template of alternatives", 2000, [](std::size_t n) { return "{% if 0 %}" + repeated("{% elif 0 %}", n) + "{% endif %}"; }, chat_template, template_bytes / 12},
    {"template of lines", 20000, [](std::size_t n) { return repeated("  {#- x -#}\n", n); }, chat_template, template_bytes / 12},
    {"template that is not closed", 50000, [](std::size_t n) { return "{{ '" + repeated("{{", n); }, chat_template, template_bytes / 2},
    {"template of a list", 4000, [](std::size_t n) { return "{{ [" + repeated("1,", n) + "] | unique | sort | join(',') }}"; }, chat_template, template_bytes / 2},
    {"template of settings", 2000, [](std::size_t n) { std::string t; for (std::size_t i = 0; i < n; ++i) t += "{% set v" + number(i) + " = 1 %}"; return t; }, chat_template, template_bytes / 20},
};

struct Measured {
  double seconds = 1e9;
  std::size_t bytes = 0;
};

/// The least of several: what else the machine does only adds.
Measured measure(const Parser& parser, const std::string& input, int times) {
  Measured least;
  for (; times > 0; --times) {
    const double start = cpu_seconds();
    least.bytes = peak_of([&] {
      try {
        parser.read(input);
      } catch (const Error&) {  // refusing is an answer, in time
      }
    });
    least.seconds = std::min(least.seconds, cpu_seconds() - start);
  }
  return least;
}

constexpr std::size_t times_more = 32;

/// Linear is 32 x, to which sorting and memory beyond the caches add: 4 x where neighbours share them (an entry of
/// safetensors' metadata takes 0.3 us in a file of 0.3 MB and 1.2 us in one of 5 MB). A square is 1024 x. 12 x the growth of
/// the bytes is well away from both. Neighbours slow a process for seconds, so a verdict of "square" is looked at again: the least of
/// each size, measured in turns.
struct Growth {
  Measured once, more;
  bool linear = false;
};

Growth growth(const Parser& parser, const std::string& input, const std::string& larger) {
  const double bytes = static_cast<double>(larger.size()) / static_cast<double>(input.size());
  Growth least;
  for (int turn = 0; turn < 4 && !least.linear; ++turn) {
    const Measured once = measure(parser, input, 3), more = measure(parser, larger, 1);
    least.once = {std::min(least.once.seconds, once.seconds), once.bytes};
    least.more = {std::min(least.more.seconds, more.seconds), more.bytes};
    least.linear = least.more.seconds < 12 * bytes * least.once.seconds + 0.02;
  }
  return least;
}

}  // namespace

TEST_CASE("every parser takes linear time and memory for its worst input") {
  // Memory stays with the process between runs: where a page fault costs microseconds, giving it back would be most of the time.
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  for (const Parser& parser : parsers) {
    CAPTURE(std::string(parser.name));
    // Large enough for the clock, with room for the larger one.
    const std::size_t most = parser.most / times_more;
    std::size_t n = std::min(parser.n / (quick() ? 4 : 1), most);
    std::string input = parser.worst(n);
    while (measure(parser, input, 3).seconds < (quick() ? 0.001 : 0.002) && input.size() < (1u << 19) && 2 * n <= most) input = parser.worst(n *= 2);
    const std::string larger = parser.worst(times_more * n);
    CAPTURE(n);
    const auto [once, more, linear] = growth(parser, input, larger);
    CAPTURE(once.seconds);
    CAPTURE(more.seconds);
    CHECK(linear);
    // Where bytes grow faster than n, bytes count.
    const double bytes = static_cast<double>(larger.size()) / static_cast<double>(input.size());
    CAPTURE(once.bytes);
    CAPTURE(more.bytes);
    CHECK(static_cast<double>(more.bytes) < 1.6 * bytes * static_cast<double>(once.bytes) + 65536);
  }
}

TEST_CASE("a square is told apart from a line") {
  const Parser square{"square", 400, [](std::size_t n) { return std::string(n, 'x'); }, [](const std::string& text) {
                        volatile unsigned sum = 0;
                        for (const char a : text) {
                          for (const char b : text) sum = sum + static_cast<unsigned>(a == b);
                        }
                      }};
  CHECK_FALSE(growth(square, square.worst(500), square.worst(500 * times_more)).linear);
}
