// Reads tokenizer.model: SentencePiece models.
#include <google/protobuf/io/coded_stream.h>

#include <algorithm>
#include <limits>
#include <string>

#include "bantam/core/error.hpp"
#include "text/base64.hpp"
#include "text/loaders.hpp"
#include "text/sentencepiece.pb.h"
#include "text/unigram.hpp"

namespace bantam::inline v0 {

namespace {

sentencepiece::Model parse(std::string_view bytes, std::string_view place) {
  sentencepiece::Model model;
  if (bytes.size() > static_cast<std::size_t>(std::numeric_limits<int>::max()) ||
      !model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    fail(Errc::corrupt, place, ": ", bytes.size(), " bytes are no sentencepiece model");
  }
  if (model.pieces_size() == 0) fail(Errc::corrupt, place, ": a sentencepiece model without pieces");
  // Pieces, trainer_spec and normalizer_spec are written in this order: where one of the latter is missing, a file was
  // cut between two fields.
  if (!model.has_trainer_spec()) fail(Errc::corrupt, place, ": expected a trainer_spec after ", model.pieces_size(), " pieces, found none");
  if (!model.has_normalizer_spec()) fail(Errc::corrupt, place, ": expected a normalizer_spec, found none");
  return model;
}

void check(const sentencepiece::Model& model, std::string_view place) {
  const auto& trainer = model.trainer_spec();
  // Tools add pieces to trained models (more than vocab_size); fewer were never written.
  if (trainer.hard_vocab_limit() && model.pieces_size() < trainer.vocab_size()) {
    fail(Errc::corrupt, place, ": expected ", trainer.vocab_size(), " pieces, found ", model.pieces_size());
  }
}

/// What the model type makes of scores. Symbols of the user's compete with others in unigram models: so much above any other way
/// to spell them that they win.
void read_model_type(const sentencepiece::Model& model, TokenizerSpec& spec) {
  double lowest = std::numeric_limits<float>::max(), highest = std::numeric_limits<float>::lowest();
  for (std::size_t i = 0; i < spec.pieces.size(); ++i) {
    if (spec.types[i] != TokenType::normal) continue;
    lowest = std::min(lowest, spec.scores[i]);
    highest = std::max(highest, spec.scores[i]);
  }
  switch (model.trainer_spec().model_type()) {
    case sentencepiece::TrainerSpec::UNIGRAM:
      spec.kind = "unigram";
      spec.unknown_score = lowest - Unigram::unknown_penalty;
      for (std::size_t i = 0; i < spec.pieces.size(); ++i) {
        if (spec.types[i] == TokenType::user_defined) spec.scores[i] = static_cast<double>(spec.pieces[i].size()) * highest - 0.1;
      }
      std::erase_if(spec.added, [](const AddedToken& token) { return token.verbatim; });
      break;
    case sentencepiece::TrainerSpec::WORD:
      spec.kind = "wordlevel";
      spec.scores.clear();
      // Words are looked up and nothing else is: a symbol within one is not found.
      std::erase_if(spec.added, [](const AddedToken& token) { return token.verbatim; });
      spec.pre_tokenizer.push_back({.kind = PreTokenizerStep::Kind::split_literal,
                                    .pattern = std::string(low_line),
                                    .behavior = PreTokenizerStep::Behavior::merged_with_next});
      break;
    case sentencepiece::TrainerSpec::CHAR: spec.scores.clear(); break;
    case sentencepiece::TrainerSpec::BPE: break;
  }
}

void read_normalizer_spec(const sentencepiece::NormalizerSpec& from, bool as_suffix, TokenizerSpec& spec) {
  using Kind = NormalizerStep::Kind;
  if (!from.precompiled_charsmap().empty()) {
    spec.normalizer.push_back({.kind = Kind::charsmap, .pattern = {}, .content = base64_of(from.precompiled_charsmap())});
  }
  const bool escape = from.escape_whitespaces();
  const std::string space = escape ? std::string(low_line) : " ";
  if (from.remove_extra_whitespaces()) spec.normalizer.push_back({.kind = Kind::collapse_spaces, .pattern = {}, .content = {}});
  if (from.add_dummy_prefix()) {
    spec.normalizer.push_back({.kind = as_suffix ? Kind::append : Kind::prepend, .pattern = {}, .content = space});
    spec.decode.strip = 1;
  }
  if (from.remove_extra_whitespaces()) spec.decode.strip = DecodeSpec::strip_all;
  if (escape) {
    spec.normalizer.push_back({.kind = Kind::replace, .pattern = " ", .content = space});
    spec.decode.replace.push_back({space, " "});
  }
}

}  // namespace

TokenizerSpec spec_from_sentencepiece(std::string_view bytes, std::string_view place) {
  const sentencepiece::Model model = parse(bytes, place);
  check(model, place);
  TokenizerSpec spec;
  spec.kind = "spm";
  spec.fuse_unknown = true;
  spec.byte_fallback = model.trainer_spec().byte_fallback();
  for (const auto& piece : model.pieces()) {
    const auto type = static_cast<TokenType>(piece.type());
    const auto id = static_cast<TokenId>(spec.pieces.size());
    if (piece.piece().empty()) fail(Errc::corrupt, place, ": piece ", id, " is empty");
    spec.pieces.push_back(piece.piece());
    spec.types.push_back(type);
    spec.scores.push_back(piece.score());
    if (type == TokenType::control) spec.added.push_back({.id = id, .special = true});
    if (type == TokenType::user_defined) spec.added.push_back({.id = id, .normalized = true, .verbatim = true});
    if (type == TokenType::unknown) {
      spec.unknown = id;
      spec.added.push_back({.id = id, .special = true});
    }
  }
  const auto present = [&](std::int32_t id) { return id >= 0 && id < model.pieces_size() ? id : -1; };
  spec.bos = present(model.trainer_spec().bos_id());
  spec.eos = present(model.trainer_spec().eos_id());
  read_normalizer_spec(model.normalizer_spec(), model.trainer_spec().treat_whitespace_as_suffix(), spec);
  read_model_type(model, spec);
  // SentencePiece leaves BOS to the caller; every model that ships such a file adds it unless its config says no.
  set_adds_bos(spec, true);
  // Encoder-decoder models (T5) have none, and end their texts instead.
  set_adds_eos(spec, spec.bos < 0 && spec.kind == "unigram");
  add_known_ends(spec);
  return spec;
}

}  // namespace bantam::inline v0
