// The library's half of a program that has headers alone in another file.
#include "bantam/bantam.hpp"
#include "bantam/compress/awq.hpp"
#include "bantam/compress/gptq.hpp"
#include "bantam/nn/ops.hpp"
#include "header_only/both.hpp"

both::Found both::found_by_library() { return find_all(); }
