// What pruning does to one matrix, compiled once.
#include "bantam/prune/impl/compensation.hpp"
#include "bantam/prune/impl/mask.hpp"
#include "bantam/prune/impl/sparse_format.hpp"
