// bantam: compress large language models and run them on a CPU.
#pragma once

#if defined(BANTAM_HEADER_ONLY)
#error "bantam/header_only.hpp stands for the headers that need no library: a file includes it, or bantam/bantam.hpp"
#endif

#include "bantam/compress/fit.hpp"
#include "bantam/compress/nearest.hpp"
#include "bantam/core/parallel.hpp"
#include "bantam/io/path_error.hpp"
#include "bantam/prune/structure.hpp"
#include "bantam/report/html.hpp"
#include "bantam/session/beam.hpp"
#include "bantam/session/continuations.hpp"
#include "bantam/session/embed.hpp"
#include "bantam/session/evaluate.hpp"
#include "bantam/session/rerank.hpp"
#include "bantam/session/scheduler.hpp"
#include "bantam/session/session.hpp"
#include "bantam/text/reply.hpp"
