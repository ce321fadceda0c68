// What is known of a request at its end, for whoever counts, logs or draws it.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace bantam::server {

struct RequestRecord {
  using Time = std::chrono::steady_clock::time_point;

  std::uint64_t number = 0;
  std::string method, path;
  std::string client;  ///< whose limits hold for it: "key 1" or an address
  std::string model;
  bool generates = false;  ///< it is of an endpoint that runs the model
  int status = 0;          ///< 499: its client went away before it was answered
  std::int64_t prompt_tokens = 0, reused_tokens = 0, generated_tokens = 0;
  Time came{}, ended{};
  Time first_token{};  ///< the epoch: there was none
  double waited_ms = 0, prompt_ms = 0, generate_ms = 0;  ///< of its first text
  std::string question, answer;                          ///< bodies, cut off somewhere; only where they are logged
};

}  // namespace bantam::server
