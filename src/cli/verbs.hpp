// The verbs of the program: each adds its options to the parser and, when chosen, leaves its work in `action`.
#pragma once

#include <functional>

#include "options.hpp"

namespace bantam::cli {

/// Returns the exit status. Runs after the whole command line was parsed.
using Action = std::function<int()>;

void add_run(CLI::App& app, Action& action);
void add_serve(CLI::App& app, Action& action);
void add_tokenize(CLI::App& app, Action& action);
void add_logits(CLI::App& app, Action& action);
void add_perplexity(CLI::App& app, Action& action);
void add_embed(CLI::App& app, Action& action);
void add_rerank(CLI::App& app, Action& action);
void add_classify(CLI::App& app, Action& action);
void add_compress(CLI::App& app, Action& action);
void add_inspect(CLI::App& app, Action& action);
void add_bench(CLI::App& app, Action& action);
void add_plan(CLI::App& app, Action& action);
void add_formats(CLI::App& app, Action& action);
void add_cpuinfo(CLI::App& app, Action& action);

}  // namespace bantam::cli
