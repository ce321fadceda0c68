// A time for tests that bring their own clock.
#pragma once

#include <chrono>

namespace bantam::server {

using namespace std::chrono_literals;
inline constexpr std::chrono::steady_clock::time_point noon{1000h};

}  // namespace bantam::server
