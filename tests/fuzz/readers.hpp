// What is done with things that opened: everything that they offer is read.
#pragma once

#include <algorithm>

#include "bantam/io/tensor_source.hpp"
#include "bantam/session/session.hpp"
#include "bantam/text/tokenizer.hpp"
#include "fuzz/fuzz.hpp"

namespace bantam::fuzz {

/// Reads every byte of every tensor.
inline void touch(const TensorSource& source) {
  unsigned sum = 0;
  for (const TensorEntry& tensor : source.tensors()) {
    for (const std::byte byte : tensor.bytes) sum += static_cast<unsigned>(byte);
    require(source.find(tensor.name) == &tensor, "a tensor that is listed is found");
  }
  asm volatile("" : : "r"(sum));  // wanted: the reads are what counts
}

/// Encodes a text and decodes what came of it.
inline void use(const Tokenizer& tokenizer, std::string_view text) {
  for (const EncodeOptions& options : {EncodeOptions{.add_special = false}, EncodeOptions{.add_special = true, .parse_special = true}}) {
    std::vector<TokenId> ids;
    if (!survives([&] { ids = tokenizer.encode(text, options); })) continue;
    for (const TokenId id : ids) require(id >= 0 && id < tokenizer.vocab_size(), "tokens are of the vocabulary");
    (void)tokenizer.decode(ids);
    TextStream stream(tokenizer, true);
    std::string pieces;
    for (const TokenId id : ids) pieces += stream.push(id);
    pieces += stream.finish();
    require(pieces == tokenizer.decode(ids), "a stream of tokens gives the text of all");
  }
  for (TokenId id = 0; id < std::min(tokenizer.vocab_size(), 64); ++id) {
    (void)tokenizer.first_piece_bytes(id);
    (void)tokenizer.ends_generation(id);
  }
}

/// Reads a few tokens and generates a few more.
inline void use(const Model& model) {
  survives([&] {
    Session session(model, {.context = std::min<std::int64_t>(16, model.config().context), .threads = 1});
    const TokenId last = static_cast<TokenId>(model.config().vocab) - 1;
    const TokenId tokens[] = {0, last, last / 2};
    session.prefill(tokens);
    (void)session.stream("", {.max_tokens = 3}).text();
  });
}

}  // namespace bantam::fuzz
