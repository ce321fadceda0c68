// SentencePiece models, made field by field.
#include <bit>

#include "fuzz/fuzz.hpp"
#include "fuzz/readers.hpp"

namespace bantam::fuzz {

namespace {

std::string varint(std::uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(static_cast<unsigned char>(value | 0x80));
  return out + static_cast<char>(static_cast<unsigned char>(value));
}
std::string field(unsigned number, const std::string& bytes) { return varint(number << 3 | 2) + varint(bytes.size()) + bytes; }
std::string field(unsigned number, std::uint64_t value) { return varint(number << 3) + varint(value); }

std::string score(Choices& choices) {
  static constexpr float edges[] = {0, -0.0F, 1, -1e38F, 1e38F, __builtin_inff(), -__builtin_inff(), __builtin_nanf("")};
  const float value = choices.once_in(8) ? choices.of(edges) : -static_cast<float>(choices.below(64));
  const auto bits = std::bit_cast<std::uint32_t>(value);
  std::string out = varint(2 << 3 | 5);
  for (int i = 0; i < 4; ++i) out += static_cast<char>(static_cast<unsigned char>(bits >> 8 * i));
  return out;
}

void run_sentencepiece(Bytes bytes) {
  static const Scratch folder;
  static constexpr const char* words[] = {"<unk>", "<s>", "</s>", "\xe2\x96\x81", "a", "b", "ab", "aa", "\xe2\x96\x81\x61", "<0x0A>", "<0x61>", "\xc3\xa9", "ba", "abab"};
  Choices choices(bytes);
  std::string model;
  const std::size_t pieces = choices.below(40);
  if (choices.once_in(4)) {  // every byte, so that falling back works
    static constexpr char digits[] = "0123456789ABCDEF";
    for (unsigned b = 0; b < 256; ++b) {
      model += field(1, field(1, std::string("<0x") + digits[b / 16] + digits[b % 16] + ">") + field(3, std::uint64_t{6}));
    }
  }
  for (std::size_t i = 0; i < pieces; ++i) {
    std::string piece = field(1, choices.once_in(3) ? choices.text(12) : choices.of(words));
    piece += score(choices);
    if (choices.once_in(2)) piece += field(3, choices.once_in(8) ? choices.number() : choices.below(7));
    model += field(1, piece);
  }
  std::string trainer = field(3, choices.once_in(6) ? choices.below(6) : 2);
  for (const unsigned number : {4u, 24u, 33u, 35u, 40u, 41u, 42u}) {
    if (choices.once_in(3)) trainer += field(number, choices.once_in(4) ? choices.number() : choices.below(3));
  }
  std::string normalizer = field(1, choices.once_in(8) ? choices.text(8) : "identity");
  if (choices.once_in(8)) normalizer += field(2, choices.text(30));
  for (const unsigned number : {3u, 4u, 5u}) {
    if (choices.once_in(2)) normalizer += field(number, std::uint64_t{choices.below(2)});
  }
  if (!choices.once_in(16)) model += field(2, trainer);
  if (!choices.once_in(16)) model += field(3, normalizer);
  damage(model, choices);
  const auto path = folder.put("tokenizer.model", model);
  survives([&] { use(Tokenizer::from_file(path), "a ab  abab\n\xc3\xa9" + choices.rest()); });
}

const Target sentencepiece_target("sentencepiece", run_sentencepiece);

}  // namespace
}  // namespace bantam::fuzz
