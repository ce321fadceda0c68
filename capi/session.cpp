// Sessions: reading, forking, keeping.
#include "objects.hpp"

using namespace bantam;
using namespace bantam::capi;

namespace {

bantam_session_options session_options(const bantam_session_options* given) {
  const bantam_session_options initial = BANTAM_SESSION_OPTIONS_INIT;
  const bantam_session_options o = options_of(given, initial, "session options");
  read_settings(o.settings, o.setting_count, "", [](std::string_view, std::string_view) { return false; });
  return o;
}

SessionOptions as_library(const bantam_session_options& o) {
  return {.context = o.context_tokens, .threads = o.threads, .kv = &need(o.kv, "kv")};
}

}  // namespace

extern "C" {

bantam_status bantam_session_new(bantam_session** session, const bantam_model* model, const bantam_session_options* options) {
  return guarded([&] {
    bantam_session*& out = need(session, "session");
    const bantam_session_options o = session_options(options);
    out = new bantam_session(Session(need(model, "model").model, as_library(o)), o);
  });
}

bantam_status bantam_session_fork(bantam_session** copy, const bantam_session* session) {
  return guarded([&] {
    bantam_session*& out = need(copy, "copy");
    const bantam_session& from = need(session, "session");
    out = new bantam_session(from.session.fork(), from);
  });
}

bantam_status bantam_session_save(const bantam_session* session, const char* path) {
  return guarded([&] { need(session, "session").session.save(&need(path, "path")); });
}

bantam_status bantam_session_restore(bantam_session** session, const bantam_model* model, const char* path,
                                     const bantam_session_options* options) {
  return guarded([&] {
    bantam_session*& out = need(session, "session");
    const bantam_session_options o = session_options(options);
    out = new bantam_session(Session::restore(need(model, "model").model, &need(path, "path"), as_library(o)), o);
  });
}

void bantam_session_free(bantam_session* session) { delete session; }

bantam_status bantam_session_prefill(bantam_session* session, const char* text, size_t bytes) {
  return guarded([&] {
    bantam_session& s = need(session, "session");
    s.check_cancelled();
    s.session.prefill(text_of(text, bytes, "text"));
  });
}

bantam_status bantam_session_prefill_tokens(bantam_session* session, const int32_t* ids, size_t count) {
  return guarded([&] {
    bantam_session& s = need(session, "session");
    s.check_cancelled();
    s.session.prefill(ids_of(ids, count));
  });
}

bantam_status bantam_session_logits(bantam_session* session, const float** logits, size_t* count) {
  return guarded([&] {
    const std::span<const float> row = need(session, "session").session.logits();
    (void)need(count, "count");
    need(logits, "logits") = row.data();
    *count = row.size();
  });
}

bantam_status bantam_session_embed(bantam_session* session, const int32_t* ids, size_t count, const char* pooling, int normalize,
                                   const float** embedding, size_t* size) {
  return guarded([&] {
    bantam_session& s = need(session, "session");
    (void)need(size, "size");
    const float*& out = need(embedding, "embedding");
    const bantam::EmbedOptions options{.pooling = bantam::find_pooling(&need(pooling, "pooling")), .normalize = normalize != 0};
    s.check_cancelled();
    s.embedding = bantam::embed(s.session, ids_of(ids, count), options);
    out = s.embedding.data();
    *size = s.embedding.size();
  });
}

bantam_status bantam_session_tokens(const bantam_session* session, const int32_t** ids, size_t* count) {
  return guarded([&] {
    const std::vector<TokenId>& tokens = need(session, "session").session.tokens();
    (void)need(count, "count");
    need(ids, "ids") = tokens.data();
    *count = tokens.size();
  });
}

bantam_status bantam_session_truncate(bantam_session* session, size_t count) {
  return guarded([&] { need(session, "session").session.truncate(static_cast<std::int64_t>(count)); });
}

int64_t bantam_session_context(const bantam_session* session) { return session == nullptr ? 0 : session->session.context(); }

void bantam_session_cancel(bantam_session* session) {
  if (session != nullptr) session->cancelled.store(true);
}

}  // extern "C"
