// Files made of choices.
#include "fuzz/structures.hpp"

#include <algorithm>

#include "hostile/safetensors_builder.hpp"

namespace bantam::fuzz {

namespace {

using test::GgufBuilder;
using test::little;

constexpr const char* gguf_keys[] = {
    "general.architecture", "general.alignment", "general.name", "split.no", "split.count", "split.tensors.count", "llama.embedding_length",
    "llama.block_count", "llama.attention.head_count", "llama.attention.head_count_kv", "llama.attention.key_length", "llama.attention.value_length",
    "llama.feed_forward_length", "llama.vocab_size", "llama.context_length", "llama.attention.layer_norm_rms_epsilon", "llama.rope.freq_base",
    "llama.rope.dimension_count", "llama.rope.scaling.type", "llama.rope.scaling.factor", "llama.attention.sliding_window",
    "llama.expert_count", "tokenizer.ggml.model", "tokenizer.ggml.pre", "tokenizer.ggml.tokens", "tokenizer.ggml.scores",
    "tokenizer.ggml.token_type", "tokenizer.ggml.merges", "tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id",
    "tokenizer.ggml.unknown_token_id", "tokenizer.ggml.add_bos_token", "tokenizer.ggml.add_space_prefix", "tokenizer.chat_template"};

constexpr const char* gguf_words[] = {"llama", "qwen2", "qwen3", "mistral", "gpt2", "default", "llama-bpe", "qwen2", "linear", "yarn", "", "t5"};

std::string small_text(Choices& choices) {
  static constexpr const char* pieces[] = {"<unk>", "<s>", "</s>", "\xe2\x96\x81", "a", "b", "ab", "\xe2\x96\x81\x61", "<0x0A>", "<0x20>", "\xc4\xa0", "a b", "", "\xff"};
  return choices.once_in(4) ? choices.text(12) : choices.of(pieces);
}

template <class T>
std::vector<T> numbers(Choices& choices) {
  std::vector<T> list(choices.below(20));
  for (T& value : list) value = static_cast<T>(choices.number());
  return list;
}

std::uint32_t ggml_type(Choices& choices) { return choices.once_in(16) ? static_cast<std::uint32_t>(choices.number()) : static_cast<std::uint32_t>(choices.below(42)); }

}  // namespace

void add_gguf_key(GgufBuilder& builder, Choices& choices) {
  const std::string name = choices.once_in(8) ? choices.text(20) : choices.of(gguf_keys);
  switch (choices.below(12)) {
    case 0: builder.key(name, static_cast<std::uint32_t>(choices.number())); break;
    case 1: builder.key(name, std::string(choices.of(gguf_words))); break;
    case 2: builder.key(name, choices.text(40)); break;
    case 3: builder.key(name, choices.once_in(2)); break;
    case 4: builder.key(name, static_cast<float>(static_cast<std::int32_t>(choices.number())) / 64); break;
    case 5: builder.key(name, static_cast<std::int64_t>(choices.number())); break;
    case 6: builder.key(name, choices.number()); break;
    case 7: {
      std::vector<std::string> list(choices.below(24));
      for (std::string& text : list) text = small_text(choices);
      builder.key(name, list);
      break;
    }
    case 8: builder.key(name, numbers<float>(choices)); break;
    case 9: builder.key(name, numbers<std::int32_t>(choices)); break;
    case 10: {  // an array whose count is a lie
      std::string payload = little(static_cast<std::uint32_t>(choices.below(14)));
      payload += little(choices.number());
      payload += choices.text(40);
      builder.raw_key(name, test::gguf_array, payload);
      break;
    }
    default: {
      const auto kind = static_cast<std::uint32_t>(choices.number());
      builder.raw_key(name, kind, choices.text(16));
      break;
    }
  }
}

GgufBuilder gguf_file(Choices& choices) {
  GgufBuilder builder;
  if (choices.once_in(16)) builder.version = static_cast<std::uint32_t>(choices.below(5));
  if (choices.once_in(16)) builder.tensor_count = choices.number();
  if (choices.once_in(16)) builder.key_count = choices.number();
  if (choices.once_in(8)) {
    if (choices.once_in(4)) builder.key("general.alignment", static_cast<std::uint32_t>(choices.number()));
    else builder.alignment(1u << choices.below(8));
  }
  if (choices.once_in(2)) {  // a vocabulary that may well be whole
    const bool bytes = choices.once_in(2);
    builder.key("tokenizer.ggml.model", bytes ? "gpt2" : "llama");
    std::vector<std::string> pieces(1 + choices.below(24)), merges;
    std::vector<float> scores;
    std::vector<std::int32_t> types;
    for (std::string& piece : pieces) {
      piece = small_text(choices);
      scores.push_back(-static_cast<float>(choices.below(8)));
      types.push_back(static_cast<std::int32_t>(choices.below(7)));
    }
    builder.key("tokenizer.ggml.tokens", pieces).key("tokenizer.ggml.scores", scores).key("tokenizer.ggml.token_type", types);
    for (std::size_t i = choices.below(8); bytes && i > 0; --i) {
      merges.push_back(small_text(choices) + ' ');
      merges.back() += small_text(choices);
    }
    if (bytes) builder.key("tokenizer.ggml.merges", merges);
  }
  for (std::size_t keys = choices.below(12); keys > 0; --keys) add_gguf_key(builder, choices);
  for (std::size_t tensors = choices.below(6); tensors > 0; --tensors) {
    const std::string name = choices.once_in(4) ? choices.text(70) : "blk." + std::to_string(choices.below(3)) + ".attn_q.weight";
    if (choices.once_in(3)) {
      std::string entry = GgufBuilder::text(name) + little(static_cast<std::uint32_t>(choices.below(6)));
      for (std::size_t i = choices.below(6); i > 0; --i) entry += little(choices.number());
      entry += little(ggml_type(choices));
      entry += little(choices.number());
      builder.raw_tensor(entry);
    } else {
      std::vector<std::int64_t> shape(1 + choices.below(4));
      for (auto& extent : shape) extent = choices.once_in(8) ? static_cast<std::int64_t>(choices.number()) : static_cast<std::int64_t>(32 * choices.below(3));
      const std::uint32_t type = ggml_type(choices);
      builder.tensor(name, shape, type, std::string(choices.below(600), '\x11'));
    }
  }
  return builder;
}

test::TinyModel tiny_model(Choices& choices) {
  test::TinyModel model;
  model.arch = choices.of(architectures);
  model.dim = choices.between(1, 40);
  model.layers = choices.between(1, 2);
  model.kv_heads = choices.between(1, 2);
  model.heads = model.kv_heads * choices.between(1, 2);
  model.head_dim = 2 * choices.between(1, 8);
  model.ffn = choices.between(1, 40);
  model.vocab = choices.between(30, 40);
  model.context = choices.between(1, 32);
  model.tied = choices.once_in(2);
  model.make();
  return model;
}

std::string safetensors_file(Choices& choices) {
  static constexpr const char* types[] = {"F32", "F16", "BF16", "U8", "I32", "I64", "F8_E4M3", "F4", "BOOL", "F64", "X"};
  std::string header = "{";
  std::uint64_t at = 0;
  const auto quoted = [&](std::string text) {
    std::erase_if(text, [](char c) { return c == '"' || c == '\\'; });
    return '"' + text + '"';
  };
  if (choices.once_in(2)) {
    header += R"("__metadata__":{"format":"pt")";
    for (std::size_t i = choices.below(4); i > 0; --i) {
      header += ',' + quoted(choices.text(12)) + ':';
      header += choices.once_in(6) ? "1" : quoted(choices.text(12));
    }
    header += "},";
  }
  for (std::size_t tensors = choices.below(8); tensors > 0; --tensors) {
    header += quoted(choices.once_in(3) ? choices.text(20) : "w" + std::to_string(tensors)) + R"(:{"dtype":")";
    header += std::string(choices.of(types)) + R"(","shape":[)";
    for (std::size_t i = choices.below(4); i > 0; --i) header += std::to_string(choices.once_in(6) ? choices.number() : choices.below(9)) + (i > 1 ? "," : "");
    const std::uint64_t size = choices.once_in(8) ? choices.number() : choices.below(65);
    const std::uint64_t begin = choices.once_in(12) ? choices.number() : at;
    header += R"(],"data_offsets":[)" + std::to_string(begin) + ',' + std::to_string(begin + size) + "]}";
    header += tensors > 1 || choices.once_in(16) ? "," : "";
    at = begin + size;
  }
  header += choices.once_in(16) ? choices.text(8) : "}";
  std::string file = test::safetensors(header, std::string(choices.once_in(8) ? choices.below(1000) : std::min<std::uint64_t>(at, 4096), '\x5a'));
  if (choices.once_in(12)) file.replace(0, 8, little(choices.number()));
  return file;
}

}  // namespace bantam::fuzz
