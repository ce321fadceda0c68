// Several texts behind one prompt: drawn ones, and the most probable ones.
#include <limits>

#include "bantam/session/beam.hpp"
#include "bantam/session/continuations.hpp"
#include "objects.hpp"

using namespace bantam;
using namespace bantam::capi;

struct bantam_texts {
  std::vector<Beam> texts;
};

extern "C" {

bantam_status bantam_continuations_new(bantam_texts** result, bantam_session* session, const int32_t* prompt, size_t count, int32_t texts,
                                       const bantam_generate_options* options, bantam_texts_callback callback, void* user) {
  return guarded([&] {
    bantam_texts*& out = need(result, "result");
    bantam_session& s = need(session, "session");
    s.check_cancelled();
    const auto sink = [&](std::size_t index, std::string_view piece) {
      s.check_cancelled();
      return callback == nullptr || callback(index, piece.data(), piece.size(), user) == 0;
    };
    auto made = std::make_unique<bantam_texts>();
    constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
    for (Continuation& c : continuations(s.session, ids_of(prompt, count), texts, generate_options_of(read_options(options), s.session), sink)) {
      made->texts.push_back({std::move(c.tokens), std::move(c.text), unknown, unknown, c.finish});
    }
    out = made.release();
  });
}

bantam_status bantam_beam_search(bantam_texts** result, bantam_session* session, const int32_t* prompt, size_t count,
                                 const bantam_beam_options* options) {
  return guarded([&] {
    bantam_texts*& out = need(result, "result");
    bantam_session& s = need(session, "session");
    const bantam_beam_options initial = BANTAM_BEAM_OPTIONS_INIT;
    const bantam_beam_options o = options_of(options, initial, "beam options");
    BeamOptions beam{.beams = o.beams, .results = o.results, .max_tokens = o.max_tokens, .length_penalty = o.length_penalty};
    if (o.grammar != nullptr) beam.grammar = o.grammar->grammar;
    s.check_cancelled();
    out = new bantam_texts{beam_search(s.session, ids_of(prompt, count), beam)};
  });
}

size_t bantam_texts_count(const bantam_texts* texts) { return texts == nullptr ? 0 : texts->texts.size(); }

bantam_status bantam_texts_get(const bantam_texts* texts, size_t index, bantam_text_info* info) {
  return guarded([&] {
    const std::vector<Beam>& all = need(texts, "texts").texts;
    if (index >= all.size()) fail(Errc::invalid_argument, "index: expected less than ", all.size(), ", found ", index);
    const Beam& text = all[index];
    bantam_text_info values = BANTAM_TEXT_INFO_INIT;
    values.text = text.text.c_str();
    values.text_bytes = text.text.size();
    values.ids = text.tokens.data();
    values.id_count = text.tokens.size();
    values.log_probability = text.log_probability;
    values.score = text.score;
    values.finish = static_cast<bantam_finish>(text.finish);
    fill_struct(info, values, "text info");
  });
}

void bantam_texts_free(bantam_texts* texts) { delete texts; }

}  // extern "C"
