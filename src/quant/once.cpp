// Matrices of weights, compiled once.
#include "bantam/quant/impl/trellis_search.hpp"
#include "bantam/quant/impl/weights.hpp"
