// What compression does to one matrix, compiled once.
#include "bantam/compress/impl/awq.hpp"
#include "bantam/compress/impl/descent.hpp"
#include "bantam/compress/impl/gptq.hpp"
#include "bantam/compress/impl/nearest.hpp"
#include "bantam/compress/impl/outliers.hpp"
#include "bantam/compress/impl/smooth.hpp"
