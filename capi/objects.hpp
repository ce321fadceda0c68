// What the handles of the interface hold.
#pragma once

#include <atomic>
#include <optional>

#include "bantam/compress/compress.hpp"
#include "bantam/session/embed.hpp"
#include "bantam/session/session.hpp"
#include "guard.hpp"

struct bantam_model {
  explicit bantam_model(bantam::Model loaded) : bantam_model(loaded.tokenizer()) {
    labels = loaded.config().names_of_labels();
    whole = std::move(loaded);
  }
  explicit bantam_model(bantam::Tokenizer alone) : tokenizer(std::move(alone)), tokenizer_kind(tokenizer.kind()) {}

  /// Throws where the tokenizer was loaded alone.
  [[nodiscard]] const bantam::Model& model() const {
    if (!whole) bantam::fail(bantam::Errc::invalid_argument, "model: expected weights, found a tokenizer alone");
    return *whole;
  }

  std::optional<bantam::Model> whole;
  bantam::Tokenizer tokenizer;
  std::string tokenizer_kind;
  std::vector<std::string> labels;  ///< names of a classifier's
};

struct bantam_adapter {
  bantam::Adapter adapter;
};

struct bantam_session {
  explicit bantam_session(bantam::Session made, const bantam_session_options& options) : session(std::move(made)) {
    observe(options.progress, options.progress_user);
  }
  bantam_session(bantam::Session made, const bantam_session& like) : session(std::move(made)) { observe(like.progress, like.user); }
  bantam_session(const bantam_session&) = delete;
  bantam_session& operator=(const bantam_session&) = delete;

  /// Throws if another thread has asked to stop.
  void check_cancelled() {
    if (cancelled.exchange(false)) bantam::fail(bantam::Errc::cancelled, "session: cancelled");
  }

  bantam::Session session;
  std::vector<float> embedding;  ///< the last one
  std::atomic<bool> cancelled = false;
  bantam_read_progress progress = nullptr;
  void* user = nullptr;

 private:
  void observe(bantam_read_progress callback, void* callback_user) {
    progress = callback;
    user = callback_user;
    session.set_progress([this](std::int64_t done, std::int64_t total) {
      return !cancelled.exchange(false) && (progress == nullptr || progress(done, total, user) == 0);
    });
  }
};

struct bantam_generation {
  bantam_session* session;
  bantam::TextRange range;
};

struct bantam_sampler {
  bantam::Sampler sampler;
};

struct bantam_grammar {
  bantam::TokenGrammar grammar;
};

struct bantam_weights {
  bantam::WeightMatrix matrix;
  std::string name = {};
};

struct bantam_report {
  bantam::Report report;
  std::string summary;
  std::string json;
};

namespace bantam::capi {

[[nodiscard]] EncodeOptions encode_options(std::uint32_t flags);
[[nodiscard]] std::vector<ChatMessage> messages_of(const bantam_message* messages, std::size_t count);
/// The model behind a handle, with its weights.
[[nodiscard]] inline const Model& model_of(const bantam_model* model) { return need(model, "model").model(); }
[[nodiscard]] std::vector<ScaledAdapter> adapters_of(const bantam_adapter* const* adapters, const float* scales, std::size_t count);
[[nodiscard]] std::span<const TokenId> ids_of(const std::int32_t* ids, std::size_t count);
/// Options of a generation, those that the caller did not give at their first values; then as the library's, for a session.
[[nodiscard]] bantam_generate_options read_options(const bantam_generate_options* given);
[[nodiscard]] GenerateOptions generate_options_of(const bantam_generate_options& options, const Tokenizer& tokenizer);
[[nodiscard]] inline GenerateOptions generate_options_of(const bantam_generate_options& options, const Session& session) {
  return generate_options_of(options, session.model().tokenizer());
}
/// Where keys, values and states are, by the settings of sessions and schedulers.
[[nodiscard]] StateMemory state_memory_of(const bantam_setting* settings, std::size_t count);
/// Sampling options of the interface as the library's.
[[nodiscard]] Sampling sampling_of(const bantam_generate_options& options);
/// What a tensor is, in memory or in a file; texts belong to it.
[[nodiscard]] bantam_tensor_info describe(const CheckpointTensor& tensor);

}  // namespace bantam::capi
