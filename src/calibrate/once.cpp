// What calibration does to second moments and single matrices, compiled once.
#include "bantam/calibrate/impl/cholesky.hpp"
#include "bantam/calibrate/impl/hessian.hpp"
#include "bantam/calibrate/impl/product.hpp"
#include "bantam/calibrate/impl/rotation.hpp"
