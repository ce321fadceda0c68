// What llama.cpp's programs include for common_params_parse().
#pragma once
#include "common.h"
