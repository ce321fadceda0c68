// Matrices of weights, compiled once.
#include "bantam/quant/impl/weights.hpp"
