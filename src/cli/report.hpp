// What a compression did, measured and written down beside its output.
#pragma once

#include <optional>

#include "bantam/session/evaluate.hpp"
#include "fit.hpp"
#include "options.hpp"

namespace bantam::cli {

/// Both models on one text.
struct Evaluation {
  std::string text;          ///< the file's name
  bool calibration = false;  ///< the text that formats and weights were chosen for: too kind a judge
  PerplexityResult result;
};

/// Measures the written model against the one it came from, over `limit` tokens of the text; both are held in memory.
/// `evaluation` has the text's name.
[[nodiscard]] Evaluation evaluate(const Checkpoint& original, const std::string& compressed, Evaluation evaluation,
                                  const std::string& text, std::int64_t limit, const CommonOptions& common);

struct Record {
  std::string original;
  std::string output;
  const Recipe& recipe;
  const Report& report;
  const std::optional<Fit>& fit;
  const std::optional<Evaluation>& evaluation;
};

/// The library's report; with expectations and measurements where there are any.
[[nodiscard]] Json as_json(const Record& record);
/// "measured on x.txt: KL 0.0123 nats a token (expected 0.0118), perplexity 55.45 -> 56.20 ..."; empty without any.
[[nodiscard]] std::string measurements(const Record& record);
/// Writes OUT.report.html, a page that needs nothing else, OUT.report.md with OUT.report.svg, and OUT.report.json.
void write_report(const Record& record);

}  // namespace bantam::cli
