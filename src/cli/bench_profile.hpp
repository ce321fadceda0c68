// `bantam bench --profile`: where the time of a prompt and of decoding goes.
#pragma once

#include "bantam/core/profile.hpp"
#include "bantam/session/session.hpp"
#include "io/json.hpp"

namespace bantam::cli {

/// What phases cannot be faster than.
struct MachineLimits {
  double read_gb_s = 0, int8_gop_s = 0;
};

/// What was measured, and what it was measured on.
struct ProfiledPasses {
  double seconds = 0;        ///< of all passes, from their beginning to their end
  std::int64_t passes = 0;
  std::int64_t tokens = 0;   ///< of a pass
  std::int64_t text_bytes = 0;  ///< keys and values that a pass reads; 0: from memory none, or not known
  bool decodes = false;      ///< each token reads the weights
};

/// {"seconds", "accounted" (share of them in phases), "phases": [{"name", "times", "seconds", "share", "waiting" (share of the threads' time), "limit_seconds", "reached"}]},
/// phases by their share. Limits of products, head and attention's reading; null elsewhere.
[[nodiscard]] Json profile_json(const Session& session, const Profile& profile, const ProfiledPasses& passes, const MachineLimits& limits);
/// Of one or two of them, by name.
[[nodiscard]] std::string profile_table(const Json& prompt, const Json& generate);

}  // namespace bantam::cli
