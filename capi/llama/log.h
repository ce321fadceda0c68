// What llama.cpp's programs print with: results on standard output, everything else on standard error.
#pragma once
#include <cstdio>

#define LOG(...) std::fprintf(stdout, __VA_ARGS__)
#define LOG_INF(...) std::fprintf(stderr, __VA_ARGS__)
#define LOG_WRN(...) std::fprintf(stderr, __VA_ARGS__)
#define LOG_ERR(...) std::fprintf(stderr, __VA_ARGS__)
