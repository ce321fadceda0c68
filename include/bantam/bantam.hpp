// bantam: compress large language models and run them on a CPU.
#pragma once

#include "bantam/compress/fit.hpp"
#include "bantam/compress/nearest.hpp"
#include "bantam/core/parallel.hpp"
#include "bantam/io/path_error.hpp"
#include "bantam/prune/structure.hpp"
#include "bantam/report/html.hpp"
#include "bantam/session/embed.hpp"
#include "bantam/session/evaluate.hpp"
#include "bantam/session/session.hpp"
