// Embeddings: texts as points, near each other where the model finds them alike.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bantam/model/engine.hpp"
#include "bantam/model/pooling.hpp"
#include "bantam/session/session.hpp"
#include "bantam/tensor/tensor.hpp"

namespace bantam::inline v0 {

struct EmbedOptions {
  std::optional<Pooling> pooling = {};  ///< none: as the model's files say, else the mean
  /// To length 1, so that the scalar product of two embeddings is their cosine. None: as the files say, else so.
  std::optional<bool> normalize = {};
  /// The first so many numbers alone, before they are scaled: for models that were trained for it (Matryoshka representations, Kusupati et al.,
  /// 2022). 0: all.
  std::int64_t dimensions = 0;
  bool truncate = false;      ///< leaves out the end of texts that are longer than the context, which are refused otherwise
  EncodeOptions encode = {};
  std::vector<ScaledAdapter> adapters = {};  ///< of several texts, added to the model's matrices; a session has its own
  ReadProgress progress = {};  ///< of several texts; asked with the tokens read and those to read in all
};

/// The embedding (dim) of a text, read from its beginning: the session then holds it and nothing else. Throws
/// invalid_argument without a token or for more dimensions than there are, and as Session::prefill() does.
[[nodiscard]] std::vector<float> embed(Session& session, std::span<const TokenId> tokens, const EmbedOptions& options = {});
[[nodiscard]] std::vector<float> embed(Session& session, std::string_view text, const EmbedOptions& options = {});

/// Those of several texts, (texts, dim), read together in as few passes as they need. Each is what it is alone, bit for bit. Keys and values
/// are kept in floats for the call. Throws invalid_argument for a text without a token, naming it, and for more dimensions than there are; cancelled; and as
/// Engine::run() does.
[[nodiscard]] Tensor<float, 2> embed(Engine& engine, std::span<const std::vector<TokenId>> texts, const EmbedOptions& options = {});
[[nodiscard]] Tensor<float, 2> embed(Engine& engine, std::span<const std::string> texts, const EmbedOptions& options = {});

}  // namespace bantam::inline v0
