// Perplexity and divergence.
#include "bantam/session/evaluate.hpp"
#include "objects.hpp"

using namespace bantam;
using namespace bantam::capi;

extern "C" bantam_status bantam_model_perplexity(const bantam_model* model, const bantam_model* base, const char* text, size_t bytes,
                                                 const bantam_perplexity_options* options, bantam_perplexity_result* result) {
  return guarded([&] {
    const bantam_perplexity_options initial = BANTAM_PERPLEXITY_OPTIONS_INIT;
    const bantam_perplexity_options o = options_of(options, initial, "perplexity options");
    const PerplexityResult seen =
        perplexity(model_of(model), text_of(text, bytes, "text"),
                   {.context = o.context, .limit = o.limit, .threads = o.threads, .kv = &need(o.kv, "kv")},
                   base == nullptr ? nullptr : &base->model(), progress_of(o.progress, o.progress_user));
    bantam_perplexity_result values = BANTAM_PERPLEXITY_RESULT_INIT;
    values.perplexity = seen.perplexity;
    values.nll = seen.nll;
    values.tokens = seen.tokens;
    values.windows = seen.windows;
    values.base_perplexity = seen.base_perplexity.value_or(0);
    values.kl_mean = seen.kl_mean.value_or(0);
    values.kl_p99 = seen.kl_p99.value_or(0);
    values.top1_agreement = seen.top1_agreement.value_or(0);
    fill_struct(result, values, "result");
  });
}
