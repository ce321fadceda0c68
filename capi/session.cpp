// Sessions: reading, forking, keeping.
#include "objects.hpp"

using namespace bantam;
using namespace bantam::capi;

namespace {

bantam_session_options session_options(const bantam_session_options* given) {
  const bantam_session_options initial = BANTAM_SESSION_OPTIONS_INIT;
  return options_of(given, initial, "session options");
}

SessionOptions as_library(const bantam_session_options& o) {
  return {.context = o.context_tokens,
          .threads = o.threads,
          .kv = &need(o.kv, "kv"),
          .adapters = adapters_of(o.adapters, o.adapter_scales, o.adapter_count),
          .memory = state_memory_of(o.settings, o.setting_count)};
}

/// Reads tokens by Session::score or states.
template <class Read>
bantam_status read_rows(bantam_session* session, const int32_t* ids, size_t count, bantam_row_callback callback, void* user, Read read) {
  return guarded([&] {
    bantam_session& s = need(session, "session");
    if (callback == nullptr) fail(Errc::invalid_argument, "callback: expected a function, found NULL");
    s.check_cancelled();
    (s.session.*read)(ids_of(ids, count), [&](std::int64_t index, std::span<const float> row) {
      if (callback(index, row.data(), row.size(), user) != 0) fail(Errc::cancelled, "stopped by the callback after token ", index);
    });
  });
}

}  // namespace

StateMemory bantam::capi::state_memory_of(const bantam_setting* settings, std::size_t count) {
  StateMemory memory;
  read_settings(settings, count, "memory_limit or memory_folder", [&](std::string_view name, std::string_view value) {
    if (name == "memory_limit") {
      memory.limit = number_of<std::int64_t>(name, value);
    } else if (name == "memory_folder") {
      memory.folder = value;
    } else {
      return false;
    }
    return true;
  });
  return memory;
}

extern "C" {

bantam_status bantam_session_new(bantam_session** session, const bantam_model* model, const bantam_session_options* options) {
  return guarded([&] {
    bantam_session*& out = need(session, "session");
    const bantam_session_options o = session_options(options);
    out = new bantam_session(Session(model_of(model), as_library(o)), o);
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
    out = new bantam_session(Session::restore(model_of(model), &need(path, "path"), as_library(o)), o);
  });
}

bantam_status bantam_session_save_memory(const bantam_session* session, void* out, size_t capacity, size_t* bytes) {
  return guarded([&] {
    std::size_t& size = need(bytes, "bytes");
    if (capacity != 0) (void)need(static_cast<std::byte*>(out), "out");
    std::size_t written = 0;
    need(session, "session").session.save_to([&](std::span<const std::byte> part) {
      if (written < capacity) std::memcpy(static_cast<std::byte*>(out) + written, part.data(), std::min(part.size(), capacity - written));
      written += part.size();
    });
    size = written;
  });
}

bantam_status bantam_session_restore_memory(bantam_session** session, const bantam_model* model, const void* bytes, size_t size,
                                            const bantam_session_options* options) {
  return guarded([&] {
    bantam_session*& out = need(session, "session");
    const bantam_session_options o = session_options(options);
    const std::span all(static_cast<const std::byte*>(bytes), size);
    if (size != 0) (void)need(all.data(), "bytes");
    out = new bantam_session(Session::restore(model_of(model), all, as_library(o)), o);
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

bantam_status bantam_sessions_prefill(bantam_session* const* sessions, const int32_t* const* ids, const size_t* counts, size_t count) {
  return guarded([&] {
    std::vector<Prompt> prompts;
    for (std::size_t i = 0; i < count; ++i) {
      bantam_session& s = need((&need(sessions, "sessions"))[i], "session");
      s.check_cancelled();
      prompts.push_back({&s.session, ids_of((&need(ids, "ids"))[i], (&need(counts, "counts"))[i])});
    }
    prefill(prompts);
  });
}

bantam_status bantam_session_score(bantam_session* session, const int32_t* ids, size_t count, bantam_row_callback callback, void* user) {
  return read_rows(session, ids, count, callback, user, &Session::score);
}

bantam_status bantam_session_states(bantam_session* session, const int32_t* ids, size_t count, bantam_row_callback callback, void* user) {
  return read_rows(session, ids, count, callback, user, &Session::states);
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
    const bantam::EmbedOptions options{.pooling = pooling == nullptr ? std::nullopt : std::optional(bantam::find_pooling(pooling)),
                                       .normalize = normalize < 0 ? std::nullopt : std::optional(normalize > 0)};
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

bantam_status bantam_session_remove(bantam_session* session, size_t first, size_t last) {
  return guarded([&] { need(session, "session").session.remove(static_cast<std::int64_t>(first), static_cast<std::int64_t>(last)); });
}

int64_t bantam_session_context(const bantam_session* session) { return session == nullptr ? 0 : session->session.context(); }

void bantam_session_cancel(bantam_session* session) {
  if (session != nullptr) session->cancelled.store(true);
}

}  // extern "C"
